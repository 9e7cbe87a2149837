"""Signature of a definition on one line, and the first sentence of its documentation.

Works on text, not on nodes: comments and docstrings of thirty languages differ less in their text
than in their trees.
"""

from __future__ import annotations

import re

from cortex.engine.chunkers.outline import Definition

MAX_SIGNATURE_CHARACTERS = 300
MAX_DOC_CHARACTERS = 200
_DOCSTRING = re.compile(rb'\s*(?:#[^\n]*\n\s*)*[rRuUbB]{0,2}("""|\'\'\'|")(.{0,1200})', re.DOTALL)
# In Haskell the type is on a line of its own.
_TYPED = re.compile(rb"(?:--[^\n]*\n|\s)*([\w'()+*<>|&$!.-]+\s+::\s[^\n]+)")
_ATTRIBUTE_DOC = re.compile(r'@(?:module)?doc\s+(?:~[sS])?("""|")(.*)', re.DOTALL)
_COMMENT = re.compile(r"^\s*(///?!?|/\*+!?|\*+/?|##?!?|--+\s?\|?|\(\*+|;+|%+|<!--|\"\"\")\s?")
_COMMENT_END = re.compile(r"\s*(\*+/|\*\)|-->|\"\"\")\s*$")
# A comment between a declaration and its body.
_COMMENT_BEHIND = re.compile(r"([:)])\s*#[^\n]*(?:\n\s*(?:#[^\n]*)?)*$")
_TAG = re.compile(r"</?\w+[^>]*>")
_SENTENCE = re.compile(r"(?<=[.!?])\s|\n\s*\n")
_ATTRIBUTES = re.compile(
    r"^(?:@(?!interface|implementation|protocol|[a-z-]+ *[({]|media|keyframes|supports|layer|"
    r"font|page|container)[\w.]+(?:\([^()]*\))?\s+|#?\[[^\[\]]*\]\s*)+"
)
_OPENING = re.compile(r"\s*(?:[{:=;]|\bdo|\bthen|\bwhere|=>|->)\s*$")
_COMMENT_STARTS = ("//", "/*", "*", "#", "--", "(*", ";", "%", '"', "@doc", "@moduledoc", "|")


def signature_of(definition: Definition, raw: bytes, starts: list[int]) -> str:
    """The declaration on one line, without its body."""
    if definition.first < definition.declared and (
        typed := _TYPED.match(raw, starts[definition.first], starts[definition.declared])
    ):
        return " ".join(typed[1].decode("utf-8", "replace").split())[:MAX_SIGNATURE_CHARACTERS]
    begin = starts[definition.declared]
    owner = definition.owner
    if owner is not None and owner.owner is not None and owner.declared == definition.declared:
        begin = definition.start
    end = (
        definition.body
        if definition.body > definition.start
        else starts[definition.declared + 1] - 1
    )
    text = raw[begin : min(end, begin + 2000)].decode("utf-8", "replace")
    if "#" in text:
        text = _COMMENT_BEHIND.sub(r"\1", text)
    text = " ".join(text.split())
    if text[:1] in "@[#":
        text = _ATTRIBUTES.sub("", text) or text
    # These are the last characters that _OPENING matches; a colon or brace is the most frequent and
    # cheap.
    if text[-1:] in ":{=;>oen":
        text = text[:-1].rstrip() if text[-1] in ":{" else _OPENING.sub("", text) or text
    return text[:MAX_SIGNATURE_CHARACTERS]


def doc_of(definition: Definition, raw: bytes, lines: list[str], language: str) -> str:
    """First sentence of a docstring, or of the comment before the declaration."""
    if language == "python":
        docstring = _DOCSTRING.match(raw, definition.body) if definition.body >= 0 else None
        if docstring:
            return _first_sentence(
                docstring[2].partition(docstring[1])[0].decode("utf-8", "replace")
            )
    if language == "elixir" and definition.kind == "module" and definition.body >= 0:
        attribute = _ATTRIBUTE_DOC.match(
            raw[definition.body : definition.body + 1500]
            .decode("utf-8", "replace")
            .removeprefix("do")
            .lstrip()
        )
        return _first_sentence(attribute[2].partition(attribute[1])[0]) if attribute else ""
    if definition.first == definition.declared:
        return ""
    before = lines[definition.first : definition.declared]
    if language == "elixir":
        attribute = _ATTRIBUTE_DOC.search("\n".join(before))
        return _first_sentence(attribute[2].partition(attribute[1])[0]) if attribute else ""
    words = [
        _COMMENT_END.sub("", _COMMENT.sub("", line)).strip()
        for line in before
        if line.lstrip().startswith(_COMMENT_STARTS) and not line.lstrip().startswith("#[")
    ]
    return _first_sentence(_TAG.sub("", "\n".join(words)))


def _first_sentence(text: str) -> str:
    first = _SENTENCE.split(text.strip(), maxsplit=1)[0]
    return " ".join(first.split())[:MAX_DOC_CHARACTERS]

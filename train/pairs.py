"""Source text -> pairs of a question and the text that answers it.

Five kinds: a comment and the code below it, a docstring and its function, a name and its body, a
file's opening words and its first lines, a heading and its section. Regular expressions and
indentation only: a parser for each of 26 languages would cost twenty times as much and, on
formatted code, give the same. Knows nothing of packages, licences or words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from train.contents import ending
from train.languages import BY_ENDING, NOT_NAMES, PROSE, Language

BODY_LINES = 40
INLINE_LINES = 12
OPENING_LINES = 60
BODY_CHARACTERS = 2_400
LEAST_CHARACTERS = 60
_SPLIT = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_WORD = re.compile(r"[A-Za-z]{2,}")
_MARKS = re.compile(
    r"^[ \t]*(?:/\*+!?|\*+/|\*(?!/)|///?!?|\#+|--+[ \t]*\|?|\{-+[ \t]*\|?|-\}|%+|\(\*+|--\[=*\[|\]=*\])[ \t]?|[ \t]*(?:\*+/|-\}|\*\)|\]=*\])[ \t]*$",
    re.M,
)
_TAGS = re.compile(
    r"^[ \t]*(?:[@\\](?!brief|doc|summary|link)\w+|:\w+[^:\n]*:|(?:Args|Arguments|Parameters|Params|Returns?|Raises|Yields|Examples?|Notes?|See Also|Attributes|Throws|References|Errors|Panics|Safety|# \w+)\b[: ]*$|>>> |```)",
    re.M,
)
_MARKUP = re.compile(
    r"</?[A-Za-z][^>\n]{0,80}>|\{@\w+\s+|[{}`]|:\w+:(?=`)|\\(?:brief|c|p)\b|@brief|@summary|@doc\b"
)
_NOISE = re.compile(
    r"(?i)copyright|licen[sc]e|spdx|all rights|generated|eslint|tslint|pylint|noqa|todo|fixme|xxx|prettier|clang-format|istanbul|@ts-|jshint|rubocop|"
    r"http://www|-\*-|vim:|coding[:=]|pragma|import |#include|region\b|\bvar \w+ =|deprecated"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(])")
_PYTHON = re.compile(r"^([ \t]*)(?:async[ \t]+)?(def|class)[ \t]+(\w+)", re.M)
_DOCSTRING = re.compile(r'\s*[rRuUbB]?("""|\'\'\')(.*?)\1[ \t]*\n?', re.S)
_FUNCTION = re.compile(
    r"^[ \t]*(?:(?:pub|public|private|protected|internal|export|default|static|async|override|final|abstract|open|suspend|inline)\s+)*(?:fn|func|fun|function|def|class|struct|interface|trait|object)\s+(?:\([^)]{0,60}\)\s*)?([A-Za-z_]\w{3,})",
    re.M,
)
_HEREDOC = re.compile(r'^([ \t]*)@(?:module)?doc\s+(?:~S)?"""\n(.*?)^[ \t]*"""\n', re.M | re.S)
_HEADING = re.compile(r"^(?:#{1,5}[ \t]+(.+?)[ \t#]*|={1,4}[ \t]+(.+))$", re.M)
_UNDERLINED = re.compile(r"^([^\n]{3,90})\n([=\-~^\"'+*#`])\2{2,}[ \t]*$", re.M)


@dataclass(frozen=True, slots=True)
class Pair:
    """A question and the text that answers it."""

    kind: str  # doc, inline, name, opening, heading, prose
    language: str
    query: str
    document: str


def pairs_of(path: str, text: str) -> Iterator[Pair]:
    """The pairs of one file."""
    kind = ending(path)
    if kind in PROSE:
        yield from _prose_pairs(PROSE[kind], text)
        return
    language = BY_ENDING[kind]
    if language.name == "elixir":
        text = _HEREDOC.sub(_as_comment, text)
    if language.name == "python":
        yield from _python_pairs(text)
    yield from _comment_pairs(language, text)
    yield from _name_pairs(language, text)


def question_of(comment: str, characters: int = 320) -> str:
    """First sentences of a comment without marks, tags and examples; "" if it is no prose."""
    text = _MARKS.sub("", comment).strip()
    found = _TAGS.search(text)
    if found:
        text = text[: found.start()]
    text = " ".join(
        _MARKUP.sub(" ", text.split("\n\n", 1)[0] if len(text) > characters else text).split()
    )
    if len(text) > characters:
        text = text[
            : max(
                text.rfind(". ", 0, characters) + 1,
                characters if ". " not in text[:characters] else 0,
            )
        ]
    words = _WORD.findall(text)
    if not 3 <= len(words) <= 70 or _NOISE.search(text):
        return ""
    symbols = sum(text.count(symbol) for symbol in "={};<>()[]&|$\\~")
    letters = sum(map(len, words))
    return (
        text
        if symbols * 14 < len(text)
        and letters > 0.6 * len(text.replace(" ", ""))
        and text.isascii()
        else ""
    )


def split_name(name: str) -> str:
    """`parseHTTPConfig` -> `parse http config`."""
    return " ".join(part.lower() for part in _SPLIT.findall(name))


def block_at(text: str, start: int, lines: int) -> str:
    """The block of lines from `start`, by indentation and open brackets."""
    kept: list[str] = []
    indent = -1
    for line in text[start : start + 2 * BODY_CHARACTERS].split("\n")[:lines]:
        stripped = line.strip()
        if not stripped:
            if indent >= 0:
                kept.append(line)
            continue
        depth = len(line) - len(line.lstrip())
        if indent < 0:
            indent = depth
        elif depth < indent or (
            depth == indent and len(kept) > 1 and not _continues(stripped, kept)
        ):
            if (depth == indent and stripped[0] in "})]") or stripped.startswith("end"):
                kept.append(line)
            break
        kept.append(line)
    return "\n".join(kept).rstrip()[:BODY_CHARACTERS]


def _continues(line: str, kept: list[str]) -> bool:
    """True for a line at the first one's depth that still belongs to it.

    An opening bracket of its own, a signature over several lines, an annotation above.
    """
    return line[0] in "{):" or all(
        part.lstrip()[:1] in ("@", "#", "[") or not part.strip() for part in kept
    )


def _comment_pairs(language: Language, text: str) -> Iterator[Pair]:
    for match in language.comment.finditer(text):
        question = question_of(match[0])
        if not question:
            continue
        if match.start() == 0 or not text[: match.start()].strip():
            yield from _paired(
                "opening", language.name, question, _first_lines(text[match.end() :], OPENING_LINES)
            )
            continue
        rest = text[match.end() : match.end() + 400]
        line = next(
            (
                part
                for part in rest.split("\n")[:4]
                if part.strip() and part.strip()[0] not in "@#["
            ),
            "",
        )
        if not line or rest.startswith("\n\n"):
            continue
        name = _name_in(language, line)
        if name and _declares(line):
            body = block_at(text, match.end(), BODY_LINES)
            whole = body.count("\n") >= 2 and not line.rstrip().endswith(";")
            yield from _paired("doc" if whole else "inline", language.name, question, body)
            if whole:
                yield from _named(language.name, name, question, body)
        else:
            yield from _paired(
                "inline",
                language.name,
                question,
                block_at(text, match.end(), INLINE_LINES) if "\n" in rest else "",
            )


def _named(language: str, name: str, question: str, body: str) -> Iterator[Pair]:
    split = split_name(name)
    if split.count(" ") >= 1:
        yield from _paired("name", language, split, body.replace(name, "_"))
        yield from _paired("named", language, split, f"{question}\n{body}")


def _python_pairs(text: str) -> Iterator[Pair]:
    opening = _DOCSTRING.match(text)
    if opening:
        question = question_of(opening[2])
        yield from _paired(
            "opening", "python", question, _first_lines(text[opening.end() :], OPENING_LINES)
        )
    for match in _PYTHON.finditer(text):
        header = _header_end(text, match.end())
        if header is None:
            continue
        doc = _DOCSTRING.match(text, header)
        if doc is None or doc.end() - header > 4000:
            continue
        question = question_of(doc[2])
        if not question:
            continue
        body = block_at(
            text[match.start() : header] + "\n" + text[doc.end() : doc.end() + BODY_CHARACTERS],
            0,
            BODY_LINES,
        )
        yield from _paired("doc", "python", question, body)
        yield from _named("python", match[3], question, body)


def _header_end(text: str, start: int) -> int | None:
    depth = 0
    for position in range(start, min(start + 1200, len(text))):
        character = text[position]
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == ":" and depth == 0:
            return position + 1
    return None


def _name_pairs(language: Language, text: str) -> Iterator[Pair]:
    """Names of several words, of functions that have a keyword, with or without a comment."""
    for match in _FUNCTION.finditer(text):
        name = match[1]
        split = split_name(name)
        if split.count(" ") >= 1 and not name.startswith(("test", "Test")):
            body = block_at(text, match.start(), BODY_LINES)
            yield from _paired("name", language.name, split, body.replace(name, "_"))


def _prose_pairs(language: str, text: str) -> Iterator[Pair]:
    marks = [
        (m.start(), m.end(), next(filter(None, m.groups())))
        for m in (_UNDERLINED if language == "rst" else _HEADING).finditer(text)
    ]
    for (_, end, heading), following in zip(marks, [*marks[1:], (len(text), 0, "")], strict=False):
        section = text[end : following[0]].strip()[:BODY_CHARACTERS]
        title = " ".join(_MARKUP.sub(" ", heading).split())
        if len(_WORD.findall(section)) < 12:
            continue
        if len(_WORD.findall(title)) >= 2:
            yield from _paired("heading", language, title, section)
        first, _, rest = section.partition("\n\n")
        sentences = _SENTENCE.split(" ".join(first.split()), maxsplit=1)
        question = question_of(sentences[0])
        if question and len(_WORD.findall(rest)) >= 20:
            yield from _paired("prose", language, question, f"{''.join(sentences[1:])}\n{rest}")


def _paired(kind: str, language: str, query: str, document: str) -> Iterator[Pair]:
    if query and len(document) >= LEAST_CHARACTERS:
        yield Pair(kind, language, query, document)


def _declares(line: str) -> bool:
    """True for a line that declares something instead of calling it."""
    stripped = line.strip()
    return not stripped.startswith(
        ("return", "if", "for", "while", "}", "else", "case", "switch", "print")
    ) and not (
        stripped.endswith((");", ")"))
        and "=" not in stripped
        and " " not in stripped.split("(", 1)[0]
    )


def _name_in(language: Language, line: str) -> str:
    match = language.declaration.search(line)
    name = next((group for group in match.groups() if group), "") if match else ""
    return "" if name in NOT_NAMES else name


def _first_lines(text: str, lines: int) -> str:
    kept = [line for line in text[: 3 * BODY_CHARACTERS].split("\n") if line.strip()]
    return "\n".join(kept[:lines])[:BODY_CHARACTERS]


def _as_comment(match: re.Match[str]) -> str:
    lines = (f"{match[1]}# {line.strip()}".rstrip() for line in match[2].splitlines()[:28])
    return "\n".join(line if line.strip() != "#" else f"{match[1]}#" for line in lines) + "\n"

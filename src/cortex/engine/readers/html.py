"""Web pages to Markdown: headings, paragraphs, lists, tables, code, without boilerplate.

A small tree is built first, because boilerplate is only recognizable in the whole page: if a `main`
or `article` holds most of the text, only that counts; navigation, footers, side bars and scripts
never do. Links keep their text. Nothing is fetched. Road not taken: a readability score, which
mistakes a list of links (an index page, a glossary) for boilerplate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from cortex.engine.readers.markdown_writer import fence, heading, indent, one_line, shield, table

# Deeper elements become children at that depth.
MAX_DEPTH = 120
# Share of the text; a `main` with less is a part, not the page.
MAIN_SHARE = 0.3

_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_DROPPED = frozenset(
    "script style noscript template nav footer aside svg iframe canvas object select button "
    "dialog head title textarea".split()
)
_DROPPED_ROLES = frozenset(
    "navigation banner contentinfo search complementary dialog menu menubar tooltip".split()
)
_DROPPED_WORDS = re.compile(
    r"(?:^|[\s_])(?:nav|navbar|navigation|sidebar|side-bar|sphinxsidebar|breadcrumbs?|footer|"
    r"site-footer|site-header|toc|table-of-contents|"
    r"menu|headerlink|anchor-link|hash-link|skip-link|skip-to-content|cookie-(?:banner|notice|"
    r"consent)|cookies?|advertisement|ads?|"
    r"social|share-buttons?|pagination|pager|related|prev-next|rst-footer-buttons|"
    r"edit-this-page|visually-hidden|sr-only|"
    r"mw-editsection|mw-jump-link|noprint|catlinks|navbox|printfooter|mw-portlet|vector-menu|"
    r"vector-dropdown)(?=$|[\s_])",
    re.IGNORECASE,
)
_INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label "
    "mark q rp rt ruby s samp small span strike "
    "strong sub sup time tt u var wbr br".split()
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = frozenset({"ul", "ol", "menu", "dir"})
# The elements that an opening tag closes, and the boundary of the search for them.
_CLOSES = {
    "li": (frozenset({"li"}), _LISTS),
    "dt": (frozenset({"dt", "dd"}), frozenset({"dl"})),
    "dd": (frozenset({"dt", "dd"}), frozenset({"dl"})),
    "tr": (frozenset({"tr", "td", "th"}), frozenset({"table"})),
    "td": (frozenset({"td", "th"}), frozenset({"tr", "table"})),
    "th": (frozenset({"td", "th"}), frozenset({"tr", "table"})),
    "option": (frozenset({"option"}), frozenset({"select"})),
}
_ENDS_PARAGRAPH = frozenset(
    "address article aside blockquote div dl fieldset footer form h1 h2 h3 h4 h5 h6 header hr "
    "main nav ol p pre section table ul".split()
)
_CODE_LANGUAGE = re.compile(
    r"(?:language|lang|highlight(?:-source)?|sourceCode|brush:)[-\s]+([\w+#]{1,20})"
)
_NO_LANGUAGE = frozenset({"default", "none", "text", "notranslate", "plain", "plaintext"})


@dataclass(slots=True)
class _Node:
    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[_Node | str] = field(default_factory=list)


def read_html(text: str) -> str:
    """Convert the page's content to Markdown.

    Its title becomes the first heading if it has none of the highest level.
    """
    builder = _Builder()
    builder.feed(_sanitize(text))
    builder.close()
    page = builder.root
    body = _content(page)
    blocks = _Writer().blocks(body)
    title = _find_first(page, "title")
    title_heading = heading(1, _plain_text(title)) if title is not None else ""
    if title_heading and not any(block.startswith("# ") for block in blocks):
        blocks.insert(0, title_heading)
    return "\n\n".join(blocks)


def _sanitize(text: str) -> str:
    """Remove comments and unclosed markup that the parser would rescan again and again."""
    kept: list[str] = []
    at = 0
    while (start := text.find("<!--", at)) >= 0:
        kept.append(text[at:start])
        end = text.find("-->", start + 4)
        at = end + 3 if end >= 0 else start + 4
        if end < 0:
            break
    kept.append(text[at:].replace("<!--", ""))
    page = "".join(kept).replace("<![", "<!")
    last = page.rfind(">") + 1
    return page[:last] + page[last:].replace("<", "&lt;")


class _Builder(HTMLParser):
    """Builds a tree from tags, never deeper than MAX_DEPTH, even from malformed nesting."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = _Node("")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if rule := _CLOSES.get(tag):
            self._close_until(*rule)
        elif tag in _ENDS_PARAGRAPH and any(node.tag == "p" for node in self._open[-4:]):
            self._close_until(
                frozenset({"p"}), frozenset({"td", "th", "li", "blockquote", "div", "body"})
            )
        node = _Node(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(node)
        if tag not in _VOID and len(self._open) < MAX_DEPTH:
            self._open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID and self._open[-1].tag == tag:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        for index in range(len(self._open) - 1, 0, -1):
            if self._open[index].tag == tag:
                del self._open[index:]
                return

    def _append_text(self, data: str) -> None:
        self._open[-1].children.append(data)

    # The name that the parser calls.
    handle_data = _append_text

    def _close_until(self, ended: frozenset[str], boundaries: frozenset[str]) -> None:
        """Close the outermost open element in `ended`, looking no further than `walls`."""
        outermost = 0
        for index in range(len(self._open) - 1, 0, -1):
            if self._open[index].tag in boundaries:
                break
            if self._open[index].tag in ended:
                outermost = index
        if outermost:
            del self._open[outermost:]


def _content(page: _Node) -> _Node:
    """Select the part of the page to read, or the whole page if too little would be left."""
    whole = _find_first(page, "body") or page
    total = _text_length(whole)
    mains = _main_elements(whole)
    kept = (
        _Node("div", {}, [*mains])
        if mains and sum(map(_text_length, mains)) >= MAIN_SHARE * total
        else whole
    )
    strict = _strip_boilerplate(kept, by_name=True)
    loose = _strip_boilerplate(kept, by_name=False)
    return strict if _text_length(strict) >= MAIN_SHARE * _text_length(loose) else loose


def _main_elements(node: _Node) -> list[_Node]:
    elements: list[_Node] = []
    for tag in ("main", "article"):
        elements = _outermost(node, tag)
        if elements:
            break
    return elements


def _outermost(node: _Node, tag: str) -> list[_Node]:
    out: list[_Node] = []
    for child in node.children:
        if isinstance(child, _Node):
            if child.tag == tag or child.attributes.get("role") == tag:
                out.append(child)
            else:
                out.extend(_outermost(child, tag))
    return out


def _strip_boilerplate(node: _Node, by_name: bool) -> _Node:
    """Copy the tree without boilerplate; `by_name` also checks classes and ids."""
    out = _Node(node.tag, node.attributes)
    for child in node.children:
        if isinstance(child, str):
            out.children.append(child)
        elif not _is_boilerplate(child, by_name):
            out.children.append(_strip_boilerplate(child, by_name))
    return out


def _is_boilerplate(node: _Node, by_name: bool) -> bool:
    attributes = node.attributes
    if node.tag in _DROPPED or attributes.get("role", "").lower() in _DROPPED_ROLES:
        return True
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    if node.tag == "header" and not any(_find_first(node, name) for name in _HEADINGS):
        return True
    if not by_name or node.tag in ("main", "article", "body", "html") or node.tag in _HEADINGS:
        return False
    return bool(_DROPPED_WORDS.search(f"{attributes.get('class', '')} {attributes.get('id', '')}"))


def _text_length(node: _Node) -> int:
    """Amount of text, without scripts and the like."""
    total = 0
    for child in node.children:
        if isinstance(child, str):
            total += len(child.strip())
        elif child.tag not in ("script", "style", "noscript", "template", "svg", "head"):
            total += _text_length(child)
    return total


def _find_first(node: _Node, tag: str) -> _Node | None:
    for child in node.children:
        if isinstance(child, _Node):
            if child.tag == tag:
                return child
            if (descendant := _find_first(child, tag)) is not None:
                return descendant
    return None


def _plain_text(node: _Node) -> str:
    return "".join(
        child if isinstance(child, str) else "\n" if child.tag == "br" else _plain_text(child)
        for child in node.children
    )


class _Writer:
    """Writes a tree as blocks of Markdown, to be separated by blank lines."""

    def blocks(self, node: _Node) -> list[str]:
        out: list[str] = []
        inline: list[str] = []
        for child in node.children:
            if isinstance(child, str) or self._is_inline(child):
                inline.append(
                    _collapse_spaces(child) if isinstance(child, str) else self._inline(child)
                )
                continue
            self._flush(inline, out)
            out.extend(self._block(child))
        self._flush(inline, out)
        return out

    def _flush(self, inline: list[str], out: list[str]) -> None:
        lines = [" ".join(line.split()) for line in "".join(inline).split("\n")]
        inline.clear()
        text = "\n".join(line for line in lines if line)
        if text:
            out.append(shield(text))

    def _block(self, node: _Node) -> list[str]:
        tag = node.tag
        if tag in _HEADINGS:
            title = heading(_HEADINGS[tag], self._inline(node).strip(" ¶§#\n"))
            return [title] if title else []
        if tag in ("pre", "listing", "xmp"):
            code = _plain_text(node).strip("\n")
            return [fence(code, _code_language(node))] if code.strip() else []
        if tag in _LISTS:
            return self._list(node)
        if tag == "table":
            return self._table(node)
        if tag == "dl":
            return self._definitions(node)
        if tag == "blockquote":
            quoted = "\n\n".join(self.blocks(node))
            return ["> " + quoted.replace("\n", "\n> ")] if quoted else []
        return self.blocks(node)

    def _list(self, node: _Node) -> list[str]:
        entries: list[str] = []
        start = node.attributes.get("start", "")
        number = int(start) if start.isdecimal() and len(start) < 9 else 1
        for child in node.children:
            if isinstance(child, str):
                entries.extend([shield(one_line(child))] if child.strip() else [])
                continue
            inner = self.blocks(child) if child.tag == "li" else self._block(child)
            if not inner:
                continue
            mark = f"{number}." if node.tag == "ol" else "-"
            number += 1
            entries.append(f"{mark} " + indent("\n".join(inner), len(mark) + 1))
        return ["\n".join(entries)] if entries else []

    def _definitions(self, node: _Node) -> list[str]:
        out: list[str] = []
        for child in node.children:
            if isinstance(child, _Node):
                out.extend(self.blocks(child) if child.tag in ("dt", "dd") else self._block(child))
        return out

    def _table(self, node: _Node) -> list[str]:
        rows = [
            [cell for cell in row.children if isinstance(cell, _Node) and cell.tag in ("td", "th")]
            for row in _rows(node)
        ]
        cells = [cell for row in rows for cell in row]
        if any(
            _find_first(cell, "table") or any(_find_first(cell, name) for name in _HEADINGS)
            for cell in cells
        ):
            # This is a layout table.
            return [block for cell in cells for block in self.blocks(cell)]
        if any(_find_first(cell, "pre") is not None for cell in cells):
            return [block for cell in cells if not _is_gutter(cell) for block in self.blocks(cell)]
        grid = [[text for cell in row for text in self._cell(cell)] for row in rows]
        if not any(cell for row in grid for cell in row):
            # The text is in no cell.
            return self.blocks(node)
        caption = _find_first(node, "caption")
        parts = [one_line(_plain_text(caption)) if caption is not None else "", table(grid)]
        return [block for block in parts if block]

    def _cell(self, cell: _Node) -> list[str]:
        span = cell.attributes.get("colspan", "")
        more = min(int(span), 50) - 1 if span.isdecimal() else 0
        return [" ".join(self.blocks(cell)), *[""] * more]

    def _is_inline(self, node: _Node) -> bool:
        return node.tag in _INLINE and all(
            isinstance(child, str) or self._is_inline(child) for child in node.children
        )

    def _inline(self, node: _Node) -> str:
        if node.tag == "br":
            return "\n"
        if node.tag == "img":
            return node.attributes.get("alt", "")
        if node.tag == "input":
            return ""
        inner = "".join(
            _collapse_spaces(child) if isinstance(child, str) else self._inline(child)
            for child in node.children
        )
        return (
            f"`{inner.strip()}`"
            if node.tag in ("code", "tt", "kbd", "samp") and inner.strip() and "`" not in inner
            else inner
        )


def _collapse_spaces(text: str) -> str:
    """Collapse white space to single spaces, including line ends."""
    if not text.strip():
        return " " if text else ""
    lead, trail = text[0].isspace(), text[-1].isspace()
    return f"{' ' if lead else ''}{' '.join(text.split())}{' ' if trail else ''}"


def _rows(node: _Node) -> list[_Node]:
    out: list[_Node] = []
    for child in node.children:
        if isinstance(child, _Node):
            if child.tag == "tr":
                out.append(child)
            elif child.tag in ("thead", "tbody", "tfoot"):
                out.extend(_rows(child))
    return out


def _is_gutter(cell: _Node) -> bool:
    """True if a cell holds only line numbers."""
    return bool(re.fullmatch(r"[\d\s]*", _plain_text(cell)))


def _code_language(node: _Node) -> str:
    inner = next(
        (child for child in node.children if isinstance(child, _Node) and child.tag == "code"), None
    )
    for candidate in (inner, node):
        if candidate is not None and (
            match := _CODE_LANGUAGE.search(candidate.attributes.get("class", ""))
        ):
            return "" if match[1] in _NO_LANGUAGE else match[1].lower()
    return ""

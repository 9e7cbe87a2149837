"""Web pages: headings, paragraphs, lists, tables and code, without what surrounds them on every
page of a site.

A small tree is built first, since what is boilerplate shows only when the page is known: where
there is a `main` or `article` that holds most of the text, only that counts; navigation, footers,
side bars and scripts never do. Links keep their text. Nothing is fetched. Not taken: a readability
score, which takes a list of links (an index page, a glossary) for boilerplate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from cortex.engine.readers.markdown_writer import fence, heading, indent, one_line, shield, table

MAX_DEPTH = 120  # deeper elements become children of that depth
MAIN_SHARE = 0.3  # of the text: a `main` with less is a part, not the page

_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_DROPPED = frozenset(
    "script style noscript template nav footer aside svg iframe canvas object select button dialog head title textarea".split()
)
_DROPPED_ROLES = frozenset(
    "navigation banner contentinfo search complementary dialog menu menubar tooltip".split()
)
_DROPPED_WORDS = re.compile(
    r"(?:^|[\s_])(?:nav|navbar|navigation|sidebar|side-bar|sphinxsidebar|breadcrumbs?|footer|site-footer|site-header|toc|table-of-contents|"
    r"menu|headerlink|anchor-link|hash-link|skip-link|skip-to-content|cookie-(?:banner|notice|consent)|cookies?|advertisement|ads?|"
    r"social|share-buttons?|pagination|pager|related|prev-next|rst-footer-buttons|edit-this-page|visually-hidden|sr-only|"
    r"mw-editsection|mw-jump-link|noprint|catlinks|navbox|printfooter|mw-portlet|vector-menu|vector-dropdown)(?=$|[\s_])",
    re.IGNORECASE,
)
_INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label mark q rp rt ruby s samp small span strike "
    "strong sub sup time tt u var wbr br".split()
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = frozenset({"ul", "ol", "menu", "dir"})
_CLOSES = {  # what an opening tag ends, and where the search for it stops
    "li": (frozenset({"li"}), _LISTS),
    "dt": (frozenset({"dt", "dd"}), frozenset({"dl"})),
    "dd": (frozenset({"dt", "dd"}), frozenset({"dl"})),
    "tr": (frozenset({"tr", "td", "th"}), frozenset({"table"})),
    "td": (frozenset({"td", "th"}), frozenset({"tr", "table"})),
    "th": (frozenset({"td", "th"}), frozenset({"tr", "table"})),
    "option": (frozenset({"option"}), frozenset({"select"})),
}
_ENDS_PARAGRAPH = frozenset(
    "address article aside blockquote div dl fieldset footer form h1 h2 h3 h4 h5 h6 header hr main nav ol p pre section table ul".split()
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
    """The page's content as Markdown; its title is the first heading where it has none of the
    highest level.
    """
    builder = _Builder()
    builder.feed(_tamed(text))
    builder.close()
    page = builder.root
    body = _content(page)
    blocks = _Writer().blocks(body)
    title = _first(page, "title")
    named = heading(1, _plain(title)) if title is not None else ""
    if named and not any(block.startswith("# ") for block in blocks):
        blocks.insert(0, named)
    return "\n\n".join(blocks)


def _tamed(text: str) -> str:
    """The page without comments, and with nothing left open that the parser would look for the end
    of again and again.
    """
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
    """Tags to a tree that is never deeper than MAX_DEPTH, however they are nested or left open."""

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
        for at in range(len(self._open) - 1, 0, -1):
            if self._open[at].tag == tag:
                del self._open[at:]
                return

    def _take_text(self, data: str) -> None:
        self._open[-1].children.append(data)

    handle_data = _take_text  # as the parser calls it

    def _close_until(self, ended: frozenset[str], walls: frozenset[str]) -> None:
        """Close the outermost of the open elements in `ended`, looking no further than `walls`."""
        found = 0
        for at in range(len(self._open) - 1, 0, -1):
            if self._open[at].tag in walls:
                break
            if self._open[at].tag in ended:
                found = at
        if found:
            del self._open[found:]


def _content(page: _Node) -> _Node:
    """The part of the page to read, without boilerplate; the whole page where too little would be
    left.
    """
    whole = _first(page, "body") or page
    every = _weight(whole)
    mains = _mains(whole)
    kept = (
        _Node("div", {}, [*mains])
        if mains and sum(map(_weight, mains)) >= MAIN_SHARE * every
        else whole
    )
    strict = _cleaned(kept, by_name=True)
    loose = _cleaned(kept, by_name=False)
    return strict if _weight(strict) >= MAIN_SHARE * _weight(loose) else loose


def _mains(node: _Node) -> list[_Node]:
    found: list[_Node] = []
    for wanted in ("main", "article"):
        found = _outermost(node, wanted)
        if found:
            break
    return found


def _outermost(node: _Node, tag: str) -> list[_Node]:
    out: list[_Node] = []
    for child in node.children:
        if isinstance(child, _Node):
            if child.tag == tag or child.attributes.get("role") == tag:
                out.append(child)
            else:
                out.extend(_outermost(child, tag))
    return out


def _cleaned(node: _Node, by_name: bool) -> _Node:
    """The tree without boilerplate; `by_name` judges classes and ids too."""
    out = _Node(node.tag, node.attributes)
    for child in node.children:
        if isinstance(child, str):
            out.children.append(child)
        elif not _is_boilerplate(child, by_name):
            out.children.append(_cleaned(child, by_name))
    return out


def _is_boilerplate(node: _Node, by_name: bool) -> bool:
    attributes = node.attributes
    if node.tag in _DROPPED or attributes.get("role", "").lower() in _DROPPED_ROLES:
        return True
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    if node.tag == "header" and not any(_first(node, name) for name in _HEADINGS):
        return True
    if not by_name or node.tag in ("main", "article", "body", "html") or node.tag in _HEADINGS:
        return False
    return bool(_DROPPED_WORDS.search(f"{attributes.get('class', '')} {attributes.get('id', '')}"))


def _weight(node: _Node) -> int:
    """How much text there is, scripts and the like not counted."""
    total = 0
    for child in node.children:
        if isinstance(child, str):
            total += len(child.strip())
        elif child.tag not in ("script", "style", "noscript", "template", "svg", "head"):
            total += _weight(child)
    return total


def _first(node: _Node, tag: str) -> _Node | None:
    for child in node.children:
        if isinstance(child, _Node):
            if child.tag == tag:
                return child
            if (found := _first(child, tag)) is not None:
                return found
    return None


def _plain(node: _Node) -> str:
    return "".join(
        child if isinstance(child, str) else "\n" if child.tag == "br" else _plain(child)
        for child in node.children
    )


class _Writer:
    """A tree to blocks of Markdown, which blank lines go between."""

    def blocks(self, node: _Node) -> list[str]:
        out: list[str] = []
        inline: list[str] = []
        for child in node.children:
            if isinstance(child, str) or self._is_inline(child):
                inline.append(_squeezed(child) if isinstance(child, str) else self._inline(child))
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
            code = _plain(node).strip("\n")
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
            _first(cell, "table") or any(_first(cell, name) for name in _HEADINGS) for cell in cells
        ):
            # A table for the layout
            return [block for cell in cells for block in self.blocks(cell)]
        if any(_first(cell, "pre") is not None for cell in cells):
            return [block for cell in cells if not _is_gutter(cell) for block in self.blocks(cell)]
        grid = [[text for cell in row for text in self._cell(cell)] for row in rows]
        if not any(cell for row in grid for cell in row):
            return self.blocks(node)  # text that is in no cell
        caption = _first(node, "caption")
        made = [one_line(_plain(caption)) if caption is not None else "", table(grid)]
        return [block for block in made if block]

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
            _squeezed(child) if isinstance(child, str) else self._inline(child)
            for child in node.children
        )
        return (
            f"`{inner.strip()}`"
            if node.tag in ("code", "tt", "kbd", "samp") and inner.strip() and "`" not in inner
            else inner
        )


def _squeezed(text: str) -> str:
    """White space of the source as single spaces; its line ends mean nothing."""
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
    """Whether a cell has only the numbers of the lines beside it."""
    return bool(re.fullmatch(r"[\d\s]*", _plain(cell)))


def _code_language(node: _Node) -> str:
    inner = next(
        (child for child in node.children if isinstance(child, _Node) and child.tag == "code"), None
    )
    for each in (inner, node):
        if each is not None and (found := _CODE_LANGUAGE.search(each.attributes.get("class", ""))):
            return "" if found[1] in _NO_LANGUAGE else found[1].lower()
    return ""

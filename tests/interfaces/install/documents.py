"""Random files of other programs: JSON with comments, in many layouts, and TOML."""

from __future__ import annotations

import json

from hypothesis import strategies as st

KEYS = st.sampled_from(
    [
        "mcpServers",
        "servers",
        "mcp",
        "context_servers",
        "hooks",
        "other",
        "cortex-not",
        "a b",
        "ключ",
        'q"uote',
        "version",
        "Stop",
    ]
)
WORDS = st.sampled_from(
    ["x", "// no comment", "/* none */", "a,b", "{", "]", "\\", "\n", 'say "hi"', "é", "cortex"]
)
SCALARS = st.one_of(WORDS, st.integers(-9, 9), st.booleans(), st.none())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
COMMENTS = ["// a note", "/* a note */", '// {"cortex": [', "/* ,\n } */", "//"]


@st.composite
def servers(draw) -> dict[str, object]:
    """Foreign servers."""
    return draw(
        st.dictionaries(
            st.sampled_from(["one", "two", "three"]),
            st.fixed_dictionaries({"command": WORDS}),
            max_size=2,
        )
    )


@st.composite
def jsonc_documents(draw, key: str, hook_events: tuple[str, ...] = ()) -> str:
    """A document in which a client's keys are missing, empty or full, in one of many layouts."""
    content: dict[str, object] = draw(st.dictionaries(KEYS, VALUES, max_size=3))
    for name in (key, "hooks", "version"):
        content.pop(name, None)
    if draw(st.booleans()):
        content[key] = draw(servers())
    if hook_events and draw(st.booleans()):
        events = draw(st.lists(st.sampled_from([*hook_events, "Other"]), unique=True, max_size=3))
        content["hooks"] = {
            event: draw(
                st.sampled_from([[], [{"command": "theirs"}], [{"hooks": [{"command": "t"}]}]])
            )
            for event in events
        }
    if draw(st.booleans()):
        content["version"] = 1
    order = draw(st.permutations(list(content)))
    layout = Layout(draw)
    text = layout.write({name: content[name] for name in order}, 0)
    head = draw(st.sampled_from(["", "", "\ufeff", "// head\n", "\n", "/* head */ "]))
    tail = draw(st.sampled_from(["", "\n", "\n\n", "\n// tail", " /* tail */\n"]))
    return (head + text + tail).replace("\n", layout.line_end)


class Layout:
    """JSON written in another layout."""

    def __init__(self, draw) -> None:
        self._draw = draw
        self.line_end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
        self._unit = draw(st.sampled_from(["  ", "    ", "\t", ""]))
        self._flat = draw(st.booleans())
        self._trailing = draw(st.booleans())
        self._comments = draw(st.booleans())

    def write(self, value: object, depth: int) -> str:
        if not isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=self._draw(st.booleans()))
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        if not value:
            return (
                opening
                + self._draw(st.sampled_from(["", "", " ", "\n", " /* empty */ ", "// empty\n"]))
                + closing
            )
        rows = []
        entries = (
            list(value.items()) if isinstance(value, dict) else [(None, part) for part in value]
        )
        for name, one in entries:
            colon = self._draw(st.sampled_from([": ", ":", " : "]))
            rows.append(
                ("" if name is None else json.dumps(name) + colon) + self.write(one, depth + 1)
            )
        if self._flat or self._draw(st.integers(0, 5)) == 0:
            comma = "," if self._trailing else ""
            return (
                opening + self._draw(st.sampled_from(["", " "])) + ", ".join(rows) + comma + closing
            )
        return opening + "\n" + self._lines(rows, depth + 1) + self._unit * depth + closing

    def _lines(self, rows: list[str], depth: int) -> str:
        text = ""
        for number, row in enumerate(rows):
            comma = "," if number < len(rows) - 1 or self._trailing else ""
            before = after = ""
            if self._comments and self._draw(st.integers(0, 2)) == 0:
                comment = self._draw(st.sampled_from(COMMENTS))
                after = " " + comment
            if self._comments and self._draw(st.integers(0, 4)) == 0:
                before = self._unit * depth + self._draw(st.sampled_from(COMMENTS)) + "\n"
            text += before + self._unit * depth + row + comma + after + "\n"
        return text


@st.composite
def toml_documents(draw) -> str:
    """A foreign Codex configuration."""
    pieces = draw(
        st.lists(
            st.sampled_from(
                [
                    'model = "x" # the model\n',
                    "# a note with [mcp_servers.cortex] in it\n",
                    'notify = [\n  "a", # one\n  "b]",\n]\n',
                    'prompt = """\n[mcp_servers.cortex]\ncommand = "no"\n"""\n',
                    "literal = '''\n[x]\n'''\n",
                    "\n",
                ]
            ),
            unique=True,
            max_size=4,
        )
    )
    tables = draw(
        st.lists(
            st.sampled_from(
                [
                    '[mcp_servers.other]\ncommand = "o" \nargs = [ "a" ]\n',
                    '[mcp_servers.other2.env]\nKEY = "v"\n\n',
                    '[ "tools" . web ]\non = true # yes\n',
                    "[[profiles]]\nname = 'p'\n",
                    "[tui]\n\n# last words\n",
                ]
            ),
            unique=True,
            max_size=4,
        )
    )
    text = "".join(pieces + tables)
    if draw(st.booleans()):
        text = text.rstrip("\n")
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return draw(st.sampled_from(["", "", "\ufeff"])) + text.replace("\n", end)

"""Splicing JSON: a value is put in or cut out, and nothing else changes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.interfaces.install import jsonc_edit
from interfaces.install.documents import VALUES, jsonc_documents

ENTRY = {"command": "/opt/cortex", "args": ["mcp", 'a "b"'], "deep": {"x": []}}


def value(text: str) -> object:
    top = jsonc_edit.read(text)
    return {} if top is None else jsonc_edit.value_of(text, top)


def is_subsequence(small: str, large: str) -> bool:
    rest = iter(large)
    return all(character in rest for character in small)


def letters(text: str) -> str:
    return "".join(text.split())


@given(VALUES, st.integers(0, 3))
def test_plain_json_parses_as_the_standard_library_does(content: object, indent: int):
    text = json.dumps(content, indent=indent or None)
    assert value(text) == content


@given(jsonc_documents("mcpServers", ("Stop",)))
def test_put_adds_a_value_and_keeps_every_other_byte(text: str):
    before = value(text)
    changed, made = jsonc_edit.put(text, ("mcpServers", "cortex"), ENTRY)
    assert value(changed) == before | {
        "mcpServers": {**before.get("mcpServers", {}), "cortex": ENTRY}
    }
    assert is_subsequence(letters(text), letters(changed))
    assert made == (() if "mcpServers" in before else (("mcpServers",),))
    if "\r\n" in text:
        assert "\n" not in changed.replace("\r\n", "").replace("/* ,\n } */", "")
    assert changed.startswith("\ufeff") == text.startswith("\ufeff")


@given(jsonc_documents("mcpServers", ("Stop",)))
def test_put_and_cut_restores_the_text_except_blank_space(text: str):
    before = value(text)
    changed, made = jsonc_edit.put(text, ("mcpServers", "cortex"), ENTRY)
    for path in (("mcpServers", "cortex"), *made):
        changed = jsonc_edit.remove(changed, path)
    assert value(changed) == before
    assert letters(changed) == letters(text)


@given(jsonc_documents("mcpServers", ("Stop",)), st.data())
def test_any_member_can_be_cut_out(text: str, choice: st.DataObject):
    before = value(text)
    if before:
        key = choice.draw(st.sampled_from(sorted(before)))
        changed = jsonc_edit.remove(text, (key,))
        assert value(changed) == {name: one for name, one in before.items() if name != key}


@given(jsonc_documents("mcpServers", ("Stop",)), st.integers(1, 3))
def test_elements_are_appended_and_cut_out(text: str, count: int):
    before = value(text)
    there = before.get("hooks", {}).get("Stop", [])
    changed = text
    for number in range(count):
        changed, _ = jsonc_edit.append(changed, ("hooks", "Stop"), {"command": f"c{number}"})
    assert value(changed)["hooks"]["Stop"] == [
        *there,
        *({"command": f"c{number}"} for number in range(count)),
    ]
    for number in reversed(range(count)):
        changed = jsonc_edit.remove(changed, ("hooks", "Stop"), len(there) + number)
    assert value(changed)["hooks"]["Stop"] == there


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '{\n  "s": {\n    "c": 1\n  }\n}\n'),
        ("\ufeff\r\n", '\ufeff{\r\n  "s": {\r\n    "c": 1\r\n  }\r\n}\r\n'),
        ("// only this\n", '// only this\n{\n  "s": {\n    "c": 1\n  }\n}\n'),
        ("{}", '{\n  "s": {\n    "c": 1\n  }\n}'),
        ('{"a": 1}', '{"a": 1, "s": {"c": 1}}'),
        ('{"s": {"a": 1,},}', '{"s": {"a": 1, "c": 1,},}'),
        (
            '{\n\t"s": {\n\t\t"a": 1 // one\n\t}\n}',
            '{\n\t"s": {\n\t\t"a": 1, // one\n\t\t"c": 1\n\t}\n}',
        ),
        (
            '{\n  "s": {\n    "a": 1, // one\n  },\n}',
            '{\n  "s": {\n    "a": 1, // one\n    "c": 1,\n  },\n}',
        ),
        ('{\r\n  "s": {} // none\r\n}', '{\r\n  "s": {\r\n    "c": 1\r\n  } // none\r\n}'),
        (
            '{\n  "s": {\n    // none yet\n  }\n}',
            '{\n  "s": {\n    // none yet\n    "c": 1\n  }\n}',
        ),
        ('{"s": {"x": 1}, "s": {"y": 2}}', '{"s": {"x": 1}, "s": {"y": 2, "c": 1}}'),
    ],
)
def test_new_member_follows_the_layout_of_the_document(text: str, expected: str):
    changed, made = jsonc_edit.put(text, ("s", "c"), 1)
    assert changed == expected
    for path in (("s", "c"), *made):
        changed = jsonc_edit.remove(changed, path)
    assert value(changed) == value(text)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('{"a": 1', 1, 8),
        ('{\n  "a": 1\n  "b": 2\n}', 3, 3),
        ('{\n  "a": tru\n}', 2, 8),
        ("{\n  a: 1\n}", 2, 3),
        ('{"a" 1}', 1, 6),
        ('{"a": "x\ny"}', 1, 7),
        ('{"a": 1}}', 1, 9),
        ("{,}", 1, 2),
        ('{"a": 1,,}', 1, 9),
        ('{"a": 1} /* x', 1, 10),
        ('\ufeff{"a" 1}', 1, 6),
        ("[1 2]", 1, 4),
        ('{"a": 01}', 1, 8),
    ],
)
def test_broken_document_error_names_line_and_column(text: str, line: int, column: int):
    with pytest.raises(jsonc_edit.Broken) as raised:
        jsonc_edit.read(text)
    assert (raised.value.line, raised.value.column) == (line, column)


@pytest.mark.parametrize("text", ['{"s": []}', '{"s": null}', "[]", '"s"'])
def test_value_in_place_of_an_object_is_an_error(text: str):
    with pytest.raises(jsonc_edit.Broken, match="not an object"):
        jsonc_edit.put(text, ("s", "c"), 1)


def test_deep_and_long_documents_parse_quickly():
    deep = "[" * 50_000 + "]" * 50_000
    assert jsonc_edit.read(deep) is not None
    with pytest.raises(jsonc_edit.Broken, match="unfinished string"):
        jsonc_edit.read('{"a": "' + "x" * 1_000_000)

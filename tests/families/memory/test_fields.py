"""The table of a memory's fields, and changes of their texts."""

from __future__ import annotations

from dataclasses import fields

from cortex.base.types import Memory
from cortex.families.memory.fields import (
    CONTENT,
    LISTS,
    REDACTED,
    SCREENED,
    WRITTEN,
    map_texts,
    texts_of,
    values_of,
)

# Ids, times and names that programs give a memory: no person's words.
GIVEN = {"key", "session", "date", "created", "provenance"}
MEMORY = Memory("mem_1", "Title", facts=("one", "two"), concepts=("tag",), text="Story")


def test_each_field_of_a_memory_with_words_is_scanned_for_secrets():
    assert {field.name for field in fields(Memory)} - GIVEN == set(REDACTED)


def test_each_row_of_the_table_names_fields_that_are_there():
    names = {field.name for field in fields(Memory)}
    for row in (LISTS, CONTENT, WRITTEN, REDACTED, SCREENED):
        assert set(row) <= names and len(set(row)) == len(row)


def test_lists_are_the_fields_with_several_texts():
    assert set(LISTS) == {field.name for field in fields(Memory) if field.default == ()}


def test_values_are_json_in_the_order_that_was_asked_for():
    assert list(values_of(MEMORY, ("facts", "title")).items()) == [
        ("facts", ["one", "two"]),
        ("title", "Title"),
    ]


def test_a_change_reaches_every_text_of_the_named_fields_and_no_other():
    changed = map_texts(MEMORY, ("title", "facts"), lambda name, text: f"{name} {text}")
    assert changed.title == "title Title" and changed.facts == ("facts one", "facts two")
    assert texts_of(changed, ("concepts", "text")) == ["tag", "Story"]

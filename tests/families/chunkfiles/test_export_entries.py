"""Entries of an export, from any text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cortex.base.types import Doc, Symbol
from cortex.families.chunkfiles.export_entries import Sizes, entries_of

LINES = st.text(alphabet="ab(){}[]'\"`\\:;=>#/*@ \n\tdefclassconst", max_size=400)


@given(
    text=LINES,
    language=st.sampled_from(["python", "go", "typescript", "ruby", "markdown", "yaml", "text", "protobuf"]),
    places=st.lists(st.tuples(st.integers(-1, 12), st.integers(-1, 12), st.sampled_from("class function constant field enum".split())), max_size=5),
    size=st.integers(0, 40),
)  # fmt: skip
def test_any_text_and_symbols_give_entries_with_unique_ids(text, language, places, size):
    symbols = [
        Symbol(name, name, kind, first, last) for first, last, kind in places for name in ("a", "")
    ]
    made = list(
        entries_of(
            Doc(1, 1, "x/y", 1, 1, 1, language), text, symbols, Sizes(16, 4, size, size // 3)
        )
    )
    assert len({entry.id for entry in made}) == len(made)
    for entry in made:
        assert entry.text.strip()
        assert entry.tags and len(set(entry.tags)) == len(entry.tags)

"""The form of a memory in an editor: what is written into it is read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.base.errors import InputError
from cortex.base.types import Memory
from cortex.families.memory.commands.form import filled, form_of

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


parts = st.lists(texts, max_size=3).map(tuple)


@given(
    st.builds(
        Memory,
        st.just("mem_1"),
        st.just("A title") | texts.filter(str.strip),
        texts,
        parts,
        parts,
        parts,
        texts,
        texts,
    )
)
def test_untouched_form_gives_the_same_memory(memory):
    assert filled(memory, form_of(memory)) == memory
    assert filled(memory, form_of(memory).replace("\n", "\r\n")) == memory


@given(texts.filter(str.strip), parts, texts)
def test_fields_written_into_a_form_are_read_back(title, facts, text):
    before = Memory(
        "mem_1", "Before", facts=("old",), text="old", concepts=("a, b",), files=("c,d.py",)
    )
    plain = tuple(fact for fact in (" ".join(fact.split()) for fact in facts) if fact)
    story = "\n".join(line.rstrip() for line in text.splitlines()).strip()
    now = filled(
        before,
        form_of(
            Memory("mem_1", title, facts=plain, text=story, concepts=("a, b",), files=("c,d.py",))
        ),
    )
    assert (now.title, now.facts, now.concepts, now.files) == (
        " ".join(title.split()),
        plain,
        ("a, b",),
        ("c,d.py",),
    )
    assert now.text.strip() == story


@pytest.mark.parametrize(
    "text",
    [
        "",
        "## Text\n\nonly this",
        "# \n",
        "# one\n# two\n",
        "# one\nthis belongs nowhere\n## Text\n",
    ],
)
def test_broken_form_is_refused(text):
    with pytest.raises(InputError, match="form"):
        filled(Memory("mem_1", "A title"), text)

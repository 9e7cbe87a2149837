"""Notebooks: text, code and the beginning of outputs."""

import json

import pytest

from cortex.base.types import UnreadableFile
from cortex.engine.readers import read_document
from engine.readers.document_text import text_of


def test_notebook_is_read_as_text_code_and_start_of_outputs():
    cells = [
        {"cell_type": "markdown", "source": ["# Study\n", "words"]},
        {
            "cell_type": "code",
            "source": "x = 1\nx",
            "outputs": [
                {
                    "output_type": "execute_result",
                    "data": {"text/plain": ["1"], "image/png": "A" * 9},
                },
                {"output_type": "stream", "text": [f"line {at}\n" for at in range(100)]},
                {"output_type": "error", "ename": "ValueError", "evalue": "bad"},
                {"output_type": "display_data", "data": {"image/png": "A" * 99}},
            ],
        },
        {"cell_type": "code", "source": [], "outputs": []},
    ]
    text = text_of(
        json.dumps({"cells": cells, "metadata": {"language_info": {"name": "julia"}}}).encode(),
        "a.ipynb",
    )
    shown = "\n".join(f"line {at}" for at in range(12))
    assert text == (
        f"# Study\nwords\n\n```julia\nx = 1\nx\n```\n\n```text\n1\n```\n\n```text\n{shown}\n...\n```\n\n```text\nValueError: bad\n```"
    )


@pytest.mark.parametrize("raw", [b"{", b"[]", b'{"cells": 3}', b"[" * 100_000])
def test_a_broken_notebook_is_refused(raw):
    answer = read_document(raw, "a.ipynb")
    assert isinstance(answer, UnreadableFile) and answer.reason.startswith("damaged")

"""Jupyter notebooks to Markdown: text cells, fenced code, and the start of text outputs."""

from __future__ import annotations

import json
import re

from cortex.engine.readers.markdown_writer import fence
from cortex.engine.readers.unreadable import Unreadable

MAX_OUTPUT_LINES = 12
MAX_OUTPUT_CHARACTERS = 800
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def read_notebook(text: str) -> str:
    """Convert the notebook to Markdown.

    Raises: Unreadable.
    """
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable("damaged: no whole notebook") from error
    cells = _cells(notebook)
    language = _language(notebook)
    blocks = [
        block for cell in cells if isinstance(cell, dict) for block in _blocks(cell, language)
    ]
    return "\n\n".join(block for block in blocks if block.strip())


def _cells(notebook: object) -> list[object]:
    if not isinstance(notebook, dict):
        raise Unreadable("damaged: no notebook")
    # The format of notebooks until 2015.
    sheets = notebook.get("worksheets")
    if isinstance(sheets, list):
        return [
            cell
            for sheet in sheets
            if isinstance(sheet, dict)
            for cell in _as_list(sheet.get("cells"))
        ]
    if not isinstance(notebook.get("cells"), list):
        raise Unreadable("damaged: no notebook")
    return notebook["cells"]


def _language(notebook: object) -> str:
    value = notebook
    for key in ("metadata", "language_info", "name"):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) and re.fullmatch(r"[\w+#.-]{1,20}", value) else "python"


def _blocks(cell: dict[str, object], language: str) -> list[str]:
    kind = cell.get("cell_type")
    source = _text(cell.get("source", cell.get("input")))
    if kind == "heading":
        level = cell.get("level")
        return ["#" * (level if isinstance(level, int) and 0 < level < 7 else 1) + " " + source]
    if kind != "code":
        return [source]
    if not source.strip():
        return []
    outputs = [
        _output(output) for output in _as_list(cell.get("outputs")) if isinstance(output, dict)
    ]
    return [fence(source.strip("\n"), language), *(fence(text, "text") for text in outputs if text)]


def _output(output: dict[str, object]) -> str:
    """Text of an output, shortened; "" for pictures and the like."""
    if output.get("output_type") == "error" or output.get("output_type") == "pyerr":
        return f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"[
            :MAX_OUTPUT_CHARACTERS
        ]
    data = output.get("data", output)
    text = output.get("text", data.get("text/plain") if isinstance(data, dict) else None)
    lines = _COLOUR.sub("", _text(text)).strip("\n").split("\n")
    short = "\n".join(lines[:MAX_OUTPUT_LINES])[:MAX_OUTPUT_CHARACTERS]
    return short + "\n..." if len(lines) > MAX_OUTPUT_LINES else short


def _text(value: object) -> str:
    """Join a text, which notebooks store whole or as a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []

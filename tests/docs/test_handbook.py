"""Tables of the handbook, rendered from the code.

Commands, tools, resources, prompts, errors, languages, file rules, query classes and Python names.

Each table stands between `<!-- NAME -->` and `<!-- end of NAME -->` and is rendered here from the
definitions, so that a test fails when the code has something that isn't documented and when the
page names something that isn't there. `python tests/docs/test_handbook.py` writes the tables into
the pages; what a person wrote in a column of their own is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

import cortex
from cortex.base.errors import CODES
from cortex.base.record_model import PREFIXES, Attachment, CodeLink, Evidence, Term
from cortex.base.record_spec import fields_of, spec_of
from cortex.engine.chunkers import LANGUAGES, languages
from cortex.engine.chunkers.grammars import has_grammar
from cortex.engine.search.weights import WEIGHTS, Weights
from cortex.engine.sources import file_kinds
from cortex.families.chunkfiles import tools as chunks
from cortex.families.code.tools import PROMPTS, RESOURCES, TOOLS
from cortex.families.documents import tools as kb
from cortex.families.memory import tools as memory
from cortex.families.team import tools as team
from cortex.families.team.permissions import TIERS
from cortex.interfaces.cli import app
from cortex.toolkit.tool import Prompt, Resource, Tool, input_schema, spell

DOCS = Path(__file__).parents[2] / "docs"


@cache
def commands() -> dict[str, Any]:
    """Every command by its full name, groups left out."""
    found: dict[str, Any] = {}

    def walk(command: Any, name: str) -> None:
        if not getattr(command, "commands", None):
            found[name] = command
        for inner, below in getattr(command, "commands", {}).items():
            walk(below, f"{name} {inner}")

    walk(typer.main.get_command(app), "cortex")
    return found


def command_rows(command: Any) -> list[str]:
    """The arguments in capitals, then the options with all their spellings."""
    rows = ["| argument or option | default | meaning |", "|---|---|---|"]
    for parameter in command.params:
        if parameter.name == "help":
            continue
        if parameter.param_type_name == "argument":
            spelled = f"`{parameter.metavar or parameter.name.upper()}`"
        else:
            spelled = ", ".join(f"`{opt}`" for opt in (*parameter.opts, *parameter.secondary_opts))
        silent = parameter.default is None or parameter.default is False
        default = (
            "required" if parameter.required else "" if silent else f"`{_plain(parameter.default)}`"
        )
        rows.append(f"| {spelled} | {default} | {_cell(parameter.help or '')} |")
    return rows


def tool_rows(
    tools: Sequence[Tool] = TOOLS, writes: str = "changes the index or settings"
) -> list[str]:
    rows = [f"| tool | {writes} | when to use it |", "|---|---|---|"]
    for tool in tools:
        first = re.split(r"(?<=\.) ", tool.description, maxsplit=1)[0]
        rows.append(f"| `{spell(tool.name)}` | {'yes' if tool.writes else 'no'} | {_cell(first)} |")
    return rows


def argument_rows(tool: Tool, meanings: Mapping[str, str] | None = None) -> list[str]:
    """Rows of a tool's arguments, with the page's meanings before those of the schema.

    Every client pays for the schema.
    """
    if not input_schema(tool)["properties"]:
        return ["It takes no arguments."]
    rows = ["| argument | type | default | meaning |", "|---|---|---|---|"]
    for name, schema, required in _arguments(input_schema(tool)):
        default = "" if schema.get("default") in (None, []) else f"`{_plain(schema['default'])}`"
        default = "required" if required else default
        meaning = (meanings or {}).get(name) or _cell(schema.get("description", ""))
        rows.append(f"| `{name}` | {_type(schema)} | {default} | {meaning} |")
    return rows


def _arguments(
    schema: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    for name, part in schema.get("properties", {}).items():
        yield prefix + name, part, name in schema.get("required", ())
        yield from _arguments(part, f"{prefix}{name}.")
        yield from _arguments(part.get("items", {}), f"{prefix}{name}[].")


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " ".join(f"`{value}`" for value in schema["enum"])
    kind = (
        f"list of {schema['items'].get('type', 'values')}s"
        if schema.get("type") == "array"
        else schema["type"]
    )
    low, high = schema.get("minimum"), schema.get("maximum")
    bounds = (
        f" {low:g} to {_number(high)}"
        if high is not None
        else f" from {low:g}"
        if low is not None
        else ""
    )
    return kind + bounds + (f" like `{schema['pattern']}`" if "pattern" in schema else "")


def resource_rows(resources: Sequence[Resource] = RESOURCES) -> list[str]:
    return [
        "| address | meaning |",
        "|---|---|",
        *(f"| `{resource.uri}` | {_cell(resource.description)} |" for resource in resources),
    ]


def prompt_rows(prompts: Sequence[Prompt] = PROMPTS) -> list[str]:
    rows = ["| prompt | argument | | meaning |", "|---|---|---|---|"]
    for prompt in prompts:
        rows.append(f"| `{prompt.name}` | | | {_cell(prompt.description)} |")
        for argument in prompt.arguments:
            need = "required" if argument.required else "optional"
            rows.append(f"| | `{argument.name}` | {need} | {_cell(argument.description)} |")
    return rows


def kind_rows() -> list[str]:
    """Every kind of record, its initial states in bold."""
    rows = ["| kind | id | types | states |", "|---|---|---|---|"]
    for cls, prefix in PREFIXES.items():
        first = spec_of(cls).first or spec_of(cls).states
        states = " ".join(
            f"**`{state}`**" if state in first else f"`{state}`" for state in spec_of(cls).states
        )
        spec = fields_of(cls).get("type")
        types = " ".join(f"`{choice}`" for choice in (spec.choices if spec else ()))
        rows.append(f"| {cls.__name__.lower()} | `{prefix}…` | {types} | {states} |")
    return rows


def limit_rows() -> list[str]:
    rows = ["| of | at most |", "|---|---|"]
    for cls in (*PREFIXES, CodeLink, Evidence, Attachment, Term):
        limits = {name: spec.most for name, spec in fields_of(cls).items() if spec.most}
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cls.__name__).lower()
        rows.append(
            f"| {name} | {', '.join(f'`{field}` {most:,}' for field, most in limits.items())} |"
        )
    return rows


def right_rows(meanings: Mapping[str, str]) -> list[str]:
    """Required tier of each action, with the meanings of the page."""
    rows = ["| right | what it is | from tier |", "|---|---|---|"]
    rows += [f"| `{right}` | {meanings.get(right, '')} | {tier} |" for right, tier in TIERS.items()]
    return rows


def team_error_rows(meanings: Mapping[str, str]) -> list[str]:
    """The codes of the team's tools, and the errors that each stands for."""
    rows = ["| code | meaning | causes |", "|---|---|---|"]
    for tool in dict.fromkeys(code.tool for code in CODES.values() if code.tool):
        causes = [f"`{name}`" for name, code in CODES.items() if code.tool == tool != name]
        rows.append(f"| `{tool}` | {meanings.get(tool, '')} | {' '.join(causes)} |")
    return [*rows, f"| `SERVER_ERROR` | {meanings.get('SERVER_ERROR', '')} | all others |"]


def error_rows(meanings: Mapping[str, str]) -> list[str]:
    rows = ["| code | category | retryable | meaning | first suggestion |", "|---|---|---|---|---|"]
    for name, code in CODES.items():
        retry = "yes" if code.retryable else "no"
        rows.append(
            f"| `{name}` | {code.category} | {retry} | {meanings.get(name, '')} | {_cell(code.suggestion)} |"
        )
    return rows


def language_rows() -> list[str]:
    rows = ["| language | file names | cut by |", "|---|---|---|"]
    for language in sorted(LANGUAGES):
        endings = [f"`.{ending}`" for ending in languages._EXTENSIONS.get(language, "").split()]
        whole = [f"`{name}`" for name in languages._FILENAMES.get(language, "").split()]
        how = (
            "syntax tree"
            if has_grammar(language)
            else "headings"
            if language == "markdown"
            else "lines"
        )
        rows.append(
            f"| {language} | {' '.join((*endings, *whole)) or 'whatever else is text'} | {how} |"
        )
    return rows


def folder_rows() -> list[str]:
    return [" ".join(f"`{folder}`" for folder in sorted(file_kinds.PRUNED_FOLDERS))]


def lock_rows() -> list[str]:
    return [" ".join(f"`{lock}`" for lock in sorted(file_kinds._LOCKS))]


def class_rows() -> list[str]:
    columns = [field.name for field in fields(Weights)]
    rows = [
        f"| class | {' | '.join(f'`{column}`' for column in columns)} |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for query_class, weights in WEIGHTS.items():
        rows.append(f"| {query_class} | {' | '.join(f'{value:g}' for value in astuple(weights))} |")
    return rows


def python_rows(meanings: Mapping[str, str]) -> list[str]:
    return [
        "| name | meaning |",
        "|---|---|",
        *(f"| `{name}` | {meanings.get(name, '')} |" for name in cortex.__all__),
    ]


def _plain(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


@cache
def tables() -> dict[str, tuple[str, Callable[[str], list[str]]]]:
    """Every table: its page, and how it is rendered, given what stands there now."""
    found: dict[str, tuple[str, Callable[[str], list[str]]]] = {}
    for name, command in commands().items():
        found[f"options of {name}"] = (
            "commands.md",
            lambda _, command=command: command_rows(command),
        )
    for tool in TOOLS:
        found[f"arguments of {tool.name}"] = ("code.md", lambda _, tool=tool: argument_rows(tool))
    for tool in chunks.TOOLS:
        found[f"arguments of {tool.name}"] = ("chunks.md", lambda _, tool=tool: argument_rows(tool))
    for tool in kb.TOOLS:
        found[f"arguments of {tool.name}"] = (
            "documents.md",
            lambda _, tool=tool: argument_rows(tool),
        )
    for tool in memory.TOOLS:
        if tool.arguments.model_fields:
            found[f"arguments of {tool.name}"] = (
                "memory.md",
                lambda _, tool=tool: argument_rows(tool),
            )
    for tool in team.TOOLS:
        found[f"arguments of {tool.name}"] = (
            "team.md",
            lambda old, tool=tool: argument_rows(tool, _column(old, 3)),
        )
    return found | {
        "team tools": ("team.md", lambda _: tool_rows(team.TOOLS, "writes")),
        "team errors": ("team.md", lambda old: team_error_rows(_column(old, 1))),
        "record kinds": ("team.md", lambda _: kind_rows()),
        "record limits": ("team.md", lambda _: limit_rows()),
        "record rights": ("team.md", lambda old: right_rows(_column(old, 1))),
        "document tools": ("documents.md", lambda _: tool_rows(kb.TOOLS)),
        "memory tools": ("memory.md", lambda _: tool_rows(memory.TOOLS)),
        "document resources": ("documents.md", lambda _: resource_rows(kb.RESOURCES)),
        "document prompts": ("documents.md", lambda _: prompt_rows(kb.PROMPTS)),
        "tools": ("code.md", lambda _: tool_rows()),
        "resources": ("code.md", lambda _: resource_rows()),
        "prompts": ("code.md", lambda _: prompt_rows()),
        "errors": ("errors.md", lambda old: error_rows(_column(old, 3))),
        "languages": ("files.md", lambda _: language_rows()),
        "folders": ("files.md", lambda _: folder_rows()),
        "lock files": ("files.md", lambda _: lock_rows()),
        "query classes": ("ranking.md", lambda _: class_rows()),
        "names": ("python.md", lambda old: python_rows(_column(old, 1))),
    }


def _column(table: str, number: int) -> dict[str, str]:
    """The texts of a column of the page, by the name in the first column."""
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in table.strip().splitlines()[2:]
    ]
    return {row[0].strip("` "): row[number] for row in rows if len(row) > number}


def between(page: Path, name: str) -> str:
    text = page.read_text(encoding="utf-8")
    assert text.count(f"<!-- {name} -->") == text.count(f"<!-- end of {name} -->") == 1, (
        f"{page.name} has no {name}"
    )
    return text.partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0]


@pytest.mark.parametrize("name", tables())
def test_handbook_table_matches_the_code(name: str) -> None:
    page, render = tables()[name]
    present = between(DOCS / page, name)
    wanted = render(present)
    assert present.strip().splitlines() == wanted, (
        "run `python tests/docs/test_handbook.py`, or put this there:\n" + ("\n".join(wanted))
    )


@pytest.mark.parametrize(
    "page",
    [
        "commands.md",
        "code.md",
        "chunks.md",
        "errors.md",
        "files.md",
        "python.md",
        "ranking.md",
        "documents.md",
        "team.md",
    ],
)
def test_page_has_no_table_of_a_removed_item(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    present = set(re.findall(r"^<!-- end of (.+) -->$", text, re.MULTILINE))
    assert present - {"secrets", "harmless"} == {
        name for name, (on, _) in tables().items() if on == page
    }


@pytest.mark.parametrize(
    ("page", "name", "column"),
    [
        ("errors.md", "errors", 3),
        ("python.md", "names", 1),
        ("team.md", "record rights", 1),
        ("team.md", "team errors", 1),
        *(("team.md", f"arguments of {tool.name}", 3) for tool in team.TOOLS),
    ],
)
def test_every_row_of_a_table_has_its_meaning(page: str, name: str, column: int) -> None:
    meanings = _column(between(DOCS / page, name), column)
    assert [key for key, meaning in meanings.items() if not meaning] == []


def test_headings_of_the_commands_page_are_the_commands() -> None:
    text = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## `(cortex[^`]*)`$", text, re.MULTILINE)) == set(commands())


def write() -> None:
    """Put every table into its page."""
    for name, (page, render) in tables().items():
        path = DOCS / page
        old = between(path, name)
        text = path.read_text(encoding="utf-8")
        marks = f"<!-- {name} -->", f"<!-- end of {name} -->"
        new = f"{marks[0]}\n" + "\n".join(render(old)) + f"\n{marks[1]}"
        path.write_text(
            text.replace(f"{marks[0]}{old}{marks[1]}", new), encoding="utf-8", newline="\n"
        )


if __name__ == "__main__":
    write()

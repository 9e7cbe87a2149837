"""Rules of the source tree: imports between modules, contents of single packages, names and sizes.

The contracts are in pyproject.toml; calls, names, SQL and sizes, which
import-linter can't see, are read from the syntax trees here.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "cortex"
FILES = sorted(PACKAGE.rglob("*.py"))
MAX_FILE_LINES = 720
MAX_FUNCTION_LINES = 50
EMPTY_NAMES = {"manager", "helper", "util", "utils", "misc"}
# These choose the variables that a child inherits, or are front ends, which forward theirs and look
# for cortexd; settings are elsewhere.
INHERITED = {"engine/sources/git.py", "base/runtime/rendezvous.py", "interfaces/daemon/hook.py"}
# In every package of commands; a contract in pyproject.toml lists the packages
TERMINAL = {"click", "rich", "typer"}
DATABASES_OF_OTHERS = (
    "families/memory/adapters",
    "families/documents/conduit.py",
    "engine/sources/sqlite_snapshot.py",
)
AT_HOME_IN_SEVERAL = {"numpy", "pydantic", "pydantic_core", "regex"}
# The nouns of HTTP for two packages: requests and responses of the transports and of the Core.
SHARED = {"starlette": ["interfaces/team_server", "interfaces/transports"]}
# In a pattern: a possessive quantifier after an escape, set, group, repeat or dot, or an atomic
# group.
POSSESSIVE = re.compile(r"(?:\\.|[\])}.])(?:[*+?]|\{\d*(?:,\d*)?\})\+|\(\?>")
STATEMENT = re.compile(
    r"^\s*(SELECT\s+\S|INSERT\s+(OR\s+\w+\s+)?INTO\s|REPLACE\s+INTO\s|UPDATE\s+\w+\s+SET\s|DELETE\s+FROM\s|PRAGMA\s+\w"
    r"|(CREATE|DROP|ALTER)\s+(\w+\s+)*(TABLE|INDEX|TRIGGER|VIEW)\s|(BEGIN|COMMIT|ROLLBACK|VACUUM)\b[^.]*$)"
)


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


@pytest.fixture(scope="module", autouse=True)
def released_trees() -> Iterator[None]:
    """The trees of all modules take 100 MB."""
    yield
    tree_of.cache_clear()


def package_of(file: Path) -> str:
    """Return the package on a floor that a module belongs to: "engine/store", "families/team", ..."""
    return "/".join(file.relative_to(PACKAGE).parts[:2]).removesuffix(".py")


def has_commands(file: Path) -> bool:
    """Return whether a module contains commands, or the output that they share."""
    folder = file.relative_to(PACKAGE).as_posix()
    return folder.startswith(("interfaces/cli/", "toolkit/terminal/")) or "/commands" in folder


def at(file: Path, node: ast.AST) -> str:
    return f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


def files_outside(*packages: str) -> list[Path]:
    return [file for file in FILES if package_of(file) not in packages]


def docstrings_of(tree: ast.Module) -> set[ast.AST]:
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found.add(node.value)
    return found


def words_of_name(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def test_import_contracts_are_kept():
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command as run; run()",
            "--no-logo",
            "--no-cache",
        ],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


def test_third_party_library_is_imported_in_one_package_only():
    packages: dict[str, set[str]] = defaultdict(set)
    for file in FILES:
        for library in libraries_of(tree_of(file)):
            packages[library].add(package_of(file))
    several = {name: sorted(where) for name, where in packages.items() if len(where) > 1}
    assert several == SHARED


def libraries_of(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            top = name.partition(".")[0]
            if (
                top != "cortex"
                and top not in sys.stdlib_module_names | AT_HOME_IN_SEVERAL | TERMINAL
            ):
                yield top


def test_only_settings_and_the_entry_point_read_the_environment():
    found = [
        at(file, node)
        for file in files_outside("base/settings", "__main__")
        if file.relative_to(PACKAGE).as_posix() not in INHERITED
        for node in environment_reads(tree_of(file))
    ]
    assert found == []


def environment_reads(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="os"), attr="environ" | "environb" | "getenv"):
                yield node
            case ast.ImportFrom(module="os", names=names):
                yield from (
                    name for name in names if name.name in {"environ", "environb", "getenv"}
                )


def test_only_commands_print():
    found = [
        at(file, node)
        for file in FILES
        if not has_commands(file)
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert found == []


def test_only_the_store_holds_sql():
    """Queries of other products' databases stand beside their readers."""
    found = []
    for file in files_outside("engine/store"):
        if file.relative_to(PACKAGE).as_posix().startswith(DATABASES_OF_OTHERS):
            continue
        tree = tree_of(file)
        docstrings = docstrings_of(tree)
        for node in ast.walk(tree):
            if (
                not isinstance(node, ast.Constant)
                or not isinstance(node.value, str)
                or node in docstrings
            ):
                continue
            if STATEMENT.match(node.value):
                found.append(f"{at(file, node)} {node.value[:60]!r}")
    assert found == []


def test_no_pattern_of_re_needs_python_3_11_5():
    """Before 3.11.5 `re` mishandles possessive quantifiers and atomic groups; the library `regex`
    doesn't.
    """
    found = [
        f"{at(file, node)} {node.value[:60]!r}"
        for file in FILES
        if not re.search(r"^import regex\b", file.read_text(encoding="utf-8"), re.MULTILINE)
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Constant) and POSSESSIVE.search(_as_text(node.value))
    ]
    assert found == []


def _as_text(value: object) -> str:
    return (
        value
        if isinstance(value, str)
        else value.decode("latin-1")
        if isinstance(value, bytes)
        else ""
    )


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"(?:[A-Z]{1,20} ){0,3}+KEY", True),
        (r"[^\r\n]*+", True),
        (r"\d++", True),
        (r".?+x", True),
        (r"(?>a*)b", True),
        (r"[-*+]\s+", False),
        (r"(?:a|b)+c*", False),
        ("C++ and c++", False),
        ("+++", False),
    ],
)
def test_possessive_quantifier_is_distinguished_from_other_signs(pattern: str, expected: bool):
    assert bool(POSSESSIVE.search(pattern)) is expected


def test_no_module_class_or_function_has_an_empty_name():
    found = []
    for file in FILES:
        if words_of_name(file.stem) & EMPTY_NAMES:
            found.append(at(file, tree_of(file)))
        for node in ast.walk(tree_of(file)):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if words_of_name(node.name) & EMPTY_NAMES:
                found.append(f"{at(file, node)} {node.name}")
    assert found == []


def test_no_file_is_longer_than_the_limit():
    lengths = {
        str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines())
        for file in FILES
    }
    assert {file: lines for file, lines in lengths.items() if lines >= MAX_FILE_LINES} == {}


def test_no_function_is_longer_than_the_limit():
    """The signature of a command doesn't count: each option takes several lines."""
    found = [
        f"{at(file, node)} {node.name}: {lines} lines"
        for file in FILES
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := lines_of(node, with_signature=not has_commands(file))) > MAX_FUNCTION_LINES
    ]
    assert found == []


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef, *, with_signature: bool) -> int:
    first = function if with_signature else function.body[0]
    return (function.end_lineno or 0) - first.lineno + 1


@pytest.mark.parametrize(("with_signature", "expected"), [(True, 5), (False, 3)])
def test_signature_of_a_command_is_not_counted(with_signature: bool, expected: int):
    text = 'def add(\n    name):\n    """Add."""\n    print(name)\n    return 0\n'
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    assert lines_of(function, with_signature=with_signature) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id FROM docs", True),
        ("\n  INSERT OR IGNORE INTO blobs VALUES (?)", True),
        ("CREATE UNIQUE INDEX docs_path ON docs(path)", True),
        ("PRAGMA integrity_check", True),
        ("BEGIN IMMEDIATE", True),
        ("Select a file from the list.", False),
        ("DELETE", False),
        ("BEGIN with a sentence. Then another.", False),
    ],
)
def test_sql_statement_is_distinguished_from_prose(text: str, expected: bool):
    assert bool(STATEMENT.match(text)) is expected


def test_entry_point_is_reached_before_anything_heavy_is_imported():
    """A server shuts down cleanly from its first line on, so that line must come soon."""
    loaded = "import sys; before = set(sys.modules); import cortex.__main__; print(*sorted(set(sys.modules) - before))"
    ended = subprocess.run(
        [sys.executable, "-c", loaded],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    names = set(ended.stdout.split())
    assert {name for name in names if name.startswith("cortex")} == {"cortex", "cortex.__main__"}
    assert not names & {"asyncio", "logging", "pathlib", "pydantic", "typer", "typing"}

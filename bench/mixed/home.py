"""A mixed home: a repository, a handbook, 300 memories and 1,000 records; 80 questions.

    python -m bench.mixed.home [--keep FOLDER]

The repository is this project's own code, the documents its handbook: what is hard is that all of
it speaks of the same things. Asked through the tool `cortex_search` of a real session, with nothing
but the question; two sets with ten of each type are in questions.py. Right is what the
question names, among the first three hits; otherwise the hits before it are listed.
"""

from __future__ import annotations

import argparse
import ast
import io
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bench.common.figures import Section, Setup
from bench.common.mcp_client import Session
from bench.common.process_cost import run
from bench.mixed.generated import memories, records
from bench.mixed.questions import DOCUMENT, FUNCTION, MEMORY, RECORD, SETS, TYPES, Question
from cortex.base.actors import person
from cortex.base.record_model import Comment
from cortex.base.settings import load
from cortex.base.types import Cancel, MemoryState
from cortex.engine.library import Library, id_of
from cortex.engine.store import RecordTransaction
from cortex.families.memory.file_import import ImportedMemory
from cortex.families.memory.writer import add_all
from cortex.families.team.ids import fresh_key
from cortex.families.team.writes.create import add_body
from cortex.families.team.writes.transactions import perform

ROOT = Path(__file__).resolve().parents[2]
TREE = "4297abfc7b2fd62876264d0822cefdbb49e57380"  # the commit that the questions are about
PARTS = (
    "chunkers", "daemon", "embedders", "exporting", "install", "memories", "readers", "search", "settings", "shelf", "sources", "store",
    "surfaces", "worker",
)  # fmt: skip
# The handbook as it was when the questions were written, so that a new page doesn't change what was
# measured.
PAGES = (
    "README", "chunks", "clients", "code", "commands", "composition", "conformance", "daemon", "documents", "embedders", "errors", "files",
    "getting-started", "http", "memory", "model", "operations", "plugins", "python", "qdrant", "ranking", "security", "settings",
)  # fmt: skip
# The types of a search for one kind only
OWN = {
    RECORD: ("threads", "comments", "artifacts", "observations", "tasks", "subcortexes"),
    DOCUMENT: ("documents",),
    MEMORY: ("memories",),
    FUNCTION: ("code",),
}
FIRST = 3
LEAST = 9  # of ten that have to be right among the first three
STEP = 200  # records of one transaction
ARMS = (("words", "none"), ("as installed", "local"))

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Home:
    """A filled home, and the ids of its parts."""

    folder: Path  # of the repository
    environment: Mapping[str, str]
    ids: Mapping[str, Mapping[str, str]]  # of records, documents and memories, by type and key


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and its answer: the place of the first right hit, 0 for none."""

    question: Question
    place: int
    alone: int  # the same, where nothing but its own type is searched
    rows: Sequence[Row]


def measure(setup: Setup, keep: Path | None = None) -> Section:
    """Fill a home, ask both sets of questions by words and as installed."""
    section = Section("mixed", "A mixed home")
    home = make_home(setup, keep or setup.work / "mixed")
    text = "`cortex_search` with nothing but the question; what isn't the very thing counts as wrong. The last column is what there is to lose by searching all at once."
    parts = [text]
    for name, questions in SETS:
        parts.append(_table(setup, home, name, questions, section))
    section.text = "\n\n".join(parts)
    return section


def _table(
    setup: Setup, home: Home, name: str, questions: Sequence[Question], section: Section
) -> str:
    """One set as a table, with its misses; the figures go into the section."""
    lines = [
        f"**{name.capitalize()}** ({len(questions)} questions):",
        "",
        "| | questions | first hit | first three | first ten | first three, its own type alone |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    missed: list[str] = []
    for label, provider in ARMS:
        answers = ask_all(setup, home, provider, questions)
        for type_ in TYPES:
            of_type = [answer for answer in answers if answer.question.type == type_]
            first, three, ten = (
                sum(0 < answer.place <= most for answer in of_type) for most in (1, FIRST, 10)
            )
            alone = sum(0 < answer.alone <= FIRST for answer in of_type)
            lines.append(
                f"| {label}: a {type_} | {len(of_type)} | {first} | {three} | {ten} | {alone} |"
            )
            section.at_least(
                f"{name}, {label}: a {type_} among the first three, of ten", three, LEAST
            )
        files = [_file_place(answer) for answer in answers if answer.question.type == FUNCTION]
        first, three, ten = (sum(0 < place <= most for place in files) for most in (1, FIRST, 10))
        lines.append(
            f"| {label}: the file of the function | {len(files)} | {first} | {three} | {ten} | |"
        )
        missed += [_missed(label, answer) for answer in answers if not 0 < answer.place <= FIRST]
    return "\n".join(
        [*lines, *(missed and ["", "Not among the first three, and what was:", "", *missed])]
    )


def make_home(setup: Setup, work: Path) -> Home:
    """Make an indexed repository, and a home with documents, memories, records and vectors."""
    folder, tree = work / "cortex", unpack_tree(work / "tree")
    copy_repository(tree, folder / "src" / "cortex")
    copy_handbook(tree, work / "handbook")
    own = {"HOME": str(work), "USERPROFILE": str(work), "CORTEX_HOME": str(work / "home")}
    environment = {**setup.environment(provider="local"), **own}
    run([*setup.cortex, "index", str(folder), "--json"], environment, setup.bare_kb)
    with closing(Library(load(None, environment=environment))) as library:
        added = library.add_folder(work / "handbook", name="handbook", watch=False)
        library.index(source=added.source)
        pages = {f"{page}.md": id_of(added, f"{page}.md") for page in PAGES}
        ids = {
            RECORD: fill_records(library, setup.seed),
            DOCUMENT: pages,
            MEMORY: fill_memories(library, setup.seed),
        }
        library.embedding.embed(progress=lambda step: None, cancel=Cancel())
        library.embedding.catch_up()
    return Home(folder, environment, ids)


def unpack_tree(target: Path) -> Path:
    """Unpack the code and handbook that the questions were written about."""
    command = ["git", "archive", "--format=tar", TREE, "src/cortex", "docs"]
    packed = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        for file in archive:
            content = archive.extractfile(file)
            if content is not None:
                (target / file.name).parent.mkdir(parents=True, exist_ok=True)
                (target / file.name).write_bytes(content.read())
    return target


def copy_repository(tree: Path, target: Path) -> None:
    """Copy a fixed part of this project's code."""
    package = tree / "src" / "cortex"
    for path in [
        *package.glob("*.py"),
        *(path for part in PARTS for path in (package / part).rglob("*.py")),
    ]:
        copy = target / path.relative_to(package)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def copy_handbook(tree: Path, target: Path) -> None:
    """Copy the pages of the handbook that questions are about."""
    target.mkdir(parents=True)
    for page in PAGES:
        shutil.copyfile(tree / "docs" / f"{page}.md", target / f"{page}.md")


def fill_records(library: Library, seed: int) -> dict[str, str]:
    """Write all records as the person; their ids by their keys."""
    ids: dict[str, str] = {}
    made = list(records(seed))
    for start in range(0, len(made), STEP):
        part = made[start : start + STEP]

        def work(step: RecordTransaction, part: Sequence[tuple[str, object]] = part) -> str:
            for key, body in part:
                if isinstance(body, Comment):
                    body = Comment(ids[body.thread], body.body)
                ids[key] = add_body(step, body, settings=library.settings).id  # type: ignore[arg-type]
            return ""

        perform(library, work, actor=person(), key=fresh_key(), action="import", payload=str(start))
    return ids


def fill_memories(library: Library, seed: int) -> dict[str, str]:
    """Keep all memories; the ids of those that are asked for, by their keys."""
    made = list(memories(seed))
    added = add_all(
        library, [ImportedMemory(memory) for _, memory in made], state=MemoryState.APPROVED
    ).added
    return {key: number for (key, _), number in zip(made, added, strict=True) if key}


def ask_all(setup: Setup, home: Home, provider: str, questions: Sequence[Question]) -> list[Asked]:
    """Every question through a session of its own server."""
    environment = {**home.environment, "CODEINDEX_EMBEDDING_PROVIDER": provider}
    with Session(
        [*setup.cortex, "mcp", "team", "--workspace", str(home.folder)], environment, home.folder
    ) as session:
        session.call("cortex_search", query="nothing in particular")  # opens everything
        return [_ask(session, home, question) for question in questions]


def _ask(session: Session, home: Home, question: Question) -> Asked:
    place, rows = _place(session, home, question)
    alone, _ = _place(session, home, question, types=OWN[question.type])
    return Asked(question, place, alone, rows)


def _place(
    session: Session, home: Home, question: Question, **more: object
) -> tuple[int, list[Row]]:
    """The place of the first right hit, and all hits."""
    rows = session.call("cortex_search", query=question.text, **more)["data"].get("results", [])
    return next(
        (place for place, row in enumerate(rows, 1) if is_right(home, question, row)), 0
    ), rows


def _file_place(asked: Asked) -> int:
    """The place of the first hit in the file of a function."""
    files = {f"src/cortex/{right.partition('#')[0]}" for right in asked.question.right}
    return next((place for place, row in enumerate(asked.rows, 1) if row.get("path") in files), 0)


def is_right(home: Home, question: Question, row: Row) -> bool:
    """True for a row that answers the question."""
    if question.type == FUNCTION:
        return any(_holds(home.folder, right, row) for right in question.right)
    # A comment opens as its thread
    ids = {str(row.get(name, "")).rpartition(":")[2] for name in ("id", "thread_id")}
    return not ids.isdisjoint(home.ids[question.type][right] for right in question.right)


def _holds(folder: Path, right: str, row: Row) -> bool:
    """True for a row whose lines overlap the function "file#name"."""
    file, _, name = right.partition("#")
    if row.get("type") != "code" or row.get("path") != f"src/cortex/{file}":
        return False
    first, last = lines_of(folder / "src" / "cortex" / file, name)
    start, _, end = str(row["lines"]).partition("-")
    return int(start) <= last and first <= int(end or start)


def lines_of(path: Path, name: str) -> tuple[int, int]:
    """The first and the last line of a function."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = next(
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name
    )
    assert found.end_lineno is not None
    return found.lineno, found.end_lineno


def _missed(label: str, asked: Asked) -> str:
    stood = "; ".join(
        f"{row.get('type')} *{row.get('title')}* ({row.get('score')})" for row in asked.rows[:FIRST]
    )
    place = f"place {asked.place}" if asked.place else "not among ten"
    alone = f"{asked.alone} alone" if asked.alone else "nor alone"
    return f'- {label}, {asked.question.type}: "{asked.question.text}" ({place}, {alone}); before it: {stood or "nothing"}'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="a new folder that the home stays in")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cortex-mixed-") as work:
        setup = Setup(Path(work).resolve(), quick=False, repeat=1)
        print(measure(setup, options.keep and options.keep.resolve()).render())


if __name__ == "__main__":
    main()

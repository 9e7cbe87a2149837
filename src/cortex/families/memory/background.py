"""What the keeper of the library sees to besides folders: what hooks brought is taken in, other
products' databases are copied.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from cortex.base.errors import CortexError
from cortex.base.paths import without_waiting
from cortex.base.types import Memory, MemoryState
from cortex.engine.library import Library
from cortex.engine.sources.project import project_at
from cortex.families.memory.hook_inbox import HookNote, take_in
from cortex.families.memory.mirror import is_work, sync, want
from cortex.families.memory.writer import HOOK, add

COPY_SECONDS = 2.0  # at once: folders and other processes wait meanwhile
INSTRUCTION_FILES = (
    "CLAUDE.md",
    "AGENTS.md",
    "GEMINI.md",
    ".github/copilot-instructions.md",
    "MEMORY.md",
)
MAX_INSTRUCTIONS = 200_000  # bytes of one file


def begin(library: Library) -> None:
    """Have the databases of a library's settings copied, though another one on the same store holds
    the lease.
    """
    with suppress(CortexError):  # what can't be written now is tried again by `tend`
        want(library)


def tend(library: Library) -> None:
    """One round. Raises: StoreError, FileError DISK_FULL."""
    take_in(library.settings.home, lambda candidate: remember(library, candidate))
    if is_work(library):
        sync(library, seconds=COPY_SECONDS)


def remember(library: Library, candidate: HookNote) -> None:
    """Put what a hook brought into staging; saying the same twice is one memory.

    Raises: InputError MEMORY_REFUSED.
    """
    folder = Path(candidate.project_path) if candidate.project_path else None
    known = folder is not None and folder.is_dir()
    memory = Memory(
        "",
        candidate.title,
        facts=candidate.facts,
        concepts=candidate.concepts,
        files=candidate.files,
        text=candidate.text,
        project=project_at(folder).name
        if folder is not None and known
        else (folder.name if folder else ""),
        session=candidate.session,
        created=candidate.at,
        kind=candidate.kind,
        provenance=f"hook {candidate.client}".strip(),
    )
    said = instructions_of(project_at(folder).path) if folder is not None and known else ""
    add(library, memory, state=MemoryState.STAGING, actor=HOOK, instructions=said)


def instructions_of(folder: Path) -> str:
    """What the instruction files of a project say."""
    texts = []
    for name in INSTRUCTION_FILES:
        try:
            with open(folder / name, "rb", opener=without_waiting) as file:
                texts.append(file.read(MAX_INSTRUCTIONS).decode("utf-8", "replace"))
        except (OSError, ValueError):
            continue
    return "\n".join(texts)

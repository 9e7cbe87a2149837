"""Background work of the lease holder: consume the hook inbox and copy memory databases."""

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

# Time per round: folders and other processes wait meanwhile.
COPY_SECONDS = 2.0
INSTRUCTION_FILES = tuple(
    "CLAUDE.md AGENTS.md GEMINI.md .github/copilot-instructions.md MEMORY.md".split()
)
# Bytes of one file.
MAX_INSTRUCTIONS = 200_000


def begin(library: Library) -> None:
    """Request copies of the databases in these settings.

    Another process on the same store may hold the lease.
    """
    # After a failure `tend` tries again.
    with suppress(CortexError):
        want(library)


def tend(library: Library) -> None:
    """Run one round. Raises: StoreError, FileError DISK_FULL."""
    take_in(library.settings.home, lambda candidate: remember(library, candidate))
    if is_work(library):
        sync(library, seconds=COPY_SECONDS)


def remember(library: Library, candidate: HookNote) -> None:
    """Store a hook's note as a memory in staging; repeated notes become one memory.

    Raises: InputError MEMORY_REFUSED.
    """
    folder = Path(candidate.project_path) if candidate.project_path else None
    project = project_at(folder) if folder is not None and folder.is_dir() else None
    memory = Memory(
        "",
        candidate.title,
        facts=candidate.facts,
        concepts=candidate.concepts,
        files=candidate.files,
        text=candidate.text,
        project=project.name if project else folder.name if folder else "",
        session=candidate.session,
        created=candidate.at,
        kind=candidate.kind,
        provenance=f"hook {candidate.client}".strip(),
    )
    instructions = instructions_of(project.path) if project else ""
    add(library, memory, state=MemoryState.STAGING, actor=HOOK, instructions=instructions)


def instructions_of(folder: Path) -> str:
    """Concatenate the instruction files of a project."""
    texts = []
    for name in INSTRUCTION_FILES:
        try:
            with open(folder / name, "rb", opener=without_waiting) as file:
                texts.append(file.read(MAX_INSTRUCTIONS).decode("utf-8", "replace"))
        except (OSError, ValueError):
            continue
    return "\n".join(texts)

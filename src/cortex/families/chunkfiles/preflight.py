"""Whether a directory of chunk files can be served at all, looked at before anything is loaded: who
starts a server is to know at once.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from cortex.base.errors import ConfigError, FileError
from cortex.base.settings import Settings
from cortex.base.types import Stamp
from cortex.families.chunkfiles.builder import OWN_MODEL, stamp_of
from cortex.families.chunkfiles.format import ChunkFile, Reading, list_chunk_files, shown

WRITE_ANEW = "Write them anew with the indexer that made them, or with `cortex chunks export`."


def check_files(directory: Path, settings: Settings) -> tuple[Stamp, ...]:
    """Look whether a directory can be served, reading no further than needed; whose vectors there
    seem to be.

    Raises: FileError FILE_NOT_FOUND, PERMISSION_DENIED or FILE_UNREADABLE, where there is no chunk;
    ConfigError CONFIG_INVALID, where the vectors are of another length than is configured.
    """
    if not directory.is_dir():
        raise FileError(
            "FILE_NOT_FOUND",
            f"there is no folder of chunk files at {directory}",
            context={"path": str(directory)},
            # A folder that the project's own files name and that doesn't count is why another one
            # was looked for.
            instead=(
                *(warning for warning in settings.warnings if "server.chunksDir" in warning),
                "Write them with `cortex chunks export`, or name their folder: CORTEX_CHUNKS_DIR.",
            ),
        )
    stamps: dict[Stamp, None] = {}
    found, wrong = False, ""
    for file in list_chunk_files(directory).files:
        with suppress(FileError):  # told when it is read
            reading = Reading(file.path)
            first = next(iter(reading), None)
            if first is None:
                wrong = wrong or (reading.warnings[0] if reading.warnings else "")
                continue
            found = True
            _check_dimensions(file, reading, settings)
            if first.embedding is not None:
                stamps[stamp_of(reading.model, reading.dimensions)] = None
    if not found:
        raise FileError(
            "FILE_UNREADABLE",
            f"no chunk in the files of {directory} can be served{f': {wrong}' if wrong else ''}",
            context={"path": str(directory)},
            instead=(WRITE_ANEW,),
        )
    return tuple(stamps)


def _check_dimensions(file: ChunkFile, reading: Reading, settings: Settings) -> None:
    wanted = settings.embedding.dimensions
    # Written over another indexer's files, whose settings they keep
    ours = reading.model.startswith(OWN_MODEL)
    if wanted and reading.dimensions and reading.dimensions != wanted and not ours:
        raise ConfigError(
            "CONFIG_INVALID",
            f"embedding.dimensions is {wanted} ({settings.origin('embedding.dimensions')}), "
            f"but the vectors in {shown(file.name)} have {reading.dimensions}",
            context={"key": "embedding.dimensions", "file": file.name},
            instead=(
                "Let the files say it: `cortex config set embedding.dimensions 0 --project`; or correct it.",
            ),
        )

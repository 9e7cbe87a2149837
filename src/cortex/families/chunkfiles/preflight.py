"""Check that a directory of chunk files can be served, before anything is loaded.

A process that starts a server learns about problems at once.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from cortex.base.errors import ConfigError, FileError
from cortex.base.settings import Settings
from cortex.base.types import Stamp
from cortex.families.chunkfiles.builder import OWN_MODEL, stamp_of
from cortex.families.chunkfiles.format import ChunkFile, ChunkFileReader, list_chunk_files, shown

WRITE_ANEW = "Write them anew with the indexer that made them, or with `cortex chunks export`."


def check_files(directory: Path, settings: Settings) -> tuple[Stamp, ...]:
    """Check that a directory can be served, and return the stamps of its vectors.

    Reads only the first chunk of each file.

    Raises: FileError FILE_NOT_FOUND, PERMISSION_DENIED or FILE_UNREADABLE if there is no chunk;
    ConfigError CONFIG_INVALID if the vectors have another length than configured.
    """
    if not directory.is_dir():
        raise FileError(
            "FILE_NOT_FOUND",
            f"there is no folder of chunk files at {directory}",
            context={"path": str(directory)},
            # If a chunks folder in the project's own files was rejected, that is why this one was
            # tried.
            instead=(
                *(warning for warning in settings.warnings if "server.chunksDir" in warning),
                "Write them with `cortex chunks export`, or name their folder: CORTEX_CHUNKS_DIR.",
            ),
        )
    stamps: dict[Stamp, None] = {}
    has_chunks, problem = False, ""
    for file in list_chunk_files(directory).files:
        # The error is reported when the file is loaded.
        with suppress(FileError):
            reading = ChunkFileReader(file.path)
            first = next(iter(reading), None)
            if first is None:
                problem = problem or (reading.warnings[0] if reading.warnings else "")
                continue
            has_chunks = True
            _check_dimensions(file, reading, settings)
            if first.embedding is not None:
                stamps[stamp_of(reading.model, reading.dimensions)] = None
    if not has_chunks:
        raise FileError(
            "FILE_UNREADABLE",
            f"no chunk in the files of {directory} can be served"
            f"{f': {problem}' if problem else ''}",
            context={"path": str(directory)},
            instead=(WRITE_ANEW,),
        )
    return tuple(stamps)


def _check_dimensions(file: ChunkFile, reading: ChunkFileReader, settings: Settings) -> None:
    configured = settings.embedding.dimensions
    # Our own files may replace those of an indexer with other settings.
    is_ours = reading.model.startswith(OWN_MODEL)
    if configured and reading.dimensions and reading.dimensions != configured and not is_ours:
        raise ConfigError(
            "CONFIG_INVALID",
            f"embedding.dimensions is {configured} ({settings.origin('embedding.dimensions')}), "
            f"but the vectors in {shown(file.name)} have {reading.dimensions}",
            context={"key": "embedding.dimensions", "file": file.name},
            instead=(
                "Let the files say it: `cortex config set embedding.dimensions 0 --project`; "
                "or correct it.",
            ),
        )

"""Files of a vector index: an append-only log of fixed-size records and a watermark file.

The watermark file names the part of the log that counts. The log is written and synced before that
file is replaced, so it is never ahead. Bytes beyond it are the rest of an interrupted write and are
overwritten. Knows nothing of search.

Road not taken: a checksum per record. One over the whole log costs 12 ms per 100,000 rows at
opening and is continued when the log grows.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cortex.base.errors import shortage_of
from cortex.base.paths import keep_private, open_private
from cortex.base.types import Stamp

FORMAT = 1
# Time to wait for a reader to close the watermark file (Windows).
REPLACE_SECONDS = 2.0

Records = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Manifest:
    """Content of the watermark file.

    The first `records` of the generation's log are the index at `watermark`.
    """

    stamp: Stamp
    watermark: int
    generation: int
    records: int
    checksum: int


class VectorLog:
    """Records in a file, or in memory if `path` is None."""

    def __init__(self, path: Path | None, dtype: np.dtype[np.void]) -> None:
        self.records = 0
        self.checksum = 0
        self.writing = False
        self._path = path
        self._dtype = dtype
        self._parts: list[Records] = []
        # Mapping of a reader: it outlives its file, which the writer may sweep.
        self._mapped: Records = np.empty(0, dtype=dtype)

    def append(self, records: Records) -> None:
        """Write after the last record, overwriting the rest of a failed write."""
        self.writing = True
        raw = records.view(np.uint8).data
        if self._path is None:
            self._parts.append(records)
        else:
            with FileIO(self._path, "r+" if self.records or self._path.exists() else "w+") as file:
                if os.fstat(file.fileno()).st_size < self.records * self._dtype.itemsize:
                    raise FileNotFoundError(
                        f"{self._path} is shorter than its {self.records} records"
                    )
                file.seek(self.records * self._dtype.itemsize)
                written = 0
                while written < len(raw):
                    written += file.write(raw[written:])
        self.checksum = zlib.crc32(raw, self.checksum)
        self.records += len(records)

    def extend(self, records: int, checksum: int) -> bool:
        """Include records of another process, up to `records`; false if missing or damaged."""
        try:
            mapped = self._map(records)
        except (OSError, ValueError) as error:
            if shortage := shortage_of(error, "loading vectors"):
                raise shortage from error
            return False
        if zlib.crc32(mapped[self.records :].view(np.uint8).data, self.checksum) != checksum:
            return False
        self.records, self.checksum, self._mapped = records, checksum, mapped
        return True

    def view(self) -> Records:
        """All records; the array is not affected by later appends."""
        if self._path is not None:
            return self._mapped if len(self._mapped) == self.records else self._map(self.records)
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return self._parts[0] if self._parts else np.empty(0, dtype=self._dtype)

    def sync(self) -> None:
        """Make all records durable."""
        if self._path is not None and self._path.exists():
            with FileIO(self._path, "r+") as file:
                os.fsync(file.fileno())

    def _map(self, records: int) -> Records:
        # An empty file can't be mapped.
        if self._path is None or not records:
            return np.empty(0, dtype=self._dtype)
        if self._path.stat().st_size < records * self._dtype.itemsize:
            raise ValueError(f"{self._path} is shorter than its {records} records")
        return np.asarray(np.memmap(self._path, dtype=self._dtype, mode="r", shape=(records,)))


def log_path(directory: Path, generation: int) -> Path:
    """Path of a generation's log."""
    return directory / f"rows-{generation:06d}.log"


def next_generation(directory: Path) -> int:
    """A generation number above that of every log in `directory`."""
    names = (path.stem.removeprefix("rows-") for path in directory.glob("rows-*.log"))
    return 1 + max((int(name) for name in names if name.isdecimal()), default=0)


def read_manifest(directory: Path) -> Manifest | None:
    """Read the watermark file; None if it is missing, damaged or of another format."""
    try:
        seal, _, body = (directory / "watermark.json").read_text(encoding="utf-8").partition("\n")
        if seal != _seal(body):
            return None
        fields = json.loads(body)
        stamp = Stamp(**fields.pop("stamp"))
        return Manifest(stamp=stamp, **fields)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Replace the watermark file, atomically and durably."""
    body = json.dumps(asdict(manifest), sort_keys=True)
    fresh = directory / "watermark.new"
    keep_private(directory)
    with open(fresh, "w", encoding="utf-8", newline="\n", opener=open_private) as file:
        file.write(f"{_seal(body)}\n{body}")
        file.flush()
        os.fsync(file.fileno())
    deadline = time.monotonic() + REPLACE_SECONDS
    while True:
        try:
            os.replace(fresh, directory / "watermark.json")
            break
        except PermissionError:
            # Windows, while a reader has the file open.
            if os.name != "nt" or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    if os.name != "nt":
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def checksum_of(path: Path) -> int:
    """CRC of a file's bytes."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return checksum


def sweep(directory: Path, keep: tuple[str, ...]) -> None:
    """Delete all logs and snapshots except `keep`.

    Files still mapped by a reader on Windows are deleted the next time.
    """
    for pattern in ("rows-*.log", "scan*"):
        for path in directory.glob(pattern):
            if path.name not in keep:
                with contextlib.suppress(OSError):
                    path.unlink()


def _seal(body: str) -> str:
    return f"cortex vectors {FORMAT} {zlib.crc32(body.encode('utf-8')):08x}"

"""Rules for adding a folder of documents: its root, name and key."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from cortex.base.errors import ConfigError
from cortex.engine.sources.forbidden_roots import reason_against
from cortex.engine.store import Folder

# Keys of folders appear in answers.
KEY = re.compile(r"[\w.-]{1,64}")
MAX_NAME = 200


def check_root(root: Path, given: Path, home: Path) -> None:
    """Reject a root that is no folder, private or the system's.

    Raises: ConfigError SOURCE_REFUSED.
    """
    why = reason_against(root, Path(os.path.realpath(Path.home())), Path(os.path.realpath(home)))
    # `isdir` is also false for a name that is too long for the system.
    if not why and not os.path.isdir(root):
        why = "it is no folder" if os.path.exists(root) else "there is no such folder"
    if why:
        raise _refusal(given, root, why)


def check_label(name: str, key: str) -> None:
    """Reject a name or key that can't be shown. Raises: ConfigError SOURCE_REFUSED."""
    if (name and not name.strip()) or not name.isprintable() or len(name) > MAX_NAME:
        raise ConfigError(
            "SOURCE_REFUSED",
            f"the name of a source is one line of text, of at most {MAX_NAME} characters",
        )
    if key and not KEY.fullmatch(key):
        raise ConfigError(
            "SOURCE_REFUSED",
            "the id of a source is made of at most 64 letters, digits, dots and dashes",
        )


def check_unused(root: Path, given: Path, name: str, key: str, known: Sequence[Folder]) -> None:
    """Reject a root, name or key that another folder uses or covers.

    Raises: ConfigError SOURCE_REFUSED.
    """
    for folder in known:
        other = Path(folder.source.root)
        if root == other:
            raise _refusal(given, root, "it is one already")
        if other in root.parents:
            raise _refusal(given, root, f"it lies in {other}, which is one already")
        if root in other.parents:
            raise _refusal(
                given, root, f"{other}, which lies in it, is one already; remove that one first"
            )
        if name and name.casefold() == folder.name.casefold():
            raise ConfigError(
                "SOURCE_REFUSED", f"there is a source {name!r} already; choose another --name"
            )
        if key and key == folder.key:
            raise ConfigError("SOURCE_REFUSED", f"there is a source with the id {key} already")


def free_name(name: str, taken: set[str]) -> str:
    """Return a printable name that isn't taken, compared in lower case."""
    wanted = "".join(character for character in name if character.isprintable()) or "documents"
    suffix = 2
    free = wanted
    while free.casefold() in taken:
        free, suffix = f"{wanted}-{suffix}", suffix + 1
    return free


def _refusal(given: Path, root: Path, why: str) -> ConfigError:
    return ConfigError(
        "SOURCE_REFUSED", f"{given} can't be a source: {why}", context={"path": str(root)}
    )

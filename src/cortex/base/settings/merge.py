"""Merging of settings from several origins: validation, trust, and limits between settings.

An invalid value in a file is a warning, and the value of the next lower origin applies: a broken
file must not stop the engine. In a variable, a flag or a runtime change it is an error, because it
was just typed. A project's own files are untrusted, and runtime changes come from an agent:
`_admit` restricts what they may set. Knows no file format and no variable.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

from cortex.base.errors import ConfigError
from cortex.base.settings.groups import Trust
from cortex.base.settings.registry import KEYS, FamilyKey, Key
from cortex.base.settings.values import is_embedding_address, stays_here

_SHORT = reprlib.Repr()
# Untrusted YAML may unfold without end.
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict, _SHORT.maxstring = (2, 4, 4, 80)


class SettingOrigin(Enum):
    """Kind of origin of a value."""

    HOME = auto()
    PROJECT = auto()
    ENVIRONMENT = auto()
    FLAG = auto()
    RUNTIME = auto()

    @property
    def strict(self) -> bool:
        """True if an invalid value is an error."""
        return self in (SettingOrigin.ENVIRONMENT, SettingOrigin.FLAG, SettingOrigin.RUNTIME)

    @property
    def stranger(self) -> bool:
        """True if only harmless values are accepted."""
        return self in (SettingOrigin.PROJECT, SettingOrigin.RUNTIME)


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """A value as it was written, with its origin."""

    key: Key | FamilyKey
    value: object
    origin: str


@dataclass(slots=True)
class Layers:
    """Merged values with their origins; `lay` adds those of one more origin."""

    values: dict[str, object] = field(
        default_factory=lambda: {key.name: key.default for key in KEYS}
    )
    origins: dict[str, str] = field(default_factory=dict)
    families: dict[str, object] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def lay(
        self,
        entries: Iterable[SettingEntry],
        speaker: SettingOrigin,
        held: Layers,
        root: Path | None,
    ) -> None:
        """Merge `entries` over the values so far.

        `held` are the values without any project's files.

        Raises: ConfigError (CONFIG_INVALID), if a strict origin has a value that isn't allowed.
        """
        for entry in entries:
            key = entry.key
            try:
                value = key.parse(entry.value) if isinstance(key, Key) else entry.value
            except ValueError as error:
                self._complain(entry, speaker, f"{_shown(entry)} is not allowed; give {error}")
                continue
            value, complaint = _admit(key, value, speaker, held, root)
            if complaint:
                self._complain(entry, speaker, complaint)
            if value is None:
                continue
            (self.values if isinstance(key, Key) else self.families)[key.name] = value
            self.origins[key.name] = entry.origin

    def _complain(self, entry: SettingEntry, speaker: SettingOrigin, complaint: str) -> None:
        message = f"{entry.origin}: {entry.key.name}: {complaint}"
        if speaker.strict:
            raise ConfigError(
                "CONFIG_INVALID", message, context={"key": entry.key.name, "origin": entry.origin}
            )
        self.warnings.append(f"{message} (ignored)")


def apply_limits(values: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """Apply the limits between settings; returns the values and a warning for each changed one."""
    settled, warnings = dict(values), []
    ceilings = {
        "workspace.maxFiles": _as_int(values["limits.processing.max_files"]),
        "workspace.maxFileSize": _as_int(values["limits.processing.max_file_size"]),
        "indexing.chunkOverlap": _as_int(values["indexing.chunkSize"]) // 2,
        "mcp.kb.search.default_limit": _as_int(values["mcp.kb.search.max_limit"]),
    }
    reasons = {
        "indexing.chunkOverlap": "half of indexing.chunkSize",
        "mcp.kb.search.default_limit": "mcp.kb.search.max_limit",
    }
    for key in KEYS:
        ceiling = ceilings.get(key.name)
        if ceiling is not None and _as_int(values[key.name]) > ceiling:
            settled[key.name] = ceiling
            reason = reasons.get(key.name, f"limits.processing.{key.attribute[-1]}")
            warnings.append(
                f"{key.name}: {key.show(values[key.name])} is more than {reason} allows; "
                f"{key.show(ceiling)} counts"
            )
    if values["server.enableTelemetry"]:
        warnings.append(
            "server.enableTelemetry: there is no telemetry; nothing is collected or sent"
        )
    excluded = (*_texts(values["workspace.excludePatterns"]), *_texts(values["paths.ignore"]))
    settled["workspace.excludePatterns"] = tuple(dict.fromkeys(excluded))
    return settled, warnings


def _admit(
    key: Key | FamilyKey, value: object, speaker: SettingOrigin, held: Layers, root: Path | None
) -> tuple[object, str]:
    """Restrict `value` to what this origin may set (None: nothing); also returns the reason."""
    if key.trust is Trust.ENVIRONMENT and speaker is not SettingOrigin.ENVIRONMENT:
        variables = key.variables if isinstance(key, Key) else ()
        return None, f"counts only from the environment ({', '.join(variables)})"
    if not speaker.stranger:
        return value, ""
    if isinstance(key, FamilyKey) and key.trust is not Trust.NEVER and not _is_flat(value):
        return None, "give a single value or a list"
    before = held.values.get(key.name)
    match key.trust:
        case Trust.NEVER if value != before:
            return None, "counts only from your own configuration, the environment or a flag"
        case Trust.LOOPBACK if value:
            return _admit_address(str(value), held, root)
        case Trust.INSIDE:
            return _admit_paths(value, root)
        case Trust.LOWER if _exceeds(key, value, before):
            return (
                None,
                f"a project may lower this limit, not raise it above {_shown_held(key, held)}",
            )
        case Trust.CAPPED if key.name in held.origins and _exceeds(key, value, before):
            return (
                None,
                f"you set {_shown_held(key, held)}: a project may lower this limit, not raise it",
            )
        case Trust.ON if before and not value:
            return None, "a project may turn this on, not off"
        case Trust.PROVIDER if not _is_configured(str(value), held):
            return (
                None,
                f"{value!r} can be chosen only where your own configuration, the environment or "
                "a flag configures it",
            )
    return value, ""


def _admit_address(address: str, held: Layers, root: Path | None) -> tuple[object, str]:
    """Admit an embedding server on this machine, for a project that may name one.

    The user allows that per project, because queries are sent to the server.
    """
    if not stays_here(address):
        return (
            None,
            "an address beyond this machine counts only from your own configuration, the "
            "environment or a flag",
        )
    if not is_embedding_address(address):
        return (
            None,
            "a project may only name an embedding server's own path: /embed, /v1 or /v1/embeddings",
        )
    allowed = _texts(held.values["embedding.allowed_projects"])
    if root is None or not any(_is_same_folder(path, root) for path in allowed):
        return None, "questions would go there: allow this project once with `cortex chunks allow`"
    return address, ""


def _is_same_folder(path: str, root: Path) -> bool:
    try:
        return Path(path).resolve() == root.resolve()
    except (OSError, ValueError, RuntimeError):
        return False


def _admit_paths(value: object, root: Path | None) -> tuple[object, str]:
    """Admit paths at or below the root, made absolute."""
    written = (value,) if isinstance(value, str) else _texts(value)
    kept, outside = [], []
    for path in written:
        inside = _resolve_inside(path, root) if root and isinstance(path, str) else ""
        (kept if inside else outside).append(inside or path)
    complaint = (
        "a path outside the project counts only from your own configuration, the environment "
        f"or a flag: {_SHORT.repr(outside)}"
        if outside
        else ""
    )
    if not kept:
        return None, complaint
    return (kept[0] if isinstance(value, str) else tuple(kept)), complaint


def _resolve_inside(path: str, root: Path) -> str:
    try:
        resolved = (root / path).resolve()
        return str(resolved) if resolved.is_relative_to(root.resolve()) else ""
    # A null character, or a loop of links.
    except (OSError, ValueError, RuntimeError):
        return ""


# Settings by which the user configures the server of a provider.
_PROVIDER_KEYS = {
    "openai": ("providers.openai.apiKey", "providers.openai.baseUrl"),
    "ollama": ("providers.ollama.baseUrl", "providers.ollama.model"),
    "cortex-embed": ("providers.cortexEmbed.baseUrl", "providers.cortexEmbed.token"),
}


def _is_configured(provider: str, held: Layers) -> bool:
    """Return whether the user configured a provider; one without a server needs nothing."""
    names = _PROVIDER_KEYS.get(provider, ())
    return not names or any(
        held.values[key.name] != key.default for key in KEYS if key.name in names
    )


def _shown(entry: SettingEntry) -> str:
    """Return the value as written, hidden where it is a secret or an address that may hold one."""
    key = entry.key
    hidden = isinstance(key, Key) and (
        key.secret or (key.kind == "address" and re.search("[@?#]", str(entry.value)))
    )
    return "the value" if hidden else _SHORT.repr(entry.value)


def _shown_held(key: Key | FamilyKey, held: Layers) -> str:
    if key.name == "indexing.workers" and not held.values[key.name]:
        return "what the number of cores gives"
    return key.show(held.values[key.name]) if isinstance(key, Key) else ""


def _is_flat(value: object) -> bool:
    """Return whether `value` is no deeper than a list.

    A value that unfolds without end would be shown without end.
    """
    return (
        all(not isinstance(part, dict | list) for part in value)
        if isinstance(value, list)
        else not isinstance(value, dict)
    )


def _exceeds(key: Key | FamilyKey, value: object, held: object) -> bool:
    # 0 means by the number of cores; only 1 worker is certainly not more than that.
    if key.name == "indexing.workers" and 0 in (value, held):
        return value not in (held, 1)
    return _as_number(value) > _as_number(held)


def _as_number(value: object) -> float:
    return value if isinstance(value, int | float) else 0.0


def _as_int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _texts(value: object) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()

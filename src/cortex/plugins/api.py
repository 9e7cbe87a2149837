"""What a plugin is: the class that its author derives from, what its hooks get and what they give
back.

Only the standard library, so that a plugin needs nothing but this module, and not even that:
whatever has the attributes and methods is a plugin, and JSON values of the same shape do for the
answers. How a plugin is run isn't known here. Not taken: a hook for each category; what a plugin
may do is said by its permissions, the category only says to people what it is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

GROUP = "cortex.plugins"  # the entry points by which plugins are found
CATEGORIES: Mapping[str, str] = {
    "context": "brings context that Cortex itself doesn't have",
    "ingestion": "brings observations from elsewhere",
    "routing": "tells where something belongs",
    "policy": "says what may be written",
}
PERMISSIONS: Mapping[str, str] = {
    "context": "is asked for sections of a context pack, and sees the subject and what the pack has so far",
    "preflight": "sees every text before it is written, and may refuse or redact it",
    "observe": "is called at start, now and then and at the end, and may return observations",
    "files": "gets to know where the workspace is on disk",
}
HOOKS: Mapping[str, str] = {  # hook -> the permission without which it is never called
    "on_start": "observe",
    "on_periodic": "observe",
    "on_stop": "observe",
    "enrich_context_pack": "context",
    "preflight_upload": "preflight",
}


@dataclass(frozen=True, slots=True)
class Context:
    """What a plugin knows of where it runs."""

    config: Mapping[str, object]  # its own settings, which fit its `config_schema`
    root: str | None = None  # the workspace; only with the permission "files"


@dataclass(frozen=True, slots=True)
class Subject:
    """What a context pack is about."""

    # Thread, task, subcortex, artifact, code; bootstrap: a project that nothing is known of yet
    kind: str
    id: str = ""
    title: str = ""
    path: str = ""  # of a file, relative to `repo_root`
    symbol: str = ""
    repo_root: str = ""  # only with the permission "files"
    # The symbol's first and last line in the file as it is now
    lines: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a section; the id is that of what it speaks of, where it has one."""

    text: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a context pack."""

    title: str
    lines: tuple[Line, ...]
    plugin: str = ""  # whose it is; Cortex sets it


@dataclass(frozen=True, slots=True)
class Redaction:
    """text[start:end] is replaced by "[redacted: name]" before it is written."""

    start: int
    end: int
    name: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a text may be written, and what must go before it is."""

    allowed: bool = True
    redactions: tuple[Redaction, ...] = ()
    warnings: tuple[str, ...] = ()
    reason: str = ""  # why not


@dataclass(frozen=True, slots=True)
class Observation:
    """Something that a plugin noticed, to be kept."""

    title: str
    summary: str
    tags: tuple[str, ...] = field(default=())
    plugin: str = ""  # whose it is; Cortex sets it


class Plugin:
    """The base of a plugin: declare, and override the hooks that you need."""

    name: ClassVar[str] = ""  # as in the entry point and in the settings
    category: ClassVar[str] = "context"  # one of CATEGORIES
    permissions: ClassVar[tuple[str, ...]] = ()  # out of PERMISSIONS
    config_schema: ClassVar[Mapping[str, object]] = {
        "type": "object",
        "additionalProperties": False,
    }

    def __init__(self, context: Context) -> None:
        self.context = context

    def on_start(self, context: Context) -> Iterable[Observation]:
        """Work in the workspace begins."""
        return ()

    def on_periodic(self, context: Context) -> Iterable[Observation]:
        """Some time has passed."""
        return ()

    def on_stop(self, context: Context) -> Iterable[Observation]:
        """Work in the workspace ends."""
        return ()

    def enrich_context_pack(
        self, subject: Subject, partial: Sequence[Section]
    ) -> Iterable[Section]:
        """Sections to add to a pack about `subject`; `partial` is what it has so far."""
        return ()

    def preflight_upload(self, text: str) -> Verdict:
        """Whether this text may be written."""
        return Verdict()

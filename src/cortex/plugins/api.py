"""Plugin API: the base class, and the arguments and results of its hooks.

Standard library only, so that a plugin needs nothing but this module, and not even that: any class
with these attributes and methods is a plugin, and hooks may return JSON values of the same shape.
The process that runs a plugin isn't known here. Not taken: a hook for each category; permissions
say what a plugin may do, the category is only a description for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

# Entry point group of plugins.
GROUP = "cortex.plugins"
CATEGORIES: Mapping[str, str] = {
    "context": "brings context that Cortex itself doesn't have",
    "ingestion": "brings observations from elsewhere",
    "routing": "decides where something belongs",
    "policy": "says what may be written",
}
PERMISSIONS: Mapping[str, str] = {
    "context": "is asked for sections of a context pack, and sees the subject and what the pack "
    "has so far",
    "preflight": "sees every text before it is written, and may refuse or redact it",
    "observe": "is called at start, now and then and at the end, and may return observations",
    "files": "gets to know where the workspace is on disk",
}
# The permission that each hook needs to be called.
HOOKS: Mapping[str, str] = {
    "on_start": "observe",
    "on_periodic": "observe",
    "on_stop": "observe",
    "enrich_context_pack": "context",
    "preflight_upload": "preflight",
}


@dataclass(frozen=True, slots=True)
class Context:
    """Environment of a plugin."""

    config: Mapping[str, object]  # the plugin's settings, valid by its `config_schema`
    root: str | None = None  # the workspace; only with the permission "files"


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of a context pack."""

    # Thread, task, subcortex, artifact, code, or bootstrap for a project without any records.
    kind: str
    id: str = ""
    title: str = ""
    path: str = ""  # of a file, relative to `repo_root`
    symbol: str = ""
    repo_root: str = ""  # only with the permission "files"
    # The symbol's first and last line in the file as it is now.
    lines: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a section, with the id of the thing it is about, if that has one."""

    text: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a context pack."""

    title: str
    lines: tuple[Line, ...]
    plugin: str = ""  # name of the plugin; set by Cortex


@dataclass(frozen=True, slots=True)
class Redaction:
    """A range of the text that is replaced by "[redacted: name]" before it is written."""

    start: int
    end: int
    name: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Permission to write a text, with the ranges to redact first."""

    allowed: bool = True
    redactions: tuple[Redaction, ...] = ()
    warnings: tuple[str, ...] = ()
    reason: str = ""  # why it isn't allowed


@dataclass(frozen=True, slots=True)
class Observation:
    """Something that a plugin noticed, to be recorded."""

    title: str
    summary: str
    tags: tuple[str, ...] = field(default=())
    plugin: str = ""  # name of the plugin; set by Cortex


class Plugin:
    """Base class of plugins: declare the class attributes and override the hooks you need."""

    name: ClassVar[str] = ""  # as in the entry point and in the settings
    category: ClassVar[str] = "context"  # one of CATEGORIES
    permissions: ClassVar[tuple[str, ...]] = ()  # keys of PERMISSIONS
    config_schema: ClassVar[Mapping[str, object]] = {
        "type": "object",
        "additionalProperties": False,
    }

    def __init__(self, context: Context) -> None:
        self.context = context

    def on_start(self, context: Context) -> Iterable[Observation]:
        """Called when work in the workspace begins."""
        return ()

    def on_periodic(self, context: Context) -> Iterable[Observation]:
        """Called from time to time."""
        return ()

    def on_stop(self, context: Context) -> Iterable[Observation]:
        """Called when work in the workspace ends."""
        return ()

    def enrich_context_pack(
        self, subject: Subject, partial: Sequence[Section]
    ) -> Iterable[Section]:
        """Return sections to add to a pack about `subject`; `partial` is the pack so far."""
        return ()

    def preflight_upload(self, text: str) -> Verdict:
        """Judge whether this text may be written."""
        return Verdict()

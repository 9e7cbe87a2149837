"""The plugins that a person's settings name, opened together: ask them for sections, verdicts and
observations.

A plugin that fails costs its own answer and leaves a warning; only what is about to be written
waits for every plugin that has a say in it, and where one can't be asked the answer is no. Asked
one after the other, in the order of the settings, so that each sees what the one before redacted.
Knows neither records nor packs: sections go out, texts come in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial as bound
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

from cortex.base.errors import ConfigError
from cortex.base.secret_scanner import redact
from cortex.plugins.api import GROUP, HOOKS, Observation, Plugin, Redaction, Section, Subject
from cortex.plugins.builtin_coldstart import ColdStart
from cortex.plugins.builtin_git_history import GitHistory
from cortex.plugins.host_process import Failed, Host, Inside, ProcessLimits
from cortex.plugins.results import Clean, observations_of, sections_of, verdict_of

SWITCH = "enabled"  # the one word in a plugin's settings that is ours
BUILT_IN: Mapping[str, type[Plugin]] = {kind.name: kind for kind in (GitHistory, ColdStart)}


@dataclass(frozen=True, slots=True)
class Failure:
    """A plugin that gave no answer, and why."""

    plugin: str
    why: str

    def __str__(self) -> str:
        return f"plugin {self.plugin}: {self.why}"


@dataclass(frozen=True, slots=True)
class Screening:
    """Whether a text may be written, and what it is without what must not be."""

    allowed: bool
    text: str
    warnings: tuple[str, ...] = ()
    reason: str = ""  # why not
    unusable: str = ""  # the plugin that couldn't be asked


@dataclass(frozen=True, slots=True)
class PluginState:
    """How a plugin stands; nothing is started to know it."""

    name: str
    category: str = ""  # "" until it was first used
    permissions: tuple[str, ...] = ()
    resting: str = ""  # why it isn't asked any more


def known_names() -> tuple[str, ...]:
    """The plugins that can be turned on: those that come with Cortex, and those that are installed
    beside it.
    """
    installed = {point.name for point in entry_points(group=GROUP)}
    return (*BUILT_IN, *sorted(installed - set(BUILT_IN)))


def check_known(names: Iterable[str]) -> None:
    """Raises: ConfigError PLUGIN_UNKNOWN with the names that are known."""
    known = known_names()
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(
            "PLUGIN_UNKNOWN",
            f"unknown plugin {unknown[0]!r}; known: {', '.join(known)}",
            context={"plugin": unknown[0], "known": list(known)},
        )


def enabled_by(names: Iterable[str], settings: object = None) -> dict[str, object]:
    """The plugins that are on, each with its own settings: of those in `names` the ones that their
    settings don't turn off.
    """
    given = cast(Mapping[str, object], settings) if isinstance(settings, Mapping) else {}
    enabled: dict[str, object] = {}
    for name in names:
        own = given.get(name, {})
        if isinstance(own, Mapping):
            if own.get(SWITCH, True) is False:
                continue
            own = {key: value for key, value in own.items() if key != SWITCH}
        enabled[name] = own
    return enabled


class Plugins:
    """The plugins that are on; each starts when it is first asked and ends when it is idle."""

    def __init__(
        self,
        enabled: Mapping[str, object],
        root: Path | None = None,
        limits: ProcessLimits | None = None,
        *,
        redacted: bool = True,
    ) -> None:
        """`enabled` is what `enabled_by` makes of the settings: a plugin's name -> its own
        settings, in the order of asking.

        `redacted` takes secrets out of what they add to a pack.
        """
        self._limits = limits or ProcessLimits()
        self._clean: Clean = _without_secrets if redacted else str
        self._hosts: list[Host | Inside] = []
        place = None if root is None else str(root)
        for name, config in enabled.items():
            if name in BUILT_IN:
                self._hosts.append(Inside(BUILT_IN[name], config, place))
            else:
                self._hosts.append(Host(name, config, place, self._limits))

    def names(self) -> tuple[str, ...]:
        """The plugins that are on."""
        return tuple(host.name for host in self._hosts)

    def standing(self) -> tuple[PluginState, ...]:
        """How each plugin that is on stands."""
        found = []
        for host in self._hosts:
            known = host.known
            of = (known.category, tuple(sorted(known.permissions))) if known else ("", ())
            found.append(PluginState(host.name, *of, host.breaker.resting))
        return tuple(found)

    def enrich(
        self, subject: Subject, partial: Sequence[Section] = ()
    ) -> tuple[list[Section], list[str]]:
        """What the plugins add to a context pack about `subject` that has `partial` so far, and
        warnings.
        """
        sections: list[Section] = []
        warnings: list[str] = []
        for host in self._with("enrich_context_pack", warnings):
            files = "files" in host.declared().permissions
            arguments = {
                "subject": subject if files else replace(subject, repo_root=""),
                "partial": tuple(partial),
            }
            read: Callable[[object], list[Section]] = bound(
                sections_of, plugin=host.name, clean=self._clean
            )
            try:
                sections += host.call(
                    "enrich_context_pack", arguments, self._limits.answer_seconds, read
                )
            except Failed as failed:
                warnings.append(str(Failure(host.name, str(failed))))
        return sections, warnings

    def preflight(self, text: str) -> Screening:
        """Whether `text` may be written; no, where a plugin that has a say can't be asked."""
        warnings: list[str] = []
        for host in self._hosts:
            try:
                if not _has(host, "preflight_upload"):
                    continue
                read = bound(verdict_of, text=text)
                verdict = host.call(
                    "preflight_upload", {"text": text}, self._limits.answer_seconds, read
                )
            except Failed as failed:
                return Screening(
                    False,
                    text,
                    tuple(warnings),
                    f"the plugin {host.name} can't be used ({failed})",
                    unusable=host.name,
                )
            warnings += (f"plugin {host.name}: {warning}" for warning in verdict.warnings)
            if not verdict.allowed:
                reason = (
                    f"the plugin {host.name} refuses it: {verdict.reason or 'it gives no reason'}"
                )
                return Screening(False, text, tuple(warnings), reason)
            text = _redacted(text, verdict.redactions)
        return Screening(True, text, tuple(warnings))

    def start(self) -> tuple[list[Observation], list[str]]:
        """Work in the workspace begins: what the plugins noticed, and warnings."""
        return self._observations("on_start")

    def periodic(self) -> tuple[list[Observation], list[str]]:
        """Some time has passed: what the plugins noticed, and warnings."""
        return self._observations("on_periodic")

    def stop(self) -> tuple[list[Observation], list[str]]:
        """Work in the workspace ends: what the plugins noticed, and warnings."""
        return self._observations("on_stop")

    def close(self) -> None:
        """End every process that a plugin runs in."""
        for host in self._hosts:
            host.close()

    def __enter__(self) -> Plugins:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _observations(self, hook: str) -> tuple[list[Observation], list[str]]:
        observations: list[Observation] = []
        warnings: list[str] = []
        for host in self._with(hook, warnings):
            read: Callable[[object], list[Observation]] = bound(observations_of, plugin=host.name)
            try:
                observations += host.call(hook, {}, self._limits.event_seconds, read)
            except Failed as failed:
                warnings.append(str(Failure(host.name, str(failed))))
        return observations, warnings

    def _with(self, hook: str, warnings: list[str]) -> Iterator[Host | Inside]:
        """The plugins that have the hook and may be asked; a warning for each that can't say."""
        for host in self._hosts:
            try:
                if _has(host, hook):
                    yield host
            except Failed as failed:
                warnings.append(str(Failure(host.name, str(failed))))


def _has(host: Host | Inside, hook: str) -> bool:
    """Whether the plugin has a hook and the permission that it needs.

    Raises:
        Failed: the plugin can't say.
    """
    declared = host.declared()
    return HOOKS[hook] in declared.permissions and hook in declared.hooks


def _without_secrets(text: str) -> str:
    return redact(text)[0]


def _redacted(text: str, redactions: Sequence[Redaction]) -> str:
    """The text without these parts; where two overlap, both go, under the first one's name."""
    parts: list[str] = []
    at = 0
    for one in sorted(redactions, key=lambda one: (one.start, one.end)):
        if one.start >= at:
            parts += [text[at : one.start], f"[redacted: {one.name}]"]
        at = max(at, one.end)
    return "".join((*parts, text[at:]))

"""Registry of the enabled plugins: ask them for sections, verdicts and observations.

A plugin that fails costs its own answer and leaves a warning. Writes are different: every plugin
that screens them must answer, and where one can't be asked the text is rejected. Plugins are asked
one after the other, in the order of the settings, so that each sees the text as redacted by the one
before. Knows neither records nor packs: sections go out, texts come in.
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
from cortex.plugins.host_process import Failed, Host, InProcessPlugin, ProcessLimits
from cortex.plugins.results import Clean, observations_of, sections_of, verdict_of

# The one key in a plugin's settings that Cortex reads itself.
SWITCH = "enabled"
BUILT_IN: Mapping[str, type[Plugin]] = {kind.name: kind for kind in (GitHistory, ColdStart)}


@dataclass(frozen=True, slots=True)
class Failure:
    """A plugin that gave no answer, and the reason."""

    plugin: str
    why: str

    def __str__(self) -> str:
        return f"plugin {self.plugin}: {self.why}"


@dataclass(frozen=True, slots=True)
class Screening:
    """Result of screening a text: permission, and the redacted text."""

    allowed: bool
    text: str
    warnings: tuple[str, ...] = ()
    reason: str = ""  # why it isn't allowed
    unusable: str = ""  # the plugin that couldn't be asked


@dataclass(frozen=True, slots=True)
class PluginState:
    """State of a plugin, read without starting it."""

    name: str
    category: str = ""  # "" until it was first used
    permissions: tuple[str, ...] = ()
    resting: str = ""  # why it is disabled


def known_names() -> tuple[str, ...]:
    """List the plugins that can be enabled: built-in ones, and those installed beside Cortex."""
    installed = {point.name for point in entry_points(group=GROUP)}
    return (*BUILT_IN, *sorted(installed - set(BUILT_IN)))


def check_known(names: Iterable[str]) -> None:
    """Check that all these plugins are known.

    Raises: ConfigError PLUGIN_UNKNOWN with the names that are known.
    """
    known = known_names()
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(
            "PLUGIN_UNKNOWN",
            f"unknown plugin {unknown[0]!r}; known: {', '.join(known)}",
            context={"plugin": unknown[0], "known": list(known)},
        )


def enabled_by(names: Iterable[str], settings: object = None) -> dict[str, object]:
    """Return the enabled plugins with their settings: those in `names` that aren't switched off."""
    by_plugin = cast(Mapping[str, object], settings) if isinstance(settings, Mapping) else {}
    enabled: dict[str, object] = {}
    for name in names:
        config = by_plugin.get(name, {})
        if isinstance(config, Mapping):
            if config.get(SWITCH, True) is False:
                continue
            config = {key: value for key, value in config.items() if key != SWITCH}
        enabled[name] = config
    return enabled


class Plugins:
    """The enabled plugins; each starts when it is first asked and ends when it is idle."""

    def __init__(
        self,
        enabled: Mapping[str, object],
        root: Path | None = None,
        limits: ProcessLimits | None = None,
        *,
        redacted: bool = True,
    ) -> None:
        """Prepare the plugins; nothing is started yet.

        `enabled` is the result of `enabled_by`: settings by plugin name, in the order of asking.
        `redacted` removes secrets from the sections that they add to a pack.
        """
        self._limits = limits or ProcessLimits()
        self._clean: Clean = _without_secrets if redacted else str
        self._hosts: list[Host | InProcessPlugin] = []
        place = None if root is None else str(root)
        for name, config in enabled.items():
            if name in BUILT_IN:
                self._hosts.append(InProcessPlugin(BUILT_IN[name], config, place))
            else:
                self._hosts.append(Host(name, config, place, self._limits))

    def names(self) -> tuple[str, ...]:
        """Return the names of the enabled plugins."""
        return tuple(host.name for host in self._hosts)

    def standing(self) -> tuple[PluginState, ...]:
        """Return the state of each enabled plugin."""
        states = []
        for host in self._hosts:
            known = host.known
            facts = (known.category, tuple(sorted(known.permissions))) if known else ("", ())
            states.append(PluginState(host.name, *facts, host.breaker.resting))
        return tuple(states)

    def enrich(
        self, subject: Subject, partial: Sequence[Section] = ()
    ) -> tuple[list[Section], list[str]]:
        """Return the plugins' sections for a context pack about `subject`, and warnings.

        `partial` is the pack so far.
        """
        sections: list[Section] = []
        warnings: list[str] = []
        for host in self._hosts_with("enrich_context_pack", warnings):
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
        """Screen a text; it is rejected where a plugin that screens writes can't be asked."""
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
        """Signal that work in the workspace begins; returns observations and warnings."""
        return self._observations("on_start")

    def periodic(self) -> tuple[list[Observation], list[str]]:
        """Signal that some time has passed; returns observations and warnings."""
        return self._observations("on_periodic")

    def stop(self) -> tuple[list[Observation], list[str]]:
        """Signal that work in the workspace ends; returns observations and warnings."""
        return self._observations("on_stop")

    def close(self) -> None:
        """End the processes of all plugins."""
        for host in self._hosts:
            host.close()

    def __enter__(self) -> Plugins:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _observations(self, hook: str) -> tuple[list[Observation], list[str]]:
        observations: list[Observation] = []
        warnings: list[str] = []
        for host in self._hosts_with(hook, warnings):
            read: Callable[[object], list[Observation]] = bound(observations_of, plugin=host.name)
            try:
                observations += host.call(hook, {}, self._limits.event_seconds, read)
            except Failed as failed:
                warnings.append(str(Failure(host.name, str(failed))))
        return observations, warnings

    def _hosts_with(self, hook: str, warnings: list[str]) -> Iterator[Host | InProcessPlugin]:
        """Yield the plugins that have a hook and its permission; a warning for each that fails."""
        for host in self._hosts:
            try:
                if _has(host, hook):
                    yield host
            except Failed as failed:
                warnings.append(str(Failure(host.name, str(failed))))


def _has(host: Host | InProcessPlugin, hook: str) -> bool:
    """Return whether the plugin has a hook and the permission that it needs.

    Raises:
        Failed: the plugin can't be loaded.
    """
    declared = host.declared()
    return HOOKS[hook] in declared.permissions and hook in declared.hooks


def _without_secrets(text: str) -> str:
    return redact(text)[0]


def _redacted(text: str, redactions: Sequence[Redaction]) -> str:
    """Replace the given ranges; overlapping ones become one, with the name of the first."""
    parts: list[str] = []
    position = 0
    for redaction in sorted(redactions, key=lambda redaction: (redaction.start, redaction.end)):
        if redaction.start >= position:
            parts += [text[position : redaction.start], f"[redacted: {redaction.name}]"]
        position = max(position, redaction.end)
    return "".join((*parts, text[position:]))

"""The settings of an index: those that count now, as files and tools change them, and those that it
was made with.

`FollowedSettings` reads files again where they changed, and what `update_config` keeps in the
store. `IndexState` compares what an index was made with to what counts now, and puts the difference
into words for answers and commands.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cortex.base.settings import (
    KEYS,
    Key,
    Override,
    Settings,
    apply_override,
    known_key,
    load_again,
    read_override,
)
from cortex.base.settings.load import OWN_FILE
from cortex.base.text import rfc3339
from cortex.base.types import Page, Source
from cortex.engine.indexer import rules_of
from cortex.engine.sources.scanner import matcher
from cortex.engine.store import Store

OVERRIDE = "override"  # in a store, what a tool changed
SETTLE_SECONDS = 0.2  # after which a settings file is taken to be written completely
SHOWN_GAPS = 3
PATTERNS = ("workspace.excludePatterns", "workspace.includePatterns")

log = logging.getLogger(__name__)


class FollowedSettings:
    """The settings of one engine as their files say them, and what a tool changed for its store."""

    def __init__(self, settings: Settings) -> None:
        self.stated = settings  # as files and environment say it, without what a tool changed
        self._override = ""
        self._lock = threading.Lock()

    def look(
        self, store: Store, now: Settings, use: Callable[[Settings], None], settle_seconds: float
    ) -> None:
        """Have `use` called with other settings than `now`, where files or tools have changed them."""
        with self._lock:
            stated, override = (
                load_again(self.stated, settle_seconds=settle_seconds),
                store.truth.get(OVERRIDE),
            )
            is_written = stated is not self.stated
            if not is_written and override == self._override:
                return
            self.stated, self._override = stated, override
            new = apply_override(stated, read_override(override))
            if new == now:
                return
            use(new)
        changed = [key.name for key in KEYS if now.value(key.name) != new.value(key.name)]
        log.info(
            "%s has other settings: %s", store.directory, ", ".join(changed) or "none that differ"
        )
        if is_written and changed and store.lease.held:
            store.log.record("config", {"changed": changed})


@dataclass(frozen=True, slots=True)
class IndexState:
    """What an index was made with, against what its settings say now."""

    store: Store
    source: Source
    root: Path
    settings: Settings
    kept: bool  # this process keeps it fresh, where it holds the lease

    def made_with(self) -> dict[str, object]:
        """The settings that the index was made with, by name; empty before a first run has seen
        everything.
        """
        text = self.store.truth.get(f"settings:{self.source.id}")
        return json.loads(text) if text else {}

    @property
    def override(self) -> Override | None:
        """What a tool changed, None for nothing."""
        return read_override(self.store.truth.get(OVERRIDE))

    def change(self, values: Mapping[str, object], by: str) -> None:
        """Let values count in place of what files say, for all who use the store, until a person
        ends that.

        Raises: ConfigError CONFIG_INVALID, where they aren't allowed; StoreError.
        """
        self.settings.changed(values)
        changed = Override(
            {**(self.override or Override()).settings, **values}, by, rfc3339(int(time.time()))
        )
        self.store.truth.set({OVERRIDE: changed.as_text()})
        self.store.log.record("config", {"changed": dict(values), "by": by})

    @property
    def over_limit(self) -> int:
        """How many files the index doesn't hold because it is full (workspace.maxFiles)."""
        return int(self.store.truth.get(f"over:{self.source.id}", "0"))

    def describe(self) -> dict[str, object]:
        """The settings that the index was made with where they aren't the default, and what a tool
        changed; often nothing.
        """
        defaults = {
            key.name: list(key.default) if isinstance(key.default, tuple) else key.default
            for key in KEYS
        }
        out: dict[str, object] = {}
        if special := {
            name: value for name, value in self.made_with().items() if value != defaults.get(name)
        }:
            out["madeWith"] = special
        if self.override is not None:
            out["override"] = {**asdict(self.override), "end": "cortex config end-override"}
        return out

    def shortcomings(self) -> tuple[str, ...]:
        """What every answer has to say: files that there is no room for, settings that don't count
        or aren't followed yet.
        """
        return (*self.settings.ignored_files(), *self._over_limit_in_words(), *self._gap_in_words())

    def without_excluded(self, page: Page) -> Page:
        """The page without what the settings exclude by now, where the index was made with other
        patterns.
        """
        made, now = self.made_with(), self.settings.index_values()
        if all(made.get(name) == now[name] for name in PATTERNS):
            return page
        belongs = matcher(self.root, rules_of(self.settings, self.root))
        hits = tuple(hit for hit in page.hits if belongs(hit.path))
        return replace(page, hits=hits, total=page.total - len(page.hits) + len(hits))

    def _over_limit_in_words(self) -> Iterator[str]:
        over, most = self.over_limit, self.settings.workspace.max_files
        ceiling, origin = (
            self.settings.limits.processing.max_files,
            self.settings.origin("workspace.maxFiles"),
        )
        if not over:
            return
        files, needed = "1 file is" if over == 1 else f"{over:,} files are", most + over
        text = f"{files} not indexed, because workspace.maxFiles is {most:,}"
        if needed > ceiling:
            fix = f": raise it and limits.processing.max_files (now {ceiling:,}) to {needed}"
        elif origin in ("default", str(self.settings.home / OWN_FILE)):
            fix = f": run `cortex config set workspace.maxFiles {needed}`"
        elif origin == "runtime":
            fix = f" (set by the tool update_config): raise it to {needed} with that tool"
        else:
            fix = f" (set by {origin}): raise it to {needed} there"
        yield f"{text}{fix}, or exclude some files"

    def _gap_in_words(self) -> Iterator[str]:
        made, now = self.made_with(), self.settings.index_values()
        gap = [name for name in now if name in made and made[name] != now[name]]
        if gap:
            parts = "; ".join(_difference(name, made[name], now[name]) for name in gap[:SHOWN_GAPS])
            yield f"the index was made with other settings ({parts}): {self._who_closes_the_gap()}"

    def _who_closes_the_gap(self) -> str:
        lease = self.store.lease
        if lease.held:
            return "it is being brought up to date" if self.kept else "run `cortex index`"
        holder = lease.holder()
        return f"process {holder} keeps it, with its own" if holder > 0 else "run `cortex index`"


def _difference(name: str, then: object, now: object) -> str:
    key = known_key(name)
    is_short = isinstance(key, Key) and not isinstance(now, list)
    return (
        f"{name} {key.show(then)}, now {key.show(now)}"
        if isinstance(key, Key) and is_short
        else name
    )

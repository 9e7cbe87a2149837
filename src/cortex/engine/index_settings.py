"""Settings of an index: the current ones, and those it was made with.

`FollowedSettings` reloads changed files, and what `update_config` keeps in the store. `IndexState`
compares the settings an index was made with to the current ones, and describes the difference for
answers and commands.
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

# Key in a store for the changes by tools.
OVERRIDE = "override"
# Age at which a settings file counts as completely written.
SETTLE_SECONDS = 0.2
SHOWN_GAPS = 3
PATTERNS = ("workspace.excludePatterns", "workspace.includePatterns")

log = logging.getLogger(__name__)


class FollowedSettings:
    """Settings of one engine: those of the files, and a tool's changes for its store."""

    def __init__(self, settings: Settings) -> None:
        # From files and environment, without the changes by tools.
        self.stated = settings
        self._override = ""
        self._lock = threading.Lock()

    def look(
        self, store: Store, now: Settings, use: Callable[[Settings], None], settle_seconds: float
    ) -> None:
        """Call `use` with the new settings where files or tools have changed them."""
        with self._lock:
            stated, override = (
                load_again(self.stated, settle_seconds=settle_seconds),
                store.content.get(OVERRIDE),
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
    """Settings that an index was made with, compared to the current ones."""

    store: Store
    source: Source
    root: Path
    settings: Settings
    # An auto-indexer of this process keeps it fresh, if it holds the lease.
    is_auto_indexed: bool

    @property
    def indexed(self) -> bool:
        """True once a full run of the source is done."""
        return bool(self.store.content.indexed_at(self.source.id))

    def made_with(self) -> dict[str, object]:
        """Settings the index was made with, by name; empty before a first full run."""
        text = self.store.content.get(f"settings:{self.source.id}")
        return json.loads(text) if text else {}

    @property
    def override(self) -> Override | None:
        """Changes by tools; None without any."""
        return read_override(self.store.content.get(OVERRIDE))

    def change(self, values: Mapping[str, object], by: str) -> None:
        """Override settings of files for all users of the store, until a person ends it.

        Raises: ConfigError CONFIG_INVALID where the values aren't allowed; StoreError.
        """
        self.settings.changed(values)
        changed = Override(
            {**(self.override or Override()).settings, **values}, by, rfc3339(int(time.time()))
        )
        self.store.content.set({OVERRIDE: changed.as_text()})
        self.store.log.record("config", {"changed": dict(values), "by": by})

    @property
    def over_limit(self) -> int:
        """Number of files left out because the index is full (workspace.maxFiles)."""
        return self.store.content.number(f"over:{self.source.id}")

    def describe(self) -> dict[str, object]:
        """Non-default settings the index was made with, and overrides; often empty."""
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
        """Notes for every answer.

        Files beyond the limit, settings files that are ignored, and settings not yet applied.
        """
        return (*self.settings.ignored_files(), *self._limit_notes(), *self._difference_notes())

    def without_excluded(self, page: Page) -> Page:
        """Drop hits that the current patterns exclude.

        They occur where the index was made with other patterns.
        """
        made, now = self.made_with(), self.settings.index_values()
        if all(made.get(name) == now[name] for name in PATTERNS):
            return page
        belongs = matcher(self.root, rules_of(self.settings, self.root))
        hits = tuple(hit for hit in page.hits if belongs(hit.path))
        return replace(page, hits=hits, total=page.total - len(page.hits) + len(hits))

    def _limit_notes(self) -> Iterator[str]:
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

    def _difference_notes(self) -> Iterator[str]:
        made, now = self.made_with(), self.settings.index_values()
        gap = [name for name in now if name in made and made[name] != now[name]]
        if gap:
            parts = "; ".join(_difference(name, made[name], now[name]) for name in gap[:SHOWN_GAPS])
            yield f"the index was made with other settings ({parts}): {self._describe_update()}"

    def _describe_update(self) -> str:
        lease = self.store.lease
        if lease.held:
            return (
                "it is being brought up to date" if self.is_auto_indexed else "run `cortex index`"
            )
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

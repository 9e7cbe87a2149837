"""The sources that records are found in, by name: one for each kind, or where permission counts,
for each kind, scope and sensitivity.

Such a shelf holds what the same people may see, so that permission in a search is a choice of
sources, made before anything is counted or cut. A source without "@" in its name is of a kind
alone; "!" before it says that its texts get no vectors, "!" at the end of the name that they are
sensitive. Here alone such names are made and read; `SHELF_SCOPE` and `SHELF_SENSITIVE` read them in
SQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

RECORDS = "records"  # the kind of a source

# Of a column `name` that has "@"; what a scope could hold that means something here is written as
# in a URL.
_TOLD = "substr(name, instr(name, '@') + 1)"
SHELF_SCOPE = f"replace(replace(rtrim({_TOLD}, '!'), '%21', '!'), '%25', '%')"
SHELF_SENSITIVE = "substr(name, -1) = '!'"


@dataclass(frozen=True, slots=True)
class RecordPartition:
    """What the name of a source of records says."""

    kind: str
    meaning: bool = True  # vectors are made of its texts
    scope: str | None = None  # None where it has every scope
    sensitive: bool = False

    @property
    def name(self) -> str:
        """The name of the source."""
        marked = self.kind + ("" if self.meaning else "!")
        if self.scope is None:
            return marked
        quoted = self.scope.replace("%", "%25").replace("!", "%21")
        return f"{marked}@{quoted}{'!' if self.sensitive else ''}"


@lru_cache(maxsize=20_000)
def shelf_of(name: str) -> RecordPartition:
    """What a name says."""
    marked, filed, rest = name.partition("@")
    kind, meaning = marked.removesuffix("!"), not marked.endswith("!")
    if not filed:
        return RecordPartition(kind, meaning)
    scope = rest.removesuffix("!").replace("%21", "!").replace("%25", "%")
    return RecordPartition(kind, meaning, scope, rest.endswith("!"))

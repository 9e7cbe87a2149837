"""Names of the sources of records: one per kind, or per kind, scope and sensitivity.

With access control, such a partition holds records that the same principals may see, so that
permission in a search is a choice of sources, made before anything is counted or cut off. A source
without "@" in its name covers a whole kind; "!" before the "@" means that its texts get no vectors,
"!" at the end of the name that they are sensitive. Only this module makes and parses such names;
`SHELF_SCOPE` and `SHELF_SENSITIVE` parse them in SQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

# Kind of these sources.
RECORDS = "records"

# Expressions over a column `name` with "@"; special characters in a scope are encoded as in a URL.
_AFTER_AT = "substr(name, instr(name, '@') + 1)"
SHELF_SCOPE = f"replace(replace(rtrim({_AFTER_AT}, '!'), '%21', '!'), '%25', '%')"
SHELF_SENSITIVE = "substr(name, -1) = '!'"


@dataclass(frozen=True, slots=True)
class RecordPartition:
    """Parsed name of a source of records."""

    kind: str
    meaning: bool = True  # True if vectors are made of its texts
    scope: str | None = None  # None for all scopes
    sensitive: bool = False

    @property
    def name(self) -> str:
        """Name of the source."""
        marked = self.kind + ("" if self.meaning else "!")
        if self.scope is None:
            return marked
        quoted = self.scope.replace("%", "%25").replace("!", "%21")
        return f"{marked}@{quoted}{'!' if self.sensitive else ''}"


@lru_cache(maxsize=20_000)
def parse_partition(name: str) -> RecordPartition:
    """Parse the name of a source."""
    marked, filed, rest = name.partition("@")
    kind, meaning = marked.removesuffix("!"), not marked.endswith("!")
    if not filed:
        return RecordPartition(kind, meaning)
    scope = rest.removesuffix("!").replace("%21", "!").replace("%25", "%")
    return RecordPartition(kind, meaning, scope, rest.endswith("!"))

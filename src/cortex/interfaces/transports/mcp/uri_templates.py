"""Resource URIs: the resource that a URI names, and its variables.

Templates are those of RFC 6570 that we publish: `{name}`, `{+name}` and a trailing `{?a,b}`.
Matching is laxer than expansion: clients write `codeindex://file/src/a.py/chunks` as well as
`src%2Fa.py`, so a variable matches plain slashes, too.

Road not taken: the SDK's strict matcher, which finds no resource for an unencoded slash or comma.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from urllib.parse import unquote

from cortex.base.errors import InputError
from cortex.toolkit.tool import Family, Resource

MAX_URI_CHARS = 16_384
_EXPRESSION = re.compile(r"\{([+?]?)([\w,]+)\}")


def find_resource(
    families: Sequence[Family], uri: str
) -> tuple[Family, Resource, Mapping[str, str]] | None:
    """Return the resource that a URI names, or None.

    Raises: InputError for a query parameter that the resource doesn't know.
    """
    if len(uri) > MAX_URI_CHARS:
        return None
    path, _, query = uri.partition("?")
    for family in families:
        for resource in family.resources:
            pattern, parameters = _pattern(resource.uri)
            if match := pattern.fullmatch(path):
                variables = {
                    name: unquote(value, errors="replace")
                    for name, value in match.groupdict().items()
                }
                return family, resource, variables | _query(query, parameters)
    return None


def fixed_uri(resource: Resource) -> str | None:
    """Return the URI of a resource without variables, less its optional query."""
    bare = re.sub(r"\{\?[\w,]+\}$", "", resource.uri)
    return None if "{" in bare else bare


@cache
def _pattern(template: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Compile a template into a pattern for the path and the names of query parameters."""
    expression, parameters, position = "", (), 0
    for part in _EXPRESSION.finditer(template):
        expression += re.escape(template[position : part.start()])
        if part[1] == "?":
            parameters = tuple(part[2].split(","))
        else:
            expression += f"(?P<{part[2]}>.+)"
        position = part.end()
    return re.compile(expression + re.escape(template[position:]), re.DOTALL), parameters


def _query(query: str, known: tuple[str, ...]) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    unknown = sorted({name for name, _, _ in pairs} - set(known))
    if unknown:
        hint = (
            f"known: {', '.join(known)}"
            if known
            else "this resource takes none; write a literal ? as %3F"
        )
        raise InputError("ARGUMENT_INVALID", f"unknown query parameter {unknown[0][:80]!r}; {hint}")
    return {name: unquote(value, errors="replace") for name, _, value in pairs}

"""Local checkout paths of code links, which are never sent to a Core.

Records from the Core get the paths of this machine. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cortex.base.record_model import CodeLink, Record


def without_roots(body: Any) -> Any:
    """Return a body without the local roots of its code links."""
    links: tuple[CodeLink, ...] = getattr(body, "code_links", ())
    if not any(link.root for link in links):
        return body
    return replace(body, code_links=tuple(replace(link, root="") for link in links))


def placed(record: Record[Any], here: Mapping[str, Record[Any]]) -> Record[Any]:
    """Return a record of the Core with the local roots of the same record here.

    Links that the local record doesn't have get no root.
    """
    body = without_roots(record.body)
    known = here.get(record.id)
    roots = (
        {_link_key(link): link.root for link in getattr(known.body, "code_links", ())}
        if known
        else {}
    )
    if any(roots.values()) and getattr(body, "code_links", ()):
        links = tuple(
            replace(link, root=roots.get(_link_key(link), "")) for link in body.code_links
        )
        body = replace(body, code_links=links)
    return record if body is record.body else replace(record, body=body)


def _link_key(link: CodeLink) -> tuple[str, str, str]:
    """Identify a code link, independent of its root."""
    return link.repo, link.path, link.symbol

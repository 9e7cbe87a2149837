"""Where a checkout lies is a matter of one machine: it isn't told to a Core, and what comes from
there is looked for where it lies here. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cortex.base.record_model import CodeLink, Record


def unplaced(body: Any) -> Any:
    """A body that doesn't say where on this machine its code lies."""
    links: tuple[CodeLink, ...] = getattr(body, "code_links", ())
    if not any(link.root for link in links):
        return body
    return replace(body, code_links=tuple(replace(link, root="") for link in links))


def placed(record: Record[Any], here: Mapping[str, Record[Any]]) -> Record[Any]:
    """A record of the Core whose code lies where the same record here says so; what nobody here has
    linked lies nowhere.
    """
    body = unplaced(record.body)
    known = here.get(record.id)
    roots = (
        {_name(link): link.root for link in getattr(known.body, "code_links", ())} if known else {}
    )
    if any(roots.values()) and getattr(body, "code_links", ()):
        links = tuple(replace(link, root=roots.get(_name(link), "")) for link in body.code_links)
        body = replace(body, code_links=links)
    return record if body is record.body else replace(record, body=body)


def _name(link: CodeLink) -> tuple[str, str, str]:
    return link.repo, link.path, link.symbol

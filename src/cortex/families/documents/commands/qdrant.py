"""`cortex qdrant`: what a Qdrant server keeps for the library, and taking it out again.

The key is never shown.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Annotated

import typer

from cortex.base.errors import ConfigError, NetworkError
from cortex.base.settings import Settings, environment, load
from cortex.engine.library import open_qdrant
from cortex.engine.store import STORE_NAME, Qdrant, QdrantCollection, Store
from cortex.toolkit.terminal.library import confirm
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json, say

app = typer.Typer(
    name="qdrant",
    help="A Qdrant server that keeps the vectors of your documents.",
    no_args_is_help=True,
)

UrlOption = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="Address of the server; default: kb.qdrant.url."),
]


@dataclass(frozen=True, slots=True)
class _Library:
    """The store whose collections are ours, and how far it has come."""

    identity: str
    seq: int

    def owns(self, one: QdrantCollection, qdrant: Qdrant) -> bool:
        return bool(self.identity) and qdrant.is_of(one.name, self.identity)


@app.command("status")
def status(url: UrlOption = None, as_json: JsonFlag = False) -> int:
    """Show whether the server answers, and which collections it has for documents."""
    settings = _settings(url)
    qdrant, library = open_qdrant(settings), _library(settings)
    if qdrant is None:
        if as_json:
            print_json(_answer(settings, "", [], reachable=False))
        else:
            say("No Qdrant is used: the vectors of documents are kept in files. See kb.qdrant.url.")
        return 0
    with closing(qdrant):
        try:
            found, problem = qdrant.collections(), ""
        except NetworkError as error:
            found, problem = [], error.message
        rows = [_row(one, library, qdrant) for one in found]
    if as_json:
        print_json(_answer(settings, problem, rows, reachable=not problem))
        return 1 if problem else 0
    say(f"Qdrant:      {qdrant.url}{' (with a key)' if settings.kb.qdrant.api_key else ''}")
    say(f"Reachable:   {f'no: {problem}' if problem else 'yes'}")
    if problem:
        say("             until it is back, documents are searched by words")
        return 1
    if not rows:
        say(f"Collections: none that begins with {qdrant.collection}_")
    for row in rows:
        say(f"Collection:  {row['name']}")
        say(f"  Points:    {row['points']:,}")
        say(f"  Embedder:  {row['provider']} {row['model']}, {row['dimensions']} dimensions")
        whose = "this library" if row["own"] else "another library"
        say(
            "  Of:        "
            f"{whose}{'' if row['upToDate'] or not row['own'] else ', not up to date yet'}"
        )
    return 0


@app.command("purge")
def purge(
    url: UrlOption = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Those of other libraries, too, say of one that is deleted."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Delete the library's collections from the server; they can be made anew at any time."""
    settings = _settings(url)
    qdrant, library = open_qdrant(settings), _library(settings)
    if qdrant is None:
        raise ConfigError(
            "CONFIG_INVALID",
            "no Qdrant is configured",
            instead=(
                "Give its address with --url, or for good: cortex config set kb.qdrant.url URL.",
            ),
        )
    with closing(qdrant):
        found = [
            collection
            for collection in qdrant.collections()
            if everything or library.owns(collection, qdrant)
        ]
        if found and not yes:
            for one in found:
                say(f"{one.name}: {one.points:,} points", error=True)
            confirm(f"Delete these from {qdrant.url}?", "this deletes collections")
        qdrant.drop(one.name for one in found)
    if as_json:
        print_json(
            {
                "url": qdrant.url,
                "dropped": [{"name": one.name, "points": one.points} for one in found],
            }
        )
        return 0
    for one in found:
        say(f"✓ Dropped {one.name} ({one.points:,} points)")
    if not found:
        say("There is nothing to drop.")
    elif settings.kb.qdrant.url == load(None, environment=environment()).kb.qdrant.url:
        say(
            "`cortex kb sync`, or a running server, makes them anew; without kb.qdrant.url "
            "vectors are kept in files."
        )
    return 0


def _settings(url: str | None) -> Settings:
    return load(None, environment=environment(), flags={"kb.qdrant.url": url})


def _library(settings: Settings) -> _Library:
    if not (settings.home / STORE_NAME).is_file():
        return _Library("", 0)
    with closing(Store(settings.home, read_only=True)) as store:
        return _Library(store.truth.get("identity"), store.truth.seq())


def _row(one: QdrantCollection, library: _Library, qdrant: Qdrant) -> dict[str, object]:
    stamp = one.mark.stamp if one.mark else None
    return {
        "name": one.name,
        "points": one.points,
        "provider": stamp.provider if stamp else "",
        "model": stamp.model if stamp else "",
        "dimensions": stamp.dimensions if stamp else 0,
        "own": library.owns(one, qdrant),
        "upToDate": one.mark is not None and one.mark.watermark == library.seq,
    }


def _answer(
    settings: Settings, problem: str, rows: list[dict[str, object]], *, reachable: bool
) -> dict[str, object]:
    return {
        "url": settings.kb.qdrant.url,
        "key": bool(settings.kb.qdrant.api_key),
        "collection": settings.kb.qdrant.collection,
        "reachable": reachable,
        "problem": problem,
        "collections": rows,
    }

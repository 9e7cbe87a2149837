"""`cortex qdrant`: show and delete the library's collections on a Qdrant server.

The API key is never shown.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Annotated

import typer

from cortex.base.errors import ConfigError, NetworkError
from cortex.base.settings import Settings, environment, load
from cortex.engine.store import STORE_NAME, Store
from cortex.engine.store.index.qdrant import Qdrant, QdrantCollection
from cortex.engine.store.index.vector_servers import open_qdrant
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
    """Identity and sequence number of the store that owns our collections."""

    identity: str
    seq: int

    def owns(self, collection: QdrantCollection, qdrant: Qdrant) -> bool:
        return bool(self.identity) and qdrant.is_of(collection.name, self.identity)


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
            collections, problem = qdrant.collections(), ""
        except NetworkError as error:
            collections, problem = [], error.message
        rows = [_row(collection, library, qdrant) for collection in collections]
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
        owner = "this library" if row["own"] else "another library"
        say(
            "  Of:        "
            f"{owner}{'' if row['upToDate'] or not row['own'] else ', not up to date yet'}"
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
        collections = [
            collection
            for collection in qdrant.collections()
            if everything or library.owns(collection, qdrant)
        ]
        if collections and not yes:
            for collection in collections:
                say(f"{collection.name}: {collection.points:,} points", error=True)
            confirm(f"Delete these from {qdrant.url}?", "this deletes collections")
        qdrant.drop(collection.name for collection in collections)
    if as_json:
        dropped = [
            {"name": collection.name, "points": collection.points} for collection in collections
        ]
        print_json({"url": qdrant.url, "dropped": dropped})
        return 0
    for collection in collections:
        say(f"✓ Dropped {collection.name} ({collection.points:,} points)")
    if not collections:
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
        return _Library(store.content.get("identity"), store.content.seq())


def _row(collection: QdrantCollection, library: _Library, qdrant: Qdrant) -> dict[str, object]:
    stamp = collection.mark.stamp if collection.mark else None
    return {
        "name": collection.name,
        "points": collection.points,
        "provider": stamp.provider if stamp else "",
        "model": stamp.model if stamp else "",
        "dimensions": stamp.dimensions if stamp else 0,
        "own": library.owns(collection, qdrant),
        "upToDate": collection.mark is not None and collection.mark.watermark == library.seq,
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

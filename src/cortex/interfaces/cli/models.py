"""`cortex models list|use|serve`: the embedders, the one in use, and the cost of another one.

Embedders on this machine are measured on some chunks of the project; for a server, requests and
tokens are estimated. No server is contacted without `--check`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from cortex.base.errors import CortexError, InputError
from cortex.base.settings import Settings
from cortex.base.text import TOKEN_CHARACTERS
from cortex.base.types import EmbeddingState, Stamp
from cortex.engine.embedders import Embedder, leaves, open_embedder
from cortex.engine.engine import Engine
from cortex.engine.store import STORE_NAME
from cortex.engine.store_folder import find_store
from cortex.interfaces.cli.config import PathOption
from cortex.interfaces.cli.model_server import serve
from cortex.interfaces.cli.status import in_time
from cortex.toolkit.terminal.options import JsonFlag
from cortex.toolkit.terminal.output import print_json, say
from cortex.toolkit.terminal.settings_file import change, load_settings, say_change

app = typer.Typer(
    name="models", help="Show, choose and serve what turns text into vectors.", no_args_is_help=True
)
app.command("serve")(serve)

PROVIDERS = ("local", "onnx", "openai", "ollama", "cortex-embed")
# Providers that run in our own process.
HERE = ("local", "onnx")
MODEL_KEYS = {"openai": "providers.openai.model", "ollama": "providers.ollama.model"}
# Chunks that are embedded to measure the time.
SAMPLE = {"local": 256, "onnx": 12}


@dataclass(frozen=True, slots=True)
class Estimate:
    """Cost of embedding a project: seconds locally, requests and tokens for a server."""

    chunks: int
    # Chunks that have a vector already.
    kept: int
    seconds: float | None = None
    requests: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """An embedder that can be chosen."""

    provider: str
    used: bool
    model: str
    dimensions: int
    # Empty for an embedder in our own process.
    address: str
    # True if texts leave this machine.
    leaves: bool
    # True if there is an API key; None where none is needed.
    key: bool | None
    # The reason why it can't be used, as far as it was checked.
    problem: str
    # Suggestions against the problem.
    fix: tuple[str, ...]
    estimate: Estimate | None


@app.command("list")
def list_models(
    check: Annotated[
        bool, typer.Option("--check", help="Ask the servers that are configured, too.")
    ] = False,
    path: PathOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the embedders, the one that is used, and what each would take for the project here."""
    settings = load_settings(path)
    with _project(settings) as engine:
        choices = [_inspect(provider, settings, engine, check) for provider in PROVIDERS]
        choices.append(_words_only(settings))
        state = engine.embedding.status() if engine else None
    if as_json:
        rows = [asdict(choice) for choice in choices]
        print_json(
            {
                "project": _root(settings),
                "embedding": state.as_json() if state else None,
                "models": rows,
            }
        )
        return
    _print_state(settings, state)
    for choice in choices:
        say(f"{'*' if choice.used else ' '} {choice.provider:<13}{'; '.join(_describe(choice))}")
        for fix in choice.fix:
            say(f"{'':15}{fix}")


@app.command("use")
def use_model(
    name: Annotated[
        str,
        typer.Argument(help="local, onnx, openai, ollama, cortex-embed, or none for words only."),
    ],
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="Which model of openai or ollama."),
    ] = None,
    project: Annotated[
        bool,
        typer.Option(
            "--project", help="Write the project's .cortex/config.yml, not your own file."
        ),
    ] = False,
    path: PathOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Choose an embedder, and say what that will take."""
    if name not in (*PROVIDERS, "none"):
        raise InputError(
            "ARGUMENT_INVALID",
            f"there is no embedder {name!r}; there are {', '.join(PROVIDERS)} and none",
        )
    if model is not None and name not in MODEL_KEYS:
        raise InputError("ARGUMENT_INVALID", f"{name} has one model, so --model says nothing there")
    wanted = {"indexing.embeddingProvider": name} | (
        {MODEL_KEYS[name]: model} if model is not None else {}
    )
    done = change(wanted, project=project, path=path)
    settings = load_settings(path)
    with _project(settings) as engine:
        choice = _inspect(name, settings, engine, check=False) if name != "none" else None
        notes = _notes(name, choice, settings, engine)
    changed = [key for setting in done for key in setting.changed_keys]
    if as_json:
        body = {"provider": name, "file": str(done[0].file), "changedKeys": changed, "notes": notes}
        print_json({**body, "model": asdict(choice) if choice else None})
        return
    for setting in done:
        say_change(setting)
    for note in notes:
        say(note)


@contextmanager
def _project(settings: Settings) -> Iterator[Engine | None]:
    """Open the engine of the project of these settings; None where none is indexed."""
    root = settings.root
    if root is None or not (find_store(root, settings.home) / STORE_NAME).exists():
        yield None
    else:
        with Engine(root, settings) as engine:
            yield engine


def _inspect(provider: str, settings: Settings, engine: Engine | None, check: bool) -> ModelChoice:
    """Describe an embedder; a local one is loaded and measured, a server only with `check`."""
    away = leaves(provider, settings)
    embedder = (
        None
        if away and settings.server.local_only
        else open_embedder(_with_provider(provider, settings))
    )
    stamp, problem, fix, seconds = None, "", (), None
    if embedder is None and away and settings.server.local_only:
        problem = "server.localOnly is on, so `local` takes its place"
        fix = (
            (
                "Choose a server on this machine, or turn it off in: "
                f"{settings.origin('server.localOnly')}."
            ),
        )
    elif embedder is None:
        problem = "indexing.strategies leaves embeddings out"
    elif provider in HERE or check:
        try:
            stamp = embedder.connect()
            seconds = _measure(embedder, provider, engine)
        except CortexError as error:
            # The last suggestion is the general one of the error code.
            problem, fix = error.message, error.suggestions[:-1]
    stamp = stamp or (embedder.stamp if embedder else None)
    if embedder is not None:
        embedder.close()
    address, model, key = _server(provider, settings)
    return ModelChoice(
        provider=provider,
        used=provider == settings.indexing.embedding_provider,
        model=stamp.model if stamp else model,
        dimensions=stamp.dimensions if stamp else 0,
        address=address,
        leaves=away,
        # A server on this machine seldom needs a key.
        key=None if key is None or not (key or away) else bool(key),
        problem=problem,
        fix=fix,
        estimate=None if engine is None else _estimate(engine, provider, stamp, model, seconds),
    )


def _server(provider: str, settings: Settings) -> tuple[str, str, str | None]:
    """Return address, model and key of a server, as far as settings name them."""
    providers = settings.providers
    match provider:
        case "openai":
            return providers.openai.base_url, providers.openai.model, providers.openai.api_key
        case "ollama":
            return providers.ollama.base_url, providers.ollama.model, None
        case "cortex-embed":
            return providers.cortex_embed.base_url, "", None
        case _:
            return "", "", None


def _words_only(settings: Settings) -> ModelChoice:
    """Return the choice without an embedder."""
    used = settings.indexing.embedding_provider == "none"
    return ModelChoice(
        "none", used, "", 0, "", leaves=False, key=None, problem="", fix=(), estimate=None
    )


def _with_provider(provider: str, settings: Settings) -> Settings:
    """Return the settings with another embedding provider."""
    indexing = settings.indexing.model_copy(update={"embedding_provider": provider})
    return settings.model_copy(update={"indexing": indexing})


def _measure(embedder: Embedder, provider: str, engine: Engine | None) -> float | None:
    """Return the seconds per chunk; None where nothing was measured."""
    texts = list(_sample(engine, SAMPLE[provider])) if engine and provider in SAMPLE else []
    if not texts:
        return None
    embedder.embed(texts[:1], "passage")
    started = time.perf_counter()
    embedder.embed(texts, "passage")
    return (time.perf_counter() - started) / len(texts)


def _sample(engine: Engine, count: int) -> Iterator[str]:
    """Yield texts of some chunks, spread over the project."""
    lookup = engine.store.content
    docs = list(lookup.docs(engine.source.id))
    for doc in docs[:: max(1, len(docs) // count)][:count]:
        chunks = lookup.chunks(doc.blob)
        if chunks:
            chunk = chunks[len(chunks) // 2][1]
            yield lookup.text(doc.blob)[chunk.start : chunk.end]


def _estimate(
    engine: Engine, provider: str, stamp: Stamp | None, model: str, seconds: float | None
) -> Estimate:
    counts, sets = engine.store.counts(engine.source.id), engine.store.indexes.sets
    made = stamp is not None and any(
        vectors.stamp == stamp for vectors in sets.on_disk() if vectors is not None
    )
    chunks, kept = sets.count(), sets.embedded(stamp) if stamp and made else 0
    for known, _, _ in engine.store.paid.models():
        # A server that hasn't been asked will have the model that it had.
        alike = known.provider == provider and (not model or known.model == model)
        if known == stamp or (stamp is None and alike):
            kept = max(kept, len(engine.store.paid.embedded(known)))
    waiting = max(0, chunks - kept)
    if provider in HERE:
        return Estimate(chunks, kept, None if seconds is None else round(waiting * seconds, 1))
    network, batch = engine.settings.limits.network, engine.settings.providers.openai.batch_size
    size = min(network.batch_size, batch) if provider == "openai" else network.batch_size
    tokens = math.ceil(counts.characters / TOKEN_CHARACTERS * waiting / max(1, counts.chunks))
    return Estimate(chunks, kept, requests=math.ceil(waiting / size), tokens=tokens)


def _describe(choice: ModelChoice) -> list[str]:
    if choice.provider == "none":
        return ["words only"]
    parts = [
        f"{choice.model} ({choice.dimensions} dimensions)"
        if choice.dimensions
        else choice.model or "one model"
    ]
    if choice.address:
        parts.append(f"at {choice.address}{', beyond this machine' if choice.leaves else ''}")
    if choice.key is False:
        parts.append("no key")
    if choice.problem:
        parts.append(choice.problem)
    elif choice.estimate is not None:
        parts.append(_format_estimate(choice.estimate))
    return parts


def _format_estimate(estimate: Estimate) -> str:
    """Format an estimate for people."""
    if estimate.kept >= estimate.chunks > 0:
        return f"nothing: the vectors of all {estimate.chunks:,} chunks are there"
    if estimate.requests is not None:
        what = f"{estimate.requests:,} requests with about {estimate.tokens:,} tokens"
    elif estimate.seconds is not None:
        what = f"about {in_time(max(1, estimate.seconds))}"
    else:
        what = "not measured"
    kept = f", of which {estimate.kept:,} have theirs" if estimate.kept else ""
    return f"{what} for {estimate.chunks:,} chunks{kept}"


def _notes(
    name: str, choice: ModelChoice | None, settings: Settings, engine: Engine | None
) -> list[str]:
    """Return notes about the effect of the choice."""
    if choice is None:
        return ["search goes by words from now on"]
    notes = []
    if choice.problem:
        return [f"it can't be used yet: {choice.problem}", *choice.fix]
    if choice.key is False:
        notes.append(
            "there is no key for it: set CODEINDEX_OPENAI_API_KEY, or "
            "providers.openai.apiKey in your own file"
        )
    if choice.leaves:
        notes.append(f"the text of every chunk is sent to {choice.address}")
    if engine is None or choice.estimate is None:
        return [*notes, "a project is embedded when it is indexed"]
    notes.append(f"embedding takes {_format_estimate(choice.estimate)}")
    if engine.store.lease.holder() and not engine.holds_lease():
        how = "in the background by the server that has this project open"
    elif name == "local":
        how = "by the next `cortex index`, or as soon as a client connects"
    else:
        how = "in the background while a client is connected, or at once by `cortex index`"
    return [*notes, f"that is done {how}; until then the vectors that are there, or words, answer"]


def _root(settings: Settings) -> str | None:
    return str(settings.root) if settings.root else None


def _print_state(settings: Settings, state: EmbeddingState | None) -> None:
    if state is None:
        say(
            "no project here is indexed"
            if settings.root is None
            else f"{settings.root}: nothing is embedded"
        )
        return
    name = f"{state.provider} {state.model}".strip()
    answering = f"{state.answering} answers" if state.answering else "words answer"
    say(
        f"{settings.root}: {state.share:.0%} of {state.chunks:,} chunks embedded by {name}; "
        f"{answering}"
    )
    if state.problem:
        say(f"  {state.problem}")

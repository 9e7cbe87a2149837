"""Request and response formats of OpenAI-compatible servers, Ollama and cortex-embed.

Pure: no connection, no retry, no validation of numbers. Takes parsed JSON and returns lists, or
raises ValueError that says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cortex.engine.embedders import EmbedMode


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """Texts to embed in one request."""

    texts: Sequence[str]
    mode: EmbedMode
    model: str
    # Dimensions to request; 0 for the model's own.
    dimensions: int = 0


@dataclass(frozen=True, slots=True)
class ServerReply:
    """A vector for each text, and the model's name if the server reports it."""

    vectors: Sequence[object]
    model: str = ""


@dataclass(frozen=True, slots=True)
class ServerGreeting:
    """Self-description of a server, before anything is embedded."""

    model: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Dialect:
    """Request format of one kind of server."""

    path: str
    write: Callable[[EmbeddingRequest], Mapping[str, object]]
    read: Callable[[object], ServerReply]
    # Path of the self-description; empty if there is none.
    greeting: str = ""


def _write_openai(request: EmbeddingRequest) -> Mapping[str, object]:
    body: dict[str, object] = {
        "model": request.model,
        "input": list(request.texts),
        "encoding_format": "float",
    }
    return body | ({"dimensions": request.dimensions} if request.dimensions else {})


def _read_openai(answer: object) -> ServerReply:
    rows = _list(_field(answer, "data"), "data")
    numbered = [
        (_field(row, "index") if _has(row, "index") else position, row)
        for position, row in enumerate(rows)
    ]
    if sorted(str(number) for number, _ in numbered) != sorted(
        str(position) for position in range(len(rows))
    ):
        raise ValueError("its vectors are numbered wrongly")
    ordered = sorted(numbered, key=lambda pair: int(str(pair[0])))
    return ServerReply([_field(row, "embedding") for _, row in ordered], _name(answer))


def _write_ollama(request: EmbeddingRequest) -> Mapping[str, object]:
    return {"model": request.model, "input": list(request.texts), "truncate": True}


def _write_cortex(request: EmbeddingRequest) -> Mapping[str, object]:
    return {"texts": list(request.texts), "mode": request.mode}


def _read_embeddings(answer: object) -> ServerReply:
    return ServerReply(_list(_field(answer, "embeddings"), "embeddings"), _name(answer))


def read_greeting(answer: object) -> ServerGreeting:
    """Parse the self-description of a cortex-embed server.

    Raises: ValueError.
    """
    model, dimensions = _field(answer, "model"), _field(answer, "dimensions")
    if not isinstance(model, str) or not isinstance(dimensions, int) or dimensions < 1:
        raise ValueError("it doesn't say which model it has, and how long its vectors are")
    return ServerGreeting(model, dimensions)


DIALECTS: Mapping[str, Dialect] = {
    "openai": Dialect("/embeddings", _write_openai, _read_openai),
    "ollama": Dialect("/api/embed", _write_ollama, _read_embeddings),
    "cortex-embed": Dialect("/embed", _write_cortex, _read_embeddings, greeting="/"),
}

# Prefixes of queries and passages for models that were trained with them and are worse without. A
# stamp holds the key.
_ASK = "Represent this sentence for searching relevant passages: "
PREFIXES: Mapping[str, tuple[str, str]] = {
    "nomic-embed-code": ("Represent this query for searching relevant code: ", ""),
    "nomic-embed-text": ("search_query: ", "search_document: "),
    "embeddinggemma": ("task: search result | query: ", "title: none | text: "),
    "mxbai-embed-large": (_ASK, ""),
    "snowflake-arctic-embed": (_ASK, ""),
    "snowflake-arctic-embed2": ("query: ", ""),
    "bge-small-en": (_ASK, ""),
    "bge-base-en": (_ASK, ""),
    "bge-large-en": (_ASK, ""),
    "multilingual-e5": ("query: ", "passage: "),
    "e5-small": ("query: ", "passage: "),
    "e5-base": ("query: ", "passage: "),
    "e5-large": ("query: ", "passage: "),
}
# Matched against whole names, without folder and tag: a related model with a longer name may have
# been trained differently.
_FAMILIES: Mapping[str, re.Pattern[str]] = {
    scheme: re.compile(
        rf"(text-embedding-)?{names}([-._@](q\d\w*|iq\d\w*|b?f16|f32|fp16|fp32|gguf))*"
    )
    for scheme, names in {
        "nomic-embed-code": r"nomic-embed-code",
        "nomic-embed-text": r"nomic-embed-text(-v1|-v1\.5|-v2-moe)?",
        "embeddinggemma": r"embeddinggemma(-300m)?(-qat)?",
        "mxbai-embed-large": r"mxbai-embed-large(-v1)?",
        "snowflake-arctic-embed": r"snowflake-arctic-embed(-xs|-s|-m|-m-long|-l)?(-v1\.5)?",
        "snowflake-arctic-embed2": r"snowflake-arctic-embed(2|-m-v2\.0|-l-v2\.0)",
        "bge-small-en": r"bge-small-en(-v1\.5)?",
        "bge-base-en": r"bge-base-en(-v1\.5)?",
        "bge-large-en": r"bge-large-en(-v1\.5)?",
        "multilingual-e5": r"multilingual-e5-(small|base|large)",
        "e5-small": r"e5-small(-v2)?",
        "e5-base": r"e5-base(-v2)?",
        "e5-large": r"e5-large(-v2)?",
    }.items()
}


def scheme_of(model: str) -> str:
    """Key into PREFIXES for a model's name; "" for none."""
    name = model.lower().replace("\\", "/").rpartition("/")[2].partition(":")[0]
    return next((scheme for scheme, pattern in _FAMILIES.items() if pattern.fullmatch(name)), "")


def _has(value: object, name: str) -> bool:
    return isinstance(value, dict) and name in value


def _field(value: object, name: str) -> object:
    if not isinstance(value, dict) or name not in value:
        raise ValueError(f"it has no {name!r}")
    return value[name]


def _list(value: object, name: str) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"its {name!r} is no list")
    return value


def _name(answer: object) -> str:
    model = answer.get("model") if isinstance(answer, dict) else None
    return model if isinstance(model, str) else ""

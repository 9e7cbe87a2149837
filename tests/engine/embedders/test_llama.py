"""A real OpenAI-compatible server with a real model: llama.cpp with all-MiniLM-L6-v2."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cortex.base.errors import CortexError
from cortex.base.settings import load
from cortex.engine.embedders import open_embedder
from cortex.engine.embedders.onnx import PACKAGE, OnnxEmbedder

NEEDED = ("xllamacpp", "gguf", "onnxruntime", PACKAGE)
KEY = "sk-of-the-test"
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        not all(importlib.util.find_spec(name) for name in NEEDED),
        reason=f"needs the packages {', '.join(NEEDED)}",
    ),
]


@pytest.fixture(scope="module")
def port(tmp_path_factory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("llama")
    argv = [sys.executable, str(Path(__file__).with_name("llama_server.py")), str(folder), KEY]
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(argv, stdout=log, stderr=subprocess.PIPE)
    assert server.stderr is not None
    said = next(
        (found for line in server.stderr if (found := re.match(rb"port (\d+)", line))), None
    )
    assert said is not None, "the server ended before it listened"
    drain = subprocess.Popen(  # it goes on writing
        [sys.executable, "-c", "import sys; [None for _ in sys.stdin.buffer]"], stdin=server.stderr
    )
    server.stderr.close()
    yield said[1].decode()
    server.kill()
    server.wait(10)
    drain.wait(10)


@pytest.fixture
def opens(port, tmp_path):
    """Open embedders of the server, and close them in the end."""
    opened = []

    def open_one(key: str = KEY):
        variables = {
            "CODEINDEX_EMBEDDING_PROVIDER": "openai",
            "CORTEX_PROVIDERS_OPENAI_BASE_URL": f"http://127.0.0.1:{port}",
            "CORTEX_PROVIDERS_OPENAI_MODEL": "all-MiniLM-L6-v2",
            "CODEINDEX_OPENAI_API_KEY": key,
            "CORTEX_LIMITS_NETWORK_BATCH_SIZE": "10",
        }
        opened.append(open_embedder(load(None, environment=variables, user_home=tmp_path)))
        return opened[-1]

    yield open_one
    for embedder in opened:
        embedder.close()


def test_served_vectors_equal_those_of_the_same_model_run_locally(opens):
    source = Path(__file__).parents[3] / "src" / "cortex" / "engine" / "embedders" / "remote.py"
    lines = source.read_text(encoding="utf-8").splitlines()
    # None of them is cut
    texts = ["\n".join(lines[start : start + 5]) for start in range(0, 200, 5)]
    remote, here = opens(), OnnxEmbedder()
    stamp = remote.connect()
    assert (stamp.provider, stamp.model, stamp.dimensions) == ("openai", "all-MiniLM-L6-v2", 384)
    cosines = (remote.embed(texts, "passage") * here.embed(texts, "passage")).sum(axis=1)
    here.close()
    assert cosines.min() > 0.97 and cosines.mean() > 0.985  # int8 here, float32 there


def test_text_too_long_for_the_model_is_cut(opens):
    embedder = opens()
    rows = embedder.embed(["short", "word " * 3_000, "x" * 8_000, "検索" * 4_000, ""], "passage")
    assert rows.shape == (5, 384) and np.all(np.isfinite(rows))
    assert np.allclose(rows[0], embedder.embed(["short"], "passage")[0], atol=1e-3)


def test_a_wrong_key_is_refused(opens):
    with pytest.raises(CortexError) as caught:
        opens("sk-wrong").connect()
    assert caught.value.code == "EMBEDDER_REFUSED" and "sk-" not in caught.value.message

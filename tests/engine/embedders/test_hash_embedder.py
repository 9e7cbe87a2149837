import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cortex.engine.embedders.hash_embedder import HashingEmbedder


@given(st.lists(st.text(max_size=40), max_size=6))
def test_every_text_has_one_row_of_length_one(texts):
    rows = HashingEmbedder(16).embed(texts, "passage")
    assert rows.shape == (len(texts), 16)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)


def test_the_same_text_has_the_same_vector_in_another_process():
    program = "from cortex.engine.embedders.hash_embedder import HashingEmbedder as H; print(H().embed(['parseConfigFile übung 検索'], 'query').tobytes().hex())"
    runs = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        for _ in range(2)
    }
    here = HashingEmbedder().embed(["parseConfigFile übung 検索"], "passage").tobytes().hex()
    assert runs == {here + "\n"}


def test_texts_that_share_words_are_nearer_than_others():
    query, near, far = HashingEmbedder(256).embed(
        ["parse the config file", "def parse_config(file)", "draw a red circle"], "query"
    )
    assert query @ near > query @ far + 0.3


def test_stamps_of_different_dimensions_differ():
    assert HashingEmbedder(16).stamp != HashingEmbedder(32).stamp

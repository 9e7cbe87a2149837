"""all-MiniLM-L6-v2 as an int8 ONNX graph, built from the published weights at load time.

The weights are published as 90 MB of float32 safetensors, and the usual way to 22 MB of ONNX leads
through torch. The model is six layers of a dozen operations, so the graph is written here: matrices
as int8 with a scale per column, everything else unchanged. Knows no text and no file locations.
ONNX is protobuf; the few messages that are needed are encoded by hand rather than by another
dependency.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

LAYERS, HEADS, WIDTH = 6, 12, 384
HEAD = WIDTH // HEADS
# The length that the model was trained for.
MAX_TOKENS = 256
# Quantization steps of a weight in each direction. With 127, CPUs without VNNI overflow 16 bits and
# saturate.
STEPS = 63
OPSET, IR_VERSION = 17, 8
# Type numbers of ONNX.
FLOAT, INT8, INT64 = 1, 3, 7
Tensors = Mapping[str, NDArray[np.float32]]


def read_safetensors(content: bytes) -> Tensors:
    """Read the float32 tensors of a safetensors file, by name."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            start, end = entry["data_offsets"]
            raw = np.frombuffer(content, np.float32, (end - start) // 4, 8 + length + start)
            tensors[name] = raw.reshape(entry["shape"])
    return tensors


def make_model(tensors: Tensors) -> bytes:
    """Build the ONNX model: `ids` and `places` (1 x tokens) to `hidden` (1 x tokens x 384).

    It takes one text at a time. In a batch the shorter texts are padded, which is slower (31 chunks
    per CPU-second instead of 43), and dynamic quantization depends on the whole batch, so a text
    would not have the same vector every time.
    """
    graph = _Graph()
    words, kinds = (
        tensors["embeddings.word_embeddings.weight"],
        tensors["embeddings.token_type_embeddings.weight"],
    )
    # A scale per row, since one row is looked up at a time.
    scale = np.abs(words).max(axis=1, keepdims=True) / 127
    graph.tensor("words", np.round(words / scale).astype(np.int8))
    graph.tensor("scales", scale.astype(np.float32))
    graph.tensor("table", tensors["embeddings.position_embeddings.weight"] + kinds[0])
    looked = graph.node("Gather", "words", "ids")
    word = graph.node(
        "Mul", graph.node("Cast", looked, to=FLOAT), graph.node("Gather", "scales", "ids")
    )
    summed = graph.node("Add", word, graph.node("Gather", "table", "places"))
    hidden = _layer_norm(graph, summed, tensors, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        hidden = _layer(graph, hidden, tensors, f"encoder.layer.{layer}")
    graph.node("Identity", hidden, output="hidden")
    return graph.model()


def _layer(graph: _Graph, hidden: str, tensors: Tensors, layer: str) -> str:
    own, scale = f"{layer}.attention.self", HEAD**-0.5
    weights = np.concatenate(
        [tensors[f"{own}.{part}.weight"].T for part in ("query", "key", "value")], axis=1
    )
    biases = np.concatenate([tensors[f"{own}.{part}.bias"] for part in ("query", "key", "value")])
    # The scale of attention is folded into the queries.
    shrink = np.repeat(np.asarray([scale, 1, 1], np.float32), WIDTH)
    projected = _dense(graph, hidden, weights * shrink, biases * shrink, own)
    split = graph.node("Reshape", projected, graph.shape(0, 0, 3, HEADS, HEAD))
    transposed = graph.node("Transpose", split, perm=[2, 0, 3, 1, 4])
    query, key, value = (
        graph.node("Gather", transposed, graph.index(part), axis=0) for part in range(3)
    )
    scores = graph.node("MatMul", query, graph.node("Transpose", key, perm=[0, 1, 3, 2]))
    attention = graph.node("Softmax", scores, axis=-1)
    heads = graph.node("Transpose", graph.node("MatMul", attention, value), perm=[0, 2, 1, 3])
    context = graph.node("Reshape", heads, graph.shape(0, 0, WIDTH))
    out = f"{layer}.attention.output"
    hidden = _add_and_normalize(graph, context, hidden, tensors, out)
    wide = _linear(graph, hidden, tensors, f"{layer}.intermediate.dense")
    return _add_and_normalize(
        graph, graph.node("Gelu", wide, domain="com.microsoft"), hidden, tensors, f"{layer}.output"
    )


def _add_and_normalize(graph: _Graph, inner: str, before: str, tensors: Tensors, name: str) -> str:
    summed = graph.node("Add", _linear(graph, inner, tensors, f"{name}.dense"), before)
    return _layer_norm(graph, summed, tensors, f"{name}.LayerNorm")


def _layer_norm(graph: _Graph, hidden: str, tensors: Tensors, name: str) -> str:
    weight = graph.tensor(f"{name}.weight", tensors[f"{name}.weight"])
    bias = graph.tensor(f"{name}.bias", tensors[f"{name}.bias"])
    return graph.node("LayerNormalization", hidden, weight, bias, axis=-1, epsilon=1e-12)


def _linear(graph: _Graph, hidden: str, tensors: Tensors, name: str) -> str:
    return _dense(graph, hidden, tensors[f"{name}.weight"].T, tensors[f"{name}.bias"], name)


def _dense(
    graph: _Graph, hidden: str, weight: NDArray[np.float32], bias: NDArray[np.float32], name: str
) -> str:
    """hidden x weight + bias, with an int8 weight and dynamic quantization of the input."""
    scale = np.abs(weight).max(axis=0) / STEPS
    inputs = (
        graph.tensor(f"{name}.q", np.round(weight / scale).astype(np.int8)),
        graph.tensor(f"{name}.scale", scale.astype(np.float32)),
        graph.tensor(f"{name}.zero", np.zeros(len(scale), np.int8)),
        graph.tensor(f"{name}.b", bias),
    )
    return graph.node("DynamicQuantizeMatMul", hidden, *inputs, domain="com.microsoft")


class _Graph:
    """Nodes and tensors in insertion order, encoded as protobuf."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._tensors: dict[str, bytes] = {}

    def tensor(
        self, name: str, value: NDArray[np.float32] | NDArray[np.int8] | NDArray[np.int64]
    ) -> str:
        kind = {"f": FLOAT, "i": INT8 if value.dtype.itemsize == 1 else INT64}[value.dtype.kind]
        dims = b"".join(_varint_field(1, size) for size in value.shape)
        self._tensors[name] = (
            dims
            + _varint_field(2, kind)
            + _bytes_field(8, name.encode())
            + _bytes_field(9, value.tobytes())
        )
        return name

    def shape(self, *sizes: int) -> str:
        return self.tensor(f"shape{sizes}", np.asarray(sizes, np.int64))

    def index(self, number: int) -> str:
        return self.tensor(f"index{number}", np.asarray(number, np.int64))

    def node(
        self,
        kind: str,
        *inputs: str,
        output: str = "",
        domain: str = "",
        **attributes: float | Sequence[int],
    ) -> str:
        output = output or f"{kind}{len(self._nodes)}"
        parts = [_bytes_field(1, name.encode()) for name in inputs]
        parts += [
            _bytes_field(2, output.encode()),
            _bytes_field(4, kind.encode()),
            _bytes_field(7, domain.encode()),
        ]
        parts += [_bytes_field(5, _attribute(name, value)) for name, value in attributes.items()]
        self._nodes.append(b"".join(parts))
        return output

    def model(self) -> bytes:
        graph = b"".join(_bytes_field(1, node) for node in self._nodes) + _bytes_field(2, b"minilm")
        graph += b"".join(_bytes_field(5, tensor) for tensor in self._tensors.values())
        graph += b"".join(
            _bytes_field(11, _value(name, INT64, ("", "tokens"))) for name in ("ids", "places")
        )
        graph += _bytes_field(12, _value("hidden", FLOAT, ("", "tokens", "")))
        versions = (("", OPSET), ("com.microsoft", 1))
        opsets = (
            _bytes_field(8, _bytes_field(1, domain.encode()) + _varint_field(2, version))
            for domain, version in versions
        )
        return _varint_field(1, IR_VERSION) + b"".join(opsets) + _bytes_field(7, graph)


def _attribute(name: str, value: float | Sequence[int]) -> bytes:
    head = _bytes_field(1, name.encode())
    if isinstance(value, int):
        return head + _varint_field(3, value) + _varint_field(20, 2)
    if isinstance(value, float):
        return head + _tag(2, 5) + np.float32(value).tobytes() + _varint_field(20, 1)
    return head + b"".join(_varint_field(8, part) for part in value) + _varint_field(20, 7)


def _value(name: str, kind: int, dims: Sequence[str]) -> bytes:
    """Encode an input or output with its type; a dimension without a name may be anything."""
    shape = b"".join(_bytes_field(1, _bytes_field(2, dim.encode()) if dim else b"") for dim in dims)
    return _bytes_field(1, name.encode()) + _bytes_field(
        2, _bytes_field(1, _varint_field(1, kind) + _bytes_field(2, shape))
    )


def _tag(field: int, wire: int) -> bytes:
    return _varint(field << 3 | wire)


def _varint_field(field: int, value: int) -> bytes:
    return _tag(field, 0) + _varint(value & (1 << 64) - 1)


def _bytes_field(field: int, content: bytes) -> bytes:
    return _tag(field, 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)

"""A real OpenAI-compatible server with a real model: llama.cpp, with all-MiniLM-L6-v2 written as
GGUF from its published weights.

`python llama_server.py FOLDER KEY` writes the model into the folder, serves it, and says the port
on stderr. Needs the packages xllamacpp and gguf, and the weights of the embedder onnx. Road not
taken: llama.cpp's own converter, which needs torch.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import gguf
import numpy as np
import xllamacpp

from cortex.engine.embedders.minilm import HEADS, LAYERS, WIDTH, read_safetensors
from cortex.engine.embedders.onnx import MODEL, find_weights

NAMES = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm": "token_embd_norm",
}
LAYER_NAMES = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
CONTEXT = 512


def write_model(path: Path) -> None:
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_name("all-MiniLM-L6-v2")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(4 * WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_token_type_count(2)
    _add_words(writer)
    names = dict(NAMES)
    for layer in range(LAYERS):
        names |= {
            f"encoder.layer.{layer}.{old}": f"blk.{layer}.{new}" for old, new in LAYER_NAMES.items()
        }
    for name, tensor in read_safetensors((find_weights() / MODEL).read_bytes()).items():
        whole, _, part = name.rpartition(".")
        if name in names:
            writer.add_tensor(names[name], np.array(tensor))
        elif whole in names:
            writer.add_tensor(f"{names[whole]}.{part}", np.array(tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_words(writer: gguf.GGUFWriter) -> None:
    words = (find_weights() / "vocab.txt").read_text(encoding="utf-8").splitlines()
    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    kinds = [gguf.TokenType.CONTROL if word in special else gguf.TokenType.NORMAL for word in words]
    # llama.cpp marks the beginning of a word, BERT its continuation
    spelled = [
        word if word in special else word[2:] if word.startswith("##") else "▁" + word
        for word in words
    ]
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(spelled)
    writer.add_token_types(kinds)
    writer.add_unk_token_id(words.index("[UNK]"))
    writer.add_sep_token_id(words.index("[SEP]"))
    writer.add_pad_token_id(words.index("[PAD]"))
    writer.add_mask_token_id(words.index("[MASK]"))
    writer.add_bos_token_id(words.index("[CLS]"))
    writer.add_eos_token_id(words.index("[SEP]"))


def main() -> None:
    path = Path(sys.argv[1], "minilm.gguf")
    write_model(path)
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.api_keys = [sys.argv[2]]
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.embedding = True
    parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = CONTEXT
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = (
        1  # several wait for one another at full speed
    )
    parameters.warmup = False
    server = xllamacpp.Server(parameters)
    print(f"port {server.listening_address.rpartition(':')[2]}", file=sys.stderr, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()

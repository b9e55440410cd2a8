#!/usr/bin/env python3
"""Writes a checkpoint with random weights: real shapes in any size, for measuring speed where no trained one is at hand.

    bench/random_checkpoint.py DIR --hidden 2560 --layers 8 --experts 64 --chosen 10 --vocab 248320

Every other dimension keeps the published model's proportion to --hidden. Standard library and numpy; no tokenizer is
written, so only commands that work on ids (bench, logits, run --ids-file, quantize) can use it."""
import argparse
import json
import math
from pathlib import Path

import numpy as np

POOL = 1 << 22  # random numbers, used from a new place for each tensor
ROOT = "model.language_model."
NGRAM_SIZE, HEADS_PER_NGRAM, NGRAM_BASE = 3, 8, 4000


def config_of(a):
    """The published model's dimensions, scaled by hidden / 2560."""
    def scaled(n):
        return n * a.hidden // 2560

    layers = ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(a.layers)]
    text = {
        "model_type": "qwen4_exp_text", "dtype": "bfloat16", "hidden_size": a.hidden, "vocab_size": a.vocab,
        "num_hidden_layers": a.layers, "layer_types": layers, "full_attention_interval": 4,
        "num_attention_heads": scaled(24), "num_key_value_heads": 2, "head_dim": 256, "output_gate_type": "sigmoid",
        "linear_num_key_heads": scaled(16), "linear_num_value_heads": scaled(48), "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "num_experts": a.experts,
        "num_experts_per_tok": a.chosen, "moe_intermediate_size": scaled(640),
        "shared_expert_intermediate_size": scaled(640), "hc_count": 4, "hc_lowrank": scaled(320),
        "indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 128, "indexer_budget": 2048,
        "indexer_compress_ratio": 4, "ple_layer_ids": [2], "ple_embed_dim": a.hidden, "ple_conv_kernel_size": 4,
        "ngram_size": NGRAM_SIZE, "heads_per_ngram": HEADS_PER_NGRAM, "ngram_vocab_size_base": NGRAM_BASE,
        "make_ngram_vocab_size_divisible_by": 128, "split_ngram_parts": 1, "max_position_embeddings": 262144,
        "hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "eos_token_id": a.vocab - 1,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25,
                            "mrope_interleaved": True, "mrope_section": [11, 11, 10]}}
    return {"architectures": ["Qwen4ExpForConditionalGeneration"], "model_type": "qwen4_exp", "text_config": text}


def ngram_constants(vocab):
    """What the n-gram hash multiplies by, and the prime sizes of its heads' tables."""
    mask = (1 << 64) - 1

    def splitmix(value):
        value = (value + 0x9E3779B97F4A7C15) & mask
        value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & mask
        value = ((value ^ value >> 27) * 0x94D049BB133111EB) & mask
        return value ^ value >> 31

    half = ((1 << 63) - 1) // vocab // 2
    multipliers = [2 * (splitmix((1234 + 0x9E3779B97F4A7C15 * (i + 1)) & mask) % half) + 1 for i in range(NGRAM_SIZE)]
    primes, n = [], NGRAM_BASE
    while len(primes) < (NGRAM_SIZE - 1) * HEADS_PER_NGRAM:
        if all(n % d for d in range(2, math.isqrt(n) + 1)):
            primes.append(n)
        n += 1
    return multipliers, primes


def mixer(name, c, inject=True):
    wide, low = c["hc_count"] * c["hidden_size"], c["hc_lowrank"]
    yield f"{name}.hc_norm.weight", (wide,)
    yield f"{name}.input_mix_weight_down.weight", (low, wide)
    yield f"{name}.input_mix_weight_up.weight", (wide, low)
    if inject:
        yield f"{name}.block_inject_weight.weight", (c["hc_count"], wide)


def attention(name, c):
    hidden, head = c["hidden_size"], c["head_dim"]
    wide = c["num_attention_heads"] * head
    yield f"{name}.q_proj.weight", (2 * wide, hidden)
    yield f"{name}.k_proj.weight", (c["num_key_value_heads"] * head, hidden)
    yield f"{name}.v_proj.weight", (c["num_key_value_heads"] * head, hidden)
    yield f"{name}.o_proj.weight", (hidden, wide)
    yield f"{name}.q_norm.weight", (head,)
    yield f"{name}.k_norm.weight", (head,)
    index = c["indexer_head_dim"]
    yield f"{name}.indexer.index_qk_proj.weight", ((c["indexer_n_heads"] + 1) * index, hidden)
    yield f"{name}.indexer.q_layernorm.weight", (index,)
    yield f"{name}.indexer.k_layernorm.weight", (index,)


def delta_net(name, c):
    hidden, heads = c["hidden_size"], c["linear_num_value_heads"]
    values = heads * c["linear_value_head_dim"]
    mixed = values + 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"]
    yield f"{name}.in_proj_qkv.weight", (mixed, hidden)
    yield f"{name}.in_proj_z.weight", (values, hidden)
    yield f"{name}.in_proj_a.weight", (heads, hidden)
    yield f"{name}.in_proj_b.weight", (heads, hidden)
    yield f"{name}.out_proj.weight", (hidden, values)
    yield f"{name}.conv1d.weight", (mixed, 1, c["linear_conv_kernel_dim"])
    yield f"{name}.norm.weight", (c["linear_value_head_dim"],)
    yield f"{name}.A_log", (heads,)
    yield f"{name}.dt_bias", (heads,)


def experts(name, c):
    hidden, n = c["hidden_size"], c["num_experts"]
    inner, shared = c["moe_intermediate_size"], c["shared_expert_intermediate_size"]
    yield f"{name}.gate.weight", (n, hidden)
    yield f"{name}.experts.gate_up_proj", (n, 2 * inner, hidden)
    yield f"{name}.experts.down_proj", (n, hidden, inner)
    yield f"{name}.shared_expert_gate.weight", (1, hidden)
    yield f"{name}.shared_expert.gate_proj.weight", (shared, hidden)
    yield f"{name}.shared_expert.up_proj.weight", (shared, hidden)
    yield f"{name}.shared_expert.down_proj.weight", (hidden, shared)


def ngram_memory(name, c, rows):
    hidden, wide = c["ple_embed_dim"], c["hc_count"] * c["hidden_size"]
    yield f"{name}.key_proj.weight", (wide, hidden)
    yield f"{name}.value_proj.weight", (c["hidden_size"], hidden)
    for norm in ("norm_key", "norm_query", "norm_conv"):
        yield f"{name}.{norm}.weight", (wide,)
    yield f"{name}.conv1d.weight", (wide, 1, c["ple_conv_kernel_size"])
    heads = (c["ngram_size"] - 1) * c["heads_per_ngram"]
    yield f"{name}.ple_embedding.ngram_embedding.weight", (rows, hidden // heads)


def tensors(c, ngram_rows):
    """(name, shape) of all that is random."""
    yield ROOT + "embed_tokens.weight", (c["vocab_size"], c["hidden_size"])
    yield "lm_head.weight", (c["vocab_size"], c["hidden_size"])
    yield from mixer(ROOT + "hyper_connection_mixer", c, inject=False)
    for i, kind in enumerate(c["layer_types"]):
        layer = f"{ROOT}layers.{i}"
        yield from mixer(f"{layer}.attn_hyper_connection", c)
        yield from mixer(f"{layer}.mlp_hyper_connection", c)
        if kind == "full_attention":
            yield from attention(f"{layer}.self_attn", c)
        else:
            yield from delta_net(f"{layer}.linear_attn", c)
        yield from experts(f"{layer}.mlp", c)
        if i + 1 in c["ple_layer_ids"]:
            yield from ngram_memory(f"{layer}.ple", c, ngram_rows)


def bf16(values):
    return ((values.view(np.uint32) + 0x8000) >> 16).astype(np.uint16)


def write(path, constants, shapes, seed):
    header, at = {}, 0
    for name, values in constants.items():
        header[name] = {"dtype": "I64", "shape": [len(values)], "data_offsets": [at, at + 8 * len(values)]}
        at += 8 * len(values)
    for name, shape in shapes:
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(seed)
    normal = random.standard_normal(POOL, dtype=np.float32)
    pools = {}
    with open(path, "xb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for values in constants.values():
            file.write(np.array(values, dtype="<i8").tobytes())
        for _, shape in shapes:
            # Of unit gain in matrices, small in vectors.
            scale = 1 / math.sqrt(shape[-1]) if len(shape) > 1 and shape[-1] > 8 else 0.1
            pool = pools.setdefault(scale, bf16(normal * np.float32(scale)))
            left = math.prod(shape)
            while left > 0:
                begin = int(random.integers(0, POOL // 2))
                part = pool[begin:begin + left]
                file.write(part.tobytes())
                left -= len(part)


def make(folder, a):
    config = config_of(a)
    text = config["text_config"]
    multipliers, primes = ngram_constants(a.vocab)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    name = f"{ROOT}layers.{text['ple_layer_ids'][0] - 1}.ple.ple_embedding"
    constants = {f"{name}.layer_multipliers": multipliers, f"{name}.ngram_heads_vocab_sizes": primes,
                 f"{name}.ngram_heads_offsets": [sum(primes[:i]) for i in range(len(primes))]}
    rows = -(-sum(primes) // 128) * 128
    write(folder / "model.safetensors", constants, list(tensors(text, rows)), a.seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    for name, value in (("hidden", 2560), ("layers", 8), ("experts", 64), ("chosen", 10), ("vocab", 248320), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    a = parser.parse_args()
    make(a.dir, a)


if __name__ == "__main__":
    main()

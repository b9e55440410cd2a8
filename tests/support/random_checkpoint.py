"""Writes a checkpoint of random weights in the released layout, large enough that a program's own memory does not matter:
random_checkpoint.py DIR. About 460 MB in BF16; the numbers mean nothing."""
import json
import struct
import sys
from pathlib import Path

import numpy as np

GAMMA, MASK, SEED = 0x9E3779B97F4A7C15, (1 << 64) - 1, 1234
SHAPE = dict(hidden=768, vocab=6144, layers=4, experts=64, width=384, shared=384, heads=12, kv_heads=2, head_dim=64, delta_heads=(4, 12),
             delta_dim=64, streams=4, rank=48, index_heads=2, index_dim=64, ple=768, base=20000, orders=3, per_order=8, shards=4)


def config(s):
    text = dict(
        model_type="qwen4_exp_text", dtype="bfloat16", attention_bias=False, eos_token_id=6000, full_attention_interval=4, hc_count=s["streams"],
        hc_lowrank=s["rank"], head_dim=s["head_dim"], heads_per_ngram=s["per_order"], hidden_act="silu", hidden_size=s["hidden"],
        indexer_budget=256, indexer_compress_ratio=4, indexer_head_dim=s["index_dim"], indexer_kv_heads=1, indexer_n_heads=s["index_heads"],
        layer_types=["full_attention" if i % 4 == 3 else "linear_attention" for i in range(s["layers"])], linear_conv_kernel_dim=4,
        linear_key_head_dim=s["delta_dim"], linear_num_key_heads=s["delta_heads"][0], linear_num_value_heads=s["delta_heads"][1],
        linear_value_head_dim=s["delta_dim"], make_ngram_vocab_size_divisible_by=128, max_position_embeddings=4096,
        moe_intermediate_size=s["width"], mtp_num_hidden_layers=0, ngram_size=s["orders"], ngram_vocab_size_base=s["base"],
        num_attention_heads=s["heads"], num_experts=s["experts"], num_experts_per_tok=4, num_hidden_layers=s["layers"],
        num_key_value_heads=s["kv_heads"], output_gate_type="sigmoid", partial_rotary_factor=0.25, ple_conv_kernel_size=4,
        ple_embed_dim=s["ple"], ple_layer_ids=[2], rms_norm_eps=1e-6, shared_expert_intermediate_size=s["shared"],
        rope_parameters=dict(mrope_interleaved=True, mrope_section=[3, 3, 2], partial_rotary_factor=0.25, rope_theta=10000000, rope_type="default"),
        split_ngram_parts=s["shards"], tie_word_embeddings=False, vocab_size=s["vocab"])
    return dict(architectures=["Qwen4ExpForConditionalGeneration"], model_type="qwen4_exp", tie_word_embeddings=False, text_config=text)


def mixer(stem, s, inject=True):
    wide = s["streams"] * s["hidden"]
    yield f"{stem}.hc_norm.weight", (wide,)
    yield f"{stem}.input_mix_weight_down.weight", (s["rank"], wide)
    yield f"{stem}.input_mix_weight_up.weight", (wide, s["rank"])
    if inject:
        yield f"{stem}.block_inject_weight.weight", (s["streams"], wide)


def layer(stem, s, attention):
    for side in ("attn", "mlp"):
        yield from mixer(f"{stem}.{side}_hyper_connection", s)
    d, q, kv = s["hidden"], s["heads"] * s["head_dim"], s["kv_heads"] * s["head_dim"]
    keys, values = (n * s["delta_dim"] for n in s["delta_heads"])
    if attention:
        shapes = dict(q_proj=(2 * q, d), k_proj=(kv, d), v_proj=(kv, d), o_proj=(d, q), q_norm=(s["head_dim"],), k_norm=(s["head_dim"],))
        shapes |= {"indexer.index_qk_proj": ((s["index_heads"] + 1) * s["index_dim"], d), "indexer.q_layernorm": (s["index_dim"],),
                   "indexer.k_layernorm": (s["index_dim"],)}
        yield from ((f"{stem}.self_attn.{name}.weight", shape) for name, shape in shapes.items())
    else:
        heads = s["delta_heads"][1]
        shapes = dict(in_proj_qkv=(2 * keys + values, d), in_proj_z=(values, d), in_proj_a=(heads, d), in_proj_b=(heads, d),
                      conv1d=(2 * keys + values, 1, 4), norm=(s["delta_dim"],), out_proj=(d, values))
        yield from ((f"{stem}.linear_attn.{name}.weight", shape) for name, shape in shapes.items())
        yield f"{stem}.linear_attn.A_log", (heads,)
        yield f"{stem}.linear_attn.dt_bias", (heads,)
    m = f"{stem}.mlp"
    yield f"{m}.gate.weight", (s["experts"], d)
    yield f"{m}.experts.gate_up_proj", (s["experts"], 2 * s["width"], d)
    yield f"{m}.experts.down_proj", (s["experts"], d, s["width"])
    for name, shape in dict(gate=(s["shared"], d), up=(s["shared"], d), down=(d, s["shared"])).items():
        yield f"{m}.shared_expert.{name}_proj.weight", shape
    yield f"{m}.shared_expert_gate.weight", (1, d)


def splitmix(value):
    value = (value + GAMMA) & MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def hash_constants(s):
    """Multipliers, primes and offsets of the first n-gram memory."""
    half = ((1 << 63) - 1) // s["vocab"] // 2
    multipliers = [2 * (splitmix((SEED + GAMMA * (i + 1)) & MASK) % half) + 1 for i in range(s["orders"])]
    heads, primes, number = s["per_order"] * (s["orders"] - 1), [], s["base"]
    while len(primes) < heads:
        if all(number % f for f in range(2, int(number ** 0.5) + 1)):
            primes.append(number)
        number += 1
    return multipliers, primes, [sum(primes[:i]) for i in range(heads)]


def tensors(s):
    """(name, type, shape or integers)"""
    t, d, wide = "model.language_model", s["hidden"], s["streams"] * s["hidden"]
    yield f"{t}.embed_tokens.weight", (s["vocab"], d)
    yield "lm_head.weight", (s["vocab"], d)
    for i in range(s["layers"]):
        yield from layer(f"{t}.layers.{i}", s, i % 4 == 3)
    yield from mixer(f"{t}.hyper_connection_mixer", s, inject=False)
    p = f"{t}.layers.1.ple"
    yield f"{p}.key_proj.weight", (wide, s["ple"])
    yield f"{p}.value_proj.weight", (d, s["ple"])
    yield f"{p}.conv1d.weight", (wide, 1, 4)
    yield from ((f"{p}.norm_{name}.weight", (wide,)) for name in ("key", "query", "conv"))
    multipliers, primes, offsets = hash_constants(s)
    rows = -(-sum(primes) // (128 * s["shards"])) * 128
    total = -(-sum(primes) // 128) * 128
    for i in range(s["shards"]):
        yield f"{p}.ple_embedding.ngram_embedding.shard_{i}.weight", (min(rows, total - i * rows), s["ple"] // len(primes))
    for name, values in dict(layer_multipliers=multipliers, ngram_heads_vocab_sizes=primes, ngram_heads_offsets=offsets).items():
        yield f"{p}.ple_embedding.{name}", values


def write(folder, s=None):
    s = s or SHAPE
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(s)))
    noise = np.random.default_rng(1).standard_normal(1 << 20, np.float32) * 0.02
    block = (noise.view(np.uint32) >> 16).astype("<u2").tobytes()
    header, at, listed = {}, 0, list(tensors(s))
    for name, shape in listed:
        integers = isinstance(shape, list)
        size = 8 * len(shape) if integers else 2 * int(np.prod(shape))
        header[name] = dict(dtype="I64" if integers else "BF16", shape=[len(shape)] if integers else list(shape), data_offsets=[at, at + size])
        at += size
    with open(folder / "model.safetensors", "wb") as out:
        text = json.dumps(header).encode()
        out.write(struct.pack("<Q", len(text)) + text)
        for name, shape in listed:
            if isinstance(shape, list):
                out.write(np.array(shape, "<i8").tobytes())
                continue
            left = 2 * int(np.prod(shape))
            while left > 0:
                out.write(block[:left])
                left -= min(left, len(block))


if __name__ == "__main__":
    write(Path(sys.argv[1]))

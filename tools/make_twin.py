#!/usr/bin/env python3
"""Makes the textbook twin: weights at initialisation, so that float32 sums are as exact as they get.

    make_twin.py [OUT_DIR]        default tests/data/twin

Matrices have standard deviation 0.02, norms and convolutions are random, logits are near 0.1; two rows
of 41 tokens with an EOS in the middle. The golden holds the official logits in float64 and in float32:
an engine in float32 must come within 1e-7 of the float64 ones, or within three times the official
float32 run's own distance if that is larger. Needs tools/requirements.txt.
"""
import argparse
import json
import math
import shutil
import zlib
from pathlib import Path

import torch
from safetensors.torch import save_file

import checkpoint_layouts as layouts
import official

CONFIG = dict(
    architectures=["Qwen4ExpForCausalLM"], model_type="qwen4_exp_text", dtype="float32", vocab_size=256, hidden_size=64,
    num_hidden_layers=8, num_attention_heads=4, num_key_value_heads=2, head_dim=32, hidden_act="silu", rms_norm_eps=1e-6,
    attention_bias=False, layer_types=(["linear_attention"] * 3 + ["indexed_attention"]) * 2,
    rope_parameters=dict(rope_type="default", rope_theta=1e7, partial_rotary_factor=0.25, mrope_section=[2, 1, 1],
                         mrope_interleaved=True),
    linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16,
    linear_conv_kernel_dim=4, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=32,
    shared_expert_intermediate_size=32, norm_topk_prob=True, hc_count=4, hc_lowrank=8, indexer_n_heads=4, indexer_kv_heads=1,
    indexer_head_dim=16, indexer_budget=8, indexer_compress_ratio=4, ple_layer_ids=[2, 6], ple_embed_dim=32,
    ple_conv_kernel_size=4, ngram_size=3, heads_per_ngram=4, ngram_vocab_size_base=100,
    make_ngram_vocab_size_divisible_by=16, split_ngram_parts=12, seed=1234, eos_token_id=2, max_position_embeddings=4096,
    tie_word_embeddings=False)
SMALLEST_GAP = 1e-5


def draw(name, shape, seed):
    generator = torch.Generator().manual_seed(zlib.crc32(f"twin {seed} {name}".encode()))
    normal = torch.randn(shape, generator=generator)
    part = name.removesuffix(".weight").rpartition(".")[2]
    if part == "A_log":
        return (0.01 + 15.99 * torch.rand(shape, generator=generator)).log()
    if part == "dt_bias":
        return 1 + 0.1 * normal
    if name.endswith("linear_attn.norm.weight"):
        return 1 + 0.1 * normal
    if "norm" in part:
        return 0.1 * normal
    if part == "conv1d":
        return 0.2 * normal
    return 0.02 * normal


@torch.no_grad()
def attempt(seed):
    model = official.causal_lm(CONFIG)
    for name, parameter in model.named_parameters():
        parameter.copy_(draw(name, parameter.shape, seed))
    ids = torch.randint(3, CONFIG["vocab_size"], (2, 41), generator=torch.Generator().manual_seed(seed))
    ids[0, 20] = ids[1, 9] = CONFIG["eos_token_id"]
    with official.Gaps() as gaps:
        single = model(input_ids=ids, use_cache=False).logits
    wide = official.in_float64(model)
    with official.widened():
        double = wide(input_ids=ids, use_cache=False).logits
    return model, ids, single, double, gaps.smallest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parent.parent / "tests" / "data" / "twin"
    parser.add_argument("out", nargs="?", type=Path, default=default)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    for seed in range(1000):
        model, ids, single, double, gaps = attempt(seed)
        if min(gaps.values()) >= SMALLEST_GAP:
            break
    else:
        raise SystemExit("no seed without a close decision")
    noise = (single.double() - double).abs().max().item()
    shutil.rmtree(out, ignore_errors=True)
    layouts.write(out / "checkpoint", layouts.shard_tables(layouts.separate_experts(model.state_dict()), 12), CONFIG,
                  files=4, index=True)
    golden = dict(ids=ids.int(), logits=single.clone(), logits_float64=double)
    save_file(golden, out / "golden.safetensors")
    (out / "golden.safetensors").chmod(0o644)
    (out / "case.json").write_text(json.dumps(dict(
        name="twin", about=__doc__.partition("\n")[0], seed=seed, made_with=official.versions(),
        tolerances=dict(float_absolute=max(1e-7, 3 * noise), float_relative=0.0, integers="exact"),
        measured=dict(decision_gaps={k: v for k, v in gaps.items() if v < math.inf}, float32_vs_float64=noise,
                      logits_range=[double.min().item(), double.max().item()]),
        goldens=official.meanings_of(golden)), indent=1) + "\n")
    print(f"seed {seed}, gaps {gaps}, official float32 within {noise:.2e} of float64, largest logit {double.abs().max():.3f}")


if __name__ == "__main__":
    main()

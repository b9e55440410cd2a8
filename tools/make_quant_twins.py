#!/usr/bin/env python3
"""Makes tests/data/mini-{fp8,nvfp4,gptq}: small checkpoints in the published quantised formats.

    make_quant_twins.py [NAME ...]      all of them, or some, into tests/data

Weights are drawn as in make_test_data.py, quantised, written under the published names, and put back into
the official classes as float32 values, so that the goldens are those of what is stored. Formats are mixed
from module to module, as in the published files. Needs tools/requirements.txt.
"""
import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file

import checkpoint_layouts as layouts
import make_test_data as base

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
FP8 = torch.float8_e4m3fn


def blocks(scale, shape):
    """A scale for every 128 x 128 block, spread over the weights."""
    return scale.repeat_interleave(128, 0)[:shape[0]].repeat_interleave(128, 1)[:, :shape[1]]


def fp8(w, scale_type=torch.bfloat16):
    high, wide = -(-w.shape[0] // 128), -(-w.shape[1] // 128)
    largest = torch.stack([torch.stack([w[i * 128:(i + 1) * 128, j * 128:(j + 1) * 128].abs().max() for j in range(wide)])
                           for i in range(high)])
    scale = (largest / 448).to(scale_type)
    codes = (w / blocks(scale.float(), w.shape)).clamp(-448, 448).to(FP8)
    return {".weight": codes, ".weight_scale_inv": scale}, codes.float() * blocks(scale.float(), w.shape)


def fp8_float_scales(w):
    return fp8(w, torch.float32)


def nvfp4(w):
    scalar = w.abs().max() / (6 * 448)
    groups = w.unflatten(1, (-1, 16))
    scale = (groups.abs().amax(2) / 6 / scalar).clamp(min=2**-6).to(FP8)
    steps = scale.float()[..., None] * scalar
    codes = ((groups / steps)[..., None] - E2M1).abs().argmin(-1)
    values = (E2M1[codes] * scale.float()[..., None] * scalar).flatten(1)
    pairs = codes.flatten(1).unflatten(1, (-1, 2))
    packed = (pairs[..., 0] | pairs[..., 1] << 4).to(torch.uint8)
    return {".weight": packed, ".weight_scale": scale, ".weight_scale_2": scalar,
            ".input_scale": torch.tensor(0.0123)}, values


def gptq(w):
    n, k = w.shape
    scale = torch.stack([part.abs().amax(1) / 7 for part in w.split(128, 1)], 1).half()  # [N, groups]
    steps = scale.float().repeat_interleave(128, 1)[:, :k]
    codes = (w / steps).round().clamp(-8, 7)
    nibbles = (codes + 8).long().t().unflatten(0, (-1, 8))  # [K/8, 8, N]
    words = sum(nibbles[:, j] << 4 * j for j in range(8))
    words = torch.where(words >= 2**31, words - 2**32, words).int()
    zeros = torch.full((scale.shape[1], n // 8), 0x77777777, dtype=torch.int32)
    return {".qweight": words, ".scales": scale.t(), ".qzeros": zeros}, codes * steps


def bf16(w):
    return {".weight": w.bfloat16()}, w.bfloat16().float()


def table_fp8(scale):
    def quantise(w):
        factor = (w.abs().max() / 448).to(scale.dtype).reshape(scale.shape)
        codes = (w / factor.float()).clamp(-448, 448).to(FP8)
        return {".weight": codes, ".weight_scale": factor}, codes.float() * factor.float()
    return quantise


def by_layer(name):
    return int(name.partition("layers.")[2].partition(".")[0]) if "layers." in name else None


def format_fp8(name):
    """As official: experts and table; as in wider exports: attention too, with float32 scales."""
    if ".mlp.experts." in name or ".shared_expert." in name:
        return fp8
    if name.endswith("ngram_embedding"):
        return table_fp8(torch.zeros(1, dtype=torch.bfloat16))
    return fp8_float_scales if name.endswith(("self_attn.q_proj", "self_attn.o_proj", "linear_attn.in_proj_qkv")) else bf16


def format_nvfp4(name):
    """NVFP4 experts, one layer of FP8 ones, single modules left in BF16: gate and up may differ."""
    if name.endswith("ngram_embedding"):
        return table_fp8(torch.zeros(()))
    if ".mlp.experts." not in name:
        return bf16
    if by_layer(name) == 1:
        return fp8
    return bf16 if name.endswith(("layers.0.mlp.experts.1.up_proj", "layers.2.mlp.experts.0.down_proj")) else nvfp4


def format_gptq(name):
    """Packed INT4 experts and head, one module left in BF16, one in FP8."""
    if name.endswith("layers.0.mlp.experts.2.gate_proj"):
        return bf16
    if name.endswith("layers.2.mlp.experts.1.down_proj"):
        return fp8
    return gptq if ".mlp.experts." in name or name == "lm_head" else bf16


CONFIG = dict(
    vocab_size=120, hidden_size=160, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
    layer_types=["linear_attention", "full_attention", "linear_attention"],
    rope_parameters=dict(base.ROPE, mrope_section=[1, 1, 0]), linear_num_key_heads=2, linear_num_value_heads=4,
    linear_key_head_dim=16, linear_value_head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=48,
    shared_expert_intermediate_size=24, hc_count=2, indexer_n_heads=2, indexer_head_dim=16, indexer_budget=8,
    indexer_compress_ratio=4, ple_layer_ids=[1], ple_embed_dim=32, heads_per_ngram=4, ngram_vocab_size_base=60,
    make_ngram_vocab_size_divisible_by=8, split_ngram_parts=11, eos_token_id=2, output_gate_type="sigmoid")
SHARED = dict(rows=1, length=36, eos_at=[(0, 12), (0, 13)], dtype=torch.bfloat16, stream_every=5, experts="separate")

CASES = {
    "mini-fp8": dict(
        SHARED, config=CONFIG, format=format_fp8, index=True, files=3,
        about="Block-FP8 experts with BF16 scales and partial blocks, an FP8 n-gram table with one BF16 scale, attention "
              "projections in FP8 with float32 scales, everything else BF16.",
        quantization=dict(quant_method="fp8", activation_scheme="dynamic", weight_block_size=[128, 128],
                          modules_to_not_convert=["lm_head"])),
    "mini-nvfp4": dict(
        SHARED, config=CONFIG, format=format_nvfp4, index=False,
        about="NVFP4 experts, FP8 ones in layer 1, two single modules in BF16 (one of them the up beside an NVFP4 gate), an "
              "FP8 n-gram table with one float32 scale of no dimensions; files by kind, no index.",
        quantization=dict(quant_method="modelopt", quant_algo="MIXED_PRECISION")),
    "mini-gptq": dict(
        SHARED, config=CONFIG, format=format_gptq, index=True, files=2,
        about="INT4 experts and head packed as GPTQ does, groups of 128 with a short last one, one module in BF16, one "
              "in FP8; everything else BF16.",
        quantization=dict(quant_method="auto-round", bits=4, group_size=128, sym=True, packing_format="auto_round:auto_gptq")),
}


def quantisable(name, tensor):
    return tensor.dim() == 2 and tensor.is_floating_point() and not name.endswith("embed_tokens.weight")


def fill(choose):
    """base.fill, then every matrix as its format keeps it; what is to be written stays at the model."""
    plain = base.fill

    def quantised(model, seed, dtype):
        plain(model, seed, dtype)
        model.stored = {}
        with torch.no_grad():  # state_dict and the layouts give views of the parameters
            for name, tensor in layouts.separate_experts(model.state_dict()).items():
                if not quantisable(name, tensor):
                    model.stored[name] = tensor.to(dtype) if tensor.is_floating_point() else tensor
                    continue
                module = name.removesuffix(".weight")
                parts, values = choose(module)(tensor.float())
                tensor.copy_(values)
                model.stored |= {module + part: data for part, data in parts.items()}
    return quantised


def write_by_kind(folder, tensors, config):
    """One file per layer's experts, one for the tables, one for the rest, as without an index."""
    groups = {}
    for name, tensor in sorted(tensors.items()):
        experts, table = ".mlp.experts." in name, ".ngram_embedding." in name
        file = f"layer-{by_layer(name)}-experts-0" if experts else "model-plefp8" if table else "model-bf16"
        groups.setdefault(file, {})[name] = tensor.contiguous().clone()
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    for file, group in groups.items():
        save_file(group, folder / f"{file}.safetensors", metadata={"format": "pt"})
        (folder / f"{file}.safetensors").chmod(0o644)


def write_checkpoint(case, model, folder, seed):
    tensors = layouts.shard_tables(model.stored, case["config"]["split_ngram_parts"])
    config = dict(base.config_on_disk(case), quantization_config=case["quantization"])
    if "files" in case:
        layouts.write(folder, tensors, config, case["files"], case["index"])
    else:
        write_by_kind(folder, tensors, config)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--out", type=Path, default=base.DATA)
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    torch.set_num_threads(1)
    plain = base.fill
    base.write_checkpoint, base.CASES = write_checkpoint, CASES  # the rest of making a case is the same
    for name in arguments.names or CASES:
        base.fill = plain
        base.fill = fill(CASES[name]["format"])
        base.make(name, arguments.out)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Makes tests/data/mini-*: small random checkpoints in every published layout, with official goldens.

    make_test_data.py [NAME ...]      all of them, or some, into tests/data
    make_test_data.py --long NAME     NAME/long_greedy.json: 2,000 greedy steps of a case that is there

Each gets checkpoint/, golden.safetensors and case.json (meanings, tolerances, measured noise). The
sizes are odd on purpose, and no weight stays at a value that could hide a mistake. Seeds are tried
until no router, block or greedy decision is close. Needs tools/requirements.txt.
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
from mtp_head import MtpHead

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"

ROPE = dict(rope_type="default", rope_theta=1e7, partial_rotary_factor=0.25, mrope_interleaved=True)
COMMON = dict(
    model_type="qwen4_exp_text", hidden_act="silu", rms_norm_eps=1e-6, attention_bias=False, hc_lowrank=6,
    linear_conv_kernel_dim=4, ple_conv_kernel_size=4, ngram_size=3, indexer_kv_heads=1,
    max_position_embeddings=4096, tie_word_embeddings=False)

CASES = {
    "mini-f32": dict(
        about="Separate experts, one tensor each; three shards with an index; layers spelt indexed_attention; "
              "n-gram memory on two layers; SiLU output gate; blocks of 3 tokens. Row 0 has an EOS in the middle and "
              "two in a row, row 1 begins with one.",
        config=dict(
            vocab_size=130, hidden_size=48, num_hidden_layers=5, num_attention_heads=6, num_key_value_heads=2, head_dim=24,
            layer_types=["linear_attention", "linear_attention", "indexed_attention", "linear_attention", "indexed_attention"],
            rope_parameters=dict(ROPE, mrope_section=[1, 1, 1]), linear_num_key_heads=2, linear_num_value_heads=6,
            linear_key_head_dim=8, linear_value_head_dim=12, num_experts=7, num_experts_per_tok=2, moe_intermediate_size=20,
            shared_expert_intermediate_size=28, hc_count=3, indexer_n_heads=2, indexer_head_dim=12, indexer_budget=12,
            indexer_compress_ratio=3, ple_layer_ids=[1, 4], ple_embed_dim=24, heads_per_ngram=3, ngram_vocab_size_base=60,
            make_ngram_vocab_size_divisible_by=8, split_ngram_parts=11, eos_token_id=2),
        rows=2, length=37, eos_at=[(0, 15), (0, 22), (0, 23), (1, 0)], files=3, index=True, experts="separate"),
    "mini-bf16": dict(
        about="BF16 in the released layout: model.language_model. names, text_config, stacked experts, full_attention, "
              "defaults left out, two files without an index, an MTP head; 150 tokens.",
        config=dict(
            vocab_size=300, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
            layer_types=["linear_attention"] * 3 + ["full_attention"], full_attention_interval=4,
            rope_parameters=dict(ROPE, mrope_section=[2, 1, 1]), partial_rotary_factor=0.25, linear_num_key_heads=2,
            linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16, num_experts=8, num_experts_per_tok=3,
            moe_intermediate_size=32, shared_expert_intermediate_size=32, hc_count=4, hc_lowrank=8, indexer_n_heads=4,
            indexer_head_dim=16, indexer_budget=32, indexer_compress_ratio=4, ple_layer_ids=[2], ple_embed_dim=32,
            heads_per_ngram=4, ngram_vocab_size_base=100, make_ngram_vocab_size_divisible_by=16, split_ngram_parts=5,
            eos_token_id=2, output_gate_type="sigmoid", mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False),
        rows=1, length=150, eos_at=[(0, 70), (0, 71), (0, 120)], files=2, released=True, dtype=torch.bfloat16, mtp=True, draft_position=98,
        stream_every=7),
    "mini-tied": dict(
        about="F16 in one file: tied embeddings, biases in attention, router weights not renormalised, two streams, "
              "4-grams in one whole table, a list of end tokens, a seed, the old spelling of the rope parameters, "
              "layers spelt qwen_sparse_attention, one key head, blocks of 2 tokens.",
        config=dict(
            vocab_size=90, hidden_size=40, num_hidden_layers=4, num_attention_heads=5, num_key_value_heads=1, head_dim=20,
            layer_types=["linear_attention", "indexed_attention", "linear_attention", "linear_attention"],
            rope_parameters=dict(ROPE, rope_theta=20000.0, partial_rotary_factor=0.5, mrope_section=[3, 1, 1]),
            linear_num_key_heads=3, linear_num_value_heads=3, linear_key_head_dim=12, linear_value_head_dim=8,
            linear_conv_kernel_dim=3, num_experts=5, num_experts_per_tok=3, moe_intermediate_size=24,
            shared_expert_intermediate_size=16, hc_count=2, hc_lowrank=5, indexer_n_heads=3, indexer_head_dim=16,
            indexer_budget=8, indexer_compress_ratio=2, ple_layer_ids=[3], ple_embed_dim=36, ple_conv_kernel_size=3,
            ngram_size=4, heads_per_ngram=2, ngram_vocab_size_base=50, make_ngram_vocab_size_divisible_by=4,
            split_ngram_parts=1, eos_token_id=[5, 9], seed=77, norm_topk_prob=False, attention_bias=True,
            rms_norm_eps=1e-5, tie_word_embeddings=True, output_gate_type="sigmoid"),
        rows=2, length=33, eos_at=[(0, 12), (1, 20)], dtype=torch.float16, whole_table=True, old_rope=True,
        spelling="qwen_sparse_attention"),
    "mini-dense": dict(
        about="Dense attention: no indexer keys in config or tensors (the goldens come from the official indexer with a "
              "budget that holds every token), no n-gram memory, layer types from full_attention_interval.",
        config=dict(
            vocab_size=110, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4, head_dim=16,
            full_attention_interval=2, rope_parameters=dict(ROPE, mrope_section=[1, 1, 0]), linear_num_key_heads=1,
            linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=8, num_experts=6, num_experts_per_tok=2,
            moe_intermediate_size=16, shared_expert_intermediate_size=24, hc_count=4, eos_token_id=2),
        rows=2, length=30, eos_at=[(0, 9)], files=2, index=True, experts="separate"),
}
SMALLEST_GAPS = dict(router=2e-5, block_selection=1e-4)
SMALLEST_LEAD = 3e-3
LONG_STEPS, LONG_LEAD = 2000, 2e-4


def draw(name, shape, seed):
    """A random weight of a size that keeps activations near one, with nothing left at 0 or 1."""
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
    normal = torch.randn(shape, generator=generator)
    part = name.removesuffix(".weight").rpartition(".")[2]
    if part == "A_log":
        return (0.05 + 2.5 * torch.rand(shape, generator=generator)).log()
    if part == "dt_bias":
        return 0.6 * normal - 0.4
    if name.endswith(".bias"):
        return 0.15 * normal
    if name.endswith("linear_attn.norm.weight"):
        return 1 + 0.25 * normal
    if "norm" in part:
        return 0.25 * normal + (0.25 if part in ("q_norm", "k_norm") else 0.0)
    if part == "conv1d":
        return 0.35 * normal
    if part in ("embed_tokens", "ngram_embedding"):
        return 0.6 * normal + 0.3 * torch.randn(shape[-1], generator=generator)
    return normal * dict(gate=2.0, lm_head=2.5, block_inject_weight=1.8).get(part, 1.15) / math.sqrt(shape[-1])


@torch.no_grad()
def fill(module, seed, dtype=None, prefix=""):
    """Random weights, rounded to the type they will be stored in."""
    for name, parameter in module.named_parameters():
        parameter.copy_(draw(prefix + name, parameter.shape, seed))
        if "index_qk_proj" in name:  # heads that disagree: a score is then hardly ever 0, which would be a tie
            heads = parameter.view(-1, module.config.indexer_head_dim, parameter.shape[-1])
            heads[1] = 0.3 * heads[1] - heads[0]
        if dtype:
            parameter.copy_(parameter.to(dtype).float())


@torch.no_grad()
def mtp_head(config, seed, dtype):
    """A head with random weights and the model's own layer sizes."""
    head = MtpHead(config).eval()
    fill(head, seed, dtype, "mtp.")
    return head


@torch.no_grad()
def mtp_goldens(head, model, ids, streams, position, drafts=3):
    """Teacher-forced over the whole row; then a greedy chain of drafts after `position`, in which the head's own streams are
    the next input. Returns goldens and by how much the closest choice was won."""
    text, split = model.model, lambda x: x.unflatten(-1, (head.streams, -1))
    run = lambda wide, tokens: head(wide, text.embed_tokens(tokens), text.rotary_emb)
    trace = official.Trace(head)
    fused, wide, hidden = run(streams[:, :-1], ids[:, 1:])
    trace.close()
    pairs = fused.shape[1]
    selected = (trace.seen["selected"][0][0, 0] & torch.ones(pairs, pairs).tril().bool()).to(torch.uint8)
    kept = dict(mtp_fused=split(fused[0]), mtp_streams=split(wide[0]), mtp_logits=model.lm_head(hidden)[0],
                mtp_qsa_selected=selected)
    best = model(input_ids=ids[:, :position + 1], use_cache=False).logits[0, -1].topk(2)
    tokens, leads, steps, given = [int(best.indices[0])], [float(best.values[0] - best.values[1])], [], streams[:, :position + 1]
    for _ in range(drafts):
        _, wide, hidden = run(given, torch.cat([ids[:, 1:position + 1], torch.tensor([tokens])], dim=1))
        given = torch.cat([given, wide[:, -1:]], dim=1)
        logits = model.lm_head(hidden)[0, -1]
        best = logits.topk(2)
        tokens.append(int(best.indices[0]))
        leads.append(float(best.values[0] - best.values[1]))
        steps.append((logits, split(wide[0, -1])))
    return kept | dict(draft_position=torch.tensor([position]).int(), draft_tokens=torch.tensor(tokens).int(),
                       draft_logits=torch.stack([s[0] for s in steps]), draft_streams=torch.stack([s[1] for s in steps])), min(leads)


def config_on_disk(case):
    config = dict(COMMON, **case["config"])
    config["dtype"] = str(case.get("dtype") or torch.float32).removeprefix("torch.")
    if "spelling" in case:
        config["layer_types"] = [case["spelling"] if t == "indexed_attention" else t for t in config["layer_types"]]
    if case.get("old_rope"):
        rope = config.pop("rope_parameters")
        config |= dict(rope_theta=rope["rope_theta"], partial_rotary_factor=rope["partial_rotary_factor"],
                       rope_scaling=dict(rope_type="default", mrope_interleaved=True, mrope_section=rope["mrope_section"]))
    if "indexer_n_heads" not in config:
        config.pop("indexer_kv_heads")
    if not case.get("released"):
        return dict(architectures=["Qwen4ExpForCausalLM"], **config)
    config.pop("tie_word_embeddings")
    return dict(architectures=["Qwen4ExpForConditionalGeneration"], model_type="qwen4_exp", dtype=config["dtype"],
                tie_word_embeddings=False, image_token_id=296, video_token_id=297, vision_start_token_id=294,
                vision_end_token_id=295, text_config=config)


def write_checkpoint(case, model, head, folder):
    tensors = dict(model.state_dict())
    if case["config"].get("tie_word_embeddings"):
        del tensors["lm_head.weight"]
    if "indexer_n_heads" not in case["config"]:
        tensors = {n: t for n, t in tensors.items() if ".indexer." not in n}
    if not case.get("whole_table") and "split_ngram_parts" in case["config"]:
        tensors = layouts.shard_tables(tensors, case["config"]["split_ngram_parts"])
    if case.get("experts") == "separate":
        tensors = layouts.separate_experts(tensors)
    if case.get("released"):
        tensors = layouts.rename_prefix(tensors, "model.language_model.")
    if head:
        tensors |= {"mtp." + n: t for n, t in head.state_dict().items()}
    layouts.write(folder, tensors, config_on_disk(case), case.get("files", 1), case.get("index", False), case.get("dtype"))


def draw_ids(case, seed):
    config = case["config"]
    ends = config["eos_token_id"] if isinstance(config["eos_token_id"], list) else [config["eos_token_id"]]
    usable = torch.tensor([i for i in range(config["vocab_size"]) if i not in ends])
    generator = torch.Generator().manual_seed(seed + 1)
    ids = usable[torch.randint(len(usable), (case["rows"], case["length"]), generator=generator)]
    for row, position in case["eos_at"]:
        ids[row, position] = ends[0]
    return ids, ends


@torch.no_grad()
def attempt(case, folder, seed):
    """Writes the checkpoint; returns goldens, measurements, and whether every decision is clear."""
    length = case["length"]
    model = official.causal_lm(config_on_disk(case), length + 24)
    fill(model, seed, case.get("dtype"))
    head = mtp_head(model.config, seed, case.get("dtype")) if case.get("mtp") else None
    write_checkpoint(case, model, head, folder / "checkpoint")
    ids, ends = draw_ids(case, seed)
    trace, gaps, hidden = official.Trace(model), official.Gaps(), []
    hook = model.model.hyper_connection_mixer.register_forward_hook(lambda _m, _i, out: hidden.append(out))
    with gaps:
        logits = model(input_ids=ids, use_cache=False).logits
    trace.close()
    hook.remove()
    positions = torch.tensor(sorted({*range(0, length, case.get("stream_every", 1)), length - 1}))
    kept = dict(ids=ids.int(), logits=logits, hidden=hidden[0][0, positions],
                **trace.goldens(len(ids), length, model.config.hc_count, positions))
    if "indexer_n_heads" not in case["config"]:
        del kept["qsa_selected"]
    measured = {}
    if head:
        with gaps:
            of_head, measured["draft_lead"] = mtp_goldens(head, model, ids[:1], trace.seen["streams"][-1][:1], case["draft_position"])
        kept |= of_head
    stepped, cache = official.in_pieces(model, ids, [13, 16] + [1] * (length - 29) if length < 60 else [13, 16, length - 40] + [1] * 11)
    kept["delta_state"] = torch.stack([layer.recurrent_states[0][0] for layer, kind in
                                       zip(cache.layers, model.config.layer_types) if kind == "linear_attention"])
    wide = official.in_float64(model)
    with official.widened():
        exact = wide(input_ids=ids, use_cache=False).logits
    with gaps:
        chosen, lead = official.greedy(model, ids[:1, :19], 24)
    kept |= dict(greedy_prompt=ids[0, :19].int(), greedy_ids=torch.tensor(chosen).int())
    measured |= dict(decision_gaps={k: v for k, v in gaps.smallest.items() if v < math.inf}, greedy_lead=lead,
                    logits_range=[logits.min().item(), logits.max().item()],
                    float32_vs_float64=(logits.double() - exact).abs().max().item(),
                    cached_pieces_vs_full=(stepped - logits).abs().max().item())
    clear = min(lead, measured.get("draft_lead", lead)) >= SMALLEST_LEAD and all(gaps.smallest[k] >= v for k, v in SMALLEST_GAPS.items())
    return kept, measured, clear and not set(chosen) & set(ends) and len(set(chosen)) >= 6


def make(name, out):
    case = CASES[name]
    for seed in range(100):
        folder = out / f".{name}.new"
        shutil.rmtree(folder, ignore_errors=True)
        kept, measured, usable = attempt(case, folder, seed)
        print(f"{name} seed {seed}: {measured}", flush=True)
        if usable:
            break
    else:
        raise SystemExit(f"{name}: no seed without a close decision")
    kept = {n: t.contiguous().clone() for n, t in kept.items()}
    save_file(kept, folder / "golden.safetensors")
    (folder / "golden.safetensors").chmod(0o644)
    noise = max(measured["float32_vs_float64"], measured["cached_pieces_vs_full"])
    (folder / "case.json").write_text(json.dumps(dict(
        name=name, about=case["about"], seed=seed, made_with=official.versions(),
        tolerances=dict(float_absolute=official.tolerance(noise), float_relative=1e-4, integers="exact"),
        measured=measured, goldens=official.meanings_of(kept)), indent=1) + "\n")
    shutil.rmtree(out / name, ignore_errors=True)
    folder.rename(out / name)
    print(f"{name}: {sum(f.stat().st_size for f in (out / name).rglob('*') if f.is_file()) / 1e6:.2f} MB")


def make_long(name, out):
    """A drift that only shows after many steps (state, cache, history) ends in another token."""
    case = CASES[name]
    seed = json.loads((out / name / "case.json").read_text())["seed"]
    model = official.causal_lm(config_on_disk(case), LONG_STEPS + 8)
    fill(model, seed, case.get("dtype"))
    best = None
    for first in range(3, 23):
        prompt = [first, first + 40, first + 80]
        chosen, lead = official.greedy(model, torch.tensor([prompt]), LONG_STEPS)
        print(f"{name} from {prompt}: {len(set(chosen))} different ids, smallest lead {lead:.2g}", flush=True)
        if len(set(chosen[-200:])) >= 6 and (best is None or lead > best["smallest_lead"]):
            best = dict(made_with=official.versions(), smallest_lead=lead, prompt=prompt, ids=chosen)
        if best and best["smallest_lead"] >= LONG_LEAD:
            break
    else:
        raise SystemExit(f"{name}: no prompt without a close decision")
    (out / name / "long_greedy.json").write_text(json.dumps(best) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--long", metavar="NAME", choices=CASES)
    parser.add_argument("--out", type=Path, default=DATA)
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    torch.set_num_threads(1)  # one order of sums, whatever the machine
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.long:
        return make_long(arguments.long, arguments.out)
    for name in arguments.names or CASES:
        make(name, arguments.out)


if __name__ == "__main__":
    main()

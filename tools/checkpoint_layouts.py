"""Writes checkpoints in the layouts that are published: prefixes, experts, n-gram shards, files."""
import json

from safetensors.torch import save_file


def rename_prefix(tensors, prefix):
    """`model.` becomes `model.language_model.`, say; lm_head and mtp keep their names."""
    return {prefix + n.removeprefix("model.") if n.startswith("model.") else n: t for n, t in tensors.items()}


def separate_experts(tensors):
    """One tensor per expert and projection instead of two stacks."""
    out = {}
    for name, tensor in tensors.items():
        stem, found, kind = name.rpartition(".mlp.experts.")
        if found and kind == "gate_up_proj":
            for e, (gate, up) in enumerate(t.chunk(2) for t in tensor):
                out[f"{stem}.mlp.experts.{e}.gate_proj.weight"] = gate
                out[f"{stem}.mlp.experts.{e}.up_proj.weight"] = up
        elif found and kind == "down_proj":
            out |= {f"{stem}.mlp.experts.{e}.down_proj.weight": t for e, t in enumerate(tensor)}
        else:
            out[name] = tensor
    return out


def shard_tables(tensors, parts):
    """n-gram tables cut into shard_0 ... of equal length but for the last."""
    out = {}
    for name, tensor in tensors.items():
        if name.endswith(".ngram_embedding.weight"):
            stem, rows = name.removesuffix("weight"), -(-len(tensor) // parts)
            pieces = tensor.split(rows)
            if len(pieces) != parts:
                raise ValueError(f"{name}: {len(tensor)} rows do not make {parts} shards")
            out |= {f"{stem}shard_{i}.weight": piece for i, piece in enumerate(pieces)}
        else:
            out[name] = tensor
    return out


def write(folder, tensors, config, files=1, index=False, dtype=None):
    """Names in lexicographic order, as the published files have them, over `files` files of about equal size."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    stored = {n: (t.to(dtype) if dtype and t.is_floating_point() else t).contiguous().clone()
              for n, t in sorted(tensors.items())}
    total, groups, filled = sum(t.nbytes for t in stored.values()), [{}], 0
    for name, tensor in stored.items():
        if filled >= total * len(groups) / files:
            groups.append({})
        groups[-1][name] = tensor
        filled += tensor.nbytes
    where = {}
    for i, group in enumerate(groups, 1):
        file = "model.safetensors" if files == 1 else f"model-{i:05d}-of-{len(groups):05d}.safetensors"
        save_file(group, folder / file, metadata={"format": "pt"})
        (folder / file).chmod(0o644)
        where |= dict.fromkeys(group, file)
    if index:
        (folder / "model.safetensors.index.json").write_text(
            json.dumps(dict(metadata=dict(total_size=total), weight_map=where), indent=1) + "\n")

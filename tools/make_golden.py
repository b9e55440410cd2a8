#!/usr/bin/env python3
"""The ladder of evidence for any checkpoint: what the official implementation computes, layer by layer.

    make_golden.py DIR IDS OUT [--dtype float32|float64] [--case CASE.json] [--stream-every N]

DIR is a checkpoint (BF16, F16 or F32), IDS a JSON array of arrays of token ids [[...], ...] of one
length, OUT the safetensors file to write; `flashnext verify --model-dir DIR --golden OUT` compares.
The official classes run one layer at a time, an expert is read when a token chooses it, and of the
n-gram tables only the rows that are asked for: of the published 360 GB at most one layer's dense
weights are in memory. --case also runs the other precision and writes the tolerances that follow from
the difference (ten times that noise). Needs tools/requirements.txt.
"""
import argparse
import json
import re
import struct
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

import official
from official import qwen


class Checkpoint:
    """Names to files by the headers alone; reads tensors, or some of their rows, when asked."""

    def __init__(self, folder, dtype):
        self.dtype, self.files, self.where = dtype, {}, {}
        self.config = json.loads((folder / "config.json").read_text())
        for path in sorted(folder.glob("*.safetensors")):
            with open(path, "rb") as file:
                header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            for name in header:
                if name != "__metadata__":
                    if name in self.where:
                        raise SystemExit(f"{name} is in {self.where[name].name} and in {path.name}")
                    self.where[name] = path
        if not self.where:
            raise SystemExit(f"{folder}: no .safetensors files")
        nested = any(name.startswith("model.language_model.") for name in self.where)
        self.prefix = "model.language_model." if nested else "model."

    def _slice(self, name, *rows):
        """The tensor, or those rows [start, end) of it, as it is stored."""
        with official.as_stored():
            return self._view(name)[slice(*rows) if rows else slice(None)]

    def _view(self, name):
        path = self.where.get(name)
        if path is None:
            raise SystemExit(f"the checkpoint has no tensor {name}")
        if path not in self.files:
            self.files[path] = safe_open(path, "pt")
        return self.files[path].get_slice(name)

    def _widen(self, name, tensor):
        if tensor.is_floating_point() and tensor.element_size() == 1:
            raise SystemExit(f"{name}: quantised weights are not read here; use the BF16 checkpoint")
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor

    def has(self, name):
        return name in self.where

    def get(self, name):
        return self._widen(name, self._slice(name))

    def part(self, name, start, end):
        return self._widen(name, self._slice(name, start, end))

    def rows(self, name, wanted):
        """Rows [n] of a matrix, each read once: dict row -> tensor."""
        return {row: self.part(name, row, row + 1)[0] for row in wanted}

    def length(self, name):
        return self._view(name).get_shape()[0]

    def names(self, stem):
        return [name for name in self.where if name.startswith(stem)]


class RowReader(torch.nn.Module):
    """An embedding whose table stays on disk, whole or in shard_N pieces; like nn.Embedding to its caller."""

    def __init__(self, checkpoint, stem):
        super().__init__()
        self.checkpoint = checkpoint
        shards = {int(m[1]): n for n in checkpoint.names(stem) if (m := re.search(r"\.shard_(\d+)\.weight$", n))}
        if shards and sorted(shards) != list(range(len(shards))):
            raise SystemExit(f"{stem}: shards {sorted(set(range(max(shards))) - set(shards))} are missing")
        self.pieces = [shards[i] for i in range(len(shards))] or [f"{stem}weight"]
        self.starts = [0]
        for piece in self.pieces:
            self.starts.append(self.starts[-1] + checkpoint.length(piece))
        self.weight = torch.empty(0)  # its device is asked for

    def forward(self, ids):
        unique, inverse = ids.unique(return_inverse=True)
        found = {}
        for piece, start, end in zip(self.pieces, self.starts, self.starts[1:]):
            inside = [i - start for i in unique.tolist() if start <= i < end]
            found |= {start + row: values for row, values in self.checkpoint.rows(piece, inside).items()}
        return torch.stack([found[i] for i in unique.tolist()])[inverse]


class ExpertStack:
    """Stands for a stacked expert weight: stack[e] is read from disk, from either layout."""

    def __init__(self, checkpoint, stem, kind):
        self.checkpoint, self.stem, self.kind = checkpoint, stem, kind
        self.stacked = checkpoint.has(f"{stem}{kind}")

    def __getitem__(self, expert):
        expert = int(expert)
        if self.stacked:
            return self.checkpoint.rows(f"{self.stem}{self.kind}", [expert])[expert]
        parts = ["down_proj"] if self.kind == "down_proj" else ["gate_proj", "up_proj"]
        return torch.cat([self.checkpoint.get(f"{self.stem}{expert}.{part}.weight") for part in parts])


class LastState:
    """The part of the cache interface that a single full pass uses: keeps each layer's last delta-rule state."""

    def __init__(self):
        self.states = []

    def get_conv_state(self, *_args, **_kwargs):
        return None

    get_recurrent_state = get_conv_state

    def update_conv_state(self, new, *_args, **_kwargs):
        return new

    def update_indexer(self, keys, *_args):
        return keys

    def update(self, keys, values, *_args, **_kwargs):
        return keys, values

    def update_recurrent_state(self, state, *_args, **_kwargs):
        self.states.append(state)


def fill_module(module, checkpoint, stem, skip=()):
    """Gives a module built without memory its weights, by name."""
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if name.startswith(skip):
            continue
        owner = module.get_submodule(name.rpartition(".")[0])
        value, leaf = checkpoint.get(stem + name), name.rpartition(".")[2]
        if value.shape != tensor.shape:
            raise SystemExit(f"{stem}{name}: expected {list(tensor.shape)}, found {list(value.shape)}")
        if leaf in owner._buffers:
            owner._buffers[leaf] = value
        else:
            owner._parameters[leaf] = torch.nn.Parameter(value, requires_grad=False)
    return module.eval()


def open_up(module, name, replacement):
    """Puts something that is not a parameter where a parameter was."""
    del module._parameters[name]
    object.__setattr__(module, name, replacement)


def make_layer(checkpoint, config, index, dense):
    stem = f"{checkpoint.prefix}layers.{index}."
    with torch.device("meta"):
        layer = qwen.Qwen4ExpTextDecoderLayer(config, index)
    for kind in ("gate_up_proj", "down_proj"):
        open_up(layer.mlp.experts, kind, ExpertStack(checkpoint, f"{stem}mlp.experts.", kind))
    skip = ()
    if layer.ple is not None:
        table = "ple.ple_embedding.ngram_embedding."
        layer.ple.ple_embedding.ngram_embedding = RowReader(checkpoint, stem + table)
        skip = (table,)
    if dense and layer.layer_type != "linear_attention":  # every block is taken, whatever its score
        indexer = layer.self_attn.indexer.to_empty(device="cpu").to(checkpoint.dtype)
        for parameter in indexer.parameters():
            torch.nn.init.zeros_(parameter)
        skip += ("self_attn.indexer.",)
    return fill_module(layer, checkpoint, stem, skip)


def head_logits(checkpoint, config, hidden):
    name = f"{checkpoint.prefix}embed_tokens.weight" if config.tie_word_embeddings else "lm_head.weight"
    pieces = []
    for start in range(0, config.vocab_size, 4096):  # a piece of the vocabulary at a time
        pieces.append(hidden @ checkpoint.part(name, start, start + 4096).T)
    return torch.cat(pieces, dim=-1)


@torch.no_grad()
def run(folder, ids, dtype, stream_every=1):
    """All goldens of ids [B,T] as a dict of tensors."""
    checkpoint = Checkpoint(folder, dtype)
    batch, length = ids.shape
    config, dense = official.text_config(checkpoint.config, length)
    if not 0 <= int(ids.min()) <= int(ids.max()) < config.vocab_size:
        raise SystemExit(f"ids must lie in 0..{config.vocab_size - 1}")
    rotary = qwen.Qwen4ExpTextRotaryEmbedding(config)
    hidden = RowReader(checkpoint, f"{checkpoint.prefix}embed_tokens.")(ids)
    angles = rotary(hidden, torch.arange(length).expand(3, batch, length))
    mask = torch.full((batch, 1, length, length), torch.finfo(dtype).min, dtype=dtype).triu(1)
    streams, trace, cache = hidden.repeat(1, 1, config.hc_count), official.Trace(), LastState()
    for index in range(config.num_hidden_layers):
        layer = make_layer(checkpoint, config, index, dense)
        trace.watch(layer)
        streams = layer(streams, position_embeddings=angles, attention_mask=mask, cache=cache, ple_input_ids=ids)
        trace.close()
        print(f"layer {index + 1} of {config.num_hidden_layers}", flush=True)
    with torch.device("meta"):
        mixer = qwen.Qwen4ExpTextGatedResidual(config, use_combine=False)
    mixed = fill_module(mixer, checkpoint, f"{checkpoint.prefix}hyper_connection_mixer.")(streams)
    positions = torch.tensor(sorted({*range(0, length, stream_every), length - 1}))
    kept = dict(ids=ids.int(), logits=head_logits(checkpoint, config, mixed).float(), hidden=mixed[0, positions].float(),
                **trace.goldens(batch, length, config.hc_count, positions))
    if cache.states:
        kept["delta_state"] = torch.stack([state[0] for state in cache.states]).float()
    if dense:
        kept.pop("qsa_selected", None)
    return {name: tensor.contiguous().clone() for name, tensor in kept.items()}


def run_as(folder, ids, dtype, stream_every):
    if dtype == torch.float64:
        with official.widened():
            return run(folder, ids, dtype, stream_every)
    return run(folder, ids, dtype, stream_every)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument("ids", metavar="IDS", type=Path)
    parser.add_argument("out", metavar="OUT", type=Path)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--case", type=Path, metavar="CASE.json", help="measure the noise, write tolerances")
    parser.add_argument("--stream-every", type=int, default=1, metavar="N", help="record streams at every Nth position")
    a = parser.parse_args()
    ids = json.loads(a.ids.read_text())
    if not (isinstance(ids, list) and ids and all(isinstance(r, list) and r and len(r) == len(ids[0]) for r in ids)):
        parser.error(f"{a.ids}: expected a JSON array of arrays of ids, all of one length")
    ids = torch.tensor(ids)
    kept = run_as(a.folder, ids, getattr(torch, a.dtype), a.stream_every)
    if a.case:
        other = torch.float64 if a.dtype == "float32" else torch.float32
        noise = (run_as(a.folder, ids, other, a.stream_every)["logits"] - kept["logits"]).abs().max().item()
        a.case.write_text(json.dumps(dict(
            name=a.folder.name, made_with=official.versions(), measured=dict(float32_vs_float64=noise),
            tolerances=dict(float_absolute=official.tolerance(noise), float_relative=1e-4, integers="exact"),
            goldens=official.meanings_of(kept)), indent=1) + "\n")
    save_file(kept, a.out)
    print(f"{a.out}: {', '.join(sorted(kept))}")


if __name__ == "__main__":
    main()

"""How the tools drive the official qwen4_exp classes of transformers.

  widened()      runs the code inside in float64, its float32 islands too
  Trace(model)   keeps what the layers put out, under the names that `flashnext verify` reads
  Gaps()         notes how close the closest top-k decision was
"""
import collections
import contextlib
import copy
import math
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
import transformers.models.qwen4_exp.modeling_qwen4_exp as qwen
from torch.overrides import TorchFunctionMode
from transformers import Qwen4ExpForCausalLM, Qwen4ExpTextConfig

ATTENTION_SPELLINGS = ("full_attention", "qwen_sparse_attention")


def text_config(raw, length=None):
    """The official config of a checkpoint's config.json. The official classes always have an indexer:
    a checkpoint without one is dense attention, which is a budget of at least `length` tokens."""
    text = dict(raw.get("text_config", raw))
    if text.get("layer_types"):
        text["layer_types"] = ["indexed_attention" if t in ATTENTION_SPELLINGS else t for t in text["layer_types"]]
    dense = text.get("indexer_n_heads") is None
    if dense:
        text.update(indexer_n_heads=1, indexer_kv_heads=1, indexer_head_dim=text["head_dim"],
                    indexer_budget=length, indexer_compress_ratio=1)
    text.pop("dtype", None)
    config = Qwen4ExpTextConfig(**text)
    config._attn_implementation = config._experts_implementation = "eager"
    return config, dense


def causal_lm(raw, length=None):
    config, _ = text_config(raw, length)
    model = Qwen4ExpForCausalLM(config).eval()
    model.tie_weights()
    return model


class widened(TorchFunctionMode):
    """Float64 where the official code asks for float32; not inside as_stored(), where files are read."""
    paused = False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if widened.paused:
            return func(*args, **(kwargs or {}))
        if func is torch.Tensor.float:
            return args[0].double()
        wide = lambda value: torch.float64 if value is torch.float32 else value
        return func(*map(wide, args), **{name: wide(value) for name, value in (kwargs or {}).items()})


@contextlib.contextmanager
def as_stored():
    before, widened.paused = widened.paused, True
    try:
        yield
    finally:
        widened.paused = before


def in_float64(model):
    """A copy with float64 weights and rotary frequencies; call it inside widened()."""
    wide = copy.deepcopy(model).double()
    with widened():
        for module in wide.modules():
            if isinstance(module, qwen.Qwen4ExpTextRotaryEmbedding):
                module.inv_freq = qwen.Qwen4ExpTextRotaryEmbedding(module.config).inv_freq
    return wide


class Gaps:
    """The smallest distance, in a run, between the last candidate that a top-k kept and the first it
    dropped: no rounding error may flip a decision that a golden records."""

    def __init__(self):
        self.smallest = dict(router=math.inf, block_selection=math.inf)

    def __enter__(self):
        self.saved = torch.topk, torch.Tensor.topk
        function, method = self.saved

        def note(kind, values, k):
            if values.shape[-1] > k:
                best = function(values, k + 1, dim=-1).values
                self.smallest[kind] = min(self.smallest[kind], (best[..., k - 1] - best[..., k]).min().item())

        def router(values, k, dim=-1):
            note("router", values, k)
            return function(values, k, dim=dim)

        def indexer(values, k, dim=-1):
            note("block_selection", values, k)
            return method(values, k, dim=dim)

        torch.topk, torch.Tensor.topk = router, indexer
        return self

    def __exit__(self, *_):
        torch.topk, torch.Tensor.topk = self.saved


class Trace:
    """Records a run of decoder layers (a whole model, or one layer after another) by forward hooks."""

    def __init__(self, *modules):
        self.seen = collections.defaultdict(list)
        self.hooks = []
        for module in modules:
            self.watch(module)

    def watch(self, root):
        kinds = {qwen.Qwen4ExpTextDecoderLayer: "streams", qwen.Qwen4ExpTextTopKRouter: "router",
                 qwen.Qwen4ExpTextQSAIndexer: "selected", qwen.Qwen4ExpTextSparseMoeBlock: "mlp",
                 qwen.Qwen4ExpTextGatedDeltaNet: "mixer", qwen.Qwen4ExpTextAttention: "mixer",
                 qwen.Qwen4ExpTextPLELayer: "ple"}
        for name, module in root.named_modules():
            if type(module) in kinds:
                self.hooks.append(module.register_forward_hook(self._keep(kinds[type(module)])))
            if name.endswith("ngram_embedding"):
                self.hooks.append(module.register_forward_pre_hook(
                    lambda _module, inputs: self.seen["rows"].append(inputs[0])))

    def _keep(self, kind):
        def hook(_module, _inputs, output):
            self.seen[kind].append(output)
        return hook

    def close(self):
        for hook in self.hooks:
            hook.remove()
        self.hooks = []

    def goldens(self, batch, length, streams, positions):
        """The recorded values, of batch row 0 unless the name says otherwise, as `verify` reads them."""
        seen, first = self.seen, lambda out: (out[0] if isinstance(out, tuple) else out)[0]
        by_stream = lambda x: x.unflatten(-1, (streams, -1))
        by_token = lambda x: x.view(batch, length, -1)[0]
        causal = torch.ones(length, length).tril().bool()
        kept = dict(
            stream_positions=positions.int(),
            streams=torch.stack([by_stream(first(s)[positions]) for s in seen["streams"]]).float(),
            router_ids=torch.stack([by_token(r[2]) for r in seen["router"]]).int(),
            router_weights=torch.stack([by_token(r[1]) for r in seen["router"]]).float(),
            mixer_out=torch.stack([first(m) for m in seen["mixer"]]).float(),
            mlp_out=torch.stack([first(m) for m in seen["mlp"]]).float())
        if seen["selected"]:
            kept["qsa_selected"] = torch.stack([s[:, 0] & causal for s in seen["selected"]]).to(torch.uint8)
        if seen["ple"]:
            kept["ple_out"] = torch.stack([by_stream(first(p)) for p in seen["ple"]]).float()
            kept["ngram_rows"] = torch.stack(seen["rows"])
        return kept


# What each golden tensor holds. B rows, T tokens, V vocabulary, L layers, A attention layers, P n-gram
# layers, hc streams, D hidden size, k experts per token, S recorded positions.
MEANINGS = dict(
    ids="input token ids [B,T]",
    logits="logits of one full pass in float32 [B,T,V]",
    logits_float64="the same computed in float64 [B,T,V]",
    stream_positions="positions at which streams and hidden are recorded [S]",
    streams="residual streams after each layer, row 0 [L,S,hc,D]",
    hidden="output of the final mixer, row 0 [S,D]",
    router_ids="experts chosen, row 0, by falling weight [L,T,k]",
    router_weights="their weights [L,T,k]",
    qsa_selected="1 where query t may read key s [A,B,T,T]",
    ngram_rows="rows of the whole n-gram table that are read [P,B,T,heads]",
    mixer_out="output of the delta net or attention, row 0 [L,T,D]",
    mlp_out="output of the expert block, row 0 [L,T,D]",
    ple_out="what each n-gram memory layer adds to the streams, row 0 [P,T,hc,D]",
    delta_state="delta-rule state after the last token, row 0 [linear layers,value heads,key dim,value dim]",
    greedy_prompt="prompt of the greedy continuation [P]",
    greedy_ids="greedy continuation, end tokens not stopping it [N]",
    mtp_fused="the MTP head: its layer's input for pairs (streams at t, token t+1), row 0 [T-1,hc,D]",
    mtp_streams="its layer's output [T-1,hc,D]",
    mtp_logits="its logits of token t+2 [T-1,V]",
    mtp_qsa_selected="1 where pair t may read pair s [T-1,T-1]",
    draft_position="the trunk has read the tokens up to here [1]",
    draft_tokens="the trunk's greedy token, then a chain of greedy drafts of the head [1+C]",
    draft_logits="the head's logits in that chain [C,V]",
    draft_streams="its streams there, each the next draft's input [C,hc,D]")


def meanings_of(tensors):
    return {name: dict(shape=list(t.shape), dtype=str(t.dtype).removeprefix("torch."), meaning=MEANINGS[name])
            for name, t in tensors.items()}


def tolerance(noise):
    """Ten times the measured noise, one digit, at least 1e-4."""
    return float(f"{max(1e-4, 10 * noise):.1g}")


def in_pieces(model, ids, pieces):
    """Logits of a cached run that reads ids [B,T] in pieces of these lengths, and the cache."""
    cache, logits, start = None, [], 0
    for length in pieces:
        out = model(input_ids=ids[:, start:start + length], cache=cache, use_cache=True)
        logits.append(out.logits)
        cache, start = out.cache, start + length
    return torch.cat(logits, dim=1), cache


def greedy(model, prompt, count):
    """The greedy continuation of prompt [1,T], and the smallest lead of a chosen token."""
    out, chosen, lead = model(input_ids=prompt, use_cache=True), [], math.inf
    for _ in range(count):
        best = out.logits[0, -1].topk(2)
        chosen.append(best.indices[0].item())
        lead = min(lead, (best.values[0] - best.values[1]).item())
        out = model(input_ids=prompt.new_tensor([[chosen[-1]]]), cache=out.cache, use_cache=True)
    return chosen, lead


def versions():
    import transformers
    return dict(transformers=transformers.__version__, torch=torch.__version__.partition("+")[0])

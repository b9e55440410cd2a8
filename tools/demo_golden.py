#!/usr/bin/env python3
"""What the official implementation gives for the demo model, as test data.

    demo_golden.py --model-dir models/demo --out tests/data/demo

Reads the exported BF16 weights, computes in float32 on one thread, with the official choice of blocks everywhere, and writes

    golden.safetensors   for each sequence NAME:
                           NAME.ids [T], NAME.positions [S], NAME.logits [S,V] at those positions,
                           NAME.top [T] the greedy token at every position, NAME.nll [T-1] minus the log-probability of ids[1:]
                           NAME.draft_positions [S], NAME.draft_logits [S,V], NAME.draft_top [T-1]: the draft head, fed the
                           trunk's streams at t and the token at t+1, about the token at t+2
    greedy.json          20 chat prompts: messages, ids, and 48 new ids that do not stop at the end token
    nll.json             a list of ids and the mean negative log-likelihood of all but the first
    lm_eval.json         of the tasks in tests/data/lm_eval: the log-likelihood of each choice and text, and the scores
    case.json            what the sequences are, how close the closest decisions came, bounds for comparing

`past_budget` is longer than the indexer's budget. Where blocks tie for the last places the lower index wins: the official
code leaves that to torch.topk, which names no rule; nothing else is changed. Sequences in which a router or an indexer decides
by a hair are not used, so every float32 implementation must make the same choices.
"""
import argparse
import contextlib
import itertools
import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file

import train_demo as demo

official = demo.official
SAFE_GAP = {"router": 1e-5, "block selection": 1e-4, "greedy lead": 1e-3}
LOGITS_AT, DRAFTS_AT, NEW_IDS = 5, 2, 48
TRIES = 60  # of which the one with the widest router gap is taken


def lower_index_first(scores, k, dim=-1, **_):
    ordered = scores.sort(dim=dim, descending=True, stable=True)
    return torch.return_types.topk((ordered.values.narrow(dim, 0, k), ordered.indices.narrow(dim, 0, k)))


@contextlib.contextmanager
def watched(model):
    """Ties resolved by index; the smallest distance between a kept and a dropped candidate, exact ties among blocks aside."""
    gaps, kept = {"router": math.inf, "block selection": math.inf, "tied cuts": 0}, torch.Tensor.topk

    def topk(scores, k, dim=-1, **options):
        ordered = scores.detach().sort(dim=dim, descending=True).values
        if k < ordered.shape[dim]:
            gap = float(ordered[k - 1] - ordered[k])
            gaps["tied cuts"] += gap == 0
            gaps["block selection"] = min(gaps["block selection"], gap if gap else math.inf)
        return lower_index_first(scores, k, dim)

    def note(router, inputs, outputs):
        logits = outputs[0].sort(-1, descending=True).values
        gaps["router"] = min(gaps["router"], float((logits[:, router.top_k - 1] - logits[:, router.top_k]).min()))

    hooks = [m.register_forward_hook(note) for m in model.modules() if isinstance(m, official.Qwen4ExpTextTopKRouter)]
    torch.Tensor.topk = topk  # the routers call torch.topk, which this does not touch
    try:
        yield gaps
    finally:
        for name in [n for n, value in gaps.items() if value == math.inf]:
            del gaps[name]  # nothing of the kind was decided
        torch.Tensor.topk = kept
        for hook in hooks:
            hook.remove()


def close(gaps):
    """Names of what is decided too closely."""
    return [k for k, bound in SAFE_GAP.items() if gaps.get(k, math.inf) < bound]


# ---------------------------------------------------------------------------------------------
# Sequences

def conversation(tokenizer, words, seed, shortest, longest):
    """ids of the first made-up conversation whose length fits"""
    batches = demo.Batches(tokenizer, demo.Talk(words, seed))
    while True:
        turns = max(1, shortest // 32)
        ids = batches.encode(batches.talk.words_only(turns, demo.PHRASINGS + (demo.MAIN,)))[0][:-1]
        if shortest <= len(ids) <= longest:
            return ids


@torch.no_grad()
def sequence(model, ids, first):
    """Everything golden.safetensors holds of one sequence; logits at positions from `first` on."""
    batch = torch.tensor([ids])
    with watched(model) as gaps:
        logits, drafts = model(batch)
    logits, drafts, length = logits[0], drafts[0], len(ids)
    gaps["greedy lead"] = min(float((v[:, 0] - v[:, 1]).min()) for v in (logits.topk(2).values, drafts.topk(2).values))
    at = torch.linspace(first, length - 1, LOGITS_AT).long()
    draft_at = torch.linspace(first, length - 2, DRAFTS_AT).long()
    return dict(ids=batch[0].int(), positions=at.int(), logits=logits[at], top=logits.argmax(-1).int(),
                nll=F.cross_entropy(logits[:-1], batch[0, 1:], reduction="none"),
                draft_positions=draft_at.int(), draft_logits=drafts[draft_at], draft_top=drafts.argmax(-1).int()), gaps


def sequences(model, tokenizer, words, log):
    kept, about = {}, {}
    for name, shortest, longest, first in (("short_a", 40, 60, 0), ("short_b", 40, 60, 1), ("short_c", 40, 60, 2),
                                           ("past_budget", 330, 380, 270)):
        best = None
        for seed in range(TRIES):
            ids = conversation(tokenizer, words, 1000 * (len(about) + 1) + seed, shortest, longest)
            tensors, gaps = sequence(model, ids, first)
            if not close(gaps) and (best is None or gaps["router"] > best[2]["router"]):
                best = ids, tensors, gaps
        if best is None:
            raise SystemExit(f"{name}: every conversation has a close decision")
        ids, tensors, gaps = best
        log(f"{name}: {len(ids)} ids, gaps {gaps}")
        kept |= {f"{name}.{n}": t.contiguous() for n, t in tensors.items()}
        about[name] = dict(text=tokenizer.decode(ids), length=len(ids), gaps=gaps)
    return kept, about


# ---------------------------------------------------------------------------------------------
# Greedy decoding and loss

def chat_prompts(words):
    """[words -> (messages, tools, thinking)]: each can be asked again with the next words of an endless supply"""
    user = lambda text: dict(role="user", content=text)
    glosses, tools, cities = dict(words), [demo.WEATHER_TOOL], iter(demo.CITIES[8:])
    system = dict(role="system", content=demo.SYSTEMS[0])
    made_up = demo.Talk(words, 5).made_up_word

    def second(w):
        first = next(w)
        return [user(demo.MAIN.format(w=first)), dict(role="assistant", content=glosses[first]), user(f"And {next(w)}?")]

    def weather(answered):
        city = next(cities)
        call = dict(type="function", function=dict(name="get_weather", arguments=dict(city=city)))
        asked = [user(f"What is the weather in {city}?")]
        return asked if not answered else asked + [
            dict(role="assistant", content="", reasoning_content=f"I need the weather in {city}.", tool_calls=[call]),
            dict(role="tool", content=json.dumps(dict(city=city, temperature=21, sky="sunny")))]

    plain = lambda form, thinking: lambda w: ([user(form.format(w=next(w)))], None, thinking)
    return ([plain(demo.MAIN, thinking) for thinking in 6 * [True] + 4 * [False]]
            + [plain("Define {w}.", True), plain(demo.HELD_OUT[0], True),
               lambda w: ([user(demo.MAIN.format(w=made_up()))], None, True), lambda w: ([user("Hello!")], None, True),
               lambda w: ([system, user(demo.MAIN.format(w=next(w)))], None, True),
               lambda w: (second(w), None, True), lambda w: (second(w), None, False),
               lambda w: (weather(False), tools, True), lambda w: (weather(False), tools, False),
               lambda w: (weather(True), tools, True)])


@torch.no_grad()
def greedy(trunk, prompt):
    chosen, lead = [], math.inf
    out = trunk(input_ids=torch.tensor([prompt]), use_cache=True, logits_to_keep=1)
    while len(chosen) < NEW_IDS:
        best = out.logits[0, -1].topk(2)
        chosen.append(int(best.indices[0]))
        lead = min(lead, float(best.values[0] - best.values[1]))
        out = trunk(input_ids=torch.tensor([chosen[-1:]]), cache=out.cache, use_cache=True)
    return chosen, lead


def greedy_texts(model, tokenizer, words, log):
    end, rows = tokenizer.convert_tokens_to_ids("<|im_end|>"), []
    supply = itertools.cycle([w for w, _ in words[::37]])
    for make in chat_prompts(words):
        for attempt in range(20):
            messages, tools, thinking = make(supply)
            ids = demo.prompt_ids(tokenizer, messages, thinking, tools)
            with watched(model) as gaps:
                new, gaps["greedy lead"] = greedy(model.trunk, ids)
            if not close(gaps):
                break
        answer = new[:new.index(end)] if end in new else new
        rows.append(dict(messages=messages, tools=tools, thinking=thinking, ids=ids, new_ids=new,
                         answer=tokenizer.decode(answer, clean_up_tokenization_spaces=False), gaps=gaps))
        log(f"{messages[-1]['content']!r} thinking {thinking}: {rows[-1]['answer']!r}, gaps {gaps}")
    return rows


@torch.no_grad()
def mean_loss(model, tokenizer, words):
    batches, ids = demo.Batches(tokenizer, demo.Talk(words, 99)), []
    while len(ids) < 250:
        ids += batches.encode(batches.talk.words_only(1, demo.HELD_OUT))[0][:-1]
    ids = ids[:250]
    with watched(model) as gaps:
        logits = model.trunk(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double()
    return dict(ids=ids, predictions=len(ids) - 1, router_gap=gaps["router"],
                mean_nll=float(F.cross_entropy(logits[:-1], torch.tensor(ids[1:]))))


def likelihood(model, tokenizer, context, continuation):
    """Of a continuation's ids, cut as lm-eval does: spaces at the context's end belong to the continuation."""
    kept = context.rstrip()
    first = len(tokenizer.encode(kept, add_special_tokens=False))
    ids = tokenizer.encode(context + continuation, add_special_tokens=False)
    return score(model, ids, first)


def score(model, ids, first):
    with watched(model):
        logits = model.trunk(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double()
    return float(-F.cross_entropy(logits[first - 1:-1], torch.tensor(ids[first:]), reduction="sum"))


def lm_eval(model, tokenizer, tasks):
    docs = lambda name: [json.loads(line) for line in (tasks / name).read_text().splitlines()]
    best = lambda values: max(range(len(values)), key=values.__getitem__)
    words = docs("words.jsonl")
    ask = "<|im_start|>user\nWhat is a {word}?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    found = [[likelihood(model, tokenizer, ask.format(**doc), choice) for choice in doc["choices"]] for doc in words]
    share = lambda right: sum(right) / len(right)
    texts = docs("talk.jsonl")
    prefix = tokenizer.eos_token_id
    rolling = [score(model, [prefix, *tokenizer.encode(doc["text"], add_special_tokens=False)], 1) for doc in texts]
    return dict(words=found, acc=share([best(values) == doc["answer"] for values, doc in zip(found, words)]),
                acc_norm=share([best([v / len(c) for v, c in zip(values, doc["choices"])]) == doc["answer"] for values, doc in zip(found, words)]),
                talk=rolling, bits_per_byte=-sum(rolling) / sum(len(doc["text"].encode()) for doc in texts) / math.log(2))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    a = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = demo.load_exported(a.model_dir)
    words = [tuple(line.split("\t")) for line in (a.model_dir / "definitions.tsv").read_text().splitlines()]
    a.out.mkdir(parents=True, exist_ok=True)
    log = lambda text: print(text, flush=True)
    put = lambda name, value: (a.out / name).write_text(json.dumps(value, ensure_ascii=False) + "\n")
    kept, about = sequences(model, tokenizer, words, log)
    save_file(kept, a.out / "golden.safetensors")
    (a.out / "golden.safetensors").chmod(0o644)
    put("greedy.json", greedy_texts(model, tokenizer, words, log))
    loss = mean_loss(model, tokenizer, words)
    put("nll.json", loss)
    put("lm_eval.json", lm_eval(model, tokenizer, Path(__file__).resolve().parent.parent / "tests" / "data" / "lm_eval"))
    log(f"mean loss {loss['mean_nll']:.6f} over {loss['predictions']} predictions")
    (a.out / "case.json").write_text(json.dumps(dict(
        about="Outputs of the official implementation for models/demo: BF16 weights, float32 arithmetic.",
        made_with=dict(transformers=transformers.__version__, torch=torch.__version__.partition("+")[0]),
        tolerances=dict(float_absolute=1e-3, float_relative=1e-4, integers="exact"), sequences=about), indent=1,
        ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

"""Writes tests/data/sampling/filters.json: distributions after bias, penalties and filters.

The values are those of transformers' logits processors in float64 (bias, repetition penalty,
temperature, top-k, top-p, min-p, in that order); presence and frequency penalties, which
transformers does not have, are subtracted between repetition penalty and temperature as the OpenAI
API defines them.

    python tools/make_sampling_cases.py tests/data/sampling/filters.json
"""

import json
import random
import sys

import torch
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

VOCAB = 60

SETTINGS = [
    {},
    {"temperature": 0.7},
    {"temperature": 1.7},
    {"top_k": 1},
    {"top_k": 20},
    {"top_k": 59},
    {"top_k": 60},
    {"top_k": 1000},
    {"top_p": 0.95},
    {"top_p": 0.5},
    {"top_p": 0.01},
    {"min_p": 0.1},
    {"min_p": 1.0},
    {"min_p": 0.02, "temperature": 2.0},
    {"top_k": 20, "top_p": 0.95},
    {"top_k": 20, "top_p": 0.8, "temperature": 0.7, "presence": 1.5},
    {"top_k": 10, "top_p": 0.9, "min_p": 0.05, "temperature": 1.3},
    {"top_p": 0.9, "min_p": 0.05, "temperature": 0.9},
    {"repetition": 1.3},
    {"repetition": 0.8, "top_k": 15},
    {"presence": 0.9},
    {"frequency": 0.4},
    {"presence": -0.5, "frequency": -0.2},
    {"repetition": 1.2, "presence": 0.3, "frequency": 0.25, "top_p": 0.9},
    {"bias": [[3, 2.5], [17, -4.0], [59, 6.0]]},
    {"bias": [[3, 2.5], [4, -3.0]], "repetition": 1.5, "temperature": 0.6, "top_k": 12, "top_p": 0.85},
]


def processed(logits, prompt, answer, s):
    ids = torch.tensor([prompt + answer])
    scores = torch.tensor([logits], dtype=torch.float64)
    if "bias" in s:
        scores = SequenceBiasLogitsProcessor({(i,): float(b) for i, b in s["bias"]})(ids, scores)
    if "repetition" in s:
        scores = RepetitionPenaltyLogitsProcessor(s["repetition"])(ids, scores)
    for i in set(answer):
        scores[0, i] -= s.get("frequency", 0.0) * answer.count(i) + s.get("presence", 0.0)
    if "temperature" in s:
        scores = TemperatureLogitsWarper(s["temperature"])(ids, scores)
    if "top_k" in s:
        scores = TopKLogitsWarper(s["top_k"])(ids, scores)
    if "top_p" in s:
        scores = TopPLogitsWarper(s["top_p"])(ids, scores)
    if "min_p" in s:
        scores = MinPLogitsWarper(s["min_p"])(ids, scores)
    return torch.log_softmax(scores[0], 0)


def main():
    rng = random.Random(20)
    cases = []
    for s in SETTINGS:
        for spread in (1.0, 3.0):
            logits = [round(rng.gauss(0.0, spread), 4) for _ in range(VOCAB)]
            prompt = [rng.randrange(VOCAB) for _ in range(25)]
            answer = [rng.randrange(20) for _ in range(15)]
            logits = torch.tensor(logits).double().tolist()
            log_p = processed(logits, prompt, answer, s)
            kept = [(i, p) for i, p in enumerate(log_p.tolist()) if p > float("-inf")]
            kept.sort(key=lambda c: (-c[1], c[0]))
            cases.append({"settings": s, "logits": logits, "prompt": prompt, "answer": answer,
                          "kept": [[i, round(p, 9)] for i, p in kept]})
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()

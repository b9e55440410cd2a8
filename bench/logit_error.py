#!/usr/bin/env python3
"""How far the logits of two files that `flashnext logits` wrote lie apart.

    flashnext logits --model-dir A --ids-file ids.json --out a.safetensors --precision fast     (and B)
    bench/logit_error.py a.safetensors b.safetensors

Prints the largest and the mean difference, the standard deviation of the logits themselves, the mean KL divergence, and how
often both prefer the same id. Needs numpy."""
import json
import sys

import numpy as np


def logits(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        about = header["logits"]
        begin, end = about["data_offsets"]
        file.seek(begin, 1)
        data = np.frombuffer(file.read(end - begin), dtype="<f4")
    return data.reshape(-1, about["shape"][-1])


def log_softmax(x):
    x = x.astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    a, b = logits(sys.argv[1]), logits(sys.argv[2])
    p, q = log_softmax(a), log_softmax(b)
    print(json.dumps({"positions": len(a), "max_error": float(np.abs(a - b).max()), "mean_error": float(np.abs(a - b).mean()),
                      "deviation_of_logits": float(a.std()), "mean_kl": float((np.exp(p) * (p - q)).sum(axis=1).mean()),
                      "same_choice": float((a.argmax(axis=1) == b.argmax(axis=1)).mean())}, indent=1))


if __name__ == "__main__":
    main()

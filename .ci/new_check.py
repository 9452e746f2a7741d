"""Writes functions with `daylight new`, runs them with `daylight run` on the CPU and compares with NumPy, as numpy_check.py does.
TVM has to read each text, too.

new_check.py DAYLIGHT [--only REGEX]
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import tvm
from numpy_check import check, dequantize, erf, gelu_tanh, silu


def gelu(x):
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def rms_norm(x, w):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * w


def layer_norm(x, w, b):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + b


def scores(q, k):
    """Unmasked: against the score of what is masked no error would show. tests/operations.rs has masks."""
    return q @ np.repeat(k, q.shape[1] // k.shape[1], 1).swapaxes(-1, -2) / np.sqrt(q.shape[-1])


def values(p, v):
    return p @ np.repeat(v, p.shape[1] // v.shape[1], 1)


def gated(x, w):
    gate, up = np.split(x @ w.T, 2, -1)
    return silu(gate) * up


# Words after `daylight new`, sizes, what it computes in float64, and over how many values a sum goes (0: it is exact).
CASES = [
    ("matmul --m 33 --n 65 --k 77", None, lambda a, b: a @ b, 77),
    ("matmul --m n --n 96 --k 256 --layout nt --dtype bfloat16 --bias --activation gelu --residual", "n=17",
     lambda a, b, bias, r: gelu(a @ b.T + bias) + r, 256),
    ("matmul --m 1 --n 512 --k 384 --layout nt --dtype float16 --scale 0.125 --activation silu", None,
     lambda a, b: silu(a @ b.T / 8), 384),
    ("matmul --batch 3 --m 5 --n 7 --k 64 --layout tt --dtype float16 --out-dtype float32", None,
     lambda a, b: a.swapaxes(1, 2) @ b.swapaxes(1, 2), 64),
    ("matmul --m 16 --n 24 --k 64 --dtype int8 --activation relu", None, lambda a, b: np.maximum(a.astype(np.int64) @ b, 0), 0),
    ("matmul_int4 --m m --n 48 --k 256 --residual", "m=3", lambda w, s, a, r: a @ dequantize(w, s).T + r, 256),
    ("matmul_int4 --m 1 --n 128 --k 512 --activation gelu_tanh", None,
     lambda w, s, a: gelu_tanh(a @ dequantize(w, s).T), 512),
    ("gated_mlp --m m --n 40 --k 96 --dtype bfloat16", "m=7", gated, 96),
    ("gated_mlp --m 2 --n 33 --k 65", None, gated, 65),
    ("attention_scores --batch 2 --heads 4 --kv-heads 2 --queries 9 --keys n --dim 32", "n=21", scores, 32),
    ("attention_scores --heads 8 --queries 1 --keys 33 --dim 64 --dtype float16", None, scores, 64),
    ("attention_values --heads 8 --kv-heads 2 --queries 3 --keys n --dim 16 --dtype bfloat16", "n=29", values, 29),
    ("softmax --shape 5,n,77 --dtype float16", "n=3", softmax, 77),
    ("softmax --shape 6,41,9 --axis 1", None, lambda x: softmax(x, 1), 41),
    ("softmax --shape 7,129 --log", None, lambda x: np.log(softmax(x)), 129),
    ("rms_norm --shape n,768 --dtype bfloat16", "n=5", rms_norm, 768),
    ("layer_norm --shape 2,n,96", "n=3", layer_norm, 96),
    ("sum --shape n,33,65 --axes 0,1 --dtype float16", "n=4", lambda x: x.sum((0, 1)), 132),
    ("mean --shape 3,50,7 --axes 1 --keepdims", None, lambda x: x.mean(1, keepdims=True), 50),
    ("max --shape 31,n --dtype float16", "n=63", lambda x: x.max(-1), 0),
    ("min --shape 9,5 --axes 0 --dtype bfloat16", None, lambda x: x.min(0), 0),
    ("elementwise --shape n,56 --ops silu,mul --dtype bfloat16", "n=5", lambda x, b: silu(x) * b, 1),
    ("elementwise --shape 7,9 --ops bias,gelu_tanh,sub,tanh,scale", None,
     lambda x, b, c, d: np.tanh(gelu_tanh(x + b) - c) * d, 1),
    ("elementwise --shape 6,7 --out-dtype bfloat16", None, lambda x: x, 1),
    ("transpose --shape 6,n,5 --axes 2,0,1 --dtype bfloat16", "n=11", lambda x: x.transpose(2, 0, 1), 0),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("daylight")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    cases = [c for c in CASES if re.search(args.only, c[0])]
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for words, bind, fn, length in cases:
            file = pathlib.Path(folder, "f.py")
            subprocess.run([args.daylight, "new", *words.split(), "--out", str(file)], check=True, capture_output=True)
            tvm.script.from_source(file.read_text())
            if not check(args.daylight, words[:64], fn, length, rng, file, bind):
                wrong.append(words)
    print(f"{len(cases) - len(wrong)} of {len(cases)} agree with NumPy")
    sys.exit(f"wrong: {', '.join(wrong)}" if wrong else 0)


if __name__ == "__main__":
    main()

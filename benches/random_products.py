"""Writes matrix products of random sizes, types and layouts, to be checked on a device.

random_products.py DIR [--count N] [--seed S]

    python3 benches/random_products.py products
    daylight verify products --target cuda:sm_90a --candidates 3

Extents are drawn evenly on a logarithmic scale from 1 to 3000, so that most divide nothing; inputs are
float16 or bfloat16, each with its reduced axis contiguous or strided, sums float32, outputs 16 bits wide.
"""

import argparse
import math
import pathlib
import random

TEXT = """@T.prim_func(s_tir=True)
def main(X: T.Buffer(({x}), "{d}"), W: T.Buffer(({w}), "{d}"), O: T.Buffer(({m}, {n}), "{d}")):
    T.func_attr({{"tirx.noalias": True}})
    C = T.sblock_alloc_buffer(({m}, {n}))
    for i, j, k in T.grid({m}, {n}, {k}):
        with T.sblock("C"):
            v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[v_i, v_j] = T.float32(0.0)
            C[v_i, v_j] = C[v_i, v_j] + T.Cast("float32", X[{xi}]) * T.Cast("float32", W[{wi}])
    for i, j in T.grid({m}, {n}):
        with T.sblock("O"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            O[v_i, v_j] = T.Cast("{d}", C[v_i, v_j])
"""


def extent(rng, low=1, high=3000):
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.dir.mkdir(parents=True, exist_ok=True)
    rng = random.Random(args.seed)
    for i in range(args.count):
        # More than 16 rows and columns, so that no rule for vectors takes it.
        m, n, k = extent(rng, 17), extent(rng, 17), extent(rng)
        d = rng.choice(["float16", "bfloat16"])
        x, xi = rng.choice([(f"{m}, {k}", "v_i, v_k"), (f"{k}, {m}", "v_k, v_i")])
        w, wi = rng.choice([(f"{n}, {k}", "v_j, v_k"), (f"{k}, {n}", "v_k, v_j")])
        name = f"product{i:03}-{m}x{n}x{k}-{d}-{'nk'[xi == 'v_i, v_k']}{'nk'[wi == 'v_j, v_k']}.py"
        (args.dir / name).write_text(TEXT.format(m=m, n=n, k=k, d=d, x=x, w=w, xi=xi, wi=wi))


main()

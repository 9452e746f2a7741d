"""Operators one by one: what Daylight's kernels for the CPU give against TVM's LLVM build.

tvm_values_check.py DAYLIGHT [--only REGEX]

For each type one function applies every operator that the type has to the same inputs, NaNs, infinities, tiny numbers, ties
and the ends of integers among them; Daylight runs it on the CPU, TVM as its build for LLVM.
Operators without rounding have to agree to the bit, the others to a few units of the last place. Operands that TVM's
build leaves without a value (a quotient by 0, a shift by the width, a float that the integer does not hold) are in
docs/correctness.md; of those, and of the other differences that are named below, nothing is compared.
"""

import argparse
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import tvm
from tvm.script import tirx as T  # noqa: F401, the functions are made of text

FLOATS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
INTEGERS = ["int8", "int32", "int64", "uint8"]
NUMPY = {"bfloat16": ml_dtypes.bfloat16}

# name, the expression of a and b, a shift's amount c and a divisor d, exact
FLOAT_OPERATORS = [
    ("add", "a + b", True), ("subtract", "a - b", True), ("multiply", "a * b", True), ("divide", "a / b", True),
    ("min", "T.min(a, b)", True), ("max", "T.max(a, b)", True), ("negate", "-a", True),
    ("pow", "T.pow(a, b)", False), ("atan2", "T.atan2(a, b)", False), ("hypot", "T.hypot(a, b)", False),
    ("copysign", "T.copysign(a, b)", True), ("select", "T.Select(a < b, a, b)", True),
    ("if_then_else", "T.if_then_else(a >= b, a, b)", True),
] + [(f, f"T.{f}(a)", f in ("sqrt", "fabs", "floor", "ceil", "round", "nearbyint", "trunc")) for f in (
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh erf "
    "sigmoid fabs floor ceil round nearbyint trunc").split()]
INTEGER_OPERATORS = [
    ("add", "a + b", True), ("subtract", "a - b", True), ("multiply", "a * b", True), ("min", "T.min(a, b)", True),
    ("max", "T.max(a, b)", True), ("floordiv", "T.floordiv(a, d)", True), ("floormod", "T.floormod(a, d)", True),
    ("truncdiv", "T.truncdiv(a, d)", True), ("truncmod", "T.truncmod(a, d)", True), ("bitand", "a & b", True),
    ("bitor", "a | b", True), ("bitxor", "a ^ b", True), ("bitnot", "~a", True),
    ("shift_left", "T.shift_left(a, c)", True), ("shift_right", "T.shift_right(a, c)", True),
    ("select", "T.Select(a < b, a, b)", True), ("if_then_else", "T.if_then_else(a >= b, a, b)", True),
    ("popcount", "T.popcount(a)", True),
]
SIGNED_OPERATORS = [("negate", "-a", True), ("abs", "T.abs(a)", True)]
BOOL_OPERATORS = [
    ("and", "a and b", True), ("or", "a or b", True), ("not", "not a", True), ("equal", "a == b", True),
    ("not_equal", "a != b", True), ("select", "T.Select(a, b, not b)", True), ("bitnot", "~a", True),
    ("bitand", "a & b", True), ("bitor", "a | b", True), ("bitxor", "a ^ b", True),
]
# What TVM's build does otherwise, and where; docs/correctness.md has the list.
DIFFERENT = {
    # It computes the quotient of two differences, so that a tiny number becomes 0.
    "tanh": lambda a: np.abs(a) > 1e-6, "atanh": lambda a: np.abs(a) > 1e-6,
    # As exp(x * 2.302585093), a constant of ten digits.
    "exp10": lambda a: np.abs(a) <= 1e-3,
    # False where one is NaN; IEEE 754, Python and C say true.
    "not_equal": lambda a: ~np.isnan(a),
}
COMPARISONS = [("equal", "=="), ("not_equal", "!="), ("less", "<"), ("less_equal", "<="), ("greater", ">"),
               ("greater_equal", ">=")]
CASTS = ["float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool"]


def operators(dtype):
    """(name, type of the result, expression, exact) of a type."""
    if dtype == "bool":
        own = [(n, "bool", e, x) for n, e, x in BOOL_OPERATORS]
    else:
        table = FLOAT_OPERATORS if dtype in FLOATS else INTEGER_OPERATORS
        table = table + (SIGNED_OPERATORS if dtype.startswith("int") else [])
        own = [(n, dtype, e, x) for n, e, x in table]
        own += [(n, "bool", f"a {op} b", True) for n, op in COMPARISONS]
        if dtype in FLOATS:
            own += [(n, "bool", f"T.{n}(a)", True) for n in ("isnan", "isinf")]
    return own + [(f"cast to {to}", to, f'T.Cast("{to}", a)', True) for to in CASTS if to != dtype]


def numpy(dtype):
    return np.dtype(NUMPY.get(dtype, dtype))


def inputs(dtype):
    """All pairs of hostile numbers and some ordinary ones, amounts of shifts, divisors."""
    if dtype == "bool":
        a, b = np.meshgrid(np.array([False, True] * 4), np.array([False, True] * 4))
        return a.ravel(), b.ravel(), b.ravel(), b.ravel()
    if dtype in FLOATS:
        tiny = {"float16": 6e-8, "bfloat16": 1e-40, "float32": 1e-45, "float64": 5e-324}[dtype]
        special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 0.1, -0.3, 7.0, 100.0, -100.0, 1e4, tiny,
                   -tiny, math.inf, -math.inf, math.nan, 0.99, -17.75, 33.25]
        a, b = (x.ravel().astype(numpy(dtype)) for x in np.meshgrid(np.array(special), np.array(special)))
        return a, b, b, b
    info, bits = np.iinfo(dtype), np.iinfo(dtype).bits
    special = [0, 1, 2, 3, 5, 7, 10, 16, 31, 100, info.max, info.max - 1, info.min, info.min + 1, info.max // 2, 77]
    special += [-1, -2, -3, -7, -100, -8] if info.min < 0 else [128, 200, 254, 64, 99, 15]
    a, b = (x.ravel() for x in np.meshgrid(np.array(special, dtype), np.array(special, dtype)))
    # Where there is no quotient of the type TVM's process would end.
    none = (b == 0) | ((a == info.min) & (b == (-1 if info.min < 0 else 0)))
    return a, b, (np.arange(a.size) * 7 % bits).astype(dtype), np.where(none, b.dtype.type(1), b)


def text(dtype, chosen, n):
    """A function with an output for each operator."""
    outs = ", ".join(f'O{k}: T.Buffer(({n},), "{to}")' for k, (_, to, _, _) in enumerate(chosen))
    head = f'A: T.Buffer(({n},), "{dtype}"), B: T.Buffer(({n},), "{dtype}"), C: T.Buffer(({n},), "{dtype}"), '
    head += f'D: T.Buffer(({n},), "{dtype}"), {outs}'
    out = f"@T.prim_func(s_tir=True)\ndef main({head}):\n"
    for k, (_, _, e, _) in enumerate(chosen):
        e = re.sub(r"\b([abcd])\b", lambda m: f"{m[1].upper()}[v]", e)
        out += f'    for i in range({n}):\n        with T.sblock("o{k}"):\n            v = T.axis.spatial({n}, i)\n'
        out += f"            O{k}[v] = {e}\n"
    return out


def by_tvm(dtype, chosen, arrays, n):
    """What TVM's build for the CPU gives for each operator, or why it has none."""
    try:
        func = tvm.script.from_source(text(dtype, chosen, n), extra_vars={"T": T})
        built = tvm.compile(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), target="llvm")
        results = [tvm.runtime.tensor(np.zeros(n, numpy(to))) for _, to, _, _ in chosen]
        built["main"](*(tvm.runtime.tensor(x) for x in arrays), *results)
        return [r.numpy() for r in results]
    except Exception as why:  # noqa: BLE001, whatever TVM says is that it has none
        if len(chosen) == 1:
            return [str(why).strip().splitlines()[-1][:120]]
        half = len(chosen) // 2
        return by_tvm(dtype, chosen[:half], arrays, n) + by_tvm(dtype, chosen[half:], arrays, n)


def by_daylight(binary, dtype, chosen, arrays, n):
    bits = lambda x: x.view(np.uint16) if x.dtype == NUMPY["bfloat16"] else x  # noqa: E731
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "in").mkdir()
        (folder / "f.py").write_text("from tvm.script import tirx as T\n\n\n" + text(dtype, chosen, n))
        for k, (name, x) in enumerate(zip("ABCD", arrays)):
            np.save(folder / "in" / f"{k:02}_{name}.npy", bits(x))
        command = [binary, "run", folder / "f.py", "--device", "cpu", "--inputs", folder / "in"]
        done = subprocess.run([*command, "--outputs", folder / "out"], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{dtype}: exit {done.returncode}: {done.stderr.strip()}")
        outs = [np.load(folder / "out" / f"{k + 4:02}_O{k}.npy") for k in range(len(chosen))]
        return [o.view(NUMPY["bfloat16"]) if to == "bfloat16" else o for o, (_, to, _, _) in zip(outs, chosen)]


def meant(dtype, operator, arrays):
    """Where both have to give the same."""
    name, to, _, _ = operator
    a, b, _, _ = arrays
    keep = np.ones(a.shape, bool)
    if dtype in INTEGERS:
        if name in ("add", "subtract", "multiply", "negate", "abs") and dtype in ("int32", "int64"):
            exact = {"add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y}
            f = exact.get(name, lambda x, _: abs(x))
            held = lambda v: np.iinfo(dtype).min <= v <= np.iinfo(dtype).max  # noqa: E731
            keep &= np.array([held(f(int(x), int(y))) for x, y in zip(a, b)])
        return keep
    if dtype not in FLOATS:
        return keep
    x = a.astype(np.float64)
    if name in DIFFERENT:
        keep &= DIFFERENT[name](x) & DIFFERENT[name](b.astype(np.float64)) if name == "not_equal" else DIFFERENT[name](x)
    if name in ("min", "max"):
        keep &= ~(np.isnan(x) | np.isnan(b.astype(np.float64)))
    if name.startswith("cast to") and to in INTEGERS:
        info = np.iinfo(to)
        with np.errstate(invalid="ignore"):
            keep &= np.isfinite(x) & (np.trunc(x) >= info.min) & (np.trunc(x) <= info.max)
    return keep


def near(got, want, unit, keep):
    """Positions that differ by more than some units."""
    if unit is None:
        x, y = got.astype(np.float64) if got.dtype == NUMPY["bfloat16"] else got, want
        y = y.astype(np.float64) if want.dtype == NUMPY["bfloat16"] else y
        nan = (x != x) & (y != y)
        return np.flatnonzero(keep & ~nan & (x != y))
    x, y = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        close = np.abs(x - y) <= unit * np.maximum(np.abs(y), 1e-300)
    same = (x == y) | (np.isnan(x) & np.isnan(y)) | close
    return np.flatnonzero(keep & ~same)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("daylight")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    compared, wrong, missing = 0, [], []
    for dtype in [*FLOATS, *INTEGERS, "bool"]:
        arrays = inputs(dtype)
        n = arrays[0].size
        chosen = [o for o in operators(dtype) if re.search(args.only, f"{o[0]} {dtype}")]
        if not chosen:
            continue
        ours = by_daylight(args.daylight, dtype, chosen, arrays, n)
        theirs = by_tvm(dtype, chosen, arrays, n)
        for k, (operator, want) in enumerate(zip(chosen, theirs)):
            name, to, _, exact = operator
            if isinstance(want, str):
                missing.append(f"{name} of {dtype}: {want}")
                continue
            compared += 1
            unit = None if exact else 16 * FLOATS[to]
            bad = near(ours[k], want, unit, meant(dtype, operator, arrays))
            if bad.size:
                i = bad[0]
                wrong.append(f"{name} of {dtype}: {bad.size} differ; of {arrays[0][i]} and {arrays[1][i]} {ours[k][i]}, "
                             f"TVM says {want[i]}")
    for line in missing:
        print(f"TVM has no {line}")
    for line in wrong:
        print(line)
    print(f"{compared} operators of a type agree" if not wrong else f"{len(wrong)} of {compared} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

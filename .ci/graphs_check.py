"""graphs_check.py DAYLIGHT FOLDER [--seed S] [--graphs N]: graphs of relax operators drawn by seed, as a pipeline gives them.

Each graph is legalised, and three of four are fused (FuseOps, FuseTIR). Every tensor function that comes out must have a kernel for
a GPU and for a CPU (`explain`), and what its default computes on this CPU (`run`) must be what TVM's build for LLVM computes from the same
inputs. TVM adds float16 in float16: of functions with such sums only gross errors count.
The drawn sizes are small and odd. Needs apache-tvm 0.27 and numpy.
"""

import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import sys

import numpy
import tvm
from tvm import relax, tirx

from legalise_check import refused, run

op, nn = relax.op, relax.op.nn
SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 17, 31, 32, 33, 48, 64, 65)
# Elements of an input, and of what operators make of it.
FEW, MANY = 40_000, 300_000
# How far floats may be from TVM's: with float16 in a function, and without.
COARSE, FINE = 5e-2, 1e-4


class Skip(Exception):
    """An operator that does not fit what it was drawn for."""


class Graph:
    """A relax function that grows by one operator after the other."""

    def __init__(self, draw):
        self.draw, self.builder, self.params, self.values = draw, relax.BlockBuilder(), [], []

    def param(self, shape, dtype="float32"):
        var = relax.Var(f"p{len(self.params)}", relax.TensorType(list(shape), dtype))
        self.params.append(var)
        return var

    def like(self, x):
        """A value of the same shape and type."""
        return self.draw.choice([v for v in self.values if shape(v) == shape(x) and dtype(v) == dtype(x)])


def shape(x):
    values = x.ty.shape
    return [int(n) for n in getattr(values, "values", values)]


def dtype(x):
    found = x.ty.dtype
    return str(getattr(found, "dtype", found))


def number(value, x):
    return relax.const(numpy.array(value, dtype=dtype(x)))


def away(x):
    """Not near 0, and positive."""
    return op.add(op.abs(x), number(0.5, x))


def unary(g, x):
    functions = [
        op.tanh, op.sigmoid, op.abs, op.negative, op.erf, op.sin, op.cos, op.floor, op.ceil, op.trunc, op.sign, op.square, op.atan,
        nn.relu, nn.gelu, nn.gelu_tanh, nn.silu, nn.softplus,
        lambda x: op.sqrt(op.abs(x)), lambda x: op.rsqrt(away(x)), lambda x: op.log(away(x)), lambda x: op.exp(op.negative(op.abs(x))),
        lambda x: op.clip(x, -0.4, 0.7), lambda x: nn.leakyrelu(x, 0.1),
    ]  # fmt: skip
    return g.draw.choice(functions)(x)


def binary(g, x):
    functions = [op.add, op.subtract, op.multiply, op.maximum, op.minimum]
    if "float" in dtype(x):
        functions += [lambda a, b: op.divide(a, away(b)), lambda a, b: op.where(op.greater(a, number(0.2, a)), a, b)]
    return g.draw.choice(functions)(x, g.like(x))


def broadcast(g, x):
    sizes = [n if g.draw.random() < 0.5 else 1 for n in shape(x)][g.draw.randrange(len(shape(x)) + 1) :]
    return g.draw.choice([op.add, op.multiply, op.subtract])(x, g.param(sizes or [1], dtype(x)))


def reduce(g, x):
    axes = sorted(g.draw.sample(range(len(shape(x))), g.draw.randint(1, len(shape(x)))))
    functions = [op.sum, op.max, op.min] + ([op.mean, op.variance, op.std] if "float" in dtype(x) else [])
    return g.draw.choice(functions)(x, axis=axes, keepdims=g.draw.random() < 0.5)


def reshape(g, x):
    sizes, n = shape(x), len(shape(x))
    i = g.draw.randrange(n)
    if n > 1 and g.draw.random() < 0.6:
        i = g.draw.randrange(n - 1)
        return op.reshape(x, sizes[:i] + [sizes[i] * sizes[i + 1]] + sizes[i + 2 :])
    parts = [a for a in range(2, sizes[i]) if sizes[i] % a == 0]
    if not parts:
        raise Skip
    part = g.draw.choice(parts)
    return op.reshape(x, sizes[:i] + [part, sizes[i] // part] + sizes[i + 1 :])


def move(g, x):
    """The same elements at other places, or some of them, or some of them several times."""
    sizes, n, draw = shape(x), len(shape(x)), g.draw
    axis = draw.randrange(n)
    start = draw.randrange(sizes[axis])
    few = numpy.prod(sizes) < FEW // 2
    functions = [
        lambda: op.permute_dims(x, draw.sample(range(n), n)),
        lambda: op.expand_dims(x, draw.randrange(n + 1)),
        lambda: op.flip(x, axis),
        lambda: op.strided_slice(x, [axis], [start], [draw.randint(start + 1, sizes[axis])], [draw.choice([1, 1, 2, 3])]),
        lambda: op.concat([x, *(g.like(x) for _ in range(draw.randint(1, 2)))], axis=axis),
        lambda: reshape(g, x),
        lambda: reshape(g, x),
    ]
    if few:
        functions += [lambda: op.repeat(x, draw.choice([2, 3]), axis), lambda: op.tile(x, [draw.choice([1, 2]) for _ in sizes])]
    if 1 in sizes:
        functions.append(lambda: op.squeeze(x, [sizes.index(1)]))
    if n >= 2:
        functions.append(lambda: draw.choice([op.tril, op.triu])(x, draw.randint(-2, 2)))
    if n <= 4 and "float" in dtype(x):
        functions.append(lambda: nn.pad(x, [draw.randint(0, 2) for _ in range(2 * n)], "constant", draw.choice([0.0, 1.5])))
    return draw.choice(functions)()


def index(g, x):
    sizes, draw = shape(x), g.draw
    axis = draw.randrange(len(sizes))
    if sizes[axis] < 2:
        raise Skip
    other = [draw.choice(SIZES) if a == axis else n for a, n in enumerate(sizes)]
    two = [2 if a == axis else n for a, n in enumerate(sizes)]
    functions = [
        lambda: op.take(x, g.param([draw.choice(SIZES)], "int32"), axis=axis, mode="clip"),
        lambda: op.take(x, g.param([3, draw.choice(SIZES)], "int64"), axis=axis, mode="clip"),
        lambda: op.gather_elements(x, g.param(other, "int64"), axis=axis),
        lambda: draw.choice([op.argmax, op.argmin])(x, axis=axis, keepdims=draw.random() < 0.5),
        lambda: op.cumsum(x, axis=axis),
    ]
    if "float" in dtype(x):
        way = draw.choice(["add", "max"])
        functions.append(lambda: op.scatter_elements(x, g.param(two, "int64"), g.param(two, dtype(x)), axis=axis, reduction=way))
    return draw.choice(functions)()


def product(g, x):
    sizes, columns = shape(x), g.draw.choice(SIZES)
    if len(sizes) in (2, 3, 4) and g.draw.random() < 0.3:
        axes = list(range(len(sizes)))
        return op.matmul(x, op.permute_dims(x, axes[:-2] + [axes[-1], axes[-2]]))
    right = g.param([sizes[-1], columns], dtype(x))
    if g.draw.random() < 0.5:
        right = op.permute_dims(g.param([columns, sizes[-1]], dtype(x)), [1, 0])
    made = op.matmul(x, right)
    return op.add(made, g.param([columns], dtype(x))) if g.draw.random() < 0.5 else made


def normalise(g, x):
    sizes, kind = shape(x), dtype(x)
    row = [sizes[-1]]
    functions = [
        lambda: nn.layer_norm(x, g.param(row, kind), g.param(row, kind), axes=[-1]),
        lambda: nn.softmax(x, axis=g.draw.randrange(len(sizes))),
        lambda: nn.log_softmax(x, axis=-1),
    ]
    if len(sizes) >= 2:
        functions.append(lambda: nn.rms_norm(x, g.param(row, kind), axes=[-1]))
    if len(sizes) >= 3:
        groups = g.draw.choice([a for a in range(1, sizes[1] + 1) if sizes[1] % a == 0])
        channels, rest = [sizes[1]], list(range(2, len(sizes)))
        norm = lambda: nn.group_norm(x, g.param(channels, kind), g.param(channels, kind), groups, channel_axis=1, axes=rest)  # noqa: E731
        functions.append(norm)
    return g.draw.choice(functions)()


def window(g, x):
    sizes, draw = shape(x), g.draw
    if dtype(x) != "float32" or len(sizes) not in (3, 4) or sizes[1] > 33 or min(sizes[2:]) < 3:
        raise Skip
    if len(sizes) == 3:
        return nn.conv1d(x, g.param([6, sizes[1], 3]), padding=1)
    channels = draw.choice([4, 8, 13])
    functions = [
        lambda: nn.conv2d(x, g.param([channels, sizes[1], 3, 3]), strides=draw.choice([1, 2]), padding=draw.choice([0, 1])),
        lambda: nn.conv2d(x, g.param([sizes[1], 1, 3, 3]), padding=1, groups=sizes[1]),
        lambda: nn.conv2d_transpose(x, g.param([sizes[1], 5, 2, 2]), strides=2),
        lambda: nn.max_pool2d(x, [2, 2], strides=draw.choice([1, 2]), padding=draw.choice([0, 1])),
        lambda: nn.avg_pool2d(x, [3, 3], strides=2, padding=1, count_include_pad=draw.random() < 0.5),
        lambda: nn.adaptive_avg_pool2d(x, [1, 1]),
        lambda: op.image.resize2d(x, [sizes[2] * 2, sizes[3] + 3], method=draw.choice(["nearest_neighbor", "linear"]), layout="NCHW"),
    ]
    return draw.choice(functions)()


def cast(g, x):
    others = ["float32", "float16", "int32"] if "float" in dtype(x) else ["float32", "float16"]
    return op.astype(x, g.draw.choice([d for d in others if d != dtype(x)]))


ANY = (binary, reduce, move, move, index, cast)
FLOATS = (unary, unary, unary, binary, broadcast, broadcast, product, product, normalise, window, *ANY)


def module(draw):
    """A module of tensor functions."""
    g = Graph(draw)
    sizes = [draw.choice(SIZES) for _ in range(draw.choice([1, 2, 2, 3, 3, 4]))]
    while numpy.prod(sizes) > FEW:
        sizes[draw.randrange(len(sizes))] = draw.choice([1, 2, 3, 4])
    with g.builder.function("main"):
        with g.builder.dataflow():
            g.values.append(g.param(sizes, draw.choice(["float32", "float32", "float32", "float16"])))
            for _ in range(draw.randint(2, 7)):
                step(g)
            out = g.builder.emit_output(g.values[-1])
        g.builder.emit_func_output(out, params=g.params)
    transform = relax.transform
    passes = [transform.Normalize(), transform.LegalizeOps()]
    if draw.random() < 0.75:
        passes += [transform.AnnotateTIROpPattern(), transform.FoldConstant(), transform.DeadCodeElimination()]
        passes += [transform.FuseOps(), transform.FuseTIR()]
    return tvm.ir.transform.Sequential([*passes, transform.DeadCodeElimination()])(g.builder.get())


def step(g):
    """One operator of one of the last values, or of an earlier one."""
    while True:
        x = g.draw.choice(g.values[-3:] if g.draw.random() < 0.7 else g.values)
        ways = FLOATS if "float" in dtype(x) else ANY
        try:
            if not shape(x):
                raise Skip
            made = g.builder.normalize(g.draw.choice(ways)(g, x))
        except Skip:
            continue
        made = g.builder.emit(made)
        if shape(made) and numpy.prod(shape(made)) <= MANY and len(shape(made)) <= 6:
            return g.values.append(made)


def numbers(tensor, rng):
    sizes, kind = [int(n) for n in tensor.shape], str(tensor.dtype)
    if numpy.dtype(kind).kind in "iub":
        return rng.integers(0, 2, sizes).astype(kind)
    return rng.uniform(-1, 1, sizes).astype(kind)


def write(folder, seed, graphs):
    """A file for each function, and beside it what TVM computes; gives how many there are."""
    seen = set()
    for i in range(graphs):
        try:
            made = module(random.Random(seed * 100_003 + i))
        except Exception as error:  # TVM raises many kinds
            print(f"TVM leaves out graph {i}: {str(error).strip().splitlines()[-1][:90]}")
            continue
        for name, function in made.functions.items():
            if not isinstance(function, tirx.PrimFunc):
                continue
            text = function.without_attr("global_symbol").script()
            if text in seen:
                continue
            seen.add(text)
            file = folder / f"g{i:03}_{name.name_hint[:70]}.py"
            file.write_text(text)
            rng = numpy.random.default_rng(i)
            tensors = [tvm.runtime.tensor(numbers(p, rng)) for p in function.params]
            before = [t.numpy().copy() for t in tensors]
            try:
                built = tvm.compile(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}), target="llvm")
            except Exception as error:  # TVM raises many kinds; some functions only have a kernel
                print(f"TVM does not build {file.name}: {str(error).strip().splitlines()[-1][:90]}")
                continue
            built["main"](*tensors)
            numpy.savez(file.with_suffix(".npz"), *before, *(t.numpy() for t in tensors))
    return len(seen)


def wrong(daylight, file):
    """What differs from TVM, in a sentence, or None."""
    stored = list(numpy.load(file.with_suffix(".npz")).values())
    before, after = stored[: len(stored) // 2], stored[len(stored) // 2 :]
    written = {i for i, (a, b) in enumerate(zip(before, after)) if a.tobytes() != b.tobytes()} | {len(before) - 1}
    text = file.read_text()
    names = re.findall(r"\b(\w+): T\.Buffer\(", text.split("def main(")[1].split("):")[0])
    given = {f"{i:02}_{names[i]}": value for i, value in enumerate(before) if i not in written}
    made, said = run(daylight, file, given)
    if said:
        return said
    got = {int(name.split("_")[0]): value for name, value in made.items()}
    limit = COARSE if "float16" in text else FINE
    return next((f"{names[i]}: {said}" for i in sorted(written) if (said := apart(got.get(i), after[i], limit))), None)


def apart(got, want, limit):
    """How far results are from what they should be, in words, or None."""
    if got is None or got.shape != want.shape:
        return f"is {'missing' if got is None else got.shape}, not {want.shape}"
    if want.dtype.kind != "f":
        # Floats near a tie become one integer here and another there.
        share = (got != want).mean()
        return f"{share:.1%} of the elements differ" if share > (0.02 if limit == COARSE else 0.001) else None
    a, b = got.astype("float64"), want.astype("float64")
    if (numpy.isnan(a) != numpy.isnan(b)).any():
        return "numbers and none are at other places"
    same = (a == b) | numpy.isnan(a)
    error = numpy.where(same, 0, numpy.abs(a - b) / (1 + numpy.abs(b)))
    return f"off by {error.max():.1e}" if error.size and not error.max() <= limit else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("daylight")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--graphs", type=int, default=80)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for old in [*args.folder.glob("*.py"), *args.folder.glob("*.npz")]:
        old.unlink()
    functions = write(args.folder, args.seed, args.graphs)
    bad = refused(args.daylight, args.folder)
    files = [f.with_suffix(".py") for f in sorted(args.folder.glob("*.npz"))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = pool.map(lambda file: wrong(args.daylight, file), files)
        bad += [f"{file.name}: {why}" for file, why in zip(files, said) if why]
    for line in bad:
        print("WRONG:", line)
    print(f"seed {args.seed}: {args.graphs} graphs, {functions} functions, {len(files)} run, {len(bad)} refused or wrong")
    return 1 if bad or len(files) < args.graphs else 0


if __name__ == "__main__":
    sys.exit(main())

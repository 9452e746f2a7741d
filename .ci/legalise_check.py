"""Legalises relax operators with Apache TVM, and asks Daylight for a kernel of every function that comes out.

    legalise_check.py DAYLIGHT FOLDER [--update]

Each case below is a relax function of one or several operators, which `LegalizeOps` turns into tensor functions, a te
expression, or a function that TVM ships; all are written into FOLDER, one file each. `daylight explain` must give CUDA and C for each of them; which ones are refused
or fail, and why, is compared with `legalise_refused.txt` beside this script (`--update` rewrites it). Every
case whose sizes are constants and that NumPy can compute is also run on the CPU and compared with it.
Needs apache-tvm==0.27.0.post1. Exit code 1 when anything differs.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy
import tvm
from tvm import relax, tirx
from tvm.relax import op as R

from legalise_extern import build_extern, extern, pages

TARGETS = {"cuda:sm_90a": "cuda", "cpu:x86-64-v3": "c"}
GOLDEN = pathlib.Path(__file__).with_name("legalise_refused.txt")
WANTED = "0.27.0.post1"
SIZES = {}


def size(n):
    """A number, or an extent of that name, the same one in all of a function."""
    return n if isinstance(n, int) else SIZES.setdefault(n, tirx.Var(n, "int64"))


def tensor(shape, dtype="float32"):
    return tuple(shape), dtype


def softmax(x):
    e = numpy.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def norm(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / numpy.sqrt(x.var(axes, keepdims=True) + eps)


def scatter_add(x, i, u):
    y = x.copy()
    for k, j in numpy.ndindex(*i.shape):
        y[i[k, j], j] += u[k, j]
    return y


def scatter_rows(x, i, u):
    y = x.copy()
    for k, row in enumerate(i[:, 0]):
        y[row] = u[k]
    return y


def take_backward(g, x, i):
    y = numpy.zeros_like(x)
    numpy.add.at(y, i, g)
    return y


def cases():
    """Name, tensors, relax expression, and the same in NumPy (None where it is not compared)."""
    f32, f16, i32, i64, boolean = "float32", "float16", "int32", "int64", "bool"
    shapes = [(64, 256), (7, 33, 5), ("n", 128)]
    unary = {
        "abs": numpy.abs, "acos": None, "acosh": None, "asin": None, "asinh": numpy.arcsinh, "atan": numpy.arctan,
        "atanh": None, "ceil": numpy.ceil, "cos": numpy.cos, "cosh": numpy.cosh, "erf": None, "exp": numpy.exp,
        "floor": numpy.floor, "isfinite": numpy.isfinite, "isinf": numpy.isinf, "isnan": numpy.isnan,
        "log": None, "negative": numpy.negative, "round": numpy.round, "rsqrt": None,
        "sigmoid": lambda x: 1 / (1 + numpy.exp(-x)), "sign": numpy.sign, "sin": numpy.sin, "sinh": numpy.sinh,
        "sqrt": None, "square": numpy.square, "tan": None, "tanh": numpy.tanh, "trunc": numpy.trunc,
    }
    for name, f in unary.items():
        for shape in shapes:
            yield name, [tensor(shape)], getattr(R, name), f
        if name not in ("isinf", "isnan", "isfinite", "erf"):
            yield name + "_half", [tensor((31, 130), f16)], getattr(R, name), None
    binary = {
        "add": numpy.add, "subtract": numpy.subtract, "multiply": numpy.multiply, "divide": None, "power": None,
        "floor_divide": None, "floor_mod": None, "mod": None, "maximum": numpy.maximum, "minimum": numpy.minimum,
        "equal": numpy.equal, "not_equal": numpy.not_equal, "greater": numpy.greater, "less": numpy.less,
        "greater_equal": numpy.greater_equal, "less_equal": numpy.less_equal,
        "log_add_exp": numpy.logaddexp,
    }
    for name, f in binary.items():
        g = getattr(R, name, None)
        if g is None:
            continue
        yield name, [tensor((30, 77)), tensor((77,))], g, f
        yield name + "_rows", [tensor(("n", 64)), tensor(("n", 1))], g, f
        yield name + "_outer", [tensor((12, 1, 65), f16), tensor((17, 1), f16)], g, None
        if name not in ("power", "log_add_exp", "divide"):
            yield name + "_int", [tensor((9, 31), i32), tensor((9, 31), i32)], g, f
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"):
        yield name, [tensor((9, 31), i32), tensor((9, 31), i32)], getattr(R, name), None
    yield "bitwise_not", [tensor((9, 31), i32)], R.bitwise_not, numpy.invert
    for name in ("logical_and", "logical_or", "logical_xor"):
        yield name, [tensor((9, 31), boolean), tensor((9, 31), boolean)], getattr(R, name), getattr(numpy, name)
    yield "logical_not", [tensor((9, 31), boolean)], R.logical_not, numpy.logical_not
    yield "clip", [tensor((5, 99))], lambda x: R.clip(x, -1.0, 1.0), lambda x: x.clip(-1, 1)
    yield "where", [tensor((40, 9), boolean), tensor((40, 9)), tensor((9,))], R.where, numpy.where
    for name in ("relu", "gelu", "gelu_tanh", "silu", "leakyrelu", "softplus", "selu"):
        g = getattr(R.nn, name, None)
        for shape in shapes if g else []:
            yield name, [tensor(shape)], g, (lambda x: numpy.maximum(x, 0)) if name == "relu" else None
    yield "prelu", [tensor((2, 16, 9)), tensor((16,))], R.nn.prelu, None
    # Reductions of leading, middle, last and all axes.
    reductions = {"sum": numpy.sum, "max": numpy.max, "min": numpy.min, "mean": numpy.mean, "prod": None,
                  "variance": numpy.var, "std": numpy.std}
    for name, f in reductions.items():
        g = getattr(R, name)
        for axis in (0, 1, -1, None, (0, 2)):
            def numbers(x, f=f, axis=axis):
                return f(x, axis)
            yield f"{name}_{axis}", [tensor((6, 33, 50))], lambda x, g=g, axis=axis: g(x, axis), f and numbers
        yield f"{name}_symbolic", [tensor(("n", 12, 64))], lambda x, g=g: g(x, -1), None
        yield f"{name}_symbolic_all", [tensor((12, "n"))], lambda x, g=g: g(x), None
        yield f"{name}_half", [tensor((100, 1000), f16)], lambda x, g=g: g(x, [1], keepdims=True), None
    for name in ("argmax", "argmin"):
        f = getattr(numpy, name)
        for axis in (0, 1, -1):
            def first(x, f=f, axis=axis):
                return f(x, axis)
            yield f"{name}_{axis}", [tensor((6, 33, 50))], lambda x, g=getattr(R, name), axis=axis: g(x, axis), first
        yield f"{name}_symbolic", [tensor(("n", "m"))], lambda x, g=getattr(R, name): g(x, 1), None
    yield "median", [tensor((8, 21))], lambda x: R.median(x, 1), None
    # Softmax and norms.
    for shape in ((16, 1000), (3, 5, 17), ("n", 320)):
        yield "softmax", [tensor(shape)], lambda x: R.nn.softmax(x, -1), softmax
        yield "log_softmax", [tensor(shape)], lambda x: R.nn.log_softmax(x, -1), lambda x: numpy.log(softmax(x))
        yield "softmax_half", [tensor(shape, f16)], lambda x: R.nn.softmax(x, -1), None
    yield "softmax_0", [tensor((30, 40))], lambda x: R.nn.softmax(x, 0), None
    yield "softmax_1", [tensor((3, 30, 40))], lambda x: R.nn.softmax(x, 1), None
    for shape in ((16, 640), (2, 9, 257), ("n", 512)):
        k = shape[-1]
        yield ("layer_norm", [tensor(shape), tensor((k,)), tensor((k,))],
               lambda x, g, b: R.nn.layer_norm(x, g, b, [-1]), lambda x, g, b: norm(x, -1) * g + b)
        yield ("rms_norm", [tensor(shape), tensor((k,))], lambda x, g: R.nn.rms_norm(x, g, [-1]),
               lambda x, g: x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g)
        yield ("layer_norm_half", [tensor(shape, f16), tensor((k,), f16), tensor((k,), f16)],
               lambda x, g, b: R.nn.layer_norm(x, g, b, [-1]), None)
    yield ("layer_norm_2", [tensor((4, 5, 12, 9)), tensor((12, 9)), tensor((12, 9))],
           lambda x, g, b: R.nn.layer_norm(x, g, b, [-2, -1]), None)
    yield ("group_norm", [tensor((2, 12, 7, 5)), tensor((12,)), tensor((12,))],
           lambda x, g, b: R.nn.group_norm(x, g, b, 4, 1, [2, 3]), None)
    yield ("instance_norm", [tensor((2, 6, 11, 5)), tensor((6,)), tensor((6,))],
           lambda x, g, b: R.nn.instance_norm(x, g, b, 1, [2, 3]), None)
    for training in (False, True):
        yield (f"batch_norm_{training}", [tensor((4, 6, 9, 7))] + [tensor((6,))] * 4,
               lambda x, g, b, m, v, t=training: R.nn.batch_norm(x, g, b, m, v, 1, training=t), None)
    # Products, and what follows them in one function.
    def matmul(a, b):
        return a @ b
    for a, b in (((64, 96), (96, 48)), ((33, 77), (77, 19)), ((4, 9, 50), (50, 31)), ((3, 1, 20, 64), (5, 64, 24)),
                 ((1, 300), (300, 200)), (("n", 128), (128, 64)), (("b", 4, 1, 16), ("b", 4, 16, "m"))):
        yield "matmul", [tensor(a), tensor(b)], R.matmul, matmul
        yield "matmul_half", [tensor(a, f16), tensor(b, f16)], R.matmul, None
        yield "matmul_int", [tensor(a, "int8"), tensor(b, "int8")], lambda x, y: R.matmul(x, y, "int32"), None
    yield "linear", [tensor((40, 96)), tensor((48, 96)), tensor((48,))], R.linear, lambda x, w, b: x @ w.T + b
    yield "outer", [tensor((70,)), tensor((33,))], R.outer, numpy.outer
    yield ("einsum", [tensor((5, 8, 20)), tensor((5, 20, 9))], lambda a, b: R.einsum((a, b), "bik,bkj->bij"), matmul)
    for s in ((2, 16, 4, 32), (1, 1, 8, 64), (1, "n", 4, 64)):
        q = tensor(s)
        kv = tensor((s[0], 20 if s[1] != "n" else "n", s[2], s[3]))
        yield "attention", [q, kv, kv], R.nn.attention, None
    # Convolutions and pools.
    yield "conv1d", [tensor((2, 8, 50)), tensor((6, 8, 3))], lambda x, w: R.nn.conv1d(x, w, padding=1), None
    for strides, padding, dilation, groups in (((1, 1), (1, 1), (1, 1), 1), ((2, 2), (0, 0), (1, 1), 1),
                                               ((1, 1), (2, 2), (2, 2), 1), ((1, 1), (1, 1), (1, 1), 4)):
        yield (f"conv2d_{strides[0]}{padding[0]}{dilation[0]}{groups}",
               [tensor((2, 8, 15, 13)), tensor((12, 8 // groups, 3, 3))],
               lambda x, w, s=strides, p=padding, d=dilation, g=groups: R.nn.conv2d(x, w, s, p, d, g), None)
    yield "conv3d", [tensor((1, 4, 6, 7, 9)), tensor((5, 4, 3, 3, 3))], lambda x, w: R.nn.conv3d(x, w), None
    yield ("conv1d_transpose", [tensor((1, 4, 12)), tensor((4, 5, 3))],
           lambda x, w: R.nn.conv1d_transpose(x, w, strides=2, output_padding=1), None)
    yield ("conv2d_transpose", [tensor((1, 4, 9, 8)), tensor((4, 5, 3, 3))],
           lambda x, w: R.nn.conv2d_transpose(x, w, strides=(2, 2), padding=(1, 1)), None)
    for name in ("max_pool2d", "avg_pool2d"):
        g = getattr(R.nn, name)
        yield name, [tensor((2, 5, 18, 15))], lambda x, g=g: g(x, (3, 3), (2, 2), (1, 1)), None
        yield name + "_ceil", [tensor((2, 5, 18, 15))], lambda x, g=g: g(x, (3, 3), (2, 2), (1, 1), ceil_mode=True), None
        yield name + "_symbolic", [tensor(("n", 5, 18, 15))], lambda x, g=g: g(x, (2, 2), (2, 2)), None
    yield "max_pool1d", [tensor((2, 5, 18))], lambda x: R.nn.max_pool1d(x, 3, 2, 1), None
    yield "avg_pool3d", [tensor((1, 3, 8, 9, 7))], lambda x: R.nn.avg_pool3d(x, (2, 2, 2), (2, 2, 2)), None
    yield "adaptive_avg_pool2d", [tensor((2, 5, 14, 15))], lambda x: R.nn.adaptive_avg_pool2d(x, (7, 5)), None
    yield "adaptive_avg_pool2d_1", [tensor((2, 5, 14, 15))], lambda x: R.nn.adaptive_avg_pool2d(x, (1, 1)), None
    yield "adaptive_avg_pool2d_odd", [tensor((2, 5, 13, 17))], lambda x: R.nn.adaptive_avg_pool2d(x, (5, 7)), None
    for size in ((13, 3), (5, 17)):
        yield "adaptive_avg_pool2d_part", [tensor((2, 5, 13, 17))], lambda x, n=size: R.nn.adaptive_avg_pool2d(x, n), None
    yield "adaptive_avg_pool3d", [tensor((2, 3, 9, 8, 7))], lambda x: R.nn.adaptive_avg_pool3d(x, (3, 4, 2)), None
    yield "adaptive_avg_pool1d", [tensor((2, 5, 13))], lambda x: R.nn.adaptive_avg_pool1d(x, 5), None
    # Losses.
    yield ("cross_entropy", [tensor((20, 50)), tensor((20,), i64)],
           lambda p, t: R.nn.cross_entropy_with_logits(p, R.astype(R.one_hot(
               t, relax.prim_value(tirx.const(1.0, f32)), relax.prim_value(tirx.const(0.0, f32)), 50, -1), f32)), None)
    for how in ("mean", "sum", "none"):
        yield (f"nll_loss_{how}", [tensor((20, 50)), tensor((20,), i64), tensor((50,))],
               lambda p, t, w, h=how: R.nn.nll_loss(p, t, w, h), None)
        yield (f"nll_loss_4_{how}", [tensor((2, 5, 6, 7)), tensor((2, 6, 7), i64), tensor((5,))],
               lambda p, t, w, h=how: R.nn.nll_loss(p, t, w, h), None)
    # Moves.
    yield "transpose", [tensor((30, 77))], lambda x: R.permute_dims(x, [1, 0]), numpy.transpose
    yield "transpose_3", [tensor((3, "n", 64), f16)], lambda x: R.permute_dims(x, [1, 0, 2]), None
    yield "reshape", [tensor((12, 35))], lambda x: R.reshape(x, (5, 84)), lambda x: x.reshape(5, 84)
    yield "flatten", [tensor((12, 3, 5))], R.flatten, numpy.ravel
    yield "expand_dims", [tensor((12, 5))], lambda x: R.expand_dims(x, 1), lambda x: x[:, None]
    yield "squeeze", [tensor((12, 1, 5))], lambda x: R.squeeze(x, 1), lambda x: x[:, 0]
    yield "broadcast_to", [tensor((12, 1))], lambda x: R.broadcast_to(x, (12, 9)), None
    for axis in (0, 1):
        yield (f"concat_{axis}", [tensor((12, 7)), tensor((12, 7))], lambda a, b, c=axis: R.concat((a, b), c),
               lambda a, b, c=axis: numpy.concatenate((a, b), c))
        yield (f"stack_{axis}", [tensor((12, 7)), tensor((12, 7))], lambda a, b, c=axis: R.stack((a, b), c),
               lambda a, b, c=axis: numpy.stack((a, b), c))
        yield f"flip_{axis}", [tensor((12, 7))], lambda x, c=axis: R.flip(x, c), lambda x, c=axis: numpy.flip(x, c)
        yield (f"repeat_{axis}", [tensor((12, 7))], lambda x, c=axis: R.repeat(x, 3, c),
               lambda x, c=axis: numpy.repeat(x, 3, c))
        yield f"take_{axis}", [tensor((40, 30)), tensor((9,), i64)], lambda x, i, c=axis: R.take(x, i, c), None
        yield f"split_{axis}", [tensor((12, 6))], lambda x, c=axis: R.split(x, 3, c), None
    yield "bitwise_not_bool", [tensor((5, 7), boolean)], R.bitwise_not, numpy.logical_not
    yield "tile", [tensor((5, 7))], lambda x: R.tile(x, (2, 3)), lambda x: numpy.tile(x, (2, 3))
    yield ("strided_slice", [tensor((20, 30))], lambda x: R.strided_slice(x, [0, 1], [3, 2], [17, 29], [2, 3]),
           lambda x: x[3:17:2, 2:29:3])
    yield "embedding", [tensor((1000, 64), f16), tensor(("n",), i32)], lambda x, i: R.take(x, i, 0), None
    yield "gather_elements", [tensor((9, 8)), tensor((9, 3), i64)], lambda x, i: R.gather_elements(x, i, 1), None
    yield "gather_nd", [tensor((9, 8, 5)), tensor((6, 2), i64)], lambda x, i: R.gather_nd(x, i, 0), None
    yield ("scatter_elements", [tensor((9, 8)), tensor((3, 8), i64), tensor((3, 8))],
           lambda x, i, u: R.scatter_elements(x, i, u, 0, "add"), scatter_add)
    yield ("scatter_nd", [tensor((20, 5)), tensor((6, 1), i64), tensor((6, 5))],
           lambda x, i, u: R.scatter_nd(x, i, u, "update"), scatter_rows)
    yield ("index_put", [tensor((20, 5)), tensor((6,), i64), tensor((6,), i64), tensor((6,))],
           lambda x, i, j, u: R.index_put(x, (i, j), u), None)
    yield ("one_hot", [tensor((9,), i32)], lambda i: R.one_hot(
        i, relax.prim_value(tirx.const(1.0, f32)), relax.prim_value(tirx.const(0.0, f32)), 12, -1), None)
    yield "tril", [tensor((12, 13))], R.tril, numpy.tril
    yield "triu", [tensor(("n", 13))], lambda x: R.triu(x, 1), None
    yield "pad", [tensor((1, 3, 7, 9))], lambda x: R.nn.pad(x, [0, 0, 0, 0, 1, 2, 2, 1]), None
    yield "pad_reflect", [tensor((1, 3, 7, 9))], lambda x: R.nn.pad(x, [0, 0, 0, 0, 1, 2, 2, 1], pad_mode="reflect"), None
    for dtype in (f16, i32, "int8", "uint8", boolean, "bfloat16", "float64"):
        yield f"astype_{dtype}", [tensor((20, 30))], lambda x, d=dtype: R.astype(x, d), None
    yield "full_like", [tensor((20, 30))], lambda x: R.zeros_like(x), numpy.zeros_like
    yield "full", [], lambda: R.full((5, 7), relax.const(2.5, f32), f32), lambda: numpy.full((5, 7), 2.5, f32)
    yield "eye", [], lambda: R.eye(9, 7, 1), lambda: numpy.eye(9, 7, 1, f32)
    for method in ("nearest_neighbor", "linear", "cubic"):
        yield (f"resize_{method}", [tensor((1, 3, 9, 11))],
               lambda x, m=method: R.image.resize2d(x, (17, 23), method=m), None)
    yield ("grid_sample", [tensor((1, 3, 9, 11)), tensor((1, 2, 6, 5))],
           lambda x, g: R.image.grid_sample(x, g), None)
    yield ("quantize", [tensor((8, 20)), tensor((20,)), tensor((20,), "int8")],
           lambda x, s, z: R.quantize(x, s, z, 1, "int8"), None)
    yield ("dequantize", [tensor((8, 20), "int8"), tensor((20,)), tensor((20,), "int8")],
           lambda x, s, z: R.dequantize(x, s, z, 1), None)
    yield "bucketize", [tensor((30,)), tensor((9,))], R.bucketize, None
    yield "meshgrid", [tensor((9,)), tensor((5,))], lambda a, b: R.meshgrid((a, b), "ij"), None
    yield "slice_scatter", [tensor((20, 5)), tensor((6, 5))], lambda x, u: R.slice_scatter(x, u, 2, 14, 2, 0), None
    yield "max_pool_backward", [tensor((2, 5, 8, 8)), tensor((2, 5, 4, 4))], lambda x, g: R.grad.max_pool2d_backward(
        g, x, (2, 2), (2, 2)), None
    yield "avg_pool_backward", [tensor((2, 5, 8, 8)), tensor((2, 5, 4, 4))], lambda x, g: R.grad.avg_pool2d_backward(
        g, x, (2, 2), (2, 2)), None
    yield "take_backward", [tensor((9, 8)), tensor((9, 8)), tensor((9,), i32)], lambda g, x, i: R.grad.take_backward(
        g, x, i, 0), take_backward


# Several operators in one function, as fusion and people make them.
def chain(*steps):
    def all_of(*args):
        value = args[0]
        rest = list(args[1:])
        for step, n in steps:
            value = step(value, *rest[:n])
            rest = rest[n:]
        return value
    return all_of


def fused():
    f16 = "float16"
    last = lambda x: R.nn.softmax(x, -1)
    qk, kt = tensor((2, 4, 16, 32)), tensor((2, 4, 32, 20))
    yield "fused_scores", [qk, kt], chain((R.matmul, 1), (last, 0)), lambda q, k: softmax(q @ k)
    yield "fused_scores_half", [tensor(*qk[:1], f16), tensor(*kt[:1], f16)], chain((R.matmul, 1), (last, 0)), None
    yield ("fused_attention", [qk, kt, tensor((2, 4, 20, 32))], chain((R.matmul, 1), (last, 0), (R.matmul, 1)),
           lambda q, k, v: softmax(q @ k) @ v)
    yield ("fused_symbolic", [tensor((2, 4, "n", 32)), tensor((2, 4, 32, "n")), tensor((2, 4, "n", 32))],
           chain((R.matmul, 1), (last, 0), (R.matmul, 1)), None)
    yield ("fused_decode", [tensor((2, 8, 1, 64)), tensor((2, 8, 64, 200)), tensor((2, 8, 200, 64))],
           chain((R.matmul, 1), (last, 0), (R.matmul, 1)), lambda q, k, v: softmax(q @ k) @ v)
    yield "fused_logits", [tensor((1, 300)), tensor((300, 1000))], chain((R.matmul, 1), (last, 0)), None
    ln = lambda x, g, b: R.nn.layer_norm(x, g, b, [-1])
    yield ("fused_product_norm", [tensor((33, 96)), tensor((96, 64)), tensor((64,)), tensor((64,))],
           chain((R.matmul, 1), (ln, 2)), lambda x, w, g, b: norm(x @ w, -1) * g + b)
    yield ("fused_norm_product", [tensor((33, 96)), tensor((96,)), tensor((96,)), tensor((96, 64))],
           chain((ln, 2), (R.matmul, 1)), lambda x, g, b, w: (norm(x, -1) * g + b) @ w)
    relu = R.nn.relu
    yield ("fused_mlp", [tensor((17, 64)), tensor((64, 100)), tensor((100, 64))],
           chain((R.matmul, 1), (relu, 0), (R.matmul, 1)), lambda x, a, b: numpy.maximum(x @ a, 0) @ b)
    yield ("fused_bias_gelu", [tensor((513, 96), f16), tensor((96, 70), f16), tensor((70,), f16)],
           chain((R.matmul, 1), (R.add, 1), (R.nn.gelu, 0)), None)
    conv = lambda x, w: R.nn.conv2d(x, w, padding=(1, 1))
    yield ("fused_conv_relu", [tensor((1, 8, 14, 14)), tensor((16, 8, 3, 3)), tensor((16, 1, 1))],
           chain((conv, 1), (R.add, 1), (relu, 0)), None)
    yield ("fused_conv_pool", [tensor((1, 8, 14, 14)), tensor((16, 8, 3, 3))],
           chain((conv, 1), (relu, 0), (lambda x: R.nn.max_pool2d(x, (2, 2), (2, 2)), 0)), None)
    yield ("fused_mean_softmax", [tensor((8, 12, 40))],
           chain((lambda x: R.mean(x, 1), 0), (last, 0)), lambda x: softmax(x.mean(1)))
    yield "fused_two_sums", [tensor((30, 40))], chain((lambda x: R.subtract(R.sum(x, 0), R.max(x, 0)), 0)), None
    yield ("fused_empty_part", [tensor((7, 40))],
           lambda x: R.concat([R.multiply(x, x), R.strided_slice(x, [1], [40], [60])], 1), lambda x: x * x)
    yield ("fused_argmax", [tensor((5, 96)), tensor((96, 300))], chain((R.matmul, 1), (lambda x: R.argmax(x, -1), 0)),
           lambda x, w: (x @ w).argmax(-1))


def build(name, tensors, expression):
    """The tensor functions that one case becomes, with their names."""
    SIZES.clear()
    builder = relax.BlockBuilder()
    params = [relax.Var(f"p{i}", relax.TensorType([size(n) for n in s], d)) for i, (s, d) in enumerate(tensors)]
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(builder.normalize(expression(*params)))
        builder.emit_func_output(out)
    module = tvm.ir.transform.Sequential([relax.transform.Normalize(), relax.transform.LegalizeOps()])(builder.get())
    if name.startswith("fused_"):
        module = one_function(module)
    return [(v.name_hint, f) for v, f in module.functions.items() if isinstance(f, tirx.PrimFunc)]


def one_function(module):
    """All that `main` calls as one tensor function."""
    inner = module["main"].with_attr("Primitive", True).without_attr("global_symbol")
    builder = relax.BlockBuilder(module)
    fused = builder.add_func(inner, "fused")
    del builder.get()["main"]
    params = [relax.Var(f"p{i}", p.ty) for i, p in enumerate(inner.params)]
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(relax.Call(fused, params))
        builder.emit_func_output(out)
    return relax.transform.FuseTIR()(builder.get())


def write(folder):
    """One file for each function; gives what NumPy says of those that it can compute, and what TVM leaves out."""
    expected, seen, left = {}, {}, []
    for name, tensors, expression, reference in [*cases(), *fused()]:
        k = seen[name] = seen.get(name, -1) + 1
        try:
            functions = build(name, tensors, expression)
            assert functions, "nothing comes out"
        except Exception as error:  # TVM raises many kinds
            left.append(f"{name}: {str(error).strip().splitlines()[-1][:120]}")
            continue
        for i, (_, function) in enumerate(functions):
            file = f"{name}_{k}_{i}" if len(functions) > 1 else f"{name}_{k}"
            (folder / f"{file}.py").write_text(function.without_attr("global_symbol").script())
            static = all(isinstance(n, int) for s, _ in tensors for n in s)
            if reference and static and len(functions) == 1 and tensors:
                expected[file] = (tensors, reference)
    for name, tensors, expression, reference in extern():
        SIZES.clear()
        file = f"te_{name}"
        (folder / f"{file}.py").write_text(build_extern(size, tensors, expression).without_attr("global_symbol").script())
        if reference:
            expected[file] = (tensors, reference)
    for name, function in pages():
        (folder / f"pages_{name}.py").write_text(function.without_attr("global_symbol").script())
    return expected, left


def explain(daylight, folder, target, emit):
    """The functions that have a kernel, and what is said of the others, by name."""
    command = [daylight, "explain", str(folder), "--target", target, "--emit", emit, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    made = {pathlib.Path(json.loads(line)["file"]).stem for line in done.stdout.splitlines()}
    said = {}
    for line in done.stderr.splitlines():
        found = re.match(r"daylight: (?:.*/)?(\w+?)(?:\.py:\d+:\d+)?: (.*)", line)
        if found:
            said[found[1]] = found[2]
    return made, said


def refused(daylight, folder):
    """A line for each function without a kernel."""
    lines = []
    for target, emit in TARGETS.items():
        made, said = explain(daylight, folder, target, emit)
        missing = sorted({f.stem for f in folder.glob("*.py")} - made)
        lines += [f"{target} {name}: {said.get(name, 'nothing is said')}" for name in missing]
    return lines


def numbers(shape, dtype, rng):
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if numpy.dtype(dtype).kind in "iu":
        return rng.integers(1, 8, shape).astype(dtype)
    return rng.uniform(-1, 1, shape).astype(dtype)


def run(daylight, file, given):
    """What a function's default kernel makes of inputs on this CPU, by the names of their files, and what is said if it fails."""
    with tempfile.TemporaryDirectory() as place:
        ins, outs = pathlib.Path(place, "in"), pathlib.Path(place, "out")
        ins.mkdir()
        for name, value in given.items():
            numpy.save(ins / f"{name}.npy", value)
        command = [daylight, "run", str(file), "--device", "cpu", "--inputs", str(ins), "--outputs", str(outs)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            return {}, done.stderr.strip().splitlines()[0]
        return {f.stem: numpy.load(f) for f in outs.glob("*.npy")}, None


def wrong(daylight, folder, name, tensors, reference):
    """What differs from NumPy, in a sentence, or None."""
    rng = numpy.random.default_rng(7)
    given = [numbers(s, d, rng) for s, d in tensors]
    wide = [x.astype("float64") if x.dtype.kind == "f" else x for x in given]
    want = numpy.asarray(reference(*wide))
    header = re.search(r"def \w+\((.*)\)", (folder / f"{name}.py").read_text())[1]
    order = [int(n) for n in re.findall(r"\bp(\d+): ", header)]
    made, said = run(daylight, folder / f"{name}.py", {f"{at:02}_p{n}": given[n] for at, n in enumerate(order)})
    if said:
        return said
    [got] = made.values()
    if got.shape != want.shape:
        return f"its shape is {got.shape}, not {want.shape}"
    error = numpy.abs(got.astype("float64") - want.astype("float64")) / (1 + numpy.abs(want))
    return None if error.max() <= 2e-5 else f"it is off by {error.max():.1e}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("daylight")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    if tvm.__version__ != WANTED:
        sys.exit(f"this check needs apache-tvm=={WANTED}, not {tvm.__version__}")
    args.folder.mkdir(parents=True, exist_ok=True)
    for old in args.folder.glob("*.py"):
        old.unlink()
    expected, left = write(args.folder)
    lines = [f"TVM leaves out {line}" for line in left] + refused(args.daylight, args.folder)
    text = "".join(f"{line}\n" for line in lines)
    if args.update:
        GOLDEN.write_text(text)
    old, new = set(GOLDEN.read_text().splitlines()), set(lines)
    for line in sorted(old ^ new):
        print("no longer:" if line in old else "NEW:", line)
    skipped = {re.sub(r".* (\w+): .*", r"\1", line) for line in lines}
    sample = [name for name in expected if name not in skipped]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = pool.map(lambda name: wrong(args.daylight, args.folder, name, *expected[name]), sample)
        bad = [f"{name}: {why}" for name, why in zip(sample, said) if why]
    for line in bad:
        print("WRONG:", line)
    functions = len(list(args.folder.glob("*.py")))
    print(f"{functions} functions, {len(lines)} lines of what is refused, {len(sample)} run, {len(bad)} wrong")
    return 1 if bad or old != new or functions < 400 else 0


if __name__ == "__main__":
    sys.exit(main())

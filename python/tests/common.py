"""What the tests share: packages that the command writes, golden texts, skips that fail in CI."""

import functools
import atexit
import os
import pathlib
import tempfile
import unittest

import daylight

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DATA = ROOT / "tests/data/c"

SCRATCH = tempfile.TemporaryDirectory(prefix="daylight-tests-")
atexit.register(SCRATCH.cleanup)


def golden(name, text):
    """Compares a text with a file; with UPDATE_EXPECT=1 in the environment it writes the file."""
    file = HERE / "golden" / name
    if "UPDATE_EXPECT" in os.environ:
        file.write_text(text)
    case = unittest.TestCase()
    case.maxDiff = None
    case.assertEqual(file.read_text(), text, f"{file} differs; UPDATE_EXPECT=1 writes it")


@functools.cache
def sums_log():
    """A log with two sizes of `sums`, measured on this machine's CPU."""
    log = pathlib.Path(SCRATCH.name, "sums-log")
    daylight.tune(DATA / "sums.py", device="cpu", bind={"n": [8, 64]}, trials=2, log=log)
    return log


@functools.cache
def cpu_package():
    """Functions for this machine's CPU: `sums` of any size with two tuned ones, `total`, `scaled`, `product_2`."""
    files = [DATA / f"{name}.py" for name in ("sums", "total", "scaled", "product")]
    return daylight.apply_best(files, pathlib.Path(SCRATCH.name, "cpu"), log=sums_log(), target="cpu")


def written(text, **options):
    """A text of functions as kernels of the CPU, untuned."""
    log = pathlib.Path(SCRATCH.name, "nothing")
    log.mkdir(exist_ok=True)
    return daylight.build(text, log=log, target="cpu", **options)


def said(call, *args, **named):
    """The kind and the sentence of what a call raises."""
    try:
        call(*args, **named)
    except daylight.Error as e:
        return f"{type(e).__name__}: {e}"
    raise AssertionError("nothing was raised")


# Adds to what is there; a size that no shape says, and one that is a parameter.
MORE = '''
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def add_to(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (n,))
    for i in range(n):
        with T.sblock("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = B[vi] + A[vi]

@T.prim_func(s_tir=True)
def halves(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n * 2,))
    B = T.match_buffer(b, (n * 2,))
    for i in range(n * 2):
        with T.sblock("B"):
            vi = T.axis.spatial(n * 2, i)
            B[vi] = A[vi] * T.float32(0.5)

@T.prim_func(s_tir=True)
def doubled(a: T.handle, n: T.int64, b: T.handle):
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (n,))
    for i in range(n):
        with T.sblock("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi] * T.float32(2)
'''

"""Kernels of the CPU against NumPy."""

import concurrent.futures
import os
import subprocess
import sys
import unittest

import common
import ml_dtypes
import numpy

import daylight

TEXT = '''
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def largest(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 32), "bfloat16")
    B = T.match_buffer(b, (n,), "bfloat16")
    for i, k in T.grid(n, 32):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.min_value("bfloat16")
            B[vi] = T.max(B[vi], A[vi, vk])
'''

TWO = '''
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def parts(a: T.handle, stream: T.handle, workspace: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 2 * n))
    stream_1 = T.match_buffer(stream, (n, n))
    workspace_1 = T.match_buffer(workspace, (n, n))
    for i, k in T.grid(n, n):
        with T.sblock("left"):
            vi, vk = T.axis.remap("SS", [i, k])
            stream_1[vi, vk] = A[vi, vk]
    for i, k in T.grid(n, n):
        with T.sblock("right"):
            vi, vk = T.axis.remap("SS", [i, k])
            workspace_1[vi, vk] = A[vi, vk + n]
'''


class Wrapped:
    """An array of which nothing is known but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def random(*shape, dtype="float32"):
    return numpy.random.default_rng(0).standard_normal(shape).astype(dtype)


class Functions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kernels = daylight.load(common.cpu_package())

    def test_a_package_is_a_mapping_of_functions(self):
        self.assertEqual(list(self.kernels), ["sums", "total", "scaled", "product_2"])
        self.assertIs(self.kernels.sums, self.kernels["sums"])
        self.assertIn("total", dir(self.kernels))
        said = "<daylight function scaled(A: float32[100], s: float32) -> (B: float32[100])>"
        self.assertEqual(repr(self.kernels.scaled), said)
        self.assertEqual(list(daylight.load(common.cpu_package() / "manifest.json")), list(self.kernels))

    def test_sizes_have_the_kernels_that_the_manifest_names(self):
        kinds = [(e.exactly, e.rung) for e in self.kernels.sums.entries]
        self.assertEqual(kinds, [({"n": 8}, "exact"), ({"n": 64}, "exact"), ({}, "neighbour")])
        for n in [1, 7, 8, 9, 63, 64, 65, 1000]:
            a = random(n, 64)
            numpy.testing.assert_allclose(self.kernels.sums(a), a.sum(1), rtol=1e-5, atol=1e-5)
            call = next(c for k, c in self.kernels.sums._calls.items() if k[1][0] == (n, 64))
            at = {8: 0, 64: 1}.get(n, 2)
            symbol = self.kernels.sums.entries[at].launches[0].symbol
            libraries = self.kernels.sums._backends.at(daylight.arrays.CPU)._libraries
            launch = self.kernels.sums.entries[at].launches[0]
            self.assertEqual(call.launches._steps[0][0], libraries.kernel(launch, next(iter(launch.file))), symbol)

    def test_outputs_are_the_callers_or_made(self):
        a, out = random(8, 64), numpy.empty(8, "float32")
        self.assertIs(self.kernels.sums(a, out), out)
        for made in [self.kernels.sums(a), self.kernels.sums(A=a), self.kernels.sums(a, B=out), self.kernels.sums(B=out, A=a)]:
            numpy.testing.assert_array_equal(made, out)

    def test_scalars_and_any_number_of_threads(self):
        a = random(100)
        for threads in [1, 2, 3, 200, None]:
            numpy.testing.assert_array_equal(self.kernels.scaled(a, 2.5, threads=threads), a * numpy.float32(2.5))
        x, y = random(1024, 2048, dtype="float16"), random(2048, 1536, dtype="float16")
        want = x.astype("float32") @ y.astype("float32")
        for threads in [1, 5]:
            numpy.testing.assert_allclose(self.kernels.product_2(x, y, threads=threads), want, rtol=1e-3, atol=1e-2)

    def test_arrays_of_dlpack(self):
        a, out = random(9, 64), numpy.empty(9, "float32")
        self.kernels.sums(Wrapped(a), Wrapped(out))
        numpy.testing.assert_allclose(out, a.sum(1), rtol=1e-5, atol=1e-5)
        self.assertIn("not made here", common.said(self.kernels.sums, Wrapped(a)))
        self.assertIn("not contiguous", common.said(self.kernels.sums, Wrapped(random(64, 9).T), Wrapped(out)))
        self.assertIn("elements of float64", common.said(self.kernels.sums, Wrapped(a.astype("float64")), Wrapped(out)))

    def test_calls_from_several_threads(self):
        def one(n):
            a = random(n, 64) * n
            return numpy.allclose(self.kernels.sums(a, threads=2), a.sum(1), rtol=1e-4, atol=1e-3)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertTrue(all(pool.map(one, [8, 64, 3, 300] * 50)))

    def test_what_is_compiled_is_kept(self):
        self.kernels.prepare("cpu")
        load = f"daylight.load({str(common.cpu_package())!r}).prepare('cpu')"
        script = f"import daylight, daylight.cpu.compiler as c; c._compile = None; {load}"
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", script], check=True, env=env)


class Texts(unittest.TestCase):
    def test_bfloat16(self):
        a = random(100, 32).astype(ml_dtypes.bfloat16)
        got = common.written(TEXT).largest(a)
        self.assertEqual(got.dtype, ml_dtypes.bfloat16)
        numpy.testing.assert_array_equal(got, a.max(1))

    def test_several_outputs_with_names_of_options(self):
        a = random(6, 12)
        kernels = common.written(TWO)
        left, right = kernels.parts(a)
        numpy.testing.assert_array_equal(left, a[:, :6])
        numpy.testing.assert_array_equal(right, a[:, 6:])
        self.assertIn("expected [n, 2 * n]", common.said(kernels.parts, random(6, 13), left, right).replace("n * 2", "2 * n"))

    def test_what_is_read_and_written_is_passed(self):
        add_to = common.written(common.MORE).add_to
        a, b = random(10), numpy.ones(10, "float32")
        self.assertIs(add_to(a, b), b)
        numpy.testing.assert_array_equal(b, a + 1)
        self.assertIn("1 by position were passed", common.said(add_to, a))

    def test_extents_that_are_passed(self):
        kernels = common.written(common.MORE)
        a = random(10)
        numpy.testing.assert_array_equal(kernels.halves(a, n=5), a / 2)
        self.assertIn("follows from no shape: pass it as `n=`", common.said(kernels.halves, a))
        self.assertIn("expected [n * 2], with 8 where it has 10", common.said(kernels.halves, a, n=4))
        self.assertIn("expected an integer", common.said(kernels.halves, a, n=2.5))
        out = numpy.empty(10, "float32")
        calls = [((a, 10, out), {}), ((a, out), {}), ((a,), {}), ((a,), {"n": 10}), ((a, out), {"n": 10}), ((a, 10), {"B": out})]
        for arguments, named in calls:
            numpy.testing.assert_array_equal(kernels.doubled(*arguments, **named), a * 2)
        self.assertIn("expected [n], with 9 where it has 10", common.said(kernels.doubled, a, 9, out))

    def test_a_package_of_build_goes_with_its_kernels(self):
        kernels = common.written(TEXT)
        folder = kernels.folder
        self.assertTrue(folder.exists())
        largest = kernels.largest
        del kernels
        self.assertTrue(folder.exists())
        largest(random(3, 32).astype(ml_dtypes.bfloat16))
        del largest
        self.assertFalse(folder.exists())


if __name__ == "__main__":
    unittest.main()

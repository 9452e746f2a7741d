"""Expressions of extents, and bits of scalars."""

import math
import unittest

from daylight.dtypes import scalar_bits
from daylight.errors import ArgumentError, PackageError
from daylight.extents import evaluate, is_name, names


class Extents(unittest.TestCase):
    def test_they_evaluate_as_in_python(self):
        values = {"n": 1000, "m": -7}
        for text, want in [("(n + 255) // 256 * 4 - 1", 15), ("m // 2", -4), ("m % 4", 1), ("min(n, 8) * max(2, n % 3)", 16)]:
            self.assertEqual(evaluate(text, values), want, text)
        self.assertEqual(evaluate(12, {}), 12)

    def test_names_are_those_of_extents(self):
        self.assertEqual(names("min(n, m) + n"), {"n", "m"})
        self.assertEqual(evaluate("min(min, 3)", {"min": 2}), 2)
        self.assertTrue(is_name("n"))
        self.assertFalse(is_name("n + 1") or is_name(3))

    def test_what_is_no_expression_runs_nothing(self):
        for text in ["__import__('os')", "n.real", "n ** 9", "(lambda: 1)()", "n if n else 1", "'a'", "n +", "1.5"]:
            with self.assertRaises(PackageError, msg=text):
                evaluate(text, {"n": 1})

    def test_an_extent_that_is_not_known_is_named(self):
        with self.assertRaises(KeyError) as e:
            evaluate("n + k", {"n": 1})
        self.assertEqual(e.exception.args, ("k",))


class Scalars(unittest.TestCase):
    def test_bits_are_those_of_the_type(self):
        rows = [
            ("float32", 1.0, 0x3F800000), ("float64", -2.0, 0xC000000000000000), ("float16", 1.5, 0x3E00),
            ("bfloat16", 1.0, 0x3F80), ("bfloat16", 1.00390625, 0x3F80), ("bfloat16", 1.01171875, 0x3F82),
            ("bfloat16", math.inf, 0x7F80), ("int8", -1, 2**64 - 1), ("uint8", 255, 255), ("bool", True, 1),
            ("int64", -(2**63), 1 << 63), ("uint64", 2**64 - 1, 2**64 - 1),
        ]
        for dtype, value, want in rows:
            self.assertEqual(scalar_bits("s", dtype, value), want, (dtype, value))
        self.assertEqual(scalar_bits("s", "bfloat16", math.nan) & 0x7FC0, 0x7FC0)

    def test_small_floats_are_those_of_ml_dtypes(self):
        import ml_dtypes
        import numpy

        for dtype, bits in [("float8_e4m3fn", numpy.uint8), ("float8_e5m2", numpy.uint8), ("bfloat16", numpy.uint16)]:
            for value in [0.0, -0.0, 0.3, 1.1, -17.25, 200.0, 3.0e-3]:
                want = numpy.array(value, getattr(ml_dtypes, dtype)).view(bits)
                self.assertEqual(scalar_bits("s", dtype, value), want, (dtype, value))

    def test_what_does_not_fit_is_refused(self):
        for dtype, value in [("int8", 128), ("uint8", -1), ("int32", 2**31), ("int32", 1.5), ("float32", "a"), ("float16", 1e6)]:
            with self.assertRaises(ArgumentError, msg=(dtype, value)):
                scalar_bits("s", dtype, value)


if __name__ == "__main__":
    unittest.main()

"""`tune`, `apply_best` and `build` run the command."""

import pathlib
import unittest

import common
import numpy

import daylight
from daylight import command


class Command(unittest.TestCase):
    def test_a_text_is_tuned_and_built(self):
        text = (common.DATA / "scaled.py").read_text()
        log = pathlib.Path(common.SCRATCH.name, "tuned")
        (result,) = daylight.tune(text, device="cpu", trials=3, log=log, seed=1)
        self.assertEqual((result["name"], result["candidates"]), ("scaled", 3))
        self.assertGreater(result["best_us"], 0)
        kernels = daylight.build(text, log=log)
        self.assertEqual([e.rung for e in kernels.scaled.entries], ["exact"])
        a = numpy.arange(100, dtype="float32")
        numpy.testing.assert_array_equal(kernels.scaled(a, 3.0), a * 3)

    def test_sizes_and_names_are_handed_on(self):
        words = command._options({"n": [1, 8], "m": 2}, time_limit=5, function=["f", "g"], overlap=True, gpu=None, rayon=False)
        want = "--bind n=1,8 --bind m=2 --time-limit 5 --function f --function g --overlap"
        self.assertEqual(words, want.split())
        results = daylight.tune(common.DATA / "sums.py", device="cpu", bind={"n": [8, 64]}, trials=2, log=common.sums_log())
        self.assertEqual([r["bind"] for r in results], [{"n": 8}, {"n": 64}])

    def test_failures_are_sentences_with_the_exit_code(self):
        with self.assertRaises(daylight.CommandError) as e:
            daylight.tune("none.py", device="cpu")
        self.assertEqual(e.exception.code, 2)
        self.assertEqual(e.exception.results[0]["status"], "failed")
        self.assertIn("cannot read none.py", str(e.exception))
        with self.assertRaises(daylight.CommandError) as e:
            daylight.tune("none.py", tirals=3)
        self.assertEqual(str(e.exception), "daylight tune ended with 2: error: unexpected argument '--tirals' found")
        with self.assertRaises(daylight.CommandError) as e:
            daylight.build("def f(:\n", log=common.sums_log())
        self.assertEqual(e.exception.code, 3)


if __name__ == "__main__":
    unittest.main()

"""Tensors of PyTorch on the CPU, where PyTorch is installed; `benches/python_gpu.py` has what takes a GPU."""

import importlib.util
import unittest

import common

import daylight

HAS_TORCH = importlib.util.find_spec("torch") is not None


@unittest.skipUnless(HAS_TORCH, "PyTorch is not installed")
class Torch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kernels = daylight.load(common.cpu_package())

    def test_tensors(self):
        import torch

        a = torch.randn(9, 64)
        got = self.kernels.sums(a)
        self.assertIsInstance(got, torch.Tensor)
        torch.testing.assert_close(got, a.sum(1), rtol=1e-5, atol=1e-5)
        self.assertIn("requires a gradient", common.said(self.kernels.sums, a.requires_grad_()))
        with torch.no_grad():
            torch.testing.assert_close(self.kernels.sums(a), got)

    def test_operators(self):
        import torch

        sums = self.kernels.sums.as_torch_op("daylight_tests::sums")
        scaled = self.kernels.scaled.as_torch_op("daylight_tests::scaled")
        scaled.register_autograd(
            lambda ctx, g: (g * ctx.scale, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "scale", inputs[1])
        )
        a, x = torch.randn(9, 64), torch.randn(100, requires_grad=True)
        torch.library.opcheck(sums, (a,))
        torch.testing.assert_close(sums(torch.randn(64, 9).t()).shape, torch.Size([9]))
        torch.library.opcheck(scaled, (x, 2.5))
        compiled = torch.compile(lambda t: torch.ops.daylight_tests.sums(t) * 2, dynamic=True, backend="aot_eager")
        for rows in (9, 8, 100):
            a = torch.randn(rows, 64)
            torch.testing.assert_close(compiled(a), 2 * a.sum(1), rtol=1e-4, atol=1e-4)

    def test_operators_that_change_what_they_are_given(self):
        import torch

        kernels = common.written(common.MORE)
        a, b = torch.randn(10), torch.ones(10)
        add_to, halves = kernels.add_to.as_torch_op("daylight_tests::add_to"), kernels.halves.as_torch_op("daylight_tests::halves")
        self.assertIsNone(torch.ops.daylight_tests.add_to(a, b))
        torch.testing.assert_close(b, a + 1)
        torch.library.opcheck(add_to, (a, b))
        torch.library.opcheck(halves, (a, 5))
        torch.testing.assert_close(torch.ops.daylight_tests.halves(a, 5), a / 2)
        doubled = kernels.doubled.as_torch_op("daylight_tests::doubled")
        torch.library.opcheck(doubled, (a,))


if __name__ == "__main__":
    unittest.main()

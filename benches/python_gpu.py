"""Checks the Python package on a GPU with PyTorch: one line for each check, and exit code 1 where one fails.

python_gpu.py --kernels DIR [--overlap DIR] [--text DIR] [--device cuda:0]

Needs: an NVIDIA GPU and PyTorch; CuPy is tried where it is installed, a second GPU where there is one. Neither Rust nor the
`daylight` command: `python/daylight` on PYTHONPATH, and packages that were written before, on any machine:

    d=tests/data/c
    daylight apply-best examples/mean.py $d/sums.py $d/total.py $d/scaled.py $d/product.py --bind n=8,64 --log tuning-logs \
        --target cuda:sm_90a --out kernels

DIR of `--overlap` was written with `--overlap` as well, DIR of `--text` holds CUDA text (written where there is no NVRTC).
With `--device cpu` and kernels for the CPU what needs no GPU is checked.
"""

import argparse
import contextlib
import sys
import time
import traceback

import torch

import daylight

FAILED = []


@contextlib.contextmanager
def check(name):
    """Prints a line for what its body checks."""
    notes = []
    try:
        yield notes.append
        print("ok    ", name, *notes, flush=True)
    except Exception as e:
        FAILED.append(name)
        print("FAILED", name, "".join(traceback.format_exception_only(e)).strip(), flush=True)
        traceback.print_exc()


def close(got, want, limit=1e-3):
    wrong = ((got.double() - want.double()).norm() / want.double().norm().clamp(min=1e-30)).item()
    if not wrong <= limit:
        raise AssertionError(f"relative error {wrong:.1e}, at most {limit:.0e} expected")


def refused(kind, words, call, *args, **named):
    try:
        call(*args, **named)
    except kind as e:
        if words not in str(e):
            raise AssertionError(f"said {e}, expected `{words}`") from e
    else:
        raise AssertionError(f"not refused, expected `{words}`")


class Opaque:
    """A tensor of which nothing is known but DLPack."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def cases(device):
    """Function, arguments, what PyTorch says it is."""
    random = lambda *shape, dtype=torch.float32: torch.randn(*shape, device=device).to(dtype)
    a = random(2048, 8192)
    yield "mean", (a,), a.double().mean(-1)
    for n in (1, 7, 8, 9, 63, 64, 65, 1000):
        a = random(n, 64)
        yield "sums", (a,), a.double().sum(-1)
    a = random(2**20) + 1
    yield "total", (a,), a.double().sum().reshape(1)
    a = random(100)
    yield "scaled", (a, 2.5), a * 2.5
    x, y = random(1024, 2048, dtype=torch.float16), random(2048, 1536, dtype=torch.float16)
    yield "product_2", (x, y), x.float() @ y.float()


def numbers(kernels, device, title):
    for name, args, want in cases(device):
        with check(f"{title}: {name} {tuple(args[0].shape)} against PyTorch"):
            got = kernels[name](*args)
            close(got, want)
            out = torch.full_like(got, float("nan"))
            if kernels[name](*args, out) is not out or not torch.equal(out, got):
                raise AssertionError("the same into a given output differs")


def mistakes(kernels, device):
    with check("mistakes are refused"):
        a = torch.zeros(64 * 64 + 1, device=device)
        refused(daylight.ArgumentError, "not contiguous", kernels.sums, a[:-1].view(64, 64).t())
        refused(daylight.ArgumentError, "expected float32", kernels.sums, torch.zeros(8, 64, device=device, dtype=torch.float64))
        refused(daylight.ArgumentError, "requires a gradient", kernels.sums, torch.zeros(8, 64, device=device, requires_grad=True))
        refused(daylight.ArgumentError, "is 0, expected 1", kernels.sums, torch.zeros(0, 64, device=device))
        if device.type == "cuda":
            refused(daylight.ArgumentError, "not aligned", kernels.sums, a[1:].view(64, 64))
            refused(daylight.DeviceError, "no kernels for the CPU", kernels.sums, torch.zeros(8, 64))


def operators(kernels, device):
    """As operators of torch.library; the derivative is the caller's."""
    op, scaled = kernels.sums.as_torch_op("daylight_check::sums"), kernels.scaled.as_torch_op("daylight_check::scaled")
    a, x = torch.randn(9, 64, device=device), torch.randn(100, device=device)
    with check("torch.library: opcheck"):
        torch.library.opcheck(op, (a,))
        torch.library.opcheck(scaled, (x, 2.5))
    with check("torch.library: a derivative that the caller gives"):
        def setup(ctx, inputs, output):
            ctx.scale = inputs[1]

        scaled.register_autograd(lambda ctx, g: (g * ctx.scale, None), setup_context=setup)
        x = x.clone().requires_grad_()
        (torch.ops.daylight_check.scaled(x, 2.5) ** 2).sum().backward()
        close(x.grad, 2 * 2.5**2 * x.detach())
    for backend in ("aot_eager", "inductor") if device.type == "cuda" else ("aot_eager",):
        with check(f"torch.compile, {backend}, any size"):
            compiled = torch.compile(lambda t: torch.ops.daylight_check.sums(t * 2) + 1, dynamic=True, fullgraph=True, backend=backend)
            for n in (9, 8, 100):
                a = torch.randn(n, 64, device=device)
                close(compiled(a), 2 * a.double().sum(-1) + 1)


def streams(kernels, device):
    a = torch.ones(2**20, device=device)
    with check("the current stream of PyTorch"):
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            torch.cuda._sleep(200_000_000)
            a.mul_(3)
            got = kernels.total(a)
        side.synchronize()
        close(got, torch.tensor([3.0 * 2**20], device=device))
    with check("a stream that is given, as an object and as a number"):
        for given in (side, side.cuda_stream):
            with torch.cuda.stream(side):
                torch.cuda._sleep(200_000_000)
                a.mul_(2)
            got = kernels.total(a, stream=given)
            side.synchronize()
            close(got, a.sum().reshape(1))
    with check("a workspace that is given"):
        space = torch.zeros(max(kernels.total.workspace_bytes(str(device)), 1), dtype=torch.uint8, device=device)
        for _ in range(3):
            close(kernels.total(a, workspace=space), a.sum().reshape(1))
    with check("a thousand calls take no more memory"):
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        for _ in range(1000):
            kernels.total(a)
        torch.cuda.synchronize(device)
        if torch.cuda.memory_allocated(device) > before:
            raise AssertionError(f"{torch.cuda.memory_allocated(device) - before} bytes more")


def graphs(kernels, folder, device):
    inputs = {name: args for name, args, _ in cases(device)}
    for title, of in (("after a call", kernels), ("as the first call of a package", daylight.load(folder))):
        with check(f"a CUDA graph, {title}"):
            graph, outs = torch.cuda.CUDAGraph(), {}
            torch.cuda.synchronize(device)
            with torch.cuda.graph(graph):
                for name, args in inputs.items():
                    outs[name] = of[name](*args)
            for _ in range(3):
                for args in inputs.values():
                    args[0].copy_(torch.randn_like(args[0].float()) + 0.1)
                graph.replay()
                torch.cuda.synchronize(device)
                for name, args in inputs.items():
                    close(outs[name], kernels[name](*args), 0)


def frameworks(kernels, device):
    with check("arrays of which nothing is known but DLPack"):
        a, out = torch.randn(9, 64, device=device), torch.empty(9, device=device)
        stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None
        kernels.sums(Opaque(a), Opaque(out), stream=stream)
        close(out, a.sum(-1))
    try:
        import cupy
    except ImportError:
        print("left out: CuPy is not installed")
        return
    with check("CuPy, on its current stream, and outputs that it makes"):
        with cupy.cuda.Device(device.index), cupy.cuda.Stream(non_blocking=True) as stream:
            a = cupy.random.rand(9, 64, dtype=cupy.float32)
            got = kernels.sums(a)
            total = kernels.total(cupy.ones(2**20, cupy.float32))
            stream.synchronize()
            cupy.testing.assert_allclose(got, a.sum(-1), rtol=1e-4)
            cupy.testing.assert_allclose(total, 2.0**20)


def second_gpu(kernels):
    if torch.cuda.device_count() < 2:
        print("left out: there is no second GPU")
        return
    with check("a GPU that is not the current one"):
        with torch.cuda.device(0):
            a = torch.randn(9, 64, device="cuda:1")
            close(kernels.sums(a), a.sum(-1))
            if torch.cuda.current_device() != 0:
                raise AssertionError("another device is current after the call")


def host_time(kernels, device):
    """Microseconds of the processor for a call."""
    a, out = torch.randn(8, 64, device=device), torch.empty(8, device=device)
    x, y, z = next(args for name, args, _ in cases(device) if name == "product_2") + (torch.empty(1024, 1536, device=device),)
    for name, call in (("sums", lambda: kernels.sums(a, out)), ("product_2", lambda: kernels.product_2(x, y, z))):
        with check(f"time on the host, {name}:") as note:
            best = float("inf")
            for _ in range(20):
                torch.cuda.synchronize(device)
                began = time.perf_counter()
                for _ in range(50):
                    call()
                best = min(best, (time.perf_counter() - began) / 50 * 1e6)
            note(f"{best:.1f} us a call")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", required=True)
    parser.add_argument("--overlap")
    parser.add_argument("--text")
    parser.add_argument("--device", default="cuda:0")
    args = parser.parse_args()
    device = torch.device(args.device)
    torch.manual_seed(0)
    kernels = daylight.load(args.kernels)
    numbers(kernels, device, "kernels")
    for title, folder in (("overlapping", args.overlap), ("from text", args.text)):
        if folder:
            numbers(daylight.load(folder), device, title)
    mistakes(kernels, device)
    frameworks(kernels, device)
    if device.type == "cuda":
        streams(kernels, device)
        graphs(kernels, args.kernels, device)
        if args.overlap:
            graphs(daylight.load(args.overlap), args.overlap, device)
        second_gpu(kernels)
        host_time(kernels, device)
    operators(kernels, device)
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{len(FAILED)} checks failed on {where}, torch {torch.__version__}")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())

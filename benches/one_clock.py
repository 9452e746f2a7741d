"""Daylight's kernels against PyTorch and torch.compile, under one clock, on a CUDA GPU.

one_clock.py --kernels DIR [--before DIR] [--only REGEX] [--rounds N] [--csv FILE] [--dlight FILE] [--no-compile] [--budget S]

DIR holds one folder per workload with the `manifest.json` and cubins that `daylight apply-best`
wrote. All contenders of a workload run interleaved: before each timed call the L2 is cooled by
reading half a gigabyte (clean lines, nothing to write back), and CUDA events stand around the call.
The medians are compared, and each result is checked against float64. `--dlight FILE` is a CSV with
the columns workload, torch_us, tvm_dlight_us measured elsewhere: TVM dlight then stands as its ratio
to PyTorch there, times PyTorch here. `--before DIR` holds the kernels of an earlier build, one more
contender: the last lines compare the two. A workload that fails is named, and the others go on; none begins after
`--budget` seconds. Exit code 1 where one failed or is wrong.

Needs: an NVIDIA GPU, PyTorch (with Triton for torch.compile).
"""

import argparse
import csv
import ctypes
import json
import math
import pathlib
import re
import sys
import time

import torch

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
ROUNDOFF = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}
PEERS = ("torch", "torch.compile", "tvm-dlight*")


# Values of the driver's enumerations, by what a manifest says.
MAP_DTYPES = {"uint8": 0, "int8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9}
MAP_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
MAP_L2 = {0: 0, 64: 1, 128: 2, 256: 3}


class Driver:
    """The few driver calls that a loader of cubins needs."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")

    def call(self, name, *args):
        code = getattr(self.lib, name)(*args)
        if code:
            raise RuntimeError(f"{name} returned CUDA error {code}")

    def function(self, path, symbol):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), path.read_bytes())
        self.call("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
        return function

    def tensor_map(self, m, tensor):
        """A CUtensorMap for a tensor, as the manifest describes it: the memory that holds it, and its address there."""
        raw = ctypes.create_string_buffer(256)
        at = (ctypes.addressof(raw) + 127) // 128 * 128
        longs = lambda v: (ctypes.c_uint64 * max(len(v), 1))(*v)
        words = lambda v: (ctypes.c_uint32 * max(len(v), 1))(*v)
        dims, strides = [int(d) for d in m["dims"]], [int(s) for s in m["strides_bytes"]]
        self.call(
            "cuTensorMapEncodeTiled", ctypes.c_void_p(at), MAP_DTYPES[m["dtype"]], len(dims), ctypes.c_void_p(tensor.data_ptr()), longs(dims), longs(strides),
            words(m["box"]), words(m["elem_strides"]), 0, MAP_SWIZZLES[m["swizzle"]], MAP_L2[m["l2"]], 0,
        )
        return raw, at


class Kernel:
    """One function of a manifest, ready to launch on tensors."""

    def __init__(self, driver, folder, arch, tensors):
        entry = json.loads((folder / "manifest.json").read_text())["functions"][0]
        spaces = [torch.zeros(max(int(w["bytes"]), 1), dtype=torch.uint8, device="cuda") for w in entry["workspaces"]]
        self.driver, self.keep, self.launches = driver, [*tensors, *spaces], []
        for launch in entry["launches"]:
            function = driver.function(folder / launch["file"][arch], launch["symbol"])
            smem = int(launch.get("dynamic_smem", 0))
            if smem > 48 << 10:
                driver.call("cuFuncSetAttribute", function, 8, smem)
            values, places = [], []
            for a in launch["args"]:
                if "tensor_map" in a:
                    value, place = driver.tensor_map(a["tensor_map"], tensors[a["tensor_map"]["param"]])
                else:
                    value = ctypes.c_void_p((tensors[a["param"]] if "param" in a else spaces[a["workspace"]]).data_ptr())
                    place = ctypes.addressof(value)
                values.append(value)
                places.append(place)
            pointers = (ctypes.c_void_p * len(places))(*places)
            dims = [int(x) for x in launch["grid"] + launch["block"]]
            self.launches.append((function, dims, smem, pointers, values))

    def __call__(self):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        for function, dims, smem, pointers, _ in self.launches:
            self.driver.call("cuLaunchKernel", function, *dims, smem, stream, pointers, None)


def random(*shape, dtype):
    return torch.randn(*shape, device="cuda", dtype=DTYPES[dtype])


def packed_inputs():
    """A vector, 4-bit weights in 32-bit words, and their scales."""
    words = torch.randint(-(2**31), 2**31 - 1, (28672, 512), dtype=torch.int32, device="cuda")
    return random(1, 4096, dtype="f16"), words, random(28672, 128, dtype="f16") / 8


def packed_linear(x, words, scales):
    nibbles = words[:, :, None] >> (4 * torch.arange(8, dtype=torch.int32, device="cuda")) & 15
    weights = (nibbles.reshape(words.shape[0], -1) - 7).to(x.dtype) * scales.repeat_interleave(32, 1)
    return torch.nn.functional.linear(x, weights)


def dense_linear(x, words, scales):
    """The same product with weights of 16 bits: what PyTorch runs as one kernel."""
    weights = random(words.shape[0], x.shape[1], dtype="f16")
    return lambda: torch.nn.functional.linear(x, weights)


def workloads():
    """name -> (function that makes the inputs, PyTorch's function, exact result expected), and where PyTorch
    has no such function, one that makes a call of the nearest that it has."""
    linear, out = torch.nn.functional.linear, {}
    gemvs = [(n, k, d) for d in DTYPES for n, k in ((4096, 4096), (28672, 4096), (4096, 14336))]
    for n, k, d in [*gemvs, (128256, 4096, "bf16")]:
        make = lambda n=n, k=k, d=d: (random(1, k, dtype=d), random(n, k, dtype=d))
        out[f"gemv-1x{n}x{k}-{d}"] = (make, lambda x, w: linear(x, w), False)
    products = [(m, 28672, 4096, "bf16") for m in (64, 512, 2048)]
    products += [(n, n, n, "bf16") for n in (1024, 2048, 4096, 8192)]
    products += [(4096, 4096, 4096, "f16"), (1024, 1024, 1024, "f32"), (4096, 4096, 4096, "f32")]
    for m, n, k, d in [*products, (1000, 1003, 777, "f32")]:
        make = lambda m=m, n=n, k=k, d=d: (random(m, k, dtype=d), random(n, k, dtype=d))
        out[f"matmul{'-odd' * (m == 1000)}-{m}x{n}x{k}-{d}"] = (make, lambda x, w: linear(x, w), False)
    for m in (2, 4, 8, 16):
        make = lambda m=m: (random(m, 4096, dtype="bf16"), random(28672, 4096, dtype="bf16"))
        out[f"lowbatch-{m}x28672x4096-bf16"] = (make, lambda x, w: linear(x, w), False)
    out["gemv_q4-1x28672x4096-f16"] = (packed_inputs, packed_linear, False, dense_linear)
    for name, shape, d, fn in [
        ("mean_last", (2048, 8192), "f32", lambda x: x.mean(-1)),
        ("sum_last", (2048, 2048), "f32", lambda x: x.sum(-1)),
        ("sum_last", (16384, 16384), "f32", lambda x: x.sum(-1)),
        ("sum_first", (8192, 8192), "f32", lambda x: x.sum(0)),
        ("max_last", (32768, 1024), "bf16", lambda x: x.amax(-1)),
        ("sum_all", (1 << 26,), "f32", lambda x: x.sum()),
        ("sum_mid", (64, 1024, 512), "f32", lambda x: x.sum(1)),
    ]:
        make = lambda s=shape, d=d: (random(*s, dtype=d),)
        out[f"{name}-{'x'.join(map(str, shape))}-{d}"] = (make, fn, name.startswith("max"))
    for d in ("f32", "bf16"):
        make = lambda d=d: (random(8192, 8192, dtype=d),)
        out[f"transpose-8192x8192-{d}"] = (make, lambda x: x.t().contiguous(), True)
    make = lambda: (random(16384, 14336, dtype="bf16"), random(16384, 14336, dtype="bf16"))
    out["silu_mul-16384x14336-bf16"] = (make, lambda g, u: torch.nn.functional.silu(g) * u, False)
    F = torch.nn.functional
    shapes = [(4096, 4096, "bf16"), (16384, 8192, "bf16")]
    for rows, length, d in [*shapes, (8192, 8192, "f32"), (512, 128256, "bf16")]:
        make = lambda s=(rows, length), d=d: (random(*s, dtype=d),)
        out[f"softmax-{rows}x{length}-{d}"] = (make, lambda x: torch.softmax(x, -1), False)
    for rows, length, d in shapes:
        weights = lambda n, s=(rows, length), d=d: (random(*s, dtype=d), *(random(s[1], dtype=d) for _ in range(n)))
        rms = lambda x, g: F.rms_norm(x, (x.shape[-1],), g, 1e-5)
        layer = lambda x, g, b: F.layer_norm(x, (x.shape[-1],), g, b, 1e-5)
        out[f"rmsnorm-{rows}x{length}-{d}"] = (lambda w=weights: w(1), rms, False)
        out[f"layernorm-{rows}x{length}-{d}"] = (lambda w=weights: w(2), layer, False)
    return out


def medians(contenders, rounds):
    """Median microseconds of each contender, interleaved, each call after a clean cold L2."""
    cool = torch.zeros(512 << 20, dtype=torch.uint8, device="cuda").view(torch.int64)
    for fn in contenders.values():
        for _ in range(3):
            fn()
    torch.cuda.synchronize()
    events = {name: [] for name in contenders}
    order = list(contenders.items())
    for _ in range(rounds):
        # Who comes first in a round waits for the synchronisation before it: take turns.
        order.append(order.pop(0))
        for name, fn in order:
            cool.max()
            start, end = torch.cuda.Event(True), torch.cuda.Event(True)
            start.record()
            fn()
            end.record()
            events[name].append((start, end))
        torch.cuda.synchronize()
    return {name: sorted(a.elapsed_time(b) for a, b in pairs)[rounds // 2] * 1e3 for name, pairs in events.items()}


def measure(spec, driver, folder, before, arch, args):
    """Times of all contenders, the relative error of ours, whether that is right, bytes moved."""
    make, fn, exact, *nearest = spec
    inputs = make()
    want = fn(*[x.double() if x.is_floating_point() else x for x in inputs])
    output = torch.full_like(fn(*inputs), float("nan"))
    kernel = Kernel(driver, folder, arch, [*inputs, output])
    kernel()
    torch.cuda.synchronize()
    wrong = ((output.double() - want).norm() / want.norm()).item()
    length = inputs[0].shape[-1] if len(inputs) > 1 else inputs[0].numel() // output.numel()
    limit = 0 if exact else 4 * (ROUNDOFF[output.dtype] + 2.0**-24 * math.sqrt(length))
    contenders = {"daylight": kernel, "torch": nearest[0](*inputs) if nearest else lambda: fn(*inputs)}
    if before:
        contenders["before"] = Kernel(driver, before, arch, [*inputs, torch.empty_like(output)])
    if not args.no_compile and not nearest:
        torch._dynamo.reset()
        compiled = torch.compile(fn, dynamic=False)
        compiled(*inputs)
        contenders["torch.compile"] = lambda: compiled(*inputs)
    size = sum(x.numel() * x.element_size() for x in [*inputs, output])
    return medians(contenders, args.rounds), wrong, wrong <= limit, size


def architecture():
    """The device's, as manifests name it."""
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


def dlight_ratios(file):
    if not file:
        return {}
    rows = csv.DictReader(open(file))
    return {r["workload"]: float(r["tvm_dlight_us"]) / float(r["torch_us"]) for r in rows if r["tvm_dlight_us"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernels", required=True)
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--csv", default="one_clock.csv")
    parser.add_argument("--dlight", default="")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--budget", type=float, default=math.inf)
    args = parser.parse_args()
    began, failed = time.monotonic(), 0
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    import torch._inductor.config as inductor

    inductor.max_autotune = inductor.max_autotune_gemm = True
    ratios = dlight_ratios(args.dlight)
    arch = architecture()
    torch.zeros(1, device="cuda")  # makes the context that the driver calls use
    driver, root, rows, shares, gains = Driver(), pathlib.Path(args.kernels), [], [], []
    for name, spec in workloads().items():
        if not re.search(args.only, name) or not (root / name / "manifest.json").exists():
            continue
        if time.monotonic() - began > args.budget:
            print(f"the time is over before {name}")
            break
        before = args.before and args.before / name
        try:
            times, wrong, right, size = measure(spec, driver, root / name, before, arch, args)
        except Exception as e:  # of any contender: the next workload may do
            print(f"{name:28s} FAILED {str(e)[:200]}", flush=True)
            failed += 1
            continue
        failed += not right
        if name in ratios:
            times["tvm-dlight*"] = ratios[name] * times["torch"]
        peer = min((p for p in PEERS if p in times), key=times.get)
        ours, share = times["daylight"], times[peer] / times["daylight"]
        shares.append(share)
        verdict = "right" if right else "WRONG"
        if before:
            gains.append((times["before"] / ours, name, times["before"], ours))
        figures = [round(times.get(n, math.nan), 2) for n in ("daylight", *PEERS)]
        rows.append([name, *figures, peer, round(share, 3), f"{wrong:.1e}", verdict, round(size / ours / 1e3)])
        print(f"{name:28s} daylight {ours:8.2f} us  {peer:13s} {times[peer]:8.2f}  x{share:.3f}  {size / ours / 1e3:5.0f} GB/s  error {wrong:.1e} {verdict}", flush=True)
    if shares:
        mean = math.exp(sum(map(math.log, shares)) / len(shares))
        print(f"geometric mean x{mean:.3f}, worst x{min(shares):.3f}, {torch.cuda.get_device_name()}, torch {torch.__version__}")
    for gain, name, old, new in sorted(gains):
        print(f"{name:28s} before {old:8.2f} us, now {new:8.2f} us, x{gain:.3f}")
    with open(args.csv, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["workload", "daylight_us", "torch_us", "torch_compile_us", "tvm_dlight_us_scaled", "best_peer", "ratio", "relative_error", "verdict", "gb_per_s"])
        writer.writerows(rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

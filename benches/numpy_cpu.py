"""Daylight's CPU kernels against NumPy, in one run.

numpy_cpu.py DAYLIGHT [--trials N]: tunes a matrix-vector product (4096x4096) and row sums (2048x8192),
both float32, on this machine; compiles the winners from the C text that `apply-best` writes; and times
them in alternation with NumPy (its BLAS, all threads), buffers rotated over more than the last-level
cache, medians.
"""

import argparse
import concurrent.futures
import ctypes
import json
import os
import pathlib
import subprocess
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKLOADS = {
    "gemv-1x4096x4096-f32": ([(1, 4096), (4096, 4096)], (1, 4096), lambda x, w: x @ w.T),
    "sum_last-2048x8192-f32": ([(2048, 8192)], (2048,), lambda x: x.sum(-1)),
}


class Kernel:
    """One function of a manifest whose target is the CPU."""

    def __init__(self, folder):
        entry = json.loads((folder / "manifest.json").read_text())["functions"][0]
        self.launches, self.spaces = [], [np.empty(int(w["bytes"]), np.uint8) for w in entry["workspaces"]]
        for launch in entry["launches"]:
            file = next(iter(launch["file"].values()))
            object_file = folder / (file + ".so")
            flags = ["-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC"]
            subprocess.run(["cc", *flags, "-o", object_file, folder / file, "-lm"], check=True)
            function = ctypes.CDLL(str(object_file))[launch["symbol"]]
            self.launches.append((function, launch["grid"][0], launch["args"]))
        # One thread a core: left alone, a short call's threads may share one.
        cores = iter(range(os.cpu_count()))
        pin = lambda: os.sched_setaffinity(0, {next(cores)})
        self.pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count(), initializer=pin)

    def __call__(self, tensors):
        for function, grid, args in self.launches:
            buffers = [tensors[a["param"]] if "param" in a else self.spaces[a["workspace"]] for a in args]
            pointers = (ctypes.c_void_p * len(buffers))(*[b.ctypes.data for b in buffers])
            cuts = [grid * i // os.cpu_count() for i in range(os.cpu_count() + 1)]
            parts = zip(cuts, cuts[1:])
            call = lambda p: function(pointers, None, ctypes.c_int64(p[0]), ctypes.c_int64(p[1]))
            list(self.pool.map(call, parts))


def median_times(contenders, sets, rounds=8, burst=6):
    """Medians in microseconds. Bursts of calls alternate, with a rest before each in which NumPy's BLAS
    threads stop spinning; the first call of a burst wakes the cores and does not count."""
    times = {name: [] for name in contenders}
    turn = 0
    for _ in range(rounds):
        for name, fn in contenders.items():
            time.sleep(0.2)
            for call in range(burst):
                data = sets[turn % len(sets)]
                turn += 1
                start = time.perf_counter()
                fn(data)
                if call:
                    times[name].append(time.perf_counter() - start)
    return {name: sorted(t)[len(t) // 2] * 1e6 for name, t in times.items()}


def measure(daylight, name, trials, tmp):
    shapes, out_shape, fn = WORKLOADS[name]
    file = ROOT / "benches" / "workloads" / f"{name}.py"
    log, out = tmp / "log", tmp / name
    tune = [daylight, "tune", file, "--device", "cpu", "--log", log, "--trials", trials]
    subprocess.run(list(map(str, tune)), check=True, capture_output=True)
    target = json.loads(next(log.rglob("*.jsonl")).read_text().splitlines()[0])["target"]
    apply = [daylight, "apply-best", file, "--log", log, "--target", target, "--out", out]
    subprocess.run(list(map(str, apply)), check=True, capture_output=True)
    rng = np.random.default_rng(0)
    size = sum(4 * int(np.prod(s)) for s in shapes)
    make = lambda: [rng.standard_normal(s, np.float32) for s in shapes] + [np.empty(out_shape, np.float32)]
    sets = [make() for _ in range(max(3, (512 << 20) // size))]
    kernel = Kernel(out)
    kernel(sets[0])
    want = fn(*[t.astype(np.float64) for t in sets[0][:-1]])
    error = np.linalg.norm(sets[0][-1] - want) / np.linalg.norm(want)
    times = median_times({"daylight": kernel, "numpy": lambda d: fn(*d[:-1])}, sets)
    ratio = times["numpy"] / times["daylight"]
    print(f"{name:26s} daylight {times['daylight']:8.1f} us  numpy {times['numpy']:8.1f} us  x{ratio:.2f}  error {error:.1e}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("daylight")
    parser.add_argument("--trials", type=int, default=32)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        for name in WORKLOADS:
            measure(args.daylight, name, args.trials, pathlib.Path(tmp))


if __name__ == "__main__":
    main()

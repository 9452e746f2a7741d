"""Daylight's CPU kernels against NumPy, in one run.

numpy_cpu.py DAYLIGHT [--trials N] [--only REGEX] [--share]: tunes a matrix-vector product (4096x4096), a matrix
product (1024x1024x1024), row sums and maxima (2048x8192) and softmax (2048x4096), all float32, on this
machine; compiles the winners from the C text that `apply-best` writes; and times them in alternation with
NumPy (its BLAS, all threads), buffers rotated over more than the last-level cache, medians.

The kernels run on a few lines of C that keep one pinned thread a core, which spin for a moment after
each call, as the threads of NumPy's BLAS do.

With --share one core runs its share of each launch, and both contenders are timed in CPU seconds: for
machines that others use too, and for what NumPy runs on one core (sums, maxima, softmax).
"""

import argparse
import ctypes
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


WORKLOADS = {
    "gemv-1x4096x4096-f32": ([(1, 4096), (4096, 4096)], (1, 4096), lambda x, w: x @ w.T),
    "matmul_nn-1024x1024x1024-f32": ([(1024, 1024), (1024, 1024)], (1024, 1024), lambda a, b: a @ b),
    "sum_last-2048x8192-f32": ([(2048, 8192)], (2048,), lambda x: x.sum(-1)),
    "max_last-2048x8192-f32": ([(2048, 8192)], (2048,), lambda x: x.max(-1)),
    "softmax-2048x4096-f32": ([(2048, 4096)], (2048, 4096), softmax),
}

# Threads that wait for `turn` to move on and then run their part of the grid of a launch.
POOL = """
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
typedef void kernel(void *const *, const long long *, long long, long long);
static kernel *fn;
static void *const *args;
static long long grid;
static int threads;
static atomic_int turn, left;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static void pin(int core) {
  cpu_set_t set; CPU_ZERO(&set); CPU_SET(core, &set); pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}
static void part(long long i) { fn(args, 0, grid * i / threads, grid * (i + 1) / threads); }
static void *work(void *at) {
  long long i = (long long)at;
  pin(i);
  for (int seen = 0;;) {
    for (int n = 0; n < 1 << 18 && atomic_load(&turn) == seen; ++n) __builtin_ia32_pause();
    pthread_mutex_lock(&lock);
    while (atomic_load(&turn) == seen) pthread_cond_wait(&wake, &lock);
    pthread_mutex_unlock(&lock);
    ++seen;
    part(i);
    atomic_fetch_sub(&left, 1);
  }
  return 0;
}
void start(int n) {
  threads = n;
  pin(0);
  for (long long i = 1; i < n; ++i) { pthread_t t; pthread_create(&t, 0, work, (void *)i); }
}
void launch(kernel *f, void *const *a, long long g) {
  fn = f; args = a; grid = g;
  atomic_store(&left, threads - 1);
  pthread_mutex_lock(&lock);
  atomic_fetch_add(&turn, 1);
  pthread_cond_broadcast(&wake);
  pthread_mutex_unlock(&lock);
  part(0);
  while (atomic_load(&left)) __builtin_ia32_pause();
}
"""


def pool(folder):
    """The launching function of the pool, which is started."""
    source, library = folder / "pool.c", folder / "pool.so"
    source.write_text(POOL)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-pthread", "-o", library, source], check=True)
    c = ctypes.CDLL(str(library))
    c.start(os.cpu_count())
    return c.launch


def one_share(function, pointers, grid):
    """What one core does of a launch."""
    function(pointers, None, ctypes.c_longlong(0), ctypes.c_longlong(grid.value // os.cpu_count()))


def all_shares(function, pointers, grid):
    """A whole launch on one core."""
    function(pointers, None, ctypes.c_longlong(0), grid)


class Kernel:
    """One function of a manifest whose target is the CPU."""

    def __init__(self, folder, on_cores):
        self.on_cores = on_cores
        entry = json.loads((folder / "manifest.json").read_text())["functions"][0]
        self.launches, self.spaces = [], [np.empty(int(w["bytes"]), np.uint8) for w in entry["workspaces"]]
        for launch in entry["launches"]:
            file = next(iter(launch["file"].values()))
            object_file = folder / (file + ".so")
            flags = ["-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC"]
            subprocess.run(["cc", *flags, "-o", object_file, folder / file, "-lm"], check=True)
            function = ctypes.CDLL(str(object_file))[launch["symbol"]]
            self.launches.append((function, launch["grid"][0], launch["args"]))

    def __call__(self, tensors):
        for function, grid, args in self.launches:
            buffers = [tensors[a["param"]] if "param" in a else self.spaces[a["workspace"]] for a in args]
            pointers = (ctypes.c_void_p * len(buffers))(*[b.ctypes.data for b in buffers])
            self.on_cores(function, pointers, ctypes.c_longlong(grid))


def read_for(seconds, sets):
    """Reads the tensors on one core, which keeps it and the memory awake."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for data in sets:
            max(data, key=np.size).max()


def median_times(contenders, sets, clock, rounds=16, burst=6):
    """Medians in microseconds. Bursts of calls alternate. Before each the memory is kept awake while NumPy's
    BLAS threads stop spinning; the first call of a burst wakes the cores and does not count."""
    times = {name: [] for name in contenders}
    turn = 0
    for _ in range(rounds):
        for name, fn in contenders.items():
            read_for(0.2, sets)
            for call in range(burst):
                data = sets[turn % len(sets)]
                turn += 1
                start = clock()
                fn(data)
                if call:
                    times[name].append(clock() - start)
    return {name: sorted(t)[len(t) // 2] * 1e6 for name, t in times.items()}


def measure(daylight, name, trials, tmp, launch, clock):
    shapes, out_shape, fn = WORKLOADS[name]
    file = ROOT / "benches" / "workloads" / f"{name}.py"
    log, out = tmp / f"{name}-log", tmp / name
    tune = [daylight, "tune", file, "--device", "cpu", "--log", log, "--trials", trials]
    subprocess.run(list(map(str, tune)), check=True, capture_output=True)
    target = json.loads(next(log.rglob("*.jsonl")).read_text().splitlines()[0])["target"]
    apply = [daylight, "apply-best", file, "--log", log, "--target", target, "--out", out]
    subprocess.run(list(map(str, apply)), check=True, capture_output=True)
    rng = np.random.default_rng(0)
    size = sum(4 * int(np.prod(s)) for s in shapes)
    make = lambda: [rng.standard_normal(s, np.float32) for s in shapes] + [np.empty(out_shape, np.float32)]
    sets = [make() for _ in range(max(3, (512 << 20) // size))]
    kernel = Kernel(out, launch)
    Kernel(out, all_shares)(sets[0])
    want = fn(*[t.astype(np.float64) for t in sets[0][:-1]])
    error = np.linalg.norm(sets[0][-1] - want) / np.linalg.norm(want)
    times = median_times({"daylight": kernel, "numpy": lambda d: fn(*d[:-1])}, sets, clock)
    ratio = times["numpy"] / times["daylight"]
    print(f"{name:26s} daylight {times['daylight']:8.1f} us  numpy {times['numpy']:8.1f} us  x{ratio:.2f}  error {error:.1e}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("daylight")
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--only", default="")
    parser.add_argument("--share", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        launch, clock = (one_share, time.thread_time) if args.share else (pool(pathlib.Path(tmp)), time.perf_counter)
        for name in filter(re.compile(args.only).search, WORKLOADS):
            measure(args.daylight, name, args.trials, pathlib.Path(tmp), launch, clock)


if __name__ == "__main__":
    main()

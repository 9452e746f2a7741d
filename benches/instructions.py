"""Runs kernels of one instruction each on a CUDA GPU, and compares with the results of plain arithmetic.

instructions.py --arch sm_100a [--programs FILE] [--jobs N] [--seconds S]

FILE (benches/instructions.json.gz, written by tests/carried.rs) has a line for each: CUDA text, inputs, results. Each is compiled by NVRTC and
run in a process of its own, so that one that faults or hangs costs itself alone. A line for each that is not right, then a count; exit code 1
where one is wrong. Needs a GPU, its driver, NVRTC and Python; no packages.
"""

import argparse
import concurrent.futures
import ctypes
import gzip
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))

OPTIONS = ["-default-device", "--std=c++17", "--fmad=true", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--minimal"]
FORMATS = {"float64": "d", "float32": "f", "float16": "e", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q"}
ONE_CASE_SECONDS = 60


def values(dtype, data):
    """The numbers that bytes of a type hold."""
    if dtype == "bfloat16":
        halves = struct.unpack(f"<{len(data) // 2}H", data)
        return struct.unpack(f"<{len(halves)}f", struct.pack(f"<{len(halves)}I", *[h << 16 for h in halves]))
    width = struct.calcsize("<" + FORMATS[dtype])
    return struct.unpack(f"<{len(data) // width}{FORMATS[dtype]}", data)


def size(dtype):
    return 2 if dtype == "bfloat16" else struct.calcsize("<" + FORMATS[dtype])


def mistake(case, got):
    """A sentence where a result is not what is wanted; NaN equals NaN."""
    want = values("float64", bytes.fromhex(case["want"]))
    scale = max((abs(w) for w in want if w == w and abs(w) != float("inf")), default=0.0)
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        same = g == w or (g != g and w != w)
        if not same and not abs(g - w) <= case["tolerance"] * scale:
            return f"element {i} is {g}, expected {w}"
    return None


class Memory:
    """Device memory that holds some bytes."""

    def __init__(self, driver, data):
        self.driver, self.size, self.at = driver, len(data), ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(self.at), ctypes.c_size_t(max(self.size, 16)))
        driver.call("cuMemcpyHtoD_v2", self.at, data, ctypes.c_size_t(self.size))

    def read(self):
        room = ctypes.create_string_buffer(self.size)
        self.driver.call("cuMemcpyDtoH_v2", room, self.at, ctypes.c_size_t(self.size))
        return room.raw


def run(case, arch):
    """Runs one case on the first GPU; a sentence where it is wrong."""
    from daylight.cuda import nvrtc
    from daylight.cuda.driver import driver

    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "kernel.cu"
        source.write_text(case["text"])
        image = nvrtc.cubin(source, [f"--gpu-architecture={arch}", *OPTIONS])
    d = driver()
    d.push(d.context(0))
    function = d.function(d.module(image), case["symbol"], 0)
    inputs = [Memory(d, bytes.fromhex(t["data"])) for t in case["inputs"]]
    output = Memory(d, bytes(len(case["want"]) // 16 * size(case["output"])))
    addresses = [m.at for m in [*inputs, output]]
    params = (ctypes.c_void_p * len(addresses))(*[ctypes.addressof(a) for a in addresses])
    d.call("cuLaunchKernel", function, 1, 1, 1, *case["block"], 0, None, params, None)
    d.call("cuCtxSynchronize")
    return mistake(case, values(case["output"], output.read()))


def applies(case, arch):
    number = int(arch.removeprefix("sm_").rstrip("a"))
    return case["only"] == arch if case["only"] else case["sm"] <= number


def alone(number, args):
    """Runs a case in a process of its own; a sentence where it is wrong."""
    command = [sys.executable, str(HERE / "instructions.py"), "--arch", args.arch, "--programs", args.programs, "--case", str(number)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ONE_CASE_SECONDS)
    except subprocess.TimeoutExpired:
        return f"no end after {ONE_CASE_SECONDS} s"
    if done.returncode == 0:
        return None
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"


def load(file):
    with gzip.open(file, "rt") as f:
        return [json.loads(line) for line in f]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--arch", required=True)
    ap.add_argument("--programs", default=str(HERE / "instructions.json.gz"))
    ap.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1))
    ap.add_argument("--seconds", type=float, default=600)
    ap.add_argument("--case", type=int)
    args = ap.parse_args()
    cases = load(args.programs)
    if args.case is not None:
        why = run(cases[args.case], args.arch)
        print(why or "right")
        return 1 if why else 0
    end = time.monotonic() + args.seconds
    chosen = [i for i, case in enumerate(cases) if applies(case, args.arch)]
    one = lambda i: alone(i, args) if time.monotonic() < end else "left"
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = dict(zip(chosen, pool.map(one, chosen)))
    left = [i for i in chosen if results[i] == "left"]
    wrong = [i for i in chosen if results[i] not in (None, "left")]
    for i in wrong:
        print(f"WRONG {cases[i]['name']}: {results[i]}")
    right = len(chosen) - len(wrong) - len(left)
    print(f"{right} of {len(chosen)} instruction programs of {args.arch} right, {len(wrong)} wrong, {len(left)} for which no time was left")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Hardware counters of kernels by Nsight Compute, on a CUDA GPU.

counters.py --kernels DIR --csv FILE [--only REGEX] [--seconds S]

DIR holds one folder per workload of benches/one_clock.py, as `daylight apply-best` wrote it. Each kernel is launched once under `ncu`, clocks
left alone; FILE has what ncu prints (sections SpeedOfLight, LaunchStats, Occupancy, MemoryWorkloadAnalysis, ComputeWorkloadAnalysis), and a line
for each kernel is printed. Exit code 3 where there is no ncu, or where it is not allowed to read counters. Needs a GPU and PyTorch.
"""

import argparse
import csv
import json
import pathlib
import re
import shutil
import subprocess
import sys

SECTIONS = ["SpeedOfLight", "LaunchStats", "Occupancy", "MemoryWorkloadAnalysis", "ComputeWorkloadAnalysis"]
# What the printed line has, by the names of ncu.
SHOWN = ["Duration", "DRAM Throughput", "Memory Throughput", "Compute (SM) Throughput", "Registers Per Thread", "Achieved Occupancy", "Waves Per SM"]
NOT_ALLOWED = "ERR_NVGPUCTRPERM"
LEFT_OUT = 3


def folders(args):
    all = sorted(pathlib.Path(args.kernels).glob("*/manifest.json"))
    return [m.parent for m in all if re.search(args.only, m.parent.name)]


def launch(args):
    """What runs under ncu: each kernel once."""
    import torch
    from one_clock import Driver, Kernel, architecture, workloads

    torch.zeros(1, device="cuda")  # makes the context that the driver calls use
    driver, known = Driver(), workloads()
    for folder in folders(args):
        if folder.name not in known:
            continue
        make, fn, *_ = known[folder.name]
        inputs = make()
        Kernel(driver, folder, architecture(), [*inputs, torch.empty_like(fn(*inputs))])()
        torch.cuda.synchronize()


def symbols(args):
    """The kernels' names, with the workload that each belongs to."""
    out = {}
    for folder in folders(args):
        for function in json.loads((folder / "manifest.json").read_text())["functions"]:
            out.update({step["symbol"]: folder.name for step in function["launches"]})
    return out


def ncu():
    for name in ["ncu", "/usr/local/cuda/bin/ncu"]:
        if found := shutil.which(name):
            return found
    return None


def rows(text):
    """The table that ncu prints after its own lines."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    return list(csv.DictReader(lines))


def write(table, file):
    """The table without the names of the machine and of its processes."""
    kept = [c for c in (table[0] if table else []) if c not in ("Process ID", "Process Name", "Host Name")]
    with open(file, "w", newline="") as f:
        writer = csv.DictWriter(f, kept, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(table)


def show(table, names):
    """A line for each launch."""
    launches = {}
    for row in table:
        launches.setdefault((row["ID"], row["Kernel Name"]), {})[row["Metric Name"]] = f"{row['Metric Value']} {row['Metric Unit']}".strip()
    for (_, kernel), metrics in launches.items():
        workload = next((w for symbol, w in names.items() if kernel.split("(")[0] == symbol), "")
        print(f"{workload:28s} {kernel.split('(')[0]:36s}", ", ".join(f"{m} {metrics[m]}" for m in SHOWN if m in metrics))
    return len(launches)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--kernels", required=True)
    ap.add_argument("--csv", default="counters.csv")
    ap.add_argument("--only", default="")
    ap.add_argument("--seconds", type=float, default=600)
    ap.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    args = ap.parse_args()
    if args.launch:
        return launch(args)
    names, tool = symbols(args), ncu()
    if tool is None:
        print("no ncu on PATH and none in /usr/local/cuda/bin")
        return LEFT_OUT
    if not names:
        print("no kernels of these workloads")
        return LEFT_OUT
    command = [tool, "--csv", "--clock-control", "none", "--target-processes", "all", "--kernel-name-base", "function"]
    command += ["--kernel-name", f"regex:^({'|'.join(map(re.escape, names))})$", *[x for s in SECTIONS for x in ("--section", s)]]
    command += [sys.executable, __file__, "--launch", "--kernels", args.kernels, "--only", args.only]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=args.seconds)
    except subprocess.TimeoutExpired:
        print(f"ncu had not ended after {args.seconds:.0f} s")
        return 1
    if NOT_ALLOWED in done.stdout + done.stderr:
        print("this user may not read the GPU's counters (ERR_NVGPUCTRPERM)")
        return LEFT_OUT
    table = rows(done.stdout)
    write(table, args.csv)
    if show(table, names) == 0:
        print("ncu saw no kernel:", (done.stderr or done.stdout).strip()[-500:])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

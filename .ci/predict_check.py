"""Ranks functions for GPUs that are not there, holds what the compiler says against the GPU, and applies the ranking.

    predict_check.py DAYLIGHT OUT [--part K/N] [--target T,...] [FILE ...]

Of the functions of tests/workloads (or FILE ...), dealt out in N parts of which each target takes the next, beginning with part K: `tune --no-measure`
must find a kernel that spills nothing and that the GPU can launch, and `apply-best` must write it, rung `predicted`. Prints the seconds that a
function takes, and exits with 1 when something does not hold. Needs NVRTC, no GPU.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Sizes of the symbolic extents of tests/workloads/dynamic.
BIND = {"n": 64, "m": 128, "b": 2, "s": 8, "batch_size": 2, "seq_len": 32}
# Shared memory of a block in bytes, blocks of 1,024 threads aside: what CUDA's guide says of each.
SHARED = {"cuda:sm_90a": 227 << 10, "cuda:sm_100a": 227 << 10, "cuda:sm_103a": 227 << 10, "cuda:sm_120a": 99 << 10}
REGISTERS_OF_A_THREAD, REGISTERS_OF_A_BLOCK = 255, 65536


def daylight(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, cwd=ROOT)
    return done.returncode, done.stdout, done.stderr


def over_budget(ranking, target):
    """What a ranking's first asks for that the target has not."""
    o = ranking["occupancy"]
    if ranking["ranked"] == 0 or o is None:
        return ["nothing is ranked"]
    held = {
        f"{o['spilled']} bytes are spilled": o["spilled"] > 0,
        f"{o['registers']} registers": o["registers"] > REGISTERS_OF_A_THREAD,
        f"{o['registers']} registers for each of {o['threads']} threads": o["registers"] * o["threads"] > REGISTERS_OF_A_BLOCK,
        f"{o['shared_bytes']} bytes of shared memory": o["shared_bytes"] > SHARED[target],
        f"{o['resident_blocks']} blocks on a multiprocessor": o["resident_blocks"] < 1,
        f"occupancy {o['occupancy']}": not 0 < o["occupancy"] <= 1,
        f"{o['waves']} waves": o["waves"] <= 0,
    }
    return [what for what, is_over in held.items() if is_over]


def rungs(node):
    """Every rung that a manifest names."""
    if isinstance(node, dict):
        return [v for k, v in node.items() if k == "rung"] + [r for v in node.values() for r in rungs(v)]
    return [r for v in node for r in rungs(v)] if isinstance(node, list) else []


def bound(extents):
    """The option that gives symbolic extents their sizes; none where there are none."""
    return ["--bind", ",".join(f"{name}={size}" for name, size in extents.items())] if extents else []


def part(program, files, bind, target, shard, out):
    """What does not hold for a part of the functions on a target, and how many there are."""
    began, name = time.monotonic(), target.partition(":")[2]
    log = out / f"log-{name}"
    code, text, said = daylight(program, "tune", *files, *bound(bind), "--target", target, "--no-measure", "--shard", shard, "--log", log, "--json")
    rankings = [json.loads(line) for line in text.splitlines()]
    took = time.monotonic() - began
    wrong = [f"{r['name']} for {target}: {what}" for r in rankings for what in over_budget(r, target)]
    if code != 0 or not rankings:
        wrong.append(f"tune for {target} ends with {code}: {said.strip()[-500:]}")
    for r in rankings:
        folder = out / name / pathlib.Path(r["file"]).stem
        code, _, said = daylight(program, "apply-best", r["file"], *bound(r["bind"]), "--target", target, "--log", log, "--out", folder)
        found = rungs(json.loads((folder / "manifest.json").read_text())) if code == 0 else []
        if not found or set(found) != {"predicted"}:
            wrong.append(f"{r['name']} for {target}: apply-best ends with {code}, rungs {found}: {said.strip()[-300:]}")
    applied = time.monotonic() - began - took
    print(f"{target}, part {shard}: {len(rankings)} functions, {took / max(len(rankings), 1):.1f} s each to rank, {applied / max(len(rankings), 1):.1f} s to apply")
    return wrong


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("daylight")
    ap.add_argument("out", type=pathlib.Path)
    ap.add_argument("files", nargs="*")
    ap.add_argument("--part", default="1/1")
    ap.add_argument("--target", default="cuda:sm_100a,cuda:sm_120a")
    a = ap.parse_args()
    folders = [p for p in sorted((ROOT / "tests/workloads").iterdir()) if p.is_dir() and p.name != "refused"]
    files, bind = (a.files, {}) if a.files else (folders, BIND)
    k, n = map(int, a.part.split("/"))
    wrong = []
    for i, target in enumerate(a.target.split(",")):
        wrong += part(str(pathlib.Path(a.daylight).resolve()), files, bind, target, f"{(k - 1 + i) % n + 1}/{n}", a.out.resolve())
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""What the tuning engine does on a GPU: its noise, how it survives faults, how fast and how well it
tunes, and whether independent runs agree.

    python3 benches/engine.py DAYLIGHT OUT [--faults BENCH] [--before DAYLIGHT] [--exhaustive FOLDER]
                              [--runs N] [--device cuda:0] [--devices cuda:0,cuda:all]

DAYLIGHT is a release build of the command, BENCH the built `faults` bench, --before an older release build to
compare with, FOLDER logs of exhaustive runs (`*.jsonl.gz`, one per function, named like its file). Writes
`engine.md` and the logs to OUT. Needs an NVIDIA GPU, its driver and NVRTC.
"""

import argparse
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def lines(command, **more):
    """JSON lines of a command's output; its errors go to ours."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True, cwd=ROOT, **more)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def records(path):
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else open(path)
    with opened as f:
        return [json.loads(line) for line in f if line.strip()]


def median_us(record):
    return statistics.median(record["samples_ns"]) / 1e3


def exhaustive_best(folder, name):
    """Shortest first reading of an exhaustive run in microseconds."""
    for path in [folder / f"{name}.jsonl.gz", folder / f"{name}.jsonl"] if folder else []:
        if path.exists():
            timed = [r for r in records(path) if r["outcome"] == "ok" and r.get("round", 0) == 0]
            return min(map(median_us, timed)), len(timed)
    return None, None


def functions(folder):
    """The benchmark functions, and those of the corpus that an exhaustive log is there for."""
    found = sorted((ROOT / "benches/workloads").glob("*.py"))
    if folder:
        logged = {p.name.split(".jsonl")[0] for p in folder.glob("*.jsonl*")}
        found += sorted(p for p in (ROOT / "tests/workloads").rglob("*.py") if p.stem in logged)
    return found


def tune(daylight, files, log, device, *more):
    """Tunes files in one command; gives the reports by file stem and the seconds of the whole command.
    Nothing that another run compiled is used."""
    start = time.time()
    command = [daylight, "tune", *files, "--device", device, "--log", log, "--cache", f"{log}-cache", "--json", *more]
    with open(f"{log}.txt", "a") as errors:
        reports = lines(command, stderr=errors)
    return {pathlib.Path(r["file"]).stem: r for r in reports}, time.time() - start


def noise(a, out):
    out.append("### A kernel against itself\n")
    found = [f["text"] for f in lines([a.daylight, "doctor", "--device", a.device, "--json"])]
    out.extend(f"- {text}" for text in found if " copy of " in text or "SM " in text)


def faults(a, out):
    out.append("\n### Faults\n")
    done = subprocess.run([a.faults, a.device, "--worker", a.daylight], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    out.append(done.stdout.strip())
    out.append(f"\nExit code {done.returncode}.")


def longer(report):
    """The side of the pipeline that takes longer when nothing waits: all compilers, or the device."""
    return "measuring" if report["device_busy_s"] > report["compile_s"] / os.cpu_count() else "compiling"


def speed(a, out):
    files = functions(a.exhaustive)
    after, seconds = tune(a.daylight, files, a.out / "after", a.device)
    before, before_s = tune(a.before, files, a.out / "before", a.device, "--trials", "128") if a.before else ({}, None)
    out.append("\n### Tuning\n")
    out.append("| function | points | exhaustive us | best us | ratio | default us | measured | s | candidates/s | busy | longer "
               "| before: us | s | candidates/s |")
    out.append("|---|" + "---|" * 13)
    for file in files:
        r = after.get(file.stem)
        if not r or r["best_us"] is None:
            out.append(f"| {file.stem} | | | none |")
            continue
        best, count = exhaustive_best(a.exhaustive, file.stem)
        b = before.get(file.stem)
        row = [file.stem, count or r["space"]["legal"], f"{best:.2f}" if best else "", f"{r['best_us']:.2f}",
               f"{r['best_us'] / best:.3f}" if best else "", f"{r['default_us']:.2f}", r["measured"],
               f"{r['seconds']:.2f}", f"{r['candidates'] / r['seconds']:.0f}",
               f"{100 * r['device_busy']:.0f} %" if r["device_busy"] else "", longer(r)]
        row += [f"{b['best_us']:.2f}", f"{b['seconds']:.2f}", f"{b['candidates'] / b['seconds']:.0f}"] if b else [""] * 3
        out.append("| " + " | ".join(map(str, row)) + " |")
    out.append(f"\nThe whole command took {seconds:.1f} s" + (f", before {before_s:.1f} s." if before_s else "."))


def agreement(a, out):
    file = ROOT / f"benches/workloads/{a.agree}.py"
    out.append(f"\n### {a.runs} fresh runs of {file.stem}\n")
    found, took = [], []
    for seed in range(a.runs):
        reports, _ = tune(a.daylight, [file], a.out / f"agree{seed}", a.device, "--seed", str(seed))
        r = reports[file.stem]
        took.append(r["seconds"])
        found.append((r["best_us"], json.dumps(r["knobs"], sort_keys=True)))
    usual = statistics.median(us for us, _ in found)
    near = sum(abs(us / usual - 1) <= 0.02 for us, _ in found)
    same = max(sum(k == other for _, k in found) for _, other in found)
    spread = f"{min(us for us, _ in found):.2f} to {max(us for us, _ in found):.2f} us"
    out.append(f"{near} of {a.runs} winners within 2 % of the median winner ({spread}), {same} of them the same kernel; "
               f"{statistics.median(took):.1f} s each.")


def gpus():
    return len(subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, text=True).stdout.splitlines())


def devices(a, out):
    out.append("\n### Several GPUs\n\n| device | candidates | s | candidates/s | s trying | candidates/s | busy | waited s |"
               "\n|---|---|---|---|---|---|---|---|")
    files = [ROOT / f"benches/workloads/{name}.py" for name in a.spread.split(",")]
    for name in a.devices.split(","):
        log = a.out / f"devices-{name.replace(':', '-')}"
        reports, _ = tune(a.daylight, files, log, name, "--trials", "3000", "--search", "random")
        tried, seconds = (sum(r[k] for r in reports.values()) for k in ("candidates", "seconds"))
        busy = ", ".join(f"{100 * r['device_busy']:.0f} %" for r in reports.values())
        waited = "; ".join(", ".join(f"{k} {v:.1f}" for k, v in r["device_waited_s"].items()) for r in reports.values())
        count = gpus() if name == "cuda:all" else 1
        trying = sum(r["device_busy_s"] + sum(r["device_waited_s"].values()) for r in reports.values()) / count
        out.append(f"| {name} | {tried} | {seconds:.1f} | {tried / seconds:.1f} | {trying:.1f} | {tried / trying:.1f} "
                   f"| {busy} | {waited} |")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("daylight", type=pathlib.Path)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("--faults", type=pathlib.Path)
    p.add_argument("--before", type=pathlib.Path)
    p.add_argument("--exhaustive", type=pathlib.Path)
    p.add_argument("--device", default="cuda:0")
    p.add_argument("--devices", help="compare candidates per second on these, such as cuda:0,cuda:all")
    p.add_argument("--spread", default="sum_mid-64x1024x512-f32,gemv-1x28672x4096-f16")
    p.add_argument("--agree", default="max_last-32768x1024-bf16", help="the function that is tuned again and again")
    p.add_argument("--runs", type=int, default=20)
    a = p.parse_args()
    for name in ["daylight", "out", "faults", "before", "exhaustive"]:
        if getattr(a, name):
            setattr(a, name, getattr(a, name).resolve())
    a.out.mkdir(parents=True, exist_ok=True)
    out = []
    if a.devices:
        devices(a, out)
    else:
        noise(a, out)
        if a.faults:
            faults(a, out)
        speed(a, out)
        if a.runs:
            agreement(a, out)
    text = "\n".join(out) + "\n"
    (a.out / "engine.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()

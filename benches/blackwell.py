"""The steps of benches/blackwell.sh, which says what this is.

blackwell.py --daylight PROGRAM --out DIR [--minutes N] [--device cuda:0]

A step is a function that is given the seconds it may take, and returns what came of it in one sentence. What a step leaves of its time, later ones
have. It raises `LeftOut` where it cannot be done here, which is no failure, and `Failed` where something is wrong.
"""

import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import tarfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
# Functions whose counters are read: each bound by something else.
COUNTED = "^(gemv-1x28672x4096-bf16|gemv_q4-1x28672x4096-f16|lowbatch-8x28672x4096-bf16|matmul-4096x4096x4096-bf16|matmul-64x28672x4096-bf16|mean_last-2048x8192-f32|sum_first-8192x8192-f32|softmax-16384x8192-bf16|rmsnorm-16384x8192-bf16|transpose-8192x8192-bf16)$"
# torch.compile with its search takes most of a minute for some functions.
MINUTES_TO_COMPILE = 15


class LeftOut(Exception):
    """A step that cannot be done on this machine."""


class Failed(Exception):
    """A step in which something is wrong."""


class Run:
    """Where things are, and what was found."""

    def __init__(self, args):
        self.daylight, self.out, self.minutes = pathlib.Path(args.daylight).resolve(), pathlib.Path(args.out).resolve(), args.minutes
        self.device, self.gpu = args.device, args.device.startswith("cuda")
        self.jobs = os.cpu_count() or 1
        self.arch = None
        for folder in ("environment", "kernels", "tables"):
            (self.out / folder).mkdir(parents=True, exist_ok=True)

    @property
    def target(self):
        if self.gpu and self.arch is None:
            raise LeftOut("the GPU's architecture is not known")
        return f"cuda:{self.arch}" if self.gpu else "cpu"

    def only_gpu(self):
        if not self.gpu:
            raise LeftOut("needs a GPU")

    def functions(self):
        """The benchmark functions and the drawn ones; without a GPU three that a CPU is done with soon."""
        if not self.gpu:
            return [ROOT / "examples/mean.py", *sorted((HERE / "drawn").glob("argmax-*.py"))[:2]]
        return [*sorted((HERE / "workloads").glob("*.py")), *sorted((HERE / "drawn").glob("*.py"))]

    def call(self, command, seconds, log):
        """Runs a command at most so long, its words in a file. Exit code, standard output; a code of None where it was ended."""
        with open(self.out / log, "a") as words:
            print("$", *command, file=words, flush=True)
            process = subprocess.Popen(
                [str(c) for c in command], cwd=ROOT, stdout=subprocess.PIPE, stderr=words, text=True, start_new_session=True
            )
            try:
                out, _ = process.communicate(timeout=max(seconds, 1))
                code = process.returncode
            except subprocess.TimeoutExpired:
                code, out = None, end(process)
            except KeyboardInterrupt:
                end(process)
                raise
            words.write(out)
        return code, out


def end(process):
    """Ends a process and its children, which may write what they have. Its output."""
    for sign in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            return process.communicate(timeout=10)[0]
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            break
    return process.communicate()[0]


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def objects(text):
    """The JSON objects of an output, a line each."""
    out = []
    for line in text.splitlines():
        try:
            out.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return out


def environment(run, seconds):
    """What machine this is; finds the GPU's architecture."""
    until = time.monotonic() + seconds
    about = {"python": platform.python_version(), "system": platform.platform(), "cores": run.jobs, "minutes": run.minutes, "device": run.device}
    code, found = run.call([run.daylight, "doctor", "--json"], seconds, "environment/doctor.txt")
    about["doctor"] = objects(found)
    _, version = run.call([run.daylight, "--version"], 10, "environment/doctor.txt")
    about["daylight"] = version.strip()
    for name, command in [
        ("nvidia-smi", ["nvidia-smi", "-q"]),
        ("torch", [sys.executable, "-c", "import torch; print(torch.__version__, torch.version.cuda)"]),
        ("ncu", ["ncu", "--version"]),
    ]:
        try:
            about[name] = last_line(run.call(command, until - time.monotonic(), f"environment/{name}.txt")[1]) if run.gpu else "not asked"
        except OSError:
            about[name] = "not found"
    if run.gpu:
        run.arch = architecture(run, about["doctor"])
        about["arch"] = run.arch
    (run.out / "environment/environment.json").write_text(json.dumps(about, indent=1) + "\n")
    missing = [f["what"] for f in about["doctor"] if f["what"] in ("CUDA device", "NVRTC") and not f["found"]]
    if run.gpu and missing:
        raise Failed(f"not found: {', '.join(missing)} (environment/doctor.txt says how to get it)")
    if code != 0:
        raise Failed(f"`daylight doctor` ends with {code}")
    return f"{run.target}, {about['daylight']}, torch {about['torch']}"


def architecture(run, doctor):
    """`sm_100a`, from what the driver says of the device that was named."""
    text = next((f["text"] for f in doctor if f["what"] == "CUDA device"), "")
    index = run.device.partition(":")[2] or "0"
    found = re.search(rf"(?:^|; ){index}: .*?\(sm_(\d+)", text)
    return f"sm_{found[1]}" + ("a" if int(found[1]) >= 90 else "") if found else None


def instructions(run, seconds):
    """Kernels of one instruction each."""
    run.only_gpu()
    command = [sys.executable, HERE / "instructions.py", "--arch", run.target.partition(":")[2], "--seconds", f"{max(seconds - 5, 3):.0f}"]
    code, out = run.call(command, seconds + 5, "instructions.txt")
    if code is None:
        raise Failed("had not ended in its time; see instructions.txt")
    if code != 0:
        raise Failed(last_line(out) or "see instructions.txt")
    return last_line(out)


def verify(run, files, seconds, log, *options):
    """`daylight verify` of each file, several at a time. What it says as JSON, those without an answer, those for which no time was left."""
    until = time.monotonic() + seconds

    def one(file):
        left = until - time.monotonic()
        if left < 2:
            return file, None, []
        code, out = run.call([run.daylight, "verify", file, "--target", run.target, "--json", *options], left, f"{log}.{file.stem}.part")
        return file, code, objects(out)

    with concurrent.futures.ThreadPoolExecutor(max(1, min(8, run.jobs // 2))) as pool:
        results = list(pool.map(one, files))
    with open(run.out / f"{log}.txt", "a") as whole:
        for part in sorted(run.out.glob(f"{log}.*.part")):
            whole.write(part.read_text())
            part.unlink()
    answers = [(f, o) for f, _, found in results for o in found]
    silent = [f.stem for f, code, found in results if code is not None and not found]
    left = [f.stem for f, code, found in results if code is None and not found]
    return answers, silent, left


def verdict(answers, silent, left, what):
    """The sentence of a step that verified, or what is wrong."""
    wrong = [f"{f.stem}: {next(c['reason'] for c in o['candidates'] if not c['right'])}" for f, o in answers if o["status"] != "ok"]
    candidates = sum(len(o["candidates"]) for _, o in answers)
    if not answers and not silent:
        raise LeftOut(f"no time for any of {len(left)} {what}")
    text = f"{candidates} kernels of {len(answers)} {what} right" + (f", no time for {len(left)}" if left else "")
    if wrong or silent:
        raise Failed("; ".join([f"{len(wrong)} wrong, {len(silent)} without an answer of {len(answers) + len(silent)} {what}", *wrong[:3], *silent[:3]]))
    return text


def tiles(run, seconds):
    """A tile program for every variant that the target accepts, and the written ones."""
    run.only_gpu()
    names = json.loads((HERE / "tiles/index.json").read_text()).get(run.target)
    if names is None:
        raise LeftOut(f"benches/tiles/index.json has no programs for {run.target}")
    files = [HERE / "tiles" / f"{name}.py" for name in names] + [ROOT / "examples/row_sums.py"]
    return verdict(*verify(run, files, seconds, "tiles"), "tile programs")


def by_size():
    """Workloads of constant sizes, kind after kind in turn, in each kind those with little work first."""
    kinds = {}
    with open(ROOT / "tests/workloads/index.csv") as f:
        for row in csv.DictReader(f):
            if row["kind"] not in ("refused", "dynamic"):
                work = float(row["flops"] or 0) + float(row["bytes_min"] or 0)
                kinds.setdefault(row["kind"], []).append((work, ROOT / "tests/workloads" / row["kind"] / f"{row['name']}.py"))
    lists = [[file for _, file in sorted(rows)] for rows in kinds.values()]
    return [rows[i] for i in range(max(map(len, lists))) for rows in lists if i < len(rows)]


def forms(run, seconds):
    """The default of every rule that takes a function, and one more candidate, of the workloads and the drawn functions."""
    files = by_size() + sorted((HERE / "drawn").glob("*.py")) if run.gpu else run.functions()
    answers, silent, left = verify(run, files, seconds, "forms", "--candidates", "1")
    reached = {c["rule"] for _, o in answers for c in o["candidates"]}
    cpu = [t.stem for t in (ROOT / "schedules").glob("*.toml") if t.stem.endswith("cpu")]
    all = [t.stem for t in (ROOT / "schedules").glob("*.toml") if (t.stem in cpu) != run.gpu]
    missing = sorted(set(all) - reached)
    note = f"; not reached: {', '.join(missing)}" if missing else ""
    return verdict(answers, silent, left, "functions") + f", {len(all) - len(missing)} of {len(all)} rule forms{note}"


def tune(run, seconds):
    """The tuner on all functions; what it says is in tune.jsonl, its log in log/."""
    command = [run.daylight, "tune", *run.functions(), "--device", run.device, "--log", run.out / "log", "--time-limit", f"{max(seconds - 5, 2):.0f}", "--json"]
    code, out = run.call(command, seconds + 15, "tune.txt")
    found = objects(out)
    (run.out / "tune.jsonl").write_text("".join(json.dumps(o) + "\n" for o in found))
    best = [o for o in found if o.get("best_us")]
    failed = [o["message"] for o in found if o.get("status") == "failed"]
    if not best:
        raise Failed(f"nothing was tuned (exit code {code}); see tune.txt")
    gain = sorted(o["best_us"] / o["default_us"] for o in best if o.get("default_us"))
    near = sum(g >= 1 / 1.1 for g in gain)
    text = f"{len(best)} of {len(run.functions())} functions; the untuned choice within 10 % of the best found for {near} of {len(gain)}"
    if failed:
        raise Failed(f"{text}; failed: {failed[0]}")
    return text


def kernels(run, seconds):
    """The best of the log as files, for peers and counters."""
    until = time.monotonic() + seconds

    def one(file):
        left = until - time.monotonic()
        if left < 1:
            return file.stem, None
        command = [run.daylight, "apply-best", file, "--log", run.out / "log", "--target", run.target, "--out", run.out / "kernels" / file.stem]
        return file.stem, run.call(command, left, f"apply.{file.stem}.part")[0]

    with concurrent.futures.ThreadPoolExecutor(run.jobs) as pool:
        codes = dict(pool.map(one, run.functions()))
    with open(run.out / "apply.txt", "a") as whole:
        for part in sorted(run.out.glob("apply.*.part")):
            whole.write(part.read_text())
            part.unlink()
    bad = [name for name, code in codes.items() if code not in (0, None)]
    done = sum(code == 0 for code in codes.values())
    if bad or done == 0:
        raise Failed(f"{done} of {len(codes)} functions; failed: {', '.join(bad[:4]) or 'no time'}")
    return f"{done} of {len(codes)} functions"


def peers(run, seconds, script, *options):
    """One of the scripts that time Daylight's kernels and PyTorch's in turns under one clock."""
    run.only_gpu()
    name = pathlib.Path(script).stem
    extra = [] if run.minutes >= MINUTES_TO_COMPILE else ["--no-compile"]
    command = [sys.executable, HERE / script, "--kernels", run.out / "kernels", "--csv", run.out / f"tables/{name}.csv", "--budget", f"{max(seconds - 20, 5):.0f}", "--rounds", "20"]
    code, out = run.call([*command, *options, *extra], seconds, f"{name}.txt")
    means = [line for line in out.splitlines() if re.match(r"(geometric mean|all +geomean)", line)]
    wrong = [line.split()[0] for line in out.splitlines() if re.search(r"\b(WRONG|FAILED)\b", line)]
    text = (means[-1] if means else last_line(out)) + ("" if not extra else " (without torch.compile: too little time)")
    if wrong or code not in (0, None) or not means:
        raise Failed(f"{text or 'no output'}; wrong or failed: {', '.join(wrong) or f'exit code {code}'}")
    return text


def usual(run, seconds):
    return peers(run, seconds, "one_clock.py")


def drawn(run, seconds):
    run.only_gpu()
    return peers(run, seconds, "drawn.py", "--specs", HERE / "drawn/specs.json", "--arch", run.target.partition(":")[2])


def counters(run, seconds):
    """Counters of ten kernels, where ncu may read them."""
    run.only_gpu()
    command = [sys.executable, HERE / "counters.py", "--kernels", run.out / "kernels", "--only", COUNTED, "--csv", run.out / "tables/counters.csv", "--seconds", f"{seconds:.0f}"]
    code, out = run.call(command, seconds + 20, "counters.txt")
    if code == 3:
        raise LeftOut(last_line(out))
    if code != 0:
        raise Failed(last_line(out) or f"exit code {code}; see counters.txt")
    return f"{len(out.splitlines())} kernels"


def report(run, seconds):
    """The report of the log, which is also in the package."""
    code, out = run.call([run.daylight, "report", "--log", run.out / "log", "--out", run.out / "report"], seconds, "report.txt")
    if code != 0:
        raise Failed(f"`daylight report` ends with {code}; see report.txt")
    return "report/report.html"


# Each with its share of the time.
STEPS = [
    ("environment", environment, 3),
    ("instructions", instructions, 8),
    ("tile variants", tiles, 10),
    ("rule forms", forms, 16),
    ("tuning", tune, 36),
    ("kernels", kernels, 7),
    ("usual functions beside PyTorch", usual, 14),
    ("drawn functions beside PyTorch", drawn, 14),
    ("counters", counters, 10),
    ("report", report, 2),
]


def step(run, name, does, seconds):
    """A row of the summary."""
    began = time.monotonic()
    print(f"== {name} (at most {seconds:.0f} s)", flush=True)
    try:
        status, text = "done", does(run, seconds)
    except LeftOut as why:
        status, text = "left out", str(why)
    except Failed as why:
        status, text = "FAILED", str(why)
    except Exception as e:  # a bug of a step costs that step alone
        status, text = "FAILED", f"{type(e).__name__}: {e}"
    took = time.monotonic() - began
    text = " ".join(text.split())[:400]
    print(f"   {status} in {took:.0f} s: {text}", flush=True)
    return name, status, took, text


def summary(run, rows):
    lines = [f"# {run.device} ({run.target if run.arch or not run.gpu else 'architecture not known'}), {run.minutes:g} minutes", "", "| step | | seconds | |", "|---|---|--:|---|"]
    lines += [f"| {name} | {status} | {took:.0f} | {text.replace('|', '/')} |" for name, status, took, text in rows]
    (run.out / "summary.md").write_text("\n".join(lines) + "\n")
    width = max(len(name) for name, *_ in rows)
    for name, status, took, text in rows:
        print(f"{name:{width}s}  {status:8s} {took:6.0f} s  {text}")


def pack(run):
    """One file with everything but the kernels."""
    file = run.out / f"daylight-{run.arch or 'cpu'}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        for path in sorted(run.out.iterdir()):
            if path.name != "kernels" and not path.name.endswith(".tar.gz"):
                tar.add(path, arcname=f"{file.name.removesuffix('.tar.gz')}/{path.name}")
    return file


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--daylight", required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--minutes", type=float, default=30)
    ap.add_argument("--device", default="cuda:0")
    args = ap.parse_args()
    run = Run(args)
    until = time.monotonic() + 60 * args.minutes
    rows = []
    for i, (name, does, share) in enumerate(STEPS):
        left = max(until - time.monotonic(), 0)
        rows.append(step(run, name, does, max(left * share / sum(s for _, _, s in STEPS[i:]), 3)))
    summary(run, rows)
    print(f"packed into {pack(run)}")
    return 1 if any(status == "FAILED" for _, status, _, _ in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

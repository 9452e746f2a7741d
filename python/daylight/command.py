"""The `daylight` command: tunes functions, writes packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence, Union

from .errors import CommandError
from .package import Kernels, load

PathLike = Union[str, "os.PathLike[str]"]
# A file, a folder, the text of functions, or several files and folders.
Functions = Union[PathLike, Sequence[PathLike]]
# Values of extents: `{"n": 8}`, or `{"n": [1, 8, 64]}` for several sizes.
Bind = Mapping[str, Union[int, Sequence[int]]]


def find() -> str:
    """The command that was installed with this package, or else the one on the path."""
    here = Path(__file__).resolve().parent
    # Of a folder that `pip install --target` filled, of this interpreter, of this user.
    user = sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    folders = [here.parent / "bin", Path(sysconfig.get_path("scripts")), Path(sys.executable).parent, Path(user)]
    for folder in folders:
        if os.access(folder / "daylight", os.X_OK):
            return str(folder / "daylight")
    found = shutil.which("daylight")
    if found is None or not os.path.isabs(found):
        raise CommandError("there is no `daylight` command beside this Python or on the path; pip install it", 4)
    return found


def run(words: Sequence[str], quiet: bool = True) -> list[dict[str, Any]]:
    """Runs the command with `--json` and gives the lines that it printed.

    `quiet` keeps back what is said to people, which otherwise goes to standard error as it comes. Raises CommandError.
    """
    command = [find(), *words, "--json"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE if quiet else None, check=False
    )
    lines = [json.loads(line) for line in done.stdout.decode().splitlines() if line.startswith("{")]
    if done.returncode:
        raise CommandError(_why(words[0], done, lines), done.returncode, lines)
    return lines


def _why(name: str, done: subprocess.CompletedProcess[bytes], lines: list[dict[str, Any]]) -> str:
    """The sentence of a failure: those of the results, or the first one of standard error that begins as they do."""
    said = [text for line in lines if (text := line.get("message") or line.get("reason"))]
    if not said:
        told = (done.stderr or b"").decode(errors="replace").splitlines()
        said = [line for line in told if line.startswith(("error: ", "daylight: "))][:1] or told[-1:]
    return f"daylight {name} ended with {done.returncode}: " + "; ".join(said or ["see standard error"])


@contextmanager
def _files(functions: Functions) -> Iterator[list[str]]:
    """Functions as paths. What has a line break is text, and is written to a file for the time of the command."""
    if isinstance(functions, str) and "\n" in functions:
        with tempfile.TemporaryDirectory(prefix="daylight-") as folder:
            file = Path(folder, "functions.py")
            file.write_text(functions, encoding="utf-8")
            yield [str(file)]
    elif isinstance(functions, (str, os.PathLike)):
        yield [os.fspath(functions)]
    else:
        yield [os.fspath(f) for f in functions]


def _options(bind: Bind | None, **options: Any) -> list[str]:
    """Words of the command for options by name: `time_limit=5` is `--time-limit 5`; None and False say nothing."""
    out: list[str] = []
    for name, values in (bind or {}).items():
        sizes = [values] if isinstance(values, int) else values
        out += ["--bind", f"{name}={','.join(map(str, sizes))}"]
    for name, value in options.items():
        word = "--" + name.replace("_", "-")
        if value is True:
            out.append(word)
        elif isinstance(value, (list, tuple)):
            out += [w for v in value for w in (word, os.fspath(v))]
        elif value is not None and value is not False:
            out += [word, str(value)]
    return out


def tune(
    functions: Functions,
    *,
    device: str | None = None,
    trials: int | None = None,
    log: PathLike | None = None,
    bind: Bind | None = None,
    function: str | Sequence[str] | None = None,
    target: str | None = None,
    time_limit: float | None = None,
    quiet: bool = True,
    **options: Any,
) -> list[dict[str, Any]]:
    """Finds the fastest kernels of functions by measuring; every outcome goes to the log.

    `functions` is TVMScript: a text, a file or folder, or several of these. Options are those of `daylight tune`, with `_`
    for `-`; without them its defaults hold, such as `log="tuning-logs"` and 64 trials. Gives what `daylight tune --json`
    prints, one dict for each function and size (docs/schemas/tune.schema.json). Raises CommandError where one failed, with
    the results of all.
    """
    named = dict(device=device, trials=trials, log=log, function=function, target=target, time_limit=time_limit)
    with _files(functions) as files:
        return run(["tune", *files, *_options(bind, **named, **options)], quiet)


def apply_best(
    functions: Functions,
    out: PathLike,
    *,
    log: PathLike = "tuning-logs",
    target: str | Sequence[str] | None = None,
    bind: Bind | None = None,
    function: str | Sequence[str] | None = None,
    require_exact: bool = False,
    overlap: bool = False,
    quiet: bool = True,
    **options: Any,
) -> Path:
    """Writes the best kernels of a log to the folder `out`, which `daylight.load` loads.

    `target` is one or several of `cpu`, `cpu:x86-64-v3`, `cuda:sm_90a` and the like; without it `cpu`. Options are those of
    `daylight apply-best`. Raises CommandError.
    """
    targets = target if isinstance(target, str) else ",".join(target or ["cpu"])
    named = dict(log=log, out=out, target=targets, function=function, require_exact=require_exact, overlap=overlap)
    with _files(functions) as files:
        run(["apply-best", *files, *_options(bind, **named, **options)], quiet)
    return Path(out)


def build(functions: Functions, *, out: PathLike | None = None, **options: Any) -> Kernels:
    """The best kernels of a log, loaded: `apply_best` and `load` in one.

    Options are those of `apply_best`. Without `out` the package lies in a temporary folder as long as the result is used.
    """
    if out is not None:
        return load(apply_best(functions, out, **options))
    folder = tempfile.mkdtemp(prefix="daylight-kernels-")
    try:
        kernels = load(apply_best(functions, folder, **options))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    # Its functions may live longer than it does.
    weakref.finalize(kernels.backends, shutil.rmtree, folder, ignore_errors=True)
    return kernels

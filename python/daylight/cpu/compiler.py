"""C files to shared libraries, each compiled once: kept in the cache by a hash of text, options and compiler."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Sequence

from .. import cache
from ..errors import DeviceError, PackageError
from ..manifest import Launch, Manifest

RUNTIME = Path(__file__).with_name("runtime.c")
_RUNTIME_OPTIONS = ("-std=gnu11", "-O2", "-fPIC", "-pthread")
_LIMIT_S = 20


@lru_cache(maxsize=None)
def compiler() -> tuple[str, str]:
    """The C compiler and what it says it is: `CC`, else `cc`, `gcc` or `clang` on the path."""
    asked = os.environ.get("CC")
    for name in [asked] if asked else ["cc", "gcc", "clang"]:
        program = shutil.which(name)
        # A relative one would be a file of the current folder, which is somebody else's.
        if program and os.path.isabs(program):
            said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=_LIMIT_S, check=False)
            return program, said.stdout.splitlines()[0] if said.stdout else program
    raise DeviceError("no C compiler was found: install gcc or clang so that `cc` is on the path, or set CC")


def shared_library(source: Path, options: Sequence[str]) -> Path:
    """The library of a C file, compiled where the cache does not have it."""
    program, version = compiler()
    try:
        text = source.read_bytes()
    except OSError as e:
        raise PackageError(f"{source} cannot be read ({e.strerror}), and the manifest names it") from e
    return cache.made([text, *options, version], ".so", lambda out: _compile(program, source, options, out))


def _compile(program: str, source: Path, options: Sequence[str], out: Path) -> None:
    command = [program, *options, "-shared", "-o", str(out), str(source), "-lm"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DeviceError(f"{program} cannot compile {source.name} ({done.returncode}): {done.stderr.strip()[:2000]}")


@lru_cache(maxsize=None)
def runtime() -> ctypes.CDLL:
    """What runs grids on threads."""
    library = ctypes.CDLL(str(shared_library(RUNTIME, _RUNTIME_OPTIONS)))
    pointer = ctypes.c_void_p
    library.dl_run_grid.argtypes = [pointer, pointer, pointer, ctypes.c_int64, ctypes.c_int64]
    library.dl_has_level.argtypes = [ctypes.c_char_p]
    return library


class Libraries:
    """The C files of a package, each loaded when it is first asked for."""

    def __init__(self, package: Manifest) -> None:
        self._package = package
        self._loaded: dict[str, ctypes.CDLL] = {}
        self._lock = threading.Lock()

    def run_grid(self) -> Callable[..., Any]:
        """`dl_run_grid` of the runtime."""
        return runtime().dl_run_grid

    def has_level(self, level: str) -> bool:
        """True where this processor has a level."""
        return bool(runtime().dl_has_level(level.encode()))

    def kernel(self, launch: Launch, arch: str) -> int:
        """The address of a launch's kernel."""
        library = self._library(launch.file[arch], arch)
        return ctypes.cast(getattr(library, launch.symbol), ctypes.c_void_p).value or 0

    def _library(self, file: str, arch: str) -> ctypes.CDLL:
        with self._lock:
            if file not in self._loaded:
                path = shared_library(self._package.folder / file, self._options(arch))
                self._loaded[file] = ctypes.CDLL(str(path))
            return self._loaded[file]

    def _options(self, arch: str) -> Sequence[str]:
        if arch not in self._package.compile:
            raise PackageError(f"the manifest has no `compile` options for {arch}: write the package again with this daylight")
        return self._package.compile[arch]

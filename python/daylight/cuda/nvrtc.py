"""CUDA text to cubins, for packages that were written where there was no NVRTC: once, kept in the cache."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, Iterator, Sequence

from .. import cache
from ..errors import DeviceError


def _candidates() -> Iterator[str]:
    if "DAYLIGHT_NVRTC" in os.environ:
        yield os.environ["DAYLIGHT_NVRTC"]
        return
    # What `daylight doctor --fetch-nvrtc` has fetched, that of PyTorch's wheels, then what the system finds.
    for folder in [cache.folder().parent / "packages" / "nvrtc", *map(Path, filter(os.path.isabs, sys.path))]:
        for pattern in ("nvidia/cu1*/lib", "nvidia/cuda_nvrtc/lib"):
            yield from map(str, sorted(folder.glob(f"{pattern}/libnvrtc.so.*"), reverse=True))
    yield from ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")


def _load_beside(name: str) -> None:
    """NVRTC opens its library of built-in functions by its bare name: loaded before, it is found."""
    if os.path.isabs(name):
        for path in Path(name).parent.glob("libnvrtc-builtins.so.*"):
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


@lru_cache(maxsize=None)
def _nvrtc() -> tuple[Any, str]:
    """The library and its version."""
    for name in _candidates():
        try:
            _load_beside(name)
            library = ctypes.CDLL(name)
            major, minor = ctypes.c_int(), ctypes.c_int()
            library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
            library.nvrtcGetErrorString.restype = ctypes.c_char_p
            return library, f"nvrtc {major.value}.{minor.value}"
        except (OSError, AttributeError):
            continue
    raise DeviceError("the package holds CUDA text and there is no NVRTC to compile it; get it: daylight doctor --fetch-nvrtc")


def cubin(source: Path, options: Sequence[str]) -> bytes:
    """The cubin of a file of CUDA text, with the options of kernels that are measured."""
    library, version = _nvrtc()
    text = source.read_bytes()
    made = cache.made([text, *options, version], ".cubin", lambda out: _compile(library, source.name, text, options, out))
    return made.read_bytes()


def _compile(library: Any, name: str, text: bytes, options: Sequence[str], out: Path) -> None:
    program = ctypes.c_void_p()
    _check(library, library.nvrtcCreateProgram(ctypes.byref(program), text, None, 0, None, None), name, "")
    try:
        words = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        code = library.nvrtcCompileProgram(program, len(options), words)
        _check(library, code, name, _sized(library, program, "ProgramLog").rstrip(b"\0").decode(errors="replace") if code else "")
        out.write_bytes(_sized(library, program, "CUBIN"))
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _sized(library: Any, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    room = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, room)
    return room.raw


def _check(library: Any, code: int, name: str, log: str) -> None:
    if code:
        raise DeviceError(f"NVRTC cannot compile {name}: {library.nvrtcGetErrorString(code).decode()} {log.strip()[:2000]}")

"""Kernels of the CPU: C files, compiled on first use and kept in the cache, called through ctypes."""

from __future__ import annotations

import ctypes
from typing import Mapping, Sequence

from ..dtypes import SIZES
from ..errors import DeviceError
from ..extents import evaluate
from ..launch import Memory, Sources
from ..manifest import Entry, Launch, Manifest, Pointer, Scalar
from .compiler import Libraries

# The order is that of preference.
LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2", "aarch64")


class CpuLaunches:
    """The launches of an entry for sizes that are known. Any number of threads may run it at a time."""

    def __init__(self, entry: Entry, extents: Mapping[str, int], libraries: Libraries, arch: str) -> None:
        self.memory = Memory(entry, extents)
        self.align: Sequence[int] = [SIZES[p.dtype] if p.is_tensor else 1 for p in entry.params]
        self._run = libraries.run_grid()
        # Where a kernel counts on zeros it gets them, whatever the caller's memory holds.
        self._zeros = self.memory.zeros("zero_once", "zero_each")
        sources = Sources(entry, extents)
        self._steps = [_step(launch, sources, extents, libraries.kernel(launch, arch)) for launch in entry.launches]

    def run(self, values: list[int], workspace: int, is_fresh: bool, stream: int, threads: int) -> None:
        """Runs them, on so many threads."""
        for offset, size in self._zeros:
            ctypes.memset(workspace + offset, 0, size)
        values = values + [workspace + offset for offset, _, _ in self.memory.parts]
        for kernel, pointers, scalars, grid in self._steps:
            buffers = (ctypes.c_void_p * len(pointers))(*[values[p] for p in pointers])
            slots = (ctypes.c_uint64 * len(scalars))(*[values[at] if at is not None else n for at, n in scalars])
            if self._run(kernel, buffers, slots, grid, threads):
                raise DeviceError("no memory for the threads of a kernel")


Step = tuple[int, list[int], list[tuple[int | None, int]], int]


def _step(launch: Launch, sources: Sources, extents: Mapping[str, int], kernel: int) -> Step:
    pointers = [sources.position(a) for a in launch.args if isinstance(a, Pointer)]
    scalars = [(sources.scalar(a), extents.get(a.name, 0)) for a in launch.args if isinstance(a, Scalar)]
    return kernel, pointers, scalars, evaluate(launch.grid[0], extents)


class Cpu:
    """Loads the C kernels of a package."""

    def __init__(self, package: Manifest) -> None:
        self._libraries = Libraries(package)

    def arch(self, archs: set[str]) -> str:
        """The highest level that this processor has."""
        ours = [level for level in LEVELS if level in archs]
        if not ours:
            raise DeviceError(f"there are no kernels for the CPU, but for {', '.join(sorted(archs))}")
        for level in ours:
            if self._libraries.has_level(level):
                return level
        raise DeviceError(f"this processor is none of {', '.join(ours)}, which kernels were made for")

    def launches(self, entry: Entry, arch: str, extents: Mapping[str, int]) -> CpuLaunches:
        """The launches of an entry."""
        return CpuLaunches(entry, extents, self._libraries, arch)

    def load(self, entry: Entry, arch: str) -> None:
        """Compiles the files of an entry."""
        for launch in entry.launches:
            self._libraries.kernel(launch, arch)

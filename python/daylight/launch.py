"""What a call runs, worked out once for its sizes and place: the same for GPUs and the CPU but for the launches."""

from __future__ import annotations

import threading
from typing import Mapping, Protocol, Sequence

from .arrays import Place
from .dtypes import SIZES
from .errors import ArgumentError
from .extents import evaluate
from .manifest import Entry, Manifest, Param, Pointer, Scalar

# Workspaces of one call lie in one area, each at a multiple of this.
_ALIGN = 256


class Memory:
    """The area of a call's workspaces: bytes in all, and the offset, bytes and init of each."""

    def __init__(self, entry: Entry, extents: Mapping[str, int]) -> None:
        self.parts: list[tuple[int, int, str]] = []
        self.bytes = 0
        for w in entry.workspaces:
            size = evaluate(w.bytes, extents)
            self.parts.append((self.bytes, size, w.init))
            self.bytes += -(-size // _ALIGN) * _ALIGN

    def zeros(self, *inits: str) -> list[tuple[int, int]]:
        """Offset and bytes of the parts that are set to zero where they are one of `inits`."""
        return [(offset, size) for offset, size, init in self.parts if init in inits]


class Sources:
    """Where the arguments of a launch come from: positions in the list of values that a call hands on.

    That list has an address for each tensor and the bits of each scalar, by position of the parameter, then the address of
    each workspace, then the extents by name.
    """

    def __init__(self, entry: Entry, extents: Mapping[str, int]) -> None:
        self.count = len(entry.params)
        self.workspaces = len(entry.workspaces)
        self.extents = dict(extents)
        self.scalars = {p.name: p.index for p in entry.params if p.role == "scalar"}

    def position(self, arg: Pointer) -> int:
        """Where a pointer is in the list."""
        return arg.position if arg.of == "param" else self.count + arg.position

    def scalar(self, arg: Scalar) -> int | None:
        """Where a scalar is in the list, or None for an extent, which is a number."""
        return None if arg.name in self.extents else self.scalars[arg.name]


class Launches(Protocol):
    """The launches of an entry on a place, for sizes that are known."""

    memory: Memory
    align: Sequence[int]

    def run(self, values: list[int], workspace: int, is_fresh: bool, stream: int, threads: int) -> None:
        """Runs them. `values` are addresses and bits by position; `is_fresh` memory of a workspace holds anything."""


class Checks:
    """What is asked of the addresses of tensors at each call: alignment, and that nothing that is written overlaps anything."""

    def __init__(self, params: Sequence[Param], sizes: Mapping[int, int], align: Sequence[int]) -> None:
        self._names = {p.index: p.name for p in params}
        self._masks = [(p.index, align[p.index] - 1) for p in params]
        size = {p.index: sizes[p.index] * SIZES[p.dtype] for p in params}
        self._pairs = [
            (p.index, size[p.index], other.index, size[other.index])
            for p in params
            for other in params
            if p.is_written and other is not p and not (other.is_written and other.index < p.index)
        ]

    def check(self, values: Sequence[int]) -> None:
        """Raises ArgumentError with the parameter that does not fit."""
        for index, mask in self._masks:
            if values[index] & mask:
                raise ArgumentError(f"`{self._names[index]}` is not aligned to {mask + 1} bytes")
        for written, w_bytes, other, o_bytes in self._pairs:
            w, o = values[written], values[other]
            if w < o + o_bytes and o < w + w_bytes:
                names = f"`{self._names[written]}` and `{self._names[other]}`"
                raise ArgumentError(f"{names} overlap, and kernels read what they have not written yet; pass memory apart")


class Backend(Protocol):
    """Loads kernels of a package for one place."""

    def arch(self, archs: set[str]) -> str:
        """The architecture of a package that is the best of those that run here. Raises DeviceError where there is none."""

    def launches(self, entry: Entry, arch: str, extents: Mapping[str, int]) -> Launches:
        """The launches of an entry, loaded."""

    def load(self, entry: Entry, arch: str) -> None:
        """Compiles and loads what an entry needs."""


class Backends:
    """Those of a package by place, made when they are first asked for. All functions of the package share them."""

    def __init__(self, package: Manifest) -> None:
        self.package = package
        self._made: dict[Place, Backend] = {}
        self._lock = threading.Lock()

    def at(self, place: Place) -> Backend:
        """The backend of a place."""
        found = self._made.get(place)
        if found is None:
            with self._lock:
                found = self._made[place] = self._made.get(place) or self._make(place)
        return found

    def _make(self, place: Place) -> Backend:
        if place.kind == "cpu":
            from .cpu import Cpu

            return Cpu(self.package)
        from .cuda import Cuda

        return Cuda(self.package, place.ordinal)

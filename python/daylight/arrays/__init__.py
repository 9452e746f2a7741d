"""Arrays of any framework: where their memory is, and what it holds.

`framework_of` finds the module that reads an array by its type: NumPy, PyTorch, CuPy, or `dlpack` for all else that has
`__dlpack__`. Each of them is a `Framework`; only those whose arrays are used are imported.
"""

from __future__ import annotations

import importlib
import os
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from ..errors import ArgumentError
from ..manifest import Param


class Place(NamedTuple):
    """Where memory is: `cpu` or `cuda`, and which of these."""

    kind: str
    ordinal: int

    def __str__(self) -> str:
        return self.kind if self.kind == "cpu" else f"{self.kind}:{self.ordinal}"


CPU = Place("cpu", 0)


def place_of(text: str) -> Place:
    """The place of a text: `cpu`, `cuda` or `cuda:1`."""
    kind, _, index = text.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdecimal()):
        raise ArgumentError(f"the place is `{text}`, expected cpu, cuda or one such as cuda:1")
    return Place(kind, int(index or 0)) if kind == "cuda" else CPU

# Address, shape, name of the element type, place.
Seen = tuple[int, tuple[int, ...], str, Place]


class Framework(Protocol):
    """What is asked of a library of arrays."""

    def see(self, array: Any, param: Param, stream: int | None) -> Seen:
        """Looks at an array that is the argument for a parameter. Raises ArgumentError where its memory is of no use."""

    def empty(self, shape: tuple[int, ...], dtype: str, place: Place) -> Any:
        """A new array."""

    def stream(self, place: Place) -> int:
        """The current stream of a GPU, as a `CUstream`; 0 of the CPU."""

    def on_stream(self, stream: int, place: Place) -> AbstractContextManager[Any]:
        """Makes a stream current, so that memory that is allocated belongs to it."""

    def threads(self, place: Place) -> int:
        """Threads of the CPU for a call that does not say how many."""


_BY_TYPE: dict[type, Framework] = {}
# Names of modules, by the package that a type comes from.
_KNOWN = {"numpy": "numpy_", "torch": "torch_", "cupy": "cupy_"}


def framework_of(array: Any, param: Param) -> Framework:
    """The framework of an array."""
    kind = type(array)
    found = _BY_TYPE.get(kind)
    if found is None:
        found = _BY_TYPE[kind] = _find(kind, param)
    return found


def _find(kind: type, param: Param) -> Framework:
    for base in kind.__mro__:
        package = base.__module__.partition(".")[0]
        if package in _KNOWN and base.__name__ in ("ndarray", "Tensor"):
            return importlib.import_module(f"{__name__}.{_KNOWN[package]}").FRAMEWORK
    if hasattr(kind, "__dlpack__"):
        from .dlpack import FRAMEWORK

        return FRAMEWORK
    raise ArgumentError(f"`{param.name}` is a {kind.__name__}, expected an array with __dlpack__ that is {param}")


def processors() -> int:
    """Those that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def not_contiguous(param: Param) -> ArgumentError:
    """What is said of an array whose elements do not lie one after the other."""
    return ArgumentError(f"`{param.name}` is not contiguous, expected elements in the order of C; pass a copy that is")


def read_only(param: Param) -> ArgumentError:
    """What is said of an output that may not be written."""
    return ArgumentError(f"`{param.name}` is an output and may not be written to; pass an array that may")


def unknown_type(param: Param, dtype: object) -> ArgumentError:
    """What is said of elements that no kernel takes."""
    return ArgumentError(f"`{param.name}` has elements of {dtype}, expected {param.dtype}")

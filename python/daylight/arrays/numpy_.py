"""Arrays of NumPy. Not through DLPack, which has no read-only arrays in older versions and knows no `ml_dtypes`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy

from ..dtypes import SIZES
from ..errors import ArgumentError
from ..manifest import Param
from . import CPU, Place, Seen, not_contiguous, processors, read_only, unknown_type

_NAMES: dict[Any, str] = {}


def _name(dtype: Any, param: Param) -> str:
    name = _NAMES.get(dtype)
    if name is None:
        if dtype.name not in SIZES or not dtype.isnative:
            raise unknown_type(param, dtype)
        name = _NAMES[dtype] = dtype.name
    return name


def numpy_dtype(name: str) -> Any:
    """NumPy's type of a name; those of `ml_dtypes` where that is installed."""
    if name == "bfloat16" or name.startswith("float8"):
        try:
            import ml_dtypes
        except ImportError:
            raise ArgumentError(f"arrays of {name} in NumPy take the package ml_dtypes; pip install ml_dtypes") from None
        return numpy.dtype(getattr(ml_dtypes, name))
    return numpy.dtype(name)


class NumPy:
    """Arrays on the CPU."""

    def see(self, array: Any, param: Param, stream: int | None) -> Seen:
        """Address and type of an array."""
        flags = array.flags
        if not flags.c_contiguous:
            raise not_contiguous(param)
        if param.is_written and not flags.writeable:
            raise read_only(param)
        dtype = _NAMES.get(array.dtype) or _name(array.dtype, param)
        return array.__array_interface__["data"][0], array.shape, dtype, CPU

    def empty(self, shape: tuple[int, ...], dtype: str, place: Place) -> Any:
        """A new array."""
        return numpy.empty(shape, numpy_dtype(dtype))

    def stream(self, place: Place) -> int:
        """There is none."""
        return 0

    def on_stream(self, stream: int, place: Place) -> nullcontext[None]:
        """Nothing to do."""
        return nullcontext()

    def threads(self, place: Place) -> int:
        """As many as there are processors."""
        return processors()


FRAMEWORK = NumPy()

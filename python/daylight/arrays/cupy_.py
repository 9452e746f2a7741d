"""Arrays of CuPy."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

import cupy

from ..manifest import Param
from . import Place, Seen, not_contiguous, processors
from .numpy_ import _name, numpy_dtype


class CuPy:
    """Arrays on GPUs."""

    def see(self, array: Any, param: Param, stream: int | None) -> Seen:
        """Address and type of an array."""
        if not array.flags.c_contiguous:
            raise not_contiguous(param)
        return array.data.ptr, array.shape, _name(array.dtype, param), Place("cuda", array.device.id)

    def empty(self, shape: tuple[int, ...], dtype: str, place: Place) -> Any:
        """A new array, of the memory pool of the current stream."""
        with cupy.cuda.Device(place.ordinal):
            return cupy.empty(shape, numpy_dtype(dtype))

    def stream(self, place: Place) -> int:
        """The current stream."""
        return cupy.cuda.get_current_stream(place.ordinal).ptr

    @contextmanager
    def on_stream(self, stream: int, place: Place) -> Iterator[None]:
        """Makes a stream current."""
        with cupy.cuda.Device(place.ordinal), cupy.cuda.ExternalStream(stream, place.ordinal):
            yield

    def threads(self, place: Place) -> int:
        """As many as there are processors."""
        return processors()


FRAMEWORK = CuPy()

"""Tensors of PyTorch, on the CPU and on GPUs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

import torch

from ..dtypes import SIZES
from ..errors import ArgumentError
from ..manifest import Param
from . import Place, Seen, not_contiguous, unknown_type

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in SIZES if hasattr(torch, name)}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_PLACES: dict[torch.device, Place] = {}

# The handle of the current stream without an object around it: what PyTorch's own generated code calls.
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def _place(device: torch.device, param: Param) -> Place:
    if device.type not in ("cpu", "cuda"):
        raise ArgumentError(f"`{param.name}` is on {device}, expected the CPU or a CUDA GPU")
    place = _PLACES[device] = Place(device.type, device.index or 0)
    return place


def torch_dtype(name: str) -> torch.dtype:
    """PyTorch's type of a name."""
    if name not in DTYPES:
        raise ArgumentError(f"PyTorch {torch.__version__} has no type {name}")
    return DTYPES[name]


class Torch:
    """Tensors on the CPU and on GPUs."""

    def see(self, array: Any, param: Param, stream: int | None) -> Seen:
        """Address and type of a tensor."""
        if array.requires_grad and torch.is_grad_enabled():
            raise ArgumentError(f"`{param.name}` requires a gradient and kernels have none: detach it, or use torch.no_grad()")
        if not array.is_contiguous():
            raise not_contiguous(param)
        dtype, device = _NAMES.get(array.dtype), array.device
        if dtype is None:
            raise unknown_type(param, array.dtype)
        return array.data_ptr(), array.shape, dtype, _PLACES.get(device) or _place(device, param)

    def empty(self, shape: tuple[int, ...], dtype: str, place: Place) -> Any:
        """A new tensor, of the caching allocator: in a capture it is the graph's."""
        return torch.empty(shape, dtype=torch_dtype(dtype), device=str(place))

    def stream(self, place: Place) -> int:
        """The current stream."""
        if place.kind == "cpu":
            return 0
        return _raw_stream(place.ordinal) if _raw_stream else torch.cuda.current_stream(place.ordinal).cuda_stream

    @contextmanager
    def on_stream(self, stream: int, place: Place) -> Iterator[None]:
        """Makes a stream current."""
        if place.kind == "cpu":
            yield
            return
        with torch.cuda.stream(torch.cuda.ExternalStream(stream, device=place.ordinal)):
            yield

    def threads(self, place: Place) -> int:
        """PyTorch's own number."""
        return torch.get_num_threads()


FRAMEWORK = Torch()

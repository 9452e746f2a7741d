"""Arrays of all else that has `__dlpack__`. Nothing is allocated in their framework: outputs and workspace are passed.

The structures are those of `dlpack.h`. A capsule that nobody renames is taken back when it is dropped, which is right after
it was looked at: the caller's array keeps the memory.
"""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from typing import Any

from ..errors import ArgumentError
from ..manifest import Param
from . import CPU, Place, Seen, not_contiguous, processors, unknown_type


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


# DLDataTypeCode: int, uint, float, bfloat, bool, and the types of 8 bits that kernels have.
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool", 10: "float8_e4m3fn", 12: "float8_e5m2", 14: "float8_e8m0fnu"}
# DLDeviceType: CPU, CUDA, pinned host memory, managed memory.
_KINDS = {1: "cpu", 2: "cuda", 3: "cpu", 13: "cuda"}
# DLPack's number of the default stream; 0 says nothing there.
_DEFAULT_STREAM = 1

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _dtype(t: _DLTensor, param: Param) -> str:
    name = _CODES.get(t.code, "")
    if name and "8_" not in name and name != "bool":
        name = f"{name}{t.bits}"
    if t.lanes != 1 or not name or name != param.dtype:
        raise unknown_type(param, name or f"DLPack's code {t.code} of {t.bits} bits")
    return name


def _is_contiguous(shape: tuple[int, ...], t: _DLTensor) -> bool:
    if not t.strides:
        return True
    step = 1
    for size, stride in zip(reversed(shape), reversed(t.strides[: t.ndim])):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


class DLPack:
    """Arrays of an unknown framework."""

    def see(self, array: Any, param: Param, stream: int | None) -> Seen:
        """Address and type of an array, whose framework lets the stream wait for what it has under way."""
        kind = _KINDS.get(int(array.__dlpack_device__()[0]))
        if kind is None:
            raise ArgumentError(f"`{param.name}` is on a device of another kind, expected the CPU or a CUDA GPU")
        capsule = array.__dlpack__() if kind == "cpu" else array.__dlpack__(stream=stream or _DEFAULT_STREAM)
        t = _DLTensor.from_address(_pointer(capsule, b"dltensor"))
        shape = tuple(t.shape[: t.ndim])
        if not _is_contiguous(shape, t):
            raise not_contiguous(param)
        place = CPU if kind == "cpu" else Place(kind, t.device_id)
        return (t.data or 0) + t.byte_offset, shape, _dtype(t, param), place

    def empty(self, shape: tuple[int, ...], dtype: str, place: Place) -> Any:
        """Memory is the caller's."""
        raise ArgumentError("arrays of this framework are not made here: pass outputs, and `workspace=` where it is asked for")

    def stream(self, place: Place) -> int:
        """The default stream."""
        return 0

    def on_stream(self, stream: int, place: Place) -> nullcontext[None]:
        """Nothing to do."""
        return nullcontext()

    def threads(self, place: Place) -> int:
        """As many as there are processors."""
        return processors()


FRAMEWORK = DLPack()

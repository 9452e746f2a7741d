"""Element types by the names of the manifest: their sizes, and the bits of a scalar."""

from __future__ import annotations

import struct
from typing import Any

from .errors import ArgumentError

SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e8m0fnu": 1,
}

_FLOATS = {"float16": ("<e", "<H"), "float32": ("<f", "<I"), "float64": ("<d", "<Q")}


def scalar_bits(name: str, dtype: str, value: Any) -> int:
    """A scalar as a kernel takes it: its bytes first in a slot of eight, as a number below 2**64.

    Raises ArgumentError where the value is none of the type; `name` is the parameter's.
    """
    try:
        if "float" in dtype:
            return _float_bits(dtype, float(value))
        return _integer_bits(dtype, value)
    except (AttributeError, TypeError, ValueError, OverflowError, struct.error):
        raise ArgumentError(f"`{name}` is {value!r}, expected a number that {dtype} holds") from None


def _integer_bits(dtype: str, value: Any) -> int:
    value = value.__index__()
    if dtype == "bool":
        return int(value != 0)
    bits, signed = 8 * SIZES[dtype], not dtype.startswith("u")
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not low <= value <= high:
        raise ValueError
    return value & (1 << 64) - 1


def _float_bits(dtype: str, value: float) -> int:
    if dtype in _FLOATS:
        as_float, as_bits = _FLOATS[dtype]
        return struct.unpack(as_bits, struct.pack(as_float, value))[0]
    if dtype == "bfloat16":
        return _bfloat16_bits(value)
    import ml_dtypes
    import numpy

    return int(numpy.array(value, getattr(ml_dtypes, dtype)).view(numpy.uint8))


def _bfloat16_bits(value: float) -> int:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    if value != value:
        return 0x7FC0
    # To the nearest, ties to even.
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16

#!/usr/bin/env python3
"""Checksums of conversions between all types, by NumPy and ml_dtypes: `tests/golden/conversions.txt`.

    python3 .ci/conversions.py > tests/golden/conversions.txt

`tests/conversions.rs` draws the same inputs: all codes of types of 8 and 16 bits, of wider ones numbers around the ties
of every narrower type. Two things are ours and not NumPy's: 8-bit floats keep their largest number where a number is
beyond it (a copy keeps an infinity), and integers their ends; what is no number becomes 0 as an integer, and one code of its type as a float.
Powers of two (`float8_e8m0fnu`) are taken of a number's size, the nearest, the greater of two, within their range.
"""

import warnings
import zlib

import ml_dtypes
import numpy as np

warnings.filterwarnings("ignore")
TYPES = {
    "bool": np.bool_, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "uint8": np.uint8,
    "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64, "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
}
NAN = {"float16": 0x7E00, "bfloat16": 0x7FC0, "float32": 0x7FC00000, "float64": 0x7FF8 << 48,
       "float8_e4m3fn": 0x7F, "float8_e5m2": 0x7E, "float8_e8m0fnu": 0xFF}
MOST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
MASK = (1 << 64) - 1


def draws():
    state = 1
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) & MASK
        yield state >> 32


def codes(name):
    """Bits of the inputs of a type, a multiple of 32 of them."""
    size = np.dtype(TYPES[name]).itemsize
    if name == "bool":
        out = [0, 1]
    elif size <= 2:
        out = list(range(1 << (8 * size)))
    elif name in ("float32", "float64"):
        out = floats(*((8, 23) if size == 4 else (11, 52)))
    else:
        out = integers(8 * size)
    return out + [0] * (-len(out) % 32)


def floats(exponent_bits, mantissa):
    bias, rnd, out = (1 << (exponent_bits - 1)) - 1, draws(), []
    most = (1 << exponent_bits) - 1
    around = [range(-152, -124), range(-28, 18), range(125, 130)]
    exponents = [0, 1, most - 1, most] + [bias + e for r in around for e in r if 1 < bias + e < most - 1]
    for e in exponents:
        for shift in range(mantissa):
            for sign in (0, 1):
                top = next(rnd) >> 8 & ((1 << mantissa) - 1) >> shift
                for d in (-1, 0, 1):
                    bits = (sign << exponent_bits | e) << mantissa | top << shift
                    out.append((bits + d) & (1 << (1 + exponent_bits + mantissa)) - 1)
    return out


def integers(bits):
    rnd, out = draws(), []
    for shift in range(bits):
        for length in range(1, 14):
            top = next(rnd) & ((1 << length) - 1) | 1 << (length - 1)
            for d in (-1, 0, 1):
                out += [((top << shift) + d) & (1 << bits) - 1, -((top << shift) + d) & (1 << bits) - 1]
    return out


def unsigned(size):
    return np.dtype(f"<u{size}")


def once(x, to):
    """Rounded once: by way of a float32 or float64 that keeps what was cut off in its last bit."""
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8 and to != "float32" and to != "float64":
        x = np.array([float_odd(int(v)) for v in x])
    elif x.dtype.kind in "iu" and to != "float32":
        x = x.astype(np.float64)
    if x.dtype == np.float64 and to not in ("float16", "float32", "float64"):
        y = x.astype(np.float32)
        d, u = y.astype(np.float64) - x, y.view(np.uint32)
        even = (u & 1) == 0
        away = (d > 0) == (x > 0)
        x = np.where(even & (d != 0) & np.isfinite(d) | np.isinf(y) & np.isfinite(x),
                     np.where(away, u - 1, u + 1), u).astype(np.uint32).view(np.float32)
    return x


def float_odd(v):
    cut = max(abs(v).bit_length() - 53, 0)
    size = abs(v) >> cut
    size |= (abs(v) != size << cut)
    return float(size) * 2.0**cut * (-1 if v < 0 else 1)


def power(x):
    """The code of the power of two nearest to the size."""
    bits = np.abs(x.astype(np.float64)).view(np.uint64)
    exponent = ((bits + (1 << 51)) >> 52).astype(np.int64) - 1023
    return np.where(np.isnan(x.astype(np.float64)), 255, np.clip(exponent, -127, 127) + 127).astype(np.uint8)


def convert(x, source, to):
    dtype = TYPES[to]
    if source == "float8_e8m0fnu":
        # ml_dtypes converts it to few types
        x = x.astype(np.float32)
    if to == "bool":
        return (x.astype(np.float64) != 0 if source.startswith("float8") else x != np.zeros(1, x.dtype)).astype(np.uint8)
    if to == "float8_e8m0fnu":
        return power(once(x, to))
    if to in NAN:
        y = once(x, to).astype(dtype)
        wide = x.astype(np.float64)
        if to in MOST and to != source:
            top = np.array(MOST[to], dtype)
            y = np.where(~np.isnan(wide) & (np.isnan(y.astype(np.float32)) | np.isinf(y.astype(np.float32))),
                         np.where(wide > 0, top, -top), y).astype(dtype)
        bits = y.view(unsigned(np.dtype(dtype).itemsize)).copy()
        bits[np.isnan(y.astype(np.float64))] = NAN[to]
        return bits
    if source in NAN:
        info, wide = np.iinfo(dtype), x.astype(np.float64)
        return np.array([0 if v != v else info.max if v >= info.max else info.min if v <= info.min else int(v)
                         for v in wide.tolist()], dtype)
    return x.astype(dtype)


for source, kind in TYPES.items():
    bits = codes(source)
    x = np.array(bits, unsigned(np.dtype(kind).itemsize)).view(kind)
    sums = [f"{zlib.crc32(convert(x, source, to).tobytes()):08x}" for to in TYPES]
    print(f"{source:13} {len(bits):6} {' '.join(sums)}")

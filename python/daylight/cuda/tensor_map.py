"""Tensor maps: 128 bytes that say how boxes of a tensor are found, made for an address."""

from __future__ import annotations

import ctypes
from typing import Any

from ..dtypes import SIZES
from ..errors import PackageError
from ..manifest import TensorMap
from .driver import Driver

_BYTES, _ALIGN = 128, 64
# CUtensorMapDataType by bytes of an element: copies keep bits, so that any type of the size does.
_TYPES = {1: 0, 2: 1, 4: 2, 8: 4}
# CUtensorMapSwizzle and CUtensorMapL2promotion by bytes.
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_L2 = {0: 0, 64: 1, 128: 2, 256: 3}
# CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE.
_NO_INTERLEAVE, _ZEROS = 0, 0
# Addresses that are remembered for an argument.
_MOST = 256


class Maps:
    """The maps of one argument by the address of its tensor."""

    def __init__(self, driver: Driver, of: TensorMap) -> None:
        self._driver, self._of = driver, of
        self._made: dict[int, tuple[int, Any]] = {}
        try:
            self._type, self._swizzle, self._l2 = _TYPES[SIZES[of.dtype]], _SWIZZLES[of.swizzle], _L2[of.l2]
        except KeyError as e:
            raise PackageError(f"the manifest has a tensor map with {e.args[0]}, which this version does not know") from None

    def at(self, address: int) -> int:
        """Where the map of a tensor at a device address is in the memory of the host."""
        found = self._made.get(address)
        if found is None:
            if len(self._made) >= _MOST:
                self._made.clear()
            found = self._made[address] = self._encoded(address)
        return found[0]

    def _encoded(self, address: int) -> tuple[int, Any]:
        of = self._of
        room = ctypes.create_string_buffer(_BYTES + _ALIGN)
        start = -(-ctypes.addressof(room) // _ALIGN) * _ALIGN
        self._driver.call(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(start),
            self._type,
            len(of.dims),
            ctypes.c_void_p(address),
            (ctypes.c_uint64 * len(of.dims))(*of.dims),
            (ctypes.c_uint64 * max(len(of.strides_bytes), 1))(*of.strides_bytes),
            (ctypes.c_uint32 * len(of.box))(*of.box),
            (ctypes.c_uint32 * len(of.elem_strides))(*of.elem_strides),
            _NO_INTERLEAVE,
            self._swizzle,
            self._l2,
            _ZEROS,
        )
        return start, room

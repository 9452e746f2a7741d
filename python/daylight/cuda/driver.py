"""The calls of the CUDA driver that a loader needs, through ctypes on `libcuda.so.1`."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from ..errors import DeviceError

LIBRARY = "libcuda.so.1"

# CUdevice_attribute.
_MAJOR, _MINOR = 75, 76
# CUfunction_attribute.
_MAX_DYNAMIC_SHARED_BYTES = 8
# CUstreamCaptureMode: this thread may do what is not captured.
_RELAXED = 2
# CUlaunchAttributeID.
_PROGRAMMATIC_STREAM_SERIALIZATION = 6


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int * 16)]


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    ]


def overlapping() -> Any:
    """The attribute of a launch that may begin before the one before it has ended: the kernel waits itself."""
    attribute = LaunchAttribute(id=_PROGRAMMATIC_STREAM_SERIALIZATION)
    attribute.value[0] = 1
    return attribute


class Driver:
    """The driver. Each method raises DeviceError where the call fails."""

    def __init__(self) -> None:
        try:
            self._lib = ctypes.CDLL(LIBRARY)
        except OSError as e:
            raise DeviceError(f"there is no CUDA driver on this machine: {e}") from e
        self.launch_ex = self._function("cuLaunchKernelEx")
        self.current_context = self._function("cuCtxGetCurrent")
        self.memset = self._function("cuMemsetD8Async")
        self.memset.argtypes = [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p]
        self.call("cuInit", 0)

    def _function(self, name: str) -> Any:
        try:
            return getattr(self._lib, name)
        except AttributeError:
            raise DeviceError(f"the CUDA driver has no {name}: it is too old, expected one of CUDA 12 or newer") from None

    def call(self, name: str, *args: Any) -> None:
        """Calls a function of the driver by name."""
        self.check(self._function(name)(*args), name)

    def check(self, code: int, what: str) -> None:
        """Raises what a code says where it is none of success."""
        if code:
            raise DeviceError(f"{what} failed: {self._name(code)}")

    def _name(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._lib.cuGetErrorName(code, ctypes.byref(text))
        return f"{text.value.decode() if text.value else 'CUDA error'} ({code})"

    def context(self, index: int) -> ctypes.c_void_p:
        """The primary context of a GPU, which frameworks use too."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), index)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        return context

    def capability(self, index: int) -> tuple[int, int]:
        """Compute capability, such as (9, 0)."""
        device, values = ctypes.c_int(), []
        self.call("cuDeviceGet", ctypes.byref(device), index)
        for attribute in (_MAJOR, _MINOR):
            value = ctypes.c_int()
            self.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
            values.append(value.value)
        return values[0], values[1]

    def module(self, image: bytes) -> ctypes.c_void_p:
        """Loads a cubin into the current context, also while a stream of this thread is captured."""
        module, mode = ctypes.c_void_p(), ctypes.c_int(_RELAXED)
        # Eight more bytes than are needed, to begin at a multiple of eight: the driver reads an ELF file.
        room = ctypes.create_string_buffer(len(image) + 16)
        at = -(-ctypes.addressof(room) // 16) * 16
        ctypes.memmove(at, image, len(image))
        self.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_void_p(at))
        finally:
            self.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        return module

    def function(self, module: ctypes.c_void_p, symbol: str, shared_bytes: int) -> ctypes.c_void_p:
        """A kernel of a module, which may be launched with so much dynamic shared memory."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
        if shared_bytes:
            self.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED_BYTES, shared_bytes)
        return function

    def push(self, context: ctypes.c_void_p) -> bool:
        """Makes a context current; false where it is already. `pop` takes it away again."""
        now = ctypes.c_void_p()
        self.check(self.current_context(ctypes.byref(now)), "cuCtxGetCurrent")
        if now.value == context.value:
            return False
        self.call("cuCtxPushCurrent_v2", context)
        return True

    def pop(self) -> None:
        """Takes away the context that `push` made current."""
        self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


@lru_cache(maxsize=None)
def driver() -> Driver:
    """The driver of this process."""
    return Driver()

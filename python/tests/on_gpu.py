"""What `test_gpu` runs beside a driver that says what it is asked for: on_gpu.py PACKAGE WITH_ZEROS."""

import ctypes
import sys

from common import said

import daylight


class DeviceArray:
    """Memory of a GPU that there is not: an address, and what `__dlpack__` tells of it."""

    def __init__(self, address, dtype, *shape, device=0):
        self.device, self.streams = device, []
        code = {"float": 2, "uint": 1}[dtype.rstrip("0123456789")]
        dims = (ctypes.c_int64 * len(shape))(*shape)
        # DLManagedTensor: the tensor, the context of its manager, its deleter.
        self.words = (ctypes.c_uint64 * 8)()
        raw = memoryview(self.words).cast("B")
        raw[0:8] = address.to_bytes(8, "little")
        raw[8:16] = (2).to_bytes(4, "little") + device.to_bytes(4, "little")
        bits = int("".join(filter(str.isdigit, dtype)))
        raw[16:24] = len(shape).to_bytes(4, "little") + bytes([code, bits, 1, 0])
        raw[24:32] = ctypes.addressof(dims).to_bytes(8, "little")
        self.dims = dims

    def __dlpack_device__(self):
        return (2, self.device)

    def __dlpack__(self, *, stream):
        self.streams.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.words), b"dltensor", None)


def at(address, *shape, dtype="float32"):
    return DeviceArray(address, dtype, *shape)


def main():
    kernels = daylight.load(sys.argv[1])
    print("== scaled, on stream 0x77")
    a, b = at(0x1000, 100), at(0x2000, 100)
    kernels.scaled(a, 2.5, b, stream=0x77)
    print("asked of the producer with streams", a.streams, b.streams)
    print("== scaled once more, on the default stream")
    kernels.scaled(a, -1, b)
    print("asked of the producer with streams", a.streams, b.streams)
    print("== total, with its workspace")
    print(kernels.total.workspace_bytes("cuda:0"), "bytes")
    x, y = at(0x100000, 2**20), at(0x2000, 1)
    print(said(kernels.total, x, y))
    print(said(kernels.total, x, y, workspace=at(0x9000, 100, dtype="uint8")))
    print(said(kernels.total, x, y, workspace=at(0x9004, 4096, dtype="uint8")))
    kernels.total(x, y, workspace=at(0x9000, 4096, dtype="uint8"), stream=1)
    print("== sums of 8, 64 and 65 rows")
    for n in (8, 64, 65, 8):
        kernels.sums(at(0x1000, n, 64), at(0x80000, n))
    print("== product, at two addresses")
    for address in (0x1000000, 0x2000000, 0x1000000):
        x, y, z = at(address, 1024, 2048, dtype="float16"), at(0x3000000, 2048, 1536, dtype="float16"), at(0x4000000, 1024, 1536)
        kernels.product_2(x, y, z)
    print("== total, with a workspace that holds zeros before each launch")
    zeros = daylight.load(sys.argv[2])
    zeros.total(at(0x100000, 2**20), at(0x2000, 1), workspace=at(0x9000, 4096, dtype="uint8"), stream=0x77)
    print("== mistakes")
    print(said(kernels.scaled, at(0x1004, 100), 2.5, b))
    print(said(kernels.scaled, at(0x1f80, 100), 2.5, b))
    print(said(kernels.scaled, a, 2.5))
    print(said(kernels.scaled, a, 2.5, DeviceArray(0x2000, "float32", 100, device=1)))
    print(said(kernels.scaled, *[DeviceArray(p, "float32", 100, device=1) for p in (0x1000,)], 2.5))


if __name__ == "__main__":
    try:
        main()
    except daylight.Error as e:
        print(type(e).__name__, e)

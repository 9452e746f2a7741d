"""Daylight in Python: tuned kernels on arrays of PyTorch, CuPy, NumPy and all else that has `__dlpack__`.

    kernels = daylight.load("kernels")       # a folder that `daylight apply-best` wrote
    means = kernels.mean(a)                  # on a's device, on the current stream

`load` takes nothing but this package; `tune`, `apply_best` and `build` run the `daylight` command.
"""

from .command import apply_best, build, tune
from .errors import ArgumentError, CommandError, DeviceError, Error, PackageError
from .function import Function
from .package import Kernels, load

__all__ = [
    "ArgumentError",
    "CommandError",
    "DeviceError",
    "Error",
    "Function",
    "Kernels",
    "PackageError",
    "apply_best",
    "build",
    "load",
    "tune",
]

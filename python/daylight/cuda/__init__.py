"""Kernels of NVIDIA GPUs: cubins, loaded into the primary context of a device, launched through the driver."""

from __future__ import annotations

import ctypes
import re
import threading
from typing import Any, Mapping, Sequence

from ..errors import DeviceError, PackageError
from ..extents import evaluate
from ..launch import Memory, Sources
from ..manifest import Argument, Entry, Launch, Manifest, Pointer, Scalar, TensorMap
from . import nvrtc
from .driver import Driver, LaunchConfig, driver, overlapping
from .tensor_map import Maps


def number(arch: str) -> int:
    """Compute capability times ten: 90 of `sm_90a`; 0 of what is no GPU."""
    found = re.fullmatch(r"sm_(\d+)[a-z]?", arch)
    return int(found[1]) if found else 0


def runs_on(arch: str, capability: tuple[int, int]) -> bool:
    """True where kernels of an architecture run on a device: with its own instructions (`sm_90a`) on its own alone."""
    major, minor = divmod(number(arch), 10)
    own = arch.endswith("a")
    return major == capability[0] and (minor == capability[1] if own else minor <= capability[1])


def widest(arch: str) -> int:
    """Bytes of the widest access of a thread, to which addresses are aligned."""
    return 32 if number(arch) >= 100 else 16


class Step:
    """One launch, all but addresses, scalars and stream written already."""

    def __init__(self, launch: Launch, function: Any, sources: Sources, extents: Mapping[str, int], of: Driver) -> None:
        self._function, self._driver, self._symbol = function, of, launch.symbol
        self._slots = (ctypes.c_uint64 * max(len(launch.args), 1))()
        self._params = (ctypes.c_void_p * max(len(launch.args), 1))()
        self._values: list[tuple[int, int]] = []
        self._maps: list[tuple[int, int, Maps]] = []
        for k, arg in enumerate(launch.args):
            self._params[k] = ctypes.addressof(self._slots) + 8 * k
            self._add(k, arg, sources)
        self._config = LaunchConfig(shared_bytes=evaluate(launch.dynamic_smem, extents))
        for axis in range(3):
            self._config.grid[axis] = evaluate(launch.grid[axis], extents)
            self._config.block[axis] = evaluate(launch.block[axis], extents)
        if launch.pdl:
            self._attribute = overlapping()
            self._config.attributes = ctypes.pointer(self._attribute)
            self._config.attribute_count = 1
        self._config_at = ctypes.byref(self._config)

    def _add(self, k: int, arg: Argument, sources: Sources) -> None:
        if isinstance(arg, TensorMap):
            self._maps.append((k, arg.param, Maps(self._driver, arg)))
        elif isinstance(arg, Pointer):
            self._values.append((k, sources.position(arg)))
        elif (at := sources.scalar(arg)) is not None:
            self._values.append((k, at))
        else:
            self._slots[k] = sources.extents[arg.name]

    def run(self, values: Sequence[int], stream: int) -> None:
        """Puts the kernel on a stream. Not for two threads at a time."""
        for k, at in self._values:
            self._slots[k] = values[at]
        for k, param, maps in self._maps:
            self._params[k] = maps.at(values[param])
        self._config.stream = stream
        code = self._driver.launch_ex(self._config_at, self._function, self._params, None)
        if code:
            self._driver.check(code, f"the launch of {self._symbol}")


class CudaLaunches:
    """The launches of an entry for sizes that are known."""

    def __init__(self, entry: Entry, extents: Mapping[str, int], device: "Cuda", arch: str) -> None:
        self.memory = Memory(entry, extents)
        self.align: Sequence[int] = [widest(arch)] * len(entry.params)
        self._device, self._driver = device, device.driver
        # Memory of the caller's holds zeros already where it is asked for once.
        self._zeros = {
            True: self.memory.zeros("zero_once", "zero_each"),
            False: self.memory.zeros("zero_each"),
        }
        sources = Sources(entry, extents)
        self._steps = [
            Step(launch, device.function(launch, arch, extents), sources, extents, self._driver) for launch in entry.launches
        ]
        # Arguments are written into memory of the steps.
        self._lock = threading.Lock()

    def run(self, values: list[int], workspace: int, is_fresh: bool, stream: int, threads: int) -> None:
        """Puts the launches on a stream in order."""
        values = values + [workspace + offset for offset, _, _ in self.memory.parts]
        with self._lock:
            pushed = self._driver.push(self._device.context)
            try:
                for offset, size in self._zeros[is_fresh]:
                    self._driver.check(self._driver.memset(workspace + offset, 0, size, stream), "cuMemsetD8Async")
                for step in self._steps:
                    step.run(values, stream)
            finally:
                if pushed:
                    self._driver.pop()


class Cuda:
    """Loads the kernels of a package for one GPU."""

    def __init__(self, package: Manifest, index: int) -> None:
        self.driver = driver()
        self.capability = self.driver.capability(index)
        self.context = self.driver.context(index)
        self._package = package
        self._modules: dict[str, ctypes.c_void_p] = {}
        self._functions: dict[tuple[str, str, int], ctypes.c_void_p] = {}
        self._lock = threading.Lock()

    def arch(self, archs: set[str]) -> str:
        """The newest architecture whose kernels run on the device."""
        for arch in sorted(archs, key=number, reverse=True):
            if runs_on(arch, self.capability):
                return arch
        major, minor = self.capability
        built = ", ".join(sorted(archs))
        raise DeviceError(f"the device has compute capability {major}.{minor}, the kernels were built for {built}")

    def launches(self, entry: Entry, arch: str, extents: Mapping[str, int]) -> CudaLaunches:
        """The launches of an entry."""
        return CudaLaunches(entry, extents, self, arch)

    def load(self, entry: Entry, arch: str) -> None:
        """Loads the files of an entry."""
        for launch in entry.launches:
            self.function(launch, arch, {}, only_module=not isinstance(launch.dynamic_smem, int))

    def function(
        self, launch: Launch, arch: str, extents: Mapping[str, int], only_module: bool = False
    ) -> ctypes.c_void_p | None:
        """The kernel of a launch, its file loaded."""
        file = launch.file[arch]
        with self._lock:
            pushed = self.driver.push(self.context)
            try:
                if file not in self._modules:
                    self._modules[file] = self.driver.module(self._image(file, arch))
                if only_module:
                    return None
                key = (file, launch.symbol, evaluate(launch.dynamic_smem, extents))
                if key not in self._functions:
                    self._functions[key] = self.driver.function(self._modules[file], launch.symbol, key[2])
                return self._functions[key]
            finally:
                if pushed:
                    self.driver.pop()

    def _image(self, file: str, arch: str) -> bytes:
        path = self._package.folder / file
        try:
            if path.suffix != ".cu":
                return path.read_bytes()
            if arch not in self._package.compile:
                raise PackageError(f"the manifest has no `compile` options for {arch}: write the package again")
            return nvrtc.cubin(path, self._package.compile[arch])
        except OSError as e:
            raise PackageError(f"{path} cannot be read ({e.strerror}), and the manifest names it") from e

"""A function of a package: checks its arguments, works out once per shape what is to run, and runs it."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any, Mapping, NamedTuple, Sequence

from .arguments import MISSING, Signature
from .arrays import Framework, Place, framework_of, place_of
from .dtypes import SIZES, scalar_bits
from .errors import ArgumentError, DeviceError
from .extents import evaluate
from .launch import Backends, Checks, Launches, Memory
from .manifest import Entry, Param
from .sizes import choose, interface

# Shapes that are remembered for a function.
_MOST_CALLS = 1024


class Seen(NamedTuple):
    """What the arrays of a call are: whose, where, their shapes by order of tensors, and values by position."""

    framework: Framework
    place: Place
    shapes: tuple[tuple[int, ...] | None, ...]
    values: list[int]


class Call:
    """What runs for one set of shapes on one place."""

    def __init__(self, tensors: Sequence[Param], shapes: Mapping[int, tuple[int, ...]], launches: Launches) -> None:
        self.shapes = shapes
        self.launches = launches
        self.workspace = Param(-1, "workspace", "uint8", (launches.memory.bytes,), "inout")
        sizes = {index: math.prod(shape) for index, shape in shapes.items()}
        self.check = Checks(tensors, sizes, launches.align).check


class Function:
    """A function on arrays of PyTorch, CuPy, NumPy or anything else with `__dlpack__`.

    Arguments are the function's parameters in order, or by name: arrays, and numbers for scalars. Outputs may be left out;
    they are then made by the framework of the first array. What is written is returned: an array, or a tuple of several.

    Extents follow from shapes; those that do not are passed by name. Further arguments, by name:

    - `stream`: a `CUstream` as an int, or a stream of PyTorch or CuPy; without it the current one of the framework.
    - `workspace`: an array of `workspace_bytes` bytes, zeros at first; without it the framework makes one for each call.
    - `threads`: on the CPU; without it PyTorch's number for its tensors, and that of the processors for others.

    A call on a GPU puts kernels on the stream and returns. It waits for nothing and may be captured in a graph.
    """

    def __init__(self, name: str, entries: Sequence[Entry], backends: Backends) -> None:
        self.name = self.__name__ = name
        self.entries = tuple(entries)
        general = interface(self.entries)
        self.params = general.params
        extents = general.extents.union(*(set(e.exactly) | set(e.up_to) for e in entries))
        self.signature = Signature(name, self.params, extents)
        self._tensors = [p for p in self.params if p.is_tensor]
        self._written = [p.index for p in self.params if p.is_written]
        self._backends = backends
        self._calls: dict[Any, Call] = {}

    def __repr__(self) -> str:
        inputs = ", ".join(str(p) for p in self.params if p.role != "out")
        outputs = ", ".join(str(p) for p in self.params if p.role == "out")
        return f"<daylight function {self.name}({inputs}) -> ({outputs})>"

    def __call__(self, *args: Any, stream: Any = None, workspace: Any = None, threads: int | None = None, **named: Any) -> Any:
        """Runs the function; see the class."""
        return self.run(args, named, stream, workspace, threads)

    def run(
        self,
        args: Sequence[Any],
        named: Mapping[str, Any],
        stream: Any = None,
        workspace: Any = None,
        threads: int | None = None,
    ) -> Any:
        """The call with parameters apart from what else there is, so that they may have the same names."""
        arrays, extents = self.signature.place(args, named)
        handle = None if stream is None else _handle(stream)
        seen = self._seen(arrays, handle)
        framework, place, shapes, values = seen
        key = (place, shapes, *extents.items())
        call = self._calls.get(key) or self._prepared(key, seen, extents)
        allocates = None in shapes or (workspace is None and call.launches.memory.bytes > 0)
        # What is allocated belongs to the stream: a given one is made current for that.
        is_current = handle is None or not allocates
        handle = framework.stream(place) if handle is None else handle
        with nullcontext() if is_current else framework.on_stream(handle, place):
            if None in shapes:
                self._make_outputs(call, arrays, seen, handle)
            call.check(values)
            # Kept until the launches are on the stream: from there on its allocator goes by the stream.
            area = self._area(call, workspace, seen, handle)
            if place.kind == "cpu":
                threads = threads or framework.threads(place)
            call.launches.run(values, area[0], workspace is None, handle, threads or 1)
        outputs = [arrays[i] for i in self._written]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _seen(self, arrays: Sequence[Any], stream: int | None) -> Seen:
        """Looks at all arguments, which have to be of the right types and at one place."""
        framework, place = None, None
        values = [0] * len(self.params)
        shapes: list[tuple[int, ...] | None] = []
        for param in self.params:
            array = arrays[param.index]
            if array is MISSING:
                if param.is_tensor:
                    shapes.append(None)
            elif param.is_tensor:
                own = framework_of(array, param)
                values[param.index], shape, dtype, at = own.see(array, param, stream)
                if dtype != param.dtype:
                    raise ArgumentError(f"`{param.name}` has elements of {dtype}, expected {param.dtype}")
                if framework is None:
                    framework, place = own, at
                elif at != place:
                    raise ArgumentError(f"`{param.name}` is on {at}, expected {place}, where the arrays before it are")
                shapes.append(shape)
            elif param.role == "scalar":
                values[param.index] = scalar_bits(param.name, param.dtype, array)
        if framework is None or place is None:
            raise ArgumentError(f"{self.signature.usage()}; no array was passed, which says where to run")
        return Seen(framework, place, tuple(shapes), values)

    def _prepared(self, key: Any, seen: Seen, extents: Mapping[str, int]) -> Call:
        """Chooses, loads and remembers the kernel for these shapes."""
        shapes: dict[int, tuple[int, ...]] = {p.index: shape for p, shape in zip(self._tensors, seen.shapes) if shape is not None}
        arch, entries = self._on(seen.place)
        entry, values = choose(entries, shapes, extents)
        for param in entry.params:
            if param.is_tensor and param.index not in shapes:
                shapes[param.index] = tuple(evaluate(dim, values) for dim in param.shape)
        call = Call(self._tensors, shapes, self._backends.at(seen.place).launches(entry, arch, values))
        if len(self._calls) >= _MOST_CALLS:
            self._calls.clear()
        self._calls[key] = call
        return call

    def _on(self, place: Place) -> tuple[str, list[Entry]]:
        """The architecture for a place, and its entries in the order in which they are asked."""
        try:
            arch = self._backends.at(place).arch({arch for e in self.entries for arch in e.archs})
        except DeviceError as e:
            raise DeviceError(f"{self.name}: {e}") from None
        return arch, [e for e in self.entries if arch in e.archs]

    def _make_outputs(self, call: Call, arrays: list[Any], seen: Seen, stream: int) -> None:
        for param in self._tensors:
            if arrays[param.index] is MISSING:
                made = seen.framework.empty(call.shapes[param.index], param.dtype, seen.place)
                arrays[param.index] = made
                seen.values[param.index] = seen.framework.see(made, param, stream)[0]

    def _area(self, call: Call, workspace: Any, seen: Seen, stream: int) -> tuple[int, Any]:
        """The address of the workspace, and the array that it is the address of."""
        param, need = call.workspace, call.launches.memory.bytes
        if need == 0:
            return 0, None
        if workspace is None:
            workspace = seen.framework.empty((need,), "uint8", seen.place)
        address, shape, dtype, at = framework_of(workspace, param).see(workspace, param, stream)
        size = math.prod(shape) * SIZES[dtype]
        if at != seen.place or size < need:
            raise ArgumentError(f"`workspace` has {size} bytes on {at}, expected {need} on {seen.place}")
        align = max(call.launches.align, default=1)
        if address % align:
            raise ArgumentError(f"`workspace` is not aligned to {align} bytes")
        return address, workspace

    def workspace_bytes(self, place: str = "cuda", **extents: int) -> int:
        """Bytes of the workspace of a call on `cpu`, `cuda` or `cuda:1` with these extents; 0 for none."""
        _, entries = self._on(place_of(place))
        entry = next((e for e in entries if e.takes(extents)), None)
        if entry is None:
            raise ArgumentError(f"{self.name}: there are no kernels for {extents}")
        try:
            return Memory(entry, extents).bytes
        except KeyError as e:
            raise ArgumentError(f"{self.name}: the bytes follow from the extent `{e.args[0]}`, pass it by name") from None

    def prepare(self, place: str = "cuda") -> None:
        """Compiles and loads the kernels for `cpu`, `cuda` or `cuda:1` now, and not in the first call of a size."""
        where = place_of(place)
        arch, entries = self._on(where)
        for entry in entries:
            self._backends.at(where).load(entry, arch)

    def as_torch_op(self, name: str) -> Any:
        """Registers the function as an operator of `torch.library`, such as `"mylib::mean"`; see `daylight.torch_op`."""
        from .torch_op import register

        return register(self, name)


def _handle(stream: Any) -> int:
    """The `CUstream` of a stream of PyTorch or CuPy, or of an int."""
    if isinstance(stream, int):
        return stream
    for attribute in ("cuda_stream", "ptr"):
        if isinstance(handle := getattr(stream, attribute, None), int):
            return handle
    raise ArgumentError(f"`stream` is a {type(stream).__name__}, expected an int or a stream of PyTorch or CuPy")

"""`manifest.json` of a package, read and typed; `docs/schemas/manifest.schema.json` describes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Mapping, Union

from .dtypes import SIZES
from .errors import PackageError
from .extents import Dim, names

SCHEMA = 1

Role = Literal["in", "out", "inout", "scalar", "extent"]


@dataclass(frozen=True)
class Param:
    """A parameter of a function: position, the user's name, type of an element, extents, use."""

    index: int
    name: str
    dtype: str
    shape: tuple[Dim, ...]
    role: Role

    @property
    def is_tensor(self) -> bool:
        """True for tensors, false for scalars and extents."""
        return self.role in ("in", "out", "inout")

    @property
    def is_written(self) -> bool:
        """True where the function stores to it."""
        return self.role in ("out", "inout")

    def __str__(self) -> str:
        kind = f"{self.dtype}[{', '.join(map(str, self.shape))}]" if self.is_tensor else self.dtype
        return f"{self.name}: {kind}"


@dataclass(frozen=True)
class Workspace:
    """Memory between launches, in bytes, and what it has to hold before."""

    bytes: Dim
    init: Literal["none", "zero_once", "zero_each"]


@dataclass(frozen=True)
class Pointer:
    """An argument that is the address of a parameter or of a workspace."""

    of: Literal["param", "workspace"]
    position: int


@dataclass(frozen=True)
class Scalar:
    """An argument that is the value of an extent or scalar parameter."""

    name: str
    dtype: str


@dataclass(frozen=True)
class TensorMap:
    """An argument that says how boxes of a tensor are found; lists have the innermost dimension first."""

    param: int
    dtype: str
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    elem_strides: tuple[int, ...]
    swizzle: int
    l2: int


Argument = Union[Pointer, Scalar, TensorMap]


@dataclass(frozen=True)
class Launch:
    """One kernel launch."""

    symbol: str
    file: Mapping[str, str]
    grid: tuple[Dim, ...]
    block: tuple[Dim, ...]
    dynamic_smem: Dim
    pdl: bool
    args: tuple[Argument, ...]


@dataclass(frozen=True)
class Entry:
    """A kernel of a function: the sizes that it takes, how it was found, how it is launched."""

    name: str
    key: str
    rung: str
    exactly: Mapping[str, int]
    up_to: Mapping[str, int]
    measured_us: float | None
    params: tuple[Param, ...]
    workspaces: tuple[Workspace, ...]
    launches: tuple[Launch, ...]

    @property
    def archs(self) -> set[str]:
        """Architectures that it has files for."""
        return set.intersection(*(set(launch.file) for launch in self.launches))

    @property
    def extents(self) -> set[str]:
        """Names of the extents of its parameters."""
        return {name for p in self.params for dim in p.shape for name in names(dim)}

    def takes(self, extents: Mapping[str, int]) -> bool:
        """True where it is for the sizes. Those that it does not name are in its shapes as numbers."""
        exact = all(extents.get(k, v) == v for k, v in self.exactly.items())
        return exact and all(extents.get(k, v) <= v for k, v in self.up_to.items())


@dataclass(frozen=True)
class Manifest:
    """A package: the kernels of each function in the order in which they are asked, and options of compilers."""

    folder: Path
    functions: Mapping[str, tuple[Entry, ...]]
    compile: Mapping[str, tuple[str, ...]]


def read(path: Path) -> Manifest:
    """Reads a manifest; `path` is the file or its folder.

    Raises PackageError, where it is none of this version.
    """
    file = path / "manifest.json" if path.is_dir() else path
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as e:
        raise PackageError(f"{file} cannot be read ({e.strerror}); `daylight apply-best` writes it") from e
    except ValueError as e:
        raise PackageError(f"{file} is no JSON: {e}") from e
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        said = data.get("schema") if isinstance(data, dict) else None
        raise PackageError(f"{file} has schema {said}, expected {SCHEMA}: it is of another version of daylight")
    try:
        return _manifest(file.parent, data)
    except (KeyError, TypeError, AttributeError) as e:
        raise PackageError(f"{file} lacks what a manifest of schema {SCHEMA} has: {e}") from e


def _manifest(folder: Path, data: Mapping[str, Any]) -> Manifest:
    functions: dict[str, list[Entry]] = {}
    for entry in map(_entry, data["functions"]):
        functions.setdefault(entry.name, []).append(entry)
    options = {arch: tuple(all_) for arch, all_ in data.get("compile", {}).items()}
    return Manifest(folder, {name: tuple(all_) for name, all_ in functions.items()}, options)


def _entry(data: Mapping[str, Any]) -> Entry:
    when = data.get("when", {})
    return Entry(
        name=data["name"],
        key=data["key"],
        rung=data["rung"],
        exactly=when.get("exactly", {}),
        up_to=when.get("up_to", {}),
        measured_us=data["measured_us"],
        params=tuple(map(_param, data["params"])),
        workspaces=tuple(Workspace(w["bytes"], w["init"]) for w in data["workspaces"]),
        launches=tuple(map(_launch, data["launches"])),
    )


def _param(data: Mapping[str, Any]) -> Param:
    return Param(data["index"], data["name"], _dtype(data["dtype"]), tuple(data["shape"]), data["role"])


def _dtype(name: str) -> str:
    if name not in SIZES:
        raise KeyError(f"the type {name!r}")
    return name


def _launch(data: Mapping[str, Any]) -> Launch:
    return Launch(
        symbol=data["symbol"],
        file=data["file"],
        grid=tuple(data["grid"]),
        block=tuple(data["block"]),
        dynamic_smem=data["dynamic_smem"],
        pdl=data["pdl"],
        args=tuple(map(_argument, data["args"])),
    )


def _argument(data: Mapping[str, Any]) -> Argument:
    if "tensor_map" in data:
        lists = ("dims", "strides_bytes", "box", "elem_strides")
        of = data["tensor_map"]
        values = {name: tuple(of[name]) for name in lists}
        return TensorMap(of["param"], _dtype(of["dtype"]), swizzle=of["swizzle"], l2=of["l2"], **values)
    if "scalar" in data:
        return Scalar(data["scalar"], _dtype(data["dtype"]))
    of = "param" if "param" in data else "workspace"
    return Pointer(of, data[of])  # type: ignore[arg-type]

"""A package that `daylight apply-best` wrote, as functions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterator, Mapping, Union

from .arrays import place_of
from .function import Function
from .launch import Backends
from .manifest import Manifest, read


class Kernels(Mapping[str, Function]):
    """The functions of a package: `kernels.mean`, or `kernels["mean"]`. Nothing is loaded before it is called.

    The second form is for functions that have the name of something here, such as `get`.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.folder = manifest.folder
        self.backends = Backends(manifest)
        self._functions = {name: Function(name, entries, self.backends) for name, entries in manifest.functions.items()}

    def __getattr__(self, name: str) -> Function:
        functions = self.__dict__.get("_functions", {})
        if name in functions:
            return functions[name]
        raise AttributeError(f"the package {self.folder} has no function `{name}`; it has {', '.join(functions)}")

    def __getitem__(self, name: str) -> Function:
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]

    def __repr__(self) -> str:
        return f"<daylight kernels {str(self.folder)!r}: {', '.join(self._functions)}>"

    def prepare(self, place: str = "cuda") -> None:
        """Compiles and loads all kernels for `cpu`, `cuda` or `cuda:1` now, and not in the first call of each size."""
        place_of(place)
        for function in self.values():
            function.prepare(place)


def load(manifest: Union[str, "os.PathLike[str]"]) -> Kernels:
    """The functions of a package: of a folder that `daylight apply-best` wrote, or of its `manifest.json`.

    Raises PackageError where it cannot be read.
    """
    return Kernels(read(Path(manifest)))

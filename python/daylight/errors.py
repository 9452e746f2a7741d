"""What goes wrong, as exceptions of one sentence each."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Anything that this package raises."""


class PackageError(Error, ValueError):
    """A folder is no package, or its manifest says what this version does not know."""


class ArgumentError(Error, ValueError):
    """An argument of a call does not fit the function."""


class DeviceError(Error, RuntimeError):
    """A driver or a compiler is missing or refuses, or there are no kernels for a processor."""


class CommandError(Error, RuntimeError):
    """The `daylight` command ended with a failure.

    `code` is its exit code, 1 to 4 as `daylight --help` tells them; `results` are the lines of JSON that it had printed.
    """

    def __init__(self, message: str, code: int = 1, results: list[dict[str, Any]] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.results = results or []

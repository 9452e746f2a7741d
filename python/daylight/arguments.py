"""The arguments of a call: which parameter each is for."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from .errors import ArgumentError
from .manifest import Param

MISSING: Any = object()


class Signature:
    """What a function takes: its parameters in order, and extents by name."""

    def __init__(self, name: str, params: Sequence[Param], extents: set[str]) -> None:
        self.name = name
        self.params = tuple(params)
        self._by_name = {p.name: p.index for p in params}
        self.extents = extents
        everything = [p.index for p in params]
        outs = {p.index for p in params if p.role == "out"}
        sizes = {p.index for p in params if p.role == "extent"}
        # What arguments by position may stand for. Of two lists of one length the first counts.
        left_out: list[set[int]] = [set(), sizes, outs, sizes | outs]
        self._lists = [[i for i in everything if i not in left] for left in left_out]
        self._orders = {len(order): order for order in reversed(self._lists)}

    def place(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], dict[str, int]]:
        """The arguments by position of their parameter, `MISSING` where there is none, and the extents that were passed."""
        placed = [MISSING] * len(self.params)
        order = self._order(len(args), named) if named else self._orders.get(len(args))
        if order is None:
            beside = f" beside {', '.join(named)}" if named else ""
            raise ArgumentError(f"{self.usage()}; {len(args)} by position were passed{beside}")
        for index, value in zip(order, args):
            placed[index] = value
        extents: dict[str, int] = {}
        for name, value in named.items():
            self._put(name, value, placed, extents)
        for param in self.params:
            value = placed[param.index]
            if param.role == "extent" and value is not MISSING:
                extents[param.name] = _extent(param.name, value)
            elif value is MISSING and param.role not in ("out", "extent"):
                raise ArgumentError(f"{self.usage()}; `{param.name}` is missing")
        return placed, extents

    def _order(self, count: int, named: Mapping[str, Any]) -> list[int] | None:
        """What so many arguments by position stand for beside those by name: the first parameters, none of them named."""
        for order in (list_[:count] for list_ in self._lists):
            if len(order) == count and not any(self.params[i].name in named for i in order):
                return order
        return None

    def _put(self, name: str, value: Any, placed: list[Any], extents: dict[str, int]) -> None:
        index = self._by_name.get(name, -1)
        if index >= 0 and placed[index] is MISSING:
            placed[index] = value
        elif index < 0 and name in self.extents:
            extents[name] = _extent(name, value)
        else:
            raise ArgumentError(f"{self.usage()}; `{name}` is none of these or was passed twice")

    def usage(self) -> str:
        """`mean takes A: float32[n, 64], and B: float32[n] or not`."""
        needed = ", ".join(str(p) for p in self.params if p.role not in ("out", "extent"))
        others = ", ".join(str(p) for p in self.params if p.role in ("out", "extent"))
        return f"{self.name} takes {needed}" + (f", and {others} or not" if others else "")


def _extent(name: str, value: Any) -> int:
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        raise ArgumentError(f"the extent `{name}` is {value!r}, expected an integer") from None

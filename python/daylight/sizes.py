"""Which kernel takes which sizes: extents from the shapes of a call, held to agree, and the first entry that is for them."""

from __future__ import annotations

from typing import Mapping, Sequence

from .errors import ArgumentError
from .extents import LARGEST, Dim, evaluate, is_name
from .manifest import Entry, Param

Shape = Sequence[int]


def extents_of(entry: Entry, shapes: Mapping[int, Shape], given: Mapping[str, int]) -> dict[str, int]:
    """The extents of a call by name. `shapes` has those of tensors by position, `given` extents that were passed.

    Raises ArgumentError where they do not agree with each other or with the entry.
    """
    extents = dict(given)
    tensors = [(p, shapes[p.index]) for p in entry.params if p.is_tensor and p.index in shapes]
    for param, shape in tensors:
        _rank(param, shape)
        for dim, size in zip(param.shape, shape):
            if is_name(dim):
                _agree(param, shape, extents.setdefault(str(dim), size), size)
    for name in sorted(entry.extents - set(extents)):
        raise ArgumentError(f"the extent `{name}` follows from no shape: pass it as `{name}=`")
    for name, value in extents.items():
        if not 1 <= value <= LARGEST:
            raise ArgumentError(f"the extent `{name}` is {value}, expected 1 to {LARGEST}")
    for param, shape in tensors:
        for dim, size in zip(param.shape, shape):
            _agree(param, shape, evaluate(dim, extents), size)
    return extents


def _rank(param: Param, shape: Shape) -> None:
    if len(shape) != len(param.shape):
        raise ArgumentError(f"`{param.name}` has shape {_text(shape)}, expected {_text(param.shape)}")


def _agree(param: Param, shape: Shape, expected: int, size: int) -> None:
    if expected != size:
        named = "" if not any(isinstance(d, str) for d in param.shape) else f", with {expected} where it has {size}"
        raise ArgumentError(f"`{param.name}` has shape {_text(shape)}, expected {_text(param.shape)}{named}")


def _text(shape: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def interface(entries: Sequence[Entry]) -> Entry:
    """The entry that says most of the function: of those whose extents are names. Others have them as numbers."""
    return max(entries, key=lambda e: sum(isinstance(d, str) for p in e.params for d in p.shape))


def choose(entries: Sequence[Entry], shapes: Mapping[int, Shape], given: Mapping[str, int]) -> tuple[Entry, dict[str, int]]:
    """The first entry that takes the sizes, with the extents by name.

    Raises ArgumentError: what is wrong with the shapes, or for which sizes there are kernels.
    """
    general = interface(entries)
    if general.extents:
        extents = extents_of(general, shapes, given)
        for entry in entries:
            if entry.takes(extents):
                return entry, extents
        raise ArgumentError(f"{general.name}: there are kernels for {_sizes(entries)} alone, not for {_values(extents)}")
    return _by_numbers(entries, shapes, given)


def _by_numbers(entries: Sequence[Entry], shapes: Mapping[int, Shape], given: Mapping[str, int]) -> tuple[Entry, dict[str, int]]:
    """Where all shapes are numbers, they say which entry it is."""
    why: ArgumentError | None = None
    for entry in entries:
        try:
            extents = {**entry.exactly, **extents_of(entry, shapes, given)}
        except ArgumentError as e:
            why = why or e
            continue
        if entry.takes(extents):
            return entry, extents
    if len(entries) == 1 and why:
        raise why
    raise ArgumentError(f"{entries[0].name}: there are kernels for {_sizes(entries)} alone")


def _sizes(entries: Sequence[Entry]) -> str:
    def one(sizes: Mapping[str, int], sign: str) -> str:
        return ", ".join(f"{k} {sign} {v}" for k, v in sizes.items())

    return "; ".join(one(e.exactly, "=") or one(e.up_to, "<=") for e in entries)


def _values(extents: Mapping[str, int]) -> str:
    return ", ".join(f"{k} = {v}" for k, v in extents.items())

"""Extents: integers, or text over `+ - * // % min max`, integers and names. `//` and `%` round down, as in Python."""

from __future__ import annotations

import ast
import operator
from functools import lru_cache
from typing import Any, Mapping, Union

from .errors import PackageError

Dim = Union[int, str]

LARGEST = 2**31 - 1

_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS = {"min": min, "max": max}


@lru_cache(maxsize=None)
def _tree(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as e:
        raise PackageError(f"the extent `{text}` of the manifest is no expression over + - * // % min max") from e


def names(dim: Dim) -> set[str]:
    """The names of extents in an extent."""
    if isinstance(dim, int):
        return set()
    tree = _tree(dim)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called}


def is_name(dim: Dim) -> bool:
    """True for an extent that is a name and nothing else."""
    return isinstance(dim, str) and isinstance(_tree(dim), ast.Name)


def evaluate(dim: Dim, extents: Mapping[str, Any]) -> Any:
    """The value of an extent where the named ones are known.

    Raises KeyError with the name that is not known.
    """
    return dim if isinstance(dim, int) else _value(_tree(dim), extents, dim)


def _value(node: ast.expr, extents: Mapping[str, Any], text: str) -> Any:
    if isinstance(node, ast.Name):
        return extents[node.id]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, extents, text), _value(node.right, extents, text))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, extents, text)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        return _FUNCTIONS[node.func.id](*(_value(a, extents, text) for a in node.args))
    raise PackageError(f"the extent `{text}` of the manifest is no expression over + - * // % min max")

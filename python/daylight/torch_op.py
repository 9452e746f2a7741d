"""A function as an operator of `torch.library`: for `torch.compile`, `torch.export`, and derivatives that the caller gives.

The operator takes the inputs in order and returns the outputs: `torch.ops.mylib.mean(a)`. Tensors that a function reads and
writes are arguments that the operator changes. Of its derivative nothing is known here: `op.register_autograd` of PyTorch
says what it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch

from .arrays.torch_ import torch_dtype
from .extents import evaluate, is_name
from .manifest import Param

if TYPE_CHECKING:
    from .function import Function


def register(function: "Function", name: str) -> Any:
    """Registers the operator, `"mylib::mean"`; gives what `torch.library.custom_op` gives."""
    operator = _Operator(function)
    op = torch.library.custom_op(name, operator.run, mutates_args=operator.changed, schema=operator.schema())
    op.register_fake(operator.fake)
    return op


class _Operator:
    """What the operator takes, gives and runs."""

    def __init__(self, function: "Function") -> None:
        self.function = function
        known = {str(d) for p in function.params if p.role in ("in", "inout") for d in p.shape if is_name(d)}
        self.taken = [p for p in function.params if p.role != "out" and not (p.role == "extent" and p.name in known)]
        sizes = {p.name for p in function.params if p.role == "extent"}
        self.free = sorted(function.signature.extents - known - sizes)
        self.outs = [p for p in function.params if p.role == "out"]
        self.changed = tuple(_identifier(p.name) for p in self.taken if p.role == "inout")

    def schema(self) -> str:
        """`(Tensor A, float s) -> Tensor`."""
        words = [f"{_kind(p)} {_identifier(p.name)}" for p in self.taken]
        for k, p in enumerate(p for p in self.taken if p.role == "inout"):
            words[self.taken.index(p)] = f"Tensor(a{k}!) {_identifier(p.name)}"
        words += [f"SymInt {_identifier(name)}" for name in self.free]
        outs = ", ".join(["Tensor"] * len(self.outs))
        return f"({', '.join(words)}) -> {outs if len(self.outs) == 1 else f'({outs})'}"

    def run(self, *args: Any) -> Any:
        """The function on the arguments of the operator."""
        # Compilers of PyTorch may choose other strides than those that eager tensors have.
        inputs = [a.contiguous() if p.role == "in" else a for p, a in zip(self.taken, args)]
        named = dict(zip([*(p.name for p in self.taken), *self.free], [*inputs, *args[len(inputs) :]]))
        # Derivatives are the operator's: those of its arguments are no matter here.
        with torch.no_grad():
            written = self.function.run((), named)
        if len(self.outs) == len([p for p in self.function.params if p.is_written]):
            return written
        all_ = written if isinstance(written, tuple) else (written,)
        pairs = zip((p for p in self.function.params if p.is_written), all_)
        outs = tuple(value for p, value in pairs if p.role == "out")
        return None if not outs else outs[0] if len(outs) == 1 else outs

    def fake(self, *args: Any) -> Any:
        """Empty outputs of the shapes that follow."""
        by_name = dict(zip([*(p.name for p in self.taken), *self.free], args))
        extents = {k: v for k, v in by_name.items() if not isinstance(v, torch.Tensor)}
        tensors = [(p, by_name[p.name]) for p in self.taken if p.is_tensor]
        for param, tensor in tensors:
            for dim, size in zip(param.shape, tensor.shape):
                if is_name(dim):
                    extents.setdefault(str(dim), size)
        outs = tuple(_empty(p, extents, tensors[0][1].device) for p in self.outs)
        return None if not outs else outs[0] if len(outs) == 1 else outs


def _empty(param: Param, extents: dict[str, Any], device: Any) -> torch.Tensor:
    return torch.empty([evaluate(d, extents) for d in param.shape], dtype=torch_dtype(param.dtype), device=device)


def _kind(param: Param) -> str:
    if param.is_tensor:
        return "Tensor"
    if param.role == "extent":
        return "SymInt"
    return "bool" if param.dtype == "bool" else "float" if "float" in param.dtype else "SymInt"


def _identifier(name: str) -> str:
    """A name as schemas of PyTorch have them."""
    return re.sub(r"\W", "_", name)

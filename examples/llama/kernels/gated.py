# Units let through by their gates: u = silu(y[:, :inner]) * y[:, inner:].
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

rows = TypeVar("rows")
inner = TypeVar("inner")


@T.prim_func(s_tir=True)
def gated(y: T.Buffer((rows, 2 * inner), "bfloat16"), u: T.Buffer((rows, inner), "bfloat16")):
    for i, j in T.grid(rows, inner):
        with T.sblock("gated"):
            vi, vj = T.axis.remap("SS", [i, j])
            u[vi, vj] = T.Cast(
                "bfloat16",
                T.Cast("float32", y[vi, vj]) / (T.float32(1) + T.exp(-T.Cast("float32", y[vi, vj]))) * T.Cast("float32", y[vi, vj + inner]),
            )

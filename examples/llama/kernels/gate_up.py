# The gate and the units of a layer in one product: y = h w^T. The first half of the columns is the gate.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

rows = TypeVar("rows")
hidden = TypeVar("hidden")
inner = TypeVar("inner")


@T.prim_func(s_tir=True)
def gate_up(h: T.Buffer((rows, hidden), "bfloat16"), w: T.Buffer((2 * inner, hidden), "bfloat16"), y: T.Buffer((rows, 2 * inner), "bfloat16")):
    total = T.sblock_alloc_buffer((rows, 2 * inner), "float32")
    for i, j, k in T.grid(rows, 2 * inner, hidden):
        with T.sblock("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                total[vi, vj] = T.float32(0)
            total[vi, vj] = total[vi, vj] + T.Cast("float32", h[vi, vk]) * T.Cast("float32", w[vj, vk])
    for i, j in T.grid(rows, 2 * inner):
        with T.sblock("finish"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.Cast("bfloat16", total[vi, vj])

# Gates and units of one sequence: rms_norm and gate_up in one, the factor of the norm pulled out of the sum.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

hidden = TypeVar("hidden")
inner = TypeVar("inner")


@T.prim_func(s_tir=True)
def normed_gate_up(
    x: T.Buffer((1, hidden), "bfloat16"),
    weight: T.Buffer((hidden,), "bfloat16"),
    w: T.Buffer((2 * inner, hidden), "bfloat16"),
    y: T.Buffer((1, 2 * inner), "bfloat16"),
):
    square = T.sblock_alloc_buffer((1,), "float32")
    total = T.sblock_alloc_buffer((1, 2 * inner), "float32")
    for i, k in T.grid(1, hidden):
        with T.sblock("square"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                square[vi] = T.float32(0)
            square[vi] = square[vi] + T.Cast("float32", x[vi, vk]) * T.Cast("float32", x[vi, vk])
    for i, j, k in T.grid(1, 2 * inner, hidden):
        with T.sblock("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                total[vi, vj] = T.float32(0)
            total[vi, vj] = total[vi, vj] + T.Cast("float32", x[vi, vk]) * T.Cast("float32", weight[vk]) * T.Cast("float32", w[vj, vk])
    for i, j in T.grid(1, 2 * inner):
        with T.sblock("norm"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.Cast("bfloat16", total[vi, vj] * T.rsqrt(square[vi] / T.Cast("float32", hidden) + T.float32(1e-5)))

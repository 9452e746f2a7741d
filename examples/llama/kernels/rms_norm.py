# h = x / sqrt(mean(x * x) + 1e-5) * weight, summed in float32.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

rows = TypeVar("rows")
hidden = TypeVar("hidden")


@T.prim_func(s_tir=True)
def rms_norm(x: T.Buffer((rows, hidden), "bfloat16"), weight: T.Buffer((hidden,), "bfloat16"), h: T.Buffer((rows, hidden), "bfloat16")):
    total = T.sblock_alloc_buffer((rows,), "float32")
    for i, k in T.grid(rows, hidden):
        with T.sblock("square"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + T.Cast("float32", x[vi, vk]) * T.Cast("float32", x[vi, vk])
    for i, e in T.grid(rows, hidden):
        with T.sblock("scale"):
            vi, ve = T.axis.remap("SS", [i, e])
            h[vi, ve] = T.Cast("bfloat16", T.Cast("float32", x[vi, ve]) * T.rsqrt(total[vi] / T.Cast("float32", hidden) + T.float32(1e-5)) * T.Cast("float32", weight[ve]))

# As gate_up, with weights of 4 bits.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

batch = TypeVar("batch")
hidden = TypeVar("hidden")
group = TypeVar("group")
inner = TypeVar("inner")


@T.prim_func(s_tir=True)
def gate_up4(
    h: T.Buffer((batch, hidden), "bfloat16"),
    w: T.Buffer((2 * inner, hidden // 8), "uint32"),
    scale: T.Buffer((2 * inner, hidden // group), "bfloat16"),
    y: T.Buffer((batch, 2 * inner), "bfloat16"),
):
    total = T.sblock_alloc_buffer((batch, 2 * inner), "bfloat16")
    for i, j, k in T.grid(batch, 2 * inner, hidden):
        with T.sblock("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                total[vi, vj] = T.bfloat16(0)
            total[vi, vj] = total[vi, vj] + h[vi, vk] * ((T.Cast("bfloat16", w[vj, vk // 8] >> T.Cast("uint32", vk % 8 * 4) & T.uint32(15)) - T.bfloat16(8)) * scale[vj, vk // group])
    for i, j in T.grid(batch, 2 * inner):
        with T.sblock("finish"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = total[vi, vj]

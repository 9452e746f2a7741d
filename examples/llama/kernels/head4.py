# As head, with weights of 4 bits.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

batch = TypeVar("batch")
hidden = TypeVar("hidden")
group = TypeVar("group")
vocab = TypeVar("vocab")


@T.prim_func(s_tir=True)
def head4(
    h: T.Buffer((batch, hidden), "bfloat16"),
    w: T.Buffer((vocab, hidden // 8), "uint32"),
    scale: T.Buffer((vocab, hidden // group), "bfloat16"),
    y: T.Buffer((batch, vocab), "float32"),
):
    total = T.sblock_alloc_buffer((batch, vocab), "bfloat16")
    for i, j, k in T.grid(batch, vocab, hidden):
        with T.sblock("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                total[vi, vj] = T.bfloat16(0)
            total[vi, vj] = total[vi, vj] + h[vi, vk] * ((T.Cast("bfloat16", w[vj, vk // 8] >> T.Cast("uint32", vk % 8 * 4) & T.uint32(15)) - T.bfloat16(8)) * scale[vj, vk // group])
    for i, j in T.grid(batch, vocab):
        with T.sblock("finish"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.Cast("float32", total[vi, vj])

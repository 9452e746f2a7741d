# What the last state says of each word of the vocabulary, in float32.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

batch = TypeVar("batch")
hidden = TypeVar("hidden")
vocab = TypeVar("vocab")


@T.prim_func(s_tir=True)
def head(h: T.Buffer((batch, hidden), "bfloat16"), w: T.Buffer((vocab, hidden), "bfloat16"), y: T.Buffer((batch, vocab), "float32")):
    total = T.sblock_alloc_buffer((batch, vocab), "float32")
    for i, j, k in T.grid(batch, vocab, hidden):
        with T.sblock("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                total[vi, vj] = T.float32(0)
            total[vi, vj] = total[vi, vj] + T.Cast("float32", h[vi, vk]) * T.Cast("float32", w[vj, vk])
    for i, j in T.grid(batch, vocab):
        with T.sblock("finish"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.Cast("float32", T.Cast("bfloat16", total[vi, vj]))

# Softmax over positions, in float32.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

batch = TypeVar("batch")
span = TypeVar("span")
heads = TypeVar("heads")


@T.prim_func(s_tir=True)
def weights(s: T.Buffer((batch, heads, span), "float32"), p: T.Buffer((batch, heads, span), "bfloat16")):
    top = T.sblock_alloc_buffer((batch, heads), "float32")
    total = T.sblock_alloc_buffer((batch, heads), "float32")
    for i, h, j in T.grid(batch, heads, span):
        with T.sblock("top"):
            vi, vh, vj = T.axis.remap("SSR", [i, h, j])
            with T.init():
                top[vi, vh] = T.float32(-3.4028234663852886e38)
            top[vi, vh] = T.max(top[vi, vh], s[vi, vh, vj])
    for i, h, j in T.grid(batch, heads, span):
        with T.sblock("total"):
            vi, vh, vj = T.axis.remap("SSR", [i, h, j])
            with T.init():
                total[vi, vh] = T.float32(0)
            total[vi, vh] = total[vi, vh] + T.exp(s[vi, vh, vj] - top[vi, vh])
    for i, h, j in T.grid(batch, heads, span):
        with T.sblock("weights"):
            vi, vh, vj = T.axis.remap("SSS", [i, h, j])
            p[vi, vh, vj] = T.Cast("bfloat16", T.exp(s[vi, vh, vj] - top[vi, vh]) / total[vi, vh])

# Softmax over the vocabulary, in float32.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

batch = TypeVar("batch")
vocab = TypeVar("vocab")


@T.prim_func(s_tir=True)
def softmax(s: T.Buffer((batch, vocab), "float32"), p: T.Buffer((batch, vocab), "float32")):
    top = T.sblock_alloc_buffer((batch,), "float32")
    total = T.sblock_alloc_buffer((batch,), "float32")
    for i, j in T.grid(batch, vocab):
        with T.sblock("top"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                top[vi] = T.float32(-3.4028234663852886e38)
            top[vi] = T.max(top[vi], s[vi, vj])
    for i, j in T.grid(batch, vocab):
        with T.sblock("total"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + T.exp(s[vi, vj] - top[vi])
    for i, j in T.grid(batch, vocab):
        with T.sblock("softmax"):
            vi, vj = T.axis.remap("SS", [i, j])
            p[vi, vj] = T.exp(s[vi, vj] - top[vi]) / total[vi]

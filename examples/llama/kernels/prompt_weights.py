# Softmax over the positions that a run of a prompt's queries reaches, in float32.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

length = TypeVar("length")
reach = TypeVar("reach")
heads = TypeVar("heads")


@T.prim_func(s_tir=True)
def prompt_weights(s: T.Buffer((heads, length, reach), "float16"), p: T.Buffer((heads, length, reach), "bfloat16")):
    top = T.sblock_alloc_buffer((heads, length), "float32")
    total = T.sblock_alloc_buffer((heads, length), "float32")
    for h, i, j in T.grid(heads, length, reach):
        with T.sblock("top"):
            vh, vi, vj = T.axis.remap("SSR", [h, i, j])
            with T.init():
                top[vh, vi] = T.float32(-3.4028234663852886e38)
            top[vh, vi] = T.max(top[vh, vi], T.Cast("float32", s[vh, vi, vj]))
    for h, i, j in T.grid(heads, length, reach):
        with T.sblock("total"):
            vh, vi, vj = T.axis.remap("SSR", [h, i, j])
            with T.init():
                total[vh, vi] = T.float32(0)
            total[vh, vi] = total[vh, vi] + T.exp(T.Cast("float32", s[vh, vi, vj]) - top[vh, vi])
    for h, i, j in T.grid(heads, length, reach):
        with T.sblock("weights"):
            vh, vi, vj = T.axis.remap("SSS", [h, i, j])
            p[vh, vi, vj] = T.Cast("bfloat16", T.exp(T.Cast("float32", s[vh, vi, vj]) - top[vh, vi]) / total[vh, vi])

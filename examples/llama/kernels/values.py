# Values of the cache, weighted: p v.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

batch = TypeVar("batch")
span = TypeVar("span")
capacity = TypeVar("capacity")
heads = TypeVar("heads")
kv_heads = TypeVar("kv_heads")
head_dim = TypeVar("head_dim")


@T.prim_func(s_tir=True)
def values(
    p: T.Buffer((batch, heads, span), "bfloat16"),
    cache: T.Buffer((batch, 2, kv_heads, capacity, head_dim), "bfloat16"),
    o: T.Buffer((batch, heads, head_dim), "bfloat16"),
):
    total = T.sblock_alloc_buffer((batch, heads, head_dim), "float32")
    for i, h, d, j in T.grid(batch, heads, head_dim, span):
        with T.sblock("product"):
            vi, vh, vd, vj = T.axis.remap("SSSR", [i, h, d, j])
            with T.init():
                total[vi, vh, vd] = T.float32(0)
            total[vi, vh, vd] = total[vi, vh, vd] + T.Cast("float32", p[vi, vh, vj]) * T.Cast("float32", T.if_then_else(vj < capacity, cache[vi, 1, vh // (heads // kv_heads), vj, vd], T.bfloat16(0)))
    for i, h, d in T.grid(batch, heads, head_dim):
        with T.sblock("cast"):
            vi, vh, vd = T.axis.remap("SSS", [i, h, d])
            o[vi, vh, vd] = T.Cast("bfloat16", total[vi, vh, vd])

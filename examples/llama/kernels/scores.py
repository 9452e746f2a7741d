# What each query says of each position of its cache: q k^T / sqrt(head_dim), nothing of those after position[i].
# `span` is how many positions are looked at.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

batch = TypeVar("batch")
span = TypeVar("span")
capacity = TypeVar("capacity")
heads = TypeVar("heads")
kv_heads = TypeVar("kv_heads")
head_dim = TypeVar("head_dim")


@T.prim_func(s_tir=True)
def scores(
    q: T.Buffer((batch, heads, head_dim), "bfloat16"),
    cache: T.Buffer((batch, 2, kv_heads, capacity, head_dim), "bfloat16"),
    position: T.Buffer((batch,), "int32"),
    s: T.Buffer((batch, heads, span), "float32"),
):
    total = T.sblock_alloc_buffer((batch, heads, span), "float32")
    for i, h, j, d in T.grid(batch, heads, span, head_dim):
        with T.sblock("product"):
            vi, vh, vj, vd = T.axis.remap("SSSR", [i, h, j, d])
            with T.init():
                total[vi, vh, vj] = T.float32(0)
            total[vi, vh, vj] = total[vi, vh, vj] + T.Cast("float32", q[vi, vh, vd]) * T.Cast("float32", T.if_then_else(vj < capacity, cache[vi, 0, vh // (heads // kv_heads), vj, vd], T.bfloat16(0)))
    for i, h, j in T.grid(batch, heads, span):
        with T.sblock("mask"):
            vi, vh, vj = T.axis.remap("SSS", [i, h, j])
            s[vi, vh, vj] = T.if_then_else(vj <= position[vi], total[vi, vh, vj] * T.rsqrt(T.Cast("float32", head_dim)), T.float32(-1e30))

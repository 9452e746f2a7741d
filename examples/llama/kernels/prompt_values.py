# Values that a run of a prompt's queries reaches, weighted: p v.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

length = TypeVar("length")
reach = TypeVar("reach")
slots = TypeVar("slots")
capacity = TypeVar("capacity")
heads = TypeVar("heads")
kv_heads = TypeVar("kv_heads")
head_dim = TypeVar("head_dim")


@T.prim_func(s_tir=True)
def prompt_values(
    p: T.Buffer((heads, length, reach), "bfloat16"),
    cache: T.Buffer((slots, 2, kv_heads, capacity, head_dim), "bfloat16"),
    o: T.Buffer((length, heads, head_dim), "bfloat16"),
):
    total = T.sblock_alloc_buffer((heads, length, head_dim), "float32")
    for h, i, d, j in T.grid(heads, length, head_dim, reach):
        with T.sblock("product"):
            vh, vi, vd, vj = T.axis.remap("SSSR", [h, i, d, j])
            with T.init():
                total[vh, vi, vd] = T.float32(0)
            total[vh, vi, vd] = total[vh, vi, vd] + T.Cast("float32", p[vh, vi, vj]) * T.Cast("float32", T.if_then_else(vj < capacity, cache[0, 1, vh // (heads // kv_heads), vj, vd], T.bfloat16(0)))
    for h, i, d in T.grid(heads, length, head_dim):
        with T.sblock("cast"):
            vh, vi, vd = T.axis.remap("SSS", [h, i, d])
            o[vi, vh, vd] = T.Cast("bfloat16", total[vh, vi, vd])

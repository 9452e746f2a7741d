# Scores of a run of a prompt's queries, the last of which is at position `reach` - 1 of the first sequence:
# q k^T / sqrt(head_dim), of each query over the positions up to its own. In float16, whatever the model's type: a score is
# as exact as the weight that follows, and half of what the next function reads.
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
def prompt_scores(
    q: T.Buffer((length, heads, head_dim), "bfloat16"),
    cache: T.Buffer((slots, 2, kv_heads, capacity, head_dim), "bfloat16"),
    s: T.Buffer((heads, length, reach), "float16"),
):
    total = T.sblock_alloc_buffer((heads, length, reach), "float32")
    for h, i, j, d in T.grid(heads, length, reach, head_dim):
        with T.sblock("product"):
            vh, vi, vj, vd = T.axis.remap("SSSR", [h, i, j, d])
            with T.init():
                total[vh, vi, vj] = T.float32(0)
            total[vh, vi, vj] = total[vh, vi, vj] + T.Cast("float32", q[vi, vh, vd]) * T.Cast("float32", T.if_then_else(vj < capacity, cache[0, 0, vh // (heads // kv_heads), vj, vd], T.bfloat16(0)))
    for h, i, j in T.grid(heads, length, reach):
        with T.sblock("mask"):
            vh, vi, vj = T.axis.remap("SSS", [h, i, j])
            s[vh, vi, vj] = T.if_then_else(vj <= vi + reach - length, T.Cast("float16", total[vh, vi, vj] * T.rsqrt(T.Cast("float32", head_dim))), T.float16(-65504))

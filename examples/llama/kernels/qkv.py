# Queries, keys and values of a layer in one product: y = h w^T, summed in float32.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

rows = TypeVar("rows")
hidden = TypeVar("hidden")
heads = TypeVar("heads")
kv_heads = TypeVar("kv_heads")
head_dim = TypeVar("head_dim")


@T.prim_func(s_tir=True)
def qkv(h: T.Buffer((rows, hidden), "bfloat16"), w: T.Buffer(((heads + 2 * kv_heads) * head_dim, hidden), "bfloat16"), y: T.Buffer((rows, (heads + 2 * kv_heads) * head_dim), "bfloat16")):
    total = T.sblock_alloc_buffer((rows, (heads + 2 * kv_heads) * head_dim), "float32")
    for i, j, k in T.grid(rows, (heads + 2 * kv_heads) * head_dim, hidden):
        with T.sblock("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                total[vi, vj] = T.float32(0)
            total[vi, vj] = total[vi, vj] + T.Cast("float32", h[vi, vk]) * T.Cast("float32", w[vj, vk])
    for i, j in T.grid(rows, (heads + 2 * kv_heads) * head_dim):
        with T.sblock("cast"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.Cast("bfloat16", total[vi, vj])

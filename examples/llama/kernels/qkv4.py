# As qkv, with weights of 4 bits: eight in a word, those of `group` neighbours along a row with one scale.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

batch = TypeVar("batch")
hidden = TypeVar("hidden")
group = TypeVar("group")
heads = TypeVar("heads")
kv_heads = TypeVar("kv_heads")
head_dim = TypeVar("head_dim")


@T.prim_func(s_tir=True)
def qkv4(
    h: T.Buffer((batch, hidden), "bfloat16"),
    w: T.Buffer(((heads + 2 * kv_heads) * head_dim, hidden // 8), "uint32"),
    scale: T.Buffer(((heads + 2 * kv_heads) * head_dim, hidden // group), "bfloat16"),
    y: T.Buffer((batch, (heads + 2 * kv_heads) * head_dim), "bfloat16"),
):
    total = T.sblock_alloc_buffer((batch, (heads + 2 * kv_heads) * head_dim), "bfloat16")
    for i, j, k in T.grid(batch, (heads + 2 * kv_heads) * head_dim, hidden):
        with T.sblock("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                total[vi, vj] = T.bfloat16(0)
            total[vi, vj] = total[vi, vj] + h[vi, vk] * ((T.Cast("bfloat16", w[vj, vk // 8] >> T.Cast("uint32", vk % 8 * 4) & T.uint32(15)) - T.bfloat16(8)) * scale[vj, vk // group])
    for i, j in T.grid(batch, (heads + 2 * kv_heads) * head_dim):
        with T.sblock("finish"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = total[vi, vj]

# Queries, keys and values of one sequence: rms_norm and qkv4 in one, the factor of the norm pulled out of the sum.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

hidden = TypeVar("hidden")
group = TypeVar("group")
heads = TypeVar("heads")
kv_heads = TypeVar("kv_heads")
head_dim = TypeVar("head_dim")


@T.prim_func(s_tir=True)
def normed_qkv4(
    x: T.Buffer((1, hidden), "bfloat16"),
    weight: T.Buffer((hidden,), "bfloat16"),
    w: T.Buffer(((heads + 2 * kv_heads) * head_dim, hidden // 8), "uint32"),
    scale: T.Buffer(((heads + 2 * kv_heads) * head_dim, hidden // group), "bfloat16"),
    y: T.Buffer((1, (heads + 2 * kv_heads) * head_dim), "bfloat16"),
):
    square = T.sblock_alloc_buffer((1,), "float32")
    total = T.sblock_alloc_buffer((1, (heads + 2 * kv_heads) * head_dim), "bfloat16")
    for i, k in T.grid(1, hidden):
        with T.sblock("square"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                square[vi] = T.float32(0)
            square[vi] = square[vi] + T.Cast("float32", x[vi, vk]) * T.Cast("float32", x[vi, vk])
    for i, j, k in T.grid(1, (heads + 2 * kv_heads) * head_dim, hidden):
        with T.sblock("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                total[vi, vj] = T.bfloat16(0)
            total[vi, vj] = total[vi, vj] + x[vi, vk] * weight[vk] * ((T.Cast("bfloat16", w[vj, vk // 8] >> T.Cast("uint32", vk % 8 * 4) & T.uint32(15)) - T.bfloat16(8)) * scale[vj, vk // group])
    for i, j in T.grid(1, (heads + 2 * kv_heads) * head_dim):
        with T.sblock("norm"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.Cast("bfloat16", T.Cast("float32", total[vi, vj]) * T.rsqrt(square[vi] / T.Cast("float32", hidden) + T.float32(1e-5)))

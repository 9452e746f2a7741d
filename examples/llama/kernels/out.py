# What attention found, taken back to the hidden size and added to what went in: y = x + o w^T.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

rows = TypeVar("rows")
hidden = TypeVar("hidden")
heads = TypeVar("heads")
head_dim = TypeVar("head_dim")


@T.prim_func(s_tir=True)
def out(o: T.Buffer((rows, heads * head_dim), "bfloat16"), w: T.Buffer((hidden, heads * head_dim), "bfloat16"), x: T.Buffer((rows, hidden), "bfloat16"), y: T.Buffer((rows, hidden), "bfloat16")):
    total = T.sblock_alloc_buffer((rows, hidden), "float32")
    for i, j, k in T.grid(rows, hidden, heads * head_dim):
        with T.sblock("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                total[vi, vj] = T.float32(0)
            total[vi, vj] = total[vi, vj] + T.Cast("float32", o[vi, vk]) * T.Cast("float32", w[vj, vk])
    for i, j in T.grid(rows, hidden):
        with T.sblock("finish"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] + T.Cast("bfloat16", total[vi, vj])

# Queries turned by their positions (rope): turn[p] holds cosines, then sines, of position p.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

rows = TypeVar("rows")
capacity = TypeVar("capacity")
heads = TypeVar("heads")
kv_heads = TypeVar("kv_heads")
head_dim = TypeVar("head_dim")


@T.prim_func(s_tir=True)
def turn(
    y: T.Buffer((rows, (heads + 2 * kv_heads) * head_dim), "bfloat16"),
    position: T.Buffer((rows,), "int32"),
    angle: T.Buffer((capacity, 2, head_dim // 2), "float32"),
    q: T.Buffer((rows, heads, head_dim), "bfloat16"),
):
    for i, h, d in T.grid(rows, heads, head_dim):
        with T.sblock("turn"):
            vi, vh, vd = T.axis.remap("SSS", [i, h, d])
            q[vi, vh, vd] = T.Cast(
                "bfloat16",
                T.Cast("float32", y[vi, vh * head_dim + vd]) * angle[position[vi], 0, vd % (head_dim // 2)]
                + T.if_then_else(vd < head_dim // 2, T.float32(-1), T.float32(1))
                * T.Cast("float32", y[vi, vh * head_dim + (vd + head_dim // 2) % head_dim])
                * angle[position[vi], 1, vd % (head_dim // 2)],
            )

# Turns queries and keys by their positions (rope) and appends keys and values to the cache: row i belongs to sequence
# slot[i] and is its position[i]. cache[:, 0] are keys, cache[:, 1] values. turn[p] holds cosines, then sines, of position p.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

rows = TypeVar("rows")
slots = TypeVar("slots")
capacity = TypeVar("capacity")
heads = TypeVar("heads")
kv_heads = TypeVar("kv_heads")
head_dim = TypeVar("head_dim")


@T.prim_func(s_tir=True)
def rope(
    y: T.Buffer((rows, (heads + 2 * kv_heads) * head_dim), "bfloat16"),
    slot: T.Buffer((rows,), "int32"),
    position: T.Buffer((rows,), "int32"),
    turn: T.Buffer((capacity, 2, head_dim // 2), "float32"),
    cache: T.Buffer((slots, 2, kv_heads, capacity, head_dim), "bfloat16"),
    q: T.Buffer((rows, heads, head_dim), "bfloat16"),
):
    for i, h, d in T.grid(rows, heads, head_dim):
        with T.sblock("turn"):
            vi, vh, vd = T.axis.remap("SSS", [i, h, d])
            q[vi, vh, vd] = T.Cast(
                "bfloat16",
                T.Cast("float32", y[vi, vh * head_dim + vd]) * turn[position[vi], 0, vd % (head_dim // 2)]
                + T.if_then_else(vd < head_dim // 2, T.float32(-1), T.float32(1))
                * T.Cast("float32", y[vi, vh * head_dim + (vd + head_dim // 2) % head_dim])
                * turn[position[vi], 1, vd % (head_dim // 2)],
            )
    for i, c, g, d in T.grid(rows, 2, kv_heads, head_dim):
        with T.sblock("append"):
            vi, vc, vg, vd = T.axis.remap("SSSS", [i, c, g, d])
            cache[slot[vi], vc, vg, position[vi], vd] = T.if_then_else(
                vc == 1,
                y[vi, (heads + kv_heads + vg) * head_dim + vd],
                T.Cast(
                    "bfloat16",
                    T.Cast("float32", y[vi, (heads + vg) * head_dim + vd]) * turn[position[vi], 0, vd % (head_dim // 2)]
                    + T.if_then_else(vd < head_dim // 2, T.float32(-1), T.float32(1))
                    * T.Cast("float32", y[vi, (heads + vg) * head_dim + (vd + head_dim // 2) % head_dim])
                    * turn[position[vi], 1, vd % (head_dim // 2)],
                ),
            )

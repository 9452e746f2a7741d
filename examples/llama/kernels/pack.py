# Weights of 4 bits, eight in a word, the first in its lowest bits: 8 more than the nearest number of steps.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

size = TypeVar("size")
group = TypeVar("group")


@T.prim_func(s_tir=True)
def pack(w: T.Buffer((size,), "bfloat16"), scale: T.Buffer((size // group,), "bfloat16"), words: T.Buffer((size // 8,), "uint32")):
    for i, k in T.grid(size // 8, 8):
        with T.sblock("pack"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                words[vi] = T.uint32(0)
            words[vi] = words[vi] + (
                T.Cast("uint32", T.max(T.min(T.floor(T.Cast("float32", w[vi * 8 + vk]) / T.Cast("float32", scale[(vi * 8 + vk) // group]) + T.float32(8.5)), T.float32(15)), T.float32(0)))
                << T.Cast("uint32", vk * 4)
            )

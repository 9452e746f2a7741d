# What a step of a weight of 4 bits is worth: the largest of `group` neighbours is 7 of them.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

size = TypeVar("size")
group = TypeVar("group")


@T.prim_func(s_tir=True)
def scales(w: T.Buffer((size,), "bfloat16"), scale: T.Buffer((size // group,), "bfloat16")):
    top = T.sblock_alloc_buffer((size // group,), "float32")
    for i, k in T.grid(size // group, group):
        with T.sblock("top"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                top[vi] = T.float32(1e-4)
            top[vi] = T.max(top[vi], T.fabs(T.Cast("float32", w[vi * group + vk])))
    for i in range(size // group):
        with T.sblock("scale"):
            vi = T.axis.spatial(size // group, i)
            scale[vi] = T.Cast("bfloat16", top[vi] / T.float32(7))

# Weights of 4 bits as numbers again, for products of many rows.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

size = TypeVar("size")
group = TypeVar("group")


@T.prim_func(s_tir=True)
def unpack(words: T.Buffer((size // 8,), "uint32"), scale: T.Buffer((size // group,), "bfloat16"), w: T.Buffer((size,), "bfloat16")):
    for i in range(size):
        with T.sblock("unpack"):
            vi = T.axis.spatial(size, i)
            w[vi] = (T.Cast("bfloat16", words[vi // 8] >> T.Cast("uint32", vi % 8 * 4) & T.uint32(15)) - T.bfloat16(8)) * scale[vi // group]

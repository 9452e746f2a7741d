# Weights for trying things out: values between -spread and spread that depend on their place and a seed alone.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

size = TypeVar("size")


@T.prim_func(s_tir=True)
def fill(seed: T.Buffer((1,), "uint32"), spread: T.Buffer((1,), "float32"), tensor: T.Buffer((size,), "bfloat16")):
    first = T.sblock_alloc_buffer((size,), "uint32")
    second = T.sblock_alloc_buffer((size,), "uint32")
    third = T.sblock_alloc_buffer((size,), "uint32")
    for i in range(size):
        with T.sblock("first"):
            vi = T.axis.spatial(size, i)
            first[vi] = T.Cast("uint32", vi) * T.uint32(2654435769) + seed[0]
    for i in range(size):
        with T.sblock("second"):
            vi = T.axis.spatial(size, i)
            second[vi] = (first[vi] ^ (first[vi] >> T.uint32(16))) * T.uint32(2246822507)
    for i in range(size):
        with T.sblock("third"):
            vi = T.axis.spatial(size, i)
            third[vi] = (second[vi] ^ (second[vi] >> T.uint32(13))) * T.uint32(3266489909)
    for i in range(size):
        with T.sblock("fill"):
            vi = T.axis.spatial(size, i)
            tensor[vi] = T.Cast("bfloat16", (T.Cast("float32", (third[vi] ^ (third[vi] >> T.uint32(16))) >> T.uint32(8)) * T.float32(1.1920928955078125e-07) - T.float32(1)) * spread[0])

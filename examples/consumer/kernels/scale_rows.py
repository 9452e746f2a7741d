# Two blocks of a model's tail: rows times a vector, then a clip. `n` is bound by the build script.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

n = TypeVar("n")


@T.prim_func(s_tir=True)
def scale_rows(x: T.Buffer((n, 96), "float32"), s: T.Buffer((96,), "float32"), y: T.Buffer((n, 96), "float32")):
    t = T.sblock_alloc_buffer((n, 96))
    for i, j in T.grid(n, 96):
        with T.sblock("scale"):
            vi, vj = T.axis.remap("SS", [i, j])
            t[vi, vj] = x[vi, vj] * s[vj]
    for i, j in T.grid(n, 96):
        with T.sblock("clip"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.max(T.float32(-1), T.min(t[vi, vj], T.float32(1)))

# A size that is not known when the program is built.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

rows = TypeVar("rows")


@T.prim_func(s_tir=True)
def add_rows(x: T.Buffer((rows, 96), "float32"), y: T.Buffer((rows, 96), "float32"), z: T.Buffer((rows, 96), "float32")):
    for i, j in T.grid(rows, 96):
        with T.sblock("add"):
            vi, vj = T.axis.remap("SS", [i, j])
            z[vi, vj] = x[vi, vj] + y[vi, vj]

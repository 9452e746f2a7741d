# Rows of the embedding: x[i] = table[token[i]].
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

rows = TypeVar("rows")
vocab = TypeVar("vocab")
hidden = TypeVar("hidden")


@T.prim_func(s_tir=True)
def embed(token: T.Buffer((rows,), "int32"), table: T.Buffer((vocab, hidden), "bfloat16"), x: T.Buffer((rows, hidden), "bfloat16")):
    for i, e in T.grid(rows, hidden):
        with T.sblock("embed"):
            vi, ve = T.axis.remap("SS", [i, e])
            x[vi, ve] = table[token[vi], ve]

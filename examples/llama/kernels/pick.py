# The likeliest word.
from tvm.script import tirx as T
from tvm.script.tirx import TypeVar

batch = TypeVar("batch")
vocab = TypeVar("vocab")


@T.prim_func(s_tir=True)
def pick(p: T.Buffer((batch, vocab), "float32"), token: T.Buffer((batch,), "int32")):
    top = T.sblock_alloc_buffer((batch,), "float32")
    at = T.sblock_alloc_buffer((batch,), "int32")
    for i, j in T.grid(batch, vocab):
        with T.sblock("top"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                at[vi] = -1
                top[vi] = T.float32(-3.4028234663852886e38)
            v_at: T.int32 = T.Select(top[vi] > p[vi, vj] or (top[vi] == p[vi, vj] and at[vi] < T.Cast("int32", vj)), at[vi], T.Cast("int32", vj))
            v_top: T.float32 = T.Select(top[vi] > p[vi, vj], top[vi], p[vi, vj])
            at[vi] = v_at
            top[vi] = v_top
    for i in range(batch):
        with T.sblock("token"):
            vi = T.axis.spatial(batch, i)
            token[vi] = at[vi]

# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def silu_mul(gate: T.Buffer((16384, 14336), "bfloat16"), up: T.Buffer((16384, 14336), "bfloat16"), y: T.Buffer((16384, 14336), "bfloat16")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    g = T.sblock_alloc_buffer((16384, 14336))
    for i, j in T.grid(16384, 14336):
        with T.sblock("g"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            T.reads(gate[v_i, v_j])
            T.writes(g[v_i, v_j])
            g[v_i, v_j] = T.Cast("float32", gate[v_i, v_j])
    for i, j in T.grid(16384, 14336):
        with T.sblock("y"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            T.reads(g[v_i, v_j], up[v_i, v_j])
            T.writes(y[v_i, v_j])
            y[v_i, v_j] = T.Cast("bfloat16", g[v_i, v_j] * T.sigmoid(g[v_i, v_j]) * T.Cast("float32", up[v_i, v_j]))

# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(X: T.Buffer((361, 1279), "bfloat16"), B: T.Buffer((1279,), "bfloat16"), O: T.Buffer((361, 1279), "bfloat16")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    G = T.sblock_alloc_buffer((361, 1279))
    for i, j in T.grid(361, 1279):
        with T.sblock("G"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            T.reads(X[v_i, v_j], B[v_j])
            T.writes(G[v_i, v_j])
            G[v_i, v_j] = T.Cast("float32", X[v_i, v_j]) + T.Cast("float32", B[v_j])
    for i, j in T.grid(361, 1279):
        with T.sblock("O"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            T.reads(G[v_i, v_j])
            T.writes(O[v_i, v_j])
            O[v_i, v_j] = T.Cast("bfloat16", G[v_i, v_j] * T.float32(0.5) * (T.float32(1.0) + T.erf(G[v_i, v_j] * T.float32(0.70710678118654757))))
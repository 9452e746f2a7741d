# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(X: T.Buffer((957, 17472), "bfloat16"), O: T.Buffer((957, 17472), "bfloat16")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    Z = T.sblock_alloc_buffer((957, 17472))
    M = T.sblock_alloc_buffer((957,))
    X2 = T.sblock_alloc_buffer((957, 17472))
    S = T.sblock_alloc_buffer((957,))
    for i, j in T.grid(957, 17472):
        with T.sblock("Z"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            T.reads(X[v_i, v_j])
            T.writes(Z[v_i, v_j])
            Z[v_i, v_j] = T.Cast("float32", X[v_i, v_j])
    for i, r in T.grid(957, 17472):
        with T.sblock("M"):
            v_i, v_r = T.axis.remap("SR", [i, r])
            T.reads(Z[v_i, v_r])
            T.writes(M[v_i])
            with T.init():
                M[v_i] = T.float32(-340282346638528859811704183484516925440.0)
            M[v_i] = T.max(M[v_i], Z[v_i, v_r])
    for i, j in T.grid(957, 17472):
        with T.sblock("X2"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            T.reads(Z[v_i, v_j], M[v_i])
            T.writes(X2[v_i, v_j])
            X2[v_i, v_j] = T.exp(Z[v_i, v_j] - M[v_i])
    for i, q in T.grid(957, 17472):
        with T.sblock("S"):
            v_i, v_q = T.axis.remap("SR", [i, q])
            T.reads(X2[v_i, v_q])
            T.writes(S[v_i])
            with T.init():
                S[v_i] = T.float32(0.0)
            S[v_i] = S[v_i] + X2[v_i, v_q]
    for i, j in T.grid(957, 17472):
        with T.sblock("O"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            T.reads(X2[v_i, v_j], S[v_i])
            T.writes(O[v_i, v_j])
            O[v_i, v_j] = T.Cast("bfloat16", X2[v_i, v_j] / S[v_i])
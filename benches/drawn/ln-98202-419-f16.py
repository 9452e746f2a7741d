# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(X: T.Buffer((98202, 419), "float16"), G: T.Buffer((419,), "float16"), B: T.Buffer((419,), "float16"), O: T.Buffer((98202, 419), "float16")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    Z = T.sblock_alloc_buffer((98202, 419))
    A = T.sblock_alloc_buffer((98202,))
    U = T.sblock_alloc_buffer((98202,))
    S = T.sblock_alloc_buffer((98202,))
    for i, j in T.grid(98202, 419):
        with T.sblock("Z"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            T.reads(X[v_i, v_j])
            T.writes(Z[v_i, v_j])
            Z[v_i, v_j] = T.Cast("float32", X[v_i, v_j])
    for i, r in T.grid(98202, 419):
        with T.sblock("A"):
            v_i, v_r = T.axis.remap("SR", [i, r])
            T.reads(Z[v_i, v_r])
            T.writes(A[v_i])
            with T.init():
                A[v_i] = T.float32(0.0)
            A[v_i] = A[v_i] + Z[v_i, v_r]
    for i in range(98202):
        with T.sblock("U"):
            v_i = T.axis.spatial(98202, i)
            T.reads(A[v_i])
            T.writes(U[v_i])
            U[v_i] = A[v_i] / T.float32(419.0)
    for i, q in T.grid(98202, 419):
        with T.sblock("S"):
            v_i, v_q = T.axis.remap("SR", [i, q])
            T.reads(Z[v_i, v_q], U[v_i])
            T.writes(S[v_i])
            with T.init():
                S[v_i] = T.float32(0.0)
            S[v_i] = S[v_i] + (Z[v_i, v_q] - U[v_i]) * (Z[v_i, v_q] - U[v_i])
    for i, j in T.grid(98202, 419):
        with T.sblock("O"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            T.reads(Z[v_i, v_j], U[v_i], S[v_i], G[v_j], B[v_j])
            T.writes(O[v_i, v_j])
            O[v_i, v_j] = T.Cast("float16", (Z[v_i, v_j] - U[v_i]) * T.rsqrt(S[v_i] / T.float32(419.0) + T.float32(1.0000000000000001e-05)) * T.Cast("float32", G[v_j]) + T.Cast("float32", B[v_j]))
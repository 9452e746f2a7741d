# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(X: T.Buffer((4864, 256), "float16"), W: T.Buffer((1835, 256), "float16"), out: T.Buffer((4864, 1835), "float16")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    C = T.sblock_alloc_buffer((4864, 1835))
    for i, j, r in T.grid(4864, 1835, 256):
        with T.sblock("C"):
            v_i, v_j, v_r = T.axis.remap("SSR", [i, j, r])
            T.reads(X[v_i, v_r], W[v_j, v_r])
            T.writes(C[v_i, v_j])
            with T.init():
                C[v_i, v_j] = T.float32(0.0)
            C[v_i, v_j] = C[v_i, v_j] + T.Cast("float32", X[v_i, v_r]) * T.Cast("float32", W[v_j, v_r])
    for i0, i1 in T.grid(4864, 1835):
        with T.sblock("out"):
            v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
            T.reads(C[v_i0, v_i1])
            T.writes(out[v_i0, v_i1])
            out[v_i0, v_i1] = T.Cast("float16", C[v_i0, v_i1])
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(X: T.Buffer((64, 64, 77), "float16"), W: T.Buffer((64, 77, 415), "float16"), out: T.Buffer((64, 64, 415), "float16")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    C = T.sblock_alloc_buffer((64, 64, 415))
    for h, i, j, r in T.grid(64, 64, 415, 77):
        with T.sblock("C"):
            v_h, v_i, v_j, v_r = T.axis.remap("SSSR", [h, i, j, r])
            T.reads(X[v_h, v_i, v_r], W[v_h, v_r, v_j])
            T.writes(C[v_h, v_i, v_j])
            with T.init():
                C[v_h, v_i, v_j] = T.float32(0.0)
            C[v_h, v_i, v_j] = C[v_h, v_i, v_j] + T.Cast("float32", X[v_h, v_i, v_r]) * T.Cast("float32", W[v_h, v_r, v_j])
    for i0, i1, i2 in T.grid(64, 64, 415):
        with T.sblock("out"):
            v_i0, v_i1, v_i2 = T.axis.remap("SSS", [i0, i1, i2])
            T.reads(C[v_i0, v_i1, v_i2])
            T.writes(out[v_i0, v_i1, v_i2])
            out[v_i0, v_i1, v_i2] = T.Cast("float16", C[v_i0, v_i1, v_i2])
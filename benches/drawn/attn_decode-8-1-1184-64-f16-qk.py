# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(Q: T.Buffer((8, 64), "float16"), K: T.Buffer((8, 1184, 64), "float16"), out: T.Buffer((8, 1184), "float16")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    C = T.sblock_alloc_buffer((8, 1184))
    for i, j, r in T.grid(8, 1184, 64):
        with T.sblock("C"):
            v_i, v_j, v_r = T.axis.remap("SSR", [i, j, r])
            T.reads(Q[v_i, v_r], K[v_i, v_j, v_r])
            T.writes(C[v_i, v_j])
            with T.init():
                C[v_i, v_j] = T.float32(0.0)
            C[v_i, v_j] = C[v_i, v_j] + T.Cast("float32", Q[v_i, v_r]) * T.Cast("float32", K[v_i, v_j, v_r])
    for i0, i1 in T.grid(8, 1184):
        with T.sblock("out"):
            v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
            T.reads(C[v_i0, v_i1])
            T.writes(out[v_i0, v_i1])
            out[v_i0, v_i1] = T.Cast("float16", C[v_i0, v_i1])
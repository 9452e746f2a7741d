# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(P: T.Buffer((8, 2248), "float16"), V: T.Buffer((1, 2248, 64), "float16"), out: T.Buffer((8, 64), "float16")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    C = T.sblock_alloc_buffer((8, 64))
    for i, j, r in T.grid(8, 64, 2248):
        with T.sblock("C"):
            v_i, v_j, v_r = T.axis.remap("SSR", [i, j, r])
            T.reads(P[v_i, v_r], V[v_i // 8, v_r, v_j])
            T.writes(C[v_i, v_j])
            with T.init():
                C[v_i, v_j] = T.float32(0.0)
            C[v_i, v_j] = C[v_i, v_j] + T.Cast("float32", P[v_i, v_r]) * T.Cast("float32", V[v_i // 8, v_r, v_j])
    for i0, i1 in T.grid(8, 64):
        with T.sblock("out"):
            v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
            T.reads(C[v_i0, v_i1])
            T.writes(out[v_i0, v_i1])
            out[v_i0, v_i1] = T.Cast("float16", C[v_i0, v_i1])
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(X: T.Buffer((4, 1033), "bfloat16"), W: T.Buffer((11584, 1033), "bfloat16"), res: T.Buffer((4, 11584), "bfloat16"), out: T.Buffer((4, 11584), "bfloat16")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    C = T.sblock_alloc_buffer((4, 11584))
    added = T.sblock_alloc_buffer((4, 11584))
    for i, j, r in T.grid(4, 11584, 1033):
        with T.sblock("C"):
            v_i, v_j, v_r = T.axis.remap("SSR", [i, j, r])
            T.reads(X[v_i, v_r], W[v_j, v_r])
            T.writes(C[v_i, v_j])
            with T.init():
                C[v_i, v_j] = T.float32(0.0)
            C[v_i, v_j] = C[v_i, v_j] + T.Cast("float32", X[v_i, v_r]) * T.Cast("float32", W[v_j, v_r])
    for i0, i1 in T.grid(4, 11584):
        with T.sblock("added"):
            v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
            T.reads(C[v_i0, v_i1], res[v_i0, v_i1])
            T.writes(added[v_i0, v_i1])
            added[v_i0, v_i1] = C[v_i0, v_i1] + T.Cast("float32", res[v_i0, v_i1])
    for i0, i1 in T.grid(4, 11584):
        with T.sblock("out"):
            v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
            T.reads(added[v_i0, v_i1])
            T.writes(out[v_i0, v_i1])
            out[v_i0, v_i1] = T.Cast("bfloat16", added[v_i0, v_i1])
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(X: T.Buffer((128, 7071), "float16"), W: T.Buffer((2897, 7071), "float16"), bias: T.Buffer((2897,), "float16"), out: T.Buffer((128, 2897), "float16")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    C = T.sblock_alloc_buffer((128, 2897))
    biased = T.sblock_alloc_buffer((128, 2897))
    for i, j, r in T.grid(128, 2897, 7071):
        with T.sblock("C"):
            v_i, v_j, v_r = T.axis.remap("SSR", [i, j, r])
            T.reads(X[v_i, v_r], W[v_j, v_r])
            T.writes(C[v_i, v_j])
            with T.init():
                C[v_i, v_j] = T.float32(0.0)
            C[v_i, v_j] = C[v_i, v_j] + T.Cast("float32", X[v_i, v_r]) * T.Cast("float32", W[v_j, v_r])
    for i0, i1 in T.grid(128, 2897):
        with T.sblock("biased"):
            v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
            T.reads(C[v_i0, v_i1], bias[v_i1])
            T.writes(biased[v_i0, v_i1])
            biased[v_i0, v_i1] = C[v_i0, v_i1] + T.Cast("float32", bias[v_i1])
    for i0, i1 in T.grid(128, 2897):
        with T.sblock("out"):
            v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
            T.reads(biased[v_i0, v_i1])
            T.writes(out[v_i0, v_i1])
            out[v_i0, v_i1] = T.Cast("float16", biased[v_i0, v_i1])
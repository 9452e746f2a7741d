# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(X: T.Buffer((6153, 80), "bfloat16"), W: T.Buffer((1177, 80), "bfloat16"), bias: T.Buffer((1177,), "bfloat16"), out: T.Buffer((6153, 1177), "bfloat16")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    C = T.sblock_alloc_buffer((6153, 1177))
    biased = T.sblock_alloc_buffer((6153, 1177))
    gelu = T.sblock_alloc_buffer((6153, 1177))
    for i, j, r in T.grid(6153, 1177, 80):
        with T.sblock("C"):
            v_i, v_j, v_r = T.axis.remap("SSR", [i, j, r])
            T.reads(X[v_i, v_r], W[v_j, v_r])
            T.writes(C[v_i, v_j])
            with T.init():
                C[v_i, v_j] = T.float32(0.0)
            C[v_i, v_j] = C[v_i, v_j] + T.Cast("float32", X[v_i, v_r]) * T.Cast("float32", W[v_j, v_r])
    for i0, i1 in T.grid(6153, 1177):
        with T.sblock("biased"):
            v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
            T.reads(C[v_i0, v_i1], bias[v_i1])
            T.writes(biased[v_i0, v_i1])
            biased[v_i0, v_i1] = C[v_i0, v_i1] + T.Cast("float32", bias[v_i1])
    for i0, i1 in T.grid(6153, 1177):
        with T.sblock("gelu"):
            v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
            T.reads(biased[v_i0, v_i1])
            T.writes(gelu[v_i0, v_i1])
            gelu[v_i0, v_i1] = biased[v_i0, v_i1] * T.float32(0.5) * (T.float32(1.0) + T.erf(biased[v_i0, v_i1] * T.float32(0.70710678118654757)))
    for i0, i1 in T.grid(6153, 1177):
        with T.sblock("out"):
            v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
            T.reads(gelu[v_i0, v_i1])
            T.writes(out[v_i0, v_i1])
            out[v_i0, v_i1] = T.Cast("bfloat16", gelu[v_i0, v_i1])
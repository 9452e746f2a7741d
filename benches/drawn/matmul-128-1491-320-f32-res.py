# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(X: T.Buffer((128, 320), "float32"), W: T.Buffer((1491, 320), "float32"), res: T.Buffer((128, 1491), "float32"), added: T.Buffer((128, 1491), "float32")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    C = T.sblock_alloc_buffer((128, 1491))
    for i, j, r in T.grid(128, 1491, 320):
        with T.sblock("C"):
            v_i, v_j, v_r = T.axis.remap("SSR", [i, j, r])
            T.reads(X[v_i, v_r], W[v_j, v_r])
            T.writes(C[v_i, v_j])
            with T.init():
                C[v_i, v_j] = T.float32(0.0)
            C[v_i, v_j] = C[v_i, v_j] + X[v_i, v_r] * W[v_j, v_r]
    for i0, i1 in T.grid(128, 1491):
        with T.sblock("added"):
            v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
            T.reads(C[v_i0, v_i1], res[v_i0, v_i1])
            T.writes(added[v_i0, v_i1])
            added[v_i0, v_i1] = C[v_i0, v_i1] + res[v_i0, v_i1]
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(X: T.Buffer((4096, 4096), "float32"), W: T.Buffer((4096, 4096), "float32"), O: T.Buffer((4096, 4096), "float32")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    for i, j, k in T.grid(4096, 4096, 4096):
        with T.sblock("O"):
            v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
            T.reads(X[v_i, v_k], W[v_j, v_k])
            T.writes(O[v_i, v_j])
            with T.init():
                O[v_i, v_j] = T.float32(0.0)
            O[v_i, v_j] = O[v_i, v_j] + X[v_i, v_k] * W[v_j, v_k]

# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(X: T.Buffer((768, 1339), "float32"), X_red: T.Buffer((768,), "int32")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    X_red_temp_v0 = T.sblock_alloc_buffer((768,), "int32")
    X_red_temp_v1 = T.sblock_alloc_buffer((768,))
    for ax0, k1 in T.grid(768, 1339):
        with T.sblock("X_red_temp"):
            v_ax0, v_k1 = T.axis.remap("SR", [ax0, k1])
            T.reads(X[v_ax0, v_k1])
            T.writes(X_red_temp_v0[v_ax0], X_red_temp_v1[v_ax0])
            with T.init():
                X_red_temp_v0[v_ax0] = -1
                X_red_temp_v1[v_ax0] = T.float32(-340282346638528859811704183484516925440.0)
            v_X_red_temp_v0: T.let[T.int32] = T.Select(X_red_temp_v1[v_ax0] > X[v_ax0, v_k1] or X_red_temp_v1[v_ax0] == X[v_ax0, v_k1] and X_red_temp_v0[v_ax0] < v_k1, X_red_temp_v0[v_ax0], v_k1)
            v_X_red_temp_v1: T.let[T.float32] = T.Select(X_red_temp_v1[v_ax0] > X[v_ax0, v_k1], X_red_temp_v1[v_ax0], X[v_ax0, v_k1])
            X_red_temp_v0[v_ax0] = v_X_red_temp_v0
            X_red_temp_v1[v_ax0] = v_X_red_temp_v1
    for ax0 in range(768):
        with T.sblock("X_red"):
            v_ax0 = T.axis.spatial(768, ax0)
            T.reads(X_red_temp_v0[v_ax0])
            T.writes(X_red[v_ax0])
            X_red[v_ax0] = X_red_temp_v0[v_ax0]
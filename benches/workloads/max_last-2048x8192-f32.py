# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(private=True, s_tir=True)
def main(x: T.Buffer((T.int64(2048), T.int64(8192)), "float32"), x_red: T.Buffer((T.int64(2048),), "float32")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    for ax0, k1 in T.grid(T.int64(2048), T.int64(8192)):
        with T.sblock("x_red"):
            v_ax0, v_k1 = T.axis.remap("SR", [ax0, k1])
            T.reads(x[v_ax0, v_k1])
            T.writes(x_red[v_ax0])
            with T.init():
                x_red[v_ax0] = T.float32(-340282346638528859811704183484516925440.0)
            x_red[v_ax0] = T.max(x_red[v_ax0], x[v_ax0, v_k1])

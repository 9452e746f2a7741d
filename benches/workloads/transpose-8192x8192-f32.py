# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def transpose(x: T.Buffer((8192, 8192), "float32"), y: T.Buffer((8192, 8192), "float32")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    for i, j in T.grid(8192, 8192):
        with T.sblock("y"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            T.reads(x[v_j, v_i])
            T.writes(y[v_i, v_j])
            y[v_i, v_j] = x[v_j, v_i]

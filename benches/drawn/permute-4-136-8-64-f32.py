# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(X: T.Buffer((4, 136, 8, 64), "float32"), O: T.Buffer((4, 8, 136, 64), "float32")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    for a, y, x, z in T.grid(4, 8, 136, 64):
        with T.sblock("O"):
            v_a, v_y, v_x, v_z = T.axis.remap("SSSS", [a, y, x, z])
            T.reads(X[v_a, v_x, v_y, v_z])
            T.writes(O[v_a, v_y, v_x, v_z])
            O[v_a, v_y, v_x, v_z] = X[v_a, v_x, v_y, v_z]
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(X: T.Buffer((80, 768547), "float32"), O: T.Buffer((768547,), "float32")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    for i, r in T.grid(768547, 80):
        with T.sblock("O"):
            v_i, v_r = T.axis.remap("SR", [i, r])
            T.reads(X[v_r, v_i])
            T.writes(O[v_i])
            with T.init():
                O[v_i] = T.float32(-340282346638528859811704183484516925440.0)
            O[v_i] = T.max(O[v_i], X[v_r, v_i])
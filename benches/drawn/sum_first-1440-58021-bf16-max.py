# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(X: T.Buffer((1440, 58021), "bfloat16"), O: T.Buffer((58021,), "bfloat16")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    for i, r in T.grid(58021, 1440):
        with T.sblock("O"):
            v_i, v_r = T.axis.remap("SR", [i, r])
            T.reads(X[v_r, v_i])
            T.writes(O[v_i])
            with T.init():
                O[v_i] = T.bfloat16(-340282346638528859811704183484516925440.0)
            O[v_i] = T.max(O[v_i], X[v_r, v_i])
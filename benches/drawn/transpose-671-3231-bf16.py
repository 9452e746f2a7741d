# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(X: T.Buffer((671, 3231), "bfloat16"), O: T.Buffer((3231, 671), "bfloat16")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    for i, j in T.grid(3231, 671):
        with T.sblock("O"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            T.reads(X[v_j, v_i])
            T.writes(O[v_i, v_j])
            O[v_i, v_j] = X[v_j, v_i]
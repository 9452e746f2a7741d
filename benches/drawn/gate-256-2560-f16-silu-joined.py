# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(X: T.Buffer((256, 5120), "float16"), O: T.Buffer((256, 2560), "float16")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    for i, j in T.grid(256, 2560):
        with T.sblock("O"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            T.reads(X[v_i, v_j:v_j + 2561])
            T.writes(O[v_i, v_j])
            O[v_i, v_j] = T.Cast("float16", T.Cast("float32", X[v_i, v_j]) / (T.float32(1.0) + T.exp(T.Cast("float32", X[v_i, v_j]) * T.float32(-1.0))) * T.Cast("float32", X[v_i, v_j + 2560]))
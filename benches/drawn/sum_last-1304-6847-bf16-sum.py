# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(s_tir=True)
def main(X: T.Buffer((1304, 6847), "bfloat16"), O: T.Buffer((1304,), "bfloat16")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    S = T.sblock_alloc_buffer((1304,))
    for i, r in T.grid(1304, 6847):
        with T.sblock("S"):
            v_i, v_r = T.axis.remap("SR", [i, r])
            T.reads(X[v_i, v_r])
            T.writes(S[v_i])
            with T.init():
                S[v_i] = T.float32(0.0)
            S[v_i] = S[v_i] + T.Cast("float32", X[v_i, v_r])
    for i in range(1304):
        with T.sblock("O"):
            v_i = T.axis.spatial(1304, i)
            T.reads(S[v_i])
            T.writes(O[v_i])
            O[v_i] = T.Cast("bfloat16", S[v_i])
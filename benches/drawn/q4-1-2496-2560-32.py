from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def main(X: T.Buffer((1, 2560), "float16"), W: T.Buffer((2496, 320), "uint32"), S: T.Buffer((2496, 80), "float16"), O: T.Buffer((1, 2496), "float16")):
    T.func_attr({"tirx.noalias": True})
    D = T.sblock_alloc_buffer((2496, 2560), "float16")
    for i, j in T.grid(2496, 2560):
        with T.sblock("D"):
            v_i, v_j = T.axis.remap("SS", [i, j])
            T.reads(W[v_i, v_j // 8], S[v_i, v_j // 32])
            T.writes(D[v_i, v_j])
            D[v_i, v_j] = (T.Cast("float16", W[v_i, v_j // 8] >> T.Cast("uint32", v_j % 8 * 4) & T.uint32(15)) - T.float16(7.0)) * S[v_i, v_j // 32]
    for i, j, k in T.grid(1, 2496, 2560):
        with T.sblock("O"):
            v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
            T.reads(X[v_i, v_k], D[v_j, v_k])
            T.writes(O[v_i, v_j])
            with T.init():
                O[v_i, v_j] = T.float16(0.0)
            O[v_i, v_j] = O[v_i, v_j] + X[v_i, v_k] * D[v_j, v_k]

# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(private=True, s_tir=True)
def main(x: T.Buffer((T.int64(512), T.int64(128256)), "bfloat16"), T_cast: T.Buffer((T.int64(512), T.int64(128256)), "bfloat16")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    x_cast = T.sblock_alloc_buffer((T.int64(512), T.int64(128256)))
    T_softmax_maxelem = T.sblock_alloc_buffer((T.int64(512),))
    T_softmax_exp = T.sblock_alloc_buffer((T.int64(512), T.int64(128256)))
    T_softmax_expsum = T.sblock_alloc_buffer((T.int64(512),))
    T_softmax_norm = T.sblock_alloc_buffer((T.int64(512), T.int64(128256)))
    for ax0, ax1 in T.grid(T.int64(512), T.int64(128256)):
        with T.sblock("x_cast"):
            v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
            T.reads(x[v_ax0, v_ax1])
            T.writes(x_cast[v_ax0, v_ax1])
            x_cast[v_ax0, v_ax1] = T.Cast("float32", x[v_ax0, v_ax1])
    for ax0, k1 in T.grid(T.int64(512), T.int64(128256)):
        with T.sblock("T_softmax_maxelem"):
            v_ax0, v_k1 = T.axis.remap("SR", [ax0, k1])
            T.reads(x_cast[v_ax0, v_k1])
            T.writes(T_softmax_maxelem[v_ax0])
            with T.init():
                T_softmax_maxelem[v_ax0] = T.float32(-340282346638528859811704183484516925440.0)
            T_softmax_maxelem[v_ax0] = T.max(T_softmax_maxelem[v_ax0], x_cast[v_ax0, v_k1])
    for ax0, ax1 in T.grid(T.int64(512), T.int64(128256)):
        with T.sblock("T_softmax_exp"):
            v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
            T.reads(x_cast[v_ax0, v_ax1], T_softmax_maxelem[v_ax0])
            T.writes(T_softmax_exp[v_ax0, v_ax1])
            T_softmax_exp[v_ax0, v_ax1] = T.exp(x_cast[v_ax0, v_ax1] - T_softmax_maxelem[v_ax0])
    for ax0, k1 in T.grid(T.int64(512), T.int64(128256)):
        with T.sblock("T_softmax_expsum"):
            v_ax0, v_k1 = T.axis.remap("SR", [ax0, k1])
            T.reads(T_softmax_exp[v_ax0, v_k1])
            T.writes(T_softmax_expsum[v_ax0])
            with T.init():
                T_softmax_expsum[v_ax0] = T.float32(0.0)
            T_softmax_expsum[v_ax0] = T_softmax_expsum[v_ax0] + T_softmax_exp[v_ax0, v_k1]
    for ax0, ax1 in T.grid(T.int64(512), T.int64(128256)):
        with T.sblock("T_softmax_norm"):
            v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
            T.reads(T_softmax_exp[v_ax0, v_ax1], T_softmax_expsum[v_ax0])
            T.writes(T_softmax_norm[v_ax0, v_ax1])
            T_softmax_norm[v_ax0, v_ax1] = T_softmax_exp[v_ax0, v_ax1] / T_softmax_expsum[v_ax0]
    for ax0, ax1 in T.grid(T.int64(512), T.int64(128256)):
        with T.sblock("T_cast"):
            v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
            T.reads(T_softmax_norm[v_ax0, v_ax1])
            T.writes(T_cast[v_ax0, v_ax1])
            T_cast[v_ax0, v_ax1] = T.Cast("bfloat16", T_softmax_norm[v_ax0, v_ax1])

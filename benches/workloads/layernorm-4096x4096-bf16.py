# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(private=True, s_tir=True)
def main(x: T.Buffer((T.int64(4096), T.int64(4096)), "bfloat16"), gamma: T.Buffer((T.int64(4096),), "bfloat16"), beta: T.Buffer((T.int64(4096),), "bfloat16"), T_cast: T.Buffer((T.int64(4096), T.int64(4096)), "bfloat16")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    x_cast = T.sblock_alloc_buffer((T.int64(4096), T.int64(4096)))
    gamma_cast = T.sblock_alloc_buffer((T.int64(4096),))
    beta_cast = T.sblock_alloc_buffer((T.int64(4096),))
    x_sum = T.sblock_alloc_buffer((T.int64(4096),))
    x_mean = T.sblock_alloc_buffer((T.int64(4096),))
    x_var_sum = T.sblock_alloc_buffer((T.int64(4096),))
    T_layer_norm = T.sblock_alloc_buffer((T.int64(4096), T.int64(4096)))
    for ax0, ax1 in T.grid(T.int64(4096), T.int64(4096)):
        with T.sblock("x_cast"):
            v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
            T.reads(x[v_ax0, v_ax1])
            T.writes(x_cast[v_ax0, v_ax1])
            x_cast[v_ax0, v_ax1] = T.Cast("float32", x[v_ax0, v_ax1])
    for ax0 in range(T.int64(4096)):
        with T.sblock("gamma_cast"):
            v_ax0 = T.axis.spatial(T.int64(4096), ax0)
            T.reads(gamma[v_ax0])
            T.writes(gamma_cast[v_ax0])
            gamma_cast[v_ax0] = T.Cast("float32", gamma[v_ax0])
    for ax0 in range(T.int64(4096)):
        with T.sblock("beta_cast"):
            v_ax0 = T.axis.spatial(T.int64(4096), ax0)
            T.reads(beta[v_ax0])
            T.writes(beta_cast[v_ax0])
            beta_cast[v_ax0] = T.Cast("float32", beta[v_ax0])
    for ax0, k1 in T.grid(T.int64(4096), T.int64(4096)):
        with T.sblock("x_sum"):
            v_ax0, v_k1 = T.axis.remap("SR", [ax0, k1])
            T.reads(x_cast[v_ax0, v_k1])
            T.writes(x_sum[v_ax0])
            with T.init():
                x_sum[v_ax0] = T.float32(0.0)
            x_sum[v_ax0] = x_sum[v_ax0] + x_cast[v_ax0, v_k1]
    for ax0 in range(T.int64(4096)):
        with T.sblock("x_mean"):
            v_ax0 = T.axis.spatial(T.int64(4096), ax0)
            T.reads(x_sum[v_ax0])
            T.writes(x_mean[v_ax0])
            x_mean[v_ax0] = x_sum[v_ax0] / T.float32(4096.0)
    for ax0, k1 in T.grid(T.int64(4096), T.int64(4096)):
        with T.sblock("x_var_sum"):
            v_ax0, v_k1 = T.axis.remap("SR", [ax0, k1])
            T.reads(x_cast[v_ax0, v_k1], x_mean[v_ax0])
            T.writes(x_var_sum[v_ax0])
            with T.init():
                x_var_sum[v_ax0] = T.float32(0.0)
            x_var_sum[v_ax0] = x_var_sum[v_ax0] + (x_cast[v_ax0, v_k1] - x_mean[v_ax0]) * (x_cast[v_ax0, v_k1] - x_mean[v_ax0])
    for ax0, ax1 in T.grid(T.int64(4096), T.int64(4096)):
        with T.sblock("T_layer_norm"):
            v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
            T.reads(x_cast[v_ax0, v_ax1], x_mean[v_ax0], x_var_sum[v_ax0], gamma_cast[v_ax1], beta_cast[v_ax1])
            T.writes(T_layer_norm[v_ax0, v_ax1])
            T_layer_norm[v_ax0, v_ax1] = (x_cast[v_ax0, v_ax1] - x_mean[v_ax0]) * T.rsqrt(x_var_sum[v_ax0] / T.float32(4096.0) + T.float32(1.0000000000000001e-05)) * gamma_cast[v_ax1] + beta_cast[v_ax1]
    for ax0, ax1 in T.grid(T.int64(4096), T.int64(4096)):
        with T.sblock("T_cast"):
            v_ax0, v_ax1 = T.axis.remap("SS", [ax0, ax1])
            T.reads(T_layer_norm[v_ax0, v_ax1])
            T.writes(T_cast[v_ax0, v_ax1])
            T_cast[v_ax0, v_ax1] = T.Cast("bfloat16", T_layer_norm[v_ax0, v_ax1])

# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func(private=True, s_tir=True)
def main(x: T.Buffer((T.int64(67108864),), "float32"), x_red: T.Buffer((), "float32")):
    T.func_attr({"tirx.noalias": True})
    # with T.sblock("root"):
    for k0 in range(T.int64(67108864)):
        with T.sblock("x_red"):
            v_k0 = T.axis.reduce(T.int64(67108864), k0)
            T.reads(x[v_k0])
            T.writes(x_red[()])
            with T.init():
                x_red[()] = T.float32(0.0)
            x_red[()] = x_red[()] + x[v_k0]

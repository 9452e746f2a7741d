@T.prim_func(s_tir=True)
def then(ids: T.Buffer((6,), "int32"), table: T.Buffer((9, 16), "float16"), p: T.Buffer((6,), "int32"), x: T.Buffer((14, 16), "float16"), y: T.Buffer((14, 16), "float16")):
    picked = T.sblock_alloc_buffer((6, 16), "float16")
    for i, j in T.grid(6, 16):
        with T.sblock("pick"):
            vi, vj = T.axis.remap("SS", [i, j])
            picked[vi, vj] = T.tanh(table[ids[vi], vj])
    for i, j in T.grid(6, 16):
        with T.sblock("put"):
            vi, vj = T.axis.remap("SS", [i, j])
            x[p[vi], vj] = picked[vi, vj]
    for i, j in T.grid(6, 16):
        with T.sblock("put_too"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[p[vi], vj] = picked[vi, vj] + T.float16(1.0)

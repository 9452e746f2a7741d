@T.prim_func(s_tir=True)
def append(k: T.Buffer((37, 2, 8), "float16"), v: T.Buffer((37, 2, 8), "float16"), position_map: T.Buffer((37,), "int32"), k_pages: T.Buffer((6, 2, 16, 8), "float16"), v_pages: T.Buffer((6, 2, 16, 8), "float16")):
    for g, h, f in T.grid(37, 2, 8):
        if position_map[g] != T.int32(-1):
            with T.sblock("k_append"):
                vg, vh, vf = T.axis.remap("SSS", [g, h, f])
                position: T.int32 = position_map[vg]
                k_pages[position // 16, vh, position % 16, vf] = k[vg, vh, vf]
            with T.sblock("v_append"):
                vg, vh, vf = T.axis.remap("SSS", [g, h, f])
                position: T.int32 = position_map[vg]
                v_pages[position // 16, vh, position % 16, vf] = v[vg, vh, vf]

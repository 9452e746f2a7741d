@T.prim_func(private=True)
def mean(
	A: T.Buffer((T.int64(2048), T.int64(8192)), "float32"),
	T_divide: T.Buffer((T.int64(2048),), "float32"),
):
	T.func_attr(
		{"op_pattern": 4, "tir.is_scheduled": 1, "tir.noalias": T.bool(True)}
	)
	# with T.block("root"):
	A_red_local = T.alloc_buffer((T.int64(2048),), scope="local")
	A_red_rf_local = T.alloc_buffer((T.int64(256), T.int64(2048)), scope="local")
	# sch: thread_binding
	for ax0_fused in T.thread_binding(T.int64(2048), thread="blockIdx.x"):
		for ax1_fused_1 in T.thread_binding(
			T.int64(256),
			thread="threadIdx.x",
			# sch: unroll
			annotations={
				"pragma_auto_unroll_max_step": 256,
				"pragma_unroll_explicit": 1,
			},
		): # 循环展开, (2048, 8192) -> (2048, 256) // 32循环展开
			with T.block("A_red_rf_init"):
				vax1_fused_1, v0 = T.axis.remap("SS", [ax1_fused_1, ax0_fused])
				T.reads()
				T.writes(A_red_rf_local[vax1_fused_1, v0])
				A_red_rf_local[vax1_fused_1, v0] = T.float32(0)
			for ax1_fused_0, u in T.grid(T.int64(32), 1):
				with T.block("A_red_rf_update"):
					vax1_fused_1, v0, vax1_fused_0 = T.axis.remap(
						"SSR", [ax1_fused_1, ax0_fused, ax1_fused_0]
					)
					T.reads(
						A_red_rf_local[vax1_fused_1, v0],
						A[v0, vax1_fused_0 * T.int64(256) + vax1_fused_1],
					)
					T.writes(A_red_rf_local[vax1_fused_1, v0])
					A_red_rf_local[vax1_fused_1, v0] = (
						A_red_rf_local[vax1_fused_1, v0]
						+ A[v0, vax1_fused_0 * T.int64(256) + vax1_fused_1]
					)
		for ax1_fused in range(T.int64(1)):
			for ax0 in T.thread_binding(T.int64(256), thread="threadIdx.x"): # 求和
				with T.block("A_red"):
					vax1_fused_1, v0 = T.axis.remap("RS", [ax0, ax0_fused])
					T.reads(A_red_rf_local[vax1_fused_1, v0])
					T.writes(A_red_local[v0])
					with T.init():
						A_red_local[v0] = T.float32(0)
					A_red_local[v0] = (
						A_red_local[v0] + A_red_rf_local[vax1_fused_1, v0]
					)
		with T.block("T_divide"):
			v0 = T.axis.spatial(T.int64(2048), ax0_fused) # 求均值
			T.reads(A_red_local[v0])
			T.writes(T_divide[v0])
			T_divide[v0] = A_red_local[v0] * T.float32(0.0001220703125)


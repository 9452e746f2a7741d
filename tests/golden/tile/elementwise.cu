// warp_2_cast
extern "C" __global__ void __launch_bounds__(32)
k_k0(const float* __restrict__ p0, const unsigned short* __restrict__ p2, unsigned short* __restrict__ p3) {
  const int threadIdx_x = (int)threadIdx.x;
  __align__(8) float t0[8];
  __align__(4) unsigned short t1[8];
  #pragma unroll
  for (int i0 = 0; i0 < 8; ++i0) {
    t0[i0] = p0[threadIdx_x * 8 + i0];
    t1[i0] = p2[threadIdx_x * 8 + i0];
  }
  #pragma unroll
  for (int f = 0; f < 4; ++f) {
    dl_f16x2_from_f32x2(&t1[f * 2], &t0[f * 2]);
  }
  #pragma unroll
  for (int i1 = 0; i1 < 8; ++i1) {
    p3[threadIdx_x * 8 + i1] = t1[i1];
  }
}

// smem_6x8_32_2_cast
extern "C" __global__ void __launch_bounds__(32)
k_k0(const float* __restrict__ p0, const unsigned short* __restrict__ p2, unsigned short* __restrict__ p3) {
  const int threadIdx_x = (int)threadIdx.x;
  __shared__ __align__(16) float t0[48];
  __shared__ __align__(16) unsigned short t1[48];
  __align__(16) float t0_via[4];
  __align__(8) unsigned short t1_via[4];
  #pragma unroll 1
  for (int i0 = 0; i0 < 2; ++i0) {
    if (i0 * 32 + threadIdx_x < 48) {
      t0[i0 * 32 + threadIdx_x] = p0[i0 * 32 + threadIdx_x];
      t1[i0 * 32 + threadIdx_x] = p2[i0 * 32 + threadIdx_x];
    }
  }
  __syncthreads();
  if (threadIdx_x < 12) {
    *reinterpret_cast<float4*>(&t0_via[0]) = *reinterpret_cast<const float4*>(&t0[threadIdx_x * 4]);
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      t1_via[lane] = dl_f16_from_f32(t0_via[lane]);
    }
    *reinterpret_cast<uint2*>(&t1[threadIdx_x * 4]) = *reinterpret_cast<const uint2*>(&t1_via[0]);
  }
  __syncthreads();
  #pragma unroll 1
  for (int i1 = 0; i1 < 2; ++i1) {
    if (i1 * 32 + threadIdx_x < 48) {
      p3[i1 * 32 + threadIdx_x] = t1[i1 * 32 + threadIdx_x];
    }
  }
}

// warp_6_sqrt
extern "C" __global__ void __launch_bounds__(32)
k_k0(const float* __restrict__ p0, const float* __restrict__ p2, float* __restrict__ p3) {
  const int threadIdx_x = (int)threadIdx.x;
  float t0[8];
  float t1[8];
  #pragma unroll
  for (int i0 = 0; i0 < 8; ++i0) {
    t0[i0] = p0[threadIdx_x * 8 + i0];
    t1[i0] = p2[threadIdx_x * 8 + i0];
  }
  #pragma unroll
  for (int f = 0; f < 8; ++f) {
    t1[f] = sqrtf(t0[f]);
  }
  #pragma unroll
  for (int i1 = 0; i1 < 8; ++i1) {
    p3[threadIdx_x * 8 + i1] = t1[i1];
  }
}

// thread_12_silu
extern "C" __global__ void __launch_bounds__(1)
k_k0(const unsigned short* __restrict__ p0, const unsigned short* __restrict__ p2, unsigned short* __restrict__ p3) {
  unsigned short t0[32];
  unsigned short t1[32];
  #pragma unroll
  for (int i0 = 0; i0 < 4; ++i0) {
    #pragma unroll
    for (int i1 = 0; i1 < 8; ++i1) {
      t0[i0 * 8 + i1] = p0[i0 * 8 + i1];
      t1[i0 * 8 + i1] = p2[i0 * 8 + i1];
    }
  }
  #pragma unroll
  for (int i2 = 0; i2 < 2; ++i2) {
    #pragma unroll
    for (int f = 0; f < 2; ++f) {
      #pragma unroll
      for (int f_1 = 0; f_1 < 6; ++f_1) {
        t1[i2 * 16 + f * 8 + f_1] = dl_bf16_from_f32(dl_f32_from_bf16(t0[i2 * 16 + f * 8 + f_1 + 2]) / (1.0f + expf(0.0f - dl_f32_from_bf16(t0[i2 * 16 + f * 8 + f_1 + 2]))));
      }
    }
  }
  #pragma unroll
  for (int i3 = 0; i3 < 4; ++i3) {
    #pragma unroll
    for (int i4 = 0; i4 < 8; ++i4) {
      p3[i3 * 8 + i4] = t1[i3 * 8 + i4];
    }
  }
}

// smem_5x7_24_13_add
extern "C" __global__ void __launch_bounds__(24)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, const float* __restrict__ p2, float* __restrict__ p3) {
  const int threadIdx_x = (int)threadIdx.x;
  __builtin_assume(threadIdx_x < 24);
  __shared__ __align__(16) float t0[35];
  __shared__ __align__(16) float t1[35];
  __shared__ __align__(16) float t2[35];
  #pragma unroll 1
  for (int i0 = 0; i0 < 2; ++i0) {
    if (i0 * 24 + threadIdx_x < 35) {
      t0[i0 * 24 + threadIdx_x] = p0[i0 * 24 + threadIdx_x];
      t1[i0 * 24 + threadIdx_x] = p1[i0 * 24 + threadIdx_x];
      t2[i0 * 24 + threadIdx_x] = p2[i0 * 24 + threadIdx_x];
    }
  }
  __syncthreads();
  #pragma unroll
  for (int step = 0; step < 2; ++step) {
    if (step * 24 + threadIdx_x < 35) {
      t2[step * 24 + threadIdx_x] = t0[step * 24 + threadIdx_x] + t1[step * 24 + threadIdx_x];
    }
  }
  __syncthreads();
  #pragma unroll 1
  for (int i1 = 0; i1 < 2; ++i1) {
    if (i1 * 24 + threadIdx_x < 35) {
      p3[i1 * 24 + threadIdx_x] = t2[i1 * 24 + threadIdx_x];
    }
  }
}

// smem_6x8_32_15_sub
extern "C" __global__ void __launch_bounds__(32)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, const float* __restrict__ p2, float* __restrict__ p3) {
  const int threadIdx_x = (int)threadIdx.x;
  __shared__ __align__(16) float t0[48];
  __shared__ __align__(16) float t1[48];
  __shared__ __align__(16) float t2[48];
  __align__(16) float t0_via[4];
  __align__(16) float t2_via[4];
  #pragma unroll 1
  for (int i0 = 0; i0 < 2; ++i0) {
    if (i0 * 32 + threadIdx_x < 48) {
      t0[i0 * 32 + threadIdx_x] = p0[i0 * 32 + threadIdx_x];
      t1[i0 * 32 + threadIdx_x] = p1[i0 * 32 + threadIdx_x];
      t2[i0 * 32 + threadIdx_x] = p2[i0 * 32 + threadIdx_x];
    }
  }
  __syncthreads();
  if (threadIdx_x < 12) {
    *reinterpret_cast<float4*>(&t0_via[0]) = *reinterpret_cast<const float4*>(&t0[threadIdx_x * 4]);
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      t2_via[lane] = t0_via[lane] - t1[(threadIdx_x & 1) * 4 + lane + 8];
    }
    *reinterpret_cast<float4*>(&t2[threadIdx_x * 4]) = *reinterpret_cast<const float4*>(&t2_via[0]);
  }
  __syncthreads();
  #pragma unroll 1
  for (int i1 = 0; i1 < 2; ++i1) {
    if (i1 * 32 + threadIdx_x < 48) {
      p3[i1 * 32 + threadIdx_x] = t2[i1 * 32 + threadIdx_x];
    }
  }
}

// thread_17_mul
extern "C" __global__ void __launch_bounds__(1)
k_k0(const float* __restrict__ p0, const float* __restrict__ p2, float* __restrict__ p3) {
  __align__(8) float t0[32];
  __align__(8) float t1[32];
  __align__(8) float t1_twice[2];
  #pragma unroll
  for (int i0 = 0; i0 < 4; ++i0) {
    #pragma unroll
    for (int i1 = 0; i1 < 8; ++i1) {
      t0[i0 * 8 + i1] = p0[i0 * 8 + i1];
      t1[i0 * 8 + i1] = p2[i0 * 8 + i1];
    }
  }
  #pragma unroll
  for (int i2 = 0; i2 < 2; ++i2) {
    #pragma unroll
    for (int f = 0; f < 2; ++f) {
      #pragma unroll
      for (int f_1 = 0; f_1 < 3; ++f_1) {
        t1_twice[0] = 3.0f;
        t1_twice[1] = 3.0f;
        dl_mul_rn_f32x2(&t1[i2 * 16 + f * 8 + f_1 * 2], &t0[i2 * 16 + f * 8 + f_1 * 2 + 2], &t1_twice[0]);
      }
    }
  }
  #pragma unroll
  for (int i3 = 0; i3 < 4; ++i3) {
    #pragma unroll
    for (int i4 = 0; i4 < 8; ++i4) {
      p3[i3 * 8 + i4] = t1[i3 * 8 + i4];
    }
  }
}

// warp_21_fma
extern "C" __global__ void __launch_bounds__(32)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, const float* __restrict__ p2, float* __restrict__ p3) {
  const int threadIdx_x = (int)threadIdx.x;
  __align__(8) float t0[8];
  __align__(8) float t1[8];
  __align__(8) float t2[8];
  float t3[1];
  __align__(8) float t2_twice[2];
  t3[0] = p1[threadIdx_x * 8 + 3];
  #pragma unroll
  for (int i0 = 0; i0 < 8; ++i0) {
    t0[i0] = p0[threadIdx_x * 8 + i0];
    t1[i0] = p1[threadIdx_x * 8 + i0];
    t2[i0] = p2[threadIdx_x * 8 + i0];
  }
  #pragma unroll
  for (int f = 0; f < 4; ++f) {
    t2_twice[0] = t3[0];
    t2_twice[1] = t3[0];
    dl_fma_rn_f32x2(&t2[f * 2], &t0[f * 2], &t2_twice[0], &t1[f * 2]);
  }
  #pragma unroll
  for (int i1 = 0; i1 < 8; ++i1) {
    p3[threadIdx_x * 8 + i1] = t2[i1];
  }
}


// sum_thread_1_float32_False
extern "C" __global__ void __launch_bounds__(3)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  const int threadIdx_x = (int)threadIdx.x;
  float t0[1];
  float t1[1];
  t0[0] = p0[threadIdx_x];
  t1[0] = p1[threadIdx_x];
  t1[0] = t0[0];
  p2[threadIdx_x] = t1[0];
}

// sum_thread_7_float32_False
extern "C" __global__ void __launch_bounds__(3)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  const int threadIdx_x = (int)threadIdx.x;
  float t0[7];
  float t1[1];
  #pragma unroll
  for (int i0 = 0; i0 < 7; ++i0) {
    t0[i0] = p0[threadIdx_x * 7 + i0];
  }
  t1[0] = p1[threadIdx_x];
  t1[0] = 0.0f;
  #pragma unroll
  for (int red = 0; red < 7; ++red) {
    t1[0] = t1[0] + t0[red];
  }
  p2[threadIdx_x] = t1[0];
}

// sum_thread_5_float16_False
extern "C" __global__ void __launch_bounds__(3)
k_k0(const unsigned short* __restrict__ p0, const unsigned short* __restrict__ p1, unsigned short* __restrict__ p2) {
  const int threadIdx_x = (int)threadIdx.x;
  unsigned short t0[5];
  unsigned short t1[1];
  #pragma unroll
  for (int i0 = 0; i0 < 5; ++i0) {
    t0[i0] = p0[threadIdx_x * 5 + i0];
  }
  t1[0] = p1[threadIdx_x];
  float t1_acc;
  t1_acc = 0.0f;
  #pragma unroll
  for (int red = 0; red < 5; ++red) {
    t1_acc = t1_acc + dl_f32_from_f16(t0[red]);
  }
  t1[0] = dl_f16_from_f32(t1_acc);
  p2[threadIdx_x] = t1[0];
}

// sum_thread_middle_False
extern "C" __global__ void __launch_bounds__(1)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  float t0[210];
  float t1[35];
  #pragma unroll
  for (int i0 = 0; i0 < 5; ++i0) {
    #pragma unroll
    for (int i1 = 0; i1 < 6; ++i1) {
      #pragma unroll
      for (int i2 = 0; i2 < 7; ++i2) {
        t0[i0 * 42 + i1 * 7 + i2] = p0[i0 * 42 + i1 * 7 + i2];
      }
    }
  }
  #pragma unroll
  for (int i3 = 0; i3 < 5; ++i3) {
    #pragma unroll
    for (int i4 = 0; i4 < 7; ++i4) {
      t1[i3 * 7 + i4] = p1[i3 * 7 + i4];
    }
  }
  #pragma unroll
  for (int i5 = 0; i5 < 2; ++i5) {
    #pragma unroll
    for (int spa = 0; spa < 2; ++spa) {
      #pragma unroll
      for (int spa_1 = 0; spa_1 < 7; ++spa_1) {
        t1[i5 * 14 + spa * 7 + spa_1] = 0.0f;
        #pragma unroll
        for (int red = 0; red < 4; ++red) {
          t1[i5 * 14 + spa * 7 + spa_1] = t1[i5 * 14 + spa * 7 + spa_1] + t0[i5 * 84 + spa * 42 + red * 7 + spa_1 + 14];
        }
      }
    }
  }
  #pragma unroll
  for (int i6 = 0; i6 < 5; ++i6) {
    #pragma unroll
    for (int i7 = 0; i7 < 7; ++i7) {
      p2[i6 * 7 + i7] = t1[i6 * 7 + i7];
    }
  }
}

// sum_warp_32_float32_False
extern "C" __global__ void __launch_bounds__(32)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  const int threadIdx_x = (int)threadIdx.x;
  float t0[6];
  float t1[3];
  #pragma unroll
  for (int i0 = 0; i0 < 2; ++i0) {
    #pragma unroll
    for (int i1 = 0; i1 < 3; ++i1) {
      t0[i0 * 3 + i1] = p0[threadIdx_x * 6 + i0 * 3 + i1];
    }
  }
  #pragma unroll
  for (int i2 = 0; i2 < 3; ++i2) {
    t1[i2] = p1[i2];
  }
  #pragma unroll
  for (int spa = 0; spa < 3; ++spa) {
    t1[spa] = 0.0f;
    #pragma unroll
    for (int red = 0; red < 2; ++red) {
      t1[spa] = t1[spa] + t0[red * 3 + spa];
    }
    float t1_other;
    t1_other = __shfl_xor_sync(0xffffffffu, t1[spa], 16);
    t1[spa] = t1[spa] + t1_other;
    t1_other = __shfl_xor_sync(0xffffffffu, t1[spa], 8);
    t1[spa] = t1[spa] + t1_other;
    t1_other = __shfl_xor_sync(0xffffffffu, t1[spa], 4);
    t1[spa] = t1[spa] + t1_other;
    t1_other = __shfl_xor_sync(0xffffffffu, t1[spa], 2);
    t1[spa] = t1[spa] + t1_other;
    t1_other = __shfl_xor_sync(0xffffffffu, t1[spa], 1);
    t1[spa] = t1[spa] + t1_other;
  }
  #pragma unroll
  for (int i3 = 0; i3 < 3; ++i3) {
    p2[threadIdx_x * 3 + i3] = t1[i3];
  }
}

// sum_cta_32_bfloat16_False
extern "C" __global__ void __launch_bounds__(32)
k_k0(const unsigned short* __restrict__ p0, const unsigned short* __restrict__ p1, unsigned short* __restrict__ p2) {
  const int threadIdx_x = (int)threadIdx.x;
  unsigned short t0[6];
  unsigned short t1[3];
  #pragma unroll
  for (int i0 = 0; i0 < 2; ++i0) {
    #pragma unroll
    for (int i1 = 0; i1 < 3; ++i1) {
      t0[i0 * 3 + i1] = p0[threadIdx_x * 6 + i0 * 3 + i1];
    }
  }
  #pragma unroll
  for (int i2 = 0; i2 < 3; ++i2) {
    t1[i2] = p1[i2];
  }
  #pragma unroll
  for (int spa = 0; spa < 3; ++spa) {
    float t1_acc;
    t1_acc = 0.0f;
    #pragma unroll
    for (int red = 0; red < 2; ++red) {
      t1_acc = t1_acc + dl_f32_from_bf16(t0[red * 3 + spa]);
    }
    float t1_other;
    t1_other = __shfl_xor_sync(0xffffffffu, t1_acc, 16);
    t1_acc = t1_acc + t1_other;
    t1_other = __shfl_xor_sync(0xffffffffu, t1_acc, 8);
    t1_acc = t1_acc + t1_other;
    t1_other = __shfl_xor_sync(0xffffffffu, t1_acc, 4);
    t1_acc = t1_acc + t1_other;
    t1_other = __shfl_xor_sync(0xffffffffu, t1_acc, 2);
    t1_acc = t1_acc + t1_other;
    t1_other = __shfl_xor_sync(0xffffffffu, t1_acc, 1);
    t1_acc = t1_acc + t1_other;
    t1[spa] = dl_bf16_from_f32(t1_acc);
  }
  #pragma unroll
  for (int i3 = 0; i3 < 3; ++i3) {
    p2[threadIdx_x * 3 + i3] = t1[i3];
  }
}


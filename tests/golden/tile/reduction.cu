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

// sum_block_2x64x1x2_all_False
extern "C" __global__ void __launch_bounds__(128)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  const int threadIdx_x = (int)threadIdx.x;
  float t0[2];
  float t1[2];
  __shared__ __align__(16) float t1_stage[8];
  #pragma unroll 1
  for (int i0 = 0; i0 < 2; ++i0) {
    #pragma unroll
    for (int i1 = 0; i1 < 2; ++i1) {
      t0[i1] = p0[i0 * 256 + threadIdx_x * 2 + i1];
    }
    #pragma unroll
    for (int i2 = 0; i2 < 2; ++i2) {
      t1[i2] = p1[i0 * 4 + (threadIdx_x >> 6) * 2 + i2];
    }
    __syncthreads();
    #pragma unroll
    for (int spa = 0; spa < 2; ++spa) {
      float t1_acc = t0[spa];
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
      if ((threadIdx_x & 31) == 0) {
        t1_stage[(threadIdx_x >> 5) * 2 + spa] = t1_acc;
      }
    }
    __syncthreads();
    #pragma unroll
    for (int spa_1 = 0; spa_1 < 2; ++spa_1) {
      float t1_sum = t1_stage[(threadIdx_x >> 6) * 4 + (threadIdx_x & 1) * 2 + spa_1];
      float t1_other_1;
      t1_other_1 = __shfl_xor_sync(0xffffffffu, t1_sum, 1, 2);
      t1_sum = t1_sum + t1_other_1;
      t1[spa_1] = t1_sum;
    }
    #pragma unroll
    for (int i3 = 0; i3 < 2; ++i3) {
      p2[i0 * 256 + threadIdx_x * 2 + i3] = t1[i3];
    }
  }
}

// sum_block_2x3x5x2_first_False
extern "C" __global__ void __launch_bounds__(30)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  const int threadIdx_x = (int)threadIdx.x;
  float t0[2];
  float t1[2];
  __shared__ __align__(16) float t1_stage[60];
  #pragma unroll 1
  for (int i0 = 0; i0 < 2; ++i0) {
    #pragma unroll
    for (int i1 = 0; i1 < 2; ++i1) {
      t0[i1] = p0[i0 * 60 + threadIdx_x * 2 + i1];
    }
    if (threadIdx_x / 5 % 3 == 0) {
      #pragma unroll
      for (int i2 = 0; i2 < 2; ++i2) {
        t1[i2] = p1[i0 * 20 + threadIdx_x / 15 * 10 + threadIdx_x % 5 * 2 + i2];
      }
    }
    __syncthreads();
    #pragma unroll
    for (int spa = 0; spa < 2; ++spa) {
      float t1_acc = t0[spa];
      t1_stage[threadIdx_x / 5 % 3 * 20 + spa * 10 + threadIdx_x / 15 * 5 + threadIdx_x % 5] = t1_acc;
    }
    __syncthreads();
    #pragma unroll
    for (int spa_1 = 0; spa_1 < 2; ++spa_1) {
      float t1_sum = 0.0f;
      if (threadIdx_x / 5 % 3 == 0) {
        t1_sum = t1_stage[spa_1 * 10 + threadIdx_x / 15 * 5 + threadIdx_x % 5];
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          t1_sum = t1_sum + t1_stage[i * 20 + spa_1 * 10 + threadIdx_x / 15 * 5 + threadIdx_x % 5 + 20];
        }
      }
      t1[spa_1] = t1_sum;
    }
    if (threadIdx_x / 5 % 3 == 0) {
      #pragma unroll
      for (int i3 = 0; i3 < 2; ++i3) {
        p2[i0 * 20 + threadIdx_x / 15 * 10 + threadIdx_x % 5 * 2 + i3] = t1[i3];
      }
    }
  }
}

// sum_shared_32_4x8_float32_False
extern "C" __global__ void __launch_bounds__(32)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  const int threadIdx_x = (int)threadIdx.x;
  __shared__ __align__(16) float t0[32];
  __shared__ __align__(16) float t1[4];
  t0[threadIdx_x] = p0[threadIdx_x];
  if (threadIdx_x < 4) {
    t1[threadIdx_x & 3] = p1[threadIdx_x & 3];
  }
  __syncthreads();
  float t1_acc = t0[threadIdx_x];
  float t1_other;
  t1_other = __shfl_xor_sync(0xffffffffu, t1_acc, 1, 8);
  t1_acc = t1_acc + t1_other;
  t1_other = __shfl_xor_sync(0xffffffffu, t1_acc, 2, 8);
  t1_acc = t1_acc + t1_other;
  t1_other = __shfl_xor_sync(0xffffffffu, t1_acc, 4, 8);
  t1_acc = t1_acc + t1_other;
  if ((threadIdx_x & 7) == 0) {
    t1[threadIdx_x >> 3] = t1_acc;
  }
  __syncthreads();
  __syncthreads();
  if (threadIdx_x < 4) {
    p2[threadIdx_x & 3] = t1[threadIdx_x & 3];
  }
}

// sum_warp_32_float32_True
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
    float t1_acc = 0.0f;
    #pragma unroll
    for (int red = 0; red < 2; ++red) {
      t1_acc = t1_acc + t0[red * 3 + spa];
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
    t1[spa] = t1[spa] + t1_acc;
  }
  #pragma unroll
  for (int i3 = 0; i3 < 3; ++i3) {
    p2[threadIdx_x * 3 + i3] = t1[i3];
  }
}

// sum_block_1x4x32x2_all_True
extern "C" __global__ void __launch_bounds__(128)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  const int threadIdx_x = (int)threadIdx.x;
  float t0[2];
  float t1[2];
  __shared__ __align__(16) float t1_stage[256];
  #pragma unroll 1
  for (int i0 = 0; i0 < 2; ++i0) {
    #pragma unroll
    for (int i1 = 0; i1 < 2; ++i1) {
      t0[i1] = p0[i0 * 256 + threadIdx_x * 2 + i1];
    }
    #pragma unroll
    for (int i2 = 0; i2 < 2; ++i2) {
      t1[i2] = p1[i0 * 64 + (threadIdx_x & 31) * 2 + i2];
    }
    __syncthreads();
    #pragma unroll
    for (int spa = 0; spa < 2; ++spa) {
      float t1_acc = t0[spa];
      t1_stage[(threadIdx_x >> 5) * 64 + spa * 32 + (threadIdx_x & 31)] = t1_acc;
    }
    __syncthreads();
    #pragma unroll
    for (int spa_1 = 0; spa_1 < 2; ++spa_1) {
      float t1_sum = t1_stage[spa_1 * 32 + (threadIdx_x & 31)];
      #pragma unroll
      for (int i = 0; i < 3; ++i) {
        t1_sum = t1_sum + t1_stage[i * 64 + spa_1 * 32 + (threadIdx_x & 31) + 64];
      }
      t1[spa_1] = t1[spa_1] + t1_sum;
    }
    #pragma unroll
    for (int i3 = 0; i3 < 2; ++i3) {
      p2[i0 * 256 + threadIdx_x * 2 + i3] = t1[i3];
    }
  }
}

// max_thread_5_float16_True
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
  float t1_acc = dl_f32_from_f16(t1[0]);
  #pragma unroll
  for (int red = 0; red < 5; ++red) {
    t1_acc = fmaxf(t1_acc, dl_f32_from_f16(t0[red]));
  }
  t1[0] = dl_f16_from_f32(t1_acc);
  p2[threadIdx_x] = t1[0];
}

// min_shared_32_2x700_float32_True
extern "C" __global__ void __launch_bounds__(32)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  const int threadIdx_x = (int)threadIdx.x;
  __builtin_assume(threadIdx_x < 32);
  __shared__ __align__(16) float t0[1400];
  __shared__ __align__(16) float t1[2];
  #pragma unroll 1
  for (int i0 = 0; i0 < 44; ++i0) {
    if (i0 * 32 + threadIdx_x < 1400) {
      t0[(i0 * 32 + threadIdx_x) % 1400] = p0[(i0 * 32 + threadIdx_x) % 1400];
    }
  }
  if (threadIdx_x < 2) {
    t1[threadIdx_x & 1] = p1[threadIdx_x & 1];
  }
  __syncthreads();
  #pragma unroll
  for (int spa = 0; spa < 2; ++spa) {
    float t1_acc = __uint_as_float(0x7f800000u);
    #pragma unroll 1
    for (int red = 0; red < 3; ++red) {
      #pragma unroll
      for (int red_1 = 0; red_1 < 8; ++red_1) {
        if (red * 256 + red_1 * 32 + threadIdx_x < 700) {
          t1_acc = fminf(t1_acc, t0[spa * 700 + red * 256 + red_1 * 32 + threadIdx_x]);
        }
      }
    }
    float t1_other;
    t1_other = __shfl_xor_sync(0xffffffffu, t1_acc, 1);
    t1_acc = fminf(t1_acc, t1_other);
    t1_other = __shfl_xor_sync(0xffffffffu, t1_acc, 2);
    t1_acc = fminf(t1_acc, t1_other);
    t1_other = __shfl_xor_sync(0xffffffffu, t1_acc, 4);
    t1_acc = fminf(t1_acc, t1_other);
    t1_other = __shfl_xor_sync(0xffffffffu, t1_acc, 8);
    t1_acc = fminf(t1_acc, t1_other);
    t1_other = __shfl_xor_sync(0xffffffffu, t1_acc, 16);
    t1_acc = fminf(t1_acc, t1_other);
    if (threadIdx_x == 0) {
      t1[spa] = fminf(t1[spa], t1_acc);
    }
  }
  __syncthreads();
  __syncthreads();
  if (threadIdx_x < 2) {
    p2[threadIdx_x & 1] = t1[threadIdx_x & 1];
  }
}


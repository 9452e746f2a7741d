// sum_vector_8_from_0_True
extern "C" __global__ void __launch_bounds__(1)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  float t0[8];
  float t1[1];
  __align__(8) float t1_acc[8];
  #pragma unroll
  for (int i0 = 0; i0 < 8; ++i0) {
    t0[i0] = p0[i0];
  }
  t1[0] = p1[0];
  t1_acc[0] = t1[0] + t0[0];
  t1_acc[1] = t0[1];
  t1_acc[2] = t0[2];
  t1_acc[3] = t0[3];
  t1_acc[4] = t0[4];
  t1_acc[5] = t0[5];
  t1_acc[6] = t0[6];
  t1_acc[7] = t0[7];
  dl_add_rn_ftz_f32x2(&t1_acc[0], &t1_acc[0], &t1_acc[2]);
  dl_add_rn_ftz_f32x2(&t1_acc[4], &t1_acc[4], &t1_acc[6]);
  dl_add_rn_ftz_f32x2(&t1_acc[0], &t1_acc[0], &t1_acc[4]);
  t1[0] = t1_acc[0] + t1_acc[1];
  p2[0] = t1[0];
}

// sum_vector_32_from_0_True
extern "C" __global__ void __launch_bounds__(1)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  __align__(8) float t0[32];
  float t1[1];
  __align__(8) float t1_acc[8];
  #pragma unroll
  for (int i0 = 0; i0 < 32; ++i0) {
    t0[i0] = p0[i0];
  }
  t1[0] = p1[0];
  t1_acc[0] = t1[0] + t0[0];
  t1_acc[1] = t0[1];
  t1_acc[2] = t0[2];
  t1_acc[3] = t0[3];
  t1_acc[4] = t0[4];
  t1_acc[5] = t0[5];
  t1_acc[6] = t0[6];
  t1_acc[7] = t0[7];
  #pragma unroll
  for (int chunk = 0; chunk < 3; ++chunk) {
    dl_add_rn_ftz_f32x2(&t1_acc[0], &t1_acc[0], &t0[chunk * 8 + 8]);
    dl_add_rn_ftz_f32x2(&t1_acc[2], &t1_acc[2], &t0[chunk * 8 + 10]);
    dl_add_rn_ftz_f32x2(&t1_acc[4], &t1_acc[4], &t0[chunk * 8 + 12]);
    dl_add_rn_ftz_f32x2(&t1_acc[6], &t1_acc[6], &t0[chunk * 8 + 14]);
  }
  dl_add_rn_ftz_f32x2(&t1_acc[0], &t1_acc[0], &t1_acc[2]);
  dl_add_rn_ftz_f32x2(&t1_acc[4], &t1_acc[4], &t1_acc[6]);
  dl_add_rn_ftz_f32x2(&t1_acc[0], &t1_acc[0], &t1_acc[4]);
  t1[0] = t1_acc[0] + t1_acc[1];
  p2[0] = t1[0];
}

// sum_vector_45_from_0_True
extern "C" __global__ void __launch_bounds__(1)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  __align__(8) float t0[45];
  float t1[1];
  __align__(8) float t1_acc[8];
  #pragma unroll
  for (int i0 = 0; i0 < 45; ++i0) {
    t0[i0] = p0[i0];
  }
  t1[0] = p1[0];
  t1_acc[0] = t1[0] + t0[0];
  t1_acc[1] = t0[1];
  t1_acc[2] = t0[2];
  t1_acc[3] = t0[3];
  t1_acc[4] = t0[4];
  t1_acc[5] = t0[5];
  t1_acc[6] = t0[6];
  t1_acc[7] = t0[7];
  #pragma unroll
  for (int chunk = 0; chunk < 4; ++chunk) {
    dl_add_rn_ftz_f32x2(&t1_acc[0], &t1_acc[0], &t0[chunk * 8 + 8]);
    dl_add_rn_ftz_f32x2(&t1_acc[2], &t1_acc[2], &t0[chunk * 8 + 10]);
    dl_add_rn_ftz_f32x2(&t1_acc[4], &t1_acc[4], &t0[chunk * 8 + 12]);
    dl_add_rn_ftz_f32x2(&t1_acc[6], &t1_acc[6], &t0[chunk * 8 + 14]);
  }
  t1_acc[0] = t1_acc[0] + t0[40];
  t1_acc[1] = t1_acc[1] + t0[41];
  t1_acc[2] = t1_acc[2] + t0[42];
  t1_acc[3] = t1_acc[3] + t0[43];
  t1_acc[4] = t1_acc[4] + t0[44];
  dl_add_rn_ftz_f32x2(&t1_acc[0], &t1_acc[0], &t1_acc[2]);
  dl_add_rn_ftz_f32x2(&t1_acc[4], &t1_acc[4], &t1_acc[6]);
  dl_add_rn_ftz_f32x2(&t1_acc[0], &t1_acc[0], &t1_acc[4]);
  t1[0] = t1_acc[0] + t1_acc[1];
  p2[0] = t1[0];
}

// sum_vector_27_from_1_True
extern "C" __global__ void __launch_bounds__(1)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  float t0[28];
  float t1[1];
  __align__(8) float t0_chunk[8];
  __align__(8) float t1_acc[8];
  #pragma unroll
  for (int i0 = 0; i0 < 27; ++i0) {
    t0[i0 + 1] = p0[i0];
  }
  t1[0] = p1[0];
  t1_acc[0] = t1[0] + t0[1];
  t1_acc[1] = t0[2];
  t1_acc[2] = t0[3];
  t1_acc[3] = t0[4];
  t1_acc[4] = t0[5];
  t1_acc[5] = t0[6];
  t1_acc[6] = t0[7];
  t1_acc[7] = t0[8];
  #pragma unroll
  for (int chunk = 0; chunk < 2; ++chunk) {
    t0_chunk[0] = t0[chunk * 8 + 9];
    t0_chunk[1] = t0[chunk * 8 + 10];
    t0_chunk[2] = t0[chunk * 8 + 11];
    t0_chunk[3] = t0[chunk * 8 + 12];
    t0_chunk[4] = t0[chunk * 8 + 13];
    t0_chunk[5] = t0[chunk * 8 + 14];
    t0_chunk[6] = t0[chunk * 8 + 15];
    t0_chunk[7] = t0[chunk * 8 + 16];
    dl_add_rn_ftz_f32x2(&t1_acc[0], &t1_acc[0], &t0_chunk[0]);
    dl_add_rn_ftz_f32x2(&t1_acc[2], &t1_acc[2], &t0_chunk[2]);
    dl_add_rn_ftz_f32x2(&t1_acc[4], &t1_acc[4], &t0_chunk[4]);
    dl_add_rn_ftz_f32x2(&t1_acc[6], &t1_acc[6], &t0_chunk[6]);
  }
  t1_acc[0] = t1_acc[0] + t0[25];
  t1_acc[1] = t1_acc[1] + t0[26];
  t1_acc[2] = t1_acc[2] + t0[27];
  dl_add_rn_ftz_f32x2(&t1_acc[0], &t1_acc[0], &t1_acc[2]);
  dl_add_rn_ftz_f32x2(&t1_acc[4], &t1_acc[4], &t1_acc[6]);
  dl_add_rn_ftz_f32x2(&t1_acc[0], &t1_acc[0], &t1_acc[4]);
  t1[0] = t1_acc[0] + t1_acc[1];
  p2[0] = t1[0];
}

// max_vector_8_from_0_True
extern "C" __global__ void __launch_bounds__(1)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  float t0[8];
  float t1[1];
  float t1_acc[4];
  #pragma unroll
  for (int i0 = 0; i0 < 8; ++i0) {
    t0[i0] = p0[i0];
  }
  t1[0] = p1[0];
  t1_acc[0] = dl_max3_f32(t1[0], t0[0], t0[1]);
  t1_acc[1] = fmaxf(t0[2], t0[3]);
  t1_acc[2] = fmaxf(t0[4], t0[5]);
  t1_acc[3] = fmaxf(t0[6], t0[7]);
  t1_acc[0] = dl_max3_f32(t1_acc[0], t1_acc[1], t1_acc[2]);
  t1[0] = fmaxf(t1_acc[0], t1_acc[3]);
  p2[0] = t1[0];
}

// max_vector_32_from_0_True
extern "C" __global__ void __launch_bounds__(1)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  float t0[32];
  float t1[1];
  float t1_acc[4];
  #pragma unroll
  for (int i0 = 0; i0 < 32; ++i0) {
    t0[i0] = p0[i0];
  }
  t1[0] = p1[0];
  t1_acc[0] = dl_max3_f32(t1[0], t0[0], t0[1]);
  t1_acc[1] = fmaxf(t0[2], t0[3]);
  t1_acc[2] = fmaxf(t0[4], t0[5]);
  t1_acc[3] = fmaxf(t0[6], t0[7]);
  #pragma unroll
  for (int chunk = 0; chunk < 3; ++chunk) {
    t1_acc[0] = dl_max3_f32(t1_acc[0], t0[chunk * 8 + 8], t0[chunk * 8 + 9]);
    t1_acc[1] = dl_max3_f32(t1_acc[1], t0[chunk * 8 + 10], t0[chunk * 8 + 11]);
    t1_acc[2] = dl_max3_f32(t1_acc[2], t0[chunk * 8 + 12], t0[chunk * 8 + 13]);
    t1_acc[3] = dl_max3_f32(t1_acc[3], t0[chunk * 8 + 14], t0[chunk * 8 + 15]);
  }
  t1_acc[0] = dl_max3_f32(t1_acc[0], t1_acc[1], t1_acc[2]);
  t1[0] = fmaxf(t1_acc[0], t1_acc[3]);
  p2[0] = t1[0];
}

// max_vector_45_from_0_True
extern "C" __global__ void __launch_bounds__(1)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  float t0[45];
  float t1[1];
  float t1_acc[4];
  #pragma unroll
  for (int i0 = 0; i0 < 45; ++i0) {
    t0[i0] = p0[i0];
  }
  t1[0] = p1[0];
  t1_acc[0] = dl_max3_f32(t1[0], t0[0], t0[1]);
  t1_acc[1] = fmaxf(t0[2], t0[3]);
  t1_acc[2] = fmaxf(t0[4], t0[5]);
  t1_acc[3] = fmaxf(t0[6], t0[7]);
  #pragma unroll
  for (int chunk = 0; chunk < 4; ++chunk) {
    t1_acc[0] = dl_max3_f32(t1_acc[0], t0[chunk * 8 + 8], t0[chunk * 8 + 9]);
    t1_acc[1] = dl_max3_f32(t1_acc[1], t0[chunk * 8 + 10], t0[chunk * 8 + 11]);
    t1_acc[2] = dl_max3_f32(t1_acc[2], t0[chunk * 8 + 12], t0[chunk * 8 + 13]);
    t1_acc[3] = dl_max3_f32(t1_acc[3], t0[chunk * 8 + 14], t0[chunk * 8 + 15]);
  }
  t1_acc[0] = dl_max3_f32(t1_acc[0], t0[40], t0[41]);
  t1_acc[1] = dl_max3_f32(t1_acc[1], t0[42], t0[43]);
  t1_acc[3] = fmaxf(t1_acc[3], t0[44]);
  t1_acc[0] = dl_max3_f32(t1_acc[0], t1_acc[1], t1_acc[2]);
  t1[0] = fmaxf(t1_acc[0], t1_acc[3]);
  p2[0] = t1[0];
}

// max_vector_27_from_1_True
extern "C" __global__ void __launch_bounds__(1)
k_k0(const float* __restrict__ p0, const float* __restrict__ p1, float* __restrict__ p2) {
  float t0[28];
  float t1[1];
  float t1_acc[4];
  #pragma unroll
  for (int i0 = 0; i0 < 27; ++i0) {
    t0[i0 + 1] = p0[i0];
  }
  t1[0] = p1[0];
  t1_acc[0] = dl_max3_f32(t1[0], t0[1], t0[2]);
  t1_acc[1] = fmaxf(t0[3], t0[4]);
  t1_acc[2] = fmaxf(t0[5], t0[6]);
  t1_acc[3] = fmaxf(t0[7], t0[8]);
  #pragma unroll
  for (int chunk = 0; chunk < 2; ++chunk) {
    t1_acc[0] = dl_max3_f32(t1_acc[0], t0[chunk * 8 + 9], t0[chunk * 8 + 10]);
    t1_acc[1] = dl_max3_f32(t1_acc[1], t0[chunk * 8 + 11], t0[chunk * 8 + 12]);
    t1_acc[2] = dl_max3_f32(t1_acc[2], t0[chunk * 8 + 13], t0[chunk * 8 + 14]);
    t1_acc[3] = dl_max3_f32(t1_acc[3], t0[chunk * 8 + 15], t0[chunk * 8 + 16]);
  }
  t1_acc[0] = dl_max3_f32(t1_acc[0], t0[25], t0[26]);
  t1_acc[3] = fmaxf(t1_acc[3], t0[27]);
  t1_acc[0] = dl_max3_f32(t1_acc[0], t1_acc[1], t1_acc[2]);
  t1[0] = fmaxf(t1_acc[0], t1_acc[3]);
  p2[0] = t1[0];
}


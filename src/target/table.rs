//! The GPUs, one row each. To add one: one row, nothing else.
//!
//! Bandwidths "reached" are measured on the H200 (sm_90a); the other rows carry what the vendor or
//! published benchmarks state, and are replaced when somebody measures.

use super::Features;
use crate::ir::DType::{self, BF16, E4M3, E5M2, F16, F32, F64, I8, U8};

/// A GPU architecture and the product whose figures stand for it.
#[derive(Clone, PartialEq, Debug)]
pub struct CudaArch {
    /// As NVRTC names it, `sm_90a`.
    pub arch: &'static str,
    /// The architecture whose code runs on all GPUs of the family, where the table has several.
    pub family: Option<&'static str>,
    /// The product.
    pub product: &'static str,
    /// Compute capability times ten.
    pub sm: u32,
    /// Multiprocessors.
    pub sms: u32,
    /// Resident threads per multiprocessor.
    pub threads_per_sm: u32,
    /// Resident blocks per multiprocessor.
    pub blocks_per_sm: u32,
    /// Opt-in shared memory of one block; the multiprocessor has 1 KiB more.
    pub smem_per_block_kib: u32,
    /// L2 cache.
    pub l2_mib: u64,
    /// DRAM bandwidth at the pins.
    pub dram_gbps: f64,
    /// Bandwidth that the best copy reaches.
    pub copy_gbps: f64,
    /// Bandwidth that the best reading kernel reaches.
    pub read_gbps: f64,
    /// Rate of the hardware by input dtype (dense, float32 accumulation).
    pub peak_tflops: &'static [(DType, f64)],
    /// Rate that libraries reach, where measured.
    pub reached_tflops: &'static [(DType, f64)],
    /// Widest load of one thread in bytes.
    pub max_load_bytes: u32,
    /// Bytes in flight per multiprocessor that saturate DRAM.
    pub bytes_in_flight_kib: u32,
    /// Largest portable cluster.
    pub max_cluster: u32,
    /// Instructions.
    pub has: Features,
}

impl CudaArch {
    /// The row of `sm_90a`; the letter may be left out.
    pub fn find(arch: &str) -> Option<&'static CudaArch> {
        TABLE.iter().find(|a| a.arch == arch || a.arch.trim_end_matches('a') == arch)
    }
}

const AMPERE: Features = Features {
    mma: true,
    fp8_mma: false,
    block_scale_mma: false,
    cp_async: true,
    stmatrix: false,
    tma: false,
    wgmma: false,
    tcgen05: false,
    tcgen05_i8: false,
    launch_control: false,
    f32x2: false,
    packed_f32: false,
    fold3: false,
    native_fold3: false,
    mixed_f16: false,
};
const ADA: Features = Features { fp8_mma: true, ..AMPERE };
const HOPPER: Features = Features { stmatrix: true, tma: true, wgmma: true, ..AMPERE };
/// The assembler takes packed and three-operand forms here, and expands them.
const BLACKWELL_RTX: Features = Features {
    fp8_mma: true,
    block_scale_mma: true,
    stmatrix: true,
    tma: true,
    launch_control: true,
    f32x2: true,
    fold3: true,
    mixed_f16: true,
    ..AMPERE
};
const BLACKWELL: Features = Features {
    fp8_mma: false,
    block_scale_mma: false,
    tcgen05: true,
    tcgen05_i8: true,
    packed_f32: true,
    native_fold3: true,
    ..BLACKWELL_RTX
};
const BLACKWELL_ULTRA: Features = Features { tcgen05_i8: false, ..BLACKWELL };

/// All rows, oldest first.
pub(super) const TABLE: &[CudaArch] = &[
    CudaArch {
        arch: "sm_80",
        family: None,
        product: "NVIDIA A100-SXM4-80GB",
        sm: 80,
        sms: 108,
        threads_per_sm: 2048,
        blocks_per_sm: 32,
        smem_per_block_kib: 163,
        l2_mib: 40,
        dram_gbps: 2039.0,
        copy_gbps: 1830.0,
        read_gbps: 1830.0,
        peak_tflops: &[(F64, 19.5), (F32, 19.5), (F16, 312.0), (BF16, 312.0), (I8, 624.0), (U8, 624.0)],
        reached_tflops: &[],
        max_load_bytes: 16,
        bytes_in_flight_kib: 16,
        max_cluster: 1,
        has: AMPERE,
    },
    CudaArch {
        arch: "sm_86",
        family: None,
        product: "NVIDIA GeForce RTX 3090",
        sm: 86,
        sms: 82,
        threads_per_sm: 1536,
        blocks_per_sm: 16,
        smem_per_block_kib: 99,
        l2_mib: 6,
        dram_gbps: 936.0,
        copy_gbps: 850.0,
        read_gbps: 850.0,
        peak_tflops: &[(F64, 0.56), (F32, 35.6), (F16, 71.0), (BF16, 71.0), (I8, 284.0), (U8, 284.0)],
        reached_tflops: &[],
        max_load_bytes: 16,
        bytes_in_flight_kib: 16,
        max_cluster: 1,
        has: AMPERE,
    },
    CudaArch {
        arch: "sm_89",
        family: None,
        product: "NVIDIA GeForce RTX 4090",
        sm: 89,
        sms: 128,
        threads_per_sm: 1536,
        blocks_per_sm: 24,
        smem_per_block_kib: 99,
        l2_mib: 72,
        dram_gbps: 1008.0,
        copy_gbps: 920.0,
        read_gbps: 920.0,
        peak_tflops: &[
            (F64, 1.3),
            (F32, 82.6),
            (F16, 165.2),
            (BF16, 165.2),
            (E4M3, 330.3),
            (E5M2, 330.3),
            (I8, 660.6),
            (U8, 660.6),
        ],
        reached_tflops: &[],
        max_load_bytes: 16,
        bytes_in_flight_kib: 16,
        max_cluster: 1,
        has: ADA,
    },
    CudaArch {
        arch: "sm_90a",
        family: None,
        product: "NVIDIA H200",
        sm: 90,
        sms: 132,
        threads_per_sm: 2048,
        blocks_per_sm: 32,
        smem_per_block_kib: 227,
        l2_mib: 60,
        dram_gbps: 4800.0,
        copy_gbps: 4450.0,
        read_gbps: 4620.0,
        peak_tflops: &[
            (F64, 66.9),
            (F32, 66.9),
            (F16, 989.0),
            (BF16, 989.0),
            (E4M3, 1979.0),
            (E5M2, 1979.0),
            (I8, 1979.0),
            (U8, 1979.0),
        ],
        reached_tflops: &[(F32, 50.8), (F16, 780.0), (BF16, 780.0)],
        max_load_bytes: 16,
        bytes_in_flight_kib: 48,
        max_cluster: 8,
        has: HOPPER,
    },
    CudaArch {
        arch: "sm_100a",
        family: Some("sm_100f"),
        product: "NVIDIA B200",
        sm: 100,
        sms: 148,
        threads_per_sm: 2048,
        blocks_per_sm: 32,
        smem_per_block_kib: 227,
        l2_mib: 126,
        dram_gbps: 8000.0,
        copy_gbps: 7400.0,
        read_gbps: 7400.0,
        peak_tflops: &[
            (F64, 40.0),
            (F32, 80.0),
            (F16, 2250.0),
            (BF16, 2250.0),
            (E4M3, 4500.0),
            (E5M2, 4500.0),
            (I8, 4500.0),
            (U8, 4500.0),
        ],
        reached_tflops: &[],
        max_load_bytes: 32,
        bytes_in_flight_kib: 64,
        max_cluster: 8,
        has: BLACKWELL,
    },
    CudaArch {
        arch: "sm_103a",
        family: Some("sm_100f"),
        product: "NVIDIA B300",
        sm: 103,
        sms: 148,
        threads_per_sm: 2048,
        blocks_per_sm: 32,
        smem_per_block_kib: 227,
        l2_mib: 126,
        dram_gbps: 8000.0,
        copy_gbps: 7400.0,
        read_gbps: 7400.0,
        peak_tflops: &[(F64, 1.3), (F32, 80.0), (F16, 2500.0), (BF16, 2500.0), (E4M3, 5000.0), (E5M2, 5000.0)],
        reached_tflops: &[],
        max_load_bytes: 32,
        bytes_in_flight_kib: 64,
        max_cluster: 8,
        has: BLACKWELL_ULTRA,
    },
    CudaArch {
        arch: "sm_120a",
        family: None,
        product: "NVIDIA GeForce RTX 5090",
        sm: 120,
        sms: 170,
        threads_per_sm: 1536,
        blocks_per_sm: 24,
        smem_per_block_kib: 99,
        l2_mib: 96,
        dram_gbps: 1792.0,
        copy_gbps: 1660.0,
        read_gbps: 1660.0,
        peak_tflops: &[
            (F64, 1.64),
            (F32, 104.8),
            (F16, 209.5),
            (BF16, 209.5),
            (E4M3, 419.0),
            (E5M2, 419.0),
            (I8, 838.0),
            (U8, 838.0),
        ],
        reached_tflops: &[],
        max_load_bytes: 32,
        bytes_in_flight_kib: 32,
        max_cluster: 8,
        has: BLACKWELL_RTX,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_consistent() {
        for a in TABLE {
            assert_eq!(a.arch.trim_start_matches("sm_").trim_end_matches('a'), a.sm.to_string());
            assert!(a.copy_gbps <= a.read_gbps && a.read_gbps < a.dram_gbps, "{}", a.arch);
            for (d, reached) in a.reached_tflops {
                assert!(a.peak_tflops.iter().any(|(p, peak)| p == d && peak >= reached), "{} {d}", a.arch);
            }
        }
    }
}

//! Targets as data: rules read fields, never names.
//!
//! A target is what a kernel is built for and what its limits are. `table` holds the GPUs, one row
//! each; a CPU target takes its caches and cores from the machine, which the caller reads and
//! passes in as [`HostCpu`]. `sim:sm_NN` is the row of that GPU, run by the simulator.

// A path begins with a module of `daylight` everywhere, in that module too.
extern crate self as target;

use daylight_ir as ir;

mod table;

pub use crate::ir::nearest;
pub use table::CudaArch;

use crate::ir::DType;

/// What a kernel is built for. All sizes are bytes, bandwidths GB/s (10^9), rates TFLOP/s.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// `cuda:sm_90a`, `cpu:x86-64-v4` or `sim:sm_90`.
    pub id: String,
    /// The part after the colon, as compilers name it: `sm_90a`, `x86-64-v4`.
    pub arch: String,
    /// The architecture whose code runs on this GPU and on others of its family, as compilers name it
    /// (`sm_100f`); `None` where there are no others.
    pub family_arch: Option<&'static str>,
    /// Which programming model generated code follows.
    pub kind: Kind,
    /// True for `sim:`: built for a GPU, run by the simulator.
    pub simulated: bool,
    /// The product whose figures these are.
    pub product: String,
    /// Compute capability times ten (`90`); 0 on the CPU.
    pub sm: u32,
    /// Threads that run in lockstep; 1 on the CPU.
    pub warp: u32,
    /// Threads per block at most; 1 on the CPU.
    pub max_threads: u32,
    /// Resident threads per multiprocessor.
    pub threads_per_sm: u32,
    /// Resident blocks per multiprocessor.
    pub blocks_per_sm: u32,
    /// 32-bit registers per multiprocessor.
    pub regs_per_sm: u32,
    /// Shared memory that one block may have (opt-in limit).
    pub smem_per_block: u32,
    /// Shared memory of a multiprocessor.
    pub smem_per_sm: u32,
    /// Shared memory of a multiprocessor that each resident block costs besides its own.
    pub smem_reserved: u32,
    /// Multiprocessors; cores on the CPU.
    pub sms: u32,
    /// Cores of the CPU; 0 on a GPU.
    pub cores: u32,
    /// Last-level cache: the GPU's L2, the CPU's outermost cache.
    pub l2_bytes: u64,
    /// Level-1 data cache of one CPU core; 0 on a GPU.
    pub l1_bytes: u64,
    /// Level-2 cache of one CPU core; 0 on a GPU.
    pub core_l2_bytes: u64,
    /// DRAM bandwidth at the pins, which no kernel can exceed; 0 where unknown.
    pub dram_gbps: f64,
    /// Bandwidth reached by the best copy; 0 where unknown.
    pub copy_gbps: f64,
    /// Bandwidth reached by the best kernel that only reads; 0 where unknown.
    pub read_gbps: f64,
    /// The same of the product of the table, whatever DRAM the device has: what is on the chip goes with that.
    pub product_gbps: f64,
    /// Arithmetic rate of the hardware by input dtype, tensor cores included.
    pub peak_tflops: Vec<(DType, f64)>,
    /// Rate that the best known library reaches, by input dtype.
    pub reached_tflops: Vec<(DType, f64)>,
    /// Widest load of one thread (16, 32 from sm_100 on); the vector width on the CPU.
    pub max_load_bytes: u32,
    /// Width of a vector register on the CPU; 0 on a GPU.
    pub vector_bytes: u32,
    /// Bytes in flight that one multiprocessor needs to saturate DRAM; 0 where unknown.
    pub bytes_in_flight: u32,
    /// Largest portable cluster of blocks; 1 where there are none.
    pub max_cluster: u32,
    /// Instructions that only some GPUs have.
    pub has: Features,
}

/// The programming model of a target.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// CUDA C++, compiled by NVRTC.
    Cuda,
    /// C, compiled by the system's compiler.
    Cpu,
}

/// Instructions that only some GPUs have. An assembler may take an instruction and expand it into
/// others; where that matters one field says that it is taken, and one that it is an instruction in
/// hardware. `tests/blackwell.rs` holds every field against the assembler.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Features {
    /// Warp-wide matrix instructions on float16, bfloat16, TF32 and int8 (`mma.sync`).
    pub mma: bool,
    /// float8 `mma.sync` in hardware; elsewhere it is expanded into conversions and float16.
    pub fp8_mma: bool,
    /// `mma.sync` on numbers of 4 and 8 bits with a scale for each block of them (`block_scale`).
    pub block_scale_mma: bool,
    /// `cp.async` from global to shared memory.
    pub cp_async: bool,
    /// Stores of matrix fragments to shared memory (`stmatrix`).
    pub stmatrix: bool,
    /// Bulk copies through the tensor memory accelerator.
    pub tma: bool,
    /// Warp-group matrix instructions of sm_90a.
    pub wgmma: bool,
    /// Tensor memory and its matrix instructions (sm_100a, sm_103a).
    pub tcgen05: bool,
    /// Those on int8, which the second of the two lacks.
    pub tcgen05_i8: bool,
    /// Running blocks are given the work of those that have not started (`clusterlaunchcontrol`).
    pub launch_control: bool,
    /// Packed float32 arithmetic is taken (`add.f32x2`).
    pub f32x2: bool,
    /// It is one instruction in hardware.
    pub packed_f32: bool,
    /// `max` and `min` of three float32 operands are taken.
    pub fold3: bool,
    /// They are one instruction in hardware.
    pub native_fold3: bool,
    /// float32 sums and products of 16-bit operands in one instruction (`fma.rn.f32.f16`).
    pub mixed_f16: bool,
}

/// What the caller found out about the machine's CPU.
#[derive(Clone, PartialEq, Debug)]
pub struct HostCpu {
    /// `x86-64-v3`, `x86-64-v4` or `aarch64`; anything else has no CPU target.
    pub arch: String,
    /// Name of the processor.
    pub model: String,
    /// Cores that may be used.
    pub cores: u32,
    /// Level-1 data cache of a core.
    pub l1_bytes: u64,
    /// Level-2 cache of a core.
    pub l2_bytes: u64,
    /// The outermost cache.
    pub llc_bytes: u64,
    /// Copy bandwidth measured on this machine in GB/s, 0 if nobody measured it.
    pub copy_gbps: f64,
}

impl Default for HostCpu {
    /// A plain machine, for cross-compiling where nothing about the user's CPU is known.
    fn default() -> HostCpu {
        HostCpu {
            arch: "x86-64-v3".into(),
            model: "generic".into(),
            cores: 8,
            l1_bytes: 32 << 10,
            l2_bytes: 1 << 20,
            llc_bytes: 32 << 20,
            copy_gbps: 0.0,
        }
    }
}

/// CPU architectures with the width of their vector registers.
pub const CPU_ARCHS: [(&str, u32); 3] = [("x86-64-v3", 32), ("x86-64-v4", 64), ("aarch64", 16)];

impl Target {
    /// The target of that name: `cuda:sm_90a`, `cpu` (the host's), `cpu:x86-64-v4`, `sim:sm_90`.
    ///
    /// # Errors
    /// One sentence that names the nearest target, or lists all.
    pub fn parse(text: &str, host: &HostCpu) -> Result<Target, String> {
        match text.split_once(':') {
            None if text == "cpu" => Target::cpu(&host.arch, host).ok_or_else(|| {
                format!("this machine's processor ({}) is none of the CPU targets, which are {}", host.arch, cpu_ids())
            }),
            Some(("cpu", arch)) => Target::cpu(arch, host).ok_or_else(|| unknown(text)),
            Some(("cuda", arch)) => CudaArch::find(arch).map(|a| Target::cuda(a, false)).ok_or_else(|| unknown(text)),
            Some(("sim", arch)) => CudaArch::find(arch).map(|a| Target::cuda(a, true)).ok_or_else(|| unknown(text)),
            _ => Err(unknown(text)),
        }
    }

    /// Every name that [`Target::parse`] takes, `cpu` left out.
    pub fn names() -> Vec<String> {
        let cuda = table::TABLE.iter().map(|a| format!("cuda:{}", a.arch));
        let cpu = CPU_ARCHS.iter().map(|(a, _)| format!("cpu:{a}"));
        let sim = table::TABLE.iter().map(|a| format!("sim:sm_{}", a.sm));
        cuda.chain(cpu).chain(sim).collect()
    }

    fn cpu(arch: &str, host: &HostCpu) -> Option<Target> {
        let (arch, vector_bytes) = CPU_ARCHS.iter().find(|(a, _)| *a == arch)?;
        Some(Target {
            id: format!("cpu:{arch}"),
            arch: arch.to_string(),
            family_arch: None,
            kind: Kind::Cpu,
            simulated: false,
            product: host.model.clone(),
            sm: 0,
            warp: 1,
            max_threads: 1,
            threads_per_sm: 1,
            blocks_per_sm: 1,
            regs_per_sm: 0,
            smem_per_block: 0,
            smem_per_sm: 0,
            smem_reserved: 0,
            sms: host.cores,
            cores: host.cores,
            l2_bytes: host.llc_bytes,
            l1_bytes: host.l1_bytes,
            core_l2_bytes: host.l2_bytes,
            dram_gbps: 0.0,
            copy_gbps: host.copy_gbps,
            read_gbps: 0.0,
            product_gbps: 0.0,
            peak_tflops: vec![],
            reached_tflops: vec![],
            max_load_bytes: *vector_bytes,
            vector_bytes: *vector_bytes,
            bytes_in_flight: 0,
            max_cluster: 1,
            has: Features::default(),
        })
    }

    fn cuda(row: &CudaArch, simulated: bool) -> Target {
        let id = if simulated { format!("sim:sm_{}", row.sm) } else { format!("cuda:{}", row.arch) };
        Target {
            id,
            arch: row.arch.to_string(),
            family_arch: row.family,
            kind: Kind::Cuda,
            simulated,
            product: row.product.to_string(),
            sm: row.sm,
            warp: 32,
            max_threads: 1024,
            threads_per_sm: row.threads_per_sm,
            blocks_per_sm: row.blocks_per_sm,
            regs_per_sm: 65536,
            smem_per_block: row.smem_per_block_kib << 10,
            smem_per_sm: (row.smem_per_block_kib + 1) << 10,
            smem_reserved: 1024,
            sms: row.sms,
            cores: 0,
            l2_bytes: row.l2_mib << 20,
            l1_bytes: 0,
            core_l2_bytes: 0,
            dram_gbps: row.dram_gbps,
            copy_gbps: row.copy_gbps,
            read_gbps: row.read_gbps,
            product_gbps: row.read_gbps,
            peak_tflops: row.peak_tflops.to_vec(),
            reached_tflops: row.reached_tflops.to_vec(),
            max_load_bytes: row.max_load_bytes,
            vector_bytes: 0,
            bytes_in_flight: row.bytes_in_flight_kib << 10,
            max_cluster: row.max_cluster,
            has: row.has,
        }
    }

    /// The same target with the figures of one device: its multiprocessors, its cache, its DRAM. The
    /// bandwidths that are reached scale with that of the pins, and so do the bytes that have to be in flight for them:
    /// the latency is the same. Zeros stand for what is not known.
    pub fn measured_as(mut self, sms: u32, l2_bytes: u64, dram_gbps: f64) -> Target {
        self.sms = if sms > 0 { sms } else { self.sms };
        self.l2_bytes = if l2_bytes > 0 { l2_bytes } else { self.l2_bytes };
        if dram_gbps > 0.0 && self.dram_gbps > 0.0 {
            let scale = dram_gbps / self.dram_gbps;
            // Drivers round clocks: within 3 % it is the product of the table.
            if (scale - 1.0).abs() > 0.03 {
                self.copy_gbps *= scale;
                self.read_gbps *= scale;
                self.bytes_in_flight = (self.bytes_in_flight as f64 * scale).round() as u32;
                self.dram_gbps = dram_gbps;
            }
        }
        self
    }

    /// The highest rate among these input dtypes in TFLOP/s; `None` where none is known.
    pub fn peak_of(&self, dtypes: impl IntoIterator<Item = DType>) -> Option<f64> {
        dtypes.into_iter().filter_map(|d| rate_of(&self.peak_tflops, d)).max_by(f64::total_cmp)
    }

    /// The highest rate of products of this type in TFLOP/s: of float32 that of three products of tf32, which has half of the rate
    /// of float16, where tensor cores have it and it is higher.
    pub fn peak_of_products(&self, dtype: DType) -> Option<f64> {
        self.product_rate(&self.peak_tflops, dtype)
    }

    fn product_rate(&self, rates: &[(DType, f64)], dtype: DType) -> Option<f64> {
        let in_parts =
            rate_of(rates, DType::F16).filter(|_| dtype == DType::F32 && self.has.mma).map(|f16| f16 / 2.0 / 3.0);
        rate_of(rates, dtype).map(|own| in_parts.map_or(own, |n| own.max(n)))
    }

    /// True where this target's device runs what is built for the other: an older level of the processor, an
    /// earlier GPU of the generation without instructions of its own.
    pub fn runs(&self, other: &Target) -> bool {
        let level = |t: &Target| t.arch.rsplit_once("-v").map(|(arch, level)| (arch.to_string(), level.to_string()));
        let older = match (self.kind, level(self), level(other)) {
            (Kind::Cpu, Some((arch, own)), Some((same, level))) => arch == same && level <= own,
            (Kind::Cpu, _, _) => false,
            (Kind::Cuda, _, _) => {
                let bare = other.arch.ends_with(|c: char| c.is_ascii_digit());
                bare && self.sm / 10 == other.sm / 10 && other.sm <= self.sm
            }
        };
        self.id == other.id || (self.kind == other.kind && !self.simulated && !other.simulated && older)
    }

    /// `cuda` or `cpu`, the middle step of "exact target, then kind, then anything".
    pub fn family(&self) -> &'static str {
        match self.kind {
            Kind::Cuda => "cuda",
            Kind::Cpu => "cpu",
        }
    }

    /// The id under which knob tables know this target: a simulated GPU is that GPU.
    pub fn table_id(&self) -> String {
        format!("{}:{}", self.family(), self.arch)
    }

    /// Time in microseconds that a good kernel needs for that work, for display: bytes over the
    /// copy bandwidth reached, or flops over the rate reached, whichever is longer. `None` where
    /// neither is known.
    pub fn floor_us(&self, bytes: u64, flops: u64, dtype: DType) -> Option<f64> {
        let rate = self.product_rate(&self.reached_tflops, dtype).or_else(|| self.peak_of_products(dtype));
        longest(bytes, self.copy_gbps, flops, rate)
    }

    /// Time in microseconds that no kernel can beat: bytes at the pins, flops at the hardware's
    /// rate. `None` where neither is known.
    pub fn bound_us(&self, bytes: u64, flops: u64, dtype: DType) -> Option<f64> {
        longest(bytes, self.dram_gbps, flops, self.peak_of_products(dtype))
    }

    /// Blocks of that size that fit on one multiprocessor at once (0: the block cannot run).
    pub fn resident_blocks(&self, threads: u32, regs_per_thread: u32, smem: u32) -> u32 {
        if threads == 0 || threads > self.max_threads || smem > self.smem_per_block {
            return 0;
        }
        let warps = threads.div_ceil(self.warp);
        let regs_per_warp = (regs_per_thread.max(1) * self.warp).next_multiple_of(256);
        let by_threads = self.threads_per_sm / (warps * self.warp);
        let by_regs = self.regs_per_sm / (regs_per_warp * warps);
        let by_smem = self.smem_per_sm / (smem + self.smem_reserved);
        by_threads.min(by_regs).min(by_smem).min(self.blocks_per_sm)
    }
}

fn rate_of(rates: &[(DType, f64)], dtype: DType) -> Option<f64> {
    rates.iter().find(|(d, _)| *d == dtype).map(|(_, r)| *r)
}

fn longest(bytes: u64, gbps: f64, flops: u64, tflops: Option<f64>) -> Option<f64> {
    let memory = (gbps > 0.0).then(|| bytes as f64 / gbps / 1e3);
    let arithmetic = tflops.map(|t| flops as f64 / t / 1e6);
    match (memory, arithmetic) {
        (Some(m), Some(a)) => Some(m.max(a)),
        (m, a) => m.or(a),
    }
}

fn cpu_ids() -> String {
    CPU_ARCHS.map(|(a, _)| format!("cpu:{a}")).join(", ")
}

fn unknown(text: &str) -> String {
    let names = Target::names();
    // `sm_90a` is one of CUDA, `x86-64-v3` one of the CPU.
    let named = names.iter().map(String::as_str).find(|n| n.split_once(':').is_some_and(|(_, arch)| arch == text));
    match named.or_else(|| nearest(text, names.iter().map(String::as_str))) {
        Some(near) => format!("unknown target \"{text}\"; did you mean \"{near}\"?"),
        None => format!("unknown target \"{text}\"; the targets are cpu, {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        Target::parse(text, &HostCpu::default()).unwrap()
    }

    #[test]
    fn devices_run_what_is_built_for_older_ones() {
        let runs = |a: &str, b: &str| target(a).runs(&target(b));
        assert!(runs("cpu:x86-64-v4", "cpu:x86-64-v3") && !runs("cpu:x86-64-v3", "cpu:x86-64-v4"));
        assert!(runs("cpu:aarch64", "cpu:aarch64") && !runs("cpu:aarch64", "cpu:x86-64-v3"));
        assert!(runs("cuda:sm_89", "cuda:sm_80") && !runs("cuda:sm_90a", "cuda:sm_80"));
        assert!(!runs("cuda:sm_103a", "cuda:sm_100a") && !runs("cuda:sm_90a", "sim:sm_90"));
    }

    #[test]
    fn every_name_parses_to_itself() {
        for name in Target::names() {
            assert_eq!(target(&name).id, name);
        }
    }

    #[test]
    fn the_suffix_may_be_left_out() {
        assert_eq!(target("cuda:sm_90").id, "cuda:sm_90a");
        assert_eq!(target("sim:sm_100a").id, "sim:sm_100");
        assert_eq!(target("sim:sm_100").table_id(), "cuda:sm_100a");
    }

    #[test]
    fn the_host_fills_the_cpu_target() {
        let host = HostCpu { arch: "x86-64-v4".into(), cores: 3, llc_bytes: 7 << 20, ..HostCpu::default() };
        let t = Target::parse("cpu", &host).unwrap();
        assert_eq!((t.id.as_str(), t.cores, t.l2_bytes, t.vector_bytes), ("cpu:x86-64-v4", 3, 7 << 20, 64));
        let odd = HostCpu { arch: "riscv64".into(), ..HostCpu::default() };
        assert!(Target::parse("cpu", &odd).unwrap_err().contains("riscv64"));
    }

    #[test]
    fn a_wrong_name_suggests_the_nearest() {
        let e = Target::parse("cuda:sm_91a", &HostCpu::default()).unwrap_err();
        assert_eq!(e, "unknown target \"cuda:sm_91a\"; did you mean \"cuda:sm_90a\"?");
        assert!(Target::parse("quantum", &HostCpu::default()).unwrap_err().contains("cuda:sm_80, "));
    }

    #[test]
    fn floor_takes_the_longer_of_memory_and_arithmetic() {
        let t = target("cuda:sm_90a");
        let memory = t.floor_us(4_450_000_000, 1, DType::F32).unwrap();
        assert!((memory - 1e6 / 1e3).abs() < 1e-6, "{memory}");
        // float32 as three products of tf32, each at half of the rate of float16
        assert!(t.floor_us(1, 130_000_000_000_000, DType::F32).unwrap() > 999_999.0);
        assert_eq!(target("cuda:sm_86").peak_of_products(DType::F32), target("cuda:sm_86").peak_of([DType::F32]));
        assert!(t.bound_us(1 << 30, 0, DType::F32) < t.floor_us(1 << 30, 0, DType::F32));
        assert_eq!(target("cpu:aarch64").floor_us(1, 1, DType::F32), None);
    }

    #[test]
    fn residency_is_bound_by_the_scarcest() {
        let t = target("cuda:sm_90a");
        assert_eq!(t.resident_blocks(256, 32, 0), 8);
        assert_eq!(t.resident_blocks(256, 128, 0), 2);
        assert_eq!(t.resident_blocks(256, 32, 100 << 10), 2);
        assert_eq!(t.resident_blocks(32, 16, 0), 32);
        assert_eq!(t.resident_blocks(2048, 16, 0), 0);
        assert_eq!(t.resident_blocks(256, 32, 228 << 10), 0);
    }
}

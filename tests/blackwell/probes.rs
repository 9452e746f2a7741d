//! The fields of `Features`, each held against the assembler: a kernel of one instruction that is
//! taken where a field says so, and is that instruction in machine code where a field says so.

use super::sass::Kernel;
use crate::common::nvidia::{compiler, machine_code};
use daylight::target::{HostCpu, Target};

struct Probe {
    field: &'static str,
    /// Inline assembly over `r` (32-bit registers), `f` (float32), `d` (64-bit), `s` (shared address).
    asm: &'static str,
    /// How machine code names it.
    mnemonic: &'static str,
    taken: Option<fn(&Target) -> bool>,
    native: fn(&Target) -> bool,
}

const PROBES: &[Probe] = &[
    Probe {
        field: "mma",
        asm: "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%4,%5}, {%0,%1,%2,%3};",
        mnemonic: "HMMA.16816.F32",
        taken: Some(|t| t.has.mma),
        native: |t| t.has.mma,
    },
    Probe {
        field: "fp8_mma",
        asm: "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%4,%5}, {%0,%1,%2,%3};",
        mnemonic: "QMMA",
        taken: None,
        native: |t| t.has.fp8_mma,
    },
    Probe {
        field: "block_scale_mma",
        asm: "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%4,%5}, {%0,%1,%2,%3}, {%6}, {0, 0}, {%7}, {0, 0};",
        mnemonic: "OMMA",
        taken: Some(|t| t.has.block_scale_mma),
        native: |t| t.has.block_scale_mma,
    },
    Probe {
        field: "cp_async",
        asm: "cp.async.ca.shared.global [%10], [%8], 4;",
        mnemonic: "LDGSTS",
        taken: Some(|t| t.has.cp_async),
        native: |t| t.has.cp_async,
    },
    Probe {
        field: "stmatrix",
        asm: "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%10], {%4,%5,%6,%7};",
        mnemonic: "STSM",
        taken: Some(|t| t.has.stmatrix),
        native: |t| t.has.stmatrix,
    },
    Probe {
        field: "tma",
        asm: "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%10], [%8], 64, [%10];",
        mnemonic: "UBLKCP",
        taken: Some(|t| t.has.tma),
        native: |t| t.has.tma,
    },
    Probe {
        field: "wgmma",
        asm: "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %8, %9, 1, 1, 1, 0, 0;",
        mnemonic: "HGMMA",
        taken: Some(|t| t.has.wgmma),
        native: |t| t.has.wgmma,
    },
    Probe {
        field: "tcgen05",
        asm: "tcgen05.mma.cta_group::1.kind::f16 [%4], %8, %9, %5, 1;",
        mnemonic: "UTCHMMA",
        taken: Some(|t| t.has.tcgen05),
        native: |t| t.has.tcgen05,
    },
    Probe {
        field: "tcgen05_i8",
        asm: "tcgen05.mma.cta_group::1.kind::i8 [%4], %8, %9, %5, 1;",
        mnemonic: "UTCIMMA",
        taken: Some(|t| t.has.tcgen05_i8),
        native: |t| t.has.tcgen05_i8,
    },
    Probe {
        field: "launch_control",
        asm: "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%10], [%10];",
        mnemonic: "UGETNEXTWORKID",
        taken: Some(|t| t.has.launch_control),
        native: |t| t.has.launch_control,
    },
    Probe {
        field: "f32x2, packed_f32",
        asm: "add.rn.f32x2 %8, %8, %9;",
        mnemonic: "FADD2",
        taken: Some(|t| t.has.f32x2),
        native: |t| t.has.packed_f32,
    },
    Probe {
        field: "fold3, native_fold3",
        asm: "max.f32 %0, %1, %2, %3;",
        mnemonic: "FMNMX3",
        taken: Some(|t| t.has.fold3),
        native: |t| t.has.native_fold3,
    },
    Probe {
        field: "mixed_f16",
        asm: "{.reg .f16 a, b; mov.b32 {a, b}, %4; fma.rn.f32.f16 %0, a, b, %1;}",
        mnemonic: "FHFMA",
        taken: Some(|t| t.has.mixed_f16),
        native: |t| t.has.mixed_f16,
    },
    Probe {
        field: "max_load_bytes",
        asm: "{.reg .b32 a, b, c, d; ld.global.v8.b32 {%4,%5,%6,%7,a,b,c,d}, [%8]; xor.b32 a, a, b; xor.b32 c, c, d; xor.b32 %7, a, c;}",
        mnemonic: "256",
        taken: Some(|t| t.max_load_bytes == 32),
        native: |t| t.max_load_bytes == 32,
    },
];

fn text(p: &Probe, number: usize) -> String {
    // A percent sign of a name (there are none) would have to be doubled; `1` as a predicate is made here.
    let asm = match p.asm.strip_suffix(", 1;") {
        Some(asm) => format!("{{.reg .pred p; setp.ne.u32 p, %4, 0; {asm}, p;}}"),
        None => p.asm.to_string(),
    };
    let many = |kind: &str, name: &str, n: usize| {
        (0..n).map(|i| format!("\"+{kind}\"({name}[{i}])")).collect::<Vec<_>>().join(", ")
    };
    let (f, r, d) = (many("f", "f", 4), many("r", "r", 4), many("l", "d", 2));
    format!(
        "extern \"C\" __global__ void __launch_bounds__(128, 1) k{number}(float *pf, unsigned *pr, unsigned long long *pd) {{
  __shared__ __align__(128) unsigned shared[64];
  unsigned s;
  asm(\"{{.reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a;}}\" : \"=r\"(s) : \"l\"(shared));
  float f[4]; unsigned r[4]; unsigned long long d[2] = {{(unsigned long long)pd, pd[threadIdx.x]}};
  for (int i = 0; i < 4; i++) {{ f[i] = pf[threadIdx.x + i]; r[i] = pr[threadIdx.x + i]; }}
  asm volatile(\"{asm}\" : {f}, {r}, {d} : \"r\"(s) : \"memory\");
  for (int i = 0; i < 4; i++) {{ pf[threadIdx.x + i] = f[i]; pr[threadIdx.x + i] = r[i]; }}
  pd[threadIdx.x] = d[0] + d[1];
}}
"
    )
}

#[test]
fn features_are_those_of_the_assembler() {
    let Some(compiler) = compiler() else { return };
    for name in Target::names().iter().filter(|n| n.starts_with("cuda:")) {
        let target = Target::parse(name, &HostCpu::default()).expect("a name of the table");
        let mut all = String::new();
        let mut compiled = vec![];
        for (i, p) in PROBES.iter().enumerate() {
            let text = text(p, i);
            let made = compiler.cubin(&text, name);
            if let Some(taken) = p.taken {
                let why = made.as_ref().err().map(|e| e.to_string()).unwrap_or_default();
                assert_eq!(made.is_ok(), taken(&target), "{}: {name} takes it: {why}", p.field);
            }
            if made.is_ok() {
                all.push_str(&text);
                compiled.push(i);
            }
        }
        // One cubin for all of them: the disassembler takes longer to start than the compiler to run.
        let Some(code) = machine_code(&all, name) else { return };
        let code = code.expect("each of them compiles");
        for (i, p) in PROBES.iter().enumerate() {
            let has = |m: &String| m.split('.').any(|part| part == p.mnemonic) || m.starts_with(p.mnemonic);
            let native = compiled.contains(&i) && Kernel::of(&code, &format!("k{i}")).instructions.iter().any(has);
            assert_eq!(native, (p.native)(&target), "{}: {name} has {}", p.field, p.mnemonic);
        }
    }
}

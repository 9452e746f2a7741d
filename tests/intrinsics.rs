//! Intrinsics: their CUDA text, what NVRTC makes of it for every generation, what the machine code
//! holds. What they compute is in `intrinsics_sim`, and on a GPU in `intrinsics_gpu`.

use crate::common;
use crate::common::nvidia::{compiler, machine_code};
use crate::intrinsic_programs::{
    Case, cases, launch_control_cases, multicast_cases, pair_cases, scaled_cases, scaled_pair_cases, tensor_cases,
    tensor_int8, together, warpgroup_cases,
};
use daylight::codegen;

const LEVELS: [u32; 5] = [80, 89, 90, 100, 120];

fn text(sm: u32) -> String {
    codegen::cuda(&together(&cases(), sm))
}

#[test]
fn texts() {
    for sm in LEVELS {
        assert_eq!(text(sm), text(sm), "the text of one program is always the same");
        common::golden(&format!("golden/intrinsics/sm_{sm}.cu"), &text(sm));
    }
}

/// What warpgroups do, which other generations have not.
fn warpgroups() -> String {
    codegen::cuda(&together(&warpgroup_cases(), 90))
}

#[test]
fn texts_of_warpgroups() {
    common::golden("golden/intrinsics/sm_90a.cu", &warpgroups());
}

#[test]
fn warpgroups_compile() {
    let Some(sass) = compiled(&warpgroups(), "cuda:sm_90a") else { return };
    for name in ["HGMMA.64x8x16.F32", "HGMMA.64x96x16.F32.BF16", "IGMMA.64x32x32", "QGMMA.64x16x32", "USETMAXREG"] {
        assert!(sass.contains(name), "no {name}");
    }
}

/// The machine code of a text that compiles without spills and warnings; skipped without the compiler or the disassembler.
fn compiled(text: &str, target: &str) -> Option<String> {
    match compiler()?.cubin(text, target) {
        Ok(cubin) => assert_eq!((cubin.res.spill, cubin.warnings), (0, vec![]), "{target}"),
        Err(e) => panic!("{target}: {e}"),
    }
    Some(machine_code(text, target)?.expect("a right text"))
}

/// What blocks do with tensor memory, which data-centre Blackwell alone has.
fn tensor_memory(cases: &[Case]) -> String {
    codegen::cuda(&together(cases, 100))
}

#[test]
fn texts_of_tensor_memory() {
    common::golden("golden/intrinsics/sm_100a.cu", &tensor_memory(&tensor_cases()));
}

#[test]
fn texts_of_pairs() {
    common::golden("golden/intrinsics/sm_100a_pairs.cu", &tensor_memory(&pair_cases()));
}

#[test]
fn pairs_of_blocks_compile() {
    let text = tensor_memory(&pair_cases());
    for target in ["cuda:sm_100a", "cuda:sm_103a"] {
        let Some(sass) = compiled(&text, target) else { return };
        for name in [
            "UTCHMMA.2CTA",
            "UTCQMMA.2CTA",
            "UTCBAR.2CTA.MULTICAST",
            "UTMALDG.2D.2CTA",
            "UTCATOMSWS.2CTA.FIND_AND_SET",
            "UCGABAR_ARV",
        ] {
            assert!(sass.contains(name), "{target}: no {name}");
        }
    }
    for target in ["cuda:sm_90a", "cuda:sm_120a"] {
        let Some(nvrtc) = compiler() else { return };
        assert!(nvrtc.cubin(&text, target).is_err(), "{target} has no pairs");
    }
}

#[test]
fn texts_of_multicast() {
    common::golden("golden/intrinsics/sm_90_multicast.cu", &codegen::cuda(&together(&multicast_cases(), 90)));
}

/// Boxes that land in several blocks of a cluster: one instruction, but a call on GPUs for desktops.
#[test]
fn multicast_compiles() {
    let text = codegen::cuda(&together(&multicast_cases(), 90));
    let targets = [("cuda:sm_90a", true), ("cuda:sm_100a", true), ("cuda:sm_103a", true), ("cuda:sm_120a", false)];
    for (target, one) in targets {
        let Some(sass) = compiled(&text, target) else { return };
        assert_eq!((sass.contains("UTMALDG.2D.MULTICAST"), sass.contains("CALL.ABS")), (one, !one), "{target}");
    }
}

#[test]
fn texts_of_launch_control() {
    common::golden("golden/intrinsics/sm_100_launch_control.cu", &tensor_memory(&launch_control_cases()));
}

/// Every generation from sm_100 on gives running blocks those that have not started, and those before do not.
#[test]
fn launch_control_compiles() {
    let text = tensor_memory(&launch_control_cases());
    for target in ["cuda:sm_100a", "cuda:sm_103a", "cuda:sm_120a"] {
        let Some(sass) = compiled(&text, target) else { return };
        for name in ["UGETNEXTWORKID.SELFCAST", "UGETNEXTWORKID.BROADCAST"] {
            assert!(sass.contains(name), "{target}: no {name}");
        }
    }
    let Some(nvrtc) = compiler() else { return };
    assert!(nvrtc.cubin(&text, "cuda:sm_90a").is_err(), "sm_90a has no launch control");
}

#[test]
fn texts_of_scaled_products() {
    common::golden("golden/intrinsics/sm_100a_scaled.cu", &tensor_memory(&scaled_cases()));
}

#[test]
fn texts_of_scaled_products_of_pairs() {
    common::golden("golden/intrinsics/sm_100a_scaled_pairs.cu", &tensor_memory(&scaled_pair_cases()));
}

#[test]
fn scaled_products_compile() {
    scaled_compile(&scaled_cases(), &["UTCQMMA", "UTCOMMA", "UTCCP"]);
}

#[test]
fn scaled_products_of_pairs_compile() {
    scaled_compile(&scaled_pair_cases(), &["UTCQMMA.2CTA", "UTCOMMA.2CTA", "UTCCP.T.S.2CTA"]);
}

fn scaled_compile(cases: &[Case], names: &[&str]) {
    let text = tensor_memory(cases);
    for target in ["cuda:sm_100a", "cuda:sm_103a"] {
        let Some(sass) = compiled(&text, target) else { return };
        for name in names {
            assert!(sass.contains(name), "{target}: no {name}");
        }
    }
    for target in ["cuda:sm_90a", "cuda:sm_120a"] {
        let Some(nvrtc) = compiler() else { return };
        assert!(nvrtc.cubin(&text, target).is_err(), "{target} has no tensor memory");
    }
}

#[test]
fn tensor_memory_compiles() {
    let (all, int8) = (tensor_memory(&tensor_cases()), tensor_memory(&[tensor_int8()]));
    let shared = [
        "UTCHMMA",
        "UTCQMMA",
        "UTCBAR",
        "LDTM.16dp256bit.x16",
        "STTM.16dp256bit.x4",
        "UTCATOMSWS.FIND_AND_SET",
        "UTCATOMSWS.AND",
    ];
    for (text, target, names) in
        [(&all, "cuda:sm_100a", &shared[..]), (&all, "cuda:sm_103a", &shared), (&int8, "cuda:sm_100a", &["UTCIMMA"])]
    {
        let Some(sass) = compiled(text, target) else { return };
        for name in names {
            assert!(sass.contains(name), "{target}: no {name}");
        }
    }
    let Some(nvrtc) = compiler() else { return };
    assert!(nvrtc.cubin(&int8, "cuda:sm_103a").is_err(), "sm_103a multiplies int8 in tensor memory");
}

#[test]
fn every_generation_compiles_what_it_has() {
    let Some(nvrtc) = compiler() else { return };
    for sm in LEVELS {
        let all = [
            (80, "cuda:sm_80"),
            (89, "cuda:sm_89"),
            (90, "cuda:sm_90a"),
            (100, "cuda:sm_100a"),
            (103, "cuda:sm_103a"),
            (120, "cuda:sm_120a"),
        ];
        for (_, target) in all.iter().filter(|(has, _)| *has >= sm) {
            match nvrtc.cubin(&text(sm), target) {
                Ok(cubin) => assert_eq!((cubin.res.spill, cubin.warnings), (0, vec![]), "sm_{sm} for {target}"),
                Err(e) => panic!("sm_{sm} for {target}: {e}"),
            }
        }
    }
}

/// Instructions that the machine code has to hold; none of it may address local memory.
fn holds(sm: u32, target: &str, instructions: &[&str]) {
    let Some(sass) = machine_code(&text(sm), target) else { return };
    let sass = sass.expect("a right text");
    for name in instructions {
        assert!(sass.contains(name), "{target}: no {name}");
    }
    for local in ["LDL", "STL"] {
        assert!(!sass.contains(local), "{target}: registers of the kernels of sm_{sm} went to local memory");
    }
}

#[test]
fn machine_code_of_sm_80_has_the_instructions() {
    holds(
        80,
        "cuda:sm_80",
        &[
            "LDGSTS.E.BYPASS.LTC128B.128",
            "LDSM.16.M88.4",
            "LDSM.16.MT88.4",
            "HMMA.16816.F32.BF16",
            "HFMA2",
            "HMMA.16816.F32 ",
            "HMMA.1688.F32.TF32",
            "IMMA.16832.S8.S8",
            "BAR.SYNC",
            "DEPBAR",
        ],
    );
}

#[test]
fn machine_code_of_sm_90_has_the_instructions() {
    holds(90, "cuda:sm_90a", &["STSM", "UBLKCP", "SYNCS.PHASECHK"]);
    holds(90, "cuda:sm_120a", &["UBLKCP"]);
}

/// float8 is one instruction on the two generations for desktops, blocks with scales on the second.
#[test]
fn machine_code_has_products_of_few_bits() {
    for target in ["cuda:sm_89", "cuda:sm_120a"] {
        holds(89, target, &["QMMA.16832.F32.E4M3.E4M3", "QMMA.16832.F32.E5M2.E5M2"]);
    }
    let names =
        ["OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X", "OMMA.SF.16864.F32.E2M1.E2M1.E8", "QMMA.SF.16832.F32.E4M3.E5M2.E8"];
    holds(120, "cuda:sm_120a", &names);
}

#[test]
fn machine_code_of_sm_100_has_the_instructions() {
    for target in ["cuda:sm_100a", "cuda:sm_103a"] {
        holds(100, target, &["FADD2.FTZ", "FADD2.RZ", "FMUL2.FTZ", "FFMA2.FTZ", "FMNMX3"]);
    }
}

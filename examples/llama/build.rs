//! Compiles every kernel of the model into the program, for the shape that `LLAMA_CONFIG` names.

// The program reads the rest of it.
#[allow(dead_code)]
#[path = "src/config.rs"]
mod config;

use daylight::build::Build;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

/// The GPU whose records count; those of an H100 stand where it has none.
const TUNED_ON: &str = "NVIDIA H200";

fn main() {
    println!("cargo::rerun-if-env-changed=LLAMA_CONFIG");
    let path = std::env::var("LLAMA_CONFIG").unwrap_or_else(|_| "configs/tiny.toml".into());
    println!("cargo::rerun-if-changed={path}");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let c = config::Config::parse(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(format!("{out}/config.toml"), &text).expect("OUT_DIR can be written");

    let fixed = [
        ("hidden", c.hidden),
        ("inner", c.inner),
        ("heads", c.heads),
        ("kv_heads", c.kv_heads),
        ("head_dim", c.head_dim),
        ("vocab", c.vocab),
        ("capacity", c.capacity),
        ("slots", c.slots),
        ("group", c.group),
    ];
    let mut build = Build::new().function(functions(&c, &out)).log("tuning-logs").rayon(true);
    for (extent, value) in fixed {
        build = build.bind(extent, value as i64);
    }
    let rows: Vec<i64> = c.batch.iter().chain(&c.prompt).copied().collect();
    build = build.bind("rows", rows).bind("batch", c.batch.clone()).bind("span", c.span.clone());
    build = build.bind("length", [c.chunk as i64]).bind("reach", c.reach()).bind("size", [1 << 24]);
    // Nothing writes weights while the program answers. Where they are packed, prompts unpack them to where others read.
    for product in ["qkv", "normed_qkv", "out", "gate_up", "down", "head"] {
        build = match c.int4 {
            true => build.constant(format!("{product}4"), "w").constant(format!("{product}4"), "scale"),
            false => build.constant(product, "w"),
        };
    }
    // Packed weights are multiplied with what another kernel has normed.
    if !c.int4 {
        build = build.constant("normed_gate_up", "w");
    }
    let target = match (std::env::var_os("CARGO_FEATURE_CUDA"), cfg!(target_arch = "x86_64")) {
        (Some(_), _) => "cuda:sm_90a",
        (None, true) => "cpu:x86-64-v3",
        (None, false) => "cpu",
    };
    if target == "cuda:sm_90a" {
        build = build.gpu(TUNED_ON);
    }
    // One kernel follows the other in one stream: each starts while the one before it ends.
    build.overlap(true).target(target).run();
}

/// The folder of functions: `kernels/`, which is written in bfloat16, or the same in the type that the configuration names.
fn functions(c: &config::Config, out: &str) -> PathBuf {
    println!("cargo::rerun-if-changed=kernels");
    if c.dtype == config::Dtype::Bfloat16 {
        return "kernels".into();
    }
    let folder = Path::new(out).join("kernels");
    let copy = |entry: DirEntry| {
        let text = std::fs::read_to_string(entry.path())?;
        std::fs::write(folder.join(entry.file_name()), text.replace("bfloat16", "float16"))
    };
    // Functions that an earlier build copied may be gone.
    let cleared = || if folder.exists() { std::fs::remove_dir_all(&folder) } else { Ok(()) };
    let made = cleared().and_then(|()| std::fs::create_dir_all(&folder));
    made.and_then(|()| std::fs::read_dir("kernels")?.try_for_each(|e| copy(e?)))
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    folder
}

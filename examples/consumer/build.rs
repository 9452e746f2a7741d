//! Compiles the best known kernels into this program.

use daylight::build::Build;

fn main() {
    let mut build = Build::new()
        .function("../mean.py")
        .function("kernels/scale_rows.py")
        .function("kernels/add_rows.py")
        .bind("n", 64)
        .log("../../tuning-logs")
        // Level 3 runs on nearly every x86-64 machine; on others, this machine's own target.
        .target(if cfg!(target_arch = "x86_64") { "cpu:x86-64-v3" } else { "cpu" });
    if std::env::var_os("CARGO_FEATURE_CUDA").is_some() {
        for arch in ["sm_80", "sm_90a", "sm_100a", "sm_120a"] {
            build = build.target(format!("cuda:{arch}"));
        }
    }
    build.run();
}

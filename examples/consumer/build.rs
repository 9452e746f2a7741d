//! Compiles the best known kernels into this program.

use daylight::build::Build;

fn main() {
    let mut build = Build::new()
        .function("../mean.py")
        .function("kernels")
        // Known now: the kernel is made for it.
        .bind("n", 64)
        // Known at run time: each of these is tuned, others take the kernel of the next larger one.
        .bind("rows", [1, 16, 128, 1024])
        .rayon(true)
        .log("tuning-logs")
        // Level 3 runs on nearly every x86-64 machine; on others, this machine's own target.
        .target(if cfg!(target_arch = "x86_64") { "cpu:x86-64-v3" } else { "cpu" });
    if std::env::var_os("CARGO_FEATURE_CUDA").is_some() {
        // This log has other functions: these get defaults, and warnings name them with the command that tunes them.
        build = build.log("../../tuning-logs");
        for arch in ["sm_80", "sm_90a", "sm_100a", "sm_120a"] {
            build = build.target(format!("cuda:{arch}"));
        }
    }
    build.run();
}

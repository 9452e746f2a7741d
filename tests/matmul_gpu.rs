//! Matrix products of random shapes on a GPU, every rule that takes them at its default and at one random
//! point. Needs an NVIDIA GPU of compute capability 8.0 or more.

use crate::rules::products::Matmul;
use daylight::runner::cuda;
use rand::prelude::*;
use std::process::Command;

const SHAPES: usize = 100;

/// One of several kinds of extents: tiny, odd, whole tiles.
fn extent(rng: &mut StdRng, most: i64) -> i64 {
    match rng.random_range(0..4) {
        0 => rng.random_range(2..40),
        1 => 16 * rng.random_range(1..=most / 16),
        2 => 128 * rng.random_range(1..=most / 128),
        _ => rng.random_range(2..most),
    }
}

fn shape(rng: &mut StdRng) -> Matmul {
    let (dtype, acc) = [("float16", "float32"), ("bfloat16", "float32"), ("int8", "int32"), ("float16", "float16")]
        [rng.random_range(0..4)];
    let (m, n, k) = (extent(rng, 700), extent(rng, 700), extent(rng, 1500));
    let product = Matmul::new(dtype, m, n, k).accumulated(acc).transposed(rng.random(), rng.random());
    let product = if rng.random_bool(0.2) { product.batched(rng.random_range(2..5)) } else { product };
    if rng.random_bool(0.3) { product.with_epilogue() } else { product }
}

pub fn random_shapes_on_the_device() {
    let missing = |why: &str| crate::common::skip_without_gpu(&format!("needs an NVIDIA GPU of sm_80 or later: {why}"));
    let facts = match cuda::devices() {
        Ok(all) => all.into_iter().find(|d| d.cc.0 >= 8),
        Err(e) => return missing(&e.message),
    };
    let Some(facts) = facts else { return missing("no such device") };
    let sm = 10 * facts.cc.0 + facts.cc.1;
    let folder = tempfile::tempdir().expect("a folder");
    let mut rng = StdRng::seed_from_u64(2026);
    for i in 0..SHAPES {
        let case = shape(&mut rng).case();
        let name = format!("{i:03}-{}.py", case.name);
        std::fs::write(folder.path().join(name), case.text).expect("write the function");
    }
    let target = format!("cuda:sm_{sm}{}", if sm >= 90 { "a" } else { "" });
    let out = Command::new(env!("CARGO_BIN_EXE_daylight"))
        .args(["verify", "--target", &target, "--candidates", "2"])
        .arg(folder.path())
        .output()
        .expect("the program runs");
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    eprintln!("{text}");
    assert!(out.status.success(), "{text}");
}

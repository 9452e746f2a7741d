//! One program for every variant of every operation that a target accepts.

use super::case::target;
use super::machine_code::{TARGETS, holding, together};
use super::{
    copy, copy_async, elementwise, gemm_block_scale, gemm_fma, gemm_pipeline, gemm_runs, gemm_shapes, gemm_special,
    gemm_tcgen05, gemm_tcgen05_block_scale, gemm_wgmma, gemm_wgmma_tf32x3, gemm_wgmma_words, gemm_words,
};
use super::{permute_layout, reduction};
use daylight::ir::device::{DStmt, DeviceFunc};
use daylight::lower::lower_device;
use daylight::tile::all_variants;
use std::collections::BTreeSet;

/// A program, its name, and how far its elements may be off.
type Program = (String, DeviceFunc, f64);

/// Sums of products of 16-bit and tf32 numbers in [-1, 1).
const PRODUCTS: f64 = 0.05;

fn programs() -> Vec<Program> {
    let mut products = gemm_fma::products();
    products.extend(gemm_shapes::specs(12, 7).iter().enumerate().map(|(i, s)| s.product(i)));
    products.extend(gemm_pipeline::products());
    products.extend(gemm_special::products());
    products.extend(gemm_tcgen05::products());
    products.extend(gemm_tcgen05_block_scale::products());
    products.extend(gemm_wgmma::products());
    products.extend(gemm_wgmma_tf32x3::products());
    products.extend(gemm_words::products());
    products.extend(gemm_wgmma_words::products());
    products.extend(gemm_runs::products());
    products.extend(gemm_block_scale::products());
    let mut all = reduction::programs();
    all.extend(
        [elementwise::programs(), copy::programs(), copy_async::programs(), permute_layout::programs()].concat(),
    );
    all.extend(products.into_iter().map(|p| (p.name, p.func, PRODUCTS)));
    all
}

/// For each variant and operation that some program's call could be carried out by on the target, such a
/// program; the call asks for the variant where it would not be taken.
pub fn covering(id: &str) -> Vec<Program> {
    let (mut seen, mut out) = (BTreeSet::new(), vec![]);
    for (name, f, tolerance) in programs() {
        let Ok((_, decisions)) = lower_device(&f, &target(id)) else { continue };
        for (number, d) in decisions.iter().enumerate() {
            for v in d.verdicts.iter().filter(|v| v.refusals.is_empty()) {
                if !seen.insert((d.call.op.name(), v.variant)) {
                    continue;
                }
                let mut own = f.clone();
                force(&mut own.body, &mut 0, number, v.variant);
                out.push((format!("{name}_{}_{}", d.call.op.name(), v.variant), own, tolerance));
            }
        }
    }
    out
}

/// Makes tile call `number`, in program order, ask for a variant.
fn force(body: &mut [DStmt], at: &mut usize, number: usize, variant: &str) {
    for s in body {
        match s {
            DStmt::Tile(call) => {
                if *at == number {
                    call.forced = Some(variant.to_string());
                }
                *at += 1;
            }
            DStmt::For(l) => force(&mut l.body, at, number, variant),
            DStmt::If { then, otherwise, .. } => {
                force(then, at, number, variant);
                force(otherwise, at, number, variant);
            }
            _ => {}
        }
    }
}

#[test]
fn every_variant_compiles_on_every_generation_that_accepts_it() {
    let mut reached = BTreeSet::new();
    for id in TARGETS {
        let covering = covering(id);
        for (name, f, _) in &covering {
            let (program, _) = lower_device(f, &target(id)).unwrap_or_else(|e| panic!("{name} on {id}: {e}"));
            reached.extend(program.variants.into_iter().map(|v| v.variant));
        }
        if holding(&together(covering, id), id, &[]).is_none() {
            return;
        }
    }
    let missing: Vec<&str> = all_variants().map(|v| v.name).filter(|name| !reached.contains(*name)).collect();
    assert!(missing.is_empty(), "compiled for no target: {missing:?}");
}

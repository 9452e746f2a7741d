//! Matrix products.

use super::case::{Case, cuda, simulate};
use super::gemm_cases;
use super::gemm_fma;
use super::gemm_pipeline;
use super::gemm_shapes::{Product, specs};
use super::gemm_special;
use super::gemm_tcgen05;
use super::gemm_tcgen05_block_scale;
use super::gemm_wgmma;
use super::{gemm_block_scale, gemm_runs, gemm_wgmma_tf32x3, gemm_wgmma_words, gemm_words};

pub fn cases() -> Vec<Case> {
    let of_words = [gemm_words::cases(), gemm_wgmma_words::cases(), gemm_runs::cases()].concat();
    let own = [of_words, gemm_block_scale::cases(), gemm_tcgen05_block_scale::cases()].concat();
    [gemm_cases::cases(), gemm_tcgen05::cases(), gemm_wgmma::cases(), gemm_wgmma_tf32x3::cases(), own].concat()
}

fn right(p: &Product, target: &str) {
    let got = simulate(&p.func, target, &p.args);
    let got = got.last().expect("a result");
    assert_eq!(p.mistake(got), None, "{}", cuda(&p.func, target));
}

#[test]
fn products_by_fma_are_right_to_the_last_bit() {
    for p in gemm_fma::products() {
        right(&p, "sim:sm_90a");
        right(&p, "sim:sm_100a");
    }
}

#[test]
fn pipelines_are_right_in_the_simulator() {
    for p in gemm_pipeline::products() {
        right(&p, "sim:sm_90a");
    }
}

#[test]
fn products_by_mma_in_other_places_are_right() {
    for p in gemm_special::products() {
        right(&p, "sim:sm_90a");
    }
}

#[test]
fn products_by_warpgroups_are_right() {
    let of_float32 = gemm_wgmma_tf32x3::products().into_iter().chain([gemm_wgmma_tf32x3::few()]);
    for p in gemm_wgmma::products().into_iter().chain(of_float32) {
        right(&p, "sim:sm_90a");
    }
}

#[test]
fn products_in_tensor_memory_are_right() {
    for p in gemm_tcgen05::products().into_iter().chain(gemm_tcgen05_block_scale::products()) {
        right(&p, "sim:sm_100a");
    }
}

#[test]
fn products_of_packed_words_are_right() {
    let of_words = gemm_words::products().into_iter().chain(gemm_wgmma_words::products());
    for p in of_words.chain(gemm_runs::products()) {
        right(&p, "sim:sm_90a");
    }
}

#[test]
fn products_with_scales_of_blocks_are_right() {
    for p in gemm_block_scale::products() {
        right(&p, "sim:sm_120a");
    }
}

/// What descriptors say of operands, decoded from their bits, is where their layouts put them.
#[test]
fn descriptors_of_warpgroups_name_every_element() {
    let all = gemm_wgmma::layouts();
    let checked: usize = all.iter().map(gemm_wgmma::elements_lie_where_descriptors_say).sum();
    assert!(all.len() > 400 && checked > 1_000_000, "{} layouts, {checked} elements", all.len());
}

#[test]
fn random_shapes_by_mma_are_right_in_the_simulator() {
    for (i, s) in specs(100, 7).iter().enumerate().take(12) {
        right(&s.product(i), "sim:sm_90a");
    }
}

#[test]
fn cuda_text_of_products() {
    for p in gemm_fma::products() {
        for (shown, target) in
            [("registers", "sm_90a"), ("b_shared", "sm_100a"), ("block_turned", "sm_90a"), ("int8", "sm_90a")]
        {
            if p.name == format!("fma {shown}") {
                let text = cuda(&p.func, &format!("cuda:{target}"));
                crate::common::golden(&format!("golden/tile/gemm/{shown}_{target}.cu"), &text);
            }
        }
    }
}

#[test]
fn cuda_text_of_a_pipeline() {
    let p = &gemm_pipeline::products()[0];
    crate::common::golden("golden/tile/gemm/pipeline_sm_90a.cu", &cuda(&p.func, "cuda:sm_90a"));
}

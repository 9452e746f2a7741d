//! The tests that need a GPU, one after the other, as a binary that can be carried to a machine with one.
//! Without a GPU each says that it was skipped. An argument runs those whose name holds it.
#![allow(dead_code, unused_imports)] // modules whose tests are in the other binary, taken for what they build

mod backend_cuda;
mod codegen_programs;
mod common;
mod intrinsic_programs;
mod intrinsics_gpu;
mod matmul_gpu;
mod rules;
mod tile;
mod tile_cli;
mod tile_gpu;

use std::panic::catch_unwind;
use std::process::ExitCode;

type Test = (&'static str, fn());

const TESTS: &[Test] = &[
    ("backend_cuda::both_clocks_time_a_right_kernel", backend_cuda::both_clocks_time_a_right_kernel),
    (
        "backend_cuda::large_shared_memory_and_a_zeroed_workspace_work",
        backend_cuda::large_shared_memory_and_a_zeroed_workspace_work,
    ),
    ("backend_cuda::wrong_kernels_cost_themselves_alone", backend_cuda::wrong_kernels_cost_themselves_alone),
    (
        "backend_cuda::broken_contexts_and_endless_kernels_are_replaced",
        backend_cuda::broken_contexts_and_endless_kernels_are_replaced,
    ),
    ("backend_cuda::a_kernel_against_itself_shows_the_noise", backend_cuda::a_kernel_against_itself_shows_the_noise),
    ("backend_cuda::the_state_comes_with_the_samples", backend_cuda::the_state_comes_with_the_samples),
    ("backend_cuda::a_candidate_is_measured_in_a_few_graphs", backend_cuda::a_candidate_is_measured_in_a_few_graphs),
    ("backend_cuda::results_are_looked_at_on_the_device", backend_cuda::results_are_looked_at_on_the_device),
    ("intrinsics_gpu::kernels_give_what_the_simulator_gives", intrinsics_gpu::kernels_give_what_the_simulator_gives),
    ("matmul_gpu::random_shapes_on_the_device", matmul_gpu::random_shapes_on_the_device),
    ("tile_gpu::every_variant_that_the_device_accepts", tile_gpu::every_variant_that_the_device_accepts),
    ("tile_gpu::a_hundred_random_products_by_mma", tile_gpu::a_hundred_random_products_by_mma),
    ("tile_gpu::products_by_mma_in_other_places", tile_gpu::products_by_mma_in_other_places),
    ("tile_gpu::products_by_fma", tile_gpu::products_by_fma),
    ("tile_gpu::pipelines_of_small_and_large_products", tile_gpu::pipelines_of_small_and_large_products),
    ("tile_gpu::the_other_families", tile_gpu::the_other_families),
    ("tile_gpu::programs_run_on_a_gpu", tile_gpu::programs_run_on_a_gpu),
];

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let runs = |(name, _): &&Test| wanted.is_empty() || wanted.iter().any(|w| name.contains(w.as_str()));
    let mut failed = 0;
    for (name, test) in TESTS.iter().filter(runs) {
        let outcome = if catch_unwind(test).is_ok() { "ok" } else { "FAILED" };
        failed += usize::from(outcome != "ok");
        println!("gpu test {name} ... {outcome}");
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

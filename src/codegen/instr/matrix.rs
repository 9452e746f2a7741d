//! Matrix fragments, and products of them, by a warp.

use super::{group, helper, operands, ordered, shared};
use crate::codegen::prelude::Prelude;
use crate::ir::DType;
use crate::ir::instr::{BlockScaleMma, MmaShape};

/// The name of a helper and of its instruction.
fn names(kind: &str, count: u32, transpose: bool) -> (String, String) {
    let (trans, mark) = if transpose { (".trans", "_trans") } else { ("", "") };
    (format!("dl_{kind}_x{count}{mark}"), format!("{kind}.sync.aligned.m8n8.x{count}{trans}.shared.b16"))
}

pub(super) fn ldmatrix(p: &mut Prelude, count: u32, transpose: bool) -> String {
    let (name, ptx) = names("ldmatrix", count, transpose);
    let (address, n) = (shared(p), count as usize);
    let ptx = format!("{ptx} {}, [%{n}];", group(0, n));
    let load = ordered(&ptx, &operands("=r", "w", n), &format!("\"r\"({address}(s))"));
    helper(p, &name, "void* d, const void* s", &format!("unsigned* w = (unsigned*)d; {load}"))
}

pub(super) fn stmatrix(p: &mut Prelude, count: u32, transpose: bool) -> String {
    let (name, ptx) = names("stmatrix", count, transpose);
    let (address, n) = (shared(p), count as usize);
    let ptx = format!("{ptx} [%0], {};", group(1, n));
    let store = ordered(&ptx, "", &format!("\"r\"({address}(d)), {}", operands("r", "w", n)));
    helper(p, &name, "void* d, const void* s", &format!("const unsigned* w = (const unsigned*)s; {store}"))
}

/// Pairs change places with those of the lane beside, then pairs of pairs with those of the lane after it.
pub(super) fn quad_transpose(p: &mut Prelude) -> String {
    let swap = |bit: &str, mask: u32, i: usize| {
        let j = i + mask as usize;
        format!(
            " t = __shfl_xor_sync(0xffffffffu, {bit} ? w[{i}] : w[{j}], {mask}); \
             w[{i}] = {bit} ? t : w[{i}]; w[{j}] = {bit} ? w[{j}] : t;"
        )
    };
    let swaps: String = [("odd", 1, 0), ("odd", 1, 2), ("high", 2, 0), ("high", 2, 1)]
        .map(|(bit, mask, i)| swap(bit, mask, i))
        .concat();
    let lane = "unsigned *w = (unsigned*)x, lane, t; asm(\"mov.u32 %0, %%laneid;\" : \"=r\"(lane));";
    let body = format!("{lane} const bool odd = lane & 1, high = lane & 2;{swaps}");
    helper(p, "dl_quad_transpose", "void* x", &body)
}

pub(super) fn mma(p: &mut Prelude, shape: MmaShape) -> String {
    let (input, sum, t, letter) = match shape {
        MmaShape::M16N8K16F16 => ("f16", "f32", "float", "f"),
        MmaShape::M16N8K16BF16 => ("bf16", "f32", "float", "f"),
        MmaShape::M16N8K8TF32 => ("tf32", "f32", "float", "f"),
        MmaShape::M16N8K32I8 => ("s8", "s32", "int", "r"),
        MmaShape::M16N8K32E4M3 => ("e4m3", "f32", "float", "f"),
        MmaShape::M16N8K32E5M2 => ("e5m2", "f32", "float", "f"),
    };
    let tile = shape.name();
    let body = format!(
        "const unsigned *x = (const unsigned*)a, *y = (const unsigned*)b; \
         asm volatile(\"mma.sync.aligned.{tile}.row.col.{sum}.{input}.{input}.{sum} {}, {}, {}, {};\" : {} : {}, {}, {});",
        group(0, 4),
        group(4, 4),
        group(8, 2),
        group(10, 4),
        operands(&format!("={letter}"), "d", 4),
        operands("r", "x", 4),
        operands("r", "y", 2),
        operands(letter, "c", 4)
    );
    let params = format!("{t}* d, const void* a, const void* b, const {t}* c");
    helper(p, &format!("dl_mma_{tile}_{input}"), &params, &body)
}

pub(super) fn block_scale_mma(p: &mut Prelude, shape: BlockScaleMma, [first_a, first_b]: [u32; 2]) -> String {
    let (tile, kind, [a, b]) = (shape.name(), shape.kind(), shape.inputs());
    let scale = if shape.scale() == DType::E4M3 { "ue4m3" } else { "ue8m0" };
    let body = format!(
        "const unsigned *x = (const unsigned*)a, *y = (const unsigned*)b; \
         asm volatile(\"mma.sync.aligned.kind::{kind}.{tile}.row.col.f32.{a}.{b}.f32.{scale} {}, {}, {}, {}, \
         {{%14}}, {{{first_a}, 0}}, {{%15}}, {{{first_b}, 0}};\" : {} : {}, {}, {}, \
         \"r\"(*(const unsigned*)sfa), \"r\"(*(const unsigned*)sfb));",
        group(0, 4),
        group(4, 4),
        group(8, 2),
        group(10, 4),
        operands("=f", "d", 4),
        operands("r", "x", 4),
        operands("r", "y", 2),
        operands("f", "c", 4)
    );
    let params = "float* d, const void* a, const void* b, const float* c, const void* sfa, const void* sfb";
    helper(p, &format!("dl_mma_{tile}_{a}_{b}_{scale}_{first_a}_{first_b}"), params, &body)
}

//! Matrix fragments, and products of them, by a warp.

use super::{group, helper, operands, ordered, shared};
use crate::codegen::prelude::Prelude;
use crate::ir::instr::MmaShape;

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

pub(super) fn mma(p: &mut Prelude, shape: MmaShape) -> String {
    let (input, sum, t, letter) = match shape {
        MmaShape::M16N8K16F16 => ("f16", "f32", "float", "f"),
        MmaShape::M16N8K16BF16 => ("bf16", "f32", "float", "f"),
        MmaShape::M16N8K8TF32 => ("tf32", "f32", "float", "f"),
        MmaShape::M16N8K32I8 => ("s8", "s32", "int", "r"),
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

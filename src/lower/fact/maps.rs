//! The tensor maps of a kernel: which its body uses, and what they ask of shared arrays.

use crate::ir::device::DStmt;
use crate::ir::instr::{Instr, Op, Tcgen05};
use crate::ir::{Name, TensorMap};
use crate::lower::nest::Nest;
use std::collections::BTreeSet;

/// Calls `f` with the map, the array in shared memory and whether the tensor is stored to.
fn for_each_box(body: &[DStmt], f: &mut impl FnMut(&Name, &Name, bool)) {
    for s in body {
        s.visit(&mut |s| {
            if let DStmt::Instr(i @ Instr { op: Op::TensorLoad { map, .. } | Op::TensorStore { map }, .. }) = s {
                f(map, &i.places[0].array, matches!(i.op, Op::TensorStore { .. }));
            }
        });
    }
}

/// The maps that the body uses.
pub fn used(nest: &Nest, body: &[DStmt]) -> Vec<TensorMap> {
    let mut names = BTreeSet::new();
    for_each_box(body, &mut |map, _, _| names.extend([map.clone()]));
    nest.maps.iter().filter(|m| names.contains(&m.name)).cloned().collect()
}

/// The tensors that are stored to through maps.
pub fn stored(maps: &[TensorMap], body: &[DStmt]) -> Vec<Name> {
    let mut out = vec![];
    for_each_box(body, &mut |map, _, stores| {
        out.extend(maps.iter().filter(|m| stores && m.name == *map).map(|m| m.buffer.clone()));
    });
    out
}

/// Bytes that boxes and operands of matrix instructions in a shared array ask to be aligned to.
pub fn align(array: &Name, maps: &[TensorMap], body: &[DStmt]) -> u32 {
    let mut align = 1;
    for_each_box(body, &mut |map, at, _| {
        let own = maps.iter().filter(|m| m.name == *map && at == array).map(|m| m.swizzle.align() as u32);
        align = own.fold(align, u32::max);
    });
    for s in body {
        s.visit(&mut |s| {
            if let DStmt::Instr(Instr {
                op: Op::Wgmma { a, b, .. } | Op::Tcgen05(Tcgen05::Mma { a, b, .. } | Tcgen05::ScaledMma { a, b, .. }),
                places,
                ..
            }) = s
            {
                let own = places[1..].iter().zip([a, b]).filter(|(at, _)| at.array == *array);
                align = own.fold(align, |align, (_, desc)| align.max(desc.swizzle.align() as u32));
            }
            if let DStmt::Instr(Instr { op: Op::WgmmaRegisters { b, .. }, places, .. }) = s
                && places[2].array == *array
            {
                align = align.max(b.swizzle.align() as u32);
            }
        });
    }
    align
}

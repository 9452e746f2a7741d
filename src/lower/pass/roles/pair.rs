//! Pairs of blocks for which one thread issues products in tensor memory (`cta_group::2`).
//!
//! The blocks of a cluster of two that take the same columns of B multiply other rows of A by them. Then each copies its own
//! rows, and half of the columns: the first block the first half. What lands in both is counted by the first block's barrier;
//! a thread of that block issues products of twice as many rows, which read the shared memory of both, and commits them to the
//! barriers of both. Each block finds the sums of its rows in its own tensor memory. Scales of numbers each block brings for its
//! own rows and for all columns; that thread has them copied in both.
//!
//! Half of the columns has to be half of a slot, as the descriptor finds it and as boxes fill it. Where it is not, or the
//! cluster is another one, each block multiplies by itself.
//!
//! before: `tensor_load a <- A_map[k, i + rank * 128], full; tensor_load b <- B_map[k, j], full; d += m128n256k16(a, b)`
//! after:  `tensor_load a <- A_map[k, i + rank * 128], full of the pair;`
//!         `tensor_load b <- B_map[k, j + rank * 128], full of the pair; if rank == 0 { d += m256n256k16(a, b) }`

use crate::analysis::simplify;
use crate::ir::device::{DFor, DStmt, index_var};
use crate::ir::instr::{CtaGroup, Instr, Landing, Op, Tcgen05, Tcgen05Scaled, Tcgen05Shape};
use crate::ir::{DType, Expr, MatrixDesc, Name, ThreadTag};
use crate::lower::nest::Nest;
use std::collections::BTreeMap;

/// Has the copies and the products of a step be those of a pair, where they can; the blocks that a product is of.
pub(super) fn of(
    nest: &mut Nest,
    fills: &mut [DStmt],
    compute: &mut [DStmt],
    slots: &mut BTreeMap<Name, i64>,
) -> CtaGroup {
    halved(nest, fills, compute, slots).map_or(CtaGroup::One, |()| CtaGroup::Pair)
}

fn halved(nest: &mut Nest, fills: &mut [DStmt], compute: &mut [DStmt], slots: &mut BTreeMap<Name, i64>) -> Option<()> {
    let right = products(compute).next().map(|(i, _)| i.places[2].array.clone())?;
    let len = slots.get(&right).copied()?;
    let whole = products(compute)
        .all(|(i, columns)| i.places[1].array != right && i.places[2].array == right && half_of_slot(i, &columns, len));
    if i64::from(nest.cluster) != CtaGroup::Pair.blocks() || !whole {
        return None;
    }
    let mut own = fills.iter_mut().filter(|s| fills_array(s, &right));
    let (Some(fill), None) = (own.next(), own.next()) else { return None };
    *fill = half(nest, fill, len)?;
    slots.insert(right, len / 2);
    fills.iter_mut().for_each(|s| *s = counted_by_first(s));
    for s in compute {
        if let DStmt::Instr(Instr { op: Op::Tcgen05(op), .. }) = s {
            match op {
                Tcgen05::Mma { shape, .. } => shape.group = CtaGroup::Pair,
                Tcgen05::ScaledMma { shape, .. } => shape.group = CtaGroup::Pair,
                Tcgen05::CopyScales { group } => *group = CtaGroup::Pair,
                _ => {}
            }
        }
    }
    Some(())
}

/// The columns of B that a product multiplies.
struct Columns {
    /// As many as a block of a pair has.
    own: i64,
    /// Type of the elements in shared memory, and how many of them along the reduced axis.
    element: DType,
    depth: i64,
    desc: MatrixDesc,
    /// A pair has such a product.
    paired: bool,
}

/// The products of a step, with their columns.
fn products(compute: &[DStmt]) -> impl Iterator<Item = (&Instr, Columns)> {
    compute.iter().filter_map(|s| match s {
        DStmt::Instr(i) => columns(&i.op).map(|columns| (i, columns)),
        _ => None,
    })
}

fn columns(op: &Op) -> Option<Columns> {
    match op {
        Op::Tcgen05(Tcgen05::Mma { shape, b, .. }) => {
            let of_pair = Tcgen05Shape { group: CtaGroup::Pair, ..*shape };
            let (own, paired) = (of_pair.own_columns(), of_pair.check().is_ok());
            Some(Columns { own, element: shape.input, depth: shape.k(), desc: *b, paired })
        }
        Op::Tcgen05(Tcgen05::ScaledMma { shape, b, .. }) => {
            let of_pair = Tcgen05Scaled { group: CtaGroup::Pair, ..*shape };
            let (own, paired, element) = (of_pair.own_columns(), of_pair.check().is_ok(), shape.of.elements()[1]);
            Some(Columns { own, element, depth: Tcgen05Shape::DEPTH_BYTES, desc: *b, paired })
        }
        _ => None,
    }
}

/// True where the second half of B's columns lies in the second half of a slot of so many elements, as the first does in the
/// first.
fn half_of_slot(i: &Instr, b: &Columns, len: i64) -> bool {
    let Some(start) = i.places[2].index.as_int() else { return false };
    let size = b.element.bytes() as i64;
    let half = len * size / 2;
    let at = |free, depth| b.desc.byte(b.element, start * size, free, depth);
    let all = (0..b.own).flat_map(|free| (0..b.depth).map(move |depth| (free, depth)));
    let same = |(free, depth)| at(free, depth) < half && at(free + b.own, depth) == at(free, depth) + half;
    b.paired && half % b.desc.swizzle.align() == 0 && all.into_iter().all(same)
}

fn fills_array(s: &DStmt, array: &Name) -> bool {
    let mut any = false;
    s.visit(&mut |s| any |= matches!(s, DStmt::Instr(i) if i.places[0].array == *array));
    any
}

/// The block's half of a copy that is the same in both blocks, and that fills a slot of so many elements from its start on.
fn half(nest: &mut Nest, s: &DStmt, len: i64) -> Option<DStmt> {
    let rank = Name::new(ThreadTag::ClusterX.name());
    let mut own = false;
    s.visit(&mut |s| s.for_each_expr(|e| own |= e.uses_var(&rank)));
    match s {
        _ if own => None,
        DStmt::Instr(i) => half_box(nest, i, len).map(DStmt::Instr),
        DStmt::For(l) => half_of_boxes(nest, l, len).map(DStmt::For),
        _ => None,
    }
}

/// Half of a box, cut along the slowest dimension that has more than one element.
fn half_box(nest: &mut Nest, i: &Instr, len: i64) -> Option<Instr> {
    let at = nest.maps.iter().position(|m| Some(&m.name) == i.op.map())?;
    let m = &nest.maps[at];
    let d = m.box_dims.iter().rposition(|n| *n > 1)?;
    let whole = i.places[0].index.is_int(0) && m.box_dims.iter().product::<i64>() == len;
    if !whole || m.box_dims[d] % 2 != 0 {
        return None;
    }
    let side = m.box_dims[d] / 2;
    let further = nest.thread(ThreadTag::ClusterX) * Expr::i64(side * m.elem_strides[d]);
    let mut out = i.clone();
    out.values[d] = simplify(&(i.values[d].clone() + further), &nest.ranges);
    nest.maps[at].box_dims[d] = side;
    Some(out)
}

/// Half of the boxes that a loop copies one after the other.
fn half_of_boxes(nest: &Nest, l: &DFor, len: i64) -> Option<DFor> {
    let ([DStmt::Instr(i)], Some(boxes)) = (l.body.as_slice(), l.extent.as_int()) else { return None };
    let place = |n: i64| simplify(&i.places[0].index.subst(&|v| (*v == l.var).then(|| Expr::i64(n))), &nest.ranges);
    if boxes % 2 != 0 || !(0..boxes).all(|n| place(n).is_int(n * len / boxes)) {
        return None;
    }
    let number = index_var(&l.var) + nest.thread(ThreadTag::ClusterX) * Expr::i64(boxes / 2);
    let mut own = i.clone();
    for value in &mut own.values {
        *value = simplify(&value.subst(&|v| (*v == l.var).then(|| number.clone())), &nest.ranges);
    }
    Some(DFor { extent: Expr::i64(boxes / 2), ..l.with_body(vec![DStmt::Instr(own)]) })
}

/// A copy that the barrier of the pair's first block counts.
fn counted_by_first(s: &DStmt) -> DStmt {
    match s {
        DStmt::Instr(i) => {
            let mut own = i.clone();
            if let Op::TensorLoad { to, .. } = &mut own.op {
                *to = Landing::Pair;
            }
            DStmt::Instr(own)
        }
        s => s.clone().map_lists(|inner| inner.iter().map(counted_by_first).collect()),
    }
}

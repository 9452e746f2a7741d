//! Boxes that all blocks of a cluster take: each block copies a part of one, for all.
//!
//! A copy whose place in the tensor does not depend on which block of its cluster starts it brings the same to every one of
//! them. Then each copies an equal part of the box, cut along the slowest dimension that has more than one element, into
//! the shared memory of all, and counts it on the barrier of each. A box of which the parts are not aligned as its swizzle
//! asks for stays whole, and each block copies its own.
//!
//! before: `tensor_load b[0] <- B_map[k, j], full` of 64 by 128 elements, in clusters of 2
//! after:  `tensor_load b[rank * 4096] <- B_map[k, j + rank * 64], full, 2 blocks` of 64 by 64 elements

use crate::analysis::simplify;
use crate::ir::device::DStmt;
use crate::ir::instr::{Instr, Landing, Op};
use crate::ir::{Expr, Name, ThreadTag};
use crate::lower::nest::Nest;
use std::collections::BTreeMap;

/// The copies, each box that blocks share in parts, and whether there is one.
pub(super) fn parts(nest: &mut Nest, fills: Vec<DStmt>) -> (Vec<DStmt>, bool) {
    let mut uses: BTreeMap<Name, usize> = BTreeMap::new();
    for s in &fills {
        s.visit(&mut |s| {
            if let DStmt::Instr(i) = s
                && let Some(map) = i.op.map()
            {
                *uses.entry(map.clone()).or_default() += 1;
            }
        });
    }
    let mut any = false;
    let fills = fills.into_iter().map(|s| part(nest, &uses, s, &mut any)).collect();
    (fills, any)
}

fn part(nest: &mut Nest, uses: &BTreeMap<Name, usize>, s: DStmt, any: &mut bool) -> DStmt {
    match s {
        DStmt::Instr(i) => {
            let own = shared_part(nest, uses, &i);
            *any |= own.is_some();
            DStmt::Instr(own.unwrap_or(i))
        }
        s => s.map_lists(|inner| inner.into_iter().map(|s| part(nest, uses, s, any)).collect()),
    }
}

/// The block's part of a box that all take, whose map then is that of a part.
fn shared_part(nest: &mut Nest, uses: &BTreeMap<Name, usize>, i: &Instr) -> Option<Instr> {
    let (blocks, rank) = (i64::from(nest.cluster), Name::new(ThreadTag::ClusterX.name()));
    let Op::TensorLoad { map, .. } = &i.op else { return None };
    let mut own = false;
    i.for_each_expr(|e| own |= e.uses_var(&rank));
    let at = nest.maps.iter().position(|m| m.name == *map)?;
    let m = &nest.maps[at];
    let d = m.box_dims.iter().rposition(|n| *n > 1)?;
    let aligned = m.box_bytes() / blocks % m.swizzle.align() == 0;
    if blocks == 1 || own || uses.get(map) != Some(&1) || m.box_dims[d] % blocks != 0 || !aligned {
        return None;
    }
    let (side, elements) = (m.box_dims[d] / blocks, m.box_dims.iter().product::<i64>() / blocks);
    let step = side * m.elem_strides[d];
    let further =
        |e: &Expr, n: i64| simplify(&(e.clone() + nest.thread(ThreadTag::ClusterX) * Expr::i64(n)), &nest.ranges);
    let mut out = i.clone();
    out.op = Op::TensorLoad { map: map.clone(), to: Landing::Cluster(nest.cluster) };
    out.places[0].index = further(&i.places[0].index, elements);
    out.values[d] = further(&i.values[d], step);
    nest.maps[at].box_dims[d] = side;
    Some(out)
}

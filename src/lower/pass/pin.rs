//! Keeps rows of 16-bit values packed in registers from one pass over them to the next.
//!
//! A compiler that sees the same conversions before and after the threads of a block meet makes them
//! once, and holds the results in twice the registers: loads in flight, or spills, pay for it. Every
//! register array of 16-bit floats that is read, and read again once threads have met, is therefore
//! pinned before that second reading ([`Op::Pin`]).
//!
//! before: `a += f32(x[i]); barrier; b += f32(x[i]) - a`
//! after:  `a += f32(x[i]); barrier; pin x; b += f32(x[i]) - a`

use super::batch::touched;
use crate::ir::device::{DFor, DKind, DStmt, index_var};
use crate::ir::instr::{Access, At, Instr, Op};
use crate::ir::{DType, Expr, Name};
use crate::lower::nest::Nest;
use std::collections::BTreeMap;

/// Elements of an array from which on its registers matter.
const LONG: i64 = 8;

/// Pins what is read on both sides of a meeting of threads, in every list of statements.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    // Arrays that were read, and whether threads have met since.
    let mut met: BTreeMap<Name, bool> = BTreeMap::new();
    let mut out = vec![];
    for s in body {
        let [reads, writes] = [Access::Read, Access::Write].map(|a| touched(std::slice::from_ref(&s), a));
        let pinned: Vec<Name> = reads.iter().filter(|a| met.get(*a) == Some(&true)).cloned().collect();
        for array in pinned {
            if let Some(l) = pin(nest, &array) {
                out.push(l);
            }
        }
        met.retain(|a, _| !writes.contains(a));
        met.extend(reads.into_iter().filter(|a| !writes.contains(a)).map(|a| (a, false)));
        if meets(&s) {
            met.values_mut().for_each(|m| *m = true);
        }
        out.push(s.map_lists(&mut |list| run(nest, list)));
    }
    out
}

/// True where threads exchange values.
fn meets(s: &DStmt) -> bool {
    let mut found = false;
    s.visit(&mut |s| found |= matches!(s, DStmt::Barrier(_) | DStmt::Shuffle { .. }));
    found
}

/// The loop that pins an array of registers; `None` for what is no long array of 16-bit floats.
fn pin(nest: &mut Nest, array: &Name) -> Option<DStmt> {
    let b = nest.buffers.get(array).filter(|b| matches!(b.dtype, DType::F16 | DType::BF16))?;
    let len = super::flatten::length(nest, b).as_int().filter(|n| n % 2 == 0 && *n >= LONG)?;
    if !nest.is_local(array) {
        return None;
    }
    let var = nest.fresh("w");
    nest.ranges.set(var.clone(), 0, len / 2 - 1);
    let pair = At::new(array, index_var(&var) * Expr::i64(2));
    let body = vec![DStmt::Instr(Instr::new(Op::Pin, [pair], []))];
    Some(DStmt::For(DFor::new(var, Expr::i64(len / 2), DKind::Unrolled, body)))
}

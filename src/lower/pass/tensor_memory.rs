//! Takes the columns of buffers in tensor memory at the start of a kernel, and gives them back at its end.
//!
//! The first warp of a block takes them, those of all buffers at once: blocks of a multiprocessor that each waited for a second
//! part would wait for each other. Every thread finds them behind a barrier. At the end all threads meet, so that
//! nothing is read from columns that are given back. Blocks of pairs, as products are, take and give back columns together:
//! they have met before, and wait for each other at the end.
//!
//! before: `.. d[0] ..`, `d` of 128 columns
//! after:  `if thread < 32 { tcgen05_alloc word, 128; relinquish }; barrier; tcgen05_find d at word; .. d[0] ..;`
//!         `barrier; if thread < 32 { tcgen05_dealloc d, 128 }`
//!
//! The schedule, or the program, is at fault where there are not as many columns.

use super::cluster_loads::meeting;
use super::finish::used_buffers;
use crate::ir::device::{DStmt, index_var};
use crate::ir::instr::{At, CtaGroup, Instr, Op, TENSOR_COLUMNS, TENSOR_LANES, Tcgen05, columns_taken};
use crate::ir::kernel::Barrier;
use crate::ir::{BinOp, DType, Expr, Name, Scope};
use crate::lower::LowerError;
use crate::lower::nest::{Nest, THREADS};

const PASS: &str = "tensor_memory";

/// Places what takes columns and gives them back.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Result<Vec<DStmt>, LowerError> {
    let used: Vec<Name> = used_buffers(&body).into_iter().filter(|name| nest.is_tensor(name)).collect();
    let Some(first) = used.first() else { return Ok(body) };
    let (found, all) = places(nest, &used)?;
    if all > TENSOR_COLUMNS {
        let why = format!("{all} columns of tensor memory, which has {TENSOR_COLUMNS}");
        return Err(LowerError::new(PASS, first, why));
    }
    let (group, columns) = (group_of(&body), columns_taken(all));
    let words = nest.scratch("columns", DType::U32, Expr::i64(1), Scope::Shared);
    let word = || At::new(&words, Expr::i64(0));
    let does = |op: Tcgen05, places: Vec<At>| DStmt::Instr(Instr::new(op, places, []));
    let start = |name: &Name| At::new(name, Expr::i64(0));
    let taken =
        vec![does(Tcgen05::Alloc { columns, group }, vec![word()]), does(Tcgen05::Relinquish { group }, vec![])];
    let given = found.iter().take(1).map(|(d, _)| does(Tcgen05::Dealloc { columns, group }, vec![start(d)])).collect();
    let (mut out, over) = match group {
        CtaGroup::One => (vec![], vec![DStmt::Barrier(Barrier::Block)]),
        CtaGroup::Pair => (meeting(false).to_vec(), meeting(true).to_vec()),
    };
    out.extend([by_first_warp(nest, taken), DStmt::Barrier(Barrier::Block)]);
    out.extend(found.iter().map(|(d, column)| does(Tcgen05::Find { column: *column }, vec![start(d), word()])));
    out.extend(body);
    out.extend(over);
    out.push(by_first_warp(nest, given));
    Ok(out)
}

/// The blocks that products are of, and all else that is done with tensor memory.
fn group_of(body: &[DStmt]) -> CtaGroup {
    let mut group = CtaGroup::One;
    let mut note = |s: &DStmt| {
        if let DStmt::Instr(Instr { op: Op::Tcgen05(op), .. }) = s {
            group = op.group().unwrap_or(group);
        }
    };
    body.iter().for_each(|s| s.visit(&mut note));
    group
}

/// The first column of each buffer, the widest before the others, and how many they are.
fn places(nest: &Nest, used: &[Name]) -> Result<(Vec<(Name, i64)>, i64), LowerError> {
    let mut wide = vec![];
    for name in used {
        let len = nest.buffer(PASS, name)?.len();
        let len = len.ok_or_else(|| LowerError::new(PASS, name, "the size of the array is not a constant"))?;
        wide.push((name, (len + TENSOR_LANES - 1) / TENSOR_LANES));
    }
    wide.sort_by_key(|(_, columns)| std::cmp::Reverse(*columns));
    let (mut out, mut all) = (vec![], 0);
    for (name, columns) in wide {
        out.push((name.clone(), all));
        all += columns;
    }
    Ok((out, all))
}

fn by_first_warp(nest: &Nest, then: Vec<DStmt>) -> DStmt {
    let axes = THREADS.iter().zip(nest.block).rev().filter(|(_, n)| *n > 1);
    let thread = axes.fold(None, |outer: Option<Expr>, (tag, n)| {
        let own = index_var(&Name::new(tag.name()));
        Some(outer.map_or(own.clone(), |at| at * Expr::i64(i64::from(n)) + own))
    });
    let thread = thread.unwrap_or_else(|| Expr::i64(0));
    let cond = Expr::binary(BinOp::Lt, thread, Expr::i64(i64::from(nest.target.warp)));
    DStmt::If { cond, then, otherwise: vec![] }
}

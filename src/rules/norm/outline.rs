//! The outline of a kernel that works row by row: what a thread keeps and has in flight, how often the threads of
//! a row meet, and what an element costs in all passes together.

use crate::analysis::Facts;
use crate::ir::{BinOp, Expr, ExprKind, Stmt};
use crate::rules::find::rows::{Role, Rows};
use crate::rules::find::shape::find_block;
use crate::rules::parts::*;
use crate::rules::space::limits::registers_left;
use crate::rules::space::outlines::{load_regs, meeting};
use crate::rules::{Combine, LaunchOutline};

/// Registers besides the row: addresses, indices, results of reductions.
pub(super) const STATE: i64 = 12;
/// The same while a thread reads what all rows share.
const BESIDE_ROW: i64 = 24;
/// Instructions of an access to memory: its address, its condition, itself.
const ACCESS: i64 = 3;
/// Instructions of an elementary function and of a quotient, and of both where arithmetic is relaxed.
const CALL: [i64; 2] = [9, 3];
const QUOTIENT: [i64; 2] = [8, 1];
/// Latency of reading a step again from the caches, and from shared memory, in that of DRAM.
const AGAIN: f64 = 0.4;
const SHARED_AGAIN: f64 = 0.15;
/// Lanes read whole vectors of a row in shared memory element by element: turns of the banks for each word between them.
const CONFLICTS: f64 = 0.7;

/// The sizes of a function of rows, all constant.
#[derive(Clone)]
pub struct Sizes {
    rows: i64,
    columns: i64,
    element: DType,
    /// Bytes of an element of each tensor that is read by rows.
    inputs: Vec<i64>,
    /// Of those that are kept, or of the value in place of them, all together.
    kept: i64,
    /// Of each that a thread holds which keeps the row: what is kept, and tensors that one block reads.
    held: Vec<i64>,
    /// Bytes of an element of each tensor that all rows share.
    pub(super) shared: Vec<i64>,
    /// True where the last pass alone reads these, as that of a norm; a mask is in all of them.
    pub(super) shared_late: bool,
    /// Bytes written.
    written: i64,
    /// True where elements are written, and not rows alone.
    elements: bool,
    /// Passes over a row, and reductions among them.
    passes: i64,
    reductions: i64,
    work: Work,
    warp: i64,
    /// Registers of a multiprocessor.
    regs: i64,
}

/// Operations on one element in all passes together.
#[derive(Clone, Copy, Default)]
struct Work {
    plain: i64,
    calls: i64,
    quotients: i64,
}

impl Work {
    /// Adds those of an expression that differ from column to column.
    fn add(&mut self, e: &Expr, column: &Name) {
        if !e.uses_var(column) {
            return;
        }
        match e.kind() {
            ExprKind::Load { .. } => return,
            ExprKind::Call { .. } => self.calls += 1,
            ExprKind::Binary { op: BinOp::Div, .. } => self.quotients += 1,
            _ => self.plain += 1,
        }
        e.for_each_child(|c| self.add(c, column));
    }
}

impl Sizes {
    /// The sizes, where all are known.
    pub fn of(r: &Rows, target: &Target) -> Option<Sizes> {
        let func = r.schedule.func();
        let (facts, mut shared, mut work, mut passes) = (Facts::of(func), vec![], Work::default(), 0);
        let mut shared_late = true;
        for b in &r.blocks {
            let block = find_block(func, &b.name);
            let [_, column] = &block.iters[..] else { continue };
            passes += 1;
            block.body.iter().for_each(|s| {
                s.visit(&mut |s| {
                    if let Stmt::Store { value, .. } = s {
                        work.add(value, &column.var);
                    }
                });
            });
            let reads = facts.block(&b.name).map_or(&[][..], |f| &f.reads);
            let by_rows = |a: &Name| r.inputs.iter().any(|i| i.buffer == *a);
            let mine = reads.iter().filter(|a| a.vars().contains(&column.var) && !by_rows(&a.buffer));
            shared_late &= b.role == Role::Full || mine.clone().next().is_none();
            shared.extend(mine.map(|a| func.buffer(&a.buffer).dtype.bytes() as i64));
        }
        let roles = |is: fn(&Role) -> bool| r.blocks.iter().filter(|b| is(&b.role)).count() as i64;
        let once = r.inputs.iter().filter(|i| i.readers.len() < 2).map(|i| i.dtype.bytes() as i64);
        Some(Sizes {
            rows: r.rows?,
            columns: r.columns?,
            element: r.dominant().dtype,
            kept: r.kept_bytes().iter().sum(),
            held: r.kept_bytes().into_iter().chain(once).collect(),
            inputs: r.inputs.iter().map(|i| i.dtype.bytes() as i64).collect(),
            shared,
            shared_late,
            written: r.written?,
            elements: roles(|r| *r == Role::Full) > 0,
            passes,
            reductions: roles(|r| matches!(r, Role::Reduce(_))),
            work,
            warp: i64::from(target.warp),
            regs: i64::from(target.regs_per_sm),
        })
    }

    /// Instructions for one element, where `again` says that its row is read in every pass, `common` that a
    /// function of it is kept.
    fn of_element(&self, relax: usize, again: bool, common: bool) -> i64 {
        let calls = self.work.calls - i64::from(common && self.work.calls > 1);
        let narrow = self.inputs.iter().filter(|b| **b < 4).count() as i64;
        let widened = if again { narrow * (self.passes - 1) } else { 0 };
        self.work.plain + calls * CALL[relax] + self.work.quotients * QUOTIENT[relax] + widened
    }

    /// Accesses to memory for one vector.
    fn accesses(&self, again: bool) -> i64 {
        let passes = if again { self.passes } else { 1 };
        self.inputs.len() as i64 * passes + self.shared.len() as i64 + i64::from(self.elements)
    }

    /// Vectors of a row that a thread has at most.
    fn vectors(&self, cluster: i64, k: &Knobs) -> i64 {
        over(self.columns, k.get("threads") * cluster * lanes(k.get("vector"), self.element))
    }

    /// Vectors of a thread for which what all rows share is loaded together in the last pass over a row that is kept, where the
    /// launch bounds leave too few registers for all of them: the largest even part for which they do.
    pub fn together(&self, place: Place, cluster: i64, k: &Knobs) -> Option<i64> {
        let (all, width) = (self.vectors(cluster, k), lanes(k.get("vector"), self.element));
        let (row, enough) = match place {
            Place::Shared => (0, BESIDE_ROW),
            // single ones are loaded late
            Place::Registers if width > 1 && self.shared_late => {
                (Sizes::registers(all * width, &self.held, width), STATE)
            }
            Place::Registers | Place::Functions | Place::Nowhere => return None,
        };
        let left = registers_left(self.regs, k.get("threads") * k.get("rows"), k.get("min_blocks")) - row;
        let each = Some(self.shared_registers(width)).filter(|n| *n > 0)?;
        if (left - enough) / each >= all {
            return None;
        }
        let most = ((left - BESIDE_ROW) / each).max(1);
        (1..all).rev().find(|n| all % n == 0 && *n <= most)
    }

    /// Registers of a vector of each tensor that all rows share: three times as many where these are shifted out of two words, since
    /// rows begin within them.
    fn shared_registers(&self, width: i64) -> i64 {
        let words = |b: &i64| if self.columns % width != 0 && *b < 4 { 3 } else { 1 };
        self.shared.iter().map(|b| words(b) * Sizes::registers(width, &[*b], width)).sum()
    }

    /// Registers of `n` elements in vectors of `lanes`: a word each where they are loaded one by one.
    pub(super) fn registers(n: i64, bytes: &[i64], lanes: i64) -> i64 {
        bytes.iter().map(|b| if lanes * b >= 4 { n * b / 4 } else { n }).sum()
    }
}

/// Where a row is between passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In registers, with a function that several passes need.
    Functions,
    /// In registers.
    Registers,
    /// In shared memory.
    Shared,
    /// Read again.
    Nowhere,
}

/// One launch of `rows` rows a block, each shared by the threads of `cluster` blocks.
pub fn launch(s: &Sizes, place: Place, cluster: i64, k: &Knobs) -> LaunchOutline {
    let (threads, rows, again) = (k.get("threads"), k.get("rows"), place == Place::Nowhere);
    let width = lanes(k.get("vector"), s.element);
    let step = threads * cluster * width;
    let unroll = if again { k.get("unroll") } else { s.vectors(cluster, k) };
    let steps = if again { (s.columns + step * unroll - 1) / (step * unroll) } else { 1 };
    let (each, relax) = (unroll * width, k.get("relax").clamp(0, 1) as usize);
    let in_memory = again || place == Place::Shared;
    let bytes: i64 = s.inputs.iter().sum();
    let early = s.together(place, cluster, k).map_or(each, |n| n * width);
    let (row, weights) = (Sizes::registers(each, &s.held, width), Sizes::registers(early, &s.shared, width));
    let turns = CONFLICTS * (s.inputs.len() as i64 * s.passes * each) as f64 * (k.get("vector") as f64 / 4.0).max(1.0);
    let conflicts = if place == Place::Shared { turns as i64 } else { 0 };
    let alone = Combine::across(threads, 1, s.warp);
    let combine = Combine { parts: alone.parts * cluster, ..alone };
    let online = if k.get("online") == 1 { 1 } else { 0 };
    LaunchOutline {
        blocks: (s.rows + rows - 1) / rows * cluster,
        threads: threads * rows,
        min_blocks: k.get("min_blocks"),
        state_regs: STATE
            + match place {
                Place::Functions => each.max(row),
                Place::Registers => row,
                Place::Shared | Place::Nowhere => 0,
            }
            // The last pass needs them all, and no loop keeps the compiler from loading them early.
            + if again { 0 } else { weights },
        load_regs: if in_memory { load_regs(each * bytes, k.get("vector")) } else { 0 }
            + if again { weights } else { 0 },
        smem: if place == Place::Shared { each * threads * s.kept * rows } else { meeting(combine.parts, rows, 4) },
        load_bytes: k.get("vector"),
        in_flight: each * bytes,
        steps,
        again: match place {
            Place::Nowhere => AGAIN * (steps * (s.passes - 1 - online)) as f64,
            Place::Shared => SHARED_AGAIN * s.passes as f64,
            Place::Functions | Place::Registers => 0.0,
        },
        read: s.rows * s.columns * bytes,
        written: s.written,
        padding: (steps * unroll * step) as f64 / s.columns.max(1) as f64,
        instructions: each * s.of_element(relax, in_memory, place == Place::Functions)
            + unroll * ACCESS * s.accesses(in_memory)
            + conflicts,
        combine,
        rounds: s.reductions,
        cluster,
        ..LaunchOutline::default()
    }
}

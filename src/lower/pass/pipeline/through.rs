//! A fill of shared memory by way of registers, in two parts between which the computation stands.
//!
//! before: `s[i] <- float16(p[i])`
//! after:  `r <- float16(p[i])`; `s[i] <- r`; of a chained fill, `s[i] <- float16(w[i]) * p[i]` with `w` shared:
//!         `r <- p[i]`; `s[i] <- float16(w[i]) * r`
//!
//! Declines (`None`): loops that are not constant, stores under a condition that loads, too many registers.

use super::fills::Fill;
use crate::analysis::simplify;
use crate::ir::device::{DFor, DKind, DStmt, index_var};
use crate::ir::instr::Access;
use crate::ir::{Expr, ExprKind, Name, Scope};
use crate::lower::fact::replicated::loads;
use crate::lower::nest::Nest;
use crate::lower::pass::batch::touched;
use std::collections::BTreeSet;

/// Bytes of registers that a thread may hold on the way into shared memory.
const MAX_HELD: i64 = 256;

/// A fill in two: everything up to registers of its own, and from there to shared memory. What is computed from
/// shared memory stands in the second part, with the loads from global memory that it needs in the first.
pub fn through_registers(nest: &mut Nest, fill: &Fill) -> Option<(Vec<DStmt>, Vec<DStmt>)> {
    let mut split = Split { nest, loops: vec![], bytes: 0, chained: fill.chained, known: vec![] };
    split.list(&fill.body)
}

struct Split<'n, 'a> {
    nest: &'n mut Nest<'a>,
    /// The loops around, outermost first.
    loops: Vec<(Name, i64)>,
    /// Bytes held so far.
    bytes: i64,
    /// Only loads from global memory run ahead.
    chained: bool,
    /// Loads from global memory that stand before what is looked at, and their registers.
    known: Vec<(Expr, Expr)>,
}

impl Split<'_, '_> {
    fn list(&mut self, body: &[DStmt]) -> Option<(Vec<DStmt>, Vec<DStmt>)> {
        let (mut load, mut store, known) = (vec![], vec![], self.known.len());
        for s in body {
            let (a, b) = self.one(s)?;
            load.extend(a);
            store.extend(b);
        }
        self.known.truncate(known);
        Some((load, store))
    }

    fn one(&mut self, s: &DStmt) -> Option<(Vec<DStmt>, Vec<DStmt>)> {
        match s {
            DStmt::For(l) => {
                self.loops.push((l.var.clone(), l.extent.as_int()?));
                let (load, store) = self.list(&l.body)?;
                self.loops.pop();
                let around = |body: Vec<DStmt>| match body.is_empty() {
                    true => vec![],
                    false => vec![DStmt::For(DFor { kind: DKind::Unrolled, batch: false, ..l.with_body(body) })],
                };
                Some((around(load), around(store)))
            }
            DStmt::If { cond, then, otherwise } => {
                let mut read = BTreeSet::new();
                loads(cond, &mut read);
                let ((a, b), (c, d)) = (self.list(then)?, self.list(otherwise)?);
                let stores = !b.is_empty() || !d.is_empty();
                if stores && !read.is_empty() {
                    return None;
                }
                let under = |then: Vec<DStmt>, otherwise: Vec<DStmt>| match then.is_empty() && otherwise.is_empty() {
                    true => vec![],
                    false => vec![DStmt::If { cond: cond.clone(), then, otherwise }],
                };
                Some((under(a, c), under(b, d)))
            }
            DStmt::Store { .. } | DStmt::Instr(_) if self.chained => self.loads(s),
            DStmt::Copy { src, .. } if self.chained => (!self.nest.is_global(src)).then(|| (vec![], vec![s.clone()])),
            DStmt::Store { buffer, indices, value, hint } if self.nest.is_shared(buffer) => {
                let (held, at) = self.hold(buffer, 1)?;
                let dtype = self.nest.buffers.get(buffer)?.dtype;
                let load = DStmt::store(held.clone(), vec![at.clone()], value.clone());
                let value = Expr::load(held, vec![at], dtype);
                let store = DStmt::Store { buffer: buffer.clone(), indices: indices.clone(), value, hint: *hint };
                Some((vec![load], vec![store]))
            }
            DStmt::Copy { dst, dst_index, src, src_index, lanes, hint } if self.nest.is_shared(dst) => {
                let n = i64::from(*lanes);
                let (held, at) = self.hold(dst, n)?;
                let load = self.moves(&held, &at, src, src_index, n)?;
                let store = DStmt::Copy {
                    dst: dst.clone(),
                    dst_index: dst_index.clone(),
                    src: held,
                    src_index: at,
                    lanes: *lanes,
                    hint: *hint,
                };
                Some((vec![load], vec![store]))
            }
            DStmt::Store { .. } | DStmt::Copy { .. } => Some((vec![s.clone()], vec![])),
            DStmt::Instr(_) => self.is_private(s).then(|| (vec![s.clone()], vec![])),
            _ => None,
        }
    }

    /// A statement whose loads from global memory go into registers first.
    fn loads(&mut self, s: &DStmt) -> Option<(Vec<DStmt>, Vec<DStmt>)> {
        let (mut load, mut fits) = (vec![], true);
        let rest = s.clone().map_own_exprs(&mut |e| match self.held(e, &mut load) {
            Some(e) => e,
            None => {
                fits = false;
                e.clone()
            }
        });
        fits.then(|| (load, vec![rest]))
    }

    /// An expression with registers in place of its loads from global memory, and these loads; `None` where there
    /// are too many.
    fn held(&mut self, e: &Expr, load: &mut Vec<DStmt>) -> Option<Expr> {
        let mut read = BTreeSet::new();
        loads(e, &mut read);
        match e.kind() {
            ExprKind::Load { buffer, dtype, .. } if read.iter().all(|b| self.nest.is_global(b)) => {
                if let Some((_, held)) = self.known.iter().find(|(known, _)| known == e) {
                    return Some(held.clone());
                }
                let (name, at) = self.hold(buffer, 1)?;
                load.push(DStmt::store(name.clone(), vec![at.clone()], e.clone()));
                let held = Expr::load(name, vec![at], *dtype);
                self.known.push((e.clone(), held.clone()));
                Some(held)
            }
            // what a value reads under a condition may lie nowhere else
            ExprKind::IfThenElse { .. } | ExprKind::Select { .. } => Some(e.clone()),
            _ => {
                let mut fits = true;
                let e = e.map_children(|c| match self.held(c, load) {
                    Some(c) => c,
                    None => {
                        fits = false;
                        c.clone()
                    }
                });
                fits.then_some(e)
            }
        }
    }

    /// True where a statement writes to registers only.
    fn is_private(&self, s: &DStmt) -> bool {
        touched(std::slice::from_ref(s), Access::Write).iter().all(|b| self.nest.is_local(b))
    }

    /// Registers for what goes to `buffer`, `lanes` elements for each step of the loops around, and the
    /// index of the current step's first.
    fn hold(&mut self, buffer: &Name, lanes: i64) -> Option<(Name, Expr)> {
        let dtype = self.nest.buffers.get(buffer)?.dtype;
        let steps: i64 = self.loops.iter().map(|(_, n)| n).product();
        self.bytes += steps * lanes * dtype.bytes() as i64;
        if self.bytes > MAX_HELD {
            return None;
        }
        let name = self.nest.scratch(&format!("{buffer}_next"), dtype, Expr::i64(steps * lanes), Scope::Local);
        let step = self.loops.iter().fold(Expr::i64(0), |at, (var, n)| at * Expr::i64(*n) + index_var(var));
        Some((name, simplify(&(step * Expr::i64(lanes)), &self.nest.ranges)))
    }

    /// Moves registers, one by one.
    fn moves(&mut self, dst: &Name, to: &Expr, src: &Name, from: &Expr, n: i64) -> Option<DStmt> {
        if !self.nest.is_local(src) {
            return None;
        }
        let dtype = self.nest.buffers.get(src)?.dtype;
        let var = self.nest.fresh("v");
        self.nest.ranges.set(var.clone(), 0, n - 1);
        let value = Expr::load(src.clone(), vec![from.clone() + index_var(&var)], dtype);
        let store = DStmt::store(dst.clone(), vec![to.clone() + index_var(&var)], value);
        Some(DStmt::For(DFor::new(var, Expr::i64(n), DKind::Unrolled, vec![store])))
    }
}

//! Elementwise nests over a tile that the threads of a block hold together, as loops over a thread's own
//! registers.
//!
//! before: `for i < 64, j < 64 { out[bx * 64 + i, j] = f(c[i, j]) }`, `c` held by the block
//! after:  `for x < 4, y < 8 { for v < 2 { t[v] = f(c[x * 16 + y * 2 + v]) }; for v < 2 { out[..] = t[v] } }`
//!
//! Stands in a circle with `fragments`, of whose pass it is a part.

use super::fragments::PASS;
use super::quads::{self, Pairs};
use super::{group_words, runs, warp_rows, words};
use crate::analysis::{Ranges, linear, simplify};
use crate::ir::device::{DFor, DKind, DStmt, and, guarded, index_var};
use crate::ir::{BinOp, Buffer, ExecScope, Expr, ExprKind, Name, Scope, Tile};
use crate::lower::LowerError;
use crate::lower::nest::Nest;
use crate::tile::Part;

/// Neighbours in a row of accumulators that a thread holds.
pub const PAIR: i64 = 2;

/// What is held.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A factor of a product, which is loaded or decoded.
    Factor,
    /// Sums of products.
    Sums,
    /// Sums of products that are carried out by warpgroups.
    SumsOfGroups,
}

/// A tile of a buffer that the threads of the block hold together.
#[derive(Clone, PartialEq)]
pub struct Held {
    pub buffer: Name,
    /// Its first index.
    pub first: Vec<Expr>,
    /// The dimensions that are rows and columns.
    pub dims: [usize; 2],
    pub shape: [i64; 2],
    /// Neighbours in a row that a thread holds.
    pub run: i64,
    pub what: What,
    /// Whose threads hold it.
    pub scope: ExecScope,
    /// Registers for the scales of its rows, where these multiply sums and not values.
    pub scales: Option<Name>,
}

/// The loops directly inside each other from `l` on, with constant extents, and what is in them.
pub fn perfect(l: &DFor) -> (Vec<(Name, i64)>, &[DStmt]) {
    let (mut loops, mut at) = (vec![], l);
    loop {
        let Some(n) = at.extent.as_int() else { return (loops, &at.body) };
        loops.push((at.var.clone(), n));
        match at.body.as_slice() {
            [DStmt::For(inner)] => at = inner,
            body => return (loops, body),
        }
    }
}

/// True where a statement reads or writes a buffer, itself or inside it.
pub fn touches(s: &DStmt, name: &Name) -> bool {
    crate::lower::pass::finish::used_buffers(std::slice::from_ref(s)).contains(name)
}

/// The loops over registers that a marked nest amounts to.
pub fn of(nest: &mut Nest, l: &DFor, held: &[&Held]) -> Result<Vec<DStmt>, LowerError> {
    let no = |why: &str| LowerError::new(PASS, &l.var, format!("no nest over a block's tile: {why}"));
    let (loops, body) = perfect(l);
    let used: Vec<&&Held> = held.iter().filter(|h| body.iter().any(|s| touches(s, &h.buffer))).collect();
    let [held] = used.as_slice() else { return Err(no("it is over no tile, or over several")) };
    let accesses = accesses_of(body, &held.buffer, &nest.ranges);
    let shown: Vec<Buffer> = nest.held.get(&held.buffer).cloned().into_iter().collect();
    let part = nest.with_cx(&shown, |cx| {
        let part = Part::of_scope(&cx.view(&Tile::whole(&held.buffer, &held.shape))?, held.scope, cx)?;
        Ok((part.places(cx)?, part))
    });
    let (places, part) = part.map_err(|why: String| LowerError::new(PASS, &held.buffer, why))?;
    let (run, pairs) = (held.run, part.shape[1] / held.run);
    let [x, y, v] = [("x", part.shape[0]), ("y", pairs), ("v", run)].map(|(stem, n)| nest.loop_var(stem, n));
    let own = [index_var(&x), index_var(&y) * Expr::i64(run) + index_var(&v)];
    let place = places.of(&own);
    let mut map = vec![];
    let mut exists = None;
    for (d, first) in held.first.iter().enumerate() {
        let mut all = accesses.iter().map(|(at, known)| simplify(&(at[d].clone() - first.clone()), known));
        let inside = all.next().ok_or_else(|| no("it uses no element"))?;
        if !all.all(|other| other == inside) {
            return Err(no("it uses several elements at a time"));
        }
        let axis = held.dims.iter().position(|own| *own == d);
        let coordinate = axis.map_or(Expr::i64(0), |a| place[a].clone());
        let whole = axis.map_or(1, |a| held.shape[a]);
        let of = loops.iter().find(|(var, _)| inside.uses_var(var));
        let (shift, n) = match of {
            Some((var, n)) => {
                let (step, rest) = linear(&inside, var, &nest.ranges).ok_or_else(|| no("an index is not linear"))?;
                let shift =
                    rest.as_int().filter(|_| step.is_int(1)).ok_or_else(|| no("an index is no shifted loop"))?;
                map.push((var.clone(), coordinate.clone() - Expr::i64(shift)));
                (shift, *n)
            }
            None => (inside.as_int().ok_or_else(|| no("it is over another part of the buffer"))?, 1),
        };
        if shift > 0 {
            exists = and(exists, Some(Expr::binary(BinOp::Ge, coordinate.clone(), Expr::i64(shift))));
        }
        if shift + n < whole {
            exists = and(exists, Some(Expr::binary(BinOp::Lt, coordinate, Expr::i64(shift + n))));
        }
    }
    if let Some((var, _)) = loops.iter().find(|(v, _)| map.iter().all(|(own, _)| own != v)) {
        return Err(LowerError::new(PASS, var, "this loop does not walk over the block's tile"));
    }
    let register = simplify(&part.at(&own), &nest.ranges);
    let subst = Subst { held: &held.buffer, register, map };
    let body: Vec<DStmt> = body.iter().map(|s| subst.stmt(nest, s)).collect();
    if held.what == What::Factor && run == PAIR {
        let all = group_words::decoded(nest, &place[0], (&x, part.shape[0]), (&y, pairs), &v, &body);
        return all.filter(|_| exists.is_none()).ok_or_else(|| no("it does not decode words of whole tiles"));
    }
    if held.what == What::Factor {
        let (row, own) = (place[0].clone(), [(&x, part.shape[0]), (&y, pairs)]);
        let scales = held.scales.as_ref().map(|to| words::Apart { to, row: &x, rows: part.shape[0] });
        let decoded = words::decoded(nest, &row, own[1], &v, (&body, scales));
        let all = decoded.map(|row| vec![DStmt::unrolled(&x, part.shape[0], vec![row])]);
        let all = all.or_else(|| runs::loaded(nest, &row, own, &v, &body));
        return all.filter(|_| exists.is_none()).ok_or_else(|| no("it neither decodes words nor loads neighbours"));
    }
    let body = guarded(exists, body);
    let own = Pairs { y: &y, v: &v, n: pairs };
    if held.what == What::SumsOfGroups
        && let Some(all) = warp_rows::of_columns(nest, (&x, part.shape[0]), &own, &body)
    {
        return Ok(vec![all]);
    }
    let row = match quads::of(nest, &own, &body).or_else(|| warp_rows::of(nest, &own, &body)) {
        Some(row) => row,
        None => DStmt::unrolled(&y, pairs, pairwise(nest, &v, body)),
    };
    Ok(vec![DStmt::unrolled(&x, part.shape[0], vec![row])])
}

/// The indices of all accesses to a buffer, and what is known of variables there: in a branch, that its condition holds,
/// by which its indices may have been simplified.
fn accesses_of(body: &[DStmt], name: &Name, ranges: &Ranges) -> Vec<(Vec<Expr>, Ranges)> {
    let mut all = vec![];
    for s in body {
        s.visit(&mut |s| {
            // loads of expressions come after
            let mut own =
                |buffer: &Name, at: &[Expr]| all.extend((buffer == name).then(|| (at.to_vec(), ranges.clone())));
            match s {
                DStmt::Store { buffer, indices, .. } => own(buffer, indices),
                DStmt::Copy { .. } | DStmt::Instr(_) => s.for_each_access(|buffer, at, _| own(buffer, at)),
                _ => {}
            }
            s.for_each_expr(|e| loads_of(e, name, ranges, &mut all));
        });
    }
    all
}

fn loads_of(e: &Expr, name: &Name, ranges: &Ranges, all: &mut Vec<(Vec<Expr>, Ranges)>) {
    match e.kind() {
        ExprKind::Load { buffer, indices, .. } if buffer == name => all.push((indices.clone(), ranges.clone())),
        ExprKind::IfThenElse { cond, then, otherwise } | ExprKind::Select { cond, then, otherwise } => {
            loads_of(cond, name, ranges, all);
            loads_of(then, name, &ranges.assuming(cond), all);
            loads_of(otherwise, name, ranges, all);
        }
        _ => e.for_each_child(|c| loads_of(c, name, ranges, all)),
    }
}

/// What becomes of a nest's body.
struct Subst<'h> {
    held: &'h Name,
    register: Expr,
    /// Values of the nest's loop variables.
    map: Vec<(Name, Expr)>,
}

impl Subst<'_> {
    fn stmt(&self, nest: &Nest, s: &DStmt) -> DStmt {
        match s.map_exprs(&mut |e| self.expr(nest, e)) {
            DStmt::Store { buffer, value, hint, .. } if buffer == *self.held => {
                DStmt::Store { buffer, indices: vec![self.register.clone()], value, hint }
            }
            other => other,
        }
    }

    fn expr(&self, nest: &Nest, e: &Expr) -> Expr {
        let e = self.loads(e);
        let e = e.subst(&|n| self.map.iter().find(|(v, _)| v == n).map(|(_, e)| e.clone()));
        simplify(&e, &nest.ranges)
    }

    fn loads(&self, e: &Expr) -> Expr {
        match e.kind() {
            ExprKind::Load { buffer, dtype, .. } if buffer == self.held => {
                Expr::load(buffer.clone(), vec![self.register.clone()], *dtype)
            }
            _ => e.map_children(|c| self.loads(c)),
        }
    }
}

/// The body for both elements of a pair: values that go to memory wait in registers, so that both are
/// stored together where that is possible.
fn pairwise(nest: &mut Nest, v: &Name, body: Vec<DStmt>) -> Vec<DStmt> {
    let both = |var: &Name, kind, body| DStmt::For(DFor::new(var.clone(), Expr::i64(PAIR), kind, body));
    match body.as_slice() {
        [s] => match stored(nest, v, s) {
            Some((compute, store)) => {
                let again = nest.loop_var("v", PAIR);
                let store = store.subst(&|n| (n == v).then(|| index_var(&again)));
                vec![both(v, DKind::Unrolled, vec![compute]), both(&again, DKind::Vectorized, vec![store])]
            }
            None => vec![both(v, DKind::Unrolled, body)],
        },
        _ => vec![both(v, DKind::Unrolled, body)],
    }
}

/// A store to global memory in two: the value into a register, and the register into memory.
fn stored(nest: &mut Nest, v: &Name, s: &DStmt) -> Option<(DStmt, DStmt)> {
    match s {
        DStmt::If { cond, then, otherwise } if otherwise.is_empty() => {
            let [s] = then.as_slice() else { return None };
            let (compute, store) = stored(nest, v, s)?;
            let under = |s| DStmt::If { cond: cond.clone(), then: vec![s], otherwise: vec![] };
            Some((under(compute), under(store)))
        }
        DStmt::Store { buffer, indices, value, hint } if nest.is_global(buffer) => {
            let name = nest.scratch(&format!("{buffer}_pair"), value.dtype(), Expr::i64(PAIR), Scope::Local);
            let compute = DStmt::store(name.clone(), vec![index_var(v)], value.clone());
            let value = Expr::load(name, vec![index_var(v)], value.dtype());
            let store = DStmt::Store { buffer: buffer.clone(), indices: indices.clone(), value, hint: *hint };
            Some((compute, store))
        }
        _ => None,
    }
}

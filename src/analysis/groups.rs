//! Takes iterators apart whose neighbours share what one factor of a reduction reads.
//!
//! In attention several query heads read one key head. As one iterator over query heads that is a product of a
//! vector with a matrix for each of them; as groups and their members it is a product with a row for each member,
//! and the matrix is read once. Intermediates get an axis for each of both, and so do the blocks that go on with
//! them, so that every rule sees plain axes.
//!
//! before: `C[h, j] += Q[h, k] * K[h // 4, j, k]` over `h < 32`, then `O[h, j] = f(C[h, j])`
//! after:  `C[g, m, j] += Q[g * 4 + m, k] * K[g, j, k]` over `g < 8, m < 4`, then `O[g * 4 + m, j] = f(C[g, m, j])`

use super::access::{reads, writes};
use super::walk::{Leaf, chain_end, fresh, leaves, names};
use crate::ir::{BinOp, Block, Buffer, Expr, ExprKind, For, IterKind, IterVar, Name, PrimFunc, Stmt};
use std::collections::{BTreeMap, BTreeSet};

/// The function with grouped iterators taken apart; as it is where an intermediate is read in other ways too.
pub(super) fn split_groups(f: &PrimFunc) -> PrimFunc {
    let own = with_own_results(f);
    let g = own.as_ref().unwrap_or(f);
    Groups::of(g).map_or_else(|| f.clone(), |mut groups| groups.apply(g))
}

/// An axis of an intermediate.
type Place = (Name, usize);

struct Groups {
    /// Members of a group, by block and iterator.
    iters: BTreeMap<(Name, Name), i64>,
    /// The same of intermediates.
    axes: BTreeMap<Place, i64>,
    /// Names that are taken.
    used: BTreeSet<Name>,
    display: BTreeMap<Name, String>,
}

impl Groups {
    fn of(f: &PrimFunc) -> Option<Groups> {
        let found = leaves(f);
        let mut groups =
            Groups { iters: BTreeMap::new(), axes: BTreeMap::new(), used: names(f), display: f.display.clone() };
        for leaf in found.iter().filter(|l| simple(l)) {
            for it in &leaf.block.iters {
                let size = members(leaf.block, it);
                groups.iters.extend(size.map(|n| ((leaf.block.name.clone(), it.var.clone()), n)));
            }
        }
        if groups.iters.is_empty() {
            return None;
        }
        // Each round follows intermediates one block further.
        while groups.follow(f, &found)? {}
        Some(groups)
    }

    /// Marks the axes that split iterators write, and the iterators that read these; true where that was news, `None`
    /// where it can't be.
    fn follow(&mut self, f: &PrimFunc, found: &[Leaf]) -> Option<bool> {
        let before = (self.iters.len(), self.axes.len());
        for leaf in found {
            let stored = writes(leaf.block).into_iter().map(|e| (e, true));
            for (e, stored) in stored.chain(reads(leaf.block).into_iter().map(|e| (e, false))) {
                for (d, index) in e.indices.iter().enumerate() {
                    self.meet(f, leaf, (&e.buffer, stored), (d, index))?;
                }
            }
        }
        Some(before != (self.iters.len(), self.axes.len()))
    }

    /// One index of one element of a block.
    fn meet(
        &mut self,
        f: &PrimFunc,
        leaf: &Leaf,
        (buffer, stored): (&Name, bool),
        (d, index): (usize, &Expr),
    ) -> Option<()> {
        let place = (buffer.clone(), d);
        let own = index.as_var().map(|v| (leaf.block.name.clone(), v.clone()));
        let size = own.as_ref().and_then(|own| self.iters.get(own)).copied();
        match (self.axes.get(&place).copied(), size) {
            (Some(n), Some(m)) if n == m => Some(()),
            (Some(n), None) => {
                let it = leaf.block.iter(index.as_var()?)?;
                (simple(leaf) && it.kind == IterKind::Spatial && it.min.is_int(0)).then_some(())?;
                (it.extent.as_int()? % n == 0).then_some(())?;
                self.iters.insert(own?, n);
                Some(())
            }
            (Some(_), Some(_)) => None,
            (None, Some(n)) if stored && f.allocs.contains(buffer) => {
                self.axes.insert(place, n);
                Some(())
            }
            // the rules want plain axes of what a reduction writes
            (None, Some(_)) if stored && !leaf.block.init.is_empty() => None,
            (None, _) => Some(()),
        }
    }

    fn apply(&mut self, f: &PrimFunc) -> PrimFunc {
        let buffers = f.buffers.iter().map(|b| self.buffer(b)).collect();
        let body = f.body.iter().map(|s| self.nest(s)).collect();
        PrimFunc { buffers, body, display: std::mem::take(&mut self.display), ..f.clone() }
    }

    fn buffer(&self, b: &Buffer) -> Buffer {
        let axis = |(d, size): (usize, &Expr)| match (self.axes.get(&(b.name.clone(), d)), size.as_int()) {
            (Some(members), Some(n)) => [n / members, *members].map(|n| Expr::int(n, size.dtype())).to_vec(),
            _ => vec![size.clone()],
        };
        Buffer { shape: b.shape.iter().enumerate().flat_map(axis).collect(), ..b.clone() }
    }

    fn nest(&mut self, s: &Stmt) -> Stmt {
        let Some(block) = chain_end(s) else { return s.clone() };
        let mut loops = BTreeMap::new();
        let mut iters = BTreeMap::new();
        for it in &block.iters {
            if let Some(members) = self.iters.get(&(block.name.clone(), it.var.clone())).copied() {
                loops.extend(it.binding.as_var().map(|v| (v.clone(), Pair::of(self, v, members))));
                iters.insert(it.var.clone(), Pair::of(self, &it.var, members));
            }
        }
        self.chain(s, &loops, &iters)
    }

    fn chain(&self, s: &Stmt, loops: &BTreeMap<Name, Pair>, iters: &BTreeMap<Name, Pair>) -> Stmt {
        match s {
            Stmt::For(l) => {
                let body: Vec<Stmt> = l.body.iter().map(|s| self.chain(s, loops, iters)).collect();
                match loops.get(&l.var) {
                    None => Stmt::For(For { body, ..l.clone() }),
                    Some(pair) => {
                        let [groups, members] = pair.extents(&l.extent);
                        let inner = For { var: pair.member.clone(), extent: members, body, ..l.clone() };
                        let body = vec![Stmt::For(inner)];
                        Stmt::For(For { var: pair.group.clone(), extent: groups, body, ..l.clone() })
                    }
                }
            }
            Stmt::Block(b) => Stmt::Block(self.block(b, loops, iters)),
            other => other.clone(),
        }
    }

    fn block(&self, b: &Block, loops: &BTreeMap<Name, Pair>, iters: &BTreeMap<Name, Pair>) -> Block {
        let halves = |it: &IterVar| match (iters.get(&it.var), it.binding.as_var().and_then(|v| loops.get(v))) {
            (Some(own), Some(of)) => own.iters(it, of),
            _ => vec![it.clone()],
        };
        let stores = |list: &[Stmt]| list.iter().map(|s| self.store(s, iters)).collect();
        Block {
            iters: b.iters.iter().flat_map(halves).collect(),
            // inferred again, as intermediates have other axes
            regions: None,
            init: stores(&b.init),
            body: stores(&b.body),
            ..b.clone()
        }
    }

    fn store(&self, s: &Stmt, iters: &BTreeMap<Name, Pair>) -> Stmt {
        match s {
            Stmt::Store { buffer, indices, value } => Stmt::Store {
                buffer: buffer.clone(),
                indices: self.indices(buffer, indices, iters),
                value: self.value(value, iters),
            },
            other => other.clone(),
        }
    }

    fn indices(&self, buffer: &Name, indices: &[Expr], iters: &BTreeMap<Name, Pair>) -> Vec<Expr> {
        let axis = |(d, index): (usize, &Expr)| {
            let pair = index.as_var().and_then(|v| iters.get(v));
            match pair.filter(|_| self.axes.contains_key(&(buffer.clone(), d))) {
                Some(pair) => pair.exprs(index).to_vec(),
                None => vec![self.value(index, iters)],
            }
        };
        indices.iter().enumerate().flat_map(axis).collect()
    }

    fn value(&self, e: &Expr, iters: &BTreeMap<Name, Pair>) -> Expr {
        let pair = |e: &Expr| e.as_var().and_then(|v| iters.get(v));
        match e.kind() {
            ExprKind::Load { buffer, indices, dtype } => {
                Expr::load(buffer.clone(), self.indices(buffer, indices, iters), *dtype)
            }
            ExprKind::Binary { op: BinOp::FloorDiv, a, b } if pair(a).is_some_and(|p| b.is_int(p.members)) => {
                pair(a).map_or_else(|| e.clone(), |p| p.exprs(a)[0].clone())
            }
            _ => match pair(e) {
                Some(p) => {
                    let [group, member] = p.exprs(e);
                    group * Expr::int(p.members, e.dtype()) + member
                }
                None => e.map_children(|e| self.value(e, iters)),
            },
        }
    }
}

/// The function with an intermediate, copied afterwards, for every parameter that a block with groups writes; `None`
/// where there is none.
fn with_own_results(f: &PrimFunc) -> Option<PrimFunc> {
    let found = leaves(f);
    let grouped = found.iter().filter(|l| simple(l) && l.block.iters.iter().any(|it| members(l.block, it).is_some()));
    let written = grouped.flat_map(|l| writes(l.block)).filter(|e| !f.allocs.contains(&e.buffer));
    let results: BTreeSet<Name> = written.map(|e| e.buffer).collect();
    let mut g = (!results.is_empty()).then(|| f.clone())?;
    let mut used = names(f);
    for result in results {
        let buffer = f.find_buffer(&result)?;
        let own = Buffer { name: fresh(&mut used, "r"), ..buffer.clone() };
        g.display.insert(own.name.clone(), format!("{}_own", f.display_name(&result)));
        g.body = g.body.iter().map(|s| in_buffer(s, &result, &own.name)).collect();
        g.body.push(copy(&own, &result, &mut used));
        g.allocs.push(own.name.clone());
        g.buffers.push(own);
    }
    Some(g)
}

/// A statement with one buffer in the place of another.
fn in_buffer(s: &Stmt, old: &Name, new: &Name) -> Stmt {
    fn value(e: &Expr, old: &Name, new: &Name) -> Expr {
        let e = e.map_children(|e| value(e, old, new));
        match e.kind() {
            ExprKind::Load { buffer, indices, dtype } if buffer == old => {
                Expr::load(new.clone(), indices.clone(), *dtype)
            }
            _ => e,
        }
    }
    let list = |list: &[Stmt]| list.iter().map(|s| in_buffer(s, old, new)).collect::<Vec<_>>();
    match s.map_exprs(&mut |e| value(e, old, new)) {
        Stmt::For(l) => Stmt::For(For { body: list(&l.body), ..l }),
        Stmt::Block(b) => Stmt::Block(Block { init: list(&b.init), body: list(&b.body), regions: None, ..b }),
        Stmt::Store { buffer, indices, value } if buffer == *old => Stmt::Store { buffer: new.clone(), indices, value },
        other => other,
    }
}

/// `result[i, ..] = own[i, ..]`.
fn copy(own: &Buffer, result: &Name, used: &mut BTreeSet<Name>) -> Stmt {
    let mut axis = |n: &Expr| {
        let [at, var] = ["c", "vc"].map(|base| fresh(used, base));
        let binding = Expr::var(at.clone(), n.dtype());
        let (min, extent) = (Expr::int(0, n.dtype()), n.clone());
        (at, IterVar { var, dtype: n.dtype(), min, extent, kind: IterKind::Spatial, binding })
    };
    let (loops, iters): (Vec<Name>, Vec<IterVar>) = own.shape.iter().map(&mut axis).unzip();
    let indices: Vec<Expr> = iters.iter().map(IterVar::var_expr).collect();
    let value = Expr::load(own.name.clone(), indices.clone(), own.dtype);
    let extents: Vec<Expr> = iters.iter().map(|it| it.extent.clone()).collect();
    let body = vec![Stmt::Store { buffer: result.clone(), indices, value }];
    let block = Stmt::Block(Block::new(fresh(used, "b"), iters, body));
    let nest = loops.into_iter().zip(extents).rev();
    nest.fold(block, |inner, (at, extent)| Stmt::For(For::serial(at, extent, vec![inner])))
}

/// The names that take the place of one.
struct Pair {
    group: Name,
    member: Name,
    /// Members of a group.
    members: i64,
}

impl Pair {
    fn of(groups: &mut Groups, old: &Name, members: i64) -> Pair {
        let shown = groups.display.get(old).cloned().unwrap_or_else(|| old.to_string());
        let mut half = |base: &str, suffix: &str| {
            let name = fresh(&mut groups.used, base);
            groups.display.insert(name.clone(), format!("{shown}_{suffix}"));
            name
        };
        Pair { group: half("g", "group"), member: half("m", "member"), members }
    }

    fn extents(&self, whole: &Expr) -> [Expr; 2] {
        let int = |n| Expr::int(n, whole.dtype());
        [int(whole.as_int().unwrap_or(self.members) / self.members), int(self.members)]
    }

    fn exprs(&self, old: &Expr) -> [Expr; 2] {
        [&self.group, &self.member].map(|n| Expr::var(n.clone(), old.dtype()))
    }

    fn iters(&self, it: &IterVar, of: &Pair) -> Vec<IterVar> {
        let halves = self.extents(&it.extent).into_iter().zip(of.exprs(&it.binding));
        let names = [&self.group, &self.member].into_iter().zip(halves);
        names.map(|(var, (extent, binding))| IterVar { var: var.clone(), extent, binding, ..it.clone() }).collect()
    }
}

/// A chain of loops, one for each iterator, around stores.
fn simple(leaf: &Leaf) -> bool {
    let b = leaf.block;
    let store = |s: &Stmt| matches!(s, Stmt::Store { .. });
    let bound = b.iters.iter().all(|it| leaf.loops.iter().any(|l| it.binding.as_var() == Some(&l.var)));
    leaf.chain && bound && b.guard.is_none() && b.matches.is_empty() && b.init.iter().chain(&b.body).all(store)
}

/// Members of the groups of a spatial iterator: one factor of the reduction is indexed by the iterator, another by
/// its quotient alone.
fn members(b: &Block, it: &IterVar) -> Option<i64> {
    let size = it.extent.as_int().filter(|_| it.kind == IterKind::Spatial && it.min.is_int(0))?;
    b.iters.iter().find(|i| i.kind == IterKind::Reduce)?;
    let [Stmt::Store { buffer, value, .. }] = &b.body[..] else { return None };
    let mut uses = Uses::default();
    uses.collect(value, &it.var, buffer);
    let [n] = uses.quotients.into_iter().collect::<Vec<_>>()[..] else { return None };
    (uses.plain && !uses.other && n > 1 && size % n == 0).then_some(n)
}

/// How an expression uses an iterator.
#[derive(Default)]
struct Uses {
    /// As an index of something that is not the result.
    plain: bool,
    /// Divided by these, as an index.
    quotients: BTreeSet<i64>,
    /// In any other way.
    other: bool,
}

impl Uses {
    fn collect(&mut self, e: &Expr, v: &Name, result: &Name) {
        match e.kind() {
            ExprKind::Load { buffer, indices, .. } => indices.iter().for_each(|i| self.index(i, v, buffer != result)),
            _ => {
                self.other |= e.as_var() == Some(v);
                e.for_each_child(|e| self.collect(e, v, result));
            }
        }
    }

    fn index(&mut self, e: &Expr, v: &Name, factor: bool) {
        match e.kind() {
            _ if e.as_var() == Some(v) => self.plain |= factor,
            ExprKind::Binary { op: BinOp::FloorDiv, a, b } if a.as_var() == Some(v) && b.as_int().is_some() => {
                self.quotients.extend(b.as_int());
            }
            _ => self.other |= e.uses_var(v),
        }
    }
}

//! Takes reductions apart that update several buffers side by side.
//!
//! A block that keeps a sum and a sum of squares stores two buffers in one nest. Where no update reads
//! what another one makes, each becomes a plain reduction of its own, which every rule knows; a rule
//! that schedules both puts them back into one pass over memory. Updates that read each other stay
//! together: an index and a value in the one form that [`ArgReducer`] gives them.
//!
//! before: `let a = s0[i] + x[i, k]; let b = s1[i] + x[i, k] * x[i, k]; s0[i] = a; s1[i] = b`
//! after:  `s0[i] = s0[i] + x[i, k]` in the nest, `s1[i] = s1[i] + x[i, k] * x[i, k]` in a copy of it

use super::arg::{ArgReducer, recognise};
use super::walk::{chain_end, fresh, leaves, names};
use crate::ir::{Block, Expr, ExprKind, For, Name, PrimFunc, Stmt};
use std::collections::{BTreeMap, BTreeSet};

/// Largest value of an update in nodes; lets that would be repeated into more than that stay.
const MAX_NODES: usize = 1 << 12;

/// The function with each reduction into several independent buffers as one nest for each of them.
/// Updates that only go through lets become single stores too.
pub(super) fn take_apart(f: &PrimFunc) -> PrimFunc {
    let found = leaves(f);
    let chains = found.iter().filter(|l| l.chain && !l.block.init.is_empty());
    let parts: BTreeMap<Name, Vec<Part>> =
        chains.filter_map(|l| Some((l.block.name.clone(), Part::of_block(l.block)?))).collect();
    if parts.is_empty() {
        return f.clone();
    }
    let mut apart = Apart { parts, used: names(f), display: f.display.clone() };
    let body = apart.list(&f.body);
    PrimFunc { body, display: apart.display, ..f.clone() }
}

/// The updates that belong together: one buffer, or several that read each other.
struct Part {
    init: Vec<Stmt>,
    body: Vec<Stmt>,
    /// What the part is called by: its first buffer.
    buffer: Name,
}

/// A store with every let put into its value.
struct Update<'a> {
    buffer: &'a Name,
    indices: &'a [Expr],
    value: Expr,
}

impl Part {
    /// The parts of a block, where there is something to gain from taking it apart.
    fn of_block(b: &Block) -> Option<Vec<Part>> {
        let updates = updates(&b.body)?;
        let starts = starts(&b.init)?;
        let own: BTreeSet<&Name> = updates.iter().map(|u| u.buffer).collect();
        let same = |(buffer, indices, _): &(&Name, &[Expr], &Expr)| {
            updates.iter().any(|u| u.buffer == *buffer && u.indices == *indices)
        };
        let alone = starts.iter().all(|(_, _, value)| own.iter().all(|o| !value.loads(o)));
        if own.len() != updates.len() || starts.len() != updates.len() || !starts.iter().all(same) || !alone {
            return None;
        }
        let parts: Vec<Part> = groups(&updates).iter().map(|g| Part::of_group(b, &updates, g)).collect();
        // Nothing changes where the only part is the block.
        if parts.len() == 1 && parts[0].body == b.body { None } else { Some(parts) }
    }

    fn of_group(b: &Block, updates: &[Update], group: &[usize]) -> Part {
        let members: Vec<&Update> = group.iter().map(|i| &updates[*i]).collect();
        let ours = |buffer: &Name| members.iter().any(|u| u.buffer == buffer);
        let init = b.init.iter().filter(|s| matches!(s, Stmt::Store { buffer, .. } if ours(buffer)));
        let (init, body) = match (&members[..], arg_reducer(b, &members)) {
            ([one], _) => (init.cloned().collect(), vec![one.store(one.value.clone())]),
            (_, Some(arg)) => (arg.inits(), arg.stores()),
            (_, None) => (init.cloned().collect(), together(b, &members)),
        };
        Part { init, body, buffer: members[0].buffer.clone() }
    }
}

impl Update<'_> {
    fn store(&self, value: Expr) -> Stmt {
        Stmt::Store { buffer: self.buffer.clone(), indices: self.indices.to_vec(), value }
    }
}

/// The argmax or argmin that two updates make, the index before or after the value.
fn arg_reducer(b: &Block, members: &[&Update]) -> Option<ArgReducer> {
    let [x, y] = members else { return None };
    let both = [x, y].map(|u| (u.buffer, u.indices, &u.value));
    recognise(b, both[0], both[1]).or_else(|| recognise(b, both[1], both[0]))
}

/// Updates that read each other: the lets that they use, then their stores.
fn together(b: &Block, members: &[&Update]) -> Vec<Stmt> {
    let ours = |s: &&Stmt| matches!(s, Stmt::Store { buffer, .. } if members.iter().any(|u| u.buffer == buffer));
    let mut kept: Vec<Stmt> = vec![];
    let mut wanted: BTreeSet<Name> = BTreeSet::new();
    for s in b.body.iter().rev() {
        let keep = match s {
            Stmt::Let { var, .. } => wanted.contains(var),
            other => ours(&other),
        };
        if keep {
            s.for_each_expr(|e| e.visit(&mut |e| wanted.extend(e.as_var().cloned())));
            kept.push(s.clone());
        }
    }
    kept.reverse();
    kept
}

/// The stores of a body of lets and stores, each with the lets put in. `None` where a value is read
/// after it was stored, and for other bodies.
fn updates(body: &[Stmt]) -> Option<Vec<Update<'_>>> {
    let mut lets: BTreeMap<&Name, Expr> = BTreeMap::new();
    let mut out: Vec<Update> = vec![];
    for s in body {
        let mut late = false;
        s.for_each_expr(|e| late |= out.iter().any(|u| e.loads(u.buffer)));
        let value = match s {
            Stmt::Let { value, .. } | Stmt::Store { value, .. } if !late => value,
            _ => return None,
        };
        let mut nodes = 0usize;
        let size = |n: &Name| lets.get(n).map_or(1, nodes_of);
        value.visit(&mut |e| nodes = nodes.saturating_add(e.as_var().map_or(1, size)));
        if nodes > MAX_NODES || has_let(value) {
            return None;
        }
        let value = value.subst(&|n| lets.get(n).cloned());
        match s {
            Stmt::Let { var, .. } => drop(lets.insert(var, value)),
            Stmt::Store { buffer, indices, .. } => out.push(Update { buffer, indices, value }),
            _ => return None,
        }
    }
    let plain = |e: &Expr| lets.keys().all(|v| !e.uses_var(v));
    out.iter().all(|u| u.indices.iter().all(plain)).then_some(out)
}

fn nodes_of(e: &Expr) -> usize {
    let mut n = 0;
    e.visit(&mut |_| n += 1);
    n
}

/// True for an expression that names a part of itself: its names would not be unique in two places.
fn has_let(e: &Expr) -> bool {
    e.any(&|e| matches!(e.kind(), ExprKind::Let { .. }))
}

/// The stores of an init.
fn starts(init: &[Stmt]) -> Option<Vec<(&Name, &[Expr], &Expr)>> {
    init.iter().map(start).collect()
}

fn start(s: &Stmt) -> Option<(&Name, &[Expr], &Expr)> {
    match s {
        Stmt::Store { buffer, indices, value } => Some((buffer, indices, value)),
        _ => None,
    }
}

/// The updates by their indices, those that read each other, directly or not, in one group.
fn groups(updates: &[Update]) -> Vec<Vec<usize>> {
    let mut group: Vec<usize> = (0..updates.len()).collect();
    for (i, a) in updates.iter().enumerate() {
        for (j, b) in updates.iter().enumerate() {
            if i != j && a.value.loads(b.buffer) {
                let (from, to) = (group[i].max(group[j]), group[i].min(group[j]));
                group.iter_mut().filter(|g| **g == from).for_each(|g| *g = to);
            }
        }
    }
    let members = |g: usize| (0..updates.len()).filter(|i| group[*i] == g).collect::<Vec<_>>();
    (0..updates.len()).map(members).filter(|m| !m.is_empty()).collect()
}

struct Apart {
    parts: BTreeMap<Name, Vec<Part>>,
    used: BTreeSet<Name>,
    display: BTreeMap<Name, String>,
}

impl Apart {
    fn list(&mut self, list: &[Stmt]) -> Vec<Stmt> {
        list.iter().flat_map(|s| self.stmt(s)).collect()
    }

    /// The nests that stand for one statement of a list.
    fn stmt(&mut self, s: &Stmt) -> Vec<Stmt> {
        match chain_end(s).and_then(|b| self.parts.remove(&b.name)) {
            Some(parts) => parts.iter().enumerate().map(|(i, p)| self.nest(s, p, i > 0)).collect(),
            None => vec![self.inside(s)],
        }
    }

    /// A statement with the nests inside it taken apart. A loop of several statements holds no chain.
    fn inside(&mut self, s: &Stmt) -> Stmt {
        match s {
            Stmt::Block(b) if !b.body.is_empty() => {
                let (init, body) = (self.list(&b.init), self.list(&b.body));
                Stmt::Block(Block { init, body, ..b.clone() })
            }
            other => other.clone(),
        }
    }

    /// The chain `s` around one part; a copy has names of its own.
    fn nest(&mut self, s: &Stmt, part: &Part, copy: bool) -> Stmt {
        let mut map: BTreeMap<Name, Name> = BTreeMap::new();
        let nest = self.chain(s, part, copy, &mut map);
        let renamed = |n: &Name, e: &Expr| map.get(n).map(|new| Expr::var(new.clone(), e.dtype()));
        nest.map_exprs(&mut |e| rename(e, &renamed))
    }

    fn chain(&mut self, s: &Stmt, part: &Part, copy: bool, map: &mut BTreeMap<Name, Name>) -> Stmt {
        match s {
            Stmt::For(l) => {
                let var = self.name(&l.var, "i", copy, map);
                let body = l.body.iter().map(|s| self.chain(s, part, copy, map)).collect();
                Stmt::For(For { var, body, ..l.clone() })
            }
            Stmt::Block(b) => {
                let name = self.name(&b.name, "b", copy, map);
                self.call_after(&name, &part.buffer);
                let mut new = Block { name, regions: None, ..b.clone() };
                (new.init, new.body) = (part.init.clone(), part.body.clone());
                for it in &mut new.iters {
                    it.var = self.name(&it.var, "v", copy, map);
                }
                for s in &mut new.body {
                    if let Stmt::Let { var, .. } = s {
                        *var = self.name(var, "l", copy, map);
                    }
                }
                Stmt::Block(new)
            }
            other => other.clone(),
        }
    }

    /// The block carries the name that the user gave its buffer.
    fn call_after(&mut self, block: &Name, buffer: &Name) {
        let name = self.display.get(buffer).cloned();
        name.and_then(|name| self.display.insert(block.clone(), name));
    }

    fn name(&mut self, old: &Name, stem: &str, copy: bool, map: &mut BTreeMap<Name, Name>) -> Name {
        if !copy {
            return old.clone();
        }
        let new = fresh(&mut self.used, stem);
        if let Some(text) = self.display.get(old).cloned() {
            self.display.insert(new.clone(), text);
        }
        map.insert(old.clone(), new.clone());
        new
    }
}

/// Renames variables, each with the dtype that it has where it stands.
fn rename(e: &Expr, renamed: &impl Fn(&Name, &Expr) -> Option<Expr>) -> Expr {
    match e.kind() {
        ExprKind::Var { name, .. } => renamed(name, e).unwrap_or_else(|| e.clone()),
        _ => e.map_children(|c| rename(c, renamed)),
    }
}

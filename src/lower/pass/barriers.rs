//! Places barriers between conflicting accesses to shared memory, and to global memory that threads of a block
//! exchange values through: a buffer that one index of a launch stores to and another one reads.
//!
//! Statements are walked in order, loops twice for what one iteration does to the next. Where an
//! access may touch what another thread wrote, or overwrite what another thread still reads, and
//! no barrier stands between, one is placed before the statement: outside every condition that
//! threads do not share, and outside a loop when the conflict is with what came before the loop.
//!
//! An asynchronous copy (`cp.async`) writes when it is waited for, so a wait counts as a write by all
//! copies that may have been pending. Bulk copies, barriers in shared memory and stores to other blocks of
//! a cluster come with synchronisation of their own, and are left to whoever wrote them, as are arrays that `roles` has
//! barriers in shared memory count.
//!
//! before: `stage[threadIdx.x] = a; b = stage[63 - threadIdx.x]`
//! after:  `stage[threadIdx.x] = a; barrier; b = stage[63 - threadIdx.x]`

use crate::ir::device::DStmt;
use crate::ir::instr::{self, At, Instr, Op, Space, Sync};
use crate::ir::kernel::Barrier;
use crate::ir::{Expr, ExprKind, Name};
use crate::lower::fact::digits::{digits, is_unique};
use crate::lower::nest::Nest;
use std::collections::BTreeSet;

/// Places the barriers of a launch.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    let mut open = Open::default();
    let exchanged = exchanged(nest, &body);
    list(&Walk { nest, exchanged }, body, &mut open)
}

/// A launch, with the global buffers that need barriers.
struct Walk<'a> {
    nest: &'a Nest<'a>,
    exchanged: BTreeSet<Name>,
}

impl Walk<'_> {
    fn is_watched(&self, buffer: &Name) -> bool {
        let apart = self.nest.of_warps.contains(buffer) || self.nest.counted.contains(buffer);
        self.nest.is_shared(buffer) && !apart || self.exchanged.contains(buffer)
    }
}

/// Global buffers that are stored to at one index and read at another; intermediates also where an element is not of one
/// thread, as when the first of a row stores what all of it read.
fn exchanged(nest: &Nest, body: &[DStmt]) -> BTreeSet<Name> {
    let mut stores: Vec<(Name, Expr)> = vec![];
    let mut loads: Vec<(Name, Expr)> = vec![];
    let mut note = |s: &DStmt| {
        s.for_each_access(|buffer, indices, a| {
            if nest.is_global(buffer) && nest.buffers.contains_key(buffer) {
                let list = if a == instr::Access::Read { &mut loads } else { &mut stores };
                list.extend(indices.iter().map(|i| (buffer.clone(), i.clone())));
            }
        });
    };
    body.iter().for_each(|s| s.visit(&mut note));
    let of_one = |s: &(Name, Expr)| nest.func.is_param(&s.0) || own_slot(nest, &s.1);
    let elsewhere = |s: &(Name, Expr)| loads.iter().any(|l| l.0 == s.0 && (l.1 != s.1 || !of_one(s)));
    stores.iter().filter(|s| elsewhere(s)).map(|s| s.0.clone()).collect()
}

/// What is open at a statement.
#[derive(Clone, Default)]
struct Open {
    /// Accesses since the last barrier.
    accesses: Vec<Access>,
    /// Writes of asynchronous copies that nothing has waited for yet.
    pending: Vec<Access>,
}

impl Open {
    fn add(&mut self, more: Open) {
        add(&mut self.accesses, more.accesses);
        add(&mut self.pending, more.pending);
    }

    /// A wait that leaves so many groups: any copy may have been among those waited for.
    fn wait(&mut self, left: u32) {
        add(&mut self.accesses, self.pending.clone());
        if left == 0 {
            self.pending.clear();
        }
    }
}

/// A watched access since the last barrier.
#[derive(Clone, PartialEq)]
struct Access {
    buffer: Name,
    index: Expr,
    write: bool,
    /// By an instruction, which takes more than the element at the index, or for other lanes.
    wide: bool,
}

fn list(walk: &Walk, body: Vec<DStmt>, open: &mut Open) -> Vec<DStmt> {
    let mut out = vec![];
    for s in body {
        if let DStmt::Barrier(Barrier::Block) = s {
            open.accesses.clear();
            out.push(s);
            continue;
        }
        let own = accesses(walk, &s);
        if !own.is_empty() && conflict(walk.nest, &open.accesses, &own) {
            open.accesses.clear();
            out.push(DStmt::Barrier(Barrier::Block));
        }
        out.push(inside(walk, s, own, open));
    }
    out
}

fn inside(walk: &Walk, s: DStmt, own: Vec<Access>, open: &mut Open) -> DStmt {
    match s {
        DStmt::For(mut l) if !l.own_barriers && is_shared_by_all(&l.extent) && has_hazard(walk.nest, &own) => {
            l.body = list(walk, l.body, open);
            l.body = list(walk, l.body, open);
            DStmt::For(l)
        }
        DStmt::If { cond, then, otherwise } if is_shared_by_all(&cond) && has_hazard(walk.nest, &own) => {
            let mut other = open.clone();
            let then = list(walk, then, open);
            let otherwise = list(walk, otherwise, &mut other);
            open.add(other);
            DStmt::If { cond, then, otherwise }
        }
        s => {
            add(&mut open.accesses, own);
            s.visit(&mut |s| asynchronous(walk.nest, s, open));
            s
        }
    }
}

/// What an instruction leaves pending, or ends.
fn asynchronous(nest: &Nest, s: &DStmt, open: &mut Open) {
    let DStmt::Instr(i) = s else { return };
    match i.op {
        Op::CpAsync { .. } if nest.is_shared(&i.places[0].array) => {
            add(&mut open.pending, vec![wide(&i.places[0], true)]);
        }
        Op::Sync(Sync::CpAsyncWait { left }) => open.wait(left),
        _ => {}
    }
}

fn wide(at: &At, write: bool) -> Access {
    Access { buffer: at.array.clone(), index: at.index.clone(), write, wide: true }
}

fn add(open: &mut Vec<Access>, more: Vec<Access>) {
    for a in more {
        if !open.contains(&a) {
            open.push(a);
        }
    }
}

/// True when accesses of one statement could conflict with each other: one of them is a write
/// whose buffer something else in the statement touches.
fn has_hazard(nest: &Nest, own: &[Access]) -> bool {
    own.iter().enumerate().any(|(i, a)| own[i + 1..].iter().any(|b| conflicting(nest, a, b)))
}

fn conflict(nest: &Nest, open: &[Access], own: &[Access]) -> bool {
    open.iter().any(|a| own.iter().any(|b| conflicting(nest, a, b)))
}

/// Two accesses by different threads to one element, at least one a write. Writes of one statement
/// in several iterations are to different elements, or the schedule is wrong.
fn conflicting(nest: &Nest, a: &Access, b: &Access) -> bool {
    a.buffer == b.buffer
        && (a.write || b.write)
        && !(a.index == b.index && (a.write == b.write || !a.wide && !b.wide && own_slot(nest, &a.index)))
}

/// True when every thread of the block has an element of its own at this index.
fn own_slot(nest: &Nest, index: &Expr) -> bool {
    let threads: Vec<&str> = nest.live_axes().iter().map(|t| t.name()).collect();
    let map = |n: &Name| (!threads.contains(&n.as_str())).then(|| Expr::i64(0));
    let by_thread = crate::analysis::simplify(&index.subst(&map), &nest.ranges);
    let Some(digits) = digits(&by_thread, &nest.ranges) else { return false };
    let covered: i64 = digits.iter().map(|d| d.size).product();
    is_unique(&digits) && covered == nest.block.iter().map(|n| *n as i64).product::<i64>()
}

/// True when all threads of the block compute the same value: no thread index, no memory, no local
/// scalar.
fn is_shared_by_all(e: &Expr) -> bool {
    let mut same = true;
    e.visit(&mut |e| match e.kind() {
        ExprKind::Var { name, .. } => {
            same &= !name.as_str().starts_with("threadIdx.") && !name.as_str().contains("_acc")
        }
        ExprKind::Load { .. } | ExprKind::Extern { .. } => same = false,
        ExprKind::Int { .. }
        | ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Unary { .. }
        | ExprKind::Binary { .. }
        | ExprKind::Select { .. }
        | ExprKind::IfThenElse { .. }
        | ExprKind::Cast { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Let { .. } => {}
    });
    same
}

/// All watched accesses in a statement and inside it.
fn accesses(walk: &Walk, s: &DStmt) -> Vec<Access> {
    let mut out = vec![];
    s.visit(&mut |s| {
        let mut own = vec![];
        let mut push = |buffer: &Name, indices: &[Expr], write| {
            own.extend(indices.iter().map(|i| Access { buffer: buffer.clone(), index: i.clone(), write, wide: false }));
        };
        match s {
            DStmt::Instr(i) => {
                s.for_each_load(|buffer, indices| push(buffer, indices, false));
                own.extend(generic(i));
            }
            s => s.for_each_access(|buffer, indices, a| push(buffer, indices, a != instr::Access::Read)),
        }
        own.retain(|a| walk.is_watched(&a.buffer));
        add(&mut out, own);
    });
    out
}

/// The accesses of an instruction that barriers of the block order: not those that a barrier in shared
/// memory counts.
fn generic(i: &Instr) -> Vec<Access> {
    let places = i.signature().places;
    let counted = places.iter().any(|p| p.space == Space::Barrier);
    let shared = i.places.iter().zip(&places).filter(|(_, p)| p.space == Space::Shared && !counted);
    shared.map(|(at, p)| wide(at, p.access != instr::Access::Read)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::device::{DFor, DKind, index_var};
    use crate::ir::{Buffer, DType, PrimFunc, Scope};
    use crate::target::{HostCpu, Target};
    use std::collections::{BTreeMap, BTreeSet};

    /// One letter per statement of a block of 32 threads: `c` copy, `w` wait, `l` matrix load, `s`
    /// store, `r` read, `B` barrier; loops in parentheses.
    fn letters(body: &[DStmt]) -> String {
        let letter = |s: &DStmt| match s {
            DStmt::Barrier(_) => "B".to_string(),
            DStmt::For(l) => format!("({})", letters(&l.body)),
            DStmt::Instr(Instr { op: Op::CpAsync { .. }, .. }) => "c".into(),
            DStmt::Instr(Instr { op: Op::LdMatrix { .. }, .. }) => "l".into(),
            DStmt::Instr(_) => "w".into(),
            DStmt::Store { buffer, .. } if buffer.as_str() == "s" => "s".into(),
            _ => "r".into(),
        };
        body.iter().map(letter).collect()
    }

    fn placed(body: &[char]) -> String {
        let buffer = |name: &str, scope| Buffer::new(name.into(), DType::BF16, vec![Expr::i64(256)], scope);
        let func = PrimFunc {
            name: "f".into(),
            private: false,
            params: vec![],
            buffers: vec![buffer("p", Scope::Global), buffer("s", Scope::Shared), buffer("r", Scope::Local)],
            extents: vec![],
            attrs: vec![],
            allocs: vec![],
            body: vec![],
            display: BTreeMap::new(),
        };
        let target = Target::parse("cuda:sm_90a", &HostCpu::default()).expect("a target");
        let grid = [Expr::i64(1), Expr::i64(1), Expr::i64(1)];
        let mut nest = Nest::new(&func, &target, "k".into(), grid, [32, 1, 1], BTreeSet::new());
        let place = |name: &str| At::new(&name.into(), index_var(&"threadIdx.x".into()) * Expr::i64(8));
        let (s, p, r) = (place("s"), place("p"), At::new(&"r".into(), Expr::i64(0)));
        let stmt = |c: &char| match c {
            'c' => DStmt::Instr(Instr::cp_async(s.clone(), p.clone(), 16, None, None)),
            'w' => DStmt::Instr(Instr::from(Sync::CpAsyncWait { left: 0 })),
            'l' => DStmt::Instr(Instr::new(Op::LdMatrix { count: 4, transpose: false }, [r.clone(), s.clone()], [])),
            _ => DStmt::Barrier(Barrier::Block),
        };
        let body: Vec<DStmt> = body.iter().map(stmt).collect();
        let looped = DStmt::For(DFor::new("k".into(), Expr::i64(4), DKind::Serial, body));
        letters(&run(&mut nest, vec![looped]))
    }

    #[test]
    fn what_a_warp_loads_from_copies_is_behind_a_barrier_and_so_is_the_next_copy() {
        assert_eq!(placed(&['c', 'w', 'l']), "(BcwBl)");
    }

    #[test]
    fn a_barrier_before_the_wait_does_not_count() {
        assert_eq!(placed(&['c', 'B', 'w', 'l']), "(BcBwBl)");
        assert_eq!(placed(&['B', 'c', 'w', 'B', 'l']), "(BcwBl)");
    }
}

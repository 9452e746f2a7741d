//! Kernels that start while what was launched before them in the stream ends (programmatic dependent launch, from sm_90 on).
//!
//! Each thread waits until the launch before is done and its results can be seen (`griddepcontrol.wait` of the PTX ISA) before
//! it touches what that launch may have written or read, so that results are as without overlap. Tensors that nothing
//! writes, such as weights, may be read earlier: that hides the latency of the first loads behind the end of the launch
//! before; also what a kernel copies to shared memory ahead of its loop. A launch of few blocks that share multiprocessors lets
//! the next one start with it; one that reads such tensors when its blocks have read all but what follows its loops; others when
//! their blocks end, as do those whose blocks take over the work of others. What that is worth is in `docs/performance.md`.
//!
//! before: `for i { unroll { x' = x[i]; w' = w[i] }; sum += x' w' }; y = sum`
//! after:  `for i { unroll { w' = w[i] }; grid_wait; unroll { x' = x[i] }; sum += x' w' }; grid_launch; y = sum`

use crate::ir::instr::{Instr, Op};
use crate::ir::kernel::{KStmt, Kernel, KernelParam, Launch, LoopKind, Program};
use crate::ir::{Expr, ExprKind, Name};
use crate::target::Target;
use std::collections::BTreeSet;

/// A launch of at most so many blocks leaves room for the next one's while it runs. Behind the beginning of a larger one
/// they would take their places where it happens to leave some, and the work would be spread unevenly.
const FEW_BLOCKS: i64 = 128;

/// The program with kernels that may start early on `target`. Nothing writes the buffers `constant` while kernels of the
/// stream run.
pub fn overlapping(program: &Program, target: &Target, constant: &BTreeSet<Name>) -> Program {
    let mut out = program.clone();
    for launch in &mut out.launches {
        launch.kernel.body = body(launch, target, constant);
    }
    out
}

fn body(launch: &Launch, target: &Target, constant: &BTreeSet<Name>) -> Vec<KStmt> {
    let k = &launch.kernel;
    let memory = Memory::of(k, constant);
    let early = memory.waiting(&k.body).filter(|w| w.reads_before).or_else(|| memory.filling(&k.body));
    let mut body = match &early {
        Some(early) => early.body.clone(),
        None => [vec![wait()], k.body.clone()].concat(),
    };
    // Blocks that take over the work of others that have not started: nothing says that those count as ended, which the next
    // launch would wait for.
    if k.has_instr(|op| matches!(op, Op::TryCancel { .. })) {
        return body;
    }
    if leaves_room(launch, target) {
        body.insert(0, launch_next());
    } else if early.is_some()
        && let Some(last) = body.iter().rposition(|s| matches!(s, KStmt::For { .. }) && memory.reads(s))
    {
        body.insert(last + 1, launch_next());
    }
    body
}

/// True for few blocks, two of which a multiprocessor's shared memory holds.
fn leaves_room(launch: &Launch, target: &Target) -> bool {
    let blocks = launch.grid.iter().try_fold(1i64, |n, d| n.checked_mul(d.as_int()?));
    let two = 2 * (launch.kernel.shared_bytes() + u64::from(target.smem_reserved));
    blocks.is_some_and(|n| n <= FEW_BLOCKS) && two <= u64::from(target.smem_per_sm)
}

fn wait() -> KStmt {
    KStmt::Instr(Instr::new(Op::GridWait, [], []))
}

fn launch_next() -> KStmt {
    KStmt::Instr(Instr::new(Op::GridLaunch, [], []))
}

/// Statements that wait where they first touch what may change.
struct Waiting {
    body: Vec<KStmt>,
    /// True where something constant is read before.
    reads_before: bool,
}

/// What a kernel finds in global memory.
struct Memory {
    /// Tensors that nothing writes.
    constant: BTreeSet<Name>,
    /// All others.
    other: BTreeSet<Name>,
}

impl Memory {
    fn of(k: &Kernel, constant: &BTreeSet<Name>) -> Memory {
        let mut memory = Memory { constant: BTreeSet::new(), other: BTreeSet::new() };
        for p in &k.params {
            let (name, stays) = match p {
                KernelParam::Pointer { name, written, .. } => (name, !written && constant.contains(name)),
                KernelParam::TensorMap(map) => (&map.name, constant.contains(&map.buffer)),
                KernelParam::Scalar { .. } => continue,
            };
            if stays { &mut memory.constant } else { &mut memory.other }.insert(name.clone());
        }
        memory
    }

    /// True where the statement reads something constant.
    fn reads(&self, s: &KStmt) -> bool {
        touches(s, &self.constant)
    }

    /// The statements with a wait before the first that touches what may change, as far inside as every run of it goes;
    /// `None` where none does.
    fn waiting(&self, stmts: &[KStmt]) -> Option<Waiting> {
        let first = stmts.iter().position(|s| touches(s, &self.other))?;
        let (before, rest) = stmts.split_at(first);
        let (here, after) = (&rest[0], &rest[1..]);
        let inside = self.inside(here);
        let reads_before = before.iter().any(|s| self.reads(s)) || inside.is_some();
        let here = inside.unwrap_or_else(|| vec![wait(), here.clone()]);
        Some(Waiting { body: [before, &here, after].concat(), reads_before })
    }

    /// The statements with copies of what is constant to shared memory that stand ahead of loops before the wait; `None` where
    /// there are none. They join the first group that is committed: who waits for a later one waits for them too.
    fn filling(&self, stmts: &[KStmt]) -> Option<Waiting> {
        let first = stmts.iter().position(|s| touches(s, &self.other))?;
        let ahead = |s: &&KStmt| match s {
            KStmt::For { kind, live, .. } => *kind == LoopKind::Unrolled && live.is_none(),
            // what changes a scalar may change where a copy after it goes
            KStmt::Let { .. } | KStmt::Var { .. } | KStmt::Assign { .. } | KStmt::Shuffle { .. } | KStmt::If { .. } => {
                false
            }
            KStmt::Store { .. } | KStmt::Prefetch { .. } | KStmt::Copy { .. } | KStmt::Barrier(_) | KStmt::Instr(_) => {
                true
            }
        };
        let (mut early, mut left): (Vec<KStmt>, Vec<KStmt>) = (vec![], vec![]);
        let end = first + stmts[first..].iter().take_while(ahead).count();
        for s in &stmts[first..end] {
            // a barrier that a copy passes orders it after nothing else
            let apart = |to: &BTreeSet<Name>| stmts[..first].iter().chain(&left).all(|s| !touches(s, to));
            match self.fills(s).filter(apart) {
                Some(_) => early.push(s.clone()),
                None => left.push(s.clone()),
            }
        }
        let reads_before = !early.is_empty();
        let body = [&stmts[..first], &early, &[wait()], &left, &stmts[end..]].concat();
        reads_before.then_some(Waiting { body, reads_before })
    }

    /// The shared memory that a statement fills asynchronously with something constant, if it does nothing else.
    fn fills(&self, s: &KStmt) -> Option<BTreeSet<Name>> {
        match s {
            KStmt::For { body, .. } => {
                let all: Option<Vec<BTreeSet<Name>>> = body.iter().map(|s| self.fills(s)).collect();
                all.filter(|all| !all.is_empty()).map(|all| all.into_iter().flatten().collect())
            }
            KStmt::Instr(Instr { op: Op::CpAsync { .. }, places, values }) => {
                let [to, from] = places.as_slice() else { return None };
                let computed = places.iter().any(|at| has_load(&at.index)) || values.iter().any(has_load);
                (self.constant.contains(&from.array) && !computed).then(|| BTreeSet::from([to.array.clone()]))
            }
            _ => None,
        }
    }

    /// A loop that waits after it has read something constant. Every iteration waits, of which all but the first find
    /// that there is nothing to wait for.
    fn inside(&self, s: &KStmt) -> Option<Vec<KStmt>> {
        let KStmt::For { var, extent, live: None, kind, body } = s else { return None };
        let around = |body| KStmt::For { var: var.clone(), extent: extent.clone(), live: None, kind: *kind, body };
        if extent.as_int().is_none_or(|n| n < 1) {
            return None;
        }
        if *kind == LoopKind::Unrolled {
            let [constant, other] = self.apart(body)?;
            return (!constant.is_empty()).then(|| vec![around(constant), wait(), around(other)]);
        }
        let waiting = self.waiting(body).filter(|w| w.reads_before)?;
        Some(vec![around(waiting.body)])
    }

    /// Loads into registers, those of what is constant apart from the others; `None` where statements do other things or
    /// depend on one another.
    fn apart(&self, stmts: &[KStmt]) -> Option<[Vec<KStmt>; 2]> {
        let mut out = [vec![], vec![]];
        for s in stmts {
            match s {
                KStmt::For { var, extent, live: None, kind: LoopKind::Unrolled, body } => {
                    for (out, body) in out.iter_mut().zip(self.apart(body)?) {
                        let kind = LoopKind::Unrolled;
                        if !body.is_empty() {
                            out.push(KStmt::For { var: var.clone(), extent: extent.clone(), live: None, kind, body });
                        }
                    }
                }
                KStmt::Copy { src, dst_index, src_index, .. } if self.is_global(src) => {
                    if has_load(dst_index) || has_load(src_index) {
                        return None;
                    }
                    out[usize::from(self.other.contains(src))].push(s.clone());
                }
                KStmt::Store { array, index, value, .. } if !self.is_global(array) && !has_load(index) => {
                    let ExprKind::Load { buffer, indices, .. } = value.kind() else { return None };
                    if !self.is_global(buffer) || indices.iter().any(has_load) {
                        return None;
                    }
                    out[usize::from(self.other.contains(buffer))].push(s.clone());
                }
                _ => return None,
            }
        }
        let written = out.each_ref().map(|stmts| written(stmts));
        written[0].is_disjoint(&written[1]).then_some(out)
    }

    fn is_global(&self, name: &Name) -> bool {
        self.constant.contains(name) || self.other.contains(name)
    }
}

fn has_load(e: &Expr) -> bool {
    let mut found = false;
    e.visit(&mut |e| found |= matches!(e.kind(), ExprKind::Load { .. }));
    found
}

/// The arrays that loads go to.
fn written(stmts: &[KStmt]) -> BTreeSet<Name> {
    let mut out = BTreeSet::new();
    for s in stmts {
        s.visit(&mut |s| match s {
            KStmt::Copy { dst: name, .. } | KStmt::Store { array: name, .. } => drop(out.insert(name.clone())),
            _ => {}
        });
    }
    out
}

/// True where a statement reads or writes one of the arrays, or copies through one of the tensor maps.
fn touches(s: &KStmt, names: &BTreeSet<Name>) -> bool {
    let mut found = false;
    s.visit(&mut |s| {
        found |= match s {
            KStmt::Store { array, .. } | KStmt::Prefetch { array, .. } => names.contains(array),
            KStmt::Copy { dst, src, .. } => names.contains(dst) || names.contains(src),
            KStmt::Instr(i) => {
                i.places.iter().any(|at| names.contains(&at.array)) || i.op.map().is_some_and(|m| names.contains(m))
            }
            _ => false,
        };
        s.for_each_expr(|e| {
            e.visit(&mut |e| {
                if let ExprKind::Load { buffer, .. } = e.kind() {
                    found |= names.contains(buffer);
                }
            });
        });
    });
    found
}

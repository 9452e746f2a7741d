//! What every `Program` satisfies. The first violation is an error that names what is wrong, and prints the
//! statement it is in.
//!
//! - A launch of clusters is for a GPU and has whole warps.
//! - A variable is declared before its use, in scope, and used with its type; a scalar is assigned its type.
//! - Operands of an operator have one type. No opaque call is left, and a load has one flat index.
//! - An index is int32 or int64. A register of a GPU is picked by constants and variables of unrolled loops.
//! - An array or pointer is declared, accessed as its element type, and not written where it is read-only.
//! - A vector access is aligned to its lanes, between arrays of one element type.
//! - Loops that are unrolled or vectors have constant extents.
//! - Only CPU kernels prefetch, and only memory of the function.
//! - A barrier of the block stands under no condition that threads of the block do not share, one of the
//!   cluster under none that a warpgroup does not share, a barrier or shuffle of warps under none that
//!   lanes of a warp do not share.
//! - A named barrier has a number from 1 to 15 and whole warps of the block; those of a cluster stand in
//!   a launch of clusters, and named ones do not.
//! - A loop that a condition ends is a plain one. Registers of answers hold what the block shares (`answers`).
//! - Instructions are as in `instr`.

mod answers;
pub mod instr;

use super::LowerError;
use crate::analysis::{Ranges, multiple_of};
use crate::ir::instr::CtaGroup;
use crate::ir::kernel::{ArrayScope, Barrier, KStmt, Kernel, KernelParam, Launch, LoopKind, Program};
use crate::ir::{DType, Expr, ExprKind, Name};
use crate::lower::fact::warps::{Rank, WARP, WARPGROUP, Warps};
use crate::target::{Kind, Target};
use std::collections::{BTreeMap, BTreeSet};

const PASS: &str = "verify";

/// Checks a program built for a target.
///
/// # Errors
/// The first violation.
pub fn verify_program(p: &Program, target: &Target) -> Result<(), LowerError> {
    p.launches.iter().try_for_each(|l| verify_launch(l, target))
}

fn verify_launch(l: &Launch, target: &Target) -> Result<(), LowerError> {
    let mut check = Check {
        kernel: &l.kernel,
        target,
        block: l.block,
        cluster: l.cluster,
        vars: BTreeMap::new(),
        ranges: Ranges::new(),
        divergence: Rank::Block,
        group: None,
        answers: answers::of(&l.kernel),
    };
    if l.cluster > 1 && (target.kind != Kind::Cuda || !l.threads().is_multiple_of(WARP)) {
        let why = format!("{} threads per block; expected whole warps of a GPU in a launch of clusters", l.threads());
        return check.error(&Name::new(&l.kernel.symbol), why);
    }
    for (axis, threads) in ["x", "y", "z"].iter().zip(l.block) {
        let rank = Rank::of_axis(axis, l.block, WARP);
        check.declare(&Name::new(format!("threadIdx.{axis}")), Var { dtype: DType::I32, rank });
        check.ranges.set(format!("threadIdx.{axis}"), 0, threads as i64 - 1);
        check.declare(&Name::new(format!("blockIdx.{axis}")), Var { dtype: DType::I32, rank: Rank::Block });
    }
    for p in &l.kernel.params {
        if let KernelParam::Scalar { name, dtype } = p {
            check.declare(name, Var { dtype: *dtype, rank: Rank::Block });
        }
    }
    check.list(&l.kernel.body)
}

#[derive(Clone, Copy)]
pub(super) struct Var {
    dtype: DType,
    pub rank: Rank,
}

pub(super) struct Check<'k> {
    pub kernel: &'k Kernel,
    pub target: &'k Target,
    /// Threads per axis.
    pub block: [u32; 3],
    /// Blocks per cluster.
    pub cluster: u32,
    pub vars: BTreeMap<Name, Var>,
    pub ranges: Ranges,
    /// Over what the conditions around differ.
    divergence: Rank,
    /// The blocks that instructions on tensor memory so far are of.
    pub group: Option<CtaGroup>,
    /// Registers of what the block was told of blocks that have not started.
    answers: BTreeSet<Name>,
}

impl Check<'_> {
    pub fn error<T>(&self, at: &Name, why: impl Into<String>) -> Result<T, LowerError> {
        Err(LowerError::new(PASS, at, why))
    }

    fn declare(&mut self, name: &Name, var: Var) {
        self.vars.insert(name.clone(), var);
    }

    fn list(&mut self, body: &[KStmt]) -> Result<(), LowerError> {
        let outer = self.vars.clone();
        body.iter().try_for_each(|s| self.stmt(s).map_err(|e| e.within(s)))?;
        self.vars = outer;
        Ok(())
    }

    fn stmt(&mut self, s: &KStmt) -> Result<(), LowerError> {
        match s {
            KStmt::Let { var, value } => {
                let rank = self.value(value)?;
                self.declare(var, Var { dtype: value.dtype(), rank });
                Ok(())
            }
            KStmt::Var { var, dtype, init } => {
                init.iter().try_for_each(|e| self.expr(e).map(drop))?;
                self.declare(var, Var { dtype: *dtype, rank: Rank::Thread });
                Ok(())
            }
            KStmt::Assign { var, value } => {
                self.expr(value)?;
                self.scalar(var, value.dtype())
            }
            KStmt::Store { array, index, value, .. } => self.store(array, index, value),
            KStmt::Prefetch { array, .. } if self.target.kind == Kind::Cuda => {
                self.error(array, "only a kernel of a CPU asks for a cache line ahead of time")
            }
            KStmt::Prefetch { array, .. } if self.kernel.array(array).is_some() => {
                self.error(array, "a cache line is asked for that is no memory of the function")
            }
            KStmt::Prefetch { array, index } => self.access(array, index, false),
            KStmt::Copy { dst, dst_index, src, src_index, lanes, .. } => {
                self.put(dst, Rank::Thread)?;
                self.copy_side(dst, dst_index, *lanes, true)?;
                self.copy_side(src, src_index, *lanes, false)?;
                self.one_element_type(dst, src)
            }
            KStmt::For { var, extent, live, kind, body } => self.loop_(var, (extent, live.as_ref()), *kind, body),
            KStmt::If { cond, then, otherwise } => {
                let rank = self.value(cond)?;
                self.under(rank, |c| c.list(then).and_then(|()| c.list(otherwise)))
            }
            KStmt::Barrier(b) => self.barrier(*b),
            KStmt::Instr(i) => self.written(i).and_then(|()| self.instr(i)),
            KStmt::Shuffle { dst, value, .. } => {
                self.expr(value)?;
                if self.divergence > Rank::Warp {
                    return self.error(dst, "a shuffle stands under a condition that its lanes do not share");
                }
                self.scalar(dst, value.dtype())
            }
        }
    }

    fn barrier(&self, b: Barrier) -> Result<(), LowerError> {
        let name = Name::new("barrier");
        let shared = match b {
            Barrier::Block => Rank::Block,
            // warpgroups with other roles arrive where their own role ends
            Barrier::ClusterArrive { .. } | Barrier::ClusterWait => Rank::Warpgroup,
            Barrier::Warp | Barrier::Named { .. } => Rank::Warp,
        };
        if self.divergence > shared {
            return self.error(&name, "it stands under a condition that its threads do not share");
        }
        let of_cluster = matches!(b, Barrier::ClusterArrive { .. } | Barrier::ClusterWait);
        if of_cluster != (self.cluster > 1) && !matches!(b, Barrier::Warp | Barrier::Block) {
            let why = "barriers of a cluster stand in a launch of clusters, and named ones do not";
            return self.error(&name, why);
        }
        let Barrier::Named { id, threads } = b else { return Ok(()) };
        let most = self.block.iter().product();
        if !(1..16).contains(&id) || threads == 0 || !threads.is_multiple_of(WARP) || threads > most {
            let why = format!(
                "barrier {id} of {threads} threads: expected a number from 1 to 15, and whole warps of the {most} threads"
            );
            return self.error(&name, why);
        }
        Ok(())
    }

    /// What all threads of a warp or warpgroup do together stands under no condition that they do not share.
    pub fn whole_group(&self, threads: u32) -> Result<(), LowerError> {
        let (rank, what) = if threads == WARP { (Rank::Warp, "warp") } else { (Rank::Warpgroup, "warpgroup") };
        let name = Name::new(format!("{what} instruction"));
        if self.divergence > rank {
            return self.error(&name, "it stands under a condition that its threads do not share");
        }
        if !self.block.iter().product::<u32>().is_multiple_of(threads) {
            return self.error(&name, format!("the block has a {what} of fewer than {threads} threads"));
        }
        Ok(())
    }

    fn under(&mut self, rank: Rank, f: impl FnOnce(&mut Self) -> Result<(), LowerError>) -> Result<(), LowerError> {
        let outer = self.divergence;
        self.divergence = outer.max(rank);
        f(self)?;
        self.divergence = outer;
        Ok(())
    }

    fn loop_(
        &mut self,
        var: &Name,
        (extent, live): (&Expr, Option<&Expr>),
        kind: LoopKind,
        body: &[KStmt],
    ) -> Result<(), LowerError> {
        let mut steps = self.value(extent)?;
        if let Some(live) = live {
            if kind != LoopKind::Serial || live.dtype() != DType::Bool {
                return self.error(var, "a loop that a condition ends is a plain one, and the condition a boolean");
            }
            steps = steps.max(self.value(live)?);
        }
        if kind != LoopKind::Serial && extent.as_int().is_none() {
            return self.error(var, "an unrolled or vector loop needs a constant extent");
        }
        let rank = if kind == LoopKind::Serial { steps.max(Rank::Block) } else { Rank::Constant };
        self.ranges.set_span(var.clone(), &Expr::i64(0), extent);
        let outer = self.vars.clone();
        self.declare(var, Var { dtype: extent.dtype(), rank });
        self.under(steps, |c| c.list(body))?;
        self.vars = outer;
        Ok(())
    }

    /// That statements access an array at all.
    fn plain(&self, name: &Name) -> Result<(), LowerError> {
        match self.kernel.array(name).map(|a| a.scope) {
            Some(ArrayScope::Tensor) => self.error(name, "only instructions access tensor memory"),
            Some(ArrayScope::Shared | ArrayScope::Register) | None => Ok(()),
        }
    }

    fn store(&mut self, array: &Name, index: &Expr, value: &Expr) -> Result<(), LowerError> {
        self.plain(array)?;
        self.access(array, index, true)?;
        let rank = self.expr(value)?;
        self.put(array, rank)?;
        match self.kernel.element(array) {
            Some(d) if d == value.dtype() => Ok(()),
            Some(d) => self.error(array, format!("a {} is stored to an array of {d}", value.dtype())),
            None => self.error(array, "it is not declared"),
        }
    }

    /// A scalar that is assigned: declared, and of that type.
    fn scalar(&self, var: &Name, dtype: DType) -> Result<(), LowerError> {
        match self.vars.get(var) {
            Some(v) if v.dtype == dtype => Ok(()),
            Some(v) => self.error(var, format!("a {dtype} is assigned to a {}", v.dtype)),
            None => self.error(var, "it is assigned before it is declared"),
        }
    }

    fn copy_side(&mut self, name: &Name, index: &Expr, lanes: u32, write: bool) -> Result<(), LowerError> {
        self.plain(name)?;
        self.access(name, index, write)?;
        if multiple_of(index, &self.ranges) % lanes as i64 != 0 {
            return self.error(name, format!("an access of {lanes} elements is not known to be aligned"));
        }
        Ok(())
    }

    fn one_element_type(&self, a: &Name, b: &Name) -> Result<(), LowerError> {
        if self.kernel.element(a) == self.kernel.element(b) {
            return Ok(());
        }
        self.error(a, format!("a vector copy from `{b}` would change the element type"))
    }

    pub fn access(&mut self, name: &Name, index: &Expr, write: bool) -> Result<(), LowerError> {
        let rank = self.expr(index)?;
        if !matches!(index.dtype(), DType::I32 | DType::I64) {
            return self.error(name, "an index is not an integer");
        }
        if let Some(a) = self.kernel.array(name) {
            let addressed = a.scope == ArrayScope::Register && self.target.kind == Kind::Cuda && rank != Rank::Constant;
            return if addressed { self.error(name, "a register is picked by a run-time index") } else { Ok(()) };
        }
        let param = self.kernel.params.iter().find_map(|p| match p {
            KernelParam::Pointer { name: n, written, .. } if n == name => Some(*written),
            KernelParam::Pointer { .. } | KernelParam::Scalar { .. } | KernelParam::TensorMap(_) => None,
        });
        match param {
            None => self.error(name, "the array is not declared"),
            Some(false) if write => self.error(name, "a parameter declared as read-only is written"),
            Some(_) => Ok(()),
        }
    }

    /// Checks an expression; gives over what its value differs, values that only warps share included.
    fn value(&mut self, e: &Expr) -> Result<Rank, LowerError> {
        let rank = self.expr(e)?;
        if rank <= Rank::Warpgroup {
            return Ok(rank);
        }
        let (vars, block, ranges) = (&self.vars, self.block, &mut self.ranges);
        let rank_of = |name: &Name| vars.get(name).map(|v| v.rank);
        let mut shared = |group| Warps { block, group, ranges, rank_of: &rank_of }.is_shared(e);
        Ok(if shared(WARPGROUP) {
            Rank::Warpgroup
        } else if shared(WARP) {
            Rank::Warp
        } else {
            rank
        })
    }

    /// Checks an expression; gives over what its value differs.
    pub fn expr(&mut self, e: &Expr) -> Result<Rank, LowerError> {
        match e.kind() {
            ExprKind::Var { name, dtype } => match self.vars.get(name) {
                Some(v) if v.dtype == *dtype => Ok(v.rank),
                Some(v) => self.error(name, format!("it is declared {} and used as {dtype}", v.dtype)),
                None => self.error(name, "the variable is not declared"),
            },
            ExprKind::Load { buffer, indices, dtype } => {
                let [index] = indices.as_slice() else { return self.error(buffer, "a load needs one flat index") };
                self.plain(buffer)?;
                self.access(buffer, index, false)?;
                match self.kernel.element(buffer) {
                    Some(d) if d == *dtype => Ok(self.rank_of_element(buffer)),
                    _ => self.error(buffer, format!("it is loaded as {dtype}")),
                }
            }
            ExprKind::Extern { callee, .. } => self.error(&Name::new(callee), "an extern call is left"),
            ExprKind::Let { var, value, body } => {
                let rank = self.expr(value)?;
                self.declare(var, Var { dtype: value.dtype(), rank });
                self.expr(body)
            }
            ExprKind::Binary { a, b, .. } if a.dtype() != b.dtype() => {
                self.error(&Name::new("expression"), format!("operands are {} and {}", a.dtype(), b.dtype()))
            }
            ExprKind::Int { .. }
            | ExprKind::Float { .. }
            | ExprKind::Str(_)
            | ExprKind::Unary { .. }
            | ExprKind::Binary { .. }
            | ExprKind::Select { .. }
            | ExprKind::IfThenElse { .. }
            | ExprKind::Cast { .. }
            | ExprKind::Reinterpret { .. }
            | ExprKind::Call { .. } => {
                let (mut rank, mut error) = (Rank::Constant, None);
                e.for_each_child(|c| match self.expr(c) {
                    Ok(r) => rank = rank.max(r),
                    Err(why) => error = error.take().or(Some(why)),
                });
                error.map_or(Ok(rank), Err)
            }
        }
    }
}

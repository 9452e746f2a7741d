//! Combines what the blocks of a cluster have reduced, each on its own, into what all of them have.
//!
//! Every block has one slot in shared memory for each block of the cluster. It stores its result into its
//! own slot of all of them, they meet, and each combines its slots in order: all get the same bits. A
//! reduction has slots of its own, so that nobody writes to them again. A block has to run before others
//! store to it: all arrive when they start, and wait before they store for the first time.
//!
//! before: `t0_sum[0]`, the sum of one block of 4
//! after:  `cluster wait; if threadIdx.x < 4 { cluster_store t0_slots[clusterCtaIdx.x] of block threadIdx.x`
//!         `<- t0_sum[0] }; cluster arrive; cluster wait; t0_sum[0] = t0_slots[0];`
//!         `for c in 3 { t0_sum[0] = t0_sum[0] + t0_slots[c + 1] }`

use crate::analysis::simplify;
use crate::ir::device::{DFor, DKind, DStmt, ThreadReduce, guarded, index_var};
use crate::ir::instr::{At, Instr, Op};
use crate::ir::kernel::Barrier;
use crate::ir::{BinOp, DType, Expr, Name, Scope, ThreadTag};
use crate::lower::LowerError;
use crate::lower::nest::{Nest, THREADS};

const PASS: &str = "cross-thread reduction";

/// What is exchanged.
pub struct Exchange<'r> {
    pub reduce: &'r ThreadReduce,
    /// Registers with a block's results, which all threads that reduce together have.
    pub sum: &'r Name,
    pub dtype: DType,
    /// Results per thread.
    pub values: i64,
    /// True where no reduction before this one had the blocks wait for each other.
    pub first: bool,
}

impl Exchange<'_> {
    /// The statements that leave in `sum` what the whole cluster has.
    pub fn run(&self, nest: &mut Nest) -> Result<Vec<DStmt>, LowerError> {
        if !matches!(self.dtype.bytes(), 4 | 8) {
            let why = format!("blocks of a cluster exchange values of 32 or 64 bits, not {}", self.dtype);
            return Err(LowerError::new(PASS, &self.reduce.block, why));
        }
        let blocks = i64::from(nest.cluster);
        let ((member, members), (group, groups)) = (self.number(nest, true), self.number(nest, false));
        let (stem, len) = (format!("{}_slots", self.reduce.dst), Expr::i64(groups * self.values * blocks));
        let slots = nest.scratch(&stem, self.dtype, len, Scope::Shared);
        let slot = |value: &Expr, block: Expr| {
            (group.clone() * Expr::i64(self.values) + value.clone()) * Expr::i64(blocks) + block
        };
        let mut out = vec![];
        if self.first {
            out.push(DStmt::Barrier(Barrier::ClusterWait));
        }
        out.extend(self.each_value(nest, |nest, value| {
            let own = simplify(&slot(value, nest.thread(ThreadTag::ClusterX)), &nest.ranges);
            let push = |from: i64| {
                let peer = simplify(&(member.clone() + Expr::i64(from)), &nest.ranges);
                let exists = Expr::binary(BinOp::Lt, peer.clone(), Expr::i64(blocks));
                let dst = At::new(&slots, own.clone());
                let store = Instr::new(Op::ClusterStore, [dst], [peer, self.load(value)]);
                guarded((from + members > blocks).then_some(exists), vec![DStmt::Instr(store)])
            };
            (0..blocks).step_by(members as usize).flat_map(push).collect()
        }));
        out.extend([DStmt::Barrier(Barrier::ClusterArrive { release: true }), DStmt::Barrier(Barrier::ClusterWait)]);
        out.extend(self.each_value(nest, |nest, value| {
            let c = nest.loop_var("c", blocks - 1);
            let from = |nest: &Nest, block: Expr| {
                Expr::load(slots.clone(), vec![simplify(&slot(value, block), &nest.ranges)], self.dtype)
            };
            let store = |v: Expr| DStmt::store(self.sum.clone(), vec![value.clone()], v);
            let next = from(nest, index_var(&c) + Expr::i64(1));
            let add = store(Expr::binary(self.reduce.op, self.load(value), next));
            let rest = DFor::new(c, Expr::i64(blocks - 1), DKind::Unrolled, vec![add]);
            vec![store(from(nest, Expr::i64(0))), DStmt::For(rest)]
        }));
        Ok(out)
    }

    fn load(&self, value: &Expr) -> Expr {
        Expr::load(self.sum.clone(), vec![value.clone()], self.dtype)
    }

    /// The number of a thread among those that reduce together, or else of those among all, and how many
    /// there are.
    fn number(&self, nest: &Nest, reduced: bool) -> (Expr, i64) {
        let axes = THREADS.into_iter().rev().filter(|t| self.reduce.tags.contains(t) == reduced);
        let join = |(at, n): (Expr, i64), t| (at * Expr::i64(nest.threads(t)) + nest.thread(t), n * nest.threads(t));
        let (number, count) = axes.fold((Expr::i64(0), 1), join);
        (simplify(&number, &nest.ranges), count)
    }

    fn each_value(&self, nest: &mut Nest, body: impl FnOnce(&mut Nest, &Expr) -> Vec<DStmt>) -> Vec<DStmt> {
        if self.values == 1 {
            return body(nest, &Expr::i64(0));
        }
        let v = nest.loop_var("v", self.values);
        let body = body(nest, &index_var(&v));
        vec![DStmt::unrolled(&v, self.values, body)]
    }
}

//! Blocks of a function that is being built: one loop per axis, an init, stores.

use super::{PrimFuncBuilder, TensorVar, nest};
use crate::ir::{BinOp, Block, DType, Expr, For, IterKind, IterVar, Name, Stmt};
use std::borrow::Borrow;

/// One block: its axes in the order in which they were named, outermost first, and what it stores.
pub struct BlockBuilder<'f> {
    function: &'f mut PrimFuncBuilder,
    block: Block,
    loops: Vec<For>,
}

impl<'f> BlockBuilder<'f> {
    pub(super) fn new(function: &'f mut PrimFuncBuilder, name: Name) -> BlockBuilder<'f> {
        BlockBuilder { function, block: Block::new(name, vec![], vec![]), loops: vec![] }
    }

    /// An axis along which every step stores other elements.
    pub fn spatial(&mut self, name: &str, extent: &Expr) -> Expr {
        self.axis(name, extent, IterKind::Spatial)
    }

    /// An axis along which steps are combined into the same elements.
    pub fn reduce(&mut self, name: &str, extent: &Expr) -> Expr {
        self.axis(name, extent, IterKind::Reduce)
    }

    /// A spatial axis `i0`, `i1`, ... for each extent.
    pub fn spatial_all(&mut self, extents: &[Expr]) -> Vec<Expr> {
        extents.iter().enumerate().map(|(k, e)| self.spatial(&format!("i{k}"), e)).collect()
    }

    /// A reduction axis `k0`, `k1`, ... for each extent.
    pub fn reduce_all(&mut self, extents: &[Expr]) -> Vec<Expr> {
        extents.iter().enumerate().map(|(k, e)| self.reduce(&format!("k{k}"), e)).collect()
    }

    /// What an element holds before the first step of the reduction.
    pub fn init(&mut self, to: &TensorVar, indices: impl IntoIterator<Item = impl Borrow<Expr>>, value: Expr) {
        self.block.init.push(store(to, indices, value));
    }

    /// What a step stores.
    pub fn store(&mut self, to: &TensorVar, indices: impl IntoIterator<Item = impl Borrow<Expr>>, value: Expr) {
        self.block.body.push(store(to, indices, value));
    }

    fn axis(&mut self, name: &str, extent: &Expr, kind: IterKind) -> Expr {
        let looped = For::serial(self.function.name(name), extent.clone(), vec![]);
        let iter = IterVar {
            var: self.function.name(&format!("v_{name}")),
            dtype: looped.dtype,
            min: looped.min.clone(),
            extent: extent.clone(),
            kind,
            binding: looped.var_expr(),
        };
        let axis = iter.var_expr();
        self.loops.push(looped);
        self.block.iters.push(iter);
        axis
    }

    pub(super) fn finish(self) -> Stmt {
        nest(self.loops, Stmt::Block(self.block))
    }
}

fn store(to: &TensorVar, indices: impl IntoIterator<Item = impl Borrow<Expr>>, value: Expr) -> Stmt {
    let indices = indices.into_iter().map(|i| i.borrow().clone()).collect();
    Stmt::Store { buffer: to.name.clone(), indices, value }
}

/// How a reduction combines values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reducer {
    /// Their sum, from 0.
    Sum,
    /// Their product, from 1.
    Prod,
    /// The largest, from the least finite value.
    Max,
    /// The smallest, from the greatest finite value.
    Min,
}

impl Reducer {
    /// What it begins with.
    pub fn identity(self, dtype: DType) -> Expr {
        match self {
            Reducer::Sum => Expr::constant(0.0, dtype),
            Reducer::Prod => Expr::constant(1.0, dtype),
            Reducer::Max => limit(dtype, false),
            Reducer::Min => limit(dtype, true),
        }
    }

    /// Two values combined.
    pub fn combine(self, a: Expr, b: Expr) -> Expr {
        let op = match self {
            Reducer::Sum => BinOp::Add,
            Reducer::Prod => BinOp::Mul,
            Reducer::Max => BinOp::Max,
            Reducer::Min => BinOp::Min,
        };
        Expr::binary(op, a, b)
    }
}

/// The least or the greatest finite value of a type.
fn limit(dtype: DType, greatest: bool) -> Expr {
    if dtype.is_float() {
        let most = match dtype {
            DType::F16 => 65504.0,
            DType::BF16 => (2.0 - 2f64.powi(-7)) * 2f64.powi(127),
            DType::E4M3 => 448.0,
            DType::E5M2 => 57344.0,
            DType::E8M0 => 2f64.powi(127),
            DType::F64 => f64::MAX,
            _ => f32::MAX as f64,
        };
        let least = if dtype == DType::E8M0 { 1.0 / most } else { -most };
        return Expr::float(if greatest { most } else { least }, dtype);
    }
    let bits = 8 * dtype.bytes() as u32;
    let value = match (dtype, greatest) {
        (DType::Bool, _) => greatest as i64,
        (d, false) if !d.is_signed() => 0,
        // The bits of the greatest `uint64`.
        (d, true) if !d.is_signed() => (u64::MAX >> (64 - bits)) as i64,
        (_, true) => i64::MAX >> (64 - bits),
        (_, false) => i64::MIN >> (64 - bits),
    };
    Expr::int(value, dtype)
}

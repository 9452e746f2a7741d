//! Tile primitives: what happens inside a tile, said once for all its elements, and carried out by a
//! variant that dispatch chooses.

use super::{AttrValue, Expr, Name};
use std::collections::BTreeMap;

/// A call of a tile primitive, as in `Tx.cta.sum(B_smem, A_smem, axes=(-1,), accum=False)`.
#[derive(Clone, PartialEq, Debug)]
pub struct TileCall {
    /// What is done.
    pub op: TileOp,
    /// Who does it together.
    pub scope: ExecScope,
    /// Where the result goes.
    pub dst: Tile,
    /// What it is made of: tiles, and scalars where the operation takes them.
    pub args: Vec<TileArg>,
    /// Reductions: the axes of the source that are reduced, counted from 0.
    pub axes: Vec<usize>,
    /// Reductions and `gemm`: the old destination counts as one more operand.
    pub accum: bool,
    /// Other named arguments (`rounding`, `cache`, `predicate`, ...), by name.
    pub config: BTreeMap<String, AttrValue>,
    /// Named arguments that are expressions (`valid`, `bar`, ...), by name.
    pub operands: BTreeMap<String, TileArg>,
    /// The variant that the text asks for; no other is tried.
    pub forced: Option<String>,
}

/// A rectangular part of a buffer.
#[derive(Clone, PartialEq, Debug)]
pub struct Tile {
    /// The buffer.
    pub buffer: Name,
    /// First index along each dimension.
    pub begin: Vec<Expr>,
    /// Number of indices along each dimension.
    pub extent: Vec<i64>,
}

/// An operand.
#[derive(Clone, PartialEq, Debug)]
pub enum TileArg {
    /// A part of a buffer.
    Tile(Tile),
    /// One value for all elements.
    Scalar(Expr),
}

/// The threads that carry out a call together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum ExecScope {
    Thread,
    Warp,
    /// Four adjacent warps.
    Warpgroup,
    /// The block.
    Cta,
}

impl ExecScope {
    /// Every scope with its name in tile programs.
    pub const ALL: [(ExecScope, &'static str); 4] = [
        (ExecScope::Thread, "thread"),
        (ExecScope::Warp, "warp"),
        (ExecScope::Warpgroup, "warpgroup"),
        (ExecScope::Cta, "cta"),
    ];

    /// The name, such as `cta`.
    pub fn name(self) -> &'static str {
        ExecScope::ALL.iter().find(|e| e.0 == self).expect("every scope is in ALL").1
    }

    /// The scope of that name.
    pub fn by_name(name: &str) -> Option<ExecScope> {
        ExecScope::ALL.iter().find(|e| e.1 == name).map(|e| e.0)
    }
}

/// The tile primitives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum TileOp {
    Copy,
    CopyAsync,
    PermuteLayout,
    Sum,
    Prod,
    Max,
    Min,
    Gemm,
    Zero,
    Fill,
    Cast,
    Reciprocal,
    Sqrt,
    Exp,
    Exp2,
    Log2,
    Silu,
    Add,
    Sub,
    Mul,
    Fdiv,
    Maximum,
    Minimum,
    Fma,
}

impl TileOp {
    /// Every operation with its name and how many operands it takes besides the destination.
    pub const ALL: [(TileOp, &'static str, usize); 24] = [
        (TileOp::Copy, "copy", 1),
        (TileOp::CopyAsync, "copy_async", 1),
        (TileOp::PermuteLayout, "permute_layout", 1),
        (TileOp::Sum, "sum", 1),
        (TileOp::Prod, "prod", 1),
        (TileOp::Max, "max", 1),
        (TileOp::Min, "min", 1),
        (TileOp::Gemm, "gemm", 2),
        (TileOp::Zero, "zero", 0),
        (TileOp::Fill, "fill", 1),
        (TileOp::Cast, "cast", 1),
        (TileOp::Reciprocal, "reciprocal", 1),
        (TileOp::Sqrt, "sqrt", 1),
        (TileOp::Exp, "exp", 1),
        (TileOp::Exp2, "exp2", 1),
        (TileOp::Log2, "log2", 1),
        (TileOp::Silu, "silu", 1),
        (TileOp::Add, "add", 2),
        (TileOp::Sub, "sub", 2),
        (TileOp::Mul, "mul", 2),
        (TileOp::Fdiv, "fdiv", 2),
        (TileOp::Maximum, "maximum", 2),
        (TileOp::Minimum, "minimum", 2),
        (TileOp::Fma, "fma", 3),
    ];

    /// The name, such as `permute_layout`.
    pub fn name(self) -> &'static str {
        TileOp::ALL.iter().find(|e| e.0 == self).expect("every operation is in ALL").1
    }

    /// The operation of that name.
    pub fn by_name(name: &str) -> Option<TileOp> {
        TileOp::ALL.iter().find(|e| e.1 == name).map(|e| e.0)
    }

    /// Operands besides the destination.
    pub fn arity(self) -> usize {
        TileOp::ALL.iter().find(|e| e.0 == self).expect("every operation is in ALL").2
    }

    /// True for `sum`, `prod`, `max` and `min`.
    pub fn is_reduction(self) -> bool {
        matches!(self, TileOp::Sum | TileOp::Prod | TileOp::Max | TileOp::Min)
    }
}

impl TileCall {
    /// A call without any named argument.
    pub fn new(op: TileOp, scope: ExecScope, dst: Tile, args: Vec<TileArg>) -> TileCall {
        TileCall {
            op,
            scope,
            dst,
            args,
            axes: vec![],
            accum: false,
            config: BTreeMap::new(),
            operands: BTreeMap::new(),
            forced: None,
        }
    }

    /// A named argument, whatever the case of its name (TVM writes `transpose_A`).
    pub fn named(&self, name: &str) -> Option<&AttrValue> {
        self.config.iter().find(|(k, _)| k.to_lowercase() == name).map(|(_, v)| v)
    }

    /// True where float32 operands may be shortened to tf32, which keeps ten bits of fraction as float16 does.
    pub fn allows_tf32(&self) -> bool {
        matches!(self.named("precision"), Some(AttrValue::Str(s)) if s == "tf32")
    }

    /// Calls `f` on each tile, the destination first.
    pub fn for_each_tile(&self, mut f: impl FnMut(&Tile)) {
        f(&self.dst);
        for a in self.args.iter().chain(self.operands.values()) {
            if let TileArg::Tile(t) = a {
                f(t);
            }
        }
    }

    /// Calls `f` on each tile, to be changed.
    pub fn for_each_tile_mut(&mut self, mut f: impl FnMut(&mut Tile)) {
        f(&mut self.dst);
        for a in self.args.iter_mut().chain(self.operands.values_mut()) {
            if let TileArg::Tile(t) = a {
                f(t);
            }
        }
    }

    /// Calls `f` on each expression.
    pub fn for_each_expr(&self, mut f: impl FnMut(&Expr)) {
        self.map_exprs(&mut |e| {
            f(e);
            e.clone()
        });
    }

    /// Rebuilds the call with `f` applied to every expression.
    pub fn map_exprs(&self, f: &mut impl FnMut(&Expr) -> Expr) -> TileCall {
        let mut out = self.clone();
        out.dst.begin.iter_mut().for_each(|e| *e = f(e));
        for a in out.args.iter_mut().chain(out.operands.values_mut()) {
            match a {
                TileArg::Tile(t) => t.begin.iter_mut().for_each(|e| *e = f(e)),
                TileArg::Scalar(e) => *e = f(e),
            }
        }
        out
    }
}

impl Tile {
    /// All of a buffer of that shape.
    pub fn whole(buffer: &Name, shape: &[i64]) -> Tile {
        let begin = shape.iter().map(|_| Expr::i64(0)).collect();
        Tile { buffer: buffer.clone(), begin, extent: shape.to_vec() }
    }

    /// The indices of its last element.
    pub fn last(&self) -> Vec<Expr> {
        self.begin.iter().zip(&self.extent).map(|(b, n)| b.clone() + Expr::i64(n - 1)).collect()
    }

    /// Number of elements, at most `i64::MAX`.
    pub fn len(&self) -> i64 {
        count(&self.extent)
    }

    /// True when an extent is 0.
    pub fn is_empty(&self) -> bool {
        self.extent.contains(&0)
    }
}

/// Number of elements of a box, at most `i64::MAX`.
pub fn count(extent: &[i64]) -> i64 {
    if extent.contains(&0) { 0 } else { extent.iter().fold(1, |n: i64, e| n.saturating_mul(*e)) }
}

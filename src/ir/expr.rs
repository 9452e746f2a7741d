//! Expressions: shared, immutable trees. A closed set of nodes; names are identity.

use super::{DType, Name};
use std::sync::Arc;

/// An expression. Cloning shares the tree.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Expr(Arc<ExprKind>);

/// The node of an expression.
// The text of a variant says what its fields are.
#[allow(missing_docs)]
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ExprKind {
    /// An integer or `bool` constant; `uint64` values keep their bits.
    Int { value: i64, dtype: DType },
    /// A floating constant, held as the bits of an `f64` that `dtype` represents exactly
    /// (or will round when used).
    Float { bits: u64, dtype: DType },
    /// A string, only as an argument of an [`ExprKind::Extern`] call.
    Str(Arc<str>),
    /// A scalar variable: loop, block iterator, let, extent, scalar parameter, or (in kernels)
    /// a thread index such as `threadIdx.x`.
    Var { name: Name, dtype: DType },
    /// An element of a buffer. In a kernel the indices are one flat element index.
    Load { buffer: Name, indices: Vec<Expr>, dtype: DType },
    /// A unary operator.
    Unary { op: UnOp, arg: Expr },
    /// A binary operator; both sides have one dtype (shifts included).
    Binary { op: BinOp, a: Expr, b: Expr },
    /// Both branches are evaluated (`T.Select`).
    Select { cond: Expr, then: Expr, otherwise: Expr },
    /// Only the chosen branch is evaluated (`T.if_then_else`).
    IfThenElse { cond: Expr, then: Expr, otherwise: Expr },
    /// Value conversion (`T.Cast`): round to nearest even to floats, toward zero to integers.
    Cast { dtype: DType, arg: Expr },
    /// Bit conversion between types of one size.
    Reinterpret { dtype: DType, arg: Expr },
    /// A pure mathematical function.
    Call { op: Intrin, args: Vec<Expr>, dtype: DType },
    /// Anything else that is called; a function that holds one is refused (`extern_call`).
    Extern { callee: Arc<str>, args: Vec<Expr>, dtype: DType },
    /// `let var = value in body`: an expression used twice.
    Let { var: Name, value: Expr, body: Expr },
}

/// Unary operators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum UnOp {
    Neg,
    /// Logical not of a `bool`.
    Not,
    /// Bitwise not of an integer.
    BitNot,
}

/// Binary operators. `FloorDiv`/`FloorMod` round toward minus infinity, `TruncDiv`/`TruncMod`
/// toward zero as in C; `Div` is the division of floats.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    FloorMod,
    TruncDiv,
    TruncMod,
    Min,
    Max,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    Shr,
}

impl BinOp {
    /// True where the result is `bool` whatever the operands are.
    pub fn is_compare(self) -> bool {
        matches!(self, BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge)
    }

    /// True for quotients and remainders that round: those of integers.
    pub fn is_rounded_division(self) -> bool {
        matches!(self, BinOp::FloorDiv | BinOp::FloorMod | BinOp::TruncDiv | BinOp::TruncMod)
    }
}

/// Pure mathematical functions, named as TVM names them under `T.`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Intrin {
    Exp,
    Exp2,
    Exp10,
    Log,
    Log2,
    Log10,
    Log1p,
    Sqrt,
    Rsqrt,
    Sin,
    Cos,
    Tan,
    Sinh,
    Cosh,
    Tanh,
    Asin,
    Acos,
    Atan,
    Atan2,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    Sigmoid,
    Pow,
    Fabs,
    Floor,
    Ceil,
    Round,
    Nearbyint,
    Trunc,
    Fma,
    Fmod,
    Hypot,
    CopySign,
    IsNan,
    IsInf,
    PopCount,
    Clz,
    /// 2^x to 2 units in the last place; what is below the normal numbers is 0 (PTX `ex2.approx.ftz.f32`).
    Ex2Approx,
    /// 1/x to a unit in the last place; denormals are 0 (PTX `rcp.approx.ftz.f32`).
    RcpApprox,
}

impl Intrin {
    /// Every function with its name, which is TVM's but for approximate ones, and number of arguments.
    pub const ALL: [(Intrin, &'static str, usize); 41] = [
        (Intrin::Exp, "exp", 1),
        (Intrin::Exp2, "exp2", 1),
        (Intrin::Exp10, "exp10", 1),
        (Intrin::Log, "log", 1),
        (Intrin::Log2, "log2", 1),
        (Intrin::Log10, "log10", 1),
        (Intrin::Log1p, "log1p", 1),
        (Intrin::Sqrt, "sqrt", 1),
        (Intrin::Rsqrt, "rsqrt", 1),
        (Intrin::Sin, "sin", 1),
        (Intrin::Cos, "cos", 1),
        (Intrin::Tan, "tan", 1),
        (Intrin::Sinh, "sinh", 1),
        (Intrin::Cosh, "cosh", 1),
        (Intrin::Tanh, "tanh", 1),
        (Intrin::Asin, "asin", 1),
        (Intrin::Acos, "acos", 1),
        (Intrin::Atan, "atan", 1),
        (Intrin::Atan2, "atan2", 2),
        (Intrin::Asinh, "asinh", 1),
        (Intrin::Acosh, "acosh", 1),
        (Intrin::Atanh, "atanh", 1),
        (Intrin::Erf, "erf", 1),
        (Intrin::Sigmoid, "sigmoid", 1),
        (Intrin::Pow, "pow", 2),
        (Intrin::Fabs, "fabs", 1),
        (Intrin::Floor, "floor", 1),
        (Intrin::Ceil, "ceil", 1),
        (Intrin::Round, "round", 1),
        (Intrin::Nearbyint, "nearbyint", 1),
        (Intrin::Trunc, "trunc", 1),
        (Intrin::Fma, "fma", 3),
        (Intrin::Fmod, "fmod", 2),
        (Intrin::Hypot, "hypot", 2),
        (Intrin::CopySign, "copysign", 2),
        (Intrin::IsNan, "isnan", 1),
        (Intrin::IsInf, "isinf", 1),
        (Intrin::PopCount, "popcount", 1),
        (Intrin::Clz, "clz", 1),
        (Intrin::Ex2Approx, "ex2_approx", 1),
        (Intrin::RcpApprox, "rcp_approx", 1),
    ];

    /// The name under `T.`.
    pub fn name(self) -> &'static str {
        Intrin::ALL.iter().find(|e| e.0 == self).expect("every intrinsic is in ALL").1
    }

    /// The function of that name and its number of arguments.
    pub fn by_name(name: &str) -> Option<(Intrin, usize)> {
        Intrin::ALL.iter().find(|e| e.1 == name).map(|e| (e.0, e.2))
    }
}

impl Expr {
    /// Wraps a node.
    pub fn new(kind: ExprKind) -> Expr {
        Expr(Arc::new(kind))
    }

    /// The node.
    pub fn kind(&self) -> &ExprKind {
        &self.0
    }

    /// True when both are the very same shared tree (cheap; `==` compares structure).
    pub fn same(&self, other: &Expr) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// An integer constant.
    pub fn int(value: i64, dtype: DType) -> Expr {
        Expr::new(ExprKind::Int { value, dtype })
    }

    /// An `int32` constant.
    pub fn i32(value: i64) -> Expr {
        Expr::int(value, DType::I32)
    }

    /// An `int64` constant.
    pub fn i64(value: i64) -> Expr {
        Expr::int(value, DType::I64)
    }

    /// A `bool` constant.
    pub fn bool(value: bool) -> Expr {
        Expr::int(value as i64, DType::Bool)
    }

    /// A floating constant.
    pub fn float(value: f64, dtype: DType) -> Expr {
        Expr::new(ExprKind::Float { bits: value.to_bits(), dtype })
    }

    /// A constant of any numeric dtype.
    pub fn constant(value: f64, dtype: DType) -> Expr {
        if dtype.is_float() { Expr::float(value, dtype) } else { Expr::int(value as i64, dtype) }
    }

    /// A variable.
    pub fn var(name: impl Into<Name>, dtype: DType) -> Expr {
        Expr::new(ExprKind::Var { name: name.into(), dtype })
    }

    /// A load.
    pub fn load(buffer: impl Into<Name>, indices: Vec<Expr>, dtype: DType) -> Expr {
        Expr::new(ExprKind::Load { buffer: buffer.into(), indices, dtype })
    }

    /// A binary operator, as given (nothing is folded).
    pub fn binary(op: BinOp, a: Expr, b: Expr) -> Expr {
        Expr::new(ExprKind::Binary { op, a, b })
    }

    /// A unary operator.
    pub fn unary(op: UnOp, arg: Expr) -> Expr {
        Expr::new(ExprKind::Unary { op, arg })
    }

    /// A value conversion; the argument itself when it has that dtype already.
    pub fn cast(dtype: DType, arg: Expr) -> Expr {
        if arg.dtype() == dtype { arg } else { Expr::new(ExprKind::Cast { dtype, arg }) }
    }

    /// The same bits as another type of their size.
    pub fn reinterpret(dtype: DType, arg: Expr) -> Expr {
        Expr::new(ExprKind::Reinterpret { dtype, arg })
    }

    /// A call of a mathematical function.
    pub fn call(op: Intrin, args: Vec<Expr>, dtype: DType) -> Expr {
        Expr::new(ExprKind::Call { op, args, dtype })
    }

    /// The dtype of the value.
    pub fn dtype(&self) -> DType {
        match self.kind() {
            ExprKind::Int { dtype, .. }
            | ExprKind::Float { dtype, .. }
            | ExprKind::Var { dtype, .. }
            | ExprKind::Load { dtype, .. }
            | ExprKind::Cast { dtype, .. }
            | ExprKind::Reinterpret { dtype, .. }
            | ExprKind::Call { dtype, .. }
            | ExprKind::Extern { dtype, .. } => *dtype,
            ExprKind::Str(_) => DType::Handle,
            ExprKind::Unary { op: UnOp::Not, .. } => DType::Bool,
            ExprKind::Unary { arg, .. } => arg.dtype(),
            ExprKind::Binary { op, a, .. } => match op {
                BinOp::And | BinOp::Or => DType::Bool,
                op if op.is_compare() => DType::Bool,
                _ => a.dtype(),
            },
            ExprKind::Select { then, .. } | ExprKind::IfThenElse { then, .. } => then.dtype(),
            ExprKind::Let { body, .. } => body.dtype(),
        }
    }

    /// The value of an integer or `bool` constant.
    pub fn as_int(&self) -> Option<i64> {
        match self.kind() {
            ExprKind::Int { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// The value of a floating constant.
    pub fn as_float(&self) -> Option<f64> {
        match self.kind() {
            ExprKind::Float { bits, .. } => Some(f64::from_bits(*bits)),
            _ => None,
        }
    }

    /// The name of a plain variable.
    pub fn as_var(&self) -> Option<&Name> {
        match self.kind() {
            ExprKind::Var { name, .. } => Some(name),
            _ => None,
        }
    }

    /// True for the integer constant `value`.
    pub fn is_int(&self, value: i64) -> bool {
        self.as_int() == Some(value)
    }

    /// Calls `f` on each direct operand, indices of loads included.
    pub fn for_each_child<'e>(&'e self, mut f: impl FnMut(&'e Expr)) {
        match self.kind() {
            ExprKind::Int { .. } | ExprKind::Float { .. } | ExprKind::Str(_) | ExprKind::Var { .. } => {}
            ExprKind::Load { indices, .. } => indices.iter().for_each(f),
            ExprKind::Unary { arg, .. } | ExprKind::Cast { arg, .. } | ExprKind::Reinterpret { arg, .. } => f(arg),
            ExprKind::Binary { a, b, .. } => {
                f(a);
                f(b);
            }
            ExprKind::Select { cond, then, otherwise } | ExprKind::IfThenElse { cond, then, otherwise } => {
                f(cond);
                f(then);
                f(otherwise);
            }
            ExprKind::Call { args, .. } | ExprKind::Extern { args, .. } => args.iter().for_each(f),
            ExprKind::Let { value, body, .. } => {
                f(value);
                f(body);
            }
        }
    }

    /// Rebuilds the node with `f` applied to each direct operand; shares the old tree when
    /// nothing changed.
    pub fn map_children(&self, mut f: impl FnMut(&Expr) -> Expr) -> Expr {
        let mut changed = false;
        let mut g = |e: &Expr| {
            let new = f(e);
            changed |= !new.same(e);
            new
        };
        let kind = match self.kind() {
            ExprKind::Int { .. } | ExprKind::Float { .. } | ExprKind::Str(_) | ExprKind::Var { .. } => {
                return self.clone();
            }
            ExprKind::Load { buffer, indices, dtype } => {
                ExprKind::Load { buffer: buffer.clone(), indices: indices.iter().map(g).collect(), dtype: *dtype }
            }
            ExprKind::Unary { op, arg } => ExprKind::Unary { op: *op, arg: g(arg) },
            ExprKind::Cast { dtype, arg } => ExprKind::Cast { dtype: *dtype, arg: g(arg) },
            ExprKind::Reinterpret { dtype, arg } => ExprKind::Reinterpret { dtype: *dtype, arg: g(arg) },
            ExprKind::Binary { op, a, b } => ExprKind::Binary { op: *op, a: g(a), b: g(b) },
            ExprKind::Select { cond, then, otherwise } => {
                ExprKind::Select { cond: g(cond), then: g(then), otherwise: g(otherwise) }
            }
            ExprKind::IfThenElse { cond, then, otherwise } => {
                ExprKind::IfThenElse { cond: g(cond), then: g(then), otherwise: g(otherwise) }
            }
            ExprKind::Call { op, args, dtype } => {
                ExprKind::Call { op: *op, args: args.iter().map(g).collect(), dtype: *dtype }
            }
            ExprKind::Extern { callee, args, dtype } => {
                ExprKind::Extern { callee: callee.clone(), args: args.iter().map(g).collect(), dtype: *dtype }
            }
            ExprKind::Let { var, value, body } => ExprKind::Let { var: var.clone(), value: g(value), body: g(body) },
        };
        if changed { Expr::new(kind) } else { self.clone() }
    }

    /// Calls `f` on this expression and everything in it, parents first.
    pub fn visit(&self, f: &mut impl FnMut(&Expr)) {
        f(self);
        self.for_each_child(|c| c.visit(f));
    }

    /// Replaces variables by expressions. Names are unique, so nothing is captured.
    pub fn subst(&self, map: &dyn Fn(&Name) -> Option<Expr>) -> Expr {
        match self.kind() {
            ExprKind::Var { name, .. } => map(name).unwrap_or_else(|| self.clone()),
            _ => self.map_children(|c| c.subst(map)),
        }
    }

    /// The expression with a part of it replaced wherever that occurs.
    pub fn replaced(&self, old: &Expr, new: &Expr) -> Expr {
        self.replaced_all(&[(old.clone(), new.clone())])
    }

    /// The same for several parts, each with what takes its place; larger parts go first.
    pub fn replaced_all(&self, parts: &[(Expr, Expr)]) -> Expr {
        match parts.iter().find(|(old, _)| old == self) {
            Some((_, new)) => new.clone(),
            None => self.map_children(|c| c.replaced_all(parts)),
        }
    }

    /// True when `is` holds for the expression or a part of it.
    pub fn any(&self, is: &impl Fn(&Expr) -> bool) -> bool {
        let mut found = is(self);
        self.for_each_child(|c| found = found || c.any(is));
        found
    }

    /// True when variable `name` occurs.
    pub fn uses_var(&self, name: &Name) -> bool {
        self.any(&|e| e.as_var() == Some(name))
    }

    /// True for the element of `buffer` at `indices`, as it stands in the update of a reduction.
    pub fn is_element(&self, buffer: &Name, indices: &[Expr]) -> bool {
        matches!(self.kind(), ExprKind::Load { buffer: b, indices: at, .. } if b == buffer && at == indices)
    }

    /// Names that lets inside this expression give.
    pub fn lets(&self) -> Vec<Name> {
        let mut names = vec![];
        self.visit(&mut |e| {
            if let ExprKind::Let { var, .. } = e.kind() {
                names.push(var.clone());
            }
        });
        names
    }

    /// True when `buffer` is loaded from.
    pub fn loads(&self, buffer: &Name) -> bool {
        self.any(&|e| matches!(e.kind(), ExprKind::Load { buffer: b, .. } if b == buffer))
    }

    /// True when the value depends on the contents of a buffer.
    pub fn has_load(&self) -> bool {
        self.any(&|e| matches!(e.kind(), ExprKind::Load { .. }))
    }
}

macro_rules! operator {
    ($tr:ident, $f:ident, $op:ident) => {
        impl std::ops::$tr for Expr {
            type Output = Expr;
            fn $f(self, rhs: Expr) -> Expr {
                Expr::binary(BinOp::$op, self, rhs)
            }
        }
    };
}
operator!(Add, add, Add);
operator!(Sub, sub, Sub);
operator!(Mul, mul, Mul);

impl std::fmt::Debug for Expr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

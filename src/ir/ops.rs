//! The table of binary operators that the printer and the reader share: Python symbol, binding
//! strength, and the name under `T.`.

use super::{BinOp, DType, Expr};

/// How strongly Python binds an operator; more binds tighter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Prec {
    Or,
    And,
    Not,
    Compare,
    BitOr,
    BitXor,
    BitAnd,
    Shift,
    Add,
    Mul,
    Unary,
    Atom,
}

/// One binary operator: Python symbol (empty where it has none), strength, name under `T.` in the
/// form that always builds the plain node.
pub(super) struct OpInfo {
    pub op: BinOp,
    pub symbol: &'static str,
    pub prec: Prec,
    pub node: &'static str,
}

const fn row(op: BinOp, symbol: &'static str, prec: Prec, node: &'static str) -> OpInfo {
    OpInfo { op, symbol, prec, node }
}

/// Every binary operator.
pub(super) const BINARY: [OpInfo; 23] = [
    row(BinOp::Add, "+", Prec::Add, "Add"),
    row(BinOp::Sub, "-", Prec::Add, "Sub"),
    row(BinOp::Mul, "*", Prec::Mul, "Mul"),
    row(BinOp::Div, "/", Prec::Mul, "Div"),
    row(BinOp::FloorDiv, "//", Prec::Mul, "FloorDiv"),
    row(BinOp::FloorMod, "%", Prec::Mul, "FloorMod"),
    row(BinOp::TruncDiv, "", Prec::Atom, "Div"),
    row(BinOp::TruncMod, "", Prec::Atom, "truncmod"),
    row(BinOp::Min, "", Prec::Atom, "min"),
    row(BinOp::Max, "", Prec::Atom, "max"),
    row(BinOp::Eq, "==", Prec::Compare, "EQ"),
    row(BinOp::Ne, "!=", Prec::Compare, "NE"),
    row(BinOp::Lt, "<", Prec::Compare, "LT"),
    row(BinOp::Le, "<=", Prec::Compare, "LE"),
    row(BinOp::Gt, ">", Prec::Compare, "GT"),
    row(BinOp::Ge, ">=", Prec::Compare, "GE"),
    row(BinOp::And, "and", Prec::And, "And"),
    row(BinOp::Or, "or", Prec::Or, "Or"),
    row(BinOp::BitAnd, "&", Prec::BitAnd, "bitwise_and"),
    row(BinOp::BitOr, "|", Prec::BitOr, "bitwise_or"),
    row(BinOp::BitXor, "^", Prec::BitXor, "bitwise_xor"),
    row(BinOp::Shl, "<<", Prec::Shift, "shift_left"),
    row(BinOp::Shr, ">>", Prec::Shift, "shift_right"),
];

/// Other names under `T.` for the same operators, read but never printed.
const ALIASES: [(&str, BinOp); 12] = [
    ("Min", BinOp::Min),
    ("Max", BinOp::Max),
    ("floordiv", BinOp::FloorDiv),
    ("floormod", BinOp::FloorMod),
    ("truncdiv", BinOp::TruncDiv),
    ("Mod", BinOp::TruncMod),
    ("indexdiv", BinOp::FloorDiv),
    ("indexmod", BinOp::FloorMod),
    ("BitwiseAnd", BinOp::BitAnd),
    ("BitwiseOr", BinOp::BitOr),
    ("LShift", BinOp::Shl),
    ("RShift", BinOp::Shr),
];

/// The row of an operator.
pub(super) fn info(op: BinOp) -> &'static OpInfo {
    BINARY.iter().find(|r| r.op == op).expect("every operator is in the table")
}

/// The operator with a Python symbol.
pub(super) fn by_symbol(symbol: &str) -> Option<BinOp> {
    BINARY.iter().find(|r| !symbol.is_empty() && r.symbol == symbol).map(|r| r.op)
}

/// The operator with a name under `T.`, and whether that spelling builds the plain node (`T.Add`)
/// where the Python operator folds constants.
pub(super) fn by_name(name: &str) -> Option<(BinOp, bool)> {
    if let Some(r) = BINARY.iter().find(|r| r.node == name) {
        return Some((r.op, name.starts_with(|c: char| c.is_ascii_uppercase())));
    }
    ALIASES.iter().find(|a| a.0 == name).map(|a| (a.1, name.starts_with(|c: char| c.is_ascii_uppercase())))
}

/// What TVM's operators make of constant operands: `Some` where `a op b` is folded while the text
/// is read. Such a node, where it exists, has to be printed as `T.Add(a, b)`. Results that the
/// dtype cannot hold and divisions by zero are left alone.
pub(super) fn fold(op: BinOp, a: &Expr, b: &Expr) -> Option<Expr> {
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        return fold_ints(op, x, y, a.dtype());
    }
    if let (Some(x), Some(y)) = (a.as_float(), b.as_float()) {
        return fold_floats(op, x, y, a.dtype());
    }
    fold_identity(op, a, b)
}

fn fold_ints(op: BinOp, x: i64, y: i64, dtype: DType) -> Option<Expr> {
    let value = op.of_ints(x, y)?;
    if op.is_compare() || matches!(op, BinOp::And | BinOp::Or) {
        return Some(Expr::bool(value != 0));
    }
    fits(value, dtype).then(|| Expr::int(value, dtype))
}

impl BinOp {
    /// The value for two integers, 0 and 1 of comparisons; `None` where it does not fit or there is none.
    pub fn of_ints(self, x: i64, y: i64) -> Option<i64> {
        Some(match self {
            BinOp::Add => x.checked_add(y)?,
            BinOp::Sub => x.checked_sub(y)?,
            BinOp::Mul => x.checked_mul(y)?,
            BinOp::FloorDiv => floor_div(x, y)?,
            BinOp::FloorMod => x.checked_sub(floor_div(x, y)?.checked_mul(y)?)?,
            BinOp::TruncDiv => x.checked_div(y)?,
            BinOp::TruncMod => x.checked_rem(y)?,
            BinOp::Min => x.min(y),
            BinOp::Max => x.max(y),
            BinOp::Eq => i64::from(x == y),
            BinOp::Ne => i64::from(x != y),
            BinOp::Lt => i64::from(x < y),
            BinOp::Le => i64::from(x <= y),
            BinOp::Gt => i64::from(x > y),
            BinOp::Ge => i64::from(x >= y),
            BinOp::And => i64::from(x != 0 && y != 0),
            BinOp::Or => i64::from(x != 0 || y != 0),
            BinOp::BitAnd => x & y,
            BinOp::BitOr => x | y,
            BinOp::BitXor => x ^ y,
            BinOp::Shl => x.checked_mul(1i64.checked_shl(u32::try_from(y).ok().filter(|s| *s < 63)?)?)?,
            BinOp::Shr => x >> u32::try_from(y).ok().filter(|s| *s < 64)?,
            BinOp::Div => return None,
        })
    }
}

fn floor_div(x: i64, y: i64) -> Option<i64> {
    let q = x.checked_div(y)?;
    Some(if x % y != 0 && (x < 0) != (y < 0) { q - 1 } else { q })
}

fn fold_floats(op: BinOp, x: f64, y: f64, dtype: DType) -> Option<Expr> {
    let value = match op {
        BinOp::Add => x + y,
        BinOp::Sub => x - y,
        BinOp::Mul => x * y,
        BinOp::Div if y != 0.0 => x / y,
        BinOp::Min => x.min(y),
        BinOp::Max => x.max(y),
        BinOp::Eq => return Some(Expr::bool(x == y)),
        BinOp::Ne => return Some(Expr::bool(x != y)),
        BinOp::Lt => return Some(Expr::bool(x < y)),
        BinOp::Le => return Some(Expr::bool(x <= y)),
        BinOp::Gt => return Some(Expr::bool(x > y)),
        BinOp::Ge => return Some(Expr::bool(x >= y)),
        BinOp::Div
        | BinOp::FloorDiv
        | BinOp::FloorMod
        | BinOp::TruncDiv
        | BinOp::TruncMod
        | BinOp::And
        | BinOp::Or
        | BinOp::BitAnd
        | BinOp::BitOr
        | BinOp::BitXor
        | BinOp::Shl
        | BinOp::Shr => return None,
    };
    Some(Expr::float(value, dtype))
}

/// `x + 0`, `x * 1`, `0 // x`, `x and True` and the like.
fn fold_identity(op: BinOp, a: &Expr, b: &Expr) -> Option<Expr> {
    let zero = |e: &Expr| e.is_int(0) || e.as_float() == Some(0.0);
    let one = |e: &Expr| e.is_int(1) || e.as_float() == Some(1.0);
    let int = a.dtype().is_int();
    let pick = |yes: bool, e: &Expr| yes.then(|| e.clone());
    match op {
        BinOp::Add => pick(zero(b), a).or_else(|| pick(zero(a), b)),
        BinOp::Sub => pick(zero(b), a),
        BinOp::Mul => pick(one(b) || zero(a), a).or_else(|| pick(one(a) || zero(b), b)),
        BinOp::Div | BinOp::TruncDiv => pick(one(b) || zero(a), a),
        BinOp::FloorDiv => pick(one(b) || zero(a), a),
        BinOp::FloorMod | BinOp::TruncMod => {
            pick(int && zero(a), a).or_else(|| (int && one(b)).then(|| Expr::int(0, a.dtype())))
        }
        BinOp::And => pick(a.is_int(0) || b.is_int(1), a).or_else(|| pick(a.is_int(1) || b.is_int(0), b)),
        BinOp::Or => pick(a.is_int(1) || b.is_int(0), a).or_else(|| pick(a.is_int(0) || b.is_int(1), b)),
        BinOp::Shl | BinOp::Shr => pick(zero(b), a),
        BinOp::Min
        | BinOp::Max
        | BinOp::Eq
        | BinOp::Ne
        | BinOp::Lt
        | BinOp::Le
        | BinOp::Gt
        | BinOp::Ge
        | BinOp::BitAnd
        | BinOp::BitOr
        | BinOp::BitXor => None,
    }
}

/// True when an integer dtype (or `bool`) can hold the value; `uint64` values are held as bits.
pub(super) fn fits(value: i64, dtype: DType) -> bool {
    match dtype {
        DType::Bool => value == 0 || value == 1,
        DType::I8 => i8::try_from(value).is_ok(),
        DType::I16 => i16::try_from(value).is_ok(),
        DType::I32 => i32::try_from(value).is_ok(),
        DType::U8 => u8::try_from(value).is_ok(),
        DType::U16 => u16::try_from(value).is_ok(),
        DType::U32 => u32::try_from(value).is_ok(),
        DType::I64 | DType::U64 => true,
        DType::F16
        | DType::BF16
        | DType::F32
        | DType::F64
        | DType::E4M3
        | DType::E5M2
        | DType::E8M0
        | DType::Handle => false,
    }
}

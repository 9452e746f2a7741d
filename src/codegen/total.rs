//! Operators that C leaves without a value for some operands, with the one that `docs/correctness.md` gives
//! them: quotients by 0, shifts by the width or more, floats that no integer of the type holds. Where the
//! operands are known to be others, the plain operators are written.

use super::expr::level::*;
use super::expr::{ExprWriter, Text};
use super::prelude::{Prelude, short};
use super::{Lang, ctype, is_narrow, value_type};
use crate::ir::{BinOp, DType, Expr, ExprKind, Intrin};

impl ExprWriter<'_> {
    /// Quotients and remainders of integers that are not by a constant power of two.
    pub(super) fn quotient(&mut self, op: BinOp, a: &Expr, b: &Expr) -> Text {
        let floor = matches!(op, BinOp::FloorDiv | BinOp::FloorMod);
        let plain = !floor || self.facts.non_negative(a) && self.facts.non_negative(b);
        let f = match (self.facts.divides(b), plain) {
            (true, true) => {
                let symbol = if is_remainder(op) { "%" } else { "/" };
                return self.infix(a, symbol, b, PRODUCT);
            }
            (true, false) => self.prelude.floored(op, a.dtype()),
            (false, _) => self.prelude.quotient(op, a.dtype()),
        };
        self.apply(&f, &[a, b])
    }

    /// `a << b` and `a >> b`.
    pub(super) fn shift(&mut self, op: BinOp, a: &Expr, b: &Expr) -> Text {
        let symbol = if op == BinOp::Shl { "<<" } else { ">>" };
        if self.facts.most(b).is_some_and(|most| most < width(a.dtype())) {
            return self.infix(a, symbol, b, SHIFT);
        }
        let f = self.prelude.shift(op, a.dtype());
        self.apply(&f, &[a, b])
    }

    /// A float as an integer. The instructions of GPUs that give 32 bits saturate and make 0 of what is no
    /// number.
    pub(super) fn float_to_int(&mut self, dtype: DType, arg: &Expr) -> Text {
        let native =
            self.lang == Lang::Cuda && matches!(dtype, DType::I32 | DType::U32) && value_type(arg.dtype()) == "float";
        if native || dtype == DType::Handle || holds(dtype, arg) {
            let inner = self.value(arg);
            return Text::new(format!("({}){}", ctype(dtype), inner.at(UNARY)), UNARY);
        }
        let f = self.prelude.float_to_int(dtype, value_type(arg.dtype()));
        self.apply(&f, &[arg])
    }
}

impl Prelude {
    /// Name of the quotient or remainder that is rounded toward minus infinity, where there is one.
    fn floored(&mut self, op: BinOp, dtype: DType) -> String {
        if op == BinOp::FloorDiv { self.floor_div(dtype) } else { self.floor_mod(dtype) }
    }

    /// Name of the quotient or remainder of any two integers: 0 where `b` is; the quotient of the smallest
    /// integer and -1 wraps.
    fn quotient(&mut self, op: BinOp, dtype: DType) -> String {
        let t = ctype(dtype);
        let symbol = if is_remainder(op) { "%" } else { "/" };
        let floors = dtype.is_signed() && matches!(op, BinOp::FloorDiv | BinOp::FloorMod);
        let inner = if floors { format!("{}(a, b)", self.floored(op, dtype)) } else { format!("a {symbol} b") };
        let word = if dtype.bytes() == 8 { "unsigned long long" } else { "unsigned" };
        let body = match (dtype.is_signed(), is_remainder(op)) {
            (false, _) => format!("return b == 0 ? 0 : {inner};"),
            (true, true) => format!("return ({word})b + 1u <= 1u ? 0 : {inner};"),
            (true, false) => format!("return b == 0 ? 0 : b == -1 ? ({t})(0u - ({word})a) : {inner};"),
        };
        let name = match op {
            BinOp::FloorDiv => "floordiv",
            BinOp::FloorMod => "floormod",
            BinOp::TruncMod => "truncmod",
            _ => "truncdiv",
        };
        self.function(&format!("dl_any_{name}_{}", short(dtype)), t, &format!("{t} a, {t} b"), &body)
    }

    /// Name of a shift by any amount. Numbers narrower than 32 bits are shifted as 32 bits and cut afterwards.
    fn shift(&mut self, op: BinOp, dtype: DType) -> String {
        let (t, width) = (ctype(dtype), width(dtype));
        let word = if width == 64 { "unsigned long long" } else { "unsigned" };
        let body = match (op == BinOp::Shl, dtype.is_signed()) {
            (true, _) => format!("return ({word})b < {width} ? ({t})(({word})a << b) : 0;"),
            (false, true) => format!("return a >> (({word})b < {width} ? b : {});", width - 1),
            (false, false) => format!("return b < {width} ? a >> b : 0;"),
        };
        let name = if op == BinOp::Shl { "shl" } else { "shr" };
        self.function(&format!("dl_{name}_{}", short(dtype)), t, &format!("{t} a, {t} b"), &body)
    }

    /// Name of the conversion of a `float` or `double` to an integer type: toward zero, the nearest end where it
    /// is out of range, 0 where it is no number.
    fn float_to_int(&mut self, dtype: DType, from: &str) -> String {
        let Ends { lowest, highest, low, high } = Ends::of(dtype, from);
        let t = ctype(dtype);
        let body = if dtype.is_signed() {
            format!("return x >= {high} ? {highest} : x > {low} ? ({t})x : x <= {low} ? {lowest} : 0;")
        } else {
            format!("return x >= {high} ? {highest} : x > 0 ? ({t})x : 0;")
        };
        self.function(&format!("dl_{}_from_{from}", short(dtype)), t, &format!("{from} x"), &body)
    }

    /// The same for vectors: of type `from` with masks `mask` to `to`, whose masks are `to_mask`.
    pub(super) fn vector_to_int(&mut self, dtype: DType, [from, to, to_mask]: [&str; 3], double: bool) -> String {
        let Ends { lowest, highest, low, high } = Ends::of(dtype, if double { "double" } else { "float" });
        let mask = |test: &str| format!("({to})__builtin_convertvector({test}, {to_mask})");
        let over = mask(&format!("x >= {high}"));
        let body = if dtype.is_signed() {
            format!(
                "{to} r = __builtin_convertvector(x, {to}), h = {over}, l = {}, n = {}; \
                 return ((r & ~h & ~l) | (h & {highest}) | (l & ({lowest}))) & n;",
                mask(&format!("x <= {low}")),
                mask("x == x")
            )
        } else {
            format!(
                "{to} r = __builtin_convertvector(x, {to}), h = {over}, p = {}; return (r & p & ~h) | (h & {highest});",
                mask("x > 0")
            )
        };
        let name = format!("{to}_from_{}", &from[3..]);
        self.add(&name, |_| format!("static inline __attribute__((always_inline)) {to} {name}({from} x) {{ {body} }}"))
    }

    /// Name of a shift of vectors of type `t` by any amounts, lane by lane; `word` has unsigned lanes.
    pub(super) fn vector_shift(&mut self, op: BinOp, dtype: DType, [t, word]: [&str; 2]) -> String {
        let width = 8 * dtype.bytes();
        let start = format!("{word} m = ({word})(({word})b < {width}), n = ({word})b & {};", width - 1);
        let body = match (op == BinOp::Shl, dtype.is_signed()) {
            (true, _) => format!("{start} return ({t})((({word})a << n) & m);"),
            (false, true) => format!("{start} return a >> ({t})((n & m) | (~m & {}));", width - 1),
            (false, false) => format!("{start} return (a >> n) & m;"),
        };
        let name = format!("{}_{}", if op == BinOp::Shl { "dl_shl" } else { "dl_shr" }, &t[3..]);
        self.add(&name, |_| {
            format!("static inline __attribute__((always_inline)) {t} {name}({t} a, {t} b) {{ {body} }}")
        })
    }
}

/// Smallest and largest integer of a type, and the floats at and beyond which it holds no others, as text.
struct Ends {
    lowest: String,
    highest: String,
    low: String,
    high: String,
}

impl Ends {
    fn of(dtype: DType, from: &str) -> Ends {
        let bits = 8 * dtype.bytes() - u64::from(dtype.is_signed());
        let highest = u64::MAX >> (64 - bits);
        let suffix = match dtype {
            DType::I64 => "LL",
            DType::U64 => "ull",
            DType::U32 => "u",
            _ => "",
        };
        let f = if from == "float" { "f" } else { "" };
        Ends {
            lowest: format!("-{highest}{suffix} - 1"),
            highest: format!("{highest}{suffix}"),
            low: format!("-0x1p{bits}{f}"),
            high: format!("0x1p{bits}{f}"),
        }
    }
}

fn is_remainder(op: BinOp) -> bool {
    matches!(op, BinOp::FloorMod | BinOp::TruncMod)
}

/// Bits that a number of an integer type is shifted in.
fn width(dtype: DType) -> u64 {
    (8 * dtype.bytes()).max(32)
}

/// True where a float lies between two integers of the type, whatever was read.
pub(super) fn holds(dtype: DType, e: &Expr) -> bool {
    let bits = 8 * dtype.bytes() as i32 - i32::from(dtype.is_signed());
    let end = 2f64.powi(bits);
    range(e).is_some_and(|(lo, hi)| hi < end && if dtype.is_signed() { lo > -end } else { lo > -1.0 })
}

/// The numbers between which a float lies, from minima and maxima with constants: they are no NaN.
fn range(e: &Expr) -> Option<(f64, f64)> {
    match e.kind() {
        ExprKind::Float { bits, .. } => Some(f64::from_bits(*bits)).filter(|v| v.is_finite()).map(|v| (v, v)),
        ExprKind::Binary { op: op @ (BinOp::Min | BinOp::Max), a, b } => {
            let one = |e: &Expr| range(e).unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
            let ((x, y), (z, w)) = (one(a), one(b));
            let both = if *op == BinOp::Min { (x.min(z), y.min(w)) } else { (x.max(z), y.max(w)) };
            (range(a).is_some() || range(b).is_some()).then_some(both)
        }
        ExprKind::Call {
            op: Intrin::Round | Intrin::Nearbyint | Intrin::Floor | Intrin::Ceil | Intrin::Trunc,
            args,
            ..
        } => range(&args[0]).map(|(lo, hi)| (lo.floor(), hi.ceil())),
        // Whole numbers up to 256 are in every type of 16 bits and more.
        ExprKind::Cast { dtype, arg } if dtype.is_float() && (!is_narrow(*dtype) || dtype.bytes() == 2) => {
            let within = |v: f64| v.abs() <= 256.0;
            match arg.dtype().is_float() {
                true => {
                    range(arg).filter(|(lo, hi)| within(*lo) && within(*hi)).map(|(lo, hi)| (lo.floor(), hi.ceil()))
                }
                false => None,
            }
        }
        ExprKind::Binary { .. }
        | ExprKind::Int { .. }
        | ExprKind::Str(_)
        | ExprKind::Var { .. }
        | ExprKind::Load { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Select { .. }
        | ExprKind::IfThenElse { .. }
        | ExprKind::Cast { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Extern { .. }
        | ExprKind::Let { .. } => None,
    }
}

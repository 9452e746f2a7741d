//! Expressions as text, for both languages.
//!
//! An expression of a narrow float (16 or 8 bits) has three forms: `raw`, the float32 before
//! rounding; its `value`, the float32 after rounding; and its `bits`, as stored in memory.

use super::facts::{Facts, bound};
use super::prelude::Prelude;
use super::text::ident;
use super::{Lang, ctype, is_narrow, number, value_type};
use crate::ir::{BinOp, DType, Expr, ExprKind, Name, UnOp};
use std::collections::BTreeMap;

/// Text and how tightly its outermost operator binds (C's levels; higher is tighter).
#[derive(Clone)]
pub(super) struct Text {
    pub text: String,
    pub level: u8,
}

/// Binding levels of C.
pub(super) mod level {
    pub const TERNARY: u8 = 3;
    pub const OR: u8 = 4;
    pub const AND: u8 = 5;
    pub const BITS: u8 = 8;
    pub const EQUAL: u8 = 9;
    pub const COMPARE: u8 = 10;
    pub const SHIFT: u8 = 11;
    pub const SUM: u8 = 12;
    pub const PRODUCT: u8 = 13;
    pub const UNARY: u8 = 14;
    pub const PRIMARY: u8 = 15;
}
use level::*;

impl Text {
    pub fn new(text: impl Into<String>, level: u8) -> Text {
        Text { text: text.into(), level }
    }

    pub fn primary(text: impl Into<String>) -> Text {
        Text::new(text, PRIMARY)
    }

    /// The text, in parentheses unless it binds at least as tightly as `level`.
    pub fn at(&self, level: u8) -> String {
        if self.level >= level { self.text.clone() } else { format!("({})", self.text) }
    }
}

/// How an element of an array is written, where it is not `name[index]`.
pub(super) trait Elements {
    /// The lvalue of element `index` of `array`, if this array is special.
    fn element(&self, array: &Name, index: &Expr, index_text: &Text) -> Option<String>;

    /// The element of an array of narrow floats as float32, if there is a shorter way to it than
    /// by widening the stored element.
    fn widened(&self, array: &Name, index_text: &Text, dtype: DType, prelude: &mut Prelude) -> Option<String>;
}

/// Writes expressions; collects helpers and the lets that must come before the statement.
pub(super) struct ExprWriter<'a> {
    pub lang: Lang,
    pub prelude: &'a mut Prelude,
    pub facts: Facts,
    pub elements: &'a dyn Elements,
    /// `const T x = value;` lines to be written before the statement.
    pub pending: Vec<String>,
    /// Inside a conditionally evaluated part, where a let may not be moved out.
    conditional: bool,
    inlined: BTreeMap<Name, Expr>,
}

impl<'a> ExprWriter<'a> {
    pub fn new(lang: Lang, prelude: &'a mut Prelude, elements: &'a dyn Elements) -> ExprWriter<'a> {
        ExprWriter {
            lang,
            prelude,
            facts: Facts::default(),
            elements,
            pending: Vec::new(),
            conditional: false,
            inlined: BTreeMap::new(),
        }
    }

    /// The value as text, without outer parentheses.
    pub fn text(&mut self, e: &Expr) -> String {
        self.value(e).text
    }

    /// The lvalue of an element.
    pub fn element(&mut self, array: &Name, index: &Expr) -> String {
        let text = self.value(index);
        match self.elements.element(array, index, &text) {
            Some(lvalue) => lvalue,
            None => format!("{}[{}]", ident(array), text.text),
        }
    }

    /// The value in the type it is computed in.
    pub fn value(&mut self, e: &Expr) -> Text {
        let (text, exact) = self.raw(e);
        if exact || !is_narrow(e.dtype()) {
            return text;
        }
        let round = self.prelude.round(e.dtype());
        Text::primary(format!("{round}({})", text.text))
    }

    /// The value before rounding to a narrow type, and whether rounding would change nothing.
    pub fn raw(&mut self, e: &Expr) -> (Text, bool) {
        let dtype = e.dtype();
        match e.kind() {
            ExprKind::Int { value, dtype } => (self.int(*value, *dtype), true),
            ExprKind::Float { bits, dtype } => self.float(f64::from_bits(*bits), *dtype),
            ExprKind::Var { name, .. } => (self.var(name), true),
            ExprKind::Load { buffer, indices, dtype } => (self.load(buffer, &indices[0], *dtype), true),
            ExprKind::Unary { op, arg } => self.unary(*op, arg),
            ExprKind::Binary { op, a, b } => self.binary(*op, a, b),
            ExprKind::Select { cond, then, otherwise } | ExprKind::IfThenElse { cond, then, otherwise } => {
                let widened = self.widened_choice(e);
                (widened.unwrap_or_else(|| self.conditional(cond, then, otherwise)), true)
            }
            ExprKind::Cast { dtype, arg } => self.cast(*dtype, arg),
            ExprKind::Reinterpret { dtype, arg } => (self.reinterpret(*dtype, arg), true),
            ExprKind::Call { op, args, .. } => self.call(*op, args, dtype),
            ExprKind::Let { var, value, body } => self.let_in(var, value, body),
            ExprKind::Str(_) | ExprKind::Extern { .. } => panic!("a kernel has no strings and no extern calls: {e:?}"),
        }
    }

    fn int(&mut self, value: i64, dtype: DType) -> Text {
        if self.lang == Lang::C && dtype == DType::Bool {
            return Text::primary(if value != 0 { "1" } else { "0" });
        }
        let text = number::int(value, dtype);
        let level = if text.starts_with('-') { UNARY } else { PRIMARY };
        Text::new(text, level)
    }

    fn float(&mut self, value: f64, dtype: DType) -> (Text, bool) {
        let text = number::float(value, dtype, self.lang);
        let level = if text.starts_with('-') { UNARY } else { PRIMARY };
        (Text::new(text, level), !matches!(dtype, DType::E4M3 | DType::E5M2 | DType::E8M0))
    }

    fn var(&mut self, name: &Name) -> Text {
        match self.inlined.get(name).cloned() {
            Some(value) => self.value(&value),
            None => Text::primary(ident(name)),
        }
    }

    fn load(&mut self, array: &Name, index: &Expr, dtype: DType) -> Text {
        if is_narrow(dtype) {
            let text = self.value(index);
            if let Some(value) = self.elements.widened(array, &text, dtype, self.prelude) {
                return Text::primary(value);
            }
        }
        let element = self.element(array, index);
        self.widened(element, dtype)
    }

    /// A stored element as a value.
    pub fn widened(&mut self, element: String, dtype: DType) -> Text {
        if !is_narrow(dtype) {
            return Text::primary(element);
        }
        let widen = self.prelude.widen(dtype);
        Text::primary(format!("{widen}({element})"))
    }

    fn unary(&mut self, op: UnOp, arg: &Expr) -> (Text, bool) {
        let (inner, exact) = self.raw(arg);
        let symbol = match op {
            UnOp::Neg => "-",
            UnOp::Not => "!",
            UnOp::BitNot => "~",
        };
        // Two minus signs in a row would read as a decrement.
        let inner = if inner.text.starts_with(symbol) { inner.at(PRIMARY) } else { inner.at(UNARY) };
        (self.wrapped(Text::new(format!("{symbol}{inner}"), UNARY), arg.dtype()), exact)
    }

    /// Arithmetic on small integers happens in `int`; this cuts the result to its type.
    fn wrapped(&mut self, text: Text, dtype: DType) -> Text {
        match dtype {
            DType::I8 | DType::I16 | DType::U8 | DType::U16 => {
                Text::new(format!("({}){}", ctype(dtype), text.at(UNARY)), UNARY)
            }
            DType::Bool
            | DType::I32
            | DType::I64
            | DType::U32
            | DType::U64
            | DType::F16
            | DType::BF16
            | DType::F32
            | DType::F64
            | DType::E4M3
            | DType::E5M2
            | DType::E8M0
            | DType::Handle => text,
        }
    }

    fn binary(&mut self, op: BinOp, a: &Expr, b: &Expr) -> (Text, bool) {
        let dtype = a.dtype();
        let float = dtype.is_float();
        let text = match op {
            BinOp::Add => self.infix(a, "+", b, SUM),
            BinOp::Sub => self.infix(a, "-", b, SUM),
            BinOp::Mul => self.infix(a, "*", b, PRODUCT),
            BinOp::Div => self.infix(a, "/", b, PRODUCT),
            BinOp::FloorDiv | BinOp::FloorMod if float => self.float_floor(op, a, b),
            BinOp::FloorDiv => self.floor_div(a, b),
            BinOp::FloorMod => self.floor_mod(a, b),
            BinOp::TruncDiv | BinOp::TruncMod if !float => self.quotient(op, a, b),
            BinOp::TruncDiv => self.float_trunc(a, b),
            BinOp::TruncMod => return self.call(crate::ir::Intrin::Fmod, &[a.clone(), b.clone()], dtype),
            BinOp::Min | BinOp::Max => {
                let f = self.prelude.min_max(op == BinOp::Max, dtype);
                return (self.apply(&f, &[a, b]), true);
            }
            BinOp::Eq => self.infix(a, "==", b, EQUAL),
            BinOp::Ne => self.infix(a, "!=", b, EQUAL),
            BinOp::Lt => self.infix(a, "<", b, COMPARE),
            BinOp::Le => self.infix(a, "<=", b, COMPARE),
            BinOp::Gt => self.infix(a, ">", b, COMPARE),
            BinOp::Ge => self.infix(a, ">=", b, COMPARE),
            BinOp::And => self.logical(a, "&&", b, AND),
            BinOp::Or => self.logical(a, "||", b, OR),
            BinOp::BitAnd => self.infix(a, "&", b, BITS),
            BinOp::BitOr => self.merged(a, b).unwrap_or_else(|| self.infix(a, "|", b, BITS)),
            BinOp::BitXor => self.infix(a, "^", b, BITS),
            BinOp::Shl | BinOp::Shr => self.shift(op, a, b),
        };
        let is_bool = op.is_compare() || matches!(op, BinOp::And | BinOp::Or);
        if is_bool { (text, true) } else { (self.wrapped(text, dtype), false) }
    }

    /// `a op b`. Both operands of shifts and bit operators are parenthesised for the reader's sake.
    pub(super) fn infix(&mut self, a: &Expr, op: &str, b: &Expr, level: u8) -> Text {
        let (x, y) = (self.value(a), self.value(b));
        let (left, right) = match level {
            BITS | SHIFT => (UNARY, UNARY),
            EQUAL | COMPARE => (SUM, SUM),
            _ => (level, level + 1),
        };
        Text::new(format!("{} {op} {}", x.at(left), y.at(right)), level)
    }

    /// Bits of a word under a constant mask with others set: one instruction of a GPU, which its compiler
    /// makes two of where both constants are plain ones.
    fn merged(&mut self, a: &Expr, b: &Expr) -> Option<Text> {
        let ExprKind::Binary { op: BinOp::BitAnd, a: word, b: mask } = a.kind() else { return None };
        let constant = mask.as_int().is_some() && b.as_int().is_some();
        if self.lang != Lang::Cuda || b.dtype() != DType::U32 || !constant {
            return None;
        }
        let f = self.prelude.and_or();
        Some(self.apply(&f, &[word, mask, b]))
    }

    /// `a && b`, `a || b`: the right side is evaluated conditionally.
    fn logical(&mut self, a: &Expr, op: &str, b: &Expr, level: u8) -> Text {
        let x = self.value(a);
        let y = self.under_condition(|w| w.value(b));
        let inner = |t: &Text| if t.level == level { t.text.clone() } else { t.at(BITS) };
        Text::new(format!("{} {op} {}", inner(&x), inner(&y)), level)
    }

    /// Rounds toward minus infinity; shifts and plain operators where the sign allows them.
    fn floor_div(&mut self, a: &Expr, b: &Expr) -> Text {
        match power_of_two(b) {
            Some(0) => self.value(a),
            Some(shift) => Text::new(format!("{} >> {shift}", self.value(a).at(UNARY)), SHIFT),
            None => self.quotient(BinOp::FloorDiv, a, b),
        }
    }

    fn floor_mod(&mut self, a: &Expr, b: &Expr) -> Text {
        match power_of_two(b) {
            Some(shift) => {
                let mask = number::int((1i64 << shift) - 1, a.dtype());
                Text::new(format!("{} & {mask}", self.value(a).at(UNARY)), BITS)
            }
            None => self.quotient(BinOp::FloorMod, a, b),
        }
    }

    fn float_floor(&mut self, op: BinOp, a: &Expr, b: &Expr) -> Text {
        let t = value_type(a.dtype());
        let floor = self.function_name("floor", t);
        let f = if op == BinOp::FloorDiv {
            self.prelude.binary(&format!("dl_floordiv_{t}"), t, &format!("return {floor}(a / b);"))
        } else {
            self.prelude.binary(&format!("dl_floormod_{t}"), t, &format!("return a - {floor}(a / b) * b;"))
        };
        self.apply(&f, &[a, b])
    }

    fn float_trunc(&mut self, a: &Expr, b: &Expr) -> Text {
        let t = value_type(a.dtype());
        let trunc = self.function_name("trunc", t);
        let quotient = self.infix(a, "/", b, PRODUCT);
        Text::primary(format!("{trunc}({})", quotient.text))
    }

    /// `f(a, b)` of values.
    pub fn apply(&mut self, f: &str, args: &[&Expr]) -> Text {
        let args: Vec<String> = args.iter().map(|a| self.text(a)).collect();
        Text::primary(format!("{f}({})", args.join(", ")))
    }

    fn conditional(&mut self, cond: &Expr, then: &Expr, otherwise: &Expr) -> Text {
        let c = self.value(cond).at(OR);
        let (a, b) = self.under_condition(|w| (w.value(then), w.value(otherwise)));
        Text::new(format!("{c} ? {} : {}", a.at(OR), b.at(TERNARY)), TERNARY)
    }

    pub fn under_condition<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.conditional, true);
        let result = f(self);
        self.conditional = before;
        result
    }

    fn cast(&mut self, dtype: DType, arg: &Expr) -> (Text, bool) {
        let from = arg.dtype();
        if dtype == DType::Bool {
            let zero = match from {
                // which has none
                DType::E8M0 => Expr::float(0.0, DType::F32),
                d if d.is_float() => Expr::float(0.0, d),
                d => Expr::int(0, d),
            };
            return (self.infix(arg, "!=", &zero, EQUAL), true);
        }
        if is_narrow(dtype) {
            return self.cast_to_narrow(dtype, arg);
        }
        if dtype == DType::F32 && !from.is_float() {
            return (self.integer_to_float(arg), true);
        }
        if from.is_float() && !dtype.is_float() {
            return (self.float_to_int(dtype, arg), true);
        }
        let inner = self.value(arg);
        if value_type(from) == value_type(dtype) {
            return (inner, true);
        }
        (Text::new(format!("({}){}", ctype(dtype), inner.at(UNARY)), UNARY), true)
    }

    /// To float32 first, so that rounding that to `dtype` is rounding once.
    fn cast_to_narrow(&mut self, dtype: DType, arg: &Expr) -> (Text, bool) {
        let from = arg.dtype();
        if from == DType::F32 || is_narrow(from) {
            return (self.value(arg), widens(from, dtype));
        }
        if rounds_once(arg, dtype) {
            return (self.integer_to_float(arg), is_exact(arg, dtype));
        }
        let (inner, odd) = (self.text(arg), self.prelude.round_to_odd(from));
        (Text::primary(format!("{odd}({inner})")), false)
    }

    /// An integer as float32. The conversion instruction of GPUs is slow: small numbers go into the
    /// mantissa of 2^23 instead.
    fn integer_to_float(&mut self, arg: &Expr) -> Text {
        if let ExprKind::Load { buffer, indices, dtype: dtype @ (DType::I8 | DType::U8) } = arg.kind() {
            let index = self.value(&indices[0]);
            if let Some(value) = self.elements.widened(buffer, &index, *dtype, self.prelude) {
                return Text::primary(value);
            }
        }
        let inner = self.value(arg);
        let small = arg.dtype() != DType::Bool && bound(arg).is_some_and(|b| b < 1 << 23);
        if self.lang == Lang::Cuda && small {
            let f = self.prelude.small_to_float();
            return Text::primary(format!("{f}({})", inner.text));
        }
        Text::new(format!("(float){}", inner.at(UNARY)), UNARY)
    }

    fn reinterpret(&mut self, dtype: DType, arg: &Expr) -> Text {
        let from = arg.dtype();
        let bits = self.stored(arg);
        if ctype(from) == ctype(dtype) {
            return self.widened(bits.text, dtype);
        }
        if is_narrow(dtype) {
            return self.widened(format!("({}){}", ctype(dtype), bits.at(UNARY)), dtype);
        }
        if !from.is_float() && !dtype.is_float() || is_narrow(from) {
            return Text::new(format!("({}){}", ctype(dtype), bits.at(UNARY)), UNARY);
        }
        let f = self.prelude.reinterpret(dtype, from);
        Text::primary(format!("{f}({})", bits.text))
    }

    /// A let becomes a constant before the statement; where evaluation is conditional it is
    /// written out in place, since its loads may only be legal there.
    fn let_in(&mut self, var: &Name, value: &Expr, body: &Expr) -> (Text, bool) {
        if self.conditional {
            self.inlined.insert(var.clone(), value.clone());
        } else {
            let text = self.text(value);
            self.facts.add_equal(var, value);
            self.pending.push(format!("const {} {} = {text};", value_type(value.dtype()), ident(var)));
        }
        self.raw(body)
    }
}

/// The exponent of a constant power of two.
fn power_of_two(e: &Expr) -> Option<u32> {
    let value = e.as_int()?;
    (value > 0 && value.count_ones() == 1).then(|| value.trailing_zeros())
}

/// True when float32 holds the number exactly, or `dtype` overflows where it does not: then rounding
/// the float32 to `dtype` is rounding once.
pub(super) fn rounds_once(arg: &Expr, dtype: DType) -> bool {
    let from = arg.dtype();
    let coarse = matches!(dtype, DType::BF16 | DType::E8M0);
    !from.is_float() && (!coarse || from.bytes() < 4 || bound(arg).is_some_and(|b| b <= 1 << 24))
}

/// True when a narrow type holds every value of an integer expression.
pub(super) fn is_exact(arg: &Expr, dtype: DType) -> bool {
    if dtype == DType::E8M0 {
        return false;
    }
    let most = match arg.dtype() {
        DType::I8 => Some(128),
        _ => bound(arg),
    };
    let holds = match dtype {
        DType::F16 => 1 << 11,
        DType::BF16 => 1 << 8,
        DType::E4M3 => 1 << 4,
        _ => 1 << 3,
    };
    most.is_some_and(|m| m <= holds)
}

/// True when every value of `from` is one of `to`.
fn widens(from: DType, to: DType) -> bool {
    let to_16 = matches!((from, to), (DType::E4M3 | DType::E5M2, DType::F16 | DType::BF16));
    from == to || to_16 || (from, to) == (DType::E8M0, DType::BF16)
}

//! Expressions over all lanes of a vector loop, as operations of GCC's vector extensions.
//!
//! A varying value is a vector of its compute type; a varying `bool` is a mask, a vector of signed
//! integers that are 0 or -1. What is the same in every lane stays a scalar.

use super::expr::level::*;
use super::expr::{ExprWriter, Text, is_exact};
use super::lanes::{VectorArrays, at_lane, divided, varies};
use super::prelude::short;
use super::text::ident;
use super::total::holds;
use super::{ctype, is_narrow, stored_as, value_type};
use crate::ir::kernel::CacheHint;
use crate::ir::{BinOp, DType, Expr, ExprKind, Intrin, Name, UnOp};
use std::collections::{BTreeMap, BTreeSet};

/// Writes the expressions of one part of one vector loop.
pub(super) struct VectorWriter<'w, 'a> {
    pub exprs: &'w mut ExprWriter<'a>,
    pub arrays: &'w VectorArrays,
    /// The loop variable.
    pub lane: &'w Name,
    /// Its value in lane 0.
    pub first: i64,
    /// Lanes of one operation.
    pub lanes: u32,
    /// Varying lets: bytes of a mask's elements, or 0 for a value.
    pub lets: BTreeMap<Name, u64>,
}

/// A vector as text.
struct Vector {
    text: Text,
    /// Bytes of a mask's elements; 0 for a value.
    mask: u64,
    /// Rounding to a narrow type would change nothing.
    exact: bool,
}

impl Vector {
    fn value(text: Text, exact: bool) -> Vector {
        Vector { text, mask: 0, exact }
    }

    fn mask(text: Text, bytes: u64) -> Vector {
        Vector { text, mask: bytes, exact: true }
    }
}

impl VectorWriter<'_, '_> {
    /// `array[base + lane] = value;`
    pub fn store(&mut self, array: &Name, index: &Expr, value: &Expr, hint: CacheHint) -> String {
        let dtype = value.dtype();
        let value = self.stored(value);
        match self.stream(dtype, hint) {
            Some(f) => {
                let base = at_lane(index, self.lane, self.first);
                format!("{f}(&{}[{}], {value});", ident(array), self.exprs.text(&base))
            }
            None => format!("{} = {value};", self.place(array, index, dtype, false)),
        }
    }

    /// The function that stores a vector past the caches, where that is asked for and there is one.
    fn stream(&mut self, dtype: DType, hint: CacheHint) -> Option<String> {
        if hint != CacheHint::Streaming {
            return None;
        }
        let (t, place) = (self.vector_type(dtype), self.memory_type(dtype));
        super::stream::store(self.exprs.prelude, stored_as(dtype), self.lanes, &t, &place)
    }

    /// `const T var = value;`, vector or scalar.
    pub fn bind(&mut self, var: &Name, value: &Expr) -> String {
        if !self.varies(value) {
            let text = self.exprs.text(value);
            self.exprs.facts.add_equal(var, value);
            return format!("const {} {} = {text};", value_type(value.dtype()), ident(var));
        }
        let vector = self.rounded(value);
        self.lets.insert(var.clone(), vector.mask);
        let t = if vector.mask > 0 { self.mask_type(vector.mask) } else { self.value_vector(value.dtype()) };
        format!("const {t} {} = {};", ident(var), vector.text.text)
    }

    fn varies(&self, e: &Expr) -> bool {
        let lets: BTreeSet<Name> = self.lets.keys().cloned().collect();
        varies(e, self.lane, &lets)
    }

    /// Name of the vector type with elements of a type as stored (narrow floats and `bool` as
    /// unsigned integers).
    fn vector_type(&mut self, dtype: DType) -> String {
        let element = stored_as(dtype);
        let name = format!("dl_{}x{}", short(element), self.lanes);
        let size = element.bytes() * u64::from(self.lanes);
        self.exprs
            .prelude
            .add(&name, |_| format!("typedef {} {name} __attribute__((vector_size({size})));", ctype(element)))
    }

    /// The same for vectors in memory, at any element.
    fn memory_type(&mut self, dtype: DType) -> String {
        let value = self.vector_type(dtype);
        let name = format!("{value}_u");
        let align = dtype.bytes();
        self.exprs
            .prelude
            .add(&name, |_| format!("typedef {value} {name} __attribute__((aligned({align}), may_alias));"))
    }

    fn value_vector(&mut self, dtype: DType) -> String {
        self.vector_type(if is_narrow(dtype) { DType::F32 } else { dtype })
    }

    fn mask_type(&mut self, bytes: u64) -> String {
        self.vector_type(match bytes {
            1 => DType::I8,
            2 => DType::I16,
            4 => DType::I32,
            _ => DType::I64,
        })
    }

    /// The place of lane 0 to the last lane of `array[base + lane]`.
    fn place(&mut self, array: &Name, index: &Expr, dtype: DType, constant: bool) -> String {
        let base = at_lane(index, self.lane, self.first);
        if let Some(lanes) = self.arrays.lanes(array) {
            return match divided(&base, i64::from(lanes)) {
                Some(part) => format!("{}[{}]", ident(array), self.exprs.text(&part)),
                None => format!("{}[({}) / {lanes}]", ident(array), self.exprs.text(&base)),
            };
        }
        let (t, base) = (self.memory_type(dtype), self.exprs.text(&base));
        let constant = if constant { "const " } else { "" };
        format!("*({constant}{t} *)&{}[{base}]", ident(array))
    }

    /// The vector as it is stored.
    fn stored(&mut self, e: &Expr) -> String {
        let dtype = e.dtype();
        if let ExprKind::Load { buffer, indices, .. } = e.kind()
            && self.varies(e)
            && dtype != DType::Bool
        {
            return self.place(buffer, &indices[0], dtype, true);
        }
        let vector = self.raw(e);
        match dtype {
            DType::Bool => {
                let bytes = self.resize(vector, 1);
                let t = self.vector_type(DType::Bool);
                format!("({t}){} & 1", bytes.at(UNARY))
            }
            d if is_narrow(d) => {
                let narrow = self.narrow(d);
                format!("{narrow}({})", vector.text.text)
            }
            _ => vector.text.text,
        }
    }

    /// The vector, rounded to its narrow type if it has one.
    fn rounded(&mut self, e: &Expr) -> Vector {
        let v = self.raw(e);
        if v.exact || !is_narrow(e.dtype()) {
            return v;
        }
        let (narrow, widen) = (self.narrow(e.dtype()), self.widen(e.dtype()));
        Vector::value(Text::primary(format!("{widen}({narrow}({}))", v.text.text)), true)
    }

    fn value(&mut self, e: &Expr) -> Text {
        self.rounded(e).text
    }

    /// The value as an operand of an infix operator: a scalar where it is one of a type that mixes
    /// with vectors.
    fn operand(&mut self, e: &Expr) -> Text {
        if !self.varies(e) && value_type(e.dtype()).len() > 2 && mixes(e.dtype()) {
            return self.exprs.value(e);
        }
        self.value(e)
    }

    fn raw(&mut self, e: &Expr) -> Vector {
        if !self.varies(e) {
            return self.splat(e);
        }
        match e.kind() {
            ExprKind::Var { name, dtype } if name == self.lane => Vector::value(self.iota(*dtype), true),
            ExprKind::Var { name, .. } => Vector {
                text: Text::primary(ident(name)),
                mask: self.lets.get(name).copied().unwrap_or(0),
                exact: true,
            },
            ExprKind::Load { buffer, indices, dtype } => self.load(buffer, &indices[0], *dtype),
            ExprKind::Unary { op, arg } => self.unary(*op, arg),
            ExprKind::Binary { op, a, b } => self.binary(*op, a, b),
            ExprKind::Select { cond, then, otherwise } | ExprKind::IfThenElse { cond, then, otherwise } => {
                self.select(cond, then, otherwise)
            }
            ExprKind::Cast { dtype, arg } => self.cast(*dtype, arg),
            ExprKind::Call { op, args, dtype } => self.call(*op, args, *dtype),
            ExprKind::Let { var, value, body } => {
                let line = self.bind(var, value);
                self.exprs.pending.push(line);
                self.raw(body)
            }
            ExprKind::Int { .. }
            | ExprKind::Float { .. }
            | ExprKind::Str(_)
            | ExprKind::Reinterpret { .. }
            | ExprKind::Extern { .. } => panic!("the plan of a vector loop let this through: {e:?}"),
        }
    }

    /// The same value in every lane.
    fn splat(&mut self, e: &Expr) -> Vector {
        let text = self.exprs.value(e);
        if e.dtype() == DType::Bool {
            let f = self.splat_function(DType::I32);
            return Vector::mask(Text::primary(format!("{f}(-({}))", text.text)), 4);
        }
        let f = self.splat_function(if is_narrow(e.dtype()) { DType::F32 } else { e.dtype() });
        Vector::value(Text::primary(format!("{f}({})", text.text)), true)
    }

    fn splat_function(&mut self, dtype: DType) -> String {
        let t = self.vector_type(dtype);
        let name = format!("dl_splat_{}x{}", short(dtype), self.lanes);
        let list = vec!["x"; self.lanes as usize].join(", ");
        self.function(&name, &t, &format!("{} x", ctype(dtype)), &format!("return ({t}){{{list}}};"))
    }

    fn function(&mut self, name: &str, ret: &str, params: &str, body: &str) -> String {
        self.exprs
            .prelude
            .add(name, |_| format!("static inline __attribute__((always_inline)) {ret} {name}({params}) {{ {body} }}"))
    }

    /// The loop variable's values.
    fn iota(&mut self, dtype: DType) -> Text {
        let t = self.vector_type(dtype);
        let list: Vec<String> = (0..i64::from(self.lanes)).map(|l| (self.first + l).to_string()).collect();
        Text::primary(format!("({t}){{{}}}", list.join(", ")))
    }

    fn load(&mut self, array: &Name, index: &Expr, dtype: DType) -> Vector {
        let place = self.place(array, index, dtype, true);
        if dtype == DType::Bool {
            return Vector::mask(Text::new(format!("{place} != 0"), EQUAL), 1);
        }
        if is_narrow(dtype) {
            let widen = self.widen(dtype);
            return Vector::value(Text::primary(format!("{widen}({place})")), true);
        }
        let level = if place.starts_with('*') { UNARY } else { PRIMARY };
        Vector::value(Text::new(place, level), true)
    }

    fn unary(&mut self, op: UnOp, arg: &Expr) -> Vector {
        let v = self.raw(arg);
        let symbol = match op {
            UnOp::Neg => "-",
            UnOp::Not | UnOp::BitNot => "~",
        };
        Vector { text: Text::new(format!("{symbol}{}", v.text.at(PRIMARY)), UNARY), ..v }
    }

    fn binary(&mut self, op: BinOp, a: &Expr, b: &Expr) -> Vector {
        let dtype = a.dtype();
        let bytes = if is_narrow(dtype) { 4 } else { dtype.bytes() };
        let infix = |w: &mut Self, symbol: &str, level: u8| {
            let (x, y) = (w.operand(a), w.operand(b));
            let inner = if level < SUM { PRIMARY } else { level + 1 };
            let left = if level < SUM { PRIMARY } else { level };
            Text::new(format!("{} {symbol} {}", x.at(left), y.at(inner)), level)
        };
        let compare = |w: &mut Self, symbol: &str| Vector::mask(infix(w, symbol, COMPARE), bytes);
        let value = |text| Vector::value(text, false);
        match op {
            BinOp::Add => value(infix(self, "+", SUM)),
            BinOp::Sub => value(infix(self, "-", SUM)),
            BinOp::Mul => value(infix(self, "*", PRODUCT)),
            BinOp::Div => value(infix(self, "/", PRODUCT)),
            BinOp::FloorDiv | BinOp::FloorMod => value(self.power_of_two(op, a, b)),
            BinOp::Min | BinOp::Max => Vector::value(self.min_max(op == BinOp::Max, a, b), true),
            BinOp::BitAnd => value(infix(self, "&", BITS)),
            BinOp::BitOr => value(infix(self, "|", BITS)),
            BinOp::BitXor => value(infix(self, "^", BITS)),
            BinOp::Shl | BinOp::Shr if self.exprs.facts.most(b).is_none_or(|most| most >= 8 * bytes) => {
                value(self.shift(op, a, b))
            }
            BinOp::Shl => value(infix(self, "<<", SHIFT)),
            BinOp::Shr => value(infix(self, ">>", SHIFT)),
            BinOp::Eq => compare(self, "=="),
            BinOp::Ne => compare(self, "!="),
            BinOp::Lt => compare(self, "<"),
            BinOp::Le => compare(self, "<="),
            BinOp::Gt => compare(self, ">"),
            BinOp::Ge => compare(self, ">="),
            BinOp::And => self.logical("&", a, b),
            BinOp::Or => self.logical("|", a, b),
            BinOp::TruncDiv | BinOp::TruncMod => panic!("the plan of a vector loop let {op:?} through"),
        }
    }

    fn power_of_two(&mut self, op: BinOp, a: &Expr, b: &Expr) -> Text {
        let divisor = b.as_int().unwrap_or_else(|| panic!("the plan of a vector loop let a division through"));
        let x = self.value(a).at(UNARY);
        if op == BinOp::FloorDiv {
            Text::new(format!("{x} >> {}", divisor.trailing_zeros()), SHIFT)
        } else {
            Text::new(format!("{x} & {}", divisor - 1), BITS)
        }
    }

    /// A loop over lanes that the compiler makes one instruction of.
    fn lane_function(&mut self, name: &str, dtype: DType, arity: usize, lane: &str) -> String {
        let (t, lanes) = (self.value_vector(dtype), self.lanes);
        let name = format!("{name}_{}", &t[3..]);
        let params: Vec<String> = ["a", "b", "c"][..arity].iter().map(|p| format!("{t} {p}")).collect();
        let body = format!("{t} r = {{0}}; for (int l = 0; l < {lanes}; ++l) r[l] = {lane}; return r;");
        self.function(&name, &t, &params.join(", "), &body)
    }

    fn min_max(&mut self, max: bool, a: &Expr, b: &Expr) -> Text {
        let dtype = if is_narrow(a.dtype()) { DType::F32 } else { a.dtype() };
        let (t, mask) = (self.vector_type(dtype), self.mask_type(dtype.bytes()));
        let f = super::vector_order::number(self.exprs.prelude, max, dtype, self.lanes, &t, &mask);
        let (x, y) = (self.value(a).text, self.value(b).text);
        Text::primary(format!("{f}({x}, {y})"))
    }

    /// A shift by amounts that may be any.
    fn shift(&mut self, op: BinOp, a: &Expr, b: &Expr) -> Text {
        let dtype = a.dtype();
        let (t, word) = (self.vector_type(dtype), self.vector_type(unsigned(dtype)));
        let f = self.exprs.prelude.vector_shift(op, dtype, [&t, &word]);
        let (x, y) = (self.value(a).text, self.value(b).text);
        Text::primary(format!("{f}({x}, {y})"))
    }

    /// Masks of one size combined.
    fn logical(&mut self, symbol: &str, a: &Expr, b: &Expr) -> Vector {
        let (x, y) = (self.raw(a), self.raw(b));
        let bytes = x.mask.max(y.mask);
        let (x, y) = (self.resize(x, bytes), self.resize(y, bytes));
        Vector::mask(Text::new(format!("{} {symbol} {}", x.at(PRIMARY), y.at(PRIMARY)), BITS), bytes)
    }

    /// A mask with elements of that size.
    fn resize(&mut self, mask: Vector, bytes: u64) -> Text {
        if mask.mask == bytes {
            return mask.text;
        }
        let t = self.mask_type(bytes);
        Text::primary(format!("__builtin_convertvector({}, {t})", mask.text.text))
    }

    fn select(&mut self, cond: &Expr, then: &Expr, otherwise: &Expr) -> Vector {
        let dtype = then.dtype();
        let bytes = if is_narrow(dtype) { 4 } else { dtype.bytes() };
        let mask = self.raw(cond);
        let mask = self.resize(mask, bytes).text;
        let (t, m) = (self.value_vector(dtype), self.mask_type(bytes));
        let body = format!("return ({t})((m & ({m})a) | (~m & ({m})b));");
        let f = self.function(&format!("dl_select_{}", &t[3..]), &t, &format!("{m} m, {t} a, {t} b"), &body);
        let (a, b) = (self.value(then).text, self.value(otherwise).text);
        Vector::value(Text::primary(format!("{f}({mask}, {a}, {b})")), true)
    }

    fn cast(&mut self, dtype: DType, arg: &Expr) -> Vector {
        let v = self.rounded(arg);
        let from = arg.dtype();
        if dtype == DType::Bool {
            let bytes = if is_narrow(from) { 4 } else { from.bytes() };
            return Vector::mask(Text::new(format!("{} != 0", v.text.at(PRIMARY)), EQUAL), bytes);
        }
        let t = self.value_vector(dtype);
        if v.mask > 0 {
            // A mask is 0 or -1; the number is 0 or 1.
            return Vector::value(
                Text::primary(format!("__builtin_convertvector({} & 1, {t})", v.text.at(PRIMARY))),
                true,
            );
        }
        let wider = from.bytes() < dtype.bytes() && is_narrow(from) && (from, dtype) != (DType::E8M0, DType::F16);
        let widens = wider || from == dtype;
        let exact = !is_narrow(dtype) || widens || !from.is_float() && is_exact(arg, dtype);
        if value_type(from) == value_type(dtype) {
            return Vector::value(v.text, exact);
        }
        if from.is_float() && !dtype.is_float() && !holds(dtype, arg) {
            let (source, mask) = (self.value_vector(from), self.mask_type(dtype.bytes()));
            let f = self.exprs.prelude.vector_to_int(dtype, [&source, &t, &mask], from == DType::F64);
            return Vector::value(Text::primary(format!("{f}({})", v.text.text)), true);
        }
        Vector::value(Text::primary(format!("__builtin_convertvector({}, {t})", v.text.text)), exact)
    }

    fn call(&mut self, op: Intrin, args: &[Expr], dtype: DType) -> Vector {
        if value_type(dtype) == "float" {
            let (t, i) = (self.vector_type(DType::F32), self.vector_type(DType::I32));
            if let Some(f) = super::vector_math::function(self.exprs.prelude, op, self.lanes, &t, &i) {
                let x = self.value(&args[0]).text;
                return Vector::value(Text::primary(format!("{f}({x})")), false);
            }
        }
        let names = ["a[l]", "b[l]", "c[l]"];
        let scalar: Vec<Expr> = names[..args.len()].iter().map(|n| Expr::var(*n, dtype)).collect();
        let (lane, exact) = self.exprs.call_named(op, &scalar, &names[..args.len()], dtype);
        let f = self.lane_function(&format!("dl_{}", op.name()), dtype, args.len(), &lane);
        let args: Vec<String> = args.iter().map(|a| self.value(a).text).collect();
        Vector::value(Text::primary(format!("{f}({})", args.join(", "))), exact)
    }

    fn widen(&mut self, dtype: DType) -> String {
        let (from, to) = (self.vector_type(dtype), self.vector_type(DType::F32));
        super::vector_float::widen(self.exprs.prelude, dtype, self.lanes, &from, &to)
    }

    fn narrow(&mut self, dtype: DType) -> String {
        let (from, to) = (self.vector_type(DType::F32), self.vector_type(dtype));
        super::vector_float::narrow(self.exprs.prelude, dtype, self.lanes, &from, &to)
    }
}

/// The unsigned integers of a type's size.
fn unsigned(dtype: DType) -> DType {
    match dtype.bytes() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}

/// Types whose scalars C mixes with vectors without a change of type.
fn mixes(dtype: DType) -> bool {
    matches!(value_type(dtype), "float" | "double" | "int" | "long long" | "unsigned" | "unsigned long long")
}

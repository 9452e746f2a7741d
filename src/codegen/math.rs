//! Mathematical functions as text. All are the accurate library functions; `rsqrt` is
//! `1 / sqrt`, rounded twice.

use super::expr::{ExprWriter, Text};
use super::{Lang, value_type};
use crate::ir::{DType, Expr, Intrin};

impl ExprWriter<'_> {
    /// A call, before rounding to a narrow type, and whether rounding would change nothing.
    pub(super) fn call(&mut self, op: Intrin, args: &[Expr], dtype: DType) -> (Text, bool) {
        let arg = &args[0];
        match op {
            Intrin::IsNan | Intrin::IsInf if !arg.dtype().is_float() => (Text::primary("0"), true),
            Intrin::IsNan => {
                let x = self.value(arg);
                (self.macro_call("isnan", x), true)
            }
            Intrin::IsInf => {
                let x = self.value(arg);
                (self.macro_call("isinf", x), true)
            }
            Intrin::PopCount | Intrin::Clz => (self.bit_count(op, arg), true),
            _ if !dtype.is_float() => (self.integer_call(op, args, dtype), true),
            Intrin::Fabs | Intrin::Floor | Intrin::Ceil | Intrin::Round | Intrin::Nearbyint | Intrin::Trunc => {
                (self.float_call(op, args, dtype), true)
            }
            Intrin::CopySign => (self.float_call(op, args, dtype), true),
            Intrin::Exp
            | Intrin::Exp2
            | Intrin::Exp10
            | Intrin::Log
            | Intrin::Log2
            | Intrin::Log10
            | Intrin::Log1p
            | Intrin::Sqrt
            | Intrin::Rsqrt
            | Intrin::Sin
            | Intrin::Cos
            | Intrin::Tan
            | Intrin::Sinh
            | Intrin::Cosh
            | Intrin::Tanh
            | Intrin::Asin
            | Intrin::Acos
            | Intrin::Atan
            | Intrin::Atan2
            | Intrin::Asinh
            | Intrin::Acosh
            | Intrin::Atanh
            | Intrin::Erf
            | Intrin::Sigmoid
            | Intrin::Pow
            | Intrin::Fma
            | Intrin::Fmod
            | Intrin::Hypot
            | Intrin::Ex2Approx
            | Intrin::RcpApprox => (self.float_call(op, args, dtype), false),
        }
    }

    /// The call written with argument texts of its own (for lanes of vectors), in the type of the
    /// values, and whether rounding the result to a narrow type would change nothing.
    pub(super) fn call_named(&mut self, op: Intrin, args: &[Expr], names: &[&str], dtype: DType) -> (String, bool) {
        let (text, exact) = self.call(op, args, dtype);
        // `ident` has written the names with underscores.
        let text = names.iter().fold(text.text, |t, n| t.replace(&super::text::ident(n), n));
        (text, exact)
    }

    /// The library function of that base name for `float` or `double`.
    pub(super) fn function_name(&self, base: &str, t: &str) -> String {
        let suffix = if t == "float" { "f" } else { "" };
        match self.lang {
            Lang::Cuda => format!("{base}{suffix}"),
            Lang::C => format!("__builtin_{base}{suffix}"),
        }
    }

    /// The instruction that approximates a function in float32; elsewhere what it approximates.
    fn approximate(&mut self, name: &str, exact: &str, t: &str) -> String {
        let body = match self.lang {
            Lang::Cuda if t == "float" => {
                format!("float y; asm(\"{name}.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x)); return y;")
            }
            _ => format!("return {exact};"),
        };
        self.prelude.unary(&format!("dl_{name}_approx_{t}"), t, &body)
    }

    fn macro_call(&self, name: &str, x: Text) -> Text {
        match self.lang {
            Lang::Cuda => Text::primary(format!("{name}({})", x.text)),
            Lang::C => Text::primary(format!("(__builtin_{name}({}) != 0)", x.text)),
        }
    }

    fn float_call(&mut self, op: Intrin, args: &[Expr], dtype: DType) -> Text {
        let t = value_type(dtype);
        let one = if t == "float" { "1.0f" } else { "1.0" };
        let name = match op {
            Intrin::Rsqrt => {
                let sqrt = self.function_name("sqrt", t);
                self.prelude.unary(&format!("dl_rsqrt_{t}"), t, &format!("return {one} / {sqrt}(x);"))
            }
            Intrin::Sigmoid => {
                let exp = self.function_name("exp", t);
                self.prelude.unary(&format!("dl_sigmoid_{t}"), t, &format!("return {one} / ({one} + {exp}(-x));"))
            }
            Intrin::Ex2Approx => self.approximate("ex2", &format!("{}(x)", self.function_name("exp2", t)), t),
            Intrin::RcpApprox => self.approximate("rcp", "1 / x", t),
            // Half to even as in TVM; `round` of C is half away from zero.
            Intrin::Round => self.function_name("nearbyint", t),
            other => self.function_name(other.name(), t),
        };
        self.apply(&name, &args.iter().collect::<Vec<_>>())
    }

    /// A float function whose arguments and result are integers: by way of `double`.
    fn integer_call(&mut self, op: Intrin, args: &[Expr], dtype: DType) -> Text {
        let t = value_type(dtype);
        if op == Intrin::Fabs {
            let f =
                self.prelude.unary(&format!("dl_abs_{}", super::prelude::short(dtype)), t, "return x < 0 ? -x : x;");
            return self.apply(&f, &[&args[0]]);
        }
        let args: Vec<Expr> = args.iter().map(|a| Expr::cast(DType::F64, a.clone())).collect();
        let inner = self.float_call(op, &args, DType::F64);
        Text::new(format!("({t}){}", inner.text), super::expr::level::UNARY)
    }

    fn bit_count(&mut self, op: Intrin, arg: &Expr) -> Text {
        let wide = arg.dtype().bytes() == 8;
        let bits = 8 * arg.dtype().bytes();
        let x = self.text(arg);
        let mask = if bits < 32 { format!("({x}) & 0x{:x}", (1u64 << bits) - 1) } else { x };
        let (popcount, clz) = match (self.lang, wide) {
            (Lang::Cuda, false) => ("__popc", "__clz"),
            (Lang::Cuda, true) => ("__popcll", "__clzll"),
            (Lang::C, false) => ("__builtin_popcount", "__builtin_clz"),
            (Lang::C, true) => ("__builtin_popcountll", "__builtin_clzll"),
        };
        let t = value_type(arg.dtype());
        if op == Intrin::PopCount {
            return Text::new(format!("({t}){popcount}({mask})"), super::expr::level::UNARY);
        }
        let extra = 32u64.saturating_sub(bits);
        // C leaves the count for zero undefined.
        let name = format!("dl_clz_{}", super::prelude::short(arg.dtype()));
        let narrow = if bits < 32 { format!("(unsigned)(x & 0x{:x})", (1u64 << bits) - 1) } else { "x".into() };
        let f = self.prelude.unary(&name, t, &format!("return x == 0 ? {bits} : {clz}({narrow}) - {extra};"));
        self.apply(&f, &[arg])
    }
}

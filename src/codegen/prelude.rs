//! The prelude: the helper functions that a program uses, and nothing else. No header is included
//! anywhere; conversions are PTX instructions in CUDA and bit operations in C.

use super::{Lang, ctype};
use crate::ir::DType;

/// Helpers in the order of first use, each after the ones it needs.
pub(super) struct Prelude {
    lang: Lang,
    items: Vec<(String, String)>,
}

impl Prelude {
    pub fn new(lang: Lang) -> Prelude {
        Prelude { lang, items: Vec::new() }
    }

    /// The text of all helpers used so far.
    pub fn text(&self) -> String {
        self.items.iter().map(|(_, text)| format!("{text}\n")).collect()
    }

    /// Adds a piece of text once; returns its name.
    pub fn add(&mut self, name: &str, text: impl FnOnce(&mut Prelude) -> String) -> String {
        if !self.items.iter().any(|(n, _)| n == name) {
            let text = text(self);
            self.items.push((name.to_string(), text));
        }
        name.to_string()
    }

    /// Adds `<ret> name(params) { body }`.
    pub fn function(&mut self, name: &str, ret: &str, params: &str, body: &str) -> String {
        let qualifier = match self.lang {
            Lang::Cuda => "static __device__ __forceinline__",
            Lang::C => "static inline",
        };
        self.add(name, |_| format!("{qualifier} {ret} {name}({params}) {{ {body} }}"))
    }

    /// `float` from its bits.
    fn bits_to_float(&mut self) -> String {
        match self.lang {
            Lang::Cuda => "__uint_as_float".into(),
            Lang::C => self.function(
                "dl_f32_from_bits",
                "float",
                "unsigned x",
                "float y; __builtin_memcpy(&y, &x, sizeof y); return y;",
            ),
        }
    }

    /// Bits of a `float`.
    fn float_to_bits(&mut self) -> String {
        match self.lang {
            Lang::Cuda => "__float_as_uint".into(),
            Lang::C => self.function(
                "dl_bits_from_f32",
                "unsigned",
                "float x",
                "unsigned y; __builtin_memcpy(&y, &x, sizeof y); return y;",
            ),
        }
    }

    /// Name of the function from the stored bits of a narrow float to `float`.
    pub fn widen(&mut self, dtype: DType) -> String {
        match (dtype, self.lang) {
            (DType::F16, Lang::Cuda) => {
                let body = "float y; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x)); return y;";
                self.function("dl_f32_from_f16", "float", "unsigned short x", body)
            }
            (DType::F16, Lang::C) => self.widen_f16_c(),
            (DType::BF16, _) => {
                let from = self.bits_to_float();
                let body = format!("return {from}((unsigned)x << 16);");
                self.function("dl_f32_from_bf16", "float", "unsigned short x", &body)
            }
            (DType::E4M3 | DType::E5M2, Lang::Cuda) => self.float8_cuda(dtype, "float", "unsigned char", true),
            (DType::E5M2, Lang::C) => {
                let half = self.widen(DType::F16);
                let body = format!("return {half}((unsigned short)(x << 8));");
                self.function("dl_f32_from_e5m2", "float", "unsigned char x", &body)
            }
            (DType::E4M3, Lang::C) => self.widen_e4m3(),
            (DType::E8M0, _) => self.widen_e8m0(),
            (other, _) => panic!("{other} is not a narrow float"),
        }
    }

    /// Name of the CUDA function that widens element `i` of a register array by way of the word
    /// around it, if there is one for the type; `i` is a constant after unrolling.
    pub fn widen_packed(&mut self, dtype: DType) -> Option<String> {
        let word = |by: u32| format!("unsigned w = reinterpret_cast<const unsigned*>(a)[i / {by}];");
        match dtype {
            DType::BF16 => {
                let body = format!("{} return __uint_as_float(i % 2 ? w & 0xffff0000u : w << 16);", word(2));
                Some(self.function("dl_f32_from_bf16_at", "float", "const unsigned short* a, int i", &body))
            }
            // A byte as the lowest of the mantissa of 2^23, which is then taken away.
            DType::U8 => {
                let pick = "__uint_as_float(__byte_perm(w, 0x4b000000u, 0x7440u | i % 4))";
                let body = format!("{} return {pick} - 8388608.0f;", word(4));
                Some(self.function("dl_f32_from_u8_at", "float", "const unsigned char* a, int i", &body))
            }
            DType::I8 => {
                let pick = "__uint_as_float(__byte_perm(w ^ 0x80808080u, 0x4b000000u, 0x7440u | i % 4))";
                let body = format!("{} return {pick} - 8388736.0f;", word(4));
                Some(self.function("dl_f32_from_i8_at", "float", "const signed char* a, int i", &body))
            }
            DType::E4M3 | DType::E5M2 => {
                let (name, one) = (short(dtype), self.widen(dtype));
                Some(self.add(&format!("dl_f32_from_{name}_at"), |_| packed_float8(name, &one)))
            }
            _ => None,
        }
    }

    /// Name of the CUDA function from an integer below 2^23 to `float`.
    pub fn small_to_float(&mut self) -> String {
        let body = "return __uint_as_float(0x4b000000u | x) - 8388608.0f;";
        self.function("dl_f32_from_u23", "float", "unsigned x", body)
    }

    /// Name of the CUDA function `x & mask | set` that is one instruction.
    pub fn and_or(&mut self) -> String {
        let body = "unsigned y; asm(\"lop3.b32 %0, %1, %2, %3, 0xea;\" : \"=r\"(y) : \"r\"(x), \"r\"(mask), \"r\"(set)); return y;";
        self.function("dl_and_or", "unsigned", "unsigned x, unsigned mask, unsigned set", body)
    }

    /// The bits of an e4m3 number in the places of a half are the number times 2^-8.
    fn widen_e4m3(&mut self) -> String {
        let body = self.widen_e4m3_body();
        self.function("dl_f32_from_e4m3", "float", "unsigned char x", &body)
    }

    fn widen_e4m3_body(&mut self) -> String {
        let (half, from) = (self.widen(DType::F16), self.bits_to_float());
        format!(
            "return (x & 0x7f) == 0x7f ? {from}(0x7fc00000u) : \
             {half}((unsigned short)(((x & 0x80) << 8) | ((x & 0x7f) << 7))) * 256.0f;"
        )
    }

    /// The bits are an exponent of float32, of which zero is half the smallest normal number.
    fn widen_e8m0(&mut self) -> String {
        let from = self.bits_to_float();
        let body = format!("return {from}(x == 0 ? 0x400000u : x == 0xff ? 0x7fc00000u : (unsigned)x << 23);");
        self.function("dl_f32_from_e8m0", "float", "unsigned char x", &body)
    }

    /// The nearest exponent of what has one, the greater of two.
    fn narrow_e8m0(&mut self) -> String {
        let bits = self.float_to_bits();
        let body = format!(
            "unsigned a = {bits}(x) & 0x7fffffffu, e = (a + 0x400000u) >> 23; if (a > 0x7f800000u) return 0xff; \
             return (unsigned char)(a < 0x600000u ? 0 : e > 254 ? 254 : e);"
        );
        self.function("dl_e8m0_from_f32", "unsigned char", "float x", &body)
    }

    /// Half to float: the compiler's `_Float16` where it has one, else by bits (the multiplication
    /// normalises subnormal numbers exactly).
    fn widen_f16_c(&mut self) -> String {
        let (from, _) = (self.bits_to_float(), self.float_to_bits());
        self.add("dl_f32_from_f16", |_| {
            format!(
                "#ifdef __FLT16_MAX__\n\
                 static inline float dl_f32_from_f16(unsigned short x) {{ _Float16 y; __builtin_memcpy(&y, &x, 2); \
                 return (float)y; }}\n\
                 #else\n\
                 static inline float dl_f32_from_f16(unsigned short x) {{\n\
                 \x20 unsigned sign = (unsigned)(x & 0x8000) << 16, rest = x & 0x7fff;\n\
                 \x20 if (rest >= 0x7c00) return {from}(sign | 0x7f800000u | rest << 13);\n\
                 \x20 float y = {from}(rest << 13) * 0x1p112f;\n\
                 \x20 return sign ? -y : y;\n\
                 }}\n\
                 #endif"
            )
        })
    }

    /// Name of the function from `float` to the stored bits of a narrow float, rounding to nearest
    /// even.
    pub fn narrow(&mut self, dtype: DType) -> String {
        match (dtype, self.lang) {
            (DType::F16, Lang::Cuda) => {
                let body = "unsigned short y; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x)); return y;";
                self.function("dl_f16_from_f32", "unsigned short", "float x", body)
            }
            (DType::BF16, Lang::Cuda) => {
                let body = "unsigned short y; asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x)); return y;";
                self.function("dl_bf16_from_f32", "unsigned short", "float x", body)
            }
            (DType::F16, Lang::C) => self.narrow_f16_c(),
            (DType::BF16, Lang::C) => {
                let bits = self.float_to_bits();
                let body = format!(
                    "unsigned u = {bits}(x); return (unsigned short)(x != x ? 0x7fc0u : \
                     (u + 0x7fffu + (u >> 16 & 1u)) >> 16);"
                );
                self.function("dl_bf16_from_f32", "unsigned short", "float x", &body)
            }
            (DType::E4M3 | DType::E5M2, Lang::Cuda) => self.float8_cuda(dtype, "unsigned char", "float", false),
            (DType::E4M3, Lang::C) => self.narrow_f8(&E4M3),
            (DType::E5M2, Lang::C) => self.narrow_f8(&E5M2),
            (DType::E8M0, _) => self.narrow_e8m0(),
            (other, _) => panic!("{other} is not a narrow float"),
        }
    }

    /// Float to half by bits: normal numbers round in the integer, subnormal ones by adding a
    /// constant that has their last place as its own.
    fn narrow_f16_c(&mut self) -> String {
        let (from, bits) = (self.bits_to_float(), self.float_to_bits());
        self.add("dl_f16_from_f32", |_| {
            format!(
                "#ifdef __FLT16_MAX__\n\
                 static inline unsigned short dl_f16_from_f32(float x) {{ _Float16 h = (_Float16)x; unsigned short y; \
                 __builtin_memcpy(&y, &h, 2); return y; }}\n\
                 #else\n\
                 static inline unsigned short dl_f16_from_f32(float x) {{\n\
                 \x20 unsigned u = {bits}(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu, r;\n\
                 \x20 if (a > 0x7f800000u) r = 0x7e00u;\n\
                 \x20 else if (a >= 0x477ff000u) r = 0x7c00u;\n\
                 \x20 else if (a < 0x38800000u) r = {bits}({from}(a) + 0.5f) - 0x3f000000u;\n\
                 \x20 else r = (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13;\n\
                 \x20 return (unsigned short)(sign | r);\n\
                 }}\n\
                 #endif"
            )
        })
    }

    /// A conversion of 8-bit floats in CUDA: the instruction from sm_89 on, bit operations below. The
    /// packed conversions call it below sm_89 only, so it may be unused.
    fn float8_cuda(&mut self, dtype: DType, to: &str, from: &str, widen: bool) -> String {
        let t = short(dtype);
        let name = if widen { format!("dl_f32_from_{t}") } else { format!("dl_{t}_from_f32") };
        if self.items.iter().any(|(n, _)| *n == name) {
            return name;
        }
        let portable = match (widen, dtype) {
            (true, DType::E4M3) => self.widen_e4m3_body(),
            (true, _) => format!("return {}((unsigned short)(x << 8));", self.widen(DType::F16)),
            (false, DType::E4M3) => self.narrow_f8_body(&E4M3),
            (false, _) => self.narrow_f8_body(&E5M2),
        };
        let instruction = if widen {
            format!(
                "unsigned h; asm(\"cvt.rn.f16x2.{t}x2 %0, %1;\" : \"=r\"(h) : \"h\"((unsigned short)x)); \
                 return {}((unsigned short)h);",
                self.widen(DType::F16)
            )
        } else {
            format!(
                "unsigned short y; asm(\"cvt.rn.satfinite.{t}x2.f32 %0, %1, %2;\" : \"=h\"(y) : \"f\"(0.0f), \"f\"(x)); \
                 return (unsigned char)y;"
            )
        };
        self.add(&name, |_| {
            format!(
                "[[maybe_unused]] static __device__ __forceinline__ {to} {name}({from} x) {{\n\
                 #if __CUDA_ARCH__ >= 890\n  {instruction}\n#else\n  {portable}\n#endif\n}}"
            )
        })
    }

    /// Float to an 8-bit float: normal numbers round in the integer, below `min` the sum with a power
    /// of two does it.
    fn narrow_f8(&mut self, f: &Float8) -> String {
        let body = self.narrow_f8_body(f);
        self.function(&format!("dl_{}_from_f32", f.name), "unsigned char", "float x", &body)
    }

    fn narrow_f8_body(&mut self, f: &Float8) -> String {
        let Float8 { name: _, shift, bias, min, scale, max, nan } = f;
        let (from, bits) = (self.bits_to_float(), self.float_to_bits());
        let half = (1u32 << (shift - 1)) - 1;
        format!(
            "unsigned u = {bits}(x), a = u & 0x7fffffffu, r; float m = {from}(a); \
             if (a > 0x7f800000u) r = 0x{nan:x}u; \
             else if (m < {min}) r = {bits}(m * {scale} + 8388608.0f) & 0xffu; \
             else {{ r = ((a + 0x{half:x}u + (a >> {shift} & 1u)) >> {shift}) - {bias}u; if (r > 0x{max:x}u) r = 0x{max:x}u; }} \
             return (unsigned char)((u >> 24 & 0x80u) | r);"
        )
    }

    /// Name of the function that rounds a `float` to a narrow float and back.
    pub fn round(&mut self, dtype: DType) -> String {
        let (narrow, widen) = (self.narrow(dtype), self.widen(dtype));
        let name = format!("dl_round_{}", short(dtype));
        self.function(&name, "float", "float x", &format!("return {widen}({narrow}(x));"))
    }

    /// Name of `floor(a / b)` for integers of one type.
    pub fn floor_div(&mut self, dtype: DType) -> String {
        let (t, name) = (ctype(dtype), format!("dl_floordiv_{}", short(dtype)));
        let body = format!("{t} q = a / b; return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;");
        self.function(&name, t, &format!("{t} a, {t} b"), &body)
    }

    /// Name of `a - floor(a / b) * b` for integers of one type.
    pub fn floor_mod(&mut self, dtype: DType) -> String {
        let (t, name) = (ctype(dtype), format!("dl_floormod_{}", short(dtype)));
        let body = format!("{t} r = a % b; return r != 0 && (r < 0) != (b < 0) ? r + b : r;");
        self.function(&name, t, &format!("{t} a, {t} b"), &body)
    }

    /// Name of the minimum or maximum of two values of one type: the number where one is NaN, as `fmax` of C.
    pub fn min_max(&mut self, max: bool, dtype: DType) -> String {
        match (self.lang, dtype) {
            (Lang::Cuda, DType::F64) => return if max { "fmax" } else { "fmin" }.into(),
            (Lang::Cuda, d) if d.is_float() => return if max { "fmaxf" } else { "fminf" }.into(),
            (Lang::Cuda, DType::I32 | DType::U32 | DType::I64 | DType::U64) => {
                return if max { "max" } else { "min" }.into();
            }
            (Lang::Cuda | Lang::C, _) => {}
        }
        let wide = if dtype.is_float() && dtype != DType::F64 { DType::F32 } else { dtype };
        let (t, op) = (ctype(wide), if max { ">" } else { "<" });
        let name = format!("dl_{}_{}", if max { "max" } else { "min" }, short(wide));
        let first = if dtype.is_float() { format!("a {op} b || b != b") } else { format!("a {op} b") };
        self.function(&name, t, &format!("{t} a, {t} b"), &format!("return {first} ? a : b;"))
    }

    /// Name of a helper of one argument and one type, for instance the sigmoid.
    pub fn unary(&mut self, name: &str, t: &str, body: &str) -> String {
        self.function(name, t, &format!("{t} x"), body)
    }

    /// Name of a helper of two arguments and one type.
    pub fn binary(&mut self, name: &str, t: &str, body: &str) -> String {
        self.function(name, t, &format!("{t} a, {t} b"), body)
    }

    /// Name of the conversion between a type and the unsigned integer of its size, by bits.
    pub fn reinterpret(&mut self, to: DType, from: DType) -> String {
        let (t, f) = (ctype(to), ctype(from));
        let name = format!("dl_{}_as_{}", short(from), short(to));
        let copy = if self.lang == Lang::C { "__builtin_memcpy" } else { "memcpy" };
        let body = format!("{t} y; {copy}(&y, &x, sizeof y); return y;");
        self.function(&name, t, &format!("{f} x"), &body)
    }

    /// Name of the conversion to `float` that a second rounding to 16 bits cannot spoil: rounding
    /// to odd keeps the inexact part visible.
    pub fn round_to_odd(&mut self, from: DType) -> String {
        let (t, name) = (ctype(from), format!("dl_odd_f32_from_{}", short(from)));
        let (to_bits, from_bits) = (self.float_to_bits(), self.bits_to_float());
        // A double holds 53 bits of an integer; one bit stands for those below.
        let cut = match from {
            DType::I64 => "if (((x >> 53) + 1) >> 1) x = (x & ~0xfffLL) | ((x & 0xfffLL) != 0) << 11; ",
            DType::U64 => "if (x >> 53) x = (x & ~0xfffULL) | ((x & 0xfffULL) != 0) << 11; ",
            _ => "",
        };
        // The nearest float is exact, or one of the two neighbours; the odd one keeps the direction. No
        // difference is ordered where `x` is no number or infinite.
        let body = format!(
            "{cut}float y = (float)x; unsigned u = {to_bits}(y); double d = (double)y - (double)x; \
             if ((d < 0 || d > 0) && !(u & 1u)) u = (d > 0) == (x > 0) ? u - 1u : u + 1u; return {from_bits}(u);"
        );
        self.function(&name, "float", &format!("{t} x"), &body)
    }
}

/// Two 8-bit floats are one instruction's work from sm_89 on; below, one at a time.
fn packed_float8(name: &str, one: &str) -> String {
    let half = |part: &str| {
        format!("asm(\"{{.reg .b16 l, h; mov.b32 {{l, h}}, %1; cvt.f32.f16 %0, {part};}}\" : \"=f\"(y) : \"r\"(w));")
    };
    let (high, low) = (half("h"), half("l"));
    format!(
        "static __device__ __forceinline__ float dl_f32_from_{name}_at(const unsigned char* a, int i) {{\n\
         #if __CUDA_ARCH__ >= 890\n\
         \x20 unsigned w; float y;\n\
         \x20 asm(\"cvt.rn.f16x2.{name}x2 %0, %1;\" : \"=r\"(w) : \"h\"(reinterpret_cast<const unsigned short*>(a)[i / 2]));\n\
         \x20 if (i % 2) {high}\n\
         \x20 else {low}\n\
         \x20 return y;\n\
         #else\n\
         \x20 return {one}(a[i]);\n\
         #endif\n\
         }}"
    )
}

/// What the conversion to an 8-bit float needs to know of it.
struct Float8 {
    name: &'static str,
    /// Mantissa bits of float32 that are dropped.
    shift: u32,
    /// Difference of the exponents' biases, in place.
    bias: u32,
    /// Smallest normal number; below it numbers are multiples of `1 / scale`.
    min: &'static str,
    scale: &'static str,
    /// Code of the largest finite number, which greater ones become, as in the instructions.
    max: u32,
    nan: u32,
}

const E4M3: Float8 =
    Float8 { name: "e4m3", shift: 20, bias: 120 << 3, min: "0x1p-6f", scale: "512.0f", max: 0x7e, nan: 0x7f };
const E5M2: Float8 =
    Float8 { name: "e5m2", shift: 21, bias: 112 << 2, min: "0x1p-14f", scale: "65536.0f", max: 0x7b, nan: 0x7e };

/// Short name of a type, for helper names.
pub(super) fn short(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::I8 => "i8",
        DType::I16 => "i16",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::U8 => "u8",
        DType::U16 => "u16",
        DType::U32 => "u32",
        DType::U64 => "u64",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::E4M3 => "e4m3",
        DType::E5M2 => "e5m2",
        DType::E8M0 => "e8m0",
        DType::Handle => "handle",
    }
}

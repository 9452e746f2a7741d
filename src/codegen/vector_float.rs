//! Vectors of 16- and 8-bit floats to and from float32.

use super::prelude::Prelude;
use crate::ir::DType;

/// Name of the function from a vector of stored bits to float32.
pub(super) fn widen(prelude: &mut Prelude, dtype: DType, lanes: u32, from: &str, to: &str) -> String {
    let name = format!("dl_f32x{lanes}_from_{}", super::prelude::short(dtype));
    let scalar = prelude.widen(dtype);
    let body = match dtype {
        DType::BF16 => {
            let word = word_type(prelude, lanes);
            let portable = format!("return ({to})(__builtin_convertvector(x, {word}) << 16);");
            // GCC 12 converts 16 lanes by halves.
            x86(lanes, &[(16, "__AVX512F__")], &portable, |_| {
                format!(
                    "return ({to})(({word})__builtin_ia32_pmovzxwd512_mask((dl_v16hi)x, (dl_v16si){{0}}, -1) << 16);"
                )
            })
        }
        DType::F16 => x86(lanes, F16C, &lane_loop(to, &scalar, lanes), |n| match n {
            16 => format!("return ({to})__builtin_ia32_vcvtph2ps512_mask((dl_v16hi)x, ({to}){{0}}, -1, 4);"),
            _ => format!("return ({to})__builtin_ia32_vcvtph2ps256((dl_v8hi)x);"),
        }),
        _ => lane_loop(to, &scalar, lanes),
    };
    add(prelude, &name, to, &format!("{from} x"), &body)
}

/// Name of the function from float32 to a vector of bits, rounding to nearest even.
pub(super) fn narrow(prelude: &mut Prelude, dtype: DType, lanes: u32, from: &str, to: &str) -> String {
    let name = format!("dl_{}x{lanes}_from_f32", super::prelude::short(dtype));
    let scalar = prelude.narrow(dtype);
    let body = match dtype {
        DType::BF16 => {
            let word = word_type(prelude, lanes);
            format!(
                "{word} u = ({word})x, nan = ({word})(x != x); u = (u + 0x7fffu + (u >> 16 & 1u)) >> 16; \
                 return __builtin_convertvector((u & ~nan) | (0x7fc0u & nan), {to});"
            )
        }
        DType::F16 => x86(lanes, F16C, &lane_loop(to, &scalar, lanes), |n| match n {
            16 => format!("return ({to})__builtin_ia32_vcvtps2ph512_mask(x, 0, (dl_v16hi){{0}}, -1);"),
            _ => format!("return ({to})__builtin_ia32_vcvtps2ph256(x, 0);"),
        }),
        _ => lane_loop(to, &scalar, lanes),
    };
    add(prelude, &name, to, &format!("{from} x"), &body)
}

fn add(prelude: &mut Prelude, name: &str, ret: &str, params: &str, body: &str) -> String {
    if body.contains("dl_v") {
        prelude.add("dl_v16si", |_| "typedef int dl_v16si __attribute__((vector_size(64)));".into());
        prelude.add("dl_v16hi", |_| "typedef short dl_v16hi __attribute__((vector_size(32)));".into());
        prelude.add("dl_v8hi", |_| "typedef short dl_v8hi __attribute__((vector_size(16)));".into());
    }
    prelude.add(name, |_| {
        let open = if body.starts_with('#') { "{\n" } else { "{ " };
        let close = if body.starts_with('#') { "\n}" } else { " }" };
        format!("static inline __attribute__((always_inline)) {ret} {name}({params}) {open}{body}{close}")
    })
}

/// The conversions of x86 between halves and float32, by lanes, and the feature that has them.
const F16C: &[(u32, &str)] = &[(16, "__AVX512F__"), (8, "__F16C__")];

/// The body with instructions of x86 where the compiler has them for that many lanes.
fn x86(lanes: u32, table: &[(u32, &str)], portable: &str, instruction: impl Fn(u32) -> String) -> String {
    let Some((_, feature)) = table.iter().find(|(n, _)| *n == lanes) else { return portable.to_string() };
    let instruction = instruction(lanes);
    format!("#if defined({feature}) && !defined(__clang__)\n  {instruction}\n#else\n  {portable}\n#endif")
}

fn lane_loop(to: &str, scalar: &str, lanes: u32) -> String {
    format!("{to} r = {{0}}; for (int l = 0; l < {lanes}; ++l) r[l] = {scalar}(x[l]); return r;")
}

/// The vector of 32-bit words with that many lanes.
fn word_type(prelude: &mut Prelude, lanes: u32) -> String {
    let name = format!("dl_u32x{lanes}");
    let size = 4 * lanes;
    prelude.add(&name, |_| format!("typedef unsigned {name} __attribute__((vector_size({size})));"))
}

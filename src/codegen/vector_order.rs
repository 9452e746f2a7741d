//! The lesser and the greater of two vectors, lane by lane: as `a < b ? a : b`, which is what the instructions of
//! x86 compute and gives `b` where a lane is not a number, and as `fmin` and `fmax`, which give the number.
//! A loop over the lanes, or a selection by masks, becomes more instructions than these.

use super::prelude::{Prelude, short};
use crate::ir::DType;

/// Name of the function for `lanes` of `dtype` (float32 for the narrow floats), whose vectors have the
/// type `t` and whose masks have the type `mask`: `b` where a lane is not a number.
pub(super) fn ordered(prelude: &mut Prelude, max: bool, dtype: DType, lanes: u32, t: &str, mask: &str) -> String {
    let (word, op) = if max { ("max", ">") } else { ("min", "<") };
    let portable = format!("{mask} m = a {op} b; return ({t})((m & ({mask})a) | (~m & ({mask})b));");
    let instruction = x86(dtype, lanes).map(|x| {
        let suffix = x.suffix;
        (
            x.feature,
            match x.bytes {
                64 => format!("__builtin_ia32_{word}{suffix}512_mask(a, b, a, -1, 4)"),
                32 => format!("__builtin_ia32_{word}{suffix}256(a, b)"),
                _ => format!("__builtin_ia32_{word}{suffix}(a, b)"),
            },
        )
    });
    add(prelude, &format!("dl_{word}_{}x{lanes}", short(dtype)), t, instruction, &portable)
}

/// The same with the number where a lane of one is not a number.
pub(super) fn number(prelude: &mut Prelude, max: bool, dtype: DType, lanes: u32, t: &str, mask: &str) -> String {
    let order = ordered(prelude, max, dtype, lanes, t, mask);
    if !dtype.is_float() {
        return order;
    }
    let word = if max { "max" } else { "min" };
    let portable = format!("{mask} m = b != b; return ({t})((m & ({mask})a) | (~m & ({mask}){order}(a, b)));");
    let instruction = x86(dtype, lanes).map(|x| {
        let suffix = x.suffix;
        // Comparison 3 holds where a lane is not a number, 7 where it is one.
        (
            x.feature,
            match x.bytes {
                64 => {
                    let ordered = format!("__builtin_ia32_cmp{suffix}512_mask(b, b, 7, -1, 4)");
                    format!("__builtin_ia32_{word}{suffix}512_mask(a, b, a, {ordered}, 4)")
                }
                32 => format!(
                    "__builtin_ia32_blendv{suffix}256({order}(a, b), a, __builtin_ia32_cmp{suffix}256(b, b, 3))"
                ),
                _ => format!("__builtin_ia32_blendv{suffix}({order}(a, b), a, __builtin_ia32_cmpunord{suffix}(b, b))"),
            },
        )
    });
    add(prelude, &format!("dl_{word}num_{}x{lanes}", short(dtype)), t, instruction, &portable)
}

fn add(prelude: &mut Prelude, name: &str, t: &str, instruction: Option<(&str, String)>, portable: &str) -> String {
    let body = match instruction {
        Some((feature, call)) => format!(
            "{{\n#if defined({feature}) && !defined(__clang__)\n  return ({t}){call};\n#else\n  {portable}\n#endif\n}}"
        ),
        None => format!("{{ {portable} }}"),
    };
    prelude.add(name, |_| format!("static inline __attribute__((always_inline)) {t} {name}({t} a, {t} b) {body}"))
}

/// The instructions of x86 for vectors of some lanes.
struct X86 {
    feature: &'static str,
    suffix: &'static str,
    bytes: u64,
}

fn x86(dtype: DType, lanes: u32) -> Option<X86> {
    let suffix = match dtype {
        DType::F32 => "ps",
        DType::F64 => "pd",
        _ => return None,
    };
    let bytes = u64::from(lanes) * dtype.bytes();
    let feature = match bytes {
        64 => "__AVX512F__",
        32 => "__AVX__",
        16 => "__SSE4_1__",
        _ => return None,
    };
    Some(X86 { feature, suffix, bytes })
}

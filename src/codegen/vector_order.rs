//! The lesser and the greater of two vectors, lane by lane: `a < b ? a : b`, so that `b` is the answer
//! where a lane is not a number. That is what the instructions of x86 compute; a loop over the lanes,
//! or a selection by masks, becomes several instructions.

use super::prelude::{Prelude, short};
use crate::ir::DType;

/// Name of the function for `lanes` of `dtype` (float32 for the narrow floats), whose vectors have the
/// type `t` and whose masks have the type `mask`.
pub(super) fn function(prelude: &mut Prelude, max: bool, dtype: DType, lanes: u32, t: &str, mask: &str) -> String {
    let (word, op) = if max { ("max", ">") } else { ("min", "<") };
    let portable = format!("{mask} m = a {op} b; return ({t})((m & ({mask})a) | (~m & ({mask})b));");
    let body = match instruction(word, dtype, lanes) {
        Some((feature, call)) => format!(
            "{{\n#if defined({feature}) && !defined(__clang__)\n  return ({t}){call};\n#else\n  {portable}\n#endif\n}}"
        ),
        None => format!("{{ {portable} }}"),
    };
    let name = format!("dl_{word}_{}x{lanes}", short(dtype));
    prelude.add(&name, |_| format!("static inline __attribute__((always_inline)) {t} {name}({t} a, {t} b) {body}"))
}

/// The feature of x86 that has an instruction for these lanes, and the call.
fn instruction(word: &str, dtype: DType, lanes: u32) -> Option<(&'static str, String)> {
    let suffix = match dtype {
        DType::F32 => "ps",
        DType::F64 => "pd",
        _ => return None,
    };
    match u64::from(lanes) * dtype.bytes() {
        64 => Some(("__AVX512F__", format!("__builtin_ia32_{word}{suffix}512_mask(a, b, a, -1, 4)"))),
        32 => Some(("__AVX__", format!("__builtin_ia32_{word}{suffix}256(a, b)"))),
        16 => Some(("__SSE2__", format!("__builtin_ia32_{word}{suffix}(a, b)"))),
        _ => None,
    }
}

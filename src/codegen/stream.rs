//! Memory traffic that the caches are told about in C: vector stores that go past them, and lines that
//! are asked for ahead of time.
//!
//! A store past the caches writes whole lines without reading them first, and leaves in the caches what
//! was there. It needs an aligned address, which is looked at as it runs: tensors come from anywhere.

use super::prelude::{Prelude, short};
use crate::ir::DType;
use crate::ir::kernel::{CacheHint, KStmt};

/// Name of the function that stores a vector of `lanes` elements of a type as stored, past the caches
/// where the machine can; `t` is the vector's type and `place` that of one in memory. `None` for vectors
/// that no instruction of that kind takes.
pub(super) fn store(prelude: &mut Prelude, dtype: DType, lanes: u32, t: &str, place: &str) -> Option<String> {
    let bytes = dtype.bytes() * u64::from(lanes);
    if !matches!(bytes, 16 | 32 | 64) {
        return None;
    }
    let aligned =
        |to: u64, what: &str| format!("  if (((__UINTPTR_TYPE__)p & {}) == 0) {{ {what} return; }}\n", to - 1);
    let clang = aligned(bytes, &format!("__builtin_nontemporal_store(v, ({t} *)p);"));
    let quarters: String =
        (0..bytes / 16).map(|i| format!("__builtin_ia32_movntps((float *)p + {}, u.q[{i}]); ", 4 * i)).collect();
    let quarters = aligned(16, quarters.trim_end());
    let wide = match bytes {
        64 => wide("__AVX512F__", 16, "512", aligned),
        32 => wide("__AVX__", 8, "256", aligned),
        _ => String::new(),
    };
    for n in [4, bytes as u32 / 4] {
        float_vector(prelude, n);
    }
    let all = format!("dl_v{}sf", bytes / 4);
    let body = format!(
        "#if defined(__clang__)\n{clang}#elif defined(__SSE2__)\n  union {{ {t} v; {all} w; dl_v4sf q[{}]; }} u = {{v}};\n\
         {wide}{quarters}#endif\n  *({place} *)p = v;",
        bytes / 16
    );
    let name = format!("dl_stream_{}x{lanes}", short(dtype));
    Some(prelude.add(&name, |_| {
        format!("static inline __attribute__((always_inline)) void {name}(void *p, {t} v) {{\n{body}\n}}")
    }))
}

/// The instruction that stores a whole vector of more than 16 bytes.
fn wide(feature: &str, floats: u32, suffix: &str, aligned: impl Fn(u64, &str) -> String) -> String {
    let store = format!("__builtin_ia32_movntps{suffix}((float *)p, u.w);");
    format!("#if defined({feature})\n{}#endif\n", aligned(4 * u64::from(floats), &store))
}

fn float_vector(prelude: &mut Prelude, floats: u32) {
    let name = format!("dl_v{floats}sf");
    prelude.add(&name, |_| format!("typedef float {name} __attribute__((vector_size({})));", 4 * floats));
}

/// True where some store of the statements goes past the caches.
pub(super) fn streams(body: &[KStmt]) -> bool {
    let mut found = false;
    body.iter().for_each(|s| {
        s.visit(&mut |s| found |= matches!(s, KStmt::Store { hint: CacheHint::Streaming, .. }));
    });
    found
}

/// Name of the function that makes other cores see such stores before whatever this one writes next.
pub(super) fn fence(prelude: &mut Prelude) -> String {
    let body = "\n#if defined(__SSE2__)\n  __builtin_ia32_sfence();\n#endif\n";
    prelude.add("dl_stream_end", |_| format!("static inline void dl_stream_end(void) {{{body}}}"))
}

/// Name of the function that asks for the cache line at so many bytes from an address: in integers,
/// because it may lie outside of the tensor.
pub(super) fn prefetch(prelude: &mut Prelude) -> String {
    prelude.function(
        "dl_prefetch",
        "void",
        "const void *p, long long bytes",
        "__builtin_prefetch((const void *)((__UINTPTR_TYPE__)p + (__UINTPTR_TYPE__)bytes));",
    )
}

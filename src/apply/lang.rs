//! What differs between the languages that launch functions are written in: names of types, words that are taken, and
//! how extents are computed.

use crate::backend::Dim;
use crate::ir::DType;

/// What generated functions are written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lang {
    /// Rust.
    Rust,
    /// C11 that is C++ as well, as far as headers go.
    C,
}

/// Variables and functions that generated Rust uses itself.
const RUST: &[&str] = &[
    "args",
    "buffers",
    "bytes",
    "check",
    "device",
    "extent",
    "kernels",
    "len",
    "need",
    "pointer",
    "pool",
    "product",
    "run_grid",
    "scalars",
    "scratch",
    "self",
    "std",
    "stream",
    "tensors",
    "threads",
    "workspace",
];

/// Variables of generated C, keywords of C and C++ that Rust has not, and what headers define in small letters. What
/// begins with `dl_` is the runtime's.
#[rustfmt::skip]
const C: &[&str] = &[
    "arg", "args", "begin", "block", "end", "error", "grid", "kernels", "launch", "maps", "step", "stream", "workspace",
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "case", "catch", "char", "class",
    "compl", "complex", "concept", "const_cast", "consteval", "constexpr", "constinit", "decltype", "default", "delete",
    "double", "errno", "explicit", "export", "float", "friend", "goto", "i386", "inline", "int", "int16_t", "int32_t",
    "int64_t", "int8_t", "linux", "long", "mutable", "namespace", "new", "noexcept", "noreturn", "not", "not_eq",
    "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register", "requires", "restrict", "short",
    "signed", "size_t", "sizeof", "stderr", "stdin", "stdout", "switch", "template", "this", "thread_local", "throw",
    "typedef", "typeid", "typename", "uint16_t", "uint32_t", "uint64_t", "uint8_t", "uintptr_t", "unix", "unsigned",
    "using", "void", "volatile", "wchar_t", "xor", "xor_eq",
];

/// The C initialiser of an array, which holds an element at least.
pub fn braced(all: &[String]) -> String {
    if all.is_empty() { "{0}".to_string() } else { format!("{{{}}}", all.join(", ")) }
}

impl Lang {
    /// Words that no argument may be called.
    pub fn taken(self) -> &'static [&'static str] {
        match self {
            Lang::Rust => RUST,
            Lang::C => C,
        }
    }

    /// A user's name, out of the way of what the runtime calls its own.
    pub fn own(self, name: &str) -> String {
        let ours = self == Lang::C && name.to_ascii_lowercase().starts_with("dl_");
        if ours { format!("x_{name}") } else { name.to_string() }
    }

    /// Type of an extent where callers see it; inside it is a signed integer of 64 bits.
    pub fn extent(self) -> &'static str {
        match self {
            Lang::Rust => "usize",
            Lang::C => "size_t",
        }
    }

    /// Type of a tensor's elements.
    pub fn element(self, dtype: DType) -> &'static str {
        let [rust, c] = match dtype {
            DType::Bool | DType::U8 | DType::E4M3 | DType::E5M2 | DType::E8M0 => ["u8", "uint8_t"],
            DType::I8 => ["i8", "int8_t"],
            DType::I16 => ["i16", "int16_t"],
            DType::I32 => ["i32", "int32_t"],
            DType::I64 => ["i64", "int64_t"],
            DType::U16 => ["u16", "uint16_t"],
            DType::U32 => ["u32", "uint32_t"],
            DType::U64 | DType::Handle => ["u64", "uint64_t"],
            DType::F16 => ["half::f16", "uint16_t"],
            DType::BF16 => ["half::bf16", "uint16_t"],
            DType::F32 => ["f32", "float"],
            DType::F64 => ["f64", "double"],
        };
        if self == Lang::Rust { rust } else { c }
    }

    /// Type of a scalar parameter.
    pub fn scalar(self, dtype: DType) -> &'static str {
        if dtype == DType::Bool { "bool" } else { self.element(dtype) }
    }

    /// An extent as an expression.
    ///
    /// # Errors
    /// A sentence, when it cannot be written.
    pub fn dim(self, dim: &Dim, ident: &dyn Fn(&str) -> String) -> Result<String, String> {
        match self {
            Lang::Rust => dim.rust(ident),
            Lang::C => dim.c(ident),
        }
    }

    /// The next multiple of a number, as an expression.
    pub fn rounded_up(self, value: &str, multiple: i64) -> String {
        let div = if self == Lang::Rust { "i64::div_euclid" } else { "dl_div" };
        format!("{div}({value} + {}, {multiple}) * {multiple}", multiple - 1)
    }

    /// A value where one of several is chosen.
    pub fn value(self, value: &str) -> String {
        if self == Lang::Rust { format!("{{ {value} }}") } else { value.to_string() }
    }

    /// One value under a condition, else what [`Lang::value`] or this gave.
    pub fn choice(self, condition: &str, value: &str, rest: &str) -> String {
        match self {
            Lang::Rust => format!("if {condition} {{ {value} }} else {rest}"),
            Lang::C => format!("({condition} ? {value} : {rest})"),
        }
    }
}

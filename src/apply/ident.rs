//! Rust identifiers from the names of users.

use std::collections::BTreeSet;

/// Words that cannot be used as they are.
const RESERVED: [&str; 53] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "union", "unsafe", "unsized", "use", "virtual", "where", "while", "yield", "str",
];

/// `snake_case` words that are unique within one scope.
#[derive(Default)]
pub struct Idents {
    taken: BTreeSet<String>,
}

impl Idents {
    /// A scope in which some words are taken.
    pub fn without(taken: &[&str]) -> Idents {
        Idents { taken: taken.iter().map(|s| s.to_string()).collect() }
    }

    /// A fresh word made of a name.
    pub fn fresh(&mut self, name: &str) -> String {
        let base = snake(name);
        let mut word = base.clone();
        let mut n = 2;
        while !self.taken.insert(word.clone()) {
            word = format!("{base}_{n}");
            n += 1;
        }
        word
    }
}

/// Names of functions in `kernels.rs`, from which names of other items are made.
pub struct FunctionNames {
    taken: BTreeSet<String>,
    /// What is appended to a name for its variants.
    suffixes: Vec<String>,
}

impl FunctionNames {
    /// None taken but what the runtime of `kernels.rs` calls its own. `variants` are names of architectures.
    pub fn new(variants: impl Iterator<Item = String>) -> FunctionNames {
        let suffixes = ["_raw", "_workspace_bytes", "_cpu", "_cpu_grid", "_cpu_part", "_cpu_workspace_bytes"]
            .map(String::from)
            .into_iter()
            .chain(variants.map(|v| format!("_{v}")))
            .collect();
        let runtime = RUNTIME.iter().map(|n| n.to_string());
        FunctionNames { taken: runtime.clone().chain(runtime.map(|n| camel(&n))).collect(), suffixes }
    }

    /// A fresh word made of a name: neither it nor its variants nor its type are taken.
    pub fn fresh(&mut self, name: &str) -> String {
        let base = snake(name);
        let numbered = (2..).map(|n| format!("{base}_{n}"));
        let all = |word: &str| -> Vec<String> {
            let variants = self.suffixes.iter().map(|s| format!("{word}{s}"));
            [word.to_string(), camel(word)].into_iter().chain(variants).collect()
        };
        let free = |word: &String| all(word).iter().all(|n| !self.taken.contains(n));
        let word = std::iter::once(base.clone()).chain(numbered).find(free).expect("numbers do not end");
        self.taken.extend(all(&word));
        word
    }
}

/// Items of `runtime/*.rs`, and of Rust's prelude, that a function or its type would hide, and `self_`, whose type would
/// be the keyword `Self`.
const RUNTIME: [&str; 33] = [
    "arc",
    "atomic_i64",
    "c_string",
    "check",
    "compile",
    "cuda_context",
    "cuda_stream",
    "driver_error",
    "err",
    "error",
    "extent",
    "image",
    "kernel",
    "module",
    "none",
    "ok",
    "option",
    "ordering",
    "pieces",
    "pool",
    "product",
    "rayon",
    "result",
    "run_grid",
    "runs_on",
    "scratch",
    "self_",
    "some",
    "string",
    "sys",
    "vec",
    "device_ptr",
    "device_ptr_mut",
];

/// Lower case, words separated by underscores, no keyword.
pub fn snake(name: &str) -> String {
    let mut out = String::new();
    let mut previous = '_';
    for c in name.chars() {
        let split = c.is_uppercase() && (previous.is_lowercase() || previous.is_ascii_digit());
        if split {
            out.push('_');
        }
        match c.is_ascii_alphanumeric() || c == '_' {
            true => out.push(c.to_ascii_lowercase()),
            false => out.push('_'),
        }
        previous = c;
    }
    if out.starts_with(|c: char| c.is_ascii_digit()) || out.trim_matches('_').is_empty() {
        out.insert_str(0, "f_");
    }
    if RESERVED.contains(&out.as_str()) {
        out.push('_');
    }
    out
}

/// `CamelCase` of a `snake_case` word.
pub fn camel(word: &str) -> String {
    let parts = word.split('_').filter(|p| !p.is_empty());
    parts.map(|p| p[..1].to_ascii_uppercase() + &p[1..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_valid_and_unique() {
        let mut scope = Idents::without(&["stream"]);
        let made: Vec<String> =
            ["A", "a", "rmsNorm", "type", "2d", "x-y", "stream", "_"].iter().map(|n| scope.fresh(n)).collect();
        assert_eq!(made, ["a", "a_2", "rms_norm", "type_", "f_2d", "x_y", "stream_2", "f__"]);
    }

    #[test]
    fn functions_hide_neither_the_runtime_nor_each_other() {
        let mut names = FunctionNames::new(["sm_90a".to_string()].into_iter());
        let all =
            ["check", "extent", "product", "run_grid", "module", "f", "f_raw", "f_sm_90a", "F", "a_b", "a__b", "self"];
        let made: Vec<String> = all.iter().map(|n| names.fresh(n)).collect();
        let want = "check_2 extent_2 product_2 run_grid_2 module_2 f f_raw_2 f_sm_90a_2 f_2 a_b a__b_2 self__2";
        assert_eq!(made.join(" "), want);
    }

    #[test]
    fn types_are_camel_case() {
        assert_eq!(camel("rms_norm_2"), "RmsNorm2");
        assert_eq!(camel("f_2d"), "F2d");
    }
}

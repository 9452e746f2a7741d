//! Functions and parameters called like keywords of Rust and C++, and like what generated Rust calls its own.

use crate::common;
use std::process::Command;

/// Names that Python, and so TVMScript, has no other use for.
const NAMES: [&str; 66] = [
    "check",
    "extent",
    "product",
    "run_grid",
    "Error",
    "Kernel",
    "threads",
    "stream",
    "workspace",
    "kernels",
    "tensors",
    "buffers",
    "scalars",
    "device",
    "context",
    "Module",
    "Image",
    "Option",
    "Some",
    "Ok",
    "Err",
    "Result",
    "Vec",
    "String",
    "Self",
    "std",
    "core",
    "crate",
    "super",
    "fn",
    "let",
    "mut",
    "match",
    "impl",
    "trait",
    "struct",
    "enum",
    "type",
    "use",
    "where",
    "loop",
    "move",
    "ref",
    "unsafe",
    "dyn",
    "extern",
    "static",
    "gen",
    "macro_rules",
    "union",
    "int",
    "float",
    "double",
    "auto",
    "template",
    "namespace",
    "volatile",
    "register",
    "goto",
    "switch",
    "main",
    "usize",
    "f32",
    "i64",
    "self",
    "c_void",
];

/// Names that only an attribute can give.
const ATTRIBUTES: [&str; 10] = ["for", "while", "if", "as", "in", "async", "await", "yield", "2d", "a-b"];

fn function(k: usize, symbol: Option<&str>) -> String {
    let name = |by: usize| NAMES[(k + by) % NAMES.len()];
    let (a, b, s, n) = (name(1), name(2), name(3), name(4));
    let def = if symbol.is_some() { format!("f{k}") } else { name(0).to_string() };
    let attr = symbol.map_or(String::new(), |s| format!("    T.func_attr({{\"global_symbol\": \"{s}\"}})\n"));
    format!(
        "@T.prim_func(s_tir=True)\ndef {def}(h0: T.handle, h1: T.handle, {s}: T.float32):\n{attr}    {n} = T.int32()\n    \
         {a} = T.match_buffer(h0, ({n}, 8), \"float32\")\n    {b} = T.match_buffer(h1, ({n}, 8), \"float32\")\n    \
         for i, j in T.grid({n}, 8):\n        with T.sblock(\"{b}\"):\n            \
         v, w = T.axis.remap(\"SS\", [i, j])\n            {b}[v, w] = {a}[v, w] * {s}\n\n"
    )
}

#[test]
fn packages_compile_whatever_functions_are_called() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut text = "from tvm.script import tirx as T\n\n".to_string();
    (0..NAMES.len()).for_each(|k| text += &function(k, None));
    ATTRIBUTES.iter().enumerate().for_each(|(k, symbol)| text += &function(k, Some(symbol)));
    std::fs::write(dir.path().join("names.py"), text).expect("write the functions");
    let run = |program: &str, args: &[&str]| {
        let out = Command::new(program).args(args).current_dir(dir.path()).output();
        let out = out.unwrap_or_else(|e| panic!("{program}: {e}"));
        assert!(out.status.success(), "{program}: {}", String::from_utf8_lossy(&out.stderr));
    };
    let target = if cfg!(target_arch = "aarch64") { "cpu:aarch64" } else { "cpu:x86-64-v3" };
    std::fs::write(dir.path().join("log.jsonl"), "").expect("write the log");
    let command =
        ["apply-best", "names.py", "--log", "log.jsonl", "--target", target, "--out", "k", "--cache", "cache"];
    run(env!("CARGO_BIN_EXE_daylight"), &command);
    let rust = std::fs::read_to_string(dir.path().join("k/kernels.rs")).expect("the package");
    assert_eq!(rust.matches("_raw(tensors: &[").count(), NAMES.len() + ATTRIBUTES.len());
    if Command::new("rustc").arg("--version").output().is_err() {
        return common::skip("no rustc on the path");
    }
    run("rustc", &["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "-D", "warnings", "k/kernels.rs"]);
}

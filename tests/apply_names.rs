//! Functions and parameters called like keywords of Rust and C++, and like what generated Rust and C call their own.

use crate::common;
use std::path::PathBuf;
use std::process::Command;

/// Names that Python, and so TVMScript, has no other use for.
const NAMES: [&str; 74] = [
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
    "size_t",
    "new",
    "this",
    "errno",
    "dl_launch",
    "args",
    "memcpy",
    "cpu",
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

/// A folder with functions, and commands that succeed in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(text: &str) -> Folder {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("names.py"), text).expect("write the functions");
        std::fs::write(dir.path().join("log.jsonl"), "").expect("write the log");
        Folder(dir)
    }

    fn run(&self, program: &str, args: &[&str]) {
        let out = Command::new(program).args(args).current_dir(self.0.path()).output();
        let out = out.unwrap_or_else(|e| panic!("{program}: {e}"));
        assert!(out.status.success(), "{program}: {}", String::from_utf8_lossy(&out.stderr));
    }

    /// The Rust that a package for a target has.
    fn package(&self, target: &str) -> String {
        let daylight = env!("CARGO_BIN_EXE_daylight");
        let emit = ["--emit", "rust,c"];
        let apply = ["apply-best", "names.py", "--log", "log.jsonl", "--target", target, "--out", "k"];
        self.run(daylight, &[&apply[..], &emit].concat());
        std::fs::read_to_string(self.0.path().join("k/kernels.rs")).expect("the package")
    }

    /// Checks the types of what is C and of the header in C++.
    fn compiles_in_c(&self) {
        let strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only"];
        self.run("cc", &[&["-std=c11"], &strict[..], &["k/kernels.c"]].concat());
        match Command::new("c++").arg("--version").output() {
            Ok(_) => self.run("c++", &[&strict[..], &["-x", "c++", "k/kernels.h"]].concat()),
            Err(_) => common::skip("no C++ compiler"),
        }
    }

    /// Checks the types of the package; any warning is an error.
    fn compiles(&self, more: &[&str]) {
        let rustc =
            ["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "-D", "warnings", "k/kernels.rs"];
        self.run("rustc", &[&rustc[..], more].concat());
    }
}

pub fn no_rustc() -> bool {
    Command::new("rustc").arg("--version").output().is_err()
}

/// Functions of all names.
fn hostile() -> String {
    let mut text = "from tvm.script import tirx as T\n\n".to_string();
    (0..NAMES.len()).for_each(|k| text += &function(k, None));
    ATTRIBUTES.iter().enumerate().for_each(|(k, symbol)| text += &function(k, Some(symbol)));
    text
}

#[test]
fn packages_compile_whatever_functions_are_called() {
    let folder = Folder::new(&hostile());
    let rust = folder.package(if cfg!(target_arch = "aarch64") { "cpu:aarch64" } else { "cpu:x86-64-v3" });
    assert_eq!(rust.matches("_raw(tensors: &[").count(), NAMES.len() + ATTRIBUTES.len());
    folder.compiles_in_c();
    if no_rustc() {
        return common::skip("no rustc on the path");
    }
    folder.compiles(&[]);
}

/// A crate that these tests are linked with, as `rustc` is told of it.
pub fn linked(name: &str) -> String {
    let built = |p: &PathBuf| {
        let file = p.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(&format!("lib{name}-")) && file.ends_with(".rlib")
    };
    let found = std::fs::read_dir(deps()).expect("a folder").flatten().map(|e| e.path());
    let newest = found.filter(built).max_by_key(|p| p.metadata().and_then(|m| m.modified()).expect("a time"));
    format!("{name}={}", newest.expect("it is built before these tests").display())
}

/// Where the crates are that these tests are linked with.
pub fn deps() -> PathBuf {
    std::env::current_exe().expect("this program").parent().expect("a folder").to_path_buf()
}

#[test]
fn packages_for_gpus_compile_whatever_functions_are_called() {
    if no_rustc() || common::nvidia::compiler().is_none() {
        return common::skip("no rustc on the path, or no NVRTC");
    }
    let product = "tests/workloads/matmul/llama3_70b_tp8-gate_up-m8192n7168k8192-f16_f32acc.py";
    let product = std::fs::read_to_string(product).expect("a product");
    let folder = Folder::new(&(hostile() + &product));
    let rust = folder.package("cuda:sm_90a");
    assert_eq!(rust.matches("unsafe fn launch_raw(").count(), NAMES.len() + ATTRIBUTES.len() + 1);
    assert!(rust.contains("CUtensorMap"), "a product is there for its tensor maps");
    folder.compiles_in_c();
    let needed = format!("dependency={}", deps().display());
    folder.compiles(&["--extern", &linked("cudarc"), "--extern", &linked("half"), "-L", &needed]);
}

//! Kernels of the user's own, `FILE.cu:SYMBOL` and `FILE.c:SYMBOL`, whose launch stands in a comment of their first lines:
//!
//! ```text
//! // daylight: grid=((n + 255) // 256,1,1) block=(256,1,1) smem=0
//! ```
//!
//! Sizes are those of manifests, over the extents that `--bind` names; a single `/` rounds down as `//` does. A CUDA kernel is
//! `extern "C"` and takes the function's parameters in their order, tensors as pointers. A function in C has the interface of
//! generated C: `void f(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end)`, called for parts of the
//! blocks from 0 to the grid's first size.

use crate::assemble::Schedulable;
use crate::backend::{Arg, Dim, Language, Plan, PlanLaunch, PlanParam, Source, eval};
use crate::job::{Failure, language};
use std::collections::BTreeMap;
use std::path::Path;

/// In how many lines the launch is looked for.
const FIRST_LINES: usize = 20;
/// What such a line has.
const MARK: &str = "daylight:";

/// A kernel that can be compiled and launched.
pub struct KernelFile {
    /// Its text.
    pub source: Source,
    /// Its one launch, with the function's parameters.
    pub plan: Plan,
}

/// File and symbol of a baseline that names a kernel.
pub fn named(baseline: &str) -> Option<(&str, &str)> {
    baseline.rsplit_once(':').filter(|(file, _)| file.ends_with(".cu") || file.ends_with(".c"))
}

/// Reads a kernel for a function on its target.
///
/// # Errors
/// A file that cannot be read, is of the other kind of device or does not say its launch.
pub fn read(
    file: &str,
    symbol: &str,
    subject: &Schedulable,
    bind: &BTreeMap<String, i64>,
) -> Result<KernelFile, Failure> {
    let own = if file.ends_with(".cu") { Language::Cuda } else { Language::C };
    let wanted = language(&subject.target);
    if own != wanted {
        let ending = if wanted == Language::Cuda { "a kernel in CUDA, FILE.cu" } else { "a function in C, FILE.c" };
        return Err(Failure::usage(format!("--baseline {file}: {} takes {ending}", subject.target.id)));
    }
    let bad = |why: String| Failure::usage(format!("--baseline {file}: {why}"));
    let text = std::fs::read_to_string(Path::new(file)).map_err(|e| bad(e.to_string()))?;
    let sizes = Sizes::of(&text, bind).map_err(bad)?;
    let params = Plan::params(&subject.prepared.func, &subject.roles).map_err(bad)?;
    let launch = PlanLaunch {
        symbol: symbol.into(),
        grid: sizes.grid.map(Dim::Const),
        block: sizes.block.map(Dim::Const),
        cluster: [1; 3].map(Dim::Const),
        dynamic_smem: Dim::Const(sizes.smem),
        pdl: false,
        args: params.iter().map(argument).collect(),
    };
    let source = Source { text, language: own, target: subject.target.table_id(), symbols: vec![symbol.into()] };
    Ok(KernelFile { source, plan: Plan { params, workspaces: vec![], launches: vec![launch] } })
}

fn argument(p: &PlanParam) -> Arg {
    match p.is_tensor() {
        true => Arg::Param { param: p.index },
        false => Arg::Scalar { scalar: p.name.clone(), dtype: p.dtype },
    }
}

/// How a kernel is launched.
#[derive(PartialEq, Debug)]
struct Sizes {
    grid: [i64; 3],
    block: [i64; 3],
    smem: i64,
}

impl Sizes {
    /// Reads the sizes of the one comment that has them.
    fn of(text: &str, bind: &BTreeMap<String, i64>) -> Result<Sizes, String> {
        let said = text.lines().take(FIRST_LINES).find_map(|l| l.split_once(MARK));
        let example = "expected a comment such as // daylight: grid=(n // 256,1,1) block=(256,1,1) smem=0";
        let (_, said) =
            said.ok_or_else(|| format!("none of its first {FIRST_LINES} lines says its launch; {example}"))?;
        let said = said.trim().trim_end_matches("*/");
        let mut sizes = Sizes { grid: [1; 3], block: [1; 3], smem: 0 };
        for (name, value) in pairs(said) {
            let axes = || axes(&value, bind);
            match name.as_str() {
                "grid" => sizes.grid = axes()?,
                "block" => sizes.block = axes()?,
                "smem" => sizes.smem = size(&value, bind)?,
                _ => return Err(format!("its launch has no \"{name}\"; {example}")),
            }
        }
        Ok(sizes)
    }
}

/// `name=value` pairs; a value ends at a space outside of brackets.
fn pairs(text: &str) -> Vec<(String, String)> {
    let (mut out, mut word, mut depth) = (vec![], String::new(), 0);
    for c in text.chars().chain([' ']) {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if c.is_whitespace() && depth <= 0 {
            let (name, value) = word.split_once('=').unwrap_or((&word, ""));
            out.extend((!word.is_empty()).then(|| (name.to_string(), value.to_string())));
            word.clear();
        } else {
            word.push(c);
        }
    }
    out
}

/// Three sizes in brackets; those left out are 1.
fn axes(text: &str, bind: &BTreeMap<String, i64>) -> Result<[i64; 3], String> {
    let inner = text.strip_prefix('(').and_then(|t| t.strip_suffix(')'));
    let inner = inner.ok_or_else(|| format!("\"{text}\" is no size; write it as (n // 256,1,1)"))?;
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in inner.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        match (c, parts.last_mut()) {
            (',', _) if depth == 0 => parts.push(String::new()),
            (c, Some(part)) => part.push(c),
            (_, None) => {}
        }
    }
    if parts.len() > 3 {
        return Err(format!("\"{text}\" has {} axes, at most 3 are launched", parts.len()));
    }
    let mut out = [1; 3];
    for (to, part) in out.iter_mut().zip(&parts) {
        *to = size(part, bind)?;
    }
    Ok(out)
}

/// The value of a size, which is not negative.
fn size(text: &str, bind: &BTreeMap<String, i64>) -> Result<i64, String> {
    let dim: Dim = text.trim().replace("//", "/").replace('/', "//").parse()?;
    let value = eval(&dim, bind)?;
    if value < 0 { Err(format!("the size {text} is {value}")) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Result<Sizes, String> {
        Sizes::of(text, &BTreeMap::from([("n".to_string(), 1000)]))
    }

    #[test]
    fn launches_stand_in_comments() {
        let found =
            sizes("// mine\n// daylight: grid=((n + 255) // 256, 2) block=(min(n,128),2,1) smem=4*n\nvoid f();\n");
        assert_eq!(found, Ok(Sizes { grid: [4, 2, 1], block: [128, 2, 1], smem: 4000 }));
        assert_eq!(sizes("/* daylight: grid=(n/256) */"), Ok(Sizes { grid: [3, 1, 1], block: [1; 3], smem: 0 }));
        assert_eq!(sizes("// daylight:"), Ok(Sizes { grid: [1; 3], block: [1; 3], smem: 0 }));
    }

    /// A function with a scalar between its tensors, on a GPU.
    fn scaled() -> Schedulable {
        use crate::target::{HostCpu, Target};
        let text = "from tvm.script import tirx as T\n\n@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((512,), \"float32\"), \
                    s: T.float32, B: T.Buffer((512,), \"float32\")):\n    for i in range(512):\n        with T.sblock(\"B\"):\n            \
                    v = T.axis.spatial(512, i)\n            B[v] = A[v] * s\n";
        let func = crate::ir::read(text, "f.py").expect("it reads").remove(0);
        let target = Target::parse("cuda:sm_90a", &HostCpu::default()).expect("a known target");
        Schedulable::new(&func, &func, target).expect("it is accepted")
    }

    #[test]
    fn a_kernel_takes_the_parameters_of_the_function() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("k.cu");
        std::fs::write(&file, "// daylight: grid=(n/256) block=(256)\n").expect("written");
        let subject = scaled();
        let bind = BTreeMap::from([("n".to_string(), 512)]);
        let kernel =
            read(&file.display().to_string(), "scale", &subject, &bind).map_err(|f| f.message).expect("a kernel");
        let launch = &kernel.plan.launches[0];
        assert_eq!((launch.grid[0].as_const(), launch.block[0].as_const()), (Some(2), Some(256)));
        let scalar = Arg::Scalar { scalar: "s".into(), dtype: crate::ir::DType::F32 };
        assert_eq!(launch.args, [Arg::Param { param: 0 }, scalar, Arg::Param { param: 2 }]);
        assert_eq!((kernel.source.target.as_str(), kernel.source.symbols[0].as_str()), ("cuda:sm_90a", "scale"));
        let e = read("k.c", "scale", &subject, &bind).err().expect("another kind").message;
        assert_eq!(e, "--baseline k.c: cuda:sm_90a takes a kernel in CUDA, FILE.cu");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("void f();", "none of its first 20 lines says its launch"),
            ("// daylight: grid=(m,1,1)", "no value for `m`; bind it"),
            ("// daylight: grid=256", "\"256\" is no size"),
            ("// daylight: grid=(1,1,1,1)", "has 4 axes"),
            ("// daylight: grids=(1)", "has no \"grids\""),
            ("// daylight: smem=0-1", "is -1"),
            ("// daylight: grid=(n /)", "extent"),
        ] {
            let e = sizes(text).expect_err(text);
            assert!(e.contains(why), "{text}: {e}");
        }
        assert_eq!(named("a/b.cu:f"), Some(("a/b.cu", "f")));
        assert_eq!((named("b.jsonl"), named("b.cu"), named("cublas")), (None, None, None));
    }
}

//! Pruning before compiling: of random points of the raw knob spaces, those that no GPU could launch are
//! known without a compiler, and nothing that could be launched is ruled out for that reason.
//!
//! What could be launched is decided independently: the point is scheduled, lowered and compiled with
//! all conditions ignored, and the cubin's registers and shared memory are held against the GPU. The
//! other hard conditions rule out what has no kernel or a wrong one, and are not in question here:
//! `vector_alignment` and `vector_holds_elements` (a vector access would be torn or misaligned),
//! `whole_warps` (shuffles name all lanes), `rows_fit` and `parts_alike` (rows and parts without
//! elements, tails that are not a condition on the block alone). A minimum of resident blocks that the
//! launch bounds promise and no multiprocessor can hold counts as not launchable: the compiler drops the
//! promise, and what is launched is the kernel of another point.

use crate::common;
use crate::common::arm::arm;
use daylight::assemble::Subject;
use daylight::backend::{Compiler, Language, LocalCompiler, Places, Resources, Source, Tools};
use daylight::codegen;
use daylight::ir::{self, kernel::Program};
use daylight::lower::lower;
use daylight::rules::{Arm, Knobs, Space};
use daylight::target::{HostCpu, Target};
use rand::prelude::*;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Conditions that say that a GPU cannot launch a kernel as it is.
const LAUNCHABILITY: [&str; 5] = ["threads_per_block", "resident_threads", "vector_in_shared", "shared_memory", "grid"];
/// Points of each kind that are compiled per function.
const POINTS: usize = 7;
/// Shared memory that a launch need not ask for.
const PLAIN_SHARED: u64 = 48 << 10;

/// Functions with the rule that takes them and the target.
fn functions() -> Vec<(&'static str, &'static str, String)> {
    let file = |name: &str| {
        let path = format!("{}/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
    };
    let bench = |name: &str| file(&format!("benches/workloads/{name}.py"));
    vec![
        ("gemv.inner", "cuda:sm_90a", bench("gemv-1x4096x4096-f32")),
        ("gemv.inner", "cuda:sm_90a", bench("gemv-1x4096x14336-f32")),
        ("gemv.inner", "cuda:sm_86", wide_gemv(65_536)),
        ("reduction.inner", "cuda:sm_90a", bench("sum_last-2048x2048-f32")),
        ("reduction.inner", "cuda:sm_86", bench("max_last-32768x1024-bf16")),
        ("reduction.outer", "cuda:sm_90a", bench("sum_first-8192x8192-f32")),
        ("reduction.outer", "cuda:sm_86", bench("sum_mid-64x1024x512-f32")),
        ("fallback.cuda", "cuda:sm_90a", file("tests/workloads/elementwise/bert_base-bias_gelu-1024x3072-f16.py")),
        ("fallback.cuda", "cuda:sm_120a", negation(1 << 20, 1 << 19)),
    ]
}

/// A product with a vector that no block can hold in shared memory.
fn wide_gemv(k: i64) -> String {
    format!(
        "@T.prim_func(s_tir=True)
def main(X: T.Buffer(({k},), \"float32\"), W: T.Buffer((64, {k}), \"float32\"), O: T.Buffer((64,), \"float32\")):
    for i, r in T.grid(64, {k}):
        with T.sblock(\"O\"):
            vn, vk = T.axis.remap(\"SR\", [i, r])
            with T.init():
                O[vn] = T.float32(0.0)
            O[vn] = O[vn] + X[vk] * W[vn, vk]
"
    )
}

/// A copy of so many elements that one per thread needs more blocks than a grid has.
fn negation(m: i64, n: i64) -> String {
    format!(
        "@T.prim_func(s_tir=True)
def main(A: T.Buffer((T.int64({m}), T.int64({n})), \"float32\"), O: T.Buffer((T.int64({m}), T.int64({n})), \"float32\")):
    for i, j in T.grid(T.int64({m}), T.int64({n})):
        with T.sblock(\"O\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            O[vi, vj] = T.float32(0.0) - A[vi, vj]
"
    )
}

/// What became of a point.
struct Tried {
    /// The point, for messages.
    at: String,
    /// The launchability condition that rules it out before compiling.
    ruled_out: Option<String>,
    /// Why it cannot be launched; `Ok` for what can.
    launch: Result<(), String>,
}

#[test]
fn what_cannot_be_launched_is_known_before_compiling_and_nothing_else_is_ruled_out_for_it() {
    let tools = Tools::find(&Places::of(|k| std::env::var_os(k), None), Language::Cuda);
    if let Err(why) = &tools.nvrtc {
        return common::skip(why);
    }
    let cache = tempfile::tempdir().unwrap();
    let compiler = LocalCompiler::new(Tools { artifacts: cache.path().into(), ..tools });
    let tried: Vec<Tried> = functions()
        .par_iter()
        .flat_map_iter(|(rule, target, text)| try_points(&compiler, rule, target, text))
        .collect();
    let mut counts: BTreeMap<(bool, &str), usize> = BTreeMap::new();
    for t in &tried {
        *counts.entry((t.launch.is_ok(), t.ruled_out.as_deref().unwrap_or("let through"))).or_default() += 1;
    }
    eprintln!("(could be launched, ruled out by): {counts:#?}");
    let too_strict: Vec<String> = tried
        .iter()
        .filter(|t| t.launch.is_ok())
        .filter_map(|t| Some(format!("{}: {}", t.at, t.ruled_out.as_ref()?)))
        .collect();
    assert!(too_strict.is_empty(), "ruled out although they could be launched:\n{}", too_strict.join("\n"));
    let impossible: Vec<&Tried> = tried.iter().filter(|t| t.launch.is_err()).collect();
    let missed: Vec<String> = impossible
        .iter()
        .filter(|t| t.ruled_out.is_none())
        .map(|t| format!("{}: {}", t.at, t.launch.as_ref().err().cloned().unwrap_or_default()))
        .collect();
    assert!(impossible.len() >= 40, "only {} points that cannot be launched", impossible.len());
    assert!(missed.len() * 10 <= impossible.len(), "{} of {}:\n{}", missed.len(), impossible.len(), missed.join("\n"));
    // Each condition had its say.
    for name in ["threads_per_block", "resident_threads", "vector_in_shared", "grid"] {
        assert!(counts.contains_key(&(false, name)), "no point was ruled out by {name}");
    }
}

/// Compiles random points of a function: some that the space lets through, some that it says cannot be
/// launched.
fn try_points(compiler: &LocalCompiler, rule: &str, target: &str, text: &str) -> Vec<Tried> {
    let target = Target::parse(target, &HostCpu::default()).expect("a known target");
    let func = ir::read(text, rule).unwrap_or_else(|e| panic!("{rule}: {e}")).remove(0);
    let subject = Subject::new(&func, &func, target).unwrap_or_else(|d| panic!("{rule}: {}", d.reason));
    let arm = arm(rule, &subject.prepared, &subject.target);
    let tried = points(&arm.space).into_iter();
    tried.filter_map(|(knobs, why)| try_point(compiler, &subject, &arm, &knobs, why)).collect()
}

/// Random raw points with the launchability condition that they break, if any.
fn points(space: &Space) -> Vec<(Knobs, Option<&'static str>)> {
    let mut rng = StdRng::seed_from_u64(11);
    let mut taken: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    let mut out = vec![];
    for _ in 0..4000 {
        let knobs = space.point(rng.random_range(0..space.size()));
        let why = space.possible(&knobs).err().map(|e| e.predicate);
        let n = taken.entry(why).or_default();
        if why.is_none_or(|w| LAUNCHABILITY.contains(&w)) && *n < POINTS {
            *n += 1;
            out.push((knobs, why));
        }
    }
    out
}

/// `None` for a point that has no kernel: no compiler will see it.
fn try_point(
    compiler: &LocalCompiler,
    subject: &Subject,
    arm: &Arm,
    knobs: &Knobs,
    why: Option<&'static str>,
) -> Option<Tried> {
    let at = format!("{} {knobs} on {}", arm.space.form, subject.target.id);
    let program = match catch_unwind(AssertUnwindSafe(|| program(subject, arm, knobs))).ok()? {
        Ok(program) => program,
        // Lowering knows two of the limits too.
        Err(launch) if ["threads per block", "bytes of shared memory"].iter().any(|w| launch.contains(w)) => {
            let ruled_out = Some(why.unwrap_or("lowering").to_string());
            return Some(Tried { at, ruled_out, launch: Err(launch) });
        }
        Err(_) => return None,
    };
    let fits = || subject.candidate(arm, knobs).err().map(|e| e.predicate);
    let ruled_out = why.map(str::to_string).or_else(fits);
    let launch = compile(compiler, &program, &subject.target).and_then(|res| judge(&program, &subject.target, res));
    Some(Tried { at, ruled_out, launch })
}

/// The kernels of a point, whatever conditions it breaks.
fn program(subject: &Subject, arm: &Arm, knobs: &Knobs) -> Result<Program, String> {
    let schedule = arm.schedule(knobs).map_err(|e| e.to_string())?;
    lower(schedule.func(), &subject.target, &[]).map_err(|e| e.to_string())
}

fn compile(compiler: &LocalCompiler, program: &Program, target: &Target) -> Result<Resources, String> {
    let symbols = program.launches.iter().map(|l| l.kernel.symbol.clone()).collect();
    let (text, language) = (codegen::cuda(program), Language::Cuda);
    let source = Source { text, language, target: target.table_id(), symbols };
    compiler.compile(&source).map(|a| a.res).map_err(|e| e.message)
}

/// Holds a compiled program against what its launches may ask of the GPU.
fn judge(program: &Program, target: &Target, res: Resources) -> Result<(), String> {
    let within =
        |what: &str, n: u64, limit: u64| if n <= limit { Ok(()) } else { Err(format!("{n} {what} of {limit}")) };
    for l in &program.launches {
        let threads = u64::from(l.threads());
        within("threads", threads, u64::from(target.max_threads))?;
        let promised = u64::from(l.min_blocks.unwrap_or(1));
        within("threads promised to be resident", promised * threads, u64::from(target.threads_per_sm))?;
        let warps = threads.div_ceil(32);
        let registers = (u64::from(res.regs) * 32).next_multiple_of(256) * warps;
        within("registers", registers, u64::from(target.regs_per_sm))?;
        // Shared memory beyond the plain limit is sized at launch, and the cubin does not know it.
        let declared = l.kernel.shared_bytes();
        let shared = if declared > PLAIN_SHARED { declared } else { u64::from(res.smem) };
        within("bytes of shared memory", shared, u64::from(target.smem_per_block))?;
        for (axis, limit) in [(0, i32::MAX as u64), (1, 65535), (2, 65535)] {
            within("blocks", l.grid[axis].as_int().map_or(0, |n| n as u64), limit)?;
        }
    }
    Ok(())
}

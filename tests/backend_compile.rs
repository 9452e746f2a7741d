//! Compile workers: real ones, and ones that crash, hang or talk nonsense.

use crate::common;
use daylight::backend::{
    Artifact, CompileError, CompileFailure, Compiler, Format, Language, LocalCompiler, Places, Source, Tools, Warning,
    nvrtc,
};
use daylight::runner::{CompilePool, Limits, WorkerCommand};
use std::path::Path;
use std::time::{Duration, Instant};

fn limits(seconds: u64) -> Limits {
    Limits { compile: Duration::from_secs(seconds), ..Limits::default() }
}

fn tools(cache: &Path, language: Language) -> Tools {
    Tools::find(&Places::of(|k| std::env::var_os(k), Some(cache.to_path_buf())), language)
}

fn source(text: &str) -> Source {
    Source {
        text: text.to_string(),
        language: Language::C,
        target: if cfg!(target_arch = "x86_64") { "cpu:x86-64-v3" } else { "cpu:aarch64" }.to_string(),
        symbols: vec!["f".to_string()],
    }
}

fn pool(cache: &Path, workers: usize) -> CompilePool {
    let command = WorkerCommand::daylight(env!("CARGO_BIN_EXE_daylight"), "compile");
    CompilePool::new(command, tools(cache, Language::C), workers, limits(20))
}

/// A worker that is a line of shell script.
fn script(text: &str) -> WorkerCommand {
    WorkerCommand { program: "/bin/sh".into(), args: vec!["-c".into(), text.into()] }
}

#[test]
fn the_pool_compiles_in_order_and_finds_what_it_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool(folder.path(), 2);
    let texts: Vec<Source> = (0..6).map(|i| source(&format!("int f(void) {{ return {i}; }}"))).collect();
    let first: Vec<Artifact> = pool.compile_many(&texts).into_iter().map(|r| r.unwrap()).collect();
    assert!(first.iter().all(|a| a.format == Format::SharedObject && a.bytes.starts_with(b"\x7fELF")));
    let hashes: std::collections::BTreeSet<String> = first.iter().map(Artifact::hash).collect();
    assert_eq!(hashes.len(), texts.len());
    let again: Vec<Artifact> = pool.compile_many(&texts).into_iter().map(|r| r.unwrap()).collect();
    assert_eq!(first, again);
    let local = LocalCompiler::new(tools(folder.path(), Language::C));
    assert_eq!(local.compile(&texts[3]).unwrap(), first[3]);
}

#[test]
fn a_rejected_text_names_its_line_and_costs_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool(folder.path(), 1);
    let results = pool.compile_many(&[source("int f(void) {\n  retrun 1;\n}"), source("int f(void) { return 1; }")]);
    let error = results[0].as_ref().unwrap_err();
    assert_eq!(error.failure, CompileFailure::Rejected);
    assert!(error.message.contains("kernel.c:2:"), "{error}");
    assert!(results[1].is_ok());
}

#[test]
fn warnings_are_kept_on_success() {
    let folder = tempfile::tempdir().unwrap();
    let local = LocalCompiler::new(tools(folder.path(), Language::C));
    let artifact = local.compile(&source("#warning look here\nint f(void) { return 1; }")).unwrap();
    let said = |w: &Warning| (w.code.clone(), w.text.contains("look here"));
    assert_eq!(artifact.warnings.iter().map(said).collect::<Vec<_>>(), [("-Wcpp".to_string(), true)]);
}

#[test]
fn a_compilation_without_end_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let cc = folder.path().join("slow-cc");
    let pid = folder.path().join("pid");
    let text =
        format!("#!/bin/sh\n[ \"$1\" = --version ] && echo slow 1 && exit\necho $$ > {}\nsleep 600\n", pid.display());
    std::fs::write(&cc, text).unwrap();
    std::fs::set_permissions(&cc, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let command = WorkerCommand::daylight(env!("CARGO_BIN_EXE_daylight"), "compile");
    let tools = Tools { cc: Ok(cc), ..tools(folder.path(), Language::C) };
    let pool = CompilePool::new(command, tools, 1, limits(3));
    let start = Instant::now();
    let error = pool.compile(&source("int f(void) { return 1; }")).unwrap_err();
    assert_eq!((error.failure, error.outcome()), (CompileFailure::TimedOut, "timed_out"));
    assert!(start.elapsed() < Duration::from_secs(15));
    let pid = std::fs::read_to_string(pid).unwrap();
    let gone = || !Path::new("/proc").join(pid.trim()).join("fd").exists();
    assert!(
        (0..100).any(|_| gone() || {
            std::thread::sleep(Duration::from_millis(20));
            false
        }),
        "cc {pid} still runs"
    );
}

#[test]
fn a_worker_that_dies_or_talks_nonsense_is_a_crash_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let error = |command: WorkerCommand| -> CompileError {
        let pool = CompilePool::new(command, tools(folder.path(), Language::C), 1, limits(20));
        pool.compile(&source("int f(void) { return 1; }")).unwrap_err()
    };
    let died = error(script("echo no luck >&2; read line; exit 3"));
    assert_eq!(died.failure, CompileFailure::Crashed);
    assert!(died.message.contains("exit code 3: no luck"), "{died}");
    let killed = error(script("read line; kill -SEGV $$"));
    assert!(killed.message.contains("was killed by SIGSEGV"), "{killed}");
    let garbage = error(script("read line; echo 'hello there'; sleep 60"));
    assert!(garbage.message.contains("no reply: hello there"), "{garbage}");
    let other_id = error(script("read line; echo '{\"v\":1,\"id\":7,\"body\":{\"Ok\":null}}'; sleep 60"));
    assert_eq!(other_id.failure, CompileFailure::Crashed);
    let absent = error(WorkerCommand { program: "/nonexistent/daylight".into(), args: vec![] });
    assert!(absent.message.contains("could not be started"), "{absent}");
}

#[test]
fn a_missing_tool_is_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let places = Places { cache: folder.path().to_path_buf(), ..Places::default() };
    let error = LocalCompiler::new(Tools::find(&places, Language::C)).compile(&source("")).unwrap_err();
    assert_eq!(error.failure, CompileFailure::ToolMissing);
    assert!(error.message.contains("install gcc or clang"), "{error}");
}

/// Kernels that NVRTC compiles under protest: a register count that it cannot raise, accumulators
/// that are read while matrix instructions write them, results that nobody waits for.
const PROTESTS: [(&str, &str); 3] = [
    (
        "ignored",
        r#"extern "C" __global__ void ignored(float *o) { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); *o = 1; }"#,
    ),
    ("serialised", "FENCE; MMA; o[5] = d[3]; MMA; COMMIT; WAIT;"),
    ("waits", "FENCE; MMA; COMMIT;"),
];

/// A kernel of one warpgroup around a matrix instruction.
fn warpgroup(name: &str, body: &str) -> String {
    let list = |f: &dyn Fn(usize) -> String| (0..8).map(f).collect::<Vec<_>>().join(", ");
    let (registers, outputs) = (list(&|i| format!("%{i}")), list(&|i| format!("\"+f\"(d[{i}])")));
    let mma = format!(
        "asm volatile(\"wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {{{registers}}}, %8, %9, 1, 1, 1, 0, 0;\" \
         : {outputs} : \"l\"(a), \"l\"(b))"
    );
    let sync = |what: &str| format!("asm volatile(\"wgmma.{what};\" ::: \"memory\")");
    let body = body
        .replace("FENCE", &sync("fence.sync.aligned"))
        .replace("MMA", &mma)
        .replace("COMMIT", &sync("commit_group.sync.aligned"))
        .replace("WAIT", &sync("wait_group.sync.aligned 0"));
    format!(
        "extern \"C\" __global__ void __launch_bounds__(128, 1) {name}(float *o, unsigned long long a, unsigned long long b) \
         {{ float d[8] = {{}}; {body} for (int i = 0; i < 8; i++) o[threadIdx.x * 8 + i] = d[i]; }}"
    )
}

/// Runs where NVRTC is installed; says so where it is not.
#[test]
fn what_nvrtc_says_at_success_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let library = match nvrtc::find_nvrtc(&Places::of(|k| std::env::var_os(k), None)) {
        Ok(library) => library,
        Err(why) => return common::skip(&why),
    };
    let local = LocalCompiler::new(Tools { nvrtc: Ok(library), ..tools(folder.path(), Language::Cuda) });
    let mut said = String::new();
    for (name, body) in PROTESTS {
        let text = if body.contains("__global__") { body.to_string() } else { warpgroup(name, body) };
        let source =
            Source { text, language: Language::Cuda, target: "cuda:sm_90a".into(), symbols: vec![name.into()] };
        let first = local.compile(&source).unwrap();
        assert_eq!(local.compile(&source).unwrap().warnings, first.warnings, "the cache keeps them");
        first
            .warnings
            .iter()
            .for_each(|w| said.push_str(&format!("{} {w}\n", if w.loses_speed() { "slow" } else { "note" })));
    }
    common::golden("golden/backend/nvrtc_warnings.txt", &said);
}

/// Runs where NVRTC is installed; says so where it is not.
#[test]
fn nvrtc_gives_cubins_with_registers_and_shared_memory() {
    let folder = tempfile::tempdir().unwrap();
    let places = Places::of(|k| std::env::var_os(k), None);
    let Ok(library) = nvrtc::find_nvrtc(&places) else {
        common::skip("no NVRTC; `daylight doctor --fetch-nvrtc` installs it");
        return;
    };
    let tools = Tools { nvrtc: Ok(library), ..tools(folder.path(), Language::C) };
    let command = WorkerCommand::daylight(env!("CARGO_BIN_EXE_daylight"), "compile");
    let pool = CompilePool::new(command, tools.clone(), 2, limits(20));
    let text = "extern \"C\" __global__ void f(float* a) {\n  __shared__ float s[64];\n  s[threadIdx.x] = a[threadIdx.x];\n  __syncthreads();\n  a[threadIdx.x] = s[63 - threadIdx.x];\n}\n";
    let cuda = |text: &str, target: &str| Source {
        text: text.to_string(),
        language: Language::Cuda,
        target: target.to_string(),
        symbols: vec!["f".to_string()],
    };
    for target in ["cuda:sm_80", "cuda:sm_90a", "cuda:sm_100a", "cuda:sm_103a", "cuda:sm_120a"] {
        let artifact = pool.compile(&cuda(text, target)).unwrap();
        assert_eq!(artifact.format, Format::Cubin);
        assert!(artifact.res.regs > 4 && artifact.res.smem >= 256 && artifact.res.spill == 0, "{artifact:?}");
    }
    let error = pool.compile(&cuda("extern \"C\" __global__ void f() { nonsense; }", "cuda:sm_90a")).unwrap_err();
    assert!(error.message.contains("kernel.cu(1): error"), "{error}");
    let wrong = pool.compile(&cuda(text, "cuda:hopper")).unwrap_err();
    assert!(wrong.message.contains("is not a CUDA target"), "{wrong}");
    let ptx = LocalCompiler::new(tools).nvrtc().unwrap().ptx(text, "cuda:sm_90a").unwrap();
    assert!(ptx.contains(".target sm_90a"));
}

//! Kernels that start while what was launched before them ends: their text, their launch, and where there are none.

use crate::common::apply::untuned;
use crate::lower_cases::gpu;
use daylight::apply::{self, Constant, Emit, Options, Unit};
use daylight::assemble::{Input, Overlap, load};
use daylight::backend::{Artifact, CompileError, Compiler, Format, Resources, Source};
use daylight::ir::instr::Op;
use daylight::ir::kernel::{Array, ArrayScope, KStmt, KernelParam, Launch, Program};
use daylight::ir::{DType, ExprKind, Name, Param};
use daylight::lower::{lower, overlapping};
use daylight::rules::Spaces;
use daylight::rules::{Prepared, verdicts};
use daylight::runner::fake::FakeCompiler;
use daylight::target::Target;
use daylight::tune::{Arms, Build, RuleBuild};
use std::collections::BTreeSet;
use std::path::PathBuf;

fn units(target: &str, file: &str, overlap: bool) -> Vec<Unit> {
    made(target, file, overlap, &[]).unwrap_or_else(|e| panic!("{e}"))
}

fn made(target: &str, file: &str, overlap: bool, constant: &[&str]) -> Result<Vec<Unit>, String> {
    compiled(target, file, overlap, (constant, None))
}

/// The functions of a file, that of run-time size at 64.
fn inputs(file: &str) -> Vec<Input> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
    let bind = if file == PLAIN { [("n".to_string(), 64)].into() } else { Default::default() };
    let read = load(&bind, &[path]).expect("reads");
    read.into_iter().map(|i| i.unwrap_or_else(|e| panic!("{}", e.failure.message))).collect()
}

fn compiled(
    target: &str,
    file: &str,
    overlap: bool,
    (constant, compiler): (&[&str], Option<&dyn Compiler>),
) -> Result<Vec<Unit>, String> {
    let constant: Vec<Constant> = constant.iter().map(|c| c.parse().expect("function and tensor")).collect();
    let inputs = inputs(file);
    let host = daylight::machine::Machine::here(None).host;
    let targets = [Target::parse(target, &host).expect("a target")];
    let options =
        Options { overlap, constant: &constant, cuda: compiler.map(|c| (c, "nvrtc 13.0".into())), ..untuned(&targets) };
    apply::units(&inputs, &options).map_err(|f| f.message)
}

const WAIT: &str = "asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");";
const NEXT: &str = "asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");";
const VECTOR: &str = "tests/workloads/gemv/llama3_8b-o_proj-n4096k4096-f16.py";
const PLAIN: &str = "examples/consumer/kernels/scale_rows.py";

/// One kernel of few blocks, which lets the next one start at once, and one of many.
#[test]
fn kernels_wait_before_they_touch_memory() {
    for (file, few) in [(PLAIN, true), ("tests/workloads/transpose/llama3_8b-down_weight-4096x14336-f16.py", false)] {
        let [plain, overlapping] = [false, true].map(|o| units("cuda:sm_90a", file, o).remove(0));
        let text = overlapping.text.replacen(&format!("  {WAIT}\n"), "", 1);
        let text = if few { text.replacen(&format!("  {NEXT}\n"), "", 1) } else { text };
        assert_eq!(text, plain.text, "nothing else differs");
        assert_eq!(
            (overlapping.text.matches(WAIT).count(), overlapping.text.matches(NEXT).count()),
            (1, usize::from(few))
        );
        let body = overlapping.text.split("__global__").nth(1).and_then(|t| t.split_once("{\n")).expect("a kernel").1;
        let first = if few { NEXT } else { WAIT };
        let statements = body.lines().map(str::trim_start).find(|l| !l.starts_with("const int ") && !l.ends_with("];"));
        assert_eq!(statements, Some(first), "{body}");
    }
}

/// Blocks of more than half of the shared memory share no multiprocessor, so that few of the next launch's would find room,
/// and those anywhere.
#[test]
fn blocks_that_leave_no_room_let_none_in() {
    let input = inputs(PLAIN).remove(0);
    let prepared = Prepared::new(&input.func).expect("it is accepted");
    let arm = verdicts(&prepared, &gpu(), &Spaces::built_in()).into_iter().find_map(|v| v.arm.ok()).expect("a rule");
    let s = arm.schedule(&arm.default().expect("a point")).expect("its steps hold");
    let first = |kib: u32| {
        let mut program = lower(s.func(), &gpu(), &[]).expect("it is lowered");
        let (name, dtype, scope) = (Name::from("tiles"), DType::U8, ArrayScope::Shared);
        program.launches[0].kernel.arrays.push(Array { name, dtype, len: kib << 10, scope, align: 128 });
        let body = overlapping(&program, &gpu(), &BTreeSet::new()).launches.remove(0).kernel.body;
        let KStmt::Instr(first) = &body[0] else { panic!("{body:?}") };
        first.op.clone()
    };
    assert_eq!([64, 112, 114, 196].map(first), [Op::GridLaunch, Op::GridLaunch, Op::GridWait, Op::GridWait]);
}

#[test]
fn launches_and_manifest_say_so() {
    let emit = Emit { rust: true, ..Emit::default() };
    for overlap in [false, true] {
        let files = apply::files(&units("cuda:sm_90a", PLAIN, overlap), emit.clone()).expect("files");
        let text = |name: &str| String::from_utf8_lossy(&files[name]).into_owned();
        let (rust, manifest) = (text("kernels.rs"), text("manifest.json"));
        assert_eq!(rust.contains("unsafe { launch_overlapping(self.kernels[0].0"), overlap);
        assert_eq!(rust.contains("result::launch_kernel(self.kernels[0].0"), !overlap);
        assert!(manifest.replace(' ', "").contains(&format!("\"pdl\":{overlap}")), "{manifest}");
    }
}

/// sm_89 has no such instruction, a CPU no stream.
#[test]
fn where_there_is_no_overlap_nothing_changes() {
    for target in ["cuda:sm_89", "cpu:x86-64-v3"] {
        let [plain, asked] = [false, true].map(|o| units(target, PLAIN, o).remove(0));
        assert_eq!(plain.text, asked.text);
        assert!(asked.plan.launches.iter().all(|l| !l.pdl));
    }
}

/// Lines of the kernel that read a parameter or order launches, in order.
fn order(unit: &Unit) -> Vec<&'static str> {
    let kinds = [("&p0[", "x"), ("&p1[", "w"), ("griddepcontrol.wait", "wait"), ("launch_dependents", "next")];
    let lines = unit.text.lines().skip_while(|l| !l.contains("__global__"));
    lines.filter_map(|l| kinds.iter().find(|(text, _)| l.contains(text)).map(|(_, kind)| *kind)).collect()
}

#[test]
fn constant_tensors_are_read_before_the_wait() {
    let name = "llama3_8b-o_proj-n4096k4096-f16";
    let of = |constant: &[&str]| order(&made("cuda:sm_90a", VECTOR, true, constant).expect("units")[0]);
    assert_eq!(of(&[]), ["wait", "x", "w"]);
    assert_eq!(of(&[&format!("{name}.w")]), ["w", "next", "wait", "x"]);
}

/// Of the step ahead of the loop; the next launch is let in after that.
#[test]
fn constant_tensors_are_copied_to_shared_memory_before_the_wait() {
    let file = "tests/workloads/matmul/llama3_8b-o_proj_residual-m512n4096k4096-f16_f32acc.py";
    let of = |constant: &[&str]| order(&made("cuda:sm_120a", file, true, constant).expect("units")[0]);
    assert_eq!(of(&[]), ["wait", "x", "w", "x", "w"]);
    assert_eq!(of(&["fused_NT_matmul_cast_add.w"]), ["w", "wait", "x", "x", "w", "next"]);
}

/// A compiler that has too few registers for what is read before the wait.
struct Narrow;

impl Compiler for Narrow {
    fn compile(&self, source: &Source) -> Result<Artifact, CompileError> {
        let early = source.text.find("&p1[") < source.text.find("griddepcontrol.wait");
        Ok(Artifact {
            format: Format::Cubin,
            bytes: source.text.as_bytes().into(),
            path: PathBuf::new(),
            res: Resources { spill: if early { 8 } else { 0 }, ..Resources::default() },
            warnings: vec![],
            compiler: "nvrtc 13.0".into(),
        })
    }
}

#[test]
fn kernels_that_would_spill_wait_first() {
    let weights = ["llama3_8b-o_proj-n4096k4096-f16.w"];
    let unit = compiled("cuda:sm_90a", VECTOR, true, (&weights, Some(&Narrow))).expect("units").remove(0);
    assert_eq!(order(&unit), ["wait", "x", "w"]);
    assert_eq!(unit.bytes, unit.text.as_bytes(), "the file is of the same text");
}

#[test]
fn constant_tensors_are_those_that_a_function_reads() {
    let name = "llama3_8b-o_proj-n4096k4096-f16";
    let refused = |c: &str| made("cuda:sm_90a", VECTOR, true, &[c]).expect_err("refused");
    assert_eq!(refused("project.w"), "the constant tensor project.w: there is no function `project`");
    let of = |tensor: &str| refused(&format!("{name}.{tensor}")).replace(name, "F");
    assert_eq!(of("weight"), "the constant tensor F.weight: `F` has no tensor `weight`");
    assert_eq!(of("NT_matmul"), "the constant tensor F.NT_matmul: `F` writes it");
    assert_eq!("w".parse::<Constant>().expect_err("refused"), "`w` is no function and tensor, such as project.w");
}

/// True when all that is done after `stmts` was waited for; names what of `other` is touched before.
fn waited(stmts: &[KStmt], mut done: bool, other: &BTreeSet<Name>, early: &mut Vec<String>) -> bool {
    for s in stmts {
        if let KStmt::Instr(i) = s
            && i.op == Op::GridWait
        {
            done = true;
        }
        let mut touched: Vec<Name> = vec![];
        match s {
            KStmt::Store { array, .. } => touched.push(array.clone()),
            KStmt::Copy { dst, src, .. } => touched.extend([dst.clone(), src.clone()]),
            KStmt::Instr(i) => touched.extend(i.places.iter().map(|p| p.array.clone()).chain(i.op.map().cloned())),
            _ => {}
        }
        s.for_each_expr(|e| {
            e.visit(&mut |e| {
                if let ExprKind::Load { buffer, .. } = e.kind() {
                    touched.push(buffer.clone());
                }
            });
        });
        if !done {
            early.extend(touched.iter().filter(|n| other.contains(*n)).map(ToString::to_string));
        }
        done = match s {
            KStmt::For { extent, body, .. } => {
                let inside = waited(body, done, other, early);
                done || inside && extent.as_int().is_some_and(|n| n > 0)
            }
            KStmt::If { then, otherwise, .. } => {
                let [a, b] = [then, otherwise].map(|body| waited(body, done, other, early));
                a && b
            }
            _ => done,
        };
    }
    done
}

/// The parameters of a kernel that something may change while it runs.
fn others(l: &Launch, constant: &BTreeSet<Name>) -> BTreeSet<Name> {
    let of = |p: &KernelParam| match p {
        KernelParam::TensorMap(m) => (!constant.contains(&m.buffer)).then(|| m.name.clone()),
        KernelParam::Pointer { name, .. } => (!constant.contains(name)).then(|| name.clone()),
        KernelParam::Scalar { .. } => None,
    };
    l.kernel.params.iter().filter_map(of).collect()
}

/// Each buffer that the program only reads.
fn constants(program: &Program) -> Vec<Name> {
    let params = || program.launches.iter().flat_map(|l| &l.kernel.params);
    let written =
        |b: &Name| params().any(|p| matches!(p, KernelParam::Pointer { name, written: true, .. } if name == b));
    let buffers = program.params.iter().filter_map(|p| match p {
        Param::Buffer(b) => Some(b.clone()),
        Param::Scalar { .. } => None,
    });
    buffers.filter(|b| !written(b)).collect()
}

/// Whatever is said to be constant, all else is waited for.
#[test]
fn kernels_of_the_corpus_wait_for_all_that_may_change() {
    let target = gpu();
    let mut moved = 0;
    for (name, f) in crate::lower_rules::corpus() {
        let Ok(input) = Prepared::new(&f) else { continue };
        for v in verdicts(&input, &target, &Spaces::built_in()) {
            let Some(Ok(s)) = v.arm.ok().and_then(|arm| Some(arm.schedule(&arm.default()?))) else { continue };
            let Ok(program) = lower(s.func(), &target, &[]) else { continue };
            for constant in constants(&program).into_iter().map(|b| BTreeSet::from([b])) {
                for l in &overlapping(&program, &target, &constant).launches {
                    let mut early = vec![];
                    let waits = waited(&l.kernel.body, false, &others(l, &constant), &mut early);
                    assert!(waits, "{name} {}: a way without a wait", v.rule);
                    assert!(early.is_empty(), "{name} {}: {early:?} before the wait", v.rule);
                    let first = l.kernel.body.iter().find(|s| !matches!(s, KStmt::Instr(i) if i.op == Op::GridLaunch));
                    moved += usize::from(!matches!(first, Some(KStmt::Instr(i)) if i.op == Op::GridWait));
                }
            }
        }
    }
    assert!(moved > 20, "{moved} launches read something before they wait");
}

/// What is measured with `tune --overlap` is what is shipped, and the log says so.
#[test]
fn candidates_are_measured_as_they_are_shipped() {
    let input = inputs(VECTOR).remove(0);
    let subject = input.schedulable(&gpu()).expect("it is accepted");
    let spaces = Spaces::built_in();
    let arms = Arms::new(subject.arms(&spaces), gpu());
    let point = arms.defaults().remove(0);
    let folder = tempfile::tempdir().expect("a folder");
    let compiler = FakeCompiler::new(folder.path());
    let built = |constant: Option<&[&str]>| {
        let parsed = |all: &[&str]| all.iter().map(|c| c.parse().expect("a constant")).collect::<Vec<Constant>>();
        let overlap = constant.map(|all| Overlap::new(&input, &parsed(all)));
        let flags = overlap.as_ref().map(Overlap::flags).unwrap_or_default();
        let overlap = overlap.as_ref().map(|o| (o, &compiler as &dyn Compiler));
        let made = RuleBuild { subject: &subject, arms: &arms, overlap }.build(&point).expect("a kernel");
        (made, flags.join(", "))
    };
    let weights = ["llama3_8b-o_proj-n4096k4096-f16.w"];
    for (constant, want) in [(&[][..], "overlap"), (&weights, "overlap, constant 1")] {
        let shipped = compiled("cuda:sm_90a", VECTOR, true, (constant, Some(&compiler))).expect("a unit").remove(0);
        let (made, flags) = built(Some(constant));
        assert_eq!((made.source.text, flags.as_str()), (shipped.text, want));
        assert!(made.plan.launches.iter().all(|l| l.pdl));
    }
    let (plain, flags) = built(None);
    assert!(flags.is_empty() && plain.plan.launches.iter().all(|l| !l.pdl) && !plain.source.text.contains(WAIT));
}

/// A GPU that can is needed, and a tensor that is there; the command for what is not tuned measures as it is shipped.
#[test]
fn the_command_that_tunes_says_how_kernels_are_made() {
    let unit = made("cuda:sm_90a", VECTOR, true, &["llama3_8b-o_proj-n4096k4096-f16.w"]).expect("a unit").remove(0);
    let why = unit.untuned.expect("nothing is tuned");
    assert!(why.ends_with("--overlap --constant llama3_8b-o_proj-n4096k4096-f16.w"), "{why}");
    let plain = units("cuda:sm_90a", VECTOR, false).remove(0).untuned.expect("nothing is tuned");
    assert!(!plain.contains("--overlap"), "{plain}");
    let old = units("cuda:sm_89", VECTOR, true).remove(0).untuned.expect("nothing is tuned");
    assert!(!old.contains("--overlap"), "{old}");
}

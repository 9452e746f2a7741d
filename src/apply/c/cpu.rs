//! Kernels for the CPU in C: a function that runs all of a tensor function, and one that runs some blocks of one of its
//! grids, for callers with threads of their own.

use super::{Part, args, bytes_of, comment, inner_name};
use crate::apply::interface::{Function, Interface, Tensor, interface};
use crate::apply::lang::{Lang, braced};
use crate::apply::rust_cpu::link_name;
use crate::apply::unit::Unit;
use crate::apply::workspace;
use crate::backend::plan::Init;
use crate::backend::{Arg, PlanLaunch, Role, cc};
use crate::ir::DType;
use std::collections::{BTreeMap, BTreeSet};

/// What functions for CPUs put into header and source.
///
/// # Errors
/// A sentence: an extent cannot be written in C.
pub(super) fn part(functions: &[Function<'_>], name: &str) -> Result<Part, String> {
    let units: Vec<&Unit> = functions.iter().flatten().copied().flatten().copied().collect();
    let mut header = include_str!("../runtime/c_cpu.h").replace("@COMPILE@", &compile(&units, name)?);
    let most = |count: fn(&Arg) -> bool| {
        let of = |l: &PlanLaunch| l.args.iter().filter(|a| count(a)).count();
        units.iter().flat_map(|u| &u.plan.launches).map(of).max().unwrap_or(0).max(1)
    };
    let scalars = most(|a| matches!(a, Arg::Scalar { .. }));
    let buffers = most(|a| !matches!(a, Arg::Scalar { .. }));
    let runtime = include_str!("../runtime/c_cpu.c");
    let mut source = runtime.replace("@BUFFERS@", &buffers.to_string()).replace("@SCALARS@", &scalars.to_string());
    source.push_str(&tests_of_levels(&units));
    for f in functions {
        let i = interface(f, Lang::C);
        header.push_str(&declarations(f, &i, name));
        source.push_str(&definitions(f, &i, name)?);
    }
    Ok(Part { header, source })
}

/// Lines of a comment: how the files are compiled.
fn compile(units: &[&Unit], name: &str) -> Result<String, String> {
    let mut files: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for u in units {
        files.entry(&u.target.id).or_default().insert(&u.file);
    }
    let mut out = format!("//   cc -std=c11 -O2 -c {name}.c\n");
    for (target, files) in files {
        let options = cc::options(target).map_err(|e| e.message)?.join(" ");
        let files: Vec<&str> = files.into_iter().collect();
        out.push_str(&format!("//   cc {options} -c {}\n", files.join(" ")));
    }
    Ok(out)
}

fn pointer(t: &Tensor) -> String {
    format!("{}{} *{}", if t.written { "" } else { "const " }, t.element, t.ident)
}

/// The beginning of the functions of a tensor function.
fn stem(f: &Function<'_>, package: &str) -> String {
    format!("{package}_{}_cpu", f[0][0].name)
}

/// What the header says of a function.
fn declarations(f: &Function<'_>, i: &Interface, package: &str) -> String {
    let mut out = format!("\n// {}\n{}", f[0][0].name, comment(f, i.docs()));
    if wants_zeros(f) {
        out.push_str("// Before parts of the first grid are run, the workspace holds zeros.\n");
    }
    [whole_signature, bytes_signature, grid_signature, part_signature]
        .iter()
        .for_each(|signature| out.push_str(&format!("{};\n", signature(i, &stem(f, package)))));
    out
}

fn whole_signature(i: &Interface, stem: &str) -> String {
    format!("int {stem}({}, void *workspace)", args::outer(i, &pointer).trim_start_matches(", "))
}

fn bytes_signature(i: &Interface, stem: &str) -> String {
    format!("size_t {stem}_workspace_bytes({})", args::list(&args::outer_extents(i)))
}

fn grid_signature(i: &Interface, stem: &str) -> String {
    format!("int64_t {stem}_grid(size_t launch{})", args::outer_extents(i))
}

fn part_signature(i: &Interface, stem: &str) -> String {
    let outer = args::outer(i, &pointer);
    format!("int {stem}_part(size_t launch, int64_t begin, int64_t end{outer}, void *workspace)")
}

fn wants_zeros(f: &Function<'_>) -> bool {
    f.iter().copied().flatten().flat_map(|u| &u.plan.workspaces).any(|w| w.init != Init::None)
}

fn definitions(f: &Function<'_>, i: &Interface, package: &str) -> Result<String, String> {
    let stem = stem(f, package);
    let mut ordered: Vec<&[&Unit]> = f.clone();
    ordered.sort_by_key(|units| std::cmp::Reverse(units[0].target.vector_bytes));
    let mut out = String::new();
    for units in &ordered {
        out.push_str(&variant(units, i)?);
    }
    for text in [bytes(&ordered, i, &stem), step(&ordered, i), grid(f, i, &stem), part_of(f, i, &stem)] {
        out.push_str(&text);
    }
    Ok(out + &whole(f, i, &stem))
}

/// The compiler's name of an architecture and the run-time test for its level. Flags that every processor with the
/// others has are left out: older compilers do not know them.
fn requirement(arch: &str) -> (&'static str, String) {
    let all = |flags: &[&str]| {
        flags.iter().map(|f| format!("__builtin_cpu_supports(\"{f}\")")).collect::<Vec<_>>().join(" && ")
    };
    match arch {
        "x86-64-v4" => ("__x86_64__", all(&["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"])),
        "aarch64" => ("__aarch64__", "1".into()),
        _ => ("__x86_64__", all(&["avx2", "bmi", "bmi2", "fma"])),
    }
}

/// A function for each architecture that says whether this processor runs its kernels.
fn tests_of_levels(units: &[&Unit]) -> String {
    let archs: BTreeMap<String, &str> = units.iter().map(|u| (u.arch_ident(), u.target.arch.as_str())).collect();
    let test = |(ident, arch): (&String, &&str)| {
        let (cpu, detect) = requirement(arch);
        format!("\n#if defined({cpu})\nstatic int dl_runs_{ident}(void)\n{{\n    return {detect};\n}}\n#endif\n")
    };
    archs.iter().map(test).collect()
}

/// The kernels of one architecture: what they are called, their bytes, and the steps of a call.
fn variant(units: &[&Unit], i: &Interface) -> Result<String, String> {
    let mut out = format!("\n#if defined({})\n", requirement(&units[0].target.arch).0);
    let symbols = units.iter().flat_map(|u| u.plan.launches.iter().map(|l| link_name(u, &l.symbol)));
    out.extend(symbols.collect::<BTreeSet<_>>().iter().map(|s| format!("dl_kernel {s};\n")));
    out.push_str(&bytes_of(units, i)?);
    out.push_str(&steps(units, i, &inner_name(units[0]))?);
    Ok(out + "#endif\n")
}

/// The function that says what a launch runs.
fn steps(units: &[&Unit], i: &Interface, name: &str) -> Result<String, String> {
    let mut body = String::new();
    for u in units {
        let cases = cases(u, i)?;
        match i.condition(&u.when) {
            Some(condition) => {
                let indented: String = cases.lines().map(|l| format!("    {l}\n")).collect();
                body.push_str(&format!("    if ({condition}) {{\n{indented}    }}\n"));
            }
            None => body.push_str(&cases),
        }
    }
    if units.iter().all(|u| i.condition(&u.when).is_some()) {
        body.push_str("    return DL_INVALID_VALUE;\n");
    }
    let unused = args::unused(&body, args::names(i).chain(["workspace"]));
    let params = args::inner(i, &pointer);
    Ok(format!(
        "\nstatic int {name}(size_t launch, struct dl_step *step{params}, void *workspace)\n{{\n{unused}{body}}}\n"
    ))
}

/// The launches of one kernel, by number.
fn cases(u: &Unit, i: &Interface) -> Result<String, String> {
    let mut out = "    switch (launch) {\n".to_string();
    for (k, l) in u.plan.launches.iter().enumerate() {
        let (mut buffers, mut scalars) = (vec![], vec![]);
        for arg in &l.args {
            match arg {
                Arg::Param { param } => buffers.push(format!("(void *){}", i.tensors[i.position(*param)?].ident)),
                Arg::Workspace { workspace } => {
                    let at = workspace::offset(u, *workspace, i)?;
                    buffers.push(match at.as_str() {
                        "0" => "workspace".into(),
                        _ => format!("(void *)((uintptr_t)workspace + (uintptr_t)({at}))"),
                    });
                }
                Arg::Scalar { scalar, .. } => scalars.push(slot(u, i, scalar)),
                Arg::TensorMap { .. } => return Err("a kernel of a CPU takes no tensor maps".into()),
            }
        }
        let (symbol, grid) = (link_name(u, &l.symbol), i.extent(&l.grid[0])?);
        out.push_str(&format!(
            "    case {k}:\n        *step = (struct dl_step){{{symbol}, {}, {}, {grid}}};\n        return 0;\n",
            braced(&buffers),
            braced(&scalars)
        ));
    }
    Ok(out + "    default:\n        return DL_NO_LAUNCH;\n    }\n")
}

/// A scalar in its slot of eight bytes: floats by their bits, in the low bytes.
fn slot(u: &Unit, i: &Interface, name: &str) -> String {
    let ident = i.ident(name);
    match u.plan.params.iter().find(|p| p.name == name && p.role == Role::Scalar).map(|p| p.dtype) {
        Some(DType::F32) => format!("dl_bits32({ident})"),
        Some(DType::F64) => format!("dl_bits64({ident})"),
        Some(DType::F16 | DType::BF16) => ident,
        _ => format!("(int64_t){ident}"),
    }
}

/// Lines that give what the first variant gives that this processor runs.
fn chosen(ordered: &[&[&Unit]], value: impl Fn(&Unit) -> String) -> String {
    let line = |units: &&[&Unit]| {
        let (u, cpu) = (units[0], requirement(&units[0].target.arch).0);
        format!("#if defined({cpu})\n    if (dl_runs_{}())\n        return {};\n#endif\n", u.arch_ident(), value(u))
    };
    ordered.iter().map(line).collect()
}

fn bytes(ordered: &[&[&Unit]], i: &Interface, stem: &str) -> String {
    let values = args::extents_to_inner(i);
    let body = args::refused(i, "0") + &chosen(ordered, |u| format!("(size_t){}_bytes({values})", inner_name(u)));
    format!("\n{}\n{{\n{body}    return 0;\n}}\n", bytes_signature(i, stem))
}

/// What a launch runs on this processor.
fn step(ordered: &[&[&Unit]], i: &Interface) -> String {
    let values = args::to_inner(i);
    let step = |u: &Unit| format!("{}(launch, step{values}, workspace)", inner_name(u));
    let body = args::refused(i, "DL_INVALID_VALUE") + &chosen(ordered, step);
    let params = args::outer(i, &pointer);
    let name = &ordered[0][0].name;
    format!(
        "\nstatic int dl_{name}_step(size_t launch, struct dl_step *step{params}, void *workspace)\n{{\n{body}    return DL_NO_BINARY;\n}}\n"
    )
}

fn grid(f: &Function<'_>, i: &Interface, stem: &str) -> String {
    let nothing: String = i.tensors.iter().map(|_| ", NULL").collect();
    let values: String =
        i.scalars.iter().map(|s| if s.is_extent { format!(", {}", s.ident) } else { ", 0".into() }).collect();
    let call = format!("dl_{}_step(launch, &step{nothing}{values}, NULL)", f[0][0].name);
    format!(
        "\n{}\n{{\n    struct dl_step step;\n    return {call} == 0 ? step.grid : -1;\n}}\n",
        grid_signature(i, stem)
    )
}

/// Lines that refuse a missing workspace.
fn needs_workspace(i: &Interface, stem: &str) -> String {
    let call = format!("{stem}_workspace_bytes({})", args::extent_values(i).trim_start_matches(", "));
    format!("    if (workspace == NULL && {call} > 0)\n        return DL_INVALID_VALUE;\n")
}

fn part_of(f: &Function<'_>, i: &Interface, stem: &str) -> String {
    let call = format!("dl_{}_step(launch, &step{}, workspace)", f[0][0].name, args::values(i));
    format!(
        "\n{}\n{{\n    struct dl_step step;\n{}    int error = {call};\n    return error == 0 ? dl_run(&step, begin, end) : error < 0 ? DL_INVALID_VALUE : error;\n}}\n",
        part_signature(i, stem),
        needs_workspace(i, stem)
    )
}

fn whole(f: &Function<'_>, i: &Interface, stem: &str) -> String {
    let call = format!("dl_{}_step(launch, &step{}, workspace)", f[0][0].name, args::values(i));
    let extents = args::extent_values(i);
    let zeros = match wants_zeros(f) {
        true => format!("    memset(workspace, 0, {stem}_workspace_bytes({}));\n", extents.trim_start_matches(", ")),
        false => String::new(),
    };
    format!(
        "\n{}\n{{\n    struct dl_step step;\n    int error = 0;\n{}{zeros}    for (size_t launch = 0; error == 0 && (error = {call}) == 0; ++launch)\n        error = dl_run(&step, 0, step.grid);\n    return error == DL_NO_LAUNCH ? 0 : error;\n}}\n",
        whole_signature(i, stem),
        needs_workspace(i, stem)
    )
}

//! The `cpu` module of `kernels.rs`: safe functions on slices, raw ones on pointers, over C code that
//! the user's build compiles and links.

use super::interface::{Function, Interface, Tensor, interface};
use super::lang::Lang;
use super::unit::{Safety, Unit};
use super::workspace;
use crate::backend::plan::Init;
use crate::backend::{Arg, Role};
use std::collections::BTreeSet;

/// The module's text; `rayon` where the crate of that name lends its threads.
///
/// # Errors
/// A sentence, when an extent cannot be written in Rust.
pub fn module(functions: &[Function<'_>], rayon: bool) -> Result<String, String> {
    let mut out = String::from(
        "/// Kernels for the CPU.\n#[allow(dead_code, non_snake_case, unused_variables, clippy::all)]\npub mod cpu {\n",
    );
    out.push_str(include_str!("runtime/cpu.rs"));
    out.push_str(if rayon { include_str!("runtime/rayon.rs") } else { "" });
    out.push_str(include_str!("runtime/extents.rs"));
    for f in functions {
        let i = interface(f, Lang::Rust);
        for text in [safe(f, &i)?, workspace_bytes(f, &i)?, raw(f, &i)] {
            out.push('\n');
            out.extend(text.lines().map(|l| if l.is_empty() { "\n".into() } else { format!("    {l}\n") }));
        }
        for units in f {
            out.push('\n');
            out.push_str(&variant(units, &i)?);
        }
    }
    out.push_str("}\n");
    Ok(out)
}

/// The form on slices, safe where all that a kernel accesses follows from sizes.
fn safe(f: &Function<'_>, i: &Interface) -> Result<String, String> {
    let name = &f[0][0].name;
    let mut out = format!("/// `{name}` on the threads of `pool`: `4` for four that are started for the call.\n///\n");
    out.extend(i.docs().map(|line| format!("/// - {line}\n")));
    out.push_str("///\n");
    out.extend(f.iter().copied().flatten().map(|u| format!("/// {}.\n///\n", u.provenance())));
    out.push_str("/// # Errors\n/// When a slice is too short, an extent is none that there are kernels for, or they were built for other\n");
    out.push_str("/// processors.\n");
    let Safety { docs, keyword, known } = f[0][0].safety();
    out.push_str(&docs);
    let tensor = |t: &Tensor| format!("{}: &{}[{}], ", t.ident, if t.written { "mut " } else { "" }, t.element);
    let tensors: String = i.tensors.iter().map(tensor).collect();
    let scalars: String = i.scalars.iter().map(|s| format!("{}: {}, ", s.ident, s.ty)).collect();
    out.push_str(&format!("pub {keyword}fn {name}({tensors}{scalars}pool: impl Pool) -> Result<(), Error> {{\n"));
    out.extend(i.extent_lines(true).map(|line| format!("    {line}\n")));
    for t in &i.tensors {
        out.push_str(&format!("    check(\"{0}\", {0}.len(), {1})?;\n", t.ident, i.len(t)?));
    }
    let pointer = |t: &Tensor| match t.written {
        true => format!("{}.as_mut_ptr().cast()", t.ident),
        false => format!("{}.as_ptr().cast_mut().cast()", t.ident),
    };
    let pointers: Vec<String> = i.tensors.iter().map(pointer).collect();
    let values = i.outer_values();
    out.push_str(&format!("    let tensors: [*mut c_void; {}] = [{}];\n", pointers.len(), pointers.join(", ")));
    let bytes = format!("{name}_workspace_bytes({})", values.trim_start_matches(", "));
    out.push_str(&format!("    let mut workspace = scratch({bytes});\n"));
    out.push_str(&format!("    // SAFETY: the slices were checked against the extents{known}.\n"));
    let call = format!("{name}_raw(&tensors{values}, workspace.as_mut_ptr().cast(), &pool)");
    Ok(out + &format!("    unsafe {{ {call} }}\n}}\n"))
}

/// How much memory the caller of the raw form brings.
fn workspace_bytes(f: &Function<'_>, i: &Interface) -> Result<String, String> {
    let name = &f[0][0].name;
    let mut out = format!("/// Bytes of scratch memory that [`{name}_raw`] needs; 0 for none.\n");
    out.push_str(&format!(
        "pub fn {name}_workspace_bytes({}) -> usize {{\n",
        i.scalar_params().trim_start_matches(", ")
    ));
    out.extend(i.extent_lines(false).map(|line| format!("    {line}\n")));
    let sizes: Result<Vec<String>, String> = f.iter().map(|units| workspace::bytes(units, i)).collect();
    out.push_str(&format!("    let bytes: [i64; {}] = [{}];\n", f.len(), sizes?.join(", ")));
    Ok(out + "    bytes.into_iter().max().and_then(|n| usize::try_from(n).ok()).unwrap_or(0)\n}\n")
}

/// The raw form, which chooses the variant for this processor.
fn raw(f: &Function<'_>, i: &Interface) -> String {
    let name = &f[0][0].name;
    let mut out =
        format!("/// `{name}` on bare pointers, one per tensor, in order. Nothing is allocated but the arguments of\n");
    out.push_str(&format!(
        "/// kernels; `workspace` holds [`{name}_workspace_bytes`] bytes, and may be null where that is 0.\n///\n"
    ));
    out.push_str("/// # Errors\n/// When there is no kernel for these extents or this processor.\n///\n/// # Safety\n");
    out.push_str(
        "/// Each pointer must be valid for the tensor's elements and aligned for them (to 8 bytes the workspace's);\n",
    );
    out.push_str("/// written ones overlap nothing. Extents are 1 to 2147483647.\n");
    out.push_str("#[allow(unreachable_code)]\n");
    out.push_str(&format!(
        "pub unsafe fn {name}_raw(tensors: &[*mut c_void; {}]{}, workspace: *mut c_void, pool: &dyn Pool) -> Result<(), Error> {{\n",
        i.tensors.len(),
        i.scalar_params()
    ));
    out.extend(i.extent_lines(false).map(|line| format!("    {line}\n")));
    let mut ordered: Vec<&[&Unit]> = f.clone();
    ordered.sort_by_key(|units| std::cmp::Reverse(units[0].target.vector_bytes));
    for units in ordered {
        let (cfg, detect) = requirement(&units[0].target.arch);
        let call = format!("{name}_{}(tensors{}, workspace, pool)", units[0].arch_ident(), i.scalar_values());
        out.push_str(&format!("    #[cfg(target_arch = \"{cfg}\")]\n    if {detect} {{\n"));
        out.push_str(&format!(
            "        // SAFETY: as the caller promised.\n        return unsafe {{ {call} }};\n    }}\n"
        ));
    }
    let archs: Vec<&str> = f.iter().map(|units| units[0].target.arch.as_str()).collect();
    out + &format!("    Err(Error::Processor(\"{}\"))\n}}\n", archs.join(", "))
}

/// Rust's name of an architecture.
pub fn processor(arch: &str) -> &'static str {
    requirement(arch).0
}

/// Rust's name of the architecture and the run-time test for its level.
fn requirement(arch: &str) -> (&'static str, String) {
    let all = |flags: &[&str]| {
        flags.iter().map(|f| format!("std::is_x86_feature_detected!(\"{f}\")")).collect::<Vec<_>>().join(" && ")
    };
    match arch {
        "x86-64-v4" => ("x86_64", all(&["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"])),
        "aarch64" => ("aarch64", "true".into()),
        _ => ("x86_64", all(&["avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe"])),
    }
}

/// The launches for one architecture.
fn variant(units: &[&Unit], i: &Interface) -> Result<String, String> {
    let (cfg, _) = requirement(&units[0].target.arch);
    let (name, arch, n) = (&units[0].name, units[0].arch_ident(), i.tensors.len());
    let mut out = format!("    #[cfg(target_arch = \"{cfg}\")]\n    unsafe fn {name}_{arch}(");
    out.push_str(&format!(
        "tensors: &[*mut c_void; {n}]{}, workspace: *mut c_void, pool: &dyn Pool) -> Result<(), Error> {{\n",
        i.inner_params()
    ));
    out.push_str("        unsafe extern \"C\" {\n");
    for symbol in
        units.iter().flat_map(|u| u.plan.launches.iter().map(|l| link_name(u, &l.symbol))).collect::<BTreeSet<_>>()
    {
        let arguments = "buffers: *const *mut c_void, scalars: *const i64, begin: i64, end: i64";
        out.push_str(&format!("            fn {symbol}({arguments});\n"));
    }
    out.push_str("        }\n");
    out.push_str(&i.by_size(units, |u| launches(u, i))?);
    Ok(out + "    }\n")
}

/// The launches of one kernel.
fn launches(u: &Unit, i: &Interface) -> Result<String, String> {
    let mut out = String::new();
    for (k, w) in u.plan.workspaces.iter().enumerate().filter(|(_, w)| w.init != Init::None) {
        let (at, bytes) = (workspace::offset(u, k, i)?, i.extent(&w.bytes)?);
        out.push_str("        // SAFETY: as the caller promised.\n");
        out.push_str(&format!(
            "        unsafe {{ workspace.byte_add(({at}) as usize).write_bytes(0, ({bytes}) as usize) }};\n"
        ));
    }
    for l in &u.plan.launches {
        let (mut buffers, mut scalars) = (vec![], vec![]);
        for arg in &l.args {
            match arg {
                Arg::Param { param } => buffers.push(format!("tensors[{}] as usize", i.position(*param)?)),
                Arg::Workspace { workspace } => {
                    buffers.push(format!("workspace as usize + ({}) as usize", workspace::offset(u, *workspace, i)?));
                }
                Arg::Scalar { scalar, .. } => scalars.push(slot(u, i, scalar)),
                Arg::TensorMap { .. } => return Err("a kernel of a CPU takes no tensor maps".into()),
            }
        }
        let (buffers, scalars) = (buffers.join(", "), scalars.join(", "));
        let (symbol, grid) = (link_name(u, &l.symbol), i.extent(&l.grid[0])?);
        out.push_str("        // SAFETY: as the caller promised.\n");
        out.push_str(&format!("        unsafe {{ run_grid({symbol}, &[{buffers}], &[{scalars}], {grid}, pool) }};\n"));
    }
    Ok(out)
}

/// A scalar in its slot of eight bytes: floats by their bits, in the low bytes.
fn slot(u: &Unit, i: &Interface, name: &str) -> String {
    let ident = i.ident(name);
    let scalar = u.plan.params.iter().find(|p| p.name == name && p.role == Role::Scalar);
    match scalar.map(|p| p.dtype.bytes()) {
        Some(bytes) if scalar.is_some_and(|p| p.dtype.is_float()) => {
            format!("{ident}.to_bits() as u{} as i64", bytes * 8)
        }
        Some(_) => format!("{ident} as i64"),
        None => ident,
    }
}

/// The symbol in the linked library. Crates of one program may have kernels of one computation with other
/// sizes or schedules: the name says which text is meant.
pub fn link_name(u: &Unit, symbol: &str) -> String {
    let text = xxhash_rust::xxh3::xxh3_64(u.text.as_bytes());
    format!("dl_{}_{}_{text:016x}_{symbol}", &u.key[..u.key.len().min(8)], u.arch_ident())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::{Content, Rung, When};
    use crate::backend::Plan;
    use crate::target::{HostCpu, Target};

    #[test]
    fn kernels_of_other_texts_have_other_symbols() {
        let unit = |text: &str| Unit {
            name: "f".into(),
            key: "0123456789abcdef".into(),
            rung: Rung::Default,
            when: When::Always,
            measured_us: None,
            knobs: String::new(),
            target: Target::parse("cpu:x86-64-v3", &HostCpu::default()).expect("a target"),
            params: vec![],
            plan: Plan::default(),
            file: String::new(),
            content: Content::C,
            bytes: vec![],
            text: text.into(),
            trace: vec![],
            scheduled: String::new(),
            untuned: None,
            answered: vec![],
        };
        let [a, b] = ["void k(void) {}", "void k(void) { }"].map(|t| link_name(&unit(t), "k"));
        assert_ne!(a, b);
        assert!(a.starts_with("dl_01234567_x86_64_v3_") && a.ends_with("_k"), "{a}");
    }

    #[test]
    fn kernels_for_other_processors_are_left_out() {
        assert_eq!(
            (processor("x86-64-v3"), processor("x86-64-v4"), processor("aarch64")),
            ("x86_64", "x86_64", "aarch64")
        );
    }
}

//! The `cpu` module of `kernels.rs`: safe functions on slices, raw ones on pointers, over C code that
//! the user's build compiles and links.

use super::interface::Interface;
use super::unit::Unit;
use crate::backend::{Arg, Plan, Role};
use std::fmt::Write;

/// The module's text.
///
/// # Errors
/// A sentence, when an extent cannot be written in Rust.
pub fn module(functions: &[Vec<&Unit>]) -> Result<String, String> {
    let mut out = String::from("/// Kernels for the CPU.\npub mod cpu {\n");
    out.push_str(include_str!("runtime/cpu.rs"));
    out.push_str(include_str!("runtime/extents.rs"));
    for variants in functions {
        out.push('\n');
        function(&mut out, variants)?;
    }
    out.push_str("}\n");
    Ok(out)
}

fn function(out: &mut String, variants: &[&Unit]) -> Result<(), String> {
    let plans: Vec<&Plan> = variants.iter().map(|u| &u.plan).collect();
    let i = Interface::of(&plans)?;
    let name = &variants[0].name;
    let put = |out: &mut String, line: &str| {
        out.push_str(if line.is_empty() { "" } else { "    " });
        out.push_str(line);
        out.push('\n');
    };
    // The safe form.
    put(out, &format!("/// `{name}` on up to `threads` threads."));
    put(out, "///");
    for line in i.docs() {
        put(out, &format!("/// - {line}"));
    }
    put(out, "///");
    for u in variants {
        put(out, &format!("/// {}.", u.provenance()));
    }
    put(out, "///");
    put(out, "/// # Errors");
    put(out, "/// When a slice is too short, or the kernels were built for other processors.");
    let tensors: Vec<String> = i
        .tensors
        .iter()
        .map(|t| format!("{}: &{}[{}], ", t.ident, if t.written { "mut " } else { "" }, t.element))
        .collect();
    let extents: String = i.scalars.iter().map(|s| format!("{}: {}, ", s.ident, s.rust)).collect();
    put(out, "#[allow(clippy::too_many_arguments)]");
    put(out, &format!("pub fn {name}({}{extents}threads: usize) -> Result<(), Error> {{", tensors.concat()));
    for e in i.extents() {
        put(out, &format!("    extent(\"{e}\", {e})?;"));
    }
    for t in &i.tensors {
        put(out, &format!("    check(\"{0}\", {0}.len(), {1})?;", t.ident, t.len));
    }
    let pointers: Vec<String> = i
        .tensors
        .iter()
        .map(|t| {
            if t.written {
                format!("{}.as_mut_ptr().cast()", t.ident)
            } else {
                format!("{}.as_ptr().cast_mut().cast()", t.ident)
            }
        })
        .collect();
    put(out, &format!("    let tensors: [*mut c_void; {}] = [{}];", pointers.len(), pointers.join(", ")));
    put(out, "    // SAFETY: the slices were checked against the extents.");
    put(out, &format!("    unsafe {{ {name}_raw(&tensors{}, threads) }}", i.scalar_values()));
    put(out, "}");
    out.push('\n');
    raw(out, variants, &i, &put)?;
    for u in variants {
        out.push('\n');
        variant(out, u, &i)?;
    }
    Ok(())
}

/// Chooses the variant for this processor.
fn raw(out: &mut String, variants: &[&Unit], i: &Interface, put: &dyn Fn(&mut String, &str)) -> Result<(), String> {
    let name = &variants[0].name;
    put(out, &format!("/// `{name}` on bare pointers, one per tensor, in order."));
    put(out, "///");
    put(out, "/// # Errors");
    put(out, "/// When the kernels were built for other processors.");
    put(out, "///");
    put(out, "/// # Safety");
    put(out, "/// Each pointer must be valid for the tensor's elements; written ones overlap nothing.");
    put(out, "#[allow(clippy::too_many_arguments, unreachable_code)]");
    let n = i.tensors.len();
    put(
        out,
        &format!(
            "pub unsafe fn {name}_raw(tensors: &[*mut c_void; {n}]{}, threads: usize) -> Result<(), Error> {{",
            i.scalar_params()
        ),
    );
    let mut ordered: Vec<&&Unit> = variants.iter().collect();
    ordered.sort_by_key(|u| std::cmp::Reverse(u.target.vector_bytes));
    for u in ordered {
        let (cfg, detect) = requirement(&u.target.arch);
        put(out, &format!("    #[cfg(target_arch = \"{cfg}\")]"));
        put(out, &format!("    if {detect} {{"));
        put(out, "        // SAFETY: as the caller promised.");
        put(out, &format!("        unsafe {{ {name}_{}(tensors{}, threads) }};", u.arch_ident(), i.scalar_values()));
        put(out, "        return Ok(());");
        put(out, "    }");
    }
    let archs: Vec<&str> = variants.iter().map(|u| u.target.arch.as_str()).collect();
    put(out, &format!("    Err(Error::Processor(\"{}\"))", archs.join(", ")));
    put(out, "}");
    Ok(())
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
fn variant(out: &mut String, u: &Unit, i: &Interface) -> Result<(), String> {
    let cannot = |e: std::fmt::Error| e.to_string();
    let (cfg, _) = requirement(&u.target.arch);
    let n = i.tensors.len();
    writeln!(out, "    #[cfg(target_arch = \"{cfg}\")]").map_err(cannot)?;
    writeln!(out, "    #[allow(unused_variables, clippy::too_many_arguments)]").map_err(cannot)?;
    writeln!(
        out,
        "    unsafe fn {}_{}(tensors: &[*mut c_void; {n}]{}, threads: usize) {{",
        u.name,
        u.arch_ident(),
        i.scalar_params()
    )
    .map_err(cannot)?;
    writeln!(out, "        unsafe extern \"C\" {{").map_err(cannot)?;
    for l in &u.plan.launches {
        let symbol = link_name(u, &l.symbol);
        writeln!(
            out,
            "            fn {symbol}(buffers: *const *mut c_void, scalars: *const i64, begin: i64, end: i64);"
        )
        .map_err(cannot)?;
    }
    writeln!(out, "        }}").map_err(cannot)?;
    for (k, w) in u.plan.workspaces.iter().enumerate() {
        let words = format!("vec![0u64; ({}) as usize / 8 + 1]", i.extent(&w.bytes)?);
        writeln!(out, "        let mut workspace_{k} = {words};").map_err(cannot)?;
    }
    for l in &u.plan.launches {
        let mut buffers = vec![];
        let mut scalars = vec![];
        for arg in &l.args {
            match arg {
                Arg::Param { param } => buffers.push(format!("tensors[{}] as usize", position(i, *param)?)),
                Arg::Workspace { workspace } => buffers.push(format!("workspace_{workspace}.as_mut_ptr() as usize")),
                Arg::Scalar { scalar, .. } => scalars.push(slot(u, i, scalar)),
                Arg::TensorMap { .. } => return Err("a kernel of a CPU takes no tensor maps".into()),
            }
        }
        let (buffers, scalars) = (buffers.join(", "), scalars.join(", "));
        let grid = i.extent(&l.grid[0])?;
        let symbol = link_name(u, &l.symbol);
        writeln!(out, "        // SAFETY: as the caller promised.").map_err(cannot)?;
        writeln!(out, "        unsafe {{ run_grid({symbol}, &[{buffers}], &[{scalars}], {grid}, threads) }};")
            .map_err(cannot)?;
    }
    writeln!(out, "    }}").map_err(cannot)
}

fn position(i: &Interface, param: usize) -> Result<usize, String> {
    i.tensors.iter().position(|t| t.index == param).ok_or_else(|| format!("parameter {param} is no tensor"))
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
    use crate::apply::{Content, Rung};
    use crate::target::{HostCpu, Target};

    #[test]
    fn kernels_of_other_texts_have_other_symbols() {
        let unit = |text: &str| Unit {
            name: "f".into(),
            key: "0123456789abcdef".into(),
            rung: Rung::Default,
            measured_us: None,
            target: Target::parse("cpu:x86-64-v3", &HostCpu::default()).expect("a target"),
            plan: Plan::default(),
            file: String::new(),
            content: Content::C,
            bytes: vec![],
            text: text.into(),
            trace: vec![],
            scheduled: String::new(),
            untuned: None,
        };
        let [a, b] = ["void k(void) {}", "void k(void) { }"].map(|t| link_name(&unit(t), "k"));
        assert_ne!(a, b);
        assert!(a.starts_with("dl_01234567_x86_64_v3_") && a.ends_with("_k"), "{a}");
    }
}

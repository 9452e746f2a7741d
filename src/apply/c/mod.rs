//! A header and a source in C11 for programs that are not written in Rust: launches of GPU kernels through the CUDA
//! driver, which is found at run time, and plain functions for the kernels of a CPU. The header is C++ as well.
//!
//! Everything that is declared begins with the package's name; what begins with `dl_` is inside the source.

mod args;
mod cpu;
mod cuda;
mod helpers;

use super::interface::{Function, Interface, by_name, by_target};
use super::unit::Unit;
use super::workspace;
use crate::target::Kind;

/// What the functions for one kind of target put into the header and into the source.
struct Part {
    header: String,
    source: String,
}

/// Header and source, which lie in the folder of the other files.
///
/// # Errors
/// A sentence: `name` is no word in small letters, an extent cannot be written in C, or a kernel is not compiled.
pub fn package(units: &[Unit], name: &str) -> Result<[String; 2], String> {
    checked_name(name)?;
    let (mut header, mut source) = (String::new(), String::new());
    for kind in [Kind::Cuda, Kind::Cpu] {
        let grouped = by_name(units.iter().filter(|u| u.target.kind == kind));
        let functions: Vec<Function> = grouped.iter().map(|all| by_target(all)).collect();
        if functions.is_empty() {
            continue;
        }
        let part = match kind {
            Kind::Cuda => cuda::part(&functions, name)?,
            Kind::Cpu => cpu::part(&functions, name)?,
        };
        header.push_str(&part.header);
        source.push_str(&part.source);
    }
    let header = include_str!("../runtime/c_header.h").replace("@BODY@", &header);
    let helpers = helpers::used(&source);
    let source = include_str!("../runtime/c_source.c").replace("@BODY@", &(helpers + &source));
    let named = |text: String| text.replace("@NAME@", name).replace("@GUARD@", &name.to_ascii_uppercase());
    Ok([named(header), named(source)])
}

/// That a name can begin what a header declares.
///
/// # Errors
/// A sentence that says what names do.
pub fn checked_name(name: &str) -> Result<(), String> {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let fits = name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_word);
    match fits && !name.starts_with("dl_") {
        true => Ok(()),
        false => {
            Err(format!("`{name}` cannot name C files and functions: small letters, digits and _ do, such as kernels"))
        }
    }
}

/// Lines of a comment on a function: its arguments, what the caller answers for, and how its kernels were found.
fn comment(f: &Function<'_>, docs: impl Iterator<Item = String>) -> String {
    let units = || f.iter().copied().flatten();
    let mut out: String = docs.map(|d| format!("// - {d}\n")).collect();
    let answered = units().next().map_or(&[][..], |u| &u.answered);
    if !answered.is_empty() {
        out.push_str("// The caller answers for:\n");
        out.extend(answered.iter().map(|a| format!("// - {}\n", a.replace(|c: char| c.is_control(), " "))));
    }
    out.push_str("// Kernels:\n");
    out.extend(units().map(|u| format!("// - {}; {}\n", u.provenance(), u.knobs)));
    out
}

/// The name of a function for one architecture.
fn inner_name(u: &Unit) -> String {
    format!("dl_{}_{}", u.name, u.arch_ident())
}

/// Bytes of the workspace on one architecture.
fn bytes_of(units: &[&Unit], i: &Interface) -> Result<String, String> {
    let (params, value) = (args::inner_extents(i), workspace::bytes(units, i)?);
    let (params, unused) = (args::list(&params), args::unused(&value, args::extents(i).map(|s| s.ident.as_str())));
    Ok(format!("\nstatic int64_t {}_bytes({params})\n{{\n{unused}    return {value};\n}}\n", inner_name(units[0])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_a_name_that_c_takes() {
        assert_eq!(checked_name("kernels"), Ok(()));
        assert_eq!(checked_name("a_2"), Ok(()));
        for name in ["", "2a", "Kernels", "a-b", "dl_x", "a b", "../a", "_a"] {
            assert!(checked_name(name).expect_err(name).contains("cannot name C files"), "{name}");
        }
    }
}

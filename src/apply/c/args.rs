//! Parameters and arguments of functions in C.

use crate::apply::interface::{Interface, Scalar, Tensor};

/// Type of an extent inside.
const INNER: &str = "int64_t";

/// Parameters as callers see them, each with a leading comma; `tensor` declares one of the tensors.
pub fn outer(i: &Interface, tensor: &dyn Fn(&Tensor) -> String) -> String {
    declared(i, tensor, |s| s.ty)
}

/// The same inside, where extents are signed.
pub fn inner(i: &Interface, tensor: &dyn Fn(&Tensor) -> String) -> String {
    declared(i, tensor, |s| if s.is_extent { INNER } else { s.ty })
}

fn declared(i: &Interface, tensor: &dyn Fn(&Tensor) -> String, ty: impl Fn(&Scalar) -> &'static str) -> String {
    let tensors = i.tensors.iter().map(|t| format!(", {}", tensor(t)));
    tensors.chain(i.scalars.iter().map(|s| format!(", {} {}", ty(s), s.ident))).collect()
}

/// Extents alone as callers see them, each with a leading comma.
pub fn outer_extents(i: &Interface) -> String {
    extents(i).map(|s| format!(", {} {}", s.ty, s.ident)).collect()
}

/// Extents alone inside, each with a leading comma.
pub fn inner_extents(i: &Interface) -> String {
    extents(i).map(|s| format!(", {INNER} {}", s.ident)).collect()
}

/// The list of parameters of a function that takes these alone.
pub fn list(params: &str) -> &str {
    if params.is_empty() { "void" } else { params.trim_start_matches(", ") }
}

/// The extents among the arguments.
pub fn extents(i: &Interface) -> impl Iterator<Item = &Scalar> {
    i.scalars.iter().filter(|s| s.is_extent)
}

/// Arguments as they are, each with a leading comma.
pub fn values(i: &Interface) -> String {
    names(i).map(|name| format!(", {name}")).collect()
}

/// Arguments of callers for a function inside, each with a leading comma.
pub fn to_inner(i: &Interface) -> String {
    let tensors: String = i.tensors.iter().map(|t| format!(", {}", t.ident)).collect();
    tensors + &scalars_to_inner(i)
}

/// Scalars and extents of callers for a function inside, each with a leading comma.
fn scalars_to_inner(i: &Interface) -> String {
    let value = |s: &Scalar| if s.is_extent { format!(", ({INNER}){}", s.ident) } else { format!(", {}", s.ident) };
    i.scalars.iter().map(value).collect()
}

/// Extents of callers for a function inside, without a leading comma.
pub fn extents_to_inner(i: &Interface) -> String {
    extents(i).map(|s| format!("({INNER}){}", s.ident)).collect::<Vec<_>>().join(", ")
}

/// Lines that give something up where an extent is none that kernels can count to.
pub fn refused(i: &Interface, with: &str) -> String {
    let bad = impossible(i);
    if bad.is_empty() { String::new() } else { format!("    if ({})\n        return {with};\n", bad.join(" || ")) }
}

/// Conditions, of which each holds where an extent is none that kernels can count to.
pub fn impossible(i: &Interface) -> Vec<String> {
    extents(i).map(|s| format!("!dl_extent({})", s.ident)).collect()
}

/// Variables of all arguments.
pub fn names(i: &Interface) -> impl Iterator<Item = &str> {
    i.tensors.iter().map(|t| t.ident.as_str()).chain(i.scalars.iter().map(|s| s.ident.as_str()))
}

/// Lines that name parameters which a body has no use for, so that compilers are quiet about them.
pub fn unused<'a>(body: &str, params: impl Iterator<Item = &'a str>) -> String {
    let words = || body.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    params.filter(|p| words().all(|w| w != *p)).map(|p| format!("    (void){p};\n")).collect()
}

/// Extents as they are, each with a leading comma.
pub fn extent_values(i: &Interface) -> String {
    extents(i).map(|s| format!(", {}", s.ident)).collect()
}

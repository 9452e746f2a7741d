//! Kernels for GPUs in C: tables of what is loaded, and a launch function for each function of the package.

use super::{Part, args, bytes_of, comment, inner_name};
use crate::apply::interface::{Function, Interface, Tensor, interface};
use crate::apply::lang::Lang;
use crate::apply::unit::{Content, Unit};
use crate::apply::{tensor_map, workspace};
use crate::backend::plan::Init;
use crate::backend::{Arg, Dim, PlanLaunch, Role};
use crate::ir::DType;
use crate::target::Target;

/// What functions for GPUs put into header and source.
///
/// # Errors
/// A sentence: a kernel is not compiled, an extent cannot be written in C.
pub(super) fn part(functions: &[Function<'_>], name: &str) -> Result<Part, String> {
    let units = || functions.iter().flatten().copied().flatten().copied();
    if let Some(u) = units().find(|u| u.content != Content::Cubin) {
        return Err(format!(
            "{}: kernels in C are compiled when they are written, and there is no NVRTC; get it: daylight doctor --fetch-nvrtc",
            u.name
        ));
    }
    let tables = Tables::of(functions);
    let mut header = include_str!("../runtime/c_cuda.h").to_string();
    let mut launches = String::new();
    let mut first = 0;
    for f in functions {
        let i = interface(f, Lang::C);
        header.push_str(&declarations(f, &i, name));
        launches.push_str(&definitions(f, &i, name, &tables, &mut first)?);
    }
    let mut source = "\n#include <dlfcn.h>\n".to_string();
    source.push_str(&include_str!("../runtime/c_cuda.c").replace("@TABLES@", &tables.text()?));
    for (called, text) in RUNTIME {
        source.push_str(if launches.contains(called) { text } else { "" });
    }
    Ok(Part { header, source: source + &launches })
}

/// Parts of the runtime that are there where something calls them.
const RUNTIME: [(&str, &str); 4] = [
    ("dl_launch(", include_str!("../runtime/c_launch.c")),
    ("dl_launch_pdl(", include_str!("../runtime/c_launch_pdl.c")),
    ("dl_zero(", include_str!("../runtime/c_zero.c")),
    ("dl_encode(", include_str!("../runtime/c_map.c")),
];

/// What a package loads.
struct Tables<'a> {
    /// Architectures, the newest first.
    variants: Vec<&'a Target>,
    /// A file for each kernel, in the order of functions and variants.
    units: Vec<&'a Unit>,
}

impl<'a> Tables<'a> {
    fn of(functions: &[Function<'a>]) -> Tables<'a> {
        let units: Vec<&Unit> = functions.iter().flatten().copied().flatten().copied().collect();
        let mut variants: Vec<&Target> = vec![];
        for u in &units {
            if variants.iter().all(|t| t.id != u.target.id) {
                variants.push(&u.target);
            }
        }
        variants.sort_by_key(|t| std::cmp::Reverse(t.sm));
        Tables { variants, units }
    }

    fn variant(&self, u: &Unit) -> usize {
        self.variants.iter().position(|t| t.id == u.target.id).expect("variants are those of the units")
    }

    /// Files with what they hold, each once.
    fn files(&self) -> Vec<(&'a str, &'a [u8])> {
        let mut out: Vec<(&str, &[u8])> = vec![];
        for u in &self.units {
            if out.iter().all(|(file, _)| *file != u.file) {
                out.push((&u.file, &u.bytes));
            }
        }
        out
    }

    fn text(&self) -> Result<String, String> {
        let files = self.files();
        let mut out = String::new();
        for (k, (file, bytes)) in files.iter().enumerate() {
            out.push_str(&format!("\n// {file}\nstatic const _Alignas(64) unsigned char dl_image_{k}[] = {{\n"));
            out.push_str(&array(bytes));
            out.push_str("};\n");
        }
        let variants = self.variants.iter().map(|t| {
            let own = i32::from(t.arch.ends_with('a'));
            format!("    {{{}, {}, {own}}}, // {}\n", t.sm / 10, t.sm % 10, t.arch)
        });
        let image = |u: &Unit| files.iter().position(|(file, _)| *file == u.file).unwrap_or(0);
        let modules = self.units.iter().map(|u| format!("    {{{}, dl_image_{}}},\n", self.variant(u), image(u)));
        let mut functions = vec![];
        for (m, u) in self.units.iter().enumerate() {
            for l in &u.plan.launches {
                functions.push(format!("    {{{m}, \"{}\", {}}},\n", l.symbol, shared_bytes(u, l)?));
            }
        }
        let counts = [("VARIANTS", self.variants.len()), ("MODULES", self.units.len()), ("FUNCTIONS", functions.len())];
        let counts: Vec<String> = counts.iter().map(|(what, n)| format!("DL_{what} = {n}")).collect();
        out.push_str(&format!("\nenum {{ {} }};\n", counts.join(", ")));
        out.push_str(&table("variant", variants));
        out.push_str(&table("module", modules));
        out.push_str(&table("function", functions.into_iter()));
        Ok(out)
    }
}

fn table(of: &str, rows: impl Iterator<Item = String>) -> String {
    format!("\nstatic const struct dl_{of} dl_{of}s[DL_{}S] = {{\n{}}};\n", of.to_uppercase(), rows.collect::<String>())
}

/// Bytes as numbers, which every compiler takes.
fn array(bytes: &[u8]) -> String {
    // An array has an element at least.
    let bytes = if bytes.is_empty() { &[0] } else { bytes };
    let line = |row: &[u8]| format!("    {},\n", row.iter().map(u8::to_string).collect::<Vec<_>>().join(","));
    bytes.chunks(32).map(line).collect()
}

fn shared_bytes(u: &Unit, l: &PlanLaunch) -> Result<i64, String> {
    let bytes = l.dynamic_smem.as_const();
    bytes.ok_or_else(|| format!("{}: bytes of shared memory that follow from extents cannot be written in C", u.name))
}

fn address(t: &Tensor) -> String {
    format!("CUdeviceptr {}", t.ident)
}

/// What the header says of a function.
fn declarations(f: &Function<'_>, i: &Interface, package: &str) -> String {
    let name = &f[0][0].name;
    let once = f.iter().copied().flatten().flat_map(|u| &u.plan.workspaces).any(|w| w.init == Init::ZeroOnce);
    let zeros = if once { " It holds zeros before the first launch." } else { "" };
    let extents = args::outer_extents(i);
    let mut out = format!("\n// Bytes of the workspace of {package}_{name}; 0 for none.{zeros}\n");
    out.push_str(&format!("size_t {package}_{name}_workspace_bytes(const daylight_{package} *kernels{extents});\n"));
    out.push_str(&format!("\n// {name}\n{}", comment(f, i.docs())));
    out.push_str(&format!("{};\n", launch_signature(i, package, name)));
    out
}

fn launch_signature(i: &Interface, package: &str, name: &str) -> String {
    let outer = args::outer(i, &address);
    format!("int {package}_{name}(const daylight_{package} *kernels, CUstream stream{outer}, CUdeviceptr workspace)")
}

/// The function and those that it calls; `first` is the number of its first kernel.
fn definitions(
    f: &Function<'_>,
    i: &Interface,
    package: &str,
    tables: &Tables<'_>,
    first: &mut usize,
) -> Result<String, String> {
    let mut out = String::new();
    for units in f {
        out.push_str(&bytes_of(units, i)?);
        out.push_str(&launch_of(units, i, package, first)?);
    }
    out.push_str(&workspace_bytes(f, i, package, tables));
    out.push_str(&launch(f, i, package, tables));
    Ok(out)
}

/// The launches on one architecture.
fn launch_of(units: &[&Unit], i: &Interface, package: &str, first: &mut usize) -> Result<String, String> {
    let mut body = String::new();
    let mut is_open = true;
    for u in units {
        let text = launches(u, *first, i)?;
        *first += u.plan.launches.len();
        match i.condition(&u.when) {
            Some(condition) => {
                let indented: String = text.lines().map(|l| format!("    {l}\n")).collect();
                body.push_str(&format!("    if ({condition}) {{\n{indented}        return 0;\n    }}\n"));
            }
            None => {
                body.push_str(&format!("{text}    return 0;\n"));
                is_open = false;
            }
        }
    }
    body.push_str(if is_open { "    return DL_INVALID_VALUE;\n" } else { "" });
    let params = args::inner(i, &address);
    let unused = args::unused(&body, args::names(i).chain(["workspace"]));
    Ok(format!(
        "\nstatic int {}(const daylight_{package} *kernels, CUstream stream{params}, CUdeviceptr workspace)\n{{\n{unused}    int error;\n{body}}}\n",
        inner_name(units[0])
    ))
}

/// The launches of one kernel, whose functions are those from `first` on.
fn launches(u: &Unit, first: usize, i: &Interface) -> Result<String, String> {
    let mut out = String::new();
    for (k, w) in u.plan.workspaces.iter().enumerate().filter(|(_, w)| w.init == Init::ZeroEach) {
        let (at, bytes) = (area(u, k, i)?, i.extent(&w.bytes)?);
        out.push_str(&checked(4, &format!("dl_zero(kernels, {at}, {bytes}, stream)")));
    }
    for (k, l) in u.plan.launches.iter().enumerate() {
        out.push_str(&one_launch(u, first + k, l, i)?);
    }
    Ok(out)
}

/// A call whose error ends the function.
fn checked(indent: usize, call: &str) -> String {
    let space = " ".repeat(indent);
    format!("{space}if ((error = {call}) != 0)\n{space}    return error;\n")
}

/// Where a workspace starts.
fn area(u: &Unit, workspace: usize, i: &Interface) -> Result<String, String> {
    let at = workspace::offset(u, workspace, i)?;
    Ok(if at == "0" { "workspace".into() } else { format!("workspace + (CUdeviceptr)({at})") })
}

/// Arguments of a kernel: fields with their types and first values, maps that are made, and their values.
#[derive(Default)]
struct Arguments {
    fields: Vec<String>,
    values: Vec<String>,
    maps: Vec<String>,
    encoded: String,
}

fn arguments(u: &Unit, l: &PlanLaunch, i: &Interface) -> Result<Arguments, String> {
    let mut out = Arguments::default();
    for (a, arg) in l.args.iter().enumerate() {
        let (ty, value) = match arg {
            Arg::Param { param } => ("CUdeviceptr", i.tensors[i.position(*param)?].ident.clone()),
            Arg::Workspace { workspace } => ("CUdeviceptr", area(u, *workspace, i)?),
            Arg::Scalar { scalar, dtype } => scalar_value(u, i, scalar, *dtype),
            Arg::TensorMap { tensor_map: map } => {
                let (at, k) = (&i.tensors[i.position(map.param)?].ident, out.maps.len());
                out.encoded.push_str(&checked(8, &format!("dl_encode(kernels, &arg.a{a}, {at}, &maps[{k}])")));
                out.maps.push(tensor_map::c(map)?);
                ("struct dl_tensor_map", "{{0}}".into())
            }
        };
        out.fields.push(format!("{ty} a{a};"));
        out.values.push(value);
    }
    Ok(out)
}

fn one_launch(u: &Unit, k: usize, l: &PlanLaunch, i: &Interface) -> Result<String, String> {
    let Arguments { fields, values, maps, encoded } = arguments(u, l, i)?;
    let mut out = format!("    {{ // {}{}\n", l.symbol, cluster(l));
    if !maps.is_empty() {
        let rows: String = maps.iter().map(|m| format!("            {m},\n")).collect();
        out.push_str(&format!("        static const struct dl_tiles maps[] = {{\n{rows}        }};\n"));
    }
    out.push_str(&format!("        struct {{ {} }} arg = {{{}}};\n", fields.join(" "), values.join(", ")));
    let pointers: Vec<String> = (0..l.args.len()).map(|a| format!("&arg.a{a}")).collect();
    out.push_str(&format!("        void *args[] = {{{}}};\n", pointers.join(", ")));
    let [grid, block] = [triple(&l.grid, i)?, triple(&l.block, i)?];
    out.push_str(&format!("        const unsigned grid[3] = {grid}, block[3] = {block};\n"));
    out.push_str(&encoded);
    let call = if l.pdl { "dl_launch_pdl" } else { "dl_launch" };
    out.push_str(&checked(8, &format!("{call}(kernels, {k}, grid, block, stream, args)")));
    Ok(out + "    }\n")
}

/// For a comment: the kernel itself says how many blocks its clusters have, and a launch nothing.
fn cluster(l: &PlanLaunch) -> String {
    let blocks: Vec<String> = l.cluster.iter().map(Dim::to_string).collect();
    if blocks.iter().all(|b| b == "1") { String::new() } else { format!(", in clusters of {}", blocks.join(" x ")) }
}

fn triple(dims: &[Dim; 3], i: &Interface) -> Result<String, String> {
    let part = |d: &Dim| i.extent(d).map(|t| if d.as_const().is_some() { t } else { format!("(unsigned)({t})") });
    let parts: Result<Vec<String>, String> = dims.iter().map(part).collect();
    Ok(format!("{{{}}}", parts?.join(", ")))
}

/// A scalar argument with the type that the kernel takes.
fn scalar_value(u: &Unit, i: &Interface, name: &str, dtype: DType) -> (&'static str, String) {
    let (ty, ident) = (Lang::C.scalar(dtype), i.ident(name));
    let is_scalar = u.plan.params.iter().any(|p| p.name == name && p.role == Role::Scalar);
    match is_scalar && (dtype.is_float() || dtype == DType::Bool) {
        true => (ty, ident),
        false => (ty, format!("({ty}){ident}")),
    }
}

/// The cases of a `switch` over the variants.
fn cases(f: &Function<'_>, tables: &Tables<'_>, value: impl Fn(&Unit) -> String) -> String {
    let case =
        |units: &&[&Unit]| format!("    case {}:\n        return {};\n", tables.variant(units[0]), value(units[0]));
    format!("    switch (kernels->variant) {{\n{}    }}\n", f.iter().map(case).collect::<String>())
}

fn workspace_bytes(f: &Function<'_>, i: &Interface, package: &str, tables: &Tables<'_>) -> String {
    let (name, params, values) = (&f[0][0].name, args::outer_extents(i), args::extents_to_inner(i));
    let cases = cases(f, tables, |u| format!("(size_t){}_bytes({values})", inner_name(u)));
    let check = args::refused(i, "0");
    format!(
        "\nsize_t {package}_{name}_workspace_bytes(const daylight_{package} *kernels{params})\n{{\n{check}{cases}    return 0;\n}}\n"
    )
}

/// The function that callers have: checks what can be checked, and chooses the variant.
fn launch(f: &Function<'_>, i: &Interface, package: &str, tables: &Tables<'_>) -> String {
    let name = &f[0][0].name;
    let align = f.iter().map(|units| units[0].target.max_load_bytes).max().unwrap_or(16);
    let mut bad = vec!["kernels == NULL".to_string()];
    bad.extend(args::impossible(i));
    bad.extend(i.tensors.iter().map(|t| format!("!dl_aligned({}, {align})", t.ident)));
    bad.push(format!("!dl_aligned(workspace, {align})"));
    let mut body = format!("    if ({})\n        return DL_INVALID_VALUE;\n", bad.join(" || "));
    let bytes = format!("{package}_{name}_workspace_bytes(kernels{})", args::extent_values(i));
    body.push_str(&format!("    if (workspace == 0 && {bytes} > 0)\n        return DL_INVALID_VALUE;\n"));
    let inner = args::to_inner(i);
    body.push_str(&cases(f, tables, |u| format!("{}(kernels, stream{inner}, workspace)", inner_name(u))));
    format!("\n{}\n{{\n{body}    return DL_NO_BINARY;\n}}\n", launch_signature(i, package, name))
}

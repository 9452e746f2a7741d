//! `manifest.json`: enough for a loader in any language. One entry per function and target, or several with the sizes
//! that each takes; targets that
//! share a file and all else share the entry.

use super::rust_cpu::link_name;
use super::unit::{Content, Rung, Unit};
use super::when::When;
use crate::backend::{Arg, Dim, PlanParam, PlanWorkspace, cc, nvrtc};
use crate::target::Kind;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct Manifest<'a> {
    schema: u32,
    /// Options of the compiler for files that are text, by architecture: of the C compiler, or of NVRTC.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    compile: BTreeMap<&'a str, Vec<String>>,
    functions: Vec<Function<'a>>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    key: &'a str,
    rung: Rung,
    /// Of the entries of a function on an architecture, in order, the first whose sizes hold is launched.
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<&'a When>,
    measured_us: Option<f64>,
    params: &'a [PlanParam],
    workspaces: &'a [PlanWorkspace],
    launches: Vec<Launch<'a>>,
}

#[derive(Serialize)]
struct Launch<'a> {
    symbol: Cow<'a, str>,
    file: BTreeMap<&'a str, &'a str>,
    grid: &'a [Dim; 3],
    block: &'a [Dim; 3],
    cluster: &'a [Dim; 3],
    dynamic_smem: &'a Dim,
    pdl: bool,
    args: &'a [Arg],
}

/// The manifest's text. Each launch names its file by architecture.
pub fn text(units: &[Unit]) -> String {
    let mut functions: Vec<Function> = vec![];
    for (i, u) in units.iter().enumerate() {
        match units[..i].iter().position(|first| is_same(first, u)) {
            Some(first) => add_target(&mut functions, &units[first], u),
            None => functions.push(function(u)),
        }
    }
    let manifest = Manifest { schema: 1, compile: compile(units), functions };
    let mut text = serde_json::to_string_pretty(&manifest).expect("a manifest holds only what JSON can say");
    text.push('\n');
    text
}

/// What kernels that were measured are compiled with, of the architectures that have files of text.
fn compile(units: &[Unit]) -> BTreeMap<&str, Vec<String>> {
    let options = |u: &Unit| match u.content {
        Content::Cubin => None,
        Content::Cuda => Some(nvrtc::options(&u.target.arch)),
        Content::C => cc::options(&u.target.id).ok(),
    };
    units.iter().filter_map(|u| Some((u.target.arch.as_str(), options(u)?))).collect()
}

/// The symbol in the file: C text renames its functions, so that many link into one program.
fn symbol<'a>(u: &Unit, name: &'a str) -> Cow<'a, str> {
    match u.target.kind {
        Kind::Cpu => Cow::Owned(link_name(u, name)),
        Kind::Cuda => Cow::Borrowed(name),
    }
}

/// True where two targets of a function differ in name alone.
fn is_same(a: &Unit, b: &Unit) -> bool {
    let of = |u: &Unit| (u.name.clone(), u.file.clone(), u.rung, u.measured_us.map(f64::to_bits));
    of(a) == of(b) && a.plan == b.plan && a.when == b.when
}

/// Names the file for one more target in the entry of a unit.
fn add_target<'a>(functions: &mut [Function<'a>], first: &Unit, u: &'a Unit) {
    let arch = first.target.arch.as_str();
    let own = |f: &&mut Function| {
        f.name == first.name && f.launches.iter().all(|l| l.file.get(arch) == Some(&first.file.as_str()))
    };
    for launch in functions.iter_mut().find(own).into_iter().flat_map(|f| &mut f.launches) {
        launch.file.insert(&u.target.arch, &u.file);
    }
}

fn function(u: &Unit) -> Function<'_> {
    let launches = u.plan.launches.iter().map(|l| Launch {
        symbol: symbol(u, &l.symbol),
        file: BTreeMap::from([(u.target.arch.as_str(), u.file.as_str())]),
        grid: &l.grid,
        block: &l.block,
        cluster: &l.cluster,
        dynamic_smem: &l.dynamic_smem,
        pdl: l.pdl,
        args: &l.args,
    });
    Function {
        name: &u.name,
        key: &u.key,
        rung: u.rung,
        when: u.when.asked(),
        // Three digits: more would be noise, and differ between ways of printing floats.
        measured_us: u.measured_us.map(|us| (us * 1e3).round() / 1e3),
        params: &u.plan.params,
        workspaces: &u.plan.workspaces,
        launches: launches.collect(),
    }
}

//! `daylight check`: read, normalise, judge.

use super::args;
use super::context::Context;
use super::output;
use crate::analysis::{Facts, answered_for, program_roles, roles, unstarted, work};
use crate::backend::Dim;
use crate::ir::device::{DStmt, DeviceFunc};
use crate::ir::{Expr, Param, PrimFunc, Reason, Role};
use crate::job::{BadFile, Exit, Failure, Input, guarded};
use crate::rules::{Prepared, untuned, verdicts};
use crate::target::Target;
use serde::Serialize;

/// What is said of one function; the order of the fields is the order in the JSON.
#[derive(Serialize, Default)]
struct Report {
    schema: u32,
    file: String,
    name: Option<String>,
    status: &'static str,
    reason: Option<Reason>,
    line: Option<usize>,
    column: Option<usize>,
    blocks: Vec<Block>,
    rule: Option<&'static str>,
    params: Vec<ParamReport>,
    flops: Option<u64>,
    bytes: Option<u64>,
    /// What the author of the function answers for, or may not mean.
    notes: Vec<String>,
    #[serde(skip)]
    is_program: bool,
}

#[derive(Serialize)]
struct Block {
    name: String,
    kind: String,
    extents: Vec<Dim>,
    is_reduction: bool,
}

#[derive(Serialize)]
struct ParamReport {
    index: usize,
    name: String,
    dtype: String,
    shape: Vec<Dim>,
    role: String,
}

/// Runs the command.
pub fn run(cx: &Context, a: &args::Check) -> Result<Exit, Failure> {
    let target = cx.target(&a.target)?;
    let mut worst = Exit::Done;
    for input in cx.load(&a.files)? {
        let (report, exit) = match &input {
            Ok(input) => guarded(&input.name, || Ok(judge(cx, input, &target))).unwrap_or_else(|f| broken(input, &f)),
            Err(e) => (unread(e), e.failure.exit),
        };
        worst = worst.max(exit);
        print(cx, &report);
    }
    Ok(worst)
}

fn unread(e: &BadFile) -> Report {
    let predicate = if e.failure.exit == Exit::Input { "syntax" } else { "unreadable" };
    Report {
        schema: 1,
        file: e.file.clone(),
        status: "error",
        reason: Some(Reason::new(predicate, &e.failure.message)),
        line: e.at.map(|a| a.0),
        column: e.at.map(|a| a.1),
        ..Report::default()
    }
}

/// A function on which we fail.
fn broken(input: &Input, f: &Failure) -> (Report, Exit) {
    let reason = Some(Reason::new("bug", &f.message));
    let (file, name) = (input.file.clone(), Some(input.name.clone()));
    (Report { schema: 1, file, name, status: "error", reason, ..Report::default() }, f.exit)
}

fn judge(cx: &Context, input: &Input, target: &Target) -> (Report, Exit) {
    let mut report = Report {
        schema: 1,
        file: input.file.clone(),
        name: Some(input.name.clone()),
        status: "ok",
        params: params(input),
        is_program: input.program.is_some(),
        ..Report::default()
    };
    if let Some(program) = &input.program {
        report.blocks = calls(program);
        report.bytes = bytes(program);
        return (report, Exit::Done);
    }
    match Prepared::new(&input.func) {
        Ok(prepared) => {
            let work = work(&input.func);
            (report.flops, report.bytes) = (work.flops, work.bytes);
            report.blocks = blocks(&prepared.func, &prepared.facts);
            report.rule = untuned(&verdicts(&prepared, target, &cx.spaces)).map(|v| v.rule);
            report.notes = [unstarted(&prepared.func), answered_for(&prepared.func)].concat();
            (report, Exit::Done)
        }
        Err(decline) => {
            report.status = "refused";
            (report.line, report.column) = place(input, &decline.reason.text).unzip();
            report.reason = Some(decline.reason);
            (report, Exit::Input)
        }
    }
}

/// Line and column, from 1, of the block or store that a reason names, or of the function.
fn place(input: &Input, why: &str) -> Option<(usize, usize)> {
    let text = std::fs::read_to_string(&input.file).ok()?;
    let def = format!("def {}(", input.original.name);
    let start = text.find(&def).unwrap_or(0);
    let block = why.split_once("block `").and_then(|(_, rest)| rest.split_once('`')).map(|(name, _)| name);
    let named = block.and_then(|name| {
        let quoted = [format!("block(\"{name}\""), format!("block('{name}'")];
        quoted.iter().filter_map(|q| text[start..].find(q.as_str())).min()
    });
    let stored = why.split_once("the store to `").and_then(|(_, rest)| rest.split_once('`'));
    let store = stored.and_then(|(name, _)| text[start..].find(&format!(" {name}[")).map(|at| at + 1));
    let at = start + named.or(store).unwrap_or(0);
    let line = text[..at].matches('\n').count() + 1;
    let first = text[..at].rfind('\n').map_or(0, |n| n + 1);
    let code = text[first..].find(|c: char| !c.is_whitespace()).unwrap_or(0);
    Some((line, code + 1))
}

fn blocks(func: &PrimFunc, facts: &Facts) -> Vec<Block> {
    let block = |b: &crate::analysis::BlockFacts| Block {
        name: func.display_name(&b.name).to_string(),
        kind: b.kind.clone(),
        extents: b.iters.iter().map(|i| dim(func, &i.extent)).collect(),
        is_reduction: b.is_reduction,
    };
    facts.blocks.iter().map(block).collect()
}

/// The tile calls of a program, one block each.
fn calls(program: &DeviceFunc) -> Vec<Block> {
    let mut out = vec![];
    let mut note = |s: &DStmt| {
        if let DStmt::Tile(call) = s {
            out.push(Block {
                name: format!("{}_{}", call.op.name(), out.len()),
                kind: format!("{}.{}", call.scope.name(), call.op.name()),
                extents: call.dst.extent.iter().map(|n| Dim::Const(*n)).collect(),
                is_reduction: call.op.is_reduction(),
            });
        }
    };
    program.body.iter().for_each(|s| s.visit(&mut note));
    out
}

/// Every input of a program read once plus every output written once.
fn bytes(program: &DeviceFunc) -> Option<u64> {
    let all = program.func.params.iter().zip(program_roles(program)).map(|(p, role)| match p {
        Param::Scalar { .. } => Some(0),
        Param::Buffer(b) => {
            let b = program.func.buffer(b);
            let times = if role == Role::Inout { 2 } else { 1 };
            Some(times * b.len()? as u64 * b.dtype.bytes())
        }
    });
    all.sum()
}

fn params(input: &Input) -> Vec<ParamReport> {
    let f = &input.func;
    let roles = input.program.as_ref().map_or_else(|| roles(&input.original), program_roles);
    let all = f.params.iter().zip(roles).enumerate();
    all.map(|(index, (p, role))| match p {
        Param::Buffer(b) => {
            let buffer = f.buffer(b);
            ParamReport {
                index,
                name: f.display_name(b).to_string(),
                dtype: buffer.dtype.to_string(),
                shape: buffer.shape.iter().map(|e| dim(f, e)).collect(),
                role: role.to_string(),
            }
        }
        Param::Scalar { name, dtype } => ParamReport {
            index,
            name: f.display_name(name).to_string(),
            dtype: dtype.to_string(),
            shape: vec![],
            role: role.to_string(),
        },
    })
    .collect()
}

/// An extent as an integer or as text over the user's names.
fn dim(f: &PrimFunc, e: &Expr) -> Dim {
    Dim::of(e, &|n| f.display_name(n).to_string()).unwrap_or_else(|_| Dim::Expr(e.clone()))
}

fn print(cx: &Context, r: &Report) {
    if cx.json {
        output::line(&serde_json::to_string(r).expect("a report holds only what JSON can say"));
        return;
    }
    let name = r.name.as_deref().unwrap_or("-");
    match &r.reason {
        Some(reason) if r.status == "error" => output::note(&format!("error: {}", reason.text)),
        Some(reason) => {
            let at = r.line.zip(r.column).map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default();
            output::line(&format!("refused  {}{at}: {name}: {reason}", r.file));
        }
        None => {
            let kinds: Vec<&str> = r.blocks.iter().map(|b| b.kind.as_str()).collect();
            let number = |n: Option<u64>, unit| n.map_or(format!("? {unit}"), |n| format!("{n} {unit}"));
            let (flops, bytes) = (number(r.flops, "flops"), number(r.bytes, "bytes"));
            let rule = r.rule.unwrap_or(if r.is_program { "tile program" } else { "no rule" });
            output::line(&format!("ok       {}: {name}: blocks {}, {rule}, {flops}, {bytes}", r.file, kinds.join(" ")));
            r.notes.iter().for_each(|n| output::line(&format!("         note: {n}")));
        }
    }
}

//! Prints a launch on its way down, between two passes of lowering: as `kernel_print` does a kernel, with buffers
//! that may have dimensions, what loops are marked with, and calls that nothing has carried out yet.

use super::device::{Ahead, DFor, DKind, DStmt, ThreadReduce};
use super::kernel::{CacheHint, KStmt};
use super::kernel_print::{hint_text, list, live_text, shape_text, text};
use super::{Buffer, Expr, Name, Scope};
use std::fmt::{self, Display, Formatter};
use std::slice::from_ref;

/// A launch between two passes.
#[derive(Clone, PartialEq, Debug)]
pub struct DeviceLaunch {
    /// Name of the kernel.
    pub symbol: String,
    /// Blocks per axis.
    pub grid: [Expr; 3],
    /// Threads per axis.
    pub block: [u32; 3],
    /// Blocks per cluster, each of which is one of `grid`; 1 where there are none.
    pub cluster: u32,
    /// Blocks that shall fit on a multiprocessor together.
    pub min_blocks: Option<u32>,
    /// The buffers that the body mentions.
    pub buffers: Vec<Buffer>,
    /// What each thread does.
    pub body: Vec<DStmt>,
}

impl Display for DeviceLaunch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", shape_text(&self.grid, self.block, self.cluster, self.min_blocks))?;
        writeln!(f, "kernel {} {{", self.symbol)?;
        self.buffers.iter().try_for_each(|b| writeln!(f, "  {}", buffer_text(b)))?;
        self.body.iter().try_for_each(|s| stmt(f, s, 1))?;
        writeln!(f, "}}")
    }
}

fn buffer_text(b: &Buffer) -> String {
    let scope = if b.scope == Scope::Local { "register" } else { b.scope.name() };
    let mut out = format!("{scope} {} {}", b.dtype, place(&b.name, &b.shape));
    if !b.strides.is_empty() {
        out.push_str(" strides ");
        list(&mut out, &b.strides, '[', ']');
    }
    if let Some(layout) = &b.layout {
        out.push_str(&format!(" layout {layout}"));
    }
    out
}

fn stmt(f: &mut Formatter<'_>, s: &DStmt, depth: usize) -> fmt::Result {
    let (pad, lists) = ("  ".repeat(depth), s.lists());
    if lists.is_empty() {
        return writeln!(f, "{pad}{}", head(s));
    }
    writeln!(f, "{pad}{} {{", head(s))?;
    for (i, inner) in lists.into_iter().enumerate().filter(|(i, inner)| *i == 0 || !inner.is_empty()) {
        if i > 0 {
            writeln!(f, "{pad}}} else {{")?;
        }
        inner.iter().try_for_each(|s| stmt(f, s, depth + 1))?;
    }
    writeln!(f, "{pad}}}")
}

/// The statement without what is inside it.
fn head(s: &DStmt) -> String {
    let same = match s {
        DStmt::For(l) => return loop_text(l),
        DStmt::If { cond, .. } => return format!("if {}", text(cond)),
        DStmt::Tile(call) => return call.to_string(),
        DStmt::Reduce(r) => return reduce_text(r),
        DStmt::Store { buffer, indices, value, hint } => {
            let store = if *hint == CacheHint::Plain { String::new() } else { format!("store{} ", hint_text(*hint)) };
            return format!("{store}{} = {}", place(buffer, indices), text(value));
        }
        DStmt::Copy { dst, dst_index, src, src_index, lanes, hint } => {
            let (to, from) = (place(dst, from_ref(dst_index)), place(src, from_ref(src_index)));
            return format!("copy{lanes}{} {to} <- {from}", hint_text(*hint));
        }
        DStmt::Let { var, value } => KStmt::Let { var: var.clone(), value: value.clone() },
        DStmt::Var { var, dtype, init } => KStmt::Var { var: var.clone(), dtype: *dtype, init: init.clone() },
        DStmt::Assign { var, value } => KStmt::Assign { var: var.clone(), value: value.clone() },
        DStmt::Shuffle { dst, mode, value, width } => {
            KStmt::Shuffle { dst: dst.clone(), mode: *mode, value: value.clone(), width: *width }
        }
        DStmt::Barrier(b) => KStmt::Barrier(*b),
        DStmt::Instr(i) => KStmt::Instr(i.clone()),
    };
    same.head()
}

fn place(buffer: &Name, indices: &[Expr]) -> String {
    let mut out = buffer.to_string();
    list(&mut out, indices, '[', ']');
    out
}

/// The head of a loop, with what later passes are to make of it.
fn loop_text(l: &DFor) -> String {
    let kind = match l.kind {
        DKind::Serial => "for",
        DKind::Unrolled => "unroll",
        DKind::Vectorized => "vector",
    };
    let mut marks = vec![];
    marks.extend(l.batch.then(|| "batch".to_string()));
    marks.extend(l.unroll_step.map(|n| format!("unroll_step {n}")));
    if let Some(t) = &l.tile {
        marks.push(format!("tile {}", t.op.name()));
        marks.extend(t.variant.iter().map(|v| format!("variant {v}")));
        marks.extend(t.warps.map(|[m, n]| format!("warps {m}x{n}")));
    }
    marks.extend((l.stages > 1).then(|| format!("stages {}", l.stages)));
    marks.extend((l.roles > 0).then(|| format!("roles {}", l.roles)));
    marks.extend(l.own_barriers.then(|| "own_barriers".to_string()));
    marks.extend((l.hint != CacheHint::Plain).then(|| hint_text(l.hint).trim_start_matches('.').to_string()));
    marks.extend(match l.prefetch {
        Ahead::Never => None,
        Ahead::Blocks(n) => Some(format!("prefetch {n} blocks")),
        Ahead::Bytes(n) => Some(format!("prefetch {n} bytes")),
    });
    let marks = if marks.is_empty() { String::new() } else { format!(", {}", marks.join(", ")) };
    format!("{kind} {} < {}{}{marks}", l.var, text(&l.extent), live_text(l.live.as_ref()))
}

fn reduce_text(r: &ThreadReduce) -> String {
    let tags: Vec<&str> = r.tags.iter().map(|t| t.name()).collect();
    let loops = |name: &str, all: Vec<String>| match all.is_empty() {
        true => String::new(),
        false => format!(", {name} {}", all.join(", ")),
    };
    let part = |name: &str, e: &Option<Expr>| e.as_ref().map_or_else(String::new, |e| format!(", {name} {}", text(e)));
    format!(
        "{} = reduce {} over {}{}{}{}{}{}{}{}",
        place(&r.dst, &r.indices),
        text(&Expr::binary(r.op, r.identity.clone(), r.term.clone())),
        tags.join(", "),
        loops("for each", r.elements.iter().map(|(v, n)| format!("{v} < {n}")).collect()),
        loops("for", r.serial.iter().map(|(v, n)| format!("{v} < {}", text(n))).collect()),
        part("where", &r.guard),
        part("from", &r.start),
        part("written where", &r.write_guard),
        r.variant.as_ref().map_or_else(String::new, |v| format!(", variant {v}")),
        if r.needs_all { ", for all" } else { "" },
    )
}

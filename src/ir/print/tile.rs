//! Text of tile programs, in the form that the reader takes.

use super::names::Names;
use super::stmt::Printer;
use super::{expr, literal};
use crate::ir::device::{DFor, DKind, DStmt, DeviceFunc};
use crate::ir::instr::{Instr, Op, Sync};
use crate::ir::kernel::Barrier;
use crate::ir::{DType, Expr, ExprKind, Name, Param, PrimFunc, ThreadTag, Tile, TileArg, TileCall, ops};
use std::fmt::{self, Display, Formatter};

/// Names of the indices of blocks and threads where the user gave none.
const INDICES: [(ThreadTag, &str); 6] = [
    (ThreadTag::BlockX, "bx"),
    (ThreadTag::BlockY, "by"),
    (ThreadTag::BlockZ, "bz"),
    (ThreadTag::ThreadX, "tx"),
    (ThreadTag::ThreadY, "ty"),
    (ThreadTag::ThreadZ, "tz"),
];

/// The whole program.
pub(super) fn text(program: &DeviceFunc, names: Names) -> String {
    let f = &program.func;
    let mut p = Printer::new(f, names);
    p.line("# from tvm.script import tirx as T");
    p.line("# from tvm.script import tirx as Tx");
    if f.buffers.iter().any(|b| b.layout.is_some()) {
        p.line("# from tvm.tirx.layout import *");
    }
    p.line("");
    p.line(if f.private { "@T.prim_func(private=True)" } else { "@T.prim_func" });
    let handles = params(&mut p, f);
    p.line(&format!("def {}({}):", f.name, handles.join(", ")));
    p.indented(|p| {
        buffers(p, f);
        if !f.attrs.is_empty() {
            p.line(&format!("T.func_attr({})", literal::dict(&f.attrs)));
        }
        p.line("T.device_entry()");
        indices(p, program);
        for name in &f.allocs {
            let args = p.buffer_args(f.buffer(name), &[], true, true);
            let name = p.names.declare(name);
            p.line(&format!("{name} = T.alloc_buffer({args})"));
        }
        list(p, &program.body);
    });
    p.out
}

/// Parameters in the header: handles for buffers.
fn params(p: &mut Printer, f: &PrimFunc) -> Vec<String> {
    let mut out = vec![];
    for param in &f.params {
        match param {
            Param::Scalar { name, dtype } => out.push(format!("{}: T.{dtype}", p.names.declare(name))),
            Param::Buffer(name) => {
                let wanted = format!("{}_ptr", p.names.wanted(name));
                let handle = p.names.declare_as(&handle(name), &wanted);
                out.push(format!("{handle}: T.handle"));
            }
        }
    }
    out
}

/// The name of the handle of a buffer: no buffer or variable has it.
fn handle(buffer: &Name) -> Name {
    Name::new(format!("{buffer}_ptr"))
}

fn buffers(p: &mut Printer, f: &PrimFunc) {
    for param in &f.params {
        if let Param::Buffer(name) = param {
            let args = p.buffer_args(f.buffer(name), &[], true, true);
            let source = p.names.get(&handle(name));
            let name = p.names.declare(name);
            p.line(&format!("{name} = T.match_buffer({source}, {args})"));
        }
    }
}

/// `bx = T.cta_id([4])` and `tx = T.thread_id([32])`; indices that nothing uses have no name.
fn indices(p: &mut Printer, program: &DeviceFunc) {
    let grid = program.grid.clone().map(|e| e.as_int().map_or_else(|| e.to_string(), |v| v.to_string()));
    let block = program.block.map(|n| n.to_string());
    for (call, extents, tags) in [("cta_id", grid, &INDICES[..3]), ("thread_id", block, &INDICES[3..])] {
        let rank = extents.iter().rposition(|e| e != "1").map_or(1, |k| k + 1);
        let used = tags.iter().rposition(|t| uses(program, t.0)).map_or(0, |k| k + 1);
        let extents = extents[..rank.max(used)].join(", ");
        let named: Vec<String> = tags[..used].iter().map(|(tag, short)| declare(p, *tag, short)).collect();
        let head = if named.is_empty() { String::new() } else { format!("{} = ", named.join(", ")) };
        p.line(&format!("{head}T.{call}([{extents}])"));
    }
}

fn declare(p: &mut Printer, tag: ThreadTag, short: &str) -> String {
    let name = Name::new(tag.name());
    p.names.declare_as(&name, short)
}

fn uses(program: &DeviceFunc, tag: ThreadTag) -> bool {
    let name = Name::new(tag.name());
    let mut found = false;
    let mut look = |s: &DStmt| s.for_each_expr(|e| found |= e.uses_var(&name));
    program.body.iter().for_each(|s| s.visit(&mut look));
    found
}

fn list(p: &mut Printer, body: &[DStmt]) {
    body.iter().for_each(|s| stmt(p, s));
}

fn stmt(p: &mut Printer, s: &DStmt) {
    match s {
        DStmt::For(l) => for_loop(p, l),
        DStmt::If { cond, then, otherwise } => {
            let cond = value(cond, &p.names);
            p.line(&format!("if {cond}:"));
            p.indented(|p| list(p, then));
            if !otherwise.is_empty() {
                p.line("else:");
                p.indented(|p| list(p, otherwise));
            }
        }
        DStmt::Store { buffer, indices, value: v, .. } => {
            let line = format!("{}[{}] = {}", p.names.get(buffer), places(indices, &p.names), value(v, &p.names));
            p.line(&line);
        }
        DStmt::Let { var, value: v } => {
            let text = value(v, &p.names);
            // To TVM, threads, blocks and loops count in int32.
            let wide = v.dtype() == DType::I64 && v.as_int().is_none();
            let text = if wide { format!("T.Cast(\"int64\", {text})") } else { text };
            let var = p.names.declare(var);
            p.line(&format!("{var}: T.let[T.{}] = {text}", v.dtype()));
        }
        DStmt::Barrier(b) => p.line(&barrier(*b)),
        DStmt::Tile(c) => {
            let line = call(c, p);
            p.line(&line);
        }
        DStmt::Instr(i) => {
            let line = instruction(i, &p.names);
            p.line(&line);
        }
        // What only lowering makes has no form in a program.
        DStmt::Copy { .. } | DStmt::Var { .. } | DStmt::Assign { .. } | DStmt::Shuffle { .. } | DStmt::Reduce(_) => {
            p.line("# a statement that lowering made");
        }
    }
}

fn for_loop(p: &mut Printer, l: &DFor) {
    let head = match l.kind {
        DKind::Serial => "serial",
        DKind::Unrolled => "unroll",
        DKind::Vectorized => "vectorized",
    };
    let extent = place(&l.extent, &p.names);
    let notes =
        l.unroll_step.map_or_else(String::new, |n| format!(", annotations={{\"pragma_auto_unroll_max_step\": {n}}}"));
    let mark = p.names.mark();
    let var = p.names.declare(&l.var);
    p.line(&format!("for {var} in T.{head}({extent}{notes}):"));
    p.indented(|p| list(p, &l.body));
    p.names.release(mark);
}

fn barrier(b: Barrier) -> String {
    match b {
        Barrier::Block => "T.cuda.cta_sync()".to_string(),
        Barrier::Warp => "T.cuda.warp_sync()".to_string(),
        Barrier::Named { id, .. } => format!("T.cuda.warpgroup_sync({id})"),
        Barrier::ClusterArrive { release: true } => "T.ptx.barrier.cluster.arrive()".to_string(),
        Barrier::ClusterArrive { release: false } => "T.ptx.barrier.cluster.arrive.relaxed()".to_string(),
        Barrier::ClusterWait => "T.ptx.barrier.cluster.wait()".to_string(),
    }
}

/// An instruction of a program, as TVM 0.27 spells it; a comment for what lowering made.
fn instruction(i: &Instr, names: &Names) -> String {
    let Op::Sync(sync) = i.op else { return format!("# {i}") };
    let bar = i.places.iter().map(|bar| format!("{}.ptr_to([{}])", names.get(&bar.array), place(&bar.index, names)));
    let narrow = |e: &Expr| match e.as_int() {
        Some(n) => format!("T.uint32({n})"),
        None => format!("T.Cast(\"uint32\", {})", value(&bare(e), names)),
    };
    let number = match sync {
        Sync::MbarrierInit { arrivals } => Some(format!("T.uint32({arrivals})")),
        Sync::MbarrierArrive => Some("T.uint32(1)".to_string()),
        Sync::MbarrierExpect => i.values.first().map(narrow),
        Sync::MbarrierWait => i.values.first().map(|parity| place(&bare(parity), names)),
        Sync::CpAsyncWait { left } | Sync::BulkWait { left, .. } | Sync::WgmmaWait { left } => Some(left.to_string()),
        Sync::CpAsyncCommit
        | Sync::MbarrierFence
        | Sync::BulkCommit
        | Sync::AsyncFence
        | Sync::WgmmaFence
        | Sync::WgmmaCommit => None,
    };
    let args: Vec<String> = bar.chain(number).collect();
    format!("T.{}({})", sync.spelling(), args.join(", "))
}

/// How the parts of a call are spelled.
struct Spelling<'s> {
    /// Barriers are pointers, as a program has them.
    pointers: bool,
    buffer: &'s dyn Fn(&Tile) -> String,
    /// Tiles that show without slices.
    whole: &'s dyn Fn(&Tile) -> bool,
    expr: &'s dyn Fn(&Expr) -> String,
    /// An index.
    place: &'s dyn Fn(&Expr) -> String,
}

impl Spelling<'_> {
    fn call(&self, c: &TileCall) -> String {
        let mut parts = vec![self.tile(&c.dst)];
        parts.extend(c.args.iter().map(|a| self.arg(a)));
        if c.op.is_reduction() {
            let axes: Vec<String> = c.axes.iter().map(usize::to_string).collect();
            parts.push(format!("axes={}", expr::tuple(&axes)));
            parts.push(format!("accum={}", if c.accum { "True" } else { "False" }));
        } else if c.accum {
            parts.push("accum=True".to_string());
        }
        parts.extend(c.operands.iter().map(|(k, v)| format!("{k}={}", self.named(k, v))));
        parts.extend(c.config.iter().map(|(k, v)| format!("{k}={}", literal::attr(v))));
        parts.extend(c.forced.iter().map(|v| format!("dispatch={}", literal::string(v))));
        format!("Tx.{}.{}({})", c.scope.name(), c.op.name(), parts.join(", "))
    }

    fn named(&self, key: &str, arg: &TileArg) -> String {
        match arg {
            TileArg::Tile(t) if self.pointers && key == "mbar" && t.len() == 1 => {
                let index: Vec<String> = t.begin.iter().map(|e| (self.place)(e)).collect();
                format!("{}.ptr_to([{}])", (self.buffer)(t), index.join(", "))
            }
            _ => self.arg(arg),
        }
    }

    fn arg(&self, a: &TileArg) -> String {
        match a {
            TileArg::Tile(t) => self.tile(t),
            TileArg::Scalar(e) => (self.expr)(e),
        }
    }

    fn tile(&self, t: &Tile) -> String {
        let buffer = (self.buffer)(t);
        if (self.whole)(t) {
            return buffer;
        }
        let dims = t.begin.iter().zip(&t.extent).map(|(b, n)| match b.as_int() {
            Some(v) => format!("{v}:{}", v.saturating_add(*n)),
            None => format!("{}:{}", (self.expr)(b), (self.expr)(&(b.clone() + Expr::i64(*n)))),
        });
        format!("{buffer}[{}]", dims.collect::<Vec<_>>().join(", "))
    }
}

/// A call of a program.
fn call(c: &TileCall, p: &Printer) -> String {
    let spelling = Spelling {
        pointers: true,
        buffer: &|t| p.names.get(&t.buffer),
        whole: &|t| is_whole(p.func, t),
        expr: &|e| value(e, &p.names),
        place: &|e| place(e, &p.names),
    };
    spelling.call(c)
}

/// On its own, a call shows canonical names and slices everywhere.
const ALONE: Spelling<'static> = Spelling {
    pointers: false,
    buffer: &|t| t.buffer.to_string(),
    whole: &|_| false,
    expr: &crate::ir::kernel_print::text,
    place: &crate::ir::kernel_print::text,
};

impl Display for Tile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&ALONE.tile(self))
    }
}

impl Display for TileArg {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&ALONE.arg(self))
    }
}

impl Display for TileCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&ALONE.call(self))
    }
}

fn is_whole(f: &PrimFunc, t: &Tile) -> bool {
    let Some(b) = f.find_buffer(&t.buffer) else { return false };
    t.begin.iter().all(|e| e.is_int(0))
        && b.shape.len() == t.extent.len()
        && b.shape.iter().zip(&t.extent).all(|(e, n)| e.is_int(*n))
}

/// Indices of an element.
fn places(indices: &[Expr], names: &Names) -> String {
    if indices.is_empty() {
        return "()".to_string();
    }
    indices.iter().map(|e| place(e, names)).collect::<Vec<_>>().join(", ")
}

/// An expression that is `int64` wherever it stands: an index, an extent.
fn place(e: &Expr, names: &Names) -> String {
    match e.as_int() {
        Some(v) => v.to_string(),
        None => value(e, names),
    }
}

/// Any other expression. Constants of `int64` show as plain numbers where they meet a variable of
/// that type, and so do indices.
fn value(e: &Expr, names: &Names) -> String {
    expr::text(&plain(e), names)
}

fn plain(e: &Expr) -> Expr {
    let e = e.map_children(plain);
    match e.kind() {
        ExprKind::Binary { op, a, b } => match (number(a), number(b)) {
            (Some(a), None) => Expr::binary(*op, a, b.clone()),
            (None, Some(b)) => Expr::binary(*op, a.clone(), b),
            _ => e,
        },
        ExprKind::Load { buffer, indices, dtype } => {
            let indices = indices.iter().map(|i| number(i).unwrap_or_else(|| bare(i))).collect();
            Expr::load(buffer.clone(), indices, *dtype)
        }
        _ => e,
    }
}

/// An `int64` constant as one that prints as a plain number.
fn number(e: &Expr) -> Option<Expr> {
    let v = e.as_int().filter(|v| e.dtype() == DType::I64 && ops::fits(*v, DType::I32))?;
    Some(Expr::i32(v))
}

/// An index without the conversion to `int64` that reading gives it.
fn bare(e: &Expr) -> Expr {
    match e.kind() {
        ExprKind::Cast { dtype: DType::I64, arg } if arg.dtype().is_int() => arg.clone(),
        _ => e.clone(),
    }
}

//! Checks that a tile program is well formed. A program that was read is.

use super::device::{DStmt, DeviceFunc};
use super::instr::{Instr, Op};
use super::{Buffer, DType, Expr, ExprKind, Name, Param, Scope, ThreadTag, Tile, TileCall, VerifyError};
use std::collections::{BTreeMap, BTreeSet};

/// Threads that a block may have.
const MAX_THREADS: u64 = 1024;

const LOWERED: &str = "only lowering makes such a statement";

/// Checks that every name is unique and declared before its use, that extents are constants, that
/// index arithmetic is `int64`, that ranks, layouts and tiles fit their buffers, and that the body
/// holds nothing that only lowering makes.
///
/// # Errors
/// Everything that was found wrong, in program order.
pub fn verify_device(program: &DeviceFunc) -> Result<(), Vec<VerifyError>> {
    let mut v = Verifier { program, vars: BTreeMap::new(), seen: BTreeSet::new(), errors: vec![] };
    v.header();
    v.list(&program.body);
    if v.errors.is_empty() { Ok(()) } else { Err(v.errors) }
}

struct Verifier<'p> {
    program: &'p DeviceFunc,
    /// Variables in scope.
    vars: BTreeMap<Name, DType>,
    /// Every name ever declared.
    seen: BTreeSet<Name>,
    errors: Vec<VerifyError>,
}

impl Verifier<'_> {
    fn error(&mut self, at: &Name, message: impl Into<String>) {
        self.errors.push(VerifyError { at: at.clone(), message: message.into() });
    }

    fn declare(&mut self, name: &Name, dtype: DType) {
        if !self.seen.insert(name.clone()) {
            self.error(name, "the name is declared twice");
        }
        self.vars.insert(name.clone(), dtype);
    }

    fn header(&mut self) {
        let p = self.program;
        for (tag, name) in ThreadTag::ALL {
            if tag.is_block() || tag.is_thread() {
                self.vars.insert(Name::new(name), DType::I64);
            }
        }
        let threads: u64 = p.block.iter().map(|n| u64::from(*n)).product();
        if threads == 0 || threads > MAX_THREADS {
            self.error(&Name::new("threadIdx"), format!("a block has 1 to {MAX_THREADS} threads, not {threads}"));
        }
        if p.grid.iter().any(|e| e.as_int().is_none_or(|n| n < 1)) {
            self.error(&Name::new("blockIdx"), "the extents of the grid are positive constants");
        }
        for param in &p.func.params {
            if let Param::Scalar { name, dtype } = param {
                self.declare(name, *dtype);
            }
        }
        for b in &p.func.buffers {
            self.buffer(b);
        }
    }

    fn buffer(&mut self, b: &Buffer) {
        if !self.seen.insert(b.name.clone()) {
            self.error(&b.name, "the name is declared twice");
        }
        let shape: Option<Vec<i64>> = b.shape.iter().map(Expr::as_int).collect();
        let Some(shape) = shape else { return self.error(&b.name, "the extents of a buffer are constants") };
        if !shape.iter().all(|n| *n >= 1) {
            self.error(&b.name, "the extents of a buffer are at least 1");
        } else if let Some(Err(why)) = b.layout.as_ref().map(|l| l.fit(&shape)) {
            self.error(&b.name, why);
        }
        let param = self.program.func.is_param(&b.name);
        let allocated = self.program.func.allocs.contains(&b.name);
        let legal = match &b.scope {
            Scope::Global => param && !allocated,
            Scope::Shared | Scope::SharedDyn | Scope::Local | Scope::Tensor => allocated && !param,
            Scope::Cluster | Scope::Other(_) => false,
        };
        if !legal {
            self.error(&b.name, format!("a buffer of scope \"{}\" is not declared so", b.scope.name()));
        }
    }

    /// Statements in a scope of their own.
    fn list(&mut self, body: &[DStmt]) {
        let outer = self.vars.clone();
        body.iter().for_each(|s| self.stmt(s));
        self.vars = outer;
    }

    fn stmt(&mut self, s: &DStmt) {
        s.for_each_expr(|e| self.expr(e));
        match s {
            DStmt::For(l) => {
                if l.extent.dtype() != DType::I64 {
                    self.error(&l.var, "the extent of a loop is int64");
                }
                let outer = self.vars.clone();
                self.declare(&l.var, DType::I64);
                self.list(&l.body);
                self.vars = outer;
            }
            DStmt::If { cond, then, otherwise } => {
                if cond.dtype() != DType::Bool {
                    self.error(&Name::new("if"), "a condition is bool");
                }
                self.list(then);
                self.list(otherwise);
            }
            DStmt::Store { buffer, indices, value, .. } => match self.program.func.find_buffer(buffer) {
                None => self.error(buffer, "the buffer is not in the table"),
                Some(b) if b.dtype != value.dtype() => {
                    self.error(buffer, format!("a value of {} is stored to {}", value.dtype(), b.dtype));
                }
                Some(b) => self.indices(buffer, b.shape.len(), indices),
            },
            DStmt::Let { var, value } => self.declare(var, value.dtype()),
            DStmt::Tile(call) => self.call(call),
            DStmt::Barrier(_) => {}
            DStmt::Instr(i) => self.instruction(i),
            DStmt::Copy { .. }
            | DStmt::Var { .. }
            | DStmt::Assign { .. }
            | DStmt::Shuffle { .. }
            | DStmt::Reduce(_) => self.error(&Name::new("statement"), LOWERED),
        }
    }

    /// Places of what a program may hold are barriers, values their bytes and phases.
    fn instruction(&mut self, i: &Instr) {
        if !matches!(i.op, Op::Sync(_)) {
            return self.error(&Name::new("statement"), LOWERED);
        }
        for bar in &i.places {
            if i.values.iter().any(|e| e.dtype() != DType::I64) {
                self.error(&bar.array, "the bytes and phases of a barrier are int64");
            }
            let Some(b) = self.program.func.find_buffer(&bar.array) else {
                return self.error(&bar.array, "the buffer is not in the table");
            };
            let shared = matches!(b.scope, Scope::Shared | Scope::SharedDyn);
            if !shared || b.dtype != DType::U64 || b.layout.is_some() {
                self.error(&bar.array, "a barrier is a uint64 in shared memory, in a buffer without a layout");
            }
            self.indices(&bar.array, b.shape.len(), std::slice::from_ref(&bar.index));
        }
    }

    fn call(&mut self, call: &TileCall) {
        call.for_each_tile(|t| self.tile(t));
        if let Err(why) = call.conforms() {
            self.error(&call.dst.buffer, why);
        }
    }

    fn tile(&mut self, t: &Tile) {
        let Some(b) = self.program.func.find_buffer(&t.buffer) else {
            return self.error(&t.buffer, "the buffer is not in the table");
        };
        if t.extent.len() != b.shape.len() {
            return self.error(&t.buffer, format!("a tile of {} dimensions", t.extent.len()));
        }
        self.indices(&t.buffer, b.shape.len(), &t.begin);
        for ((begin, extent), size) in t.begin.iter().zip(&t.extent).zip(&b.shape) {
            let size = size.as_int().unwrap_or(i64::MAX);
            let last = begin.as_int().unwrap_or(0).checked_add(*extent);
            let inside = *extent >= 1 && begin.as_int().is_none_or(|b| b >= 0) && last.is_some_and(|n| n <= size);
            if !inside {
                self.error(&t.buffer, format!("the tile {t} lies outside the buffer"));
            }
        }
    }

    fn indices(&mut self, buffer: &Name, rank: usize, indices: &[Expr]) {
        if indices.len() != rank {
            self.error(buffer, format!("{} indices for {rank} dimensions", indices.len()));
        }
        if indices.iter().any(|e| e.dtype() != DType::I64) {
            self.error(buffer, "an index is int64");
        }
    }

    fn expr(&mut self, e: &Expr) {
        e.visit(&mut |e| match e.kind() {
            ExprKind::Var { name, dtype } => match self.vars.get(name) {
                None => self.error(name, "the variable is used where it is not in scope"),
                Some(d) if d != dtype => self.error(name, format!("it is declared {d} and used as {dtype}")),
                Some(_) => {}
            },
            ExprKind::Load { buffer, indices, .. } => match self.program.func.find_buffer(buffer) {
                None => self.error(buffer, "the buffer is not in the table"),
                Some(b) => self.indices(buffer, b.shape.len(), indices),
            },
            ExprKind::Let { var, value, .. } => self.declare(var, value.dtype()),
            ExprKind::Extern { callee, .. } => {
                self.error(&Name::new(callee.as_ref()), "an opaque call has no place in a tile program");
            }
            _ => {}
        });
    }
}

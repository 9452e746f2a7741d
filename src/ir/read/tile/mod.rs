//! Tile programs: functions that hold `T.device_entry()`.
//!
//! `ids` says which threads there are, `stmt` reads statements, `call` calls of tile primitives,
//! `ptx` instructions, `region` parts of buffers and the layouts of buffers.

mod call;
mod ids;
mod ptx;
mod region;
mod stmt;

use super::ast::{Def, PyStmt, PyStmtKind};
use super::error::{Problem, problem};
use super::func::{Function, take_symbol};
use crate::ir::device::{DStmt, DeviceFunc};
use crate::ir::{Param, PrimFunc, Scope as Memory, canonicalize_device};
use ids::Ids;

/// True for a function that says where the device begins.
pub(super) fn is_program(def: &Def) -> bool {
    def.body.iter().any(is_entry)
}

/// `T.device_entry()`.
fn is_entry(s: &PyStmt) -> bool {
    matches!(&s.kind, PyStmtKind::Expr(n) if n.tir_call().is_some_and(|c| c.0 == "device_entry"))
}

impl Function<'_> {
    /// Reads a tile program.
    pub fn read_tile(mut self, def: &Def, private: bool) -> Result<DeviceFunc, Problem> {
        self.header(def)?;
        let ids = Ids::of(&mut self.scope, def)?;
        let mut program = Program { ids, body: vec![], entered: false };
        for s in &def.body {
            self.tile_statement(s, &mut program)?;
        }
        self.all_matched(def)?;
        if let Some(at) = self.scope.first_use.first() {
            return problem(*at, "the extents of a tile program are constants; write a number here");
        }
        let local = |b: &&crate::ir::Buffer| b.scope != Memory::Global;
        let allocs = self.scope.buffers.iter().filter(local).map(|b| b.name.clone()).collect();
        let mut func = PrimFunc {
            name: def.name.clone(),
            private,
            params: self.params.into_iter().flatten().collect::<Vec<Param>>(),
            buffers: self.scope.buffers,
            extents: vec![],
            attrs: self.attrs,
            allocs,
            body: vec![],
            display: self.scope.display,
        };
        take_symbol(&mut func);
        let (grid, block) = (program.ids.grid(), program.ids.block());
        Ok(canonicalize_device(DeviceFunc { func, grid, block, body: program.body }))
    }

    fn tile_statement(&mut self, s: &PyStmt, program: &mut Program) -> Result<(), Problem> {
        if is_entry(s) {
            if std::mem::replace(&mut program.entered, true) {
                return problem(s.at, "T.device_entry() stands here twice; a program has one");
            }
            return Ok(());
        }
        if self.function_part(s)? || program.ids.declared(&mut self.scope, s)? {
            return Ok(());
        }
        if let PyStmtKind::Assign { target, value } = &s.kind
            && self.scope.declares(target, value)?
        {
            return Ok(());
        }
        if !program.entered && !matches!(s.kind, PyStmtKind::Nothing) {
            return problem(s.at, "this statement stands before T.device_entry(), where only buffers are declared");
        }
        self.scope.device_stmt(s, &program.ids, &mut program.body)
    }
}

/// A program under construction.
struct Program {
    ids: Ids,
    body: Vec<DStmt>,
    entered: bool,
}

//! A value that reads global memory besides what lanes hold, as one of the row and the column that it stands in.

use super::patch::Patch;
use crate::ir::{DType, Expr, ExprKind, Name};
use crate::lower::nest::Nest;

/// Elements that a lane may have in flight: as many registers, if each has one.
const MAX_EARLY: usize = 32;

/// A value of the patch's warp, row and a column.
pub struct RowValue {
    /// What lanes hold of it, as they hold it.
    pub held: Expr,
    /// Loads that it always makes, each once.
    pub reads: Vec<Expr>,
    /// With variables in place of both.
    value: Expr,
}

impl RowValue {
    /// `None` for what reads no global memory, holds nothing or several things, or is no function of row and column.
    /// `each` is how many elements a lane computes at a time.
    pub fn of(nest: &Nest, patch: &Patch, column: &Name, value: &Expr, each: usize) -> Option<RowValue> {
        if !value.any(&|e| nest.is_global_load(e)) {
            return None;
        }
        let lets = value.lets();
        let mut reader = Reader { nest, patch, column, lets, held: None, reads: vec![], fails: false };
        let mapped = reader.value(value, true);
        let Reader { held: Some(held), reads, fails: false, .. } = reader else { return None };
        let row = RowValue { held, reads, value: mapped };
        let early = row.reads.len() * each <= MAX_EARLY;
        Some(if early { row } else { row.late() })
    }

    /// The value of what is held, and of what was read.
    pub fn with(&self, held: &Expr, reads: &[Expr]) -> Expr {
        self.value.subst(&|n| match n {
            n if *n == held_name() => Some(held.clone()),
            n => reads.iter().enumerate().find(|(i, _)| *n == read_name(*i)).map(|(_, e)| e.clone()),
        })
    }

    /// The same with all loads where they are used.
    fn late(self) -> RowValue {
        let held = Expr::var(held_name(), self.held.dtype());
        let value = self.with(&held, &self.reads);
        RowValue { reads: vec![], value, ..self }
    }
}

fn held_name() -> Name {
    Name::new("what is held")
}

fn read_name(i: usize) -> Name {
    Name::new(format!("what is read, {i}"))
}

struct Reader<'r, 'n> {
    nest: &'r Nest<'n>,
    patch: &'r Patch<'r>,
    column: &'r Name,
    /// Names that the value gives to parts of itself.
    lets: Vec<Name>,
    held: Option<Expr>,
    reads: Vec<Expr>,
    fails: bool,
}

impl Reader<'_, '_> {
    /// `always` is false for what is evaluated under a condition.
    fn value(&mut self, e: &Expr, always: bool) -> Expr {
        match e.kind() {
            ExprKind::Load { buffer, indices, dtype } if self.nest.is_global(buffer) => {
                let indices = indices.iter().map(|i| self.index(i)).collect();
                let load = Expr::load(buffer.clone(), indices, *dtype);
                if always && !self.lets.iter().any(|n| load.uses_var(n)) { self.read(load) } else { load }
            }
            ExprKind::Load { dtype, .. } => {
                self.fails |= self.held.as_ref().is_some_and(|known| known != e);
                self.held = Some(e.clone());
                Expr::var(held_name(), *dtype)
            }
            ExprKind::IfThenElse { .. } | ExprKind::Select { .. } => e.map_children(|c| self.value(c, false)),
            _ if e.dtype() == DType::I64 => self.index(e),
            _ => e.map_children(|c| self.value(c, always)),
        }
    }

    fn read(&mut self, load: Expr) -> Expr {
        let dtype = load.dtype();
        let i = self.reads.iter().position(|known| *known == load).unwrap_or_else(|| {
            self.reads.push(load);
            self.reads.len() - 1
        });
        Expr::var(read_name(i), dtype)
    }

    fn index(&mut self, e: &Expr) -> Expr {
        let of_column = self.patch.of_column(e, self.column);
        self.fails |= of_column.is_none();
        of_column.map_or_else(|| e.clone(), |(_, e)| e)
    }
}

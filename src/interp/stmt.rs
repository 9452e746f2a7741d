//! Compiles statements to bytecode. Every loop runs serially, whatever it is bound to.

use super::Mode;
use super::compile::{Compiler, Val};
use super::op::{IntOp, InterpError, Op};
use crate::ir::{Block, DType, Expr, ExprKind, For, ForKind, IterKind, Name, Stmt};

type Result<T> = std::result::Result<T, InterpError>;

impl Compiler<'_> {
    /// Code for statements in order.
    pub fn stmts(&mut self, list: &[Stmt]) -> Result<()> {
        list.iter().try_for_each(|s| self.stmt(s))
    }

    fn stmt(&mut self, s: &Stmt) -> Result<()> {
        let mark = self.mark();
        match s {
            Stmt::For(l) => self.for_loop(l)?,
            Stmt::Block(b) => self.block(b)?,
            Stmt::If { cond, then, otherwise } => self.conditional(cond, then, otherwise)?,
            Stmt::While { cond, body } => self.while_loop(cond, body)?,
            Stmt::Store { buffer, indices, value } => self.store(buffer, indices, value)?,
            Stmt::Let { var, value } => self.bind(var, value)?,
            Stmt::Evaluate(e) => {
                self.expr(e)?;
            }
            Stmt::Attr { body, .. } => self.stmts(body)?,
            Stmt::Alloc { .. } => {}
        }
        self.release(mark);
        Ok(())
    }

    /// Emits a jump that is taken where `cond` is false; patch it later.
    pub fn skip_unless(&mut self, cond: &Expr) -> Result<u32> {
        let mark = self.mark();
        let c = self.expr(cond)?.int()?;
        self.release(mark);
        let at = self.here();
        self.emit(Op::JumpIfZero { c, to: 0 });
        Ok(at)
    }

    pub fn patch_here(&mut self, at: u32) {
        let here = self.here();
        self.patch(at, here);
    }

    fn conditional(&mut self, cond: &Expr, then: &[Stmt], otherwise: &[Stmt]) -> Result<()> {
        let skip = self.skip_unless(cond)?;
        self.stmts(then)?;
        if otherwise.is_empty() {
            self.patch_here(skip);
            return Ok(());
        }
        let done = self.here();
        self.emit(Op::Jump { to: 0 });
        self.patch_here(skip);
        self.stmts(otherwise)?;
        self.patch_here(done);
        Ok(())
    }

    fn while_loop(&mut self, cond: &Expr, body: &[Stmt]) -> Result<()> {
        let start = self.here();
        let exit = self.skip_unless(cond)?;
        self.stmts(body)?;
        self.emit(Op::Jump { to: start });
        self.patch_here(exit);
        Ok(())
    }

    fn for_loop(&mut self, l: &For) -> Result<()> {
        if !self.backwards || !has_no_order(l) {
            return self.counted(&l.var, &l.min, &l.extent, |c| c.stmts(&l.body));
        }
        let step = Name::new(format!("{}.step", l.var));
        let last = l.min.clone() + l.min.clone() + l.extent.clone() - Expr::int(1, l.dtype);
        let mirrored = last - Expr::var(step.clone(), l.dtype);
        self.counted(&step, &l.min, &l.extent, |c| {
            c.bind(&l.var, &mirrored)?;
            c.stmts(&l.body)
        })
    }

    /// A loop over `[min, min + extent)` around what `body` emits.
    pub fn counted(
        &mut self,
        var: &Name,
        min: &Expr,
        extent: &Expr,
        body: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let i = self.lasting(DType::I64)?.int()?;
        let limit = self.lasting(DType::I64)?.int()?;
        let mark = self.mark();
        let (from, size) = (self.expr(min)?.int()?, self.expr(extent)?.int()?);
        self.emit(Op::MovI { d: i, a: from });
        self.emit(Op::AddI { d: limit, a: from, b: size });
        self.release(mark);
        self.vars.insert(var.clone(), Val::I(i));
        let enter = self.here();
        self.emit(Op::LoopEnter { i, limit, exit: 0 });
        let start = self.here();
        body(self)?;
        self.emit(Op::LoopNext { i, limit, body: start });
        self.patch_here(enter);
        Ok(())
    }

    fn block(&mut self, b: &Block) -> Result<()> {
        if !b.matches.is_empty() {
            return Err(InterpError::Unsupported(
                "buffers that alias a part of another (`T.match_buffer`)".to_string(),
            ));
        }
        for it in &b.iters {
            match it.binding.as_var().and_then(|v| self.vars.get(v)).copied() {
                Some(v) => {
                    self.vars.insert(it.var.clone(), v);
                }
                None => self.bind(&it.var, &it.binding)?,
            }
        }
        let guard = b.guard.as_ref().map(|g| self.skip_unless(g)).transpose()?;
        self.init(b)?;
        self.stmts(&b.body)?;
        if let Some(at) = guard {
            self.patch_here(at);
        }
        Ok(())
    }

    /// The init runs where every reduction iterator is at its first value.
    pub fn init(&mut self, b: &Block) -> Result<()> {
        if b.init.is_empty() {
            return Ok(());
        }
        let mut skips = vec![];
        for it in b.iters.iter().filter(|it| it.kind == IterKind::Reduce) {
            let mark = self.mark();
            let (v, first) = (self.expr(&it.var_expr())?.int()?, self.expr(&it.min)?.int()?);
            let skip = self.not_equal(v, first)?;
            self.release(mark);
            skips.push(skip);
        }
        self.stmts(&b.init)?;
        skips.into_iter().for_each(|at| self.patch_here(at));
        Ok(())
    }

    fn not_equal(&mut self, a: u16, b: u16) -> Result<u32> {
        let c = self.temporary()?;
        self.emit(Op::Int { op: IntOp::Ne, d: c, a, b });
        let at = self.here();
        self.emit(Op::JumpIfNot { c, to: 0 });
        Ok(at)
    }

    fn store(&mut self, buffer: &Name, indices: &[Expr], value: &Expr) -> Result<()> {
        // A copy of what was never written is not written either, as long as it is not a result.
        let is_result = self.mode == Mode::Checked && self.f.is_param(buffer);
        let copied = match value.kind() {
            ExprKind::Load { buffer: from, indices, dtype } if !is_result => Some((from, indices, *dtype)),
            _ => None,
        };
        let v = match copied {
            Some((from, indices, dtype)) => self.load(from, indices, dtype, false)?,
            None => self.expr(value)?,
        };
        let from = self.code.accesses.len() as u32;
        if let Some(cell) = self.demand.as_ref().and_then(|d| d.cells.get(buffer)).cloned() {
            if cell.indices != indices {
                let name = self.f.display_name(buffer);
                return Err(InterpError::Unsupported(format!("a block that stores to `{name}` in several places")));
            }
            self.mov(cell.value, v)?;
            self.emit(Op::Written { cell: cell.number });
            return Ok(());
        }
        let access = self.access(buffer, indices)?;
        self.emit(match v {
            Val::I(s) => Op::StoreI { s, access },
            Val::F(s) => Op::StoreF { s, access },
        });
        if copied.is_some_and(|(from, ..)| self.noted.contains(from) && self.noted.contains(buffer)) {
            self.emit(Op::Copied { from: from - 1, to: access });
        }
        Ok(())
    }
}

/// True where the steps of a loop have no order: it is parallel, over threads or lanes, or blocks iterate over it and none of
/// them reduces. A loop inside a block has one.
fn has_no_order(l: &For) -> bool {
    let (mut iterates, mut reduces) = (!matches!(l.kind, ForKind::Serial | ForKind::Unrolled), false);
    let mut note = |b: &Block| {
        for it in b.iters.iter().filter(|it| it.binding.uses_var(&l.var)) {
            iterates = true;
            reduces |= it.kind == IterKind::Reduce;
        }
    };
    l.body.iter().for_each(|s| {
        s.visit(&mut |s| {
            if let Stmt::Block(b) = s {
                note(b);
            }
        })
    });
    iterates && !reduces
}

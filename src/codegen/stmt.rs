//! The statements that CUDA C++ and C write alike.

use super::expr::{ExprWriter, level};
use super::text::{Lines, ident};
use super::{ctype, value_type};
use crate::ir::kernel::{KStmt, LoopKind};
use crate::ir::{Expr, Name};

/// How many steps a loop takes, and the condition under which it goes on.
pub(super) type Steps<'s> = (&'s Expr, Option<&'s Expr>);

/// Writes statements; each language adds what only it has.
pub(super) trait Statements<'a> {
    /// The text so far, and what writes expressions.
    fn parts(&mut self) -> (&mut Lines, &mut ExprWriter<'a>);

    /// The directive before a loop.
    fn directive(&mut self, extent: &Expr, kind: LoopKind) -> String;

    /// A copy, a barrier, a prefetch, a shuffle or an instruction.
    fn own(&mut self, s: &KStmt);

    /// The text of a let's value, said to be the same in all threads of a warp where that helps.
    fn uniform(&self, _value: &Expr, text: String) -> String {
        text
    }

    /// A loop of any kind.
    fn repeat(&mut self, var: &Name, steps: Steps, kind: LoopKind, body: &[KStmt]) {
        self.for_loop(var, steps, kind, body);
    }

    fn body(&mut self, stmts: &[KStmt]) {
        stmts.iter().for_each(|s| self.stmt(s));
    }

    /// The lets that the expressions of a statement need.
    fn lets(&mut self) {
        let (lines, exprs) = self.parts();
        std::mem::take(&mut exprs.pending).into_iter().for_each(|l| lines.line(l));
    }

    /// A line that ends a statement, after the lets that its expressions need.
    fn emit(&mut self, line: String) {
        self.lets();
        self.parts().0.line(line);
    }

    fn stmt(&mut self, s: &KStmt) {
        let exprs = self.parts().1;
        let line = match s {
            KStmt::Let { var, value } => {
                let text = exprs.text(value);
                exprs.facts.add_equal(var, value);
                let text = self.uniform(value, text);
                format!("const {} {} = {text};", value_type(value.dtype()), ident(var))
            }
            KStmt::Var { var, dtype, init: None } => format!("{} {};", value_type(*dtype), ident(var)),
            KStmt::Var { var, dtype, init: Some(value) } => {
                format!("{} {} = {};", value_type(*dtype), ident(var), exprs.text(value))
            }
            KStmt::Assign { var, value } => format!("{} = {};", ident(var), exprs.text(value)),
            // One element alone has no store past the caches.
            KStmt::Store { array, index, value, hint: _ } => {
                let value = exprs.stored(value).text;
                format!("{} = {value};", exprs.element(array, index))
            }
            KStmt::For { var, extent, live, kind, body } => {
                return self.repeat(var, (extent, live.as_ref()), *kind, body);
            }
            KStmt::If { cond, then, otherwise } => return self.conditional(cond, then, otherwise),
            KStmt::Copy { .. }
            | KStmt::Barrier(_)
            | KStmt::Prefetch { .. }
            | KStmt::Instr(_)
            | KStmt::Shuffle { .. } => return self.own(s),
        };
        self.emit(line);
    }

    fn for_loop(&mut self, var: &Name, (extent, live): Steps, kind: LoopKind, body: &[KStmt]) {
        let (t, v) = (ctype(extent.dtype()), ident(var));
        let exprs = self.parts().1;
        let limit = exprs.value(extent).at(level::SUM);
        exprs.facts.add_counter(var, extent);
        let directive = self.directive(extent, kind);
        self.emit(directive);
        let exprs = self.parts().1;
        let mut condition = |e| exprs.under_condition(|w| w.value(e)).at(level::BITS);
        let live = live.map_or_else(String::new, |e| format!(" && {}", condition(e)));
        self.parts().0.open(&format!("for ({t} {v} = 0; {v} < {limit}{live}; ++{v})"));
        self.body(body);
        self.parts().0.close();
    }

    fn conditional(&mut self, cond: &Expr, then: &[KStmt], otherwise: &[KStmt]) {
        let cond = self.parts().1.text(cond);
        self.lets();
        self.parts().0.open(&format!("if ({cond})"));
        self.body(then);
        if !otherwise.is_empty() {
            self.parts().0.reopen("else");
            self.body(otherwise);
        }
        self.parts().0.close();
    }
}

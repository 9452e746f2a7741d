//! Which elements of D a thread computes, where several threads share a tile.

use super::operands::Matrix;
use crate::ir::layout::Axis;
use crate::ir::{BinOp, ExecScope, Expr};
use crate::tile::Cx;
use crate::tile::part::Part;

/// A thread's share of a matrix in registers.
pub(super) struct Share(Part);

impl Share {
    /// The share that the layout of `d` gives each thread of a scope; all of it at thread scope.
    ///
    /// # Errors
    /// Where the threads of the scope do not hold the matrix together.
    pub fn of(d: &Matrix, scope: ExecScope, cx: &Cx) -> Result<Share, String> {
        if scope == ExecScope::Thread {
            return private(d, "D").and_then(|()| Ok(Share(Part::of(&d.view, cx.ranges)?)));
        }
        let part = Part::of_scope(&d.view, scope, cx)?;
        let zeros = vec![Expr::i64(0); d.view.extent.len()];
        // that coordinates exist does not depend on thread and element
        part.layout.coordinates(&d.view.extent, &|_| Expr::i64(0), &zeros)?;
        Ok(Share(part))
    }

    /// Rows and columns of the share.
    pub fn extent(&self) -> [i64; 2] {
        let n = self.0.shape.len();
        [self.0.shape[n - 2], self.0.shape[n - 1]]
    }

    /// The register of element `(i, j)` of the share.
    pub fn register(&self, i: &Expr, j: &Expr) -> Expr {
        self.0.at(&self.index(i, j))
    }

    /// Row `i` and column `j` of the share, as row and column of the matrix.
    pub fn place(&self, scope: ExecScope, cx: &Cx, i: &Expr, j: &Expr) -> [Expr; 2] {
        if !self.0.is_shared_out() {
            return [i.clone(), j.clone()];
        }
        let layout = &self.0.layout;
        // a layout inside warps says the same of each
        let thread = Expr::binary(BinOp::FloorMod, cx.rank(scope), Expr::i64(layout.span(Axis::Tx)));
        let thread = cx.simple(thread);
        let at = layout.coordinates(&self.0.view.extent, &|_| thread.clone(), &self.index(i, j));
        let at = at.unwrap_or_else(|why| panic!("an accepted share has coordinates: {why}"));
        let [.., row, column] = at.as_slice() else { panic!("a share of a matrix has two coordinates") };
        [cx.simple(row.clone()), cx.simple(column.clone())]
    }

    fn index(&self, i: &Expr, j: &Expr) -> Vec<Expr> {
        let mut index = vec![Expr::i64(0); self.0.shape.len() - 2];
        index.extend([i.clone(), j.clone()]);
        index
    }
}

/// Refuses registers that are shared out among threads, of which each holds a part only.
pub(super) fn private(x: &Matrix, name: &str) -> Result<(), String> {
    let (layout, _) = x.view.layout()?;
    match Axis::ALL.iter().find(|(axis, _)| axis.is_thread() && layout.mentions(*axis)) {
        Some((axis, _)) => {
            Err(format!("`{}` ({name}) is shared out over {axis}: one thread holds a part", x.view.buffer))
        }
        None => Ok(()),
    }
}

//! Which elements of D a thread computes, where several threads share a tile.

use super::operands::Matrix;
use crate::ir::layout::Axis;
use crate::ir::{BinOp, ExecScope, Expr};
use crate::tile::{Cx, Part, Places};

/// A thread's share of a matrix in registers.
pub(super) struct Share {
    part: Part,
    places: Places,
}

impl Share {
    /// The share that the layout of `d` gives each thread of a scope; all of it at thread scope.
    ///
    /// # Errors
    /// Where the threads of the scope do not hold the matrix together.
    pub fn of(d: &Matrix, scope: ExecScope, cx: &Cx) -> Result<Share, String> {
        let part = match scope {
            ExecScope::Thread => private(d, "D").and_then(|()| Part::of(&d.view, cx.ranges))?,
            ExecScope::Warp | ExecScope::Warpgroup | ExecScope::Cta => Part::of_scope(&d.view, scope, cx)?,
        };
        // a layout inside warps says the same of each
        let thread = Expr::binary(BinOp::FloorMod, cx.rank(scope), Expr::i64(part.layout.span(Axis::Tx)));
        Ok(Share { places: part.places_of(cx.simple(thread))?, part })
    }

    /// Rows and columns of the share.
    pub fn extent(&self) -> [i64; 2] {
        last_two(&self.part.shape)
    }

    /// The register of element `(i, j)` of the share.
    pub fn register(&self, i: &Expr, j: &Expr) -> Expr {
        self.part.at(&self.index(i, j))
    }

    /// Row `i` and column `j` of the share, as row and column of the matrix.
    pub fn place(&self, cx: &Cx, i: &Expr, j: &Expr) -> [Expr; 2] {
        let at = last_two(&self.places.of(&self.index(i, j)));
        if self.part.is_shared_out() { at.map(|e| cx.simple(e)) } else { at }
    }

    fn index(&self, i: &Expr, j: &Expr) -> Vec<Expr> {
        let mut index = vec![Expr::i64(0); self.part.shape.len() - 2];
        index.extend([i.clone(), j.clone()]);
        index
    }
}

/// The last two, which of a matrix are there.
fn last_two<T: Clone>(all: &[T]) -> [T; 2] {
    [all[all.len() - 2].clone(), all[all.len() - 1].clone()]
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

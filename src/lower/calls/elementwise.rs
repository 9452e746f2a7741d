//! A loop over adjacent registers, whose value is made of operations that are tile primitives, as one
//! call for each of them, in the order of evaluation. Values between them are registers of their own.
//!
//! before: `unroll v < 8 { out[v] = bfloat16(float32(a[v]) + float32(b[v])) }`, marked `elementwise`
//! after:  `Tx.thread.cast(x, a); Tx.thread.cast(y, b); Tx.thread.add(z, x, y); Tx.thread.cast(out, z)`
//!
//! Declines (`None`) where a part is no tile primitive, or is read from elsewhere than registers.

use crate::analysis::{Combiner, linear};
use crate::ir::device::{DFor, DKind, DStmt};
use crate::ir::{BinOp, ExecScope, Expr, ExprKind, Intrin, Name, Scope, Tile, TileArg, TileCall, TileOp};
use crate::lower::nest::Nest;

/// The calls that a loop amounts to.
pub fn calls(nest: &mut Nest, l: &DFor) -> Option<Vec<TileCall>> {
    let [DStmt::Store { buffer, indices, value, .. }] = l.body.as_slice() else { return None };
    let n = l.extent.as_int().filter(|_| l.kind == DKind::Unrolled && nest.is_local(buffer))?;
    let mut build = Build { nest, l, n, calls: vec![] };
    let dst = build.run(buffer, indices.first()?)?;
    build.write(value, dst)?;
    Some(build.calls)
}

struct Build<'n, 'a, 'l> {
    nest: &'n mut Nest<'a>,
    l: &'l DFor,
    n: i64,
    calls: Vec<TileCall>,
}

impl Build<'_, '_, '_> {
    /// The registers that an index walks over.
    fn run(&self, buffer: &Name, index: &Expr) -> Option<Tile> {
        let (stride, begin) = linear(index, &self.l.var, &self.nest.ranges)?;
        let adjacent = stride.is_int(1) && !begin.uses_var(&self.l.var);
        adjacent.then(|| Tile { buffer: buffer.clone(), begin: vec![begin], extent: vec![self.n] })
    }

    /// Adds the calls that leave `e` in `dst`.
    fn write(&mut self, e: &Expr, dst: Tile) -> Option<()> {
        let float = e.dtype().is_float();
        let (op, parts): (TileOp, Vec<&Expr>) = if let ExprKind::Binary { op, a, b } = e.kind() {
            (arithmetic(*op).filter(|_| float)?, vec![a, b])
        } else if let ExprKind::Call { op, args, .. } = e.kind() {
            (function(*op).filter(|_| float)?, args.iter().collect())
        } else if let ExprKind::Cast { arg, .. } = e.kind() {
            // between floats, `cast` makes what the expression does
            (Some(TileOp::Cast).filter(|_| float && arg.dtype().is_float())?, vec![arg])
        } else {
            return None;
        };
        let args = parts.into_iter().map(|e| self.operand(e)).collect::<Option<Vec<TileArg>>>()?;
        self.calls.push(TileCall::new(op, ExecScope::Thread, dst, args));
        Some(())
    }

    fn operand(&mut self, e: &Expr) -> Option<TileArg> {
        if !e.uses_var(&self.l.var) {
            return Some(TileArg::Scalar(e.clone()));
        }
        if let ExprKind::Load { buffer, indices, .. } = e.kind() {
            let tile = self.run(buffer, indices.first()?)?;
            return self.nest.is_local(buffer).then_some(TileArg::Tile(tile));
        }
        let (stem, len) = (format!("{}_part", self.l.var), Expr::i64(self.n));
        let name = self.nest.scratch(&stem, e.dtype(), len, Scope::Local);
        let tile = Tile::whole(&name, &[self.n]);
        self.write(e, tile.clone())?;
        Some(TileArg::Tile(tile))
    }
}

fn arithmetic(op: BinOp) -> Option<TileOp> {
    match op {
        BinOp::Sub => Some(TileOp::Sub),
        BinOp::Div => Some(TileOp::Fdiv),
        other => Combiner::of(other).map(Combiner::elementwise),
    }
}

fn function(f: Intrin) -> Option<TileOp> {
    match f {
        Intrin::Exp => Some(TileOp::Exp),
        Intrin::Exp2 => Some(TileOp::Exp2),
        Intrin::Log2 => Some(TileOp::Log2),
        Intrin::Sqrt => Some(TileOp::Sqrt),
        Intrin::Fma => Some(TileOp::Fma),
        _ => None,
    }
}

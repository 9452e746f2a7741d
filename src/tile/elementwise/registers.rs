//! Elementwise operations between registers: each thread works on the part that it holds. Shared by
//! `reg`, `f32x2` and `cast_vec2`.

use super::operand::{Operand, Operands, broadcast_dims, broadcast_index, overlap};
use crate::analysis::{multiple_of, simplify};
use crate::ir::device::DStmt;
use crate::ir::{DType, ExecScope, Expr, TileCall};
use crate::tile::loops::Loops;
use crate::tile::predicates::{all_local, all_threads};
use crate::tile::{Cx, Emit, Part, Refusals};

/// An operation between registers.
pub(super) struct Registers {
    pub dst: Part,
    pub args: Vec<Operand<Part>>,
}

impl Registers {
    /// Asks whether layouts give corresponding elements to the same threads, all of the scope, which all
    /// reach the call; and about overlap.
    pub fn ask(operands: Option<&Operands>, call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Registers> {
        all_threads(call, cx, r);
        let registers = operands.map(|all| Registers::of(all, call.scope, cx));
        let local = all_local(call, cx).is_ok();
        r.ask_if("layout", registers.as_ref().filter(|_| local), |found| {
            found.as_ref().map(drop).map_err(String::clone)
        });
        overlap(operands, cx, r);
        registers?.ok()
    }

    /// What a call does with the registers of each thread: the destination's layout decides.
    fn of(all: &Operands, scope: ExecScope, cx: &Cx) -> Result<Registers, String> {
        let dst = Part::of_scope(&all.dst, scope, cx)?;
        let mut args = vec![];
        for a in &all.args {
            args.push(match a {
                Operand::Scalar(e) => Operand::Scalar(e.clone()),
                Operand::Tile(v) => Operand::Tile(same_threads(Part::of(v, cx.ranges)?, &dst)?),
            });
        }
        Ok(Registers { dst, args })
    }

    /// The values of the operands for the element of the destination at an index of the thread's part.
    pub fn operands(&self, emit: &Emit, index: &[Expr]) -> Vec<Expr> {
        let value = |a: &Operand<Part>| match a {
            Operand::Scalar(e) => e.clone(),
            Operand::Tile(p) => p.view.load(place(emit, p, index)),
        };
        self.args.iter().map(value).collect()
    }

    /// That elements `2 k` and `2 k + 1` of a thread along `dim` are adjacent in a part, the first at an
    /// even offset.
    fn is_paired(&self, part: &Part, dim: usize, cx: &Cx) -> bool {
        let mut ranges = cx.ranges.clone();
        let index = |parity: i64| -> Vec<Expr> {
            let own = |(d, n): (usize, &i64)| match (d == dim, *n) {
                (_, 1) => Expr::i64(0),
                (true, _) => pair_var(d) * Expr::i64(2) + Expr::i64(parity),
                (false, _) => pair_var(d),
            };
            self.dst.shape.iter().enumerate().map(own).collect()
        };
        for (d, n) in self.dst.shape.iter().enumerate() {
            let steps = if d == dim { n / 2 } else { *n };
            ranges.set(pair_name(d), 0, steps.max(1) - 1);
        }
        let at = |parity| simplify(&part.at(&broadcast_index(&part.shape, &index(parity))), &ranges);
        let step = simplify(&(at(1) - at(0)), &ranges);
        step.is_int(1) && multiple_of(&at(0), &ranges) % 2 == 0
    }

    /// The dimension along which the elements of each thread come in pairs, the last of more than one: side
    /// by side in the destination and in every operand that is not broadcast along them.
    ///
    /// # Errors
    /// Where there is none.
    pub fn pairs(&self, cx: &Cx) -> Result<usize, String> {
        let dim = self.dst.shape.iter().rposition(|n| *n > 1).filter(|d| self.dst.shape[*d] % 2 == 0);
        let Some(dim) = dim else {
            return Err(format!("each thread holds extents {:?}, the last of which is not even", self.dst.shape));
        };
        let tiles = self.args.iter().filter_map(|a| match a {
            Operand::Tile(p) if !is_broadcast(p, &self.dst, dim) => Some(p),
            Operand::Tile(_) | Operand::Scalar(_) => None,
        });
        match std::iter::once(&self.dst).chain(tiles).find(|p| !self.is_paired(p, dim, cx)) {
            None => Ok(dim),
            Some(p) => {
                Err(format!("the pairs of `{}` are not side by side in registers from even ones on", p.view.buffer))
            }
        }
    }

    /// Unrolled loops over the pairs along a dimension; `body` gets the index of the first of a pair.
    pub fn for_each_pair(
        &self,
        dim: usize,
        emit: &mut Emit,
        body: impl FnOnce(&mut Emit, &[Expr]) -> Vec<DStmt>,
    ) -> Vec<DStmt> {
        let mut shape = self.dst.shape.clone();
        shape[dim] /= 2;
        let (loops, mut index) = Loops::over(emit, "f", &shape);
        index[dim] = index[dim].clone() * Expr::i64(2);
        let body = body(emit, &index);
        loops.around(body)
    }
}

/// The offset of an operand for the element of the destination at an index of the thread's part.
pub(super) fn place(emit: &Emit, part: &Part, index: &[Expr]) -> Expr {
    emit.simple(part.at(&broadcast_index(&part.shape, index)))
}

fn pair_name(d: usize) -> String {
    format!("pair index {d}")
}

fn pair_var(d: usize) -> Expr {
    Expr::var(pair_name(d), DType::I64)
}

/// The part of an operand, if the threads that need an element of it hold it.
fn same_threads(part: Part, dst: &Part) -> Result<Part, String> {
    let needed = dst.owners_without(&broadcast_dims(&part.view.extent, &dst.view.extent), true)?;
    let held = part.layout.owners().canonical();
    if held == needed {
        return Ok(part);
    }
    Err(format!(
        "the threads that hold `{}` ({held}) are not those that need it for `{}` ({needed})",
        part.view.buffer, dst.view.buffer
    ))
}

/// True where a part has one element for all of the destination along a dimension.
pub(super) fn is_broadcast(part: &Part, dst: &Part, dim: usize) -> bool {
    let at = (dim + part.shape.len()).checked_sub(dst.shape.len());
    at.is_none_or(|k| part.shape[k] == 1)
}

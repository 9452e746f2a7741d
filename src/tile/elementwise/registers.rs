//! Elementwise operations between registers: each thread works on the part that it holds. Shared by
//! `reg`, `f32x2` and `cast_vec2`.

use super::operand::{Operand, Operands, broadcast_dims, broadcast_index};
use crate::analysis::multiple_of;
use crate::ir::{Expr, TileCall};
use crate::tile::predicates::all_local;
use crate::tile::{Cx, Emit, Part};

/// An operation between registers.
pub(super) struct Registers {
    pub dst: Part,
    pub args: Vec<Operand<Part>>,
}

impl Registers {
    /// What a call does with the registers of each thread: the destination's layout decides.
    ///
    /// # Errors
    /// Where layouts do not give corresponding elements to the same threads, or leave threads out.
    pub fn of(call: &TileCall, cx: &Cx) -> Result<Registers, String> {
        let all = Operands::of(call, cx)?;
        let dst = Part::of_scope(&all.dst, call.scope, cx)?;
        let mut args = vec![];
        for a in all.args {
            args.push(match a {
                Operand::Scalar(e) => Operand::Scalar(e),
                Operand::Tile(v) => Operand::Tile(same_threads(Part::of(&v, cx.ranges)?, &dst)?),
            });
        }
        Ok(Registers { dst, args })
    }

    /// The registers of a call that was accepted.
    pub fn accepted(call: &TileCall, emit: &Emit) -> Registers {
        Registers::of(call, &emit.cx()).unwrap_or_else(|why| panic!("an accepted call has its registers: {why}"))
    }

    /// The values of the operands for the element of the destination at an index of the thread's part.
    pub fn operands(&self, emit: &Emit, index: &[Expr]) -> Vec<Expr> {
        let value = |a: &Operand<Part>| match a {
            Operand::Scalar(e) => e.clone(),
            Operand::Tile(p) => {
                let at = emit.simple(p.at(&broadcast_index(&p.shape, index)));
                Expr::load(p.view.buffer.clone(), vec![at], p.view.dtype)
            }
        };
        self.args.iter().map(value).collect()
    }

    /// The offset of an operand for the element of the destination at an index of the thread's part.
    pub fn place(&self, emit: &Emit, part: &Part, index: &[Expr]) -> Expr {
        emit.simple(part.at(&broadcast_index(&part.shape, index)))
    }

    /// The dimension along which two neighbouring elements make a pair: the last of more than one.
    pub fn pair_dim(&self) -> Option<usize> {
        self.dst.shape.iter().rposition(|n| *n > 1).filter(|d| self.dst.shape[*d] % 2 == 0)
    }

    /// That elements `2 k` and `2 k + 1` of a thread along [`Registers::pair_dim`] are adjacent in a
    /// part, the first at an even offset.
    pub fn is_paired(&self, part: &Part, dim: usize, cx: &Cx) -> bool {
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
        let at = |parity| crate::analysis::simplify(&part.at(&broadcast_index(&part.shape, &index(parity))), &ranges);
        let step = crate::analysis::simplify(&(at(1) - at(0)), &ranges);
        step.is_int(1) && multiple_of(&at(0), &ranges) % 2 == 0
    }
}

fn pair_name(d: usize) -> String {
    format!("pair index {d}")
}

fn pair_var(d: usize) -> Expr {
    Expr::var(pair_name(d), crate::ir::DType::I64)
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

/// That layouts give corresponding elements to the same threads, all of the scope.
/// Says nothing of calls that `operands` or `storage_scope` refuse.
pub(super) fn layouts_match(call: &TileCall, cx: &Cx) -> Result<(), String> {
    if Operands::of(call, cx).is_err() || all_local(call, cx).is_err() {
        return Ok(());
    }
    Registers::of(call, cx).map(drop)
}

/// That the elements of each thread come in pairs, side by side in the destination and in every
/// operand that is not broadcast along them.
pub(super) fn pairs(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let Ok(r) = Registers::of(call, cx) else { return Ok(()) };
    let Some(dim) = r.pair_dim() else {
        return Err(format!("each thread holds extents {:?}, the last of which is not even", r.dst.shape));
    };
    let tiles = r.args.iter().filter_map(|a| match a {
        Operand::Tile(p) if !is_broadcast(p, &r.dst, dim) => Some(p),
        Operand::Tile(_) | Operand::Scalar(_) => None,
    });
    let apart = std::iter::once(&r.dst).chain(tiles).find(|p| !r.is_paired(p, dim, cx));
    apart.map_or(Ok(()), |p| {
        Err(format!("the pairs of `{}` are not side by side in registers from even ones on", p.view.buffer))
    })
}

/// True where a part has one element for all of the destination along a dimension.
pub(super) fn is_broadcast(part: &Part, dst: &Part, dim: usize) -> bool {
    let at = (dim + part.shape.len()).checked_sub(dst.shape.len());
    at.is_none_or(|k| part.shape[k] == 1)
}

//! Recognises argmax and argmin: a value and the index where it was found, updated together.
//!
//! Texts write the update in many ways (`>` or `>=`, either operand first, lets, both arms turned
//! round), so the conditions are not compared with a pattern but evaluated: what is kept is asked for
//! each order of the two values and of the two indices. What decides a tie is then known, and the
//! update is written in one way, in which partial results may be combined in any order:
//!
//! `I = select(V > x, I, select(V == x, min(I, k), k))`, then `V = select(V > x, V, x)`
//!
//! NaNs have no order, and an update as written would depend on the order of the steps. They are passed over, as
//! the maximum and minimum do: of floats `not (V <= x)` stands for `V > x`, and what starts as a number stays one.

use super::combiner::{Combiner, Reducer};
use crate::ir::{BinOp, Block, DType, Expr, ExprKind, IterKind, Name, Stmt, UnOp};
use std::cmp::Ordering;

/// An element that a reduction keeps, and what is offered to it at each step.
#[derive(Clone, PartialEq, Debug)]
pub struct Slot {
    /// The accumulator.
    pub buffer: Name,
    /// Its element.
    pub indices: Vec<Expr>,
    /// The value of the init, a constant, or the identity where there is no init.
    pub identity: Expr,
    /// What is offered at each step; reads none of the accumulators.
    pub term: Expr,
    /// The accumulator's dtype.
    pub dtype: DType,
}

/// A block that keeps the largest or smallest value and its index.
#[derive(Clone, PartialEq, Debug)]
pub struct ArgReducer {
    /// Which value is kept: [`Combiner::Max`] or [`Combiner::Min`].
    pub combiner: Combiner,
    /// Which of several equal values is kept: [`Combiner::Min`] for the smallest index.
    pub tie: Combiner,
    /// The index.
    pub index: Slot,
    /// The value.
    pub value: Slot,
}

impl ArgReducer {
    /// The update of a block in the form above, as [`super::normalize`] leaves it.
    pub fn of(b: &Block) -> Option<ArgReducer> {
        ArgReducer::of_stores(b, &b.body)
    }

    /// The update that two of a block's stores make, in the form above. Where the block has no init, the
    /// slots start from the identities.
    pub fn of_stores(b: &Block, stores: &[Stmt]) -> Option<ArgReducer> {
        let [Stmt::Store { buffer: i, indices: at, value: index }, Stmt::Store { buffer: v, indices, value }] = stores
        else {
            return None;
        };
        let found = recognise(b, (i, at, index), (v, indices, value))?;
        (found.stores() == stores).then_some(found)
    }

    /// The update that puts `index` and `value` to what the slots have, as two stores.
    pub fn stores(&self) -> Vec<Stmt> {
        let load = |s: &Slot| Expr::load(s.buffer.clone(), s.indices.clone(), s.dtype);
        let (i, v) = (load(&self.index), load(&self.value));
        let [new, best] = self.combined([&i, &v], [&self.index.term, &self.value.term]);
        let store = |s: &Slot, value| Stmt::Store { buffer: s.buffer.clone(), indices: s.indices.clone(), value };
        vec![store(&self.index, new), store(&self.value, best)]
    }

    /// How the value alone is chosen.
    pub fn of_value(&self) -> Reducer {
        Reducer {
            combiner: self.combiner,
            identity: self.value.identity.clone(),
            term: self.value.term.clone(),
            dtype: self.value.dtype,
            buffer: self.value.buffer.clone(),
        }
    }

    /// The stores of the init, in the same order.
    pub fn inits(&self) -> Vec<Stmt> {
        let init =
            |s: &Slot| Stmt::Store { buffer: s.buffer.clone(), indices: s.indices.clone(), value: s.identity.clone() };
        vec![init(&self.index), init(&self.value)]
    }

    /// Index and value of two candidates, each given as index and value.
    pub fn combined(&self, [i, v]: [&Expr; 2], [k, x]: [&Expr; 2]) -> [Expr; 2] {
        let float = v.dtype().is_float();
        let compare = match (self.combiner == Combiner::Max, float) {
            (true, false) => BinOp::Gt,
            (false, false) => BinOp::Lt,
            (true, true) => BinOp::Le,
            (false, true) => BinOp::Ge,
        };
        let ahead = Expr::binary(compare, v.clone(), x.clone());
        let ahead = if float { Expr::unary(UnOp::Not, ahead) } else { ahead };
        let equal = Expr::binary(BinOp::Eq, v.clone(), x.clone());
        let tie = Expr::binary(self.tie.op(), i.clone(), k.clone());
        [select(&ahead, i, &select(&equal, &tie, k)), select(&ahead, v, x)]
    }

    /// The same reducer over other slots: `buffers` and `terms`, index first, `at` for both.
    pub fn with(&self, buffers: [&Name; 2], at: &[Expr], terms: [Expr; 2]) -> ArgReducer {
        let [index, value] = terms;
        let slot = |old: &Slot, buffer: &Name, term| Slot {
            buffer: buffer.clone(),
            indices: at.to_vec(),
            term,
            ..old.clone()
        };
        ArgReducer {
            index: slot(&self.index, buffers[0], index),
            value: slot(&self.value, buffers[1], value),
            ..self.clone()
        }
    }
}

fn select(cond: &Expr, then: &Expr, otherwise: &Expr) -> Expr {
    Expr::new(ExprKind::Select { cond: cond.clone(), then: then.clone(), otherwise: otherwise.clone() })
}

/// An update: the buffer, the element, the new value in terms of the old ones.
type Update<'a> = (&'a Name, &'a [Expr], &'a Expr);

/// The reducer that two updates make, the first that of the index.
pub(super) fn recognise(b: &Block, index: Update, value: Update) -> Option<ArgReducer> {
    let own = |u: &Update, e: &Expr| is_element(u, e);
    let choice = Choice::of(value.2, &|e| own(&value, e))?;
    let pair = Choice::of(index.2, &|e| own(&index, e))?;
    let (old_value, old_index) = (element(&value), element(&index));
    let free = |e: &Expr| !e.loads(value.0) && !e.loads(index.0);
    if index.0 == value.0 || index.1 != value.1 || !free(&choice.term) || !free(&pair.term) {
        return None;
    }
    let order = Order { value: [&old_value, &choice.term], index: [&old_index, &pair.term] };
    let orders = [Ordering::Less, Ordering::Greater];
    // The same whatever the indices are, for the index and for the value.
    let clear = |a: Ordering, want: bool| {
        orders.iter().all(|o| [&pair, &choice].iter().all(|c| c.keeps(&order, a, *o) == Some(want)))
    };
    let keeps = |ahead: Ordering| clear(ahead, true) && clear(ahead.reverse(), false);
    let combiner = match (keeps(Ordering::Greater), keeps(Ordering::Less)) {
        (true, _) => Combiner::Max,
        (_, true) => Combiner::Min,
        _ => return None,
    };
    let first = start(b, &index);
    let counts = || first.as_ref().is_some_and(|first| counts_up(b, &pair.term, first));
    let tie = match orders.map(|o| pair.keeps(&order, Ordering::Equal, o)) {
        [Some(true), Some(false)] => Combiner::Min,
        [Some(false), Some(true)] => Combiner::Max,
        // The first or the last step decides: its index must be the smallest or the largest.
        [Some(true), Some(true)] if counts() => Combiner::Min,
        [Some(false), Some(false)] if counts() => Combiner::Max,
        _ => return None,
    };
    let slot = |u: Update, by: Combiner, term: &Expr| {
        let (dtype, none) = (u.2.dtype(), b.init.is_empty());
        let identity = if none { by.identity(dtype)? } else { start(b, &u)? };
        Some(Slot { buffer: u.0.clone(), indices: u.1.to_vec(), identity, term: term.clone(), dtype })
    };
    let (index, value) = (slot(index, tie, &pair.term)?, slot(value, combiner, &choice.term)?);
    Some(ArgReducer { combiner, tie, index, value })
}

fn is_element(u: &Update, e: &Expr) -> bool {
    matches!(e.kind(), ExprKind::Load { buffer, indices, .. } if buffer == u.0 && indices == u.1)
}

fn element(u: &Update) -> Expr {
    Expr::load(u.0.clone(), u.1.to_vec(), u.2.dtype())
}

/// The constant that an element starts from.
fn start(b: &Block, (buffer, indices, _): &Update) -> Option<Expr> {
    let mut found = b.init.iter().filter_map(|s| match s {
        Stmt::Store { buffer: to, indices: at, value } if to == *buffer && at == indices => Some(value),
        _ => None,
    });
    let value = found.next()?;
    (found.next().is_none() && (value.as_int().is_some() || value.as_float().is_some())).then(|| value.clone())
}

/// The term is the only reduction iterator, and nothing that the init offers comes after it.
fn counts_up(b: &Block, term: &Expr, identity: &Expr) -> bool {
    let mut reduce = b.iters.iter().filter(|it| it.kind == IterKind::Reduce);
    let (Some(it), None) = (reduce.next(), reduce.next()) else { return false };
    let counted = match term.kind() {
        ExprKind::Cast { dtype, arg } if dtype.bytes() >= arg.dtype().bytes() && dtype.is_int() => arg,
        _ => term,
    };
    let zero = it.min.as_int().is_some_and(|m| m >= 0);
    zero && counted.as_var() == Some(&it.var) && identity.as_int().is_some_and(|i| i <= 0)
}

/// `cond ? own : term`, or the other way round, or the larger or smaller of both.
enum Chosen {
    Cond { cond: Expr, own_first: bool },
    Best(BinOp),
}

struct Choice {
    how: Chosen,
    term: Expr,
}

/// The old and the offered value, and the old and the offered index.
struct Order<'a> {
    value: [&'a Expr; 2],
    index: [&'a Expr; 2],
}

impl Choice {
    fn of(e: &Expr, own: &dyn Fn(&Expr) -> bool) -> Option<Choice> {
        match e.kind() {
            ExprKind::Select { cond, then, otherwise } | ExprKind::IfThenElse { cond, then, otherwise } => {
                let own_first = own(then);
                if let Some(choice) = nested(cond, then, otherwise, own) {
                    return Some(choice);
                }
                if own_first == own(otherwise) {
                    return None;
                }
                let term = if own_first { otherwise } else { then }.clone();
                Some(Choice { how: Chosen::Cond { cond: cond.clone(), own_first }, term })
            }
            ExprKind::Binary { op: op @ (BinOp::Max | BinOp::Min), a, b } if own(a) != own(b) => {
                Some(Choice { how: Chosen::Best(*op), term: if own(a) { b.clone() } else { a.clone() } })
            }
            _ => None,
        }
    }

    /// Whether the old one is kept where the old value stands to the offered one as `value` says, and
    /// the old index to the offered one as `index` says. `None` where that is not all that matters.
    fn keeps(&self, order: &Order, value: Ordering, index: Ordering) -> Option<bool> {
        match &self.how {
            Chosen::Cond { cond, own_first } => Some(order.holds(cond, value, index)? == *own_first),
            Chosen::Best(op) => Some((*op == BinOp::Max) == (value != Ordering::Less)),
        }
    }
}

/// `ahead ? own : (equal ? min(own, term) : term)`, as one condition.
fn nested(cond: &Expr, then: &Expr, otherwise: &Expr, own: &dyn Fn(&Expr) -> bool) -> Option<Choice> {
    let ExprKind::Select { cond: equal, then: tie, otherwise: term } = otherwise.kind() else { return None };
    let ExprKind::Binary { op: op @ (BinOp::Min | BinOp::Max), a, b } = tie.kind() else { return None };
    if !own(then) || !own(a) || b != term {
        return None;
    }
    let wins = Expr::binary(if *op == BinOp::Min { BinOp::Lt } else { BinOp::Gt }, a.clone(), b.clone());
    let tied = Expr::binary(BinOp::And, equal.clone(), wins);
    let cond = Expr::binary(BinOp::Or, cond.clone(), tied);
    Some(Choice { how: Chosen::Cond { cond, own_first: true }, term: term.clone() })
}

impl Order<'_> {
    fn holds(&self, cond: &Expr, value: Ordering, index: Ordering) -> Option<bool> {
        match cond.kind() {
            ExprKind::Unary { op: UnOp::Not, arg } => Some(!self.holds(arg, value, index)?),
            ExprKind::Binary { op: BinOp::And, a, b } => {
                Some(self.holds(a, value, index)? && self.holds(b, value, index)?)
            }
            ExprKind::Binary { op: BinOp::Or, a, b } => {
                Some(self.holds(a, value, index)? || self.holds(b, value, index)?)
            }
            ExprKind::Binary { op, a, b } if op.is_compare() => {
                let stands = |pair: [&Expr; 2], o: Ordering| match (a == pair[0], b == pair[1]) {
                    (true, true) => Some(o),
                    _ if a == pair[1] && b == pair[0] => Some(o.reverse()),
                    _ => None,
                };
                compare(*op, stands(self.value, value).or_else(|| stands(self.index, index))?)
            }
            _ => None,
        }
    }
}

fn compare(op: BinOp, order: Ordering) -> Option<bool> {
    match op {
        BinOp::Eq => Some(order.is_eq()),
        BinOp::Ne => Some(order.is_ne()),
        BinOp::Lt => Some(order.is_lt()),
        BinOp::Le => Some(order.is_le()),
        BinOp::Gt => Some(order.is_gt()),
        BinOp::Ge => Some(order.is_ge()),
        _ => None,
    }
}

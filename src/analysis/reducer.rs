//! Which commutative reduction a block computes.

use super::ArgReducer;
use super::combiner::{Combiner, Reducer};
use crate::ir::{Block, ExprKind, Stmt};

/// How each of a block's accumulators is updated, in the order of its stores: one store each, in either
/// order of operands, or an index and a value that are kept together, of which the value counts. Empty
/// where an update is of another form, reads another accumulator or starts from anything but a constant
/// that changes nothing.
pub(super) fn reducers(b: &Block) -> Vec<Reducer> {
    let mut found: Vec<Reducer> = vec![];
    let mut stores = b.body.as_slice();
    while !stores.is_empty() {
        let pair = stores.get(..2).and_then(|pair| ArgReducer::of_stores(b, pair));
        let (reducer, taken) = match pair {
            Some(arg) => (Some(arg.of_value()), 2),
            None => (plain(b, &stores[0]), 1),
        };
        let Some(reducer) = reducer else { return vec![] };
        found.push(reducer);
        stores = &stores[taken..];
    }
    let own = |s: &Stmt| matches!(s, Stmt::Store { buffer, .. } if found.iter().any(|r| r.term.loads(buffer)));
    if b.body.iter().any(own) { vec![] } else { found }
}

fn plain(b: &Block, store: &Stmt) -> Option<Reducer> {
    let Stmt::Store { buffer, indices, value } = store else { return None };
    let mut starts = b.init.iter().filter_map(|s| match s {
        Stmt::Store { buffer: to, indices: at, value } if to == buffer => Some((at, value)),
        _ => None,
    });
    let (Some((at, identity)), None) = (starts.next(), starts.next()) else { return None };
    if at != indices {
        return None;
    }
    let ExprKind::Binary { op, a, b: right } = value.kind() else { return None };
    let combiner = Combiner::of(*op)?;
    let term = if a.is_element(buffer, indices) {
        right
    } else if right.is_element(buffer, indices) {
        a
    } else {
        return None;
    };
    let usable = !term.loads(buffer) && combiner.neutral(identity);
    usable.then(|| Reducer {
        combiner,
        identity: identity.clone(),
        term: term.clone(),
        dtype: value.dtype(),
        buffer: buffer.clone(),
    })
}

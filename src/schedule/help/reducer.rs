//! Recognises a block that accumulates: `X[i] = X[i] op e`, in either order of the operands, an index
//! and a value that are kept together, or several of these side by side.

use crate::analysis::{ArgReducer, Slot};
use crate::ir::{BinOp, Block, DType, Expr, ExprKind, IterKind, Name, Stmt};
use crate::schedule::Failure;

/// The accumulation that a block does.
pub struct Reducer {
    /// What is accumulated, in the order of the stores.
    parts: Vec<Part>,
    /// The lets before the stores.
    pub lets: Vec<Stmt>,
}

/// What a store, or two of them together, accumulate.
enum Part {
    /// `Add`, `Mul`, `Max` or `Min`, and whether the accumulator is the left operand.
    Plain {
        op: BinOp,
        accumulator_first: bool,
        slot: Slot,
    },
    Arg(ArgReducer),
}

impl Reducer {
    /// The accumulation of a block, or why it is none (`known_reducer`).
    pub fn of(block: &Block) -> Result<Reducer, Failure> {
        parse(block).ok_or_else(|| {
            let why = "its body is no stores X[i] = X[i] op e with op one of +, *, T.max, T.min, and no index and value that are kept together";
            Failure::new("known_reducer", &block.name, why)
        })
    }

    /// What is accumulated into, in the order of the stores.
    pub fn slots(&self) -> Vec<&Slot> {
        self.parts.iter().flat_map(Part::slots).collect()
    }

    /// The operator and the slot, where one element is updated by one operator and nothing is named before.
    pub fn plain(&self) -> Option<(BinOp, &Slot)> {
        match self.parts.as_slice() {
            [Part::Plain { op, slot, .. }] if self.lets.is_empty() => Some((*op, slot)),
            _ => None,
        }
    }

    /// The stores that accumulate `values` into elements `to`, one for each slot.
    pub fn stores(&self, to: &[(Name, Vec<Expr>)], values: &[Expr]) -> Vec<Stmt> {
        let mut at = 0;
        let mut stores = vec![];
        for part in &self.parts {
            let end = at + part.slots().len();
            stores.extend(part.stores(&to[at..end], &values[at..end]));
            at = end;
        }
        stores
    }
}

impl Part {
    fn slots(&self) -> Vec<&Slot> {
        match self {
            Part::Plain { slot, .. } => vec![slot],
            Part::Arg(arg) => vec![&arg.index, &arg.value],
        }
    }

    fn stores(&self, to: &[(Name, Vec<Expr>)], values: &[Expr]) -> Vec<Stmt> {
        match (self, to, values) {
            (Part::Plain { op, accumulator_first, slot }, [(buffer, indices)], [value]) => {
                let own = Expr::load(buffer.clone(), indices.clone(), slot.dtype);
                let value = value.clone();
                let (a, b) = if *accumulator_first { (own, value) } else { (value, own) };
                let value = Expr::binary(*op, a, b);
                vec![Stmt::Store { buffer: buffer.clone(), indices: indices.clone(), value }]
            }
            (Part::Arg(arg), [(index, at), (value, _)], [k, x]) => {
                arg.with([index, value], at, [k.clone(), x.clone()]).stores()
            }
            (Part::Plain { .. } | Part::Arg(_), _, _) => vec![],
        }
    }
}

/// The value that changes nothing when it is accumulated.
fn identity(op: BinOp, dtype: DType) -> Expr {
    match op {
        BinOp::Mul => Expr::constant(1.0, dtype),
        BinOp::Max => lowest(dtype),
        BinOp::Min => highest(dtype),
        _ => Expr::constant(0.0, dtype),
    }
}

fn parse(block: &Block) -> Option<Reducer> {
    let first = block.body.iter().position(|s| !matches!(s, Stmt::Let { .. }))?;
    let (lets, mut stores) = block.body.split_at(first);
    let mut parts = vec![];
    while !stores.is_empty() {
        let pair = stores.get(..2).filter(|_| lets.is_empty()).and_then(|pair| ArgReducer::of_stores(block, pair));
        let part = match pair {
            Some(arg) => Part::Arg(arg),
            None => plain(&stores[0])?,
        };
        stores = &stores[part.slots().len()..];
        parts.push(part);
    }
    let reducer = Reducer { parts, lets: lets.to_vec() };
    let own = |e: &Expr| reducer.slots().iter().any(|s| e.loads(&s.buffer));
    let apart = |s: &&Slot| reducer.slots().iter().filter(|o| o.buffer == s.buffer).count() == 1 && !own(&s.term);
    let free = lets.iter().all(|s| matches!(s, Stmt::Let { value, .. } if !own(value)));
    (free && reducer.slots().iter().all(apart)).then_some(reducer)
}

fn plain(store: &Stmt) -> Option<Part> {
    let Stmt::Store { buffer, indices, value } = store else { return None };
    let ExprKind::Binary { op: op @ (BinOp::Add | BinOp::Mul | BinOp::Max | BinOp::Min), a, b } = value.kind() else {
        return None;
    };
    let is_own = |e: &Expr| e.is_element(buffer, indices);
    let (term, accumulator_first) = if is_own(a) { (b, true) } else { (a, false) };
    let slot = Slot {
        buffer: buffer.clone(),
        indices: indices.clone(),
        identity: identity(*op, value.dtype()),
        term: term.clone(),
        dtype: value.dtype(),
    };
    (is_own(a) || is_own(b)).then_some(Part::Plain { op: *op, accumulator_first, slot })
}

/// Names of the iterators of a kind.
pub fn iters_of(block: &Block, kind: IterKind) -> Vec<&Name> {
    block.iters.iter().filter(|it| it.kind == kind).map(|it| &it.var).collect()
}

fn lowest(dtype: DType) -> Expr {
    match dtype {
        DType::E4M3 => Expr::float(-448.0, dtype),
        d if d.is_float() => Expr::float(f64::NEG_INFINITY, dtype),
        d if d.is_signed() => Expr::int(i64::MIN >> (64 - 8 * d.bytes()), dtype),
        _ => Expr::int(0, dtype),
    }
}

fn highest(dtype: DType) -> Expr {
    match dtype {
        DType::E4M3 => Expr::float(448.0, dtype),
        DType::Bool => Expr::int(1, dtype),
        DType::U64 => Expr::int(-1, dtype),
        d if d.is_float() => Expr::float(f64::INFINITY, dtype),
        d if d.is_signed() => Expr::int(i64::MAX >> (64 - 8 * d.bytes()), dtype),
        d => Expr::int((1i64 << (8 * d.bytes())) - 1, dtype),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_the_integer_types() {
        assert_eq!(lowest(DType::I8), Expr::int(-128, DType::I8));
        assert_eq!(highest(DType::I8), Expr::int(127, DType::I8));
        assert_eq!(highest(DType::U16), Expr::int(65535, DType::U16));
        assert_eq!(lowest(DType::I64), Expr::int(i64::MIN, DType::I64));
        assert_eq!(highest(DType::U64), Expr::int(-1, DType::U64));
        assert_eq!(highest(DType::U32), Expr::int(u32::MAX as i64, DType::U32));
    }
}

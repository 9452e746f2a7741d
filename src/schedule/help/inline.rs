//! What the two inlining primitives share: a block seen as one element-wise store, and pasting
//! a value in place of loads without letting trees grow exponentially.

use crate::ir::{BinOp, Block, Expr, ExprKind, IterKind, Name, Stmt};
use crate::schedule::{Draft, Failure};
use std::collections::BTreeMap;

/// A block `buffer[indices] = value`.
pub struct Point {
    pub buffer: Name,
    pub indices: Vec<Expr>,
    pub value: Expr,
}

/// Preconditions `spatial`: spatial iterators only and no init; `one_store`: the body is one
/// store, with lets before it at most.
pub fn point(b: &Block) -> Result<Point, Failure> {
    let spatial = b.init.is_empty() && b.iters.iter().all(|it| it.kind == IterKind::Spatial);
    Failure::unless(spatial, "spatial", &b.name, || {
        format!("block `{}` is a reduction; only element-wise blocks can be inlined", b.name)
    })?;
    let not_one =
        || Failure::new("one_store", &b.name, format!("the body of block `{}` is not a single store", b.name));
    let Some((Stmt::Store { buffer, indices, value }, lets)) = b.body.split_last() else { return Err(not_one()) };
    let mut value = value.clone();
    for s in lets.iter().rev() {
        let Stmt::Let { var, value: bound } = s else { return Err(not_one()) };
        if indices.iter().any(|i| i.uses_var(var)) {
            return Err(not_one());
        }
        value = Expr::new(ExprKind::Let { var: var.clone(), value: bound.clone(), body: value });
    }
    let plain = b.matches.is_empty() && b.allocs.is_empty() && !value.loads(buffer);
    Failure::unless(plain, "one_store", &b.name, || {
        format!("block `{}` reads what it writes, or has buffers of its own", b.name)
    })?;
    Ok(Point { buffer: buffer.clone(), indices: indices.clone(), value })
}

/// The iterator that each index is: `None` for the constant 0. Fails (`distinct_iterators`) where
/// an index is anything else, comes twice, or leaves out an iterator that is not of extent 1.
pub fn iterator_indices(b: &Block, indices: &[Expr]) -> Result<Vec<Option<Name>>, Failure> {
    let fail = |why: String| Failure::new("distinct_iterators", &b.name, why);
    let mut found: Vec<Option<Name>> = vec![];
    for (k, index) in indices.iter().enumerate() {
        match b.as_iter(index).map(|it| &it.var) {
            Some(v) if !found.iter().flatten().any(|f| f == v) => found.push(Some(v.clone())),
            None if index.is_int(0) => found.push(None),
            Some(v) => return Err(fail(format!("iterator `{v}` of block `{}` indexes two dimensions", b.name))),
            None => return Err(fail(format!("index {k} in block `{}` is not an iterator", b.name))),
        }
    }
    match b.iters.iter().find(|it| !it.extent.is_int(1) && !found.iter().flatten().any(|v| *v == it.var)) {
        None => Ok(found),
        Some(it) => Err(fail(format!("iterator `{}` of block `{}` is no index", it.var, b.name))),
    }
}

/// The iterators of a block at `indices`; 0 for those that are no index.
pub fn values_at(b: &Block, iterators: &[Option<Name>], indices: &[Expr]) -> BTreeMap<Name, Expr> {
    let mut map: BTreeMap<Name, Expr> = b.iters.iter().map(|it| (it.var.clone(), Expr::int(0, it.dtype))).collect();
    for (var, index) in iterators.iter().zip(indices) {
        if let Some(it) = var.as_ref().and_then(|v| b.iter(v)) {
            map.insert(it.var.clone(), Expr::cast(it.dtype, index.clone()));
        }
    }
    map
}

/// Replaces the loads of `buffer` in `e` by what `value` makes of their indices. A value that
/// would stand several times is bound with a let at the innermost place that evaluates it anyway.
pub fn paste(d: &mut Draft, e: &Expr, buffer: &Name, value: &impl Fn(&[Expr]) -> Expr) -> Expr {
    let mut e = e.clone();
    while let Some(load) = innermost_load(&e, buffer) {
        let ExprKind::Load { indices, .. } = load.kind() else { return e };
        let new = value(indices);
        e = replace_load(d, &e, &load, &new);
    }
    e
}

/// A load of `buffer` whose indices hold no other one.
fn innermost_load(e: &Expr, buffer: &Name) -> Option<Expr> {
    let mut found = None;
    e.for_each_child(|c| found = found.take().or_else(|| innermost_load(c, buffer)));
    found.or_else(|| matches!(e.kind(), ExprKind::Load { buffer: b, .. } if b == buffer).then(|| e.clone()))
}

fn replace_load(d: &mut Draft, e: &Expr, load: &Expr, value: &Expr) -> Expr {
    if e == load {
        return d.copy_expr(value);
    }
    let mut holders = 0;
    e.for_each_child(|c| holders += usize::from(count(c, load) > 0));
    if holders > 1 && !is_leaf(value) && evaluates(e, load) {
        let var = d.fresh("x");
        let bound = Expr::var(var.clone(), value.dtype());
        let body = e.replaced(load, &bound);
        let value = d.copy_expr(value);
        return Expr::new(ExprKind::Let { var, value, body });
    }
    e.map_children(|c| if holders == 0 { c.clone() } else { replace_load(d, c, load, value) })
}

fn count(e: &Expr, load: &Expr) -> usize {
    let mut n = 0;
    e.visit(&mut |e| n += usize::from(e == load));
    n
}

/// True for values that are no larger than a variable.
fn is_leaf(e: &Expr) -> bool {
    matches!(e.kind(), ExprKind::Int { .. } | ExprKind::Float { .. } | ExprKind::Var { .. })
}

/// True where evaluating `e` certainly evaluates `load`: not only in a branch that may be skipped.
fn evaluates(e: &Expr, load: &Expr) -> bool {
    match e.kind() {
        _ if e == load => true,
        ExprKind::IfThenElse { cond, then, otherwise } => {
            evaluates(cond, load) || (evaluates(then, load) && evaluates(otherwise, load))
        }
        ExprKind::Binary { op: BinOp::And | BinOp::Or, a, .. } => evaluates(a, load),
        _ => {
            let mut any = false;
            e.for_each_child(|c| any |= evaluates(c, load));
            any
        }
    }
}

//! Structural mutants of functions: one index, extent, operator, guard, iterator's kind or type changed, blocks swapped,
//! doubled or dropped, an init gone.

use super::mutate::one;
use daylight::ir::{self, BinOp, Block, DType, Expr, ExprKind, For, Intrin, IterKind, PrimFunc, Stmt};
use rand::RngExt;
use rand::rngs::StdRng;

/// A mutant as it is read from its text; `None` where there is nothing to change so, or the reader refuses it.
pub fn mutant(f: &PrimFunc, rng: &mut StdRng) -> Option<PrimFunc> {
    let mut out = f.clone();
    for _ in 0..1 + rng.random_range(0..4) / 3 {
        out = changed(&out, rng)?;
    }
    let mut read = ir::read(&out.to_string(), "mutant.py").ok()?;
    Some(read.remove(0)).filter(|m| m.canonical_text() != f.canonical_text() && ir::verify(m).is_ok())
}

fn changed(f: &PrimFunc, rng: &mut StdRng) -> Option<PrimFunc> {
    match rng.random_range(0..12) {
        0..3 => in_expr(f, rng, index),
        3..5 => in_expr(f, rng, operator),
        5 => in_expr(f, rng, condition),
        6 => in_expr(f, rng, constant),
        7 | 8 => in_block(f, rng),
        9 => extent(f, rng),
        10 => dtype(f, rng),
        _ => statements(f, rng),
    }
}

/// What may stand in place of an expression.
type Change = fn(&Expr, &mut StdRng) -> Option<Expr>;

/// Changes one of the expressions, anywhere, that `change` has something for.
fn in_expr(f: &PrimFunc, rng: &mut StdRng, change: Change) -> Option<PrimFunc> {
    let mut found = 0;
    each(f, &mut |e| {
        found += usize::from(change(e, &mut super::mutate::generator(0, "", 0)).is_some());
        None
    });
    let pick = rng.random_range(0..found.max(1));
    let (mut at, mut done) = (0, false);
    let new = each(f, &mut |e| {
        let candidate = change(e, &mut super::mutate::generator(0, "", 0)).is_some();
        at += usize::from(candidate);
        let here = candidate && at == pick + 1 && !done;
        done |= here;
        here.then(|| change(e, rng)).flatten()
    });
    done.then_some(new)
}

/// The function with each expression replaced, or not, from the outside in.
fn each(f: &PrimFunc, change: &mut impl FnMut(&Expr) -> Option<Expr>) -> PrimFunc {
    fn inside(e: &Expr, change: &mut impl FnMut(&Expr) -> Option<Expr>) -> Expr {
        change(e).unwrap_or_else(|| e.map_children(|c| inside(c, change)))
    }
    let mut out = f.clone();
    out.body = f.body.iter().map(|s| s.map_exprs(&mut |e| inside(e, change))).collect();
    out
}

fn some(e: Expr) -> Option<Expr> {
    Some(e)
}

/// An index that is a variable, or made of some.
fn index(e: &Expr, rng: &mut StdRng) -> Option<Expr> {
    let ExprKind::Var { dtype, .. } = e.kind() else {
        return match e.kind() {
            ExprKind::Load { buffer, indices, dtype } if indices.len() > 1 => {
                let mut swapped = indices.clone();
                swapped.rotate_left(1);
                some(Expr::load(buffer, swapped, *dtype))
            }
            _ => None,
        };
    };
    let n = |n: i64| Expr::int(n, *dtype);
    some(match rng.random_range(0..9) {
        0 => e.clone() + n(1),
        1 => e.clone() - n(1),
        2 => e.clone() * n(2),
        3 => Expr::binary(BinOp::FloorDiv, e.clone(), n(2)),
        4 => Expr::binary(BinOp::FloorMod, e.clone(), n(3)),
        5 => n(0),
        6 => Expr::binary(BinOp::Max, e.clone() - n(1), n(0)),
        7 => n(2) - e.clone(),
        _ => Expr::binary(BinOp::Min, e.clone(), n(2)),
    })
}

/// Operators and functions that may stand for each other.
fn operator(e: &Expr, rng: &mut StdRng) -> Option<Expr> {
    const INTS: [BinOp; 7] =
        [BinOp::Add, BinOp::Sub, BinOp::Mul, BinOp::FloorDiv, BinOp::FloorMod, BinOp::Min, BinOp::Max];
    const FLOATS: [BinOp; 5] = [BinOp::Add, BinOp::Sub, BinOp::Mul, BinOp::Min, BinOp::Max];
    const BITS: [BinOp; 5] = [BinOp::BitAnd, BinOp::BitOr, BinOp::BitXor, BinOp::Shl, BinOp::Shr];
    const COMPARES: [BinOp; 6] = [BinOp::Eq, BinOp::Ne, BinOp::Lt, BinOp::Le, BinOp::Gt, BinOp::Ge];
    const CALLS: [Intrin; 7] =
        [Intrin::Exp, Intrin::Tanh, Intrin::Fabs, Intrin::Sigmoid, Intrin::Floor, Intrin::Erf, Intrin::Cos];
    let like: &[BinOp] = match e.kind() {
        ExprKind::Call { args, dtype, .. } if args.len() == 1 && dtype.is_float() => {
            return some(Expr::call(*one(&CALLS, rng), args.clone(), *dtype));
        }
        ExprKind::Binary { op, .. } if op.is_compare() => &COMPARES,
        ExprKind::Binary { op, .. } if BITS.contains(op) => &BITS,
        ExprKind::Binary { op: BinOp::And | BinOp::Or, .. } => &[BinOp::And, BinOp::Or],
        ExprKind::Binary { a, .. } if a.dtype().is_float() => &FLOATS,
        ExprKind::Binary { .. } => &INTS,
        _ => return None,
    };
    let ExprKind::Binary { a, b, .. } = e.kind() else { return None };
    let (a, b) = if rng.random_range(0..4) == 0 { (b, a) } else { (a, b) };
    some(Expr::binary(*one(like, rng), a.clone(), b.clone()))
}

/// A value under a condition, or a condition gone.
fn condition(e: &Expr, rng: &mut StdRng) -> Option<Expr> {
    match e.kind() {
        ExprKind::IfThenElse { cond, then, otherwise } | ExprKind::Select { cond, then, otherwise } => some(match rng
            .random_range(0..4)
        {
            0 => then.clone(),
            1 => otherwise.clone(),
            2 => {
                Expr::new(ExprKind::IfThenElse { cond: cond.clone(), then: otherwise.clone(), otherwise: then.clone() })
            }
            _ => Expr::new(ExprKind::Select { cond: cond.clone(), then: then.clone(), otherwise: otherwise.clone() }),
        }),
        ExprKind::Load { indices, dtype, .. } => {
            let first = indices.first().filter(|i| !i.has_load())?;
            let limit = Expr::int(rng.random_range(0..4), first.dtype());
            let cond = Expr::binary(*one(&[BinOp::Lt, BinOp::Ge, BinOp::Ne], rng), first.clone(), limit);
            let otherwise = Expr::constant(1.0, *dtype);
            some(Expr::new(ExprKind::IfThenElse { cond, then: e.clone(), otherwise }))
        }
        _ => None,
    }
}

fn constant(e: &Expr, rng: &mut StdRng) -> Option<Expr> {
    match e.kind() {
        ExprKind::Int { value, dtype } if *dtype != DType::Bool => {
            some(Expr::int(*one(&[value + 1, value - 1, 0, 1, 2, value / 2], rng), *dtype))
        }
        ExprKind::Float { dtype, .. } => some(Expr::float(*one(&[0.0, 1.0, -1.0, 0.5, 3.0], rng), *dtype)),
        _ => None,
    }
}

/// Changes one block: an iterator's kind, binding or domain, the init, the guard.
fn in_block(f: &PrimFunc, rng: &mut StdRng) -> Option<PrimFunc> {
    let pick = rng.random_range(0..8);
    edited(
        f,
        rng,
        |s| matches!(s, Stmt::Block(_)),
        |s, rng| {
            let Stmt::Block(b) = s else { return };
            change_block(b, pick, rng);
        },
    )
}

fn change_block(b: &mut Block, pick: usize, rng: &mut StdRng) {
    let n = b.iters.len();
    if n == 0 {
        return;
    }
    let (k, other) = (rng.random_range(0..n), rng.random_range(0..n));
    let it = &mut b.iters[k];
    let int = |n| Expr::int(n, it.dtype);
    match pick {
        0 | 1 => it.kind = if it.kind == IterKind::Reduce { IterKind::Spatial } else { IterKind::Reduce },
        2 => it.binding = it.extent.clone() - int(1) - it.binding.clone(),
        3 => {
            let binding = b.iters[other].binding.clone();
            b.iters[k].binding = binding;
        }
        4 => b.init.clear(),
        5 => b.regions = None,
        6 => b.iters.swap(k, other),
        _ => {
            let limit = int(rng.random_range(0..5));
            b.guard = Some(Expr::binary(*one(&[BinOp::Lt, BinOp::Ge], rng), it.binding.clone(), limit));
        }
    }
}

/// Another extent for a loop, and mostly for the iterators bound to it.
fn extent(f: &PrimFunc, rng: &mut StdRng) -> Option<PrimFunc> {
    let (way, alone) = (rng.random_range(0..4), rng.random_range(0..4) == 0);
    edited(
        f,
        rng,
        |s| matches!(s, Stmt::For(_)),
        |s, _| {
            let Stmt::For(l) = s else { return };
            let Some(old) = l.extent.as_int() else { return };
            let new = Expr::int([old + 1, old - 1, old / 2, old * 2][way], l.dtype);
            l.extent = new.clone();
            if !alone {
                follow(l, &new);
            }
        },
    )
}

fn follow(l: &mut For, extent: &Expr) {
    let var = l.var_expr();
    fn walk(body: &mut [Stmt], var: &Expr, extent: &Expr) {
        for s in body {
            match s {
                Stmt::For(l) => walk(&mut l.body, var, extent),
                Stmt::Block(b) => {
                    for it in b.iters.iter_mut().filter(|it| it.binding == *var) {
                        it.extent = extent.clone();
                    }
                }
                _ => {}
            }
        }
    }
    walk(&mut l.body, &var, extent);
}

/// Another type for a buffer, with what is loaded and stored converted.
fn dtype(f: &PrimFunc, rng: &mut StdRng) -> Option<PrimFunc> {
    const TYPES: [DType; 7] = [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I32, DType::I8, DType::U8];
    let (k, new) = (rng.random_range(0..f.buffers.len()), *one(&TYPES, rng));
    let (name, old) = (f.buffers[k].name.clone(), f.buffers[k].dtype);
    let mut out = each(f, &mut |e| match e.kind() {
        ExprKind::Load { buffer, indices, .. } if *buffer == name => {
            some(Expr::cast(old, Expr::load(buffer, indices.clone(), new)))
        }
        _ => None,
    });
    out.buffers[k].dtype = new;
    fn stores(body: &mut [Stmt], name: &ir::Name, new: DType) {
        for s in body {
            match s {
                Stmt::Store { buffer, value, .. } if buffer == name => *value = Expr::cast(new, value.clone()),
                Stmt::For(l) => stores(&mut l.body, name, new),
                Stmt::Block(b) => {
                    stores(&mut b.init, name, new);
                    stores(&mut b.body, name, new);
                }
                Stmt::If { then, otherwise, .. } => {
                    stores(then, name, new);
                    stores(otherwise, name, new);
                }
                _ => {}
            }
        }
    }
    stores(&mut out.body, &name, new);
    Some(out)
}

/// Nests swapped, dropped or doubled.
fn statements(f: &PrimFunc, rng: &mut StdRng) -> Option<PrimFunc> {
    let mut out = f.clone();
    let n = out.body.len();
    if n < 2 {
        return None;
    }
    let (a, b) = (rng.random_range(0..n), rng.random_range(0..n));
    match rng.random_range(0..3) {
        0 => out.body.swap(a, b),
        1 => drop(out.body.remove(a)),
        _ => out.body.insert(b, out.body[a].clone()),
    }
    Some(out)
}

/// Edits one of the statements that are of a kind.
fn edited(
    f: &PrimFunc,
    rng: &mut StdRng,
    is: fn(&Stmt) -> bool,
    edit: impl Fn(&mut Stmt, &mut StdRng),
) -> Option<PrimFunc> {
    let mut found = 0;
    f.visit(&mut |s| found += usize::from(is(s)));
    if found == 0 {
        return None;
    }
    let mut left = rng.random_range(0..found) as i64;
    fn walk(body: &mut [Stmt], is: fn(&Stmt) -> bool, left: &mut i64, edit: &mut impl FnMut(&mut Stmt)) {
        for s in body {
            if is(s) {
                if *left == 0 {
                    edit(s);
                }
                *left -= 1;
            }
            match s {
                Stmt::For(l) => walk(&mut l.body, is, left, edit),
                Stmt::Block(b) => walk(&mut b.body, is, left, edit),
                _ => {}
            }
        }
    }
    let mut out = f.clone();
    walk(&mut out.body, is, &mut left, &mut |s| edit(s, rng));
    Some(out)
}

//! `fuse`: a nest becomes one loop.
//!
//! ```text
//! for i in 4:
//!     for j in 8:                 for i_j_f in 32:
//!         block(u = i, v = j) ->      block(u = i_j_f // 8, v = i_j_f % 8)
//! ```
//!
//! Preconditions: `has_loops`; `serial_loop`, `no_annotations`, `zero_min` of each; `one_chain`:
//! each loop is the only statement in the one before; `rectangular`: no extent uses another of
//! the loops.
//!
//! Effect: one loop replaces the nest. A single loop stays as it is.

use crate::ir::{BinOp, DType, Expr, For, Name, Stmt};
use crate::schedule::help::span::cast;
use crate::schedule::help::{checks, scope, tree};
use crate::schedule::{Draft, Failure};

/// Fuses `loops`, outermost first; returns the loop.
pub fn apply(d: &mut Draft, loops: &[Name]) -> Result<Name, Failure> {
    let Some(first) = loops.first() else {
        return Err(Failure::new("has_loops", &Name::new(""), "fuse needs at least one loop"));
    };
    let nest = loops.iter().map(|n| d.find_loop(n).cloned()).collect::<Result<Vec<For>, _>>()?;
    nest.iter().try_for_each(checks::replaceable)?;
    nest.windows(2).try_for_each(|pair| one_chain(&pair[0], &pair[1]))?;
    checks::rectangular(&nest)?;
    if nest.len() == 1 {
        return Ok(first.clone());
    }
    let stem = loops.iter().map(Name::as_str).collect::<Vec<_>>().join("_");
    let fused = d.fresh(&format!("{stem}_f"));
    let display: Vec<_> = loops.iter().map(|n| d.func.display_name(n)).collect();
    let display = format!("{}_fused", display.join("_"));
    d.func.display.insert(fused.clone(), display);
    let ranges = scope::around(&d.func, first);
    let (extent, values) = values(&nest, &fused);
    let value_of = |n: &Name| loops.iter().position(|l| l == n).map(|k| values[k].clone());
    tree::replace(&mut d.func, first, |_| {
        let body = nest[nest.len() - 1].body.iter().map(|s| s.subst(&value_of)).collect();
        let mut new = Stmt::For(For::serial(fused.clone(), extent, body));
        scope::simplify_control(&mut new, &ranges);
        vec![new]
    });
    Ok(fused)
}

fn one_chain(outer: &For, inner: &For) -> Result<(), Failure> {
    let only = matches!(outer.body.as_slice(), [Stmt::For(l)] if l.var == inner.var);
    Failure::unless(only, "one_chain", &inner.var, || {
        format!("loop `{}` is not the only statement in loop `{}`; reorder the loops first", inner.var, outer.var)
    })
}

/// The extent of the fused loop, and each old variable in terms of it.
fn values(nest: &[For], fused: &Name) -> (Expr, Vec<Expr>) {
    let wide = nest.iter().any(|l| l.dtype == DType::I64);
    let dtype = if wide { DType::I64 } else { DType::I32 };
    let var = Expr::var(fused.clone(), dtype);
    let mut stride = Expr::int(1, dtype);
    let mut values = vec![];
    for (k, l) in nest.iter().enumerate().rev() {
        let extent = cast(dtype, &l.extent);
        let mut value = Expr::binary(BinOp::FloorDiv, var.clone(), stride.clone());
        if k > 0 {
            value = Expr::binary(BinOp::FloorMod, value, extent.clone());
        }
        values.insert(0, cast(l.dtype, &value));
        stride = extent * stride;
    }
    (stride, values)
}

//! Gives an intermediate buffer another type, in which every value that is stored there is exact.
//!
//! ```text
//! b0: t0[v0] = p0[v0]                                ->    b0: t0[v0] = float16(p0[v0])
//! b1: ... float32(t0[v1]) ...                              b1: ... float32(t0[v1]) ...
//!                  set_dtype(t0, "float16"), where p0 and t0 hold float8_e4m3fn
//! ```
//!
//! Preconditions: `buffer_exists`; `not_parameter`: the type of a parameter is the caller's; `no_alias`: no
//! block views a part of it under another name or hands it to a call; `plain_layout`: it has no strides,
//! offset or layout of its own; `exact`: what is stored, before conversions that change no value, is of a type whose
//! values the new one has.
//!
//! Effect: what is stored is converted to the new type, and what is loaded from there to the old one, or where that changes
//! no value, to the type that the old one was converted to.

use crate::analysis::{has_values_of, source_of};
use crate::ir::{DType, Expr, Name, Stmt};
use crate::schedule::help::{relayout, retype, tree};
use crate::schedule::{Draft, Failure};

pub fn apply(d: &mut Draft, buffer: &Name, &dtype: &DType) -> Result<(), Failure> {
    relayout::movable(d, buffer)?;
    let mut stored = vec![];
    d.func.visit(&mut |s| match s {
        Stmt::Store { buffer: to, value, .. } if to == buffer => stored.push(source_of(value).dtype()),
        _ => {}
    });
    let lost = stored.into_iter().find(|from| !has_values_of(dtype, *from));
    Failure::unless(lost.is_none(), "exact", buffer, || {
        format!("a {} is stored there, and {dtype} does not have all its values", lost.unwrap_or(dtype))
    })?;
    let direct = |from, to| has_values_of(to, dtype) && has_values_of(to, from);
    let loads = |e: &Expr| retype::loads(e, &|name| name == buffer, dtype, &direct);
    let mut body: Vec<Stmt> = d.func.body.iter().map(|s| s.map_exprs(&mut |e| loads(e))).collect();
    body.iter_mut().for_each(|s| stores(s, buffer, dtype));
    d.func.body = body;
    d.func.buffers.iter_mut().filter(|b| b.name == *buffer).for_each(|b| b.dtype = dtype);
    Ok(())
}

fn stores(s: &mut Stmt, of: &Name, dtype: DType) {
    match s {
        Stmt::Store { buffer, value, .. } if buffer == of => *value = Expr::cast(dtype, source_of(value)),
        _ => {}
    }
    tree::child_lists_mut(s).into_iter().flatten().for_each(|c| stores(c, of, dtype));
}

//! The scheduled function as TVM takes it back: TVMScript that its passes leave as it is scheduled. TVM has no approximate
//! functions; in their place are those that they approximate.

use crate::ir::{AttrValue, Expr, ExprKind, Intrin, PrimFunc};

/// The attribute by which TVM's default schedules know what is done.
const IS_SCHEDULED: &str = "tirx.is_scheduled";

/// TVMScript of a scheduled function, marked as scheduled.
pub(super) fn text(scheduled: &PrimFunc) -> String {
    let mut f = scheduled.clone();
    f.attrs.retain(|(key, _)| key != IS_SCHEDULED);
    f.attrs.push((IS_SCHEDULED.to_string(), AttrValue::Bool(true)));
    f.attrs.sort_by(|a, b| a.0.cmp(&b.0));
    f.body = f.body.iter().map(|s| s.map_exprs(&mut |e| approximated(e))).collect();
    f.to_string()
}

fn approximated(e: &Expr) -> Expr {
    let e = e.map_children(approximated);
    match e.kind() {
        ExprKind::Call { op: Intrin::Ex2Approx, args, .. } => args[0].clone().math(Intrin::Exp2),
        ExprKind::Call { op: Intrin::RcpApprox, args, dtype } => Expr::float(1.0, *dtype) / args[0].clone(),
        _ => e,
    }
}

#[cfg(test)]
mod tests {
    use crate::ir::{Function, read_any};

    #[test]
    fn approximate_functions_are_tvms() {
        let text = "@T.prim_func
def f(A: T.Buffer((4,), \"float32\"), C: T.Buffer((4,), \"float32\")):
    for i in T.grid(4):
        with T.sblock(\"b\"):
            vi = T.axis.remap(\"S\", [i])
            C[vi] = T.rcp_approx(T.ex2_approx(A[vi]) + T.float32(1))
";
        let [Function::Tensor(f)] = &read_any(text, "f.py").expect("it is read")[..] else {
            panic!("one tensor function")
        };
        let text = super::text(f);
        assert!(text.contains("C[vi] = T.float32(1.0) / (T.exp2(A[vi]) + T.float32(1.0))"), "{text}");
    }
}

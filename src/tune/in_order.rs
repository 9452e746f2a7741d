//! Sums that statements make one step after another, in loops inside of blocks or where there are no blocks.

use crate::ir::{DType, For, ForKind, PrimFunc, Stmt};

/// The longest such sum of a function, and the coarsest type in which one is kept; one step where there is none.
pub(super) fn longest(func: &PrimFunc) -> (u64, DType) {
    let mut found = Longest { func, length: 1, kept: DType::F64 };
    found.list(&func.body, 1, false);
    (found.length, found.kept)
}

struct Longest<'f> {
    func: &'f PrimFunc,
    length: u64,
    kept: DType,
}

impl Longest<'_> {
    fn list(&mut self, list: &[Stmt], steps: u64, inside: bool) {
        list.iter().for_each(|s| self.stmt(s, steps, inside));
    }

    fn stmt(&mut self, s: &Stmt, steps: u64, inside: bool) {
        match s {
            Stmt::For(l) if l.kind != ForKind::Parallel && (inside || !has_block(l)) => {
                let trips = l.extent.as_int().map_or(1, |n| n.max(1) as u64);
                self.list(&l.body, steps.saturating_mul(trips), inside);
            }
            Stmt::Store { buffer, value, .. } if steps > 1 && value.loads(buffer) => {
                self.length = self.length.max(steps);
                let dtype = self.func.buffer(buffer).dtype;
                if dtype.is_float() && dtype.roundoff() > self.kept.roundoff() {
                    self.kept = dtype;
                }
            }
            s => s.for_each_child(|c| self.stmt(c, steps, inside || matches!(s, Stmt::Block(_)))),
        }
    }
}

fn has_block(l: &For) -> bool {
    let mut found = false;
    l.body.iter().for_each(|s| s.visit(&mut |s| found |= matches!(s, Stmt::Block(_))));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> (u64, DType) {
        let text = format!(
            "@T.prim_func(s_tir=True)\ndef main(x: T.Buffer((5, 30), \"float16\"), y: T.Buffer((5, 30), \"float16\")):\n{body}"
        );
        longest(&crate::ir::read(&text, "sums").expect("reads").remove(0))
    }

    #[test]
    fn steps_of_a_scan_are_counted_and_its_rows_are_not() {
        let scan = "    with T.sblock(\"scan\"):
        T.reads()
        T.writes()
        for v in T.parallel(5):
            for k in range(29):
                y[v, k + 1] = y[v, k] + x[v, k + 1]
";
        assert_eq!(of(scan), (29, DType::F16));
        let copy = "    for i, j in T.grid(5, 30):\n        with T.sblock(\"c\"):\n            \
                    v, w = T.axis.remap(\"SS\", [i, j])\n            y[v, w] = x[v, w] + T.float16(1)\n";
        assert_eq!(of(copy), (1, DType::F64));
    }
}

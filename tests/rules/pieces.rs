//! Functions that no rule takes whole become several kernels.

use super::harness::{Case, check_all, read, target};
use crate::common::arm::arm;
use daylight::rules::{Arm, Prepared};

/// Column sums, then row sums weighted by them: two reductions along different axes.
fn columns_then_rows(m: i64, n: i64) -> Case {
    let text = format!(
        "@T.prim_func(s_tir=True)
def main(A: T.Buffer(({m}, {n}), \"float32\"), O: T.Buffer(({m},), \"float32\")):
    C = T.sblock_alloc_buffer(({n},))
    R = T.sblock_alloc_buffer(({m},))
    for j, k in T.grid({n}, {m}):
        with T.sblock(\"columns\"):
            vj, vk = T.axis.remap(\"SR\", [j, k])
            with T.init():
                C[vj] = T.float32(0.0)
            C[vj] = C[vj] + A[vk, vj]
    for i, k in T.grid({m}, {n}):
        with T.sblock(\"rows\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                R[vi] = T.float32(0.0)
            R[vi] = R[vi] + A[vi, vk] * C[vk]
    for i in range({m}):
        with T.sblock(\"scale\"):
            vi = T.axis.spatial({m}, i)
            O[vi] = R[vi] * T.float32(0.25)
"
    );
    Case { name: format!("columns_then_rows-{m}x{n}"), text, extents: vec![], length: 0 }
}

#[test]
fn two_reductions_along_different_axes() {
    let cases = [(3, 5), (16, 64), (37, 53), (8, 264)].map(|(m, n)| columns_then_rows(m, n)).into();
    check_all(cases, &["pieces.cuda", "pieces.cpu"]);
}

/// Who applies a record asks anew: the pieces are found again, and are the same.
#[test]
fn pieces_do_not_depend_on_who_asked() {
    let func = read(&columns_then_rows(37, 53));
    for (id, name) in [("cuda:sm_90a", "pieces.cuda"), ("cpu", "pieces.cpu")] {
        let asked = || {
            let input = Prepared::new(&func).unwrap_or_else(|d| panic!("{}: {}", d.predicate, d.reason));
            arm(name, &input, &target(id))
        };
        let (first, again) = (asked(), asked());
        assert_eq!(first.space.size(), again.space.size(), "{name}");
        let knobs = first.space.default().expect("a legal point");
        let trace = |arm: &Arm| {
            let s = arm.schedule(&knobs).unwrap_or_else(|e| panic!("{name}: {e}"));
            s.trace().iter().map(|step| step.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(trace(&first), trace(&again), "{name}");
    }
}

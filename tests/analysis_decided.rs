//! Conditions that the ranges of iterators decide are gone; all others stay.

use daylight::analysis::decide;
use daylight::interp::{self, Mode, Tensor};
use daylight::ir::{self, PrimFunc};

/// `y[i, j]` of a value, over 4 by 6.
fn of(value: &str) -> PrimFunc {
    let text = format!(
        "from tvm.script import tirx as T
@T.prim_func(private=True, s_tir=True)
def main(x: T.Buffer((9, 9), \"float32\"), y: T.Buffer((4, 6), \"float32\")):
    for i, j in T.grid(4, 6):
        with T.sblock(\"y\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            y[vi, vj] = {value}
"
    );
    ir::read(&text, "main").unwrap_or_else(|e| panic!("{e}\n{text}")).remove(0)
}

/// The function after the pass, checked to compute the same, and whether a condition is left.
fn decided(value: &str) -> (String, bool) {
    let f = of(value);
    let g = decide(&f);
    ir::verify(&g).expect("well formed");
    let x = Tensor::from_f64(ir::DType::F32, &[9, 9], &(0..81).map(f64::from).collect::<Vec<_>>());
    let run = |f: &PrimFunc| {
        let mut args = vec![x.clone(), Tensor::from_f64(ir::DType::F32, &[4, 6], &[0.0; 24])];
        interp::run(f, &mut args, &Default::default(), Mode::Exact).expect("runs");
        args[1].to_f64()
    };
    assert_eq!(run(&f), run(&g));
    let text = g.to_string();
    let left = text.contains("if_then_else") || text.contains("Select");
    (text, left)
}

#[test]
fn bounds_that_always_hold_are_gone() {
    for value in [
        "T.if_then_else(vj < 6, x[vi, vj], T.float32(0))",
        "T.if_then_else(vi + vj < 9 and 0 <= vi, x[vi, vj], T.float32(0))",
        "T.Select(vj * 2 <= 10, x[vi, vj], T.float32(0))",
        "T.if_then_else(6 <= vj, T.float32(0), x[vi, vj])",
        "T.if_then_else(vi < 4, T.if_then_else(vj < 7, x[vi, vj], T.float32(1)), T.float32(0))",
    ] {
        let (text, left) = decided(value);
        assert!(!left && text.contains("x[") | text.contains("p0["), "{value}\n{text}");
    }
}

#[test]
fn those_that_choose_stay() {
    for value in [
        "T.if_then_else(vj < 5, x[vi, vj], T.float32(0))",
        "T.if_then_else(vi + vj < 8, x[vi, vj], T.float32(0))",
        "T.if_then_else(x[vi, vj] < T.float32(3), x[vi, vj], T.float32(0))",
    ] {
        assert!(decided(value).1, "{value}");
    }
}

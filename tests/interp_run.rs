//! The interpreter on small functions built by hand.

use daylight::interp::{InterpError, Mode, Scalar, Scalars, Tensor, run, run_defined, sample};
use daylight::ir::*;
use std::collections::BTreeMap;

fn v(name: &str) -> Expr {
    Expr::var(name, DType::I64)
}

fn c(value: i64) -> Expr {
    Expr::i64(value)
}

fn f32c(value: f64) -> Expr {
    Expr::float(value, DType::F32)
}

fn buffer(name: &str, dtype: DType, shape: &[Expr]) -> Buffer {
    Buffer::new(name.into(), dtype, shape.to_vec(), Scope::Global)
}

fn func(params: &[&str], buffers: Vec<Buffer>, extents: &[&str], body: Vec<Stmt>) -> PrimFunc {
    let is_param = |b: &Buffer| params.contains(&b.name.as_str());
    PrimFunc {
        name: "test".to_string(),
        private: true,
        params: params.iter().map(|p| Param::Buffer((*p).into())).collect(),
        allocs: buffers.iter().filter(|b| !is_param(b)).map(|b| b.name.clone()).collect(),
        buffers,
        extents: extents.iter().map(|n| Extent { name: (*n).into(), dtype: DType::I64 }).collect(),
        attrs: vec![],
        body,
        display: BTreeMap::new(),
    }
}

fn iter(var: &str, extent: Expr, kind: IterKind, binding: Expr) -> IterVar {
    IterVar { var: var.into(), dtype: DType::I64, min: c(0), extent, kind, binding }
}

fn for_loop(var: &str, extent: Expr, body: Stmt) -> Stmt {
    Stmt::For(For::serial(var.into(), extent, vec![body]))
}

fn store(buffer: &str, indices: &[Expr], value: Expr) -> Stmt {
    Stmt::Store { buffer: buffer.into(), indices: indices.to_vec(), value }
}

fn load(buffer: &str, indices: &[Expr], dtype: DType) -> Expr {
    Expr::load(buffer, indices.to_vec(), dtype)
}

fn block(name: &str, iters: Vec<IterVar>, init: Vec<Stmt>, body: Vec<Stmt>) -> Stmt {
    Stmt::Block(Block { init, ..Block::new(name.into(), iters, body) })
}

/// `t0[i] = sum over k of p0[i, k]`, then `p1[i] = t0[i] * factor`.
fn row_mean(rows: Expr, cols: Expr, dtype: DType, factor: f64) -> PrimFunc {
    let sr =
        vec![iter("v0", rows.clone(), IterKind::Spatial, v("i0")), iter("v1", cols.clone(), IterKind::Reduce, v("i1"))];
    let sum = load("t0", &[v("v0")], dtype) + load("p0", &[v("v0"), v("v1")], dtype);
    let init = vec![store("t0", &[v("v0")], Expr::float(0.0, dtype))];
    let reduce = block("b0", sr, init, vec![store("t0", &[v("v0")], sum)]);
    let s = vec![iter("v2", rows.clone(), IterKind::Spatial, v("i2"))];
    let scaled = load("t0", &[v("v2")], dtype) * Expr::float(factor, dtype);
    let scale = block("b1", s, vec![], vec![store("p1", &[v("v2")], scaled)]);
    let buffers = vec![
        buffer("p0", dtype, &[rows.clone(), cols.clone()]),
        buffer("p1", dtype, std::slice::from_ref(&rows)),
        buffer("t0", dtype, std::slice::from_ref(&rows)),
    ];
    let body = vec![for_loop("i0", rows.clone(), for_loop("i1", cols, reduce)), for_loop("i2", rows, scale)];
    func(&["p0", "p1"], buffers, &[], body)
}

#[test]
fn a_row_mean_in_both_modes() {
    let f = row_mean(c(2), c(3), DType::F32, 1.0 / 3.0);
    let x = Tensor::from_f64(DType::F32, &[2, 3], &[1.0, 2.0, 3.0, 0.1, 0.2, 0.3]);
    let mut exact = vec![x.clone(), Tensor::zeros(DType::F32, &[2])];
    run(&f, &mut exact, &Scalars::new(), Mode::Exact).expect("runs");
    let third = 1.0f32 / 3.0;
    assert_eq!(exact[1].to_f64(), vec![(6.0f32 * third) as f64, ((0.1f32 + 0.2 + 0.3) * third) as f64]);
    let mut wide = vec![x, Tensor::zeros(DType::F64, &[2])];
    run(&f, &mut wide, &Scalars::new(), Mode::F64).expect("runs");
    let sum = 0.1f32 as f64 + 0.2f32 as f64 + 0.3f32 as f64;
    assert_eq!(wide[1].get_f64(1), sum * third as f64);
}

#[test]
fn exact_mode_rounds_every_step() {
    // 2048 + 1 is 2048 in float16, so the sum sticks.
    let f = row_mean(c(1), c(4096), DType::F16, 1.0);
    let x = Tensor::from_f64(DType::F16, &[1, 4096], &[1.0; 4096]);
    for (mode, want) in [(Mode::Exact, 2048.0), (Mode::F64, 4096.0)] {
        let mut args = vec![x.clone(), Tensor::zeros(DType::F16, &[1])];
        run(&f, &mut args, &Scalars::new(), mode).expect("runs");
        assert_eq!(args[1].get_f64(0), want, "{mode:?}");
    }
}

#[test]
fn symbolic_extents_come_from_the_shapes() {
    let mut f = row_mean(v("n0"), v("n1"), DType::F32, 1.0);
    f.extents = ["n0", "n1"].map(|n| Extent { name: n.into(), dtype: DType::I64 }).to_vec();
    let mut args = vec![Tensor::from_f64(DType::F32, &[1, 2], &[3.0, 4.0]), Tensor::zeros(DType::F32, &[1])];
    run(&f, &mut args, &Scalars::new(), Mode::Exact).expect("runs");
    assert_eq!(args[1].get_f64(0), 7.0);
    args[1] = Tensor::zeros(DType::F32, &[2]);
    let err = run(&f, &mut args, &Scalars::new(), Mode::Exact).expect_err("shapes disagree");
    assert_eq!(err.to_string(), "tensor `p1` has shape [2], expected [1]");
}

/// A split of 10 into 3 x 4 with a guard, the outer loop bound to a thread axis.
#[test]
fn thread_loops_and_guards() {
    let at = v("i0") * c(4) + v("i1");
    let guard = Expr::binary(BinOp::Lt, at.clone(), c(10));
    let value = load("p0", &[v("v0")], DType::F32) * f32c(2.0);
    let inner = Stmt::Block(Block {
        guard: Some(guard),
        ..Block::new("b0".into(), vec![iter("v0", c(10), IterKind::Spatial, at)], vec![store("p1", &[v("v0")], value)])
    });
    let mut outer = For::serial("i0".into(), c(3), vec![for_loop("i1", c(4), inner)]);
    outer.kind = ForKind::Thread(ThreadTag::BlockX);
    let buffers = vec![buffer("p0", DType::F32, &[c(10)]), buffer("p1", DType::F32, &[c(10)])];
    let mut f = func(&["p0", "p1"], buffers, &[], vec![Stmt::For(outer)]);
    let values: Vec<f64> = (0..10).map(|i| i as f64).collect();
    let mut args = vec![Tensor::from_f64(DType::F32, &[10], &values), Tensor::zeros(DType::F32, &[10])];
    run(&f, &mut args, &Scalars::new(), Mode::Exact).expect("runs");
    assert_eq!(args[1].to_f64(), values.iter().map(|v| v * 2.0).collect::<Vec<_>>());
    // Without the guard the last outer step leaves the buffer.
    let Stmt::For(outer) = &mut f.body[0] else { unreachable!() };
    let Stmt::For(inner) = &mut outer.body[0] else { unreachable!() };
    let Stmt::Block(b) = &mut inner.body[0] else { unreachable!() };
    b.guard = None;
    f.display.insert("p0".into(), "x".to_string());
    let err = run(&f, &mut args, &Scalars::new(), Mode::Exact).expect_err("leaves the buffer");
    assert_eq!(err, InterpError::OutOfBounds { buffer: "x".to_string(), index: vec![10], shape: vec![10] });
    assert_eq!(err.to_string(), "index [10] lies outside buffer `x` of shape [10]");
}

/// The reduction over a tuple that `argmax` is: new values are bound before they are stored.
#[test]
fn argmax_keeps_its_pair_together() {
    let (value, index) = (load("t1", &[v("v0")], DType::F32), load("t0", &[v("v0")], DType::I64));
    let x = load("p0", &[v("v0"), v("v1")], DType::F32);
    let select = |cond: Expr, then: Expr, otherwise: Expr| Expr::new(ExprKind::Select { cond, then, otherwise });
    let greater = Expr::binary(BinOp::Gt, value.clone(), x.clone());
    let tie = Expr::binary(
        BinOp::And,
        Expr::binary(BinOp::Eq, value.clone(), x.clone()),
        Expr::binary(BinOp::Lt, index.clone(), v("v1")),
    );
    let body = vec![
        Stmt::Let { var: "x0".into(), value: select(Expr::binary(BinOp::Or, greater.clone(), tie), index, v("v1")) },
        Stmt::Let { var: "x1".into(), value: select(greater, value, x) },
        store("t0", &[v("v0")], v("x0")),
        store("t1", &[v("v0")], Expr::var("x1", DType::F32)),
    ];
    let init = vec![store("t0", &[v("v0")], c(-1)), store("t1", &[v("v0")], f32c(-3.4e38))];
    let iters = vec![iter("v0", c(2), IterKind::Spatial, v("i0")), iter("v1", c(4), IterKind::Reduce, v("i1"))];
    let copy = block(
        "b1",
        vec![iter("v2", c(2), IterKind::Spatial, v("i2"))],
        vec![],
        vec![store("p1", &[v("v2")], load("t0", &[v("v2")], DType::I64))],
    );
    let reduce = for_loop("i0", c(2), for_loop("i1", c(4), block("b0", iters, init, body)));
    let buffers = vec![
        buffer("p0", DType::F32, &[c(2), c(4)]),
        buffer("p1", DType::I64, &[c(2)]),
        buffer("t0", DType::I64, &[c(2)]),
        buffer("t1", DType::F32, &[c(2)]),
    ];
    let f = func(&["p0", "p1"], buffers, &[], vec![reduce, for_loop("i2", c(2), copy)]);
    let x = Tensor::from_f64(DType::F32, &[2, 4], &[1.0, 9.0, 9.0, 3.0, -5.0, -7.0, -6.0, -5.0]);
    let mut args = vec![x, Tensor::zeros(DType::I64, &[2])];
    run(&f, &mut args, &Scalars::new(), Mode::Exact).expect("runs");
    assert_eq!((args[1].get_i64(0), args[1].get_i64(1)), (1, 0));
}

/// `p0[0] = expr(s0)` for a scalar parameter.
fn scalar_result(e: Expr, dtype: DType, value: Scalar, out: DType) -> Result<Tensor, InterpError> {
    let mut f = func(&["p0"], vec![buffer("p0", out, &[c(1)])], &[], vec![store("p0", &[c(0)], e)]);
    f.params.push(Param::Scalar { name: "s0".into(), dtype });
    let mut args = vec![Tensor::zeros(out, &[1])];
    run(&f, &mut args, &Scalars::from([("s0".into(), value)]), Mode::Exact).map(|()| args.remove(0))
}

#[test]
fn integers_have_their_width() {
    let s = |dtype| Expr::var("s0", dtype);
    let int = |e: Expr, dtype: DType, v: i64| {
        let out = e.dtype();
        scalar_result(e, dtype, Scalar::Int(v), out).expect("runs").get_i64(0)
    };
    let op = |op, dtype, v: i64| Expr::binary(op, s(dtype), Expr::int(v, dtype));
    assert_eq!(int(op(BinOp::Add, DType::U8, 100), DType::U8, 200), 44);
    assert_eq!(int(op(BinOp::Mul, DType::I8, 2), DType::I8, 100), -56);
    assert_eq!(int(op(BinOp::FloorDiv, DType::I32, 4), DType::I32, -7), -2);
    assert_eq!(int(op(BinOp::FloorMod, DType::I32, 4), DType::I32, -7), 1);
    assert_eq!(int(op(BinOp::TruncDiv, DType::I32, 4), DType::I32, -7), -1);
    assert_eq!(int(op(BinOp::TruncMod, DType::I32, 4), DType::I32, -7), -3);
    assert_eq!(int(op(BinOp::Shr, DType::U64, 60), DType::U64, -1), 15);
    assert_eq!(int(op(BinOp::Shr, DType::U32, 28), DType::U32, 0xf000_0000), 15);
    assert_eq!(int(op(BinOp::Max, DType::U64, 1), DType::U64, -1), -1);
    assert_eq!(int(Expr::cast(DType::I8, s(DType::I32)), DType::I32, 300), 44);
    assert_eq!(int(Expr::call(Intrin::PopCount, vec![s(DType::I32)], DType::I32), DType::I32, -1), 32);
    assert_eq!(int(Expr::call(Intrin::Clz, vec![s(DType::I32)], DType::I32), DType::I32, 1), 31);
    assert_eq!([BinOp::FloorDiv, BinOp::FloorMod].map(|o| int(op(o, DType::I32, 0), DType::I32, 7)), [0, 0]);
    assert_eq!(int(op(BinOp::TruncDiv, DType::I32, -1), DType::I32, i64::from(i32::MIN)), i64::from(i32::MIN));
}

#[test]
fn conversions_round_or_keep_bits() {
    let x = || Expr::var("s0", DType::F32);
    let float = |e: Expr, v: f64| {
        let out = e.dtype();
        scalar_result(e, DType::F32, Scalar::Float(v), out).expect("runs").get_f64(0)
    };
    assert_eq!(float(Expr::cast(DType::F16, x()), 2049.0), 2048.0);
    assert_eq!(float(Expr::cast(DType::I32, x()), -2.7), -2.0);
    assert_eq!(float(Expr::cast(DType::E4M3, x()), 17.0), 16.0);
    assert_eq!(float(Expr::new(ExprKind::Reinterpret { dtype: DType::U32, arg: x() }), 1.0), 0x3f80_0000 as f64);
    assert_eq!(float(Expr::call(Intrin::Erf, vec![x()], DType::F32), 0.5), 0.5204998778130465f64 as f32 as f64);
    let lazy = Expr::new(ExprKind::IfThenElse {
        cond: Expr::binary(BinOp::Lt, x(), f32c(0.0)),
        then: load("p0", &[c(7)], DType::F32),
        otherwise: x() + f32c(1.0),
    });
    assert_eq!(float(lazy, 1.0), 2.0);
}

#[test]
fn wrong_arguments_are_named() {
    let f = row_mean(c(2), c(3), DType::F32, 1.0);
    let mut args = vec![Tensor::zeros(DType::F16, &[2, 3]), Tensor::zeros(DType::F32, &[2])];
    let err = run(&f, &mut args, &Scalars::new(), Mode::Exact).expect_err("wrong dtype");
    assert_eq!(err.to_string(), "tensor `p0` is float16, expected float32");
    args[0] = Tensor::zeros(DType::F32, &[2, 3]);
    let err = run(&f, &mut args[..1], &Scalars::new(), Mode::Exact).expect_err("too few");
    assert_eq!(err.to_string(), "function `test` takes 2 tensors, not 1");
}

/// A block `out[v + shift] = value(v)` over `[0, extent)`.
fn map_block(number: usize, extent: i64, out: &str, shift: i64, value: impl Fn(Expr) -> Expr) -> Stmt {
    let (i, it) = (format!("i{number}"), format!("v{number}"));
    let at = if shift == 0 { v(&it) } else { v(&it) + c(shift) };
    let iters = vec![iter(&it, c(extent), IterKind::Spatial, v(&i))];
    let store = store(out, &[at], value(v(&it)));
    for_loop(&i, c(extent), block(&format!("b{number}"), iters, vec![], vec![store]))
}

/// Two blocks fill an intermediate side by side, a third changes a parameter in place twice over.
#[test]
fn samples_see_what_earlier_blocks_left() {
    let x = |at: Expr| load("p0", &[at], DType::F32);
    let t = |at: Expr| load("t0", &[at], DType::F32);
    let out = |at: Expr| load("p1", &[at], DType::F32);
    let body = vec![
        map_block(0, 4, "t0", 0, |at| x(at) * f32c(2.0)),
        map_block(1, 4, "t0", 4, |at| x(at) + f32c(100.0)),
        map_block(2, 8, "p1", 0, |at| out(at.clone()) + t(at)),
        map_block(3, 8, "p1", 0, |at| out(at) * f32c(10.0)),
    ];
    let buffers =
        vec![buffer("p0", DType::F32, &[c(4)]), buffer("p1", DType::F32, &[c(8)]), buffer("t0", DType::F32, &[c(8)])];
    let f = func(&["p0", "p1"], buffers, &[], body);
    let mut args =
        vec![Tensor::from_f64(DType::F32, &[4], &[1.0, 2.0, 3.0, 4.0]), Tensor::from_f64(DType::F32, &[8], &[0.5; 8])];
    let points: Vec<Vec<i64>> = (0..8).rev().map(|i| vec![i]).collect();
    let got = sample(&f, &args, &Scalars::new(), &"p1".into(), &points).expect("samples");
    run(&f, &mut args, &Scalars::new(), Mode::F64).expect("runs");
    assert_eq!(args[1].to_f64(), [25.0, 45.0, 65.0, 85.0, 1015.0, 1025.0, 1035.0, 1045.0]);
    assert_eq!(got, args[1].to_f64().into_iter().rev().map(Some).collect::<Vec<_>>());
}

/// What nothing stores to has no value, and keeps the one that it had.
#[test]
fn elements_that_nothing_is_stored_to_are_told_apart() {
    for dtype in [DType::F32, DType::I8, DType::I64] {
        let f = func(
            &["p0", "p1"],
            vec![buffer("p0", dtype, &[c(4)]), buffer("p1", dtype, &[c(8)])],
            &[],
            vec![map_block(0, 4, "p1", 2, |at| load("p0", &[at], dtype))],
        );
        let mut args = vec![Tensor::from_f64(dtype, &[4], &[90.0, 0.0, -1.0, 7.0]), Tensor::zeros(dtype, &[8])];
        args[1].data.clear();
        let at = |i: i64| sample(&f, &args, &Scalars::new(), &"p1".into(), &[vec![i]]);
        assert_eq!((at(3), at(6)), (Ok(vec![Some(0.0)]), Ok(vec![None])), "{dtype}");
        args[1] = Tensor::from_f64(dtype, &[8], &[5.0; 8]);
        let missing = run_defined(&f, &mut args, &Scalars::new(), Mode::F64, &["p1".into()]).expect("runs");
        assert_eq!(missing, [[0, 1, 6, 7]], "{dtype}");
        assert_eq!(args[1].to_f64(), [5.0, 5.0, 90.0, 0.0, -1.0, 7.0, 5.0, 5.0], "{dtype}");
    }
}

/// Two elements of `p0` by way of `t0`, which has `n`, to the `n` of `p1`.
fn copies(dtype: DType, n: i64) -> PrimFunc {
    let body = vec![
        for_loop("j", c(2), store("t0", &[v("j")], load("p0", &[v("j")], dtype))),
        for_loop("i", c(n), store("p1", &[v("i")], load("t0", &[v("i")], dtype))),
    ];
    let shapes = [("p0", c(2)), ("t0", c(n)), ("p1", c(n))];
    func(&["p0", "p1"], shapes.iter().map(|(n, e)| buffer(n, dtype, std::slice::from_ref(e))).collect(), &[], body)
}

/// Which elements are written does not show in what they hold: neither in data that holds the bits that others
/// hold before they are written, nor in types that are too narrow for unlikely bits.
#[test]
fn written_elements_are_told_apart_whatever_they_hold() {
    let ints = 0x5a5a_5a5a_5a5a_5a5a_u64;
    for (dtype, bits) in [(DType::I64, ints), (DType::U64, ints), (DType::F64, 0x7ff8_5a5a_5a5a_5a5a)] {
        let mut args = vec![Tensor::zeros(dtype, &[2]), Tensor::zeros(dtype, &[2])];
        args[0].data = bits.to_le_bytes().repeat(2);
        let f = copies(dtype, 2);
        run(&f, &mut args, &Scalars::new(), Mode::Checked).unwrap_or_else(|e| panic!("{dtype}: {e}"));
        assert_eq!(args[1], args[0], "{dtype}");
        args[1] = Tensor::zeros(dtype, &[2]);
        let missing = run_defined(&f, &mut args, &Scalars::new(), Mode::F64, &["p1".into()]).expect("runs");
        assert_eq!((missing, &args[1]), (vec![vec![]], &args[0]), "{dtype}");
    }
    for dtype in [DType::Bool, DType::I8, DType::U16, DType::I64, DType::F16, DType::F64] {
        let mut args = vec![Tensor::from_f64(dtype, &[2], &[1.0; 2]), Tensor::from_f64(dtype, &[4], &[0.0; 4])];
        let f = copies(dtype, 4);
        let missing = run_defined(&f, &mut args, &Scalars::new(), Mode::F64, &["p1".into()]).expect("runs");
        assert_eq!((missing, args[1].to_f64()), (vec![vec![2, 3]], vec![1.0, 1.0, 0.0, 0.0]), "{dtype}");
    }
}

/// Copies two elements of `p0` to `t0`, then reads `t0[i + 1]` where it cannot change the result.
fn reads_past_what_it_wrote(dtype: DType) -> PrimFunc {
    let at = |by: i64| v("i") + c(by);
    let hidden = match dtype.is_float() {
        true => Expr::binary(BinOp::Max, load("t0", &[at(1)], dtype), load("t0", &[at(0)], dtype)),
        false => load("t0", &[at(1)], dtype) * Expr::int(0, dtype),
    };
    let body = vec![
        for_loop("j", c(2), store("t0", &[v("j")], load("p0", &[v("j")], dtype))),
        for_loop("i", c(2), store("p1", &[v("i")], hidden)),
    ];
    let shapes = [("p0", c(2)), ("t0", c(3)), ("p1", c(2))];
    func(&["p0", "p1"], shapes.iter().map(|(n, e)| buffer(n, dtype, std::slice::from_ref(e))).collect(), &[], body)
}

#[test]
fn checked_runs_stop_at_elements_that_were_never_written() {
    for dtype in [DType::F32, DType::F64, DType::I8, DType::I32, DType::I64, DType::U64] {
        let f = reads_past_what_it_wrote(dtype);
        let mut args = vec![Tensor::from_f64(dtype, &[2], &[1.0, 2.0]), Tensor::zeros(dtype, &[2])];
        let before = args.clone();
        let err = run(&f, &mut args, &Scalars::new(), Mode::Checked).expect_err("t0[2] is not written");
        assert_eq!(err, InterpError::Unwritten { buffer: "t0".to_string(), index: vec![2] }, "{dtype}");
        assert_eq!(err.to_string(), "index [2] of buffer `t0` is read before it is written");
        assert_eq!(args, before, "{dtype}");
        run(&f, &mut args, &Scalars::new(), Mode::Exact).unwrap_or_else(|e| panic!("{dtype}: {e}"));
        let values = args[1].to_f64();
        assert_eq!(values, if dtype.is_float() { [2.0, 2.0] } else { [0.0, 0.0] }, "{dtype}");
    }
}

#[test]
fn zz_time() {
    let n = 160;
    let at = |a: &str, b: &str| [v(a), v(b)];
    let term = load("p0", &at("i", "k"), DType::F32) * load("p1", &at("k", "j"), DType::F32);
    let add = store("p2", &at("i", "j"), load("p2", &at("i", "j"), DType::F32) + term);
    let zero = store("p2", &at("i", "j"), f32c(0.0));
    let body = vec![
        for_loop("i", c(n), for_loop("j", c(n), zero)),
        for_loop("i", c(n), for_loop("j", c(n), for_loop("k", c(n), add))),
    ];
    let f = func(
        &["p0", "p1", "p2"],
        ["p0", "p1", "p2"].iter().map(|b| buffer(b, DType::F32, &[c(n), c(n)])).collect(),
        &[],
        body,
    );
    let mut args = vec![Tensor::zeros(DType::F32, &[n, n]); 3];
    for round in 0..5 {
        let t = std::time::Instant::now();
        run(&f, &mut args, &Scalars::new(), Mode::F64).expect("runs");
        let a = t.elapsed();
        let t = std::time::Instant::now();
        run_defined(&f, &mut args, &Scalars::new(), Mode::F64, &["p2".into()]).expect("runs");
        println!("{round} plain {a:?} fresh {:?}", t.elapsed());
    }
}

/// Grouped heads, taken apart: one index is the sum of two iterators, each the digit of its weight; gaps have no value.
#[test]
fn samples_are_found_by_the_digits_of_an_index() {
    let at = |weight: i64| v("g") * c(weight) + v("m");
    let iters = vec![iter("g", c(3), IterKind::Spatial, v("i")), iter("m", c(2), IterKind::Spatial, v("j"))];
    let function = |weight: i64| {
        let value = load("p0", &[at(2)], DType::F32) * f32c(10.0);
        let inner = block("b", iters.clone(), vec![], vec![store("p1", &[at(weight)], value)]);
        let body = vec![for_loop("i", c(3), for_loop("j", c(2), inner))];
        let buffers = vec![buffer("p0", DType::F32, &[c(6)]), buffer("p1", DType::F32, &[c(12)])];
        func(&["p0", "p1"], buffers, &[], body)
    };
    let tensors = || {
        vec![
            Tensor::from_f64(DType::F32, &[6], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            Tensor::from_f64(DType::F32, &[12], &[0.0; 12]),
        ]
    };
    let points: Vec<Vec<i64>> = (0..12).map(|i| vec![i]).collect();
    for (weight, want) in [(2, vec![1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0]), (4, vec![1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0, 0])]
    {
        let (f, mut args) = (function(weight), tensors());
        let got = sample(&f, &args, &Scalars::new(), &"p1".into(), &points).expect("samples");
        let want: Vec<Option<f64>> = want.iter().map(|x| (*x > 0).then_some(f64::from(*x) * 10.0)).collect();
        assert_eq!(got, want);
        run(&f, &mut args, &Scalars::new(), Mode::F64).expect("runs");
        assert_eq!(args[1].to_f64(), got.iter().map(|x| x.unwrap_or(0.0)).collect::<Vec<_>>());
    }
    // Two iterations would be one element's digits: only a run tells.
    assert!(sample(&function(1), &tensors(), &Scalars::new(), &"p1".into(), &points).is_err());
}

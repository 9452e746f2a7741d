//! The simplifier against direct evaluation, on random expressions and by name.

use daylight::analysis::{Ranges, affine, bounds, coeff_of, interval, linear, multiple_of, prove, simplify};
use daylight::ir::{BinOp, DType, Expr, ExprKind, Name, UnOp};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;

type Env = HashMap<Name, i64>;

/// The value of an index expression; `None` where it has none (division by zero, overflow).
fn eval(e: &Expr, env: &Env) -> Option<i64> {
    let v = match e.kind() {
        ExprKind::Int { value, .. } => *value,
        ExprKind::Var { name, .. } => env[name],
        ExprKind::Unary { op: UnOp::Neg, arg } => eval(arg, env)?.checked_neg()?,
        ExprKind::Unary { op: UnOp::Not, arg } => (eval(arg, env)? == 0) as i64,
        ExprKind::Unary { op: UnOp::BitNot, arg } => !eval(arg, env)?,
        ExprKind::Select { cond, then, otherwise } | ExprKind::IfThenElse { cond, then, otherwise } => {
            if eval(cond, env)? != 0 { eval(then, env)? } else { eval(otherwise, env)? }
        }
        ExprKind::Cast { arg, .. } => eval(arg, env)?,
        ExprKind::Let { var, value, body } => {
            let mut inner = env.clone();
            inner.insert(var.clone(), eval(value, env)?);
            eval(body, &inner)?
        }
        ExprKind::Binary { op, a, b } => binary(*op, eval(a, env)?, eval(b, env)?)?,
        other => panic!("not an index expression: {other:?}"),
    };
    Some(v)
}

fn binary(op: BinOp, x: i64, y: i64) -> Option<i64> {
    Some(match op {
        BinOp::Add => x.checked_add(y)?,
        BinOp::Sub => x.checked_sub(y)?,
        BinOp::Mul => x.checked_mul(y)?,
        BinOp::FloorDiv => (y != 0).then(|| (x as f64 / y as f64).floor() as i64)?,
        BinOp::FloorMod => (y != 0).then(|| x - y * (x as f64 / y as f64).floor() as i64)?,
        BinOp::TruncDiv | BinOp::Div => x.checked_div(y)?,
        BinOp::TruncMod => x.checked_rem(y)?,
        BinOp::Min => x.min(y),
        BinOp::Max => x.max(y),
        BinOp::Eq => (x == y) as i64,
        BinOp::Ne => (x != y) as i64,
        BinOp::Lt => (x < y) as i64,
        BinOp::Le => (x <= y) as i64,
        BinOp::Gt => (x > y) as i64,
        BinOp::Ge => (x >= y) as i64,
        BinOp::And => (x != 0 && y != 0) as i64,
        BinOp::Or => (x != 0 || y != 0) as i64,
        BinOp::BitAnd => x & y,
        BinOp::BitOr => x | y,
        BinOp::BitXor => x ^ y,
        BinOp::Shl => x.checked_mul(1 << y)?,
        BinOp::Shr => x >> y,
    })
}

/// Random variables with ranges; `j` runs below the symbolic extent `n`.
struct World {
    rng: StdRng,
    ranges: Ranges,
    spans: Vec<(&'static str, i64, i64)>,
    n: i64,
    dtype: DType,
}

const CONSTANTS: [i64; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 32, 5, 7, 64];

impl World {
    fn new(seed: u64) -> World {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut ranges = Ranges::new();
        let mut spans = vec![];
        for name in ["i", "k", "m"] {
            let lo = if rng.random_bool(0.7) { 0 } else { rng.random_range(-9..9) };
            let hi = lo + CONSTANTS[rng.random_range(0..CONSTANTS.len())] - 1;
            ranges.set(name, lo, hi);
            spans.push((name, lo, hi));
        }
        let dtype = if rng.random_bool(0.5) { DType::I32 } else { DType::I64 };
        ranges.set_at_least("n", 1);
        ranges.set_span("j".into(), &Expr::int(0, dtype), &Expr::var("n", dtype));
        let n = rng.random_range(1..9);
        World { rng, ranges, spans, n, dtype }
    }

    fn constant(&mut self) -> Expr {
        let v = CONSTANTS[self.rng.random_range(0..CONSTANTS.len())];
        Expr::int(v, self.dtype)
    }

    fn leaf(&mut self) -> Expr {
        match self.rng.random_range(0..7) {
            0 => Expr::int(self.rng.random_range(-20..40), self.dtype),
            1 => Expr::var("n", self.dtype),
            2 => Expr::var("j", self.dtype),
            i => Expr::var(["i", "k", "m", "i"][i - 3], self.dtype),
        }
    }

    fn index(&mut self, depth: u32) -> Expr {
        if depth == 0 {
            return self.leaf();
        }
        let pick = self.rng.random_range(0..22);
        match pick {
            0..5 => self.index(depth - 1) + self.index(depth - 1),
            5..7 => self.index(depth - 1) - self.index(depth - 1),
            7..10 => self.index(depth - 1) * self.constant(),
            10 => self.index(depth - 1) * self.leaf(),
            11..14 => Expr::binary(BinOp::FloorDiv, self.index(depth - 1), self.constant()),
            14..17 => Expr::binary(BinOp::FloorMod, self.index(depth - 1), self.constant()),
            17 => {
                let op = if self.rng.random_bool(0.5) { BinOp::FloorDiv } else { BinOp::FloorMod };
                Expr::binary(op, self.index(depth - 1), Expr::var("n", self.dtype))
            }
            18 => {
                let op = if self.rng.random_bool(0.5) { BinOp::TruncDiv } else { BinOp::TruncMod };
                Expr::binary(op, self.index(depth - 1), self.constant())
            }
            19 | 20 => {
                let op = if self.rng.random_bool(0.5) { BinOp::Min } else { BinOp::Max };
                Expr::binary(op, self.index(depth - 1), self.index(depth - 1))
            }
            _ => {
                let (cond, then, otherwise) = (self.cond(depth - 1), self.index(depth - 1), self.index(depth - 1));
                Expr::new(ExprKind::Select { cond, then, otherwise })
            }
        }
    }

    fn cond(&mut self, depth: u32) -> Expr {
        let op = [BinOp::Lt, BinOp::Le, BinOp::Gt, BinOp::Ge, BinOp::Eq, BinOp::Ne, BinOp::And, BinOp::Or]
            [self.rng.random_range(0..8)];
        if matches!(op, BinOp::And | BinOp::Or) && depth > 0 {
            return Expr::binary(op, self.cond(depth - 1), self.cond(depth - 1));
        }
        let op = if matches!(op, BinOp::And | BinOp::Or) { BinOp::Lt } else { op };
        let e = Expr::binary(op, self.index(depth), self.index(depth.min(1)));
        if self.rng.random_bool(0.1) { Expr::unary(UnOp::Not, e) } else { e }
    }

    fn assignment(&mut self) -> Env {
        let mut env = Env::new();
        for (name, lo, hi) in self.spans.clone() {
            env.insert(name.into(), self.rng.random_range(lo..=hi));
        }
        env.insert("n".into(), self.n);
        env.insert("j".into(), self.rng.random_range(0..self.n));
        env
    }
}

#[test]
fn random_expressions_keep_their_values() {
    for seed in 0..6000 {
        let mut w = World::new(seed);
        let e = if seed % 3 == 0 { w.cond(3) } else { w.index(4) };
        let s = simplify(&e, &w.ranges);
        assert_eq!(s.dtype(), e.dtype(), "seed {seed}: {e:?} -> {s:?}");
        let (whole, inside) = (interval(&e, &w.ranges), interval(&s, &w.ranges));
        for _ in 0..24 {
            let env = w.assignment();
            let Some(want) = eval(&e, &env) else { continue };
            assert_eq!(eval(&s, &env), Some(want), "seed {seed} at {env:?}:\n {e:?}\n {s:?}");
            assert!(whole.lo <= want && want <= whole.hi, "seed {seed}: {want} outside {whole:?} of {e:?}");
            assert!(inside.lo <= want && want <= inside.hi, "seed {seed}: {want} outside {inside:?} of {s:?}");
            let m = multiple_of(&e, &w.ranges);
            assert!(e.dtype() == DType::Bool || want % m == 0, "seed {seed}: {m} does not divide {want}: {e:?}");
        }
        let again = simplify(&s, &w.ranges);
        assert_eq!(simplify(&again, &w.ranges), again, "seed {seed}: {e:?}\n {s:?}\n {again:?}");
    }
}

#[test]
fn random_affine_forms_keep_their_values() {
    let mut found = 0;
    for seed in 0..4000 {
        let mut w = World::new(seed + 77_000);
        let e = w.index(3);
        let form = affine(&e, &w.ranges);
        let lin = linear(&e, &"i".into(), &w.ranges);
        found += form.is_some() as u32;
        for _ in 0..8 {
            let env = w.assignment();
            let Some(want) = eval(&e, &env) else { continue };
            if let Some(f) = &form {
                let part = |t: &daylight::analysis::Term| {
                    let v = env[&t.var].div_euclid(t.lower);
                    t.coeff * t.modulo.map_or(v, |m| v.rem_euclid(m))
                };
                assert_eq!(f.base + f.terms.iter().map(part).sum::<i64>(), want, "seed {seed}: {e:?} {f:?}");
            }
            if let Some((c, rest)) = &lin {
                let sum = eval(c, &env).and_then(|c| Some(c * env[&Name::from("i")] + eval(rest, &env)?));
                assert_eq!(sum, Some(want), "seed {seed}: {e:?}");
            }
        }
    }
    assert!(found > 1000, "only {found} affine forms");
}

fn v(name: &str) -> Expr {
    Expr::var(name, DType::I64)
}

fn c(value: i64) -> Expr {
    Expr::i64(value)
}

fn div(a: Expr, b: Expr) -> Expr {
    Expr::binary(BinOp::FloorDiv, a, b)
}

fn rem(a: Expr, b: Expr) -> Expr {
    Expr::binary(BinOp::FloorMod, a, b)
}

fn lt(a: Expr, b: Expr) -> Expr {
    Expr::binary(BinOp::Lt, a, b)
}

/// `i` in [0, 8), `j` in [0, 4), `f` in [0, 1024), `n >= 1`, `t` in [0, n), `x` anything from 0.
fn ranges() -> Ranges {
    let mut r = Ranges::new();
    r.set("i", 0, 7);
    r.set("j", 0, 3);
    r.set("f", 0, 1023);
    r.set_at_least("n", 1);
    r.set_at_least("m", 1);
    r.set_at_least("x", 0);
    r.set_span("t".into(), &c(0), &v("n"));
    r.set_span("u".into(), &c(0), &v("m"));
    r
}

#[track_caller]
fn becomes(e: Expr, want: Expr) {
    let got = simplify(&e, &ranges());
    assert_eq!(got, want, "\n from {e:?}\n got  {got:?}\n want {want:?}");
}

#[test]
fn sums_are_canonical() {
    becomes(v("j") + v("i") * c(4) + v("j"), v("i") * c(4) + v("j") * c(2));
    becomes((v("x") + c(3)) * c(4) - v("x") * c(4), c(12));
    becomes(v("t") * v("n") + v("u") - v("n") * v("t"), v("u"));
    becomes(c(1) - v("x"), c(1) - v("x"));
    becomes(v("i10") + v("i9") + v("i1"), v("i1") + v("i9") + v("i10"));
}

#[test]
fn mixed_radix_digits_cancel() {
    becomes(div(v("i") * c(4) + v("j"), c(4)), v("i"));
    becomes(rem(v("i") * c(4) + v("j"), c(4)), v("j"));
    becomes(div(v("x"), c(8)) * c(8) + rem(v("x"), c(8)), v("x"));
    becomes(rem(div(v("x"), c(8)), c(4)) * c(8) + rem(v("x"), c(8)), rem(v("x"), c(32)));
    becomes(v("x") - div(v("x"), c(8)) * c(8), rem(v("x"), c(8)));
    becomes(div(v("x") * c(8) + v("j") * c(2), c(4)), v("x") * c(2) + div(v("j"), c(2)));
    becomes(div(div(v("x"), c(3)), c(5)), div(v("x"), c(15)));
    becomes(div(rem(v("x"), c(32)), c(8)), rem(div(v("x"), c(8)), c(4)));
    becomes(rem(rem(v("x"), c(32)), c(8)), rem(v("x"), c(8)));
    becomes(rem(v("x") * c(16) + v("i") * c(2), c(32)), rem(v("x"), c(2)) * c(16) + v("i") * c(2));
    for (row, block) in [(7, 32), (768, 1024)] {
        let flat = v("x") * c(block) + v("i") * c(4) + v("j");
        becomes(div(flat.clone(), c(row)) * c(row) + rem(flat.clone(), c(row)), flat);
    }
    for (rows, columns, block) in [(31, 2, 4096), (5, 2, 4), (13, 2, 4096), (7, 2, 1024)] {
        let flat = v("x") * c(block) + v("i") * c(4) + v("j");
        let low = rem(div(flat.clone(), c(columns)), c(rows)) * c(columns) + rem(flat.clone(), c(columns));
        becomes(div(flat.clone(), c(rows * columns)) * c(rows * columns) + low, simplify(&flat, &ranges()));
    }
    becomes(div(v("f"), c(1024)), c(0));
    becomes(div(v("f") - c(1024), c(1024)), c(-1));
}

#[test]
fn symbolic_divisors_cancel() {
    becomes(div(v("x") * v("n") + v("t"), v("n")), v("x"));
    becomes(rem(v("x") * v("n") + v("t"), v("n")), v("t"));
    becomes(div(v("x"), v("n")) * v("n") + rem(v("x"), v("n")), v("x"));
    // A digit below the divisor's constant factor leaves both.
    becomes(div(v("x") * c(4) + v("j"), v("n") * c(8)), div(v("x"), v("n") * c(2)));
    becomes(rem(v("x") * c(4) + v("j"), v("n") * c(8)), rem(v("x"), v("n") * c(2)) * c(4) + v("j"));
    let fused = (v("x") * v("n") + v("t")) * c(4) + v("j");
    becomes(rem(div(fused.clone(), c(4)), v("n")), v("t"));
    becomes(div(fused, v("n") * c(4)), v("x"));
    let three = (v("x") * v("n") + v("t")) * v("m") + v("u");
    becomes(div(three.clone(), v("n") * v("m")), v("x"));
    becomes(rem(div(three, v("m")), v("n")), v("t"));
}

#[test]
fn comparisons_fold_and_tidy() {
    becomes(lt(v("i") * c(4) + v("j"), c(32)), Expr::bool(true));
    becomes(lt(v("x") * c(4) + v("j"), c(32)), lt(v("x"), c(8)));
    becomes(lt(v("x") * c(4) + v("j"), v("n") * c(4)), lt(v("x"), v("n")));
    becomes(lt(v("x") + c(3), c(10)), lt(v("x"), c(7)));
    becomes(lt(c(1), v("x")), lt(c(1), v("x")));
    assert!(prove(&lt(v("t") * c(128) + v("i"), v("n") * c(128)), &ranges()));
    assert!(prove(&lt(v("t") * v("m") + v("u"), v("n") * v("m")), &ranges()));
    assert!(!prove(&lt(v("t") * c(128) + v("x"), v("n") * c(128)), &ranges()));
    assert!(prove(&lt(Expr::binary(BinOp::Min, v("x"), v("n")), v("n") + c(1)), &ranges()));
    becomes(Expr::binary(BinOp::Eq, v("i") * c(2), c(3)), Expr::bool(false));
    becomes(Expr::unary(UnOp::Not, lt(v("x"), c(4))), Expr::binary(BinOp::Ge, v("x"), c(4)));
}

#[test]
fn choices_fold_and_refine() {
    let choose = |cond, then, otherwise| Expr::new(ExprKind::IfThenElse { cond, then, otherwise });
    becomes(choose(lt(v("i"), c(8)), v("x"), v("n")), v("x"));
    becomes(choose(lt(v("x"), c(4)), div(v("x"), c(4)), c(0)), c(0));
    becomes(choose(lt(v("x"), v("n")), v("i"), v("i")), v("i"));
    let float = Expr::float(0.0, DType::F32);
    becomes(float.clone() + float.clone(), float.clone() + float);
    let big = Expr::int(200, DType::U8);
    becomes(big.clone() + big, Expr::int(144, DType::U8));
    becomes(Expr::cast(DType::I64, Expr::i32(5)), c(5));
}

#[test]
fn forms_and_multiples() {
    let f = affine(&(rem(div(v("x"), c(4)), c(8)) * c(2) + v("i") * c(16) + c(5)), &ranges()).expect("affine");
    assert_eq!(f.base, 5);
    assert_eq!(f.coeff_of(&"i".into()), Some(16));
    assert_eq!(f.coeff_of(&"x".into()), None);
    assert!(affine(&(v("x") * v("n")), &ranges()).is_none());
    assert_eq!(coeff_of(&(v("x") * v("n") + v("t")), &"x".into(), &ranges()), Some(v("n")));
    assert_eq!(coeff_of(&div(v("x"), c(2)), &"x".into(), &ranges()), None);
    assert_eq!(multiple_of(&(v("x") * c(12) + v("i") * c(8)), &ranges()), 4);
    assert_eq!(multiple_of(&(v("x") * v("n") * c(8)), &ranges()), 8);
    assert_eq!(multiple_of(&c(0), &ranges()), 1 << 32);
    // where a row of nine begins, less what it is past a vector of eight
    assert_eq!(multiple_of(&(v("x") * c(9) - rem(v("x") * c(9), c(8))), &ranges()), 8);
    assert_eq!(multiple_of(&(v("x") * c(9) - rem(v("x"), c(8)) + v("j") * c(4)), &ranges()), 4);
    assert_eq!(multiple_of(&(v("x") * c(9) - rem(v("x"), c(8)) * c(2)), &ranges()), 1);
    assert!(prove(&Expr::binary(BinOp::Ge, v("x") * c(9), rem(v("x"), c(8))), &ranges()));
    assert!(!prove(&Expr::binary(BinOp::Ge, v("x") * c(9), rem(v("x"), c(8)) * c(10)), &ranges()));
    assert_eq!(bounds(&(v("i") - v("i") + v("j")), &ranges()), Some((0, 3)));
    assert_eq!(bounds(&v("x"), &ranges()), None);
}

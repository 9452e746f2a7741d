//! Packed arithmetic, three-operand maximum and minimum, conversions of pairs.

use super::*;
use daylight::ir::instr::{Fold, PackedOp, Rounding};

const N: i64 = 64;

pub fn arithmetic_cases() -> Vec<Case> {
    use PackedOp::{Add, Fma, Mul, Sub};
    use Rounding::{Nearest, Zero};
    let mut all: Vec<Case> = [
        (Add, Nearest, true),
        (Add, Nearest, false),
        (Add, Zero, false),
        (Sub, Zero, true),
        (Mul, Nearest, true),
        (Mul, Zero, false),
        (Fma, Nearest, true),
        (Fma, Zero, false),
    ]
    .into_iter()
    .map(|(op, rounding, ftz)| packed(op, rounding, ftz))
    .collect();
    all.extend([Add, Sub, Mul, Fma].map(packed_f16));
    all.extend([pinned(), halves(), pick(), funnel_shift(), prmt()]);
    all.extend([Fold::Max, Fold::Min].map(fold3));
    all.extend([DType::BF16, DType::F16].map(narrow_pairs));
    all.extend([DType::BF16, DType::F16].map(widen_pairs));
    all
}

/// Numbers with all bits of the mantissa in use, some subnormal, some that cancel.
fn awkward(seed: u64) -> Vec<f64> {
    let mut all: Vec<f64> = numbers(N, seed).iter().map(|x| f64::from((x / 3.0) as f32)).collect();
    all[3] = 1e-40f32.into();
    all[4] = f64::from(f32::MIN_POSITIVE);
    all[5] = 1e30f32.into();
    all[6] = -1e-39f32 as f64;
    all[7] = f64::from(f32::MAX);
    all
}

fn flushed(x: f64, ftz: bool) -> f64 {
    if ftz && x.abs() < f64::from(f32::MIN_POSITIVE) { 0.0f64.copysign(x) } else { x }
}

/// An exact value as float32. Products are exact in float64; sums that are not round to odd first.
fn rounded(exact: f64, rounding: Rounding) -> f64 {
    let near = exact as f32;
    let past = f64::from(near).abs() > exact.abs();
    let cut = if past { f32::from_bits(near.to_bits() - 1) } else { near };
    f64::from(if rounding == Rounding::Zero { cut } else { near })
}

/// `a + b` with the inexact part kept visible in the last bit.
fn sum_to_odd(a: f64, b: f64) -> f64 {
    let s = a + b;
    let v = s - a;
    let rest = (a - (s - v)) + (b - v);
    if rest == 0.0 || s.to_bits() & 1 == 1 {
        return s;
    }
    let up = (rest > 0.0) == (s > 0.0);
    f64::from_bits(if up { s.to_bits() + 1 } else { s.to_bits() - 1 })
}

fn apply(op: PackedOp, x: f64, y: f64, z: f64) -> f64 {
    match op {
        PackedOp::Add => sum_to_odd(x, y),
        PackedOp::Sub => sum_to_odd(x, -y),
        PackedOp::Mul => x * y,
        PackedOp::Fma => sum_to_odd(x * y, z),
    }
}

pub fn packed(op: PackedOp, rounding: Rounding, ftz: bool) -> Case {
    let name = format!("packed_{op:?}_{rounding:?}{}", if ftz { "_ftz" } else { "" }).to_lowercase();
    let pair = |r: &str, p: &str| copy((r, c(0)), (p, t() * c(2)), 2, CacheHint::Plain);
    let third = (op == PackedOp::Fma).then_some("r2");
    let mut body = vec![pair("r0", "p0"), pair("r1", "p1")];
    body.extend(third.map(|r| pair(r, "p2")));
    let places: Vec<At> = ["r0", "r0", "r1"].into_iter().chain(third).map(|r| at(r, c(0))).collect();
    body.extend([
        does(Instr::new(Op::Packed { op, rounding, ftz }, places, [])),
        copy(("p3", t() * c(2)), ("r0", c(0)), 2, CacheHint::Plain),
    ]);
    let f32s = |name| input(name, DType::F32, N);
    let params = vec![f32s("p0"), f32s("p1"), f32s("p2"), output("p3", DType::F32, N)];
    let names = ["r0", "r1", "r2"].into_iter().take(if op == PackedOp::Fma { 3 } else { 2 });
    let arrays = names.map(|r| registers(r, DType::F32, 2, 8)).collect();
    let inputs: Vec<Vec<f64>> = (1..4).map(awkward).collect();
    let value = |i: usize| {
        let [x, y, z] = [0, 1, 2].map(|k: usize| flushed(inputs[k][i], ftz));
        flushed(rounded(apply(op, x, y, z), rounding), ftz)
    };
    let want = (0..N as usize).map(value).collect();
    let tensors = inputs.iter().map(|x| Tensor::from_f64(DType::F32, &[N], x)).collect();
    Case::new(one_block(&name, params, arrays, body, 32), 100, tensors, want)
}

/// Pairs of float16: the exact value rounded once.
pub fn packed_f16(op: PackedOp) -> Case {
    let name = format!("packed_{op:?}_f16").to_lowercase();
    let names = if op == PackedOp::Fma { vec!["r0", "r1", "r2"] } else { vec!["r0", "r1"] };
    let params = ["p0", "p1", "p2"];
    let loads = names.iter().zip(params).map(|(r, p)| copy((r, c(0)), (p, t() * c(2)), 2, CacheHint::Plain));
    let mut body: Vec<KStmt> = loads.collect();
    let places: Vec<At> = ["r0"].iter().chain(&names).map(|r| at(r, c(0))).collect();
    body.push(does(Instr::new(Op::PackedF16(op), places, [])));
    body.push(copy(("p3", t() * c(2)), ("r0", c(0)), 2, CacheHint::Plain));
    let arrays = names.iter().map(|r| registers(r, DType::F16, 2, 4)).collect();
    let inputs: Vec<Tensor> = (1..4).map(|seed| random(DType::F16, N, seed)).collect();
    let of = |k: usize, i: usize| inputs[k].get_f64(i);
    let exact: Vec<f64> = (0..N as usize).map(|i| apply(op, of(0, i), of(1, i), of(2, i))).collect();
    let want = values(&Tensor::from_f64(DType::F16, &[N], &exact));
    let all = params.map(|p| input(p, DType::F16, N)).into_iter().chain([output("p3", DType::F16, N)]);
    Case::new(one_block(&name, all.collect(), arrays, body, 32), 80, inputs, want)
}

/// A pin of two float32 registers changes nothing.
pub fn pinned() -> Case {
    let body = vec![
        copy(("r", c(0)), ("p0", t() * c(2)), 2, CacheHint::Plain),
        does(Instr::new(Op::Pin, [at("r", c(0))], [])),
        copy(("p1", t() * c(2)), ("r", c(0)), 2, CacheHint::Plain),
    ];
    let x = random(DType::F32, 64, 1);
    let want = values(&x);
    let arrays = vec![registers("r", DType::F32, 2, 8)];
    let params = vec![input("p0", DType::F32, 64), output("p1", DType::F32, 64)];
    Case::new(one_block("pinned", params, arrays, body, 32), 80, vec![x], want)
}

/// Words taken apart; a pin changes nothing.
pub fn halves() -> Case {
    let body = vec![
        does(Instr::new(
            Op::Halves,
            [at("h", c(0))],
            [Expr::load(daylight::ir::Name::new("p0"), vec![t()], DType::U32)],
        )),
        does(Instr::new(Op::Pin, [at("h", c(0))], [])),
        copy(("p1", t() * c(2)), ("h", c(0)), 2, CacheHint::Plain),
    ];
    let params = vec![input("p0", DType::U32, 32), output("p1", DType::F16, 64)];
    // Exponents that are neither all ones nor all zeros, whatever the other bits.
    let bits = |i: u32| ((i.wrapping_mul(2_654_435_761) >> 7) & 0x83ff) | ((i % 29 + 1) << 10);
    let word = |i: u32| f64::from(bits(2 * i) | bits(2 * i + 1) << 16);
    let words: Vec<f64> = (0..32).map(word).collect();
    let number = |b: u32| {
        let (sign, exponent, fraction) = (b >> 15, (b >> 10 & 31) as i32, f64::from(b & 0x3ff));
        (1.0 - 2.0 * f64::from(sign)) * (1.0 + fraction / 1024.0) * 2.0f64.powi(exponent - 15)
    };
    let want = (0..64).map(|i| number(bits(i))).collect();
    let arrays = vec![registers("h", DType::F16, 2, 4)];
    let inputs = vec![Tensor::from_f64(DType::U32, &[32], &words)];
    Case::new(one_block("halves", params, arrays, body, 32), 80, inputs, want)
}

/// Halves of two pairs in all four ways.
pub fn pick() -> Case {
    let ways = [[false, false], [false, true], [true, false], [true, true]];
    let mut body = vec![
        copy(("a", c(0)), ("p0", t() * c(2)), 2, CacheHint::Plain),
        copy(("b", c(0)), ("p1", t() * c(2)), 2, CacheHint::Plain),
    ];
    for (n, high) in ways.into_iter().enumerate() {
        body.push(does(Instr::new(Op::Pick { high }, ["r", "a", "b"].map(|name| at(name, c(0))), [])));
        body.push(copy(("p2", t() * c(8) + c(2 * n as i64)), ("r", c(0)), 2, CacheHint::Plain));
    }
    let inputs: Vec<Tensor> = (1..3).map(|seed| random(DType::F16, 64, seed)).collect();
    let of = |k: usize, lane: usize, high: bool| inputs[k].get_f64(2 * lane + usize::from(high));
    let want = (0..32).flat_map(|l| ways.iter().flat_map(move |w| [(0, l, w[0]), (1, l, w[1])]));
    let want = want.map(|(k, l, high)| of(k, l, high)).collect();
    let params = vec![input("p0", DType::F16, 64), input("p1", DType::F16, 64), output("p2", DType::F16, 256)];
    let arrays = ["a", "b", "r"].map(|name| registers(name, DType::F16, 2, 4)).to_vec();
    Case::new(one_block("pick", params, arrays, body, 32), 80, inputs, want)
}

/// Eight of sixteen from each of eight places on, cut after 0 to 31 of them, one of each for a lane.
pub fn funnel_shift() -> Case {
    let body = vec![
        copy(("s", c(0)), ("p0", t() * c(16)), 8, CacheHint::Plain),
        copy(("s", c(8)), ("p0", t() * c(16) + c(8)), 8, CacheHint::Plain),
        does(Instr::new(Op::FunnelShift, [at("r", c(0)), at("s", c(0))], [rem(t(), 8), t()])),
        copy(("p1", t() * c(8)), ("r", c(0)), 8, CacheHint::Plain),
    ];
    let source = random(DType::BF16, 512, 1);
    let of = |lane: usize, e: usize| if e < lane { source.get_f64(16 * lane + lane % 8 + e) } else { 0.0 };
    let want = (0..32).flat_map(|l| (0..8).map(move |e| (l, e))).map(|(l, e)| of(l, e)).collect();
    let params = vec![input("p0", DType::BF16, 512), output("p1", DType::BF16, 256)];
    let arrays = vec![registers("s", DType::BF16, 16, 16), registers("r", DType::BF16, 8, 16)];
    Case::new(one_block("funnel_shift", params, arrays, body, 32), 80, vec![source], want)
}

/// Bytes of two words, chosen by a word that is not constant.
pub fn prmt() -> Case {
    let word = |p: &str| ldt(p, t(), DType::U32);
    let body = vec![
        does(Instr::new(Op::Prmt, [at("r", c(0))], ["p0", "p1", "p2"].map(word))),
        store("p3", t(), ldt("r", c(0), DType::U32)),
    ];
    let of = |i: u32, seed: u32| (i + 1).wrapping_mul(2_654_435_761).rotate_left(seed);
    let all: [Vec<u32>; 3] = [3, 11, 19].map(|seed| (0..32).map(|i| of(i, seed)).collect());
    let byte = |i: usize, n: u32| {
        // The highest of the four bits means nothing: seen on an H200.
        let which = all[2][i] >> (4 * n) & 7;
        u32::from((all[(which / 4) as usize][i] >> (8 * (which % 4))) as u8) << (8 * n)
    };
    let want = (0..32).map(|i| f64::from((0..4).map(|n| byte(i, n)).sum::<u32>())).collect();
    let words =
        |x: &Vec<u32>| Tensor::from_f64(DType::U32, &[32], &x.iter().map(|v| f64::from(*v)).collect::<Vec<_>>());
    let u32s = |name| input(name, DType::U32, 32);
    let params = vec![u32s("p0"), u32s("p1"), u32s("p2"), output("p3", DType::U32, 32)];
    let arrays = vec![registers("r", DType::U32, 1, 4)];
    Case::new(one_block("prmt", params, arrays, body, 32), 80, all.iter().map(words).collect(), want)
}

pub fn fold3(op: Fold) -> Case {
    let name = format!("fold3_{op:?}").to_lowercase();
    let x = |p: &str| ld(p, t());
    let body = vec![
        does(Instr::new(Op::Fold3(op), [at("r", c(0))], [x("p0"), x("p1"), x("p2")])),
        store("p3", t(), ld("r", c(0))),
    ];
    let f32s = |name| input(name, DType::F32, 32);
    let params = vec![f32s("p0"), f32s("p1"), f32s("p2"), output("p3", DType::F32, 32)];
    let mut inputs: Vec<Tensor> = (1..4).map(|seed| random(DType::F32, 32, seed)).collect();
    for (tensor, numbers) in inputs.iter_mut().zip([&[4, 5, 6, 7, 8][..], &[5, 7, 8][..], &[6, 7, 8][..]]) {
        let mut all = values(tensor);
        numbers.iter().for_each(|i| all[*i] = f64::NAN);
        *tensor = Tensor::from_f64(DType::F32, &[32], &all);
    }
    // Rust's operators skip a NaN too.
    let of = |a: f64, b: f64| if op == Fold::Max { a.max(b) } else { a.min(b) };
    let want = (0..32).map(|i| of(of(inputs[0].get_f64(i), inputs[1].get_f64(i)), inputs[2].get_f64(i))).collect();
    let arrays = vec![registers("r", DType::F32, 1, 4)];
    Case::new(one_block(&name, params, arrays, body, 32), 100, inputs, want)
}

/// float32 to a 16-bit float, two pairs per thread.
pub fn narrow_pairs(dtype: DType) -> Case {
    let name = format!("cast_pair_to_{dtype}");
    let pair = does(Instr::new(Op::CastPair, [at("h", v("i") * c(2)), at("x", v("i") * c(2))], []));
    let body = vec![
        copy(("x", c(0)), ("p0", t() * c(4)), 4, CacheHint::Plain),
        unrolled("i", 2, vec![pair]),
        copy(("p1", t() * c(4)), ("h", c(0)), 4, CacheHint::Plain),
    ];
    let params = vec![input("p0", DType::F32, 128), output("p1", dtype, 128)];
    let arrays = vec![registers("x", DType::F32, 4, 16), registers("h", dtype, 4, 8)];
    let x: Vec<f64> = numbers(128, 9).iter().map(|x| f64::from((x / 3.0) as f32)).collect();
    let want = values(&Tensor::from_f64(dtype, &[128], &x));
    let inputs = vec![Tensor::from_f64(DType::F32, &[128], &x)];
    Case::new(one_block(&name, params, arrays, body, 32), 80, inputs, want)
}

/// A 16-bit float to float32.
pub fn widen_pairs(dtype: DType) -> Case {
    let name = format!("cast_pair_from_{dtype}");
    let body = vec![
        copy(("h", c(0)), ("p0", t() * c(2)), 2, CacheHint::Plain),
        does(Instr::new(Op::CastPair, [at("x", c(0)), at("h", c(0))], [])),
        copy(("p1", t() * c(2)), ("x", c(0)), 2, CacheHint::Plain),
    ];
    let params = vec![input("p0", dtype, 64), output("p1", DType::F32, 64)];
    let arrays = vec![registers("x", DType::F32, 2, 8), registers("h", dtype, 2, 4)];
    let x = random(dtype, 64, 10);
    let want = values(&x);
    Case::new(one_block(&name, params, arrays, body, 32), 80, vec![x], want)
}

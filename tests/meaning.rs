//! Operators that C and CUDA leave without a value for some operands: quotients by 0, shifts by the width or more,
//! minima and maxima of what is no number. The interpreter's operators, the simulator and C agree, bit for bit, and
//! give what docs/correctness.md says.

use crate::codegen_programs::*;
use daylight::codegen;
use daylight::interp::{Scalars, Tensor};
use daylight::ir::kernel::{LoopKind, Program};
use daylight::ir::{BinOp, DType, Expr};
use daylight::sim::{self, SimOptions};

const OPERATORS: [BinOp; 8] = [
    BinOp::FloorDiv,
    BinOp::FloorMod,
    BinOp::TruncDiv,
    BinOp::TruncMod,
    BinOp::Shl,
    BinOp::Shr,
    BinOp::Min,
    BinOp::Max,
];

/// `p2[row, i] = p0[i] op p1[i]`, a row for each operator.
fn rows(dtype: DType, operators: &[BinOp], n: i64, kind: LoopKind) -> Program {
    let i = v("blockIdx.x") * c(32) + v("i1");
    let value = |o: &BinOp| op(*o, ldt("p0", i.clone(), dtype), ldt("p1", i.clone(), dtype));
    let stores = operators.iter().enumerate().map(|(row, o)| {
        let body = store("p2", i.clone() + c(n * row as i64), value(o));
        looped("i1", 32, kind, vec![body])
    });
    let params = vec![input("p0", dtype, n), input("p1", dtype, n), output("p2", dtype, n * operators.len() as i64)];
    program("rows", kernel("rows", params, vec![], stores.collect()), n / 32, 1, None)
}

/// All pairs of some bits, padded to whole vectors.
fn pairs(dtype: DType, codes: &[u64]) -> (Vec<Tensor>, i64) {
    let each = || codes.iter().flat_map(|a| codes.iter().map(move |b| (*a, *b)));
    let n = (codes.len() * codes.len()).next_multiple_of(32);
    let tensor = |of: &dyn Fn((u64, u64)) -> u64| {
        let mut t = Tensor::zeros(dtype, &[n as i64]);
        let size = dtype.bytes() as usize;
        for (i, pair) in each().enumerate() {
            t.data[i * size..(i + 1) * size].copy_from_slice(&of(pair).to_le_bytes()[..size]);
        }
        t
    };
    (vec![tensor(&|p| p.0), tensor(&|p| p.1)], n as i64)
}

/// Simulates rows and runs them in C, scalar and in vectors; gives the simulator's results.
fn everywhere(dtype: DType, operators: &[BinOp], codes: &[u64], same: fn(f64, f64) -> bool) -> Vec<Tensor> {
    let (mut args, n) = pairs(dtype, codes);
    args.push(Tensor::zeros(dtype, &[n * operators.len() as i64]));
    let mut want = args.clone();
    let program = rows(dtype, operators, n, LoopKind::Serial);
    sim::run(&program, &mut want, &Scalars::new(), &SimOptions::default()).unwrap_or_else(|e| panic!("{dtype}: {e}"));
    for (kind, bytes) in
        [(LoopKind::Serial, 16), (LoopKind::Vectorized, 16), (LoopKind::Vectorized, native::vector_bytes())]
    {
        let mut got = args.clone();
        let program = rows(dtype, operators, n, kind);
        if !native::run(&program, &mut got, &Scalars::new(), bytes, &["-O3", "-march=native"]) {
            break;
        }
        for i in 0..got[2].len() {
            let (x, y) = (got[2].get_f64(i), want[2].get_f64(i));
            let exact = dtype.is_float() || got[2].get_i64(i) == want[2].get_i64(i);
            let [a, b] = [0, 1].map(|k| args[k].get_f64(i % n as usize));
            let o = operators[i / n as usize];
            assert!(
                same(x, y) && exact,
                "{dtype} {o:?} of {a} and {b} is {x}, the simulator says {y} ({kind:?}, {bytes})"
            );
        }
    }
    want
}

#[test]
fn integers_have_one_value_for_any_operands() {
    let types = [DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64];
    for dtype in types {
        let bits = 8 * dtype.bytes();
        let mask = u64::MAX >> (64 - bits);
        let mut codes: Vec<u64> = vec![0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 100, 127, 200, 255];
        codes.extend([mask, mask - 1, mask >> 1, (mask >> 1) + 1, (mask >> 1) + 2, mask & (0u64.wrapping_sub(7))]);
        codes.iter_mut().for_each(|c| *c &= mask);
        let results = everywhere(dtype, &OPERATORS, &codes, |x, y| x == y);
        let n = results[0].len();
        let signed = dtype.is_signed();
        for i in 0..n {
            let [a, b] = [0, 1].map(|k| results[k].get_i64(i));
            let at = |row: usize| results[2].get_i64(row * n + i);
            if b == 0 {
                assert_eq!([at(0), at(1), at(2), at(3)], [0; 4], "{dtype}: {a} by 0");
            }
            if signed && b == -1 {
                assert_eq!([at(1), at(3)], [0; 2], "{dtype}: {a} by -1");
                assert_eq!(at(0), at(2));
            }
            let outside = if signed { b < 0 || b >= bits as i64 } else { b as u64 >= bits };
            if outside {
                let sign = if signed && a < 0 { -1 } else { 0 };
                assert_eq!([at(4), at(5)], [0, sign], "{dtype}: {a} shifted by {b}");
            }
        }
        let least = |t: &Tensor, i: usize| signed && t.get_i64(i) == i64::MIN >> (64 - bits);
        let wraps = (0..n).find(|i| least(&results[0], *i) && results[1].get_i64(*i) == -1);
        assert!(!signed || wraps.is_some_and(|i| least(&results[2], i)), "{dtype}: the smallest by -1");
    }
}

#[test]
fn the_number_is_the_minimum_and_the_maximum() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16, DType::E4M3] {
        let nan: Vec<u64> = match dtype {
            DType::F64 => vec![0x7ff8 << 48, 0xfff8 << 48],
            DType::F32 => vec![0x7fc0_0000, 0xffc0_0001],
            DType::F16 => vec![0x7e00, 0xfe01],
            DType::BF16 => vec![0x7fc0, 0xffc1],
            _ => vec![0x7f, 0xff],
        };
        let numbers = [0.0, -1.0, 1.0, 0.5, 448.0, -448.0];
        let codes = numbers.iter().map(|v| daylight::interp::float_bits(*v, dtype)).chain(nan).collect::<Vec<_>>();
        let same = |x: f64, y: f64| x == y || x.is_nan() && y.is_nan();
        let results = everywhere(dtype, &[BinOp::Min, BinOp::Max], &codes, same);
        let n = results[0].len();
        for i in 0..n {
            let [a, b, min, max] =
                [(0, i), (1, i), (2, i), (2, n + i)].map(|(t, i): (usize, usize)| results[t].get_f64(i));
            assert!(same(min, a.min(b)) && same(max, a.max(b)), "{dtype}: {a} and {b} give {min} and {max}");
        }
    }
}

/// What need not be guarded is not.
#[test]
fn known_operands_are_written_plainly() {
    let plain = [
        op(BinOp::Shr, ldt("p0", v("i"), DType::I32), op(BinOp::FloorMod, v("i"), c(8)) * c(4)),
        op(BinOp::FloorDiv, ldt("p0", v("i"), DType::I32), c(7)),
        Expr::cast(DType::I32, {
            let x = Expr::cast(DType::F32, ldt("p0", v("i"), DType::I32));
            op(BinOp::Max, op(BinOp::Min, x, f(127.0)), f(-128.0))
        }),
    ];
    for value in plain {
        let body = vec![serial("i", 64, vec![store("p1", v("i"), value)])];
        let params = vec![input("p0", DType::I32, 64), output("p1", DType::I32, 64)];
        let text = codegen::c(&program("plain", kernel("plain", params, vec![], body), 1, 1, None), 16);
        assert!(!text.contains("dl_any") && !text.contains("dl_shr") && !text.contains("_from_float"), "{text}");
    }
}

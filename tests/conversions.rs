//! Conversions between all types: the simulator's against checksums of NumPy's and `ml_dtypes`'
//! (`.ci/conversions.py`, which draws the same inputs), those of the C text against the simulator's, bit for bit.

use crate::codegen_programs::*;
use crate::common;
use daylight::analysis::has_values_of;
use daylight::interp::{Scalars, Tensor, float_value, round_to, wrap_int};
use daylight::ir::kernel::{LoopKind, Program};
use daylight::ir::{DType, Expr, Param};
use daylight::sim::{self, SimOptions};

/// The numbers that both sides draw tops of mantissas from.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 32
    }
}

/// Bits of the inputs: all codes of types of 8 and 16 bits, of wider ones numbers around the ties of
/// every narrower type.
fn codes(dtype: DType) -> Vec<u64> {
    let mut out = match dtype {
        DType::Bool => vec![0, 1],
        DType::F32 => floats(8, 23),
        DType::F64 => floats(11, 52),
        d if d.bytes() <= 2 => (0..1 << (8 * d.bytes())).collect(),
        d => integers(8 * d.bytes()),
    };
    out.resize(out.len().next_multiple_of(32), 0);
    out
}

fn floats(exponent_bits: u32, mantissa: u32) -> Vec<u64> {
    let (bias, most) = ((1i64 << (exponent_bits - 1)) - 1, (1i64 << exponent_bits) - 1);
    let around = (-152..-124).chain(-28..18).chain(125..130).map(|e| bias + e);
    let exponents = [0, 1, most - 1, most].into_iter().chain(around.filter(|e| 1 < *e && *e < most - 1));
    let (mut draws, mut out) = (Draws(1), vec![]);
    for e in exponents {
        for shift in 0..mantissa {
            for sign in [0, 1] {
                let top = draws.next() >> 8 & ((1 << mantissa) - 1) >> shift;
                let bits = (sign << exponent_bits | e as u64) << mantissa | top << shift;
                let mask = u64::MAX >> (63 - exponent_bits - mantissa);
                out.extend([bits.wrapping_sub(1) & mask, bits, bits.wrapping_add(1) & mask]);
            }
        }
    }
    out
}

fn integers(bits: u64) -> Vec<u64> {
    let (mut draws, mut out, mask) = (Draws(1), vec![], u64::MAX >> (64 - bits));
    for shift in 0..bits {
        for length in 1..14 {
            let top = draws.next() & ((1 << length) - 1) | 1 << (length - 1);
            for d in [u64::MAX, 0, 1] {
                let v = (top << shift).wrapping_add(d);
                out.extend([v & mask, v.wrapping_neg() & mask]);
            }
        }
    }
    out
}

fn tensor(dtype: DType, codes: &[u64]) -> Tensor {
    let mut t = Tensor::zeros(dtype, &[codes.len() as i64]);
    let size = dtype.bytes() as usize;
    t.data = codes.iter().flat_map(|c| c.to_le_bytes().into_iter().take(size)).collect();
    t
}

/// Every conversion as launches of one program: `p0` has numbers of the first type, `p1` and those
/// after it what becomes of them, and so on.
fn all_casts(kind: LoopKind) -> (Program, Vec<Tensor>) {
    let mut whole: Option<Program> = None;
    let mut args = vec![];
    for from in value_types() {
        let codes = codes(from);
        let n = codes.len() as i64;
        let (source, i) = (format!("p{}", args.len()), v("blockIdx.x") * c(32) + v("i1"));
        let (mut params, mut body) = (vec![input(&source, from, n)], vec![]);
        args.push(tensor(from, &codes));
        for to in value_types() {
            let name = format!("p{}", args.len());
            params.push(output(&name, to, n));
            body.push(store(&name, i.clone(), Expr::cast(to, ldt(&source, i.clone(), from))));
            args.push(Tensor::zeros(to, &[n]));
        }
        let body = vec![looped("i1", 32, kind, body)];
        let mut p = program("casts", kernel(&format!("casts_{from}"), params, vec![], body), n / 32, 1, None);
        match &mut whole {
            None => whole = Some(p),
            Some(whole) => {
                whole.launches.append(&mut p.launches);
                whole.params.append(&mut p.params);
            }
        }
    }
    let whole = whole.expect("there are types");
    assert!(whole.params.iter().all(|p| matches!(p, Param::Buffer(_))));
    (whole, args)
}

/// The bytes with one code for all that is no number.
fn canonical(t: &Tensor) -> Vec<u8> {
    let nan: u64 = match t.dtype {
        DType::F16 => 0x7e00,
        DType::BF16 => 0x7fc0,
        DType::F32 => 0x7fc0_0000,
        DType::F64 => 0x7ff8 << 48,
        DType::E4M3 => 0x7f,
        DType::E5M2 => 0x7e,
        DType::E8M0 => 0xff,
        _ => return t.data.clone(),
    };
    let size = t.dtype.bytes() as usize;
    let code = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, b| sum << 8 | u64::from(*b));
    let one = |c: u64| if float_value(c, t.dtype).is_nan() { nan } else { c };
    t.data.chunks(size).flat_map(|b| one(code(b)).to_le_bytes().into_iter().take(size)).collect()
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[test]
fn every_conversion_is_exact() {
    let (serial, inputs) = all_casts(LoopKind::Serial);
    let mut simulated = inputs.clone();
    sim::run(&serial, &mut simulated, &Scalars::new(), &SimOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let types = value_types();
    let rows = simulated.chunks(types.len() + 1).zip(&types).map(|(row, from)| {
        let sums: Vec<String> = row[1..].iter().map(|t| format!("{:08x}", crc32(&canonical(t)))).collect();
        format!("{:13} {:6} {}\n", from.to_string(), row[0].len(), sums.join(" "))
    });
    common::golden("golden/conversions.txt", &rows.collect::<String>());

    for (kind, bytes) in [(LoopKind::Serial, 16), (LoopKind::Vectorized, native::vector_bytes())] {
        let (program, mut args) = all_casts(kind);
        if !native::run(&program, &mut args, &Scalars::new(), bytes, &["-O1", "-march=native"]) {
            return;
        }
        for (row, want) in args.chunks(types.len() + 1).zip(simulated.chunks(types.len() + 1)) {
            for (got, want) in row[1..].iter().zip(&want[1..]) {
                compare(&row[0], got, want, kind);
            }
        }
    }
}

fn compare(from: &Tensor, got: &Tensor, want: &Tensor, kind: LoopKind) {
    let size = got.dtype.bytes() as usize;
    let (a, b) = (canonical(got), canonical(want));
    let wrong = a.chunks(size).zip(b.chunks(size)).enumerate().filter(|(_, (a, b))| a != b);
    let shown: Vec<String> = wrong
        .take(5)
        .map(|(i, (a, b))| format!("{:?} gives {a:02x?}, the simulator {b:02x?}", from.get_f64(i)))
        .collect();
    assert!(shown.is_empty(), "{} to {} ({kind:?}): {}", from.dtype, got.dtype, shown.join("; "));
}

/// A float type has all values of a type of 8 or 16 bits where every code of that one comes back from it.
#[test]
fn types_that_have_all_values_of_others() {
    let floats = [DType::F16, DType::BF16, DType::F32, DType::F64];
    let small = value_types().into_iter().filter(|d| d.bytes() <= 2 && *d != DType::Bool);
    for (other, dtype) in small.flat_map(|d| floats.map(|f| (d, f))) {
        let value = |code: u64| match other.is_float() {
            true => float_value(code, other),
            false => wrap_int(code as i64, other) as f64,
        };
        let back = |v: f64| round_to(v, dtype) == v || v.is_nan();
        let all = (0..1u64 << (8 * other.bytes())).map(value).all(back);
        assert_eq!(has_values_of(dtype, other), all, "{other} in {dtype}");
    }
    assert!(!has_values_of(DType::I16, DType::F16) && !has_values_of(DType::F32, DType::I32));
    assert!(has_values_of(DType::F64, DType::I32) && !has_values_of(DType::F64, DType::I64));
}

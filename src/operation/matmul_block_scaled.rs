//! Products of matrices of few bits, of which each block along the reduced axis has a scale.

use super::steps::{ACTIVATION, BIAS, RESIDUAL, Steps};
use super::values::{OUT_DTYPE, SIZE, default, optional, required};
use super::{Operation, Values};
use crate::ir::{BinOp, DType, Expr, PrimFuncBuilder, Reducer, TensorVar};

pub(super) const MATMUL_BLOCK_SCALED: Operation = Operation {
    name: "matmul_block_scaled",
    about: "A product of matrices of 4 or 8 bits with a scale per block: nvfp4, mxfp4, mxfp8",
    detail: "C[m, n] = A[m, k] B[n, k]^T. nvfp4: numbers of 4 bits (e2m1) two in a uint8, the first in its low bits, a float8_e4m3fn \
             scale for each 16 along k, and `alpha`[1], by which the sum is multiplied: the product of both tensors' scales. mxfp4: \
             the same with a float8_e8m0fnu scale for each 32, without `alpha`. mxfp8: float8_e4m3fn numbers (`mxfp8_e5m2`: \
             float8_e5m2) with a float8_e8m0fnu scale for each 32.",
    options: &[
        required("m", SIZE, "Rows of A and C: a number, or a name for a size known at run time"),
        required("n", SIZE, "Columns of C: rows of B"),
        required("k", "NUMBER", "What is summed over, a multiple of the block"),
        default("format", "NAME", "nvfp4, mxfp4, mxfp8 or mxfp8_e5m2", "nvfp4"),
        optional("a-dtype", "TYPE", "Type of A where it has no scales: float16 or bfloat16"),
        OUT_DTYPE,
        BIAS,
        ACTIVATION,
        RESIDUAL,
    ],
    example: "matmul_block_scaled --m 512 --n 4096 --k 4096 --format nvfp4",
    make,
};

/// How a matrix is stored.
#[derive(Clone, Copy)]
struct Format {
    /// Type of the elements of memory.
    element: DType,
    /// Numbers in one of them.
    packed: i64,
    scale: DType,
    /// Numbers with one scale.
    block: i64,
    /// The narrowest usual type that holds every number times a scale.
    value: DType,
}

impl Format {
    fn of(name: &str) -> Result<Format, String> {
        let (four, block) =
            (Format { element: DType::U8, packed: 2, scale: DType::E4M3, block: 16, value: DType::F16 }, 32);
        let mx = Format { scale: DType::E8M0, block, value: DType::BF16, ..four };
        match name {
            "nvfp4" => Ok(four),
            "mxfp4" => Ok(mx),
            "mxfp8" => Ok(Format { element: DType::E4M3, packed: 1, ..mx }),
            "mxfp8_e5m2" => Ok(Format { element: DType::E5M2, packed: 1, ..mx }),
            _ => Err(format!("--format {name}: the formats are nvfp4, mxfp4, mxfp8 and mxfp8_e5m2")),
        }
    }
}

fn make(values: &Values, f: &mut PrimFuncBuilder) -> Result<(), String> {
    let (m, n, k) = (values.size("m", f)?, values.size("n", f)?, values.count("k")?);
    let format = Format::of(values.text("format").unwrap_or_default())?;
    if k % format.block != 0 {
        return Err(format!("--k {k}: k has to be a multiple of the {} numbers with one scale", format.block));
    }
    let plain = if values.has("a-dtype") { Some(plain_type(values.float("a-dtype")?, format)?) } else { None };
    let value = plain.unwrap_or(format.value);
    let out = values.out_dtype(value)?;
    let sum = DType::F32;
    let a = match plain {
        Some(dtype) => f.param("A", dtype, [m.clone(), k.into()]),
        None => decoded(f, "A", format, value, (&m, k)),
    };
    let b = decoded(f, "B", format, value, (&n, k));
    let alpha = (format.scale == DType::E4M3).then(|| f.param("alpha", sum, [Expr::i64(1)]));
    let shape = [m, n];
    let mut steps = Steps::default();
    if let Some(alpha) = alpha {
        steps.then("scaled", move |x, _| x * alpha.at([Expr::i64(0)]));
    }
    steps.add(values, f, value, &shape, sum)?;
    steps.finish(f, ("C", out), ("product", sum), &shape, |f, to| {
        f.reduce("matmul", to, &[k.into()], Reducer::Sum, |at, over| {
            Expr::cast(sum, a.at([&at[0], &over[0]])) * Expr::cast(sum, b.at([&at[1], &over[0]]))
        });
    });
    Ok(())
}

/// The type of an operand without scales.
fn plain_type(dtype: DType, format: Format) -> Result<DType, String> {
    match dtype {
        DType::BF16 => Ok(dtype),
        DType::F16 if format.value == DType::F16 => Ok(dtype),
        DType::F16 => Err("--a-dtype float16: it does not hold every number times its scale; take bfloat16".into()),
        _ => Err(format!("--a-dtype {dtype}: expected float16 or bfloat16")),
    }
}

/// Declares a matrix as it is stored, with its scales, and computes its numbers.
fn decoded(f: &mut PrimFuncBuilder, name: &str, format: Format, value: DType, (rows, k): (&Expr, i64)) -> TensorVar {
    let Format { element, packed, scale, block, .. } = format;
    let codes = f.param(name, element, [rows.clone(), (k / packed).into()]);
    let scales = f.param(&format!("{name}_scales"), scale, [rows.clone(), (k / block).into()]);
    let shape = [rows.clone(), k.into()];
    let numbers = f.intermediate(&format!("{name}_numbers"), value, shape.clone());
    let out = f.intermediate(&format!("{name}_values"), value, shape);
    f.compute(&format!("decode_{name}"), &numbers, |at| match packed {
        1 => Expr::cast(value, codes.at(at)),
        _ => Expr::cast(value, e2m1(codes.at([at[0].clone(), at[1].clone() / 2]), &at[1])),
    });
    f.compute(&format!("scale_{name}"), &out, |at| {
        numbers.at(at) * Expr::cast(value, scales.at([at[0].clone(), at[1].clone() / block]))
    });
    out
}

/// Number `k` of those in a byte, in float16: its bits in their places are the number times 2^-14.
fn e2m1(byte: Expr, k: &Expr) -> Expr {
    let word = |n: i64| Expr::int(n, DType::U16);
    let bits = |op, a, n: i64| Expr::binary(op, a, word(n));
    let shift = Expr::cast(DType::U8, k.clone() % 2 * 4);
    let code = Expr::binary(BinOp::BitAnd, Expr::binary(BinOp::Shr, byte, shift), Expr::int(15, DType::U8));
    let code = Expr::cast(DType::U16, code);
    let sign = bits(BinOp::Shl, bits(BinOp::BitAnd, code.clone(), 8), 12);
    let rest = bits(BinOp::Shl, bits(BinOp::BitAnd, code, 7), 9);
    Expr::reinterpret(DType::F16, Expr::binary(BinOp::BitOr, sign, rest)) * 16384.0
}

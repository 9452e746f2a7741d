//! The first half of a gated feed-forward layer.

use super::activation::activation;
use super::values::{DTYPE, OUT_DTYPE, SIZE, accumulator, default, required};
use super::{Operation, Values};
use crate::ir::{Expr, PrimFuncBuilder, Reducer};

pub(super) const GATED_MLP: Operation = Operation {
    name: "gated_mlp",
    about: "The gated product of a feed-forward layer: silu(x gate^T) * (x up^T)",
    detail: "C[m, n] = act(P[:, :n]) * P[:, n:] with P = A[m, k] W[2 n, k]^T: the gate's rows of W come first. Sums are kept in float32, \
             P in the type of the inputs. It becomes two kernels, a product and what follows.",
    options: &[
        required("m", SIZE, "Rows of A and C: a number, or a name for a size known at run time"),
        required("n", SIZE, "Columns of C: half the rows of W"),
        required("k", SIZE, "What is summed over"),
        default("activation", "NAME", "Function of the gate, such as silu, gelu, gelu_tanh or relu", "silu"),
        DTYPE,
        OUT_DTYPE,
    ],
    example: "gated_mlp --m n --n 14336 --k 4096 --dtype bfloat16",
    make,
};

fn make(values: &Values, f: &mut PrimFuncBuilder) -> Result<(), String> {
    let (m, n, k) = (values.size("m", f)?, values.size("n", f)?, values.size("k", f)?);
    let dtype = values.float("dtype")?;
    let (out, sum) = (values.out_dtype(dtype)?, accumulator(dtype));
    let name = values.text("activation").unwrap_or_default();
    activation(name, Expr::constant(0.0, sum)).map_err(|e| format!("--activation {name}: {e}"))?;
    // A number is a number, not a product of two.
    let both = n.as_int().map_or_else(|| Expr::i64(2) * n.clone(), |n| Expr::i64(2 * n));
    let a = f.param("A", dtype, [m.clone(), k.clone()]);
    let w = f.param("W", dtype, [both.clone(), k.clone()]);
    let c = f.param("C", out, [m.clone(), n.clone()]);
    let mut product = f.intermediate("product", sum, [m.clone(), both.clone()]);
    f.reduce("matmul", &product, &[k], Reducer::Sum, |at, over| {
        Expr::cast(sum, a.at([&at[0], &over[0]])) * Expr::cast(sum, w.at([&at[1], &over[0]]))
    });
    if dtype != sum {
        let kept = f.intermediate("kept", dtype, [m, both]);
        f.compute("cast", &kept, |at| Expr::cast(dtype, product.at(at)));
        product = kept;
    }
    f.compute("gated", &c, |at| {
        let [gate, up] = [at[1].clone(), at[1].clone() + n].map(|j| Expr::cast(sum, product.at([&at[0], &j])));
        Expr::cast(out, activation(name, gate.clone()).unwrap_or(gate) * up)
    });
    Ok(())
}

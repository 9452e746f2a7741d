//! The two products of attention.

use super::steps::Steps;
use super::values::{DTYPE, OUT_DTYPE, Opt, SIZE, accumulator, default, flag, optional, required};
use super::{Operation, Values};
use crate::ir::{BinOp, DType, Expr, ExprKind, PrimFuncBuilder, Reducer};

const BATCH: Opt = default("batch", SIZE, "Sequences", "1");
const HEADS: Opt = required("heads", SIZE, "Heads of the queries");
const KV_HEADS: Opt =
    optional("kv-heads", "NUMBER", "Heads of keys and values, which as many heads of queries share [default: --heads]");
const QUERIES: Opt =
    required("queries", SIZE, "Positions of queries: a number, or a name for a size known at run time");
const KEYS: Opt = required("keys", SIZE, "Positions of keys and values");
const DIM: Opt = required("dim", SIZE, "Size of a head");

pub(super) const SCORES: Operation = Operation {
    name: "attention_scores",
    about: "What each query of attention says of each key: q k^T * scale, masked on request",
    detail: "S[batch, heads, queries, keys] from Q[batch, heads, queries, dim] and K[batch, kv-heads, keys, dim]. Sums are kept in \
             float32.",
    options: &[
        BATCH,
        HEADS,
        KV_HEADS,
        QUERIES,
        KEYS,
        DIM,
        optional("scale", "X", "Factor of the scores [default: 1 / sqrt(dim)]"),
        flag(
            "causal",
            "A query sees keys up to its own position, the last query all; others have the least finite score",
        ),
        DTYPE,
        OUT_DTYPE,
    ],
    example: "attention_scores --heads 32 --kv-heads 8 --queries 1 --keys n --dim 128 --dtype float16",
    make: scores,
};

pub(super) const VALUES: Operation = Operation {
    name: "attention_values",
    about: "The values of attention, weighted: p v",
    detail: "O[batch, heads, queries, dim] from P[batch, heads, queries, keys] and V[batch, kv-heads, keys, dim]. Sums are kept in \
             float32.",
    options: &[BATCH, HEADS, KV_HEADS, QUERIES, KEYS, DIM, DTYPE, OUT_DTYPE],
    example: "attention_values --heads 32 --kv-heads 8 --queries 1 --keys n --dim 128 --dtype float16",
    make: weighted,
};

/// Sizes and types that both have.
struct Sizes {
    batch: Expr,
    heads: Expr,
    kv_heads: Expr,
    queries: Expr,
    keys: Expr,
    dim: Expr,
    dtype: DType,
    out: DType,
    sum: DType,
    /// Heads of queries that share one of keys.
    shared: i64,
}

impl Sizes {
    fn of(values: &Values, f: &mut PrimFuncBuilder) -> Result<Sizes, String> {
        let dtype = values.float("dtype")?;
        let heads = values.size("heads", f)?;
        let (kv_heads, shared) = kv_heads(values, &heads)?;
        Ok(Sizes {
            batch: values.size("batch", f)?,
            heads,
            kv_heads,
            queries: values.size("queries", f)?,
            keys: values.size("keys", f)?,
            dim: values.size("dim", f)?,
            dtype,
            out: values.out_dtype(dtype)?,
            sum: accumulator(dtype),
            shared,
        })
    }

    fn shape(&self, [heads, rows, columns]: [&Expr; 3]) -> [Expr; 4] {
        [&self.batch, heads, rows, columns].map(Expr::clone)
    }

    /// The head of keys that a head of queries looks at.
    fn kv_head(&self, head: &Expr) -> Expr {
        if self.shared == 1 { head.clone() } else { head.clone() / self.shared }
    }
}

/// Heads of keys, and how many heads of queries share one.
fn kv_heads(values: &Values, heads: &Expr) -> Result<(Expr, i64), String> {
    if !values.has("kv-heads") {
        return Ok((heads.clone(), 1));
    }
    let kv = values.count("kv-heads")?;
    match heads.as_int() {
        Some(all) if all % kv == 0 => Ok((kv.into(), all / kv)),
        _ => Err(format!("--kv-heads {kv}: it has to divide --heads, which has to be a number")),
    }
}

fn scores(values: &Values, f: &mut PrimFuncBuilder) -> Result<(), String> {
    let s = Sizes::of(values, f)?;
    let scale = scale(values, &s)?;
    let q = f.param("Q", s.dtype, s.shape([&s.heads, &s.queries, &s.dim]));
    let k = f.param("K", s.dtype, s.shape([&s.kv_heads, &s.keys, &s.dim]));
    let mut steps = Steps::default();
    steps.then("scaled", move |x, _| x * scale);
    let (sum, out) = (s.sum, s.out);
    if values.has("causal") {
        let (queries, keys) = (s.queries.clone(), s.keys.clone());
        steps.then("masked", move |x, at| {
            let seen = Expr::binary(BinOp::Le, at[3].clone() + queries, at[2].clone() + keys);
            let least = Expr::cast(sum, Reducer::Max.identity(if out.bytes() < sum.bytes() { out } else { sum }));
            Expr::new(ExprKind::IfThenElse { cond: seen, then: x, otherwise: least })
        });
    }
    let shape = s.shape([&s.heads, &s.queries, &s.keys]);
    steps.finish(f, ("S", s.out), ("product", s.sum), &shape, |f, to| {
        f.reduce("matmul", to, std::slice::from_ref(&s.dim), Reducer::Sum, |at, over| {
            let key = [at[0].clone(), s.kv_head(&at[1]), at[3].clone(), over[0].clone()];
            Expr::cast(sum, q.at([&at[0], &at[1], &at[2], &over[0]])) * Expr::cast(sum, k.at(key))
        });
    });
    Ok(())
}

/// The factor of the scores, in the type of the sums.
fn scale(values: &Values, s: &Sizes) -> Result<Expr, String> {
    if values.has("scale") {
        return Ok(Expr::float(values.number("scale")?, s.sum));
    }
    Ok(match s.dim.as_int() {
        Some(dim) => Expr::float(1.0 / (dim as f64).sqrt(), s.sum),
        None => Expr::cast(s.sum, s.dim.clone()).math(crate::ir::Intrin::Rsqrt),
    })
}

fn weighted(values: &Values, f: &mut PrimFuncBuilder) -> Result<(), String> {
    let s = Sizes::of(values, f)?;
    let p = f.param("P", s.dtype, s.shape([&s.heads, &s.queries, &s.keys]));
    let v = f.param("V", s.dtype, s.shape([&s.kv_heads, &s.keys, &s.dim]));
    let shape = s.shape([&s.heads, &s.queries, &s.dim]);
    Steps::default().finish(f, ("O", s.out), ("product", s.sum), &shape, |f, to| {
        f.reduce("matmul", to, std::slice::from_ref(&s.keys), Reducer::Sum, |at, over| {
            let value = [at[0].clone(), s.kv_head(&at[1]), over[0].clone(), at[3].clone()];
            Expr::cast(s.sum, p.at([&at[0], &at[1], &at[2], &over[0]])) * Expr::cast(s.sum, v.at(value))
        });
    });
    Ok(())
}

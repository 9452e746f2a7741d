//! Products whose epilogue wants statistics of the vectors: one kernel, whatever comes first in the text, on odd, prime,
//! tiny and symbolic sizes.

use super::harness::{Case, check_all, kernel_at};

/// `y = (x g) w^T f(statistic of x)` for `m` vectors (symbolic where negative).
struct Normed {
    m: i64,
    n: i64,
    k: i64,
    dtype: &'static str,
    /// The statistic comes before the product.
    first: bool,
    /// The largest magnitude in place of the sum of squares.
    largest: bool,
    int4: bool,
}

impl Normed {
    fn case(&self) -> Case {
        let (n, k, dtype) = (self.n, self.k, self.dtype);
        let symbolic = self.m < 0;
        let head = if symbolic { "from typing import TypeVar\nm = TypeVar(\"m\")\n" } else { "" };
        let m = if symbolic { "m".to_string() } else { self.m.to_string() };
        let wide = "T.Cast(\"float32\", x[vi, vk])";
        let (step, factor) = match self.largest {
            true => (format!("T.max(s[vi], T.fabs({wide}))"), "T.float32(1) / (s[vi] + T.float32(1))".to_string()),
            false => (format!("s[vi] + {wide} * {wide}"), format!("T.rsqrt(s[vi] / T.float32({k}) + T.float32(1e-5))")),
        };
        let statistic = format!(
            "    for i, k in T.grid({m}, {k}):
        with T.sblock(\"statistic\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                s[vi] = T.float32(0)
            s[vi] = {step}\n"
        );
        let (stored, weight) = match self.int4 {
            true => (
                format!("w: T.Buffer(({n}, {}), \"uint32\"), ", k / 8),
                "T.Cast(\"float32\", T.bitwise_and(T.shift_right(w[vn, vk // 8], T.Cast(\"uint32\", vk % 8 * 4)), T.uint32(15)))".to_string(),
            ),
            false => (format!("w: T.Buffer(({n}, {k}), \"{dtype}\"), "), "T.Cast(\"float32\", w[vn, vk])".to_string()),
        };
        let product = format!(
            "    for i, n, k in T.grid({m}, {n}, {k}):
        with T.sblock(\"product\"):
            vi, vn, vk = T.axis.remap(\"SSR\", [i, n, k])
            with T.init():
                a[vi, vn] = T.float32(0)
            a[vi, vn] = a[vi, vn] + T.Cast(\"float32\", x[vi, vk] * g[vk]) * {weight}\n"
        );
        let both = if self.first { statistic + &product } else { product + &statistic };
        let text = format!(
            "{head}@T.prim_func(s_tir=True)
def main(x: T.Buffer(({m}, {k}), \"{dtype}\"), g: T.Buffer(({k},), \"{dtype}\"), {stored}y: T.Buffer(({m}, {n}), \"{dtype}\")):
    s = T.sblock_alloc_buffer(({m},), \"float32\")
    a = T.sblock_alloc_buffer(({m}, {n}), \"float32\")
{both}    for i, n in T.grid({m}, {n}):
        with T.sblock(\"finish\"):
            vi, vn = T.axis.remap(\"SS\", [i, n])
            y[vi, vn] = T.Cast(\"{dtype}\", a[vi, vn] * ({factor}))
"
        );
        let extents = if symbolic { vec![("m", -self.m)] } else { vec![] };
        let name = format!("{}x{n}x{k}-{dtype}-{}-{}-{}", self.m, self.first, self.largest, self.int4);
        Case { name, text, extents, length: k }
    }
}

fn normed(m: i64, n: i64, k: i64) -> Normed {
    Normed { m, n, k, dtype: "float16", first: true, largest: false, int4: false }
}

#[test]
fn one_vector_and_its_squares() {
    let cases = [(7, 41), (33, 200), (16, 256)].map(|(n, k)| Normed { first: n != 33, ..normed(1, n, k) }.case());
    check_all(cases.into(), &["gemv.inner", "pieces.cuda"]);
    let largest = Normed { largest: true, dtype: "bfloat16", ..normed(1, 9, 72) }.case();
    check_all(vec![largest], &["gemv.inner"]);
}

/// Statistics of several vectors are kernels of their own.
#[test]
fn few_vectors_and_their_squares() {
    let sizes = [(2, 7, 41), (3, 33, 96), (5, 8, 200), (-3, 10, 72)];
    let cases = sizes.map(|(m, n, k)| Normed { first: m != 3, largest: m == 5, ..normed(m, n, k) }.case());
    check_all(cases.into(), &["pieces.cuda"]);
}

#[test]
fn packed_rows_and_squares_of_vectors() {
    check_all(vec![Normed { int4: true, ..normed(1, 9, 96) }.case()], &["gemv.quant"]);
    check_all(vec![Normed { int4: true, ..normed(3, 9, 96) }.case()], &["pieces.cuda"]);
}

/// One kernel, in which the statistic has one accumulator however many rows a thread has.
#[test]
fn statistics_are_computed_once_for_all_rows_of_a_thread() {
    let kernel = kernel_at(&normed(1, 64, 512).case(), "gemv.inner", &[("rows", 4), ("unroll", 1)]);
    assert_eq!(kernel.matches("launch ").count(), 1, "{kernel}");
    let sums = ["float32 t0_rf[1]", "float32 t1_rf[4]"];
    assert!(sums.iter().all(|s| kernel.contains(s)), "{kernel}");
}

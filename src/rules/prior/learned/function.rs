//! What the trees see of the function itself, the same for all its candidates: an outline says how much a kernel does, not along
//! which axes.

use crate::analysis::{Access, BlockFacts, Facts};
use crate::ir::{DType, ExprKind, IterKind, Name, PrimFunc};

/// Numbers of a function, most of them of its main block: the one that runs most often, of equal ones the first.
///
/// Sizes are logarithms to base 2. An `align` is that of the largest power of 2 that divides a size: what vectors, copies and tiles
/// divide. `along` is the axis on which neighbours of a read's buffer lie (0 none, 1 columns, 2 rows, 3 another of the result, 4 the innermost
/// reduced one, 5 another of these).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Function([f32; NAMES.len()]);

/// The names of the numbers.
pub const NAMES: [&str; 20] = [
    "columns",
    "columns_align",
    "rows",
    "rows_align",
    "batch",
    "depth",
    "depth_align",
    "outer_depth",
    "written_bytes",
    "read_bytes",
    "second_bytes",
    "third_bytes",
    "along",
    "second_along",
    "bfloat16",
    "function_reads",
    "function_blocks",
    "function_params",
    "function_calls",
    "function_choices",
];

impl Function {
    /// Of those blocks of `f`, whose producers are inlined, that are `own`. Sizes that are not constant count as one.
    pub fn of(f: &PrimFunc, facts: &Facts, own: impl Fn(&Name) -> bool) -> Function {
        let blocks: Vec<&BlockFacts> = facts.blocks.iter().filter(|b| own(&b.name)).collect();
        // `max_by_key` takes the last of equal ones.
        let Some(main) = blocks.iter().rev().max_by_key(|b| runs(b)) else { return Function::default() };
        let [kept, reduced] = [false, true].map(|reduced| sizes(main, |kind| (kind == IterKind::Reduce) == reduced));
        let at = |sizes: &[i64], i: usize| sizes.get(i).copied().unwrap_or(1);
        let rest = |sizes: &[i64], from: usize| sizes.iter().skip(from).map(|n| *n as f64).product::<f64>().log2();
        let reads = distinct(&main.reads);
        let read = |i: usize| reads.get(i).copied();
        let bytes = |a: Option<&Access>| a.map_or(0, |a| f.buffer(&a.buffer).dtype.bytes());
        let [calls, choices] = operations(f);
        Function([
            log2(at(&kept, 0)),
            align(at(&kept, 0)),
            log2(at(&kept, 1)),
            align(at(&kept, 1)),
            rest(&kept, 2) as f32,
            log2(at(&reduced, 0)),
            align(at(&reduced, 0)),
            rest(&reduced, 1) as f32,
            bytes(main.writes.first()) as f32,
            bytes(read(0)) as f32,
            bytes(read(1)) as f32,
            bytes(read(2)) as f32,
            read(0).map_or(0.0, |a| along(main, a)),
            read(1).map_or(0.0, |a| along(main, a)),
            f32::from(u8::from(f.buffers.iter().any(|b| b.dtype == DType::BF16))),
            reads.len() as f32,
            blocks.len() as f32,
            f.params.len() as f32,
            calls as f32,
            choices as f32,
        ])
    }

    /// True of elements like those of drawn functions, of two and four bytes.
    pub fn is_of_measured_types(&self) -> bool {
        let read = ["read_bytes", "second_bytes", "third_bytes"];
        self.numbers().all(|(name, bytes)| !read.contains(&name) || bytes != 1.0)
    }

    /// Each number with its name.
    pub fn numbers(self) -> impl Iterator<Item = (&'static str, f32)> {
        NAMES.into_iter().zip(self.0)
    }
}

fn log2(n: i64) -> f32 {
    (n.max(1) as f32).log2()
}

fn align(n: i64) -> f32 {
    n.max(1).trailing_zeros() as f32
}

/// How often a block runs.
fn runs(b: &BlockFacts) -> i64 {
    sizes(b, |_| true).into_iter().fold(1, i64::saturating_mul)
}

/// Sizes of the iterators of some kinds, innermost first.
fn sizes(b: &BlockFacts, of: impl Fn(IterKind) -> bool) -> Vec<i64> {
    b.iters.iter().rev().filter(|i| of(i.kind)).map(|i| i.extent.as_int().unwrap_or(1).max(1)).collect()
}

/// The first read of each buffer.
fn distinct(reads: &[Access]) -> Vec<&Access> {
    let mut out: Vec<&Access> = vec![];
    for read in reads {
        if out.iter().all(|a| a.buffer != read.buffer) {
            out.push(read);
        }
    }
    out
}

/// The axis of which the last index takes its neighbours, numbered as [`Function`] says.
fn along(b: &BlockFacts, a: &Access) -> f32 {
    let Some(index) = a.indices.last() else { return 0.0 };
    let mut vars: Vec<Name> = vec![];
    index.visit(&mut |e| vars.extend(e.as_var().cloned()));
    let place = |reduced: bool| {
        let of_kind = b.iters.iter().rev().filter(|i| (i.kind == IterKind::Reduce) == reduced);
        of_kind.enumerate().find(|(_, i)| vars.contains(&i.var)).map(|(place, _)| place)
    };
    match (place(true), place(false)) {
        (Some(0), _) => 4.0,
        (Some(_), _) => 5.0,
        (None, Some(place)) => (place.min(2) + 1) as f32,
        (None, None) => 0.0,
    }
}

/// Mathematical functions and choices in the text of a function.
fn operations(f: &PrimFunc) -> [usize; 2] {
    let mut found = [0; 2];
    f.visit(&mut |s| {
        s.for_each_expr(|e| {
            e.visit(&mut |e| match e.kind() {
                ExprKind::Call { .. } => found[0] += 1,
                ExprKind::Select { .. } | ExprKind::IfThenElse { .. } => found[1] += 1,
                _ => {}
            });
        });
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir;
    use crate::rules::Prepared;

    fn of(text: &str) -> Vec<(&'static str, f32)> {
        let func = ir::read(text, "f.py").unwrap().remove(0);
        let prepared = Prepared::new(&func).unwrap();
        let seen = Function::of(&prepared.func, &prepared.facts, |_| true);
        seen.numbers().filter(|(_, n)| *n != 0.0).collect()
    }

    const PRODUCT: &str = r#"@T.prim_func
def f(A: T.Buffer((24, 512), "float16"), B: T.Buffer((96, 512), "float16"), C: T.Buffer((24, 96), "float32")):
    for i, j, k in T.grid(24, 96, 512):
        with T.sblock("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vj, vk])
"#;

    #[test]
    fn a_product_has_its_sizes_and_the_axis_along_which_factors_lie() {
        let product = [
            ("columns", 96_f32.log2()),
            ("columns_align", 5.0),
            ("rows", 24_f32.log2()),
            ("rows_align", 3.0),
            ("depth", 9.0),
            ("depth_align", 9.0),
            ("written_bytes", 4.0),
            ("read_bytes", 2.0),
            ("second_bytes", 2.0),
            ("along", 4.0),
            ("second_along", 4.0),
            ("function_reads", 2.0),
            ("function_blocks", 1.0),
            ("function_params", 3.0),
        ];
        assert_eq!(of(PRODUCT), product);
    }

    #[test]
    fn a_factor_that_lies_the_other_way_is_told_apart() {
        let turned = PRODUCT.replace("(96, 512)", "(512, 96)").replace("B[vj, vk]", "B[vk, vj]");
        let differ: Vec<(&str, f32)> = of(&turned).into_iter().filter(|n| !of(PRODUCT).contains(n)).collect();
        assert_eq!(differ, [("second_along", 1.0)]);
    }
}

//! Matrix products and convolutions in TVMScript.

use super::harness::{self, Case};
use crate::common::arm::ask;
use daylight::interp::{self, Mode};
use daylight::ir::kernel::Program;
use daylight::rules::{Knobs, Prepared, Space};
use rand::prelude::*;

/// `O[b, m, n] = sum_k A[b, m, k] B[b, k, n]`, with options.
#[derive(Clone)]
pub struct Matmul {
    dtype: &'static str,
    /// Of B.
    weights: &'static str,
    acc: &'static str,
    /// Of the result.
    out: Option<&'static str>,
    batch: Option<i64>,
    size: [i64; 3],
    transposed: [bool; 2],
    epilogue: bool,
    /// A value of what follows is used twice.
    gated: bool,
    symbolic: bool,
}

impl Matmul {
    /// A product of that type, nothing else asked.
    pub fn new(dtype: &'static str, m: i64, n: i64, k: i64) -> Matmul {
        let (batch, transposed) = (None, [false; 2]);
        let size = [m, n, k];
        let (epilogue, gated, symbolic) = (false, false, false);
        Matmul { dtype, weights: dtype, acc: dtype, out: None, batch, size, transposed, epilogue, gated, symbolic }
    }

    /// A is stored as `[K, M]`, B as `[N, K]`.
    pub fn transposed(self, a: bool, b: bool) -> Matmul {
        Matmul { transposed: [a, b], ..self }
    }

    /// Several products.
    pub fn batched(self, n: i64) -> Matmul {
        Matmul { batch: Some(n), ..self }
    }

    /// Sums in another type than the factors'.
    pub fn accumulated(self, acc: &'static str) -> Matmul {
        Matmul { acc, ..self }
    }

    /// B is of another type than A.
    pub fn weights(self, weights: &'static str) -> Matmul {
        Matmul { weights, ..self }
    }

    /// The result is of another type than the sums.
    pub fn rounded(self, out: &'static str) -> Matmul {
        Matmul { out: Some(out), ..self }
    }

    /// A bias per column and a maximum with zero.
    pub fn with_epilogue(self) -> Matmul {
        Matmul { epilogue: true, ..self }
    }

    /// Followed by blocks of which one uses the value of another twice, as GELU does.
    pub fn gated(self) -> Matmul {
        Matmul { epilogue: true, gated: true, ..self }
    }

    /// The number of rows is not known when the function is scheduled.
    pub fn symbolic(self) -> Matmul {
        Matmul { symbolic: true, ..self }
    }

    /// The function.
    pub fn case(self) -> Case {
        let [m, n, k] = self.size;
        let (dtype, weights, acc, result) = (self.dtype, self.weights, self.acc, self.out.unwrap_or(self.acc));
        // symbolic sizes are int64, and indices are of one type
        let size = |n: i64| if self.symbolic { format!("T.int64({n})") } else { n.to_string() };
        let rows = if self.symbolic { "m".to_string() } else { size(m) };
        let name = format!("{m}x{n}x{k}{}", if self.symbolic { "-symbolic" } else { "" });
        let (n, length, k) = (size(n), k, size(k));
        let (lead, at) = match self.batch {
            Some(b) => (format!("{}, ", size(b)), "vb, "),
            None => (String::new(), ""),
        };
        let [ta, tb] = self.transposed;
        let a = if ta { format!("({lead}{k}, {rows})") } else { format!("({lead}{rows}, {k})") };
        let b = if tb { format!("({lead}{n}, {k})") } else { format!("({lead}{k}, {n})") };
        let (ia, ib) = (if ta { "vk, vi" } else { "vi, vk" }, if tb { "vj, vk" } else { "vk, vj" });
        let out = format!("({lead}{rows}, {n})");
        let cast = |e: String, from: &str, to: &str| if from == to { e } else { format!("T.Cast(\"{to}\", {e})") };
        let (fa, fb) = (cast(format!("A[{at}{ia}]"), dtype, acc), cast(format!("B[{at}{ib}]"), weights, acc));
        let follows = self.epilogue || self.out.is_some();
        let to = if follows { "R0" } else { "O" };
        let zero = if acc == "int32" { "0" } else { "0.0" };
        let (loops, grid, kinds) = match self.batch {
            Some(b) => ("b, i, j, k", format!("{b}, {rows}, {n}, {k}"), "SSSR"),
            None => ("i, j, k", format!("{rows}, {n}, {k}"), "SSR"),
        };
        let axes = if self.batch.is_some() { "vb, vi, vj, vk" } else { "vi, vj, vk" };
        let mut text;
        text = format!(
            "{}@T.prim_func(s_tir=True)
def main(A: T.Buffer({a}, \"{dtype}\"), B: T.Buffer({b}, \"{weights}\"), C: T.Buffer(({n},), \"{acc}\"), O: T.Buffer({out}, \"{result}\")):
",
            if self.symbolic { "m = TypeVar(\"m\")\n" } else { "" }
        );
        if follows {
            text += &format!("    R0 = T.sblock_alloc_buffer({out}, \"{acc}\")\n");
        }
        if self.gated {
            text += &format!("    R1 = T.sblock_alloc_buffer({out}, \"{acc}\")\n");
        }
        text += &format!(
            "    for {loops} in T.grid({grid}):
        with T.sblock(\"product\"):
            {axes} = T.axis.remap(\"{kinds}\", [{loops}])
            with T.init():
                {to}[{at}vi, vj] = T.{acc}({zero})
            {to}[{at}vi, vj] = {to}[{at}vi, vj] + {fa} * {fb}
"
        );
        if follows {
            let (loops, grid) = (&loops[..loops.len() - 3], &grid[..grid.rfind(',').expect("three extents")]);
            let shifted = format!("R0[{at}vi, vj] + C[vj]");
            let gate = format!("R1[{at}vi, vj] * (T.{acc}(1.0) + T.erf(R1[{at}vi, vj]))");
            let last = |value: String| cast(value, acc, result);
            let blocks = match (self.epilogue, self.gated) {
                (_, true) => vec![("shift", "R1", shifted), ("gate", "O", last(gate))],
                (true, false) => vec![("finish", "O", last(format!("T.max({shifted}, T.{acc}({zero}))")))],
                (false, false) => vec![("round", "O", last(format!("R0[{at}vi, vj]")))],
            };
            for (block, to, value) in blocks {
                text += &format!(
                    "    for {loops} in T.grid({grid}):
        with T.sblock(\"{block}\"):
            {} = T.axis.remap(\"{}\", [{loops}])
            {to}[{at}vi, vj] = {value}
",
                    &axes[..axes.len() - 4],
                    &kinds[..kinds.len() - 1]
                );
            }
        }
        let name = format!(
            "matmul-{}{name}-{dtype}-{}{acc}-{ta}-{tb}{}",
            self.batch.map_or(String::new(), |b| format!("{b}x")),
            if weights == dtype { String::new() } else { format!("{weights}-") },
            if self.gated {
                "-gated"
            } else if self.epilogue {
                "-finished"
            } else {
                ""
            }
        );
        let extents = if self.symbolic { vec![("m", m)] } else { vec![] };
        Case { name, text, extents, length }
    }
}

/// A convolution of `[batch, channels, height, width]` with `filters` square windows, padded by `window / 2`
/// where the stride is not the window.
pub fn convolution(dtype: &str, [n, c, h, w]: [i64; 4], filters: i64, window: i64, stride: i64) -> Case {
    let pad = if stride == window { 0 } else { window / 2 };
    let (ph, pw) = (h + 2 * pad, w + 2 * pad);
    let (oh, ow) = ((ph - window) / stride + 1, (pw - window) / stride + 1);
    let text = format!(
        "@T.prim_func(s_tir=True)
def main(X: T.Buffer(({n}, {c}, {h}, {w}), \"{dtype}\"), W: T.Buffer(({filters}, {c}, {window}, {window}), \"{dtype}\"), O: T.Buffer(({n}, {filters}, {oh}, {ow}), \"{dtype}\")):
    P = T.sblock_alloc_buffer(({n}, {c}, {ph}, {pw}), \"{dtype}\")
    for a, b, y, x in T.grid({n}, {c}, {ph}, {pw}):
        with T.sblock(\"pad\"):
            va, vb, vy, vx = T.axis.remap(\"SSSS\", [a, b, y, x])
            P[va, vb, vy, vx] = T.if_then_else({pad} <= vy and vy < {} and {pad} <= vx and vx < {}, X[va, vb, vy - {pad}, vx - {pad}], T.{dtype}(0.0))
    for a, f, y, x, b, ky, kx in T.grid({n}, {filters}, {oh}, {ow}, {c}, {window}, {window}):
        with T.sblock(\"conv\"):
            va, vf, vy, vx, vb, vky, vkx = T.axis.remap(\"SSSSRRR\", [a, f, y, x, b, ky, kx])
            with T.init():
                O[va, vf, vy, vx] = T.{dtype}(0.0)
            O[va, vf, vy, vx] = O[va, vf, vy, vx] + P[va, vb, vy * {stride} + vky, vx * {stride} + vkx] * W[vf, vb, vky, vkx]
",
        h + pad,
        w + pad
    );
    let name = format!("conv-{n}x{c}x{h}x{w}-{filters}-{window}-{stride}-{dtype}");
    Case { name, text, extents: vec![], length: c * window * window }
}

/// Scores of `heads` queries against `positions` keys, of which `group` heads share each.
pub fn grouped_scores(heads: i64, group: i64, positions: i64, depth: i64) -> Case {
    let text = format!(
        "@T.prim_func(s_tir=True)
def main(Q: T.Buffer(({heads}, {depth}), \"float16\"), K: T.Buffer(({}, {positions}, {depth}), \"float16\"), O: T.Buffer(({heads}, {positions}), \"float16\")):
    C = T.sblock_alloc_buffer(({heads}, {positions}))
    for i, j, k in T.grid({heads}, {positions}, {depth}):
        with T.sblock(\"product\"):
            vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0.0)
            C[vi, vj] = C[vi, vj] + T.Cast(\"float32\", Q[vi, vk]) * T.Cast(\"float32\", K[vi // {group}, vj, vk])
    for i, j in T.grid({heads}, {positions}):
        with T.sblock(\"round\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            O[vi, vj] = T.Cast(\"float16\", C[vi, vj])
",
        heads / group
    );
    Case { name: format!("scores-{heads}-{group}-{positions}-{depth}"), text, extents: vec![], length: depth }
}

/// The points of a rule that `pick` chooses of its legal ones, interpreted and simulated; their programs.
pub fn check_points(
    case: &Case,
    rule: &str,
    id: &str,
    pick: impl Fn(&Space, &mut StdRng) -> Vec<Knobs>,
) -> Vec<Program> {
    let func = harness::read(case);
    let input = Prepared::new(&func).unwrap_or_else(|d| panic!("{}: {}", case.name, d.reason.text));
    let target = harness::target(id);
    let mut rng = StdRng::seed_from_u64(case.name.len() as u64);
    let args = harness::arguments(&func, case, &mut rng);
    let mut want = args.clone();
    interp::run(&func, &mut want, &harness::scalars(&func), Mode::F64).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let arm = ask(rule, &input, &target).unwrap_or_else(|d| panic!("{}: {d}", case.name));
    let check = |knobs: Knobs| harness::check_point(&arm, case, &input, &target, &knobs, &args, &want);
    pick(&arm.space, &mut rng).into_iter().map(check).collect()
}

/// The default point of a rule and some random ones.
fn check(case: &Case, rule: &str, id: &str, points: usize) {
    check_points(case, rule, id, |space, rng| {
        let mut all = space.points();
        all.shuffle(rng);
        space.default().into_iter().chain(all.into_iter().take(points)).collect()
    });
}

/// Checks that a rule on a target is right on every case.
pub fn check_all(cases: Vec<Case>, rule: &str, id: &str) {
    use rayon::prelude::*;
    cases.par_iter().for_each(|case| check(case, rule, id, 2));
}

//! Products by warpgroups whose copies are made by a warpgroup of its own, through tensor maps: all forms,
//! interpreted and simulated.

use super::harness::{self, Case};
use super::products::{Matmul, check_points};
use crate::common::arm::arm;
use daylight::interp::{self, Mode};
use daylight::ir;
use daylight::lower::lower;
use daylight::rules::{Knobs, Prepared, Space};
use daylight::sim;
use rand::prelude::*;

const RULE: &str = "matmul.wgmma";
const TARGET: &str = "cuda:sm_90a";

/// Some points at which threads of their own copy and tiles are not computed in turn.
fn with_roles(space: &Space, rng: &mut StdRng, n: usize) -> Vec<Knobs> {
    let all: Vec<Knobs> = space.points().into_iter().filter(|k| k.get("roles") == 1).collect();
    assert!(!all.is_empty(), "no point has roles");
    all.sample(rng, n).cloned().collect()
}

fn check(cases: Vec<Case>, points: usize) {
    use rayon::prelude::*;
    cases
        .par_iter()
        .for_each(|case| drop(check_points(case, RULE, TARGET, |space, rng| with_roles(space, rng, points))));
}

#[test]
fn factors_of_any_order_in_memory() {
    let mut cases = vec![];
    for (a, b) in [(false, false), (false, true), (true, false), (true, true)] {
        for [m, n, k] in [[64, 64, 160], [136, 72, 136]] {
            cases.push(Matmul::new("bfloat16", m, n, k).accumulated("float32").transposed(a, b).case());
        }
    }
    check(cases, 1);
}

#[test]
fn types_batches_and_what_follows() {
    let wide = |m, n, k| Matmul::new("float16", m, n, k).accumulated("float32").transposed(false, true);
    check(
        vec![
            wide(67, 35, 152).with_epilogue().case(),
            wide(50, 40, 136).gated().case(),
            wide(50, 20, 136).batched(3).case(),
            Matmul::new("float16", 40, 24, 136).batched(2).with_epilogue().case(),
            Matmul::new("int8", 70, 40, 304).accumulated("int32").transposed(false, true).case(),
        ],
        1,
    );
}

/// Of float8, the sums of each step are added to those of the others, by warpgroups together, in turn, and for several tiles.
#[test]
fn sums_in_two_levels() {
    use rayon::prelude::*;
    let wide = |dtype, m, n, k| Matmul::new(dtype, m, n, k).accumulated("float32").transposed(false, true);
    let cases = vec![
        wide("float8_e4m3fn", 70, 40, 304).rounded("bfloat16").case(),
        wide("float8_e5m2", 136, 36, 400).with_epilogue().rounded("float16").case(),
        wide("float8_e4m3fn", 66, 24, 272).batched(3).rounded("float16").case(),
    ];
    cases.par_iter().for_each(|case| {
        check_points(case, RULE, TARGET, |space, rng| {
            let of = |roles| space.points().into_iter().filter(|k| k.get("roles") == roles).collect::<Vec<_>>();
            (1..4).flat_map(|roles| of(roles).sample(rng, 1).cloned().collect::<Vec<_>>()).collect()
        });
    });
}

/// Scores and values of a prompt whose heads share keys, over the first `reach` of a cache of more positions, in a function
/// that was written for any `reach`: the bounds on its reads are decided, and both factors come by tensor maps.
#[test]
fn attention_over_part_of_a_cache() {
    let text = |result: &str, loops: &str, kinds: &str, product: &str, p: &str| {
        format!(
            "@T.prim_func\n\
             def f(p: T.Buffer({p}, \"float16\"), cache: T.Buffer((2, 96, 64), \"float16\"), o: T.Buffer({result}, \"float32\")):\n\
             \x20   for h, i, j, k in T.grid({loops}):\n\
             \x20       with T.block(\"product\"):\n\
             \x20           vh, vi, vj, vk = T.axis.remap(\"{kinds}\", [h, i, j, k])\n\
             \x20           with T.init():\n\
             \x20               o[vh, vi, vj] = T.float32(0)\n\
             \x20           o[vh, vi, vj] = o[vh, vi, vj] + {product}\n"
        )
    };
    let read =
        |at: &str, bound: &str| format!("T.Cast(\"float32\", T.if_then_else({bound} < 96, cache[{at}], T.float16(0)))");
    let scores = text(
        "(4, 64, 64)",
        "4, 64, 64, 64",
        "SSSR",
        &format!("T.Cast(\"float32\", p[vi, vh, vk]) * {}", read("vh // 2, vj, vk", "vj")),
        "(64, 4, 64)",
    );
    let values = text(
        "(4, 64, 64)",
        "4, 64, 64, 64",
        "SSSR",
        &format!("T.Cast(\"float32\", p[vh, vi, vk]) * {}", read("vh // 2, vk, vj", "vk")),
        "(4, 64, 64)",
    );
    let case = |name: &str, text: String| Case { name: name.into(), text, extents: vec![], length: 64 };
    check(vec![case("scores", scores), case("values", values)], 1);
}

#[test]
fn several_blocks_share_the_reduced_axis() {
    let case =
        Matmul::new("float16", 66, 72, 1032).accumulated("float32").transposed(false, true).with_epilogue().case();
    check_points(&case, RULE, TARGET, |space, rng| {
        let all = space.points().into_iter().filter(|k| k.get("roles") == 1 && k.get("split_k") > 1);
        all.collect::<Vec<_>>().sample(rng, 2).cloned().collect()
    });
}

/// Rows that two dimensions of the factor make, which tiles cut anywhere.
#[test]
fn rows_of_two_dimensions() {
    let case = |rows: i64| {
        Case {
        name: format!("rows-2x{rows}"),
        text: format!(
            "@T.prim_func(s_tir=True)
def main(A: T.Buffer((2, {rows}, 136), \"float16\"), B: T.Buffer((40, 136), \"float16\"), O: T.Buffer((2, {rows}, 40), \"float32\")):
    for b, i, j, k in T.grid(2, {rows}, 40, 136):
        with T.sblock(\"product\"):
            vb, vi, vj, vk = T.axis.remap(\"SSSR\", [b, i, j, k])
            with T.init():
                O[vb, vi, vj] = T.float32(0.0)
            O[vb, vi, vj] = O[vb, vi, vj] + T.Cast(\"float32\", A[vb, vi, vk]) * T.Cast(\"float32\", B[vj, vk])
"
        ),
        extents: vec![],
        length: 136,
    }
    };
    check(vec![case(32), case(50), case(128)], 1);
}

/// Simulates a point of the rule with another number of blocks that take all tiles.
pub fn persistent(case: &Case, blocks: i64, knobs: &[(&str, i64)]) {
    let func = harness::read(case);
    let input = Prepared::new(&func).unwrap_or_else(|d| panic!("{}: {}", case.name, d.reason.text));
    let args = harness::arguments(&func, case, &mut StdRng::seed_from_u64(1));
    let mut want = args.clone();
    interp::run(&func, &mut want, &Default::default(), Mode::F64).expect("the function runs");
    let target = harness::target(TARGET);
    let arm = arm(RULE, &input, &target);
    let mut point = arm.space.default().expect("a legal point");
    for (name, value) in [("roles", 2), ("split_k", 1), ("raster", 1)].iter().chain(knobs) {
        point = point.with(name, *value);
    }
    arm.space.possible(&point).unwrap_or_else(|e| panic!("{}: {}", case.name, e.text));
    let text = arm.schedule(&point).expect("a schedule").func().to_string();
    let text = text.replace("\"persistent\": 132", &format!("\"persistent\": {blocks}"));
    let at = format!("{} {blocks} blocks {point}", case.name);
    let scheduled = ir::read(&text, "persistent").unwrap_or_else(|e| panic!("{at}: {e}\n{text}")).remove(0);
    let program = lower(&scheduled, &target, &[]).unwrap_or_else(|e| panic!("{at}: {e}\n{text}"));
    assert!(program.to_string().contains(&format!("grid({blocks}, 1, 1)")), "{at}: {program}");
    for seed in [3, 8] {
        let mut got = args.clone();
        let options = sim::SimOptions { seed, ..Default::default() };
        sim::run(&program, &mut got, &Default::default(), &options).unwrap_or_else(|e| panic!("{at}: {e}\n{program}"));
        harness::compare(&at, &input, &got, &want);
    }
}

#[test]
fn blocks_take_one_tile_after_the_other() {
    let case = Matmul::new("bfloat16", 200, 136, 136).accumulated("float32").transposed(false, true).with_epilogue();
    let tile = [("block_m", 64), ("block_n", 64), ("groups_m", 1), ("stages", 3)];
    persistent(&case.clone().case(), 5, &tile);
    let wide = [("block_m", 128), ("block_n", 64), ("groups_m", 2), ("groups_n", 1), ("stages", 4)];
    persistent(&case.case(), 2, &wide);
}

#[test]
fn warpgroups_take_tiles_in_turn() {
    let case = Matmul::new("float16", 200, 136, 328).accumulated("float32").transposed(false, true).with_epilogue();
    for (blocks, stages) in [(1, 3), (2, 4), (5, 4)] {
        let tile = [("block_m", 64), ("block_n", 64), ("groups_m", 1), ("stages", stages), ("roles", 3)];
        persistent(&case.clone().case(), blocks, &tile);
    }
    let tall = [("block_m", 128), ("block_n", 96), ("groups_m", 1), ("stages", 3), ("roles", 3)];
    persistent(&case.case(), 1, &tall);
}

/// Rows of odd length pass through shared memory, of which each of the warpgroups has its own.
#[test]
fn warpgroups_in_turn_pass_rows_of_their_own() {
    let case = Matmul::new("bfloat16", 130, 137, 328).accumulated("float32").transposed(false, true);
    let tile = [("block_m", 64), ("block_n", 64), ("groups_m", 1), ("stages", 3), ("roles", 3)];
    persistent(&case.case(), 2, &tile);
}

/// What a schedule may not ask for, each by a change of the function that the pass is shown with.
#[test]
fn schedules_at_fault() {
    let text = include_str!("../golden/lower/passes/roles.py");
    for (from, to, why) in [
        (", \"roles\": 2", "", "take a loop with roles"),
        (", annotations={\"persistent\": 3}", "", "tiles are computed in turn, but no block takes several"),
        ("\"persistent\": 3", "\"fetched\": 1", "a block is given tiles by itself"),
        ("\"roles\": 2", "\"roles\": 3", "two warpgroups take tiles in turn"),
        ("b[vk, vj]\n", "b[vk, vj] * T.float16(2.0)\n", "what it stores is computed"),
        ("T.float16(0.0)", "T.float16(1.0)", "is no element of a tensor, or zero"),
        ("vi < 250,", "vi < 200,", "is not that an index lies within the tensor"),
        ("b: T.Buffer((256, 128)", "b: T.Buffer((256, 131)", "multiple of 16"),
    ] {
        assert!(text.contains(from), "{from}");
        let func = ir::read(&text.replace(from, to), "fault").unwrap_or_else(|e| panic!("{to}: {e}")).remove(0);
        let error = lower(&func, &harness::target(TARGET), &[]).expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
    }
}

//! Stores at indices that are read from a tensor: taken on the author's word, which `check` says, and right under every
//! rule, for indices that differ, are passed over, or meet.

use crate::common::apply::untuned;
use crate::common::arm::predicate;
use daylight::analysis::{Facts, answered_for, fission, refuse, roles};
use daylight::apply::{self, Emit};
use daylight::assemble::Schedulable;
use daylight::interp::{self, Mode};
use daylight::ir::{self, PrimFunc, Role};
use daylight::job::{self, Bindings};
use daylight::measure::inputs::tensor;
use daylight::rules::{Prepared, Spaces};
use daylight::runner::Range;
use daylight::target::{HostCpu, Target};
use daylight::tune::reference::{expected, index_ranges, inputs};
use daylight::tune::{problem, simulate};
use rand::prelude::*;
use rayon::prelude::*;

/// Functions by name; `tests/fuzz` changes them.
pub const FUNCTIONS: [(&str, &str); 9] = [
    ("append", include_str!("data/scatter/append.py")),
    ("rows", include_str!("data/scatter/rows.py")),
    ("elements", include_str!("data/scatter/elements.py")),
    ("points", include_str!("data/scatter/points.py")),
    ("add", include_str!("data/scatter/add.py")),
    ("accumulate", include_str!("data/scatter/accumulate.py")),
    ("sums", include_str!("data/scatter/sums.py")),
    ("then", include_str!("data/scatter/then.py")),
    ("masked", include_str!("data/scatter/masked.py")),
];

fn named(name: &str) -> PrimFunc {
    let text = FUNCTIONS.iter().find(|(n, _)| *n == name).expect("a function").1;
    ir::read(text, name).unwrap_or_else(|e| panic!("{name}: {e}")).remove(0)
}

fn target(id: &str) -> Target {
    Target::parse(id, &HostCpu { arch: "x86-64-v3".into(), ..HostCpu::default() }).expect("a known target")
}

/// The default and a few drawn points of every rule that takes the function; returns how many.
fn simulated(name: &str, id: &str) -> usize {
    let f = named(name);
    let subject = Schedulable::new(&f, &f, target(id)).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let func = &subject.prepared.func;
    let given = problem::given(func, &Bindings::new(), 5);
    let reference = expected(func, &subject.prepared.facts, &given).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut rng = StdRng::seed_from_u64(name.len() as u64);
    let mut tried = 0;
    for arm in subject.arms(&Spaces::built_in()) {
        let drawn: Vec<_> = arm.space.points().sample(&mut rng, 6).cloned().collect();
        for knobs in arm.space.default().into_iter().chain(drawn) {
            let at = format!("{name}, {} on {id} at {knobs}", arm.space.form);
            let made = subject.candidate(&arm, &knobs).unwrap_or_else(|e| panic!("{at}: {e:?}"));
            let options = simulate::Options { seed: 5, ..simulate::Options::default() };
            simulate::check(&subject, &made.program, &given, &reference, options)
                .unwrap_or_else(|e| panic!("{at}: {e}\n{}", made.program));
            tried += 1;
        }
    }
    tried
}

#[test]
fn every_rule_stores_where_the_indices_say() {
    FUNCTIONS.par_iter().for_each(|(name, _)| {
        for id in ["cuda:sm_90a", "cpu"] {
            assert!(simulated(name, id) > 3, "{name} on {id}");
        }
    });
}

/// What a condition passes over, and what no index names, keeps what the caller left there.
#[test]
fn what_is_stored_to_in_part_is_inout() {
    for (name, _) in FUNCTIONS {
        let f = named(name);
        for f in [&f, &fission(&f)] {
            assert!(roles(f).contains(&Role::Inout) && !roles(f).contains(&Role::Out), "{name}: {:?}", roles(f));
        }
    }
}

#[test]
fn the_author_is_told_what_is_not_checked() {
    let said = |name: &str| answered_for(&Prepared::new(&named(name)).expect("it is taken").func);
    let append = said("append");
    assert_eq!(append.len(), 2, "{append:?}");
    assert_eq!(
        append[0],
        "block `k_append` stores to `k_pages` at indices that are read from `position_map`: that they lie inside, and that no \
         two iterations store to one element, is yours to answer for"
    );
    assert!(
        said("then")
            .iter()
            .any(|s| s.contains("reads `table` at indices that are read from `ids`: that they lie inside"))
    );
    assert!(said("masked").is_empty(), "{:?}", said("masked"));
}

/// Where an axis occurs in no index, no tensor can make the elements differ.
#[test]
fn stores_that_meet_whatever_the_indices_are_stay_refused() {
    let f = "@T.prim_func(s_tir=True)\ndef main(p: T.Buffer((4,), \"int32\"), a: T.Buffer((4, 8), \"float32\"), \
             x: T.Buffer((9,), \"float32\")):\n    for i, j in T.grid(4, 8):\n        with T.sblock(\"x\"):\n            \
             vi, vj = T.axis.remap(\"SS\", [i, j])\n            x[p[vi]] = a[vi, vj]\n";
    let f = ir::read(f, "f.py").expect("reads").remove(0);
    assert_eq!(refuse(&f).err().map(|d| predicate(d.reason)), Some("overlapping_writes"));
}

#[test]
fn drawn_indices_differ_and_fill_what_they_may() {
    let ranges = index_ranges(&Prepared::new(&named("append")).expect("it is taken").func);
    // 6 pages of 16 elements; -1 is passed over.
    let want = Range { low: 0, high: 95, distinct: Some(37), passed_over: Some(-1) };
    assert_eq!(ranges.values().copied().collect::<Vec<_>>(), [want]);
    let bytes = tensor(ir::DType::I32, 37, 1, 2, Some(want));
    let mut values: Vec<i32> = bytes.chunks(4).map(|b| i32::from_le_bytes(b.try_into().expect("four"))).collect();
    values.retain(|v| *v != -1);
    let kept = values.len();
    values.sort_unstable();
    values.dedup();
    assert!(kept < 37 && values.len() == kept && values.iter().all(|v| (0..96).contains(v)), "{values:?}");
    assert!(values.iter().any(|v| *v > 47), "all pages: {values:?}");
}

/// Of what an index is below, the loop variable that is added leaves 3.
#[test]
fn indices_beside_a_loop_stay_inside() {
    let text = "@T.prim_func(s_tir=True)\ndef main(p: T.Buffer((4,), \"int64\"), a: T.Buffer((4,), \"float32\"), \
                x: T.Buffer((7,), \"float32\")):\n    for i in range(4):\n        with T.sblock(\"x\"):\n            \
                v = T.axis.spatial(4, i)\n            x[v + p[v]] = a[v]\n";
    let f = ir::read(text, "f.py").expect("reads").remove(0);
    let highs: Vec<i64> = index_ranges(&f).values().map(|r| r.high).collect();
    assert_eq!(highs, [3]);
}

/// 24 rows go to 9: which of several stays is the order's to say, and is not compared. Those that only one goes to are.
#[test]
fn elements_that_two_iterations_store_to_are_not_compared() {
    let text = FUNCTIONS[1].1.replace("x: T.Buffer((40, 24)", "x: T.Buffer((9, 24)");
    let f = ir::read(&text, "rows").expect("reads").remove(0);
    let subject = Schedulable::new(&f, &f, target("cpu")).expect("it is taken");
    let func = &subject.prepared.func;
    let mut given = problem::given(func, &Bindings::new(), 5);
    given.ranges.values_mut().for_each(|r| r.distinct = None);
    let reference = expected(func, &Facts::of(func), &given).expect("a reference");
    let points = reference.outputs[0].points.as_ref().expect("some are left out");
    let rows: std::collections::BTreeSet<u64> = points.iter().map(|p| p / 24).collect();
    assert!(!rows.is_empty() && rows.len() < 9, "{rows:?}");
    let args = inputs(func, &given, true).expect("arguments");
    let run = |backwards: bool| {
        let mut tensors = args.tensors.clone();
        let by = if backwards { interp::run_backwards } else { interp::run };
        by(func, &mut tensors, &args.scalars, Mode::F64).expect("it runs");
        tensors.remove(2).to_f64()
    };
    let (first, last) = (run(false), run(true));
    assert!(points.iter().all(|p| first[*p as usize] == last[*p as usize]));
    assert!(first != last);
}

/// Safe Rust cannot make a kernel leave its tensors.
#[test]
fn where_indices_are_data_the_call_is_unsafe() {
    let folder = tempfile::tempdir().expect("a folder");
    let rust = |name: &str| {
        let file = folder.path().join(format!("{name}.py"));
        std::fs::write(&file, FUNCTIONS.iter().find(|(n, _)| *n == name).expect("a function").1).expect("a file");
        let input = job::load(&Default::default(), &[file]).expect("the file").remove(0).expect("the function");
        let units =
            apply::units(&[input], &untuned(&[target("cpu:x86-64-v3")])).unwrap_or_else(|f| panic!("{}", f.message));
        let files = apply::files(&units, Emit { rust: true, ..Emit::default() }).expect("files");
        String::from_utf8_lossy(&files["kernels.rs"]).into_owned()
    };
    let append = rust("append");
    assert!(
        append.contains("pub unsafe fn append(") && append.contains("/// # Safety\n    /// - block `k_append` stores"),
        "{append}"
    );
    assert!(rust("masked").contains("pub fn masked("));
}

//! Rows that the blocks of a cluster share: odd, prime and tiny ones, each way of keeping a row.

use super::harness::*;
use super::row_texts::*;
use crate::common;
use crate::common::arm::{arm, ask, predicate};
use daylight::backend::Places;
use daylight::backend::nvrtc::{Nvrtc, find_nvrtc};
use daylight::codegen;
use daylight::interp::{self, Mode};
use daylight::ir;
use daylight::ir::kernel::Program;
use daylight::lower::lower;
use daylight::rules::{Arm, Knobs, Prepared, Space};
use daylight::sim;
use daylight::target::Target;
use rand::prelude::*;

const RULE: &str = "general_reduction.rows";

fn rows(input: &Prepared, target: &Target) -> Arm {
    arm(RULE, input, target)
}

fn knobs(cluster: i64, row: i64, vector: i64) -> Knobs {
    Knobs::from([
        ("row", row),
        ("threads", 32),
        ("rows", 1),
        ("cluster", cluster),
        ("vector", vector),
        ("unroll", 2),
        ("min_blocks", 1),
        ("hint", 0),
        ("relax", 0),
        ("online", 0),
    ])
}

/// Every way of keeping the row at 2, 4 and 8 blocks, where that is possible; how many points there are.
fn check_clusters(case: &Case) -> usize {
    let input = Prepared::new(&read(case)).unwrap_or_else(|d| panic!("{}: {}", case.name, d.reason.text));
    let target = target("cuda:sm_90a");
    let arm = rows(&input, &target);
    let space = &arm.space;
    let args = arguments(&input.func, case, &mut StdRng::seed_from_u64(5));
    let mut want = args.clone();
    interp::run(&input.func, &mut want, &Default::default(), Mode::F64)
        .unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let mut points = 0;
    for cluster in [2, 4, 8] {
        for row in 0..4 {
            let fits = |v: &&i64| space.possible(&knobs(cluster, row, **v)).is_ok();
            let Some(vector) = [16, 8, 4, 2].iter().find(fits) else { continue };
            for online in [0, 1] {
                let at = knobs(cluster, row, *vector).with("online", online);
                if space.possible(&at).is_ok() {
                    check_point(&arm, case, &input, &target, &at, &args, &want);
                    points += 1;
                }
            }
        }
    }
    points
}

#[test]
fn softmax_and_norms_over_clusters() {
    let cases = [
        (softmax(&["1", "64"], "float32", &[]), 3),
        (softmax(&["7", "133"], "float32", &[]), 6),
        (softmax(&["5", "263"], "bfloat16", &[]), 15),
        (softmax(&["2", "3", "1032"], "float16", &[]), 15),
        (rms_norm(&["3", "1000"], "bfloat16", &[]), 9),
        (layer_norm(&["2", "517"], "float32"), 9),
        (log_softmax(&["3", "258"]), 9),
        (log_sum_exp(&["5", "257"]), 9),
        (normalize(&["2", "264"]), 9),
    ];
    for (case, least) in cases {
        let points = check_clusters(&case);
        assert!(points >= least, "{}: {points} points", case.name);
    }
}

fn program(case: &Case, knobs: &Knobs, target: &Target) -> Program {
    let input = Prepared::new(&read(case)).unwrap_or_else(|d| panic!("{}: {}", case.name, d.reason.text));
    let arm = rows(&input, target);
    arm.space.possible(knobs).unwrap_or_else(|e| panic!("{}: {e:?}", case.name));
    let s = arm.schedule(knobs).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    lower(s.func(), target, &[]).unwrap_or_else(|e| panic!("{}: {e}", case.name))
}

#[test]
fn text_of_a_softmax_over_a_cluster() {
    let case = softmax(&["6", "1024"], "float32", &[]);
    let program = program(&case, &knobs(4, 1, 16), &target("cuda:sm_90a"));
    common::golden("golden/rules/softmax_cluster.cu", &codegen::cuda(&program));
    common::golden("golden/rules/softmax_cluster.kernel", &program.to_string());
}

#[test]
fn functions_of_the_corpus_lower_over_clusters() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads/normalization");
    let target = target("cuda:sm_90a");
    let mut lowered = 0;
    for path in common::scripts(&folder) {
        let text = std::fs::read_to_string(&path).expect("a script");
        let func = ir::read(&text, &path.display().to_string()).unwrap_or_else(|e| panic!("{e}")).remove(0);
        let Ok(input) = Prepared::new(&func) else { continue };
        let Ok(arm) = ask(RULE, &input, &target) else { continue };
        for (cluster, threads, row) in [(2, 128, 1), (4, 128, 2), (8, 256, 0), (4, 512, 3)] {
            let at = |vector| knobs(cluster, row, vector).with("threads", threads);
            let fits = |v: &&i64| arm.space.possible(&at(**v)).is_ok();
            let Some(vector) = [16, 8, 4, 2].iter().find(fits) else { continue };
            let at = at(*vector);
            let s = arm.schedule(&at).unwrap_or_else(|e| panic!("{} {at}: {e}", path.display()));
            lower(s.func(), &target, &[]).unwrap_or_else(|e| panic!("{} {at}: {e}", path.display()));
            lowered += 1;
        }
    }
    assert!(lowered >= 10, "{lowered} candidates");
}

#[test]
fn a_schedule_over_a_cluster_reads_back() {
    let case = softmax(&["6", "1024"], "float32", &[]);
    let (input, target) = (Prepared::new(&read(&case)).expect("a function"), target("cuda:sm_90a"));
    let s = rows(&input, &target).schedule(&knobs(4, 2, 16)).unwrap_or_else(|e| panic!("{e}"));
    let text = s.func().to_string();
    assert!(text.contains("T.thread_binding(4, thread=\"clusterCtaIdx.x\")"), "{text}");
    let again = ir::read(&text, "again").unwrap_or_else(|e| panic!("{e}\n{text}")).remove(0);
    assert_eq!(again.to_string(), text);
}

#[test]
fn a_sample_of_blocks_has_whole_clusters() {
    let case = softmax(&["6", "1024"], "float32", &[]);
    let program = program(&case, &knobs(4, 0, 16), &target("cuda:sm_90a"));
    let mut args = arguments(&read(&case), &case, &mut StdRng::seed_from_u64(5));
    for (most, blocks) in [(1, 4), (5, 8), (100, 24)] {
        let options = sim::SimOptions { max_blocks: Some(most), ..Default::default() };
        let report = sim::run(&program, &mut args, &Default::default(), &options).unwrap_or_else(|e| panic!("{e}"));
        let rows: std::collections::BTreeSet<u64> = report.written.values().flatten().map(|e| e / 1024).collect();
        assert_eq!((report.blocks, rows.len() as u64), (blocks, blocks / 4), "{most}");
    }
}

#[test]
fn clusters_compile_without_spills() {
    let places = Places::of(|name| std::env::var_os(name), None);
    let nvrtc = match find_nvrtc(&places).and_then(|path| Nvrtc::load(&path)) {
        Ok(nvrtc) => nvrtc,
        Err(why) => return common::skip(&why),
    };
    let case = softmax(&["512", "128256"], "bfloat16", &[]);
    for id in ["cuda:sm_90a", "cuda:sm_100a", "cuda:sm_120a"] {
        for (cluster, row, online) in [(4, 2, 0), (4, 1, 0), (8, 0, 0), (8, 3, 0), (2, 3, 1)] {
            let knobs = knobs(cluster, row, 16).with("threads", 512).with("online", online);
            let target = target(id);
            let cubin = nvrtc.cubin(&codegen::cuda(&program(&case, &knobs, &target)), id);
            let cubin = cubin.unwrap_or_else(|e| panic!("{id} {knobs}: {e}"));
            assert_eq!((cubin.res.spill, cubin.warnings), (0, vec![]), "{id} {knobs}");
        }
    }
}

#[test]
fn what_has_no_clusters_or_no_use_for_them_declines_them() {
    let input = |case: &Case| Prepared::new(&read(case)).unwrap_or_else(|d| panic!("{}: {}", case.name, d.reason.text));
    let long = softmax(&["512", "128256"], "bfloat16", &[]);
    let why = |space: &Space, k: &Knobs| space.check(k).map_err(predicate);
    let ada = rows(&input(&long), &target("cuda:sm_89")).space;
    let hopper = rows(&input(&long), &target("cuda:sm_90a")).space;
    let point = knobs(4, 1, 16).with("threads", 512).with("min_blocks", 2).with("unroll", 4);
    assert_eq!((why(&ada, &point), why(&hopper, &point)), (Err("cluster_fits"), Ok(())));
    let short = rows(&input(&softmax(&["65536", "4096"], "bfloat16", &[])), &target("cuda:sm_90a")).space;
    let point = knobs(2, 1, 16).with("threads", 128).with("min_blocks", 8).with("unroll", 4);
    assert_eq!(why(&short, &point), Err("cluster_pays"));
    assert_eq!(short.possible(&point).map_err(predicate), Ok(()));
}

//! Intrinsics in the simulator: right kernels give what plain arithmetic gives, seeded mistakes are
//! named.

use crate::codegen_programs::*;
use crate::intrinsic_programs::*;
use daylight::interp::{Scalars, Tensor};
use daylight::ir::DType;
use daylight::ir::instr::{Instr, Op, Sync};
use daylight::ir::kernel::*;
use daylight::lower::verify_program;
use daylight::sim::{self, SimOptions};

fn run(case: &Case, seed: u64) -> Result<Tensor, String> {
    let mut args = case.args();
    let options = SimOptions { seed, ..SimOptions::default() };
    let result = sim::run(&case.program, &mut args, &Scalars::new(), &options);
    result.map_err(|e| e.to_string())?;
    Ok(args.pop().expect("an output"))
}

#[test]
fn right_kernels_give_the_results_of_plain_arithmetic() {
    for case in cases() {
        verify_program(&case.program, &target_of(case.sm)).unwrap_or_else(|e| panic!("{}: {e}", case.name()));
        for seed in 0..4 {
            let got = run(&case, seed).unwrap_or_else(|e| panic!("{e}"));
            case.check(&got);
        }
    }
}

/// The first error over several seeds, from the thread on.
fn fault(case: &Case) -> String {
    let errors = (0..8).filter_map(|seed| run(case, seed).err());
    let error = errors.into_iter().next().unwrap_or_else(|| "no error".to_string());
    error.split_once("at `").map_or(error.clone(), |(_, what)| format!("at `{what}"))
}

/// A case with another body, whose result does not matter.
fn with_body(case: Case, change: impl FnOnce(&mut Vec<KStmt>)) -> Case {
    let mut case = case;
    change(&mut case.program.launches[0].kernel.body);
    case
}

/// Removes the statements that print like this.
fn without(case: Case, head: &str) -> Case {
    with_body(case, |body| {
        let before = body.len();
        body.retain(|s| s.head() != head);
        assert!(body.len() < before, "no `{head}`");
    })
}

#[test]
fn a_missing_wait_is_found() {
    let no_wait = without(cp_async(4), "cp_async_wait 0");
    assert!(fault(&no_wait).contains("while an asynchronous copy to it is on its way"), "{}", fault(&no_wait));
    let too_early = with_body(two_groups(), |body| {
        let position = body.iter().position(|s| s.head() == "cp_async_wait 1").expect("a wait");
        body[position] = wait(2);
    });
    assert!(fault(&too_early).contains("while an asynchronous copy to it is on its way"), "{}", fault(&too_early));
    let at_end = with_body(cp_async(16), |body| body.truncate(2));
    assert_eq!(
        fault(&at_end),
        "at `cp_async16 s[threadIdx.x * 4] <- p0[threadIdx.x * 4] if threadIdx.x < 20 else 0`: \
         nothing waits for this copy to `s[0]` before the end"
            .replace("s[0]", &first_element(&fault(&at_end)))
    );
}

/// The element that a message names; which thread is first depends on the seed.
fn first_element(message: &str) -> String {
    message.split('`').find(|p| p.starts_with("s[") && !p.contains("thread")).unwrap_or_default().to_string()
}

#[test]
fn a_missing_barrier_after_a_wait_is_found() {
    let found = fault(&without(cp_async(4), "barrier block"));
    let read = "at `p1[i * 32 + threadIdx.x] = s[31 - (i * 32 + threadIdx.x)]`: read of `s[";
    assert!(found.starts_with(read), "{found}");
}

#[test]
fn a_write_during_a_copy_is_found() {
    let with = |place: &str, s: KStmt| {
        let mut case = with_body(two_groups(), |body| body.insert(1, s));
        for p in &mut case.program.launches[0].kernel.params {
            if let KernelParam::Pointer { name, written, .. } = p
                && name.as_str() == place
            {
                *written = true;
            }
        }
        case
    };
    let found = fault(&with("s", store("s", t(), f(3.0))));
    assert!(found.ends_with("was overwritten while an asynchronous copy to it was on its way"), "{found}");
    let mut case = with("p0", store("p0", t(), f(3.0)));
    case.program.params.truncate(2);
    let options = SimOptions { inout: vec!["p0".into()], ..SimOptions::default() };
    let error = sim::run(&case.program, &mut case.args(), &Scalars::new(), &options).expect_err("a fault").to_string();
    assert!(error.ends_with("was overwritten while an asynchronous copy from it was on its way"), "{error}");
}

#[test]
fn a_deadlock_is_found_with_what_is_missing() {
    let wait = "at `mbarrier_wait bar[0], parity 0`: deadlock: ";
    assert_eq!(
        fault(&arrivals(33)),
        format!("{wait}phase 0 of `bar[0]` still lacks 1 arrivals and 0 bytes, and no thread can go on")
    );
    let found = fault(&with_body(bulk_load(1, true), |body| {
        let KStmt::For { body, .. } = &mut body[2] else { panic!("a loop") };
        let KStmt::If { then, .. } = &mut body[0] else { panic!("a condition") };
        then.pop();
    }));
    assert!(found.ends_with("phase 0 of `bar[0]` still lacks 0 arrivals and 128 bytes, and no thread can go on"));
}

#[test]
fn misuse_of_barriers_in_shared_memory_is_found() {
    let one_more = with_body(arrivals(1), |body| {
        body.truncate(2);
        let expect = Instr::new(Sync::MbarrierExpect, [bar()], [c(16)]);
        body.push(first(vec![does(expect), does(Instr::new(Sync::MbarrierArrive, [bar()], []))]));
    });
    let found = fault(&one_more);
    assert_eq!(found, "at `mbarrier_arrive bar[0]`: `bar[0]` takes 1 arrivals in a phase, and this is one more");
    let uninitialised = fault(&with_body(arrivals(32), |body| drop(body.remove(0))));
    assert_eq!(uninitialised, "at `mbarrier_arrive bar[0]`: `bar[0]` is used before it is made a barrier");
    let unfenced = fault(&with_body(bulk_load(1, true), |body| {
        let KStmt::If { then, .. } = &mut body[0] else { panic!("a condition") };
        then.pop();
    }));
    assert!(unfenced.ends_with("so that a bulk copy may not see it"), "{unfenced}");
    let twice = with_body(arrivals(32), |body| {
        let KStmt::If { then, .. } = &mut body[0] else { panic!("a condition") };
        then.push(then[0].clone());
    });
    assert!(fault(&twice).ends_with("`bar[0]` is made a barrier a second time"));
}

#[test]
fn bytes_that_nobody_announced_are_found() {
    let found: Vec<String> = (0..16).filter_map(|seed| run(&bulk_load(2, false), seed).err()).collect();
    assert!(!found.is_empty());
}

#[test]
fn a_bulk_store_without_a_fence_is_found() {
    assert_eq!(
        fault(&bulk_store(false)),
        "at `bulk_store p1[0] <- s[0], 256 bytes`: asynchronous read of `s[0]`, \
         which was written with no asynchronous fence after it"
    );
    let no_wait = with_body(bulk_store(true), |body| {
        let Some(KStmt::If { then, .. }) = body.last_mut() else { panic!("a condition") };
        then.pop();
    });
    assert!(fault(&no_wait).ends_with("nothing waits for this copy to `p1[0]` before the end"));
}

#[test]
fn a_source_that_changes_before_a_bulk_store_has_read_it_is_found() {
    let changes = with_body(bulk_store(true), |body| {
        let Some(KStmt::If { then, .. }) = body.last_mut() else { panic!("a condition") };
        then.insert(2, store("s", c(5), f(9.0)));
    });
    let copy = "`bulk_store p1[0] <- s[0], 256 bytes`";
    let race = "at `s[5] = 9.0`: race: nothing orders this write of `s[5]` and the read by the asynchronous copy at";
    assert_eq!(fault(&changes), format!("{race} {copy}"));
}

fn bulk_of(place: i64, bytes: i64) -> String {
    fault(&with_body(bulk_store(true), |body| {
        let Some(KStmt::If { then, .. }) = body.last_mut() else { panic!("a condition") };
        then[0] = does(Instr::new(Op::BulkStore, [at("p1", c(0)), at("s", c(place))], [c(bytes)]));
    }))
}

#[test]
fn sizes_and_places_of_bulk_copies_are_checked() {
    assert!(bulk_of(0, 40).ends_with("a bulk copy of 40 bytes: the size has to be a positive multiple of 16"));
    assert!(bulk_of(2, 64).ends_with("an access of 4 elements of `s` at index 2, which is no multiple of 4"));
    assert!(bulk_of(4, 256).ends_with("index 64 lies outside `s`, which has 64 elements"));
}

#[test]
fn a_misaligned_row_of_a_matrix_is_found() {
    let case = with_body(ldmatrix(4, false), |body| {
        body[2] =
            does(Instr::new(Op::LdMatrix { count: 4, transpose: false }, [at("r", c(0)), at("s", t() * c(12))], []));
    });
    assert_eq!(
        fault(&case),
        "at `ldmatrix.x4 r[0] <- s[threadIdx.x * 12]`: an access of 8 elements of `s` at index 12, \
         which is no multiple of 8"
    );
}

#[test]
fn lanes_that_stay_away_are_found() {
    let case = with_body(ldmatrix(4, false), |body| {
        let load = body.remove(2);
        body.insert(2, if_(lt(t(), c(31)), vec![load]));
        body.truncate(3);
    });
    assert!(fault(&case).ends_with("divergent warp instruction: thread (31, 0, 0) has ended"), "{}", fault(&case));
    let half = with_body(named(), |body| {
        let KStmt::If { cond, .. } = &mut body[1] else { panic!("a condition") };
        *cond = lt(t(), c(48));
    });
    assert!(fault(&half).contains("divergent named barrier: "), "{}", fault(&half));
    let missing = with_body(named(), |body| {
        let KStmt::If { cond, .. } = &mut body[1] else { panic!("a condition") };
        *cond = lt(t(), c(32));
    });
    assert!(fault(&missing).contains("divergent named barrier: "), "{}", fault(&missing));
}

/// A producer warp fills two stages for a consumer warp, over barriers of both directions.
#[test]
fn a_pipeline_of_two_warps_runs() {
    let n = 32 * 6;
    let stage = || rem(v("k"), 2);
    let parity = || rem(div(v("k"), 2), 2);
    let full = || at("bar", stage());
    let empty = || at("bar", stage() + c(2));
    let wait = |bar, parity| does(Instr::new(Sync::MbarrierWait, [bar], [parity]));
    let produce = vec![
        wait(empty(), c(1) - parity()),
        does(Instr::new(Sync::MbarrierExpect, [full()], [c(128)])),
        does(Instr::new(Op::BulkLoad, [at("s", stage() * c(32)), at("p0", v("k") * c(32)), full()], [c(128)])),
    ];
    let consume = vec![
        wait(full(), parity()),
        store("p1", v("k") * c(32) + t() - c(32), ld("s", stage() * c(32) + c(63) - t())),
        does(Instr::new(Sync::MbarrierArrive, [empty()], [])),
    ];
    let init = |i: i64, arrivals| does(Instr::new(Sync::MbarrierInit { arrivals }, [at("bar", c(i))], []));
    let body = vec![
        first(vec![init(0, 1), init(1, 1), init(2, 32), init(3, 32), does(Instr::from(Sync::MbarrierFence))]),
        block_barrier(),
        KStmt::If {
            cond: lt(t(), c(32)),
            then: vec![first(vec![serial("k", 6, produce)])],
            otherwise: vec![serial("k", 6, consume)],
        },
    ];
    let arrays = vec![shared("s", DType::F32, 64), barriers(4)];
    let x = random(DType::F32, n, 8);
    let want = (0..n as usize).map(|i| x.get_f64(i / 32 * 32 + 31 - i % 32)).collect();
    let case = Case::new(one_block("pipeline", floats(n), arrays, body, 64), 90, vec![x], want);
    verify_program(&case.program, &target_of(case.sm)).expect("a right program");
    for seed in 0..8 {
        case.check(&run(&case, seed).unwrap_or_else(|e| panic!("{e}")));
    }
}

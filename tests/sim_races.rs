//! Races in the simulator: accesses that nothing orders are found whatever the order of threads, and
//! what barriers of any kind order is not accused.

use crate::codegen_programs::*;
use daylight::interp::{Scalars, Tensor};
use daylight::ir::instr::{At, Instr, Op, Sync};
use daylight::ir::kernel::*;
use daylight::ir::{BinOp, DType, Expr};
use daylight::sim::{self, SimOptions};

fn t() -> Expr {
    v("threadIdx.x")
}

/// `p0` and `p1` of 64 floats, `s` of 64 floats in shared memory.
fn over(blocks: i64, threads: u32, body: Vec<KStmt>) -> Program {
    let params = vec![input("p0", DType::F32, 64), output("p1", DType::F32, 64)];
    let bar = Array { name: "bar".into(), dtype: DType::U64, len: 2, scope: ArrayScope::Shared, align: 16 };
    program("k", kernel("k", params, vec![shared("s", DType::F32, 64), bar], body), blocks, threads, None)
}

fn does(i: Instr) -> KStmt {
    KStmt::Instr(i)
}

fn bar(i: i64) -> At {
    At::new(&"bar".into(), c(i))
}

/// What each of several seeds finds; all find something, or none.
fn found(p: &Program) -> Vec<String> {
    let run = |seed| {
        let mut args: Vec<Tensor> = p.params.iter().map(|_| Tensor::zeros(DType::F32, &[64])).collect();
        let options = SimOptions { seed, ..SimOptions::default() };
        sim::run(p, &mut args, &Scalars::new(), &options).err().map(|e| e.to_string())
    };
    let all: Vec<Option<String>> = (0..8).map(run).collect();
    let n = all.iter().flatten().count();
    assert!(n == 0 || n == all.len(), "some seeds find nothing: {all:?}");
    all.into_iter().flatten().collect()
}

fn clean(p: &Program) {
    assert_eq!(found(p).first(), None);
}

/// Every seed finds a race on an element of `array` and names all these statements, as one of the two.
fn raced(p: &Program, array: &str, statements: &[&str]) {
    let all = found(p);
    assert!(!all.is_empty(), "nothing was found");
    for text in all {
        let right = text.contains("race: nothing orders") && text.contains(&format!("of `{array}["));
        assert!(right && statements.iter().all(|s| text.contains(&format!("at `{s}`"))), "{text}");
    }
}

/// Writes by all, something in between, reads of what a thread 64 - t wrote.
fn mirrored(between: Vec<KStmt>) -> Vec<KStmt> {
    let mut body = vec![store("s", t(), ld("p0", t()))];
    body.extend(between);
    body.push(store("p1", t(), ld("s", c(63) - t())));
    body
}

#[test]
fn a_barrier_orders_a_block() {
    clean(&over(2, 32, vec![store("p1", v("blockIdx.x") * c(32) + t(), f(1.0))]));
    clean(&over(1, 64, mirrored(vec![block_barrier()])));
}

#[test]
fn overwriting_what_others_still_read_is_found() {
    let mut body = mirrored(vec![block_barrier()]);
    body.push(store("s", t(), f(2.0)));
    raced(&over(1, 64, body.clone()), "s", &["s[threadIdx.x] = 2.0", "p1[threadIdx.x] = s[63 - threadIdx.x]"]);
    body.insert(3, block_barrier());
    clean(&over(1, 64, body));
}

#[test]
fn the_same_value_twice_is_a_race() {
    let all = store("p1", c(3), f(1.0));
    raced(&over(1, 2, vec![all.clone()]), "p1", &["p1[3] = 1.0"]);
    clean(&over(1, 64, vec![if_(op(BinOp::Eq, t(), c(5)), vec![all])]));
}

#[test]
fn blocks_of_a_launch_have_no_order() {
    let overlapping = over(2, 33, vec![store("p1", v("blockIdx.x") * c(31) + t(), f(1.0))]);
    raced(&overlapping, "p1", &["p1[blockIdx.x * 31 + threadIdx.x] = 1.0"]);
    assert!(found(&overlapping)[0].contains("of block (0, 0, 0) at"), "{}", found(&overlapping)[0]);
    // Not even through a barrier of the blocks.
    let body = vec![
        if_(op(BinOp::Eq, v("blockIdx.x"), c(0)), vec![store("p1", t(), f(1.0))]),
        block_barrier(),
        if_(op(BinOp::Eq, v("blockIdx.x"), c(1)), vec![store("s", t(), ld("p1", t()))]),
    ];
    raced(&over(2, 32, body), "p1", &["s[threadIdx.x] = p1[threadIdx.x]", "p1[threadIdx.x] = 1.0"]);
}

#[test]
fn launches_have_an_order() {
    let write = over(1, 64, vec![store("p1", t(), f(1.0))]);
    let mut both = write.clone();
    both.launches.extend(over(1, 64, vec![store("p1", c(63) - t(), ld("p1", c(63) - t()) + f(1.0))]).launches);
    both.launches[1].kernel.symbol = "second".into();
    clean(&both);
}

#[test]
fn shuffles_order_no_memory_and_barriers_of_warps_do() {
    let within = |between: Vec<KStmt>| {
        let mut body = vec![var("x", DType::F32, None), store("s", t(), ld("p0", t()))];
        body.extend(between);
        body.push(store("p1", t(), ld("s", op(BinOp::BitXor, t(), c(1)))));
        over(1, 64, body)
    };
    clean(&within(vec![KStmt::Barrier(Barrier::Warp)]));
    raced(&within(vec![shuffle_xor("x", 1, f(1.0))]), "s", &["s[threadIdx.x] = p0[threadIdx.x]"]);
    let across = over(1, 64, mirrored(vec![KStmt::Barrier(Barrier::Warp)]));
    assert!(!found_some(&across).is_empty());
}

/// What some seed finds, where a read may also come before the write.
fn found_some(p: &Program) -> String {
    let mut args = vec![Tensor::zeros(DType::F32, &[64]), Tensor::zeros(DType::F32, &[64])];
    sim::run(p, &mut args, &Scalars::new(), &SimOptions::default()).err().map(|e| e.to_string()).unwrap_or_default()
}

#[test]
fn a_named_barrier_orders_those_that_meet_there() {
    let named = |threads| KStmt::Barrier(Barrier::Named { id: 1, threads });
    clean(&over(1, 64, mirrored(vec![named(64)])));
    // Two warps meet, the third reads without them.
    let meet = if_(lt(t(), c(64)), vec![store("s", t(), f(1.0)), named(64)]);
    let read = |from| if_(lt(c(63), t()), vec![store("p1", t() - c(64), ld("s", t() - c(from)))]);
    let p = over(1, 96, vec![meet.clone(), read(64)]);
    assert!(found_some(&p).contains("s["), "{}", found_some(&p));
    clean(&over(1, 96, vec![meet, block_barrier(), read(64)]));
}

/// Half of the threads write and arrive, the others wait and read, then both swap.
fn handed_over(back: bool) -> Program {
    let wait = |n| does(Instr::new(Sync::MbarrierWait, [bar(n)], [c(0)]));
    let arrive = |n| does(Instr::new(Sync::MbarrierArrive, [bar(n)], []));
    let init = |n| does(Instr::new(Sync::MbarrierInit { arrivals: 32 }, [bar(n)], []));
    let mut first = vec![store("s", t(), ld("p0", t())), arrive(0)];
    if back {
        first.push(wait(1));
    }
    first.push(store("s", t(), f(2.0)));
    let second = vec![wait(0), store("p1", t() - c(32), ld("s", c(63) - t())), arrive(1)];
    let body = vec![
        if_(op(BinOp::Eq, t(), c(0)), vec![init(0), init(1)]),
        block_barrier(),
        KStmt::If { cond: lt(t(), c(32)), then: first, otherwise: second },
    ];
    over(1, 64, body)
}

#[test]
fn phases_order_those_that_arrive_before_those_that_wait() {
    clean(&handed_over(true));
    raced(&handed_over(false), "s", &["s[threadIdx.x] = 2.0", "p1[threadIdx.x - 32] = s[63 - threadIdx.x]"]);
}

/// A bulk load of 128 bytes that thread 0 waits for, and all others after it.
fn bulk(all_wait: bool) -> Program {
    let wait = does(Instr::new(Sync::MbarrierWait, [bar(0)], [c(0)]));
    let start = vec![
        does(Instr::new(Sync::MbarrierInit { arrivals: 1 }, [bar(0)], [])),
        does(Instr::from(Sync::MbarrierFence)),
        does(Instr::new(Sync::MbarrierExpect, [bar(0)], [c(128)])),
        does(Instr::new(Op::BulkLoad, [At::new(&"s".into(), c(0)), At::new(&"p0".into(), c(0)), bar(0)], [c(128)])),
        wait.clone(),
    ];
    let mut body = vec![if_(op(BinOp::Eq, t(), c(0)), start), KStmt::Barrier(Barrier::Warp)];
    if all_wait {
        body.push(wait);
    }
    body.push(store("p1", t(), ld("s", t())));
    over(1, 32, body)
}

#[test]
fn a_copy_by_the_bulk_is_known_by_its_barrier() {
    clean(&bulk(true));
    // Thread 0 waited, and passes on what it knows.
    clean(&bulk(false));
    let mut p = bulk(false);
    let KStmt::If { then, .. } = &mut p.launches[0].kernel.body[0] else { panic!("a condition") };
    then.pop();
    let text = found_some(&p);
    assert!(text.contains("at `p1[threadIdx.x] = s[threadIdx.x]`") && text.contains("asynchronous copy"), "{text}");
}

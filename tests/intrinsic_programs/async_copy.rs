//! Asynchronous copies, barriers in shared memory, named barriers.

use super::*;

pub fn async_cases() -> Vec<Case> {
    let mut all: Vec<Case> = [4, 8, 16].map(cp_async).into_iter().collect();
    all.extend([two_groups(), arrivals(32), named(), bulk_load(2, true), bulk_store(true), cp_async_arrive()]);
    all
}

pub fn cp(dst: Expr, src: Expr, bytes: u32, valid: Option<Expr>) -> KStmt {
    does(Instr::cp_async(at("s", dst), at("p0", src), bytes, valid, None))
}

pub fn commit() -> KStmt {
    does(Instr::from(Sync::CpAsyncCommit))
}

pub fn wait(left: u32) -> KStmt {
    does(Instr::from(Sync::CpAsyncWait { left }))
}

/// A number of float32 elements.
pub fn floats(n: i64) -> Vec<KernelParam> {
    vec![input("p0", DType::F32, n), output("p1", DType::F32, n)]
}

/// Each thread copies `bytes`, threads past 20 zeros, since the input ends there; all reads are of
/// another thread's part.
pub fn cp_async(bytes: u32) -> Case {
    let (lanes, name) = (i64::from(bytes / 4), format!("cp_async_{bytes}"));
    let n = 32 * lanes;
    let mut body = vec![cp(t() * c(lanes), t() * c(lanes), bytes, Some(lt(t(), c(20)))), commit(), wait(0)];
    body.push(block_barrier());
    let place = || v("i") * c(32) + t();
    body.push(serial("i", lanes, vec![store("p1", place(), ld("s", c(n - 1) - place()))]));
    let x = random(DType::F32, 20 * lanes, 6);
    let value = |i: i64| {
        let from = n - 1 - i;
        if from < 20 * lanes { x.get_f64(from as usize) } else { 0.0 }
    };
    let want = (0..n).map(value).collect();
    let arrays = vec![shared("s", DType::F32, n as u32)];
    let params = vec![input("p0", DType::F32, 20 * lanes), output("p1", DType::F32, n)];
    Case::new(one_block(&name, params, arrays, body, 32), 80, vec![x], want)
}

/// Two groups in flight; the older one is used while the newer is pending.
pub fn two_groups() -> Case {
    let group = |s: i64| [cp(t() + c(32 * s), t() + c(32 * s), 4, None), commit()];
    let mut body: Vec<KStmt> = group(0).into_iter().chain(group(1)).collect();
    for s in 0..2 {
        body.extend([wait(1 - s as u32), block_barrier(), store("p1", t() + c(32 * s), ld("s", c(32 * s + 31) - t()))]);
    }
    let x = random(DType::F32, 64, 6);
    let want = (0..64).map(|i: usize| x.get_f64(i / 32 * 32 + 31 - i % 32)).collect();
    Case::new(one_block("two_groups", floats(64), vec![shared("s", DType::F32, 64)], body, 32), 80, vec![x], want)
}

pub fn bar() -> At {
    at("bar", c(0))
}

/// The words of barriers.
pub fn barriers(n: u32) -> Array {
    shared("bar", DType::U64, n)
}

/// A barrier in shared memory that `expected` arrivals complete, as a barrier of 32 threads, twice.
pub fn arrivals(expected: u32) -> Case {
    let round = |parity: i64, read: KStmt| {
        vec![
            does(Instr::new(Sync::MbarrierArrive, [bar()], [])),
            does(Instr::new(Sync::MbarrierWait, [bar()], [c(parity)])),
            read,
        ]
    };
    let mut body = vec![
        first(vec![does(Instr::new(Sync::MbarrierInit { arrivals: expected }, [bar()], []))]),
        block_barrier(),
        store("s", t(), ld("p0", t())),
    ];
    body.extend(round(0, let_("x", ld("s", c(31) - t()))));
    body.extend(round(1, store("s", t(), fv("x") + f(1.0))));
    body.extend(round(0, store("p1", t(), ld("s", rem(t() + c(1), 32)))));
    let x = random(DType::F32, 32, 6);
    let want = (0..32).map(|i: usize| f64::from(x.get_f64(31 - (i + 1) % 32) as f32 + 1.0)).collect();
    let arrays = vec![shared("s", DType::F32, 32), barriers(1)];
    Case::new(one_block("arrivals", floats(32), arrays, body, 32), 80, vec![x], want)
}

/// Four warps; two pairs of them meet at barriers of their own.
pub fn named() -> Case {
    let meet = |id| vec![KStmt::Barrier(Barrier::Named { id, threads: 64 })];
    let body = vec![
        store("s", t(), ld("p0", t())),
        KStmt::If { cond: lt(t(), c(64)), then: meet(1), otherwise: meet(2) },
        store("p1", t(), ld("s", div(t(), 64) * c(64) + c(63) - rem(t(), 64))),
    ];
    let x = random(DType::F32, 128, 6);
    let want = (0..128).map(|i: usize| x.get_f64(i / 64 * 64 + 63 - i % 64)).collect();
    Case::new(one_block("named", floats(128), vec![shared("s", DType::F32, 128)], body, 128), 80, vec![x], want)
}

/// `steps` copies of 128 bytes through one place, counted on a barrier. `expect` false forgets to
/// say how many bytes come.
pub fn bulk_load(steps: i64, expect: bool) -> Case {
    let bytes = || c(128);
    let arrive = if expect {
        Instr::new(Sync::MbarrierExpect, [bar()], [bytes()])
    } else {
        Instr::new(Sync::MbarrierArrive, [bar()], [])
    };
    let load = Instr::new(Op::BulkLoad, [at("s", c(0)), at("p0", v("k") * c(32)), bar()], [bytes()]);
    let step = vec![
        first(vec![does(arrive), does(load)]),
        does(Instr::new(Sync::MbarrierWait, [bar()], [rem(v("k"), 2)])),
        store("p1", v("k") * c(32) + t(), ld("s", c(31) - t())),
        block_barrier(),
    ];
    let body = vec![
        first(vec![
            does(Instr::new(Sync::MbarrierInit { arrivals: 1 }, [bar()], [])),
            does(Instr::from(Sync::MbarrierFence)),
        ]),
        block_barrier(),
        serial("k", steps, step),
    ];
    let n = 32 * steps;
    let x = random(DType::F32, n, 6);
    let want = (0..n as usize).map(|i| x.get_f64(i / 32 * 32 + 31 - i % 32)).collect();
    let arrays = vec![shared("s", DType::F32, 32), barriers(1)];
    Case::new(one_block("bulk_load", floats(n), arrays, body, 32), 90, vec![x], want)
}

/// 256 bytes from shared to global memory by one thread.
pub fn bulk_store(fence: bool) -> Case {
    let mut body = vec![store("s", t(), ld("p0", c(63) - t()) * f(2.0))];
    if fence {
        body.push(does(Instr::from(Sync::AsyncFence)));
    }
    body.extend([
        block_barrier(),
        first(vec![
            does(Instr::new(Op::BulkStore, [at("p1", c(0)), at("s", c(0))], [c(256)])),
            does(Instr::from(Sync::BulkCommit)),
            does(Instr::from(Sync::BulkWait { left: 0, read: false })),
        ]),
    ]);
    let x = random(DType::F32, 64, 6);
    let want = (0..64).map(|i: usize| f64::from(x.get_f64(63 - i) as f32 * 2.0)).collect();
    Case::new(one_block("bulk_store", floats(64), vec![shared("s", DType::F32, 64)], body, 64), 90, vec![x], want)
}

//! Intrinsics on their way down: loops over their registers are unrolled, and what is wrong with them
//! is refused with a sentence.

use crate::codegen_programs::*;
use crate::common;
use crate::intrinsic_programs::*;
use daylight::ir::device::{DFor, DKind, DStmt, DeviceFunc};
use daylight::ir::instr::{Fold, Instr, MmaShape, Op, PackedOp, Rounding, Sync};
use daylight::ir::kernel::*;
use daylight::ir::{Buffer, DType, Expr, Param, PrimFunc, Scope};
use daylight::lower::{lower_device, verify_program};
use daylight::target::{HostCpu, Target};
use std::collections::BTreeMap;

fn buffer(name: &str, dtype: DType, len: i64, scope: Scope) -> Buffer {
    Buffer::new(name.into(), dtype, vec![Expr::i64(len)], scope)
}

#[test]
fn a_loop_over_the_registers_of_an_instruction_is_unrolled() {
    let i = || Expr::var("i", DType::I64);
    let x = || Expr::var("threadIdx.x", DType::I64);
    let load = |e: Expr| Expr::load("p0", vec![e], DType::F32);
    let pair = |name: &str| at(name, i() * Expr::i64(2));
    let serial = |body| DStmt::For(DFor::new("i".into(), Expr::i64(4), DKind::Serial, body));
    let add = Op::Packed { op: PackedOp::Add, rounding: Rounding::Nearest, ftz: false };
    let add = Instr::new(add, [pair("r"), pair("r"), pair("r")], []);
    let cast = Instr::new(Op::CastPair, [pair("h"), pair("r")], []);
    let body = vec![
        serial(vec![
            DStmt::store("r".into(), vec![i() * Expr::i64(2)], load(x() * Expr::i64(8) + i())),
            DStmt::store(
                "r".into(),
                vec![i() * Expr::i64(2) + Expr::i64(1)],
                load(x() * Expr::i64(8) + i() + Expr::i64(4)),
            ),
        ]),
        DStmt::For(DFor::new("k".into(), Expr::i64(2), DKind::Serial, vec![serial(vec![DStmt::Instr(add)])])),
        serial(vec![DStmt::Instr(cast)]),
    ];
    let func = PrimFunc {
        name: "pairs".into(),
        private: false,
        params: vec![Param::Buffer("p0".into())],
        buffers: vec![
            buffer("p0", DType::F32, 256, Scope::Global),
            buffer("r", DType::F32, 8, Scope::Local),
            buffer("h", DType::BF16, 8, Scope::Local),
        ],
        extents: vec![],
        attrs: vec![],
        allocs: vec![],
        body: vec![],
        display: BTreeMap::new(),
    };
    let one = || Expr::i64(1);
    let f = DeviceFunc { func, grid: [one(), one(), one()], block: [32, 1, 1], body };
    let target = Target::parse("cuda:sm_100a", &HostCpu::default()).expect("a target");
    let (program, _) = lower_device(&f, &target).unwrap_or_else(|e| panic!("{e}"));
    common::golden("golden/intrinsics/unrolled.txt", &program.to_string());
}

/// A block of 64 threads with arrays of every kind.
fn verdict(body: Vec<KStmt>) -> String {
    let params = vec![input("p0", DType::F32, 4096), output("p1", DType::F32, 4096), input("p2", DType::BF16, 64)];
    let arrays = vec![
        registers("r", DType::F32, 8, 8),
        registers("low", DType::F32, 8, 4),
        registers("h", DType::BF16, 8, 4),
        registers("n", DType::I32, 8, 4),
        shared("s", DType::F32, 1024),
        shared("sh", DType::BF16, 1024),
        shared("bar", DType::U64, 2),
    ];
    let p = program("small", kernel("small", params, arrays, body), 1, 64, None);
    match verify_program(&p, &target_of(100)) {
        Ok(()) => "right".into(),
        Err(e) => e.to_string(),
    }
}

fn one(i: Instr) -> String {
    verdict(vec![does(i)])
}

fn add(dst: &str, index: i64) -> Instr {
    let op = Op::Packed { op: PackedOp::Add, rounding: Rounding::Nearest, ftz: true };
    Instr::new(op, [at(dst, c(index)), at("r", c(0)), at("r", c(2))], [])
}

fn cp16(dst: Expr, src: Expr, bytes: u32) -> Instr {
    Instr::cp_async(at("s", dst), at("p0", src), bytes, None, None)
}

fn load(array: &str, index: Expr, transpose: bool) -> Instr {
    Instr::new(Op::LdMatrix { count: 4, transpose }, [at("h", c(0)), at(array, index)], [])
}

fn multiply(sum: &str) -> Instr {
    let x = |name: &str| at(name, c(0));
    Instr::new(Op::Mma(MmaShape::M16N8K16BF16), [x(sum), x("h"), x("h"), x(sum)], [])
}

fn bulk(index: Expr, bytes: i64) -> Instr {
    Instr::new(Op::BulkLoad, [at("s", index), at("p0", c(0)), bar()], [c(bytes)])
}

#[test]
fn right_operands_are_accepted() {
    let all = [
        add("r", 4),
        cp16(t() * c(4), v("blockIdx.x") * c(64) + t() * c(4), 16),
        load("sh", t() * c(8), true),
        multiply("r"),
        bulk(c(16), 1024),
        Instr::new(Sync::MbarrierWait, [at("bar", c(1))], [c(0)]),
        Instr::new(Op::Fold3(Fold::Max), [at("r", c(1))], [f(1.0), f(2.0), f(3.0)]),
    ];
    for i in all {
        assert_eq!(one(i.clone()), "right", "{i}");
    }
}

#[test]
fn wrong_operands_are_refused() {
    let texts: Vec<String> = [
        add("r", 1),
        add("low", 0),
        add("n", 0),
        add("s", 0),
        Instr::new(Op::CastPair, [at("n", c(0)), at("r", c(0))], []),
        Instr::new(Op::Halves, [at("h", c(0))], [f(1.0)]),
        Instr::new(Op::Pin, [at("n", c(0))], []),
        cp16(t(), t(), 16),
        cp16(t() * c(4), t() * c(4), 12),
        Instr::cp_async(at("r", c(0)), at("p0", c(0)), 4, None, None),
        load("s", t() * c(8), false),
        load("sh", t() * c(4), false),
        load("p2", t() * c(8), false),
        multiply("n"),
        bulk(c(2), 64),
        bulk(c(0), 40),
        Instr::new(Op::BulkStore, [at("p0", c(0)), at("s", c(0))], [c(64)]),
        Instr::new(Sync::MbarrierArrive, [at("s", c(0))], []),
        Instr::new(Sync::MbarrierInit { arrivals: 0 }, [bar()], []),
        Instr::new(Sync::MbarrierWait, [bar()], [f(1.0)]),
        Instr::new(Op::TensorStore { map: "map".into() }, [at("s", c(0))], [c(0)]),
    ]
    .into_iter()
    .map(|i| {
        let error = one(i.clone());
        let why = error.strip_suffix(&format!(", in `{i}`"));
        format!("{i}\n  {}\n", why.unwrap_or_else(|| panic!("no statement: {error}")))
    })
    .collect();
    common::golden("golden/intrinsics/refused.txt", &texts.concat());
}

#[test]
fn a_generation_has_no_later_instructions() {
    let before = [(89, 86), (90, 89), (100, 90), (120, 103)];
    for case in cases() {
        let Some((_, sm)) = before.iter().find(|(since, _)| *since == case.sm) else { continue };
        let error = verify_program(&case.program, &target_of(*sm)).expect_err(case.name()).to_string();
        let why = format!("it takes compute capability {} or above, and the kernel is for {sm}", case.sm);
        assert!(error.contains(&why), "{}: {error}", case.name());
    }
}

#[test]
fn the_innermost_statement_shows() {
    let store = store("p1", t(), f(1.0) + ld("missing", c(0)));
    let error = verdict(vec![first(vec![serial("k", 2, vec![store])])]);
    let text = "cannot lower `missing` (verify): the array is not declared, in `p1[threadIdx.x] = 1.0 + missing[0]`";
    assert_eq!(error, text);
}

#[test]
fn a_cpu_has_no_such_instructions() {
    let cpu = Target::parse("cpu:x86-64-v3", &HostCpu::default()).expect("a target");
    let body = vec![does(Instr::from(Sync::CpAsyncCommit))];
    let p = program("small", kernel("small", vec![], vec![], body), 1, 1, None);
    let error = verify_program(&p, &cpu).map_err(|e| e.to_string());
    let text =
        "cannot lower `instruction` (verify): it is for a GPU, and the kernel is for a CPU, in `cp_async_commit`";
    assert_eq!(error, Err(text.to_string()));
}

#[test]
fn conditions_that_a_warp_shares_may_hold_what_it_does_together() {
    let warp = || div(t(), 32);
    let shared: [Expr; 8] = [
        lt(t(), c(32)),
        op(daylight::ir::BinOp::Ge, t(), c(32)),
        op(daylight::ir::BinOp::Gt, t(), c(31)),
        op(daylight::ir::BinOp::Le, t(), c(31)),
        eq(warp(), 1),
        lt(div(t() + c(32), 64), c(1)),
        lt(t(), v("blockIdx.x") * c(32)),
        op(daylight::ir::BinOp::And, lt(v("blockIdx.x"), c(3)), eq(warp(), 0)),
    ];
    let own = [lt(t(), c(33)), eq(t(), 0), eq(rem(t(), 32), 0), lt(t(), v("blockIdx.x")), eq(div(t(), 16), 0)];
    let shuffle = || vec![var("y", DType::F32, None), shuffle_xor("y", 1, f(1.0))];
    let named = || vec![KStmt::Barrier(Barrier::Named { id: 1, threads: 32 })];
    let bodies = || [vec![does(multiply("r"))], shuffle(), named(), vec![KStmt::Barrier(Barrier::Warp)]];
    for cond in shared {
        for body in bodies() {
            assert_eq!(verdict(vec![if_(cond.clone(), body)]), "right", "{cond:?}");
        }
        let bound = vec![let_("w", cond.clone()), if_(Expr::var("w", DType::Bool), named())];
        assert_eq!(verdict(bound), "right", "{cond:?}");
        assert!(verdict(vec![if_(cond, vec![block_barrier()])]).contains("that its threads do not share"));
    }
    for cond in own {
        for body in bodies() {
            let text = verdict(vec![if_(cond.clone(), body)]);
            assert!(text.contains("stands under a condition that its"), "{cond:?}: {text}");
        }
        assert_eq!(verdict(vec![if_(cond, vec![does(bulk(c(0), 64))])]), "right");
    }
}

#[test]
fn named_barriers_have_a_number_and_whole_warps() {
    for (id, threads) in [(0, 32), (16, 32), (1, 33), (1, 128), (1, 0)] {
        let text = verdict(vec![KStmt::Barrier(Barrier::Named { id, threads })]);
        assert!(text.contains(&format!("barrier {id} of {threads} threads: expected a number from 1 to 15")), "{text}");
    }
    assert_eq!(verdict(vec![KStmt::Barrier(Barrier::Named { id: 15, threads: 64 })]), "right");
}

//! Intrinsics on their way down: loops over their registers are unrolled, and what is wrong with them
//! is refused with a sentence.

use crate::codegen_programs::*;
use crate::common;
use crate::intrinsic_programs::*;
use daylight::ir::device::{DFor, DKind, DStmt, DeviceFunc};
use daylight::ir::intrinsic::{Fold, Intrinsic, MmaShape, PackedOp, Rounding};
use daylight::ir::kernel::*;
use daylight::ir::{Buffer, DType, Expr, Param, PrimFunc, Scope};
use daylight::lower::{lower_device, verify_program};
use daylight::target::{HostCpu, Kind, Target};
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
    let add = Intrinsic::Packed {
        op: PackedOp::Add,
        rounding: Rounding::Nearest,
        ftz: false,
        dst: pair("r"),
        a: pair("r"),
        b: pair("r"),
        c: None,
    };
    let cast = Intrinsic::CastPair { dst: pair("h"), src: pair("r") };
    let body = vec![
        serial(vec![
            DStmt::store("r".into(), vec![i() * Expr::i64(2)], load(x() * Expr::i64(8) + i())),
            DStmt::store(
                "r".into(),
                vec![i() * Expr::i64(2) + Expr::i64(1)],
                load(x() * Expr::i64(8) + i() + Expr::i64(4)),
            ),
        ]),
        DStmt::For(DFor::new("k".into(), Expr::i64(2), DKind::Serial, vec![serial(vec![DStmt::Intrinsic(add)])])),
        serial(vec![DStmt::Intrinsic(cast)]),
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
    match verify_program(&p, Kind::Cuda) {
        Ok(()) => "right".into(),
        Err(e) => e.to_string(),
    }
}

fn one(i: Intrinsic) -> String {
    verdict(vec![does(i)])
}

fn add(dst: &str, index: i64) -> Intrinsic {
    let (dst, a, b) = (at(dst, c(index)), at("r", c(0)), at("r", c(2)));
    Intrinsic::Packed { op: PackedOp::Add, rounding: Rounding::Nearest, ftz: true, dst, a, b, c: None }
}

fn cp16(dst: Expr, src: Expr, bytes: u32) -> Intrinsic {
    Intrinsic::CpAsync { dst: at("s", dst), src: at("p0", src), bytes, valid: None, prefetch: None }
}

fn load(array: &str, index: Expr, transpose: bool) -> Intrinsic {
    Intrinsic::LdMatrix { dst: at("h", c(0)), src: at(array, index), count: 4, transpose }
}

fn multiply(sum: &str) -> Intrinsic {
    let x = |name: &str| at(name, c(0));
    Intrinsic::Mma { shape: MmaShape::M16N8K16BF16, d: x(sum), a: x("h"), b: x("h"), c: x(sum) }
}

fn bulk(index: Expr, bytes: i64) -> Intrinsic {
    Intrinsic::BulkLoad { dst: at("s", index), src: at("p0", c(0)), bytes: c(bytes), bar: bar() }
}

#[test]
fn right_operands_are_accepted() {
    let all = [
        add("r", 4),
        cp16(t() * c(4), v("blockIdx.x") * c(64) + t() * c(4), 16),
        load("sh", t() * c(8), true),
        multiply("r"),
        bulk(c(16), 1024),
        Intrinsic::MbarrierWait { bar: at("bar", c(1)), parity: c(0) },
        Intrinsic::Fold3 { op: Fold::Max, dst: at("r", c(1)), a: f(1.0), b: f(2.0), c: f(3.0) },
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
        Intrinsic::CastPair { dst: at("n", c(0)), src: at("r", c(0)) },
        Intrinsic::Halves { dst: at("h", c(0)), word: f(1.0) },
        Intrinsic::Pin { pair: at("r", c(0)) },
        cp16(t(), t(), 16),
        cp16(t() * c(4), t() * c(4), 12),
        Intrinsic::CpAsync { dst: at("r", c(0)), src: at("p0", c(0)), bytes: 4, valid: None, prefetch: None },
        load("s", t() * c(8), false),
        load("sh", t() * c(4), false),
        load("p2", t() * c(8), false),
        multiply("n"),
        bulk(c(2), 64),
        bulk(c(0), 40),
        Intrinsic::BulkStore { dst: at("p0", c(0)), src: at("s", c(0)), bytes: c(64) },
        Intrinsic::MbarrierArrive { bar: at("s", c(0)) },
        Intrinsic::MbarrierInit { bar: bar(), arrivals: 0 },
        Intrinsic::MbarrierWait { bar: bar(), parity: f(1.0) },
        Intrinsic::TensorStore { map: "map".into(), coords: vec![c(0)], src: at("s", c(0)) },
    ]
    .into_iter()
    .map(|i| format!("{i}\n  {}\n", one(i.clone())))
    .collect();
    common::golden("golden/intrinsics/refused.txt", &texts.concat());
}

#[test]
fn a_cpu_has_no_such_instructions() {
    let body = vec![does(Intrinsic::CpAsyncCommit)];
    let p = program("small", kernel("small", vec![], vec![], body), 1, 1, None);
    let error = verify_program(&p, Kind::Cpu).map_err(|e| e.to_string());
    let text = "cannot lower `instruction` (verify): `cp_async_commit` is for a GPU, and the kernel is for a CPU";
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

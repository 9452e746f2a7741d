//! The right kernels that bugs are sown into, and the ways to change them.

use crate::codegen_programs::map_own_exprs;
use daylight::assemble::Schedulable;
use daylight::ir::instr::{Instr, Op, Sync};
use daylight::ir::kernel::{KStmt, Program};
use daylight::ir::{self, DType, DeviceFunc, Expr, ExprKind, Function};
use daylight::lower::lower_device;
use daylight::rules::Spaces;
use daylight::target::{HostCpu, Target};
use daylight::tune::reference::{Given, expected};
use daylight::tune::{problem, program, simulate};
use std::collections::BTreeMap;

const ROW_SUMS: &str = "@T.prim_func(s_tir=True)
def row_sums(A: T.Buffer((5, 1031), \"float32\"), B: T.Buffer((5,), \"float32\")):
    for i, k in T.grid(5, 1031):
        with T.sblock(\"B\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                B[vi] = T.float32(0.0)
            B[vi] = B[vi] + A[vi, vk]
";

const COLUMN_SUMS: &str = "@T.prim_func(s_tir=True)
def column_sums(A: T.Buffer((1031, 53), \"float32\"), B: T.Buffer((53,), \"float32\")):
    for i, k in T.grid(53, 1031):
        with T.sblock(\"B\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                B[vi] = T.float32(0.0)
            B[vi] = B[vi] + A[vk, vi]
";

const FULL_SUM: &str = "@T.prim_func(s_tir=True)
def full_sum(A: T.Buffer((65537,), \"float32\"), B: T.Buffer((), \"float32\")):
    for k in range(65537):
        with T.sblock(\"B\"):
            vk = T.axis.reduce(65537, k)
            with T.init():
                B[()] = T.float32(0.0)
            B[()] = B[()] + A[vk]
";

const TRANSPOSED: &str = "@T.prim_func(s_tir=True)
def transposed(A: T.Buffer((70, 45), \"float32\"), B: T.Buffer((45, 70), \"float32\")):
    for i, j in T.grid(45, 70):
        with T.sblock(\"B\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            B[vi, vj] = A[vj, vi]
";

/// Row sums with two stages of shared memory that `cp.async` fills one step ahead.
const STAGED: &str = "@T.prim_func
def staged(x: T.handle, y: T.handle):
    A = T.match_buffer(x, (32, 64), \"float32\")
    B = T.match_buffer(y, (32,), \"float32\")
    T.device_entry(); bx = T.cta_id([2]); tx = T.thread_id([64])
    rows = T.alloc_buffer((2, 4, 64), \"float32\", scope=\"shared\")
    sums = T.alloc_buffer((16,), \"float32\", scope=\"shared\")
    Tx.cta.copy_async(rows[0, 0:4, 0:64], A[bx * 16:bx * 16 + 4, 0:64])
    T.ptx.cp_async.commit_group()
    for i in T.serial(4):
        if i < 3:
            Tx.cta.copy_async(rows[(i + 1) % 2, 0:4, 0:64], A[bx * 16 + i * 4 + 4:bx * 16 + i * 4 + 8, 0:64])
        T.ptx.cp_async.commit_group()
        T.ptx.cp_async.wait_group(1)
        T.cuda.cta_sync()
        Tx.cta.sum(sums[i * 4:i * 4 + 4], rows[i % 2, 0:4, 0:64], axes=(-1,))
        T.cuda.cta_sync()
    Tx.cta.copy(B[bx * 16:bx * 16 + 16], sums)
";

/// A row of which goes to the two blocks of a cluster.
const NORMALIZED: &str = "@T.prim_func(s_tir=True)
def normalized(A: T.Buffer((3, 200), \"float32\"), B: T.Buffer((3, 200), \"float32\")):
    most = T.sblock_alloc_buffer((3,))
    total = T.sblock_alloc_buffer((3,))
    for i, k in T.grid(3, 200):
        with T.sblock(\"most\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                most[vi] = T.float32(-3.0e38)
            most[vi] = T.max(most[vi], A[vi, vk])
    for i, k in T.grid(3, 200):
        with T.sblock(\"total\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                total[vi] = T.float32(0.0)
            total[vi] = total[vi] + (A[vi, vk] - most[vi])
    for i, k in T.grid(3, 200):
        with T.sblock(\"B\"):
            vi, vk = T.axis.remap(\"SS\", [i, k])
            B[vi, vk] = A[vi, vk] / total[vi]
";

/// What a kernel is made from and compared with.
enum From {
    Rule(Box<Schedulable>),
    Tile(Box<DeviceFunc>),
}

const WORDS: &str = "@T.prim_func(s_tir=True)
def words(X: T.Buffer((33, 1024), \"float16\"), W: T.Buffer((64, 128), \"uint32\"), S: T.Buffer((64, 8), \"float16\"), O: T.Buffer((33, 64), \"float32\")):
    for i, j, k in T.grid(33, 64, 1024):
        with T.sblock(\"O\"):
            vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])
            with T.init():
                O[vi, vj] = T.float32(0.0)
            O[vi, vj] = O[vi, vj] + T.Cast(\"float32\", X[vi, vk]) * T.Cast(\"float32\", (T.Cast(\"float16\", W[vj, vk // 8] >> T.Cast(\"uint32\", vk % 8 * 4) & T.uint32(15)) - T.float16(7.0)) * S[vj, vk // 128])
";

/// A product of whose rows two tiles take the same columns.
const NEIGHBOURS: &str = "@T.prim_func(s_tir=True)
def neighbours(A: T.Buffer((128, 328), \"float16\"), B: T.Buffer((64, 328), \"float16\"), O: T.Buffer((128, 64), \"float32\")):
    for i, j, k in T.grid(128, 64, 328):
        with T.sblock(\"O\"):
            vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])
            with T.init():
                O[vi, vj] = T.float32(0.0)
            O[vi, vj] = O[vi, vj] + T.Cast(\"float32\", A[vi, vk]) * T.Cast(\"float32\", B[vj, vk])
";

/// Two tiles of rows, the second of fewer.
const ISSUED: &str = "@T.prim_func(s_tir=True)
def issued(A: T.Buffer((200, 328), \"float16\"), B: T.Buffer((64, 328), \"float16\"), O: T.Buffer((200, 64), \"float32\")):
    for i, j, k in T.grid(200, 64, 328):
        with T.sblock(\"O\"):
            vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])
            with T.init():
                O[vi, vj] = T.float32(0.0)
            O[vi, vj] = O[vi, vj] + T.Cast(\"float32\", A[vi, vk]) * T.Cast(\"float32\", B[vj, vk])
";

const HOPPER: &str = "cuda:sm_90a";
const BLACKWELL: &str = "cuda:sm_100a";

/// Knobs of products in tensor memory: each block, or pair, has one tile.
const IN_TENSOR: [(&str, i64); 5] = [("roles", 1), ("groups_n", 1), ("stages", 3), ("split_k", 1), ("raster", 1)];

/// A right kernel.
pub struct Right {
    pub program: Program,
    from: From,
}

fn target(id: &str) -> Target {
    Target::parse(id, &HostCpu::default()).expect("a known target")
}

impl Right {
    /// The default of the table of the rule that stands untuned.
    fn rule(text: &str) -> Right {
        Right::at(text, &[])
    }

    /// The same with other values of some knobs.
    fn at(text: &str, set: &[(&str, i64)]) -> Right {
        Right::of((HOPPER, None), text, set)
    }

    /// The same of a rule, for a target.
    fn of((id, rule): (&str, Option<&str>), text: &str, set: &[(&str, i64)]) -> Right {
        let func = ir::read(text, "function").unwrap_or_else(|e| panic!("{e}")).remove(0);
        let subject = Schedulable::new(&func, &func, target(id)).unwrap_or_else(|e| panic!("{e}"));
        let mut arms = subject.arms(&Spaces::built_in()).into_iter();
        let arm = arms.find(|arm| rule.is_none_or(|r| arm.space.form == r)).expect("a rule that takes it");
        let knobs = arm.space.default().expect("a legal point");
        let knobs = set.iter().fold(knobs, |k, (name, value)| k.with(name, *value));
        arm.space.possible(&knobs).unwrap_or_else(|e| panic!("{knobs}: {e:?}"));
        let program = subject.candidate(&arm, &knobs).unwrap_or_else(|e| panic!("{e}")).program;
        Right { program, from: From::Rule(Box::new(subject)) }
    }

    fn tile(text: &str) -> Right {
        let read = ir::read_any(text, "program").unwrap_or_else(|e| panic!("{e}")).pop();
        let Some(Function::Tile(func)) = read else { panic!("a tile program was expected") };
        let program = lower_device(&func, &target(HOPPER)).unwrap_or_else(|e| panic!("{e}")).0;
        Right { program, from: From::Tile(Box::new(func)) }
    }

    pub fn by_name(name: &str) -> Right {
        let bulk = || {
            let path = format!("{}/tests/tile_programs/bulk.py", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
        };
        match name {
            "row_sums" => Right::rule(ROW_SUMS),
            "column_sums" => Right::at(COLUMN_SUMS, &[("threads", 8), ("rows", 8), ("vector", 4), ("split", 1)]),
            "column_parts" => {
                let set = [("threads", 8), ("rows", 16), ("vector", 4), ("split", 4), ("add_parts", 1)];
                Right::at(COLUMN_SUMS, &set)
            }
            "full_sum" => Right::rule(FULL_SUM),
            "transposed" => Right::rule(TRANSPOSED),
            "normalized" => {
                Right::at(NORMALIZED, &[("cluster", 2), ("rows", 1), ("threads", 64), ("vector", 4), ("row", 1)])
            }
            "words" => {
                let set = [
                    ("stages", 3),
                    ("block_m", 48),
                    ("block_n", 64),
                    ("groups_n", 1),
                    ("split_k", 1),
                    ("block_k_bytes", 256),
                ];
                Right::of((HOPPER, Some("matmul.wgmma_quant")), WORDS, &set)
            }
            "neighbours" => {
                let tile = [("block_m", 64), ("block_n", 64), ("groups_m", 1), ("groups_n", 1)];
                let steps = [("stages", 3), ("split_k", 1), ("add_parts", 0), ("raster", 1), ("block_k_bytes", 128)];
                let set = [&tile[..], &steps, &[("multicast", 1), ("roles", 1)]].concat();
                Right::of((HOPPER, Some("matmul.wgmma")), NEIGHBOURS, &set)
            }
            "product_parts" => {
                let set = [("stages", 2), ("split_k", 2), ("add_parts", 0)];
                Right::of((HOPPER, Some("matmul.mma")), NEIGHBOURS, &set)
            }
            "issued" => {
                let set = [&IN_TENSOR[..], &[("block_n", 64), ("cta_group", 1)]].concat();
                Right::of((BLACKWELL, Some("matmul.tcgen05")), ISSUED, &set)
            }
            "scaled_pair" => {
                let operation = daylight::operation::by_name("matmul_block_scaled").expect("it is one");
                let sizes = [("m", "200"), ("n", "128"), ("k", "640"), ("format", "mxfp8"), ("out-dtype", "float32")];
                let function = operation.function("scaled_pair", &sizes).expect("a function").to_string();
                let set = [&IN_TENSOR[..], &[("block_n", 128), ("cta_group", 2)]].concat();
                Right::of((BLACKWELL, Some("matmul.tcgen05_block_scale")), &function, &set)
            }
            "staged" => Right::tile(STAGED),
            "bulk" => Right::tile(&bulk()),
            other => panic!("no kernel `{other}`"),
        }
    }

    /// What is found wrong with kernels in place of the right ones, under each order of threads.
    pub fn found(&self, program: &Program) -> Vec<Option<String>> {
        let options = |seed| simulate::Options { seed, ..simulate::Options::default() };
        match &self.from {
            From::Rule(subject) => {
                let func = &subject.prepared.func;
                let given = problem::given(func, &BTreeMap::new(), 1);
                let want = expected(func, &subject.prepared.facts, &given).unwrap_or_else(|e| panic!("{e}"));
                (0..4).map(|seed| simulate::check(subject, program, &given, &want, options(seed)).err()).collect()
            }
            From::Tile(func) => {
                let given = Given { seed: 1, ..Given::default() };
                (0..4).map(|seed| program::simulate(func, program, &given, options(seed)).err()).collect()
            }
        }
    }
}

/// Replaces the `nth` statement (from 0, over all launches) whose first line starts with `head`.
pub fn edit(p: &mut Program, head: &str, nth: usize, f: impl Fn(&KStmt) -> Vec<KStmt>) {
    let mut left = nth;
    let done = p.launches.iter_mut().any(|l| replace(&mut l.kernel.body, head, &mut left, &f));
    assert!(done, "no statement `{head}` in\n{p}");
}

fn replace(list: &mut Vec<KStmt>, head: &str, left: &mut usize, f: &impl Fn(&KStmt) -> Vec<KStmt>) -> bool {
    for i in 0..list.len() {
        if list[i].head().starts_with(head) {
            if *left == 0 {
                let new = f(&list[i]);
                list.splice(i..=i, new);
                return true;
            }
            *left -= 1;
        }
        let inside = match &mut list[i] {
            KStmt::For { body, .. } => replace(body, head, left, f),
            KStmt::If { then, otherwise, .. } => replace(then, head, left, f) || replace(otherwise, head, left, f),
            _ => false,
        };
        if inside {
            return true;
        }
    }
    false
}

pub fn remove(p: &mut Program, head: &str, nth: usize) {
    edit(p, head, nth, |_| vec![]);
}

/// Takes a statement out and puts it before another.
pub fn move_before(p: &mut Program, head: &str, other: &str) {
    let taken = std::cell::RefCell::new(None);
    edit(p, head, 0, |s| {
        *taken.borrow_mut() = Some(s.clone());
        vec![]
    });
    let taken = taken.into_inner();
    edit(p, other, 0, |s| taken.iter().chain([s]).cloned().collect());
}

/// Replaces an integer throughout a statement's own expressions.
pub fn number(p: &mut Program, head: &str, nth: usize, from: i64, to: i64) {
    exprs(p, head, nth, &|e| match e.kind() {
        ExprKind::Int { value, dtype } if *value == from => Some(Expr::int(to, *dtype)),
        _ => None,
    });
}

/// Replaces parts of a statement's own expressions.
pub fn exprs(p: &mut Program, head: &str, nth: usize, f: &dyn Fn(&Expr) -> Option<Expr>) {
    edit(p, head, nth, |s| {
        let new = map_own_exprs(s, &mut |e| rewrite(e, f));
        assert!(&new != s, "`{head}` stays as it was");
        vec![new]
    });
}

fn rewrite(e: &Expr, f: &dyn Fn(&Expr) -> Option<Expr>) -> Expr {
    f(e).unwrap_or_else(|| e.map_children(|c| rewrite(c, f)))
}

pub fn thread(axis: &str) -> Expr {
    Expr::var(format!("threadIdx.{axis}").as_str(), DType::I32)
}

/// Has each slot given back by so many arrivals.
pub fn arrivals(p: &mut Program, n: u32) {
    for slot in 0..3 {
        edit(p, &format!("mbarrier_init empty[{slot}]"), 0, |s| match s {
            KStmt::Instr(i) if matches!(i.op, Op::Sync(Sync::MbarrierInit { .. })) => {
                let op = Sync::MbarrierInit { arrivals: n };
                vec![KStmt::Instr(Instr::new(op, i.places.clone(), i.values.clone()))]
            }
            other => panic!("{other:?} makes no barrier"),
        });
    }
}

/// Takes a meeting of the cluster away.
pub fn no_meeting(p: &mut Program, nth: usize) {
    remove(p, "cluster arrive", nth);
    remove(p, "cluster wait", nth);
}

/// Has a statement name a number where it names `var`.
pub fn in_place_of(p: &mut Program, head: &str, var: &str, n: i64) {
    exprs(p, head, 0, &|e| match e.kind() {
        ExprKind::Var { name, dtype } if name.as_str() == var => Some(Expr::int(n, *dtype)),
        _ => None,
    });
}

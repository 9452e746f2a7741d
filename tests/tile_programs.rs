//! Tile programs: read, printed and read again, checked.

use daylight::interp::{Mode, Scalar, Scalars, Tensor, run_device};
use daylight::ir::{DeviceFunc, Expr, Function, Param, program_key, read_any, verify_device};
use daylight::lower::lower_device;
use daylight::target::{HostCpu, Target};

/// The one tile program of a file of `tests/tile_programs`.
fn program(name: &str) -> DeviceFunc {
    let path = format!("{}/tests/tile_programs/{name}.py", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

fn parse(text: &str) -> Result<DeviceFunc, String> {
    let mut all = read_any(text, "program.py").map_err(|e| e.to_string())?;
    match (all.pop(), all.is_empty()) {
        (Some(Function::Tile(p)), true) => Ok(p),
        _ => Err("one tile program was expected".to_string()),
    }
}

/// The program without the user's names: some are reserved when it is printed.
fn nameless(p: &DeviceFunc) -> DeviceFunc {
    let mut p = p.clone();
    p.func.display.clear();
    p
}

const ALL: [&str; 9] = ["seed_000", "seed_001", "seed_002", "seed_003", "threads", "plain", "pipeline", "bulk", "tma"];

#[test]
fn programs_are_well_formed_and_read_back_from_their_print() {
    for name in ALL {
        let p = program(name);
        verify_device(&p).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let again = parse(&p.to_string()).unwrap_or_else(|e| panic!("{name}: {e}\n{p}"));
        assert_eq!(nameless(&again), nameless(&p), "{name}:\n{p}");
        let canonical = parse(&p.canonical_text()).unwrap_or_else(|e| panic!("{name}: {e}\n{}", p.canonical_text()));
        assert_eq!(canonical.canonical_text(), p.canonical_text(), "{name}");
        assert_eq!(program_key(&canonical), program_key(&p), "{name}");
    }
}

/// A program with one statement in its body.
fn around(statement: &str) -> String {
    format!(
        "from tvm.tirx.layout import S, TileLayout\n\
         @T.prim_func\n\
         def k(a: T.handle, b: T.handle):\n    \
         A = T.match_buffer(a, (4, 8), \"float32\")\n    \
         B = T.match_buffer(b, (4,), \"float32\")\n    \
         T.device_entry(); T.cta_id([1]); tx = T.thread_id([64])\n    \
         {statement}\n"
    )
}

#[test]
fn every_mistake_is_one_sentence_with_its_place() {
    let cases = [
        ("Tx.cta.cpy(B, B)", "7:5: `cpy` is not a tile primitive; did you mean `copy`?"),
        ("Tx.cta.frobnicate(B, B)", "`frobnicate` is not a tile primitive; there are copy, copy_async"),
        (
            "Tx.ctas.copy(B, B)",
            "`ctas` is not a scope of tile primitives, which are thread, warp, warpgroup, cta; did you mean `cta`?",
        ),
        ("Tx.a.b.copy(B, B)", "a tile primitive is written Tx.<scope>.<operation>(...)"),
        ("Tx.cta.copy(B)", "Tx.copy takes a destination and 1 operand, but 0 are given"),
        ("Tx.cta.copy()", "Tx.copy needs a destination"),
        ("Tx.cta.fma(B, B, B)", "Tx.fma takes a destination and 3 operands, but 2 are given"),
        ("Tx.cta.copy(B, 1.0)", "operand 1 of Tx.copy is a part of a buffer, such as `A[0:8]`"),
        ("Tx.cta.copy(B, C)", "the buffer `C` is not known here"),
        ("Tx.cta.copy(B[0:5], A[0, 0:5])", "7:17: the indices 0 to 4 lie outside a dimension of `B`, which has 4"),
        ("Tx.cta.copy(B[-1], A[0, 0])", "the indices -1 to -1 lie outside a dimension of `B`, which has 4"),
        ("Tx.cta.copy(B[tx:tx + 5], A[0, 0:5])", "5 indices lie outside a dimension of `B`, which has 4"),
        ("Tx.cta.copy(B[2:2], A[0, 2:2])", "a slice of `B` has 0 indices; a tile has at least one"),
        ("Tx.cta.copy(B[0:tx], A[0, 0:tx])", "the extent of a slice of `B` is not a constant; write `i:i + 8`"),
        ("Tx.cta.copy(B[0:4], A[0:4])", "`A` has 2 dimensions, but 1 slices or indices stand here"),
        ("Tx.cta.copy(B, A)", "copy copies a tile of extents [4, 8] to one of [4]; they must agree"),
        (
            "Tx.cta.sum(B, A, axes=(0,))",
            "sum over axes [0] of extents [4, 8] leaves 8 values, but the destination has 4",
        ),
        ("Tx.cta.sum(B, A, axes=(2,))", "axis 2 does not exist in a source of 2 dimensions"),
        ("Tx.cta.sum(B, A, axes=(1, -1))", "axis -1 is given twice"),
        ("Tx.cta.sum(B, A, axes=())", "a reduction needs at least one axis"),
        ("Tx.cta.sum(B, A, acum=True)", "Tx.sum has no argument `acum`; did you mean `accum`?"),
        ("Tx.cta.copy(B, B, accum=True)", "Tx.copy has no argument `accum`"),
        ("Tx.cta.add(A, A, B[0:3])", "an operand of extents [3] does not broadcast to the destination's [4, 8]"),
        ("Tx.cta.gemm(A, A, A)", "gemm of 4x8 and 4x8 matrices does not give 4x8"),
        ("Tx.cta.gemm(A, A, A, alpha=2)", "this factor of gemm can be 1 only"),
        ("Tx.warpgroup.copy(B, B)", "scope `warpgroup` needs a multiple of 128 threads, but a block has 64"),
        ("B[4, 0] = 1.0", "`B` has 1 dimension, and there are 2 indices here"),
        ("C = T.alloc_buffer((4,), \"float32\")", "`C` needs scope=\"shared\" or scope=\"local\""),
        (
            "C = T.alloc_buffer((4,), scope=\"texture\")",
            "unknown scope \"texture\" of `C`; it is \"shared\", \"shared.dyn\", \"local\" or \"tmem\"",
        ),
        ("C = T.alloc_local((4,), layout=TileLayout(S[(8,)]))", "layout S[(8,)] is for 8 elements"),
        ("C = T.alloc_local((4,), layout=TileLayout(S[(4, 1) : (1,)]))", "layout \"TileLayout(S[(4, 1) : (1,)])\""),
        ("C = T.alloc_local((4,), layout=C)", "`C` is not a layout; write TileLayout(S[...])"),
        (
            "C = T.alloc_local((tx,))",
            "`C` has the extent threadIdx.x; the extents of a tile program are positive constants",
        ),
        ("C = T.alloc_local((1025, 1024))", "`C` has more than 1048576 elements, which no block can hold"),
        ("while tx < 4: pass", "a tile program has no while loops; write T.serial(n)"),
        ("T.foo()", "`T.foo` is not a statement of a tile program"),
        ("x = T.address_of(A[0, 0])", "T.address_of is not known in tile programs"),
        ("A.frob()", "`A.frob` is not a statement of a tile program"),
        ("T.cuda.warpgroup_sync(1)", "a warpgroup has 128 threads, but a block has 64"),
        ("T.ptx.cp_async.wait_group(tx)", "the number of groups that may be pending is a constant, such as 0"),
        ("T.ptx.cp_async.wait_group()", "this statement is written T.ptx.cp_async.wait_group(groups)"),
        ("T.ptx.cp_async.wait_group(0, read=True)", "this statement has no argument `read`"),
        ("T.ptx.cp_async.bulk.wait_group(-1)", "the number of groups that may be pending is a constant, such as 0"),
        (
            "T.ptx.mbarrier.innit(A, 1)",
            "7:5: `T.ptx.mbarrier.innit` is not a statement of a tile program; did you mean `T.ptx.mbarrier.init`?",
        ),
        ("T.ptx.frobnicate()", "`T.ptx.frobnicate` is not a statement of a tile program"),
        (
            "T.ptx.mbarrier.init(A, 1)",
            "7:25: a pointer to an element of a buffer was expected, such as `bar.ptr_to([0])`",
        ),
        ("T.ptx.mbarrier.init(C.ptr_to([0]), 1)", "the buffer `C` is not known here"),
        (
            "T.ptx.mbarrier.init(B.ptr_to([0]), 1)",
            "7:25: a barrier is an element of a one-dimensional buffer of uint64 in shared memory",
        ),
        ("T.ptx.mbarrier.init(A.ptr_to([0]), 1)", "`A` has 2 dimensions, but 1 slices or indices stand here"),
        ("T.ptx.mbarrier.init(B.ptr_to([0:2]), 1)", "program.py:7:"),
        ("T.ptx.fence.proxy(\"global\")", "this fence is for \"shared::cta\" only"),
        ("Tx.copy_async(B, B, mbar=tx)", "`tx` is not a buffer"),
        ("T.lane_id([16])", "T.lane_id has the extent 32, not 16; write T.lane_id([32])"),
        ("T.warp_id([4])", "T.warp_id makes 128 threads of a block, but T.thread_id makes 64; they must agree"),
        ("T.warpgroup_id([1])", "T.warpgroup_id makes 128 threads of a block, but T.thread_id makes 64"),
        ("T.thread_id_in_wg([128])", "T.thread_id_in_wg needs a multiple of 128 threads, but a block has 64"),
        ("T.thread_id([32])", "T.thread_id is declared with other extents already"),
        ("T.cta_id([1, 70000])", "70000 blocks on an axis of the grid, which holds 65535"),
        ("T.device_entry()", "T.device_entry() stands here twice"),
        ("A", "this expression does nothing"),
        ("for i in A: pass", "a loop runs over T.serial(n)"),
        ("for i in T.parallel(4): pass", "`T.parallel` is not a loop of a tile program; write T.serial(n)"),
    ];
    let mut wrong = vec![];
    for (statement, says) in cases {
        let error = parse(&around(statement)).err().unwrap_or_else(|| "it was read".to_string());
        if !error.contains(says) || !error.starts_with("program.py:") {
            wrong.push(format!("{statement}:\n{error}\nexpected: {says}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn mistakes_about_barriers_are_sentences_too() {
    let cases = [
        ("T.ptx.mbarrier.init(bar.ptr_to([2]), 1)", "the indices 2 to 2 lie outside a dimension of `bar`, which has 2"),
        ("T.ptx.mbarrier.init(bar.ptr_to([0]), 0)", "the arrivals of a phase are a constant from 1 to 1048575"),
        ("T.ptx.mbarrier.init(bar.ptr_to([0]), tx)", "the arrivals of a phase are a constant from 1 to 1048575"),
        (
            "T.ptx.mbarrier.init(bar.ptr_to([0]))",
            "this statement is written T.ptx.mbarrier.init(bar.ptr_to([0]), arrivals)",
        ),
        ("T.ptx.mbarrier.arrive(bar.ptr_to([0]), 2)", "a thread arrives once; the count can be 1 only"),
        (
            "T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 0)",
            "a phase of a barrier counts 1 to 1048575 bytes, not 0",
        ),
        ("T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 1.5)", "an integer was expected here, not a float"),
        ("T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 2)", "the phase that is waited for is 0 or 1, in turn, not 2"),
        (
            "T.cuda.mbarrier_wait(bar[0], 0)",
            "a pointer to an element of a buffer was expected, such as `bar.ptr_to([0])`",
        ),
        (
            "Tx.copy_async(B, B, mbar=bar.ptr_to([3]))",
            "the indices 3 to 3 lie outside a dimension of `bar`, which has 2",
        ),
    ];
    for (statement, says) in cases {
        let text = around(&format!("bar = T.alloc_shared((2,), \"uint64\"); {statement}"));
        let error = parse(&text).err().unwrap_or_else(|| panic!("{statement} was read"));
        assert!(error.contains(says) && error.starts_with("program.py:7:"), "{statement}:\n{error}\nexpected: {says}");
    }
}

/// Every way to write a statement is read as the same one.
#[test]
fn both_spellings_of_instructions_are_read() {
    let pairs = [
        ("ptx.cp_async.commit_group()", "ptx.cp.async_.commit_group()"),
        ("ptx.cp_async.wait_group(2)", "ptx.cp.async_.wait_group(2)"),
        ("ptx.mbarrier.init(b, 3)", "ptx.mbarrier.init.shared.b64(b, T.uint32(3))"),
        ("ptx.fence.mbarrier_init()", "ptx.fence.mbarrier_init.release.cluster()"),
        ("ptx.mbarrier.arrive(b)", "ptx.mbarrier.arrive.shared.b64(b, T.uint32(1))"),
        ("ptx.mbarrier.arrive.expect_tx(b, 16)", "ptx.mbarrier.arrive.expect_tx.shared.b64(b, T.uint32(16))"),
        ("ptx.mbarrier.arrive.expect_tx(b, tx)", "ptx.mbarrier.arrive.expect_tx.shared.b64(b, T.Cast(\"uint32\", tx))"),
        ("ptx.mbarrier.try_wait(b, tx % 2)", "cuda.mbarrier_wait(b, tx % 2)"),
        ("ptx.fence.proxy_async(\"shared::cta\")", "ptx.fence.proxy.async_.shared__cta()"),
        ("ptx.fence.proxy(\"shared\")", "ptx.fence.proxy.async_.shared__cta()"),
        ("ptx.cp_async.bulk.commit_group()", "ptx.cp.async_.bulk.commit_group()"),
        ("ptx.cp_async.bulk.wait_group(1)", "ptx.cp.async_.bulk.wait_group(1)"),
        ("ptx.cp_async.bulk.wait_group(0, read=True)", "ptx.cp.async_.bulk.wait_group.read(0)"),
    ];
    for (short, long) in pairs {
        let written = |s: &str| {
            let s = s.replace("(b", "(bar.ptr_to([tx % 2])");
            let p = parse(&around(&format!("bar = T.alloc_shared((2,), \"uint64\"); T.{s}")));
            p.unwrap_or_else(|e| panic!("{s}: {e}")).to_string()
        };
        assert_eq!(written(short), written(long));
        let shown = format!("T.{}", long.replace("(b", "(bar.ptr_to([tx % 2])"));
        assert!(written(short).contains(&shown), "{shown}:\n{}", written(short));
    }
}

#[test]
fn launches_are_whole_and_small_enough() {
    let with = |old: &str, new: &str| around("pass").replace(old, new);
    let cases = [
        (with("T.thread_id([64])", "T.thread_id([32, 64])"), "a block has at most 1024 threads, not 2048"),
        (with("T.thread_id([64])", "T.thread_id([0])"), "an extent is at least 1, not 0"),
        (with("tx = T.thread_id([64])", "pass"), "the program does not say how many threads a block has"),
        (with("T.cta_id([1]); ", ""), "the program does not say how many blocks it has; write T.cta_id([1])"),
        (with("T.device_entry(); ", "B[0] = 1.0; T.device_entry(); "), "this statement stands before T.device_entry()"),
        (with("(4, 8)", "(n, 8)").replace("@T.prim", "n = 3.5\n@T.prim"), "the name `n` is not known here"),
        (
            around("pass").replace("    A = T.match", "    n = T.int64()\n    A = T.match").replace("(4, 8)", "(n, 8)"),
            "constant",
        ),
        (with("A = T.match_buffer(a, (4, 8), \"float32\")", "pass"), "parameter `a` has no shape"),
    ];
    for (text, says) in cases {
        let error = parse(&text).err().unwrap_or_else(|| panic!("read:\n{text}"));
        assert!(error.contains(says), "{text}:\n{error}\nexpected: {says}");
    }
}

#[test]
fn threads_that_a_variable_keeps_away_are_missed() {
    let target = Target::parse("cuda:sm_90a", &HostCpu::default()).unwrap_or_else(|e| panic!("{e}"));
    let lowered = |body: &str| {
        let p = parse(&around(body)).unwrap_or_else(|e| panic!("{e}"));
        lower_device(&p, &target).map(|_| ()).map_err(|e| e.to_string())
    };
    let copy = "Tx.warp.copy(B, A[0, 0:4])";
    assert_eq!(lowered(&format!("first = tx // 32\n    if first == 0: {copy}")), Ok(()));
    for cond in
        ["odd = tx % 2\n    if odd == 0", "big = A[0, 0] > 1.0\n    if big", "odd = tx % 2\n    for i in T.serial(odd)"]
    {
        let error = lowered(&format!("{cond}: {copy}")).err().unwrap_or_else(|| panic!("{cond} was lowered"));
        assert!(error.contains("no variant carries out this call"), "{cond}: {error}");
    }
}

/// A program that was read holds whatever its text says, and nothing that is done with it panics; true for what was
/// read. Mutants of texts are in `fuzz`.
pub fn survives(text: &str, target: &Target) -> bool {
    let Ok(p) = parse(text) else { return false };
    verify_device(&p).unwrap_or_else(|e| panic!("{text}\n{e:?}"));
    let again = parse(&p.to_string()).unwrap_or_else(|e| panic!("{text}\n{e}\n{p}"));
    assert_eq!(again.canonical_text(), p.canonical_text(), "{text}");
    drop(lower_device(&p, target));
    let shape = |b: &daylight::ir::Buffer| b.shape.iter().filter_map(Expr::as_int).collect::<Vec<_>>();
    let blocks: i64 = p.grid.iter().filter_map(Expr::as_int).product();
    if blocks <= 8 && p.func.buffers.iter().all(|b| b.len().is_some_and(|n| n <= 4096)) {
        let mut args: Vec<Tensor> = p.func.buffer_params().map(|b| Tensor::zeros(b.dtype, &shape(b))).collect();
        let mut scalars = Scalars::new();
        for param in &p.func.params {
            if let Param::Scalar { name, .. } = param {
                scalars.insert(name.clone(), Scalar::Int(1));
            }
        }
        drop(run_device(&p, &mut args, &scalars, Mode::Exact));
    }
    true
}

#[test]
fn truncated_programs_never_panic() {
    let target = Target::parse("cuda:sm_100a", &HostCpu::default()).unwrap_or_else(|e| panic!("{e}"));
    for name in ALL {
        let path = format!("{}/tests/tile_programs/{name}.py", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        for end in (0..text.len()).step_by(29) {
            survives(&text[..end], &target);
        }
    }
}

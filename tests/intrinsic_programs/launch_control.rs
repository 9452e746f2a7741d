//! Blocks that take over the work of those that have not started: each goes on as long as it is given any.

use super::*;

/// Blocks, or clusters of them, of a launch; threads of a block.
const BLOCKS: i64 = 8;
const THREADS: i64 = 64;

/// Kernels for Blackwell.
pub fn launch_control_cases() -> Vec<Case> {
    vec![given_blocks(1), given_blocks(2)]
}

/// Each block, or pair of them, takes one part of the input after the other, and adds one; the first thread asks for the next part
/// when it begins with one. There is one slot for answers.
pub fn given_blocks(cluster: i64) -> Case {
    let (pair, n) = (cluster > 1, BLOCKS * cluster * THREADS);
    let (rank, parity) = (|| rem(v("blockIdx.x"), cluster), || v("phase"));
    let [answered, read] = [0, 1].map(|i| move || at("bar", c(i)));
    let wait = |bar: At, parity: Expr| does(Instr::new(Sync::MbarrierWait, [bar], [parity]));
    let init = |bar: At, n: i64| does(Instr::new(Sync::MbarrierInit { arrivals: n as u32 }, [bar], []));
    let next = || ldt("next", c(0), DType::I32);
    let of_first = |s: KStmt| if pair { if_(eq(rank(), 0), vec![s]) } else { s };
    let arrive = match pair {
        true => Instr::new(Op::PeerArrive, [read()], [c(0)]),
        false => Instr::new(Sync::MbarrierArrive, [read()], []),
    };
    let place = || (next() + rank()) * c(THREADS) + t();
    let step = vec![
        first(vec![
            of_first(wait(read(), c(1) - parity())),
            does(Instr::new(Sync::MbarrierExpect, [answered()], [c(16)])),
            of_first(does(Instr::new(Op::TryCancel { all: pair }, [at("answer", c(0)), answered()], []))),
        ]),
        store("p1", place(), ld("p0", place()) + f(1.0)),
        wait(answered(), parity()),
        does(Instr::new(Op::QueryCancel, [at("next", c(0)), at("answer", c(0))], [])),
        does(Sync::AsyncFence.into()),
        does(arrive),
        assign("phase", c(1) - parity()),
    ];
    let mut body = vec![
        first(vec![init(answered(), 1), init(read(), THREADS * cluster), does(Sync::MbarrierFence.into())]),
        block_barrier(),
        var("phase", DType::I32, Some(c(0))),
        store("next", c(0), div(v("blockIdx.x"), cluster) * c(cluster)),
        KStmt::For {
            var: "round".into(),
            extent: c(BLOCKS),
            live: Some(op(BinOp::Le, c(0), next())),
            kind: LoopKind::Serial,
            body: step,
        },
    ];
    if pair {
        body.splice(1..2, meeting());
        body.extend(meeting());
    }
    let arrays =
        vec![Array { align: 16, ..shared("answer", DType::U32, 4) }, barriers(2), registers("next", DType::I32, 1, 4)];
    let x = random(DType::F32, n, 6);
    let want = (0..n as usize).map(|i| f64::from(x.get_f64(i) as f32 + 1.0)).collect();
    let name = if pair { "given_pairs" } else { "given_blocks" };
    let mut program = program(name, kernel(name, floats(n), arrays, body), BLOCKS * cluster, THREADS as u32, None);
    program.launches[0].cluster = cluster as u32;
    Case::new(program, 100, vec![x], want)
}

//! What a pair of blocks does with tensor memory: a product of 256 rows, of which each block has half.

use super::tensor::{element, sums_of_thread, tensor};
use super::warpgroup::pieces;
use super::*;
use daylight::ir::instr::{CtaGroup, Landing, Tcgen05, Tcgen05Shape, columns_taken};
use daylight::ir::{MapSwizzle, TensorMap};

const GROUP: CtaGroup = CtaGroup::Pair;
/// Elements of a row of the map of A, whose elements a box takes as they lie.
const ROW: i64 = 128;

/// Kernels for sm_100a and sm_103a.
pub fn pair_cases() -> Vec<Case> {
    [(DType::F16, 32), (DType::BF16, 96), (DType::F32, 64), (DType::E4M3, 32)].map(|(d, n)| pair_product(d, n)).into()
}

/// Both blocks meet, and know what each did.
pub fn meeting() -> [KStmt; 2] {
    [Barrier::ClusterArrive { release: true }, Barrier::ClusterWait].map(KStmt::Barrier)
}

/// Two products of 256 by `n` sums, the second added to the first, in the order of the threads' registers: A by copies that
/// the first block's barrier counts, B by stores.
pub fn pair_product(input_type: DType, n: i64) -> Case {
    let shape = Tcgen05Shape { n, input: input_type, group: GROUP };
    let (k, sum, columns, own) = (shape.k(), shape.sum(), columns_taken(n), shape.own_columns());
    let [a, b] = [2 * Tcgen05Shape::ROWS * k, 2 * own * k];
    let (rank, bytes) = (|| v("blockIdx.x"), input_type.bytes() as i64);
    let of_first_warp = |then| if_(lt(t(), c(32)), then);
    let full = || at("bar", c(0));
    let done = || at("bar", c(1));
    let product = |step: i64, add| {
        let places = [at("d", c(0)), at("a", c(step * a / 2)), at("b", c(step * b / 2))];
        does(Instr::new(Tcgen05::Mma { shape, a: pieces(), b: pieces() }, places, [Expr::bool(add)]))
    };
    let wait = |bar: At| does(Instr::new(Sync::MbarrierWait, [bar], [c(0)]));
    let init = |bar: At| does(Instr::new(Sync::MbarrierInit { arrivals: 1 }, [bar], []));
    let rows = a / ROW;
    let load = Op::TensorLoad { map: "p0_map".into(), to: Landing::Pair };
    let place = || v("i") * c(128) + t();
    let mut body = vec![
        serial("i", b / 128, vec![store("b", place(), ldt("p1", rank() * c(b) + place(), input_type))]),
        first(vec![init(full()), init(done()), does(Sync::MbarrierFence.into())]),
        does(Sync::AsyncFence.into()),
    ];
    body.extend(meeting());
    body.extend([
        of_first_warp(vec![
            tensor(Tcgen05::Alloc { columns, group: GROUP }, vec![at("word", c(0))]),
            tensor(Tcgen05::Relinquish { group: GROUP }, vec![]),
        ]),
        block_barrier(),
        tensor(Tcgen05::Find { column: 0 }, vec![at("d", c(0)), at("word", c(0))]),
    ]);
    body.extend(meeting());
    body.extend([
        first(vec![
            if_(eq(rank(), 0), vec![does(Instr::new(Sync::MbarrierExpect, [full()], [c(2 * a * bytes)]))]),
            does(Instr::new(load, [at("a", c(0)), full()], [c(0), rank() * c(rows)])),
        ]),
        if_(
            eq(rank(), 0),
            vec![first(vec![
                wait(full()),
                tensor(Tcgen05::FenceAfter, vec![]),
                product(0, false),
                product(1, true),
                tensor(Tcgen05::Commit { group: GROUP, mask: 3 }, vec![done()]),
            ])],
        ),
        wait(done()),
        tensor(Tcgen05::FenceAfter, vec![]),
    ]);
    body.extend(sums_of_thread(n));
    let to = rank() * c(128 * n) + t() * c(n) + v("i");
    body.extend([
        tensor(Tcgen05::WaitLoads, vec![]),
        tensor(Tcgen05::FenceBefore, vec![]),
        unrolled("i", n, vec![store("p2", to, ldt("r", v("i"), sum))]),
    ]);
    body.extend(meeting());
    body.push(of_first_warp(vec![tensor(Tcgen05::Dealloc { columns, group: GROUP }, vec![at("d", c(0))])]));
    let map = TensorMap {
        name: "p0_map".into(),
        buffer: "p0".into(),
        dtype: input_type,
        dims: vec![ROW, 2 * rows],
        strides_bytes: vec![ROW * bytes],
        box_dims: vec![ROW, rows],
        elem_strides: vec![1; 2],
        swizzle: MapSwizzle::None,
        l2: 128,
    };
    let all = 256 * n;
    let params = vec![
        input("p0", input_type, 2 * a),
        input("p1", input_type, 2 * b),
        KernelParam::TensorMap(Box::new(map)),
        output("p2", sum, all),
    ];
    let arrays = vec![
        Array { align: 128, ..shared("a", input_type, a as u32) },
        Array { align: 128, ..shared("b", input_type, b as u32) },
        shared("word", DType::U32, 1),
        barriers(2),
        registers("r", sum, n as u32, 4),
        Array { scope: ArrayScope::Tensor, ..shared("d", sum, (128 * columns) as u32) },
    ];
    let inputs = vec![random(input_type, 2 * a, 1), random(input_type, 2 * b, 2)];
    let value = |o: i64| {
        let (block, [row, column]) = (o / (128 * n), super::tensor::place_of(o % (128 * n), n));
        let (theirs, line) = (column / own, column % own);
        let of = |s: i64, d: i64| {
            element(&inputs[0], block * a + s * a / 2, row, d) * element(&inputs[1], theirs * b + s * b / 2, line, d)
        };
        (0..2).map(|s| (0..k).map(|d| of(s, d)).sum::<f64>()).sum()
    };
    let want = (0..all).map(value).collect();
    let name = format!("tcgen05_pair_{}", shape.name().replace('.', "_"));
    let mut program = program(&name, kernel(&name, params, arrays, body), 2, 128, None);
    program.launches[0].cluster = 2;
    let tolerance = if bytes == 2 { 1e-5 } else { 1e-3 };
    Case { tolerance, ..Case::new(program, 100, inputs, want) }
}

//! Products in tensor memory of numbers with scales of blocks, by a block and by a pair of blocks.

use super::pair::meeting;
use super::tensor::{element, place_of, sums_of_thread, tensor};
use super::warpgroup::pieces;
use super::*;
use daylight::ir::instr::{BlockScaleMma, CtaGroup, Tcgen05, Tcgen05Scaled, columns_taken};

/// Bytes of the scales of 128 rows, four each.
const BLOCK: i64 = 512;

/// Kernels for sm_100a and sm_103a.
pub fn scaled_cases() -> Vec<Case> {
    let mxf8 = |a, b| BlockScaleMma::Mxf8 { a, b };
    vec![
        scaled_product(mxf8(DType::E4M3, DType::E4M3), 16, CtaGroup::One),
        scaled_product(mxf8(DType::E5M2, DType::E4M3), 40, CtaGroup::One),
        scaled_product(BlockScaleMma::Mxf4, 136, CtaGroup::One),
        scaled_product(BlockScaleMma::Nvf4, 72, CtaGroup::One),
    ]
}

/// Kernels of pairs, for the same.
pub fn scaled_pair_cases() -> Vec<Case> {
    let mxf8 = |a, b| BlockScaleMma::Mxf8 { a, b };
    vec![
        scaled_product(mxf8(DType::E4M3, DType::E4M3), 16, CtaGroup::Pair),
        scaled_product(mxf8(DType::E4M3, DType::E5M2), 48, CtaGroup::Pair),
        scaled_product(BlockScaleMma::Mxf4, 144, CtaGroup::Pair),
        scaled_product(BlockScaleMma::Nvf4, 80, CtaGroup::Pair),
    ]
}

/// Numbers that two bytes of random bits are, or one.
fn numbers_of(x: &Tensor, byte: f64, packed: i64) -> Vec<f64> {
    if x.dtype != DType::U8 {
        return vec![byte];
    }
    let size = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let code = |at: i64| (byte as i64 >> (4 * at) & 15) as usize;
    (0..packed).map(|at| size[code(at) % 8] * if code(at) > 7 { -1.0 } else { 1.0 }).collect()
}

/// Two products of 128 rows of each block by `n` sums, the second added to the first, in the order of the threads' registers.
/// Scales come row by row, those of both steps, and are brought into the order of the copies by threads.
pub fn scaled_product(of: BlockScaleMma, n: i64, group: CtaGroup) -> Case {
    let shape = Tcgen05Scaled { n, of, group };
    let pair = group == CtaGroup::Pair;
    let (own, rank) = (shape.own_columns(), || if pair { v("blockIdx.x") } else { c(0) });
    let (row, each, [input_a, input_b]) = (BlockScaleMma::row(), of.scales(), of.elements());
    // scales of a row for both steps, and blocks of four of them
    let (scales, blocks) = (2 * each, (2 * each + 3) / 4);
    let rows_of_b = (n + 127) / 128 * 128;
    let fill = |to: &'static str, p: &'static str, len: i64, input: DType| {
        let place = || v("i") * c(128) + t();
        serial("i", len / 128, vec![store(to, place(), ldt(p, rank() * c(len) + place(), input))])
    };
    // the row of a thread in each 128; of what is no scale of the function a copy brings something all the same
    let order = |to: &'static str, p: &'static str, lines: i64, own: i64, from: Expr| {
        let line = || v("i") * c(128) + t();
        let all = (0..4 * blocks).map(|s| {
            let place = v("i") * c(BLOCK * blocks) + c(s / 4 * BLOCK) + rem(t(), 32) * c(16) + div(t(), 32) * c(4);
            let row = from.clone() + op(BinOp::Min, line(), c(own - 1));
            let value = ldt(p, row * c(scales) + c(s.min(scales - 1)), of.scale());
            store(to, place + c(s % 4), value)
        });
        serial("i", lines / 128, all.collect())
    };
    let does_copy = |d: &'static str, s: &'static str, lines: i64| {
        let parts = (0..lines / 128).flat_map(move |part| (0..blocks).map(move |block| (part, block)));
        // the columns of all rows are side by side, block by block
        parts.map(move |(part, block)| {
            let column = block * lines / 32 + part * 4;
            tensor(
                Tcgen05::CopyScales { group },
                vec![at(d, c(column * 128)), at(s, c((part * blocks + block) * BLOCK))],
            )
        })
    };
    let product = |step: i64| {
        let (block, first) = (step * each / 4, (step * each % 4) as u32);
        let places = [
            at("d", c(0)),
            at("a", c(step * 128 * row)),
            at("b", c(step * own * row)),
            at("sfa", c(block * 4 * 128)),
            at("sfb", c(block * rows_of_b / 32 * 128)),
        ];
        let op = Tcgen05::ScaledMma { shape, a: pieces(), b: pieces(), first: [first; 2] };
        does(Instr::new(op, places, [Expr::bool(step > 0)]))
    };
    let of_first_warp = |then| if_(lt(t(), c(32)), then);
    let taken =
        [("d", columns_taken(n)), ("sfa", columns_taken(4 * blocks)), ("sfb", columns_taken(rows_of_b / 32 * blocks))];
    let word = |i: usize| at("word", c(i as i64));
    let alloc =
        |(i, (_, columns)): (usize, &(&str, i64))| tensor(Tcgen05::Alloc { columns: *columns, group }, vec![word(i)]);
    let dealloc = |(d, columns): &(&str, i64)| tensor(Tcgen05::Dealloc { columns: *columns, group }, vec![at(d, c(0))]);
    let find = |(i, (d, _)): (usize, &(&str, i64))| tensor(Tcgen05::Find { column: 0 }, vec![at(d, c(0)), word(i)]);
    let mut all_taken: Vec<KStmt> = taken.iter().enumerate().map(alloc).collect();
    all_taken.push(tensor(Tcgen05::Relinquish { group }, vec![]));
    let mut issued = vec![tensor(Tcgen05::FenceAfter, vec![])];
    issued.extend(does_copy("sfa", "sa", 128));
    issued.extend(does_copy("sfb", "sb", rows_of_b));
    let mask = if pair { 3 } else { 0 };
    issued.extend([product(0), product(1), tensor(Tcgen05::Commit { group, mask }, vec![bar()])]);
    let mut body = vec![
        fill("a", "p0", 2 * 128 * row, input_a),
        fill("b", "p1", 2 * own * row, input_b),
        order("sa", "p2", 128, 128, rank() * c(128)),
        order("sb", "p3", rows_of_b, n, c(0)),
        first(vec![
            does(Instr::new(Sync::MbarrierInit { arrivals: 1 }, [bar()], [])),
            does(Sync::MbarrierFence.into()),
        ]),
    ];
    let meets = || if pair { meeting().to_vec() } else { vec![] };
    body.extend(meets());
    body.extend([of_first_warp(all_taken), does(Sync::AsyncFence.into()), block_barrier()]);
    body.extend(taken.iter().enumerate().map(find));
    body.extend(meets());
    body.extend([
        if pair { if_(eq(rank(), 0), vec![first(issued)]) } else { first(issued) },
        does(Instr::new(Sync::MbarrierWait, [bar()], [c(0)])),
        tensor(Tcgen05::FenceAfter, vec![]),
    ]);
    body.extend(sums_of_thread(n));
    body.extend([
        tensor(Tcgen05::WaitLoads, vec![]),
        tensor(Tcgen05::FenceBefore, vec![]),
        unrolled("i", n, vec![store("p4", rank() * c(128 * n) + t() * c(n) + v("i"), ldt("r", v("i"), DType::F32))]),
    ]);
    body.extend(if pair { meets() } else { vec![block_barrier()] });
    body.push(of_first_warp(taken.iter().map(dealloc).collect()));
    let params = vec![
        input("p0", input_a, 2 * group.rows() * row),
        input("p1", input_b, 2 * n * row),
        input("p2", of.scale(), group.rows() * scales),
        input("p3", of.scale(), n * scales),
        output("p4", DType::F32, group.rows() * n),
    ];
    let operand = |name, dtype, len: i64| Array { align: 128, ..shared(name, dtype, len as u32) };
    let mut arrays = vec![
        operand("a", input_a, 2 * 128 * row),
        operand("b", input_b, 2 * own * row),
        operand("sa", of.scale(), BLOCK * blocks),
        operand("sb", of.scale(), rows_of_b / 128 * BLOCK * blocks),
        shared("word", DType::U32, 3),
        barriers(1),
        registers("r", DType::F32, n as u32, 4),
    ];
    arrays.extend(taken.iter().map(|(d, columns)| {
        let dtype = if *d == "d" { DType::F32 } else { DType::U32 };
        Array { scope: ArrayScope::Tensor, ..shared(d, dtype, (128 * columns) as u32) }
    }));
    let bytes = |dtype: DType, len: i64, seed| match dtype {
        DType::U8 => Tensor::from_f64(
            dtype,
            &[len],
            &numbers(len, seed).iter().map(|x| ((x + 1.0) * 127.0).round()).collect::<Vec<_>>(),
        ),
        _ => random(dtype, len, seed),
    };
    // powers of two, or numbers, that are positive and of different sizes
    let sizes = |len: i64, seed| {
        let all: Vec<f64> = numbers(len, seed).iter().map(|x| 2f64.powi((x * 3.0).round() as i32)).collect();
        Tensor::from_f64(of.scale(), &[len], &all)
    };
    let inputs = vec![
        bytes(input_a, 2 * group.rows() * row, 1),
        bytes(input_b, 2 * n * row, 2),
        sizes(group.rows() * scales, 3),
        sizes(n * scales, 4),
    ];
    let value = |o: i64| {
        let (rank, [line, column]) = (o / (128 * n), place_of(o % (128 * n), n));
        // lines of a block are side by side, those of one step before those of the next
        let of_line = |side: usize, lines: i64, line: i64, step: i64| -> Vec<f64> {
            let first = (line / lines * 2 + step) * lines * row;
            let bytes = (0..row).map(|d| element(&inputs[side], first, line % lines, d));
            let all: Vec<f64> = bytes.flat_map(|b| numbers_of(&inputs[side], b, of.packed())).collect();
            let block = shape.k() / each;
            let scale = |k: i64| inputs[2 + side].get_f64((line * scales + step * each + k / block) as usize);
            all.iter().enumerate().map(|(k, x)| x * scale(k as i64)).collect()
        };
        let step = |step| {
            let (x, y) = (of_line(0, 128, rank * 128 + line, step), of_line(1, own, column, step));
            x.iter().zip(&y).map(|(x, y)| x * y).sum::<f64>()
        };
        step(0) + step(1)
    };
    let want = (0..group.rows() * n).map(value).collect();
    let name = format!("tcgen05_{}_{}", shape.name().replace('.', "_"), of.scale());
    let mut program = program(&name, kernel(&name, params, arrays, body), group.blocks(), 128, None);
    program.launches[0].cluster = group.blocks() as u32;
    Case { tolerance: 1e-5, ..Case::new(program, 100, inputs, want) }
}

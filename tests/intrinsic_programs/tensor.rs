//! What a block does with tensor memory: columns taken, products into them, stores to them and loads from them.

use super::warpgroup::pieces;
use super::*;
use daylight::ir::instr::{CtaGroup, Tcgen05, Tcgen05Shape, columns_taken};

/// Kernels for sm_100a; those of int8 not for sm_103a.
pub fn tensor_cases() -> Vec<Case> {
    let all = [(DType::F16, 16), (DType::BF16, 64), (DType::F32, 32), (DType::E4M3, 48), (DType::E5M2, 16)];
    let mut all: Vec<Case> = all.into_iter().map(|(input, n)| tensor_product(input, n)).collect();
    all.push(tensor_product(DType::F16, 128));
    all.push(started_product(DType::BF16, 48));
    all
}

/// A kernel that sm_103a does not have.
pub fn tensor_int8() -> Case {
    tensor_product(DType::I8, 32)
}

pub(super) fn tensor(op: Tcgen05, places: Vec<At>) -> KStmt {
    does(Instr::new(op, places, []))
}

/// Loads of a warp's rows of `n` sums.
pub(super) fn sums_of_thread(n: i64) -> Vec<KStmt> {
    of_thread(n, |count, registers, lanes| tensor(Tcgen05::Load { count }, vec![registers, lanes]))
}

/// Sixteen fragments side by side at most, and what is left in powers of two.
fn of_thread(n: i64, moves: impl Fn(i64, At, At) -> KStmt) -> Vec<KStmt> {
    let mut all = vec![];
    for half in 0..2 {
        let mut j = 0;
        while j < n / 8 {
            let count = 1 << (n / 8 - j).min(16).ilog2();
            let from = div(t(), 32) * c(32) + c(16 * half + j * 8 * 128);
            let to = at("r", c(half * n / 2 + 4 * j));
            all.push(moves(count, to, at("d", from)));
            j += count;
        }
    }
    all
}

/// The row and column of an element of `n` columns, in the order of the threads' registers.
pub(super) fn place_of(o: i64, n: i64) -> [i64; 2] {
    let (thread, r) = (o / n, o % n);
    let (half, e, lane) = (r / (n / 2), r % (n / 2), thread % 32);
    [thread / 32 * 32 + half * 16 + lane / 4 + 8 * (e / 2 % 2), e % 2 + 2 * (lane % 4) + 8 * (e / 4)]
}

/// An element of an operand that begins there, in pieces without a permutation.
pub(super) fn element(x: &Tensor, first: i64, line: i64, depth: i64) -> f64 {
    let per = 16 / x.dtype.bytes() as i64;
    x.get_f64((first + line % 8 * per + line / 8 * 16 * per + depth % per + depth / per * 8 * per) as usize)
}

/// Two products of 128 by `n` sums, the second added to the first, in the order of the threads' registers.
pub fn tensor_product(input_type: DType, n: i64) -> Case {
    product_of(input_type, n, false)
}

/// The same, the first added to values that threads store.
pub fn started_product(input_type: DType, n: i64) -> Case {
    product_of(input_type, n, true)
}

fn product_of(input_type: DType, n: i64, started: bool) -> Case {
    let shape = Tcgen05Shape { n, input: input_type, group: CtaGroup::One };
    let (k, sum, columns) = (shape.k(), shape.sum(), columns_taken(n));
    let fill = |to: &'static str, p: &'static str, len: i64| {
        let place = || v("i") * c(128) + t();
        serial("i", len / 128, vec![store(to, place(), ldt(p, place(), input_type))])
    };
    let of_first_warp = |then| if_(lt(t(), c(32)), then);
    let op = || Tcgen05::Mma { shape, a: pieces(), b: pieces() };
    let product = |step: i64, add| {
        let places = [at("d", c(0)), at("a", c(step * 128 * k)), at("b", c(step * n * k))];
        does(Instr::new(op(), places, [Expr::bool(add)]))
    };
    let mut body = vec![
        fill("a", "p0", 2 * 128 * k),
        fill("b", "p1", 2 * n * k),
        first(vec![
            does(Instr::new(Sync::MbarrierInit { arrivals: 1 }, [bar()], [])),
            does(Sync::MbarrierFence.into()),
        ]),
        of_first_warp(vec![
            tensor(Tcgen05::Alloc { columns, group: CtaGroup::One }, vec![at("word", c(0))]),
            tensor(Tcgen05::Relinquish { group: CtaGroup::One }, vec![]),
        ]),
        does(Sync::AsyncFence.into()),
        block_barrier(),
        tensor(Tcgen05::Find { column: 0 }, vec![at("d", c(0)), at("word", c(0))]),
    ];
    if started {
        body.push(unrolled("i", n, vec![store("r", v("i"), ldt("p3", t() * c(n) + v("i"), sum))]));
        body.extend(of_thread(n, |count, r, lanes| tensor(Tcgen05::Store { count }, vec![lanes, r])));
        body.extend([Tcgen05::WaitStores, Tcgen05::FenceBefore].map(|op| tensor(op, vec![])));
        body.push(block_barrier());
    }
    body.extend([
        first(vec![
            tensor(Tcgen05::FenceAfter, vec![]),
            product(0, started),
            product(1, true),
            tensor(Tcgen05::Commit { group: CtaGroup::One, mask: 0 }, vec![bar()]),
        ]),
        does(Instr::new(Sync::MbarrierWait, [bar()], [c(0)])),
        tensor(Tcgen05::FenceAfter, vec![]),
    ]);
    body.extend(sums_of_thread(n));
    body.extend([
        tensor(Tcgen05::WaitLoads, vec![]),
        tensor(Tcgen05::FenceBefore, vec![]),
        unrolled("i", n, vec![store("p2", t() * c(n) + v("i"), ldt("r", v("i"), sum))]),
        block_barrier(),
        of_first_warp(vec![tensor(Tcgen05::Dealloc { columns, group: CtaGroup::One }, vec![at("d", c(0))])]),
    ]);
    let all = 128 * n;
    let mut params = vec![input("p0", input_type, 2 * 128 * k), input("p1", input_type, 2 * n * k)];
    params.extend(started.then(|| input("p3", sum, all)));
    params.push(output("p2", sum, all));
    let arrays = vec![
        Array { align: 128, ..shared("a", input_type, 2 * 128 * k as u32) },
        Array { align: 128, ..shared("b", input_type, 2 * (n * k) as u32) },
        shared("word", DType::U32, 1),
        barriers(1),
        registers("r", sum, n as u32, 4),
        Array { scope: ArrayScope::Tensor, ..shared("d", sum, (128 * columns) as u32) },
    ];
    let values = |dtype: DType, len: i64, seed| match sum {
        DType::I32 => {
            Tensor::from_f64(dtype, &[len], &numbers(len, seed).iter().map(|x| (x * 99.0).round()).collect::<Vec<_>>())
        }
        _ => random(dtype, len, seed),
    };
    let mut inputs = vec![values(input_type, 2 * 128 * k, 1), values(input_type, 2 * n * k, 2)];
    inputs.extend(started.then(|| random(sum, all, 3)));
    let value = |o: i64| {
        let [row, column] = place_of(o, n);
        let of = |s: i64, d: i64| element(&inputs[0], s * 128 * k, row, d) * element(&inputs[1], s * n * k, column, d);
        let start = inputs.get(2).map_or(0.0, |x| x.get_f64(o as usize));
        start + (0..2).map(|s| (0..k).map(|d| of(s, d)).sum::<f64>()).sum::<f64>()
    };
    let want = (0..all).map(value).collect();
    let of = if started { "_started" } else { "" };
    let name = format!("tcgen05_{}{of}", shape.name().replace('.', "_"));
    let tolerance = match input_type {
        DType::I8 => 0.0,
        DType::E4M3 | DType::E5M2 | DType::F32 => 1e-3,
        _ => 1e-5,
    };
    Case { tolerance, ..Case::new(one_block(&name, params, arrays, body, 128), 100, inputs, want) }
}

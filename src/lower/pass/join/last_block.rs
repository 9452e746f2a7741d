//! A launch whose blocks are run by blocks of the launch before it: each by that which is the last to end of those whose results it
//! reads. That saves what a launch of its own costs. Nobody waits: a block that is not the last ends.
//!
//! Blocks are put into groups by what they touch: no group touches what another one does and one of them writes. Each
//! has a counter in a workspace.
//!
//! before: grid 8 `p[blockIdx.x] = ..`; grid 2, marked with `last_block`: `y[blockIdx.x] = p[blockIdx.x] + .. + p[6 + blockIdx.x]`
//! after:  grid 8 `p[blockIdx.x] = ..; barrier; if threadIdx.x == 0 { last_block last[0] of 4 at arrivals[blockIdx.x % 2] };
//!         barrier; if last[0] != 0 { part = blockIdx.x % 2; y[part] = p[part] + .. }`

use super::footprint::{Bounds, Footprint, disjoint, hull};
use super::{Groups, Place, Share, params};
use crate::ir::instr::{At, Instr, Op};
use crate::ir::kernel::{Array, ArrayScope, Barrier, CacheHint, KStmt, Kernel, KernelParam, Launch};
use crate::ir::{BinOp, DType, Expr, Mark, Name, PrimFunc, Stmt, ThreadTag};
use crate::lower::LowerError;
use crate::lower::nest::{Nest, THREADS, fresh_name};
use crate::target::Target;
use std::collections::BTreeSet;

const PASS: &str = "last_block";

/// Tells a launch on which blocks of the one before its own are run.
pub fn share(
    f: &PrimFunc,
    target: &Target,
    first: &mut (Nest, Stmt),
    second: &mut (Nest, Stmt),
) -> Result<(), LowerError> {
    let fail = |why: &str| Err(LowerError::new(PASS, &Name::new(&second.0.symbol), why));
    let [blocks, own] = match [&first.0, &second.0].map(blocks) {
        [Some(blocks), Some(own)] if blocks % own == 0 => [blocks, own],
        _ => {
            return fail(
                "it needs whole groups of a known number of blocks along x, which take one tile each, and no clusters",
            );
        }
    };
    if first.0.block != second.0.block {
        return fail("the threads of its blocks are not those of the launch before");
    }
    let both = (Footprint::of(f, target, &first.1)?, Footprint::of(f, target, &second.1)?);
    let Some(groups) = groups(&both, [blocks, own]) else {
        return fail("its blocks do not each read the results of some blocks alone");
    };
    first.0.share = Some(Share::default());
    second.0.share = Some(Share { place: Some(Place::On(groups)), flat: false });
    Ok(())
}

/// Blocks along x of a launch without further axes.
fn blocks(n: &Nest) -> Option<i64> {
    let alone = n.cluster == 1 && n.several.is_none() && n.grid[1].is_int(1) && n.grid[2].is_int(1);
    n.grid[0].as_int().filter(|n| alone && (1..=Mark::MOST_COUNTED).contains(n))
}

/// The blocks of the first launch whose results each of the `own` blocks of the second reads.
fn groups((first, second): &(Footprint, Footprint), [blocks, own]: [i64; 2]) -> Option<Groups> {
    let shared = first.shared(second);
    let boxes = |f: &Footprint, n: i64| shared.iter().map(|b| f.boxes(b, n)).collect::<Option<Vec<_>>>();
    let (earlier, later) = (boxes(first, blocks)?, boxes(second, own)?);
    let of = u32::try_from(blocks / own).ok()?;
    let ways = [true, false].map(|neighbours| Groups { neighbours, count: own, of });
    ways.into_iter().find(|groups| earlier.iter().zip(&later).all(|(e, l)| apart(e, l, groups)))
}

/// True where no group of blocks touches what another one touches.
fn apart(earlier: &[Bounds], later: &[Bounds], groups: &Groups) -> bool {
    let mut hulls = later.to_vec();
    for (block, touched) in earlier.iter().enumerate() {
        let hull_of = &mut hulls[groups.number(block)];
        *hull_of = hull(hull_of, touched);
    }
    disjoint(&hulls)
}

/// The kernel of both. No name of `taken` is free.
pub fn join(first: Launch, second: Launch, groups: &Groups, taken: &mut BTreeSet<Name>) -> Result<Launch, LowerError> {
    let Launch { kernel: mut a, min_blocks, grid, block, cluster } = first;
    let mut b = second.kernel;
    let [arrivals, last] = ["arrivals", "last"].map(|stem| fresh_name(taken, stem));
    let len = Expr::i64(groups.count);
    b.params.push(KernelParam::Pointer { name: arrivals.clone(), dtype: DType::U64, written: true, len });
    a.params = params(&a, &b);
    loads_are_plain(&b.body, &a)?;
    let at = |array: &Name, index: Expr| At { array: array.clone(), index };
    let counter = groups.own(&Expr::var(ThreadTag::BlockX.name(), DType::I32));
    let arrive = Instr::new(Op::LastBlock { of: groups.of }, [at(&last, Expr::i32(0)), at(&arrivals, counter)], []);
    let is_last = Expr::load(last.clone(), vec![Expr::i32(0)], DType::I32);
    a.body.extend([
        KStmt::Barrier(Barrier::Block),
        KStmt::If { cond: first_thread(block), then: vec![KStmt::Instr(arrive)], otherwise: vec![] },
        KStmt::Barrier(Barrier::Block),
        KStmt::If { cond: Expr::binary(BinOp::Ne, is_last, Expr::i32(0)), then: b.body, otherwise: vec![] },
    ]);
    a.arrays.extend(b.arrays);
    a.arrays.push(Array { name: last, dtype: DType::I32, len: 1, scope: ArrayScope::Shared, align: 16 });
    Ok(Launch { kernel: a, grid, block, cluster, min_blocks })
}

/// The first thread of a block.
fn first_thread(block: [u32; 3]) -> Expr {
    let zero = |tag: &ThreadTag| Expr::binary(BinOp::Eq, Expr::var(tag.name(), DType::I32), Expr::i32(0));
    let axes = THREADS.iter().zip(block).filter(|(_, n)| *n > 1);
    let all = axes.map(|(tag, _)| zero(tag)).reduce(|a, b| Expr::binary(BinOp::And, a, b));
    all.unwrap_or_else(|| zero(&ThreadTag::ThreadX))
}

/// What the kernel itself has written is not read as what stays the same (`ld.global.nc`).
fn loads_are_plain(body: &[KStmt], kernel: &Kernel) -> Result<(), LowerError> {
    let mut wrong = None;
    let mut note = |s: &KStmt| {
        if let KStmt::Copy { src, hint: CacheHint::NoAllocate | CacheHint::NoAllocate256, .. } = s
            && kernel.writes(src)
        {
            wrong = Some(src.clone());
        }
    };
    body.iter().for_each(|s| s.visit(&mut note));
    wrong.map_or(Ok(()), |src| Err(LowerError::new(PASS, &src, "the kernel writes what a load takes for constant")))
}

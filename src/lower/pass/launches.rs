//! Splits a function into launches.
//!
//! Each top-level loop nest becomes one kernel. On CUDA the loops bound to `blockIdx.*` give the
//! grid and those bound to `threadIdx.*` the block; blocks of a loop bound to `clusterCtaIdx.x` are a
//! cluster, all of one element of the grid. On the CPU an outermost parallel loop gives the grid, and
//! without one the grid is a single block.
//!
//! before: `for i in thread_binding(8, "blockIdx.x"): for j in thread_binding(32, "threadIdx.x"): ...`
//! after:  a launch with grid (8, 1, 1) and block (32, 1, 1), its body unchanged

use super::widen;
use crate::analysis::simplify;
use crate::ir::{Expr, For, ForKind, Mark, Name, PrimFunc, Stmt, ThreadTag};
use crate::lower::LowerError;
use crate::lower::nest::{BLOCKS, Joins, Nest, Several, THREADS};
use crate::target::{Kind, Target};

const PASS: &str = "launches";
/// Blocks on the y and z axes of a grid.
const MAX_GRID_YZ: i64 = 65_535;

/// The launches of a function with the (widened) statement each is made of.
pub fn split<'a>(f: &'a PrimFunc, target: &'a Target) -> Result<Vec<(Nest<'a>, Stmt)>, LowerError> {
    let mut out = vec![];
    for (i, s) in f.body.iter().enumerate() {
        let s = widen::stmt(s);
        let symbol = symbol(&f.name, i);
        let nest = match target.kind {
            Kind::Cuda => cuda(f, target, symbol, &s)?,
            Kind::Cpu => cpu(f, target, symbol, &s)?,
        };
        out.push((nest, s));
    }
    Ok(out)
}

/// The symbol of launch number `i` of a function.
pub fn symbol(name: &str, i: usize) -> String {
    format!("{}_k{i}", identifier(name))
}

fn identifier(name: &str) -> String {
    let text: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if text.starts_with(|c: char| c.is_ascii_digit()) { format!("f{text}") } else { text }
}

/// The launch of a (widened) statement on a GPU.
pub fn cuda<'a>(f: &'a PrimFunc, target: &'a Target, symbol: String, s: &Stmt) -> Result<Nest<'a>, LowerError> {
    let loops = thread_loops(s);
    if loops.is_empty() {
        return Err(LowerError::new(PASS, &first_block(s), "no loop around this block is bound to threads"));
    }
    let mut grid = [Expr::i64(1), Expr::i64(1), Expr::i64(1)];
    let mut block = [1u32; 3];
    for (tag, l) in &loops {
        if let Some(axis) = BLOCKS.iter().position(|t| t == tag) {
            merge_grid(&mut grid[axis], l, axis)?;
        } else if let Some(axis) = THREADS.iter().position(|t| t == tag) {
            block[axis] = block[axis].max(thread_extent(l)?);
        }
    }
    block[0] = block[0].max(together(s) * target.warp);
    let threads: u64 = block.iter().map(|n| *n as u64).product();
    if threads > target.max_threads as u64 {
        let why = format!("{threads} threads per block, {} allows {}", target.id, target.max_threads);
        return Err(LowerError::new(PASS, &first_block(s), why));
    }
    let mut nest = Nest::new(f, target, symbol, grid, block, s.declared().into_iter().collect());
    nest.cluster = cluster(target, &loops)?;
    nest.ranges.set(ThreadTag::ClusterX.name(), 0, i64::from(nest.cluster) - 1);
    let blocks = loops.iter().find(|(t, _)| *t == ThreadTag::BlockX).map(|(_, l)| l);
    nest.min_blocks = blocks.and_then(min_blocks);
    nest.joins = blocks.and_then(|l| Mark::all(&l.annotations).find_map(|m| Joins::of(&m)));
    nest.several = blocks.and_then(|l| Mark::all(&l.annotations).find_map(several));
    Ok(nest)
}

/// Warps that carry out a nest together, as it is marked: the block has as many where no loop is bound to threads.
fn together(s: &Stmt) -> u32 {
    let mut most = 0;
    s.visit(&mut |s| {
        if let Stmt::For(l) = s {
            let along = [
                marked(l, |m| if let Mark::WarpsM(n) = m { Some(n) } else { None }),
                marked(l, |m| if let Mark::WarpsN(n) = m { Some(n) } else { None }),
            ];
            let warps = along[0].zip(along[1]).and_then(|(m, n)| u32::try_from(m * n).ok());
            most = most.max(warps.unwrap_or(0));
        }
    });
    most
}

fn merge_grid(grid: &mut Expr, l: &For, axis: usize) -> Result<(), LowerError> {
    let extent = simplify(&l.extent, &Default::default());
    if !grid.is_int(1) && *grid != extent {
        return Err(LowerError::new(PASS, &l.var, "another loop bound to the same grid axis has another extent"));
    }
    if axis > 0 && extent.as_int().is_some_and(|n| n > MAX_GRID_YZ) {
        let why = format!("{} blocks on a grid axis that holds {MAX_GRID_YZ}", extent.as_int().unwrap_or(0));
        return Err(LowerError::new(PASS, &l.var, why));
    }
    *grid = extent;
    Ok(())
}

/// Blocks per cluster.
fn cluster(target: &Target, loops: &[(ThreadTag, For)]) -> Result<u32, LowerError> {
    let mut blocks = None;
    for (_, l) in loops.iter().filter(|(t, _)| *t == ThreadTag::ClusterX) {
        let n = thread_extent(l)?;
        if n > target.max_cluster {
            let why = format!("a cluster of {n} blocks, {} allows {}", target.id, target.max_cluster);
            return Err(LowerError::new(PASS, &l.var, why));
        }
        if *blocks.get_or_insert(n) != n {
            return Err(LowerError::new(PASS, &l.var, "another loop over the blocks of a cluster has another extent"));
        }
    }
    Ok(blocks.unwrap_or(1))
}

fn thread_extent(l: &For) -> Result<u32, LowerError> {
    let extent = simplify(&l.extent, &Default::default()).as_int().and_then(|n| u32::try_from(n).ok());
    extent
        .filter(|n| *n > 0)
        .ok_or_else(|| LowerError::new(PASS, &l.var, "a loop bound to threads needs a positive constant extent"))
}

fn cpu<'a>(f: &'a PrimFunc, target: &'a Target, symbol: String, s: &Stmt) -> Result<Nest<'a>, LowerError> {
    if let Some((_, l)) = thread_loops(s).first() {
        return Err(LowerError::new(PASS, &l.var, "a loop is bound to GPU threads, but the target is a CPU"));
    }
    let blocks = parallel_loop(s).map_or(Expr::i64(1), |l| simplify(&l.extent, &Default::default()));
    Ok(Nest::new(f, target, symbol, [blocks, Expr::i64(1), Expr::i64(1)], [1; 3], s.declared().into_iter().collect()))
}

/// The loop that a CPU launch runs in parallel: the outermost one, if it is marked so.
pub fn parallel_loop(s: &Stmt) -> Option<&For> {
    if let Stmt::For(l) = s
        && l.kind == ForKind::Parallel
    {
        return Some(l);
    }
    None
}

fn thread_loops(s: &Stmt) -> Vec<(ThreadTag, For)> {
    let mut loops = vec![];
    s.visit(&mut |s| {
        if let Stmt::For(l) = s
            && let ForKind::Thread(tag) = l.kind
            && (tag.is_block() || tag.is_thread() || tag == ThreadTag::ClusterX)
        {
            loops.push((tag, For { body: vec![], ..l.clone() }));
        }
    });
    loops
}

/// The second argument of `__launch_bounds__`, a mark of the `blockIdx.x` loop.
fn min_blocks(l: &For) -> Option<u32> {
    let blocks = marked(l, |m| if let Mark::MinBlocks(n) = m { Some(n) } else { None });
    blocks.and_then(|n| n.try_into().ok())
}

/// How the blocks of a loop that is marked so come to several tiles.
fn several(m: Mark) -> Option<Several> {
    match m {
        Mark::Persistent(blocks) => Some(Several::Strided(blocks)),
        Mark::Fetched(true) => Some(Several::Fetched),
        _ => None,
    }
}

/// The number that a loop is marked with.
fn marked(l: &For, number: impl Fn(Mark) -> Option<i64>) -> Option<i64> {
    Mark::all(&l.annotations).find_map(number)
}

fn first_block(s: &Stmt) -> Name {
    let mut name = None;
    s.visit(&mut |s| {
        if let Stmt::Block(b) = s
            && name.is_none()
        {
            name = Some(b.name.clone());
        }
    });
    name.unwrap_or_else(|| Name::new("body"))
}

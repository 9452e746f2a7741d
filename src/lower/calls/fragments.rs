//! Tiles that the threads of a block hold together, as accumulator fragments of its warps.
//!
//! A schedule marks a nest `i, j, k` with `tile = "gemm"` and the number of warps along rows and columns
//! (`warps_m`, `warps_n`): the threads of the block carry it out together. The tile that it adds to is
//! then shared out among their registers, and nests over it that are marked `tile = "elementwise"` with
//! the same numbers (what it starts from, what is made of it) become loops over a thread's own part, pairs
//! of neighbours stored together.
//!
//! before: `for i < 64, j < 64 { c[i, j] = 0 }; for k { ..; for i, j, k { c[i, j] += a[i, k] * b[k, j] } };`
//!         `for i < 64, j < 64 { out[i, j] = f(c[i, j]) }`
//! after:  `for x < 4, y < 16 { c[x * 16 + y] = 0 }; for k { ..; Tx.cta.gemm(c, a, b, accum=True) };`
//!         `for x < 4, y < 8 { for v < 2 { out[row(x), column(2 y + v)] = f(c[x * 16 + y * 2 + v]) } }`
//!
//! The schedule is at fault where a nest has another form, and where anything else reads or writes the tile.

use super::blocks::{self, Parts};
use super::fills;
use super::part_loops::{self, Held, PAIR, What};
use super::sums::{in_tensor, in_two};
use super::{group_words, permuted, runs, words};
use crate::analysis::{linear, simplify};
use crate::ir::device::{DFor, DStmt, LeafOp, TileMark};
use crate::ir::layout::words::WORD;
use crate::ir::layout::{Axis, Fragment, Iter, TileLayout};
use crate::ir::{
    AttrValue, BinOp, Buffer, DType, ExecScope, Expr, ExprKind, Name, Scope, Tile, TileArg, TileCall, TileOp,
};
use crate::lower::LowerError;
use crate::lower::fact::reducer::update_of;
use crate::lower::nest::Nest;
use std::collections::BTreeMap;

pub const PASS: &str = "fragments";
/// Warps of a warpgroup.
const WARPS_OF_GROUP: i64 = 4;

/// Turns the marked nests of a launch into calls and loops over registers.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Result<Vec<DStmt>, LowerError> {
    let mut products = BTreeMap::new();
    for s in &body {
        find(nest, &body, s, &mut products)?;
    }
    if products.is_empty() {
        return Ok(body);
    }
    for p in products.values() {
        hold(nest, p)?;
    }
    let decoded: Vec<&Held> = products.values().filter(|p| p.staged).flat_map(Product::staged).collect();
    let body = if decoded.is_empty() { body } else { words::filled_with_zeros(nest, &decoded, body) };
    let counted = fills::barrier(nest, &body);
    let body = list(nest, &products, counted.as_ref(), body)?;
    products.values().try_fold(body, |body, p| match &p.by {
        By::Tensor(d, _) => Ok(in_tensor::loaded(body, d, &p.held)),
        By::InTwo(rest) => in_two::added(nest, body, &p.held, rest),
        By::Warps | By::Warpgroups => Ok(body),
    })
}

/// A marked product.
struct Product {
    held: Held,
    dtype: DType,
    warps: [i64; 2],
    by: By,
    /// The factors that are held in registers as they are loaded, with their layouts.
    factors: Vec<(Held, TileLayout)>,
    /// They come from shared memory.
    staged: bool,
    /// The factors that are not computed, as numbers and scales, with what would hold their values.
    blocked: Vec<(Held, Parts)>,
}

/// Who carries out a product.
#[derive(Clone, PartialEq, Debug)]
pub enum By {
    Warps,
    Warpgroups,
    /// The same, whose products of low parts add up in these registers.
    InTwo(Name),
    /// One thread, into this buffer of tensor memory, whose products arrive at this barrier.
    Tensor(Name, Name),
}

impl Product {
    fn tiles(&self) -> impl Iterator<Item = &Held> {
        [&self.held].into_iter().chain(self.factors.iter().map(|f| &f.0))
    }

    /// The factors whose values are made of what is in shared memory.
    fn staged(&self) -> impl Iterator<Item = &Held> {
        self.factors.iter().map(|f| &f.0).chain(self.blocked.iter().map(|f| &f.0))
    }

    /// True for the nest that computes the values of a factor that is not computed.
    fn leaves_out(&self, l: &DFor) -> bool {
        self.blocked.iter().any(|(held, _)| blocks::computes(l, &held.buffer))
    }
}

fn find(nest: &mut Nest, launch: &[DStmt], s: &DStmt, out: &mut BTreeMap<Name, Product>) -> Result<(), LowerError> {
    if let DStmt::For(l) = s
        && let Some((TileMark { op: LeafOp::Tile(TileOp::Gemm), variant, .. }, warps)) = mark(l)
    {
        let g = Gemm::of(nest, l)?;
        let scope = scope(nest, warps);
        let factors = factors(launch, &g, (variant, warps), scope);
        let mut factors = factors.map_err(|why| LowerError::new(PASS, &g.d, why))?;
        if let Some((words, _)) = factors.first_mut().filter(|_| by(variant, runs::SCALED)) {
            runs::scales(nest, words).map_err(|why| LowerError::new(PASS, &g.d, why))?;
        }
        let blocked = if blocks::takes(variant) { g.blocked(nest, launch, scope)? } else { vec![] };
        let staged = by(variant, words::VARIANT) || blocks::takes(variant) || by(variant, group_words::VARIANT);
        let groups = group_words::by_groups(variant);
        let what = if groups { What::SumsOfGroups } else { What::Sums };
        let (held, dtype) = (g.held(what, scope), nest.buffer(PASS, &g.d)?.dtype);
        let by = match variant.as_deref() {
            Some(in_two::VARIANT) => By::InTwo(nest.fresh(&format!("{}_rest", g.d))),
            _ if groups => By::Warpgroups,
            Some(in_tensor::VARIANT | in_tensor::SCALED) => in_tensor::hold(nest, &g.d, dtype, held.shape)?,
            _ => By::Warps,
        };
        let product = Product { held, dtype, warps, by, factors, staged, blocked };
        return match out.insert(g.d.clone(), product) {
            Some(old) if old.held != out[&g.d].held => fault(&l.var, "another product has another tile of the buffer"),
            _ => Ok(()),
        };
    }
    s.lists().into_iter().flatten().try_for_each(|s| find(nest, launch, s, out))
}

/// Who carries out what is marked with so many warps along rows and columns: each warp by itself where it is one of a
/// block of several.
fn scope(nest: &Nest, warps: [i64; 2]) -> ExecScope {
    let threads: i64 = nest.block.iter().map(|n| i64::from(*n)).product();
    if warps == [1, 1] && threads > i64::from(nest.target.warp) { ExecScope::Warp } else { ExecScope::Cta }
}

/// The factors that a variant wants in registers as they are loaded, with their layouts.
fn factors(
    launch: &[DStmt],
    g: &Gemm,
    (variant, [along_rows, warps]): (&Option<String>, [i64; 2]),
    scope: ExecScope,
) -> Result<Vec<(Held, TileLayout)>, String> {
    let [rows, columns, depth] = g.extents;
    let b = || g.factor(&g.b.0, columns, WORD, scope);
    if by(variant, group_words::VARIANT) {
        let groups = if warps == 1 { along_rows / WARPS_OF_GROUP } else { 0 };
        let layout = TileLayout::of_group_words(rows, depth, groups)?;
        return Ok(vec![(g.factor(&g.a.0, rows, PAIR, scope), layout)]);
    }
    if by(variant, words::VARIANT) {
        let layout =
            if along_rows == 1 { TileLayout::of_words(columns, depth, warps) } else { Err("warps share rows".into()) };
        return Ok(vec![(b(), layout?)]);
    }
    if !runs::by_runs(variant) {
        return Ok(vec![]);
    }
    let kind = runs::kind(launch, [&g.a.0.buffer, &g.b.0.buffer]);
    Ok(vec![(g.factor(&g.a.0, rows, WORD, scope), kind.first(rows, depth)?), (b(), kind.second(columns, depth)?)])
}

/// The mark of a nest that the block carries out together.
fn mark(l: &DFor) -> Option<(&TileMark, [i64; 2])> {
    let mark = l.tile.as_ref()?;
    mark.warps.map(|w| (mark, w))
}

/// True for the variant of that name.
fn by(variant: &Option<String>, name: &str) -> bool {
    variant.as_deref() == Some(name)
}

fn fault<T>(at: &Name, why: impl Into<String>) -> Result<T, LowerError> {
    Err(LowerError::new(PASS, at, why))
}

/// Gives the tiles of a product their registers.
fn hold(nest: &mut Nest, p: &Product) -> Result<(), LowerError> {
    let sums = accumulators(p.held.shape, p.warps, &p.by);
    if let By::InTwo(rest) = &p.by {
        hold_tile(nest, &Held { buffer: rest.clone(), ..p.held.clone() }, p.dtype, sums.clone())?;
    }
    hold_tile(nest, &p.held, p.dtype, sums)?;
    for (held, layout) in &p.factors {
        let dtype = nest.buffer(PASS, &held.buffer)?.dtype;
        hold_tile(nest, held, dtype, Ok(layout.clone()))?;
    }
    Ok(())
}

/// Gives a tile registers as a layout says.
fn hold_tile(nest: &mut Nest, held: &Held, dtype: DType, layout: Result<TileLayout, String>) -> Result<(), LowerError> {
    let name = &held.buffer;
    let layout = layout.map_err(|why: String| LowerError::new(PASS, name, why))?;
    let len = layout.span(Axis::M);
    let shape = held.shape.map(Expr::i64).to_vec();
    let tile = Buffer { layout: Some(layout), ..Buffer::new(name.clone(), dtype, shape, Scope::Local) };
    nest.held.insert(name.clone(), tile);
    let flat = Buffer::new(name.clone(), dtype, vec![Expr::i64(len)], Scope::Local);
    nest.buffers.insert(name.clone(), flat);
    Ok(())
}

/// Accumulator fragments of a tile, a contiguous part of it for each of `m` by `n` warps; where warpgroups multiply, for
/// each of these, whose warps take turns along its rows. From tensor memory, warpgroups have columns, and each warp of
/// one the rows that it can read.
fn accumulators(shape: [i64; 2], [m, n]: [i64; 2], by: &By) -> Result<TileLayout, String> {
    let of = Fragment::M16N8Acc.shape();
    let [rows, columns] = shape;
    if m < 1 || n < 1 || rows % (m * of[0]) != 0 || columns % (n * of[1]) != 0 {
        return Err(format!("a tile of {rows} by {columns} is no grid of fragments of {m} by {n} warps"));
    }
    let (x, y) = (rows / of[0] / m, columns / of[1] / n);
    if *by != By::Warps && m % 4 != 0 {
        return Err(format!("{m} warps along the rows are no whole warpgroups"));
    }
    let (warps, own) = (|n, stride| Iter::new(n, stride, Axis::WarpId), |n, stride| Iter::new(n, stride, Axis::M));
    let grid = match by {
        By::Warps => vec![warps(m, n), own(x, y), warps(n, 1), own(y, 1)],
        By::Warpgroups | By::InTwo(_) => vec![warps(m / 4, 4 * n), own(x, y), warps(4, 1), warps(n, 4), own(y, 1)],
        By::Tensor(..) => vec![warps(m / 4, 4 * n), warps(4, 1), own(x, y), warps(n, 4), own(y, 1)],
    };
    let grid = TileLayout::of_shard(grid)?;
    Fragment::M16N8Acc.layout().tile(&grid, &[rows / of[0], columns / of[1]], &of)
}

fn list(
    nest: &mut Nest,
    products: &BTreeMap<Name, Product>,
    counted: Option<&Name>,
    body: Vec<DStmt>,
) -> Result<Vec<DStmt>, LowerError> {
    let mut out = vec![];
    for s in body {
        match s {
            DStmt::For(l) => match mark(&l) {
                Some((TileMark { op: LeafOp::Tile(TileOp::Gemm), variant, .. }, warps)) => {
                    let held = [
                        runs::by_runs(variant) || by(variant, group_words::VARIANT),
                        runs::by_runs(variant) || by(variant, words::VARIANT),
                    ];
                    let g = Gemm::of(nest, &l)?;
                    let product = products.get(&g.d);
                    let call = match product.map_or(&[][..], |p| &p.blocked) {
                        [a, b] => g.call_of_parts([&a.1, &b.1], scope(nest, warps)),
                        _ => g.call(held, scope(nest, warps)),
                    };
                    let call = TileCall { forced: variant.clone(), ..call };
                    let call = match product.map(|p| &p.by) {
                        Some(By::Tensor(d, done)) => in_tensor::product(call, d, done),
                        Some(By::InTwo(rest)) => in_two::product(call, rest),
                        Some(By::Warps | By::Warpgroups) | None => call,
                    };
                    let call = match product.and_then(|p| p.factors.first()) {
                        Some((factor, _)) => runs::scaled(call, factor),
                        None => call,
                    };
                    out.push(DStmt::Tile(Box::new(call)));
                }
                Some((TileMark { op: LeafOp::Elementwise, .. }, _)) if products.values().any(|p| p.leaves_out(&l)) => {}
                Some((TileMark { op: LeafOp::Elementwise, .. }, _)) => {
                    let held: Vec<&Held> = products.values().flat_map(Product::tiles).collect();
                    out.extend(part_loops::of(nest, &l, &held)?);
                }
                Some((TileMark { op: LeafOp::Tile(TileOp::CopyAsync), .. }, _)) => {
                    let call = fills::call(nest, &l, counted)?;
                    out.push(DStmt::Tile(Box::new(call)));
                }
                Some(_) => return fault(&l.var, "a block carries out products, fills and elementwise nests"),
                None => out.push(DStmt::For(l).try_map_lists(|inner| list(nest, products, counted, inner))?),
            },
            DStmt::If { .. } => out.push(s.try_map_lists(|inner| list(nest, products, counted, inner))?),
            other => {
                if let Some(name) = products.keys().find(|name| part_loops::touches(&other, name)) {
                    return fault(name, "the registers of a block's tile are used outside of its marked nests");
                }
                out.push(other);
            }
        }
    }
    Ok(out)
}

/// `D [i, j] += A [i, k] * B [k, j]`, each in a part of a buffer.
struct Gemm {
    d: Name,
    d_indices: Vec<Expr>,
    /// The dimensions of D that are rows and columns.
    dims: [usize; 2],
    /// Rows, columns, depth.
    extents: [i64; 3],
    a: (Tile, bool),
    b: (Tile, bool),
}

impl Gemm {
    fn of(nest: &Nest, l: &DFor) -> Result<Gemm, LowerError> {
        let no = |why: &str| LowerError::new(PASS, &l.var, format!("no product of a block's tile: {why}"));
        let (loops, body) = part_loops::perfect(l);
        let [s] = body else { return Err(no("it is not one statement")) };
        let up = update_of(s).filter(|up| up.op == BinOp::Add).ok_or_else(|| no("it adds nothing to its tile"))?;
        let ExprKind::Binary { op: BinOp::Mul, a, b } = plain(&up.term).kind() else {
            return Err(no("what it adds is no product"));
        };
        let (a, b) = (operand(a).ok_or_else(|| no("a factor is computed")), operand(b));
        let (a, b) = (a?, b.ok_or_else(|| no("a factor is computed"))?);
        let place = |indices: &[Expr], var: &Name| indices.iter().position(|e| e.uses_var(var));
        let role = |own: &[&Vec<Expr>], not: &Vec<Expr>| {
            let all = |v: &Name| own.iter().all(|i| place(i, v).is_some()) && place(not, v).is_none();
            loops.iter().find(|(v, n)| *n > 1 && all(v)).cloned()
        };
        let of_a = role(&[&up.indices, &a.1], &b.1).ok_or_else(|| no("no loop is over rows of the first factor"))?;
        let of_b =
            role(&[&up.indices, &b.1], &a.1).ok_or_else(|| no("no loop is over columns of the second factor"))?;
        let k = role(&[&a.1, &b.1], &up.indices).ok_or_else(|| no("no loop is over both factors alone"))?;
        if loops.iter().any(|(v, n)| *n > 1 && ![&of_a.0, &of_b.0, &k.0].contains(&v)) {
            return Err(no("it has more than three loops"));
        }
        let [da, db] = [&of_a, &of_b].map(|v| place(&up.indices, &v.0).unwrap_or(0));
        // the factor whose loop comes first in D is A
        let ((a, rows), (b, columns), dims) =
            if da < db { ((a, of_a), (b, of_b), [da, db]) } else { ((b, of_b), (a, of_a), [db, da]) };
        let tile = |(name, indices): &(Name, Vec<Expr>), first: &(Name, i64), second: &(Name, i64)| {
            tile(nest, name, indices, [first, second]).ok_or_else(|| no("a factor's indices are no part of a matrix"))
        };
        Ok(Gemm {
            a: tile(&a, &rows, &k)?,
            b: tile(&b, &k, &columns)?,
            d: up.buffer.clone(),
            d_indices: at_zero(nest, &up.indices, &loops),
            dims,
            extents: [rows.1, columns.1, k.1],
        })
    }

    fn held(&self, what: What, scope: ExecScope) -> Held {
        let [rows, columns, _] = self.extents;
        let (buffer, first, dims) = (self.d.clone(), self.d_indices.clone(), self.dims);
        Held { buffer, first, dims, shape: [rows, columns], run: PAIR, what, scope, scales: None }
    }

    /// A factor whose `rows` lie one after the other, as lanes load it, `run` neighbours each.
    fn factor(&self, of: &Tile, rows: i64, run: i64, scope: ExecScope) -> Held {
        let dim = |n: usize| of.extent.iter().enumerate().filter(|(_, e)| **e > 1).map(|(d, _)| d).nth(n).unwrap_or(0);
        let (buffer, first, shape) = (of.buffer.clone(), of.begin.clone(), [rows, self.extents[2]]);
        Held { buffer, first, dims: [dim(0), dim(1)], shape, run, what: What::Factor, scope, scales: None }
    }

    /// Both factors as what they are made of.
    fn blocked(&self, nest: &mut Nest, launch: &[DStmt], scope: ExecScope) -> Result<Vec<(Held, Parts)>, LowerError> {
        let [rows, columns, _] = self.extents;
        let mut of = |(tile, _): &(Tile, bool), lines: i64| {
            let parts = blocks::of(nest, launch, &tile.buffer).map_err(|why| LowerError::new(PASS, &self.d, why))?;
            Ok((self.factor(tile, lines, WORD, scope), parts))
        };
        Ok(vec![of(&self.a, rows)?, of(&self.b, columns)?])
    }

    /// The call for factors that are numbers and scales, both by lines along the reduced axis.
    fn call_of_parts(&self, [a, b]: [&Parts; 2], scope: ExecScope) -> TileCall {
        let [rows, columns, _] = self.extents;
        let args = [a, b].map(|p| TileArg::Tile(p.codes.clone())).to_vec();
        let mut call = TileCall::new(TileOp::Gemm, scope, Tile::whole(&self.d, &[rows, columns]), args);
        call.accum = true;
        call.config.insert("transpose_b".into(), AttrValue::Bool(true));
        for (name, p) in [("sfa", a), ("sfb", b)] {
            call.operands.insert(name.into(), TileArg::Tile(p.scales.clone()));
        }
        call
    }

    /// The call, for factors of which some are `held` in registers as they are loaded.
    fn call(&self, held: [bool; 2], scope: ExecScope) -> TileCall {
        let [rows, columns, depth] = self.extents;
        let of = |tile: &Tile, rows: i64, held: bool| match held {
            true => TileArg::Tile(Tile::whole(&tile.buffer, &[rows, depth])),
            false => TileArg::Tile(tile.clone()),
        };
        let args = vec![of(&self.a.0, rows, held[0]), of(&self.b.0, columns, held[1])];
        let mut call = TileCall::new(TileOp::Gemm, scope, Tile::whole(&self.d, &[rows, columns]), args);
        call.accum = true;
        for (name, (_, transposed)) in [("transpose_a", &self.a), ("transpose_b", &self.b)] {
            if *transposed {
                call.config.insert(name.into(), AttrValue::Bool(true));
            }
        }
        call
    }
}

/// The part of a buffer that two loops walk over, and whether the second comes first in it.
pub fn tile(nest: &Nest, name: &Name, indices: &[Expr], loops: [&(Name, i64); 2]) -> Option<(Tile, bool)> {
    let mut extent = vec![1; indices.len()];
    let mut at = [0; 2];
    for ((var, n), at) in loops.into_iter().zip(&mut at) {
        *at = indices.iter().position(|e| e.uses_var(var))?;
        let (step, _) = linear(&indices[*at], var, &nest.ranges)?;
        if !step.is_int(1) || indices.iter().skip(*at + 1).any(|e| e.uses_var(var)) || extent[*at] != 1 {
            return None;
        }
        extent[*at] = *n;
    }
    let both = loops.map(Clone::clone);
    Some((Tile { buffer: name.clone(), begin: at_zero(nest, indices, &both), extent }, at[0] > at[1]))
}

fn at_zero(nest: &Nest, indices: &[Expr], loops: &[(Name, i64)]) -> Vec<Expr> {
    let zero = |name: &Name| loops.iter().any(|(v, _)| v == name).then(|| Expr::i64(0));
    indices.iter().map(|e| simplify(&e.subst(&zero), &nest.ranges)).collect()
}

/// A factor: elements of a buffer, converted or not.
fn operand(e: &Expr) -> Option<(Name, Vec<Expr>)> {
    match plain(e).kind() {
        ExprKind::Load { buffer, indices, .. } => Some((buffer.clone(), indices.clone())),
        _ => None,
    }
}

/// An expression without the conversions to wider types around it.
fn plain(e: &Expr) -> &Expr {
    match e.kind() {
        ExprKind::Cast { dtype, arg }
            if dtype.bytes() >= arg.dtype().bytes() && dtype.is_float() == arg.dtype().is_float() =>
        {
            plain(arg)
        }
        _ => e,
    }
}

/// Carries out the calls of a launch, whose shared buffers have shrunk to their tiles.
pub fn carry_out(nest: &mut Nest, body: Vec<DStmt>) -> Result<Vec<DStmt>, LowerError> {
    permuted::note(nest, &body)?;
    carry_out_all(nest, body)
}

fn carry_out_all(nest: &mut Nest, body: Vec<DStmt>) -> Result<Vec<DStmt>, LowerError> {
    let mut out = vec![];
    for s in body {
        match s {
            DStmt::Tile(call) => out.extend(dispatched(nest, *call)?),
            s => out.push(s.try_map_lists(|inner| carry_out_all(nest, inner))?),
        }
    }
    Ok(out)
}

fn dispatched(nest: &mut Nest, mut call: TileCall) -> Result<Vec<DStmt>, LowerError> {
    let mut shown: Vec<Buffer> = nest.held.get(&call.dst.buffer).cloned().into_iter().collect();
    let filled = shown.is_empty().then_some(&mut call.dst);
    // of a product the scales, of a copy its barrier
    let named = call.operands.values_mut().filter(|_| call.op == TileOp::Gemm);
    let args = call.args.iter_mut().chain(named);
    let args = args.filter_map(|a| if let TileArg::Tile(t) = a { Some(t) } else { None });
    for t in filled.into_iter().chain(args) {
        if let Some(tile) = nest.held.get(&t.buffer) {
            shown.push(tile.clone());
            continue;
        }
        let mut b = matrix(nest, t)?;
        if let Some(permutation) = nest.permuted.get(&b.name) {
            b.layout = permutation.layout(&b);
        }
        shown.push(b);
    }
    let body = nest.carry_out(&call, &shown);
    let body = body.map_err(|e| LowerError::new(PASS, &call.dst.buffer, e.to_string()))?;
    permuted::note_likewise(nest, &call, &body);
    let by_rows = by(&call.forced, words::VARIANT);
    for s in &body {
        crate::lower::pass::swizzle::choose(nest, &shown, s, by_rows);
    }
    Ok(body)
}

/// Takes the dimensions of extent 1 from a tile, and gives its buffer without them.
pub fn matrix(nest: &Nest, t: &mut Tile) -> Result<Buffer, LowerError> {
    let b = nest.buffer(PASS, &t.buffer)?;
    let shape = nest.joined.get(&t.buffer).unwrap_or(&b.shape);
    let kept: Vec<usize> = (0..shape.len()).filter(|d| !shape[*d].is_int(1) || t.extent[*d] != 1).collect();
    let of = |all: &[Expr]| kept.iter().map(|d| all[*d].clone()).collect();
    let strides = if b.strides.len() == shape.len() { of(&b.strides) } else { b.strides.clone() };
    (t.begin, t.extent) = (of(&t.begin), kept.iter().map(|d| t.extent[*d]).collect());
    Ok(Buffer { shape: of(shape), strides, ..b.clone() })
}

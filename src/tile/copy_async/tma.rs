//! Tensor copies: one thread starts copies of whole boxes through a tensor map, which the hardware
//! carries out, swizzle included.
//!
//! When: sm_90 and up, between a tensor of constant shape in device memory and shared memory that holds
//! boxes of the tile dense, in the order of the tensor's dimensions, plain or swizzled within 32, 64 or
//! 128 bytes. Boxes are the largest that divide the tile, at most 256 elements along a dimension; their
//! rows are a multiple of 16 bytes, and as long as the swizzle's. Loads count their bytes on the barrier
//! that `mbar=` names; stores belong to the thread's bulk group. The first thread of the scope starts
//! them; at thread scope each thread that reaches the call.
//!
//! before: `Tx.cta.copy_async(A_smem[0:64, 0:64], A[i * 64:i * 64 + 64, 0:64], mbar=bar[0])` of float16
//! after:  `if threadIdx.x == 0 { tensor_load A_smem[0] <- A_map[0, i * 64], bar[0] }`
//!
//! Declines tensors that no map describes, other orders in shared memory, a load without a barrier,
//! older targets. The program makes the barrier, announces the bytes and waits.

use super::OPS;
use super::bulk::{barrier, by_first_thread, in_bulk};
use super::gate::global_shared;
use crate::analysis::{Ranges, linear, multiple_of, simplify};
use crate::ir::device::{DStmt, index_var};
use crate::ir::instr::{At, Instr, Landing, Op};
use crate::ir::layout::{Axis, Swizzle};
use crate::ir::{ExecScope, Expr, MapSwizzle, Name, TensorMap, TileCall};
use crate::tile::copy::{Pair, spread};
use crate::tile::view::unravel;
use crate::tile::{Cx, Emit, Plan, Refusals, Variant, View};

/// Most elements of a box along a dimension.
const LONGEST: i64 = 256;
/// Most dimensions of a map.
const MAX_RANK: usize = 5;
/// Bytes of the chunks that rows are made of.
const CHUNK: i64 = 16;
/// Bytes that the L2 fetches at once.
const L2: u32 = 128;

pub(super) const VARIANT: Variant = Variant { name: "tma", ops: OPS, priority: 15, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let pair = in_bulk(call, cx, r);
    r.ask_of("tensor", &pair, tensor);
    let boxes = r.ask_of("boxes", &pair, |p| Boxes::of(p, cx));
    let bar = barrier(&pair, call, cx, r);
    let (boxes, bar, scope) = (boxes?, bar?, call.scope);
    Some(Box::new(move |e| boxes.emit(bar, scope, e)))
}

/// A dimension of the tensor.
#[derive(Clone, Copy)]
struct Dim {
    /// Its number in the buffer.
    at: usize,
    size: i64,
    /// Elements from one index to the next.
    stride: i64,
}

/// The dimensions of the tensor, innermost first, without those of one element.
fn dims(global: &View) -> Result<Vec<Dim>, String> {
    let (layout, shape) = global.layout()?;
    let name = &global.buffer;
    let plain =
        layout.swizzle().is_none_or(|s| s.swizzle_len() == 0) && layout.replicas() == 1 && layout.offset().is_empty();
    if !plain {
        return Err(format!("`{name}` has layout {layout}, which is more than strides"));
    }
    let mut out = vec![];
    for (at, group) in layout.grouped(shape)?.iter().enumerate() {
        match group.as_slice() {
            [] => {}
            [it] if it.axis == Axis::M && it.stride > 0 => out.push(Dim { at, size: it.extent, stride: it.stride }),
            _ => return Err(format!("dimension {at} of `{name}` has no stride of its own in layout {layout}")),
        }
    }
    out.sort_by_key(|d| d.stride);
    match out.first() {
        Some(d) if d.stride == 1 && out.len() <= MAX_RANK => Ok(out),
        Some(d) if d.stride == 1 => {
            Err(format!("`{name}` has {} dimensions, a tensor map at most {MAX_RANK}", out.len()))
        }
        _ => Err(format!("no dimension of `{name}` has adjacent elements")),
    }
}

/// That the strides of the tensor are those of a map.
fn tensor(pair: &Pair) -> Result<(), String> {
    let (global, _) = global_shared(pair)?;
    let bytes = global.dtype.bytes() as i64;
    match dims(global)?.iter().skip(1).find(|d| d.stride * bytes % CHUNK != 0) {
        None => Ok(()),
        Some(d) => {
            let apart = d.stride * bytes;
            Err(format!("rows of `{}` are {apart} bytes apart, not a multiple of {CHUNK}", global.buffer))
        }
    }
}

/// The boxes that a tile is made of.
struct Boxes {
    global: View,
    shared: View,
    dims: Vec<Dim>,
    /// Elements of a box along each of `dims`.
    size: Vec<i64>,
    /// Number of boxes along each of `dims`.
    count: Vec<i64>,
    swizzle: MapSwizzle,
}

impl Boxes {
    fn of(pair: &Pair, cx: &Cx) -> Result<Boxes, String> {
        let (global, shared) = global_shared(pair)?;
        let dims = dims(global)?;
        let swizzle = map_swizzle(shared)?;
        let bytes = global.dtype.bytes() as i64;
        let extent: Vec<i64> = dims.iter().map(|d| global.extent[d.at]).collect();
        if extent.iter().product::<i64>() != shared.len() || shared.is_empty() {
            return Err(format!(
                "the tile of `{}` is {:?}, that of `{}` {:?}",
                global.buffer, global.extent, shared.buffer, shared.extent
            ));
        }
        let rows = |n: &i64| n * bytes % CHUNK == 0 && (swizzle == MapSwizzle::None || n * bytes == swizzle.span());
        for inner in divisors(extent[0]).into_iter().filter(rows) {
            let mut size = vec![1; dims.len()];
            size[0] = inner;
            let starts = |size: &[i64]| starts(global, shared, &dims, size, cx.ranges);
            if starts(&size).is_none() {
                continue;
            }
            for d in 1..size.len() {
                let fits = |n: &i64| {
                    let mut larger = size.clone();
                    larger[d] = *n;
                    starts(&larger).is_some()
                };
                size[d] = divisors(extent[d]).into_iter().find(fits).unwrap_or(1);
            }
            if starts(&size).is_none_or(|multiple| multiple * bytes % swizzle.align() != 0) {
                continue;
            }
            let count = extent.iter().zip(&size).map(|(n, b)| n / b).collect();
            let (global, shared) = (global.clone(), shared.clone());
            return Ok(Boxes { global, shared, dims, size, count, swizzle });
        }
        Err(format!(
            "`{}` does not hold rows of `{}` in boxes of a multiple of {CHUNK} bytes, aligned to {}",
            shared.buffer,
            global.buffer,
            swizzle.align()
        ))
    }

    fn map(&self) -> TensorMap {
        let View { buffer, dtype, .. } = &self.global;
        let bytes = dtype.bytes() as i64;
        TensorMap {
            name: buffer.clone(),
            buffer: buffer.clone(),
            dtype: *dtype,
            dims: self.dims.iter().map(|d| d.size).collect(),
            strides_bytes: self.dims.iter().skip(1).map(|d| d.stride * bytes).collect(),
            box_dims: self.size.clone(),
            elem_strides: vec![1; self.dims.len()],
            swizzle: self.swizzle,
            l2: L2,
        }
    }

    /// The index in the tile, over the dimensions of the tensor, of the first element of box `number`.
    fn first(&self, number: Expr) -> Vec<Expr> {
        let outer: Vec<i64> = self.count.iter().rev().copied().collect();
        let boxes = unravel(number, &outer);
        boxes.into_iter().rev().zip(&self.size).map(|(n, size)| n * Expr::i64(*size)).collect()
    }

    fn emit(&self, bar: Option<At>, scope: ExecScope, e: &mut Emit) -> Vec<DStmt> {
        let Boxes { global, shared, dims, .. } = self;
        let map = e.tensor_map(self.map());
        by_first_thread(scope, e, self.count.iter().product(), |e, number| {
            let first: Vec<Expr> = self.first(number).into_iter().map(|i| e.simple(i)).collect();
            let at =
                At::new(&shared.buffer, e.simple(shared.at_unswizzled(&shared_index(global, shared, dims, &first))));
            let begin = dims.iter().map(|d| global.begin[d.at].clone());
            let coords: Vec<Expr> = begin.zip(first).map(|(b, i)| e.simple(b + i)).collect();
            match bar {
                Some(bar) => Instr::new(Op::TensorLoad { map, to: Landing::Own }, [at, bar], coords),
                None => Instr::new(Op::TensorStore { map }, [at], coords),
            }
        })
    }
}

/// What divides an extent, the largest first, up to the longest side of a box.
fn divisors(n: i64) -> Vec<i64> {
    (1..=n.min(LONGEST)).rev().filter(|d| n % d == 0).collect()
}

/// The swizzle of a map that permutes memory as a buffer's layout does.
pub fn map_swizzle(shared: &View) -> Result<MapSwizzle, String> {
    let Some(s) = shared.layout()?.0.swizzle().filter(|s| s.swizzle_len() > 0) else { return Ok(MapSwizzle::None) };
    let known = |span: &u32| Swizzle::of_rows(*span, shared.dtype.bytes() as u32) == Ok(s);
    let found = Swizzle::ROWS.into_iter().find(known).and_then(|span| MapSwizzle::of_span(i64::from(span)));
    found.ok_or_else(|| format!("`{}` is swizzled by {s}, not within 32, 64 or 128 bytes", shared.buffer))
}

/// An index over the tensor's dimensions as an index of the shared tile: dimensions of one element do
/// not count, and the order is that of the buffer.
fn shared_index(global: &View, shared: &View, dims: &[Dim], index: &[Expr]) -> Vec<Expr> {
    let mut full = vec![Expr::i64(0); global.extent.len()];
    for (d, i) in dims.iter().zip(index) {
        full[d.at] = i.clone();
    }
    let inner = full.into_iter().zip(&global.extent).filter(|(_, n)| **n != 1).map(|(i, _)| i);
    let inner: Vec<Expr> = inner.collect();
    spread(&shared.extent, &inner)
}

/// What divides the places where boxes of that size start in shared memory, if they lie dense there, the
/// innermost dimension first.
fn starts(global: &View, shared: &View, dims: &[Dim], size: &[i64], ranges: &Ranges) -> Option<i64> {
    let mut inside = ranges.clone();
    let mut index = vec![];
    let name = |what: &str, d: usize| Name::new(format!("{what} {d} of boxes"));
    for (d, (dim, n)) in dims.iter().zip(size).enumerate() {
        inside.set(name("box", d), 0, global.extent[dim.at] / n - 1);
        inside.set(name("element", d), 0, n - 1);
        index.push(index_var(&name("box", d)) * Expr::i64(*n) + index_var(&name("element", d)));
    }
    let index: Vec<Expr> = index.iter().map(|e| simplify(e, &inside)).collect();
    let mut offset = shared.at_unswizzled(&shared_index(global, shared, dims, &index));
    let mut step = 1;
    for (d, n) in size.iter().enumerate().filter(|(_, n)| **n > 1) {
        match linear(&offset, &name("element", d), &inside) {
            Some((coeff, rest)) if coeff.is_int(step) => offset = rest,
            _ => return None,
        }
        step *= n;
    }
    Some(multiple_of(&offset, &inside))
}

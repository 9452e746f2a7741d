//! A tile as variants see it: type, memory, layout, and where its elements are.

use crate::ir::device::DStmt;
use crate::ir::instr::TENSOR_LANES;
use crate::ir::layout::{Axis, Over, TileLayout};
use crate::ir::{BinOp, Buffer, DType, Expr, Name, Scope, Tile};

/// Alignment in bytes of every shared array, and of memory that states none: a parameter may be a part
/// of a larger allocation.
const LEAST_ALIGN: i64 = 16;

/// Most elements of a tile, so that arithmetic on their numbers does not overflow.
const MAX_ELEMENTS: i64 = 1 << 60;

/// A part of a buffer with everything that decides how it can be accessed.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    /// The buffer.
    pub buffer: Name,
    /// Element type.
    pub dtype: DType,
    /// Where the buffer is.
    pub scope: Scope,
    /// First index along each dimension.
    pub begin: Vec<Expr>,
    /// Number of indices along each dimension.
    pub extent: Vec<i64>,
    /// Alignment of the buffer's first element in bytes.
    pub align: i64,
    place: Place,
}

/// How indices become element offsets.
#[derive(Clone, PartialEq, Debug)]
enum Place {
    /// A layout over the whole constant shape.
    Layout(Over),
    /// Strides over symbolic extents.
    Strides(Vec<Expr>),
}

impl View {
    pub(super) fn new(b: &Buffer, tile: &Tile) -> Result<View, String> {
        if tile.begin.len() != b.shape.len() || tile.extent.len() != b.shape.len() {
            return Err(format!("`{}` has {} dimensions, the tile {}", b.name, b.shape.len(), tile.begin.len()));
        }
        let most = tile.extent.iter().try_fold(1i64, |n, e| n.checked_mul(*e.max(&1))).filter(|n| *n <= MAX_ELEMENTS);
        if most.is_none() || tile.extent.iter().any(|n| *n < 0) {
            return Err(format!(
                "a tile of `{}` has extents {:?}, expected at most 2^60 elements",
                b.name, tile.extent
            ));
        }
        Ok(View {
            buffer: b.name.clone(),
            dtype: b.dtype,
            scope: b.scope.clone(),
            begin: tile.begin.clone(),
            extent: tile.extent.clone(),
            align: b.align.map_or(LEAST_ALIGN, i64::from).max(LEAST_ALIGN),
            place: place(b)?,
        })
    }

    /// Number of elements.
    pub fn len(&self) -> i64 {
        self.extent.iter().product()
    }

    /// True when an extent is 0.
    pub fn is_empty(&self) -> bool {
        self.extent.contains(&0)
    }

    /// True for registers.
    pub fn is_local(&self) -> bool {
        self.scope == Scope::Local
    }

    /// True for the memory of a block.
    pub fn is_shared(&self) -> bool {
        matches!(self.scope, Scope::Shared | Scope::SharedDyn)
    }

    /// True for tensor memory.
    pub fn is_tensor(&self) -> bool {
        self.scope == Scope::Tensor
    }

    /// True for device memory.
    pub fn is_global(&self) -> bool {
        self.scope == Scope::Global
    }

    /// The element offset, in the buffer's storage, of an index inside the tile. Of registers: in
    /// the holding thread's own part.
    pub fn at(&self, index: &[Expr]) -> Expr {
        self.offset(index, Over::memory)
    }

    /// Where an index inside a tile in tensor memory is: `128 column + lane`.
    pub fn at_lane(&self, index: &[Expr]) -> Expr {
        let place = |layout: &Over, at: &[Expr]| {
            layout.value(Axis::TCol, at) * Expr::i64(TENSOR_LANES) + layout.value(Axis::TLane, at)
        };
        self.offset(index, place)
    }

    /// [`View::at`] before the permutation of memory.
    pub fn at_unswizzled(&self, index: &[Expr]) -> Expr {
        self.offset(index, |layout, at| layout.value(Axis::M, at))
    }

    fn offset(&self, index: &[Expr], inside: impl Fn(&Over, &[Expr]) -> Expr) -> Expr {
        let at: Vec<Expr> = self.begin.iter().zip(index).map(|(b, i)| b.clone() + i.clone()).collect();
        match &self.place {
            Place::Layout(layout) => inside(layout, &at),
            Place::Strides(strides) => {
                at.into_iter().zip(strides).fold(Expr::i64(0), |sum, (i, s)| sum + i * s.clone())
            }
        }
    }

    /// [`View::at`] of the first element.
    pub fn first(&self) -> Expr {
        self.at(&vec![Expr::i64(0); self.extent.len()])
    }

    /// [`View::at`] of element number `linear` of the tile in row-major order.
    pub fn at_linear(&self, linear: Expr) -> Expr {
        self.at(&unravel(linear, &self.extent))
    }

    /// The element at an offset in the buffer's storage.
    pub fn load(&self, at: Expr) -> Expr {
        Expr::load(self.buffer.clone(), vec![at], self.dtype)
    }

    /// Writes the element at an offset in the buffer's storage.
    pub fn store(&self, at: Expr, value: Expr) -> DStmt {
        DStmt::store(self.buffer.clone(), vec![at], value)
    }

    /// The layout of the whole buffer, and the shape that it covers.
    ///
    /// # Errors
    /// Where the shape is symbolic.
    pub fn layout(&self) -> Result<(&TileLayout, &[i64]), String> {
        match &self.place {
            Place::Layout(over) => Ok((over.layout(), over.shape())),
            Place::Strides(_) => Err(format!("the shape of `{}` is not constant", self.buffer)),
        }
    }

    /// The layout of the tile alone; offsets of its first element are part of it.
    ///
    /// # Errors
    /// Where shape or first index are not constant, or the part has no layout of its own.
    pub fn tile_layout(&self) -> Result<TileLayout, String> {
        let (layout, shape) = self.layout()?;
        let begin: Option<Vec<i64>> = self.begin.iter().map(Expr::as_int).collect();
        let begin = begin.ok_or_else(|| format!("the first index into `{}` is not constant", self.buffer))?;
        layout.slice(shape, &begin, &self.extent)
    }
}

/// The index of element number `linear` of a row-major box.
pub fn unravel(linear: Expr, extent: &[i64]) -> Vec<Expr> {
    let mut stride: i64 = extent.iter().product();
    let mut out = vec![];
    for (d, n) in extent.iter().enumerate() {
        stride /= (*n).max(1);
        let mut at = linear.clone();
        if *n == 1 {
            out.push(Expr::i64(0));
            continue;
        }
        if stride > 1 {
            at = Expr::binary(BinOp::FloorDiv, at, Expr::i64(stride));
        }
        if extent[..d].iter().any(|n| *n > 1) {
            at = Expr::binary(BinOp::FloorMod, at, Expr::i64(*n));
        }
        out.push(at);
    }
    out
}

fn place(b: &Buffer) -> Result<Place, String> {
    let shape: Option<Vec<i64>> = b.shape.iter().map(Expr::as_int).collect();
    match (&b.layout, shape) {
        (Some(layout), Some(shape)) => Ok(Place::Layout(layout.fit(&shape)?.over(&shape)?)),
        (Some(_), None) => Err(format!("`{}` has a layout but no constant shape", b.name)),
        (None, Some(shape)) if b.strides.is_empty() && shape.iter().all(|n| *n > 0) => {
            Ok(Place::Layout(TileLayout::row_major(&shape)?.over(&shape)?))
        }
        (None, _) => Ok(Place::Strides(strides(b))),
    }
}

fn strides(b: &Buffer) -> Vec<Expr> {
    if !b.strides.is_empty() {
        return b.strides.clone();
    }
    let mut out = vec![];
    let mut stride = Expr::i64(1);
    for n in b.shape.iter().rev() {
        out.push(stride.clone());
        stride = stride * n.clone();
    }
    out.reverse();
    out
}

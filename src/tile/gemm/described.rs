//! Operands of matrix instructions that read shared memory by themselves, and the descriptors that name them.

use super::operands::Matrix;
use crate::analysis::multiple_of;
use crate::ir::{Contiguous, Expr, MapSwizzle, MatrixDesc};
use crate::tile::Cx;
use crate::tile::copy_async::map_swizzle;

/// Lines of a piece that descriptors count in.
const LINES: i64 = 8;
/// Bytes of the reduced axis of one instruction.
const DEPTH_BYTES: i64 = 32;

/// An operand of all instructions of a product.
#[derive(Clone)]
pub(super) struct Described {
    pub desc: MatrixDesc,
    /// Where the first element is.
    first: Expr,
    /// Elements from there to the start of each step along the reduced axis.
    steps: Vec<i64>,
    /// Elements from one instruction's lines to those of the next.
    next: i64,
    /// Elements from the first to behind the last.
    span: i64,
}

impl Described {
    /// A matrix whose dimension `free` gives the instructions `lines` lines each, and the other one the reduced
    /// axis.
    ///
    /// # Errors
    /// Where its elements do not lie as any descriptor says.
    pub fn of(x: &Matrix, free: usize, lines: i64, cx: &Cx) -> Result<Described, String> {
        let (layout, whole) = x.view.layout()?;
        let (name, dtype, size) = (&x.view.buffer, x.view.dtype, x.view.dtype.bytes() as i64);
        let k = (DEPTH_BYTES / size) as usize;
        match x.view.extent[x.dims[1 - free]] {
            n if n % k as i64 == 0 => {}
            n => return Err(format!("K is {n}, no multiple of {k}")),
        }
        if x.dims.iter().any(|d| !x.view.begin[*d].is_int(0)) {
            return Err(format!("the tile of `{name}` begins within its rows or columns"));
        }
        let plain = layout.unswizzled();
        let along = |dim: usize, at: i64| -> Result<i64, String> {
            let mut index = vec![0; whole.len()];
            index[x.dims[dim]] = at;
            Ok(plain.apply_at(whole, &index)?.get(crate::ir::layout::Axis::M))
        };
        let places =
            |dim: usize| (0..x.view.extent[x.dims[dim]]).map(|i| along(dim, i)).collect::<Result<Vec<i64>, _>>();
        let (rows, depth) = (places(free)?, places(1 - free)?);
        let (rows, depth) = (&rows[..], &depth[..]);
        let desc = descriptor(rows, depth, size, map_swizzle(&x.view)?)
            .ok_or_else(|| format!("elements of `{name}` lie side by side along neither of its dimensions"))?;
        if desc.contiguous == Contiguous::Free && size != 2 {
            return Err(format!("`{name}` holds {}, which has to lie side by side along K", x.view.dtype));
        }
        let part = |all: &[i64], from: usize, n: usize, own: &dyn Fn(i64) -> i64| {
            n <= all.len() - from && (0..n).all(|i| (all[from + i] - all[from]) * size == own(i as i64))
        };
        let lines_fit = (0..rows.len())
            .step_by(lines as usize)
            .all(|from| part(rows, from, lines as usize, &|i| desc.offset(dtype, i, 0)));
        let steps_fit = (0..depth.len()).step_by(k).all(|from| part(depth, from, k, &|i| desc.offset(dtype, 0, i)));
        if !lines_fit || !steps_fit {
            return Err(format!("elements of `{name}` do not lie as the descriptor {} says", desc.text()));
        }
        if !desc.in_period() {
            let period = LINES * desc.span();
            return Err(format!("pieces of `{name}` do not lie at multiples of {period} bytes from each other"));
        }
        let next = rows.get(lines as usize).map_or(0, |at| at - rows[0]);
        if rows.iter().step_by(lines as usize).enumerate().any(|(i, at)| at - rows[0] != i as i64 * next) {
            return Err(format!("tiles of {lines} lines of `{name}` do not lie at equal distances"));
        }
        let first = cx.simple(x.view.at_unswizzled(&vec![Expr::i64(0); x.view.extent.len()]));
        let period = desc.swizzle.align().max(LINES * desc.span()) / size;
        if [multiple_of(&first, cx.ranges), next].iter().any(|n| n % period != 0) {
            return Err(format!("tiles of `{name}` do not start at multiples of {} bytes", period * size));
        }
        let farthest = |all: &[i64]| all.iter().map(|at| at - all[0]).max().unwrap_or(0);
        let span = farthest(rows) + farthest(depth) + 1;
        Ok(Described { desc, first, steps: depth.iter().step_by(k).map(|at| at - depth[0]).collect(), next, span })
    }

    /// That its elements lie one after the other.
    ///
    /// # Errors
    /// Where others lie between.
    pub fn run(&self, elements: i64) -> Result<(), String> {
        match self.span == elements {
            true => Ok(()),
            false => Err(format!("its {elements} elements are spread over {}", self.span)),
        }
    }

    /// The same of what lies likewise from the start of an array.
    pub fn at_start(&self) -> Described {
        Described { first: Expr::i64(0), ..self.clone() }
    }

    /// Where the operand of an instruction starts: `tile` along its lines, `step` along the reduced axis.
    pub fn start(&self, cx: &Cx, tile: &Expr, step: usize) -> Expr {
        let along = tile.clone() * Expr::i64(self.next) + Expr::i64(self.steps[step]);
        cx.simple(self.first.clone() + along)
    }
}

/// The descriptor of elements that lie at these places along both axes.
fn descriptor(rows: &[i64], depth: &[i64], size: i64, swizzle: MapSwizzle) -> Option<MatrixDesc> {
    let beside = |all: &[i64]| all.len() > 1 && all[1] - all[0] == 1;
    let contiguous = if beside(depth) { Contiguous::Depth } else { Contiguous::Free };
    if !beside(depth) && !beside(rows) {
        return None;
    }
    let unset = MatrixDesc { contiguous, swizzle, leading: 0, stride: 0 };
    let (line, along) = if contiguous == Contiguous::Depth { (rows, depth) } else { (depth, rows) };
    let far = |all: &[i64], n: i64, or: i64| all.get(n as usize).map_or(or, |at| (at - all[0]) * size);
    // what an axis too short for a second piece does not say is never used
    let pieces = far(line, LINES, LINES * unset.span());
    let next = far(along, unset.span() / size, LINES * unset.span());
    let (leading, stride) = match (contiguous, swizzle) {
        (Contiguous::Free, MapSwizzle::None) => (pieces, next),
        (Contiguous::Depth, MapSwizzle::B32 | MapSwizzle::B64 | MapSwizzle::B128) => (16, pieces),
        (Contiguous::Free | Contiguous::Depth, _) => (next, pieces),
    };
    Some(MatrixDesc { leading: u32::try_from(leading).ok()?, stride: u32::try_from(stride).ok()?, ..unset })
}

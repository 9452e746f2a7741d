//! One factor of a product: its value, and along which axis it lies in memory.

use crate::analysis::{Access, Ranges, gcd, linear, multiple_of, narrow, source_of};
use crate::ir::{DType, Expr, ExprKind, IterVar, Name, PrimFunc};
use crate::schedule::Operand;

/// One factor of a product.
#[derive(Clone, Debug)]
pub struct Factor {
    /// Which operand of the function's product it is.
    pub operand: Operand,
    /// Its type without conversions that change no value: what is worth staging.
    pub dtype: DType,
    /// The same without conversions of integers to floats: what a type has to hold that stands for it.
    pub source_dtype: DType,
    /// True where it is, without these, one load and nothing else.
    pub plain: bool,
    /// Type of the elements of the load that decides how it is read: the one whose indices use the most iterators.
    pub element: DType,
    /// The buffer of that load.
    pub buffer: Option<Name>,
    /// True where the contiguous axis in memory is reduced; false where it is one of rows or columns.
    pub along_depth: bool,
    /// Adjacent elements of the load along the fused iterators of its contiguous axis that one aligned access
    /// may take, as far as is known. Not capped; 1 where nothing is known.
    pub run: i64,
    /// True where the reduced axis is one iterator of constant extent, which is the contiguous index of the load, wherever
    /// rows begin.
    pub rows: bool,
    /// Bytes of the buffer that it reads, where they are constant.
    pub source: Option<i64>,
    /// The reduced iterators that the load uses, outermost in memory first; empty where it is not known.
    pub order: Vec<Name>,
    /// True where a tensor map describes it, in the order in which it lies in memory.
    pub boxed: bool,
}

/// Bytes that rows of a tensor map are a multiple of.
const BOXED: i64 = 16;
/// Bytes along the reduced axis that a whole number of any rule's fills by tensor maps takes.
const FILL: i64 = 128;
/// Most dimensions of a tensor map.
const MOST_DIMS: usize = 5;

impl Factor {
    /// Reads a factor, whose own iterators are `free`, reduced along `depth`.
    pub fn of(
        func: &PrimFunc,
        (operand, value): (Operand, &Expr),
        free: &[IterVar],
        depth: &[IterVar],
        ranges: &Ranges,
    ) -> Factor {
        let narrow = narrow(value);
        let access = dominant(&narrow, free, depth);
        let plain = matches!(narrow.kind(), ExprKind::Load { .. });
        let offset = access.as_ref().and_then(|a| Some(a.offset(func.find_buffer(&a.buffer)?, ranges)));
        let buffer = access.as_ref().and_then(|a| func.find_buffer(&a.buffer));
        let element = buffer.map_or(value.dtype(), |b| b.dtype);
        let source = buffer.and_then(|b| b.len()?.checked_mul(b.dtype.bytes() as i64));
        let inner = |class: &[IterVar]| offset.as_ref().map_or(0, |o| run_along(o, class, ranges));
        let (k, ij) = (inner(depth), inner(free));
        let along_depth = match &access {
            _ if k != ij => k > ij,
            Some(a) => innermost(a, depth) > innermost(a, free),
            None => false,
        };
        let order = offset.as_ref().and_then(|o| strides(o, depth, ranges)).unwrap_or_default();
        let boxed = plain && access.as_ref().is_some_and(|a| is_boxed(func, a, [free, depth]));
        let last = access.as_ref().and_then(|a| a.indices.last());
        let rows = matches!((depth, last), ([only], Some(e)) if k > 0 && e.uses_var(&only.var) && only.extent.as_int().is_some());
        let run = k.max(ij).max(1);
        let buffer = buffer.map(|b| b.name.clone());
        let (dtype, source_dtype) = (narrow.dtype(), source_of(value).dtype());
        Factor { operand, dtype, source_dtype, plain, element, buffer, along_depth, run, rows, source, order, boxed }
    }

    /// The factor staged in another type that has its values, into which threads convert it.
    pub fn staged_as(self, dtype: DType) -> Factor {
        match dtype == self.dtype {
            true => self,
            false => Factor { dtype, plain: false, boxed: false, ..self },
        }
    }

    /// True where neighbours along the reduced axis lie side by side, as in its staged form.
    pub fn has_rows(&self) -> bool {
        self.plain && self.along_depth && self.rows
    }

    /// Elements that one aligned copy may take, a power of two, where the staged ones lie along the reduced axis or
    /// across it. Not capped.
    pub fn adjacent(&self, along_depth: bool) -> i64 {
        if self.plain && self.along_depth == along_depth { 1 << self.run.max(1).trailing_zeros() } else { 1 }
    }
}

/// True where a parameter of constant shape is indexed by plain iterators, those of each class in adjacent
/// dimensions in their order and over all of them, and its rows begin at multiples of 16 bytes. The outermost of a
/// class may end before its dimension does: rows and columns behind the end are not stored, and along the reduced
/// axis no fill reaches there. Where other iterators stand, of the batch, they are the same for a whole tile.
fn is_boxed(func: &PrimFunc, a: &Access, [free, depth]: [&[IterVar]; 2]) -> bool {
    let Some(b) = func.find_buffer(&a.buffer).filter(|b| func.is_param(&b.name)) else { return false };
    let plain = b.strides.is_empty() && b.elem_offset.is_none() && b.shape.len() <= MOST_DIMS;
    let Some(sizes) = b.shape.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>() else { return false };
    let fill = FILL / b.dtype.bytes() as i64;
    let dims = |class: &[IterVar], may_end: &dyn Fn(i64) -> bool| -> Option<usize> {
        let outer = &class.first()?.var;
        let first = a.indices.iter().position(|e| e.as_var() == Some(outer))?;
        let own = a.indices[first..].iter().zip(&sizes[first..]);
        let whole = |e: &Expr, n: i64, i: &IterVar| {
            let ends = i.var == *outer && i.extent.as_int().is_some_and(|m| m <= n && may_end(m));
            e.as_var() == Some(&i.var) && i.min.is_int(0) && (ends || i.extent.is_int(n))
        };
        let named = own.zip(class).filter(|((e, n), i)| whole(e, **n, i)).count();
        (named == class.len()).then_some(first)
    };
    let found = [dims(free, &|_| true), dims(depth, &|n| depth.len() == 1 && n % fill == 0)];
    let [Some(_), Some(_)] = found else { return false };
    let last = found.into_iter().flatten().max().unwrap_or(0);
    let row: i64 = sizes[last..].iter().product();
    let whole = [free, depth].iter().zip(found).any(|(c, d)| last + c.len() == sizes.len() && d == Some(last));
    let own = |e: &Expr| free.iter().chain(depth).any(|i| e.uses_var(&i.var));
    let simple = a.indices.iter().all(|e| e.as_var().is_some() || !own(e));
    plain && whole && simple && row * b.dtype.bytes() as i64 % BOXED == 0
}

/// The load that uses the most iterators; of equals the first.
fn dominant(value: &Expr, free: &[IterVar], depth: &[IterVar]) -> Option<Access> {
    let mut best: Option<(usize, Access)> = None;
    value.visit(&mut |e| {
        if let ExprKind::Load { buffer, indices, .. } = e.kind() {
            let access = Access { buffer: buffer.clone(), indices: indices.clone() };
            let vars = access.vars();
            let n = free.iter().chain(depth).filter(|i| vars.contains(&i.var)).count();
            if best.as_ref().is_none_or(|(m, _)| n > *m) {
                best = Some((n, access));
            }
        }
    });
    best.map(|(_, a)| a)
}

/// Adjacent elements along the last iterators of a class, as if fused, that aligned accesses may take: 0
/// where no iterator of the class moves the offset by one, 1 where the last does not.
fn run_along(offset: &Expr, class: &[IterVar], ranges: &Ranges) -> i64 {
    let stride = |e: &Expr, i: &IterVar| Some((linear(e, &i.var, ranges)?.0.as_int()?, linear(e, &i.var, ranges)?.1));
    if !class.iter().any(|i| stride(offset, i).is_some_and(|(n, _)| n == 1)) {
        return 0;
    }
    let (mut run, mut rest) = (1, offset.clone());
    for i in class.iter().rev() {
        match stride(&rest, i) {
            Some((n, outer)) if n == run => (run, rest) = (run * multiple_of(&i.extent, ranges), outer),
            _ => break,
        }
    }
    if rest.is_int(0) { run } else { gcd(run, multiple_of(&rest, ranges)) }
}

/// Position of the last dimension that an iterator of the class indexes, from 1 on; 0 for none.
fn innermost(access: &Access, class: &[IterVar]) -> usize {
    let uses = |e: &Expr| class.iter().any(|i| e.uses_var(&i.var));
    access.indices.iter().rposition(uses).map_or(0, |p| p + 1)
}

/// The iterators by stride, largest first; `None` where one has no constant stride or none.
fn strides(offset: &Expr, class: &[IterVar], ranges: &Ranges) -> Option<Vec<Name>> {
    let mut keyed = vec![];
    for i in class {
        match linear(offset, &i.var, ranges)?.0.as_int()? {
            0 => return None,
            n => keyed.push((n, i.var.clone())),
        }
    }
    keyed.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
    Some(keyed.into_iter().map(|(_, v)| v).collect())
}

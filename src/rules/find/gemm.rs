//! Whether a function is a plain product of matrices, as libraries have it: batched or not, its factors transposed or not.
//!
//! ```text
//! float16 C[b, m, n] = float16(sum over k of float32(A[b, m, k]) * float32(B[n, k]))
//! m=512 n=4096 k=4096 batch=8: A rows 4096 columns 1 batch 2097152, B rows 1 columns 4096 batch 0, C rows 4096 columns 1 ...
//! ```
//!
//! Declines: the predicates of [`Product::of`], `plain_factors`, `no_epilogue`, `known_strides`, `one_matrix`,
//! `leading_dimension`.

use super::product::Product;
use super::shape::find_block;
use crate::analysis::{Access, BlockFacts, Ranges, factors, linear, narrow};
use crate::ir::{Buffer, DType, Expr, ExprKind, IterVar, Name, PrimFunc, Reason, Stmt};
use crate::rules::matmul::fma::FMA;
use crate::rules::{Ask, Prepared, Spaces};
use crate::schedule::Operand;
use crate::target::Target;

/// One matrix of a product, in elements of its buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Matrix {
    /// The parameter that holds it.
    pub buffer: Name,
    /// Its element type.
    pub dtype: DType,
    /// From one row to the next.
    pub row: i64,
    /// From one column to the next.
    pub column: i64,
    /// From one matrix of the batch to the next.
    pub batch: i64,
}

/// `batch` products of `m` rows, `n` columns and `k` steps: `c = a * b`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gemm {
    /// Products.
    pub batch: i64,
    /// Rows of `a` and `c`.
    pub m: i64,
    /// Columns of `b` and `c`.
    pub n: i64,
    /// Columns of `a`, rows of `b`.
    pub k: i64,
    /// The left factor, `m` by `k`.
    pub a: Matrix,
    /// The right factor, `k` by `n`.
    pub b: Matrix,
    /// The result.
    pub c: Matrix,
}

impl Gemm {
    /// The product that a function is.
    ///
    /// # Errors
    /// The predicate for which it is none.
    pub fn of(input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Gemm, Reason> {
        // A product is looked for as the most general of the rules for products does.
        let ask = Ask::of(&FMA, input, target, spaces);
        let product = Product::of(&ask).map_err(|d| d.reason)?;
        let red = ask.facts.blocks.iter().find(|b| b.name == product.block);
        red.map_or_else(|| Err(Reason::new("one_reduction", "there is no reduction")), |red| gemm(&product, red))
    }

    /// Libraries want lines of neighbouring elements that do not overlap: along rows or along columns in a factor, along rows
    /// in the result.
    fn in_lines(self) -> Result<Gemm, Reason> {
        let lines = |x: &Matrix, (rows, columns): (i64, i64)| {
            (x.column == 1 || columns == 1) && (x.row >= columns || rows == 1)
                || (x.row == 1 || rows == 1) && (x.column >= rows || columns == 1)
        };
        let factors = lines(&self.a, (self.m, self.k)) && lines(&self.b, (self.k, self.n));
        let result = (self.c.column == 1 || self.n == 1) && (self.c.row >= self.n || self.m == 1);
        if factors && result {
            return Ok(self);
        }
        Err(Reason::new("leading_dimension", "a matrix is not made of lines of neighbouring elements"))
    }
}

fn gemm(p: &Product, red: &BlockFacts) -> Result<Gemm, Reason> {
    let func = p.schedule.func();
    let loads =
        loads(p, red).ok_or_else(|| Reason::new("plain_factors", "a factor is not an element of a parameter"))?;
    let result = result(p, red)?;
    let [a, b] = loads;
    let place = |access: &Access| Place::of(func, access, &red.ranges);
    let places = [place(&a)?, place(&b)?, place(&result)?];
    let class = |iters: &[IterVar]| Axis::of(iters, &places, &red.ranges);
    let (batch, m, n, k) = (class(&p.batch)?, class(&p.rows)?, class(&p.columns)?, class(&p.depth)?);
    let matrix = |i: usize, row: &Axis, column: &Axis| Matrix {
        buffer: places[i].buffer.name.clone(),
        dtype: places[i].buffer.dtype,
        row: row.strides[i],
        column: column.strides[i],
        batch: batch.strides[i],
    };
    let known: Vec<&Name> = [&p.batch, &p.rows, &p.columns, &p.depth].into_iter().flatten().map(|i| &i.var).collect();
    if places.iter().any(|p| !p.starts_at_zero(&known, &red.ranges)) {
        return Err(Reason::new("known_strides", "a matrix does not start where its parameter does"));
    }
    let (a, b, c) = (matrix(0, &m, &k), matrix(1, &k, &n), matrix(2, &m, &n));
    let gemm = Gemm { a, b, c, batch: batch.extent, m: m.extent, n: n.extent, k: k.extent };
    gemm.in_lines()
}

/// The elements that the factors of rows and of columns are.
fn loads(p: &Product, red: &BlockFacts) -> Option<[Access; 2]> {
    let [left, right] = factors(&red.reducer.as_ref()?.term)?.map(|e| load(&narrow(&e)));
    match p.a.operand {
        Operand::Left => Some([left?, right?]),
        Operand::Right => Some([right?, left?]),
        Operand::Result => None,
    }
}

fn load(e: &Expr) -> Option<Access> {
    match e.kind() {
        ExprKind::Load { buffer, indices, .. } => Some(Access { buffer: buffer.clone(), indices: indices.clone() }),
        _ => None,
    }
}

/// Where the sums end, in terms of the reduction's iterators: at most converted on the way.
fn result(p: &Product, red: &BlockFacts) -> Result<Access, Reason> {
    let more = |text: &str| Reason::new("no_epilogue", text);
    let [own] = red.writes.as_slice() else { return Err(more("several elements are written")) };
    let [tail] = p.epilogue.as_slice() else {
        return if p.epilogue.is_empty() {
            Ok(own.clone())
        } else {
            Err(more("more than one block follows the product"))
        };
    };
    if p.kept {
        return Err(more("the product is read by others than the block that follows it"));
    }
    let block = find_block(p.schedule.func(), &tail.block);
    let [Stmt::Store { buffer, indices, value }] = block.body.as_slice() else {
        return Err(more("what follows the product is not one store"));
    };
    let mut inner = value;
    while let ExprKind::Cast { arg, .. } = inner.kind() {
        inner = arg;
    }
    if load(inner).is_none_or(|l| l.buffer != own.buffer) {
        return Err(more("the product is not stored as it is"));
    }
    let followed = |n: &Name| {
        let (_, to) = tail.follows.iter().find(|(own, _)| own == n)?;
        let iter = block.iters.iter().find(|i| i.var == *n)?;
        Some(Expr::var(to.clone(), iter.extent.dtype()))
    };
    Ok(Access { buffer: buffer.clone(), indices: indices.iter().map(|e| e.subst(&followed)).collect() })
}

/// Where an element lies in its parameter.
struct Place<'f> {
    buffer: &'f Buffer,
    offset: Expr,
}

impl<'f> Place<'f> {
    fn of(func: &'f PrimFunc, access: &Access, ranges: &Ranges) -> Result<Place<'f>, Reason> {
        let dense = |b: &&Buffer| func.is_param(&b.name) && b.strides.is_empty() && b.elem_offset.is_none();
        let buffer = func.find_buffer(&access.buffer).filter(dense);
        let buffer = buffer.ok_or_else(|| Reason::new("plain_factors", "a matrix is not a dense parameter"))?;
        Ok(Place { buffer, offset: access.offset(buffer, ranges) })
    }

    /// Elements from one value of an iterator to the next.
    fn stride(&self, var: &Name, ranges: &Ranges) -> Option<i64> {
        linear(&self.offset, var, ranges)?.0.as_int()
    }

    fn starts_at_zero(&self, iters: &[&Name], ranges: &Ranges) -> bool {
        let rest = iters.iter().try_fold(self.offset.clone(), |e, var| Some(linear(&e, var, ranges)?.1));
        rest.is_some_and(|e| e.is_int(0))
    }
}

/// One axis of the product: its extent and its stride in each of the three matrices.
struct Axis {
    extent: i64,
    strides: [i64; 3],
}

impl Axis {
    /// Iterators of one class as one axis.
    fn of(iters: &[IterVar], places: &[Place; 3], ranges: &Ranges) -> Result<Axis, Reason> {
        let mut out = Axis { extent: 1, strides: [0; 3] };
        for iter in iters.iter().rev() {
            let unknown = || Reason::new("known_strides", format!("the strides of `{}` are not constant", iter.var));
            let stride = |p: &Place| p.stride(&iter.var, ranges).ok_or_else(unknown);
            let strides = [stride(&places[0])?, stride(&places[1])?, stride(&places[2])?];
            let extent = iter.extent.as_int().ok_or_else(unknown)?;
            if out.extent == 1 {
                out.strides = strides;
            } else if (0..3).any(|i| strides[i] != out.strides[i] * out.extent) {
                let text = format!("`{}` and the axes inside it are not one axis of a matrix", iter.var);
                return Err(Reason::new("one_matrix", text));
            }
            out.extent *= extent;
        }
        Ok(out)
    }
}

//! The operands of a product as matrices, and the conditions that every variant shares.

use crate::ir::instr::TENSOR_LANES;
use crate::ir::layout::Axis;
use crate::ir::{AttrValue, Expr, Tile, TileArg, TileCall};
use crate::tile::{Cx, Refusals, View};

/// The named arguments that a product knows, in lower case.
const KNOWN: [&str; 5] = ["alpha", "beta", "precision", "transpose_a", "transpose_b"];

/// A tile as a matrix in the orientation of the product.
pub(crate) struct Matrix {
    /// The tile.
    pub view: View,
    /// The tile's dimensions that are the rows and the columns.
    pub dims: [usize; 2],
}

/// What D starts from.
pub(super) enum Start {
    /// Zero.
    Zero,
    /// What it holds.
    Old,
    /// A third operand.
    Other(Box<Matrix>),
}

/// `D [m, n] = start + A [m, k] B [k, n]`.
pub(super) struct Product {
    pub d: Matrix,
    pub a: Matrix,
    pub b: Matrix,
    pub start: Start,
    pub m: i64,
    pub n: i64,
    pub k: i64,
}

impl Matrix {
    /// A tile as a matrix, which may be `transposed`; `what` it is, for errors.
    ///
    /// # Errors
    /// Where it has other dimensions of extent above 1 than two.
    pub fn of(cx: &Cx, tile: &Tile, what: &str, transposed: bool) -> Result<Matrix, String> {
        let view = cx.view(tile)?;
        let (lead, rank) = (view.extent.len().saturating_sub(2), view.extent.len());
        if rank < 2 || view.extent[..lead].iter().any(|n| *n != 1) || view.is_empty() {
            let extent = &view.extent;
            return Err(format!("{what} `{}` with extents {extent:?} is no matrix: take two dimensions", view.buffer));
        }
        let dims = if transposed { [rank - 1, rank - 2] } else { [rank - 2, rank - 1] };
        Ok(Matrix { view, dims })
    }

    /// Number of rows.
    pub fn rows(&self) -> i64 {
        self.view.extent[self.dims[0]]
    }

    /// Number of columns.
    pub fn columns(&self) -> i64 {
        self.view.extent[self.dims[1]]
    }

    /// The element offset, in the buffer's storage, of an element of the matrix.
    pub fn at(&self, row: Expr, column: Expr) -> Expr {
        let mut index = vec![Expr::i64(0); self.view.extent.len()];
        index[self.dims[0]] = row;
        index[self.dims[1]] = column;
        self.view.at(&index)
    }
}

impl Matrix {
    /// Where a matrix in tensor memory begins, whose row `i` is in lane `i` of all, columns side by side.
    ///
    /// # Errors
    /// Where it does not lie so.
    pub fn in_lanes(&self, cx: &Cx) -> Result<Expr, String> {
        let (layout, shape) = self.view.layout()?;
        let at = |row: i64, column: i64| {
            let mut index = vec![Expr::i64(0); shape.len()];
            (index[self.dims[0]], index[self.dims[1]]) = (Expr::i64(row), Expr::i64(column));
            cx.simple(self.view.at_lane(&index))
        };
        let first = at(0, 0);
        let step = |row: i64, column: i64, n: i64| cx.simple(at(row, column) - first.clone()).is_int(n);
        let rows = self.rows() == TENSOR_LANES && (0..TENSOR_LANES).all(|i| step(i, 0, i));
        let columns = (0..self.columns()).all(|j| step(0, j, j * TENSOR_LANES));
        let lane = cx.simple(layout.over(shape)?.value(Axis::TLane, &self.view.begin));
        if rows && columns && lane.is_int(0) {
            return Ok(first);
        }
        let (name, n) = (&self.view.buffer, TENSOR_LANES);
        Err(format!("row i of `{name}` is not in lane i of {n}, columns side by side, as TLane and TCol say"))
    }
}

impl Product {
    /// That products start from what D holds, or from zero.
    ///
    /// # Errors
    /// `why`, where C is an operand of its own.
    pub fn starts_in_d(&self, why: &str) -> Result<(), String> {
        match self.start {
            Start::Zero | Start::Old => Ok(()),
            Start::Other(_) => Err(format!("C is an operand of its own{why}")),
        }
    }

    /// The product that a call asks for.
    ///
    /// # Errors
    /// Where an operand is no matrix, extents disagree or a named argument is not understood.
    pub fn of(call: &TileCall, cx: &Cx) -> Result<Product, String> {
        let d = Matrix::of(cx, &call.dst, "the destination", false)?;
        let a = Matrix::of(cx, tile(call, 0)?, "A", flag(call, "transpose_a")?)?;
        let b = Matrix::of(cx, tile(call, 1)?, "B", flag(call, "transpose_b")?)?;
        let start = start(call, cx)?;
        let (m, n, k) = (d.rows(), d.columns(), a.columns());
        if [a.rows(), b.rows(), b.columns()] != [m, k, n] {
            let (x, y) = ([a.rows(), k], [b.rows(), b.columns()]);
            return Err(format!("D is {m} by {n}, A {} by {}, B {} by {}", x[0], x[1], y[0], y[1]));
        }
        if let Start::Other(c) = &start
            && [c.rows(), c.columns()] != [m, n]
        {
            return Err(format!("D is {m} by {n}, the operand that is added {} by {}", c.rows(), c.columns()));
        }
        Ok(Product { d, a, b, start, m, n, k })
    }

    /// The operands that are read, with their names.
    pub fn sources(&self) -> Vec<(&'static str, &Matrix)> {
        let mut out = vec![("A", &self.a), ("B", &self.b)];
        if let Start::Other(c) = &self.start {
            out.push(("C", c));
        }
        out
    }
}

/// Asks whether a call is a product, of operands that may be read while D is written; other predicates say
/// nothing where it is none.
pub(super) fn product(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Product> {
    product_with(call, &[], cx, r)
}

/// [`product`], which may have these named operands.
pub(super) fn product_with(call: &TileCall, operands: &[&str], cx: &Cx, r: &mut Refusals) -> Option<Product> {
    let (product, options) = (Product::of(call, cx), arguments(call, operands));
    r.ask_if("shapes", options.as_ref().ok(), |()| product.as_ref().map(drop).map_err(String::clone));
    r.ask("options", options);
    r.ask_if("overlap", product.as_ref().ok(), apart);
    product.ok()
}

/// That D is no part of a buffer that A or B is part of: elements are read after others are written. C may
/// be D itself.
fn apart(p: &Product) -> Result<(), String> {
    let d = &p.d.view;
    let same = |x: &View| x.buffer == d.buffer;
    match p.sources().iter().find(|(name, x)| same(&x.view) && (*name != "C" || x.view.begin != d.begin)) {
        Some((name, _)) => Err(format!("D and {name} are both in `{}`: give D a buffer of its own", d.buffer)),
        None => Ok(()),
    }
}

/// That D is in registers.
pub(super) fn in_registers(p: &Product) -> Result<(), String> {
    match p.d.view.is_local() {
        true => Ok(()),
        false => Err(format!("D `{}` is in {} memory, not in registers", p.d.view.buffer, p.d.view.scope.name())),
    }
}

/// That A and B are in shared memory.
pub(super) fn in_shared(p: &Product) -> Result<(), String> {
    match [&p.a, &p.b].into_iter().find(|x| !x.view.is_shared()) {
        Some(x) => Err(format!("`{}` is in {} memory, not in shared memory", x.view.buffer, x.view.scope.name())),
        None => Ok(()),
    }
}

fn tile(call: &TileCall, i: usize) -> Result<&Tile, String> {
    match call.args.get(i) {
        Some(TileArg::Tile(t)) => Ok(t),
        Some(TileArg::Scalar(_)) => Err(format!("operand {i} is a scalar, not a matrix")),
        None => Err(format!("operand {i} is missing: a product takes A and B")),
    }
}

fn start(call: &TileCall, cx: &Cx) -> Result<Start, String> {
    match (call.args.get(2), number(call, "beta")?) {
        (Some(_), Some(0)) | (None, None | Some(0)) if !call.accum => Ok(Start::Zero),
        (Some(TileArg::Tile(c)), _) if *c == call.dst => Ok(Start::Old),
        (Some(_), _) => Ok(Start::Other(Box::new(Matrix::of(cx, tile(call, 2)?, "C", false)?))),
        (None, _) => Ok(Start::Old),
    }
}

fn arguments(call: &TileCall, operands: &[&str]) -> Result<(), String> {
    let unknown = call.config.keys().find(|k| !KNOWN.contains(&k.to_lowercase().as_str()));
    let other = call.operands.keys().find(|k| !operands.contains(&k.as_str()));
    if let Some(name) = unknown.or(other) {
        return Err(format!("`{name}` is no argument of a product: choose of {}", KNOWN.join(", ")));
    }
    flag(call, "transpose_a")?;
    flag(call, "transpose_b")?;
    match number(call, "alpha")? {
        None | Some(1) => {}
        Some(n) => return Err(format!("alpha is {n}, and only 1 is computed: scale the result")),
    }
    let beta = number(call, "beta")?;
    match call.named("precision") {
        None => {}
        Some(AttrValue::Str(s)) if s == "tf32" || s == "ieee" => {}
        Some(other) => return Err(format!("precision is {other:?}: say \"ieee\" or \"tf32\"")),
    }
    match (call.args.len(), call.accum, beta) {
        (_, _, Some(n)) if n != 0 && n != 1 => Err(format!("beta is {n}, and only 0 and 1 are computed")),
        (3, true, _) => Err("D starts from what it holds (accum) and from C: leave one out".to_string()),
        (0..=2, true, Some(0)) => Err("accum asks for what D holds, beta=0 for zeros: leave one out".to_string()),
        (0..=2, false, Some(1)) => Err("beta is 1, but there is no C: give C, or accum=True".to_string()),
        (n, _, _) if n > 3 => Err(format!("a product takes A, B and C, not {n} operands")),
        _ => Ok(()),
    }
}

fn flag(call: &TileCall, name: &str) -> Result<bool, String> {
    match call.named(name) {
        None => Ok(false),
        Some(AttrValue::Bool(b)) => Ok(*b),
        Some(AttrValue::Int(n) | AttrValue::Typed(n, _)) if *n == 0 || *n == 1 => Ok(*n == 1),
        Some(other) => Err(format!("{name} is {other:?}: say True or False")),
    }
}

/// A named argument that is a whole number.
fn number(call: &TileCall, name: &str) -> Result<Option<i64>, String> {
    let whole = |x: f64| x.fract() == 0.0 && x.abs() < 1e9;
    match call.named(name) {
        None => Ok(None),
        Some(AttrValue::Int(n) | AttrValue::Typed(n, _)) => Ok(Some(*n)),
        Some(AttrValue::Float(bits)) if whole(f64::from_bits(*bits)) => Ok(Some(f64::from_bits(*bits) as i64)),
        Some(AttrValue::Float(bits)) => {
            Err(format!("{name} is {}, and only 0 and 1 are computed", f64::from_bits(*bits)))
        }
        Some(other) => Err(format!("{name} is {other:?}, not a number")),
    }
}

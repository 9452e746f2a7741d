//! Regions of buffers: `A[i, 0:n]`.

use super::ast::{Node, NodeKind};
use super::error::{Problem, problem};
use super::scope::Scope;
use super::value::{Value, counted};
use crate::ir::{BinOp, DType, Expr, ExprKind, Range, Region, ops};

impl Scope<'_> {
    /// `A[...]`, or `A` for the whole buffer.
    pub fn region(&mut self, node: &Node) -> Result<Region, Problem> {
        let (base, items) = match &node.kind {
            NodeKind::Index(base, items) => (base.as_ref(), Some(items)),
            _ => (node, None),
        };
        let Some(user) = base.dotted() else { return problem(node.at, "a region is written `A[i, 0:n]`") };
        let buffer = self.buffer(&user, base.at)?;
        let (name, shape) = (buffer.name.clone(), buffer.shape.clone());
        let Some(items) = items else {
            let dims = shape.iter().map(|e| Range { min: Expr::int(0, e.dtype()), extent: e.clone() }).collect();
            return Ok(Region { buffer: name, dims });
        };
        if items.len() != shape.len() {
            let message = format!(
                "`{user}` has {}, and there are {} here",
                counted(shape.len(), "dimension", "dimensions"),
                counted(items.len(), "index", "indices")
            );
            return problem(node.at, message);
        }
        let dims = items.iter().zip(&shape).map(|(n, e)| self.range(n, e)).collect::<Result<_, _>>()?;
        Ok(Region { buffer: name, dims })
    }

    /// Several regions, each an argument or all in one list.
    pub fn regions(&mut self, args: &[Node]) -> Result<Vec<Region>, Problem> {
        match args {
            [Node { kind: NodeKind::List(items), .. }] => items.iter().map(|n| self.region(n)).collect(),
            [Node { kind: NodeKind::Dict(items), .. }] if items.is_empty() => Ok(vec![]),
            _ => args.iter().map(|n| self.region(n)).collect(),
        }
    }

    fn range(&mut self, node: &Node, dim: &Expr) -> Result<Range, Problem> {
        let NodeKind::Slice(start, stop) = &node.kind else {
            let min = self.index(node)?;
            let extent = Expr::int(1, min.dtype());
            return Ok(Range { min, extent });
        };
        let start = start.as_ref().map(|n| self.value(n)).transpose()?;
        let stop = stop.as_ref().map(|n| self.value(n)).transpose()?;
        let stop = stop.unwrap_or_else(|| Value::Expr(dim.clone()));
        let (min, stop) = super::value::match_types(start.unwrap_or(Value::Int(0)), stop, node.at)?;
        if !min.dtype().is_int() {
            return problem(node.at, format!("the ends of a slice are integers, not {}", min.dtype()));
        }
        if let (Some(first), Some(end)) = (min.as_int(), stop.as_int())
            && end.checked_sub(first).is_none()
        {
            return problem(node.at, format!("the slice from {first} to {end} has more elements than 64 bits count"));
        }
        let extent = difference(&stop, &min);
        Ok(Range { min, extent })
    }
}

/// `a - b` with equal terms cancelled: `(i * 4 + 4) - i * 4` is 4.
pub(super) fn difference(a: &Expr, b: &Expr) -> Expr {
    let dtype = a.dtype();
    let mut sum = Sum { terms: vec![], base: 0 };
    if sum.add(a, 1).is_none() || sum.add(b, -1).is_none() {
        return ops::fold(BinOp::Sub, a, b).unwrap_or_else(|| a.clone() - b.clone());
    }
    sum.rebuild(dtype)
}

/// A sum of terms with coefficients, in order of appearance.
struct Sum {
    terms: Vec<(Expr, i64)>,
    base: i64,
}

impl Sum {
    /// Adds `e` times `k`; `None` on overflow.
    fn add(&mut self, e: &Expr, k: i64) -> Option<()> {
        match e.kind() {
            ExprKind::Int { value, .. } => {
                self.base = self.base.checked_add(value.checked_mul(k)?)?;
            }
            ExprKind::Binary { op: BinOp::Add, a, b } => {
                self.add(a, k)?;
                self.add(b, k)?;
            }
            ExprKind::Binary { op: BinOp::Sub, a, b } => {
                self.add(a, k)?;
                self.add(b, k.checked_neg()?)?;
            }
            ExprKind::Binary { op: BinOp::Mul, a, b } if b.as_int().is_some() => {
                self.add(a, k.checked_mul(b.as_int()?)?)?;
            }
            _ => match self.terms.iter_mut().find(|(t, _)| t == e) {
                Some((_, n)) => *n = n.checked_add(k)?,
                None => self.terms.push((e.clone(), k)),
            },
        }
        Some(())
    }

    /// Positive terms, then negative ones, then the constant.
    fn rebuild(self, dtype: DType) -> Expr {
        let mut whole: Option<Expr> = None;
        let scaled = |t: &Expr, k: i64| if k == 1 { t.clone() } else { t.clone() * Expr::int(k, dtype) };
        for (t, k) in self.terms.iter().filter(|t| t.1 > 0) {
            let t = scaled(t, *k);
            whole = Some(whole.map_or_else(|| t.clone(), |w| w + t.clone()));
        }
        for (t, k) in self.terms.iter().filter(|t| t.1 < 0) {
            whole = Some(whole.unwrap_or_else(|| Expr::int(0, dtype)) - scaled(t, -k));
        }
        match whole {
            None => Expr::int(self.base, dtype),
            Some(w) if self.base == 0 => w,
            Some(w) if self.base < 0 && self.base != i64::MIN => w - Expr::int(-self.base, dtype),
            Some(w) => w + Expr::int(self.base, dtype),
        }
    }
}

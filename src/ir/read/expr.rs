//! Expressions.

use super::ast::{Node, NodeKind};
use super::error::{Problem, problem};
use super::scope::{Binding, Scope};
use super::value::{self, Value, counted};
use crate::ir::{BinOp, DType, Expr, ExprKind, UnOp};

impl Scope<'_> {
    /// The value of an expression.
    pub fn value(&mut self, node: &Node) -> Result<Value, Problem> {
        match &node.kind {
            NodeKind::Name(name) => self.var(name, node.at).map(Value::Expr),
            NodeKind::Int(v) => match v.and_then(|v| i64::try_from(v).ok()) {
                Some(v) => Ok(Value::Int(v)),
                None => problem(node.at, "this integer does not fit int64"),
            },
            NodeKind::Float(v) => Ok(Value::Float(*v)),
            NodeKind::Bool(b) => Ok(Value::Expr(Expr::bool(*b))),
            NodeKind::Neg(arg) => self.negated(arg),
            NodeKind::Not(arg) => self.not(arg),
            NodeKind::BitNot(arg) => self.bit_not(arg),
            NodeKind::Binary(op, a, b) => self.binary(*op, a, b, node),
            NodeKind::Ternary { cond, then, otherwise } => self.if_then_else(cond, then, otherwise, node),
            NodeKind::Index(base, items) => self.load(base, items, node).map(Value::Expr),
            NodeKind::Call { func, args, keywords } => self.call(func, args, keywords, node),
            NodeKind::Attr(base, name) => self.attribute(base, name, node),
            NodeKind::Str(_) => problem(node.at, "a string has no place in an expression"),
            NodeKind::None => problem(node.at, "`None` has no place in an expression"),
            NodeKind::Slice(..) => problem(node.at, "a slice stands only in T.reads, T.writes and T.match_buffer"),
            NodeKind::Tuple(_) | NodeKind::List(_) | NodeKind::Dict(_) => {
                problem(node.at, "one value was expected here, not a collection")
            }
            NodeKind::Lambda(_) => problem(node.at, "a lambda has no place in an expression"),
            NodeKind::Layout(_) => problem(node.at, "a layout has no place in an expression"),
        }
    }

    /// The expression; a bare literal takes its own dtype.
    pub fn expr(&mut self, node: &Node) -> Result<Expr, Problem> {
        Ok(self.value(node)?.expr())
    }

    /// A condition.
    pub fn condition(&mut self, node: &Node) -> Result<Expr, Problem> {
        let e = self.expr(node)?;
        match e.dtype() {
            DType::Bool => Ok(e),
            other => problem(node.at, format!("a condition is bool, not {other}; compare with 0 first")),
        }
    }

    /// An integer: an index, an extent, a bound.
    pub fn index(&mut self, node: &Node) -> Result<Expr, Problem> {
        let e = match self.value(node)? {
            Value::Float(_) => return problem(node.at, "an integer was expected here, not a float"),
            v => v.expr(),
        };
        if e.dtype().is_int() || e.dtype() == DType::Bool {
            return Ok(e);
        }
        problem(node.at, format!("an integer was expected here, not {}", e.dtype()))
    }

    fn negated(&mut self, arg: &Node) -> Result<Value, Problem> {
        if matches!(arg.kind, NodeKind::Int(Some(v)) if v == -i128::from(i64::MIN)) {
            return Ok(Value::Int(i64::MIN));
        }
        Ok(match self.value(arg)? {
            Value::Int(v) => match v.checked_neg() {
                Some(v) => Value::Int(v),
                None => return problem(arg.at, "this integer does not fit int64"),
            },
            Value::Float(v) => Value::Float(-v),
            Value::Expr(e) => match e.kind() {
                ExprKind::Float { bits, dtype } => Value::Expr(Expr::float(-f64::from_bits(*bits), *dtype)),
                ExprKind::Int { value, dtype } if dtype.is_signed() && *value != i64::MIN => {
                    Value::Expr(Expr::int(-value, *dtype))
                }
                _ if e.dtype() == DType::Bool || e.dtype() == DType::Handle => {
                    return problem(arg.at, format!("`-` takes a number, not {}", e.dtype()));
                }
                _ => Value::Expr(Expr::unary(UnOp::Neg, e)),
            },
        })
    }

    fn not(&mut self, arg: &Node) -> Result<Value, Problem> {
        let e = self.condition(arg)?;
        Ok(Value::Expr(match e.as_int() {
            Some(v) => Expr::bool(v == 0),
            None => Expr::unary(UnOp::Not, e),
        }))
    }

    /// `~x` of an integer, of a truth value its negation.
    pub fn bit_not(&mut self, arg: &Node) -> Result<Value, Problem> {
        match self.value(arg)? {
            Value::Int(v) => Ok(Value::Int(!v)),
            Value::Expr(e) if e.dtype().is_int() => Ok(Value::Expr(Expr::unary(UnOp::BitNot, e))),
            Value::Expr(e) if e.dtype() == DType::Bool => Ok(Value::Expr(Expr::unary(UnOp::Not, e))),
            Value::Expr(_) | Value::Float(_) => problem(arg.at, "`~` takes an integer or a truth value"),
        }
    }

    fn binary(&mut self, op: BinOp, a: &Node, b: &Node, node: &Node) -> Result<Value, Problem> {
        let (x, y) = (self.value(a)?, self.value(b)?);
        value::binary(op, x, y, node.at)
    }

    /// A conditional value; both branches get one dtype.
    pub fn if_then_else(&mut self, cond: &Node, then: &Node, otherwise: &Node, node: &Node) -> Result<Value, Problem> {
        let cond = self.condition(cond)?;
        let (then, otherwise) = (self.value(then)?, self.value(otherwise)?);
        let (then, otherwise) = value::match_types(then, otherwise, node.at)?;
        Ok(Value::Expr(Expr::new(ExprKind::IfThenElse { cond, then, otherwise })))
    }

    fn load(&mut self, base: &Node, items: &[Node], node: &Node) -> Result<Expr, Problem> {
        if let NodeKind::Attr(buffer, what) = &base.kind {
            return self.buffer_property(buffer, what, items);
        }
        let (buffer, indices) = self.element(base, items, node)?;
        let dtype = self.declared(&buffer).dtype;
        Ok(Expr::load(buffer, indices, dtype))
    }

    /// Buffer and indices of `A[i, j]`.
    pub fn element(
        &mut self,
        base: &Node,
        items: &[Node],
        node: &Node,
    ) -> Result<(crate::ir::Name, Vec<Expr>), Problem> {
        let Some(user) = base.dotted() else { return problem(base.at, "a buffer was expected before `[`") };
        let b = self.buffer(&user, base.at)?;
        let (name, rank) = (b.name.clone(), b.shape.len());
        if items.len() != rank {
            return problem(
                node.at,
                format!(
                    "`{user}` has {}, and there are {} here",
                    counted(rank, "dimension", "dimensions"),
                    counted(items.len(), "index", "indices")
                ),
            );
        }
        let indices = items.iter().map(|n| self.index(n)).collect::<Result<Vec<_>, _>>()?;
        let indices = if self.tile { indices.iter().map(wide).collect() } else { indices };
        Ok((name, indices))
    }

    /// `A.strides[0]`.
    fn buffer_property(&mut self, buffer: &Node, what: &str, items: &[Node]) -> Result<Expr, Problem> {
        let whole = self.whole_buffer(buffer)?;
        let mut args = vec![whole];
        for n in items {
            args.push(self.index(n)?);
        }
        Ok(Expr::new(ExprKind::Extern { callee: format!(".{what}[]").into(), args, dtype: DType::I32 }))
    }

    /// `A.data`, `A.elem_offset`, `A.dtype`.
    fn attribute(&mut self, base: &Node, name: &str, node: &Node) -> Result<Value, Problem> {
        let is_buffer = base.dotted().is_some_and(|b| matches!(self.lookup(&b), Some(Binding::Buffer(_))));
        let dtype = match name {
            "data" => DType::Handle,
            "elem_offset" => DType::I32,
            _ if is_buffer => return problem(node.at, format!("a buffer has no property `{name}`")),
            _ => return problem(node.at, format!("`{}` has no value here", self.source(node.at))),
        };
        let whole = self.whole_buffer(base)?;
        Ok(Value::Expr(Expr::new(ExprKind::Extern { callee: format!(".{name}").into(), args: vec![whole], dtype })))
    }

    /// A buffer named as a whole, which only arguments of opaque calls may do: a load without
    /// indices.
    pub fn whole_buffer(&mut self, node: &Node) -> Result<Expr, Problem> {
        let Some(user) = node.dotted() else { return problem(node.at, "the name of a buffer was expected") };
        if self.tile {
            return problem(node.at, format!("`{user}` has no such property in a tile program"));
        }
        let b = self.buffer(&user, node.at)?;
        Ok(Expr::load(b.name.clone(), vec![], b.dtype))
    }
}

/// An index of a tile program: `int64`.
pub(super) fn wide(e: &Expr) -> Expr {
    match e.as_int() {
        Some(v) => Expr::i64(v),
        None => Expr::cast(DType::I64, e.clone()),
    }
}

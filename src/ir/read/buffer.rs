//! Declarations of buffers: `T.Buffer(...)`, `T.match_buffer(...)`, `T.sblock_alloc_buffer(...)`.

use super::ast::{Node, NodeKind};
use super::attr::int_of;
use super::error::{Problem, Span, problem};
use super::scope::{Binding, Scope as Names};
use super::syntax;
use super::value::Value;
use crate::ir::{Buffer, DType, Expr, Name, Scope};

/// Arguments of a declaration, by meaning.
#[derive(Default)]
struct Parts<'n> {
    shape: Option<&'n Node>,
    dtype: Option<&'n Node>,
    strides: Option<&'n Node>,
    elem_offset: Option<&'n Node>,
    scope: Option<&'n Node>,
    align: Option<&'n Node>,
    offset_factor: Option<&'n Node>,
    layout: Option<&'n Node>,
}

impl Names<'_> {
    /// Declares the buffer `user` from the arguments of its declaration (a region or handle argument
    /// left out) and adds it to the table. It is not bound yet.
    pub fn declare_buffer(
        &mut self,
        user: &str,
        args: &[Node],
        keywords: &[(String, Node)],
        scope: Scope,
        at: Span,
    ) -> Result<Name, Problem> {
        let parts = parts(args, keywords, at)?;
        let Some(shape) = parts.shape else { return problem(at, "this buffer has no shape") };
        let shape = self.shape(shape)?;
        let dtype = parts.dtype.map_or(Ok(DType::F32), dtype_of)?;
        check_size(user, &shape, dtype, at)?;
        if let Some(e) = shape.iter().find(|e| self.tile && e.as_int().is_none_or(|n| n < 1)) {
            let message = format!("`{user}` has the extent {e}; the extents of a tile program are positive constants");
            return problem(at, message);
        }
        let mut b = Buffer::new(self.fresh(user), dtype, shape, scope);
        if let Some(n) = parts.strides.filter(|n| !matches!(n.kind, NodeKind::None)) {
            b.strides = self.shape(n)?;
            if !b.strides.is_empty() && b.strides.len() != b.shape.len() {
                return problem(n.at, format!("{} strides for {} dimensions", b.strides.len(), b.shape.len()));
            }
        }
        b.elem_offset =
            parts.elem_offset.filter(|n| !matches!(n.kind, NodeKind::None)).map(|n| self.dim(n)).transpose()?;
        b.scope = parts.scope.map_or(Ok(b.scope), |n| str_of(n, "a scope").map(Scope::by_name))?;
        b.align = parts.align.map(positive).transpose()?.flatten();
        b.offset_factor = parts.offset_factor.map(positive).transpose()?.flatten();
        b.layout = parts.layout.map(|n| self.layout(n, &b.shape)).transpose()?;
        let name = b.name.clone();
        self.buffers.push(b);
        Ok(name)
    }

    /// A tuple of extents, or one extent.
    fn shape(&mut self, node: &Node) -> Result<Vec<Expr>, Problem> {
        match &node.kind {
            NodeKind::Tuple(items) | NodeKind::List(items) => items.iter().map(|n| self.dim(n)).collect(),
            _ => Ok(vec![self.dim(node)?]),
        }
    }

    /// One extent; a string holds an extent whose variable is declared further down.
    fn dim(&mut self, node: &Node) -> Result<Expr, Problem> {
        let value = match &node.kind {
            NodeKind::Str(text) => {
                let inner = syntax::parse_expr(text, node.at)?;
                if let NodeKind::Name(n) = &inner.kind
                    && self.lookup(n).is_none()
                    && !self.is_outermost()
                {
                    self.bind(n, Binding::Declared(DType::I32));
                }
                self.value(&inner)?
            }
            _ => self.value(node)?,
        };
        if matches!(value, Value::Float(_)) {
            return problem(node.at, "an extent is an integer");
        }
        let e = value.expr();
        if !e.dtype().is_int() {
            return problem(node.at, format!("an extent is an integer, not {}", e.dtype()));
        }
        Ok(e)
    }
}

fn parts<'n>(args: &'n [Node], keywords: &'n [(String, Node)], at: Span) -> Result<Parts<'n>, Problem> {
    let mut p = Parts::default();
    if args.len() > 2 {
        return problem(args[2].at, "after shape and dtype, write arguments by name (scope=, strides=, ...)");
    }
    p.shape = args.first();
    p.dtype = args.get(1);
    for (key, node) in keywords {
        let slot = match key.as_str() {
            "shape" => &mut p.shape,
            "dtype" => &mut p.dtype,
            "strides" => &mut p.strides,
            "elem_offset" => &mut p.elem_offset,
            "scope" => &mut p.scope,
            "align" => &mut p.align,
            "offset_factor" => &mut p.offset_factor,
            "layout" if !absent(node) => &mut p.layout,
            "buffer_type" | "layout" | "axis_separators" | "data" => match &node.kind {
                _ if absent(node) => continue,
                NodeKind::List(items) if items.is_empty() => continue,
                _ => return problem(node.at, format!("`{key}=` of a buffer is not supported")),
            },
            _ => return problem(node.at, format!("a buffer has no argument `{key}`")),
        };
        if slot.replace(node).is_some() {
            return problem(at, format!("`{key}` is given twice"));
        }
    }
    Ok(p)
}

/// True for the values of an argument that say nothing.
fn absent(node: &Node) -> bool {
    match &node.kind {
        NodeKind::None => true,
        NodeKind::Str(s) => s.is_empty() || s == "default",
        _ => false,
    }
}

/// The type that an annotation of a let declares: `T.int32`, `T.let[T.int32]`, or none in `T.let`.
pub(super) fn declared_dtype(annotation: &Node) -> Result<Option<DType>, Problem> {
    match &annotation.kind {
        NodeKind::Index(base, items) if base.tir_name().as_deref() == Some("let") => match items.as_slice() {
            [one] => dtype_of(one).map(Some),
            _ => problem(annotation.at, "T.let takes one dtype, as T.let[T.int32]"),
        },
        _ if annotation.tir_name().as_deref() == Some("let") => Ok(None),
        _ => dtype_of(annotation).map(Some),
    }
}

/// The dtype that a string or `T.float32` names.
pub(super) fn dtype_of(node: &Node) -> Result<DType, Problem> {
    let text = match &node.kind {
        NodeKind::Str(s) => s.clone(),
        _ => match node.tir_name() {
            Some(n) => n,
            None => return problem(node.at, "a dtype was expected, such as \"float32\""),
        },
    };
    dtype_named(&text, node.at)
}

/// The dtype of that name.
pub(super) fn dtype_named(text: &str, at: Span) -> Result<DType, Problem> {
    if let Ok(dtype) = text.parse() {
        return Ok(dtype);
    }
    let names = DType::ALL.map(|d| d.1);
    let vector = names.iter().any(|n| text.strip_prefix(n).is_some_and(|rest| rest.starts_with('x')));
    if vector {
        return problem(at, format!("the vector type \"{text}\" is not supported; write scalar operations"));
    }
    let hint = crate::ir::nearest(text, names).map_or_else(String::new, |n| format!("; did you mean \"{n}\"?"));
    problem(at, format!("unknown dtype \"{text}\"{hint}"))
}

/// The text of a string argument.
pub(super) fn str_of<'n>(node: &'n Node, what: &str) -> Result<&'n str, Problem> {
    match &node.kind {
        NodeKind::Str(s) => Ok(s),
        _ => problem(node.at, format!("{what} is a string")),
    }
}

/// A positive number; 0 and -1 stand for the default.
fn positive(node: &Node) -> Result<Option<u32>, Problem> {
    match int_of(node) {
        Some(0 | -1) => Ok(None),
        Some(v) => u32::try_from(v).map(Some).or_else(|_| problem(node.at, "a positive number was expected")),
        None => problem(node.at, "a positive number was expected"),
    }
}

/// Refuses negative extents and sizes that overflow.
fn check_size(user: &str, shape: &[Expr], dtype: DType, at: Span) -> Result<(), Problem> {
    if let Some(e) = shape.iter().find(|e| e.as_int().is_some_and(|v| v < 0)) {
        return problem(at, format!("buffer `{user}` has the negative extent {e}"));
    }
    let known = shape.iter().filter_map(Expr::as_int).filter(|v| *v > 0);
    let bytes = known.clone().try_fold(dtype.bytes() as i64, |n, v| n.checked_mul(v));
    if bytes.is_none() {
        return problem(at, format!("the size of buffer `{user}` in bytes overflows int64"));
    }
    Ok(())
}

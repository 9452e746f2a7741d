//! Parts of buffers (`A`, `A[0:32, 0:8]`, `A[i, 0:8]`, `A[fs]`), the constants that stand for parts
//! of them, and layouts.

use super::super::ast::{Node, NodeKind};
use super::super::error::{Problem, problem};
use super::super::expr::wide;
use super::super::region::difference;
use super::super::scope::{Binding, Dim, Scope};
use crate::ir::layout::TileLayout;
use crate::ir::{Expr, Tile};

impl Scope<'_> {
    /// What a name outside of statements may stand for: a number, slices, a layout.
    pub fn named_constant(&mut self, value: &Node) -> Result<Option<Binding>, Problem> {
        Ok(match &value.kind {
            NodeKind::Layout(text) => Some(Binding::Layout(parse_layout(text, value)?)),
            NodeKind::Int(_) | NodeKind::Neg(_) => Some(Binding::Var(self.expr(value)?)),
            NodeKind::Tuple(items) if items.iter().any(is_slice) => {
                let dims = items.iter().map(|n| self.dims(n)).collect::<Result<Vec<_>, _>>()?;
                Some(Binding::Slices(dims.concat()))
            }
            NodeKind::Call { .. } if is_slice(value) => Some(Binding::Slices(self.dims(value)?)),
            _ => None,
        })
    }

    /// The layout of a buffer of that shape.
    pub fn layout(&mut self, node: &Node, shape: &[Expr]) -> Result<TileLayout, Problem> {
        if !self.tile {
            return problem(node.at, "`layout=` of a buffer is for tile programs, which call T.device_entry()");
        }
        let layout = match &node.kind {
            NodeKind::Layout(text) => parse_layout(text, node)?,
            NodeKind::Name(user) => match self.lookup(user) {
                Some(Binding::Layout(l)) => l.clone(),
                _ => return problem(node.at, format!("`{user}` is not a layout; write TileLayout(S[...])")),
            },
            _ => return problem(node.at, "a layout was expected, such as TileLayout(S[(4, 8)])"),
        };
        let shape: Option<Vec<i64>> = shape.iter().map(Expr::as_int).collect();
        let Some(shape) = shape else { return problem(node.at, "a buffer with a layout has constant extents") };
        layout.fit(&shape).or_else(|why| problem(node.at, why))
    }

    /// A part of a buffer.
    pub fn region_of(&mut self, node: &Node) -> Result<Tile, Problem> {
        let (base, items) = match &node.kind {
            NodeKind::Index(base, items) => (base.as_ref(), Some(items.as_slice())),
            _ => (node, None),
        };
        self.region_at(base, items, node)
    }

    /// The part `items` of the buffer `base`, or all of it; `node` is the place for errors.
    pub fn region_at(&mut self, base: &Node, items: Option<&[Node]>, node: &Node) -> Result<Tile, Problem> {
        let Some(user) = base.dotted() else {
            return problem(node.at, "a part of a buffer was expected, such as `A[0:32, 0:8]`, or `A` for all of it");
        };
        let buffer = self.buffer(&user, base.at)?;
        let name = buffer.name.clone();
        let shape: Option<Vec<i64>> = buffer.shape.iter().map(Expr::as_int).collect();
        let Some(shape) = shape else { return problem(node.at, format!("the shape of `{user}` is not constant")) };
        let Some(items) = items else { return Ok(Tile::whole(&name, &shape)) };
        let mut dims = vec![];
        for n in items {
            dims.extend(self.dims(n)?);
        }
        if dims.len() != shape.len() {
            let (rank, given) = (shape.len(), dims.len());
            return problem(
                node.at,
                format!("`{user}` has {rank} dimensions, but {given} slices or indices stand here"),
            );
        }
        let mut tile = Tile { buffer: name, begin: vec![], extent: vec![] };
        for (dim, size) in dims.into_iter().zip(shape) {
            let (begin, extent) = span(dim, size, &user, node)?;
            tile.begin.push(begin);
            tile.extent.push(extent);
        }
        Ok(tile)
    }

    /// One item between brackets: `i`, `a:b`, `slice(a, b)`, or a name of several of these.
    fn dims(&mut self, node: &Node) -> Result<Vec<Dim>, Problem> {
        match &node.kind {
            NodeKind::Slice(start, stop) => Ok(vec![self.slice(start.as_deref(), stop.as_deref())?]),
            NodeKind::Call { args, keywords, .. } if is_slice(node) => match args.as_slice() {
                [stop] if keywords.is_empty() => Ok(vec![self.slice(None, Some(stop))?]),
                [start, stop] if keywords.is_empty() => Ok(vec![self.slice(Some(start), Some(stop))?]),
                _ => problem(node.at, "a slice is written slice(begin, end)"),
            },
            NodeKind::Name(user) => match self.lookup(user) {
                Some(Binding::Slices(dims)) => Ok(dims.clone()),
                _ => Ok(vec![Dim::Point(self.index(node)?)]),
            },
            _ => Ok(vec![Dim::Point(self.index(node)?)]),
        }
    }

    fn slice(&mut self, start: Option<&Node>, stop: Option<&Node>) -> Result<Dim, Problem> {
        let given = |n: &&Node| !matches!(n.kind, NodeKind::None);
        let start = start.filter(given).map(|n| self.index(n)).transpose()?;
        let stop = stop.filter(given).map(|n| self.index(n)).transpose()?;
        Ok(Dim::Range(start, stop))
    }
}

fn parse_layout(text: &str, node: &Node) -> Result<TileLayout, Problem> {
    TileLayout::parse(text).or_else(|why| problem(node.at, why))
}

/// `slice(...)`
fn is_slice(node: &Node) -> bool {
    matches!(&node.kind, NodeKind::Call { func, .. } if func.dotted().as_deref() == Some("slice"))
}

/// First index and extent of one dimension, inside the buffer as far as that is known.
fn span(dim: Dim, size: i64, user: &str, node: &Node) -> Result<(Expr, i64), Problem> {
    let (begin, extent) = match dim {
        Dim::Point(e) => (wide(&e), 1),
        Dim::Range(start, stop) => {
            let begin = start.map_or_else(|| Expr::i64(0), |e| wide(&e));
            let stop = stop.map_or_else(|| Expr::i64(size), |e| wide(&e));
            match difference(&stop, &begin).as_int() {
                Some(n) if n >= 1 => (begin, n),
                Some(n) => {
                    let message = format!("a slice of `{user}` has {n} indices; a tile has at least one");
                    return problem(node.at, message);
                }
                None => {
                    let message = format!("the extent of a slice of `{user}` is not a constant; write `i:i + 8`");
                    return problem(node.at, message);
                }
            }
        }
    };
    let fits = match begin.as_int() {
        Some(b) => b >= 0 && b.checked_add(extent).is_some_and(|end| end <= size),
        None => extent <= size,
    };
    if fits {
        return Ok((begin, extent));
    }
    let what = match begin.as_int() {
        Some(b) => format!("the indices {b} to {}", b.saturating_add(extent) - 1),
        None => format!("{extent} indices"),
    };
    problem(node.at, format!("{what} lie outside a dimension of `{user}`, which has {size}"))
}

//! `PrimFunc`: a tensor function with its table of buffers.

use super::layout::TileLayout;
use super::ops::fold;
use super::{AttrValue, DType, Expr, ExprKind, Name, Stmt};
use std::collections::BTreeMap;

/// The attribute of a function by which schedules round its values as it says (`docs/correctness.md`).
pub const STRICT: &str = "daylight.strict";

/// A tensor function. Every buffer is declared once in `buffers`; parameters, allocations, loads
/// and stores refer to it by name.
#[derive(Clone, PartialEq, Debug)]
pub struct PrimFunc {
    /// The function's own name (`main` for private ones).
    pub name: String,
    /// Printed with `private=True`: it has no global symbol.
    pub private: bool,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// All buffers, in program order: parameters first, then intermediates.
    pub buffers: Vec<Buffer>,
    /// Symbolic extents (and the symbolic offsets and strides of refused functions), in order of
    /// first use.
    pub extents: Vec<Extent>,
    /// Function attributes in order.
    pub attrs: Vec<(String, AttrValue)>,
    /// Buffers allocated in the root block, in order.
    pub allocs: Vec<Name>,
    /// The statements of the root block.
    pub body: Vec<Stmt>,
    /// The user's names by canonical name, for display, printing and the manifest.
    pub display: BTreeMap<Name, String>,
}

/// A parameter.
// The text of a variant says what its fields are.
#[allow(missing_docs)]
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Param {
    /// A tensor, by its name in the table.
    Buffer(Name),
    /// A scalar value.
    Scalar { name: Name, dtype: DType },
}

/// A symbolic extent and its dtype.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Extent {
    /// Name of the extent.
    pub name: Name,
    /// `int32` or `int64`.
    pub dtype: DType,
}

/// A buffer of the function's table.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Buffer {
    /// Name, unique in the function.
    pub name: Name,
    /// Element type.
    pub dtype: DType,
    /// One expression per dimension over constants and extents; empty for a scalar.
    pub shape: Vec<Expr>,
    /// Memory scope.
    pub scope: Scope,
    /// Explicit strides in elements; empty for row-major.
    pub strides: Vec<Expr>,
    /// Offset of the first element, where the text states one.
    pub elem_offset: Option<Expr>,
    /// Alignment in bytes, where the text states one.
    pub align: Option<u32>,
    /// `offset_factor=`, where the text states one.
    pub offset_factor: Option<u32>,
    /// Where each element lives, where the text states it; `None` for row-major memory.
    pub layout: Option<TileLayout>,
}

impl Buffer {
    /// A plain row-major buffer.
    pub fn new(name: Name, dtype: DType, shape: Vec<Expr>, scope: Scope) -> Buffer {
        Buffer {
            name,
            dtype,
            shape,
            scope,
            strides: vec![],
            elem_offset: None,
            align: None,
            offset_factor: None,
            layout: None,
        }
    }

    /// True where the elements lie in row-major order from the start: no strides, offset or layout of its own.
    pub fn is_row_major(&self) -> bool {
        self.strides.is_empty() && self.elem_offset.is_none() && self.layout.is_none()
    }

    /// Number of elements, if every extent is a constant.
    pub fn len(&self) -> Option<i64> {
        self.shape.iter().try_fold(1i64, |n, e| n.checked_mul(e.as_int()?))
    }

    /// True when an extent is the constant 0, so that there is no element.
    pub fn is_empty(&self) -> bool {
        self.shape.iter().any(|e| e.is_int(0))
    }
}

/// Memory scope of a buffer.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Scope {
    /// Device memory.
    Global,
    /// Memory of a thread block.
    Shared,
    /// The same, sized at launch (`shared.dyn`).
    SharedDyn,
    /// Memory of the thread blocks of a cluster: a part of the first dimension each (`shared.cluster`).
    Cluster,
    /// Registers of one thread.
    Local,
    /// Tensor memory of a thread block: lanes and columns.
    Tensor,
    /// Any other scope of the input dialect (`wmma.accumulator`, ...), kept by name.
    Other(String),
}

impl Scope {
    /// The name in TVMScript.
    pub fn name(&self) -> &str {
        match self {
            Scope::Global => "global",
            Scope::Shared => "shared",
            Scope::SharedDyn => "shared.dyn",
            Scope::Cluster => "shared.cluster",
            Scope::Local => "local",
            Scope::Tensor => "tmem",
            Scope::Other(s) => s,
        }
    }

    /// The scope of that name.
    pub fn by_name(name: &str) -> Scope {
        match name {
            "" | "global" => Scope::Global,
            "shared" => Scope::Shared,
            "shared.dyn" => Scope::SharedDyn,
            "shared.cluster" => Scope::Cluster,
            "local" => Scope::Local,
            "tmem" => Scope::Tensor,
            other => Scope::Other(other.to_string()),
        }
    }
}

impl PrimFunc {
    /// True where values are rounded as the text says, with no liberty but those that every schedule has.
    pub fn is_strict(&self) -> bool {
        let off = |v: &AttrValue| matches!(v, AttrValue::Bool(false) | AttrValue::Int(0) | AttrValue::Typed(0, _));
        self.attrs.iter().any(|(key, value)| key == STRICT && !off(value))
    }

    /// The same function, strict.
    #[must_use]
    pub fn strict(mut self) -> PrimFunc {
        self.attrs.retain(|(key, _)| key != STRICT);
        self.attrs.push((STRICT.to_string(), AttrValue::Bool(true)));
        self
    }

    /// The declaration of a buffer.
    ///
    /// # Panics
    /// If the table has no such buffer: `verify` rules that out, so it is a bug.
    pub fn buffer(&self, name: &Name) -> &Buffer {
        self.find_buffer(name).unwrap_or_else(|| panic!("buffer `{name}` is not in the table"))
    }

    /// The declaration of a buffer, if there is one.
    pub fn find_buffer(&self, name: &Name) -> Option<&Buffer> {
        self.buffers.iter().find(|b| b.name == *name)
    }

    /// True for a buffer that is a parameter.
    pub fn is_param(&self, name: &Name) -> bool {
        self.params.iter().any(|p| matches!(p, Param::Buffer(b) if b == name))
    }

    /// True where a tensor has a dimension that the name is part of.
    pub fn is_in_shape(&self, name: &Name) -> bool {
        self.buffers.iter().any(|b| b.shape.iter().any(|n| n.uses_var(name)))
    }

    /// The tensor parameters in order.
    pub fn buffer_params(&self) -> impl Iterator<Item = &Buffer> {
        self.params.iter().filter_map(|p| match p {
            Param::Buffer(b) => Some(self.buffer(b)),
            Param::Scalar { .. } => None,
        })
    }

    /// The user's name for a canonical name, or the canonical name itself.
    pub fn display_name<'a>(&'a self, name: &'a Name) -> &'a str {
        self.display.get(name).map_or(name.as_str(), |s| s.as_str())
    }

    /// Calls `f` on every statement, parents first.
    pub fn visit(&self, f: &mut impl FnMut(&Stmt)) {
        self.body.iter().for_each(|s| s.visit(f));
    }

    /// Replaces symbolic extents by constants (`--bind n=512`, by display or canonical name) in
    /// shapes and body, folded as where the text had said the numbers; extents that are bound leave the list. Of
    /// parameters those count that are named; they stay.
    pub fn bind(&self, values: &BTreeMap<String, i64>) -> PrimFunc {
        let value = |name: &Name| {
            let extent = self.extents.iter().find(|e| e.name == *name).map(|e| e.dtype);
            let param = || {
                self.params.iter().find_map(|p| match p {
                    Param::Scalar { name: n, dtype } if n == name => Some(*dtype),
                    Param::Scalar { .. } | Param::Buffer(_) => None,
                })
            };
            let dtype = extent.or_else(param).filter(|d| d.is_int())?;
            let v = values.get(self.display_name(name)).or_else(|| values.get(name.as_str()))?;
            Some(Expr::int(*v, dtype))
        };
        let mut f = self.clone();
        for b in &mut f.buffers {
            for e in b.shape.iter_mut().chain(&mut b.strides).chain(b.elem_offset.as_mut()) {
                *e = bound(e, &value);
            }
        }
        f.body = f.body.iter().map(|s| s.map_exprs(&mut |e| bound(e, &value))).collect();
        f.extents.retain(|e| value(&e.name).is_none());
        f
    }
}

/// The expression with variables replaced, and what that makes constant folded.
fn bound(e: &Expr, value: &dyn Fn(&Name) -> Option<Expr>) -> Expr {
    if let Some(name) = e.as_var() {
        return value(name).unwrap_or_else(|| e.clone());
    }
    let new = e.map_children(|c| bound(c, value));
    match new.kind() {
        ExprKind::Binary { op, a, b } if !new.same(e) => fold(*op, a, b).unwrap_or(new),
        ExprKind::Select { cond, then, otherwise } | ExprKind::IfThenElse { cond, then, otherwise } if !new.same(e) => {
            cond.as_int().map_or_else(|| new.clone(), |holds| if holds != 0 { then.clone() } else { otherwise.clone() })
        }
        _ => new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slice from -1 on, as TVM writes its size.
    #[test]
    fn a_size_with_a_condition_is_a_number_where_it_is_bound() {
        let size = "T.max(n - T.max(T.if_then_else(n < 1, n * 2 - 1, n - 1), 0), 0)";
        let text = format!(
            "n = TypeVar(\"n\")\n@T.prim_func(private=True, s_tir=True)\ndef main(A: T.Buffer((n, 8), \"float32\"), \
             B: T.Buffer((\"{size}\", 8), \"float32\")):\n    for i, j in T.grid({size}, 8):\n        \
             with T.sblock(\"b\"):\n            v, w = T.axis.remap(\"SS\", [i, j])\n            \
             B[v, w] = A[n - 1 + v, w]\n"
        );
        let f = crate::ir::read(&text, "slice").expect("reads").remove(0);
        let bound = f.bind(&BTreeMap::from([("n".to_string(), 7)]));
        assert_eq!(bound.buffers.iter().map(Buffer::len).collect::<Vec<_>>(), [Some(56), Some(8)], "{bound}");
        assert!(matches!(&bound.body[0], Stmt::For(l) if l.extent.is_int(1)), "{bound}");
    }
}

//! Attributes and annotations.

use super::ast::{Node, NodeKind};
use super::error::{Problem, problem};
use super::scope::Scope;
use crate::ir::{AttrValue, DType};

impl Scope<'_> {
    /// The entries of a dictionary of attributes.
    pub fn attr_dict(&self, node: &Node) -> Result<Vec<(String, AttrValue)>, Problem> {
        let NodeKind::Dict(items) = &node.kind else {
            return problem(node.at, "a dictionary of attributes was expected, such as {\"key\": 1}");
        };
        items.iter().map(|(k, v)| Ok((self.attr_key(k)?, self.attr(v)?))).collect()
    }

    fn attr_key(&self, node: &Node) -> Result<String, Problem> {
        match &node.kind {
            NodeKind::Str(s) => Ok(s.clone()),
            _ => problem(node.at, "the key of an attribute is a string"),
        }
    }

    fn attrs(&self, items: &[Node]) -> Result<Vec<AttrValue>, Problem> {
        items.iter().map(|n| self.attr(n)).collect()
    }

    /// The value of an attribute; what has no form of its own is kept as text.
    pub fn attr(&self, node: &Node) -> Result<AttrValue, Problem> {
        let raw = || AttrValue::Raw(self.source(node.at));
        Ok(match &node.kind {
            NodeKind::Bool(b) => AttrValue::Bool(*b),
            NodeKind::Int(_) => match int_of(node) {
                Some(v) => AttrValue::Int(v),
                None => return problem(node.at, "this attribute does not fit int64"),
            },
            NodeKind::Float(v) => AttrValue::Float(v.to_bits()),
            NodeKind::Neg(inner) => match &inner.kind {
                NodeKind::Float(v) => AttrValue::Float((-v).to_bits()),
                _ => int_of(node).map_or_else(raw, AttrValue::Int),
            },
            NodeKind::Str(s) => AttrValue::Str(s.clone()),
            NodeKind::List(items) | NodeKind::Tuple(items) => AttrValue::List(self.attrs(items)?),
            NodeKind::Dict(_) => AttrValue::Dict(self.attr_dict(node)?),
            NodeKind::Call { .. } => typed_int(node).unwrap_or_else(raw),
            NodeKind::Name(_)
            | NodeKind::None
            | NodeKind::Attr(..)
            | NodeKind::Index(..)
            | NodeKind::Slice(..)
            | NodeKind::Not(_)
            | NodeKind::BitNot(_)
            | NodeKind::Binary(..)
            | NodeKind::Ternary { .. }
            | NodeKind::Lambda(_)
            | NodeKind::Layout(_) => raw(),
        })
    }
}

/// A literal integer, negative ones too.
pub(super) fn int_of(node: &Node) -> Option<i64> {
    match &node.kind {
        NodeKind::Int(v) => i64::try_from((*v)?).ok(),
        NodeKind::Neg(inner) => match &inner.kind {
            NodeKind::Int(v) => i64::try_from(-(*v)?).ok(),
            _ => None,
        },
        _ => None,
    }
}

/// `T.int64(3)`, `T.bool(True)`.
fn typed_int(node: &Node) -> Option<AttrValue> {
    let (name, args, keywords) = node.tir_call()?;
    let dtype: DType = name.parse().ok()?;
    match (args, keywords) {
        ([Node { kind: NodeKind::Bool(b), .. }], []) if dtype == DType::Bool => {
            Some(AttrValue::Typed(i64::from(*b), dtype))
        }
        ([one], []) if dtype.is_int() => Some(AttrValue::Typed(int_of(one)?, dtype)),
        _ => None,
    }
}

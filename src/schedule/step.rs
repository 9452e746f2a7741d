//! Steps as data: one enum case per primitive, one line of text each.

use super::IndexMap;
use crate::ir::{AttrValue, Name, Scope, ThreadTag};
use std::fmt;

/// One step of a schedule. The text form is what traces and logs hold: `split(i1, [None, 4])`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Step {
    /// `split(i1, [None, 4])`
    Split { at: Name, factors: Vec<Option<i64>> },
    /// `fuse(i0, i1)`
    Fuse { loops: Vec<Name> },
    /// `reorder(i1, i0)`
    Reorder { loops: Vec<Name> },
    /// `bind(i0, blockIdx.x)`
    Bind { at: Name, tag: ThreadTag },
    /// `parallel(i0)`
    Parallel { at: Name },
    /// `vectorize(i0)`
    Vectorize { at: Name },
    /// `unroll(i0)`
    Unroll { at: Name },
    /// `annotate(i0, "min_blocks", 4)`; a loop or a block
    Annotate { at: Name, key: String, value: AttrValue },
    /// `compute_inline(b0)`
    ComputeInline { block: Name },
    /// `reverse_compute_inline(b1)`
    ReverseComputeInline { block: Name },
    /// `compute_at(b0, i1)`
    ComputeAt { block: Name, at: Name },
    /// `reverse_compute_at(b1, i0)`
    ReverseComputeAt { block: Name, at: Name },
    /// `cache_read(b0, p0, "shared")`
    CacheRead { block: Name, buffer: Name, scope: Scope },
    /// `cache_write(b0, p1, "local")`
    CacheWrite { block: Name, buffer: Name, scope: Scope },
    /// `set_scope(t0, "local")`
    SetScope { buffer: Name, scope: Scope },
    /// `storage_align(t0, 0, 32, 1)`: buffer, dimension, factor, offset
    StorageAlign { buffer: Name, axis: usize, factor: i64, offset: i64 },
    /// `rfactor(i1_1, 0)`
    Rfactor { at: Name, axis: usize },
    /// `decompose_reduction(b0, i1_0)`
    DecomposeReduction { block: Name, at: Name },
    /// `merge_reductions(b0, b1)`
    MergeReductions { first: Name, second: Name },
    /// `online_reductions(b0, b1, i1_0)`
    OnlineReductions { first: Name, second: Name, at: Name },
    /// `transform_block_layout(b0, [[v0, v2], [], [v1]])`: each group of iterators becomes one
    /// iterator (row-major); an empty group is a new iterator of extent 1; unit iterators may be left out
    TransformBlockLayout { block: Name, map: Vec<Vec<Name>> },
    /// `add_unit_loop(b0)`; above a loop or a block
    AddUnitLoop { at: Name },
    /// `reindex(b0, "left", [[v0], [v1, v2]])`: stages an operand at the iterators themselves, each group
    /// one dimension (row-major)
    Reindex { block: Name, operand: Operand, map: Vec<Vec<Name>> },
    /// `pad_einsum(b0, [1, 128, 128, 8])`: one multiple per iterator
    PadEinsum { block: Name, multiples: Vec<i64> },
    /// `blockize(i1)`
    Blockize { at: Name },
    /// `transform_layout(t0, [i, j], [j, i // 4, i % 4])`: old indices, new indices
    TransformLayout { buffer: Name, map: IndexMap },
    /// `flatten_buffer(t0)`
    FlattenBuffer { buffer: Name },
    /// `share([b0, b1], p0, "local")`, or `None` for the largest value that the blocks compute alike
    Share { blocks: Vec<Name>, buffer: Option<Name>, scope: Scope },
    /// `relax_arithmetic(b0, "reciprocal")`
    RelaxArithmetic { block: Name, way: String },
    /// `stage_write(b0, "local")`
    StageWrite { block: Name, scope: Scope },
}

/// A part of a sum of products, `result += left * right`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Operand {
    Left,
    Right,
    Result,
}

impl Operand {
    /// Every operand.
    pub const ALL: [Operand; 3] = [Operand::Left, Operand::Right, Operand::Result];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Operand::Left => "left",
            Operand::Right => "right",
            Operand::Result => "result",
        }
    }
}

impl Step {
    /// Name of the primitive, as in the text form.
    pub fn name(&self) -> &'static str {
        match self {
            Step::Split { .. } => "split",
            Step::Fuse { .. } => "fuse",
            Step::Reorder { .. } => "reorder",
            Step::Bind { .. } => "bind",
            Step::Parallel { .. } => "parallel",
            Step::Vectorize { .. } => "vectorize",
            Step::Unroll { .. } => "unroll",
            Step::Annotate { .. } => "annotate",
            Step::ComputeInline { .. } => "compute_inline",
            Step::ReverseComputeInline { .. } => "reverse_compute_inline",
            Step::ComputeAt { .. } => "compute_at",
            Step::ReverseComputeAt { .. } => "reverse_compute_at",
            Step::CacheRead { .. } => "cache_read",
            Step::CacheWrite { .. } => "cache_write",
            Step::SetScope { .. } => "set_scope",
            Step::StorageAlign { .. } => "storage_align",
            Step::Rfactor { .. } => "rfactor",
            Step::DecomposeReduction { .. } => "decompose_reduction",
            Step::TransformBlockLayout { .. } => "transform_block_layout",
            Step::MergeReductions { .. } => "merge_reductions",
            Step::OnlineReductions { .. } => "online_reductions",
            Step::AddUnitLoop { .. } => "add_unit_loop",
            Step::Reindex { .. } => "reindex",
            Step::PadEinsum { .. } => "pad_einsum",
            Step::Blockize { .. } => "blockize",
            Step::TransformLayout { .. } => "transform_layout",
            Step::FlattenBuffer { .. } => "flatten_buffer",
            Step::Share { .. } => "share",
            Step::RelaxArithmetic { .. } => "relax_arithmetic",
            Step::StageWrite { .. } => "stage_write",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name())?;
        match self {
            Step::Split { at, factors } => write!(f, "{at}, {}", bracketed(factors.iter().map(factor_text)))?,
            Step::Fuse { loops } | Step::Reorder { loops } => f.write_str(&joined(loops))?,
            Step::Bind { at, tag } => write!(f, "{at}, {}", tag.name())?,
            Step::Parallel { at }
            | Step::Vectorize { at }
            | Step::Unroll { at }
            | Step::AddUnitLoop { at }
            | Step::Blockize { at } => write!(f, "{at}")?,
            Step::Annotate { at, key, value } => write!(f, "{at}, {}, {}", quoted(key), value_text(value))?,
            Step::ComputeInline { block } | Step::ReverseComputeInline { block } => write!(f, "{block}")?,
            Step::ComputeAt { block, at }
            | Step::ReverseComputeAt { block, at }
            | Step::DecomposeReduction { block, at } => write!(f, "{block}, {at}")?,
            Step::CacheRead { block, buffer, scope } | Step::CacheWrite { block, buffer, scope } => {
                write!(f, "{block}, {buffer}, {}", quoted(scope.name()))?
            }
            Step::SetScope { buffer, scope } => write!(f, "{buffer}, {}", quoted(scope.name()))?,
            Step::StorageAlign { buffer, axis, factor, offset } => write!(f, "{buffer}, {axis}, {factor}, {offset}")?,
            Step::Rfactor { at, axis } => write!(f, "{at}, {axis}")?,
            Step::MergeReductions { first, second } => write!(f, "{first}, {second}")?,
            Step::OnlineReductions { first, second, at } => write!(f, "{first}, {second}, {at}")?,
            Step::StageWrite { block, scope } => write!(f, "{block}, {}", quoted(scope.name()))?,
            Step::RelaxArithmetic { block, way } => write!(f, "{block}, {}", quoted(way))?,
            Step::TransformLayout { buffer, map } => write!(f, "{buffer}, {map}")?,
            Step::FlattenBuffer { buffer } => write!(f, "{buffer}")?,
            Step::Share { blocks, buffer, scope } => {
                let buffer = buffer.as_ref().map_or("None", Name::as_str);
                write!(f, "[{}], {buffer}, {}", joined(blocks), quoted(scope.name()))?
            }
            Step::TransformBlockLayout { block, map } => {
                write!(f, "{block}, {}", bracketed(map.iter().map(|g| format!("[{}]", joined(g)))))?
            }
            Step::Reindex { block, operand, map } => {
                let map = bracketed(map.iter().map(|g| format!("[{}]", joined(g))));
                write!(f, "{block}, {}, {map}", quoted(operand.name()))?
            }
            Step::PadEinsum { block, multiples } => {
                write!(f, "{block}, {}", bracketed(multiples.iter().map(i64::to_string)))?
            }
        }
        f.write_str(")")
    }
}

fn factor_text(factor: &Option<i64>) -> String {
    factor.map_or_else(|| "None".to_string(), |n| n.to_string())
}

fn joined(names: &[Name]) -> String {
    names.iter().map(Name::as_str).collect::<Vec<_>>().join(", ")
}

fn bracketed(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

fn value_text(value: &AttrValue) -> String {
    match value {
        AttrValue::Bool(true) => "True".to_string(),
        AttrValue::Bool(false) => "False".to_string(),
        AttrValue::Int(n) => n.to_string(),
        AttrValue::Typed(n, dtype) => format!("{dtype}({n})"),
        AttrValue::Float(bits) => format!("{:?}", f64::from_bits(*bits)),
        AttrValue::Str(s) => quoted(s),
        AttrValue::List(items) => bracketed(items.iter().map(value_text)),
        AttrValue::Dict(items) => {
            let items: Vec<_> = items.iter().map(|(k, v)| format!("{}: {}", quoted(k), value_text(v))).collect();
            format!("{{{}}}", items.join(", "))
        }
        AttrValue::Raw(s) => format!("raw({})", quoted(s)),
    }
}

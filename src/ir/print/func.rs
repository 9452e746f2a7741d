//! Text of whole functions.

use super::literal;
use super::names::Names;
use super::stmt::Printer;
use crate::ir::{Block, DType, Name, Param, PrimFunc, Stmt};

/// Header comments, declarations of symbolic extents, and the function.
pub(super) fn text(f: &PrimFunc, names: Names) -> String {
    let mut p = Printer::new(f, names);
    header(&mut p, f);
    p.line(&format!("@T.prim_func({}s_tir=True)", if f.private { "private=True, " } else { "" }));
    let params = params(&mut p, f);
    p.line(&format!("def {}({}):", f.name, params.text));
    p.indented(|p| {
        for group in &params.extents {
            extents(p, f, group);
        }
        if !f.attrs.is_empty() {
            p.line(&format!("T.func_attr({})", literal::dict(&f.attrs)));
        }
        body(p, f);
    });
    p.out
}

/// The import comments and a `TypeVar` for each `int64` extent, in alphabetical order as TVM has it.
fn header(p: &mut Printer, f: &PrimFunc) {
    let mut wide: Vec<_> = f.extents.iter().filter(|e| e.dtype == DType::I64).map(|e| e.name.clone()).collect();
    wide.sort_by_key(|n| p.names.wanted(n));
    if !wide.is_empty() {
        p.line("# from typing import TypeVar");
    }
    p.line("# from tvm.script import tirx as T");
    p.line("# from tvm.tirx.layout import Axis");
    p.line("");
    for name in &wide {
        let text = p.names.declare(name);
        p.line(&format!("{text} = TypeVar(\"{text}\")"));
    }
}

struct Params {
    text: String,
    /// `int32` extents that come into being with a parameter, one group per parameter.
    extents: Vec<Vec<Name>>,
}

fn params(p: &mut Printer, f: &PrimFunc) -> Params {
    let mut out = Params { text: String::new(), extents: vec![] };
    let mut texts = vec![];
    for param in &f.params {
        match param {
            Param::Scalar { name, dtype } => {
                let name = p.names.declare(name);
                texts.push(format!("{name}: T.{dtype}"));
            }
            Param::Buffer(name) => {
                let new = p.declare_vars_of(name);
                let args = p.buffer_args(f.buffer(name), &new, true, true);
                out.extents.push(new.into_iter().filter(|v| f.extents.iter().any(|e| e.name == *v)).collect());
                let name = p.names.declare(name);
                texts.push(format!("{name}: T.Buffer({args})"));
            }
        }
    }
    out.text = texts.join(", ");
    out
}

/// `n = T.int32()` for extents that a parameter brought.
fn extents(p: &mut Printer, f: &PrimFunc, group: &[Name]) {
    if group.is_empty() {
        return;
    }
    let names: Vec<_> = group.iter().map(|n| p.names.get(n)).collect();
    let dtype = |n: &Name| f.extents.iter().find(|e| e.name == *n).map_or(DType::I32, |e| e.dtype);
    let values: Vec<_> = group.iter().map(|n| format!("T.{}()", dtype(n))).collect();
    p.line(&format!("{} = {}", names.join(", "), values.join(", ")));
}

/// The root block: its allocations and statements. TVM writes it as a comment, except where the
/// comment would be ambiguous because a single block without iterators follows.
fn body(p: &mut Printer, f: &PrimFunc) {
    match f.body.as_slice() {
        [Stmt::Block(b)] if f.allocs.is_empty() && b.iters.is_empty() && !is_opaque(b) => {
            p.line("with T.sblock(\"root\"):");
            p.indented(|p| {
                p.line("T.reads()");
                p.line("T.writes()");
                p.list(&f.body);
            });
        }
        [Stmt::Block(b)] if f.allocs.is_empty() && b.iters.is_empty() => p.list(&f.body),
        _ => {
            p.line("# with T.sblock(\"root\"):");
            p.allocs(&f.allocs);
            p.list(&f.body);
        }
    }
}

/// A block that declares no writes is itself the root block (`te.extern`).
fn is_opaque(b: &Block) -> bool {
    b.regions.as_ref().is_some_and(|r| r.writes.is_empty())
}

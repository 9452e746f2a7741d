//! Blocks.
//!
//! Stands in a circle with `stmt`: statements hold blocks, and blocks statements.

use super::ast::{Node, NodeKind, PyStmt, PyStmtKind};
use super::buffer::str_of;
use super::call::arity;
use super::error::{Problem, Span, problem};
use super::region::difference;
use super::scope::{Binding, Scope};
use super::stmt::{check_extent, filled, name_of};
use super::value::{Value, match_types};
use crate::ir::{Block, DType, Expr, IterKind, IterVar, Name, Region, Regions, Stmt};

/// A block under construction.
#[derive(Default)]
pub(super) struct BlockParts {
    pub iters: Vec<IterVar>,
    reads: Option<Vec<Region>>,
    writes: Option<Vec<Region>>,
    guard: Option<Expr>,
    attrs: Vec<(String, crate::ir::AttrValue)>,
    allocs: Vec<Name>,
    matches: Vec<(Name, Region)>,
    init: Vec<Stmt>,
}

impl BlockParts {
    /// True for calls that say something about the block around them.
    pub fn is_part(name: &str) -> bool {
        matches!(name, "reads" | "writes" | "where" | "sblock_attr" | "block_attr" | "func_attr")
            || name.starts_with("axis.")
    }

    /// The first thing said that has no place outside a block.
    pub fn misplaced(&self) -> Option<&'static str> {
        if !self.iters.is_empty() {
            return Some("T.axis");
        }
        if self.guard.is_some() {
            return Some("T.where");
        }
        if !self.attrs.is_empty() {
            return Some("T.sblock_attr");
        }
        if !self.matches.is_empty() {
            return Some("T.match_buffer of a region");
        }
        if self.init.is_empty() { None } else { Some("T.init()") }
    }

    /// The block.
    pub fn build(self, name: Name, body: Vec<Stmt>) -> Block {
        let regions = match (self.reads, self.writes) {
            (None, None) => None,
            (reads, writes) => Some(Regions { reads: reads.unwrap_or_default(), writes: writes.unwrap_or_default() }),
        };
        Block {
            name,
            iters: self.iters,
            regions,
            guard: self.guard,
            attrs: self.attrs,
            allocs: self.allocs,
            matches: self.matches,
            init: self.init,
            body,
        }
    }
}

impl Scope<'_> {
    pub(super) fn block(&mut self, label: &str, stmts: &[PyStmt], at: Span) -> Result<Stmt, Problem> {
        let name = self.fresh(label);
        self.push();
        let mut parts = BlockParts::default();
        let body = self.block_body(stmts, &mut parts);
        self.pop();
        let body = body?;
        let known = parts.iters.iter().filter_map(|it| it.extent.as_int()).filter(|v| *v > 0);
        if known.clone().try_fold(1i64, |n, v| n.checked_mul(v)).is_none() {
            return problem(at, "the number of iterations of this block overflows int64");
        }
        Ok(Stmt::Block(parts.build(name, filled(body))))
    }

    /// Takes what describes the block out of its statements and reads the rest.
    pub(super) fn block_body(&mut self, stmts: &[PyStmt], parts: &mut BlockParts) -> Result<Vec<Stmt>, Problem> {
        let mut out = vec![];
        for (k, s) in stmts.iter().enumerate() {
            if self.block_part(s, parts)? {
                continue;
            }
            // `T.attr` without `with` takes everything after it.
            if let PyStmtKind::Expr(n) = &s.kind
                && n.tir_call().is_some_and(|c| c.0 == "attr")
            {
                out.extend(self.list(&stmts[k..])?);
                return Ok(out);
            }
            out.extend(self.list(std::slice::from_ref(s))?);
        }
        Ok(out)
    }

    fn block_part(&mut self, s: &PyStmt, parts: &mut BlockParts) -> Result<bool, Problem> {
        match &s.kind {
            PyStmtKind::Expr(node) => match node.tir_call() {
                Some((name, args, _)) => self.block_call(&name, args, node.at, parts),
                None => Ok(false),
            },
            PyStmtKind::Assign { target, value } => match value.tir_call() {
                Some((name, args, keywords)) => self.block_assign(target, &name, args, keywords, value.at, parts),
                None => Ok(false),
            },
            PyStmtKind::With { item, body, .. } if item.tir_call().is_some_and(|c| c.0 == "init") => {
                if !parts.init.is_empty() {
                    return problem(item.at, "this block has T.init() already");
                }
                parts.init = self.body(body)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn block_call(&mut self, name: &str, args: &[Node], at: Span, parts: &mut BlockParts) -> Result<bool, Problem> {
        match name {
            "reads" => parts.reads = Some(self.regions(args)?),
            "writes" => parts.writes = Some(self.regions(args)?),
            "where" => {
                let [cond] = arity(args, name, at)?;
                let cond = self.condition(cond)?;
                parts.guard = Some(match parts.guard.take() {
                    Some(g) => Expr::binary(crate::ir::BinOp::And, g, cond),
                    None => cond,
                });
            }
            "sblock_attr" | "block_attr" => {
                let [dict] = arity(args, name, at)?;
                parts.attrs.extend(self.attr_dict(dict)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn block_assign(
        &mut self,
        target: &Node,
        name: &str,
        args: &[Node],
        keywords: &[(String, Node)],
        at: Span,
        parts: &mut BlockParts,
    ) -> Result<bool, Problem> {
        match name {
            "axis.remap" => self.remap(target, args, at, parts)?,
            "alloc_buffer" if !self.old => return Ok(false),
            "sblock_alloc_buffer" | "alloc_buffer" => {
                let user = name_of(target)?;
                let buffer = self.declare_buffer(&user, args, keywords, crate::ir::Scope::Global, at)?;
                self.bind(&user, Binding::Buffer(buffer.clone()));
                parts.allocs.push(buffer);
            }
            "match_buffer" => self.alias(target, args, keywords, at, parts)?,
            // What an attribute alone names (`layout_free_placeholders`), printed where it is met first. Nothing is
            // stored there: a name that is not bound is an error where elements are read.
            "Buffer" => {
                name_of(target)?;
            }
            _ => match name.strip_prefix("axis.").map(iter_kind) {
                Some(Some(kind)) => self.axis(target, kind, args, at, parts)?,
                Some(None) => {
                    let hint = crate::ir::nearest(name, ["axis.spatial", "axis.reduce", "axis.remap"]);
                    let hint = hint.map_or_else(String::new, |n| format!("; did you mean `T.{n}`?"));
                    return problem(at, format!("`T.{name}` is not a kind of block iterator{hint}"));
                }
                None => return Ok(false),
            },
        }
        Ok(true)
    }

    fn alias(
        &mut self,
        target: &Node,
        args: &[Node],
        keywords: &[(String, Node)],
        at: Span,
        parts: &mut BlockParts,
    ) -> Result<(), Problem> {
        let user = name_of(target)?;
        let Some((source, rest)) = args.split_first() else { return problem(at, "T.match_buffer needs a region") };
        let region = self.region(source)?;
        let buffer = self.declare_buffer(&user, rest, keywords, crate::ir::Scope::Global, at)?;
        self.bind(&user, Binding::Buffer(buffer.clone()));
        parts.matches.push((buffer, region));
        Ok(())
    }

    /// `v = T.axis.spatial(n, i)`, with `(first, end)` for a domain that does not start at 0.
    fn axis(
        &mut self,
        target: &Node,
        kind: IterKind,
        args: &[Node],
        at: Span,
        parts: &mut BlockParts,
    ) -> Result<(), Problem> {
        let user = name_of(target)?;
        let [domain, binding] = arity(args, "axis", at)?;
        let (min, extent) = match &domain.kind {
            NodeKind::Tuple(ends) | NodeKind::List(ends) => {
                let [start, stop] = ends.as_slice() else { return problem(domain.at, "a domain is (first, end)") };
                let (start, stop) = (self.value(start)?, self.value(stop)?);
                let (start, stop) = match_types(start, stop, domain.at)?;
                (start.clone(), difference(&stop, &start))
            }
            _ => {
                let extent = self.index(domain)?;
                (Expr::int(0, extent.dtype()), extent)
            }
        };
        check_extent(&extent, domain.at)?;
        let dtype = extent.dtype();
        let binding = match self.value(binding)? {
            Value::Float(_) => return problem(binding.at, "a binding is an integer"),
            Value::Int(v) => Value::Int(v).to(dtype, binding.at)?,
            Value::Expr(e) => e,
        };
        if !binding.dtype().is_int() {
            return problem(args[1].at, format!("a binding is an integer, not {}", binding.dtype()));
        }
        let dtype = if dtype == DType::I64 || binding.dtype() == DType::I64 { DType::I64 } else { DType::I32 };
        let var = self.bind_var(&user, dtype);
        parts.iters.push(IterVar { var, dtype, min, extent, kind, binding });
        Ok(())
    }

    /// `vi, vk = T.axis.remap("SR", [i, k])`: each iterator is a loop, with the loop's domain.
    fn remap(&mut self, target: &Node, args: &[Node], at: Span, parts: &mut BlockParts) -> Result<(), Problem> {
        let [kinds, loops] = arity(args, "axis.remap", at)?;
        let kinds: Vec<char> = str_of(kinds, "the kinds of T.axis.remap")?.chars().collect();
        let NodeKind::List(loops) = &loops.kind else { return problem(loops.at, "a list of loops was expected") };
        let targets = match &target.kind {
            NodeKind::Tuple(items) | NodeKind::List(items) => items.iter().collect(),
            _ => vec![target],
        };
        if kinds.len() != loops.len() || targets.len() != loops.len() {
            let message = format!(
                "T.axis.remap has {} names, {} kinds and {} loops; the numbers must agree",
                targets.len(),
                kinds.len(),
                loops.len()
            );
            return problem(at, message);
        }
        for ((target, kind), l) in targets.into_iter().zip(kinds).zip(loops) {
            let kind = match kind {
                'S' => IterKind::Spatial,
                'R' => IterKind::Reduce,
                'O' => IterKind::Opaque,
                other => return problem(args[0].at, format!("`{other}` is not a kind of iterator; S and R are")),
            };
            let binding = self.expr(l)?;
            let domain = binding.as_var().and_then(|v| self.loops.get(v));
            let Some((min, extent)) = domain.cloned() else {
                return problem(l.at, "T.axis.remap takes the variables of loops around the block");
            };
            let dtype = extent.dtype();
            let var = self.bind_var(&name_of(target)?, dtype);
            parts.iters.push(IterVar { var, dtype, min, extent, kind, binding });
        }
        Ok(())
    }
}

fn iter_kind(name: &str) -> Option<IterKind> {
    match name {
        "spatial" | "S" => Some(IterKind::Spatial),
        "reduce" | "R" => Some(IterKind::Reduce),
        "opaque" | "scan" | "O" => Some(IterKind::Opaque),
        _ => None,
    }
}

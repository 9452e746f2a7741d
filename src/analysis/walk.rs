//! Walks over functions that several analyses share.

use crate::ir::{Block, Expr, For, Name, PrimFunc, Stmt};
use std::collections::BTreeSet;

/// A block without blocks in it, with the loops between it and the block (or root) around it.
pub(super) struct Leaf<'a> {
    pub block: &'a Block,
    /// Outer to inner.
    pub loops: Vec<&'a For>,
    /// Every loop holds nothing but the next one, the last nothing but the block.
    pub chain: bool,
    /// Inside another block than the root.
    pub nested: bool,
}

/// The leaf blocks in program order.
pub(super) fn leaves(f: &PrimFunc) -> Vec<Leaf<'_>> {
    let mut found = vec![];
    let at = Place { loops: vec![], chain: true, nested: false };
    f.body.iter().for_each(|s| at.collect(s, true, &mut found));
    found
}

/// The leaf at the end of a chain of loops that holds nothing else.
pub(super) fn chain_end(s: &Stmt) -> Option<&Block> {
    match s {
        Stmt::For(l) if l.body.len() == 1 => chain_end(&l.body[0]),
        Stmt::Block(b) => Some(b),
        _ => None,
    }
}

#[derive(Clone)]
struct Place<'a> {
    loops: Vec<&'a For>,
    chain: bool,
    nested: bool,
}

impl<'a> Place<'a> {
    fn collect(&self, s: &'a Stmt, alone: bool, found: &mut Vec<Leaf<'a>>) {
        match s {
            Stmt::For(l) => {
                // At the top of a scope a loop may have neighbours.
                let chain = self.chain && (alone || self.loops.is_empty());
                let inner = Place { loops: [&self.loops[..], &[l]].concat(), chain, nested: self.nested };
                l.body.iter().for_each(|s| inner.collect(s, l.body.len() == 1, found));
            }
            Stmt::Block(b) if has_block(&b.body) || has_block(&b.init) => {
                let inner = Place { loops: vec![], chain: true, nested: true };
                b.init.iter().chain(&b.body).for_each(|s| inner.collect(s, true, found));
            }
            Stmt::Block(block) => {
                let chain = self.chain && (alone || self.loops.is_empty());
                found.push(Leaf { block, loops: self.loops.clone(), chain, nested: self.nested });
            }
            Stmt::If { then, otherwise, .. } => {
                let inner = Place { chain: false, ..self.clone() };
                then.iter().chain(otherwise).for_each(|s| inner.collect(s, false, found));
            }
            Stmt::While { body, .. } | Stmt::Attr { body, .. } => {
                let inner = Place { chain: false, ..self.clone() };
                body.iter().for_each(|s| inner.collect(s, false, found));
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Evaluate(_) | Stmt::Alloc { .. } => {}
        }
    }
}

pub(super) fn has_block(list: &[Stmt]) -> bool {
    let mut found = false;
    list.iter().for_each(|s| s.visit(&mut |s| found |= matches!(s, Stmt::Block(_))));
    found
}

/// Calls `f` on every expression of the statements, parents before operands.
pub(super) fn visit_exprs(list: &[Stmt], f: &mut impl FnMut(&Expr)) {
    list.iter().for_each(|s| s.visit(&mut |s| s.for_each_expr(|e| e.visit(f))));
}

/// Every name that occurs in a function.
pub(super) fn names(f: &PrimFunc) -> BTreeSet<Name> {
    let mut used: BTreeSet<Name> = f.buffers.iter().map(|b| b.name.clone()).collect();
    used.extend(f.extents.iter().map(|e| e.name.clone()));
    visit_exprs(&f.body, &mut |e| used.extend(e.as_var().cloned()));
    used.extend(f.body.iter().flat_map(Stmt::declared));
    used
}

/// A name that is not used yet: `base` with the lowest number that is free. It counts as used
/// afterwards.
pub(super) fn fresh(used: &mut BTreeSet<Name>, base: &str) -> Name {
    let mut number = 0;
    loop {
        let name = Name::new(format!("{base}{number}"));
        if used.insert(name.clone()) {
            return name;
        }
        number += 1;
    }
}

/// The statements with the blocks for which `f` has something else replaced; what is inside those is left alone.
pub(super) fn map_blocks(body: &[Stmt], f: &dyn Fn(&Block) -> Option<Stmt>) -> Vec<Stmt> {
    body.iter().map(|s| map_blocks_of(s, f)).collect()
}

fn map_blocks_of(s: &Stmt, f: &dyn Fn(&Block) -> Option<Stmt>) -> Stmt {
    match s {
        Stmt::Block(b) => f(b),
        _ => None,
    }
    .unwrap_or_else(|| s.map_body(|s| map_blocks_of(s, f)))
}

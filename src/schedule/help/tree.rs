//! Finding and replacing statements of a function by name. Loops are named by their variable,
//! blocks by their name; both are unique, so no paths or cursors are kept.

use crate::ir::{Block, Expr, ExprKind, For, Name, PrimFunc, Stmt};
use std::collections::BTreeSet;

/// The name that identifies a loop or a block; other statements have none.
pub fn name_of(stmt: &Stmt) -> Option<&Name> {
    match stmt {
        Stmt::For(l) => Some(&l.var),
        Stmt::Block(b) => Some(&b.name),
        Stmt::If { .. }
        | Stmt::While { .. }
        | Stmt::Store { .. }
        | Stmt::Let { .. }
        | Stmt::Evaluate(_)
        | Stmt::Attr { .. }
        | Stmt::Alloc { .. } => None,
    }
}

/// The statements from the root down to the loop or block `name`, which comes last; `None` where
/// there is none of that name.
pub fn path<'a>(func: &'a PrimFunc, name: &Name) -> Option<Vec<&'a Stmt>> {
    let mut found = vec![];
    path_in(&func.body, name, &mut found).then_some(found)
}

fn path_in<'a>(list: &'a [Stmt], name: &Name, found: &mut Vec<&'a Stmt>) -> bool {
    for stmt in list {
        found.push(stmt);
        if name_of(stmt) == Some(name) || child_lists(stmt).into_iter().any(|l| path_in(l, name, found)) {
            return true;
        }
        found.pop();
    }
    false
}

/// The loop of that variable.
pub fn find_loop<'a>(func: &'a PrimFunc, name: &Name) -> Option<&'a For> {
    match path(func, name)?.pop()? {
        Stmt::For(l) => Some(l),
        _ => None,
    }
}

/// The block of that name.
pub fn find_block<'a>(func: &'a PrimFunc, name: &Name) -> Option<&'a Block> {
    match path(func, name)?.pop()? {
        Stmt::Block(b) => Some(b),
        _ => None,
    }
}

/// The loops around `name`, outermost first, up to the block that holds it (or the root). The
/// statement itself is not among them.
pub fn loops_around<'a>(func: &'a PrimFunc, name: &Name) -> Vec<&'a For> {
    let mut loops = vec![];
    let path = path(func, name).unwrap_or_default();
    for stmt in path.iter().rev().skip(1) {
        match stmt {
            Stmt::For(l) => loops.insert(0, l),
            Stmt::Block(_) => break,
            _ => {}
        }
    }
    loops
}

/// The blocks in or under `stmt`, in program order.
pub fn blocks_in(stmt: &Stmt) -> Vec<&Block> {
    let mut found = vec![];
    collect_blocks(stmt, &mut found);
    found
}

fn collect_blocks<'a>(stmt: &'a Stmt, found: &mut Vec<&'a Block>) {
    if let Stmt::Block(b) = stmt {
        found.push(b);
    }
    child_lists(stmt).into_iter().flatten().for_each(|s| collect_blocks(s, found));
}

/// The blocks of a list that are in no other block of it, in program order.
pub fn outermost(list: &[Stmt]) -> Vec<&Block> {
    fn collect<'a>(s: &'a Stmt, found: &mut Vec<&'a Block>) {
        match s {
            Stmt::Block(b) => found.push(b),
            other => child_lists(other).into_iter().flatten().for_each(|s| collect(s, found)),
        }
    }
    let mut found = vec![];
    list.iter().for_each(|s| collect(s, &mut found));
    found
}

/// The statement lists directly inside `stmt`.
pub fn child_lists(stmt: &Stmt) -> Vec<&Vec<Stmt>> {
    match stmt {
        Stmt::For(l) => vec![&l.body],
        Stmt::Block(b) => vec![&b.init, &b.body],
        Stmt::If { then, otherwise, .. } => vec![then, otherwise],
        Stmt::While { body, .. } | Stmt::Attr { body, .. } => vec![body],
        Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Evaluate(_) | Stmt::Alloc { .. } => vec![],
    }
}

/// The statement lists directly inside `stmt`, to be changed.
pub fn child_lists_mut(stmt: &mut Stmt) -> Vec<&mut Vec<Stmt>> {
    match stmt {
        Stmt::For(l) => vec![&mut l.body],
        Stmt::Block(b) => vec![&mut b.init, &mut b.body],
        Stmt::If { then, otherwise, .. } => vec![then, otherwise],
        Stmt::While { body, .. } | Stmt::Attr { body, .. } => vec![body],
        Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Evaluate(_) | Stmt::Alloc { .. } => vec![],
    }
}

/// Replaces the loop or block `name` by the statements `f` makes of it. False where there is none.
pub fn replace(func: &mut PrimFunc, name: &Name, f: impl FnOnce(Stmt) -> Vec<Stmt>) -> bool {
    fn within<F: FnOnce(Stmt) -> Vec<Stmt>>(list: &mut Vec<Stmt>, name: &Name, f: &mut Option<F>) -> bool {
        if let Some(i) = list.iter().position(|s| name_of(s) == Some(name)) {
            if let Some(f) = f.take() {
                let new = f(list.remove(i));
                list.splice(i..i, new);
            }
            return true;
        }
        list.iter_mut().any(|s| child_lists_mut(s).into_iter().any(|l| within(l, name, f)))
    }
    within(&mut func.body, name, &mut Some(f))
}

/// Changes the loop of that variable in place.
pub fn edit_loop(func: &mut PrimFunc, name: &Name, f: impl FnOnce(&mut For)) {
    replace(func, name, |stmt| match stmt {
        Stmt::For(mut l) => {
            f(&mut l);
            vec![Stmt::For(l)]
        }
        other => vec![other],
    });
}

/// Changes the block of that name in place.
pub fn edit_block(func: &mut PrimFunc, name: &Name, f: impl FnOnce(&mut Block)) {
    replace(func, name, |stmt| match stmt {
        Stmt::Block(mut b) => {
            f(&mut b);
            vec![Stmt::Block(b)]
        }
        other => vec![other],
    });
}

/// Makes new expressions of those in the body of a block.
pub fn edit_values(func: &mut PrimFunc, block: &Name, f: impl Fn(&Expr) -> Expr) {
    edit_block(func, block, |b| {
        b.body = b.body.iter().map(|s| s.map_exprs(&mut |e| f(e))).collect();
        b.regions = None;
    });
}

/// Calls `f` on every block in or under `stmt`, inner blocks first.
pub fn edit_blocks_in(stmt: &mut Stmt, f: &mut impl FnMut(&mut Block)) {
    child_lists_mut(stmt).into_iter().flatten().for_each(|s| edit_blocks_in(s, f));
    if let Stmt::Block(b) = stmt {
        f(b);
    }
}

/// Takes the loop or block `name` out, with the loops, conditionals and blocks that become empty.
/// False where there is none of that name.
pub fn remove(func: &mut PrimFunc, name: &Name) -> bool {
    fn within(list: &mut Vec<Stmt>, name: &Name) -> bool {
        for i in 0..list.len() {
            let here = name_of(&list[i]) == Some(name);
            let below = !here && child_lists_mut(&mut list[i]).into_iter().any(|l| within(l, name));
            if here || (below && child_lists(&list[i]).iter().all(|l| l.is_empty())) {
                list.remove(i);
            }
            if here || below {
                return true;
            }
        }
        false
    }
    within(&mut func.body, name)
}

/// The blocks inside a block, its init included, in program order.
pub fn inner_blocks(block: &Block) -> Vec<&Block> {
    block.init.iter().chain(&block.body).flat_map(blocks_in).collect()
}

/// True where the block `inner` lies in `block`.
pub fn holds(block: &Block, inner: &Name) -> bool {
    inner_blocks(block).iter().any(|b| b.name == *inner)
}

/// Buffers that the block loads from, init and inner blocks included, aliases resolved.
pub fn reads(block: &Block) -> BTreeSet<Name> {
    let mut found = BTreeSet::new();
    visit_block(block, &mut |stmt| stmt.for_each_expr(|e| found.extend(loaded(e))));
    found.extend(block.guard.iter().flat_map(loaded));
    found.into_iter().map(|b| source(block, b)).collect()
}

/// Buffers that the block stores to, init and inner blocks included, aliases resolved.
pub fn writes(block: &Block) -> BTreeSet<Name> {
    let mut found = BTreeSet::new();
    visit_block(block, &mut |stmt| {
        if let Stmt::Store { buffer, .. } = stmt {
            found.insert(buffer.clone());
        }
    });
    found.into_iter().map(|b| source(block, b)).collect()
}

fn visit_block(block: &Block, f: &mut impl FnMut(&Stmt)) {
    block.init.iter().chain(&block.body).for_each(|s| s.visit(f));
}

/// Buffers that an expression loads from.
pub fn loaded(expr: &Expr) -> BTreeSet<Name> {
    let mut found = BTreeSet::new();
    expr.visit(&mut |e| {
        if let ExprKind::Load { buffer, .. } = e.kind() {
            found.insert(buffer.clone());
        }
    });
    found
}

/// The buffer behind an alias made by `match_buffer` in the block or inside it.
fn source(block: &Block, buffer: Name) -> Name {
    let mut aliases = block.matches.clone();
    visit_block(block, &mut |s| {
        if let Stmt::Block(b) = s {
            aliases.extend(b.matches.iter().cloned());
        }
    });
    aliases.iter().find(|(alias, _)| *alias == buffer).map_or(buffer, |(_, region)| region.buffer.clone())
}

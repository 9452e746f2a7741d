//! Functions that can't be scheduled, each with the named reason.

use super::Decline;
use super::access::{Access, reads, writes};
use super::sound;
use super::walk::{Leaf, leaves, visit_exprs};
use crate::ir::{AttrValue, Block, Buffer, Expr, ExprKind, ForKind, IterKind, Name, PrimFunc, Reason, Scope, Stmt};

type Check = fn(&PrimFunc) -> Option<String>;

/// The predicates in the order they are asked. The first that holds names the refusal.
const PREDICATES: [(&str, Check); 19] = [
    ("already_scheduled", already_scheduled),
    ("extern_call", extern_call),
    ("while_loop", while_loop),
    ("data_dependent_extent", data_dependent_extent),
    ("nested_block", nested_block),
    ("statement_outside_block", statement_outside_block),
    ("opaque_block", opaque_block),
    ("no_store", no_store),
    ("zero_extent", zero_extent),
    ("huge_extent", huge_extent),
    ("match_buffer", match_buffer),
    ("strided_buffer", strided_buffer),
    ("overlapping_writes", sound::overlapping_writes),
    ("loop_carried_dependence", loop_carried_dependence),
    ("already_scheduled", chosen_loop_kind),
    ("already_scheduled", placed_buffer),
    ("loop_outside_domain", sound::loop_outside_domain),
    ("out_of_bounds", sound::out_of_bounds),
    ("read_before_write", sound::read_before_write),
];

/// Refuses a function that no rule may touch.
///
/// # Errors
/// The first predicate of [`refusals`] that holds, with a sentence that says where.
pub fn refuse(f: &PrimFunc) -> Result<(), Decline> {
    for (predicate, check) in PREDICATES {
        if let Some(text) = check(f) {
            return Err(Decline { by: "refuse", reason: Reason::new(predicate, text) });
        }
    }
    Ok(())
}

/// The names of all predicates of [`refuse`], each once, in the order they are asked.
pub fn refusals() -> Vec<&'static str> {
    let mut names: Vec<&str> = vec![];
    for (name, _) in PREDICATES {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The first statement for which `f` has something to say.
fn find(f: &PrimFunc, mut say: impl FnMut(&Stmt) -> Option<String>) -> Option<String> {
    let mut found = None;
    f.visit(&mut |s| {
        if found.is_none() {
            found = say(s);
        }
    });
    found
}

fn find_leaf(f: &PrimFunc, say: impl Fn(&Leaf) -> Option<String>) -> Option<String> {
    leaves(f).iter().find_map(say)
}

fn already_scheduled(f: &PrimFunc) -> Option<String> {
    let marks = ["tirx.is_scheduled", "tir.is_scheduled"];
    let set = |v: &AttrValue| !matches!(v, AttrValue::Bool(false) | AttrValue::Int(0) | AttrValue::Typed(0, _));
    if let Some((key, _)) = f.attrs.iter().find(|(k, v)| marks.contains(&k.as_str()) && set(v)) {
        return Some(format!("the function carries the attribute `{key}`; give it as it was before it was scheduled"));
    }
    find(f, |s| match s {
        Stmt::For(l) => match l.kind {
            ForKind::Thread(tag) => {
                let (var, tag) = (f.display_name(&l.var), tag.name());
                Some(format!("loop `{var}` is bound to `{tag}`; give the function as it was before it was scheduled"))
            }
            ForKind::Serial | ForKind::Parallel | ForKind::Vectorized | ForKind::Unrolled => None,
        },
        Stmt::Attr { key, .. } => Some(format!("a statement carries the attribute `{key}`")),
        // What a split that does not divide leaves behind; a function says so by T.if_then_else.
        Stmt::Block(b) if b.guard.is_some() => {
            Some(format!("block `{}` runs only where T.where says", f.display_name(&b.name)))
        }
        _ => None,
    })
}

fn placed_buffer(f: &PrimFunc) -> Option<String> {
    // What a block with loops inside keeps for itself is placed by what it is.
    let own: Vec<Name> =
        leaves(f).iter().filter(|l| l.block.is_serial()).flat_map(|l| l.block.allocs.clone()).collect();
    let is_placed = |b: &&Buffer| b.scope != Scope::Global && !(b.scope == Scope::Local && own.contains(&b.name));
    let b = f.buffers.iter().find(is_placed)?;
    Some(format!("buffer `{}` has been placed in `{}` memory", f.display_name(&b.name), b.scope.name()))
}

fn chosen_loop_kind(f: &PrimFunc) -> Option<String> {
    find(f, |s| {
        let Stmt::For(l) = s else { return None };
        let kind = match l.kind {
            ForKind::Serial | ForKind::Thread(_) => return None,
            ForKind::Parallel => "parallel",
            ForKind::Vectorized => "vectorized",
            ForKind::Unrolled => "unrolled",
        };
        Some(format!("loop `{}` is {kind}", f.display_name(&l.var)))
    })
}

fn extern_call(f: &PrimFunc) -> Option<String> {
    let mut found = None;
    visit_exprs(&f.body, &mut |e| {
        if let ExprKind::Extern { callee, args, .. } = e.kind()
            && found.is_none()
        {
            let target = args.iter().find_map(|a| match a.kind() {
                ExprKind::Str(s) => Some(format!(" of `{s}`")),
                _ => None,
            });
            let write = "write out what it computes, or leave it to who calls it";
            found = Some(format!("it calls `{callee}`{}, which only TVM can; {write}", target.unwrap_or_default()));
        }
    });
    found
}

fn while_loop(f: &PrimFunc) -> Option<String> {
    find(f, |s| {
        matches!(s, Stmt::While { .. }).then(|| {
            "it has a loop without a trip count; write `for` over a range with T.if_then_else for what is left out"
                .to_string()
        })
    })
}

fn data_dependent_extent(f: &PrimFunc) -> Option<String> {
    let depends = |name: &Name| {
        let name = f.display_name(name);
        Some(format!(
            "the bounds of loop `{name}` are read from a tensor; loop to the largest and guard with T.if_then_else"
        ))
    };
    find(f, |s| match s {
        Stmt::For(l) if l.min.has_load() || l.extent.has_load() => depends(&l.var),
        Stmt::Block(b) => {
            let it = b.iters.iter().find(|it| [&it.min, &it.extent, &it.binding].iter().any(|e| e.has_load()))?;
            depends(&it.var)
        }
        _ => None,
    })
}

fn no_store(f: &PrimFunc) -> Option<String> {
    // What T.init() stores alone is no result.
    let empty = |leaf: &Leaf| writes(&Block { init: vec![], ..leaf.block.clone() }).is_empty();
    find_leaf(f, |leaf| {
        let name = f.display_name(&leaf.block.name);
        empty(leaf).then(|| format!("block `{name}` stores nothing; store its result, or leave it out"))
    })
}

fn zero_extent(f: &PrimFunc) -> Option<String> {
    let looped = find(f, |s| match s {
        Stmt::For(l) if l.extent.is_int(0) => Some(format!("loop `{}` runs no step", f.display_name(&l.var))),
        _ => None,
    });
    // A parameter without elements is no reason where there is another result to compute.
    let written: Vec<Name> = leaves(f).iter().flat_map(|leaf| writes(leaf.block)).map(|w| w.buffer).collect();
    let no_result = !written.iter().any(|name| f.is_param(name));
    let empty = || f.buffers.iter().find(|b| b.is_empty() && (no_result || written.contains(&b.name)));
    let nothing = |b: &Buffer| format!("buffer `{}` has no element; leave out the call", f.display_name(&b.name));
    looped.or_else(|| empty().map(nothing))
}

/// Elements of a buffer, and iterations of a block, at most: rules multiply them with numbers of threads and bytes.
const MOST_ELEMENTS: i64 = 1 << 48;
const MOST_STEPS: i64 = 1 << 56;

fn huge_extent(f: &PrimFunc) -> Option<String> {
    let beyond = |extents: &mut dyn Iterator<Item = &Expr>, most: i64| {
        let known = extents.filter_map(Expr::as_int);
        known.map(|n| n.max(1)).try_fold(1i64, |all, n| all.checked_mul(n)).is_none_or(|all| all > most)
    };
    let buffer = f.buffers.iter().find(|b| beyond(&mut b.shape.iter(), MOST_ELEMENTS));
    let looped = || {
        find_leaf(f, |leaf| {
            let name = f.display_name(&leaf.block.name);
            let huge = beyond(&mut leaf.block.iters.iter().map(|it| &it.extent), MOST_STEPS);
            huge.then(|| format!("block `{name}` has more than {MOST_STEPS} iterations"))
        })
    };
    buffer
        .map(|b| format!("buffer `{}` has more than {MOST_ELEMENTS} elements", f.display_name(&b.name)))
        .or_else(looped)
}

fn match_buffer(f: &PrimFunc) -> Option<String> {
    find(f, |s| match s {
        Stmt::Block(b) if !b.matches.is_empty() => {
            let name = f.display_name(&b.name);
            Some(format!("block `{name}` gives a part of a buffer another name"))
        }
        _ => None,
    })
}

fn strided_buffer(f: &PrimFunc) -> Option<String> {
    let odd = |e: &Option<Expr>| e.as_ref().is_some_and(|e| !e.is_int(0));
    let b = f.buffers.iter().find(|b| !b.strides.is_empty() || odd(&b.elem_offset))?;
    Some(format!("buffer `{}` has strides or an offset", f.display_name(&b.name)))
}

fn nested_block(f: &PrimFunc) -> Option<String> {
    find_leaf(f, |leaf| {
        let name = f.display_name(&leaf.block.name);
        leaf.nested.then(|| format!("block `{name}` lies inside another block; give each block loops of its own"))
    })
}

fn statement_outside_block(f: &PrimFunc) -> Option<String> {
    fn loose(s: &Stmt) -> Option<&Stmt> {
        match s {
            Stmt::For(l) => l.body.iter().find_map(loose),
            Stmt::Block(_) => None,
            Stmt::If { .. }
            | Stmt::While { .. }
            | Stmt::Attr { .. }
            | Stmt::Store { .. }
            | Stmt::Let { .. }
            | Stmt::Evaluate(_)
            | Stmt::Alloc { .. } => Some(s),
        }
    }
    let what = match f.body.iter().find_map(loose)? {
        Stmt::Store { buffer, .. } => format!("the store to `{}`", f.display_name(buffer)),
        Stmt::If { .. } => "an `if` that is not around one block of its own iterators".to_string(),
        _ => "a statement that is no loop".to_string(),
    };
    let write = "put it under `with T.sblock(\"name\"):` and bind its iterators with T.axis.spatial and T.axis.reduce";
    Some(format!("{what} stands outside of every block; {write}"))
}

fn opaque_block(f: &PrimFunc) -> Option<String> {
    find_leaf(f, |leaf| {
        let name = f.display_name(&leaf.block.name);
        if let Some(it) = leaf.block.iters.iter().find(|it| it.kind == IterKind::Opaque) {
            let iter = f.display_name(&it.var);
            return Some(format!("iterator `{iter}` of block `{name}` is neither spatial nor a reduction"));
        }
        // A reduction has no order; a loop inside it has one.
        let reduces = leaf.block.iters.iter().any(|it| it.kind == IterKind::Reduce) || !leaf.block.init.is_empty();
        (reduces && leaf.block.is_serial()).then(|| {
            format!("block `{name}` reduces and has a loop inside; make the loop's variable an iterator of the block")
        })
    })
}

fn leaf_writes(f: &PrimFunc, say: impl Fn(&Leaf, &Access, &str) -> Option<String>) -> Option<String> {
    find_leaf(f, |leaf| {
        let name = f.display_name(&leaf.block.name);
        writes(leaf.block).iter().find_map(|w| say(leaf, w, name))
    })
}

fn loop_carried_dependence(f: &PrimFunc) -> Option<String> {
    let carried = || sound::carried(f);
    leaf_writes(f, |leaf, w, name| {
        if leaf.block.is_serial() {
            return None;
        }
        let other = reads(leaf.block).into_iter().find(|r| r.buffer == w.buffer)?;
        let buffer = f.display_name(&other.buffer);
        Some(format!("block `{name}` reads elements of `{buffer}` that other iterations of it store"))
    })
    .or_else(carried)
}

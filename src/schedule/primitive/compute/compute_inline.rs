//! `compute_inline`: an element-wise block is computed where its result is read.
//!
//! ```text
//! for i: block p(v = i): t[v] = f(v)
//! for j: block c(w = j): o[w] = g(t[w // 2])     ->    for j: block c(w = j): o[w] = g(f(w // 2))
//! ```
//!
//! Preconditions: `spatial`, `one_store`, `no_guard`, `iterators_only`; `distinct_iterators`: the
//! store's indices are the iterators, each once; `not_output`; `sole_writer`; `has_consumer`;
//! `consumers_follow`: it is read only by blocks that come later, not through an alias;
//! `inputs_unchanged`: no later block writes what the block reads; `small_enough`: what the consumers grow to
//! is bounded, since each of a chain of blocks that reads the one before twice doubles it.
//!
//! Effect: every load is replaced by the value; a value needed several times in one expression is
//! bound with a let. The block, its loops and the buffer go.

use crate::analysis::simplify;
use crate::ir::{Block, Expr, ExprKind, Name, PrimFunc, Stmt};
use crate::schedule::help::inline::{Point, iterator_indices, paste, point, values_at};
use crate::schedule::help::{checks, query, scope, tree};
use crate::schedule::{Draft, Failure};

/// Inlines `block` into its consumers.
pub fn apply(d: &mut Draft, block: &Name) -> Result<(), Failure> {
    let b = d.find_block(block)?.clone();
    let point = point(&b)?;
    checks::no_guard(&b)?;
    checks::iterators_only(&d.func, &b)?;
    let iterators = iterator_indices(&b, &point.indices)?;
    checks::not_output(&d.func, &b, &point.buffer)?;
    sole_writer(&d.func, &b, &point.buffer)?;
    consumers_follow(&d.func, &b, &point.buffer)?;
    inputs_unchanged(&d.func, &b)?;
    small_enough(&d.func, &b, &point)?;
    tree::remove(&mut d.func, block);
    substitute(d, &b, &point, &iterators);
    d.drop_buffer(&point.buffer);
    Ok(())
}

fn substitute(d: &mut Draft, b: &Block, point: &Point, iterators: &[Option<Name>]) {
    let ranges = scope::everywhere(&d.func);
    let value = |indices: &[Expr]| {
        let map = values_at(b, iterators, indices);
        simplify(&point.value.subst(&|n| map.get(n).cloned()), &ranges)
    };
    let mut body = std::mem::take(&mut d.func.body);
    let mut forget = |r: &mut Block| {
        if tree::reads(r).contains(&point.buffer) {
            r.regions = None;
        }
    };
    body.iter_mut().for_each(|s| tree::edit_blocks_in(s, &mut forget));
    d.func.body = body.iter().map(|s| s.map_exprs(&mut |e| paste(d, e, &point.buffer, &value))).collect();
}

/// Nodes that the expressions of a function may have after a block is inlined.
const MOST_NODES: usize = 1 << 15;

fn small_enough(func: &PrimFunc, b: &Block, point: &Point) -> Result<(), Failure> {
    let (mut nodes, mut loads) = (0usize, 0usize);
    func.visit(&mut |s| {
        s.for_each_expr(|e| {
            e.visit(&mut |e| {
                nodes += 1;
                loads += usize::from(matches!(e.kind(), ExprKind::Load { buffer, .. } if *buffer == point.buffer));
            });
        });
    });
    let mut value = 0usize;
    point.value.visit(&mut |_| value += 1);
    let after = nodes.saturating_add(value.saturating_mul(loads));
    Failure::unless(loads < 2 || after <= MOST_NODES, "small_enough", &b.name, || {
        format!(
            "inlining block `{}` in {loads} places makes expressions of {after} nodes; {MOST_NODES} are the most",
            b.name
        )
    })
}

fn sole_writer(func: &PrimFunc, b: &Block, buffer: &Name) -> Result<(), Failure> {
    let others = query::blocks(func).into_iter().filter(|w| w.name != b.name && !tree::holds(w, &b.name));
    others.into_iter().find(|w| tree::writes(w).contains(buffer)).map_or(Ok(()), |other| {
        let why = format!("block `{}` writes buffer `{buffer}` too", other.name);
        Err(Failure::new("sole_writer", &b.name, why))
    })
}

fn consumers_follow(func: &PrimFunc, b: &Block, buffer: &Name) -> Result<(), Failure> {
    outside_blocks(func, b, buffer)?;
    let blocks = query::blocks(func);
    let place = |name: &Name| blocks.iter().position(|b| b.name == *name);
    let reads = |r: &&&Block| tree::reads(r).contains(buffer) && !tree::holds(r, &b.name);
    let readers: Vec<&Block> = blocks.iter().filter(reads).copied().collect();
    Failure::unless(!readers.is_empty(), "has_consumer", &b.name, || {
        format!("no block reads buffer `{buffer}`, which block `{}` writes", b.name)
    })?;
    let aliased = blocks.iter().find(|r| r.matches.iter().any(|(_, region)| region.buffer == *buffer));
    if let Some(r) = aliased.or(readers.iter().find(|r| place(&r.name) < place(&b.name))) {
        let why = format!("block `{}` reads buffer `{buffer}` through an alias or before it is written", r.name);
        return Err(Failure::new("consumers_follow", &r.name, why));
    }
    Ok(())
}

/// Loads in loop bounds and conditions would escape the search for readers.
fn outside_blocks(func: &PrimFunc, b: &Block, buffer: &Name) -> Result<(), Failure> {
    let mut found = false;
    func.visit(&mut |s| {
        if !matches!(s, Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Evaluate(_)) {
            s.for_each_expr(|e| found |= e.loads(buffer));
        }
    });
    Failure::unless(!found, "consumers_follow", &b.name, || {
        format!("buffer `{buffer}` is read in a loop bound, a condition or a binding")
    })
}

fn inputs_unchanged(func: &PrimFunc, b: &Block) -> Result<(), Failure> {
    let read = tree::reads(b);
    let blocks = query::blocks(func);
    let later = blocks.iter().skip_while(|o| o.name != b.name).skip(1);
    for o in later {
        if let Some(buffer) = tree::writes(o).intersection(&read).next() {
            let why = format!("block `{}` writes buffer `{buffer}` after block `{}` read it", o.name, b.name);
            return Err(Failure::new("inputs_unchanged", &b.name, why));
        }
    }
    Ok(())
}

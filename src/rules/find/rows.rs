//! Functions that work row by row: several reductions over the same trailing axes, with injective
//! blocks before, between and after them, each reading what the others made of its own row.
//!
//! Such a function is brought into one form: every block has an iterator over rows and, where it runs
//! over their elements, one over columns; results of reductions are vectors with one element per row.
//!
//! Declines: `Rows::of`: `reductions`, `several_blocks`, `known_reducer`, `reduction_axis`, `row_wise`, `same_axes`,
//! `contiguous_reduction`.

use super::shape::find_block;
use crate::analysis::{Access, BlockFacts, Combiner, Decline, Facts, gcd, linear, multiple_of, simplify};
use crate::ir::{Buffer, DType, Expr, IterKind, IterVar, Name, PrimFunc, Scope};
use crate::rules::Ask;
use crate::rules::parts::output;
use crate::schedule::{Schedule, ScheduleError};

/// What a block does for its row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Reduces the row to one value.
    Reduce(Combiner),
    /// Computes an element from each element.
    Full,
    /// Computes one value from values of the row.
    Row,
}

/// One block.
#[derive(Clone, Debug)]
pub struct RowBlock {
    /// The block.
    pub name: Name,
    /// What it does.
    pub role: Role,
}

/// A tensor whose rows the blocks read element by element.
#[derive(Clone, Debug)]
pub struct RowInput {
    /// The tensor.
    pub buffer: Name,
    /// Its element type.
    pub dtype: DType,
    /// The blocks that read it so, in program order.
    pub readers: Vec<Name>,
    /// Elements that are contiguous in memory and start aligned to as many: 1 where that is not known.
    pub run: i64,
}

/// A function of rows in its one form.
pub struct Rows {
    /// The schedule that brings it into that form.
    pub schedule: Schedule,
    /// The blocks in program order.
    pub blocks: Vec<RowBlock>,
    /// Number of rows, if constant.
    pub rows: Option<i64>,
    /// Elements of a row, if constant.
    pub columns: Option<i64>,
    /// The tensors that are read row by row, those with several readers first.
    pub inputs: Vec<RowInput>,
    /// Types of what is written.
    pub outputs: Vec<DType>,
    /// Bytes of what is written, if constant.
    pub written: Option<i64>,
    /// The type of the value that is kept in place of several tensors ([`Rows::kept_value`]).
    pub value: Option<DType>,
}

impl Rows {
    /// Classifies and rebuilds, or says by name why the function does not work by rows.
    pub fn of(ask: &Ask) -> Result<Rows, Decline> {
        let mut s = ask.start.clone();
        let extents = Extents::of(ask)?;
        let copies = leave_outputs(&mut s, ask).map_err(|why| ask.no("row_wise", why))?;
        let mut blocks = vec![];
        for name in s.blocks().into_iter().filter(|b| ask.owns(b) || copies.contains(b)) {
            let role = rebuild(&mut s, &name, &extents).map_err(|why| ask.no("same_axes", why))?;
            blocks.push(RowBlock { name, role });
        }
        let made: Vec<Name> = blocks.iter().map(|b| output(&s, &b.name)).filter(|b| !s.func().is_param(b)).collect();
        for buffer in &made {
            s.flatten_buffer(buffer).map_err(|e| ask.no("row_wise", e.reason.text))?;
        }
        let facts = Facts::of(s.func());
        let own: Vec<&BlockFacts> = blocks.iter().filter_map(|b| facts.block(&b.name)).collect();
        own.iter().try_for_each(|b| reads_own_row(b, &own)).map_err(|why| ask.no("row_wise", why))?;
        let inputs = row_inputs(s.func(), &own, &made);
        if !inputs.iter().any(|i| i.run > 0) {
            return Err(ask.no("contiguous_reduction", "no tensor's contiguous axis is the one that is reduced"));
        }
        let outputs = own.iter().flat_map(|b| &b.writes).filter(|w| s.func().is_param(&w.buffer));
        let outputs: Vec<&Buffer> = outputs.map(|w| s.func().buffer(&w.buffer)).collect();
        let written = outputs.iter().map(|b| b.len()?.checked_mul(b.dtype.bytes() as i64)).sum();
        let outputs = outputs.iter().map(|b| b.dtype).collect();
        Ok(Rows {
            rows: product(&extents.rows),
            columns: product(&extents.columns),
            blocks,
            inputs,
            outputs,
            written,
            value: None,
            schedule: s,
        })
    }

    /// The blocks of a schedule that belong to other kernels.
    pub fn others(&self, s: &Schedule) -> Vec<Name> {
        s.blocks().into_iter().filter(|b| self.role(b).is_none()).collect()
    }

    /// The role of a block.
    pub fn role(&self, name: &Name) -> Option<Role> {
        self.blocks.iter().find(|b| b.name == *name).map(|b| b.role)
    }

    /// The block that all others are brought to: the last that writes elements, else the last.
    pub fn anchor(&self) -> &RowBlock {
        let last = |role: Role| self.blocks.iter().rev().find(|b| b.role == role);
        last(Role::Full).or(last(Role::Row)).unwrap_or(&self.blocks[self.blocks.len() - 1])
    }

    /// The tensors that several blocks read, so that a row is worth keeping.
    pub fn kept(&self) -> impl Iterator<Item = &RowInput> {
        self.inputs.iter().filter(|i| i.readers.len() > 1)
    }

    /// Bytes of an element of each tensor that is kept, or of the value in place of them.
    pub fn kept_bytes(&self) -> Vec<i64> {
        let each = self.kept().map(|i| i.dtype.bytes() as i64).collect();
        self.value.map_or(each, |dtype| vec![dtype.bytes() as i64])
    }

    /// The type of one value that all blocks make of what is [`kept`](Rows::kept), where it takes less room than that.
    pub fn kept_value(&self) -> Option<DType> {
        let mut s = self.schedule.clone();
        let block = self.keep_value(&mut s, Scope::Local)?;
        let dtype = s.func().buffer(&output(&s, &block)).dtype;
        let bytes: u64 = self.kept().map(|i| i.dtype.bytes()).sum();
        (dtype.bytes() < bytes).then_some(dtype)
    }

    /// Keeps what several blocks read of a row there: that value where it takes less room, else each tensor. The blocks that do.
    ///
    /// # Errors
    /// A step whose precondition fails, which is a bug.
    pub fn keep(&self, s: &mut Schedule, scope: &Scope) -> Result<Vec<Name>, ScheduleError> {
        if self.value.is_some() {
            return Ok(self.keep_value(s, scope.clone()).into_iter().collect());
        }
        self.kept().map(|i| s.share(&i.readers, Some(i.buffer.clone()), scope.clone())).collect()
    }

    /// Computes that value once for all blocks; the block that does, or `None` where they make no such value of all that is kept,
    /// which leaves `s` in any state.
    fn keep_value(&self, s: &mut Schedule, scope: Scope) -> Option<Name> {
        let kept: Vec<&RowInput> = self.kept().collect();
        let [first, others @ ..] = &kept[..] else { return None };
        if others.is_empty() || others.iter().any(|i| i.readers != first.readers) {
            return None;
        }
        let buffers: Vec<Name> = kept.iter().map(|i| i.buffer.clone()).collect();
        let block = s.share_value(&first.readers, &buffers, scope).ok()?;
        let reads_all = buffers.iter().all(|b| s.readers(b) == [block.clone()]);
        reads_all.then_some(block)
    }

    /// The input that says how wide loads are.
    pub fn dominant(&self) -> &RowInput {
        self.inputs.iter().find(|i| i.run > 0).unwrap_or(&self.inputs[0])
    }
}

/// The extents of the rows' axes and of the columns'.
struct Extents {
    rows: Vec<Expr>,
    columns: Vec<Expr>,
}

impl Extents {
    /// Those of the first reduction; all others must have the same.
    fn of(ask: &Ask) -> Result<Extents, Decline> {
        let own: Vec<&BlockFacts> = ask.facts.blocks.iter().filter(|b| ask.owns(&b.name)).collect();
        let reductions: Vec<&&BlockFacts> = own.iter().filter(|b| b.is_reduction).collect();
        let Some(first) = reductions.first() else {
            return Err(ask.no("reductions", "nothing is reduced"));
        };
        if own.len() < 2 {
            return Err(ask.no("several_blocks", "one reduction alone is the business of other rules"));
        }
        if let Some(b) = reductions.iter().find(|b| b.reducer.is_none()) {
            return Err(ask.no("known_reducer", format!("block `{}` is not X = X op term", b.name)));
        }
        if let Some(b) = reductions.iter().find(|b| !b.has_reduce_iter()) {
            return Err(ask.no("reduction_axis", format!("block `{}` reduces no axis longer than 1", b.name)));
        }
        let of = |kind| first.iters_of(kind).filter(|it| !it.extent.is_int(1)).map(|it| it.extent.clone()).collect();
        Ok(Extents { rows: of(IterKind::Spatial), columns: of(IterKind::Reduce) })
    }
}

fn product(list: &[Expr]) -> Option<i64> {
    list.iter().try_fold(1i64, |n, e| n.checked_mul(e.as_int()?))
}

/// Reductions into what others want go by way of a vector of their own; the blocks that copy it.
fn leave_outputs(s: &mut Schedule, ask: &Ask) -> Result<Vec<Name>, String> {
    let mut copies = vec![];
    for b in ask.facts.blocks.iter().filter(|b| ask.owns(&b.name) && b.is_reduction) {
        let out = output(s, &b.name);
        if s.func().is_param(&out) || s.readers(&out).iter().any(|r| !ask.owns(r)) {
            copies.push(s.cache_write(&b.name, &out, Scope::Local).map_err(|e| e.reason.text)?);
        }
    }
    Ok(copies)
}

/// Gives a block its iterators over rows and columns.
fn rebuild(s: &mut Schedule, name: &Name, extents: &Extents) -> Result<Role, String> {
    let block = find_block(s.func(), name);
    let long: Vec<&IterVar> = block.iters.iter().filter(|it| !it.extent.is_int(1)).collect();
    let reduces = long.iter().any(|it| it.kind == IterKind::Reduce);
    let cut = long.iter().position(|it| it.kind == IterKind::Reduce).or_else(|| boundary(&long, extents));
    let no = || format!("the axes of block `{name}` are not those of the reductions");
    let (rows, columns) = long.split_at(cut.ok_or_else(no)?);
    if !alike(rows, &extents.rows) || !(columns.is_empty() || alike(columns, &extents.columns)) {
        return Err(no());
    }
    let names = |list: &[&IterVar]| list.iter().map(|it| it.var.clone()).collect::<Vec<_>>();
    if columns.iter().any(|it| reduces != (it.kind == IterKind::Reduce)) {
        return Err(format!("block `{name}` does not reduce its last axes alone"));
    }
    let mut map = vec![names(rows)];
    if !columns.is_empty() {
        map.push(names(columns));
    }
    let role = match (reduces, columns.is_empty()) {
        (true, _) => {
            let facts = Facts::of(s.func());
            let reducer = facts.block(name).and_then(|b| b.reducer.clone());
            Role::Reduce(reducer.ok_or_else(|| format!("block `{name}` is not X = X op term"))?.combiner)
        }
        (false, true) => Role::Row,
        (false, false) => Role::Full,
    };
    s.transform_block_layout(name, &map).map_err(|e| e.reason.to_string())?;
    Ok(role)
}

/// Where the columns of an injective block begin.
fn boundary(long: &[&IterVar], extents: &Extents) -> Option<usize> {
    let whole = (0..=long.len()).find(|k| alike(&long[..*k], &extents.rows) && alike(&long[*k..], &extents.columns));
    whole.or_else(|| alike(long, &extents.rows).then_some(long.len()))
}

/// True where the iterators have these extents, or as many elements.
fn alike(list: &[&IterVar], want: &[Expr]) -> bool {
    let own: Vec<Expr> = list.iter().map(|it| it.extent.clone()).collect();
    own == want || (product(&own).is_some() && product(&own) == product(want))
}

/// What the blocks made is read at the reader's own row.
fn reads_own_row(b: &BlockFacts, own: &[&BlockFacts]) -> Result<(), String> {
    let made = |buffer: &Name| own.iter().any(|o| o.writes.iter().any(|w| w.buffer == *buffer));
    let own_row = |e: &Expr| {
        let row = b.iters.first();
        e.as_var() == row.map(|it| &it.var) || (e.is_int(0) && row.is_some_and(|it| it.extent.is_int(1)))
    };
    match b.reads.iter().find(|a| made(&a.buffer) && !(a.indices.len() == 1 && own_row(&a.indices[0]))) {
        Some(a) => Err(format!("block `{}` reads `{}` not at its own row", b.name, a.buffer)),
        None => Ok(()),
    }
}

/// The place of an access in memory.
fn place(decl: &Buffer, access: &Access, b: &BlockFacts) -> Expr {
    let dtype = access.indices.first().map_or(DType::I64, Expr::dtype);
    let same = |e: &Expr| match e.as_int() {
        Some(n) => Expr::int(n, dtype),
        None if e.dtype() == dtype => e.clone(),
        None => Expr::cast(dtype, e.clone()),
    };
    let flat = access.indices.iter().zip(&decl.shape).fold(Expr::int(0, dtype), |at, (i, n)| at * same(n) + same(i));
    simplify(&flat, &b.ranges)
}

fn row_inputs(func: &PrimFunc, own: &[&BlockFacts], made: &[Name]) -> Vec<RowInput> {
    let mut found: Vec<RowInput> = vec![];
    for b in own {
        let [row, column] = &b.iters[..] else { continue };
        for a in b.reads.iter().filter(|a| !made.contains(&a.buffer)) {
            let uses = |it: &IterVar| it.extent.is_int(1) || a.indices.iter().any(|e| e.uses_var(&it.var));
            let decl = func.buffer(&a.buffer);
            if !uses(row) || !uses(column) || func.is_param(&a.buffer) && decl.shape.is_empty() {
                continue;
            }
            let run = contiguous(decl, a, b, column);
            match found.iter_mut().find(|i| i.buffer == a.buffer) {
                Some(known) => {
                    known.run = known.run.min(run);
                    known.readers.extend(Some(&b.name).filter(|b| !known.readers.contains(b)).cloned());
                }
                None => found.push(RowInput {
                    buffer: a.buffer.clone(),
                    dtype: decl.dtype,
                    readers: vec![b.name.clone()],
                    run,
                }),
            }
        }
    }
    // One row alone: tensors that have no axis of rows all count; those with several readers come first.
    found.sort_by_key(|i| std::cmp::Reverse((i.run > 0, i.readers.len(), i.dtype.bytes())));
    found
}

/// Aligned elements that lie next to each other along the columns; 0 where neighbours are not next to each
/// other.
fn contiguous(decl: &Buffer, a: &Access, b: &BlockFacts, column: &IterVar) -> i64 {
    let at = place(decl, a, b);
    let Some((stride, base)) = linear(&at, &column.var, &b.ranges) else { return 0 };
    if !stride.is_int(1) || base.uses_var(&column.var) {
        return 0;
    }
    let columns = column.extent.as_int().unwrap_or(1);
    let aligned = multiple_of(&base, &b.ranges);
    if aligned == 0 { columns } else { gcd(columns, aligned).max(1) }
}

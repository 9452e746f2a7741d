//! `general_reduction.rows`: softmax, norms and their like, on a GPU.
//!
//! When: several reductions over the same trailing axes (or one, with blocks after it that read the row
//! again), contiguous in memory, with injective blocks before, between and after them, each of which
//! reads what the others made of its own row ([`Rows`]).
//! How: one launch. A group of threads has a row (or several rows share a block); the row stays in
//! registers, in shared memory, or is read again for each pass; a reduction is a partial result per
//! thread, and a combination across the group whose result every thread has. A row that is long, or one of
//! few, may be shared out over the blocks of a cluster. Rows in registers that no vector divides are counted
//! from where a vector begins (`align_loop`).
//! Declines: `target_kind`, the predicates of [`Rows::of`], `one_nest`, `staged_result`.
//!
//! ```text
//! general_reduction.rows on cuda:sm_90a
//! before: float16 A[4096, 4096]
//!         float32 M[i] max= float32(A[i, k])
//!         float32 S[i] += exp(float32(A[i, k]) - M[i])
//!         float16 O[i, k] = float16(exp(float32(A[i, k]) - M[i]) / S[i])
//! after:  blockIdx.x 4096 [min_blocks=4]:
//!           threadIdx.x 256, unroll 2, vector 8 [cache_hint=plain]: A_local = A
//!           threadIdx.x 256, unroll 2 [batch_loads=1 tile=max], unroll 8: M_rf.local max= A_local
//!           threadIdx.x 256: M.local max= M_rf.local
//!           threadIdx.x 256, unroll 2, unroll 8: b1_value_local = A_local, M.local
//!           threadIdx.x 256, unroll 2 [batch_loads=1 tile=sum], unroll 8: S_rf.local += b1_value_local
//!           threadIdx.x 256: S.local += S_rf.local
//!           threadIdx.x 256, unroll 2 [batch_loads=1]:
//!             unroll 8 [tile=elementwise]: O_local = b1_value_local, S.local
//!             vector 8: O = O_local
//! ```

use super::online;
use super::outline::{Sizes, launch};
use super::room::*;
use crate::analysis::{Access, Decline, Facts};
use crate::ir::TileOp;
use crate::rules::find::rows::{Role, Rows};
use crate::rules::find::shape::find_block;
use crate::rules::parts::*;

/// The rule.
pub const ROWS: Rule =
    Rule::new(Kind::Cuda, "general_reduction.rows", include_str!("../schedules/general_reduction.rows.toml"), general);

/// What the `relax` knob does.
const WAYS: [&str; 2] = ["reciprocal", "exp2"];

/// Blocks of a cluster, and threads of each, that start with a row longer than shared memory (softmax
/// 512x128256 bfloat16, H200: 82 us, where reading it again takes 90 and clusters of 4 88).
const CLUSTER: i64 = 8;
const CLUSTER_THREADS: i64 = 512;

struct General {
    r: Rows,
    /// Two reductions that one pass can do.
    pair: Option<online::Pair>,
    /// What outlines need to know, where all sizes are constant.
    sizes: Option<Sizes>,
}

fn general(ask: &Ask) -> Answer {
    let r = rows(ask)?;
    stage_result(&mut r.schedule.clone(), &r).map_err(|e| ask.no("staged_result", e.reason.text))?;
    Ok(Found::new(r.schedule.clone(), General { pair: online::pair(&r), sizes: Sizes::of(&r, ask.target), r }))
}

/// The block that writes the elements that all others are brought to, by way of registers.
fn stage_result(s: &mut Schedule, r: &Rows) -> Result<Name, ScheduleError> {
    let anchor = r.anchor();
    match anchor.role {
        Role::Full => s.stage_write(&anchor.name, Scope::Local),
        Role::Row | Role::Reduce(_) => Ok(anchor.name.clone()),
    }
}

impl Accepted for General {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let r = &self.r;
        let (rows, columns) = (r.rows, r.columns);
        let (element, run) = (r.dominant().dtype, r.dominant().run);
        let bytes: i64 = r.kept_bytes().iter().sum();
        let space = block_fits(space, target, &["threads", "rows"]);
        let peeled = move |k: &Knobs| run % 2 != 0 && kept_in_registers(k) && k.get("vector") == 16;
        let space = vector_fits_or(space, "vector", element, Some(run), peeled);
        let loads = move |k: &Knobs| match k.get("row") {
            REREAD => k.get("unroll"),
            _ => 1,
        };
        let step = move |k: &Knobs| group(k) * loads(k) * lanes(k.get("vector"), element);
        let space = step_fits(space, columns, step);
        let any = space.knob("unroll").map(|k| k.default);
        let space = space.prefer("unroll_differs", move |k| match k.get("row") {
            REREAD => Ok(()),
            _ if Some(k.get("unroll")) == any => Ok(()),
            _ => Err("the row is kept, so that any number of steps is the same kernel".into()),
        });
        let space = row_fits(space, r, target, element, self.sizes.clone());
        let space = cluster_fits(space, r, target, element);
        let total = rows.zip(columns).and_then(|(a, b)| a.checked_mul(b)?.checked_mul(element.bytes() as i64));
        // Of short rows no thread has much in flight, and what has most is not best; nor where elements are loaded one by one.
        let short = if run % 2 == 0 { SHORT } else { 2 * SHORT };
        let total = total.filter(|_| columns.is_none_or(|n| n > short * i64::from(target.warp)));
        let space = keeps_busy(space, target, &["threads", "rows"], total, move |k| {
            let vectors = columns.map_or(1, |n| vectors_of(n, k, element));
            vectors.clamp(1, 16) * k.get("vector")
        });
        let space = space.require("rows_fit", move |k| match rows {
            Some(n) if k.get("rows") > n => Err(format!("{} rows per block of {n} in all", k.get("rows"))),
            _ => Ok(()),
        });
        let space = space.prefer("block_size", |k| match k.get("threads") * k.get("rows") {
            128..=1024 => Ok(()),
            n => Err(format!("blocks of {n} threads where 128 and more are best")),
        });
        let space = short_rows(space, columns, element, i64::from(target.warp));
        let narrow = r.outputs.iter().all(|d| d.bytes() <= 2);
        let strict = r.schedule.func().is_strict();
        let relaxes = WAYS.iter().any(|way| r.relaxes(way));
        let space = space.require("narrow_output", move |k| match k.get("relax") {
            0 => Ok(()),
            _ if strict => Err("the function is strict, and rounds as it is written".into()),
            _ if !narrow => Err("an output is wider than 16 bits, where arithmetic stays as it is written".into()),
            _ if !relaxes => Err("no block has arithmetic that can be relaxed".into()),
            _ => Ok(()),
        });
        let (online, long) = (self.pair.is_some(), columns.is_none_or(|n| n * bytes > target.smem_per_block as i64));
        let space = space.require("online_form", move |k| match k.get("online") {
            0 => Ok(()),
            _ if k.get("row") != REREAD => Err("the row is kept, so that passes over it cost no memory".into()),
            _ if strict => Err("the function is strict, and rounds as it is written".into()),
            _ if !narrow => Err("an output is wider than 16 bits, where arithmetic stays as it is written".into()),
            _ if !online => Err("no reduction is relative to a maximum or a mean of its row".into()),
            _ => Ok(()),
        });
        let space = match columns {
            Some(n) if long && target.max_cluster >= CLUSTER as u32 && n <= CLUSTER * CLUSTER_THREADS * MOST_EACH => {
                space
                    .with_default("row", REGISTERS)
                    .with_default("cluster", CLUSTER)
                    .with_default("threads", CLUSTER_THREADS)
            }
            _ => space.with_default("online", i64::from(online && narrow && long)),
        };
        let common = r.has_common();
        space.require("value_in_common", move |k| match k.get("row") {
            KEPT if !common => Err("no two blocks compute the same function".into()),
            _ => Ok(()),
        })
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let lanes = lanes(k.get("vector"), self.r.dominant().dtype);
        let (threads, cluster) = (k.get("threads"), cluster(k));
        let together = self.sizes.as_ref().and_then(|s| s.together(place(k), cluster, k));
        let row = k.get("row");
        let aligned = kept_in_registers(k) && self.r.dominant().run % lanes != 0;
        let plan = Plan { knobs: k, threads, cluster, lanes, row, aligned, together };
        build(s, &self.r, self.pair.as_ref().filter(|_| k.get("online") == 1), &plan)
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        Some(Outline::one(launch(self.sizes.as_ref()?, place(k), cluster(k), k)))
    }
}

/// A function of rows whose blocks fit under one loop over rows.
pub fn rows(ask: &Ask) -> Result<Rows, Decline> {
    let mut r = Rows::of(ask)?;
    r.keep_float32();
    r.value = r.kept_value();
    one_nest(&r).map_err(|reason| ask.no("one_nest", reason))?;
    Ok(r)
}

/// Why the blocks do not fit under one loop over rows, if they do not.
fn one_nest(r: &Rows) -> Result<(), String> {
    let mut s = r.schedule.clone();
    let loops = s.loops(&r.anchor().name);
    let Some(row) = loops.first() else { return Err("the last block has no loop over rows".into()) };
    let others = r.others(&s);
    under_rows(&mut s, row, &others).map_err(|e| e.reason.to_string())
}

impl Rows {
    /// Keeps what stays with a row in float32, where the function says 16 bits and permits it.
    fn keep_float32(&mut self) {
        for b in &self.blocks {
            let made = output(&self.schedule, &b.name);
            let stays = b.role != Role::Full && !self.schedule.func().is_param(&made);
            keep_float32(&mut self.schedule, &b.name, stays.then_some(&made));
        }
    }

    /// True when some block has arithmetic that can be relaxed in this way.
    fn relaxes(&self, way: &str) -> bool {
        self.blocks.iter().any(|b| self.schedule.clone().relax_arithmetic(&b.name, way).is_ok())
    }

    /// True when two blocks compute the same function of an element.
    pub fn has_common(&self) -> bool {
        shared_value(&mut self.schedule.clone(), self).is_some()
    }
}

/// Shares the largest function that two of the blocks compute, if there is one.
pub fn shared_value(s: &mut Schedule, r: &Rows) -> Option<Name> {
    let elements: Vec<Name> = r.blocks.iter().filter(|b| b.role != Role::Row).map(|b| b.name.clone()).collect();
    let later = |i: usize| elements[i + 1..].iter().map(move |b| (i, b.clone()));
    let mut pairs = (0..elements.len()).flat_map(later);
    pairs.find_map(|(i, b)| s.share(&[elements[i].clone(), b], None, Scope::Local).ok())
}

/// The loops of one row, as a point of the space has them.
struct Plan<'k> {
    knobs: &'k Knobs,
    threads: i64,
    cluster: i64,
    lanes: i64,
    row: i64,
    /// Rows are counted from where a vector begins.
    aligned: bool,
    /// Vectors of a thread for which the last pass loads together what all rows share, where these are not all.
    together: Option<i64>,
}

fn build(s: &mut Schedule, r: &Rows, pair: Option<&online::Pair>, plan: &Plan) -> Done {
    let (knobs, others) = (plan.knobs, r.others(s));
    let scope = if plan.row == SHARED { Scope::Shared } else { Scope::Local };
    let copies = if plan.row == REREAD { vec![] } else { r.keep(s, &scope)? };
    let value = if plan.row == KEPT { shared_value(s, r) } else { None };
    let (anchor, tail) = (r.anchor(), stage_result(s, r)?);
    for b in s.blocks().into_iter().filter(|b| r.role(b).is_some() || value.as_ref() == Some(b)) {
        relax(s, &b, knobs);
    }
    let mut loops = s.loops(&tail);
    if tail != anchor.name && loops.len() == 1 {
        // One row: the copy of the result has no loop over rows.
        loops.insert(0, s.add_unit_loop(&loops[0])?);
    }
    let [grid, rows] = split(s, &loops[0], [None, Some(knobs.get("rows"))])?;
    s.bind(&grid, ThreadTag::BlockX)?;
    launch_bounds(s, &grid, knobs.get("min_blocks"))?;
    if let Some(column) = loops.get(1) {
        let [_, ku, kt, kv] = plan.thread_loops(s, &tail, &grid, column)?;
        plan.bind_group(s, &kt)?;
        s.vectorize(&kv)?;
        let ku = match plan.together {
            Some(n) => {
                let [parts, ku] = split(s, &ku, [None, Some(n)])?;
                s.unroll(&parts)?;
                ku
            }
            None => ku,
        };
        s.compute_at(&anchor.name, &ku)?;
        if let Some(lane) = loops_below(s, &anchor.name, &ku).last() {
            s.unroll(lane)?;
            tile_leaf(s, lane, LeafOp::Elementwise)?;
        }
        batch_loads(s, &ku)?;
    } else {
        s.bind(&rows, ThreadTag::ThreadY)?;
    }
    under_rows(s, &grid, &others)?;
    let done = match pair {
        Some(pair) => {
            let split: online::SplitColumns = &|s, b, column| plan.thread_loops(s, b, &grid, column);
            online::schedule(s, &grid, pair, split, &|s, l| plan.bind_group(s, l))?
        }
        None => vec![],
    };
    for b in s.blocks() {
        if done.contains(&b) || b == tail || b == anchor.name && tail != anchor.name || !s.loops(&b).contains(&grid) {
            continue;
        }
        plan.block(s, &b, r, &grid, copies.contains(&b))?;
    }
    Ok(())
}

/// Relaxes the arithmetic of one block, where it has any of that kind.
fn relax(s: &mut Schedule, b: &Name, knobs: &Knobs) {
    for way in WAYS.iter().filter(|_| knobs.get("relax") == 1) {
        // Not every block has a quotient or an exponential.
        let _ = s.relax_arithmetic(b, way);
    }
}

/// Brings every other block but those of `others` kernels under the loop over rows: what feeds those there,
/// from the last to the first, then what they feed.
pub fn under_rows(s: &mut Schedule, grid: &Name, others: &[Name]) -> Done {
    let outside = |s: &Schedule| -> Vec<Name> {
        s.blocks().into_iter().filter(|b| !others.contains(b) && !s.loops(b).contains(grid)).collect()
    };
    for b in outside(s).iter().rev() {
        // One whose readers are elsewhere comes after them.
        let _ = s.compute_at(b, grid);
    }
    for b in outside(s) {
        s.reverse_compute_at(&b, grid)?;
    }
    Ok(())
}

impl Plan<'_> {
    /// Schedules the loops of one block under `grid`.
    fn block(&self, s: &mut Schedule, b: &Name, r: &Rows, grid: &Name, copy: bool) -> Done {
        let block = find_block(s.func(), b);
        let below = loops_below(s, b, grid);
        let drives = |k: usize, l: &Name| block.iters.get(k).is_some_and(|it| it.binding.uses_var(l));
        let column = below.iter().find(|l| drives(1, l)).cloned();
        let Some(column) = column else {
            return below.first().map_or(Ok(()), |row| s.bind(row, ThreadTag::ThreadY));
        };
        let [_, ku, kt, kv] = self.thread_loops(s, b, grid, &column)?;
        match r.role(b) {
            Some(Role::Reduce(combiner)) => self.reduce(s, b, grid, [&ku, &kt, &kv], combiner.fold()),
            Some(Role::Full | Role::Row) | None if copy => {
                self.bind_group(s, &kt)?;
                s.unroll(&ku)?;
                s.vectorize(&kv)?;
                cache_hint(s, &kv, self.knobs.get("hint"))
            }
            Some(Role::Full | Role::Row) | None => {
                self.bind_group(s, &kt)?;
                s.unroll(&ku)?;
                s.unroll(&kv)
            }
        }
    }

    /// Binds the loop over those that share a row: threads, of the blocks of a cluster where it has several.
    fn bind_group(&self, s: &mut Schedule, at: &Name) -> Done {
        if self.cluster == 1 {
            return s.bind(at, ThreadTag::ThreadX);
        }
        let [block, thread] = split(s, at, [Some(self.cluster), Some(self.threads)])?;
        s.bind(&block, ThreadTag::ClusterX)?;
        s.bind(&thread, ThreadTag::ThreadX)
    }

    /// Splits the columns over passes, loads in flight, threads and lanes, and binds rows and threads;
    /// gives `[ko, ku, kt, kv]`, of which `ko` is `ku` where the row is kept.
    fn thread_loops(&self, s: &mut Schedule, b: &Name, grid: &Name, column: &Name) -> Result<[Name; 4], ScheduleError> {
        if self.aligned {
            self.align(s, b, column)?;
        }
        let row: Vec<Name> = loops_below(s, b, grid).into_iter().filter(|l| l != column).collect();
        let (threads, lanes) = (Some(self.threads * self.cluster), Some(self.lanes));
        let [ko, ku, kt, kv] = if self.row == REREAD {
            split(s, column, [None, Some(self.knobs.get("unroll")), threads, lanes])?
        } else {
            let [ku, kt, kv] = split(s, column, [None, threads, lanes])?;
            [ku.clone(), ku, kt, kv]
        };
        let mut order = row.clone();
        order.push(kt.clone());
        if ko != ku {
            order.push(ko.clone());
        }
        order.extend([ku.clone(), kv.clone()]);
        s.reorder(&order)?;
        for l in &row {
            s.bind(l, ThreadTag::ThreadY)?;
        }
        Ok([ko, ku, kt, kv])
    }

    /// Counts the columns of a block from where a vector of the row begins.
    fn align(&self, s: &mut Schedule, b: &Name, column: &Name) -> Done {
        let facts = Facts::of(s.func());
        let Some(block) = facts.block(b) else { return Ok(()) };
        let iters = find_block(s.func(), b);
        let along = |a: &&Access| a.count_iters(&iters) > 1;
        match block.reads.iter().chain(&block.writes).find(along).map(|a| a.buffer.clone()) {
            Some(buffer) => s.align_loop(column, &buffer, self.lanes),
            None => Ok(()),
        }
    }

    /// A partial result per thread, then one across the group.
    fn reduce(&self, s: &mut Schedule, b: &Name, grid: &Name, [ku, kt, kv]: [&Name; 3], fold: TileOp) -> Done {
        let rf = s.rfactor(kt, 0)?;
        let partial = output(s, &rf);
        self.bind_group(s, kt)?;
        batch_loads(s, ku)?;
        s.unroll(kv)?;
        tile_leaf(s, ku, LeafOp::Tile(fold))?;
        s.set_scope(&partial, Scope::Local)?;
        // The loop over rows is bound already, and the new one like it.
        for l in loops_of_kind(s, b, grid, IterKind::Reduce) {
            self.bind_group(s, &l)?;
        }
        let result = output(s, b);
        s.set_scope(&result, Scope::Local)
    }
}

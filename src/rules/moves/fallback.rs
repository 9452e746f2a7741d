//! `fallback.cuda` and `fallback.cpu`: injective functions of any kind.
//!
//! When: every block that is left after inlining is spatial. Several blocks become several launches; on a GPU
//! neighbours that neither read nor write what the other writes are one kernel at `merge=1`.
//! How: all axes of the output fused in their order; on a GPU each thread moves one or several
//! vectors, operands whose last axis is the output's staged in registers by vector loads. Where all that is
//! large lies as the output does, vectors go on from one row to the next, and are as wide for odd rows. A block
//! takes one tile, or with `waves` above 0 as many as it takes for so many blocks per multiprocessor; on the
//! CPU chunks run in parallel and their inner loop is one vector, which may be stored past the caches.
//! Declines: `target_kind`, `all_spatial`.
//!
//! ```text
//! fallback.cuda on cuda:sm_90a
//! before: float32 A[4096, 4096], float32 B[4096]
//!         float32 O[i, j] = A[i, j] + B[j]
//! after:  blockIdx.x 16384 [min_blocks=4], threadIdx.x 256, unroll 1 [batch_loads=1]:
//!           vector 4 [cache_hint=plain]: A_local = A
//!           vector 4 [cache_hint=plain]: B_local = B
//!           unroll 4 [tile=elementwise]: O_local = A_local, B_local
//!           vector 4: O = O_local
//! ```
//!
//! ```text
//! fallback.cpu on cpu
//! before: float32 A[4096, 4096], float32 B[4096]
//!         float32 O[i, j] = A[i, j] + B[j]
//! after:  parallel 4096, loop 512, vector 8 [cache_hint=streaming]: O = A, B
//! ```

use crate::analysis::{Access, Decline};
use crate::ir::{Buffer, Expr, IterVar};
use crate::rules::find::operands::{ends_in, is_scattered, moves, reads_of, staged, whole_write};
use crate::rules::find::shape::find_block;
use crate::rules::merge::{self, Uses};
use crate::rules::parts::*;
use crate::rules::space::outlines::{self, Moves};

/// The GPU form.
pub const CUDA: Rule = Rule::new(Kind::Cuda, "fallback.cuda", include_str!("../schedules/fallback.cuda.toml"), cuda);

/// The CPU form.
pub const CPU: Rule = Rule::new(Kind::Cpu, "fallback.cpu", include_str!("../schedules/fallback.cpu.toml"), cpu);

/// Bytes of which every multiprocessor soon has what it needs in its cache.
const CACHED: i64 = 1 << 17;

struct Cuda {
    outputs: Vec<Output>,
    /// What each of them reads and writes.
    uses: Vec<Uses>,
    /// Multiprocessors.
    sms: i64,
}

struct Cpu(Vec<Output>);

/// What the blocks write, all of which are spatial.
fn spatial(ask: &Ask) -> Result<(Schedule, Vec<Output>), Decline> {
    let blocks = ask.blocks();
    for name in &blocks {
        let block = find_block(ask.start.func(), name);
        if let Some(i) = block.iters.iter().find(|i| i.kind != IterKind::Spatial) {
            return Err(ask.no("all_spatial", format!("axis `{}` of block `{name}` is not spatial", i.var)));
        }
    }
    let mut start = in_float32(ask.start, &blocks);
    approximate(&mut start, ask.target, &blocks);
    let outputs = blocks.iter().map(|b| Output::of(&start, b)).collect();
    Ok((start, outputs))
}

fn cuda(ask: &Ask) -> Answer {
    let (start, outputs) = spatial(ask)?;
    let uses = outputs.iter().map(|o| Uses::of_blocks(ask.start, std::slice::from_ref(&o.block))).collect();
    Ok(Found::new(start, Cuda { outputs, uses, sms: ask.target.sms as i64 }))
}

fn cpu(ask: &Ask) -> Answer {
    let (start, outputs) = spatial(ask)?;
    Ok(Found::new(start, Cpu(outputs)))
}

impl Accepted for Cuda {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let (outputs, sms, widest) = (&self.outputs, self.sms, widest(&self.outputs));
        let operands = outputs.iter().map(|o| o.staged.len() as i64 + 1).max().unwrap_or(1);
        let size = outputs.iter().filter_map(|o| o.elements).max();
        let space = block_fits(merge::offer(space, &self.uses), target, &["threads"]);
        let space = registers_fit(space, target, &["threads"], 24, move |k| {
            k.get("unroll") * k.get("vector").max(widest) * operands
        });
        let rows: Vec<(Row, DType)> = outputs.iter().map(|o| (o.row, o.dtype)).collect();
        let space = space.require("vector_alignment", move |k| {
            let bytes = |(row, dtype): &(Row, DType)| row.width(k, *dtype) * dtype.bytes() as i64;
            match rows.iter().map(bytes).max() {
                Some(most) if most != k.get("vector") => {
                    Err(format!("accesses of {} bytes where types and the last axis make them {most}", k.get("vector")))
                }
                _ => Ok(()),
            }
        });
        let tile = move |k: &Knobs| k.get("threads") * k.get("unroll") * (k.get("vector") / widest).max(1);
        let space = step_fits(space, size, tile);
        space.require("several_tiles_per_block", move |k| match (k.get("waves"), size) {
            (0, _) | (_, None) => Ok(()),
            (waves, Some(n)) if n > tile(k) * sms * waves => Ok(()),
            (waves, Some(n)) => Err(format!("{} blocks have one tile each of {n} elements", sms * waves)),
        })
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        self.outputs.iter().try_for_each(|out| self.launch(s, out, k))?;
        merge::mark(s, k)
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        let outline = outlines::elementwise(&all_moves(&self.outputs)?, self.sms, k);
        let joins = merge::joins(&self.uses, |_| merge::wanted(k));
        Some(merge::outline(joins.into_iter().zip(outline.launches).collect()))
    }
}

impl Cuda {
    fn launch(&self, s: &mut Schedule, out: &Output, k: &Knobs) -> Done {
        let all = fuse_kind(s, &out.block, IterKind::Spatial)?;
        let width = out.row.width(k, out.dtype);
        let rest = [k.get("unroll"), k.get("threads"), width].map(Some);
        let ([eb, eu, et, ev], stride) = match k.get("waves") {
            0 => (split(s, &all, [None, rest[0], rest[1], rest[2]])?, None),
            waves => {
                let blocks = Some(self.sms * waves);
                let [stride, eb, eu, et, ev] = split(s, &all, [None, blocks, rest[0], rest[1], rest[2]])?;
                ([eb, eu, et, ev], Some(stride))
            }
        };
        let order: Vec<Name> = [&eb, &et].into_iter().chain(&stride).chain([&eu, &ev]).cloned().collect();
        s.reorder(&order)?;
        s.bind(&eb, ThreadTag::BlockX)?;
        s.bind(&et, ThreadTag::ThreadX)?;
        launch_bounds(s, &eb, k.get("min_blocks"))?;
        if width > 1 {
            for Staged { buffer, once, .. } in out.staged.iter().filter(|o| o.flat || !out.row.is_crossed(width)) {
                let hint = if *once { k.get("hint") } else { 0 };
                stage_read(s, &out.block, buffer, &eu, width, hint)?;
            }
        }
        if width > 1 && out.whole {
            let store = s.cache_write(&out.block, &out.buffer, Scope::Local)?;
            s.reverse_compute_at(&store, &eu)?;
            if out.row.is_crossed(width) {
                let registers = output(s, &out.block);
                s.flatten_buffer(&registers)?;
            }
            if let Some(lane) = loops_below(s, &store, &eu).last() {
                s.vectorize(lane)?;
            }
        }
        batch_loads(s, &eu)?;
        s.unroll(&ev)?;
        tile_leaf(s, &ev, LeafOp::Elementwise)
    }
}

impl Accepted for Cpu {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let (outputs, widest) = (&self.0, widest(&self.0));
        let size = outputs.iter().filter_map(|o| o.elements).max();
        let space = step_fits(space, size, move |k| k.get("chunk") * (k.get("vector") / widest).max(1));
        stream_fits(space, target, outputs.iter().map(|o| o.elements?.checked_mul(o.dtype.bytes() as i64)).sum())
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        for out in &self.0 {
            let all = fuse_kind(s, &out.block, IterKind::Spatial)?;
            let width = lanes(k.get("vector"), out.dtype);
            let [task, _, lane] = split(s, &all, [None, Some(k.get("chunk")), Some(width)])?;
            s.parallel(&task)?;
            if width > 1 && !out.row.is_crossed(width) {
                s.vectorize(&lane)?;
                if k.get("stream") == 1 {
                    past_the_caches(s, &lane)?;
                }
            }
        }
        Ok(())
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        Some(outlines::cpu_elementwise(&all_moves(&self.0)?, k))
    }
}

/// Bytes of the widest element that is written.
fn widest(outputs: &[Output]) -> i64 {
    outputs.iter().map(|o| o.dtype.bytes() as i64).max().unwrap_or(1)
}

fn all_moves(outputs: &[Output]) -> Option<Vec<Moves>> {
    outputs.iter().map(|o| o.moves).collect()
}

/// The innermost axis of the loops over an output.
#[derive(Clone, Copy)]
struct Row {
    /// Its length, where that is constant.
    length: Option<i64>,
    /// What is large lies as the output does: a vector may begin in one row and end in the next.
    flat: bool,
}

impl Row {
    /// Elements of one access: as many as the knob says, or what divides the row where a vector has to lie inside.
    fn width(self, k: &Knobs, dtype: DType) -> i64 {
        let most = lanes(k.get("vector"), dtype);
        if self.flat { most } else { dividing(most, self.length) }
    }

    fn is_crossed(self, width: i64) -> bool {
        self.length.is_none_or(|n| n % width != 0)
    }
}

/// An operand that moves as vectors along with the output.
struct Staged {
    buffer: Name,
    /// Each element is read once.
    once: bool,
    /// It lies as the output does.
    flat: bool,
}

/// What a block writes, and which of its operands move as vectors along with it.
struct Output {
    block: Name,
    buffer: Name,
    dtype: DType,
    elements: Option<i64>,
    /// The innermost axis.
    row: Row,
    /// Buffers read at plain indices whose last one is the innermost axis.
    staged: Vec<Staged>,
    /// True where the block writes every element of the buffer, each by its own iterators.
    whole: bool,
    /// How much it moves, where that is constant.
    moves: Option<Moves>,
}

impl Output {
    fn of(s: &Schedule, name: &Name) -> Output {
        let block = find_block(s.func(), name);
        let buffer = output(s, name);
        let reads = reads_of(s, name);
        let inner = block.iters.last();
        let length = inner.and_then(|i| i.extent.as_int());
        let once = |b: &Name| {
            let of = |i: &IterVar| reads.iter().any(|a| a.buffer == *b && a.vars().contains(&i.var));
            block.iters.iter().all(of)
        };
        let apart: Vec<&Access> = reads.iter().filter(|a| !lies_as(s, a, &block.iters)).collect();
        let flat = |b: &Name| apart.iter().all(|a| a.buffer != *b);
        let names = staged(&reads, &block, |a| inner.is_some_and(|i| ends_in(a, &i.var)));
        let staged: Vec<Staged> =
            names.into_iter().map(|b| Staged { once: once(&b), flat: flat(&b), buffer: b }).collect();
        let decl = s.func().buffer(&buffer);
        let write = whole_write(s, &block);
        let flat = length.is_some()
            && write.as_ref().is_some_and(|w| lies_as(s, w, &block.iters))
            && staged.iter().any(|o| o.flat)
            && apart.iter().all(|a| is_small(s, a, decl));
        let row = Row { length, flat };
        let far = |a: &&Access| inner.is_some_and(|i| is_scattered(s, a, &i.var));
        let scattered = reads.iter().filter(far).count() as i64;
        let apart = apart.len() as i64;
        Output {
            block: name.clone(),
            whole: write.is_some(),
            moves: moves(s, &reads, decl, inner.map(|i| &i.var)).map(|m| Moves { scattered, apart, row: length, ..m }),
            dtype: decl.dtype,
            elements: decl.len(),
            row,
            staged,
            buffer,
        }
    }
}

/// True for a tensor of which the loops read or write all elements in the order in which they lie.
fn lies_as(s: &Schedule, access: &Access, iters: &[IterVar]) -> bool {
    let decl = s.func().buffer(&access.buffer);
    let longer: Vec<(&Expr, &Expr)> = access.indices.iter().zip(&decl.shape).filter(|(_, n)| !n.is_int(1)).collect();
    let same = |((index, n), i): (&(&Expr, &Expr), &IterVar)| index.as_var() == Some(&i.var) && i.extent == **n;
    decl.is_row_major() && longer.len() == iters.len() && longer.iter().zip(iters).all(same)
}

/// True for a tensor that stays in the caches while the output is made.
fn is_small(s: &Schedule, access: &Access, out: &Buffer) -> bool {
    let bytes = |b: &Buffer| b.len().map(|n| n.saturating_mul(b.dtype.bytes() as i64));
    let most = bytes(out).map_or(CACHED, |n| CACHED.min(n / 8));
    bytes(s.func().buffer(&access.buffer)).is_some_and(|n| n <= most)
}

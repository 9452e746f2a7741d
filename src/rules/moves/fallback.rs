//! `fallback.cuda` and `fallback.cpu`: injective functions of any kind.
//!
//! When: every block that is left after inlining is spatial. Several blocks become several launches; on a GPU
//! neighbours that neither read nor write what the other writes are one kernel at `merge=1`.
//! How: all axes of the output fused in their order; on a GPU each thread moves one or several
//! vectors, operands whose last axis is the output's staged in registers by vector loads; a block takes
//! one tile, or with `waves` above 0 as many as it takes for so many blocks per multiprocessor; on the
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

use crate::analysis::Decline;
use crate::ir::IterVar;
use crate::rules::find::operands::{ends_in, is_scattered, moves, reads_of, staged, whole_write};
use crate::rules::find::shape::find_block;
use crate::rules::merge::{self, Uses};
use crate::rules::parts::*;
use crate::rules::space::outlines::{self, Moves};

/// The GPU form.
pub const CUDA: Rule =
    Rule::new(Kind::Cuda, "fallback.cuda", include_str!("../../../schedules/fallback.cuda.toml"), cuda);

/// The CPU form.
pub const CPU: Rule = Rule::new(Kind::Cpu, "fallback.cpu", include_str!("../../../schedules/fallback.cpu.toml"), cpu);

struct Cuda {
    outputs: Vec<Output>,
    /// What each of them reads and writes.
    uses: Vec<Uses>,
    /// Multiprocessors.
    sms: i64,
}

struct Cpu(Vec<Output>);

/// What the blocks write, all of which are spatial.
fn spatial(ask: &Ask) -> Result<Vec<Output>, Decline> {
    let blocks = ask.blocks();
    for name in &blocks {
        let block = find_block(ask.start.func(), name);
        if let Some(i) = block.iters.iter().find(|i| i.kind != IterKind::Spatial) {
            return Err(ask.no("all_spatial", format!("axis `{}` of block `{name}` is not spatial", i.var)));
        }
    }
    Ok(blocks.iter().map(|b| Output::of(ask.start, b)).collect())
}

fn cuda(ask: &Ask) -> Answer {
    let outputs = spatial(ask)?;
    let uses = outputs.iter().map(|o| Uses::of_blocks(ask.start, std::slice::from_ref(&o.block))).collect();
    Ok(Found::new(ask.start.clone(), Cuda { outputs, uses, sms: ask.target.sms as i64 }))
}

fn cpu(ask: &Ask) -> Answer {
    Ok(Found::new(ask.start.clone(), Cpu(spatial(ask)?)))
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
        let last: Vec<(Option<i64>, DType)> = outputs.iter().map(|o| (o.last, o.dtype)).collect();
        let space = space.require("vector_alignment", move |k| {
            let bytes = |(run, dtype): &(Option<i64>, DType)| width(k, *dtype, *run) * dtype.bytes() as i64;
            match last.iter().map(bytes).max() {
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
        let width = width(k, out.dtype, out.last);
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
            for (buffer, once) in &out.staged {
                let hint = if *once { k.get("hint") } else { 0 };
                stage_read(s, &out.block, buffer, &eu, width, hint)?;
            }
        }
        if width > 1 && out.whole {
            let store = s.cache_write(&out.block, &out.buffer, Scope::Local)?;
            s.reverse_compute_at(&store, &eu)?;
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
            if width > 1 && out.last.is_some_and(|n| n % width == 0) {
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

/// Elements of one access: as many as the knob says, or what divides the last axis.
fn width(k: &Knobs, dtype: DType, last: Option<i64>) -> i64 {
    dividing(lanes(k.get("vector"), dtype), last)
}

/// What a block writes, and which of its operands move as vectors along with it.
struct Output {
    block: Name,
    buffer: Name,
    dtype: DType,
    elements: Option<i64>,
    /// Length of the innermost axis of the loops.
    last: Option<i64>,
    /// Buffers read at plain indices whose last one is the innermost axis, and whether each element is
    /// read once.
    staged: Vec<(Name, bool)>,
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
        let staged = staged(&reads, &block, |a| inner.is_some_and(|i| ends_in(a, &i.var)));
        let once = |b: &Name| {
            let of = |i: &IterVar| reads.iter().any(|a| a.buffer == *b && a.vars().contains(&i.var));
            block.iters.iter().all(of)
        };
        let staged = staged.into_iter().map(|b| (b.clone(), once(&b))).collect();
        let decl = s.func().buffer(&buffer);
        let whole = whole_write(s, &block).is_some();
        let far = |a: &&crate::analysis::Access| inner.is_some_and(|i| is_scattered(s, a, &i.var));
        let scattered = reads.iter().filter(far).count() as i64;
        Output {
            block: name.clone(),
            whole,
            moves: moves(s, &reads, decl).map(|m| Moves { scattered, ..m }),
            dtype: decl.dtype,
            elements: decl.len(),
            last: inner.and_then(|i| i.extent.as_int()),
            staged,
            buffer,
        }
    }
}

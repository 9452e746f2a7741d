//! `pieces.cuda` and `pieces.cpu`: functions that no rule takes whole, as several kernels.
//!
//! When: after inlining several blocks are left, and runs of neighbouring blocks have rules.
//! How: from the first block on, the longest run of blocks that some rule takes is one piece; the pieces
//! are scheduled one after the other by their rules, and what one leaves for the next is in global memory.
//! What a rule found in a piece stays true while the pieces before it are scheduled: they touch their own
//! blocks only. The knobs are those of the pieces, `part0.threads` and so on; so that the space stays one that
//! can be listed, each piece keeps all values of some knobs and the default of the others.
//! On a GPU neighbouring launches that neither read nor write what the other writes are one kernel at `merge=1`, whose
//! grid is that of both. Their blocks have to have as many threads: defaults are chosen so where one knob of a piece makes
//! them so. Shared memory adds up. Clusters, products on tensor cores, grids with several axes, and blocks in rows of more
//! than 32 threads beside blocks of another shape stay alone, whatever the knob says.
//! Declines: `target_kind`, `several_pieces`; `pieces.cuda`: `piece_has_point`.
//!
//! ```text
//! pieces.cuda on cuda:sm_90a
//! before: float32 A[64, 256]
//!         float32 O0[i] += A[i, k]
//!         float32 O1[k] += A[i, k]
//! after:  blockIdx.x 16 [min_blocks=16]:
//!           threadIdx.y 4, threadIdx.x 16:
//!             O0_rf.local = 0
//!             unroll 4 [batch_loads=1 tile=sum]:
//!               vector 4 [cache_hint=streaming]: A_local = A
//!               unroll 4: O0_rf.local += A_local
//!           threadIdx.y 4, threadIdx.x 16: O0_local += O0_rf.local
//!           threadIdx.y 4: O0 = O0_local
//!         blockIdx.x 16 [min_blocks=8 merge=1]:
//!           threadIdx.x 8, threadIdx.y 8:
//!             unroll 2: O1_rf.local = 0
//!             unroll 8 [batch_loads=1]:
//!               vector 2 [cache_hint=streaming]: A_local = A
//!               unroll 2 [tile=add]: O1_rf.local += A_local
//!           threadIdx.x 8, unroll 2, threadIdx.y 8: O1_local += O1_rf.local
//!           threadIdx.x 8, unroll 2: O1 = O1_local
//! ```
//!
//! ```text
//! pieces.cpu on cpu
//! before: float32 A[64, 256]
//!         float32 O0[i] += A[i, k]
//!         float32 O1[k] += A[i, k]
//! after:  parallel 64:
//!           unroll 8, vector 8: O0_rf.local = 0
//!           loop 4 [prefetch_bytes=2048], unroll 8, vector 8: O0_rf.local += A
//!           vector 8: O0_local_rf.local = 0
//!           unroll 8, vector 8: O0_local_rf.local += O0_rf.local
//!           O0_local = 0
//!           unroll 8: O0_local += O0_local_rf.local
//!           O0 = O0_local
//!         parallel 4:
//!           unroll 8, vector 8: O1_local = 0
//!           loop 32, unroll 2, unroll 8, vector 8: O1_local += A
//!           loop 8, vector 8: O1 = O1_local
//! ```

use super::{Accepted, Answer, Arm, Ask, Found, Knob, Knobs, Outline, RULES, Rule, Space, is_form_of, stands};
use crate::analysis::Facts;
use crate::ir::{Name, Reason};
use crate::rules::merge::{self, Uses};
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};
use std::sync::Arc;

/// The rule for GPUs.
pub const CUDA: Rule = Rule::new(Kind::Cuda, "pieces.cuda", include_str!("schedules/pieces.cuda.toml"), cut);

/// The rule for the CPU.
pub const CPU: Rule = Rule::new(Kind::Cpu, "pieces.cpu", include_str!("schedules/pieces.cpu.toml"), cut);

/// Of a piece whose launches are those of its blocks.
const BLOCK_BY_BLOCK: &str = "fallback.cuda";

/// Points of all pieces together at most, legal or not.
const MOST_POINTS: u64 = 20_000;

/// The pieces in program order, each with the default of its knobs.
struct Pieces {
    arms: Arc<[Arm]>,
    defaults: Vec<Knobs>,
    seams: Arc<Seams>,
}

/// Launches that may be one with those before them.
struct Seams {
    /// The piece of each launch, or of all launches of one that depend on each other.
    pieces: Vec<usize>,
    /// What each of them reads and writes.
    uses: Vec<Uses>,
}

impl Seams {
    /// Which of them join those before them, where the pieces of a point permit that.
    fn joins(&self, alike: impl Fn(usize, usize) -> bool) -> Vec<bool> {
        merge::joins(&self.uses, |i| {
            let (before, own) = (self.pieces[i - 1], self.pieces[i]);
            before == own || alike(before, own)
        })
    }

    /// Pieces that may be one kernel with those before them.
    fn pairs(&self) -> Vec<(usize, usize)> {
        let joins = self.joins(|_, _| true);
        let pairs = self.pieces.windows(2).zip(&joins[1..]).filter(|(pair, joins)| **joins && pair[0] != pair[1]);
        pairs.map(|(pair, _)| (pair[0], pair[1])).collect()
    }
}

/// True where two pieces have as many threads per block, or nothing says that they have not.
fn alike(arms: &[Arm], points: [&Knobs; 2], [a, b]: [usize; 2]) -> bool {
    let alone = |k: &Knobs| k.find("cluster").is_some_and(|n| n > 1);
    let outlines = [(a, points[0]), (b, points[1])].map(|(i, k)| arms[i].outline(k));
    match &outlines.map(|o| o.map(|o| o.launches)) {
        _ if points.into_iter().any(alone) => false,
        [Some(a), Some(b)] if a.iter().chain(b).any(|l| l.last_block) => false,
        [Some(a), Some(b)] => match (a.last(), b.first()) {
            (Some(a), Some(b)) => a.threads == b.threads && !a.tensor_core && !b.tensor_core,
            _ => false,
        },
        _ => true,
    }
}

impl Accepted for Pieces {
    fn constrain(&self, own: Space, _: &Target) -> Space {
        let (arms, seams) = (self.arms.clone(), self.seams.clone());
        let mut all = merge::offer(own, &seams.uses);
        all.knobs.splice(..0, knobs(&self.arms, &self.defaults));
        let whole = Space::new(all.form, all.version, all.knobs);
        let whole = whole.require("piece_is_legal", move |k| {
            arms.iter().enumerate().try_for_each(|(i, arm)| {
                let illegal = |why: Reason| format!("piece {i} ({}): {why}", arm.space.form);
                arm.space.check(&of_piece(k, i)).map_err(illegal)
            })
        });
        if whole.knob(merge::KNOB).is_none() {
            return whole;
        }
        let arms = self.arms.clone();
        whole.require("merged_alike", move |k| {
            let merged =
                || seams.joins(|a, b| alike(&arms, [&of_piece(k, a), &of_piece(k, b)], [a, b])).contains(&true);
            if !merge::wanted(k) || merged() {
                return Ok(());
            }
            Err("no neighbouring kernels that could be one have as many threads per block".into())
        })
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Result<(), ScheduleError> {
        self.arms.iter().enumerate().try_for_each(|(i, arm)| arm.go_on(s, &of_piece(k, i)))?;
        merge::mark(s, k)
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        let points: Vec<Knobs> = (0..self.arms.len()).map(|i| of_piece(k, i)).collect();
        let permits = |a: usize, b: usize| merge::wanted(k) && alike(&self.arms, [&points[a], &points[b]], [a, b]);
        let joins = merge::joins(&self.seams.uses, |i| match (self.seams.pieces[i - 1], self.seams.pieces[i]) {
            (a, b) if a == b => merge::wanted(k),
            (a, b) => permits(a, b),
        });
        let mut launches = vec![];
        for (i, (arm, point)) in self.arms.iter().zip(&points).enumerate() {
            let own = self.seams.pieces.iter().zip(&joins).filter(|(piece, _)| **piece == i).map(|(_, joins)| *joins);
            // A piece of which nothing is known costs the same at every point.
            let outline = arm.outline(point).unwrap_or_default();
            launches.extend(own.chain(std::iter::repeat(false)).zip(outline.launches));
        }
        (!launches.is_empty()).then(|| merge::outline(launches))
    }
}

/// Cuts the blocks into pieces, each in the form to which the rules of those before it bring the function.
fn cut(ask: &Ask) -> Answer {
    let mut left = ask.blocks();
    if left.len() < 2 {
        return Err(ask.no("several_pieces", "one block is left after inlining"));
    }
    if let Some(rule) = ask.whole {
        return Err(ask.no("several_pieces", format!("{rule} takes the function whole")));
    }
    let (mut start, mut arms, mut defaults) = (ask.start.clone(), vec![], vec![]);
    let mut seams = Seams { pieces: vec![], uses: vec![] };
    let mut longest = left.len() - 1;
    while !left.is_empty() {
        let facts = Facts::of(start.func());
        let take = |n: usize| take(&Ask { start: &start, facts: &facts, own: Some(&left[..n]), ..*ask });
        let Some((n, (arm, default))) = (1..=longest).rev().find_map(|n| Some((n, take(n).ok()?))) else {
            let why = take(1).err().unwrap_or_default();
            return Err(ask.no("piece_has_point", format!("no rule has one for block `{}`: {why}", left[0])));
        };
        start = arm.found.start.clone();
        let own: Vec<Name> = left.drain(..n).collect();
        let launches = if arm.space.form == BLOCK_BY_BLOCK { 1 } else { n };
        for blocks in own.chunks(launches) {
            seams.pieces.push(arms.len());
            seams.uses.push(Uses::of_blocks(ask.start, blocks));
        }
        longest = left.len();
        arms.push(arm);
        defaults.push(default);
    }
    let pairs = seams.pairs();
    // A launch less is worth more than what trees tell apart, who see one piece alone and would give each its own number of threads.
    for piece in pairs.iter().flat_map(|(a, b)| [*a, *b]) {
        defaults[piece] = arms[piece].default_by_hand().unwrap_or_else(|| defaults[piece].clone());
    }
    for (a, b) in pairs {
        agree(&arms, &mut defaults, [a, b]);
    }
    Ok(Found::new(start, Pieces { arms: arms.into(), defaults, seams: seams.into() }))
}

/// Gives the second piece, else the first, another default that differs in one knob, by which blocks of both have as many
/// threads; of neither where no such value is legal.
fn agree(arms: &[Arm], defaults: &mut [Knobs], [a, b]: [usize; 2]) {
    let fits = |x: &Knobs, y: &Knobs| alike(arms, [x, y], [a, b]);
    let (first, second) = (defaults[a].clone(), defaults[b].clone());
    if fits(&first, &second) {
        return;
    }
    let others = |i: usize, point: &Knobs| -> Vec<Knobs> {
        let space = &arms[i].space;
        let of =
            |k: &Knob| legal_values(space, k, point).into_iter().map(|v| point.with(&k.name, v)).collect::<Vec<_>>();
        space.knobs.iter().flat_map(of).collect()
    };
    if let Some(near) = others(b, &second).into_iter().find(|k| fits(&first, k)) {
        defaults[b] = near;
    } else if let Some(near) = others(a, &first).into_iter().find(|k| fits(k, &second)) {
        defaults[a] = near;
    }
}

/// The rule that stands untuned for the blocks, with its default, or what each rule of the target says against them.
fn take(ask: &Ask) -> Result<(Arm, Knobs), String> {
    let (mut arms, mut against) = (vec![], vec![]);
    let may =
        |r: &&Rule| r.kind == ask.target.kind && !is_form_of(r.name, "pieces") && (!ask.resort || r.is_last_resort());
    for rule in RULES.iter().filter(may) {
        let declined = match Arm::of(&Ask { rule, ..*ask }) {
            Ok(arm) if arm.space.default().is_some() => {
                arms.push(arm);
                continue;
            }
            Ok(_) => "legal_point".into(),
            Err(d) => d.reason.predicate,
        };
        against.push(format!("{}: {declined}", rule.name));
    }
    let first = stands(&arms.iter().collect::<Vec<_>>());
    let with_default = |arm: Arm| arm.default().map(|default| (arm, default));
    arms.into_iter().nth(first).and_then(with_default).ok_or_else(|| against.join(", "))
}

/// The knobs of all pieces: values are given out knob by knob in table order, the first knob of each
/// piece first, for as long as the points can be listed.
fn knobs(pieces: &[Arm], defaults: &[Knobs]) -> Vec<Knob> {
    let mut out: Vec<Vec<Knob>> = vec![];
    for (i, (piece, point)) in pieces.iter().zip(defaults).enumerate() {
        let named = |k: &Knob| Knob {
            name: format!("part{i}.{}", k.name),
            default: point.get(&k.name),
            values: vec![point.get(&k.name)],
            ..k.clone()
        };
        // One knob merges all launches.
        out.push(piece.space.knobs.iter().filter(|k| k.name != merge::KNOB).map(named).collect());
    }
    let mut points = 1u64;
    let deepest = out.iter().map(Vec::len).max().unwrap_or(0);
    for depth in 0..deepest {
        for ((piece, point), own) in pieces.iter().zip(defaults).zip(&mut out) {
            let Some(knob) = own.get_mut(depth) else { continue };
            let Some(full) = piece.space.knobs.iter().filter(|k| k.name != merge::KNOB).nth(depth) else { continue };
            let values = legal_values(&piece.space, full, point);
            let n = points.saturating_mul(values.len() as u64);
            if n <= MOST_POINTS {
                points = n;
                knob.values = values;
            }
        }
    }
    out.into_iter().flatten().collect()
}

/// The values that are legal beside the defaults of the other knobs; the default itself is.
fn legal_values(space: &Space, knob: &Knob, point: &Knobs) -> Vec<i64> {
    let legal = |v: &i64| *v == point.get(&knob.name) || space.check(&point.with(&knob.name, *v)).is_ok();
    knob.values.iter().copied().filter(legal).collect()
}

/// The knobs of one piece, under their own names.
fn of_piece(knobs: &Knobs, piece: usize) -> Knobs {
    let prefix = format!("part{piece}.");
    let own = |(name, value): (&String, &i64)| Some((name.strip_prefix(&prefix)?.to_string(), *value));
    Knobs(knobs.0.iter().filter_map(own).collect())
}

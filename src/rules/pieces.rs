//! `pieces.cuda` and `pieces.cpu`: functions that no rule takes whole, as several kernels.
//!
//! When: after inlining several blocks are left, and runs of neighbouring blocks have rules.
//! How: from the first block on, the longest run of blocks that some rule takes is one piece; the pieces
//! are scheduled one after the other by their rules, and what one leaves for the next is in global memory.
//! What a rule found in a piece stays true while the pieces before it are scheduled: they touch their own
//! blocks only. The knobs are those of the pieces, `part0.threads` and so on; so that the space stays one that
//! can be listed, each piece keeps all values of some knobs and the default of the others.
//! Declines: `target_kind`, `several_pieces`; `pieces.cuda`: `piece_has_point`.
//!
//! ```text
//! pieces.cuda on cuda:sm_90a
//! before: float32 A[64, 256]
//!         float32 O0[i] += A[i, k]
//!         float32 O1[k] += A[i, k]
//! after:  blockIdx.x 64 [min_blocks=4]:
//!           threadIdx.x 128:
//!             O0_rf.local = 0
//!             unroll 1 [batch_loads=1 tile=sum]:
//!               vector 2 [cache_hint=streaming]: A_local = A
//!               unroll 2: O0_rf.local += A_local
//!           threadIdx.x 128: O0_local += O0_rf.local
//!           O0 = O0_local
//!         blockIdx.x 16 [min_blocks=8]:
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

use super::{Accepted, Answer, Arm, Ask, Found, Knob, Knobs, Outline, RULES, Rule, Space, is_form_of};
use crate::analysis::Facts;
use crate::ir::Reason;
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};
use std::sync::Arc;

/// The rule for GPUs.
pub const CUDA: Rule = Rule::new(Kind::Cuda, "pieces.cuda", include_str!("../../schedules/pieces.cuda.toml"), cut);

/// The rule for the CPU.
pub const CPU: Rule = Rule::new(Kind::Cpu, "pieces.cpu", include_str!("../../schedules/pieces.cpu.toml"), cut);

/// Points of all pieces together at most, legal or not.
const MOST_POINTS: u64 = 20_000;

/// The pieces in program order, each with the default of its knobs.
struct Pieces {
    arms: Arc<[Arm]>,
    defaults: Vec<Knobs>,
}

impl Accepted for Pieces {
    fn constrain(&self, own: Space, _: &Target) -> Space {
        let arms = self.arms.clone();
        let whole = Space::new(own.form, own.version, knobs(&self.arms, &self.defaults));
        whole.require("piece_is_legal", move |k| {
            arms.iter().enumerate().try_for_each(|(i, arm)| {
                let illegal = |why: Reason| format!("piece {i} ({}): {why}", arm.space.form);
                arm.space.check(&of_piece(k, i)).map_err(illegal)
            })
        })
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Result<(), ScheduleError> {
        self.arms.iter().enumerate().try_for_each(|(i, arm)| arm.go_on(s, &of_piece(k, i)))
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        // A piece of which nothing is known costs the same at every point.
        let parts = self.arms.iter().enumerate().filter_map(|(i, arm)| arm.outline(&of_piece(k, i)));
        let launches: Vec<_> = parts.flat_map(|o| o.launches).collect();
        (!launches.is_empty()).then_some(Outline { launches })
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
    let mut longest = left.len() - 1;
    while !left.is_empty() {
        let facts = Facts::of(start.func());
        let take = |n: usize| take(&Ask { start: &start, facts: &facts, own: Some(&left[..n]), ..*ask });
        let Some((n, (arm, default))) = (1..=longest).rev().find_map(|n| Some((n, take(n).ok()?))) else {
            let why = take(1).err().unwrap_or_default();
            return Err(ask.no("piece_has_point", format!("no rule has one for block `{}`: {why}", left[0])));
        };
        start = arm.found.start.clone();
        left.drain(..n);
        longest = left.len();
        arms.push(arm);
        defaults.push(default);
    }
    Ok(Found::new(start, Pieces { arms: arms.into(), defaults }))
}

/// The first rule that takes the blocks, with its default, or what each rule of the target says against them.
fn take(ask: &Ask) -> Result<(Arm, Knobs), String> {
    let mut against = vec![];
    let may =
        |r: &&Rule| r.kind == ask.target.kind && !is_form_of(r.name, "pieces") && (!ask.resort || r.is_last_resort());
    for rule in RULES.iter().filter(may) {
        let declined = match Arm::of(&Ask { rule, ..*ask }) {
            Ok(arm) => match arm.default() {
                Some(default) => return Ok((arm, default)),
                None => "legal_point".into(),
            },
            Err(d) => d.reason.predicate,
        };
        against.push(format!("{}: {declined}", rule.name));
    }
    Err(against.join(", "))
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
        out.push(piece.space.knobs.iter().map(named).collect());
    }
    let mut points = 1u64;
    let deepest = out.iter().map(Vec::len).max().unwrap_or(0);
    for depth in 0..deepest {
        for ((piece, point), own) in pieces.iter().zip(defaults).zip(&mut out) {
            let (Some(full), Some(knob)) = (piece.space.knobs.get(depth), own.get_mut(depth)) else { continue };
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

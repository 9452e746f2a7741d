//! `pieces.cuda` and `pieces.cpu`: functions that no rule takes whole, as several kernels.
//!
//! When: after inlining several blocks are left, and runs of neighbouring blocks have rules.
//! How: from the first block on, the longest run of blocks that some rule takes is one piece; the pieces
//! are scheduled one after the other by their rules, and what one leaves for the next is in global memory.
//! The knobs are those of the pieces, `part0.threads` and so on; so that the space stays one that can
//! be listed, each piece keeps all values of some knobs and the default of the others.
//! Declines: `target_kind`, `several_pieces`, `piece_has_rule`, `piece_has_point`.

use super::{
    Illegal, Knob, Knobs, Outline, Prepared, RULES, ScheduleRule, Space, Spaces, accepted, for_kind, is_form_of,
};
use crate::analysis::Decline;
use crate::ir::Name;
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};
use std::sync::{Arc, Mutex, PoisonError};

/// The rule for one kind of target.
pub struct Pieces(pub Kind);

/// Points of all pieces together at most, legal or not.
const MOST_POINTS: u64 = 20_000;

impl ScheduleRule for Pieces {
    fn name(&self) -> &'static str {
        match self.0 {
            Kind::Cuda => "pieces.cuda",
            Kind::Cpu => "pieces.cpu",
        }
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let start = input.start();
        let whole = take(&input.piece(&start, &input.blocks(&start)), target, spaces);
        self.space_beside(whole.ok().map(|(rule, _)| rule.name()), input, target, spaces)
    }

    fn space_beside(
        &self,
        whole: Option<&'static str>,
        input: &Prepared,
        target: &Target,
        spaces: &Spaces,
    ) -> Result<Space, Decline> {
        let (pieces, subspaces): (Vec<Piece>, Vec<Space>) = self.cut(whole, input, target, spaces)?.into_iter().unzip();
        input.cuts.of(target, || pieces);
        joined(spaces.space(self.name(), target), subspaces)
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        // Which rule takes a piece does not depend on the values in the tables.
        let cut = || accepted(self.cut(None, input, target, &Spaces::built_in()));
        let pieces = input.cuts.of(target, || cut().into_iter().map(|(piece, _)| piece).collect());
        let mut s = input.start();
        for (i, piece) in pieces.iter().enumerate() {
            s = piece.rule.schedule(&input.piece(&s, &piece.blocks), target, &of_piece(knobs, i))?;
        }
        Ok(s)
    }
}

impl Pieces {
    /// The pieces in program order, with their spaces; `whole` is a rule that takes all of the function.
    fn cut(
        &self,
        whole: Option<&'static str>,
        input: &Prepared,
        target: &Target,
        spaces: &Spaces,
    ) -> Result<Vec<(Piece, Space)>, Decline> {
        for_kind(self.name(), self.0, target)?;
        let no = |predicate, reason: String| Err(Decline { by: self.name(), predicate, reason });
        let start = input.start();
        let mut left = input.blocks(&start);
        if left.len() < 2 {
            return no("several_pieces", "one block is left after inlining".into());
        }
        if let Some(rule) = whole {
            return no("several_pieces", format!("{rule} takes the function whole"));
        }
        let ask = |blocks: &[Name]| take(&input.piece(&start, blocks), target, spaces);
        let mut out = vec![];
        let mut longest = left.len() - 1;
        while !left.is_empty() {
            let Some((n, (rule, space))) = (1..=longest).rev().find_map(|n| Some((n, ask(&left[..n]).ok()?))) else {
                let why = ask(&left[..1]).err().unwrap_or_default();
                return no("piece_has_rule", format!("no rule takes block `{}`: {why}", left[0]));
            };
            out.push((Piece { rule, blocks: left.drain(..n).collect() }, space));
            longest = left.len();
        }
        Ok(out)
    }
}

/// Neighbouring blocks and the rule that takes them.
#[derive(Debug)]
struct Piece {
    rule: &'static dyn ScheduleRule,
    blocks: Vec<Name>,
}

/// The pieces of a function, for each target that they were asked for.
#[derive(Clone, Debug, Default)]
pub struct Cuts(Arc<Mutex<Vec<Cut>>>);

type Cut = (Target, Arc<[Piece]>);

impl Cuts {
    /// Those for a target, cut where they are not known yet.
    fn of(&self, target: &Target, cut: impl FnOnce() -> Vec<Piece>) -> Arc<[Piece]> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pieces)) = known.iter().find(|(t, _)| t == target) {
            return pieces.clone();
        }
        let pieces: Arc<[Piece]> = cut().into();
        known.push((target.clone(), pieces.clone()));
        pieces
    }
}

/// The space of all pieces together, given the empty one of the rule.
fn joined(own: Space, subspaces: Vec<Space>) -> Result<Space, Decline> {
    let by = own.form;
    let subspaces: Vec<Space> = subspaces.into_iter().map(Space::settle).collect();
    let defaults: Option<Vec<Knobs>> = subspaces.iter().map(Space::default).collect();
    let Some(defaults) = defaults else {
        let reason = "no combination of a piece's knobs is legal".into();
        return Err(Decline { by, predicate: "piece_has_point", reason });
    };
    let subspaces = Arc::new(subspaces);
    let knobs = knobs(&subspaces, &defaults);
    let default = Knobs(knobs.iter().map(|k| (k.name.clone(), k.default)).collect());
    let whole = Space::new(by, own.version, knobs);
    let checked = subspaces.clone();
    let whole = whole.require("piece_is_legal", move |k| {
        checked.iter().enumerate().try_for_each(|(i, space)| {
            let illegal = |e: Illegal| format!("piece {i} ({}): {}: {}", space.form, e.predicate, e.reason);
            space.check(&of_piece(k, i)).map_err(illegal)
        })
    });
    let outline = move |k: &Knobs| -> Option<Outline> {
        let parts = subspaces.iter().enumerate().map(|(i, space)| space.outline(&of_piece(k, i)));
        Some(Outline { launches: parts.collect::<Option<Vec<_>>>()?.into_iter().flat_map(|o| o.launches).collect() })
    };
    Ok(match outline(&default) {
        Some(_) => whole.outlined(move |k| outline(k).unwrap_or_default()),
        None => whole,
    })
}

/// The first rule that takes these blocks, or what each rule of the target says against it.
fn take(input: &Prepared, target: &Target, spaces: &Spaces) -> Result<(&'static dyn ScheduleRule, Space), String> {
    let mut against = vec![];
    for rule in RULES.iter().filter(|r| !is_form_of(r.name(), "pieces")) {
        match rule.space(input, target, spaces) {
            Ok(space) => return Ok((*rule, space)),
            Err(d) if d.predicate == "target_kind" => {}
            Err(d) => against.push(format!("{}: {}", rule.name(), d.predicate)),
        }
    }
    Err(against.join(", "))
}

/// The knobs of all pieces: values are given out knob by knob in table order, the first knob of each
/// piece first, for as long as the points can be listed.
fn knobs(pieces: &[Space], defaults: &[Knobs]) -> Vec<Knob> {
    let mut out: Vec<Vec<Knob>> = vec![];
    for (i, (space, point)) in pieces.iter().zip(defaults).enumerate() {
        let named = |k: &Knob| Knob {
            name: format!("part{i}.{}", k.name),
            default: point.get(&k.name),
            values: vec![point.get(&k.name)],
            ..k.clone()
        };
        out.push(space.knobs.iter().map(named).collect());
    }
    let mut points = 1u64;
    let deepest = pieces.iter().map(|s| s.knobs.len()).max().unwrap_or(0);
    for depth in 0..deepest {
        for ((space, point), own) in pieces.iter().zip(defaults).zip(&mut out) {
            let (Some(full), Some(knob)) = (space.knobs.get(depth), own.get_mut(depth)) else { continue };
            let values = legal_values(space, full, point);
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

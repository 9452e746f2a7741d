//! Ranking without a device: the prior orders the legal points, the best are compiled, and what the
//! compiler then says (registers, spills, shared memory, machine code) takes the place of guesses.
//!
//! What the target could not launch is left out, and so is what spills registers, unless nothing else is found. Candidate 0 stays first
//! unless another of its rule promises a tenth more: across rules and below that the model's order is no better than chance (docs/blackwell.md).

use super::pipeline::{Build, Built};
use super::{Arms, Occupancy, Point, occupancy};
use crate::backend::{Artifact, Compiler, Warning};
use crate::ir::Reason;
use crate::rules::prior;
use rayon::prelude::*;
use std::collections::BTreeSet;

/// Reads machine code of an artifact as text; `None` where no tool can.
pub type Disassemble<'a> = &'a (dyn Fn(&Artifact) -> Option<String> + Sync);

/// So many times as many points are compiled, while all of them spill or cannot be launched.
const TURNS: usize = 4;

/// A candidate with its place in the ranking.
pub struct Ranked {
    /// The point.
    pub point: Point,
    /// Lower is better; comparable within one function and target, and no time.
    pub score: f64,
    /// Its text.
    pub built: Built,
    /// Its program.
    pub artifact: Artifact,
    /// What it takes of a multiprocessor; `None` on a CPU.
    pub occupancy: Option<Occupancy>,
}

/// A point that was chosen and is not ranked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unranked {
    /// The point.
    pub point: Point,
    /// The predicate that rules it out, or how compiling ended, as the log names it.
    pub why: Reason,
}

/// The default and the `trials` best points by the prior, compiled and ranked, best first, and those
/// that could not be. Points of the same text count once. While all spill or cannot be launched, the next best follow.
pub fn predict(
    arms: &Arms,
    build: &dyn Build,
    compiler: &dyn Compiler,
    disassemble: Disassemble<'_>,
    trials: usize,
) -> (Vec<Ranked>, Vec<Unranked>) {
    let (mut ranked, mut unranked) = (vec![], vec![]);
    let mut texts = BTreeSet::new();
    let order = in_order(arms, TURNS * trials.max(1));
    // Where nothing tells points apart, the default is as good as any.
    let at_a_time = if is_blind(arms) { 1 } else { trials.max(1) };
    for turn in order.chunks(at_a_time) {
        let make = |point: &Point| one(arms, build, compiler, disassemble, point);
        let made: Vec<Result<Ranked, Unranked>> = turn.par_iter().map(make).collect();
        for one in made {
            match one {
                Ok(r) if texts.insert(r.built.source_hash()) => ranked.push(r),
                Ok(_) => {}
                Err(why) => unranked.push(why),
            }
        }
        if ranked.iter().any(|r| !spills(r)) {
            break;
        }
    }
    unranked.extend(leave_out_spills(&mut ranked));
    ranked.sort_by(|a, b| a.score.total_cmp(&b.score));
    (ranked, unranked)
}

fn one(
    arms: &Arms,
    build: &dyn Build,
    compiler: &dyn Compiler,
    disassemble: Disassemble<'_>,
    point: &Point,
) -> Result<Ranked, Unranked> {
    let not = |why| Unranked { point: point.clone(), why };
    let built = build.build(point).map_err(not)?;
    let artifact = compiler.compile(&built.source).map_err(|e| not(Reason::new(e.outcome().name(), e.message)))?;
    let occupancy = Occupancy::of(&built.plan, artifact.res, &arms.target);
    occupancy.as_ref().map_or(Ok(()), |o| o.check(&arms.target)).map_err(not)?;
    let score = score(arms, point, &artifact, disassemble);
    Ok(Ranked { point: point.clone(), score, built, artifact, occupancy })
}

/// True where the rule of candidate 0 has no outlines.
fn is_blind(arms: &Arms) -> bool {
    let arm = arms.defaults().first().map(|default| default.arm);
    let some = arms.points().iter().position(|p| Some(p.arm) == arm);
    some.is_none_or(|place| arms.landscape().is_blind(place))
}

fn spills(r: &Ranked) -> bool {
    occupancy::spills(r.artifact.res).is_some()
}

/// Takes out what spills, where something does not.
fn leave_out_spills(ranked: &mut Vec<Ranked>) -> Vec<Unranked> {
    if ranked.iter().all(spills) {
        return vec![];
    }
    let (out, kept): (Vec<Ranked>, Vec<Ranked>) = ranked.drain(..).partition(spills);
    *ranked = kept;
    out.into_iter().filter_map(|r| Some(Unranked { why: occupancy::spills(r.artifact.res)?, point: r.point })).collect()
}

/// Candidate 0, then the best priors of its rule, then those of others, `most` in all. Of points that the prior cannot tell apart (other cache hints, launch
/// bounds that do not bind) the first stands for all.
pub fn in_order(arms: &Arms, most: usize) -> Vec<Point> {
    let land = arms.landscape();
    let mut out: Vec<Point> = arms.defaults().into_iter().take(1).collect();
    let elsewhere = |place: usize| out.first().is_some_and(|default| land.arm[place] != default.arm);
    let mut order: Vec<usize> = (0..arms.points().len()).collect();
    order.sort_by(|a, b| elsewhere(*a).cmp(&elsewhere(*b)).then(land.prior[*a].total_cmp(&land.prior[*b])));
    order.dedup_by(|a, b| !land.is_blind(*a) && !land.is_blind(*b) && land.prior[*a] == land.prior[*b]);
    for place in order {
        if out.len() >= most {
            break;
        }
        let point = &arms.points()[place];
        if !out.contains(point) {
            out.push(point.clone());
        }
    }
    out
}

fn score(arms: &Arms, point: &Point, artifact: &Artifact, disassemble: Disassemble<'_>) -> f64 {
    let known = || prior::Compiled {
        regs: artifact.res.regs,
        spill: artifact.res.spill,
        smem: artifact.res.smem,
        loop_instructions: disassemble(artifact).and_then(|text| loop_instructions(&text)),
        serialised: artifact.warnings.iter().any(Warning::loses_speed),
    };
    score_of(arms, point, known)
}

/// The default is left for a candidate that promises to take less than this part of its time.
const WORTH: f64 = 0.9;

/// The score of a point of whose kernel the compiler said that; the prior's alone where the rule has no outline. That of candidate 0
/// counts for less, by as much as another has to promise to be taken.
pub fn score_of(arms: &Arms, point: &Point, compiled: impl FnOnce() -> prior::Compiled) -> f64 {
    let land = arms.landscape();
    let prior = || land.place(point).map_or(1.0, |place| land.prior[place].exp());
    let outline = arms.of(point).outline(&point.knobs);
    let score = outline.map_or_else(prior, |o| prior::compiled_ns(&o, &arms.target, &compiled()));
    if arms.defaults().first() == Some(point) { WORTH * score } else { score }
}

/// Instructions of the longest loop of machine code as `nvdisasm` prints it; of all the code up to its
/// last `EXIT` where it has no loop. `None` where there are none.
pub fn loop_instructions(sass: &str) -> Option<u32> {
    let mut labels: Vec<(&str, u32)> = vec![];
    let (mut count, mut longest) = (0, 0);
    for line in sass.lines().map(str::trim) {
        if let Some(label) = line.strip_suffix(':') {
            labels.push((label, count));
        } else if line.starts_with("/*") && line.ends_with("*/") || line.contains(" ;") {
            if !line.contains(';') {
                continue;
            }
            count += 1;
            // A branch to itself after the last EXIT ends every kernel.
            let back = labels.iter().filter(|(label, at)| line.contains(&format!("`({label})")) && *at + 1 < count);
            longest = back.map(|(_, at)| count - at).fold(longest, u32::max);
        }
    }
    Some(if longest > 0 { longest } else { count }).filter(|n| *n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_loop_counts() {
        let code = "
.text.k:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/                   LDG.E.128 R4, [R2] ;
        /*0020*/                   FADD R0, R0, R4 ;
        /*0030*/              @!P0 BRA `(.L_x_0) ;
        /*0040*/                   EXIT ;
.L_x_1:
        /*0050*/                   BRA `(.L_x_1);
        /*0060*/                   NOP;
";
        assert_eq!(loop_instructions(code), Some(3));
        assert_eq!(loop_instructions("\t.headerflags @\"EF\"\n"), None);
        assert_eq!(loop_instructions(" /*0000*/ MOV R1, R2 ;\n /*0010*/ EXIT ;\n"), Some(2));
    }
}

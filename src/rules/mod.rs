//! Schedule rules: each says whether a function is its own, what may vary, and how to schedule it.
//!
//! A rule does no I/O, reads fields of [`Target`] and never its name, and decides once: `Rule::accept`
//! declines, or gives what it found in the function ([`Accepted`]). That puts conditions on the knobs and
//! schedules every point that meets them, with nothing left to find out. Every rule is asked, and tuning lets
//! those that accept compete.

// A path begins with a module of `daylight` everywhere, in that module too.
extern crate self as rules;

use daylight_analysis as analysis;
use daylight_ir as ir;
use daylight_schedule as schedule;
use daylight_target as target;

mod arm;
mod ask;
mod choice;
mod cluster;
mod find;
mod gemv;
#[doc(hidden)]
pub mod made_up;
mod matmul;
mod merge;
mod moves;
mod norm;
mod parts;
mod pieces;
pub mod prior;
mod reduction;
mod serial;
mod space;
mod window;

pub use arm::{Accepted, Arm, Found};
pub use ask::Ask;
pub use find::factor::Factor;
pub use find::gemm::{Gemm, Matrix};
pub use find::prepared::Prepared;
pub use find::product::{Product, Tail};
pub use space::knobs::{Knobs, unknown};
pub use space::outline::{Combine, LaunchOutline, Outline};
pub use space::tables::Spaces;
pub use space::{Census, Constraint, Knob, Space};

use crate::analysis::Decline;
use crate::target::{Kind, Target};

/// A schedule rule.
pub struct Rule {
    /// What it schedules for.
    pub kind: Kind,
    /// Name of the rule form, which is also the name of its knob table.
    pub name: &'static str,
    /// The knob table as it is built in.
    pub table: &'static str,
    /// Takes a function for a target of its kind, or gives the first named predicate that does not hold.
    accept: fn(&Ask) -> Answer,
}

/// What a rule found in a function that it takes, or why it does not.
pub type Answer = Result<Found, Decline>;

impl Rule {
    const fn new(kind: Kind, name: &'static str, table: &'static str, accept: fn(&Ask) -> Answer) -> Rule {
        Rule { kind, name, table, accept }
    }

    /// True for the rules that ask least of a function.
    fn is_last_resort(&self) -> bool {
        ["fallback", "reduction.any", "reduction.any_cpu", "serial", "pieces"].iter().any(|r| is_form_of(self.name, r))
    }

    /// True for the rules that know of loops inside of blocks.
    fn takes_loops_inside(&self) -> bool {
        ["serial", "pieces"].iter().any(|r| is_form_of(self.name, r))
    }
}

/// All rules; untuned use takes the first that does not decline, or a product in tiles that promises much more ([`untuned`]).
pub const RULES: &[Rule] = &[
    gemv::dense::INNER,
    gemv::dense::CPU,
    gemv::quant_inner::QUANT,
    matmul::stream::STREAM,
    matmul::wgmma_quant::WGMMA_QUANT,
    matmul::quant::QUANT,
    gemv::quant_inner::LOW_BATCH,
    gemv::quant_outer::OUTER,
    matmul::block_scale::BLOCK_SCALE,
    matmul::tcgen05_block_scale::TCGEN05_BLOCK_SCALE,
    matmul::tcgen05::TCGEN05,
    matmul::wgmma::WGMMA,
    matmul::wgmma_swap_ab::WGMMA_SWAP_AB,
    matmul::mma::MMA,
    matmul::wgmma_tf32x3::WGMMA_TF32X3,
    matmul::mma_tf32x3::MMA_TF32X3,
    matmul::fma::FMA,
    gemv::quant_cpu::INNER,
    gemv::quant_cpu::OUTER,
    reduction::inner::INNER,
    reduction::outer::OUTER,
    reduction::cpu::INNER,
    reduction::cpu::OUTER,
    norm::rows::ROWS,
    moves::transpose::CUDA,
    moves::transpose_cpu::CPU,
    window::rule::CUDA,
    window::rule::CPU,
    gemv::low_batch_cpu::CPU,
    matmul::cpu::CPU,
    norm::cpu::CPU,
    moves::fallback::CUDA,
    moves::fallback::CPU,
    reduction::any::CUDA,
    reduction::any::CPU,
    serial::CUDA,
    serial::CPU,
    pieces::CUDA,
    pieces::CPU,
];

/// What a rule says of a function.
pub struct Verdict {
    /// Name of the rule.
    pub rule: &'static str,
    /// What it found, with its space, or why it declines.
    pub arm: Result<Arm, Decline>,
}

/// Asks every rule.
pub fn verdicts(input: &Prepared, target: &Target, spaces: &Spaces) -> Vec<Verdict> {
    asked(input, target, spaces, false)
}

/// The rule whose default stands untuned, of those that take a function: one of `verdicts`.
pub fn untuned(verdicts: &[Verdict]) -> Option<&Verdict> {
    let taken: Vec<(&Verdict, &Arm)> = verdicts.iter().filter_map(|v| Some((v, v.arm.as_ref().ok()?))).collect();
    let arms: Vec<&Arm> = taken.iter().map(|(_, arm)| *arm).collect();
    taken.get(stands(&arms)).map(|(v, _)| *v)
}

/// Position of the rule whose default stands untuned: the first, or another of which measured candidates promise much less time.
/// By the prior alone it is the first, or a product in tiles: of other rules the prior was wrong (docs/search.md). A rule that is
/// slow for its arithmetic is left as well, though the prior would not choose a point by that.
fn stands(arms: &[&Arm]) -> usize {
    let [first, others @ ..] = arms else { return 0 };
    if others.is_empty() {
        return 0;
    }
    if let Some(judged) = first.judged() {
        return choice::judged(judged, others.iter().map(|a| a.judged()));
    }
    let tiled = first.tiled_ns();
    choice::rule(tiled.or_else(|| first.guess_ns()), others.iter().map(|a| a.tiled_ns()), tiled.is_some())
}

/// The arms of `verdicts`, that whose default stands untuned first, the others in the order of the rules.
pub fn arms(verdicts: Vec<Verdict>) -> Vec<Arm> {
    let mut arms: Vec<Arm> = verdicts.into_iter().filter_map(|v| v.arm.ok()).collect();
    let first = stands(&arms.iter().collect::<Vec<_>>());
    if first > 0 {
        arms[..=first].rotate_right(1);
    }
    arms
}

/// What takes a function of which no kernel can be made by the rules that take it: the rules of last resort, for all of it
/// or piece by piece.
pub fn last_resorts(input: &Prepared, target: &Target, spaces: &Spaces) -> Vec<Arm> {
    asked(input, target, spaces, true).into_iter().filter_map(|v| v.arm.ok()).collect()
}

fn asked(input: &Prepared, target: &Target, spaces: &Spaces, resort: bool) -> Vec<Verdict> {
    let mut whole = None;
    let mut asked = |rule: &'static Rule| {
        let ask = Ask { whole, resort, ..Ask::of(rule, input, target, spaces) };
        let arm = Arm::of(&ask)?;
        if arm.space.default().is_none() {
            return Err(ask.no("legal_point", "no combination of its knobs is legal for this function"));
        }
        if !arm.found.beside_pieces {
            whole.get_or_insert(rule.name);
        }
        Ok(arm)
    };
    let rules = RULES.iter().filter(|rule| !resort || rule.is_last_resort());
    rules.map(|rule| Verdict { rule: rule.name, arm: asked(rule) }).collect()
}

/// True when the rule form `name` is `wanted` or one of its forms (`reduction` covers
/// `reduction.inner`).
pub fn is_form_of(name: &str, wanted: &str) -> bool {
    name == wanted || name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'))
}

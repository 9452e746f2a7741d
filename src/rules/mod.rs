//! Schedule rules: each says whether a function is its own, what may vary, and how to schedule it.
//!
//! A rule does no I/O, reads fields of [`Target`] and never its name, and decides everything before
//! it changes anything: [`ScheduleRule::space`] declines or gives a knob space, and then
//! [`ScheduleRule::schedule`] works for every legal point of it. Every rule is asked, and tuning lets
//! those that accept compete.

mod find;
mod gemv;
mod matmul;
mod moves;
mod norm;
mod parts;
mod pieces;
mod reduction;
mod space;
mod window;

pub use find::einsum::{Einsum, Major, Stage};
pub use find::factor::Factor;
pub use find::prepared::Prepared;
pub use find::product::{Product, Tail};
pub use space::knobs::Knobs;
pub use space::outline::{Combine, LaunchOutline, Outline};
pub use space::tables::{Spaces, unknown};
pub use space::{Census, Constraint, Illegal, Knob, Space};

use crate::analysis::Decline;
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};

/// A schedule rule.
pub trait ScheduleRule: Sync {
    /// Name of the rule form, which is also the name of its knob table.
    fn name(&self) -> &'static str;

    /// The knob space for this function on this target.
    ///
    /// # Errors
    /// The first named predicate that does not hold: the function is not this rule's.
    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline>;

    /// `space` after the rules before this one were asked; `whole` is the first of them that takes the function.
    ///
    /// # Errors
    /// As `space`; what only takes functions that no other rule does may decline for that.
    fn space_beside(
        &self,
        _whole: Option<&'static str>,
        input: &Prepared,
        target: &Target,
        spaces: &Spaces,
    ) -> Result<Space, Decline> {
        self.space(input, target, spaces)
    }

    /// The schedule at one legal point of the space.
    ///
    /// # Errors
    /// A step whose precondition fails, which is a bug of the rule.
    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError>;
}

impl std::fmt::Debug for dyn ScheduleRule {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// All rules; untuned use takes the first that does not decline.
pub const RULES: &[&dyn ScheduleRule] = &[
    &gemv::dense::GemvInner,
    &gemv::dense::GemvCpu,
    &gemv::quant_inner::GemvQuant,
    &gemv::quant_inner::LowBatchInner,
    &gemv::quant_outer::GemvQuantOuter,
    &matmul::mma::MatmulMma,
    &matmul::fma::MatmulFma,
    &gemv::quant_cpu::GemvQuantCpu,
    &gemv::quant_cpu::GemvQuantOuterCpu,
    &reduction::inner::ReductionInner,
    &reduction::outer::ReductionOuter,
    &reduction::cpu::ReductionCpu,
    &reduction::cpu::ReductionOuterCpu,
    &norm::rows::GeneralReduction,
    &norm::cpu::GeneralReductionCpu,
    &moves::transpose::TransposeCuda,
    &moves::transpose_cpu::TransposeCpu,
    &window::rule::WindowCuda,
    &window::rule::WindowCpu,
    &gemv::low_batch_cpu::LowBatchCpu,
    &matmul::cpu::MatmulCpu,
    &moves::fallback::FallbackCuda,
    &moves::fallback::FallbackCpu,
    &pieces::Pieces(Kind::Cuda),
    &pieces::Pieces(Kind::Cpu),
];

/// Declines targets of another kind than the one that a rule schedules for.
fn for_kind(by: &'static str, kind: Kind, target: &Target) -> Result<(), Decline> {
    if target.kind == kind {
        return Ok(());
    }
    Err(Decline { by, predicate: "target_kind", reason: "it schedules for another kind of target".into() })
}

/// What a rule found in a function that it has accepted before.
fn accepted<T>(found: Result<T, Decline>) -> T {
    found.unwrap_or_else(|d| panic!("{} accepted this function: {}", d.by, d.reason))
}

/// What a rule says of a function.
pub struct Verdict {
    /// The rule.
    pub rule: &'static dyn ScheduleRule,
    /// Its space, or why it declines.
    pub space: Result<Space, Decline>,
}

/// Asks every rule.
pub fn verdicts(input: &Prepared, target: &Target, spaces: &Spaces) -> Vec<Verdict> {
    let mut whole = None;
    let mut space = |rule: &dyn ScheduleRule| {
        let space = rule.space_beside(whole, input, target, spaces)?.settle();
        whole.get_or_insert(rule.name());
        match space.default() {
            Some(_) => Ok(space),
            None => Err(Decline {
                by: rule.name(),
                predicate: "legal_point",
                reason: "no combination of its knobs is legal for this function".into(),
            }),
        }
    };
    RULES.iter().map(|rule| Verdict { rule: *rule, space: space(*rule) }).collect()
}

/// The rule of that name.
///
/// # Errors
/// An unknown name, with the nearest.
pub fn rule_by_name(name: &str) -> Result<&'static dyn ScheduleRule, String> {
    let names: Vec<&str> = RULES.iter().map(|r| r.name()).collect();
    RULES.iter().find(|r| r.name() == name).copied().ok_or_else(|| unknown("rule", name, &names))
}

/// True when the rule form `name` is `wanted` or one of its forms (`reduction` covers
/// `reduction.inner`).
pub fn is_form_of(name: &str, wanted: &str) -> bool {
    name == wanted || name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'))
}

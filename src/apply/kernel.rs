//! Kernels with where they came from: replayed from a record, or the default.

use super::ladder;
use super::options::Options;
use super::tvm;
use super::unit::{Content, Rung, Unit};
use super::when::When;
use crate::analysis::answered_for;
use crate::assemble::{Assembly, Exit, Failure, Input, Schedulable};
use crate::backend::Source;
use crate::ir::kernel::Program;
use crate::log;
use crate::schedule::Schedule;

/// A unit without its file, and the text for it.
pub(super) struct Draft {
    pub unit: Unit,
    pub source: Source,
    pub program: Program,
}

/// A kernel with where it came from.
pub(super) struct Kernel {
    assembly: Assembly,
    pub rung: Rung,
    measured_us: Option<f64>,
    knobs: String,
    scheduled: String,
}

/// The kernel of a record's schedule.
pub(super) fn kernel(
    schedule: &Schedule,
    assembly: Assembly,
    rung: Rung,
    (record, measured_us): (&log::Record, Option<f64>),
) -> Kernel {
    let knobs = point(&record.rule, &log::pairs(&record.knobs));
    Kernel { assembly, rung, measured_us, knobs, scheduled: tvm::text(schedule.func()) }
}

/// A rule and a point of its space for comments. Logs may be other people's: what would end the line or comment goes.
fn point(rule: &str, knobs: &str) -> String {
    let plain = |c: char| if c.is_ascii_graphic() && c != '\\' || c == ' ' { c } else { '?' };
    format!("{rule} {knobs}").trim_end().chars().map(plain).collect()
}

/// The unit of a kernel that takes every size of the function.
pub(super) fn draft(name: &str, f: &Input, subject: &Schedulable, kernel: Kernel) -> Draft {
    let unit = Unit {
        name: name.to_string(),
        key: f.key.clone(),
        rung: kernel.rung,
        when: When::Always,
        measured_us: kernel.measured_us,
        knobs: kernel.knobs,
        target: subject.target.clone(),
        params: kernel.assembly.plan.params.clone(),
        plan: kernel.assembly.plan,
        file: String::new(),
        content: Content::C,
        bytes: vec![],
        text: kernel.assembly.source.text.clone(),
        trace: kernel.assembly.trace,
        scheduled: kernel.scheduled,
        untuned: None,
        answered: answered_for(&subject.prepared.func),
    };
    Draft { unit, source: kernel.assembly.source, program: kernel.assembly.program }
}

/// The kernel of a record, which may be exactly the one that was measured.
pub(super) fn replayed(found: ladder::Found<'_>, options: &Options<'_>) -> Kernel {
    let is_exact = found.rung == Rung::SameArch && found.on_machine && is_same(&found, options);
    let rung = if is_exact { Rung::Exact } else { found.rung };
    kernel(&found.schedule, found.assembly, rung, (found.record, found.measured_us))
}

/// True when the text is the measured one and, on a GPU, so is the compiler's version. C is compiled
/// in the user's build, by a compiler that is not known here.
fn is_same(found: &ladder::Found<'_>, options: &Options<'_>) -> bool {
    let (source, record) = (&found.assembly.source, found.record);
    let is_c = source.language == crate::backend::Language::C;
    let same_compiler = || options.cuda.as_ref().is_some_and(|(_, id)| version(id) == version(&record.env.nvrtc));
    record.source_digits() == Some(&source.hash()) && (is_c || same_compiler())
}

/// `13.0` of `nvrtc 13.0.88`.
fn version(compiler: &str) -> Option<(&str, &str)> {
    let number = compiler.split_whitespace().find(|w| w.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut parts = number.split('.');
    Some((parts.next()?, parts.next()?))
}

/// The default of the first rule whose kernel can be made.
pub(super) fn default(f: &Input, subject: &Schedulable, options: &Options<'_>) -> Result<Kernel, Failure> {
    let mut why = vec![];
    for arm in subject.arms(options.spaces) {
        let Some(knobs) = arm.default() else { continue };
        let schedule = arm.schedule(&knobs).map_err(|e| e.to_string());
        let made = schedule.and_then(|s| {
            let assembly = subject.assemble(&s).map_err(|e| e.to_string())?;
            let (rung, knobs) = (Rung::Default, point(arm.space.form, &arm.space.show(&knobs)));
            Ok(Kernel { assembly, rung, measured_us: None, knobs, scheduled: tvm::text(s.func()) })
        });
        match made {
            Ok(found) => return Ok(found),
            Err(e) => why.push(e),
        }
    }
    let target = &subject.target.id;
    let reasons = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
    Err(Failure::new(Exit::Failed, format!("{}: no rule makes a kernel for {target}{reasons}", f.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_of_a_log_stays_in_its_comment() {
        assert_eq!(point("gemv.cpu", "unroll=2 vector=8"), "gemv.cpu unroll=2 vector=8");
        assert_eq!(point("fallback", ""), "fallback");
        assert_eq!(point("x\\", "a=1\n#include \u{2028}"), "x? a=1?#include");
    }

    #[test]
    fn versions_are_compared_by_major_and_minor() {
        assert_eq!(version("nvrtc 13.0.88"), version("nvrtc 13.0"));
        assert_ne!(version("nvrtc 13.1"), version("nvrtc 13.0"));
        assert_eq!(version(""), None);
    }
}

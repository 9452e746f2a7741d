//! Kernels with where they came from: replayed from a record, or the default.

use super::ladder;
use super::options::Options;
use super::tvm;
use super::unit::{Content, Rung, Unit};
use super::when::When;
use crate::analysis::answered_for;
use crate::assemble::{Assembly, Exit, Failure, Input, Schedulable};
use crate::backend::{Language, Source};
use crate::ir::kernel::Program;
use crate::log;
use crate::schedule::Schedule;

/// A unit without its file, and the text for it.
pub(super) struct Draft {
    pub unit: Unit,
    pub source: Source,
    pub program: Program,
    /// Hash of the text that was measured, where nothing else tells the kernel from the measured one.
    measured: Option<String>,
}

impl Draft {
    /// Lets the kernels overlap, where that was asked for and the GPU can.
    pub fn overlap(&mut self, f: &Input, options: &Options<'_>) {
        let Some(overlap) = options.overlap(f, &self.unit.target) else { return };
        let compiler = options.cuda.as_ref().map(|(compiler, _)| *compiler);
        overlap.apply(&self.program, &self.unit.target, (&mut self.source, &mut self.unit.plan), compiler);
        self.unit.text.clone_from(&self.source.text);
        if self.measured.as_ref() == Some(&self.source.hash()) {
            self.unit.rung = Rung::Exact;
        }
    }
}

/// A kernel with where it came from.
pub(super) struct Kernel {
    assembly: Assembly,
    pub rung: Rung,
    measured_us: Option<f64>,
    knobs: String,
    scheduled: String,
    /// As of [`Draft`].
    measured: Option<String>,
}

/// The kernel of a record's schedule.
pub(super) fn kernel(
    schedule: &Schedule,
    assembly: Assembly,
    rung: Rung,
    (record, measured_us): (&log::Record, Option<f64>),
) -> Kernel {
    let knobs = point(&record.rule, &log::pairs(&record.knobs));
    Kernel { assembly, rung, measured_us, knobs, scheduled: tvm::text(schedule.func()), measured: None }
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
    Draft { unit, source: kernel.assembly.source, program: kernel.assembly.program, measured: kernel.measured }
}

/// The kernel of a record, which may be exactly the one that was measured.
pub(super) fn replayed(found: ladder::Found<'_>, options: &Options<'_>) -> Kernel {
    let measured = measured(&found, options);
    let is_exact = measured.as_ref() == Some(&found.assembly.source.hash());
    let rung = if is_exact { Rung::Exact } else { found.rung };
    Kernel { measured, ..kernel(&found.schedule, found.assembly, rung, (found.record, found.measured_us)) }
}

/// Hash of the measured text, where size, machine and, on a GPU, the compiler's version are the measured ones. C is compiled
/// in the user's build, by a compiler that is not known here.
fn measured(found: &ladder::Found<'_>, options: &Options<'_>) -> Option<String> {
    let is_c = found.assembly.source.language == Language::C;
    let same_compiler = || options.cuda.as_ref().is_some_and(|(_, id)| version(id) == version(&found.record.env.nvrtc));
    let all_but_text = found.rung == Rung::SameArch && found.on_machine && (is_c || same_compiler());
    found.record.source_digits().filter(|_| all_but_text).map(str::to_string)
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
        if let Some((compiler, _)) = &options.cuda {
            subject.settle(&arm, *compiler);
        }
        let Some(knobs) = arm.default() else { continue };
        let schedule = arm.schedule(&knobs).map_err(|e| e.to_string());
        let made = schedule.and_then(|s| {
            let assembly = subject.assemble(&s).map_err(|e| e.to_string())?;
            let (rung, knobs) = (Rung::Default, point(arm.space.form, &arm.space.show(&knobs)));
            Ok(Kernel { assembly, rung, measured_us: None, knobs, scheduled: tvm::text(s.func()), measured: None })
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

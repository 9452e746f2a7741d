//! Who takes part in a bench: kernels found, made and compiled.

use super::booth::{Booth, Entrant, Missed, contender};
use super::{kernel_file, library};
use crate::apply::Rung;
use crate::apply::ladder::{self, Wanted};
use crate::assemble::Assembly;
use crate::backend::Compiler;
use crate::cli::args;
use crate::cli::output;
use crate::job::select::{self, Choice};
use crate::job::{Device, Exit, Failure};
use crate::log::{self, Record};
use crate::report::Contender;
use crate::rules::{Arm, Knobs};
use crate::runner::Candidate;
use crate::tune::Arms;
use std::path::Path;

/// Processes that compile what a default is chosen among.
const COMPILERS: usize = 4;

impl Booth<'_> {
    /// All contenders: the tuned kernel, the point chosen by hand, the baselines, each once.
    ///
    /// # Errors
    /// A baseline that is no name and no file; a choice that is wrong.
    pub fn contenders(&self, a: &args::Bench, device: &mut Device) -> Result<Vec<Entrant>, Failure> {
        let mut all = vec![self.logged("tuned", self.records, device)];
        let choice = a.choose.choice();
        if choice != Choice::default() {
            let arms = select::arms(self.subject, &self.cx.spaces, &self.input.name, &choice)?;
            let (arm, knobs) = select::point(&arms, &choice)?;
            all.push(self.point("picked", arm, &knobs, device));
        }
        for (_, name) in a.baseline.iter().enumerate().filter(|(i, name)| !a.baseline[..*i].contains(name)) {
            all.push(self.baseline(name, device)?);
        }
        for (i, (_, candidate)) in all.iter_mut().enumerate() {
            candidate.iter_mut().for_each(|c| c.id = i as u64);
        }
        Ok(all)
    }

    fn baseline(&self, name: &str, device: &mut Device) -> Result<Entrant, Failure> {
        if name == "default" {
            let arms = select::arms(self.subject, &self.cx.spaces, &self.input.name, &Choice::default())?;
            if let Some(first) = arms.first() {
                self.subject.settle(first, &device.compiler(COMPILERS));
            }
            let arms = Arms::new(arms, device.target.clone());
            let first = arms.defaults().into_iter().next();
            let first = first.ok_or_else(|| Failure::new(Exit::Failed, "no point of the space is legal"))?;
            return Ok(self.point(name, arms.of(&first), &first.knobs, device));
        }
        if name == "cublas" {
            return Ok(library::cublas(self, device));
        }
        if let Some((file, symbol)) = kernel_file::named(name) {
            let kernel = kernel_file::read(file, symbol, self.subject, &self.input.bind)?;
            let candidate = device.compiler(1).compile(&kernel.source).map_err(Missed::from);
            let candidate =
                candidate.map(|artifact| Candidate { id: 0, file: artifact.path.clone(), plan: kernel.plan });
            return Ok((contender(name), candidate));
        }
        if Path::new(name).is_dir() || name.ends_with(".jsonl") || name.ends_with(".jsonl.gz") {
            let other = log::read(Path::new(name)).map_err(Failure::usage)?;
            other.skipped.iter().for_each(|s| output::note(&s.to_string()));
            return Ok(self.logged(name, &other.records, device));
        }
        Err(Failure::usage(format!(
            "--baseline {name}: expected default, cublas, FILE.cu:SYMBOL, FILE.c:SYMBOL, or a log (FILE.jsonl or a folder)"
        )))
    }

    /// What a log measured as best on this device, of this size.
    fn logged(&self, name: &str, records: &[Record], device: &Device) -> Entrant {
        let wanted = Wanted { key: &self.input.key, bind: &self.input.bind, target: &device.target.id, flags: &[] };
        let gpu = Some(device.facts.name.as_str());
        let found = ladder::of_size(records, &wanted, gpu, (self.subject, &self.cx.spaces));
        let Some(found) = found.filter(|f| f.on_machine && matches!(f.rung, Rung::Exact | Rung::SameArch)) else {
            let reason =
                format!("the log has no kernel for {} at this size; `daylight tune` finds one", device.describe());
            return (contender(name), Err(Missed::new("absent", Exit::Done, reason)));
        };
        let (rule, knobs) = (Some(found.record.rule.clone()), found.record.knobs.clone());
        (Contender { rule, knobs, ..contender(name) }, compiled(found.assembly, device))
    }

    fn point(&self, name: &str, arm: &Arm, knobs: &Knobs, device: &Device) -> Entrant {
        let contender =
            Contender { rule: Some(arm.space.form.into()), knobs: arm.space.settings(knobs), ..contender(name) };
        let made = self.subject.candidate(arm, knobs);
        let made = made.map_err(|why| Missed::new("compile_failed", Exit::Failed, why.to_string()));
        (contender, made.and_then(|assembly| compiled(assembly, device)))
    }
}

fn compiled(assembly: Assembly, device: &Device) -> Result<Candidate, Missed> {
    let artifact = device.compiler(1).compile(&assembly.source)?;
    Ok(Candidate { id: 0, file: artifact.path.clone(), plan: assembly.plan })
}

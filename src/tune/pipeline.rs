//! Builds and compiles points on several threads, so that measuring starts with the first.

use super::{Arms, Point};
use crate::assemble::{Assembly, Overlap, Schedulable, caught};
use crate::backend::{Artifact, CompileError, Compiler, Plan, Source};
use crate::ir::Reason;
use crate::ir::kernel::ChosenVariant;
use crate::log;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

/// Makes a kernel of a point: schedule, lower, generate. Called from several threads.
pub trait Build: Sync {
    /// The kernel's text and how to launch it.
    ///
    /// # Errors
    /// The predicate that rules the point out, found out before compiling.
    fn build(&self, point: &Point) -> Result<Built, Reason>;
}

/// Makes kernels of points with the rules.
pub struct RuleBuild<'a> {
    /// The function.
    pub subject: &'a Schedulable,
    /// The rules that take it.
    pub arms: &'a Arms,
    /// How its kernels overlap, if they do, and what compiles them.
    pub overlap: Option<(&'a Overlap, &'a dyn Compiler)>,
}

impl Build for RuleBuild<'_> {
    fn build(&self, point: &Point) -> Result<Built, Reason> {
        let made = self.subject.candidate(self.arms.of(point), &point.knobs)?;
        let Assembly { mut source, mut plan, trace, program } = made;
        if let Some((overlap, compiler)) = self.overlap {
            overlap.apply(&program, &self.subject.target, (&mut source, &mut plan), Some(compiler));
        }
        Ok(Built { source, plan, trace, variants: program.variants })
    }
}

/// A candidate ready to compile.
#[derive(Clone, PartialEq, Debug)]
pub struct Built {
    /// The generated text.
    pub source: Source,
    /// How to launch it.
    pub plan: Plan,
    /// The schedule's steps.
    pub trace: Vec<String>,
    /// The tile variants that dispatch chose.
    pub variants: Vec<ChosenVariant>,
}

impl Built {
    /// The variants as the log has them.
    pub fn log_variants(&self) -> Vec<log::Variant> {
        let named = |v: &ChosenVariant| log::Variant { call: v.call, op: v.op.clone(), variant: v.variant.clone() };
        self.variants.iter().map(named).collect()
    }

    /// Sixteen hexadecimal digits over the text.
    pub fn source_hash(&self) -> String {
        self.source.hash()
    }
}

/// A point that went through the pipeline.
pub(super) struct Finished {
    /// The point.
    pub point: Point,
    /// What came of it.
    pub result: Stage,
    /// Seconds that it took.
    pub seconds: f64,
}

/// How far a point came.
pub(super) enum Stage {
    /// Ruled out before compiling.
    Rejected(Reason),
    /// Has the same text as that point, which came first; the text's hash.
    Twin(Point, String),
    /// Did not compile.
    Failed(Built, CompileError),
    /// Ready to run.
    Compiled(Built, Artifact),
    /// Not started, because the run was told to end.
    Skipped,
}

/// What the worker threads share.
pub(super) struct Workshop<'a> {
    pub build: &'a dyn Build,
    pub compiler: &'a dyn Compiler,
    /// The clock.
    pub seconds: &'a (dyn Fn() -> f64 + Sync),
    /// Set to skip what is still waiting.
    pub halt: AtomicBool,
    /// Never ruled out as the twin of another point.
    pub default: Option<&'a Point>,
    /// The first point with each text, by hash.
    sources: Mutex<BTreeMap<String, Point>>,
}

impl<'a> Workshop<'a> {
    /// A workshop that knows the texts of earlier runs, and that of the default: its twins are ruled out
    /// whichever thread is first.
    pub fn new(
        build: &'a dyn Build,
        compiler: &'a dyn Compiler,
        seconds: &'a (dyn Fn() -> f64 + Sync),
        default: Option<&'a Point>,
        mut known: BTreeMap<String, Point>,
    ) -> Workshop<'a> {
        if let Some(point) = default
            && let Ok(built) = made(build, point)
        {
            known.entry(built.source_hash()).or_insert_with(|| point.clone());
        }
        Workshop { build, compiler, seconds, halt: AtomicBool::new(false), default, sources: Mutex::new(known) }
    }

    /// One worker thread: takes points until the channel closes or `done` wants no more.
    pub fn work(&self, todo: &Mutex<Receiver<Point>>, done: &dyn Fn(Finished) -> bool) {
        loop {
            let next = todo.lock().expect("no thread panics while it holds the queue").recv();
            let Ok(point) = next else { return };
            let since = (self.seconds)();
            let halted = self.halt.load(Ordering::Relaxed);
            let result = if halted { Stage::Skipped } else { self.process(&point) };
            if !done(Finished { point, result, seconds: (self.seconds)() - since }) {
                return;
            }
        }
    }

    /// Builds and compiles one point.
    pub fn process(&self, point: &Point) -> Stage {
        let built = match made(self.build, point) {
            Err(reject) => return Stage::Rejected(reject),
            Ok(built) => built,
        };
        if let Some(twin) = self.twin(point, &built) {
            return Stage::Twin(twin, built.source_hash());
        }
        match self.compiler.compile(&built.source) {
            Ok(artifact) => Stage::Compiled(built, artifact),
            Err(e) => Stage::Failed(built, e),
        }
    }

    /// Another point with the same text that came first.
    fn twin(&self, point: &Point, built: &Built) -> Option<Point> {
        let mut sources = self.sources.lock().expect("no thread panics while it holds the texts");
        let first = sources.entry(built.source_hash()).or_insert_with(|| point.clone());
        (first != point && self.default != Some(point)).then(|| first.clone())
    }
}

/// The kernel of a point. A panic (a bug in a rule or pass) costs this point only.
pub(super) fn made(build: &dyn Build, point: &Point) -> Result<Built, Reason> {
    caught(|| build.build(point)).unwrap_or_else(|bug| Err(Reason::new("bug", bug)))
}

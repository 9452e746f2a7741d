//! The untuned choice where there is a compiler: among the first by measured candidates, by the registers of their kernels.

use crate::common::apply::untuned;
use crate::lower_cases::gpu;
use daylight::apply::{self, Options};
use daylight::assemble::{Input, Schedulable, load};
use daylight::backend::{Artifact, CompileError, CompileFailure, Compiler, Format, Resources, Source};
use daylight::rules::{Arm, Knobs, Spaces};
use daylight::target::{HostCpu, Target};
use std::path::PathBuf;
use std::sync::Mutex;

const NORM: &str = "tests/workloads/normalization/llama3_8b-rms_norm-2048x4096-f16.py";

/// Says of each text what its kernels take, and remembers the texts.
struct Saying<F> {
    taken: F,
    texts: Mutex<Vec<String>>,
}

impl<F: Fn(&str) -> Option<Resources> + Send + Sync> Saying<F> {
    fn new(taken: F) -> Saying<F> {
        Saying { taken, texts: Mutex::default() }
    }

    fn texts(self) -> Vec<String> {
        self.texts.into_inner().expect("nothing panicked")
    }
}

impl<F: Fn(&str) -> Option<Resources> + Send + Sync> Compiler for Saying<F> {
    fn compile(&self, source: &Source) -> Result<Artifact, CompileError> {
        self.texts.lock().expect("nothing panicked").push(source.text.clone());
        let refused = || CompileError::new(CompileFailure::Rejected, "it is refused");
        let res = (self.taken)(&source.text).ok_or_else(refused)?;
        let (path, compiler) = (PathBuf::from("none"), "fake".to_string());
        Ok(Artifact { format: Format::Cubin, bytes: [0][..].into(), path, res, warnings: vec![], compiler })
    }
}

fn input() -> Input {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(NORM);
    load(&Default::default(), &[path]).expect("reads").remove(0).unwrap_or_else(|e| panic!("{}", e.failure.message))
}

fn registers(regs: u32, spill: u32) -> Option<Resources> {
    Some(Resources { regs, spill, smem: 0 })
}

/// The rule that stands, and the texts of its choices.
fn standing(target: &Target) -> (Schedulable, Arm, Vec<String>) {
    let subject = input().schedulable(target).expect("it is accepted");
    let arm = subject.arms(&Spaces::built_in()).remove(0);
    let text = |knobs: &Knobs| subject.candidate(&arm, knobs).expect("a kernel").source.text;
    let texts = arm.choices().iter().map(text).collect();
    (subject, arm, texts)
}

/// The position among the choices of what is the default after a compiler said this of each, and how many texts it compiled.
fn settled(taken: impl Fn(&str) -> Option<Resources> + Send + Sync) -> (usize, usize) {
    let (subject, arm, _) = standing(&gpu());
    let compiler = Saying::new(taken);
    subject.settle(&arm, &compiler);
    let default = arm.default().expect("a legal point");
    (arm.choices().iter().position(|k| *k == default).expect("one of them"), compiler.texts().len())
}

#[test]
fn what_spills_or_does_not_compile_is_no_choice() {
    let (_, _, texts) = standing(&gpu());
    assert_eq!(texts.len(), 16);
    for (which, compiled) in [(0, 8), (7, 8), (8, 16), (15, 16)] {
        let only = |text: &str| text == texts[which];
        assert_eq!(settled(|text| registers(40, if only(text) { 0 } else { 16 })), (which, compiled));
        assert_eq!(settled(|text| registers(40, 0).filter(|_| only(text))), (which, compiled));
    }
    // What stood stands where all of them spill, none compiles, or the compiler says nothing.
    assert_eq!(settled(|_| registers(40, 16)), (0, 16));
    assert_eq!(settled(|_| None), (0, 16));
    assert_eq!(settled(|_| registers(0, 0)), (0, 16));
}

#[test]
fn registers_that_leave_no_room_for_others_make_a_choice_worse() {
    let (_, _, texts) = standing(&gpu());
    assert_ne!(settled(|text| registers(if text == texts[0] { 255 } else { 32 }, 0)).0, 0);
}

/// What is built is what the tuner times as the default: both ask the same.
#[test]
fn what_is_built_untuned_is_the_choice() {
    let (_, _, texts) = standing(&gpu());
    let spills_at_first = |text: &str| registers(48, if text == texts[0] { 16 } else { 0 });
    let (subject, arm, _) = standing(&gpu());
    subject.settle(&arm, &Saying::new(spills_at_first));
    let want = subject.candidate(&arm, &arm.default().expect("a point")).expect("a kernel").source.text;
    let compiler = Saying::new(spills_at_first);
    let unit = built(&gpu(), Some(&compiler));
    assert_eq!(unit, want);
    assert_eq!(compiler.texts().len(), 9, "eight to choose among, and the one that is built");
    // Without a compiler nobody knows: the first stands, as a text.
    assert_eq!(built(&gpu(), None), texts[0]);
}

#[test]
fn one_choice_alone_is_compiled_once() {
    let ampere = Target::parse("cuda:sm_80", &HostCpu::default()).expect("a target");
    assert_eq!(standing(&ampere).2.len(), 1);
    let compiler = Saying::new(|_| registers(40, 0));
    built(&ampere, Some(&compiler));
    assert_eq!(compiler.texts().len(), 1);
}

/// The text of what is built without a log.
fn built(target: &Target, compiler: Option<&dyn Compiler>) -> String {
    let options = Options { cuda: compiler.map(|c| (c, "fake 1.0".into())), ..untuned(std::slice::from_ref(target)) };
    apply::units(&[input()], &options).unwrap_or_else(|f| panic!("{}", f.message)).remove(0).text
}

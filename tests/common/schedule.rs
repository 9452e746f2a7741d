//! What every test of a schedule primitive asks after every step.

use daylight::interp::{self, Mode, Scalars, Tensor};
use daylight::ir::{self, DType, PrimFunc};
use daylight::schedule::{Schedule, Step};
use std::collections::BTreeMap;

/// The only function of a TVMScript text, verified.
pub fn read(text: &str) -> PrimFunc {
    let mut funcs = ir::read(text, "case.tir").unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(funcs.len(), 1, "a case holds one function");
    let func = funcs.remove(0);
    ir::verify(&func).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    func
}

/// A step from its text.
pub fn step(text: &str) -> Step {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

/// Takes the steps of `text`, one a line, on `func`, with [`check_step`] after each.
pub fn take(func: &PrimFunc, text: &str) -> Schedule {
    let mut s = Schedule::new(func.clone());
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        s.apply(step(line)).unwrap_or_else(|e| panic!("{e}\n{}", s.func()));
        check_step(func, &s);
    }
    s
}

/// After a step on `input`: the function verifies, its print reads back to the same function, its
/// trace replays from text to the same text, and it computes the same numbers as the input.
pub fn check_step(input: &PrimFunc, s: &Schedule) {
    check_form(input, s);
    check_numbers(input, s.func(), 1);
}

/// All of [`check_step`] but the numbers.
pub fn check_form(input: &PrimFunc, s: &Schedule) {
    let text = s.func().canonical_text();
    let last = s.trace().last().map_or("no step".to_string(), |t| t.to_string());
    if let Err(errors) = ir::verify(s.func()) {
        panic!("after {last}: {errors:?}\n{text}");
    }
    let printed = s.func().to_string();
    let again = ir::read(&printed, "printed").unwrap_or_else(|e| panic!("after {last}: {e}\n{printed}"));
    let want = ir::canonicalize(s.func().clone()).canonical_text();
    assert_eq!(again[0].canonical_text(), want, "after {last}: the print reads back differently\n{printed}");
    let steps: Vec<Step> = s.trace().iter().map(|t| step(&t.to_string())).collect();
    let replayed = Schedule::replay(input.clone(), &steps).unwrap_or_else(|e| panic!("replay after {last}: {e}"));
    assert_eq!(replayed.func().canonical_text(), text, "after {last}: the replay differs");
}

/// Runs both functions on the same small integers and compares every parameter, bit for bit; neither
/// may read an element of an intermediate buffer that it has not written. Symbolic extents are bound
/// to small sizes.
pub fn check_numbers(input: &PrimFunc, scheduled: &PrimFunc, seed: u64) {
    let sizes = |f: &PrimFunc| f.extents.iter().zip([5, 7, 3]).map(|(e, n)| (e.name.to_string(), n)).collect();
    let sizes: BTreeMap<String, i64> = sizes(input);
    let (before, after) = (input.bind(&sizes), scheduled.bind(&sizes));
    let want = run(&before, seed);
    let got = run(&after, seed);
    for (k, (w, g)) in want.iter().zip(&got).enumerate() {
        if let Some(at) = (0..w.len()).find(|i| w.get_f64(*i).to_bits() != g.get_f64(*i).to_bits()) {
            let (w, g) = (w.get_f64(at), g.get_f64(at));
            panic!("parameter {k}, element {at}: expected {w}, got {g}\n{input}\n{scheduled}");
        }
    }
}

fn run(f: &PrimFunc, seed: u64) -> Vec<Tensor> {
    let mut rng = SplitMix(seed);
    let mut tensors: Vec<Tensor> = f
        .buffer_params()
        .map(|b| {
            let shape: Vec<i64> = b.shape.iter().map(|e| e.as_int().expect("extents are bound")).collect();
            let mut t = Tensor::zeros(b.dtype, &shape);
            (0..t.len()).for_each(|i| t.set_f64(i, value(b.dtype, &mut rng)));
            t
        })
        .collect();
    interp::run(f, &mut tensors, &Scalars::default(), Mode::Checked).unwrap_or_else(|e| panic!("{e}\n{f}"));
    tensors
}

fn value(dtype: DType, rng: &mut SplitMix) -> f64 {
    let n = (rng.next() % 7) as f64;
    if dtype.is_unsigned() || dtype == DType::Bool { (n % 2.0).abs() } else { n - 3.0 }
}

/// Steele, Lea and Flood's generator: small and the same everywhere.
pub struct SplitMix(pub u64);

impl SplitMix {
    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

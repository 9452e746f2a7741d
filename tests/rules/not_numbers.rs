//! Inputs that are no numbers, infinite or tiny: every point of a space gives the same results, in the simulator and
//! compiled for this machine. Maxima and minima, with or without their indices, pass over what is no number.

use super::harness::*;
use super::row_texts::softmax;
use super::texts::reduction;
use super::tuple_texts::{Form, arg};
use crate::codegen_programs::native;
use daylight::interp::{self, Mode, Scalars, Tensor};
use daylight::ir::DType;
use daylight::lower::lower;
use daylight::rules::{Arm, Knobs, Prepared, Spaces, verdicts};
use daylight::sim;

/// Points of each space: all of the smaller ones, the default and others far apart of the larger.
const MOST: usize = 40;

/// Points of each space that are compiled for this machine.
const COMPILED: usize = 4;

/// Numbers in rows of which some hold nothing else, some nothing but NaNs, some one number.
fn hostile(t: &mut Tensor, width: usize, stride: usize) {
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e-41, -1e-41];
    for i in 0..t.len() {
        let (row, at) = if stride == 1 { (i / width, i % width) } else { (i % stride, i / stride) };
        let number = ((i * 37 + row) % 23) as f64 / 4.0 - 2.0;
        t.set_f64(
            i,
            match row % 6 {
                0 => number,
                1 => f64::NAN,
                2 if at == (row * 7) % width => number,
                2 => f64::NAN,
                3 if at + 1 == width || at == 0 => f64::NAN,
                4 if at % 3 == 1 => f64::NAN,
                5 => special[(i * 5 + i / 7) % 7],
                _ => number,
            },
        );
    }
}

fn spread(points: Vec<Knobs>, default: Option<Knobs>) -> Vec<Knobs> {
    let step = points.len().div_ceil(MOST).max(1);
    default.into_iter().chain(points.into_iter().step_by(step)).collect()
}

/// NaN for NaN and number for number: equal where nothing is rounded, else near.
fn same(x: f64, y: f64, rounds: bool) -> bool {
    x == y || x.is_nan() && y.is_nan() || rounds && (x - y).abs() <= 1e-5 * y.abs().max(1e-30)
}

struct Checked<'a> {
    case: &'a Case,
    input: Prepared,
    args: Vec<Tensor>,
    want: Vec<Tensor>,
    rounds: bool,
}

impl Checked<'_> {
    fn compare(&self, at: &str, got: &[Tensor]) {
        for (k, (g, w)) in got.iter().zip(&self.want).enumerate() {
            for i in 0..w.len() {
                let (x, y) = (g.get_f64(i), w.get_f64(i));
                assert!(same(x, y, self.rounds), "{}: {at}: p{k}[{i}] is {x}, expected {y}", self.case.name);
            }
        }
    }

    fn point(&self, arm: &Arm, knobs: &Knobs, compiled: bool, id: &str) {
        let at = format!("{} {id} {knobs}", arm.space.form);
        let s = arm.schedule(knobs).unwrap_or_else(|e| panic!("{}: {at}: {e}", self.case.name));
        let program = lower(s.func(), &target(id), &[]).unwrap_or_else(|e| panic!("{}: {at}: {e}", self.case.name));
        let mut got = self.args.clone();
        let options = sim::SimOptions { seed: 3, ..Default::default() };
        sim::run(&program, &mut got, &Scalars::new(), &options).unwrap_or_else(|e| panic!("{at}: {e}"));
        self.compare(&format!("{at} simulated"), &got);
        let mut got = self.args.clone();
        // GCC does not see that the first step of a reduction stores what the others read.
        let flags = ["-O2", "-march=native", "-Wno-maybe-uninitialized"];
        if compiled && native::run(&program, &mut got, &Scalars::new(), native::vector_bytes(), &flags) {
            self.compare(&format!("{at} compiled"), &got);
        }
    }
}

fn check_points(case: &Case, width: usize, stride: usize, rounds: bool) {
    let input = Prepared::new(&read(case)).unwrap_or_else(|d| panic!("{}: {}", case.name, d.reason.text));
    let shape = |b: &daylight::ir::Buffer| b.shape.iter().map(|e| e.as_int().expect("a size")).collect::<Vec<_>>();
    let mut args: Vec<Tensor> = input.func.buffer_params().map(|b| Tensor::zeros(b.dtype, &shape(b))).collect();
    hostile(&mut args[0], width, stride);
    let mut want = args.clone();
    interp::run(&input.func, &mut want, &Scalars::new(), Mode::Exact).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let checked = Checked { case, input, args, want, rounds };
    let mut taken = 0;
    for id in ["cuda:sm_90a", "cpu"] {
        for v in verdicts(&checked.input, &target(id), &Spaces::built_in()) {
            let Ok(arm) = v.arm else { continue };
            let points = spread(arm.space.points(), arm.space.default());
            let every = points.len().div_ceil(COMPILED);
            for (n, knobs) in points.iter().enumerate() {
                checked.point(&arm, knobs, id == "cpu" && n % every == 0, id);
                taken += 1;
            }
        }
    }
    assert!(taken > 10, "{}: {taken} points", case.name);
}

#[test]
fn maxima_and_minima_are_of_the_numbers() {
    for (op, dtype) in [("max", "float32"), ("min", "float16")] {
        check_points(&reduction(op, dtype, &[12, 70], "SR", false), 70, 1, false);
        check_points(&reduction(op, dtype, &[70, 12], "RS", false), 70, 12, false);
    }
}

#[test]
fn indices_are_of_the_numbers() {
    for (i, form) in [Form::First, Form::Last, Form::Earlier, Form::Later].into_iter().enumerate() {
        let best = ["max", "min"][i % 2];
        check_points(&arg(best, "float32", &[12, 70], "SR", form, true), 70, 1, false);
        check_points(&arg(best, "float32", &[70, 12], "RS", form, i < 2), 70, 12, false);
    }
}

#[test]
fn a_softmax_with_one_is_none() {
    check_points(&softmax(&["12", "70"], "float32", &[]), 70, 1, true);
}

/// A mask of minus infinity is in every causal attention: a part of a row may hold nothing else.
#[test]
fn masked_parts_of_a_softmax_are_zero() {
    let mut case = softmax(&["12", "96"], "float32", &[]);
    case.text = case.text.replace("T.float32(-340282346638528859811704183484516925440.0)", "T.float32(\"-inf\")");
    assert!(case.text.contains("-inf"));
    check_masked(&case);
    check_masked(&softmax(&["12", "96"], "float16", &[]));
}

fn check_masked(case: &Case) {
    let input = Prepared::new(&read(case)).unwrap_or_else(|d| panic!("{}: {}", case.name, d.reason.text));
    let dtype = input.func.buffer_params().next().map_or(DType::F32, |b| b.dtype);
    let mut args = vec![Tensor::zeros(dtype, &[12, 96]), Tensor::zeros(dtype, &[12, 96])];
    for i in 0..12 * 96 {
        let (row, at) = (i / 96, i % 96);
        args[0].set_f64(i, if at > row * 8 { f64::NEG_INFINITY } else { (i % 13) as f64 / 4.0 });
    }
    let mut want = args.clone();
    interp::run(&input.func, &mut want, &Scalars::new(), Mode::F64).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    for id in ["cuda:sm_90a", "cpu"] {
        for v in verdicts(&input, &target(id), &Spaces::built_in()) {
            let Ok(arm) = v.arm else { continue };
            for knobs in spread(arm.space.points(), arm.space.default()) {
                let at = format!("{} {} {id} {knobs}", case.name, arm.space.form);
                let s = arm.schedule(&knobs).unwrap_or_else(|e| panic!("{at}: {e}"));
                let program = lower(s.func(), &target(id), &[]).unwrap_or_else(|e| panic!("{at}: {e}"));
                let mut got = args.clone();
                sim::run(&program, &mut got, &Scalars::new(), &Default::default())
                    .unwrap_or_else(|e| panic!("{at}: {e}"));
                compare(&at, &input, &got, &want);
            }
        }
    }
}

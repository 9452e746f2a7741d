//! Every operation of `daylight new`: what it computes against plain loops, that its text reads back as it is, that it has
//! kernels; and functions made by the builder in general.

mod builder;
mod reference;

use daylight::assemble::Schedulable;
use daylight::interp::{Mode, Scalars, Tensor, run};
use daylight::ir::{DType, PrimFunc};
use daylight::operation::{self, OPERATIONS};
use daylight::rules::Spaces;
use daylight::target::{HostCpu, Target};
use rayon::prelude::*;
use reference::{Array, activation};
use std::collections::{BTreeMap, BTreeSet};

/// What is expected of the inputs.
type Expected = fn(&[Array]) -> Vec<f64>;

/// An operation with options, as they are typed, sizes for names, and what it computes.
struct Case(&'static str, &'static [(&'static str, i64)], Expected);

const CASES: &[Case] = &[
    Case("matmul --m 17 --n 33 --k 29", &[], |i| reference::matmul(&i[0], &i[1], false, false)),
    Case("matmul --m 1 --n 1 --k 1", &[], |i| reference::matmul(&i[0], &i[1], false, false)),
    Case("matmul --m m --n n --k k --layout tt", &[("m", 5), ("n", 3), ("k", 7)], |i| {
        reference::matmul(&i[0], &i[1], true, true)
    }),
    Case("matmul --m 1 --n 64 --k 48 --layout nt --dtype bfloat16 --activation silu", &[], |i| {
        let product = reference::matmul(&i[0], &i[1], false, true);
        product.into_iter().map(|x| activation("silu", x)).collect()
    }),
    Case("matmul --batch b --m 6 --n 10 --k 4 --layout tn --dtype float16", &[("b", 3)], |i| {
        reference::matmul(&i[0], &i[1], true, false)
    }),
    Case(
        "matmul --m n --n 7 --k 5 --dtype float16 --scale 0.5 --bias --activation gelu --residual",
        &[("n", 9)],
        |i| {
            let product = reference::matmul(&i[0], &i[1], false, false).into_iter().enumerate();
            product.map(|(e, x)| activation("gelu", 0.5 * x + i[2].data[e % 7]) + i[3].data[e]).collect()
        },
    ),
    Case("matmul --m 4 --n 6 --k 8 --dtype int8 --bias --activation relu", &[], |i| {
        let product = reference::matmul(&i[0], &i[1], false, false).into_iter().enumerate();
        product.map(|(e, x)| (x + i[2].data[e % 6]).max(0.0)).collect()
    }),
    Case("matmul_int4 --m 1 --n 12 --k 64", &[], |i| {
        reference::matmul(&i[2], &reference::unpacked(&i[0], &i[1], 32, 7.0), false, true)
    }),
    Case("matmul_int4 --m m --n 5 --k 48 --group 16 --zero 8 --dtype bfloat16 --bias --residual", &[("m", 3)], |i| {
        let product = reference::matmul(&i[2], &reference::unpacked(&i[0], &i[1], 16, 8.0), false, true);
        product.into_iter().enumerate().map(|(e, x)| x + i[3].data[e % 5] + i[4].data[e]).collect()
    }),
    Case("matmul_block_scaled --m m --n 5 --k 32 --bias --activation silu", &[("m", 3)], |i| {
        let both = [0, 2].map(|at| reference::block_scaled(&i[at], &i[at + 1], 16));
        let product = reference::matmul(&both[0], &both[1], false, true).into_iter().enumerate();
        product.map(|(e, x)| activation("silu", x * i[4].data[0] + i[5].data[e % 5])).collect()
    }),
    Case("matmul_block_scaled --m 1 --n 6 --k 64 --format mxfp4 --a-dtype bfloat16 --residual", &[], |i| {
        let weights = reference::block_scaled(&i[1], &i[2], 32);
        let product = reference::matmul(&i[0], &weights, false, true).into_iter().zip(&i[3].data);
        product.map(|(x, r)| x + r).collect()
    }),
    Case("matmul_block_scaled --m 4 --n 3 --k 64 --format mxfp8 --out-dtype float32", &[], |i| {
        let both = [0, 2].map(|at| reference::scaled(&i[at], &i[at + 1], 32));
        reference::matmul(&both[0], &both[1], false, true)
    }),
    Case("gated_mlp --m m --n n --k 11 --dtype bfloat16", &[("m", 5), ("n", 3)], |i| {
        let both = reference::matmul(&i[0], &i[1], false, true);
        both.chunks(6).flat_map(|row| (0..3).map(|j| activation("silu", row[j]) * row[j + 3])).collect()
    }),
    Case("gated_mlp --m 1 --n 9 --k 16 --activation gelu_tanh", &[], |i| {
        let both = reference::matmul(&i[0], &i[1], false, true);
        (0..9).map(|j| activation("gelu_tanh", both[j]) * both[j + 9]).collect()
    }),
    Case("attention_scores --batch 2 --heads 3 --queries 4 --keys 5 --dim 6", &[], |i| {
        reference::scores(&i[0], &i[1], 1.0 / 6f64.sqrt(), None)
    }),
    Case("attention_scores --heads 4 --kv-heads 2 --queries 3 --keys n --dim d --causal", &[("n", 5), ("d", 8)], |i| {
        reference::scores(&i[0], &i[1], 1.0 / 8f64.sqrt(), Some(f64::from(f32::MIN)))
    }),
    Case("attention_scores --heads h --queries 1 --keys 1 --dim 1 --scale 2 --dtype float16", &[("h", 2)], |i| {
        reference::scores(&i[0], &i[1], 2.0, None)
    }),
    Case(
        "attention_values --batch b --heads 4 --kv-heads 1 --queries 2 --keys n --dim 3",
        &[("b", 2), ("n", 7)],
        |i| reference::weighted(&i[0], &i[1]),
    ),
    Case("attention_values --heads 2 --queries 3 --keys 5 --dim 4 --dtype bfloat16", &[], |i| {
        reference::weighted(&i[0], &i[1])
    }),
    Case("softmax --shape 2,n,m --dtype float16", &[("n", 3), ("m", 7)], |i| reference::softmax(&i[0], 2, false)),
    Case("softmax --shape 4,6,5 --axis 1", &[], |i| reference::softmax(&i[0], 1, false)),
    Case("softmax --shape 3,5 --log --axis 0", &[], |i| reference::softmax(&i[0], 0, true)),
    Case("softmax --shape 7", &[], |i| reference::softmax(&i[0], 0, false)),
    Case("rms_norm --shape n,64 --dtype bfloat16", &[("n", 3)], |i| reference::rms_norm(&i[0], &i[1], 1e-5)),
    Case("rms_norm --shape 13 --eps 0.25", &[], |i| reference::rms_norm(&i[0], &i[1], 0.25)),
    Case("layer_norm --shape 2,3,d", &[("d", 10)], |i| reference::layer_norm(&i[0], &i[1], &i[2], 1e-5)),
    Case("layer_norm --shape 1,1 --eps 0.5", &[], |i| reference::layer_norm(&i[0], &i[1], &i[2], 0.5)),
    Case("sum --shape n,5,6 --axes 0,1 --dtype float16", &[("n", 4)], |i| {
        reference::reduced(&i[0], &[0, 1], 0.0, |a, b| a + b)
    }),
    Case("sum --shape 3,7 --axes 0,1 --dtype int8", &[], |i| reference::reduced(&i[0], &[0, 1], 0.0, |a, b| a + b)),
    Case("mean --shape 4,n,6 --axes 1 --keepdims", &[("n", 5)], |i| {
        reference::reduced(&i[0], &[1], 0.0, |a, b| a + b).iter().map(|x| x / 5.0).collect()
    }),
    Case("mean --shape 2,5,6 --axes 1,2", &[], |i| {
        reference::reduced(&i[0], &[1, 2], 0.0, |a, b| a + b).iter().map(|x| x / 30.0).collect()
    }),
    Case("mean --shape 2,n,m --axes 2,0,1 --dtype float16", &[("n", 3), ("m", 7)], |i| {
        reference::reduced(&i[0], &[0, 1, 2], 0.0, |a, b| a + b).iter().map(|x| x / 42.0).collect()
    }),
    Case("mean --shape 1", &[], |i| i[0].data.clone()),
    Case("max --shape 6,n --dtype float16", &[("n", 9)], |i| reference::reduced(&i[0], &[1], f64::MIN, f64::max)),
    Case("min --shape 5,4,3 --axes -1,0 --dtype int32", &[], |i| {
        reference::reduced(&i[0], &[0, 2], f64::MAX, f64::min)
    }),
    Case("elementwise --shape n,14 --ops silu,mul --dtype bfloat16", &[("n", 3)], |i| {
        i[0].data.iter().zip(&i[1].data).map(|(x, b)| activation("silu", *x) * b).collect()
    }),
    Case("elementwise --shape 3,5 --ops bias,gelu,sub,neg,abs,scale,square,add,tanh,sigmoid,exp,max,min", &[], |i| {
        let x = i[0].data.iter().enumerate();
        let each = |(e, x): (usize, &f64)| {
            let mut x = activation("gelu", x + i[1].data[e % 5]);
            x = (x - i[2].data[e]).abs();
            x = (x * i[3].data[e % 5]).powi(2) + i[4].data[e];
            x = activation("sigmoid", x.tanh()).exp();
            x.max(i[5].data[e]).min(i[6].data[e])
        };
        x.map(each).collect()
    }),
    Case("elementwise --shape 9 --ops square,sqrt,gelu_tanh,relu,square,bias,exp,rsqrt,div", &[], |i| {
        let each = |e: usize| {
            let root = i[0].data[e].abs();
            let x = activation("gelu_tanh", root).max(0.0).powi(2) + i[1].data[e];
            activation("rsqrt", x.exp()) / i[2].data[e]
        };
        (0..9).map(each).collect()
    }),
    Case("elementwise --shape 2,n --dtype int32 --out-dtype float32", &[("n", 4)], |i| i[0].data.clone()),
    Case("transpose --shape 3,n,5 --axes 1,2,0 --dtype float16", &[("n", 4)], |i| {
        reference::transposed(&i[0], &[1, 2, 0])
    }),
    Case("transpose --shape 5,7 --dtype int8", &[], |i| reference::transposed(&i[0], &[1, 0])),
];

/// The operation of typed words and its options.
fn words(typed: &str) -> (&str, Vec<(&str, &str)>) {
    let (name, rest) = typed.split_once(' ').unwrap_or((typed, ""));
    let options = rest.split("--").filter(|o| !o.trim().is_empty());
    (name, options.map(|o| o.trim().split_once(' ').unwrap_or((o.trim(), ""))).collect())
}

fn made(typed: &str) -> PrimFunc {
    let (name, options) = words(typed);
    let operation = operation::by_name(name).expect("there is one");
    operation.function(name, &options).unwrap_or_else(|e| panic!("{typed}: {e}"))
}

/// Values from -2 to 2 of floats, small ones of integers, any bits of words.
fn values(dtype: DType, count: usize, seed: &mut u64) -> Vec<f64> {
    let mut next = || {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        *seed >> 32
    };
    let value = |bits: u64| match dtype {
        DType::U32 => bits as f64,
        DType::U8 => (bits % 256) as f64,
        d if d.is_float() => bits as f64 / f64::from(1u32 << 30) - 2.0,
        _ => (bits % 15) as f64 - 7.0,
    };
    (0..count).map(|_| value(next())).collect()
}

/// Inputs and the output: what the function computes in float64, and what the inputs were.
fn run_on_values(f: &PrimFunc) -> (Vec<Array>, Vec<f64>) {
    let mut seed = 7;
    let (mut args, mut inputs) = (vec![], vec![]);
    for b in f.buffer_params() {
        let shape: Vec<i64> = b.shape.iter().map(|e| e.as_int().expect("the size is bound")).collect();
        let count = shape.iter().product::<i64>() as usize;
        let data = values(b.dtype, count, &mut seed);
        let wide = if b.dtype.is_float() { DType::F64 } else { b.dtype };
        args.push(Tensor::from_f64(wide, &shape, &data));
        inputs.push(Array { shape: shape.iter().map(|n| *n as usize).collect(), data });
    }
    run(f, &mut args, &Scalars::new(), Mode::F64).expect("runs");
    inputs.pop();
    (inputs, args.pop().expect("an output").to_f64())
}

#[test]
fn operations_compute_what_they_say() {
    for Case(typed, sizes, expected) in CASES {
        let sizes: BTreeMap<String, i64> = sizes.iter().map(|(name, n)| (name.to_string(), *n)).collect();
        let (inputs, got) = run_on_values(&made(typed).bind(&sizes));
        let want = expected(&inputs);
        assert_eq!(got.len(), want.len(), "{typed}");
        for (e, (g, w)) in got.iter().zip(&want).enumerate() {
            // Constants such as eps are float32 in the function.
            assert!((g - w).abs() <= 1e-6 * w.abs().max(1.0), "{typed}: element {e} is {g}, expected {w}");
        }
    }
}

#[test]
fn every_operation_and_option_has_a_case() {
    let tried: BTreeSet<(&str, &str)> = CASES
        .iter()
        .flat_map(|Case(typed, ..)| {
            let (name, options) = words(typed);
            options.into_iter().map(move |(option, _)| (name, option))
        })
        .collect();
    for operation in OPERATIONS {
        assert!(tried.iter().any(|(name, _)| *name == operation.name), "{}", operation.name);
        // Those that all share are tried somewhere.
        let options =
            operation.options.iter().filter(|o| !matches!(o.name, "dtype" | "out-dtype" | "axis" | "keepdims"));
        let own = operation.name.starts_with("matmul") || operation.name.starts_with("attention");
        let untried = options.filter(|o| own && !o.name.contains("scale") && o.name != "activation");
        let untried: Vec<&str> = untried.map(|o| o.name).filter(|o| !tried.contains(&(operation.name, o))).collect();
        assert!(untried.is_empty(), "{}: {untried:?}", operation.name);
    }
}

#[test]
fn texts_of_operations_read_back_as_they_are() {
    for Case(typed, ..) in CASES {
        builder::reads_back(&made(typed));
    }
}

/// The rule that makes the kernel of a function by default.
fn kernel(f: &PrimFunc, target: &str) -> Result<&'static str, String> {
    let host = HostCpu { arch: "x86-64-v3".into(), ..HostCpu::default() };
    let target = Target::parse(target, &host)?;
    let subject = Schedulable::new(f, f, target).map_err(|d| d.to_string())?;
    let arms = subject.arms(&Spaces::built_in());
    let makes = |arm: &&daylight::rules::Arm| arm.default().is_some_and(|knobs| subject.candidate(arm, &knobs).is_ok());
    arms.iter().find(makes).map(|arm| arm.space.form).ok_or_else(|| "no rule makes a kernel".to_string())
}

/// The examples of the help are of usual sizes.
#[test]
fn operations_have_kernels_on_gpus_and_the_cpu() {
    let examples = OPERATIONS.iter().map(|o| o.example);
    let all: Vec<&str> = CASES.iter().map(|Case(typed, ..)| *typed).chain(examples).collect();
    let wrong: Vec<String> = all
        .par_iter()
        .flat_map(|typed| ["cuda:sm_90a", "cpu:x86-64-v3"].map(|target| (*typed, target)))
        .filter_map(|(typed, target)| kernel(&made(typed), target).err().map(|e| format!("{typed} on {target}: {e}")))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What products become where it matters.
#[test]
fn products_have_the_rules_of_products() {
    for (typed, rule) in [
        ("matmul --m 1 --n 4096 --k 4096 --layout nt --dtype bfloat16 --activation silu", "gemv.inner"),
        (
            "matmul --m 512 --n 4096 --k 4096 --layout nt --dtype bfloat16 --bias --activation gelu --residual",
            "matmul.wgmma",
        ),
        ("matmul_int4 --m 1 --n 4096 --k 4096 --residual", "gemv.quant"),
        ("gated_mlp --m 512 --n 1024 --k 512 --dtype bfloat16", "pieces.cuda"),
        ("attention_scores --heads 32 --queries 512 --keys 512 --dim 128 --dtype float16 --causal", "matmul.wgmma"),
        ("softmax --shape 1024,2048 --dtype float16", "general_reduction.rows"),
        ("rms_norm --shape n,4096 --dtype bfloat16", "general_reduction.rows"),
        ("mean --shape 2048,8192", "reduction.inner"),
    ] {
        assert_eq!(kernel(&made(typed), "cuda:sm_90a").as_deref(), Ok(rule), "{typed}");
    }
}

#[test]
fn what_is_wrong_with_options_is_said() {
    for (typed, why) in [
        ("matmul --m 0 --n 1 --k 1", "matmul: --m 0: a size is a number from 1 on, or a name such as n"),
        ("matmul --m 4 --n 4", "matmul: --k SIZE is missing"),
        ("matmul --m 4 --n 4 --k 4 --layout xy", "--layout xy: the layouts are nn, nt, tn and tt"),
        ("matmul --m 4 --n 4 --k 4 --activation gleu", "there is no function `gleu`; did you mean `gelu`?"),
        ("matmul --m 4 --n 4 --k 4 --dtype int8 --activation gelu", "`gelu` is for floats"),
        ("matmul --m 4 --n 4 --k 4 --dtype int8 --scale 2", "--scale 2: sums of int8 are integers"),
        ("matmul --m 4 --n 4 --k 4 --dtype float61", "there is no such type; did you mean float16?"),
        ("matmul --m 4 --n 4 --k 4 --layuot nt", "there is no option --layuot; did you mean --layout?"),
        ("matmul_int4 --m 1 --n 4 --k 40", "k has to be a multiple of the group"),
        ("matmul_int4 --m 1 --n 4 --k n", "--k n: this size has to be a number"),
        ("matmul_block_scaled --m 1 --n 4 --k 24", "--k 24: k has to be a multiple of the 16 numbers with one scale"),
        ("matmul_block_scaled --m 1 --n 4 --k 32 --format fp4", "--format fp4: the formats are nvfp4, mxfp4, mxfp8"),
        ("matmul_block_scaled --m 1 --n 4 --k 32 --format mxfp8 --a-dtype float16", "it does not hold every number"),
        ("matmul_block_scaled --m 1 --n 4 --k 32 --a-dtype float32", "--a-dtype float32: expected float16 or bfloat16"),
        (
            "attention_scores --heads 6 --kv-heads 4 --queries 1 --keys 1 --dim 1",
            "--kv-heads 4: it has to divide --heads",
        ),
        ("softmax --shape 3,4 --axis 2", "--axis 2: expected dimensions from 0 to 1, or from -2 to -1"),
        ("softmax --shape 3,4 --dtype int32", "--dtype int32: the operation is for floats"),
        ("sum --shape 3,4 --axes 1,-1", "--axes 1,-1: dimension 1 stands twice"),
        ("elementwise --shape 3 --ops flip", "--ops flip: there is no function `flip`"),
        ("transpose --shape 3", "a tensor of one dimension has no other order"),
        ("transpose --shape 3,4,5 --axes 0,1", "--axes: expected all 3 dimensions"),
        ("rms_norm --shape n, --eps x", "--shape n,: a size is a number"),
        ("rms_norm --shape n --eps inf", "--eps inf: expected a number"),
    ] {
        let (name, options) = words(typed);
        let error = operation::by_name(name).expect("there is one").function(name, &options).expect_err(typed);
        assert!(error.contains(why), "{typed}: {error}");
    }
    let error = operation::by_name("mat_mul").expect_err("no such operation");
    assert_eq!(error, "there is no operation `mat_mul`; did you mean `matmul`?");
    let none =
        operation::by_name("matmul").expect("there is one").function("a b", &[("m", "1"), ("n", "1"), ("k", "1")]);
    assert!(none.expect_err("no name").contains("`a b` is no name"));
}

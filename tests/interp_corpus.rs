//! Every schedulable function of the corpus, shrunk and run: exact mode and `float64` agree,
//! normalising changes nothing, and samples are what a whole run gives.

use daylight::analysis::{normalize, refuse, roles, shrink};
use daylight::interp::{Mode, Scalar, Scalars, Tensor, run, sample, scalar_ops};
use daylight::ir::{DType, Param, PrimFunc, Role, read};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn functions() -> Vec<(String, PrimFunc)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/workloads");
    let mut found = vec![];
    for kind in std::fs::read_dir(root).expect("the corpus").flatten().filter(|e| e.path().is_dir()) {
        for file in std::fs::read_dir(kind.path()).expect("a folder").flatten() {
            let name = file.path().display().to_string();
            let text = std::fs::read_to_string(file.path()).expect("a file");
            found.push((name.clone(), read(&text, &name).unwrap_or_else(|e| panic!("{e}")).remove(0)));
        }
    }
    found.retain(|(_, f)| refuse(f).is_ok());
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Every symbolic extent gets a small odd size of its own.
fn bound(f: &PrimFunc) -> PrimFunc {
    let size = |i: usize| [5, 7, 3][i % 3];
    f.bind(
        &f.extents.iter().enumerate().map(|(i, e)| (e.name.as_str().to_string(), size(i))).collect::<BTreeMap<_, _>>(),
    )
}

fn normal(rng: &mut StdRng) -> f64 {
    (0..12).map(|_| rng.random_range(-0.5..0.5)).sum()
}

/// Inputs: normal floats, indices 0 to 1, random bits for unsigned integers.
fn arguments(f: &PrimFunc, rng: &mut StdRng) -> Vec<Tensor> {
    f.buffer_params()
        .map(|b| {
            let shape: Vec<i64> = b.shape.iter().map(|e| e.as_int().expect("constant")).collect();
            let mut t = Tensor::zeros(b.dtype, &shape);
            for i in 0..t.len() {
                if b.dtype.is_float() {
                    t.set_f64(i, normal(rng));
                } else if b.dtype.is_unsigned() || b.dtype == DType::I8 {
                    t.set_i64(i, rng.random_range(0..i64::MAX));
                } else {
                    t.set_i64(i, rng.random_range(0..2));
                }
            }
            t
        })
        .collect()
}

fn scalars(f: &PrimFunc) -> Scalars {
    let value = |p: &Param| match p {
        Param::Scalar { name, .. } => Some((name.clone(), Scalar::Int(9))),
        Param::Buffer(_) => None,
    };
    f.params.iter().filter_map(value).collect()
}

/// The same arguments with `float64` in place of the outputs.
fn widened(f: &PrimFunc, args: &[Tensor], outputs: &[bool]) -> Vec<Tensor> {
    let wide = |((t, b), out): ((&Tensor, &daylight::ir::Buffer), &bool)| {
        if *out && b.dtype.is_float() { Tensor::zeros(DType::F64, &t.shape) } else { t.clone() }
    };
    args.iter().zip(f.buffer_params()).zip(outputs).map(wide).collect()
}

fn distance(a: &Tensor, b: &Tensor) -> f64 {
    let (x, y) = (a.to_f64(), b.to_f64());
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|e| e * e).sum::<f64>().sqrt();
    norm(&mut x.iter().zip(&y).map(|(p, q)| p - q)) / norm(&mut y.iter().copied()).max(1e-30)
}

#[test]
fn shrunk_twins_run_alike_in_every_way() {
    let mut rng = StdRng::seed_from_u64(20);
    let mut count = 0;
    for (name, f) in functions() {
        let f = shrink(&bound(&f), 300_000).unwrap_or_else(|| panic!("{name} does not shrink"));
        daylight::ir::verify(&f).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let normal_form = normalize(&f).unwrap_or_else(|d| panic!("{name}: {d}"));
        let is_out = |(p, r): (&Param, Role)| matches!(p, Param::Buffer(_)).then_some(r == Role::Out);
        let outputs: Vec<bool> = f.params.iter().zip(roles(&f)).filter_map(is_out).collect();
        let (args, values) = (arguments(&f, &mut rng), scalars(&f));
        let mut exact = args.clone();
        run(&f, &mut exact, &values, Mode::Exact).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut wide = widened(&f, &args, &outputs);
        run(&f, &mut wide, &values, Mode::F64).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut again = args.clone();
        run(&normal_form, &mut again, &values, Mode::Exact).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(exact, again, "{name}: normalising changed the result");
        let floats = f.buffers.iter().filter(|b| b.dtype.is_float());
        let coarsest = floats.map(|b| b.dtype.roundoff()).filter(|u| *u < 0.03).fold(0.0, f64::max);
        for (k, b) in f.buffer_params().enumerate().filter(|(k, _)| outputs[*k]) {
            let far = distance(&exact[k], &wide[k]);
            assert!(far <= 40.0 * coarsest, "{name}: output {k} is {far:e} away from float64");
            let sizes = &wide[k].shape;
            let points: Vec<Vec<i64>> =
                (0..60).map(|_| sizes.iter().map(|n| rng.random_range(0..*n)).collect()).collect();
            let mut given = wide.clone();
            given.iter_mut().zip(&outputs).filter(|(_, out)| **out).for_each(|(t, _)| t.data.clear());
            let got = sample(&normal_form, &given, &values, &b.name, &points).unwrap_or_else(|e| panic!("{name}: {e}"));
            for (p, v) in points.iter().zip(got) {
                let v = v.unwrap_or_else(|| panic!("{name}: {p:?} is not written"));
                let want = wide[k].get_f64(wide[k].flat(p));
                assert!(v == want || (v.is_nan() && want.is_nan()), "{name}: {p:?} is {v}, not {want}");
            }
        }
        assert!(scalar_ops(&f) > 0, "{name}");
        count += 1;
    }
    assert_eq!(count, 84);
}

/// A function whose whole run is out of reach: a product of 8192 x 8192 matrices.
#[test]
fn a_few_elements_of_a_large_product() {
    let name = "llama3_8b-o_proj-n4096k4096-f16";
    let (_, f) = functions().into_iter().find(|(n, _)| n.contains(name)).expect("in the corpus");
    let k = 4096;
    let shapes: Vec<Vec<i64>> =
        f.buffer_params().map(|b| b.shape.iter().map(|e| e.as_int().expect("constant")).collect()).collect();
    let output = f.buffer_params().last().expect("an output").name.clone();
    let inputs: Vec<Tensor> = shapes
        .iter()
        .enumerate()
        .map(|(i, s)| {
            let mut t = Tensor::zeros(DType::F16, s);
            if i + 1 == shapes.len() {
                t.data.clear();
            } else {
                // Every input element is 1.
                t.data.chunks_exact_mut(2).for_each(|c| c.copy_from_slice(&0x3c00u16.to_le_bytes()));
            }
            t
        })
        .collect();
    let points: Vec<Vec<i64>> = [0, 17, 4095].map(|i| vec![0, 0, i]).to_vec();
    let got = sample(&f, &inputs, &Scalars::new(), &output, &points).expect("samples");
    assert_eq!(got, [Some(k as f64); 3]);
    let err = sample(&f, &inputs, &Scalars::new(), &output, &[vec![0, 0, 4096]]).expect_err("outside");
    assert!(err.to_string().starts_with("index [0, 0, 4096] lies outside"), "{err}");
}

#[test]
fn speed_of_a_row_mean() {
    let text = std::fs::read_to_string(
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/workloads/reduction/llama3_8b-sum_last-2048x4096-f32.py"),
    )
    .expect("in the corpus");
    let f = read(&text, "sum").expect("reads").remove(0);
    let mut args = vec![Tensor::zeros(DType::F32, &[2048, 4096]), Tensor::zeros(DType::F64, &[2048])];
    let start = std::time::Instant::now();
    run(&f, &mut args, &Scalars::new(), Mode::F64).expect("runs");
    let rate = scalar_ops(&f) as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("{rate:.0} million scalar operations a second");
    // The release build reaches many times this.
    assert!(rate > 5.0, "only {rate:.1} million scalar operations a second");
}

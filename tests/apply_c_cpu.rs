//! Packages for C programs, on the CPU: compiled without warnings, and the interpreter's numbers at every size, on one
//! thread and on several.

use crate::apply_untuned::record;
use crate::common;
use daylight::build::{Build, Output};
use daylight::interp::{self, Mode, Scalar, Scalars, Tensor};
use daylight::ir::{DType, Param};
use daylight::job;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;

const V3: &str = "cpu:x86-64-v3";

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/c").join(name)
}

/// A function with a scalar, one of several launches, and one of any size with three tuned ones.
fn package(place: &Path) -> Output {
    let tuned: [(i64, &[&str]); 3] =
        [(8, &["vector=16", "unroll=1"]), (64, &["vector=32", "unroll=2"]), (512, &["vector=32", "unroll=4"])];
    let records: Vec<_> = tuned.iter().map(|(n, set)| record(&data("sums.py"), *n, V3, set)).collect();
    daylight::log::write(&place.join("log.jsonl"), &records).expect("a log");
    let build = ["scaled.py", "centred.py", "sums.py"].iter().fold(Build::new(), |b, f| b.function(data(f)));
    build.log(place.join("log.jsonl")).target(V3).c("kernels").write(&place.join("kernels")).expect("a build")
}

/// Runs a program in a folder, which has to succeed.
fn done(place: &Path, program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).current_dir(place).output().expect("it starts");
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}

/// Compiles the package to objects, as its header says, warnings being errors.
fn compile(place: &Path) {
    let header = std::fs::read_to_string(place.join("kernels.h")).expect("the header");
    let lines: Vec<&str> = header.lines().filter_map(|l| l.strip_prefix("//   cc ")).collect();
    assert_eq!(lines.len(), 2, "the source, and the kernels of one level: {header}");
    for line in lines {
        let source = line.ends_with(" kernels.c");
        // Kernels that one block runs have no use for its number; their text is C11 otherwise.
        let more: &[&str] = if source { &["-Wshadow"] } else { &["-std=c11", "-Wno-unused-parameter"] };
        let strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-fPIC"];
        done(place, "cc", &[&line.split(' ').collect::<Vec<_>>(), &strict[..], more].concat());
    }
}

fn objects(place: &Path) -> Vec<String> {
    let mut all: Vec<String> = std::fs::read_dir(place)
        .expect("a folder")
        .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".o"))
        .collect();
    all.sort();
    all
}

fn cannot_run() -> bool {
    let runs = cfg!(target_arch = "x86_64") && std::is_x86_feature_detected!("avx2");
    if !runs {
        common::skip("this processor runs no kernels for x86-64-v3");
    }
    !runs
}

/// What the interpreter gives for the second of two tensors of float32.
fn reference(file: &str, n: i64, s: f64, a: &[f32]) -> Vec<f32> {
    let input = job::load(&Default::default(), &[data(file)]).expect("the file").remove(0).expect("the function");
    let f = input.func.bind(&input.func.extents.iter().map(|e| (e.name.to_string(), n)).collect());
    let shape = |k: usize| -> Vec<i64> {
        let buffer = f.buffer_params().nth(k).expect("two tensors");
        buffer.shape.iter().map(|e| e.as_int().expect("a size")).collect()
    };
    let values: Vec<f64> = a.iter().map(|x| f64::from(*x)).collect();
    let mut tensors = [Tensor::from_f64(DType::F32, &shape(0), &values), Tensor::zeros(DType::F32, &shape(1))];
    let scalars: Scalars = f
        .params
        .iter()
        .filter_map(|p| match p {
            Param::Scalar { name, .. } => Some((name.clone(), Scalar::Float(s))),
            Param::Buffer(_) => None,
        })
        .collect();
    interp::run(&f, &mut tensors, &scalars, Mode::Exact).expect("runs");
    tensors[1].to_f64().iter().map(|x| *x as f32).collect()
}

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 31) % 17) as f32).collect()
}

type Scaled = unsafe extern "C" fn(*const f32, *mut f32, f32, *mut c_void) -> c_int;
type Centred = unsafe extern "C" fn(*const f32, *mut f32, f32, usize, *mut c_void) -> c_int;
type Sums = unsafe extern "C" fn(*const f32, *mut f32, usize, *mut c_void) -> c_int;
type Bytes = unsafe extern "C" fn(usize) -> usize;

#[test]
fn c_gives_the_numbers_of_the_interpreter() {
    if cannot_run() {
        return;
    }
    let place = tempfile::tempdir().expect("a folder");
    package(place.path());
    let kernels = place.path().join("kernels");
    compile(&kernels);
    let objects = objects(&kernels);
    let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
    done(&kernels, "cc", &[&["-shared", "-o", "kernels.so"][..], &objects, &["-lm"]].concat());
    // SAFETY: the library was made from our own text a moment ago and is used as its header says.
    let library = unsafe { libloading::Library::new(kernels.join("kernels.so")) }.expect("load the library");
    // SAFETY: the types are those of the header.
    let (scaled, centred, centred_bytes, sums) = unsafe {
        (
            library.get::<Scaled>(b"kernels_scaled_cpu").expect("scaled"),
            library.get::<Centred>(b"kernels_centred_cpu").expect("centred"),
            library.get::<Bytes>(b"kernels_centred_cpu_workspace_bytes").expect("its workspace"),
            library.get::<Sums>(b"kernels_sums_cpu").expect("sums"),
        )
    };
    let (a, mut b) = (numbers(100), vec![f32::NAN; 100]);
    // SAFETY: as above; tensors are as large as the functions say.
    assert_eq!(unsafe { scaled(a.as_ptr(), b.as_mut_ptr(), 0.5, std::ptr::null_mut()) }, 0);
    assert_eq!(b, reference("scaled.py", 0, 0.5, &a));
    for n in [1usize, 7, 8, 9, 63, 64, 65, 511, 512, 513, 700] {
        let (a, mut b) = (numbers(n * 64), vec![f32::NAN; n]);
        // SAFETY: as above.
        assert_eq!(unsafe { sums(a.as_ptr(), b.as_mut_ptr(), n, std::ptr::null_mut()) }, 0, "{n}");
        assert_eq!(b, reference("sums.py", n as i64, 0.0, &a), "{n}");
        let (a, mut b) = (numbers(5 * n), vec![f32::NAN; 5 * n]);
        // SAFETY: as above; the workspace has the bytes that are asked for.
        let error = unsafe {
            let mut workspace = vec![0u64; centred_bytes(n).div_ceil(8)];
            centred(a.as_ptr(), b.as_mut_ptr(), 3.0, n, workspace.as_mut_ptr().cast())
        };
        assert_eq!((error, b), (0, reference("centred.py", n as i64, 3.0, &a)), "{n}");
    }
    let (a, mut b) = (numbers(64), vec![0.0; 1]);
    for n in [0, 1 << 31, usize::MAX] {
        // SAFETY: these extents are refused.
        assert_eq!(unsafe { sums(a.as_ptr(), b.as_mut_ptr(), n, std::ptr::null_mut()) }, 1, "{n}");
    }
}

#[test]
fn parts_run_on_threads_of_the_caller() {
    if cannot_run() {
        return;
    }
    let place = tempfile::tempdir().expect("a folder");
    let built = package(place.path());
    let kernels = place.path().join("kernels");
    compile(&kernels);
    std::fs::copy(data("threads.c"), kernels.join("threads.c")).expect("copied");
    let objects = objects(&kernels);
    let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
    let strict = ["-std=c11", "-Wall", "-Wextra", "-Werror", "threads.c", "-o", "threads"];
    done(&kernels, "cc", &[&strict[..], &objects, &["-lm", "-lpthread"]].concat());
    let centred = built.units.iter().find(|u| u.name == "centred").expect("it is there");
    let said = done(&kernels, "./threads", &[]);
    assert!(said.starts_with(&format!("{} launches, ", centred.plan.launches.len())), "{said}");
    assert!(centred.plan.launches.len() == 2 && !said.ends_with(", 0 bytes\n"), "two launches and a workspace: {said}");
}

/// The text of all files, and that another folder gives the same.
#[test]
fn packages_are_written_like_this() {
    let files = || {
        let place = tempfile::tempdir().expect("a folder");
        package(place.path());
        let all =
            std::fs::read_dir(place.path().join("kernels")).expect("a folder").map(|e| e.expect("an entry").path());
        let text = |p: PathBuf| {
            (p.file_name().map(|n| n.to_string_lossy().into_owned()), std::fs::read(&p).expect("readable"))
        };
        all.filter(|p| p.is_file()).map(text).collect::<BTreeMap<_, _>>()
    };
    let (a, b) = (files(), files());
    assert!(a == b && a.len() > 6);
    for name in ["kernels.h", "kernels.c"] {
        let text = std::str::from_utf8(&a[&Some(name.to_string())]).expect("text");
        // The names of kernels are hashes of their text, which has golden files of its own.
        common::golden(&format!("golden/apply/cpu_{name}"), &without_hashes(text));
    }
}

/// The text with `HASH` in place of the hashes in names.
fn without_hashes(text: &str) -> String {
    let is_hash = |w: &str| w.len() == 16 && w.chars().all(|c| c.is_ascii_hexdigit());
    let words: Vec<&str> = text.split('_').map(|w| if is_hash(w) { "HASH" } else { w }).collect();
    words.join("_")
}

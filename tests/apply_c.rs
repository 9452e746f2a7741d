//! Packages for C programs, on GPUs: the text, and what it asks of a driver that says what it is asked for.

use crate::apply_untuned::{record, record_at};
use crate::common::apply::untuned;
use crate::common::{self, golden};
use daylight::apply::{self, Content, Emit, Options, Rung, Unit, When};
use daylight::backend::{Artifact, CompileError, Compiler, Format, Resources, Source};
use daylight::job;
use daylight::target::{HostCpu, Target};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A compiler whose cubins are empty.
struct Nothing;

impl Compiler for Nothing {
    fn compile(&self, _: &Source) -> Result<Artifact, CompileError> {
        Ok(Artifact {
            format: Format::Cubin,
            bytes: vec![].into(),
            path: PathBuf::new(),
            res: Resources::default(),
            warnings: vec![],
            compiler: "nvrtc 13.0".into(),
        })
    }
}

const TARGETS: [&str; 2] = ["cuda:sm_80", "cuda:sm_90a"];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/c").join(name)
}

/// A plain function, one with a workspace, one of any size with two tuned ones, one that copies through tensor maps,
/// and one whose blocks are in clusters. The plain one is launched before the one before it has ended.
fn units(targets: &[&str]) -> Vec<Unit> {
    let files: Vec<PathBuf> = ["scaled", "total", "sums", "product", "shares"].map(|f| data(&format!("{f}.py"))).into();
    let inputs = job::load(&Default::default(), &files).expect("the files");
    let inputs: Vec<_> = inputs.into_iter().map(|i| i.expect("a function")).collect();
    let on = "cuda:sm_90a";
    let shares = ["cluster=4", "threads=512", "min_blocks=1"];
    let records = [
        record(&files[2], 8, on, &["vector=8"]),
        record(&files[2], 64, on, &["hint=plain"]),
        record_at(&files[4], Default::default(), on, &shares),
    ];
    let targets: Vec<Target> =
        targets.iter().map(|t| Target::parse(t, &HostCpu::default()).expect("a target")).collect();
    let options = Options { records: &records, cuda: Some((&Nothing, "nvrtc 13.0".into())), ..untuned(&targets) };
    let mut units = apply::units(&inputs, &options).unwrap_or_else(|f| panic!("{}", f.message));
    units.iter_mut().filter(|u| u.name == "scaled").for_each(|u| u.plan.launches[0].pdl = true);
    // The driver of these tests says which file it is given.
    units.iter_mut().for_each(|u| u.bytes = format!("{}\0", u.file).into_bytes());
    units
}

fn emit(name: &str) -> Emit {
    Emit { c: Some(name.into()), ..Emit::default() }
}

#[test]
fn packages_are_written_like_this() {
    let units = units(&TARGETS);
    let of_90a = |name: &str| -> Vec<(&When, Rung)> {
        units.iter().filter(|u| u.name == name && u.target.arch == "sm_90a").map(|u| (&u.when, u.rung)).collect()
    };
    assert!(matches!(
        of_90a("sums")[..],
        [(When::Exactly(_), Rung::Exact), (When::Exactly(_), Rung::Exact), .., (When::Always, Rung::Neighbour)]
    ));
    assert_eq!(of_90a("shares"), [(&When::Always, Rung::Exact)]);
    let files = apply::files(&units, emit("kernels")).expect("files");
    for name in ["kernels.h", "kernels.c"] {
        golden(&format!("golden/apply/{name}"), std::str::from_utf8(&files[name]).expect("text"));
    }
}

/// Options under which what is written has no warnings.
const STRICT: [&str; 6] = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"];

/// A folder with the files of a package and those of the tests.
fn place(files: &BTreeMap<String, Vec<u8>>) -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a folder");
    apply::write(files, place.path()).expect("written");
    for name in ["libcuda.c", "cuda.c"] {
        std::fs::copy(data(name), place.path().join(name)).expect("copied");
    }
    place
}

/// Runs a program in the folder, which has to succeed.
fn done(place: &Path, program: &str, args: &[&str]) {
    let out = Command::new(program).args(args).current_dir(place).output().expect("it starts");
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Compiles the program, and the driver into a folder of its own.
fn compile(place: &Path) {
    let strict = [&["-std=c11"][..], &STRICT].concat();
    done(place, "cc", &[&strict[..], &["kernels.c", "cuda.c", "-o", "cuda", "-ldl"]].concat());
    std::fs::create_dir(place.join("fake")).expect("made");
    let shared = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "libcuda.c", "-o", "fake/libcuda.so.1"];
    done(place, "cc", &[&strict[..], &shared].concat());
}

/// What the program says with the driver of a folder and a device, where a function of the driver may fail.
fn said(place: &Path, driver: &str, device: &str, fails: &str) -> String {
    let mut command = Command::new(place.join("cuda"));
    command.env("LD_LIBRARY_PATH", place.join(driver)).env("FAKE_DEVICE", device).env("FAKE_FAILS", fails);
    let out = command.output().expect("it starts");
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).expect("text")
}

#[test]
fn launches_ask_the_driver_for_this() {
    let files = apply::files(&units(&TARGETS), emit("kernels")).expect("files");
    let place = place(&files);
    compile(place.path());
    let all = said(place.path(), "fake", "90", "");
    golden("golden/apply/driver.txt", &all);
    let lines: Vec<&str> = all.lines().collect();
    let before = |what: &str| {
        let at = lines.iter().position(|l| *l == format!("-> {what}: 0")).unwrap_or_else(|| panic!("{what}: {all}"));
        lines[at - 1]
    };
    // What the golden text has to say, whoever accepts it.
    assert!(
        before("scaled").starts_with("with attribute 6 = 1, launch scaled_k0 of scaled.sm_90a.cubin grid"),
        "{all}"
    );
    assert!(before("scaled").ends_with("stream 0x77 args 0x1000 0x2000 0.5"), "{all}");
    assert!(
        before("total").starts_with("launch total_k0 of total.sm_90a.cubin grid ")
            && before("total").ends_with("0x1000 0x4000"),
        "{all}"
    );
    assert!(before("product").ends_with("args 0x1000 0x2000 0x3000 map(0x1000) map(0x2000)"), "{all}");
    assert!(all.contains("map of 0x1000, aligned to 64: 1, type 1 rank 2 dims 2048 1024 strides 4096 box "), "{all}");
    assert!(
        all.contains("attribute 8 of product_k0 is ") && before("shares").contains("grid 64 1 1 block 512 1 1"),
        "{all}"
    );
    assert!(!all.contains("aligned to 16: 0") && !all.contains("aligned to 64: 0"), "{all}");
    let count = |what: &str| lines.iter().filter(|l| l.starts_with(what)).count();
    assert_eq!((count("load "), count("unload ")), (8, 8), "{all}");
}

#[test]
fn the_kernel_is_that_of_the_device_and_errors_are_given_back() {
    let files = apply::files(&units(&TARGETS), emit("kernels")).expect("files");
    let place = place(&files);
    compile(place.path());
    let load = |driver: &str, device: &str, fails: &str| {
        let said = said(place.path(), driver, device, fails);
        let code = said.lines().find_map(|l| l.strip_prefix("-> load: ")).expect("it was loaded").to_string();
        (code, said)
    };
    let (code, said) = load("fake", "86", "");
    assert!(code == "0" && said.contains("load scaled.sm_80.cubin,") && !said.contains("sm_90a"), "{said}");
    for device in ["91", "100", "75"] {
        assert_eq!(load("fake", device, ""), ("209".into(), "-> load: 209\n".into()), "{device}");
    }
    for function in
        ["cuCtxGetDevice", "cuDeviceGetAttribute", "cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute"]
    {
        let (code, said) = load("fake", "90", function);
        let loaded = said.lines().filter(|l| l.starts_with("load ")).count();
        let unloaded = said.lines().filter(|l| l.starts_with("unload ")).count();
        // What did not load is not unloaded, where the driver gives no handle; this one does.
        assert!(code == "700" && loaded == unloaded, "{function}: {said}");
    }
    for (function, launch) in
        [("cuLaunchKernel", "total"), ("cuLaunchKernel", "scaled"), ("cuTensorMapEncodeTiled", "product")]
    {
        let (code, said) = load("fake", "90", function);
        assert!(code == "0" && said.contains(&format!("-> {launch}: 700\n")), "{function}: {said}");
    }
    let (_, said) = load("fake", "90", "cuLaunchKernel");
    assert!(!said.contains("launch total_k1"), "nothing is launched after what failed: {said}");

    std::fs::create_dir(place.path().join("old")).expect("made");
    std::fs::write(
        place.path().join("old.c"),
        "int cuCtxGetDevice(int *d);\nint cuCtxGetDevice(int *d) { return *d; }\n",
    )
    .expect("written");
    done(place.path(), "cc", &["-shared", "-fPIC", "-o", "old/libcuda.so.1", "old.c"]);
    assert_eq!(load("old", "90", "").0, "302");
    std::fs::create_dir(place.path().join("none")).expect("made");
    std::fs::write(place.path().join("none/libcuda.so.1"), "no library").expect("written");
    assert_eq!(load("none", "90", "").0, "303");
}

/// The header is C++, stands beside `cuda.h`, and the declarations of the source are those of `cuda.h`.
#[test]
fn headers_are_c_plus_plus_and_agree_with_nvidias() {
    let mut files = apply::files(&units(&TARGETS), emit("kernels")).expect("files");
    files.extend(apply::files(&units(&TARGETS[1..]), emit("others")).expect("files"));
    let place = place(&files);
    let calls = ["kernels", "others"].map(|p| format!("{p}_sums(nullptr, nullptr, 0, 0, 1, 0) == 1"));
    let both =
        format!("#include \"kernels.h\"\n#include \"others.h\"\nint main() {{ return !({}); }}\n", calls.join(" && "));
    std::fs::write(place.path().join("both.cpp"), both).expect("written");
    done(place.path(), "cc", &["-std=c11", "-c", "kernels.c", "others.c"]);
    match Command::new("c++").arg("--version").output() {
        Ok(_) => {
            done(
                place.path(),
                "c++",
                &[&STRICT[..], &["both.cpp", "kernels.o", "others.o", "-o", "both", "-ldl"]].concat(),
            );
        }
        Err(_) => common::skip("no C++ compiler"),
    }
    let Some(include) = cuda_include() else { return common::skip("no cuda.h") };
    // The source after cuda.h: what both define has to be the same, and sizes and numbers are compared.
    std::fs::copy(data("agrees.c"), place.path().join("agrees.c")).expect("copied");
    done(
        place.path(),
        "cc",
        &["-std=c11", "-Wall", "-Werror", "-Wno-unused-function", "-I", &include, "-c", "agrees.c"],
    );
}

/// The folder of `cuda.h`, which comes with NVIDIA's packages for Python, or CUDA.
fn cuda_include() -> Option<String> {
    let python = std::env::var_os("DAYLIGHT_TVM_PYTHON").map(PathBuf::from);
    let packages = python.as_deref().and_then(Path::parent).and_then(Path::parent).map(|venv| venv.join("lib"));
    let python: Vec<PathBuf> = packages
        .into_iter()
        .flat_map(|lib| std::fs::read_dir(lib).into_iter().flatten())
        .flatten()
        .map(|e| e.path())
        .collect();
    let in_package = python.iter().map(|p| p.join("site-packages/nvidia/cu13/include"));
    let installed = [PathBuf::from("/usr/local/cuda/include")];
    in_package.chain(installed).find(|p| p.join("cuda.h").is_file()).map(|p| p.display().to_string())
}

#[test]
fn a_package_needs_a_name_and_compiled_kernels() {
    let units = units(&TARGETS);
    let error = apply::files(&units, emit("My-Kernels")).expect_err("no name");
    assert!(error.starts_with("`My-Kernels` cannot name C files and functions"), "{error}");
    let mut text = units;
    text[0].content = Content::Cuda;
    let error = apply::files(&text, emit("kernels")).expect_err("text");
    assert!(error.contains("there is no NVRTC; get it: daylight doctor --fetch-nvrtc"), "{error}");
}

//! Kernels for GPUs of builds without NVRTC: their text is in the program, and compiled where it is loaded, once.

use crate::apply_names::{deps, linked, no_rustc};
use crate::common;
use crate::common::apply::untuned;
use daylight::apply::{self, Content, Emit};
use daylight::backend::Places;
use daylight::backend::nvrtc::{OPTIONS, find_nvrtc};
use daylight::job;
use daylight::target::{HostCpu, Target};
use std::path::Path;
use std::process::{Command, Output};

/// A package without a compiler, in a folder.
fn package(place: &Path) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = [root.join("examples/mean.py"), root.join("tests/data/c/product.py")];
    let inputs = job::load(&Default::default(), &files).expect("the files");
    let inputs: Vec<_> = inputs.into_iter().map(|i| i.expect("a function")).collect();
    let targets = ["cuda:sm_80", "cuda:sm_90a"].map(|t| Target::parse(t, &HostCpu::default()).expect("a target"));
    let units = apply::units(&inputs, &untuned(&targets)).unwrap_or_else(|f| panic!("{}", f.message));
    assert!(units.iter().all(|u| u.content == Content::Cuda));
    let files = apply::files(&units, Emit { rust: true, ..Emit::default() }).expect("files");
    apply::write(&files, place).expect("written");
    String::from_utf8(files["kernels.rs"].clone()).expect("text")
}

#[test]
fn the_text_is_in_the_program_with_the_options_of_measured_kernels() {
    let place = tempfile::tempdir().expect("a folder");
    let rust = package(place.path());
    for image in ["mean.sm_90a.cu\"), architecture: \"sm_90a\"", "mean.sm_80.cu\"), architecture: \"sm_80\""] {
        assert!(rust.contains(&format!("Image::Source {{ text: include_str!(\"{image} }}")), "{image}");
    }
    assert!(rust.contains(&format!("const OPTIONS: [&str; {}] = {OPTIONS:?};", OPTIONS.len())));
    assert!(!rust.contains('@'), "nothing is left to be filled in");
}

/// What a loader in another language compiles such text with.
#[test]
fn the_manifest_has_the_options_too() {
    let place = tempfile::tempdir().expect("a folder");
    package(place.path());
    let text = std::fs::read_to_string(place.path().join("manifest.json")).expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let options = |arch: &str| -> Vec<String> {
        let all = manifest["compile"][arch].as_array().expect("options");
        all.iter().map(|o| o.as_str().expect("text").to_string()).collect()
    };
    for arch in ["sm_80", "sm_90a"] {
        let mut wanted = vec![format!("--gpu-architecture={arch}")];
        wanted.extend(OPTIONS.map(String::from));
        assert_eq!(options(arch), wanted);
    }
}

const MAIN: &str = r#"
#[path = "kernels.rs"]
mod kernels;

fn main() {
    for (text, arch) in [
        (include_str!("mean.sm_80.cu"), "sm_80"),
        (include_str!("mean.sm_90a.cu"), "sm_90a"),
        (include_str!("product_2.sm_90a.cu"), "sm_90a"),
    ] {
        let made = kernels::cuda::compile(text, arch).unwrap_or_else(|e| panic!("{e}"));
        assert!(made.starts_with(b"\x7fELF"));
        let again = kernels::cuda::compile(text, arch).unwrap_or_else(|e| panic!("{e}"));
        assert!(std::sync::Arc::ptr_eq(&made, &again), "compiled once");
    }
    println!("{}", kernels::cuda::compile("no text", "sm_90a").unwrap_err());
}
"#;

/// The program of a package, whose function that compiles is opened to it.
fn program(place: &Path) -> bool {
    let rust = package(place);
    let opened = rust.replace("    fn compile(text", "    pub fn compile(text");
    assert_ne!(rust, opened);
    std::fs::write(place.join("kernels.rs"), opened).expect("written");
    std::fs::write(place.join("main.rs"), MAIN).expect("written");
    if no_rustc() {
        common::skip("no rustc on the path");
        return false;
    }
    let needed = format!("dependency={}", deps().display());
    let (cudarc, half) = (linked("cudarc"), linked("half"));
    let rustc =
        ["--edition", "2024", "-D", "warnings", "--extern", &cudarc, "--extern", &half, "-L", &needed, "main.rs"];
    let o = Command::new("rustc").args(rustc).current_dir(place).output().expect("it starts");
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    true
}

fn run(place: &Path, libraries: &Path) -> Output {
    Command::new(place.join("main")).env("LD_LIBRARY_PATH", libraries).output().expect("it starts")
}

#[test]
fn text_is_compiled_once_where_it_is_loaded() {
    let library = match find_nvrtc(&Places::of(|name| std::env::var_os(name), None)) {
        Ok(library) => library,
        Err(why) => return common::skip(&why),
    };
    let place = tempfile::tempdir().expect("a folder");
    if !program(place.path()) {
        return;
    }
    let ran = run(place.path(), library.parent().expect("it lies in a folder"));
    let (said, error) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && said.starts_with("NVRTC: ") && said.contains("error"), "{said}{error}");

    // A library that is none: an error, and no panic that leaves the function.
    let none = place.path().join("none");
    std::fs::create_dir(&none).expect("made");
    for name in ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11"] {
        std::fs::write(none.join(name), "no library").expect("written");
    }
    let ran = run(place.path(), &none);
    let error = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success() && error.contains("there is no NVRTC (libnvrtc) to compile kernels with"), "{error}");
}

//! Kernels that copy through tensor maps: the generated Rust makes the maps for the tensors of each launch.

use crate::common::apply::untuned;
use daylight::apply::{self, Emit, Options, Unit};
use daylight::backend::{Artifact, CompileError, Compiler, Format, Resources, Source};
use daylight::job;
use daylight::target::{HostCpu, Target};
use std::path::PathBuf;

const PRODUCT: &str = r#"
@T.prim_func(s_tir=True)
def product(A: T.Buffer((1024, 2048), "float16"), B: T.Buffer((2048, 1536), "float16"), O: T.Buffer((1024, 1536), "float32")):
    for i, j, k in T.grid(1024, 1536, 2048):
        with T.sblock("O"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                O[vi, vj] = T.float32(0.0)
            O[vi, vj] = O[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vk, vj])
"#;

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
            compiler: "none".into(),
        })
    }
}

fn units() -> Vec<Unit> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("product.py");
    std::fs::write(&file, PRODUCT).expect("a file");
    let input = job::load(&Default::default(), &[file]).expect("the file").remove(0).expect("the function");
    let targets = [Target::parse("cuda:sm_90a", &HostCpu::default()).expect("a target")];
    let options = Options { cuda: Some((&Nothing, "none".into())), ..untuned(&targets) };
    apply::units(&[input], &options).unwrap_or_else(|f| panic!("{}", f.message))
}

#[test]
fn rust_makes_the_maps_of_a_launch() {
    let written = apply::files(&units(), Emit { rust: true, ..Emit::default() }).expect("files");
    let rust = String::from_utf8_lossy(&written["kernels.rs"]);
    assert_eq!(rust.matches("fn at(&self, address: sys::CUdeviceptr)").count(), 1, "{rust}");
    let map = |dims: &str, strides: &str, tensor: usize| {
        let line = rust.lines().find(|l| l.contains(dims) && l.contains(strides)).unwrap_or_else(|| panic!("{rust}"));
        assert!(line.contains(&format!("}}.at(tensors[{tensor}])?;")), "{line}");
        // A row of a box is one period of the swizzle.
        let row =
            line.split("box_dims: &[").nth(1).and_then(|l| l.split(',').next()).and_then(|n| n.parse::<u32>().ok());
        let swizzle = format!("SWIZZLE_{}B", 2 * row.unwrap_or_else(|| panic!("{line}")));
        assert!(line.contains("CU_TENSOR_MAP_DATA_TYPE_UINT16") && line.contains(&swizzle), "{line}");
    };
    map("dims: &[2048, 1024]", "strides_bytes: &[4096]", 0);
    map("dims: &[1536, 2048]", "strides_bytes: &[3072]", 1);
    let manifest = String::from_utf8_lossy(&written["manifest.json"]);
    assert_eq!(manifest.matches("\"tensor_map\"").count(), 2, "{manifest}");
}

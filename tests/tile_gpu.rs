//! Programs of tile primitives on a GPU: products against results computed in float64, the other
//! families against the reference semantics. Needs an NVIDIA GPU of compute capability 8.0 or more
//! and NVRTC.

use crate::tile::case::{arguments, reference, target};
use crate::tile::gemm_shapes::{Product, specs};
use crate::tile::{copy, copy_async, elementwise, gemm_fma, gemm_pipeline, gemm_special, permute_layout, reduction};
use crate::{common, tile_cli};
use daylight::backend::{PlanTensorMap, nvrtc::Nvrtc};
use daylight::codegen;
use daylight::interp::Tensor;
use daylight::ir::device::DeviceFunc;
use daylight::ir::kernel::{KernelParam, Program};
use daylight::ir::{Name, Param};
use daylight::lower::lower_device;
use daylight::runner::cuda::CudaDevice;
use daylight::runner::device::{Device, Step, Value};

/// The device with a compiler for it.
struct Bench {
    device: CudaDevice,
    nvrtc: Nvrtc,
    sm: u32,
    folder: tempfile::TempDir,
}

impl Bench {
    /// `None`, with a message, where a part is missing.
    fn new() -> Option<Bench> {
        let (device, nvrtc, sm) = common::nvidia::device()?;
        let folder = tempfile::tempdir().expect("a folder");
        Some(Bench { device, nvrtc, sm, folder })
    }

    /// The target of the device.
    fn target(&self) -> String {
        format!("cuda:sm_{}{}", self.sm, if self.sm >= 90 { "a" } else { "" })
    }

    /// What the tensors hold after a program of one launch.
    fn run(&mut self, name: &str, f: &DeviceFunc, program: &Program, args: &[Tensor]) -> Vec<Tensor> {
        let text = codegen::cuda(program);
        let cubin = self.nvrtc.cubin(&text, &self.target()).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
        assert_eq!(cubin.res.spill, 0, "{name}");
        let file = self.folder.path().join("kernel.cubin");
        std::fs::write(&file, &cubin.bytes).expect("write the cubin");
        let launch = &program.launches[0];
        let module = self.device.load(&file, std::slice::from_ref(&launch.kernel.symbol)).expect("a module");
        let mut tensors = args.to_vec();
        let mut regions = vec![];
        for tensor in &tensors {
            let region = self.device.allocate(tensor.data.len()).expect("memory");
            self.device.upload(region.at, &tensor.data).expect("an upload");
            regions.push(region);
        }
        let of = |name: &Name| f.func.params.iter().position(|own| matches!(own, Param::Buffer(n) if n == name));
        let pointer = |k: &KernelParam| match k {
            KernelParam::Pointer { name, .. } => Value::Pointer(regions[of(name).expect("a parameter")].at),
            KernelParam::Scalar { name, .. } => panic!("`{name}` has no value"),
            KernelParam::TensorMap(map) => {
                let at = of(&map.buffer).expect("a parameter");
                Value::TensorMap { at: regions[at].at, map: Box::new(PlanTensorMap::of(map, at)) }
            }
        };
        let args = launch.kernel.params.iter().map(pointer).collect();
        let grid = launch.grid.clone().map(|e| e.as_int().expect("a constant grid") as u32);
        let smem = codegen::dynamic_shared_bytes(&launch.kernel) as u32;
        let step = Step::Launch { function: 0, grid, block: launch.block, smem, pdl: false, args };
        self.device.run(module, &vec![step]).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (tensor, region) in tensors.iter_mut().zip(&regions) {
            self.device.download(region.at, &mut tensor.data).expect("a download");
        }
        regions.into_iter().for_each(|r| self.device.free(r));
        self.device.unload(module);
        tensors
    }

    /// Runs what the device's target accepts and compares it with the reference semantics; an element
    /// may be off by `tolerance max(1, |r|)`.
    fn agree(&mut self, family: &str, programs: Vec<(String, DeviceFunc, f64)>) {
        let (mut ran, mut left) = (0, vec![]);
        for (name, f, tolerance) in programs {
            let program = match lower_device(&f, &target(&self.target())) {
                Ok((program, _)) => program,
                Err(_) => {
                    left.push(name);
                    continue;
                }
            };
            let args = arguments(&f);
            let want = reference(&f, &args);
            let got = self.run(&name, &f, &program, &args);
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                for (at, (o, r)) in got.to_f64().into_iter().zip(want.to_f64()).enumerate() {
                    let near = o == r || o.is_nan() && r.is_nan() || (o - r).abs() <= tolerance * r.abs().max(1.0);
                    assert!(near, "{family} {name}: element {at} of parameter {i} is {o}, the reference has {r}");
                }
            }
            ran += 1;
        }
        eprintln!("{family}: {ran} programs agree on a GPU of sm_{}; refused there: {left:?}", self.sm);
        assert!(ran > 0);
    }

    fn check(&mut self, programs: &[Product]) {
        let mut wrong = vec![];
        for p in programs {
            let program = crate::tile::case::lowered(&p.func, &self.target());
            let got = self.run(&p.name, &p.func, &program, &p.args);
            wrong.extend(p.mistake(got.last().expect("a result")));
        }
        assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), programs.len(), wrong.join("\n"));
        eprintln!("{} programs are right on a GPU of sm_{}", programs.len(), self.sm);
    }
}

pub fn every_variant_that_the_device_accepts() {
    let Some(mut bench) = Bench::new() else { return };
    let programs = crate::tile::everywhere::covering(&bench.target());
    bench.agree("one of each variant", programs);
}

pub fn a_hundred_random_products_by_mma() {
    let Some(mut bench) = Bench::new() else { return };
    let all: Vec<Product> = specs(100, 7).iter().enumerate().map(|(i, s)| s.product(i)).collect();
    assert_eq!(all.len(), 100);
    bench.check(&all);
}

pub fn products_by_mma_in_other_places() {
    let Some(mut bench) = Bench::new() else { return };
    bench.check(&gemm_special::products());
}

pub fn products_by_fma() {
    let Some(mut bench) = Bench::new() else { return };
    bench.check(&gemm_fma::products());
}

pub fn pipelines_of_small_and_large_products() {
    let Some(mut bench) = Bench::new() else { return };
    bench.check(&gemm_pipeline::products());
    bench.check(&gemm_pipeline::large());
}

pub fn the_other_families() {
    let Some(mut bench) = Bench::new() else { return };
    bench.agree("copy", copy::programs());
    bench.agree("copy_async", copy_async::programs());
    bench.agree("permute_layout", permute_layout::programs());
    bench.agree("reduction", reduction::programs());
    bench.agree("elementwise", elementwise::programs());
}

/// From the command line.
pub fn programs_run_on_a_gpu() {
    for file in [
        "plain.py",
        "pipeline.py",
        "bulk.py",
        "tma.py",
        "seed_000.py",
        "seed_001.py",
        "seed_002.py",
        "seed_003.py",
        tile_cli::EXAMPLE,
    ] {
        let (code, out, error) = tile_cli::daylight(&["verify", file, "--target", "cuda:sm_90a"]);
        if code == 4 {
            return common::skip_without_gpu(error.trim());
        }
        assert!(code == 0 && out.contains("tile program right"), "{file}: {out}{error}");
    }
}

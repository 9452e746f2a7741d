//! C text compiled by the system's compiler and run in this process.

use daylight::codegen;
use daylight::interp::{Scalar, Scalars, Tensor};
use daylight::ir::kernel::{KernelParam, Program};
use daylight::ir::{Name, Param};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::path::Path;
use std::process::Command;

/// The C compiler, or a skipped test.
pub fn cc() -> Option<&'static str> {
    let found = ["cc", "gcc", "clang"].into_iter().find(|c| Command::new(c).arg("--version").output().is_ok());
    if found.is_none() {
        crate::common::skip("no C compiler (cc, gcc or clang) on the path");
    }
    found
}

/// Compiles a file; warnings are errors. False without a compiler.
pub fn compile(source: &Path, object: &Path, flags: &[&str]) -> bool {
    let Some(cc) = cc() else { return false };
    let mut command = Command::new(cc);
    command.args(["-fno-math-errno", "-fno-trapping-math", "-Wall", "-Werror"]).args(flags);
    let output = command.arg("-o").arg(object).arg(source).arg("-lm").output().expect("run the compiler");
    assert!(output.status.success(), "{}:\n{}", source.display(), String::from_utf8_lossy(&output.stderr));
    true
}

/// Bytes of this machine's vectors.
pub fn vector_bytes() -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512bw") {
            return 64;
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            return 32;
        }
    }
    16
}

/// Runs a program natively, its blocks in two ranges. `args` are its tensor parameters. False
/// without a compiler.
pub fn run(p: &Program, args: &mut [Tensor], scalars: &Scalars, vector_bytes: u32, flags: &[&str]) -> bool {
    let dir = tempfile::tempdir().expect("a folder");
    let (source, object) = (dir.path().join("k.c"), dir.path().join("k.so"));
    std::fs::write(&source, codegen::c(p, vector_bytes)).expect("write the source");
    if !compile(&source, &object, &[&["-shared", "-fPIC"], flags].concat()) {
        return false;
    }
    let number = |name: &Name| match scalars.get(name) {
        Some(Scalar::Int(v)) => *v,
        Some(Scalar::Float(v)) => i64::from((*v as f32).to_bits()),
        None => panic!("no value for {name}"),
    };
    let size = |e: &daylight::ir::Expr| {
        daylight::analysis::simplify(&e.subst(&|n| Some(daylight::ir::Expr::i64(number(n)))), &Default::default())
    };
    let mut memory: BTreeMap<Name, Vec<u64>> = BTreeMap::new();
    for w in &p.workspaces {
        let bytes = size(&w.len).as_int().expect("a size") as usize * w.dtype.bytes() as usize;
        memory.insert(w.name.clone(), vec![u64::MAX; bytes / 8 + 9]);
    }
    let names: Vec<Name> = p
        .params
        .iter()
        .filter_map(|p| match p {
            Param::Buffer(n) => Some(n.clone()),
            Param::Scalar { .. } => None,
        })
        .collect();
    for (name, arg) in names.iter().zip(args.iter()) {
        let mut words = vec![0u64; arg.data.len() / 8 + 9];
        for (i, b) in arg.data.iter().enumerate() {
            words[i / 8] |= u64::from(*b) << (8 * (i % 8));
        }
        memory.insert(name.clone(), words);
    }
    type Kernel = unsafe extern "C" fn(*const *mut c_void, *const i64, i64, i64);
    // SAFETY: the library was made from our own text a moment ago and is used as that text says.
    let library = unsafe { libloading::Library::new(&object) }.expect("load the library");
    for launch in &p.launches {
        let (mut buffers, mut values) = (vec![], vec![]);
        for param in &launch.kernel.params {
            match param {
                KernelParam::Pointer { name, .. } => {
                    buffers.push(memory.get_mut(name).expect("a known buffer").as_mut_ptr().cast::<c_void>());
                }
                KernelParam::Scalar { name, .. } => values.push(number(name)),
                KernelParam::TensorMap(map) => panic!("a kernel of a CPU takes `{map}`"),
            }
        }
        let blocks = size(&launch.grid[0]).as_int().expect("a grid");
        // SAFETY: as above; every pointer has room for its elements.
        unsafe {
            let f: libloading::Symbol<Kernel> = library.get(launch.kernel.symbol.as_bytes()).expect("the symbol");
            f(buffers.as_ptr(), values.as_ptr(), 0, blocks / 2);
            f(buffers.as_ptr(), values.as_ptr(), blocks / 2, blocks);
        }
    }
    for (name, arg) in names.iter().zip(args) {
        let words = &memory[name];
        arg.data.iter_mut().enumerate().for_each(|(i, b)| *b = (words[i / 8] >> (8 * (i % 8))) as u8);
    }
    true
}

/// Compiles the C files of this folder, which lies at `folder` seen from the package, for the architecture that cargo
/// builds for, and links them.
pub fn link(folder: &str) {
    use std::env;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    println!("cargo::rerun-if-changed={folder}");
    ["CC", "AR"].iter().for_each(|v| println!("cargo::rerun-if-env-changed={v}"));
    let var = |name: &str, other: &str| env::var(name).unwrap_or_else(|_| other.into());
    let run = |command: &mut Command| {
        let status = command.status();
        assert!(status.as_ref().is_ok_and(|s| s.success()), "{command:?}: {status:?}");
    };
    let out = PathBuf::from(var("OUT_DIR", "."));
    let name = format!("daylight_{}", var("CARGO_PKG_NAME", "").replace('-', "_"));
    let arch = var("CARGO_CFG_TARGET_ARCH", env::consts::ARCH);
    let mut objects = vec![];
    for (file, _, options) in FILES.iter().filter(|(_, of, _)| *of == arch) {
        let object = out.join(format!("{file}.o"));
        run(Command::new(var("CC", "cc")).args(*options).arg("-c").arg("-o").arg(&object).arg(Path::new(folder).join(file)));
        objects.push(object);
    }
    if !objects.is_empty() {
        let library = out.join(format!("lib{name}.a"));
        // An archive that exists keeps members that are not replaced.
        let _ = std::fs::remove_file(&library);
        run(Command::new(var("AR", "ar")).arg("crs").arg(&library).args(&objects));
        println!("cargo::rustc-link-search=native={}", out.display());
        println!("cargo::rustc-link-lib=static={name}");
    }
}

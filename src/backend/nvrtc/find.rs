//! Finding NVRTC and `nvdisasm`, and fetching them from PyPI into Daylight's cache.

use crate::backend::places::{Places, children};
use crate::files::owner;
use crate::files::scratch::Scratch;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A package of PyPI in one version, with the hashes of its wheels for Linux on x86-64 and on aarch64.
struct Package {
    folder: &'static str,
    version: &'static str,
    sha256: [&'static str; 2],
}

/// What [`fetch_nvrtc`] installs.
const NVRTC: Package = Package {
    folder: "nvrtc",
    version: "nvidia-cuda-nvrtc==13.0.88",
    sha256: [
        "ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575",
        "d27f20a0ca67a4bb34268a5e951033496c5b74870b868bacd046b1b8e0c3267b",
    ],
};

/// What [`fetch_nvdisasm`] installs.
const NVDISASM: Package = Package {
    folder: "nvdisasm",
    version: "nvidia-cuda-nvdisasm==13.5.37",
    sha256: [
        "d3fdbdd49fa53e2e4aacd3db8259d052bd2b049ececdcb69e92e083c6728e7ca",
        "a3a8248074edb9fba63b74c38a5416b712a91ab09e70b8ab37186c3d293fc605",
    ],
};

/// What to do when NVRTC is missing.
pub const NVRTC_ADVICE: &str = "libnvrtc was not found: run `daylight doctor --fetch-nvrtc`, or install CUDA 12.8 or newer \
     or the Python package nvidia-cuda-nvrtc, or set DAYLIGHT_NVRTC to the library";

/// The NVRTC library to use: the one named, else the first of a CUDA 13 among the places, else the
/// first at all.
///
/// # Errors
/// A sentence that says what to install.
pub fn find_nvrtc(places: &Places) -> Result<PathBuf, String> {
    if let Some(named) = &places.nvrtc {
        let found = if named.is_file() { Some(named.clone()) } else { library_in(named) };
        return found.ok_or_else(|| format!("DAYLIGHT_NVRTC names {}, which holds no libnvrtc", named.display()));
    }
    let found: Vec<PathBuf> = folders(places).iter().filter_map(|d| library_in(d)).collect();
    if let Some(best) = best(found) {
        return Ok(best);
    }
    let packages = places.python_packages();
    let found: Vec<PathBuf> = packages.iter().flat_map(|p| package_folders(p)).filter_map(|d| library_in(&d)).collect();
    best(found).ok_or_else(|| NVRTC_ADVICE.to_string())
}

/// The first library of a CUDA 13, else the first.
fn best(found: Vec<PathBuf>) -> Option<PathBuf> {
    let recent = found.iter().find(|p| major(p) >= 13).cloned();
    recent.or_else(|| found.into_iter().next())
}

/// Library folders of the environment, of fetched packages, virtual environments and toolkits.
fn folders(places: &Places) -> Vec<PathBuf> {
    let mut all = places.library_path.clone();
    for toolkit in &places.cuda {
        all.extend(toolkit_folders(toolkit));
    }
    for site in places.site_packages() {
        all.extend(package_folders(&site));
    }
    for toolkit in places.toolkits() {
        all.extend(toolkit_folders(&toolkit));
    }
    all.extend(
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"].map(PathBuf::from),
    );
    all
}

fn toolkit_folders(toolkit: &Path) -> [PathBuf; 4] {
    ["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"].map(|d| toolkit.join(d))
}

fn package_folders(site: &Path) -> [PathBuf; 2] {
    ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"].map(|d| site.join(d))
}

/// `libnvrtc.so.<major>` of a folder, the greatest one.
fn library_in(folder: &Path) -> Option<PathBuf> {
    let named = |n: &str| n.strip_prefix("libnvrtc.so.").is_some_and(|v| !v.contains("alt"));
    children(folder, named).into_iter().max_by_key(|p| major(p))
}

fn major(library: &Path) -> u32 {
    let name = library.file_name().and_then(|n| n.to_str()).unwrap_or("");
    let version = name.strip_prefix("libnvrtc.so.").unwrap_or("");
    version.split('.').next().and_then(|v| v.parse().ok()).unwrap_or(0)
}

/// The builtins library next to an NVRTC library.
pub fn builtins_of(library: &Path) -> Option<PathBuf> {
    let folder = library.parent()?;
    let named = |n: &str| n.strip_prefix("libnvrtc-builtins.so.").is_some_and(|v| !v.contains("alt"));
    children(folder, named).pop()
}

/// The disassembler, for SASS; `None` where it is not installed.
pub fn find_nvdisasm(places: &Places) -> Option<PathBuf> {
    let in_package = |site: PathBuf| {
        ["nvidia/cu13/bin/nvdisasm", "nvidia/cuda_nvdisasm/bin/nvdisasm", "bin/nvdisasm"].map(|f| site.join(f))
    };
    let packages = places.site_packages().into_iter().flat_map(in_package);
    let toolkits = places.toolkits().into_iter().map(|t| t.join("bin/nvdisasm"));
    places.program("nvdisasm").into_iter().chain(packages).chain(toolkits).find(|p| p.is_file())
}

/// Installs NVRTC from PyPI into the cache with `python3 -m pip`; gives the library.
///
/// # Errors
/// A sentence, when Python or the network is missing, or the wheel is not the one that is known.
pub fn fetch_nvrtc(places: &Places) -> Result<PathBuf, String> {
    let site = install(places, &NVRTC)?;
    let found = package_folders(&site).iter().find_map(|d| library_in(d));
    found.ok_or_else(|| format!("{} was installed but holds no libnvrtc", NVRTC.version))
}

/// Installs the disassembler from PyPI into the cache; gives the program.
///
/// # Errors
/// As [`fetch_nvrtc`].
pub fn fetch_nvdisasm(places: &Places) -> Result<PathBuf, String> {
    install(places, &NVDISASM)?;
    find_nvdisasm(places).ok_or_else(|| format!("{} was installed but holds no nvdisasm", NVDISASM.version))
}

impl Package {
    /// The line of a requirements file that takes no other wheel.
    fn requirement(&self) -> String {
        let hashes: Vec<String> = self.sha256.iter().map(|h| format!(" --hash=sha256:{h}")).collect();
        format!("{}{}\n", self.version, hashes.concat())
    }
}

/// Installs aside, then puts the folder in its place: whoever looks sees all of it or none.
fn install(places: &Places, package: &Package) -> Result<PathBuf, String> {
    let packages = places.packages();
    let cannot = |e: std::io::Error| format!("cannot write to {}: {e}", packages.display());
    owner::make(&packages).map_err(cannot)?;
    let aside = Scratch::within(&packages).map_err(cannot)?;
    let (wanted, made) = (aside.path().join("requirements.txt"), aside.path().join("site"));
    std::fs::write(&wanted, package.requirement()).map_err(cannot)?;
    let python = places.program("python3").ok_or("python3 is not on the path: install it to fetch packages")?;
    let mut pip = Command::new(python);
    // Isolated: a `pip` folder or PYTHONPATH of wherever this runs has no say.
    pip.args(["-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    pip.args(["--only-binary=:all:", "--require-hashes", "--target"]).arg(&made).arg("-r").arg(&wanted);
    let output = pip.stdin(Stdio::null()).output().map_err(|e| format!("python3 could not be started: {e}"))?;
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr);
        let last = log.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("no output");
        return Err(format!("`pip install {}` failed: {last}", package.version));
    }
    put(&made, &packages.join(package.folder), &aside.path().join("old")).map_err(cannot)
}

/// Puts a folder in the place of another, which goes to `old`. Of two that do so at once one wins.
fn put(made: &Path, place: &Path, old: &Path) -> std::io::Result<PathBuf> {
    let _ = std::fs::rename(place, old);
    match std::fs::rename(made, place) {
        Err(e) if !place.is_dir() => Err(e),
        Ok(()) | Err(_) => Ok(place.to_path_buf()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, b"").unwrap();
    }

    #[test]
    fn the_named_library_wins_and_a_wrong_name_is_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libnvrtc.so.13");
        touch(&library);
        touch(&folder.path().join("libnvrtc-builtins.so.13.0"));
        touch(&folder.path().join("libnvrtc-builtins.alt.so.13.0"));
        let mut places = Places { nvrtc: Some(folder.path().to_path_buf()), ..Places::default() };
        assert_eq!(find_nvrtc(&places), Ok(library.clone()));
        assert_eq!(builtins_of(&library), Some(folder.path().join("libnvrtc-builtins.so.13.0")));
        places.nvrtc = Some(folder.path().join("nothing"));
        assert!(find_nvrtc(&places).unwrap_err().contains("holds no libnvrtc"));
    }

    /// By a `python3` that notes how it was called.
    #[test]
    fn pip_is_isolated_and_takes_known_wheels_only() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (program, called) = (folder.path().join("bin/python3"), folder.path().join("called"));
        touch(&program);
        let script = format!("#!/bin/sh\necho \"$@\" > {0}\ncat \"${{13}}\" >> {0}\nexit 1\n", called.display());
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = vec![folder.path().join("bin")];
        let places = Places { cache: folder.path().join("cache"), path, ..Places::default() };
        assert!(fetch_nvrtc(&places).unwrap_err().contains("failed"));
        let called = std::fs::read_to_string(called).unwrap();
        assert!(called.starts_with("-I -m pip install"), "{called}");
        assert!(called.contains("--require-hashes") && called.contains(NVRTC.sha256[0]), "{called}");
        assert_eq!(std::fs::read_dir(places.packages()).unwrap().count(), 0, "nothing is left of a failed install");
    }

    #[test]
    fn a_folder_replaces_another_whole() {
        let folder = tempfile::tempdir().unwrap();
        let [made, place, old] = ["made", "place", "old"].map(|n| folder.path().join(n));
        touch(&made.join("new"));
        touch(&place.join("gone"));
        assert_eq!(put(&made, &place, &old).unwrap(), place);
        assert!(place.join("new").exists() && !place.join("gone").exists());
    }

    #[test]
    fn a_newer_major_wins_over_an_earlier_place() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
        let new = folder.path().join("cuda/lib64/libnvrtc.so.13");
        touch(&old);
        assert_eq!(best(vec![old.clone()]), Some(old.clone()));
        assert_eq!(best(vec![old, new.clone()]), Some(new));
    }
}

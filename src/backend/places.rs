//! Where tools may lie: values of the environment, read by the caller, and the folders that follow.

use crate::files::owner;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Values from the environment that finding tools depends on.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Places {
    /// Daylight's cache folder.
    pub cache: PathBuf,
    /// The NVRTC library or its folder, where the user named one.
    pub nvrtc: Option<PathBuf>,
    /// The C compiler, where the user named one (`CC`).
    pub cc: Option<PathBuf>,
    /// Folders of programs (`PATH`).
    pub path: Vec<PathBuf>,
    /// Folders of libraries (`LD_LIBRARY_PATH`).
    pub library_path: Vec<PathBuf>,
    /// CUDA toolkits (`CUDA_HOME`, `CUDA_PATH`).
    pub cuda: Vec<PathBuf>,
    /// Python environments (`VIRTUAL_ENV`, `CONDA_PREFIX`).
    pub venvs: Vec<PathBuf>,
    /// The user's folder.
    pub home: Option<PathBuf>,
}

impl Places {
    /// Places from environment variables that `var` looks up; `cache` overrides the cache folder
    /// (by default `$XDG_CACHE_HOME/daylight` or `~/.cache/daylight`).
    pub fn of(var: impl Fn(&str) -> Option<OsString>, cache: Option<PathBuf>) -> Places {
        let path = |key: &str| var(key).filter(|v| !v.is_empty()).map(PathBuf::from);
        // A relative entry means the current folder, whose files are somebody else's program.
        let absolute = |p: &PathBuf| p.is_absolute();
        let list = |key: &str| match var(key) {
            Some(v) => std::env::split_paths(&v).filter(absolute).collect(),
            None => vec![],
        };
        let home = path("HOME").filter(absolute);
        let base = path("XDG_CACHE_HOME").filter(absolute).or_else(|| home.as_ref().map(|h| h.join(".cache")));
        let unowned = || std::env::temp_dir().join(format!("daylight-{}", owner::me().unwrap_or_default()));
        let default_cache = || base.map_or_else(unowned, |b| b.join("daylight"));
        Places {
            cache: cache.unwrap_or_else(default_cache),
            nvrtc: path("DAYLIGHT_NVRTC"),
            cc: path("CC"),
            path: list("PATH"),
            library_path: list("LD_LIBRARY_PATH"),
            cuda: ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(path).filter(absolute).collect(),
            venvs: ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(path).filter(absolute).collect(),
            home,
        }
    }

    /// The folder of compiled artifacts.
    pub fn artifacts(&self) -> PathBuf {
        self.cache.join("artifacts")
    }

    /// A program of that name on the path.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        self.path.iter().map(|d| d.join(name)).find(|p| p.is_file())
    }

    /// CUDA toolkits: those named, then the usual ones.
    pub fn toolkits(&self) -> Vec<PathBuf> {
        let mut all = self.cuda.clone();
        all.push("/usr/local/cuda".into());
        let mut versions = children(Path::new("/usr/local"), |n| n.starts_with("cuda-"));
        versions.reverse();
        all.extend(versions);
        all.push("/opt/cuda".into());
        all
    }

    /// Folders that hold Python packages: Daylight's cache, then virtual environments.
    pub fn site_packages(&self) -> Vec<PathBuf> {
        let mut venvs = self.venvs.clone();
        venvs.extend(self.home.iter().flat_map(|h| [h.join(".venv"), h.join(".local")]));
        venvs.push("/opt/venv".into());
        venvs.extend(children(Path::new("/opt"), |_| true).into_iter().map(|d| d.join(".venv")));
        let mut all = if owner::is_mine(&self.packages()) { children(&self.packages(), |_| true) } else { vec![] };
        for venv in venvs {
            all.extend(children(&venv.join("lib"), |n| n.starts_with("python3")).into_iter().map(site));
        }
        all
    }

    /// The library cuBLASLt of a toolkit or of a Python package, the newest of the first place that has one; the system's own
    /// is found without.
    pub fn cublas_lt(&self) -> Option<PathBuf> {
        let toolkits = self.toolkits().into_iter().flat_map(|t| ["lib64", "lib"].map(|d| t.join(d)));
        let packages =
            self.site_packages().into_iter().flat_map(|s| ["nvidia/cu13/lib", "nvidia/cublas/lib"].map(|d| s.join(d)));
        let folders = self.library_path.iter().cloned().chain(packages).chain(toolkits);
        let named = |n: &str| n.strip_prefix("libcublasLt.so.").is_some_and(|v| v.parse::<u32>().is_ok());
        folders.into_iter().find_map(|d| children(&d, named).pop())
    }

    /// Folders of packages of the `python3` on the path, asked from it: slow, a last resort.
    pub fn python_packages(&self) -> Vec<PathBuf> {
        let Some(python) = self.program("python3") else { return vec![] };
        let ask = "import sys; print('\\n'.join(p for p in sys.path if p))";
        // Isolated: neither the current folder nor PYTHONPATH has a say.
        let output = Command::new(python).args(["-I", "-c", ask]).stdin(Stdio::null()).stderr(Stdio::null()).output();
        let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
        text.lines().map(PathBuf::from).filter(|p| p.is_dir()).collect()
    }

    /// Where Daylight keeps packages that it fetched, one folder each: pip replaces whole folders.
    pub fn packages(&self) -> PathBuf {
        self.cache.join("packages")
    }
}

fn site(python: PathBuf) -> PathBuf {
    python.join("site-packages")
}

/// Entries of a folder whose name passes, sorted; none if it can't be read.
pub(super) fn children(folder: &Path, keep: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|e| e.file_name().to_str().is_some_and(&keep));
    let mut paths: Vec<PathBuf> = named.map(|e| e.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_current_folder_is_a_place() {
        let var = |name: &str| {
            let value = match name {
                "PATH" | "LD_LIBRARY_PATH" => ".:bin::/usr/bin",
                "HOME" | "XDG_CACHE_HOME" | "VIRTUAL_ENV" | "CUDA_HOME" => "here",
                _ => return None,
            };
            Some(OsString::from(value))
        };
        let places = Places::of(var, None);
        assert_eq!(
            (places.path.as_slice(), places.library_path.as_slice()),
            (&["/usr/bin".into()][..], &["/usr/bin".into()][..])
        );
        assert!(places.cache.is_absolute() && places.home.is_none());
        assert!(places.site_packages().iter().chain(&places.toolkits()).all(|p| p.is_absolute()));
    }

    #[test]
    fn without_a_home_the_cache_is_a_folder_of_mine() {
        let places = Places::of(|_| None, None);
        let me = owner::me().expect("files have an owner");
        assert!(places.cache.ends_with(format!("daylight-{me}")), "{}", places.cache.display());
    }
}

//! Artifacts on disk, by a hash of everything that decides their bytes: text, language, target and
//! compiler. Files appear whole (written aside, then renamed), so processes share a folder freely.

use super::{Artifact, Format, Resources, Source, Warning};
use crate::files::owner;
use crate::files::scratch::{self, Aside};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Raised when options or this layout change, so that old entries are not found.
const VERSION: u32 = 2;

/// A folder of artifacts.
#[derive(Clone, Debug)]
pub struct ArtifactCache {
    folder: PathBuf,
}

/// What lies next to an artifact.
#[derive(Serialize, Deserialize)]
struct Note {
    format: Format,
    hash: String,
    res: Resources,
    warnings: Vec<Warning>,
    compiler: String,
}

impl ArtifactCache {
    /// The cache in a folder, which is made when something is stored.
    pub fn new(folder: impl Into<PathBuf>) -> ArtifactCache {
        ArtifactCache { folder: folder.into() }
    }

    /// The key of a source under a compiler.
    pub fn key(source: &Source, compiler: &str) -> String {
        let mut hash = Xxh3::new();
        for part in [source.text.as_str(), source.target.as_str(), compiler] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        hash.update(&[VERSION as u8, source.language as u8]);
        format!("{:032x}", hash.digest128())
    }

    fn file(&self, key: &str, extension: &str) -> PathBuf {
        self.folder.join(&key[..2]).join(format!("{key}.{extension}"))
    }

    /// A stored artifact; `None` where there is none or its bytes are damaged.
    pub fn get(&self, key: &str) -> Option<Artifact> {
        if !owner::is_mine(&self.folder) {
            return None;
        }
        let note: Note = serde_json::from_slice(&std::fs::read(self.file(key, "json")).ok()?).ok()?;
        let path = self.file(key, extension(note.format));
        let bytes = std::fs::read(&path).ok()?;
        (format!("{:032x}", xxh3_128(&bytes)) == note.hash).then(|| Artifact {
            format: note.format,
            bytes: bytes.into(),
            path,
            res: note.res,
            warnings: note.warnings,
            compiler: note.compiler,
        })
    }

    /// Stores an artifact; gives it back with the path where it lies.
    ///
    /// # Errors
    /// When the folder can't be written, or somebody else may write to it.
    pub fn put(&self, key: &str, mut artifact: Artifact) -> io::Result<Artifact> {
        owner::make(&self.folder)?;
        let note = Note {
            format: artifact.format,
            hash: artifact.hash(),
            res: artifact.res,
            warnings: artifact.warnings.clone(),
            compiler: artifact.compiler.clone(),
        };
        artifact.path = self.file(key, extension(artifact.format));
        write_whole(&artifact.path, &artifact.bytes)?;
        // The note comes last: what has a note is complete.
        write_whole(&self.file(key, "json"), &serde_json::to_vec(&note)?)?;
        Ok(artifact)
    }
}

/// One entry of the cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    /// The note, then the artifact: without its note an artifact is not found.
    files: Vec<PathBuf>,
    /// Bytes on disk.
    pub bytes: u64,
    /// Since it was written.
    pub age: Duration,
}

impl Stored {
    /// Removes it.
    ///
    /// # Errors
    /// When a file can't be removed; that it is gone already is none.
    pub fn remove(&self) -> io::Result<()> {
        self.files.iter().try_for_each(|f| match std::fs::remove_file(f) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            Ok(()) | Err(_) => Ok(()),
        })
    }
}

/// What is stored in a folder, by key; what is not of the cache is left out.
///
/// # Errors
/// When the folder can't be read, or is somebody else's.
pub fn stored(folder: &Path) -> Result<Vec<Stored>, String> {
    if !folder.exists() {
        return Ok(vec![]);
    }
    if !owner::is_mine(folder) {
        return Err(format!("{} belongs to somebody else, or everybody may write to it", folder.display()));
    }
    let cannot = |e: io::Error| format!("cannot read {}: {e}", folder.display());
    let mut out = vec![];
    for shelf in sorted(folder).map_err(cannot)?.into_iter().filter(|p| p.is_dir() && !p.is_symlink()) {
        let files = sorted(&shelf).map_err(cannot)?;
        for note in files.iter().filter(|p| is_note(p)) {
            let of_key = |p: &&PathBuf| p.file_stem() == note.file_stem() && *p != note && !p.is_symlink();
            let own: Vec<PathBuf> = [note].into_iter().chain(files.iter().filter(of_key)).cloned().collect();
            let sizes = own.iter().filter_map(|p| p.metadata().ok());
            let age = note.metadata().and_then(|m| m.modified()).ok().and_then(|t| t.elapsed().ok());
            out.push(Stored { bytes: sizes.map(|m| m.len()).sum(), age: age.unwrap_or_default(), files: own });
        }
    }
    Ok(out)
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<io::Result<_>>()?;
    all.sort();
    Ok(all)
}

/// `<32 hexadecimal digits>.json`.
fn is_note(path: &Path) -> bool {
    let is_key = |s: &str| s.len() == 32 && s.bytes().all(|b| b.is_ascii_hexdigit());
    path.extension().is_some_and(|e| e == "json") && path.file_stem().and_then(|s| s.to_str()).is_some_and(is_key)
}

fn extension(format: Format) -> &'static str {
    match format {
        Format::Cubin => "cubin",
        Format::SharedObject => "so",
    }
}

/// Writes a file that readers see whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    scratch::sweep(folder);
    let mut aside = Aside::new(&mut tempfile::Builder::new(), folder)?;
    aside.file.write_all(bytes)?;
    aside.persist(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Language;

    fn source(text: &str, target: &str) -> Source {
        Source { text: text.to_string(), language: Language::C, target: target.to_string(), symbols: vec![] }
    }

    #[test]
    fn what_is_put_is_found_and_damage_is_a_miss() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ArtifactCache::new(folder.path());
        let key = ArtifactCache::key(&source("a", "cpu:x86-64-v3"), "gcc 12");
        assert_eq!(cache.get(&key), None);
        let artifact = Artifact {
            format: Format::SharedObject,
            bytes: b"object".as_slice().into(),
            path: PathBuf::new(),
            res: Resources { regs: 1, spill: 2, smem: 3 },
            warnings: super::super::warning::parse("a.c:1:2: warning: w"),
            compiler: "gcc 12".to_string(),
        };
        let stored = cache.put(&key, artifact).unwrap();
        assert_eq!(cache.get(&key), Some(stored.clone()));
        std::fs::write(&stored.path, b"obj").unwrap();
        assert_eq!(cache.get(&key), None);
    }

    #[test]
    fn a_folder_that_others_write_to_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let cache = ArtifactCache::new(folder.path());
        let key = ArtifactCache::key(&source("a", "cpu:x86-64-v3"), "gcc 12");
        let artifact = Artifact {
            format: Format::SharedObject,
            bytes: b"object".as_slice().into(),
            path: PathBuf::new(),
            res: Resources::default(),
            warnings: vec![],
            compiler: "gcc 12".to_string(),
        };
        cache.put(&key, artifact.clone()).unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(cache.get(&key), None);
        assert!(cache.put(&key, artifact).is_err());
    }

    #[test]
    fn text_target_and_compiler_are_in_the_key() {
        let keys = [
            ArtifactCache::key(&source("a", "cpu:x86-64-v3"), "gcc 12"),
            ArtifactCache::key(&source("b", "cpu:x86-64-v3"), "gcc 12"),
            ArtifactCache::key(&source("a", "cpu:x86-64-v4"), "gcc 12"),
            ArtifactCache::key(&source("a", "cpu:x86-64-v3"), "gcc 13"),
        ];
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }
}

//! Temporary files and folders of processes that may be killed at any moment. Each is locked while its owner lives, and
//! who makes one removes those of this user beside it that nobody holds any more.

use super::owner;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Once;
use tempfile::{Builder, NamedTempFile, TempDir};

/// How all of them are named.
const PREFIX: &str = ".daylight-held-";

/// A temporary folder, removed when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    _lock: File,
}

impl Scratch {
    /// A folder where the system has temporary files.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> io::Result<Scratch> {
        static SWEPT: Once = Once::new();
        let all = std::env::temp_dir();
        SWEPT.call_once(|| sweep(&all));
        Scratch::made(&all)
    }

    /// A folder inside another, from where what it holds can be renamed to a place beside it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn within(folder: &Path) -> io::Result<Scratch> {
        sweep(folder);
        Scratch::made(folder)
    }

    fn made(within: &Path) -> io::Result<Scratch> {
        let (folder, lock) = held(|| Builder::new().prefix(PREFIX).tempdir_in(within), TempDir::path)?;
        Ok(Scratch { folder, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// A temporary file, to be renamed.
#[derive(Debug)]
pub struct Aside {
    /// The file.
    pub file: NamedTempFile,
    _lock: File,
}

impl Aside {
    /// A file in a folder, with what permissions `builder` says.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(builder: &mut Builder<'_, '_>, folder: &Path) -> io::Result<Aside> {
        builder.prefix(PREFIX);
        let (file, lock) = held(|| builder.tempfile_in(folder), NamedTempFile::path)?;
        Ok(Aside { file, _lock: lock })
    }

    /// Gives the file its name, in place of what has it.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub fn persist(self, path: &Path) -> io::Result<()> {
        self.file.persist(path).map(drop).map_err(|e| e.error)
    }
}

/// What files have that everybody may read, less what the user's mask takes away.
pub fn readable() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}

/// Something that was made and locked. Before it is locked another process may take it for left over.
fn held<T>(make: impl Fn() -> io::Result<T>, path: fn(&T) -> &Path) -> io::Result<(T, File)> {
    const TRIES: usize = 20;
    for _ in 0..TRIES {
        let made = make()?;
        let Ok(lock) = File::open(path(&made)) else { continue };
        // Where a file system has no locks nothing can be swept either.
        drop(lock.lock());
        if lock.metadata()?.nlink() > 0 {
            return Ok((made, lock));
        }
    }
    Err(io::Error::other("what is made there is removed at once by another process"))
}

/// Removes what owners that were killed have left in a folder.
pub fn sweep(folder: &Path) {
    let Ok(list) = std::fs::read_dir(folder) else { return };
    let left = list.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(PREFIX));
    for path in left.map(|e| e.path()) {
        let Ok(found) = std::fs::symlink_metadata(&path) else { continue };
        if found.is_symlink() || Some(found.uid()) != owner::me() {
            continue;
        }
        let Some(lock) = File::open(&path).ok().filter(|f| f.try_lock().is_ok()) else { continue };
        // What cannot be removed stays for the next one.
        drop(if found.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) });
        drop(lock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_swept_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let builder = || Builder::new();
        let held = Aside::new(&mut builder(), folder.path()).unwrap();
        std::fs::create_dir(at(".daylight-held-dead")).unwrap();
        std::fs::write(at(".daylight-held-dead/expected"), "much").unwrap();
        std::fs::write(at(".daylight-held-file"), "some").unwrap();
        std::fs::write(at("a.c"), "mine").unwrap();
        std::os::unix::fs::symlink(at("a.c"), at(".daylight-held-link")).unwrap();
        sweep(folder.path());
        assert!(held.file.path().exists() && at("a.c").exists() && at(".daylight-held-link").is_symlink());
        assert!(!at(".daylight-held-dead").exists() && !at(".daylight-held-file").exists());
        std::fs::create_dir(at(".daylight-held-dead")).unwrap();
        let within = Scratch::within(folder.path()).unwrap();
        assert!(within.path().parent() == Some(folder.path()) && !at(".daylight-held-dead").exists());
        drop(within);
        held.persist(&at("b.c")).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}

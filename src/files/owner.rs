//! Whose folders are: what is loaded from one has to be written by nobody else.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::OnceLock;

/// The number of the user that files of this process belong to.
pub fn me() -> Option<u32> {
    static ME: OnceLock<Option<u32>> = OnceLock::new();
    *ME.get_or_init(|| tempfile::tempfile().and_then(|f| f.metadata()).ok().map(|m| m.uid()))
}

/// True where a folder is this user's or the system's, and not for everybody to write to.
pub fn is_mine(folder: &Path) -> bool {
    let Ok(found) = std::fs::metadata(folder) else { return false };
    found.is_dir() && (found.uid() == 0 || Some(found.uid()) == me()) && found.mode() & 0o002 == 0
}

/// Makes a folder that only this user may enter, where it is missing.
///
/// # Errors
/// When it cannot be made, or is there and somebody else's.
pub fn make(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if is_mine(folder) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to somebody else, or everybody may write to it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_that_everybody_may_write_to_is_not_mine() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("a/b");
        make(&cache).unwrap();
        assert_eq!(std::fs::metadata(&cache).unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!is_mine(&cache));
        assert!(make(&cache).unwrap_err().to_string().contains("everybody may write"));
    }
}

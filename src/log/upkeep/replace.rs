//! Whole log files, written so that readers see the old one or the new one, never a part.

use crate::files::scratch::{self, Aside, readable};
use crate::log::scan::is_compressed;
use crate::log::{Encoder, Record};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write};
use std::path::Path;

/// Writes records as one log file, in place of what was there; compressed when its name ends in
/// `.gz`. The same records give the same bytes.
///
/// # Errors
/// A sentence when the file cannot be written; what was there stays.
pub fn write(path: &Path, records: &[Record]) -> Result<(), String> {
    let mut encoder = Encoder::default();
    let text: String = records.iter().map(|r| encoder.lines(r)).collect();
    if !is_compressed(path) {
        return replace(path, text.as_bytes());
    }
    let mut packer = GzEncoder::new(vec![], Compression::default());
    let packed = packer.write_all(text.as_bytes()).and_then(|()| packer.finish());
    replace(path, &packed.map_err(|e| format!("cannot compress {}: {e}", path.display()))?)
}

/// Writes a file whole, with its folder when that is missing: into a temporary file next to it, which
/// then takes its name.
///
/// # Errors
/// A sentence when the file cannot be written; what was there stays.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let cannot = |e: io::Error| format!("cannot write {}: {e}", path.display());
    if path.exists() && !path.is_file() {
        return Err(format!("cannot write {}: it is not a file; name a file with --out", path.display()));
    }
    // Behind a link, the file that it names is the one to replace.
    let target = if path.exists() { path.canonicalize().map_err(cannot)? } else { path.to_path_buf() };
    let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(cannot)?;
    scratch::sweep(folder);
    let mut aside = Aside::new(tempfile::Builder::new().permissions(readable()), folder).map_err(cannot)?;
    aside.file.write_all(bytes).map_err(cannot)?;
    aside.file.as_file().sync_all().map_err(cannot)?;
    aside.persist(&target).map_err(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::line::tests::record;
    use crate::log::read;

    #[test]
    fn plain_and_compressed_files_hold_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let records: Vec<Record> = (0..50).map(|x| record(x, &[x as f64])).collect();
        let (plain, packed) = (dir.path().join("new/a.jsonl"), dir.path().join("new/a.jsonl.gz"));
        write(&plain, &records).unwrap();
        write(&packed, &records).unwrap();
        assert_eq!(read(&plain).unwrap().records, read(&packed).unwrap().records);
        assert_eq!(read(&plain).unwrap().records.len(), 50);
        let size = |p: &Path| std::fs::metadata(p).unwrap().len();
        assert!(size(&packed) * 4 < size(&plain));
        let first = std::fs::read(&packed).unwrap();
        write(&packed, &records).unwrap();
        assert_eq!(std::fs::read(&packed).unwrap(), first);
        std::fs::write(dir.path().join("new/.daylight-held-dead"), "of a process that was killed").unwrap();
        write(&packed, &records).unwrap();
        assert_eq!(std::fs::read_dir(dir.path().join("new")).unwrap().count(), 2, "no temporary file stays");
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_links_and_devices_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("a.jsonl"), dir.path().join("link.jsonl"));
        write(&file, &[]).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, &[record(1, &[1.0])]).unwrap();
        assert!(link.is_symlink() && read(&file).unwrap().records.len() == 1);
        assert!(replace(Path::new("/dev/null"), b"x").unwrap_err().contains("not a file"));
        assert!(replace(dir.path(), b"x").unwrap_err().contains("not a file"));
        assert!(replace(Path::new("/proc/nowhere/x"), b"x").unwrap_err().contains("cannot write /proc/nowhere/x"));
    }
}

//! Logs on disk: a file, or a folder of `*.jsonl` and `*.jsonl.gz` files.

use super::scan::scan;
use super::{LineError, Record};
use std::path::{Path, PathBuf};

/// What a log held.
#[derive(Clone, Default, Debug)]
pub struct LogFile {
    /// The intact records, in file order.
    pub records: Vec<Record>,
    /// Lines that were left out.
    pub skipped: Vec<Skipped>,
}

/// A line that was left out.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Skipped {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// Why.
    pub why: String,
}

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: skipped a line of the log: {}", self.file.display(), self.line, self.why)
    }
}

/// The files of a log: the file itself, or the `*.jsonl` and `*.jsonl.gz` files of a folder in order
/// of name.
///
/// # Errors
/// A sentence when the path does not exist or the folder cannot be listed.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return if path.exists() {
            Ok(vec![path.into()])
        } else {
            Err(format!("no log at {}; `daylight tune` writes one", path.display()))
        };
    }
    let cannot = |e: std::io::Error| format!("cannot list the log folder {}: {e}", path.display());
    let mut found = vec![];
    for entry in std::fs::read_dir(path).map_err(cannot)? {
        let file = entry.map_err(cannot)?.path();
        let name = file.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
        if name.ends_with(".jsonl") || name.ends_with(".jsonl.gz") {
            found.push(file);
        }
    }
    found.sort();
    Ok(found)
}

/// The file that records for `target` are appended to: `log` itself, or `<target>.jsonl` in it when
/// it is a folder or a name without the extension `jsonl` that does not exist yet.
pub fn path_for(log: &Path, target: &str) -> PathBuf {
    let is_file = log.is_file() || (!log.is_dir() && log.extension().is_some());
    // A device such as /dev/full is neither file nor folder: append to it as asked.
    if is_file || (log.exists() && !log.is_dir()) {
        return log.into();
    }
    log.join(format!("{}.jsonl", target.replace(':', "-")))
}

/// Reads the log that records are appended to, behind what a compressed file beside it (`<name>.gz`) keeps of
/// earlier runs.
///
/// # Errors
/// As [`read`].
pub fn past(path: &Path) -> Result<LogFile, String> {
    let mut packed = path.as_os_str().to_owned();
    packed.push(".gz");
    let packed = PathBuf::from(packed);
    let mut log = if packed.is_file() { read(&packed)? } else { LogFile::default() };
    let own = read(path)?;
    log.records.extend(own.records);
    log.skipped.extend(own.skipped);
    Ok(log)
}

/// Reads a log, a file or a folder. Torn and damaged lines are listed, not fatal.
///
/// # Errors
/// A sentence when a file cannot be read or holds records of a newer schema.
pub fn read(path: &Path) -> Result<LogFile, String> {
    let mut log = LogFile::default();
    for file in files(path)? {
        for (line, found) in scan(&file)? {
            match found {
                Ok(record) => log.records.push(record),
                Err(LineError::Damaged(why)) => log.skipped.push(Skipped { file: file.clone(), line, why }),
                Err(e @ LineError::Newer(_)) => return Err(format!("{}:{line}: {e}", file.display())),
            }
        }
    }
    Ok(log)
}

#[cfg(test)]
mod tests {
    use super::super::SCHEMA;
    use super::super::line::tests::record;
    use super::*;

    #[test]
    fn a_log_that_is_not_there() {
        assert_eq!(read(Path::new("/no/such")).unwrap_err(), "no log at /no/such; `daylight tune` writes one");
    }

    #[test]
    fn a_newer_log_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        std::fs::write(&path, Record { schema: SCHEMA + 1, ..record(1, &[]) }.to_line()).unwrap();
        let e = read(&path).unwrap_err();
        assert!(
            e.ends_with("a.jsonl:1: the record has schema 4 and this daylight reads up to 3; update daylight"),
            "{e}"
        );
    }

    #[test]
    fn folders_hold_one_file_per_target() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(path_for(dir.path(), "cuda:sm_90a"), dir.path().join("cuda-sm_90a.jsonl"));
        assert_eq!(path_for(Path::new("x/new.jsonl"), "cpu"), Path::new("x/new.jsonl"));
        assert_eq!(path_for(Path::new("x/logs"), "cpu"), Path::new("x/logs/cpu.jsonl"));
    }
}

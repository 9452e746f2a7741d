//! Logs on disk: a file, or a folder of `*.jsonl` files.

use super::{LineError, Record};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
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

/// The files of a log: the file itself, or the `*.jsonl` files of a folder in order of name.
///
/// # Errors
/// A sentence when the path does not exist or the folder cannot be listed.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return if path.exists() { Ok(vec![path.into()]) } else { Err(format!("no log at {}", path.display())) };
    }
    let cannot = |e: std::io::Error| format!("cannot list the log folder {}: {e}", path.display());
    let mut found = vec![];
    for entry in std::fs::read_dir(path).map_err(cannot)? {
        let file = entry.map_err(cannot)?.path();
        if file.extension().is_some_and(|e| e == "jsonl") {
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

/// Reads a log, a file or a folder. Torn and damaged lines are listed, not fatal.
///
/// # Errors
/// A sentence when a file cannot be read or holds records of a newer schema.
pub fn read(path: &Path) -> Result<LogFile, String> {
    let mut log = LogFile::default();
    for file in files(path)? {
        if is_device(&file) {
            continue; // such as /dev/null: nothing comes back, or no end of it
        }
        let bytes = std::fs::read(&file).map_err(|e| format!("cannot read the log {}: {e}", file.display()))?;
        parse(&bytes, &file, &mut log)?;
    }
    Ok(log)
}

/// True for devices, which may be written to but not read back.
fn is_device(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        std::fs::metadata(path).is_ok_and(|m| m.file_type().is_char_device() || m.file_type().is_block_device())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// Reads the lines of one file into `log`.
fn parse(bytes: &[u8], file: &Path, log: &mut LogFile) -> Result<(), String> {
    for (i, line) in bytes.split(|b| *b == b'\n').enumerate() {
        let text = String::from_utf8_lossy(line);
        if text.trim().is_empty() {
            continue;
        }
        match Record::from_line(&text) {
            Ok(record) => log.records.push(record),
            Err(LineError::Damaged(why)) => log.skipped.push(Skipped { file: file.into(), line: i + 1, why }),
            Err(e @ LineError::Newer(_)) => return Err(format!("{}:{}: {e}", file.display(), i + 1)),
        }
    }
    Ok(())
}

/// Appends records to one file, each with a single write.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: File,
    /// The file ends in a torn line, so the next record starts on a line of its own.
    torn: bool,
}

impl Writer {
    /// Opens a log for appending; makes it, and its folder, when missing.
    ///
    /// # Errors
    /// A sentence when the file cannot be made or written.
    pub fn open(path: &Path) -> Result<Writer, String> {
        let cannot =
            |e: std::io::Error| format!("cannot write the log {}: {e}; name another with --log", path.display());
        if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(cannot)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(cannot)?;
        let torn = ends_torn(path).map_err(cannot)?;
        Ok(Writer { path: path.into(), file, torn })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one record.
    ///
    /// # Errors
    /// A sentence when the line could not be written whole. What was logged before stays.
    pub fn append(&mut self, record: &Record) -> Result<(), String> {
        let mut line = record.to_line();
        if self.torn {
            line.insert(0, '\n');
        }
        let written = self.file.write(line.as_bytes());
        self.torn = !matches!(written, Ok(n) if n == line.len());
        match written {
            Ok(n) if n == line.len() => Ok(()),
            Ok(_) => Err(self.sentence("the disk is full")),
            Err(e) => Err(self.sentence(&e.to_string())),
        }
    }

    fn sentence(&self, why: &str) -> String {
        format!("cannot append to the log {}: {why}; the records before are kept", self.path.display())
    }
}

/// True when the file's last byte is not a newline.
fn ends_torn(path: &Path) -> std::io::Result<bool> {
    if !path.is_file() {
        return Ok(false);
    }
    let mut file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0u8];
    file.read_exact(&mut last)?;
    Ok(last[0] != b'\n')
}

#[cfg(test)]
mod tests {
    use super::super::line::tests::record;
    use super::*;

    #[test]
    fn what_is_appended_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/folder/a.jsonl");
        let mut w = Writer::open(&path).unwrap();
        w.append(&record(1, &[5.0])).unwrap();
        w.append(&record(2, &[6.0])).unwrap();
        let log = read(&path).unwrap();
        assert_eq!(log.records.len(), 2);
        assert_eq!(log.records[1].knobs["threads"], 2);
        assert!(log.skipped.is_empty());
        assert_eq!(read(path.parent().unwrap()).unwrap().records.len(), 2);
    }

    #[test]
    fn a_torn_tail_costs_one_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let whole = record(1, &[5.0]).to_line() + &record(2, &[6.0]).to_line();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            Writer::open(&path).unwrap().append(&record(3, &[7.0])).unwrap();
            let log = read(&path).unwrap();
            let complete = (cut + 1) / (whole.len() / 2); // a line that only lacks its newline is whole
            assert_eq!(log.records.len(), complete + 1, "cut at {cut}");
            assert!(log.skipped.len() <= 1);
            assert_eq!(log.records.last().unwrap().knobs["threads"], 3);
        }
    }

    #[test]
    fn sentences_for_what_cannot_be_written() {
        let mut full = Writer::open(Path::new("/dev/full")).unwrap();
        let e = full.append(&record(1, &[5.0])).unwrap_err();
        assert!(e.starts_with("cannot append to the log /dev/full: No space left"), "{e}");
        let e = Writer::open(Path::new("/proc/nowhere/a.jsonl")).unwrap_err();
        assert!(e.contains("/proc/nowhere/a.jsonl") && e.contains("--log"), "{e}");
        assert_eq!(read(Path::new("/no/such")).unwrap_err(), "no log at /no/such");
    }

    #[test]
    fn a_newer_log_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        std::fs::write(&path, Record { schema: 2, ..record(1, &[]) }.to_line()).unwrap();
        let e = read(&path).unwrap_err();
        assert!(
            e.ends_with("a.jsonl:1: the record has schema 2 and this daylight reads up to 1; update daylight"),
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

//! Appending to a log.

use crate::log::scan::is_compressed;
use crate::log::{Encoder, Record};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Appends records to one file, each with a single write.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: File,
    /// The file ends in a torn line, so the next record starts on a line of its own.
    torn: bool,
    /// Knows what this writer has written for records to refer to. What others wrote is not relied on.
    encoder: Encoder,
}

impl Writer {
    /// Opens a log for appending; makes it, and its folder, when missing.
    ///
    /// # Errors
    /// A sentence when the file cannot be made or written, or is compressed.
    pub fn open(path: &Path) -> Result<Writer, String> {
        if is_compressed(path) {
            let plain = path.with_extension("");
            return Err(format!(
                "cannot append to the log {0}: it is compressed; unpack it with \
                 `daylight log merge {0} --out {1}` and name {1} with --log",
                path.display(),
                plain.display()
            ));
        }
        let cannot =
            |e: std::io::Error| format!("cannot write the log {}: {e}; name another with --log", path.display());
        if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(cannot)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(cannot)?;
        let torn = ends_torn(path).map_err(cannot)?;
        Ok(Writer { path: path.into(), file, torn, encoder: Encoder::default() })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one record, with what it refers to where that is due, in a single write.
    ///
    /// # Errors
    /// A sentence when the line could not be written whole. What was logged before stays.
    pub fn append(&mut self, record: &Record) -> Result<(), String> {
        let mut line = self.encoder.lines(record);
        if self.torn {
            line.insert(0, '\n');
        }
        let written = self.file.write(line.as_bytes());
        self.torn = !matches!(written, Ok(n) if n == line.len());
        if self.torn {
            self.encoder = Encoder::default(); // what is to be referred to may not be there
        }
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
    use super::*;
    use crate::log::line::tests::record;
    use crate::log::{LogFile, past, read, write};

    #[test]
    fn what_is_appended_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/folder/a.jsonl");
        let mut w = Writer::open(&path).unwrap();
        w.append(&record(1, &[5.0])).unwrap();
        w.append(&record(2, &[6.0])).unwrap();
        let log = read(&path).unwrap();
        assert_eq!(log.records.len(), 2);
        assert_eq!(log.records[1].knobs["threads"], 2.into());
        assert!(log.skipped.is_empty());
        assert_eq!(read(path.parent().unwrap()).unwrap().records.len(), 2);
    }

    #[test]
    fn what_is_compressed_comes_before_what_was_appended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        write(&dir.path().join("a.jsonl.gz"), &[record(1, &[5.0]), record(2, &[6.0])]).unwrap();
        Writer::open(&path).unwrap().append(&record(3, &[7.0])).unwrap();
        let knobs =
            |log: LogFile| log.records.iter().map(|r| r.knobs["threads"].number().unwrap()).collect::<Vec<i64>>();
        assert_eq!(knobs(past(&path).unwrap()), [1, 2, 3]);
        assert_eq!(knobs(read(&path).unwrap()), [3]);
    }

    #[test]
    fn a_torn_tail_costs_one_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let whole = record(1, &[5.0]).to_line() + &record(2, &[6.0]).to_line();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut writer = Writer::open(&path).unwrap();
            writer.append(&record(3, &[7.0])).unwrap();
            writer.append(&record(4, &[8.0])).unwrap();
            let log = read(&path).unwrap();
            let complete = (cut + 1) / (whole.len() / 2); // a line that only lacks its newline is whole
            let want: Vec<i64> = (1..=complete as i64).chain([3, 4]).collect();
            let got: Vec<i64> = log.records.iter().map(|r| r.knobs["threads"].number().unwrap()).collect();
            assert_eq!(got, want, "cut at {cut}");
            assert!(log.skipped.len() <= 1);
        }
    }

    #[test]
    fn sentences_for_what_cannot_be_written() {
        let mut full = Writer::open(Path::new("/dev/full")).unwrap();
        let e = full.append(&record(1, &[5.0])).unwrap_err();
        assert!(e.starts_with("cannot append to the log /dev/full: No space left"), "{e}");
        let e = Writer::open(Path::new("/proc/nowhere/a.jsonl")).unwrap_err();
        assert!(e.contains("/proc/nowhere/a.jsonl") && e.contains("--log"), "{e}");
        let e = Writer::open(Path::new("x/a.jsonl.gz")).unwrap_err();
        assert!(e.contains("compressed") && e.contains("log merge x/a.jsonl.gz --out x/a.jsonl`"), "{e}");
    }
}

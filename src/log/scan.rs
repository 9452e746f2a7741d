//! One file of a log, line by line, plain or compressed, with what is damaged left out.

use super::brief::{Brief, Shared};
use super::line::{Line as Parsed, parse};
use super::{LineError, Record};
use flate2::read::MultiGzDecoder;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// How lines start. It cannot stand inside one: quotes in strings are escaped.
const STARTS: [&str; 2] = ["{\"schema\":", "{\"crc32c\":"];

/// What a line of a file holds, with its number from 1.
pub(super) type Line = (usize, Result<Record, LineError>);

/// True for logs that are compressed, by their name.
pub(super) fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "gz")
}

/// The records of a file, and what is wrong with its lines; blank ones are left out.
///
/// # Errors
/// A sentence when the file cannot be read.
pub(super) fn scan(file: &Path) -> Result<Vec<Line>, String> {
    if is_pipe(file) {
        return Err(format!("the log {} is a pipe, not a file; name a file or a folder", file.display()));
    }
    if is_device(file) {
        return Ok(vec![]); // such as /dev/null: nothing comes back, or no end of it
    }
    let raw = std::fs::read(file).map_err(|e| format!("cannot read the log {}: {e}", file.display()))?;
    let (bytes, damage) = if is_compressed(file) { unpack(&raw) } else { (raw, None) };
    let mut out = vec![];
    let mut last = 0;
    for (i, line) in bytes.split(|b| *b == b'\n').enumerate() {
        last = i + 1;
        out.extend(parts(&String::from_utf8_lossy(line)).into_iter().map(|r| (last, r)));
    }
    if let Some(why) = damage {
        // The end of the last line is missing because of the same damage.
        out.retain(|(line, r)| *line != last || r.is_ok());
        out.push((last, Err(LineError::Damaged(why))));
    }
    Ok(complete(out))
}

/// The records among the lines, each with what it refers to, wherever in the file that stands.
fn complete(lines: Vec<(usize, Result<Parsed, LineError>)>) -> Vec<Line> {
    let mut shared = References::default();
    for (_, line) in &lines {
        if let Ok(Parsed::Shared(s)) = line {
            shared.take(s);
        }
    }
    let record = |line| match line {
        Ok(Parsed::Whole(record)) => Some(Ok(*record)),
        Ok(Parsed::Brief(brief)) => Some(shared.record(brief)),
        Ok(Parsed::Shared(_)) => None,
        Err(e) => Some(Err(e)),
    };
    lines.into_iter().filter_map(|(at, line)| Some((at, record(line)?))).collect()
}

/// What the records of a file refer to, by its name; `None` where the file says two things by one name.
#[derive(Default)]
struct References(BTreeMap<String, Option<Shared>>);

impl References {
    fn take(&mut self, s: &Shared) {
        let slot = self.0.entry(s.id.clone()).or_insert_with(|| Some(s.clone()));
        if slot.as_ref().is_some_and(|known| !known.agrees(s)) {
            *slot = None;
        }
    }

    fn find(&self, id: &str) -> Result<&Shared, LineError> {
        let missing =
            || LineError::Damaged(format!("the line \"{id}\" that it refers to is not in the file, or damaged"));
        self.0.get(id).and_then(Option::as_ref).ok_or_else(missing)
    }

    fn record(&self, brief: Brief) -> Result<Record, LineError> {
        let other = |id: &str| LineError::Damaged(format!("the line \"{id}\" that it refers to is of another kind"));
        let space = self.find(&brief.of)?.space.as_ref().ok_or_else(|| other(&brief.of))?;
        let task = self.find(&space.of)?.task.as_ref().ok_or_else(|| other(&space.of))?;
        let said =
            |(id, count): &(String, u32)| Ok(self.find(id)?.warning.as_ref().ok_or_else(|| other(id))?.warning(*count));
        let warnings = brief.warned.iter().map(said).collect::<Result<_, _>>()?;
        brief.record(task, space, warnings)
    }
}

/// What one line holds: one thing, unless a writer that died left a torn line and another writer, which
/// had the file open already, went on behind it.
fn parts(line: &str) -> Vec<Result<Parsed, LineError>> {
    if line.trim().is_empty() {
        return vec![];
    }
    let whole = parse(line);
    if !matches!(whole, Err(LineError::Damaged(_))) {
        return vec![whole];
    }
    let starts = STARTS.iter().flat_map(|start| line.match_indices(start)).map(|(at, _)| at).filter(|at| *at > 0);
    let mut cuts: Vec<usize> = [0].into_iter().chain(starts).chain([line.len()]).collect();
    cuts.sort_unstable();
    if cuts.len() == 2 {
        return vec![whole];
    }
    cuts.windows(2).map(|c| parse(&line[c[0]..c[1]])).collect()
}

/// The most that a compressed file may unpack to.
const MOST_BYTES: usize = 1 << 30;

/// The text of a compressed file as far as it is intact, and what is wrong after that.
fn unpack(raw: &[u8]) -> (Vec<u8>, Option<String>) {
    unpack_at_most(raw, MOST_BYTES)
}

fn unpack_at_most(raw: &[u8], most: usize) -> (Vec<u8>, Option<String>) {
    let mut decoder = MultiGzDecoder::new(raw);
    let mut out = vec![];
    let mut chunk = [0; 4096];
    loop {
        match decoder.read(&mut chunk) {
            Ok(0) => return (out, None),
            Ok(_) if out.len() >= most => return (out, Some(format!("it unpacks to more than {most} bytes"))),
            Ok(n) => out.extend_from_slice(&chunk[..n]),
            Err(e) => return (out, Some(format!("the compressed file is damaged from here on: {e}"))),
        }
    }
}

/// True for a pipe, which would be waited for.
fn is_pipe(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        std::fs::metadata(path).is_ok_and(|m| m.file_type().is_fifo() || m.file_type().is_socket())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
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

#[cfg(test)]
mod tests {
    use super::super::line::tests::record;
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    /// Knob values of the records, and how many lines were damaged.
    fn found(file: &Path) -> (Vec<i64>, usize) {
        let (good, bad): (Vec<_>, Vec<_>) = scan(file).unwrap().into_iter().partition(|(_, r)| r.is_ok());
        (good.into_iter().map(|(_, r)| r.unwrap().knobs["threads"].number().unwrap()).collect(), bad.len())
    }

    fn packed(text: &str) -> Vec<u8> {
        let mut out = GzEncoder::new(vec![], Compression::default());
        out.write_all(text.as_bytes()).unwrap();
        out.finish().unwrap()
    }

    #[test]
    fn a_record_behind_a_torn_line_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.jsonl");
        let (a, b) = (record(1, &[5.0]).to_line(), record(2, &[6.0]).to_line());
        for cut in 1..a.len() {
            std::fs::write(&file, format!("{}{b}", &a[..cut])).unwrap();
            let whole = cut + 1 >= a.len(); // only the newline is missing
            let want = if whole { (vec![1, 2], 0) } else { (vec![2], 1) };
            assert_eq!(found(&file), want, "cut at {cut}");
        }
    }

    #[test]
    fn compressed_logs_read_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.jsonl.gz");
        let text: String = (0..9).map(|x| record(x, &[5.0]).to_line()).collect();
        let bytes = packed(&text);
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(found(&file), ((0..9).collect(), 0));
        std::fs::write(&file, [packed(&text), packed(&record(9, &[1.0]).to_line())].concat()).unwrap();
        assert_eq!(found(&file), ((0..10).collect(), 0));
    }

    #[test]
    fn damage_to_a_compressed_log_costs_what_is_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.jsonl.gz");
        let text: String = (0..40).map(|x| record(x * 7919, &[x as f64 / 7.0]).to_line()).collect();
        let bytes = packed(&text);
        let mut least = 0;
        for cut in (0..bytes.len()).step_by(11) {
            std::fs::write(&file, &bytes[..cut]).unwrap();
            let (kept, bad) = found(&file);
            assert_eq!(bad, 1, "cut at {cut}");
            assert!(kept.len() >= least && kept.iter().enumerate().all(|(i, x)| *x == i as i64 * 7919));
            least = kept.len();
        }
        assert!(least >= 35, "{least} records of 40 come before the last bytes");
        for at in (0..bytes.len()).step_by(11) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            std::fs::write(&file, flipped).unwrap();
            let (kept, bad) = found(&file);
            assert!(kept.len() == 40 || bad >= 1, "flip at {at}");
        }
        std::fs::write(&file, "no gzip at all").unwrap();
        assert_eq!(found(&file), (vec![], 1));
    }

    #[test]
    fn a_small_file_that_unpacks_to_no_end_is_cut() {
        let mut packer = GzEncoder::new(vec![], Compression::best());
        packer.write_all(&vec![b'x'; 1 << 20]).unwrap();
        let (text, why) = unpack_at_most(&packer.finish().unwrap(), 1 << 16);
        assert!(text.len() <= (1 << 16) + 4096 && why.unwrap().contains("more than 65536 bytes"));
    }
}

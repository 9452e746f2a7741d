//! What a candidate must give: reference values of all or some elements of each output, and how far
//! from them is still right. Travels to the worker in a file.

use crate::ir::DType;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

/// Largest errors that are still right.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Tolerance {
    /// Of norm(o - r) / norm(r).
    pub l2: f64,
    /// Of max |o - r| / max(|r|, rms r).
    pub max: f64,
    /// How large results of such sums are where they do not cancel; stands in for rms r where that is less.
    #[serde(default)]
    pub scale: f64,
}

impl Tolerance {
    /// For copies, maxima, minima and integers.
    pub const EXACT: Tolerance = Tolerance { l2: 0.0, max: 0.0, scale: 0.0 };

    /// For sums: the roundoffs of output and accumulator types, and the reduction's length.
    pub fn of(output: DType, accumulator: DType, length: u64) -> Tolerance {
        let unit = output.roundoff() + accumulator.roundoff() * (length as f64).sqrt();
        Tolerance { l2: 4.0 * unit, max: 64.0 * unit, scale: 0.0 }
    }
}

/// Reference values of one output.
#[derive(Clone, PartialEq, Debug)]
pub struct ExpectedOutput {
    /// Position of the parameter.
    pub param: usize,
    /// Flat indices of the elements that are known; `None` for all of them.
    pub points: Option<Vec<u64>>,
    /// Their values.
    pub values: Vec<f64>,
    /// How near the output must come.
    pub tolerance: Tolerance,
}

/// Reference values of all outputs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Expected {
    /// One per output.
    pub outputs: Vec<ExpectedOutput>,
}

/// The first line of the file: one entry per output; then their points and values as 8-byte words.
#[derive(Serialize, Deserialize)]
struct Header {
    param: usize,
    points: Option<usize>,
    values: usize,
    tolerance: Tolerance,
}

impl Expected {
    /// Writes the file.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut out = BufWriter::new(std::fs::File::create(path)?);
        let header = |o: &ExpectedOutput| Header {
            param: o.param,
            points: o.points.as_ref().map(Vec::len),
            values: o.values.len(),
            tolerance: o.tolerance,
        };
        serde_json::to_writer(&mut out, &self.outputs.iter().map(header).collect::<Vec<_>>())?;
        out.write_all(b"\n")?;
        for o in &self.outputs {
            for p in o.points.iter().flatten() {
                out.write_all(&p.to_le_bytes())?;
            }
            for v in &o.values {
                out.write_all(&v.to_le_bytes())?;
            }
        }
        out.flush()
    }

    /// Reads the file.
    ///
    /// # Errors
    /// When it can't be read or is damaged.
    pub fn read(path: &Path) -> io::Result<Expected> {
        let mut input = BufReader::new(std::fs::File::open(path)?);
        let mut line = String::new();
        input.read_line(&mut line)?;
        let headers: Vec<Header> = serde_json::from_str(&line)?;
        let mut outputs = vec![];
        for h in headers {
            let points = h.points.map(|n| words(&mut input, n)).transpose()?;
            let values = words(&mut input, h.values)?.into_iter().map(f64::from_bits).collect();
            outputs.push(ExpectedOutput { param: h.param, points, values, tolerance: h.tolerance });
        }
        Ok(Expected { outputs })
    }
}

fn words(input: &mut impl Read, n: usize) -> io::Result<Vec<u64>> {
    let mut bytes = vec![0; n.checked_mul(8).ok_or(io::ErrorKind::InvalidData)?];
    input.read_exact(&mut bytes)?;
    let word = |c: &[u8]| c.iter().rev().fold(0u64, |w, b| w << 8 | u64::from(*b));
    Ok(bytes.chunks_exact(8).map(word).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("expected");
        let expected = Expected {
            outputs: vec![
                ExpectedOutput {
                    param: 2,
                    points: None,
                    values: vec![1.5, f64::NEG_INFINITY],
                    tolerance: Tolerance::EXACT,
                },
                ExpectedOutput {
                    param: 3,
                    points: Some(vec![7, 1 << 40]),
                    values: vec![0.1, 1e300],
                    tolerance: Tolerance { scale: 0.25, ..Tolerance::of(DType::F16, DType::F32, 4096) },
                },
            ],
        };
        expected.write(&path).unwrap();
        assert_eq!(Expected::read(&path).unwrap(), expected);
        std::fs::write(&path, b"[{\"param\":1}]\n").unwrap();
        assert!(Expected::read(&path).is_err());
    }

    #[test]
    fn tolerances_follow_the_design() {
        let t = Tolerance::of(DType::BF16, DType::F32, 4096);
        let unit = 2f64.powi(-8) + 2f64.powi(-24) * 64.0;
        assert_eq!(t, Tolerance { l2: 4.0 * unit, max: 64.0 * unit, scale: 0.0 });
    }
}

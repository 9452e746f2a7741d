//! NumPy's `.npy` files: versions 1 and 2, little endian, C order.
//!
//! bfloat16 travels as its bits in `uint16`, float8 as its bits in `uint8`.

use crate::ir::DType;
use crate::job::{Exit, Failure};
use std::path::Path;

const MAGIC: &[u8] = b"\x93NUMPY";

/// An array as a file holds it.
#[derive(Clone, PartialEq, Debug)]
pub struct Npy {
    /// NumPy's name of the element type without byte order, `f4`.
    pub descr: String,
    /// Extents, outermost first; empty for a scalar.
    pub shape: Vec<i64>,
    /// The elements, little endian, row-major.
    pub data: Vec<u8>,
}

/// NumPy's name of a dtype's elements.
pub fn descr(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "b1",
        DType::I8 => "i1",
        DType::I16 => "i2",
        DType::I32 => "i4",
        DType::I64 => "i8",
        DType::U8 | DType::E4M3 | DType::E5M2 | DType::E8M0 => "u1",
        DType::U16 | DType::BF16 => "u2",
        DType::U32 => "u4",
        DType::U64 | DType::Handle => "u8",
        DType::F16 => "f2",
        DType::F32 => "f4",
        DType::F64 => "f8",
    }
}

/// Reads a file.
///
/// # Errors
/// Unreadable (usage); not such a file (input).
pub fn read(path: &Path) -> Result<Npy, Failure> {
    let bytes = std::fs::read(path).map_err(|e| Failure::usage(format!("cannot read {}: {e}", path.display())))?;
    parse(&bytes).map_err(|why| Failure::new(Exit::Input, format!("{}: {why}", path.display())))
}

/// Reads a file and checks it against a parameter.
///
/// # Errors
/// As [`read`]; another element type or shape than expected (input).
pub fn read_as(path: &Path, dtype: DType, shape: &[i64]) -> Result<Npy, Failure> {
    let array = read(path)?;
    let refused = |why: String| Err(Failure::new(Exit::Input, format!("{}: {why}", path.display())));
    if array.descr != descr(dtype) {
        let note = match dtype {
            DType::BF16 => " (bfloat16 as its bits in uint16)",
            DType::E4M3 | DType::E5M2 | DType::E8M0 => " (float8 as its bits in uint8)",
            _ => "",
        };
        let want = descr(dtype);
        return refused(format!("elements of type {}, expected {want}{note}", array.descr));
    }
    if array.shape != shape {
        return refused(format!("shape {:?}, expected {:?}", array.shape, shape));
    }
    Ok(array)
}

/// Reads the bytes of a file.
///
/// # Errors
/// What is wrong with them.
pub fn parse(bytes: &[u8]) -> Result<Npy, String> {
    let head = bytes.strip_prefix(MAGIC).ok_or("not a .npy file (its first bytes are not \\x93NUMPY)")?;
    let (header, data) = match head {
        [1, _, a, b, rest @ ..] => cut(rest, u16::from_le_bytes([*a, *b]) as usize)?,
        [2 | 3, _, a, b, c, d, rest @ ..] => cut(rest, u32::from_le_bytes([*a, *b, *c, *d]) as usize)?,
        [version, ..] => return Err(format!("version {version} of the .npy format is not known")),
        [] => return Err("the file ends in its header".into()),
    };
    let header = std::str::from_utf8(header).map_err(|_| "its header is not text")?;
    let descr = element(value(header, "descr")?)?;
    if value(header, "fortran_order")?.starts_with("True") {
        return Err("the array is in Fortran order; save it with numpy.ascontiguousarray".into());
    }
    let shape = dimensions(value(header, "shape")?)?;
    let width: u64 = descr[1..].parse().map_err(|_| format!("element type {descr} is not known"))?;
    let count = shape.iter().try_fold(1u64, |n, d| n.checked_mul(u64::try_from(*d).ok()?));
    let want = count.and_then(|c| c.checked_mul(width)).ok_or("its shape is impossible")?;
    if data.len() as u64 != want {
        return Err(format!("{} bytes of data, its header promises {want}", data.len()));
    }
    Ok(Npy { descr, shape, data: data.to_vec() })
}

/// Splits off the header of `n` bytes.
fn cut(bytes: &[u8], n: usize) -> Result<(&[u8], &[u8]), String> {
    bytes.split_at_checked(n).ok_or_else(|| "the file ends in its header".into())
}

/// The text after `'key':` in the header, which is a Python dictionary.
fn value<'a>(header: &'a str, key: &str) -> Result<&'a str, String> {
    let after = |quoted: String| header.split_once(&quoted).map(|(_, rest)| rest);
    let rest = after(format!("'{key}'")).or_else(|| after(format!("\"{key}\"")));
    let rest = rest.and_then(|r| r.trim_start().strip_prefix(':'));
    rest.map(str::trim_start).ok_or_else(|| format!("its header has no {key}"))
}

fn element(text: &str) -> Result<String, String> {
    let quote = text.chars().next().filter(|c| ['\'', '"'].contains(c)).ok_or("records are not supported")?;
    let name = text[1..].split(quote).next().unwrap_or_default();
    match (name.get(..1), name.get(1..)) {
        (Some("<" | "|" | "="), Some(rest)) if rest.len() >= 2 && rest.is_ascii() => Ok(rest.to_string()),
        (Some(">"), _) => Err(format!("elements of type {name} are big endian; save them with .astype('<...')")),
        _ => Err(format!("element type {name} is not known")),
    }
}

fn dimensions(text: &str) -> Result<Vec<i64>, String> {
    let inner = text.strip_prefix('(').and_then(|t| t.split_once(')')).ok_or("its shape is not a tuple")?.0;
    let parts = inner.split(',').map(|p| p.trim().trim_end_matches('L')).filter(|p| !p.is_empty());
    parts.map(|p| p.parse().map_err(|_| format!("its shape has the extent {p}"))).collect()
}

impl Npy {
    /// The bytes of a version 1 file, data aligned to 64 bytes as NumPy does.
    pub fn to_bytes(&self) -> Vec<u8> {
        let order = if self.descr.ends_with('1') { '|' } else { '<' };
        // Python writes (), (3,) and (3, 4).
        let shape = match self.shape.as_slice() {
            [one] => format!("{one},"),
            many => many.iter().map(i64::to_string).collect::<Vec<_>>().join(", "),
        };
        let mut header = format!("{{'descr': '{order}{}', 'fortran_order': False, 'shape': ({shape}), }}", self.descr);
        let prefix = MAGIC.len() + 4;
        let padding = (prefix + header.len() + 1).next_multiple_of(64) - (prefix + header.len() + 1);
        header.push_str(&" ".repeat(padding));
        header.push('\n');
        let mut out = MAGIC.to_vec();
        out.extend([1, 0]);
        out.extend((header.len() as u16).to_le_bytes());
        out.extend(header.as_bytes());
        out.extend(&self.data);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(descr: &str, shape: &[i64], data: &[u8]) -> Npy {
        Npy { descr: descr.into(), shape: shape.to_vec(), data: data.to_vec() }
    }

    #[test]
    fn what_is_written_reads_back() {
        for a in [
            array("f4", &[2, 3], &[7; 24]),
            array("i8", &[1], &[1; 8]),
            array("b1", &[], &[1]),
            array("u2", &[0, 5], &[]),
        ] {
            let bytes = a.to_bytes();
            assert_eq!((bytes.len() - a.data.len()) % 64, 0);
            assert_eq!(parse(&bytes).unwrap(), a);
        }
    }

    #[test]
    fn the_header_is_numpys() {
        let header = |shape: &[i64], n: usize| {
            let bytes = array("f4", shape, &vec![0; n]).to_bytes();
            String::from_utf8_lossy(&bytes[10..]).trim_end_matches(['\n', ' ', '\0']).to_string()
        };
        assert_eq!(header(&[2, 3], 0), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
        assert_eq!(header(&[5], 0), "{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }");
        assert_eq!(header(&[], 0), "{'descr': '<f4', 'fortran_order': False, 'shape': (), }");
    }

    #[test]
    fn version_2_and_other_spellings_are_read() {
        let header = b"{\"shape\": (2,), 'fortran_order': False, 'descr': '<u2'}\n";
        let mut bytes = MAGIC.to_vec();
        bytes.extend([2, 0]);
        bytes.extend((header.len() as u32).to_le_bytes());
        bytes.extend(header);
        bytes.extend([1, 2, 3, 4]);
        assert_eq!(parse(&bytes).unwrap(), array("u2", &[2], &[1, 2, 3, 4]));
    }

    #[test]
    fn damage_has_a_sentence() {
        let good = array("f4", &[2, 3], &[7; 24]).to_bytes();
        for cut in 0..good.len() {
            assert!(parse(&good[..cut]).is_err(), "cut at {cut}");
        }
        let swap = |from: &str, to: &str| {
            let text: Vec<u8> = good.clone();
            let at = text.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
            let mut out = text;
            out[at..at + from.len()].copy_from_slice(to.as_bytes());
            parse(&out).unwrap_err()
        };
        assert!(swap("False", "True ").contains("Fortran order"));
        assert!(swap("<f4", ">f4").contains("big endian"));
        assert!(swap("(2, 3)", "(2, 9)").contains("its header promises 72"));
        assert!(swap("(2, 3)", "(2,-3)").contains("impossible"));
        assert!(swap("shape", "shame").contains("no shape"));
        assert!(parse(b"PK\x03\x04").unwrap_err().contains("not a .npy file"));
    }

    #[test]
    fn a_parameter_is_checked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("00_A.npy");
        std::fs::write(&path, array("f4", &[2], &[0; 8]).to_bytes()).unwrap();
        assert!(read_as(&path, DType::F32, &[2]).is_ok());
        let refused = |path: &Path, dtype, shape: &[i64]| {
            let failure = read_as(path, dtype, shape).unwrap_err();
            (failure.exit, failure.message)
        };
        let (exit, e) = refused(&path, DType::BF16, &[2]);
        assert!(
            exit == Exit::Input && e.ends_with("elements of type f4, expected u2 (bfloat16 as its bits in uint16)"),
            "{e}"
        );
        let (exit, e) = refused(&path, DType::F32, &[3]);
        assert!(exit == Exit::Input && e.ends_with("shape [2], expected [3]"), "{e}");
        let (exit, e) = refused(&dir.path().join("no"), DType::F32, &[]);
        assert!(exit == Exit::Usage && e.starts_with("cannot read"), "{e}");
    }
}

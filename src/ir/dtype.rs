//! Scalar data types.

use std::fmt;
use std::str::FromStr;

/// A scalar data type, named as TVM names it (`float16`, `int64`, `bool`, ...).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum DType {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    BF16,
    F32,
    F64,
    /// `float8_e4m3fn`: 4 exponent bits, 3 mantissa bits, no infinities.
    E4M3,
    /// `float8_e5m2`.
    E5M2,
    /// `float8_e8m0fnu`: powers of two from 2^-127 to 2^127, without sign or zero; what blocks of numbers are scaled by.
    /// A number becomes the nearest one to its size, the greater of two.
    E8M0,
    /// An opaque pointer; only as the type of arguments of refused calls.
    Handle,
}

impl DType {
    /// Every type with its TVM name.
    pub const ALL: [(DType, &'static str); 17] = [
        (DType::Bool, "bool"),
        (DType::I8, "int8"),
        (DType::I16, "int16"),
        (DType::I32, "int32"),
        (DType::I64, "int64"),
        (DType::U8, "uint8"),
        (DType::U16, "uint16"),
        (DType::U32, "uint32"),
        (DType::U64, "uint64"),
        (DType::F16, "float16"),
        (DType::BF16, "bfloat16"),
        (DType::F32, "float32"),
        (DType::F64, "float64"),
        (DType::E4M3, "float8_e4m3fn"),
        (DType::E5M2, "float8_e5m2"),
        (DType::E8M0, "float8_e8m0fnu"),
        (DType::Handle, "handle"),
    ];

    /// Size of one element in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            DType::Bool | DType::I8 | DType::U8 | DType::E4M3 | DType::E5M2 | DType::E8M0 => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 | DType::Handle => 8,
        }
    }

    /// True for the floating-point types.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64 | DType::E4M3 | DType::E5M2 | DType::E8M0)
    }

    /// True for signed and unsigned integers, not for `bool`.
    pub fn is_int(self) -> bool {
        self.is_signed() || self.is_unsigned()
    }

    /// True for the signed integers.
    pub fn is_signed(self) -> bool {
        matches!(self, DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    /// True for the unsigned integers.
    pub fn is_unsigned(self) -> bool {
        matches!(self, DType::U8 | DType::U16 | DType::U32 | DType::U64)
    }

    /// Unit roundoff of a floating type (half an ulp at 1); 0 for integers.
    pub fn roundoff(self) -> f64 {
        match self {
            DType::F64 => 2f64.powi(-53),
            DType::F32 => 2f64.powi(-24),
            DType::F16 => 2f64.powi(-11),
            DType::BF16 => 2f64.powi(-8),
            DType::E4M3 => 2f64.powi(-4),
            DType::E5M2 => 2f64.powi(-3),
            DType::E8M0 => 0.5,
            _ => 0.0,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name) = DType::ALL.iter().find(|(d, _)| d == self).expect("every dtype is in ALL");
        f.write_str(name)
    }
}

impl FromStr for DType {
    type Err = String;
    fn from_str(text: &str) -> Result<DType, String> {
        DType::ALL
            .iter()
            .find(|(_, name)| *name == text)
            .map(|(d, _)| *d)
            .ok_or_else(|| format!("unknown dtype \"{text}\""))
    }
}

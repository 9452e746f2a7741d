//! Options of operations, and what their values mean.

use crate::ir::{DType, Expr, PrimFuncBuilder, nearest};
use std::collections::BTreeMap;

/// An option of an operation.
#[derive(Debug)]
pub struct Opt {
    /// Its name, without dashes.
    pub name: &'static str,
    /// What stands for its value in the help.
    pub value: &'static str,
    /// What it is.
    pub help: &'static str,
    /// Whether it has to be given.
    pub need: Need,
}

/// Whether an option has to be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// It has to.
    Required,
    /// It may be left away.
    Optional,
    /// Left away, it has this value.
    Default(&'static str),
    /// It is given or not, and has no value.
    Flag,
}

/// A size, in help texts.
pub(super) const SIZE: &str = "SIZE";

pub(super) const fn required(name: &'static str, value: &'static str, help: &'static str) -> Opt {
    Opt { name, value, help, need: Need::Required }
}

pub(super) const fn optional(name: &'static str, value: &'static str, help: &'static str) -> Opt {
    Opt { name, value, help, need: Need::Optional }
}

pub(super) const fn default(name: &'static str, value: &'static str, help: &'static str, given: &'static str) -> Opt {
    Opt { name, value, help, need: Need::Default(given) }
}

pub(super) const fn flag(name: &'static str, help: &'static str) -> Opt {
    Opt { name, value: "", help, need: Need::Flag }
}

pub(super) const SHAPE: Opt =
    required("shape", "SIZES", "Sizes of the input: numbers, or names of sizes known at run time, as in n,4096");
pub(super) const DTYPE: Opt =
    default("dtype", "TYPE", "Type of the inputs, such as float32, float16 or bfloat16", "float32");
pub(super) const OUT_DTYPE: Opt = optional("out-dtype", "TYPE", "Type of the result [default: that of the inputs]");

/// Values of an operation's options.
#[derive(Clone, Debug)]
pub struct Values(BTreeMap<&'static str, String>);

impl Values {
    /// These values, and the defaults of the other options.
    ///
    /// # Errors
    /// An option that is not among these, or is missing.
    pub(super) fn new(options: &'static [Opt], given: &[(&str, &str)]) -> Result<Values, String> {
        let names = || options.iter().map(|o| o.name);
        if let Some((name, _)) = given.iter().find(|(name, _)| names().all(|n| n != *name)) {
            let near = nearest(name, names()).map_or(String::new(), |n| format!("; did you mean --{n}?"));
            return Err(format!("there is no option --{name}{near}"));
        }
        let mut all = BTreeMap::new();
        for option in options {
            let value = given.iter().rev().find(|(name, _)| *name == option.name).map(|(_, value)| *value);
            match (value, option.need) {
                (Some(value), _) | (None, Need::Default(value)) => _ = all.insert(option.name, value.to_string()),
                (None, Need::Required) => {
                    return Err(format!("--{} {} is missing: {}", option.name, option.value, option.help));
                }
                (None, Need::Optional | Need::Flag) => {}
            }
        }
        Ok(Values(all))
    }

    /// True for an option that was given, or has a default.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The value as it was written.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// What `read` makes of the value.
    fn read<T>(&self, name: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Result<T, String> {
        let text = self.text(name).unwrap_or_default();
        read(text).map_err(|why| format!("--{name} {text}: {why}"))
    }

    /// A size.
    pub fn size(&self, name: &str, f: &mut PrimFuncBuilder) -> Result<Expr, String> {
        self.read(name, |text| size(text, f))
    }

    /// A size that has to be a number.
    pub fn count(&self, name: &str) -> Result<i64, String> {
        self.read(name, |text| number(text)?.ok_or_else(|| "this size has to be a number".to_string()))
    }

    /// Sizes, at least one.
    pub fn sizes(&self, name: &str, f: &mut PrimFuncBuilder) -> Result<Vec<Expr>, String> {
        self.read(name, |text| text.split(',').map(|part| size(part.trim(), f)).collect())
    }

    /// Positions of dimensions of `rank`, each once; negative ones count from the end.
    pub fn axes(&self, name: &str, rank: usize) -> Result<Vec<usize>, String> {
        self.read(name, |text| {
            let all: Result<Vec<usize>, String> = text.split(',').map(|part| axis(part.trim(), rank)).collect();
            let all = all?;
            match (1..all.len()).find(|k| all[..*k].contains(&all[*k])) {
                Some(k) => Err(format!("dimension {} stands twice", all[k])),
                None => Ok(all),
            }
        })
    }

    /// The type of the inputs, one of floats.
    pub fn float(&self, name: &str) -> Result<DType, String> {
        let dtype = self.dtype(name)?;
        match dtype.is_float() {
            true => Ok(dtype),
            false => Err(format!("--{name} {dtype}: the operation is for floats, such as float16")),
        }
    }

    /// A type that can be computed with.
    pub fn dtype(&self, name: &str) -> Result<DType, String> {
        let known = || DType::ALL.iter().filter(|(d, _)| !matches!(d, DType::Handle | DType::Bool)).map(|(_, n)| *n);
        self.read(name, |text| match text.parse() {
            Ok(dtype) if !matches!(dtype, DType::Handle | DType::Bool) => Ok(dtype),
            _ => Err(match nearest(text, known()) {
                Some(near) => format!("there is no such type; did you mean {near}?"),
                None => format!("there is no such type; there are {}", known().collect::<Vec<_>>().join(", ")),
            }),
        })
    }

    /// The type of the result: the one asked for, or `usual`.
    pub fn out_dtype(&self, usual: DType) -> Result<DType, String> {
        if self.has("out-dtype") { self.dtype("out-dtype") } else { Ok(usual) }
    }

    /// A finite number.
    pub fn number(&self, name: &str) -> Result<f64, String> {
        let finite = |text: &str| text.parse().ok().filter(|x: &f64| x.is_finite());
        self.read(name, |text| finite(text).ok_or_else(|| "expected a number, such as 0.125".to_string()))
    }
}

/// The type in which sums of a type are kept: `float32` for narrower floats, `int32` for narrower integers, else the type.
pub(super) fn accumulator(dtype: DType) -> DType {
    match (dtype.is_float(), dtype.bytes()) {
        (true, 1 | 2) => DType::F32,
        (false, 1 | 2) => DType::I32,
        _ => dtype,
    }
}

/// The number of elements along some dimensions as a value of a type.
pub(super) fn count_of(extents: &[Expr], dtype: DType) -> Expr {
    let known = extents.iter().try_fold(1i64, |n, e| n.checked_mul(e.as_int()?));
    match (known, extents) {
        (Some(n), _) => Expr::constant(n as f64, dtype),
        (None, [first, rest @ ..]) => Expr::cast(dtype, rest.iter().fold(first.clone(), |n, e| n * e.clone())),
        (None, []) => Expr::constant(1.0, dtype),
    }
}

const LARGEST: i64 = 1 << 40;

/// The number that a text is; `None` for a name.
fn number(text: &str) -> Result<Option<i64>, String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match text.parse::<i64>() {
        Ok(n) if (1..=LARGEST).contains(&n) => Ok(Some(n)),
        Err(_) if text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_word) => Ok(None),
        _ => Err("a size is a number from 1 on, or a name such as n for one that is known at run time".into()),
    }
}

fn size(text: &str, f: &mut PrimFuncBuilder) -> Result<Expr, String> {
    Ok(number(text)?.map_or_else(|| f.extent(text), Expr::i64))
}

fn axis(text: &str, rank: usize) -> Result<usize, String> {
    let bad = || format!("expected dimensions from 0 to {}, or from -{rank} to -1", rank - 1);
    let at: i64 = text.parse().map_err(|_| bad())?;
    let from_start = if at < 0 { at + rank as i64 } else { at };
    usize::try_from(from_start).ok().filter(|k| *k < rank).ok_or_else(bad)
}

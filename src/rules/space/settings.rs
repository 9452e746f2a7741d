//! Points as people and logs write them: choices by their names.

use super::{Knob, Space};
use crate::rules::Knobs;
use crate::rules::space::knobs::unknown;
use std::collections::BTreeMap;
use std::fmt::Display;

/// The greatest value of a knob: conditions multiply four of them with the size of an element.
const MOST: u64 = 1 << 14;

impl Knob {
    /// The name of a choice, or the number.
    pub fn show(&self, value: i64) -> String {
        self.choice(value).map_or_else(|| value.to_string(), str::to_string)
    }

    /// The value that is written so: a choice by its name or by its number.
    ///
    /// # Errors
    /// No choice of the knob, with the nearest; no number, or one beyond 2^14.
    pub fn value(&self, text: &str) -> Result<i64, String> {
        if let Some(place) = self.choices.iter().position(|c| c == text) {
            return Ok(place as i64);
        }
        let number = text.parse::<i64>().ok();
        if let Some(n) = number.filter(|n| n.unsigned_abs() > MOST) {
            return Err(format!("the value {n} of knob `{}` is beyond {MOST}, the most that a knob may be", self.name));
        }
        let choices: Vec<&str> = self.choices.iter().map(String::as_str).collect();
        match number.filter(|n| choices.is_empty() || self.choice(*n).is_some()) {
            Some(number) => Ok(number),
            None if choices.is_empty() => Err(format!("the value `{text}` of knob `{}` is no number", self.name)),
            None => Err(unknown(&format!("value of knob `{}`:", self.name), text, &choices)),
        }
    }

    fn choice(&self, value: i64) -> Option<&str> {
        Some(self.choices.get(usize::try_from(value).ok()?)?.as_str())
    }
}

impl Space {
    /// The knob of that name.
    pub fn knob(&self, name: &str) -> Option<&Knob> {
        self.knobs.iter().find(|k| k.name == name)
    }

    /// A point for people, `hint=plain threads=256`.
    pub fn show(&self, knobs: &Knobs) -> String {
        let shown = |(name, value): (&String, &i64)| {
            format!("{name}={}", self.knob(name).map_or(value.to_string(), |k| k.show(*value)))
        };
        knobs.0.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    /// A point for logs and programs.
    pub fn settings<V: From<i64> + for<'a> From<&'a str>>(&self, knobs: &Knobs) -> BTreeMap<String, V> {
        let setting = |name: &str, value| self.knob(name).and_then(|k| k.choice(value)).map_or(V::from(value), V::from);
        knobs.0.iter().map(|(name, value)| (name.clone(), setting(name, *value))).collect()
    }

    /// Sets knobs by name (`--set threads=128`) on a point.
    ///
    /// # Errors
    /// An unknown knob or choice, with the nearest name.
    pub fn set(&self, knobs: &Knobs, values: &[(String, impl Display)]) -> Result<Knobs, String> {
        let mut out = knobs.clone();
        for (name, value) in values {
            let names = || self.knobs.iter().map(|k| k.name.as_str()).collect::<Vec<_>>();
            let knob = self.knob(name).ok_or_else(|| unknown(&format!("knob of {}", self.form), name, &names()))?;
            out.0.insert(name.clone(), knob.value(&value.to_string())?);
        }
        Ok(out)
    }

    /// The point that a log names: a knob younger than the log has what it was then. `None` where the log names
    /// a knob or a choice that the space does not have.
    pub fn logged(&self, named: &BTreeMap<String, impl Display>) -> Option<Knobs> {
        let named: Vec<(String, String)> =
            named.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
        let then = |k: &Knob| (k.name.clone(), k.older.unwrap_or(k.default));
        let defaults = Knobs(self.knobs.iter().map(then).collect());
        self.set(&defaults, &named).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        let choices = ["plain", "evict_first", "no_allocate"].map(String::from).into();
        let hint = Knob { name: "hint".into(), choices, default: 1, values: vec![1, 2], ..Knob::default() };
        let rows = Knob { name: "rows".into(), default: 4, values: vec![2, 4], ..Knob::default() };
        Space::new("test", 1, vec![hint, rows])
    }

    fn set(name: &str, value: &str) -> Result<String, String> {
        let space = space();
        let point = space.default().unwrap();
        space.set(&point, &[(name.to_string(), value)]).map(|k| space.show(&k))
    }

    #[test]
    fn products_of_knobs_do_not_overflow() {
        assert_eq!(set("rows", "16384").unwrap(), "hint=evict_first rows=16384");
        for huge in ["16385", "-9223372036854775808", "4611686018427387904"] {
            assert!(set("rows", huge).unwrap_err().ends_with("is beyond 16384, the most that a knob may be"));
        }
    }

    #[test]
    fn choices_are_written_by_name_or_number() {
        assert_eq!(set("hint", "no_allocate").unwrap(), "hint=no_allocate rows=4");
        assert_eq!(set("hint", "0").unwrap(), "hint=plain rows=4");
        assert_eq!(set("rows", "3").unwrap(), "hint=evict_first rows=3");
    }

    #[test]
    fn what_is_no_value_is_named() {
        assert_eq!(set("row", "3").unwrap_err(), "unknown knob of test `row`; did you mean `rows`?");
        let near = "unknown value of knob `hint`: `evict_frist`; did you mean `evict_first`?";
        assert_eq!(set("hint", "evict_frist").unwrap_err(), near);
        let none = "unknown value of knob `hint`: `7`; there are plain, evict_first, no_allocate";
        assert_eq!(set("hint", "7").unwrap_err(), none);
        assert_eq!(set("rows", "all").unwrap_err(), "the value `all` of knob `rows` is no number");
    }

    #[test]
    fn a_logged_point_reads_back() {
        let space = space();
        let logged = |pairs: &[(&str, &str)]| space.logged(&pairs.iter().map(|(k, v)| (k.to_string(), v)).collect());
        assert_eq!(logged(&[("hint", "2")]), logged(&[("hint", "no_allocate"), ("rows", "4")]));
        assert_eq!(logged(&[("hint", "best")]), None);
        assert_eq!(logged(&[("split", "2")]), None);
    }
}

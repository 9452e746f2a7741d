//! How often each function is called in one step of the user's program.

use super::{Failure, Input};
use crate::assemble::label;
use crate::target::nearest;
use std::collections::BTreeMap;
use std::path::Path;

/// Calls per step, by the name of a function, with its sizes (`rms_norm n=16`) or for all of them, or of its file. What is not named is called once.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Weights(BTreeMap<String, f64>);

impl Weights {
    /// These calls by name.
    pub fn new(calls: BTreeMap<String, f64>) -> Weights {
        Weights(calls)
    }

    /// The calls by name.
    pub fn into_map(self) -> BTreeMap<String, f64> {
        self.0
    }

    /// Reads a file of lines `name,calls`; a first line without a number is a heading, lines that start
    /// with `#` are comments.
    ///
    /// # Errors
    /// A sentence with file and line for what is not `name,calls`, or a name that stands twice.
    pub fn read(path: &Path) -> Result<Weights, Failure> {
        let shown = path.display();
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|e| Failure::usage(format!("cannot read the weights {shown}: {e}")))?;
        Weights::parse(&text).map_err(|(line, why)| Failure::usage(format!("{shown}:{line}: {why}")))
    }

    fn parse(text: &str) -> Result<Weights, (u64, String)> {
        let mut out = BTreeMap::new();
        let lines = (1..)
            .zip(text.trim_start_matches('\u{feff}').lines())
            .filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
        for (i, (line, text)) in lines.enumerate() {
            // One line at a time: the reader does not count the empty lines that it skips.
            let mut reader = csv::ReaderBuilder::new();
            let reader = reader.has_headers(false).trim(csv::Trim::All).from_reader(text.as_bytes());
            let row = reader.into_records().next().transpose().map_err(|e| (line, e.to_string()))?.unwrap_or_default();
            let bad = |why: &str| (line, format!("{why}; expected name,calls such as mean,32"));
            let (Some(name), Some(calls), 2) = (row.get(0), row.get(1), row.len()) else {
                return Err(bad(&format!("a line of {} fields", row.len())));
            };
            match calls.parse::<f64>() {
                Ok(n) if n.is_finite() && n >= 0.0 => {
                    if out.insert(name.to_string(), n).is_some() {
                        return Err(bad(&format!("`{name}` stands twice")));
                    }
                }
                Err(_) if i == 0 => {}
                _ => return Err(bad(&format!("\"{calls}\" is no number of calls"))),
            }
        }
        Ok(Weights(out))
    }

    /// Calls of a function per step.
    pub fn of(&self, input: &Input) -> f64 {
        let named = names(input).into_iter().find_map(|n| self.0.get(&n).copied());
        named.unwrap_or(1.0)
    }

    /// Refuses a name that none of the functions has.
    ///
    /// # Errors
    /// Which name, with the nearest that there is.
    pub fn check(&self, inputs: &[Input]) -> Result<(), Failure> {
        let known: Vec<String> = inputs.iter().flat_map(names).collect();
        let Some(name) = self.0.keys().find(|n| !known.contains(n)) else { return Ok(()) };
        let near = nearest(name, known.iter().map(String::as_str));
        let hint = near.map_or(String::new(), |n| format!("; did you mean `{n}`?"));
        Err(Failure::usage(format!("the weights name `{name}`, which is no function and no file of this run{hint}")))
    }
}

/// A function's name with its sizes, without them, and its file's.
fn names(input: &Input) -> Vec<String> {
    let stem = Path::new(&input.file).file_stem().map(|s| s.to_string_lossy().into_owned());
    let names = [Some(label(&input.name, &input.bind)), Some(input.name.clone()), stem];
    names.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_names_and_calls() {
        let w = Weights::parse("\u{feff}name,calls\n\n# layers\nmean, 32\n\"a,b\",0.5\n").unwrap();
        assert_eq!(w.0, BTreeMap::from([("mean".into(), 32.0), ("a,b".into(), 0.5)]));
        assert_eq!(Weights::parse("").unwrap(), Weights::default());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, line, why) in [
            ("mean,32\nsum,many\n", 2, "\"many\" is no number of calls"),
            ("mean,32\nsum\n", 2, "a line of 1 fields"),
            ("mean,1\n\nmean,2\n", 3, "`mean` stands twice"),
            ("mean,1\nsum,-2\n", 2, "\"-2\" is no number of calls"),
        ] {
            let (at, e) = Weights::parse(text).unwrap_err();
            assert_eq!(at, line, "{text:?}: {e}");
            assert!(e.starts_with(why) && e.ends_with("expected name,calls such as mean,32"), "{e}");
        }
    }
}

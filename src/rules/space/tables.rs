//! The knob tables of `schedules/*.toml`: one file per rule form, compiled in, replaceable by a folder.

use crate::rules::{Knob, RULES, Space, unknown};
use crate::target::Target;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
struct Table {
    rule: String,
    version: u32,
    knob: Vec<KnobDef>,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
struct KnobDef {
    name: String,
    /// Of a knob that counts something.
    unit: Option<String>,
    /// Of a knob that is a choice: the names of 0, 1 and so on.
    #[serde(default)]
    choices: Vec<String>,
    meaning: String,
    default: Value,
    /// What records say that are older than the knob, where that is not the default.
    older: Option<Value>,
    values: Vec<Value>,
    #[serde(default)]
    at: BTreeMap<String, At>,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
struct At {
    default: Option<Value>,
    values: Option<Vec<Value>>,
}

/// A number, or the name of a choice.
#[derive(Deserialize, Clone, Debug)]
#[serde(untagged)]
enum Value {
    Number(i64),
    Name(String),
}

impl Value {
    fn number(&self) -> Option<i64> {
        match self {
            Value::Number(n) => Some(*n),
            Value::Name(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(n) => write!(f, "{n}"),
            Value::Name(name) => write!(f, "{name}"),
        }
    }
}

/// All knob tables by rule form.
#[derive(Clone, Debug)]
pub struct Spaces {
    tables: BTreeMap<String, Table>,
}

impl Spaces {
    /// The tables compiled into the program.
    ///
    /// # Panics
    /// Never in a build that passes its tests: they read every table.
    pub fn built_in() -> Spaces {
        let texts = RULES.iter().map(|r| (r.name.to_string(), r.table.to_string()));
        Spaces::parse(texts).unwrap_or_else(|e| panic!("built-in knob table: {e}"))
    }

    /// The tables of a folder in place of the built-in ones of the same rule form.
    ///
    /// # Errors
    /// A sentence naming the file when it can't be read, is not such a table, or names a rule form
    /// that does not exist or knobs other than that form's.
    pub fn with_folder(folder: &Path) -> Result<Spaces, String> {
        let built_in = Spaces::built_in();
        let list = std::fs::read_dir(folder).map_err(|e| format!("can't read the folder {}: {e}", folder.display()))?;
        let mut texts = vec![];
        for entry in list {
            let path = entry.map_err(|e| format!("can't read the folder {}: {e}", folder.display()))?.path();
            if path.extension().is_some_and(|e| e == "toml") {
                let text = std::fs::read_to_string(&path).map_err(|e| format!("can't read {}: {e}", path.display()))?;
                texts.push((path.display().to_string(), text));
            }
        }
        texts.sort();
        let own = Spaces::parse(texts)?;
        own.same_knobs(&built_in)?;
        let mut tables = built_in.tables;
        tables.extend(own.tables);
        Ok(Spaces { tables })
    }

    fn parse(texts: impl IntoIterator<Item = (String, String)>) -> Result<Spaces, String> {
        let mut tables = BTreeMap::new();
        for (file, text) in texts {
            let table: Table =
                toml::from_str(&text).map_err(|e| format!("{file}: not a knob table: {}", e.to_string().trim_end()))?;
            table.check().map_err(|e| format!("{file}: {e}"))?;
            tables.insert(table.rule.clone(), table);
        }
        Ok(Spaces { tables })
    }

    fn same_knobs(&self, built_in: &Spaces) -> Result<(), String> {
        for (rule, table) in &self.tables {
            let forms: Vec<&str> = built_in.tables.keys().map(|k| k.as_str()).collect();
            let known = built_in.tables.get(rule).ok_or_else(|| unknown("rule", rule, &forms))?;
            let names: Vec<&str> = known.knob.iter().map(|k| k.name.as_str()).collect();
            for k in &table.knob {
                let zero = |t: &Table| t.knob.iter().any(|o| o.name == k.name && o.has_zero());
                if zero(table) && !zero(known) {
                    return Err(format!("the knob `{}` of {rule} is at least 1", k.name));
                }
                if !names.contains(&k.name.as_str()) {
                    return Err(unknown(&format!("knob of {rule}"), &k.name, &names));
                }
            }
            if let Some(missing) = names.iter().find(|n| !table.knob.iter().any(|k| k.name == **n)) {
                return Err(format!("the table of {rule} lacks the knob `{missing}`"));
            }
        }
        Ok(())
    }

    /// The space of a rule form on a target, without conditions.
    ///
    /// # Panics
    /// If there is no such table: forms are named by rules only, and a test asks for each.
    pub fn space(&self, form: &'static str, target: &Target) -> Space {
        let table = self.tables.get(form).unwrap_or_else(|| panic!("no knob table for rule form `{form}`"));
        Space::new(form, table.version, table.knob.iter().map(|k| k.resolve(target)).collect()).of_counts()
    }
}

impl Table {
    fn check(&self) -> Result<(), String> {
        for k in &self.knob {
            if k.unit.is_some() != k.choices.is_empty() {
                return Err(format!("knob `{}` has to have either a unit or choices", k.name));
            }
            let lists = k.at.values().filter_map(|a| a.values.as_ref()).chain([&k.values]);
            if let Some(n) = lists.flatten().filter_map(Value::number).find(|n| *n < 0) {
                return Err(format!("knob `{}` has the value {n}, which is below 0", k.name));
            }
            if self.knob.iter().filter(|o| o.name == k.name).count() > 1 {
                return Err(format!("knob `{}` stands twice", k.name));
            }
            k.knob(&[]).and_then(|_| k.at.values().try_for_each(|at| k.knob(&[at]).map(drop)))?;
        }
        Ok(())
    }
}

impl KnobDef {
    /// True where 0 is among its values or defaults, or names a choice.
    fn has_zero(&self) -> bool {
        let at = self.at.values().flat_map(|a| a.values.iter().flatten().chain(&a.default));
        let named = !self.choices.is_empty();
        named || at.chain(&self.values).chain([&self.default]).any(|v| v.number() == Some(0))
    }

    /// Most specific wins: the exact target, then `cuda` or `cpu`, then the knob itself.
    fn resolve(&self, target: &Target) -> Knob {
        let family = target.id.split(':').next().unwrap_or_default();
        let at: Vec<&At> = [target.id.as_str(), family].iter().filter_map(|key| self.at.get(*key)).collect();
        self.knob(&at).unwrap_or_else(|e| panic!("a table that was checked: {e}"))
    }

    /// The knob where these overrides hold, the first of them before the others.
    fn knob(&self, at: &[&At]) -> Result<Knob, String> {
        let default = at.iter().find_map(|a| a.default.as_ref()).unwrap_or(&self.default);
        let values = at.iter().find_map(|a| a.values.as_ref()).unwrap_or(&self.values);
        if values.is_empty() {
            return Err(format!("knob `{}` has an empty list of values", self.name));
        }
        let mut knob = Knob {
            name: self.name.clone(),
            unit: self.unit.clone().unwrap_or_default(),
            meaning: self.meaning.clone(),
            choices: self.choices.clone(),
            ..Knob::default()
        };
        knob.default = knob.value(&default.to_string())?;
        knob.older = self.older.as_ref().map(|v| knob.value(&v.to_string())).transpose()?;
        knob.values = values.iter().map(|v| knob.value(&v.to_string())).collect::<Result<_, _>>()?;
        Ok(knob)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_the_table_of_its_name() {
        for rule in RULES {
            let file = format!("{}/schedules/{}.toml", env!("CARGO_MANIFEST_DIR"), rule.name);
            assert_eq!(std::fs::read_to_string(&file).unwrap(), rule.table, "{file}");
        }
        let tables = Spaces::built_in().tables;
        assert!(RULES.len() == tables.len() && RULES.iter().all(|r| tables.contains_key(r.name)));
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/schedules")).unwrap();
        let is_table = |f: &std::fs::DirEntry| f.path().extension().is_some_and(|e| e == "toml");
        assert_eq!(files.map(Result::unwrap).filter(is_table).count(), RULES.len());
    }

    #[test]
    fn a_knob_means_the_same_in_every_table() {
        let mut first: BTreeMap<String, (String, Knob)> = BTreeMap::new();
        for (form, table) in Spaces::built_in().tables {
            for k in table.knob.iter().map(|k| k.knob(&[]).unwrap()) {
                let (other, known) = first.entry(k.name.clone()).or_insert((form.clone(), k.clone()));
                let [here, there] = [&k, known].map(|k| (k.unit.clone(), k.choices.clone()));
                assert_eq!(here, there, "`{}` in {form} and in {other}", k.name);
            }
        }
    }

    #[test]
    fn names_are_snake_case() {
        let is_snake = |name: &str| {
            let word = |w: &str| !w.is_empty() && w.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            name.starts_with(|c: char| c.is_ascii_lowercase()) && name.split('_').all(word)
        };
        for (form, table) in Spaces::built_in().tables {
            for k in &table.knob {
                let numbered = k.unit.iter().any(|unit| unit.contains(|c: char| c.is_ascii_digit()));
                assert!(!numbered, "{form}: the unit of `{}` explains numbers", k.name);
                assert!(
                    k.choices.len() != 1 && k.choices.iter().chain([&k.name]).all(|n| is_snake(n)),
                    "{form}: {k:?}"
                );
                let by_name = k.at.values().filter_map(|at| at.values.as_ref()).chain([&k.values]).flatten();
                let numbers = by_name.filter(|v| matches!(v, Value::Number(_))).count();
                assert!(k.choices.is_empty() || numbers == 0, "{form}: `{}` is a choice given by number", k.name);
            }
        }
    }

    #[test]
    fn a_table_that_is_no_table_is_refused() {
        let says = |knob: &str| {
            let text = format!("rule = \"x\"\nversion = 1\n[[knob]]\nname = \"hint\"\nmeaning = \"\"\n{knob}");
            Spaces::parse([("x.toml".to_string(), text)]).map(drop).unwrap_err()
        };
        let choices = "choices = [\"plain\", \"evict_first\"]\n";
        let want = "x.toml: unknown value of knob `hint`: `plaine`; did you mean `plain`?";
        assert_eq!(says(&format!("{choices}default = \"plaine\"\nvalues = [\"plain\"]")), want);
        let both = "x.toml: knob `hint` has to have either a unit or choices";
        assert_eq!(says(&format!("{choices}unit = \"rows\"\ndefault = 0\nvalues = [0]")), both);
        assert_eq!(says("default = 0\nvalues = [0]"), both);
        let empty = "x.toml: knob `hint` has an empty list of values";
        assert_eq!(says("unit = \"rows\"\ndefault = 0\nvalues = []"), empty);
    }

    #[test]
    fn defaults_are_among_the_values() {
        for (form, table) in &Spaces::built_in().tables {
            for k in table.knob.iter().map(|k| k.knob(&[]).unwrap()) {
                assert!(k.values.contains(&k.default), "{form}: {} = {}", k.name, k.default);
            }
        }
    }

    #[test]
    fn a_folder_with_a_knob_of_zero_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let rule = RULES.iter().find(|r| r.name.ends_with(".outer_cpu")).unwrap();
        for (values, want) in [
            ("values = [0, ", format!("the knob `vector` of {} is at least 1", rule.name)),
            ("values = [-1, ", "x.toml: knob `vector` has the value -1, which is below 0".into()),
        ] {
            std::fs::write(dir.path().join("x.toml"), rule.table.replacen("values = [", values, 1)).unwrap();
            let e = Spaces::with_folder(dir.path()).unwrap_err();
            assert!(e.ends_with(&want), "{e}");
        }
    }

    #[test]
    fn a_folder_with_a_strange_knob_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let text = "rule = \"gemv.inner\"\nversion = 1\n[[knob]]\nname = \"thread\"\nunit = \"\"\nmeaning = \"\"\ndefault = 1\nvalues = [1]\n";
        std::fs::write(dir.path().join("x.toml"), text).unwrap();
        let e = Spaces::with_folder(dir.path()).unwrap_err();
        assert_eq!(e, "unknown knob of gemv.inner `thread`; did you mean `threads`?");
    }
}

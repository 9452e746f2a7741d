//! Which text stands for a name, and where.

use crate::ir::{Name, PrimFunc};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Names in scope while a function is printed. A name is declared where it comes into being, and
/// everything declared since a mark is forgotten when its scope ends, as TVM's printer does: two
/// loops of the user may share a name as long as neither is inside the other.
pub(super) struct Names<'a> {
    /// The user's names; `None` shows canonical names.
    display: Option<&'a BTreeMap<Name, String>>,
    shown: HashMap<Name, String>,
    used: HashSet<String>,
    order: Vec<Name>,
    blocks: HashSet<String>,
}

impl<'a> Names<'a> {
    /// Shows every name as it is.
    pub fn canonical() -> Names<'static> {
        Names { display: None, shown: HashMap::new(), used: HashSet::new(), order: Vec::new(), blocks: HashSet::new() }
    }

    /// Shows the user's names of a function.
    pub fn display(func: &'a PrimFunc) -> Names<'a> {
        Names { display: Some(&func.display), ..Names::canonical() }
    }

    /// Brings a name into scope and returns its text.
    pub fn declare(&mut self, name: &Name) -> String {
        if let Some(text) = self.shown.get(name) {
            return text.clone();
        }
        let text = match self.display {
            None => name.to_string(),
            Some(_) => unique(&self.wanted(name), |t| self.used.contains(t) || is_reserved(t)),
        };
        self.used.insert(text.clone());
        self.shown.insert(name.clone(), text.clone());
        self.order.push(name.clone());
        text
    }

    /// Brings a name into scope that is no identifier by itself: as `text`, or as the user called it.
    pub fn declare_as(&mut self, name: &Name, text: &str) -> String {
        let wanted = self.display.and_then(|d| d.get(name)).map_or_else(|| text.to_string(), |s| identifier(s));
        let text = unique(&wanted, |t| self.used.contains(t) || is_reserved(t));
        self.used.insert(text.clone());
        self.shown.insert(name.clone(), text.clone());
        self.order.push(name.clone());
        text
    }

    /// The text a name would have if it were alone.
    pub fn wanted(&self, name: &Name) -> String {
        match self.display {
            None => name.to_string(),
            Some(display) => identifier(display.get(name).map_or(name.as_str(), |s| s)),
        }
    }

    /// True once the name is in scope.
    pub fn is_declared(&self, name: &Name) -> bool {
        self.shown.contains_key(name)
    }

    /// The text of a name; one that was never declared (a fragment is printed) shows as it is.
    pub fn get(&self, name: &Name) -> String {
        self.shown.get(name).cloned().unwrap_or_else(|| name.to_string())
    }

    /// The name of a block, unique in the function.
    pub fn block(&mut self, name: &Name) -> String {
        let Some(display) = self.display else { return name.to_string() };
        let wanted = display.get(name).map_or(name.as_str(), |s| s);
        let text = unique(wanted, |t| self.blocks.contains(t));
        self.blocks.insert(text.clone());
        text
    }

    /// The present scope, for `release`.
    pub fn mark(&self) -> usize {
        self.order.len()
    }

    /// Ends every scope opened since the mark.
    pub fn release(&mut self, mark: usize) {
        for name in self.order.drain(mark..) {
            if let Some(text) = self.shown.remove(&name) {
                self.used.remove(&text);
            }
        }
    }
}

/// The first of `wanted`, `wanted_1`, `wanted_2`, ... that is not taken.
fn unique(wanted: &str, taken: impl Fn(&str) -> bool) -> String {
    if !taken(wanted) {
        return wanted.to_string();
    }
    (1..).map(|k| format!("{wanted}_{k}")).find(|t| !taken(t)).expect("some number is free")
}

/// The text with everything that Python does not allow in a name replaced.
fn identifier(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if clean.starts_with(|c: char| c.is_ascii_digit()) || clean.is_empty() { format!("_{clean}") } else { clean }
}

/// Python's keywords and the names that the header imports.
pub fn is_reserved(text: &str) -> bool {
    const RESERVED: [&str; 43] = [
        "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
        "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
        "not", "or", "pass", "raise", "return", "try", "while", "with", "yield", "T", "I", "R", "Tx", "range", "float",
        "Axis", "TypeVar",
    ];
    RESERVED.contains(&text)
}

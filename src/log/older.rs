//! What layouts up to 1 said in other words: choices as numbers, and some knobs by other names. Their tables
//! are history, so that this is too.

use super::Setting;
use std::collections::BTreeMap;

/// Knobs that are choices, with what the numbers from 0 on stood for.
const CHOICES: [(&str, &[&str]); 12] = [
    ("combine", &["by_priority", "staged"]),
    ("fold", &["by_priority", "one_by_one"]),
    ("hint", &["plain", "evict_first", "no_allocate"]),
    ("keep", NO_YES),
    ("layout", &["linear", "swizzled", "padded"]),
    ("online", NO_YES),
    ("order", &["along_output", "along_input"]),
    ("products", &["float32", "float16_pairs"]),
    ("relax", NO_YES),
    ("row", &["registers_functions", "registers", "shared", "reread"]),
    ("stage", &["registers", "shared"]),
    ("stream", NO_YES),
];

const NO_YES: &[&str] = &["no", "yes"];

/// Knobs that had another name: the old one, the present one, and a knob of those forms alone that had it.
const RENAMED: [(&str, &str, &str); 5] = [
    ("block_k", "block_k_bytes", "warps_m"),
    ("swizzle", "raster", "thread_m"),
    ("prefetch", "prefetch_rows", "keep"),
    ("columns", "vectors", "words"),
    ("columns", "vectors", "split"),
];

/// The knobs of a record in the words of the present layout.
pub fn present(knobs: &BTreeMap<String, Setting>) -> BTreeMap<String, Setting> {
    let one = |(key, setting): (&String, &Setting)| {
        // A piece has the knobs of its form as `part0.rows`.
        let (part, name) = key.split_at(key.rfind('.').map_or(0, |dot| dot + 1));
        let beside = |other: &str| knobs.contains_key(&format!("{part}{other}"));
        let renamed = RENAMED.iter().find(|(old, _, with)| *old == name && beside(with));
        (format!("{part}{}", renamed.map_or(name, |(_, new, _)| new)), named(name, setting))
    };
    knobs.iter().map(one).collect()
}

fn named(knob: &str, setting: &Setting) -> Setting {
    let choices = CHOICES.iter().find(|(name, _)| *name == knob).map_or(&[][..], |(_, choices)| choices);
    match setting {
        Setting::Number(n) => usize::try_from(*n).ok().and_then(|n| choices.get(n)).map(|name| Setting::from(*name)),
        Setting::Name(_) => None,
    }
    .unwrap_or_else(|| setting.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::RULES;

    fn present_of(knobs: &[(&str, i64)]) -> String {
        let knobs = knobs.iter().map(|(k, n)| (k.to_string(), Setting::from(*n))).collect();
        super::super::pairs(&present(&knobs))
    }

    #[test]
    fn numbers_become_names() {
        assert_eq!(present_of(&[("hint", 1), ("threads", 1)]), "hint=evict_first threads=1");
        assert_eq!(present_of(&[("part0.row", 3), ("hint", 9)]), "hint=9 part0.row=reread");
    }

    #[test]
    fn knobs_of_some_forms_have_other_names() {
        assert_eq!(present_of(&[("block_k", 64), ("warps_m", 2)]), "block_k_bytes=64 warps_m=2");
        assert_eq!(present_of(&[("block_k", 16), ("swizzle", 1), ("thread_m", 2)]), "block_k=16 raster=1 thread_m=2");
        let two = [("part0.block_k", 16), ("part0.thread_m", 2), ("part1.block_k", 64), ("part1.warps_m", 2)];
        let want = "part0.block_k=16 part0.thread_m=2 part1.block_k_bytes=64 part1.warps_m=2";
        assert_eq!(present_of(&two), want);
    }

    /// The knobs of each form, with their choices.
    fn forms() -> Vec<BTreeMap<String, Vec<String>>> {
        let text = |value: &toml::Value| value.as_str().unwrap().to_string();
        let choices = |knob: &toml::Value| knob.get("choices").and_then(|c| c.as_array()).cloned().unwrap_or_default();
        let knob = |knob: &toml::Value| (text(&knob["name"]), choices(knob).iter().map(text).collect());
        let tables = RULES.iter().map(|r| r.table.parse::<toml::Table>().unwrap());
        tables.map(|table| table["knob"].as_array().unwrap().iter().map(knob).collect()).collect()
    }

    #[test]
    fn no_form_has_an_old_name() {
        for (old, new, with) in RENAMED {
            let with: Vec<_> = forms().into_iter().filter(|knobs| knobs.contains_key(with)).collect();
            assert!(with.iter().all(|knobs| !knobs.contains_key(old)), "`{old}` is in use");
            assert!(with.iter().any(|knobs| knobs.contains_key(new)), "`{new}` is not");
        }
    }

    #[test]
    fn old_numbers_are_the_choices_of_the_tables() {
        for (name, choices) in CHOICES {
            let of: Vec<_> = forms().into_iter().filter_map(|mut knobs| knobs.remove(name)).collect();
            assert!(!of.is_empty() && of.iter().all(|c| c.iter().take(choices.len()).eq(choices)), "{name}: {of:?}");
        }
    }
}

//! Values by name, in the order of the names, as a `BTreeMap` has them, made for points of one space: conditions ask for
//! a dozen names at a hundred thousand points, so that points share their names, and copying one copies its values alone.

use std::cell::Cell;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

thread_local! {
    /// The places of values that were looked at on this thread since `looked_at` began, as bits.
    static LOOKED_AT: Cell<u64> = const { Cell::new(0) };
}

/// What `ask` says, and the `bit`s of the values that it looked at. More may be set than that, of copies and of other
/// points; fewer are not.
pub fn looked_at<T>(ask: impl FnOnce() -> T) -> (T, u64) {
    let before = LOOKED_AT.replace(0);
    let said = ask();
    let seen = LOOKED_AT.get();
    LOOKED_AT.set(before | seen);
    (said, seen)
}

/// The bit of a place in the order of names. The last one stands for all places after it too.
pub fn bit(place: usize) -> u64 {
    1 << place.min(63)
}

fn look_at(places: u64) {
    LOOKED_AT.set(LOOKED_AT.get() | places);
}

/// Integers by name.
#[derive(Clone, Debug, Default)]
pub struct KnobValues {
    /// In order, each once.
    names: Arc<Vec<String>>,
    /// One for each name.
    values: Vec<i64>,
}

impl KnobValues {
    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&i64> {
        let place = self.place(name)?;
        look_at(bit(place));
        Some(&self.values[place])
    }

    /// The value of a name, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut i64> {
        self.place(name).map(|i| &mut self.values[i])
    }

    /// Gives a name a value, and returns the one that it had.
    pub fn insert(&mut self, name: String, value: i64) -> Option<i64> {
        // A new name moves the places of others, and the old value of one is told.
        look_at(u64::MAX);
        if let Some(old) = self.get_mut(&name) {
            return Some(std::mem::replace(old, value));
        }
        let at = self.names.partition_point(|own| *own < name);
        Arc::make_mut(&mut self.names).insert(at, name);
        self.values.insert(at, value);
        None
    }

    /// Changes the value of the name at a place in the order of names.
    pub fn set_at(&mut self, place: usize, value: i64) {
        self.values[place] = value;
    }

    /// Names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &i64)> {
        look_at(u64::MAX);
        self.names.iter().zip(&self.values)
    }

    /// The values, in the order of their names.
    pub fn values(&self) -> std::slice::Iter<'_, i64> {
        look_at(u64::MAX);
        self.values.iter()
    }

    /// Few names, most of other lengths: one after the other is the fastest way.
    fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|own| own == name)
    }

    fn shares_names(&self, other: &KnobValues) -> bool {
        Arc::ptr_eq(&self.names, &other.names)
    }
}

impl FromIterator<(String, i64)> for KnobValues {
    /// Of several values of one name the last counts.
    fn from_iter<I: IntoIterator<Item = (String, i64)>>(pairs: I) -> KnobValues {
        let mut out = KnobValues::default();
        out.extend(pairs);
        out
    }
}

impl Extend<(String, i64)> for KnobValues {
    fn extend<I: IntoIterator<Item = (String, i64)>>(&mut self, pairs: I) {
        for (name, value) in pairs {
            self.insert(name, value);
        }
    }
}

impl PartialEq for KnobValues {
    fn eq(&self, other: &KnobValues) -> bool {
        look_at(u64::MAX);
        self.values == other.values && (self.shares_names(other) || self.names == other.names)
    }
}

impl Eq for KnobValues {}

impl Ord for KnobValues {
    fn cmp(&self, other: &KnobValues) -> Ordering {
        look_at(u64::MAX);
        match self.shares_names(other) {
            true => self.values.cmp(&other.values),
            false => self.iter().cmp(other.iter()),
        }
    }
}

impl PartialOrd for KnobValues {
    fn partial_cmp(&self, other: &KnobValues) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for KnobValues {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.iter().for_each(|pair| pair.hash(state));
    }
}

impl std::ops::Index<&str> for KnobValues {
    type Output = i64;

    fn index(&self, name: &str) -> &i64 {
        self.get(name).unwrap_or_else(|| panic!("there is no value of `{name}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn pairs(seed: u64) -> Vec<(String, i64)> {
        (0..6).map(|i| (format!("k{}", (seed * 7 + i * 5) % 9), ((seed / 3 + i) % 4) as i64)).collect()
    }

    #[test]
    fn they_are_as_an_ordered_map() {
        for seed in 0..60 {
            let (own, map): (KnobValues, BTreeMap<String, i64>) =
                (pairs(seed).into_iter().collect(), pairs(seed).into_iter().collect());
            assert!(own.iter().eq(map.iter()) && own.values().eq(map.values()));
            assert!((0..9).all(|i| own.get(&format!("k{i}")) == map.get(&format!("k{i}"))));
            for other in 0..60 {
                let (own_other, map_other): (KnobValues, BTreeMap<String, i64>) =
                    (pairs(other).into_iter().collect(), pairs(other).into_iter().collect());
                assert_eq!(own.cmp(&own_other), map.cmp(&map_other));
                assert_eq!(own == own_other, map == map_other);
            }
        }
    }

    #[test]
    fn a_copy_is_changed_alone() {
        let first: KnobValues = pairs(1).into_iter().collect();
        let mut second = first.clone();
        assert_eq!(second.insert("k3".into(), 9), first.get("k3").copied());
        second.insert("new".into(), 1);
        assert!(first.get("new").is_none() && second["new"] == 1 && second["k3"] == 9 && first != second);
    }
}

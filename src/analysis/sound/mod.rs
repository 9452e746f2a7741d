//! Whether a function means one thing: its iterations write different elements, its indices lie inside,
//! what it reads has been written, and its iterators have the domains of their loops.
//!
//! Every access is proved by ranges where they suffice, else tried: at all iterations where these are few,
//! at the ends of domains and around the constants of its indices where they are many. Stores that are neither
//! proved nor tried at all iterations are refused. An index that is read from a tensor is the author's to answer
//! for, and so is how sizes that are known at run time relate: of those only what is wrong for every choice tried is
//! refused.

mod bounds;
mod by_data;
mod carried;
mod domain;
mod in_order;
mod injective;
mod overlap;
mod points;
mod sites;
mod unstarted;
mod value;
mod written;

use crate::ir::PrimFunc;
use std::collections::BTreeMap;

pub(super) use bounds::out_of_bounds;
pub(super) use by_data::is_scattered;
pub use by_data::{IndexedBy, answered_for, indexed_by};
pub(super) use carried::carried;
pub(super) use domain::loop_outside_domain;
pub(super) use injective::keeps_apart;
pub(super) use overlap::overlapping_writes;
pub(super) use sites::{Site, sites};
pub use unstarted::unstarted;
pub(super) use written::{is_filled_first, read_before_write, reads_as_given};

type Check = fn(&PrimFunc) -> Option<String>;

/// What `check` says of the function for sizes that are known, or for every choice of those that are not.
fn for_sizes(f: &PrimFunc, choices: &[Choice], check: Check) -> Option<String> {
    if f.extents.is_empty() {
        return check(f);
    }
    let mut last = None;
    for choice in choices {
        let sizes: Vec<(&str, i64)> =
            f.extents.iter().enumerate().map(|(i, e)| (e.name.as_str(), choice(i as i64))).collect();
        let values: BTreeMap<String, i64> = sizes.iter().map(|(n, v)| ((*n).to_string(), *v)).collect();
        last = Some(check(&f.bind(&values))?);
    }
    last.map(|text| format!("{text} (whatever the sizes are)"))
}

/// The size of an extent by its place.
type Choice = fn(i64) -> i64;

/// Sizes that are alike, growing and shrinking, all multiples of what people pack by.
const CHOICES: [Choice; 3] = [|_| 256, |i| 128 * (i + 1), |i| 4096 >> i.min(5)];

/// The same, and small ones: the rows of a table of positions, of which a function takes the first n, may be few.
const SMALL_TOO: [Choice; 5] = [|_| 256, |_| 32, |_| 8, |i| 128 * (i + 1), |i| 4096 >> i.min(5)];

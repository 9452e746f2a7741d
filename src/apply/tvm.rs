//! The scheduled function as TVM takes it back: TVMScript that its passes leave as it is scheduled.

use crate::ir::{AttrValue, PrimFunc};

/// The attribute by which TVM's default schedules know what is done.
const IS_SCHEDULED: &str = "tirx.is_scheduled";

/// TVMScript of a scheduled function, marked as scheduled.
pub(super) fn text(scheduled: &PrimFunc) -> String {
    let mut f = scheduled.clone();
    f.attrs.retain(|(key, _)| key != IS_SCHEDULED);
    f.attrs.push((IS_SCHEDULED.to_string(), AttrValue::Bool(true)));
    f.attrs.sort_by(|a, b| a.0.cmp(&b.0));
    f.to_string()
}

//! Memory between launches: one area that the caller brings, in which each workspace has its place.

use super::interface::Interface;
use super::unit::Unit;

/// Workspaces start at multiples of this many bytes.
const ALIGN: i64 = 256;

/// Where the `n`th workspace of a kernel starts, as an expression; after the last one, the bytes of all.
///
/// # Errors
/// A sentence, when an extent cannot be written.
pub fn offset(u: &Unit, n: usize, i: &Interface) -> Result<String, String> {
    let sizes: Result<Vec<String>, String> = u.plan.workspaces[..n]
        .iter()
        .map(|w| match w.bytes.as_const() {
            Some(b) => Ok((b.max(0) as u64).next_multiple_of(ALIGN as u64).to_string()),
            None => Ok(i.lang.rounded_up(&i.extent(&w.bytes)?, ALIGN)),
        })
        .collect();
    let sizes = sizes?;
    Ok(if sizes.is_empty() { "0".into() } else { sizes.join(" + ") })
}

/// The bytes that the kernel of a size needs, as an expression: those of the first that takes it.
///
/// # Errors
/// As of [`offset`].
pub fn bytes(units: &[&Unit], i: &Interface) -> Result<String, String> {
    let all: Result<Vec<String>, String> = units.iter().map(|u| offset(u, u.plan.workspaces.len(), i)).collect();
    let all = all?;
    match all.first() {
        Some(first) if all.iter().all(|bytes| bytes == first) => return Ok(first.clone()),
        Some(_) | None => {}
    }
    let choice = |rest: String, (u, bytes): (&&Unit, &String)| match i.condition(&u.when) {
        Some(condition) => i.lang.choice(&condition, bytes, &rest),
        None => i.lang.value(bytes),
    };
    Ok(units.iter().zip(&all).rev().fold(i.lang.value("0"), choice))
}

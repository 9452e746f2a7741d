//! Kernels that start while the one before them in the stream ends (programmatic dependent launch, from sm_90 on).
//!
//! Each kernel touches memory only when the one before it is done and its results can be seen (`griddepcontrol.wait` of the
//! PTX ISA), so that what passes from one to the next is as without overlap; what is saved is the time that a launch takes.
//! A launch of few blocks lets the next one start with it, others when their last blocks end. Measured, with what was tried
//! and left out, in `docs/performance.md`.
//!
//! before: `kernel(..) { body }`
//! after:  `kernel(..) { griddepcontrol.launch_dependents, where it has few blocks; griddepcontrol.wait; body }`

use crate::ir::kernel::Launch;

/// A launch of at most so many blocks leaves room for the next one's while it runs. Behind a larger one they would take
/// their places where it happens to leave some, and the work would be spread unevenly.
const FEW_BLOCKS: i64 = 128;

/// The lines that a kernel which overlaps starts with.
pub(super) fn start(launch: &Launch) -> Vec<&'static str> {
    let blocks = launch.grid.iter().try_fold(1i64, |n, d| n.checked_mul(d.as_int()?));
    let early = blocks.filter(|n| *n <= FEW_BLOCKS).map(|_| r#"asm volatile("griddepcontrol.launch_dependents;");"#);
    early.into_iter().chain([r#"asm volatile("griddepcontrol.wait;" : : : "memory");"#]).collect()
}

//! Kernels that start while what was launched before them ends, where that was asked for and the GPU can. Their text is the
//! measured one but for the instructions that wait.

use super::kernel::Draft;
use super::options::Options;
use crate::assemble;
use crate::target::Kind;

/// The first architecture whose kernels can overlap.
const FIRST: u32 = 90;

/// Lets the kernels of a draft overlap.
pub(super) fn apply(draft: &mut Draft, options: &Options<'_>) {
    let target = &draft.unit.target;
    if !options.overlap || target.kind != Kind::Cuda || target.sm < FIRST {
        return;
    }
    draft.source.text = assemble::overlapping(&draft.program);
    draft.unit.text.clone_from(&draft.source.text);
    draft.unit.plan.launches.iter_mut().for_each(|l| l.pdl = true);
}

//! What units are made with in tests.

use daylight::apply::Options;
use daylight::assemble::Sizes;
use daylight::rules::Spaces;
use daylight::target::Target;
use std::sync::LazyLock;

/// The built-in knob tables.
pub static SPACES: LazyLock<Spaces> = LazyLock::new(Spaces::built_in);
static NO_SIZES: Sizes = Sizes::new();

/// For these targets, without a log, a compiler, or anything that has to be asked for.
pub fn untuned(targets: &[Target]) -> Options<'_> {
    Options {
        records: &[],
        sizes: &NO_SIZES,
        targets,
        spaces: &SPACES,
        gpu: None,
        log: None,
        require_exact: false,
        family: false,
        overlap: false,
        constant: &[],
        cuda: None,
    }
}

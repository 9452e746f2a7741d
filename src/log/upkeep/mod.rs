//! What writes logs and looks after them: `writer` appends, `replace` writes whole files; `merge` is the
//! union of several logs, `compact` what is left when only what decides anything stays, `verify` what is
//! wrong with a log; `t4` and `table` turn it into other formats.

mod compact;
mod merge;
mod replace;
mod t4;
mod table;
mod verify;
mod writer;

pub use compact::compact;
pub use merge::merge;
pub use replace::{replace, write};
pub use t4::t4;
pub use table::csv;
pub use verify::{Checked, verify};
pub use writer::Writer;

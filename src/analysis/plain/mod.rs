//! Functions in plainer words: what a text may say in several ways, or says of nothing, said as rules expect it. Each file is
//! one rewriting of a whole function, with what it is before and after.

mod decided;
mod empty;
mod fission;
mod one_step;
mod unnest;
mod views;

pub use decided::decide;
pub use empty::without_empty;
pub use fission::fission;
pub use one_step::assign;
pub use unnest::unnest;
pub use views::plain_views;

//! What primitives share: the tree of statements, regions, spans, proofs.

pub mod always;
pub mod checks;
pub mod copies;
pub mod cover;
pub mod digits;
pub mod exact;
pub mod flow;
pub mod guards;
pub mod holes;
pub mod injective;
pub mod inline;
pub mod motion;
pub mod nest;
pub mod online_form;
pub mod query;
pub mod reducer;
pub mod regions;
pub mod relayout;
pub mod repeat;
pub mod retype;
pub mod scope;
pub mod span;
pub mod tree;

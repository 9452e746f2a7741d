//! The passes of lowering, one file each: statements in, statements out. Their order is in `lower::lower_nest`.

pub mod barriers;
pub mod batch;
pub mod blocks;
pub mod compact;
pub mod fills;
pub mod finish;
pub mod flatten;
pub mod gather;
pub mod guards;
pub mod held;
pub mod inline_lets;
pub mod lanewise;
pub mod launches;
pub mod lets;
pub mod narrow;
pub mod own_cluster;
pub mod pin;
pub mod pipeline;
pub mod placement;
pub mod prefetch;
pub mod promote;
pub mod proxy;
pub mod swizzle;
pub mod unroll;
pub mod vectorize;
pub mod widen;

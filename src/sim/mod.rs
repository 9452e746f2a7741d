//! The simulator: runs lowered kernels with blocks, warps, shuffles, shared memory and barriers.

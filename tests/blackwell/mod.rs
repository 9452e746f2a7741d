//! What machine code for Blackwell holds, read with `nvdisasm`: which instructions each target has,
//! and how many of them the kernels of the rules are made of. No Blackwell GPU was at hand: this is
//! all that is known of these kernels there, besides what the simulator says.

mod budget;
mod probes;
mod sass;
mod table;
mod tensor;

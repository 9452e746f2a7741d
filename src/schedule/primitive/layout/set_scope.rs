//! Moves an intermediate buffer to another memory scope.
//!
//! ```text
//! t0 = T.alloc_buffer((n,))            ->    t0 = T.alloc_buffer((n,), scope="local")
//! ```
//!
//! Preconditions: `buffer_exists`; `not_parameter`: the memory of a parameter belongs to the caller.
//! Effect: only the declaration changes. Lowering decides how much of the buffer is kept in the scope.

use crate::ir::{Name, Scope};
use crate::schedule::{Draft, Failure};

pub fn apply(d: &mut Draft, buffer: &Name, scope: &Scope) -> Result<(), Failure> {
    d.find_buffer(buffer)?;
    Failure::unless(!d.func.is_param(buffer), "not_parameter", buffer, || {
        "the scope of a parameter is the caller's; stage it with cache_read or cache_write".to_string()
    })?;
    d.func.buffers.iter_mut().filter(|b| b.name == *buffer).for_each(|b| b.scope = scope.clone());
    Ok(())
}

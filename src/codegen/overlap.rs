//! Kernels that start while the one before them in the stream ends (programmatic dependent launch, from sm_90 on).
//!
//! Each kernel lets the next one start as soon as all its own blocks have, and touches memory only when the one before
//! it is done and its results can be seen (`griddepcontrol` of the PTX ISA). What passes from one kernel to the next is
//! therefore as without overlap; what is saved is the time that a launch takes, and blocks that are early fetch weights,
//! which nobody writes, into the second-level cache while they wait.
//!
//! before: `kernel(..) { body }`
//! after:  `kernel(..) { griddepcontrol.launch_dependents; fetch(share of the weights); griddepcontrol.wait; body }`

use super::prelude::Prelude;
use super::text::ident;
use crate::ir::Name;
use crate::ir::kernel::{Kernel, KernelParam};
use std::collections::BTreeSet;

/// Weights of fewer bytes are not fetched early: they arrive with the first access as soon.
const LEAST_BYTES: i64 = 1 << 18;

/// How kernels overlap.
#[derive(Clone, Debug, Default)]
pub struct Overlap {
    /// Parameters that nobody writes while kernels run, by canonical name.
    pub constants: BTreeSet<Name>,
}

impl Overlap {
    /// The lines that a kernel starts with.
    pub(super) fn start(&self, kernel: &Kernel, prelude: &mut Prelude) -> Vec<String> {
        let mut lines = vec![r#"asm volatile("griddepcontrol.launch_dependents;");"#.to_string()];
        for p in &kernel.params {
            if let Some((name, bytes)) = self.weights(p) {
                lines.push(format!("{}({}, {bytes}ll);", fetch(prelude), ident(name)));
            }
        }
        lines.push(r#"asm volatile("griddepcontrol.wait;" : : : "memory");"#.to_string());
        lines
    }

    /// A parameter whose fetching pays, with its bytes.
    fn weights<'a>(&self, param: &'a KernelParam) -> Option<(&'a Name, i64)> {
        let KernelParam::Pointer { name, dtype, written: false, len } = param else { return None };
        let bytes = len.as_int()?.checked_mul(dtype.bytes() as i64)?;
        (self.constants.contains(name) && bytes >= LEAST_BYTES).then_some((name, bytes))
    }
}

/// Fetches the start of a block's share of a tensor, where blocks take equal parts in order: up to 64 KiB of it, and
/// 32 MiB by all blocks, which leaves a third of the cache of an H100 for what others have there.
fn fetch(prelude: &mut Prelude) -> String {
    let body = r#"const long long blocks = (long long)gridDim.x * gridDim.y * gridDim.z;
  const long long block = blockIdx.x + (long long)gridDim.x * (blockIdx.y + (long long)gridDim.y * blockIdx.z);
  const long long share = bytes / blocks & ~15ll;
  const unsigned part = share < 65536 ? (unsigned)share : 65536u;
  if (threadIdx.x + threadIdx.y + threadIdx.z == 0 && part > 0 && block * part < 33554432)
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" : : "l"((const char *)start + block * share), "r"(part));"#;
    prelude.function("dl_fetch_early", "void", "const void *start, long long bytes", body)
}

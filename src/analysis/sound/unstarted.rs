//! Reductions that nothing starts.

use super::sites::sites;
use crate::analysis::walk::leaves;
use crate::ir::{IterKind, PrimFunc};

/// Blocks that reduce and start nothing, a sentence each: they go on from what the caller left in an output, which
/// most authors do not mean.
pub fn unstarted(f: &PrimFunc) -> Vec<String> {
    let mut out = vec![];
    for b in leaves(f).iter().map(|leaf| leaf.block) {
        if !b.init.is_empty() || b.iters.iter().all(|it| it.kind != IterKind::Reduce) {
            continue;
        }
        let all = sites(b);
        if let Some(site) = all.iter().find(|s| f.is_param(&s.buffer) && s.updates(&all)) {
            let (block, target) = (f.display_name(&b.name), f.display_name(&site.buffer));
            out.push(format!(
                "block `{block}` has no T.init(), so that it goes on from what the caller left in `{target}`; write `with \
                 T.init():` where it starts"
            ));
        }
    }
    out
}

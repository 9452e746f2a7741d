//! Loops that run more or less often than the iterator bound to them has values.

use crate::analysis::walk::leaves;
use crate::analysis::{Ranges, simplify};
use crate::ir::PrimFunc;

/// An iterator that is a loop's variable, with another extent than the loop.
pub fn loop_outside_domain(f: &PrimFunc) -> Option<String> {
    let ranges = Ranges::of_func(f);
    leaves(f).iter().find_map(|leaf| {
        leaf.block.iters.iter().find_map(|it| {
            let l = leaf.loops.iter().find(|l| it.binding.as_var() == Some(&l.var))?;
            let (runs, domain) = (simplify(&l.extent, &ranges), simplify(&it.extent, &ranges));
            let (runs, domain) = (runs.as_int()?, domain.as_int()?);
            let (var, iter, name) = (f.display_name(&l.var), f.display_name(&it.var), f.display_name(&leaf.block.name));
            (runs != domain).then(|| {
                format!(
                    "loop `{var}` runs {runs} times, and iterator `{iter}` of block `{name}`, which is bound to it, has \
                     the domain {domain}; write the same extent in both"
                )
            })
        })
    })
}

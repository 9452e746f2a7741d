//! Loops that run more or less often than the iterator bound to them has values.

use crate::analysis::walk::leaves;
use crate::analysis::{Ranges, index_text, simplify};
use crate::ir::{Expr, PrimFunc};

/// An iterator that is a loop's variable, with another range than the loop.
pub fn loop_outside_domain(f: &PrimFunc) -> Option<String> {
    let ranges = Ranges::of_func(f);
    leaves(f).iter().find_map(|leaf| {
        leaf.block.iters.iter().find_map(|it| {
            let l = leaf.loops.iter().find(|l| it.binding.as_var() == Some(&l.var))?;
            let plain = |e: &Expr| simplify(e, &ranges);
            let (runs, domain) = ((plain(&l.min), plain(&l.extent)), (plain(&it.min), plain(&it.extent)));
            let differ = |a: &Expr, b: &Expr| a.as_int().zip(b.as_int()).is_some_and(|(a, b)| a != b);
            let (first, count) = (differ(&runs.0, &domain.0), differ(&runs.1, &domain.1));
            let (var, iter, name) = (f.display_name(&l.var), f.display_name(&it.var), f.display_name(&leaf.block.name));
            let from = |min: &Expr| if first { format!(" from {}", index_text(min)) } else { String::new() };
            (first || count).then(|| {
                format!(
                    "loop `{var}` runs {} times{}, and iterator `{iter}` of block `{name}`, which is bound to it, has \
                     the domain {}{}; write the same in both",
                    index_text(&runs.1),
                    from(&runs.0),
                    index_text(&domain.1),
                    from(&domain.0)
                )
            })
        })
    })
}

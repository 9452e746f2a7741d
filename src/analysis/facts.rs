//! What rules ask about the blocks of a normalised function.

use super::access::{reads, writes};
use super::combiner::{Combiner, Reducer};
use super::reducer::reducers;
use super::walk::{Leaf, leaves};
use super::{Access, Affine, Ranges, affine};
use crate::ir::{Block, Expr, IterKind, IterVar, Name, PrimFunc};

/// Facts about every leaf block, in program order.
#[derive(Clone, Debug)]
pub struct Facts {
    /// One entry per leaf block.
    pub blocks: Vec<BlockFacts>,
    /// What is known about the symbolic extents.
    pub ranges: Ranges,
}

/// Facts about one block.
#[derive(Clone, Debug)]
pub struct BlockFacts {
    /// The block.
    pub name: Name,
    /// The loops around it, outer to inner.
    pub loops: Vec<Name>,
    /// Its iterators in order.
    pub iters: Vec<IterVar>,
    /// One letter per iterator, such as `SSR`.
    pub kind: String,
    /// Has an init, affine bindings, only spatial and reduction iterators, is the only writer of
    /// what it writes, and neither a reduction iterator nor a tensor occurs in an output index. True as well for a
    /// reduction whose only reduction iterator had extent 1 and is gone.
    pub is_reduction: bool,
    /// Elements read, in order of first occurrence, accumulators left out.
    pub reads: Vec<Access>,
    /// Elements written.
    pub writes: Vec<Access>,
    /// The reduction it computes, where it is a plain one.
    pub reducer: Option<Reducer>,
    /// How each accumulator is updated, where a block keeps several that rules know: plain reductions,
    /// and the value of an argmax or argmin.
    pub reducers: Vec<Reducer>,
    /// Ranges of the iterators and of the function's extents.
    pub ranges: Ranges,
}

impl Facts {
    /// The facts of a function.
    pub fn of(f: &PrimFunc) -> Facts {
        let found = leaves(f);
        let ranges = Ranges::of_func(f);
        let blocks = found.iter().map(|leaf| BlockFacts::of(leaf, &found, &ranges)).collect();
        Facts { blocks, ranges }
    }

    /// The facts of one block.
    pub fn block(&self, name: &Name) -> Option<&BlockFacts> {
        self.blocks.iter().find(|b| b.name == *name)
    }
}

impl BlockFacts {
    fn of(leaf: &Leaf, all: &[Leaf], outer: &Ranges) -> BlockFacts {
        let b = leaf.block;
        let mut ranges = outer.clone();
        leaf.loops.iter().for_each(|l| ranges.enter_loop(l));
        let affine_bindings = b.iters.iter().all(|it| affine(&it.binding, &ranges).is_some());
        ranges.enter_block(b);
        let writes = writes(b);
        let reducers = reducers(b);
        BlockFacts {
            name: b.name.clone(),
            loops: leaf.loops.iter().map(|l| l.var.clone()).collect(),
            iters: b.iters.clone(),
            kind: b.iters.iter().map(|it| it.kind.letter()).collect(),
            is_reduction: affine_bindings && reduces(b, &writes, all),
            reads: reads(b),
            writes,
            reducer: reducers.first().filter(|_| b.body.len() == 1).cloned(),
            reducers,
            ranges,
        }
    }

    /// The iterators of a kind.
    pub fn iters_of(&self, kind: IterKind) -> impl Iterator<Item = &IterVar> {
        self.iters.iter().filter(move |it| it.kind == kind)
    }

    /// True with at least one reduction iterator.
    pub fn has_reduce_iter(&self) -> bool {
        self.iters_of(IterKind::Reduce).next().is_some()
    }

    /// The iterators that do not have extent 1.
    fn real_iters(&self) -> impl Iterator<Item = &IterVar> {
        self.iters.iter().filter(|it| !it.extent.is_int(1))
    }

    /// Every iterator is spatial, and different iterations write different elements.
    pub fn is_injective(&self) -> bool {
        let spatial = self.iters.iter().all(|it| it.kind == IterKind::Spatial);
        spatial && !self.writes.is_empty() && self.writes.iter().all(|w| self.separates(w))
    }

    /// Every real iterator has a dimension of its own in the access, as `c*v + constant`.
    fn separates(&self, w: &Access) -> bool {
        let dims: Vec<Option<Affine>> = w.indices.iter().map(|e| affine(e, &self.ranges)).collect();
        self.real_iters().all(|it| {
            dims.iter().flatten().any(|a| match a.terms.as_slice() {
                [t] => t.var == it.var && t.lower == 1 && t.modulo.is_none(),
                _ => false,
            })
        })
    }

    /// Injective, one element written, and everything read lies at that same index. Dimensions at
    /// index 0 (of extent 1) do not count.
    pub fn is_elementwise(&self) -> bool {
        let [w] = self.writes.as_slice() else { return false };
        let index = |a: &Access| a.indices.iter().filter(|e| !e.is_int(0)).cloned().collect::<Vec<_>>();
        let own = index(w);
        self.is_injective() && !self.reads.is_empty() && self.reads.iter().all(|r| index(r) == own)
    }

    /// Reads `buffer` at an index that some of its real iterators do not occur in.
    pub fn is_broadcast(&self, buffer: &Name) -> bool {
        self.reads.iter().filter(|r| r.buffer == *buffer).any(|r| {
            let vars = r.vars();
            self.real_iters().any(|it| !vars.contains(&it.var))
        })
    }

    /// The read with the most iterators in it; the first of several.
    pub fn dominant(&self) -> Option<&Access> {
        let mut best: Option<(usize, &Access)> = None;
        for r in &self.reads {
            let vars = r.vars();
            let n = self.iters.iter().filter(|it| vars.contains(&it.var)).count();
            if best.is_none_or(|(m, _)| n > m) {
                best = Some((n, r));
            }
        }
        best.map(|(_, r)| r)
    }

    /// The row-major element offset of the dominant read, over the iterators.
    pub fn dominant_read(&self, f: &PrimFunc) -> Option<Expr> {
        let read = self.dominant()?;
        Some(read.offset(f.find_buffer(&read.buffer)?, &self.ranges))
    }

    /// The vector operands of a matrix-vector product: a sum with a real reduction iterator where
    /// some reads use every real iterator (the matrix) and some use a reduction iterator but not
    /// every spatial one (the vectors). `None` where it is no such product.
    pub fn is_gemv(&self) -> Option<Vec<Access>> {
        let sum = self.reducer.as_ref().is_some_and(|r| r.combiner == Combiner::Sum);
        if !self.is_reduction || !sum || !self.has_reduce_iter() || self.writes.len() != 1 {
            return None;
        }
        let uses = |a: &Access, kind: IterKind| {
            let vars = a.vars();
            self.real_iters().filter(|it| it.kind == kind && vars.contains(&it.var)).count()
        };
        let all = |kind: IterKind| self.real_iters().filter(|it| it.kind == kind).count();
        let (spatial, reduce) = (all(IterKind::Spatial), all(IterKind::Reduce));
        let full = |a: &Access| uses(a, IterKind::Spatial) == spatial && uses(a, IterKind::Reduce) == reduce;
        let part = |a: &Access| uses(a, IterKind::Reduce) > 0 && uses(a, IterKind::Spatial) < spatial;
        let vectors: Vec<Access> = self.reads.iter().filter(|r| part(r)).cloned().collect();
        (!vectors.is_empty() && self.reads.iter().any(full)).then_some(vectors)
    }
}

/// The conditions on a reduction block other than the bindings.
fn reduces(b: &Block, writes: &[Access], all: &[Leaf]) -> bool {
    let kinds = b.iters.iter().all(|it| it.kind != IterKind::Opaque);
    let clean = b.iters.iter().filter(|it| it.kind == IterKind::Reduce);
    let absent = clean.into_iter().all(|it| writes.iter().all(|w| !w.vars().contains(&it.var)));
    let stores_to = |leaf: &Leaf, name: &Name| super::access::writes(leaf.block).iter().any(|x| x.buffer == *name);
    let sole = writes.iter().all(|w| all.iter().filter(|leaf| stores_to(leaf, &w.buffer)).count() == 1);
    let placed = writes.iter().all(|w| !w.indices.iter().any(Expr::has_load));
    !b.init.is_empty() && kinds && absent && sole && placed && !writes.is_empty()
}

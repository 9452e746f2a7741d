//! Launches that are one kernel with the launch before them: beside it (`merge`), or behind its blocks (`last_block`).

mod footprint;
mod last_block;
mod merge;

use crate::ir::kernel::{Kernel, KernelParam, Launch};
use crate::ir::{BinOp, Expr, Name, PrimFunc, Stmt};
use crate::lower::LowerError;
use crate::lower::nest::{Joins, Nest};
use crate::target::Target;
use std::collections::BTreeSet;

/// What a launch knows of those that it is one kernel with.
#[derive(Clone, Default)]
pub struct Share {
    /// Whose place its blocks take; `None` for the first launch.
    pub place: Option<Place>,
    /// Its threads lie along x alone, whatever axes its body has.
    pub flat: bool,
}

/// Where in the grid of the kernel the blocks of a launch are.
#[derive(Clone)]
pub enum Place {
    /// Behind so many blocks.
    After(Expr),
    /// Each where some blocks of the launch before are.
    On(Groups),
}

/// Which blocks of a launch a block of the next one reads the results of: those of its group.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Groups {
    /// True where the blocks of a group are neighbours, false where they are `count` apart.
    neighbours: bool,
    /// How many groups there are, as many as blocks of the later launch, and how many blocks are of each.
    count: i64,
    of: u32,
}

impl Groups {
    /// The group of a block, as an expression.
    pub fn own(&self, block: &Expr) -> Expr {
        let (op, by) = if self.neighbours { (BinOp::FloorDiv, self.of.into()) } else { (BinOp::FloorMod, self.count) };
        Expr::binary(op, block.clone(), Expr::int(by, block.dtype()))
    }

    /// The group of a block.
    fn number(&self, block: usize) -> usize {
        if self.neighbours { block / self.of as usize } else { block % self.count as usize }
    }

    /// Blocks of all groups.
    pub fn blocks(&self) -> i64 {
        self.count * i64::from(self.of)
    }
}

/// Tells launches that are marked which blocks are theirs.
pub fn share(f: &PrimFunc, target: &Target, nests: &mut [(Nest, Stmt)]) -> Result<(), LowerError> {
    let mut start = 0;
    for end in 1..=nests.len() {
        if nests.get(end).is_some_and(|(n, _)| n.joins.is_some()) {
            continue;
        }
        match &mut nests[start..end] {
            [_] => {}
            [first, second] if second.0.joins == Some(Joins::Behind) => last_block::share(f, target, first, second)?,
            group if group.iter().all(|(n, _)| n.joins != Some(Joins::Behind)) => merge::share(group)?,
            [(first, _), ..] => {
                let why = "a launch that is run by blocks of another one is one kernel with that alone";
                return Err(LowerError::new("last_block", &Name::new(&first.symbol), why));
            }
            [] => {}
        }
        start = end;
    }
    Ok(())
}

/// The launch of both, where the second knows what is before it. No name of `taken` is free.
pub fn join(first: Launch, second: Launch, place: &Place, taken: &mut BTreeSet<Name>) -> Result<Launch, LowerError> {
    match place {
        Place::On(groups) => last_block::join(first, second, groups, taken),
        Place::After(_) => merge::join(first, second),
    }
}

/// The name of a parameter.
fn param_name(p: &KernelParam) -> &Name {
    match p {
        KernelParam::Pointer { name, .. } | KernelParam::Scalar { name, .. } => name,
        KernelParam::TensorMap(map) => &map.name,
    }
}

/// The parameters of both, pointers first. What one of them writes is written.
fn params(a: &Kernel, b: &Kernel) -> Vec<KernelParam> {
    let mut all = a.params.clone();
    for p in &b.params {
        match all.iter_mut().find(|o| param_name(o) == param_name(p)) {
            Some(KernelParam::Pointer { written, .. }) => {
                *written |= matches!(p, KernelParam::Pointer { written: true, .. });
            }
            Some(_) => {}
            None => all.push(p.clone()),
        }
    }
    let (pointers, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|p| matches!(p, KernelParam::Pointer { .. }));
    pointers.into_iter().chain(others).collect()
}

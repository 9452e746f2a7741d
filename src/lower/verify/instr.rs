//! What every instruction of a `Program` satisfies, by its signature:
//!
//! - it stands in a kernel of a GPU that has it, and has as many operands as it takes;
//! - it stands in a launch of clusters where it reaches other blocks, of an even number where these are pairs; a box that
//!   blocks share lands in all of the cluster; all that concerns tensor memory is of pairs, or nothing;
//! - where threads carry it out together, under no condition that they do not share, in whole warps or
//!   warpgroups; operands of products lie in arrays aligned to the period of their permutation;
//! - its expressions and accesses are right, as those of every statement (`verify`);
//! - its places are in registers, shared or global memory as it takes them, of its types, aligned to what it
//!   asks for, register arrays as a whole too; barriers are 64-bit words of shared memory;
//! - its values are integers where it takes sizes, parities, coordinates or blocks, and sizes of bulk copies
//!   positive multiples of 16;
//! - a tensor map is declared and legal, has a coordinate per dimension, and its box in shared memory has the
//!   tensor's type and the alignment that its swizzle asks for;
//! - immediates are in range, and types that belong together fit (`ir::instr`, `check`).

use super::Check;
use crate::analysis::multiple_of;
use crate::ir::instr::{Access, At, CtaGroup, Instr, Landing, Op, Place, Signature, Space, Tcgen05, Value};
use crate::ir::kernel::ArrayScope;
use crate::ir::{DType, Expr, MapSwizzle, Name, TensorMap};
use crate::lower::LowerError;
use crate::target::Kind;

type Checked = Result<(), LowerError>;

impl Check<'_> {
    /// Checks one instruction.
    pub fn instr(&mut self, i: &Instr) -> Checked {
        let signature = i.signature();
        self.stands(i, &signature)?;
        let mut exprs = i.places.iter().map(|at| &at.index).chain(&i.values);
        exprs.try_for_each(|e| self.expr(e).map(drop))?;
        for (at, place) in i.places.iter().zip(&signature.places) {
            self.access(&at.array, &at.index, place.access != Access::Read)?;
        }
        self.operands(i, &signature)
    }

    /// Target, launch, conditions around, number of operands.
    fn stands(&mut self, i: &Instr, s: &Signature) -> Checked {
        let (at, sm) = (Name::new("instruction"), self.target.sm);
        if self.target.kind != Kind::Cuda {
            return self.error(&at, "it is for a GPU, and the kernel is for a CPU");
        }
        if sm < s.since {
            return self
                .error(&at, format!("it takes compute capability {} or above, and the kernel is for {sm}", s.since));
        }
        if matches!(i.op, Op::TryCancel { .. } | Op::QueryCancel) && !self.target.has.launch_control {
            return self.error(&at, format!("{} gives running blocks none that have not started", self.target.id));
        }
        let group = group_of(&i.op);
        if (matches!(i.op, Op::Tcgen05(_)) || group.is_some()) && !self.target.has.tcgen05 {
            return self.error(&at, format!("{} has no tensor memory", self.target.id));
        }
        if group.is_some_and(|g| *self.group.get_or_insert(g) != g) {
            return self.error(&at, "instructions of a kernel on tensor memory are all of pairs of blocks, or none is");
        }
        let (places, values) = (s.places.len(), s.values.len());
        if (i.places.len(), i.values.len()) != (places, values) {
            return self.error(&at, format!("it takes {places} places and {values} values"));
        }
        if self.cluster == 1 && s.peers {
            return self.error(&at, "it stands in no launch of clusters");
        }
        if let Some(why) = self.blocks_amiss(&i.op) {
            return self.error(&at, why);
        }
        if s.threads > 1 { self.whole_group(s.threads) } else { Ok(()) }
    }

    /// What is wrong with the blocks that an operation of a pair, or of blocks by their numbers, reaches.
    fn blocks_amiss(&self, op: &Op) -> Option<String> {
        let n = self.cluster;
        if group_of(op) == Some(CtaGroup::Pair) && !n.is_multiple_of(2) {
            return Some(format!("a cluster of {n} blocks has no pairs"));
        }
        match op {
            Op::Tcgen05(Tcgen05::Commit { mask, .. }) if u32::from(*mask) >> n.min(16) > 0 => {
                Some(format!("it arrives in blocks beyond the {n} of the cluster"))
            }
            _ => None,
        }
    }

    fn operands(&self, i: &Instr, s: &Signature) -> Checked {
        let types: Vec<DType> = i.places.iter().map(|at| self.dtype(at)).collect::<Result<_, _>>()?;
        let first = i.places.first().map_or_else(|| Name::new("instruction"), |at| at.array.clone());
        i.check(&types).or_else(|why| self.error(&first, why))?;
        i.values.iter().zip(&s.values).try_for_each(|(e, value)| self.value_of(&first, e, *value))?;
        i.places.iter().zip(&s.places).try_for_each(|(at, place)| self.place(at, place))?;
        if let Op::Wgmma { a, b, .. } | Op::Tcgen05(Tcgen05::Mma { a, b, .. } | Tcgen05::ScaledMma { a, b, .. }) = &i.op
        {
            i.places.iter().skip(1).zip([a, b]).try_for_each(|(at, d)| self.permuted(at, d.swizzle))?;
        }
        if let (Op::WgmmaRegisters { b, .. }, Some(at)) = (&i.op, i.places.get(2)) {
            self.permuted(at, b.swizzle)?;
        }
        i.op.map().map_or(Ok(()), |map| self.tensor(map, i))
    }

    /// Addresses of a permuted array are those of the permutation only where its period divides the first.
    fn permuted(&self, at: &At, swizzle: MapSwizzle) -> Checked {
        let align = swizzle.align();
        if self.kernel.array(&at.array).is_some_and(|a| i64::from(a.align) >= align) {
            return Ok(());
        }
        self.error(&at.array, format!("an operand lies in an array aligned to {align} bytes"))
    }

    fn dtype(&self, at: &At) -> Result<DType, LowerError> {
        self.kernel.element(&at.array).map_or_else(|| self.error(&at.array, "it is not declared"), Ok)
    }

    fn value_of(&self, first: &Name, e: &Expr, value: Value) -> Checked {
        if value != Value::Any && !e.dtype().is_int() {
            return self.error(first, format!("a size, parity or block is an integer, not {}", e.dtype()));
        }
        let multiple = || multiple_of(e, &self.ranges) % 16 == 0 && e.as_int().is_none_or(|n| n > 0);
        if value == Value::Size && !multiple() {
            return self.error(first, "the size of a bulk copy is not known to be a positive multiple of 16 bytes");
        }
        Ok(())
    }

    /// A place in its memory, of its type, aligned.
    fn place(&self, at: &At, place: &Place) -> Checked {
        let dtype = self.dtype(at)?;
        if !place.types.is_empty() && !place.types.contains(&dtype) {
            let names: Vec<String> = place.types.iter().map(ToString::to_string).collect();
            let why = match place.space {
                Space::Barrier => format!("a barrier is a 64-bit integer in shared memory, not {dtype}"),
                _ => format!("the instruction expects {}, not {dtype}", names.join(" or ")),
            };
            return self.error(&at.array, why);
        }
        let (scope, memory) = match place.space {
            Space::Register => (Some(ArrayScope::Register), "registers"),
            Space::Shared | Space::Barrier | Space::Peer => (Some(ArrayScope::Shared), "shared memory"),
            Space::Tensor => (Some(ArrayScope::Tensor), "tensor memory"),
            Space::Global => (None, "global memory"),
        };
        let array = self.kernel.array(&at.array);
        if array.map(|a| a.scope) != scope {
            return self.error(&at.array, format!("the instruction expects it in {memory}"));
        }
        let size = dtype.bytes() as i64;
        let align = if place.align > 0 { place.align } else { place.elements * size };
        let lanes = (align / size).max(1);
        if multiple_of(&at.index, &self.ranges) % lanes != 0 {
            return self.error(&at.array, format!("`{at}` is not known to be aligned to {align} bytes"));
        }
        // Shared arrays start at multiples of 16 bytes whatever they ask for.
        let own = array.map_or(align, |a| i64::from(a.align));
        if place.space == Space::Register && lanes > 1 && own < align {
            let why = format!("the instruction expects an array aligned to {align} bytes, not {own}");
            return self.error(&at.array, why);
        }
        Ok(())
    }

    /// A box of a tensor map, at the first place.
    fn tensor(&self, map: &Name, i: &Instr) -> Checked {
        let Some(m) = self.kernel.tensor_map(map) else { return self.error(map, "the tensor map is not declared") };
        m.check().or_else(|why| self.error(map, why))?;
        if i.values.len() != m.dims.len() {
            return self.error(map, format!("a box has {} integer coordinates", m.dims.len()));
        }
        if let Op::TensorLoad { to: Landing::Cluster(n), .. } = i.op
            && n != self.cluster
        {
            return self
                .error(map, format!("a box lands in one block or in all {} of a cluster, not in {n}", self.cluster));
        }
        i.places.first().map_or(Ok(()), |at| self.boxed(m, at))
    }

    fn boxed(&self, m: &TensorMap, at: &At) -> Checked {
        if self.dtype(at)? != m.dtype || self.kernel.element(&m.buffer) != Some(m.dtype) {
            return self.error(&m.name, format!("the box, its tensor and `{}` differ in type", at.array));
        }
        let align = m.swizzle.align();
        let aligned = multiple_of(&at.index, &self.ranges) % (align / m.dtype.bytes() as i64).max(1) == 0;
        if !aligned || self.kernel.array(&at.array).is_none_or(|a| i64::from(a.align) < align) {
            return self.error(&at.array, format!("a box lies in shared memory aligned to {align} bytes"));
        }
        Ok(())
    }
}

/// The blocks that an operation on tensor memory, or a copy for it, is of.
fn group_of(op: &Op) -> Option<CtaGroup> {
    match op {
        Op::Tcgen05(op) => op.group(),
        Op::TensorLoad { to: Landing::Pair, .. } => Some(CtaGroup::Pair),
        _ => None,
    }
}

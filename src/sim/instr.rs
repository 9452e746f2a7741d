//! Instructions as the bytecode holds them, with arrays and slots instead of names and expressions, and who
//! carries out each.
//!
//! Stands in a circle with `compile`, whose names and slots it asks for, and with `block`, which it goes on with;
//! in another circle with `packed`, whose arithmetic it passes on.

use super::block::{At, Block};
use super::code::{self, Slot};
use super::compile::Compiler;
use super::memory::Memory;
use super::packed;
use super::scalar;
use crate::ir::instr::{Access, Instr as Statement, Op, Place, Space, Sync};

/// An element of an array; the index is in a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site {
    pub array: u32,
    pub index: Slot,
}

/// An instruction of the bytecode.
pub(super) type Instr = Statement<Site, Slot>;

/// The places of an instruction in those spaces that are written, or that are read only.
pub(super) fn sites(i: &Instr, spaces: &[Space], written: bool) -> impl Iterator<Item = Site> {
    let fits = move |p: &Place| spaces.contains(&p.space) && (p.access != Access::Read) == written;
    i.places.iter().zip(i.signature().places).filter(move |(_, p)| fits(p)).map(|(s, _)| *s)
}

impl Compiler {
    /// Code for an instruction.
    pub(super) fn instr(&mut self, i: &Statement) {
        let places = i.places.iter().map(|at| Site { array: self.array(&at.array), index: self.expr(&at.index) });
        let places: Vec<Site> = places.collect();
        let values = i.values.iter().map(|e| self.expr(e)).collect();
        let signature = i.signature();
        let registers = !places.is_empty() && signature.places.iter().all(|p| p.space == Space::Register);
        let threads = signature.threads;
        // What threads do to memory by themselves, and what they learn of others by it.
        let alone = registers || matches!(i.op, Op::LastBlock { .. });
        let apart = threads != super::block::WARP as u32 && !alone;
        let own = matches!(i.op, Op::CpAsync { .. } | Op::ClusterStore | Op::ClusterLoad { .. })
            || matches!(i.op, Op::Sync(Sync::CpAsyncCommit | Sync::CpAsyncWait { .. }));
        self.code.waits_apart |= apart;
        self.code.learns_apart |= apart && !own;
        let n = self.code.instrs.len() as u32;
        self.code.instrs.push(Instr { op: i.op.clone(), places, values });
        self.code.warpgroups |= matches!(i.op, Op::Wgmma { .. } | Op::WgmmaRegisters { .. } | Op::Tcgen05(_));
        self.emit(code::Op::Instr { n, threads });
    }
}

impl<'a> Block<'a> {
    /// Carries out an instruction: for thread `t`, or the warp that begins with it. A thread that has to wait
    /// is in another state after it.
    pub(super) fn carry_out(&mut self, t: usize, i: &'a Instr, memory: &mut [Memory]) -> Result<(), At> {
        let done = match &i.op {
            Op::Packed { op, rounding, ftz } => {
                return self.each_of_pair(t, i, memory, |x| {
                    let x = x.map(|v| scalar::float(v) as f32);
                    f64::from(packed::packed(*op, *rounding, *ftz, x)).to_bits()
                });
            }
            Op::PackedF16(op) => return self.each_of_pair(t, i, memory, |x| packed::packed_f16(*op, x)),
            Op::Fold3(op) => return self.fold3(t, i, *op, memory),
            Op::CastPair => {
                let [to, from] = [0, 1].map(|n| self.code.arrays[i.places[n].array as usize].dtype);
                return self.each_of_pair(t, i, memory, |[x, ..]| scalar::apply_cast(from, to, x));
            }
            Op::Halves => return self.halves(t, i, memory),
            Op::Pick { high } => return self.pick(t, i, *high, memory),
            Op::FunnelShift => return self.funnel_shift(t, i, memory),
            Op::Prmt => return self.prmt(t, i, memory),
            Op::Pin => Ok(()),
            Op::LdMatrix { count, transpose } => return self.ldmatrix(t, i, *count, *transpose, memory),
            Op::StMatrix { count, transpose } => return self.stmatrix(t, i, *count, *transpose, memory),
            Op::QuadTranspose => return self.quad_transpose(t, i, memory),
            Op::Mma(shape) => return self.mma(t, i, *shape, memory),
            Op::BlockScaleMma { shape, first } => return self.block_scale_mma(t, i, *shape, *first, memory),
            Op::Tcgen05(op) => return self.tensor_memory(t, i, op, memory),
            Op::Wgmma { shape, a, b } => return self.wgmma(t, i, *shape, (Some(*a), *b), memory),
            Op::WgmmaRegisters { shape, b } => return self.wgmma(t, i, *shape, (None, *b), memory),
            // how many registers a thread has makes no difference here
            Op::SetMaxReg { .. } => Ok(()),
            Op::TryCancel { all } => self.try_cancel(t, i, *all, memory),
            Op::QueryCancel => return self.query_cancel(t, i, memory),
            Op::LastBlock { of } => return self.last_block(t, i, *of, memory),
            // launches run one after the other here
            Op::GridWait | Op::GridLaunch => Ok(()),
            Op::CpAsyncArrive => self.cp_async_arrive(t, i, memory),
            Op::CpAsync { bytes, .. } => self.cp_async(t, i, i64::from(*bytes), memory),
            Op::BulkLoad => self.bulk_load(t, i, memory),
            Op::BulkStore => self.bulk_store(t, i, memory),
            Op::TensorLoad { to, .. } => self.tensor_load(t, i, *to, memory),
            Op::TensorStore { .. } => self.tensor_store(t, i, memory),
            Op::PeerArrive => self.peer_arrive(t, i),
            Op::ClusterStore => self.cluster_store(t, i, memory),
            Op::ClusterLoad { lanes } => return self.cluster_load(t, i, *lanes as usize, memory),
            Op::Sync(sync) => self.sync(t, i, *sync, memory),
        };
        done.map_err(|fault| self.fault(t, fault))
    }
}

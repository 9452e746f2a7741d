//! Instructions as CUDA C++: one call per statement of a helper that is one PTX instruction, with the
//! places and the values of the statement as arguments.
//!
//! Helpers take pointers: to the first register of an operand, which inlining turns back into
//! registers because every index is a constant by then, or to memory. What touches memory or
//! synchronises is `volatile` with a memory clobber, so that the compiler keeps its place; matrix
//! multiplications are `volatile` because all lanes have to arrive together; plain arithmetic is
//! neither. Instructions that copy in bulk write to `.shared::cta`: `.shared::cluster` costs a
//! run-time branch on sm_120.

mod arithmetic;
mod barrier;
mod copy;
mod matrix;
mod tcgen05;
mod wgmma;

use super::cuda::CudaWriter;
use super::prelude::Prelude;
use super::stmt::Statements;
use super::text::ident;
use crate::ir::instr::{At, Fold, Instr, Op, Sync};

impl CudaWriter<'_> {
    /// Writes one instruction.
    pub(super) fn instr(&mut self, i: &Instr) {
        let dtype = |n: usize| {
            let at = &i.places[n];
            self.kernel.element(&at.array).unwrap_or_else(|| panic!("`{at}` is in no array"))
        };
        let p = &mut *self.exprs.prelude;
        let f = match &i.op {
            Op::Packed { op, rounding, ftz } => arithmetic::packed(p, *op, *rounding, *ftz),
            Op::PackedF16(op) => arithmetic::packed_f16(p, *op),
            Op::Fold3(op) => return self.fold3(i, *op),
            Op::CastPair => arithmetic::cast_pair(p, dtype(1), dtype(0)),
            Op::Halves => arithmetic::halves(p, dtype(0)),
            Op::Pick { high } => arithmetic::pick(p, dtype(0), *high),
            Op::FunnelShift => arithmetic::funnel_shift(p, dtype(0)),
            Op::Prmt => arithmetic::prmt(p),
            Op::Pin => arithmetic::pin(p, dtype(0)),
            Op::CpAsync { bytes, prefetch } => copy::cp_async(p, *bytes, !i.values.is_empty(), *prefetch),
            Op::LdMatrix { count, transpose } => matrix::ldmatrix(p, *count, *transpose),
            Op::StMatrix { count, transpose } => matrix::stmatrix(p, *count, *transpose),
            Op::QuadTranspose => matrix::quad_transpose(p),
            Op::Mma(shape) => matrix::mma(p, *shape),
            Op::BlockScaleMma { shape, first } => matrix::block_scale_mma(p, *shape, *first),
            Op::Wgmma { shape, a, b } => {
                let f = wgmma::wgmma(p, *shape, Some(*a), *b);
                return self.wgmma(i, &f);
            }
            Op::WgmmaRegisters { shape, b } => {
                let f = wgmma::wgmma(p, *shape, None, *b);
                return self.wgmma(i, &f);
            }
            Op::Tcgen05(op) => return self.tensor_memory(i, op),
            Op::SetMaxReg { registers, take } => return self.emit(wgmma::set_registers(*registers, *take)),
            Op::CpAsyncArrive => barrier::cp_async_arrive(p),
            Op::BulkLoad => copy::bulk_load(p),
            Op::BulkStore => copy::bulk_store(p),
            Op::TensorLoad { to, .. } => copy::tensor_load(p, i.values.len(), *to),
            Op::TensorStore { .. } => copy::tensor_store(p, i.values.len()),
            Op::ClusterStore => copy::cluster_store(p, dtype(0)),
            Op::ClusterLoad { lanes } => copy::cluster_load(p, dtype(0), *lanes),
            Op::PeerArrive => barrier::peer_arrive(p),
            Op::TryCancel { all } => barrier::try_cancel(p, *all),
            Op::QueryCancel => barrier::query_cancel(p),
            Op::LastBlock { .. } => barrier::last_block(p),
            Op::GridWait => return self.emit(order("griddepcontrol.wait;")),
            Op::GridLaunch => return self.emit(order("griddepcontrol.launch_dependents;")),
            Op::Sync(sync) => match sync {
                Sync::CpAsyncCommit => return self.emit(order("cp.async.commit_group;")),
                Sync::CpAsyncWait { left } => return self.emit(order(&format!("cp.async.wait_group {left};"))),
                Sync::MbarrierInit { .. } => barrier::init(p),
                Sync::MbarrierFence => return self.emit(order("fence.mbarrier_init.release.cluster;")),
                Sync::MbarrierArrive => barrier::arrive(p),
                Sync::MbarrierExpect => barrier::expect(p),
                Sync::MbarrierWait => barrier::wait(p),
                Sync::BulkCommit => return self.emit(order("cp.async.bulk.commit_group;")),
                Sync::BulkWait { left, read } => {
                    let read = if *read { ".read" } else { "" };
                    return self.emit(order(&format!("cp.async.bulk.wait_group{read} {left};")));
                }
                Sync::WgmmaFence => return self.emit(order("wgmma.fence.sync.aligned;")),
                Sync::WgmmaCommit => return self.emit(order("wgmma.commit_group.sync.aligned;")),
                Sync::WgmmaWait { left } => return self.emit(order(&format!("wgmma.wait_group.sync.aligned {left};"))),
                Sync::AsyncFence => return self.emit(order("fence.proxy.async.shared::cta;")),
            },
        };
        self.call(&f, i);
    }

    fn fold3(&mut self, i: &Instr, op: Fold) {
        let ([dst], [a, b, c]) = i.operands();
        let f = arithmetic::fold3(self.exprs.prelude, op);
        let value = self.exprs.apply(&f, &[a, b, c]).text;
        let dst = self.exprs.element(&dst.array, &dst.index);
        self.emit(format!("{dst} = {value};"));
    }

    /// `f(&d[0], base of a + bytes / 16, ..)`, or with `&a[0]` where that is in registers: the address of an array is the
    /// same in every step of a loop, and distances in it are whole units.
    fn wgmma(&mut self, i: &Instr, f: &str) {
        let ([d, a, b], [add]) = i.operands();
        let of_a = if matches!(i.op, Op::Wgmma { .. }) { Some(self.units(a)) } else { None };
        let b = self.units(b);
        let mut register = |at: &At| format!("&{}[{}]", ident(&at.array), self.exprs.text(&at.index));
        let (a, d) = (of_a.unwrap_or_else(|| register(a)), register(d));
        let add = self.exprs.text(add);
        self.emit(format!("{f}({d}, {a}, {b}, {add});"));
    }

    /// The address of an operand in units of 16 bytes.
    fn units(&mut self, at: &At) -> String {
        let units = wgmma::units(self.exprs.prelude);
        let bytes = self.kernel.element(&at.array).map_or(1, |t| t.bytes());
        let index = self.exprs.text(&at.index);
        format!("{units}({}) + (unsigned)({index}) * {bytes}u / 16u", ident(&at.array))
    }

    /// `f(&map, &a[i], &b[j], x);`
    fn call(&mut self, f: &str, i: &Instr) {
        let mut args: Vec<String> = i.op.map().map(|map| format!("&{}", ident(map))).into_iter().collect();
        args.extend(i.places.iter().map(|at| format!("&{}[{}]", ident(&at.array), self.exprs.text(&at.index))));
        args.extend(i.values.iter().map(|e| self.exprs.text(e)));
        if let Op::Sync(Sync::MbarrierInit { arrivals: n }) | Op::LastBlock { of: n } = i.op {
            args.push(n.to_string());
        }
        self.emit(format!("{f}({});", args.join(", ")));
    }
}

/// A statement that nothing moves across.
pub(super) fn order(ptx: &str) -> String {
    format!("asm volatile(\"{ptx}\" ::: \"memory\");")
}

/// An instruction that nothing moves across.
fn ordered(ptx: &str, outputs: &str, inputs: &str) -> String {
    let outputs = if outputs.is_empty() { "::".to_string() } else { format!(": {outputs} :") };
    format!("asm volatile(\"{ptx}\" {outputs} {inputs} : \"memory\");")
}

/// Operands `%first` to `%first + n - 1` in braces.
fn group(first: usize, n: usize) -> String {
    let all: Vec<String> = (first..first + n).map(|i| format!("%{i}")).collect();
    format!("{{{}}}", all.join(", "))
}

/// `constraint(name[0]), constraint(name[1]), ...`
fn operands(constraint: &str, name: &str, n: usize) -> String {
    let all: Vec<String> = (0..n).map(|i| format!("\"{constraint}\"({name}[{i}])")).collect();
    all.join(", ")
}

/// Adds `void name(params) { body }`.
fn helper(p: &mut Prelude, name: &str, params: &str, body: &str) -> String {
    p.function(name, "void", params, body)
}

/// Adds the function from a pointer to an address in shared memory.
fn shared(p: &mut Prelude) -> String {
    p.function("dl_shared", "unsigned", "const void* p", "return (unsigned)__cvta_generic_to_shared(p);")
}

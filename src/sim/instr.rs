//! Intrinsics as the bytecode holds them: arrays and slots instead of names and expressions.
//!
//! Stands in a circle with `compile`, whose names and slots it asks for.

use super::code::{Op, Slot};
use super::compile::Compiler;
use crate::ir::intrinsic::{At, Fold, Intrinsic, MmaShape, PackedOp, Rounding};
use crate::ir::{BinOp, DType, Expr, ExprKind, Name};

/// An element of an array; the index is in a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site {
    pub array: u32,
    pub index: Slot,
}

/// An instruction; the fields are those of [`Intrinsic`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Instr {
    Packed { op: PackedOp, rounding: Rounding, ftz: bool, d: Site, a: Site, b: Site, c: Option<Site> },
    Fold3 { op: Fold, d: Site, args: [Slot; 3] },
    CastPair { d: Site, s: Site },
    CpAsync { d: Site, s: Site, bytes: u32, valid: Option<Slot> },
    CpAsyncCommit,
    CpAsyncWait { left: u32 },
    LdMatrix { d: Site, s: Site, count: u32, transpose: bool },
    StMatrix { d: Site, s: Site, count: u32, transpose: bool },
    Mma { shape: MmaShape, d: Site, a: Site, b: Site, c: Site },
    Init { bar: Site, arrivals: u32 },
    InitFence,
    Arrive { bar: Site },
    Expect { bar: Site, bytes: Slot },
    Wait { bar: Site, parity: Slot },
    BulkLoad { d: Site, s: Site, bytes: Slot, bar: Site },
    BulkStore { d: Site, s: Site, bytes: Slot },
    TensorLoad { d: Site, map: u32, coords: [Slot; 5], bar: Site },
    TensorStore { map: u32, coords: [Slot; 5], s: Site },
    BulkCommit,
    BulkWait { left: u32, read: bool },
    AsyncFence,
    ClusterArrive { release: bool },
    ClusterWait,
    ClusterStore { d: Site, peer: Slot, a: Slot },
}

/// Whose state an instruction needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reach {
    Thread,
    Warp,
    Block,
}

impl Instr {
    pub fn reach(&self) -> Reach {
        match self {
            Instr::Packed { .. } | Instr::Fold3 { .. } | Instr::CastPair { .. } => Reach::Thread,
            Instr::LdMatrix { .. } | Instr::StMatrix { .. } | Instr::Mma { .. } => Reach::Warp,
            Instr::CpAsync { .. }
            | Instr::CpAsyncCommit
            | Instr::CpAsyncWait { .. }
            | Instr::Init { .. }
            | Instr::InitFence
            | Instr::Arrive { .. }
            | Instr::Expect { .. }
            | Instr::Wait { .. }
            | Instr::BulkLoad { .. }
            | Instr::BulkStore { .. }
            | Instr::TensorLoad { .. }
            | Instr::TensorStore { .. }
            | Instr::BulkCommit
            | Instr::BulkWait { .. }
            | Instr::AsyncFence
            | Instr::ClusterArrive { .. }
            | Instr::ClusterWait
            | Instr::ClusterStore { .. } => Reach::Block,
        }
    }

    /// The array in memory that an instruction writes.
    pub fn writes(&self) -> Option<u32> {
        match self {
            Instr::CpAsync { d, .. }
            | Instr::StMatrix { d, .. }
            | Instr::BulkLoad { d, .. }
            | Instr::BulkStore { d, .. }
            | Instr::TensorLoad { d, .. }
            | Instr::ClusterStore { d, .. } => Some(d.array),
            _ => None,
        }
    }

    /// True for what orders accesses of some threads, or of copies by the bulk, without the others.
    fn teaches(&self) -> bool {
        let own = matches!(self, Instr::CpAsync { .. } | Instr::CpAsyncCommit | Instr::CpAsyncWait { .. });
        let of_cluster = matches!(self, Instr::ClusterArrive { .. } | Instr::ClusterWait | Instr::ClusterStore { .. });
        matches!(self.reach(), Reach::Block) && !own && !of_cluster
    }
}

impl Compiler {
    fn site(&mut self, at: &At) -> Site {
        Site { array: self.array(&at.array), index: self.expr(&at.index) }
    }

    fn tensor_map(&self, name: &Name) -> u32 {
        let at = self.code.maps.iter().position(|m| m.name == *name);
        at.unwrap_or_else(|| panic!("the tensor map `{name}` passed verification")) as u32
    }

    /// Up to five coordinates; the rest are 0.
    fn coords(&mut self, coords: &[Expr]) -> [Slot; 5] {
        let mut slots = [self.constant(0); 5];
        for (slot, c) in slots.iter_mut().zip(coords) {
            *slot = self.expr(c);
        }
        slots
    }

    /// Code for an intrinsic.
    pub(super) fn intrinsic(&mut self, i: &Intrinsic) {
        match i {
            Intrinsic::Pin { .. } => return,
            Intrinsic::Halves { dst, word } => return self.halves(dst, word),
            _ => {}
        }
        let instr = self.instr(i);
        self.instruction(instr);
    }

    /// Code for an instruction.
    pub(super) fn instruction(&mut self, instr: Instr) {
        self.code.waits_apart |= instr.reach() == Reach::Block;
        self.code.learns_apart |= instr.teaches();
        let n = self.code.instrs.len() as u32;
        self.code.instrs.push(instr);
        self.emit(Op::Instr { n });
    }

    /// Two stores.
    fn halves(&mut self, dst: &At, word: &Expr) {
        let array = self.array(&dst.array);
        let to = self.code.arrays[array as usize].dtype;
        for k in 0..2 {
            let shifted = Expr::binary(BinOp::Shr, word.clone(), Expr::int(16 * k, DType::U32));
            let half = Expr::new(ExprKind::Reinterpret { dtype: to, arg: Expr::cast(DType::U16, shifted) });
            let index = self.expr(&(dst.index.clone() + Expr::int(k, dst.index.dtype())));
            let a = self.expr(&half);
            self.emit(Op::Store { array, index, a });
        }
    }

    fn instr(&mut self, i: &Intrinsic) -> Instr {
        match i {
            Intrinsic::Packed { op, rounding, ftz, dst, a, b, c } => Instr::Packed {
                op: *op,
                rounding: *rounding,
                ftz: *ftz,
                d: self.site(dst),
                a: self.site(a),
                b: self.site(b),
                c: c.as_ref().map(|c| self.site(c)),
            },
            Intrinsic::Fold3 { op, dst, a, b, c } => {
                Instr::Fold3 { op: *op, d: self.site(dst), args: [self.expr(a), self.expr(b), self.expr(c)] }
            }
            Intrinsic::CastPair { dst, src } => Instr::CastPair { d: self.site(dst), s: self.site(src) },
            Intrinsic::Halves { .. } | Intrinsic::Pin { .. } => panic!("`{i}` is no instruction"),
            Intrinsic::CpAsync { dst, src, bytes, valid, prefetch: _ } => Instr::CpAsync {
                d: self.site(dst),
                s: self.site(src),
                bytes: *bytes,
                valid: valid.as_ref().map(|e| self.expr(e)),
            },
            Intrinsic::CpAsyncCommit => Instr::CpAsyncCommit,
            Intrinsic::CpAsyncWait { left } => Instr::CpAsyncWait { left: *left },
            Intrinsic::LdMatrix { dst, src, count, transpose } => {
                Instr::LdMatrix { d: self.site(dst), s: self.site(src), count: *count, transpose: *transpose }
            }
            Intrinsic::StMatrix { dst, src, count, transpose } => {
                Instr::StMatrix { d: self.site(dst), s: self.site(src), count: *count, transpose: *transpose }
            }
            Intrinsic::Mma { shape, d, a, b, c } => {
                Instr::Mma { shape: *shape, d: self.site(d), a: self.site(a), b: self.site(b), c: self.site(c) }
            }
            Intrinsic::MbarrierInit { bar, arrivals } => Instr::Init { bar: self.site(bar), arrivals: *arrivals },
            Intrinsic::MbarrierFence => Instr::InitFence,
            Intrinsic::MbarrierArrive { bar } => Instr::Arrive { bar: self.site(bar) },
            Intrinsic::MbarrierExpect { bar, bytes } => Instr::Expect { bar: self.site(bar), bytes: self.expr(bytes) },
            Intrinsic::MbarrierWait { bar, parity } => Instr::Wait { bar: self.site(bar), parity: self.expr(parity) },
            Intrinsic::BulkLoad { dst, src, bytes, bar } => {
                Instr::BulkLoad { d: self.site(dst), s: self.site(src), bytes: self.expr(bytes), bar: self.site(bar) }
            }
            Intrinsic::BulkStore { dst, src, bytes } => {
                Instr::BulkStore { d: self.site(dst), s: self.site(src), bytes: self.expr(bytes) }
            }
            Intrinsic::TensorLoad { dst, map, coords, bar } => Instr::TensorLoad {
                d: self.site(dst),
                map: self.tensor_map(map),
                coords: self.coords(coords),
                bar: self.site(bar),
            },
            Intrinsic::TensorStore { map, coords, src } => {
                Instr::TensorStore { map: self.tensor_map(map), coords: self.coords(coords), s: self.site(src) }
            }
            Intrinsic::BulkCommit => Instr::BulkCommit,
            Intrinsic::BulkWait { left, read } => Instr::BulkWait { left: *left, read: *read },
            Intrinsic::AsyncFence => Instr::AsyncFence,
            Intrinsic::ClusterStore { dst, peer, value } => {
                Instr::ClusterStore { d: self.site(dst), peer: self.expr(peer), a: self.expr(value) }
            }
        }
    }
}

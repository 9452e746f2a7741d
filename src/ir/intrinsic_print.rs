//! Prints intrinsics as the lines of a kernel listing.

use super::Expr;
use super::intrinsic::{At, Fold, Intrinsic, PackedOp, Rounding};
use super::kernel_print::text;
use std::fmt::{self, Display, Formatter};

impl Display for At {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.array, text(&self.index))
    }
}

impl Display for Intrinsic {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Intrinsic::Packed { op, rounding, ftz, dst, a, b, c } => {
                let third = c.as_ref().map_or(String::new(), |c| format!(", {c}"));
                write!(f, "{dst} = {}.{}{}.x2({a}, {b}{third})", packed(*op), round(*rounding), flush(*ftz))
            }
            Intrinsic::Fold3 { op, dst, a, b, c } => {
                write!(f, "{dst} = {}3({}, {}, {})", fold(*op), text(a), text(b), text(c))
            }
            Intrinsic::CastPair { dst, src } => write!(f, "cast2 {dst} <- {src}"),
            Intrinsic::Halves { dst, word } => write!(f, "halves {dst} <- {}", text(word)),
            Intrinsic::Pin { pair } => write!(f, "pin {pair}"),
            Intrinsic::CpAsync { dst, src, bytes, valid, prefetch } => {
                write!(f, "cp_async{bytes} {dst} <- {src}")?;
                prefetch.iter().try_for_each(|n| write!(f, " prefetch {n}"))?;
                valid.iter().try_for_each(|e| write!(f, " if {} else 0", text(e)))
            }
            Intrinsic::CpAsyncCommit => f.write_str("cp_async_commit"),
            Intrinsic::CpAsyncWait { left } => write!(f, "cp_async_wait {left}"),
            Intrinsic::LdMatrix { dst, src, count, transpose } => {
                write!(f, "ldmatrix.x{count}{} {dst} <- {src}", trans(*transpose))
            }
            Intrinsic::StMatrix { dst, src, count, transpose } => {
                write!(f, "stmatrix.x{count}{} {dst} <- {src}", trans(*transpose))
            }
            Intrinsic::Mma { shape, d, a, b, c } => {
                write!(f, "{d} = mma.{}.{}({a}, {b}, {c})", shape.name(), shape.dtypes().0)
            }
            Intrinsic::MbarrierInit { bar, arrivals } => write!(f, "mbarrier_init {bar}, {arrivals}"),
            Intrinsic::MbarrierFence => f.write_str("mbarrier_fence"),
            Intrinsic::MbarrierArrive { bar } => write!(f, "mbarrier_arrive {bar}"),
            Intrinsic::MbarrierExpect { bar, bytes } => write!(f, "mbarrier_expect {bar}, {} bytes", text(bytes)),
            Intrinsic::MbarrierWait { bar, parity } => write!(f, "mbarrier_wait {bar}, parity {}", text(parity)),
            Intrinsic::BulkLoad { dst, src, bytes, bar } => {
                write!(f, "bulk_load {dst} <- {src}, {} bytes, {bar}", text(bytes))
            }
            Intrinsic::BulkStore { dst, src, bytes } => write!(f, "bulk_store {dst} <- {src}, {} bytes", text(bytes)),
            Intrinsic::TensorLoad { dst, map, coords, bar } => {
                write!(f, "tensor_load {dst} <- {map}[{}], {bar}", texts(coords))
            }
            Intrinsic::TensorStore { map, coords, src } => write!(f, "tensor_store {map}[{}] <- {src}", texts(coords)),
            Intrinsic::BulkCommit => f.write_str("bulk_commit"),
            Intrinsic::BulkWait { left, read } => write!(f, "bulk_wait{} {left}", if *read { ".read" } else { "" }),
            Intrinsic::AsyncFence => f.write_str("async_fence"),
            Intrinsic::ClusterStore { dst, peer, value } => {
                write!(f, "cluster_store {dst} of block {} <- {}", text(peer), text(value))
            }
        }
    }
}

fn texts(list: &[Expr]) -> String {
    list.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn packed(op: PackedOp) -> &'static str {
    match op {
        PackedOp::Add => "add",
        PackedOp::Sub => "sub",
        PackedOp::Mul => "mul",
        PackedOp::Fma => "fma",
    }
}

fn round(r: Rounding) -> &'static str {
    match r {
        Rounding::Nearest => "rn",
        Rounding::Zero => "rz",
    }
}

fn flush(ftz: bool) -> &'static str {
    if ftz { ".ftz" } else { "" }
}

fn fold(op: Fold) -> &'static str {
    match op {
        Fold::Max => "max",
        Fold::Min => "min",
    }
}

fn trans(transpose: bool) -> &'static str {
    if transpose { ".trans" } else { "" }
}

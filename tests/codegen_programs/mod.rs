//! Kernels built by hand: what lowering makes of simple schedules, and a small language to say it.
#![allow(dead_code, unused_imports)] // each test binary uses its own part

mod cpu;
mod gpu;
pub mod native;

pub use {cpu::*, gpu::*};

use daylight::ir::kernel::*;
use daylight::ir::{BinOp, DType, Expr, ExprKind, Intrin, Name, Param, UnOp};

pub fn v(name: &str) -> Expr {
    Expr::var(name, DType::I32)
}

pub fn c(value: i64) -> Expr {
    Expr::i32(value)
}

pub fn f(value: f64) -> Expr {
    Expr::float(value, DType::F32)
}

pub fn fv(name: &str) -> Expr {
    Expr::var(name, DType::F32)
}

pub fn ld(array: &str, index: Expr) -> Expr {
    Expr::load(array, vec![index], DType::F32)
}

pub fn ldt(array: &str, index: Expr, dtype: DType) -> Expr {
    Expr::load(array, vec![index], dtype)
}

pub fn op(o: BinOp, a: Expr, b: Expr) -> Expr {
    Expr::binary(o, a, b)
}

pub fn lt(a: Expr, b: Expr) -> Expr {
    op(BinOp::Lt, a, b)
}

pub fn store(array: &str, index: Expr, value: Expr) -> KStmt {
    KStmt::Store { array: array.into(), index, value, hint: CacheHint::Plain }
}

pub fn let_(var: &str, value: Expr) -> KStmt {
    KStmt::Let { var: var.into(), value }
}

pub fn var(name: &str, dtype: DType, init: Option<Expr>) -> KStmt {
    KStmt::Var { var: name.into(), dtype, init }
}

pub fn assign(name: &str, value: Expr) -> KStmt {
    KStmt::Assign { var: name.into(), value }
}

pub fn looped(var: &str, extent: i64, kind: LoopKind, body: Vec<KStmt>) -> KStmt {
    KStmt::For { var: var.into(), extent: c(extent), live: None, kind, body }
}

pub fn unrolled(var: &str, extent: i64, body: Vec<KStmt>) -> KStmt {
    looped(var, extent, LoopKind::Unrolled, body)
}

pub fn serial(var: &str, extent: i64, body: Vec<KStmt>) -> KStmt {
    looped(var, extent, LoopKind::Serial, body)
}

pub fn vector(var: &str, extent: i64, body: Vec<KStmt>) -> KStmt {
    looped(var, extent, LoopKind::Vectorized, body)
}

pub fn if_(cond: Expr, then: Vec<KStmt>) -> KStmt {
    KStmt::If { cond, then, otherwise: vec![] }
}

pub fn copy(dst: (&str, Expr), src: (&str, Expr), lanes: u32, hint: CacheHint) -> KStmt {
    KStmt::Copy { dst: dst.0.into(), dst_index: dst.1, src: src.0.into(), src_index: src.1, lanes, hint }
}

pub fn shuffle_xor(dst: &str, mask: u32, value: Expr) -> KStmt {
    KStmt::Shuffle { dst: dst.into(), mode: ShuffleMode::Xor(mask), value, width: 32 }
}

pub fn block_barrier() -> KStmt {
    KStmt::Barrier(Barrier::Block)
}

pub fn input(name: &str, dtype: DType, len: i64) -> KernelParam {
    KernelParam::Pointer { name: name.into(), dtype, written: false, len: c(len) }
}

pub fn output(name: &str, dtype: DType, len: i64) -> KernelParam {
    KernelParam::Pointer { name: name.into(), dtype, written: true, len: c(len) }
}

pub fn registers(name: &str, dtype: DType, len: u32, align: u32) -> Array {
    Array { name: name.into(), dtype, len, scope: ArrayScope::Register, align }
}

pub fn shared(name: &str, dtype: DType, len: u32) -> Array {
    Array { name: name.into(), dtype, len, scope: ArrayScope::Shared, align: 16 }
}

/// A program of one launch whose tensor parameters are the kernel's pointers.
pub fn program(name: &str, kernel: Kernel, grid: i64, threads: u32, min_blocks: Option<u32>) -> Program {
    let params = kernel
        .params
        .iter()
        .filter_map(|p| match p {
            KernelParam::Pointer { name, .. } => Some(Param::Buffer(name.clone())),
            KernelParam::Scalar { name, dtype } => Some(Param::Scalar { name: name.clone(), dtype: *dtype }),
            KernelParam::TensorMap(_) => None,
        })
        .collect();
    let launch = Launch { kernel, grid: [c(grid), c(1), c(1)], block: [threads, 1, 1], cluster: 1, min_blocks };
    Program {
        name: name.into(),
        params,
        extents: vec![],
        workspaces: vec![],
        launches: vec![launch],
        trace: vec![],
        variants: vec![],
    }
}

pub fn kernel(symbol: &str, params: Vec<KernelParam>, arrays: Vec<Array>, body: Vec<KStmt>) -> Kernel {
    Kernel { symbol: symbol.into(), params, arrays, body }
}

/// The statements that add `name` up over the 32 lanes of a warp.
pub fn warp_sum(name: &str) -> Vec<KStmt> {
    let steps = [16u32, 8, 4, 2, 1];
    let step = |m: u32| [shuffle_xor("x_other", m, fv(name)), assign(name, fv(name) + fv("x_other"))];
    std::iter::once(var("x_other", DType::F32, None)).chain(steps.into_iter().flat_map(step)).collect()
}

/// Applies `value` (of loads from `p0`, `p1`, ...) to each of `n` elements.
pub fn map_kernel(name: &str, inputs: &[DType], out: DType, n: i64, value: Expr) -> Program {
    let mut params: Vec<KernelParam> = inputs.iter().enumerate().map(|(i, d)| input(&format!("p{i}"), *d, n)).collect();
    let result = format!("p{}", inputs.len());
    params.push(output(&result, out, n));
    let i = v("blockIdx.x") * c(64) + v("threadIdx.x");
    let body = vec![let_("i", i), if_(lt(v("i"), c(n)), vec![store(&result, v("i"), value)])];
    program(name, kernel(name, params, vec![], body), (n + 63) / 64, 64, None)
}

pub fn name(text: &str) -> Name {
    text.into()
}

/// A statement with `f` applied to its own expressions, not to those inside.
pub fn map_own_exprs(s: &KStmt, f: &mut impl FnMut(&Expr) -> Expr) -> KStmt {
    let mut s = s.clone();
    match &mut s {
        KStmt::Let { value: e, .. }
        | KStmt::Assign { value: e, .. }
        | KStmt::Shuffle { value: e, .. }
        | KStmt::Prefetch { index: e, .. }
        | KStmt::If { cond: e, .. } => *e = f(e),
        KStmt::For { extent, live, .. } => std::iter::once(extent).chain(live).for_each(|e| *e = f(e)),
        KStmt::Var { init, .. } => init.iter_mut().for_each(|e| *e = f(e)),
        KStmt::Store { index, value, .. } => [index, value].into_iter().for_each(|e| *e = f(e)),
        KStmt::Copy { dst_index, src_index, .. } => [dst_index, src_index].into_iter().for_each(|e| *e = f(e)),
        KStmt::Instr(i) => *i = i.map_exprs(f),
        KStmt::Barrier(_) => {}
    }
    s
}

/// Statements over 256 elements `i` in 8 blocks: by 32 threads, or (`cpu`) by a vector loop.
fn over_256(name: &str, params: Vec<KernelParam>, cpu: bool, body: Vec<KStmt>) -> Program {
    if cpu {
        let i = v("blockIdx.x") * c(32) + v("i1");
        let body = body.iter().map(|s| map_own_exprs(s, &mut |e| e.subst(&|n| (n.as_str() == "i").then(|| i.clone()))));
        let body = vec![vector("i1", 32, body.collect())];
        return program(name, kernel(name, params, vec![], body), 8, 1, None);
    }
    let mut all = vec![let_("i", v("blockIdx.x") * c(32) + v("threadIdx.x"))];
    all.extend(body);
    program(name, kernel(name, params, vec![], all), 8, 32, None)
}

/// Every operator that `dtype` has, one store each.
pub fn operators(dtype: DType, cpu: bool) -> Program {
    let (a, b) = (ldt("p0", v("i"), dtype), ldt("p1", v("i"), dtype));
    let mut values = Vec::new();
    for o in [BinOp::Add, BinOp::Sub, BinOp::Mul, BinOp::Min, BinOp::Max] {
        values.push(op(o, a.clone(), b.clone()));
    }
    for o in [BinOp::FloorDiv, BinOp::FloorMod, BinOp::TruncDiv, BinOp::TruncMod] {
        values.push(op(o, a.clone(), b.clone()));
    }
    if dtype.is_float() {
        values.push(op(BinOp::Div, a.clone(), b.clone()));
    } else {
        for o in [BinOp::BitAnd, BinOp::BitOr, BinOp::BitXor] {
            values.push(op(o, a.clone(), b.clone()));
        }
        values.push(op(BinOp::Shl, a.clone(), Expr::int(3, dtype)));
        values.push(op(BinOp::Shr, a.clone(), Expr::int(2, dtype)));
        values.push(op(BinOp::FloorDiv, a.clone(), Expr::int(4, dtype)));
        values.push(op(BinOp::FloorMod, a.clone(), Expr::int(4, dtype)));
        values.push(Expr::unary(UnOp::BitNot, a.clone()));
    }
    values.push(Expr::unary(UnOp::Neg, Expr::unary(UnOp::Neg, a.clone())));
    for o in [BinOp::Eq, BinOp::Ne, BinOp::Lt, BinOp::Le, BinOp::Gt, BinOp::Ge] {
        let cond = op(o, a.clone(), b.clone());
        let both = op(BinOp::And, cond.clone(), op(BinOp::Or, cond.clone(), Expr::unary(UnOp::Not, cond)));
        values.push(Expr::new(ExprKind::Select { cond: both, then: a.clone(), otherwise: b.clone() }));
    }
    let guard = lt(v("i"), c(200));
    values.push(Expr::new(ExprKind::IfThenElse {
        cond: guard,
        then: a.clone(),
        otherwise: Expr::constant(7.0, dtype),
    }));
    let late = Expr::new(ExprKind::Let {
        var: "x9".into(),
        value: a + b,
        body: Expr::var("x9", dtype) * Expr::var("x9", dtype),
    });
    values.push(late);
    let store = |(row, value)| store("p2", v("i") + c(256 * row as i64), value);
    let body = values.into_iter().enumerate().map(store).collect();
    let params = vec![input("p0", dtype, 256), input("p1", dtype, 256), output("p2", dtype, 256 * OPERATOR_ROWS)];
    over_256(&format!("operators_{dtype}"), params, cpu, body)
}

/// Rows that [`operators`] leaves room for.
pub const OPERATOR_ROWS: i64 = 32;

/// Every mathematical function, one store each.
pub fn functions(dtype: DType, cpu: bool) -> Program {
    let x = ldt("p0", v("i"), dtype);
    let mut body = vec![];
    for (row, (f, _, arity)) in Intrin::ALL.into_iter().enumerate() {
        let is_test = matches!(f, Intrin::IsNan | Intrin::IsInf);
        if matches!(f, Intrin::PopCount | Intrin::Clz) && dtype.is_float() {
            continue;
        }
        let call = Expr::call(f, vec![x.clone(); arity], if is_test { DType::Bool } else { dtype });
        body.push(store("p1", v("i") + c(256 * row as i64), Expr::cast(dtype, call)));
    }
    let params = vec![input("p0", dtype, 256), output("p1", dtype, 256 * Intrin::ALL.len() as i64)];
    over_256(&format!("functions_{dtype}"), params, cpu, body)
}

/// Every type that has values.
pub fn value_types() -> Vec<DType> {
    DType::ALL.into_iter().map(|(d, _)| d).filter(|d| *d != DType::Handle).collect()
}

/// A cast from `from` to every type: `p0` to `p1`, `p2`, ...
pub fn casts(from: DType, cpu: bool) -> Program {
    let mut params = vec![input("p0", from, 256)];
    let mut body = vec![];
    for (k, to) in value_types().into_iter().enumerate() {
        let name = format!("p{}", k + 1);
        params.push(output(&name, to, 256));
        body.push(store(&name, v("i"), Expr::cast(to, ldt("p0", v("i"), from))));
    }
    over_256(&format!("casts_{from}"), params, cpu, body)
}

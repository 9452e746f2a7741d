//! Makes the kernel: types of variables, arrays, parameters, grid.

mod narrow;
mod own_cluster;
mod own_part;
mod prefetch;

use super::batch::written;
use super::flatten::length;
use crate::ir::device::{Ahead, DFor, DKind, DStmt};
use crate::ir::kernel::{Array, ArrayScope, CacheHint, KStmt, Kernel, KernelParam, Launch, LoopKind};
use crate::ir::{Buffer, DType, Expr, Name, Param, Scope, TensorMap};
use crate::lower::LowerError;
use crate::lower::nest::{BLOCKS, Nest, THREADS};
use crate::target::{Kind, Target};
use narrow::Types;
use own_cluster::OwnCluster;
use own_part::OwnPart;
use std::collections::{BTreeMap, BTreeSet};

const PASS: &str = "finish";
/// Alignment of every shared array in bytes.
const SHARED_ALIGN: u32 = 16;
/// Alignment of a private array of a CPU thread at most: a cache line.
const MAX_ALIGN: u32 = 64;

/// The launch that a fully lowered body makes.
pub fn run(nest: &mut Nest, body: &[DStmt]) -> Result<Launch, LowerError> {
    let (own, part) = (OwnCluster::of(nest), OwnPart::of(nest));
    let nest: &Nest = nest;
    let renamed = own.as_ref().map(|own| own.rename(body)).or_else(|| Some(part.as_ref()?.rename(body)));
    let body = renamed.as_deref().unwrap_or(body);
    let mut types = Types { ranges: &nest.ranges, vars: declared(nest) };
    let mut stmts = own.map_or(vec![], |own| own.lets(&mut types));
    stmts.extend(part.iter().flat_map(|part| part.lets(&mut types, body)));
    let mut finish = Finish { nest, types, prefetch: Ahead::Never };
    stmts.extend(finish.list(body));
    if let Some(part) = &part {
        stmts = part.behind(&finish.types, stmts);
    }
    let maps = crate::lower::fact::maps::used(nest, body);
    let mut used = used_buffers(body);
    used.extend(maps.iter().map(|m| m.buffer.clone()));
    let mut stored = written(body);
    stored.extend(crate::lower::fact::maps::stored(&maps, body));
    let mut arrays = vec![];
    let mut params = vec![];
    for b in ordered(nest, &used) {
        if nest.is_global(&b.name) {
            params.push(pointer(nest, b, &stored));
        } else {
            arrays.push(array(nest, b, body, &maps)?);
        }
    }
    params.extend(scalars(nest, &stmts, &params));
    params.extend(maps.into_iter().map(|m| KernelParam::TensorMap(Box::new(m))));
    let kernel = Kernel { symbol: nest.symbol.clone(), params, arrays, body: stmts };
    fits(&kernel, nest.target)?;
    let grid = nest.grid.clone().map(|e| finish.types.value(&e));
    Ok(Launch { kernel, grid, block: nest.block, cluster: nest.cluster, min_blocks: nest.min_blocks })
}

/// That a block has as much shared memory as a kernel wants.
pub fn fits(kernel: &Kernel, target: &Target) -> Result<(), LowerError> {
    let (wanted, most) = (kernel.shared_bytes(), target.smem_per_block as u64);
    if target.kind != Kind::Cuda || wanted <= most {
        return Ok(());
    }
    let why = format!("{wanted} bytes of shared memory, {} allows {most}", target.id);
    Err(LowerError::new(PASS, &Name::new(&kernel.symbol), why))
}

fn declared(nest: &Nest) -> BTreeMap<Name, DType> {
    let threads = BLOCKS.iter().chain(&THREADS).map(|t| (Name::new(t.name()), DType::I32));
    let extents = nest.func.extents.iter().map(|e| (e.name.clone(), e.dtype));
    let scalars = nest.func.params.iter().filter_map(|p| match p {
        Param::Scalar { name, dtype } => Some((name.clone(), *dtype)),
        Param::Buffer(_) => None,
    });
    threads.chain(extents).chain(scalars).collect()
}

/// Writes statements as the kernel has them.
struct Finish<'n> {
    nest: &'n Nest<'n>,
    types: Types<'n>,
    /// How far ahead the loads of the loops around are asked for.
    prefetch: Ahead,
}

impl Finish<'_> {
    fn list(&mut self, body: &[DStmt]) -> Vec<KStmt> {
        let mut out = vec![];
        for s in body {
            let places = prefetch::before(self.nest, s, self.prefetch);
            out.extend(places.into_iter().map(|(array, at)| KStmt::Prefetch { array, index: self.types.index(&at) }));
            out.push(self.stmt(s));
        }
        out
    }

    fn stmt(&mut self, s: &DStmt) -> KStmt {
        let types = &mut self.types;
        match s {
            DStmt::For(l) => self.for_(l),
            DStmt::If { cond, then, otherwise } => {
                let cond = types.value(cond);
                KStmt::If { cond, then: self.list(then), otherwise: self.list(otherwise) }
            }
            DStmt::Store { buffer, indices, value, hint } => KStmt::Store {
                array: buffer.clone(),
                index: indices.first().map_or(Expr::i32(0), |i| types.index(i)),
                value: types.value(value),
                hint: stored_with(self.nest, buffer, *hint),
            },
            DStmt::Copy { dst, dst_index, src, src_index, lanes, hint } => KStmt::Copy {
                dst: dst.clone(),
                dst_index: types.index(dst_index),
                src: src.clone(),
                src_index: types.index(src_index),
                lanes: *lanes,
                hint: *hint,
            },
            DStmt::Let { var, value } => {
                let value = types.value(value);
                types.vars.insert(var.clone(), value.dtype());
                KStmt::Let { var: var.clone(), value }
            }
            DStmt::Var { var, dtype, init } => {
                KStmt::Var { var: var.clone(), dtype: *dtype, init: init.as_ref().map(|e| types.value(e)) }
            }
            DStmt::Assign { var, value } => KStmt::Assign { var: var.clone(), value: types.value(value) },
            DStmt::Shuffle { dst, mode, value, width } => {
                KStmt::Shuffle { dst: dst.clone(), mode: *mode, value: types.value(value), width: *width }
            }
            DStmt::Barrier(b) => KStmt::Barrier(*b),
            DStmt::Instr(i) => KStmt::Instr(i.map_exprs(&mut |e| types.operand(e))),
            DStmt::Tile(call) => panic!("the tile call `{}` is still there after dispatch", call.op.name()),
            DStmt::Reduce(r) => panic!("the reduction of `{}` is still there after `cross_thread`", r.block),
        }
    }

    fn for_(&mut self, l: &DFor) -> KStmt {
        let types = &mut self.types;
        let dtype = types.loop_type(&l.extent);
        types.vars.insert(l.var.clone(), dtype);
        let kind = match l.kind {
            DKind::Serial => LoopKind::Serial,
            DKind::Unrolled => LoopKind::Unrolled,
            DKind::Vectorized => LoopKind::Vectorized,
        };
        let extent = match l.extent.as_int() {
            Some(n) => Expr::int(n, dtype),
            None => Expr::cast(dtype, types.index(&l.extent)),
        };
        let live = l.live.as_ref().map(|e| types.value(e));
        let around = self.prefetch;
        self.prefetch = match l.prefetch {
            Ahead::Never => around,
            own => own,
        };
        let body = self.list(&l.body);
        self.prefetch = around;
        KStmt::For { var: l.var.clone(), extent, live, kind, body }
    }
}

/// The hint of a plain store: on a GPU it is that of a load that never became a vector copy.
fn stored_with(nest: &Nest, buffer: &Name, hint: CacheHint) -> CacheHint {
    if nest.cuda() || !nest.is_global(buffer) { CacheHint::Plain } else { hint }
}

/// Parameters in the function's order, then intermediates, then what lowering added.
fn ordered<'n>(nest: &'n Nest, used: &BTreeSet<Name>) -> Vec<&'n Buffer> {
    let own = nest.func.buffers.iter().map(|b| &b.name);
    let added = nest.buffers.keys().filter(|n| nest.func.find_buffer(n).is_none());
    own.chain(added).filter(|n| used.contains(*n)).filter_map(|n| nest.buffers.get(n)).collect()
}

pub fn used_buffers(body: &[DStmt]) -> BTreeSet<Name> {
    let mut used = BTreeSet::new();
    for s in body {
        s.visit(&mut |s| s.for_each_access(|name, _, _| used.extend([name.clone()])));
    }
    used
}

fn pointer(nest: &Nest, b: &Buffer, written: &BTreeSet<Name>) -> KernelParam {
    KernelParam::Pointer {
        name: b.name.clone(),
        dtype: b.dtype,
        written: written.contains(&b.name),
        len: with_declared_types(nest, &length(nest, b)),
    }
}

/// An expression over extents with the types they are declared with.
pub fn with_declared_types(nest: &Nest, e: &Expr) -> Expr {
    let types = Types { ranges: &nest.ranges, vars: declared(nest) };
    e.as_int().map_or_else(|| Expr::cast(DType::I64, types.index(e)), Expr::i64)
}

fn array(nest: &Nest, b: &Buffer, body: &[DStmt], maps: &[TensorMap]) -> Result<Array, LowerError> {
    let len = length(nest, b).as_int().and_then(|n| u32::try_from(n).ok());
    let len = len.ok_or_else(|| LowerError::new(PASS, &b.name, "the size of the array is not a constant"))?;
    let scope = match b.scope {
        Scope::Shared | Scope::SharedDyn | Scope::Cluster => ArrayScope::Shared,
        Scope::Tensor => ArrayScope::Tensor,
        Scope::Global | Scope::Local | Scope::Other(_) => ArrayScope::Register,
    };
    let align = match scope {
        ArrayScope::Shared => crate::lower::fact::maps::align(&b.name, maps, body).max(SHARED_ALIGN),
        ArrayScope::Register => widest(b, body),
        ArrayScope::Tensor => b.dtype.bytes() as u32,
    };
    Ok(Array { name: b.name.clone(), dtype: b.dtype, len, scope, align })
}

/// Bytes of the widest access to a register array.
fn widest(b: &Buffer, body: &[DStmt]) -> u32 {
    let own = b.dtype.bytes() as u32;
    let mut most = own;
    for s in body {
        s.visit(&mut |s| {
            if let DStmt::Copy { dst, src, lanes, .. } = s
                && (*dst == b.name || *src == b.name)
            {
                most = most.max(lanes * own);
            }
            if let DStmt::Instr(i) = s {
                i.for_each_place(|at, _, n| {
                    if at.array == b.name && n > 1 {
                        most = most.max((2 * own).max(4));
                    }
                });
            }
            if let DStmt::For(l) = s
                && l.kind == DKind::Vectorized
                && used_buffers(&l.body).contains(&b.name)
            {
                let lanes = l.extent.as_int().unwrap_or(1).clamp(1, MAX_ALIGN.into()) as u32;
                most = most.max((lanes * own).min(MAX_ALIGN));
            }
        });
    }
    most
}

/// The extents and scalar parameters that the body, or the length of a pointer, mentions.
fn scalars(nest: &Nest, body: &[KStmt], pointers: &[KernelParam]) -> Vec<KernelParam> {
    let mut used = BTreeSet::new();
    let mut note = |e: &Expr| e.visit(&mut |e| used.extend(e.as_var().cloned()));
    body.iter().for_each(|s| s.visit(&mut |s| s.for_each_expr(&mut note)));
    for p in pointers {
        if let KernelParam::Pointer { len, .. } = p {
            note(len);
        }
    }
    let extents = nest.func.extents.iter().map(|e| (e.name.clone(), e.dtype));
    let scalars = nest.func.params.iter().filter_map(|p| match p {
        Param::Scalar { name, dtype } => Some((name.clone(), *dtype)),
        Param::Buffer(_) => None,
    });
    let known: BTreeMap<Name, DType> = extents.clone().collect();
    let rest = scalars.filter(|(n, _)| !known.contains_key(n));
    let all = extents.chain(rest).filter(|(n, _)| used.contains(n));
    all.map(|(name, dtype)| KernelParam::Scalar { name, dtype }).collect()
}

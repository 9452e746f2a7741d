//! CUDA C++: one `extern "C"` kernel per launch.
//!
//! Register arrays are plain local arrays: every index is a constant once the unrolled loops are
//! expanded, so that the compiler keeps them in registers. Vector copies go through the built-in
//! vector types, which need no header.

use super::expr::{Elements, ExprWriter, Text};
use super::facts::is_thread_index;
use super::instr::order;
use super::prelude::Prelude;
use super::stmt::Statements;
use super::text::{Lines, header, ident};
use super::{Lang, ctype, is_narrow};
use crate::ir::kernel::{
    Array, ArrayScope, Barrier, CacheHint, KStmt, Kernel, KernelParam, Launch, LoopKind, Program, ShuffleMode,
};
use crate::ir::{BinOp, DType, Expr, ExprKind, Name, ThreadTag};
use std::collections::BTreeSet;

/// Static shared memory that every GPU allows, in bytes.
const STATIC_SHARED_LIMIT: u64 = 48 * 1024;

/// The CUDA C++ text of a program: one kernel per launch, named by its symbol, without any
/// `#include`. Launch with the block size of [`Launch::block`] and [`dynamic_shared_bytes`].
pub fn cuda(program: &Program) -> String {
    let mut prelude = Prelude::new(Lang::Cuda);
    let kernels: Vec<String> = program.launches.iter().map(|l| kernel(program, l, &mut prelude)).collect();
    let mut out = header(program);
    let helpers = prelude.text();
    if !helpers.is_empty() {
        out.push('\n');
        out.push_str(&helpers);
    }
    for k in &kernels {
        out.push('\n');
        out.push_str(k);
    }
    out
}

/// Dynamic shared memory to launch a kernel with, in bytes: 0 while its arrays fit the static
/// limit of 48 KB, else all of them.
pub fn dynamic_shared_bytes(kernel: &Kernel) -> u64 {
    let bytes = kernel.shared_bytes();
    if bytes > STATIC_SHARED_LIMIT { bytes } else { 0 }
}

fn kernel(program: &Program, launch: &Launch, prelude: &mut Prelude) -> String {
    let k = &launch.kernel;
    let elements = PackedArrays::of(k);
    let mut w =
        CudaWriter { kernel: k, lines: Lines::default(), exprs: ExprWriter::new(Lang::Cuda, prelude, &elements) };
    w.assume_extents(program);
    w.signature(launch);
    w.narrow_scalars();
    w.thread_indices(launch);
    w.arrays();
    w.body(&k.body);
    w.lines.close();
    w.lines.finish()
}

/// Register arrays of 16- and 8-bit numbers that only vector copies write: elements are widened from
/// the words that hold several of them, which saves the instructions that take a word apart.
struct PackedArrays(BTreeSet<Name>);

impl PackedArrays {
    fn of(kernel: &Kernel) -> PackedArrays {
        let packs = |a: &&Array| {
            let narrow = matches!(a.dtype, DType::BF16 | DType::E4M3 | DType::E5M2 | DType::I8 | DType::U8);
            a.scope == ArrayScope::Register
                && narrow
                && a.align >= 4
                && (u64::from(a.len) * a.dtype.bytes()).is_multiple_of(4)
        };
        let mut names: BTreeSet<Name> = kernel.arrays.iter().filter(packs).map(|a| a.name.clone()).collect();
        for s in &kernel.body {
            s.visit(&mut |s| {
                if let KStmt::Store { array, .. } = s {
                    names.remove(array);
                }
            });
        }
        PackedArrays(names)
    }
}

impl Elements for PackedArrays {
    fn element(&self, _: &Name, _: &Expr, _: &Text) -> Option<String> {
        None
    }

    fn widened(&self, array: &Name, index: &Text, dtype: DType, prelude: &mut Prelude) -> Option<String> {
        if !self.0.contains(array) {
            return None;
        }
        let f = prelude.widen_packed(dtype)?;
        Some(format!("{f}({}, {})", ident(array), index.text))
    }
}

/// Writes one kernel. Instructions that have no counterpart in C are in `instr`.
pub(super) struct CudaWriter<'a> {
    pub(super) kernel: &'a Kernel,
    lines: Lines,
    pub(super) exprs: ExprWriter<'a>,
}

impl CudaWriter<'_> {
    /// Extents are sizes, hence at least 1.
    fn assume_extents(&mut self, program: &Program) {
        for (name, _) in &program.extents {
            self.exprs.facts.add_extent(name);
        }
    }

    fn signature(&mut self, launch: &Launch) {
        let bounds = match launch.min_blocks {
            Some(blocks) => format!("{}, {blocks}", launch.threads()),
            None => launch.threads().to_string(),
        };
        let params = &self.kernel.params;
        if params.iter().any(|p| matches!(p, KernelParam::TensorMap(_))) {
            let text = "struct __align__(64) dl_tensor_map { unsigned long long words[16]; };";
            self.exprs.prelude.add("dl_tensor_map", |_| text.into());
        }
        let params: Vec<String> = params.iter().map(param).collect();
        let cluster =
            if launch.cluster > 1 { format!("__cluster_dims__({}, 1, 1) ", launch.cluster) } else { String::new() };
        self.lines.line(format!("extern \"C\" __global__ void {cluster}__launch_bounds__({bounds})"));
        self.lines.open(&format!("{}({})", ident(&self.kernel.symbol), params.join(", ")));
    }

    /// Scalars of narrow floats come as bits and are widened once.
    fn narrow_scalars(&mut self) {
        for p in &self.kernel.params {
            if let KernelParam::Scalar { name, dtype } = p
                && is_narrow(*dtype)
            {
                let (widen, name) = (self.exprs.prelude.widen(*dtype), ident(name));
                self.lines.line(format!("const float {name} = {widen}({name}_bits);"));
            }
        }
    }

    /// Declares the thread indices that the body uses, those of guards with how many there are of them: launch
    /// bounds tell the compiler of all axes together only.
    fn thread_indices(&mut self, launch: &Launch) {
        let (used, guards) = (thread_indices(&self.kernel.body), loop_guards(&self.kernel.body));
        for name in used {
            self.lines.line(format!("const int {} = (int){name};", ident(&name)));
            let axis = ThreadTag::by_name(name.as_str()).and_then(ThreadTag::thread_axis);
            if let Some(axis) = axis.filter(|_| guards.iter().any(|g| g.uses_var(&name))) {
                self.lines.line(format!("__builtin_assume({} < {});", ident(&name), launch.block[axis]));
            }
        }
    }

    fn arrays(&mut self) {
        if dynamic_shared_bytes(self.kernel) > 0 {
            let align = self.kernel.shared_align();
            self.lines.line(format!("extern __shared__ __align__({align}) unsigned char dl_dynamic[];"));
        }
        let mut offset = 0;
        for array in &self.kernel.arrays {
            let line = self.array(array, &mut offset);
            self.lines.line(line);
        }
    }

    fn array(&self, array: &Array, offset: &mut u64) -> String {
        let (t, name) = (ctype(array.dtype), ident(&array.name));
        match array.scope {
            ArrayScope::Register => {
                let align = if u64::from(array.align) > array.dtype.bytes() {
                    format!("__align__({}) ", array.align)
                } else {
                    String::new()
                };
                format!("{align}{t} {name}[{}];", array.len)
            }
            ArrayScope::Tensor => format!("unsigned {name};"),
            ArrayScope::Shared if dynamic_shared_bytes(self.kernel) > 0 => {
                let at = array.shared_start(*offset);
                *offset = at + (u64::from(array.len) * array.dtype.bytes()).next_multiple_of(16);
                format!("{t}* const {name} = reinterpret_cast<{t}*>(dl_dynamic + {at});")
            }
            ArrayScope::Shared => {
                format!("__shared__ __align__({}) {t} {name}[{}];", array.align.max(16), array.len)
            }
        }
    }

    fn shuffle(&mut self, dst: &Name, mode: ShuffleMode, value: &Expr, width: u32) {
        let value = self.exprs.text(value);
        let (function, by) = match mode {
            ShuffleMode::Xor(mask) => ("__shfl_xor_sync", mask),
            ShuffleMode::Down(delta) => ("__shfl_down_sync", delta),
            ShuffleMode::Index(lane) => ("__shfl_sync", lane),
        };
        let width = if width == 32 { String::new() } else { format!(", {width}") };
        self.emit(format!("{} = {function}(0xffffffffu, {value}, {by}{width});", ident(dst)));
    }

    /// One vector access per side.
    fn copy(&mut self, dst: (&Name, &Expr), src: (&Name, &Expr), lanes: u32, hint: CacheHint) {
        let dtype = self.kernel.element(src.0).unwrap_or_else(|| panic!("copy from unknown array `{}`", src.0));
        let bytes = u64::from(lanes) * dtype.bytes();
        let (to, from) = (self.exprs.text(dst.1), self.exprs.text(src.1));
        let to = format!("&{}[{to}]", ident(dst.0));
        let from = format!("&{}[{from}]", ident(src.0));
        let to_global = self.kernel.array(dst.0).is_none();
        let from_global = self.kernel.array(src.0).is_none();
        if bytes == 32 && hint != CacheHint::Plain && (to_global || from_global) {
            for part in 0..2 {
                let at = |p: &str| {
                    format!("reinterpret_cast<{}uint4*>({p}) + {part}", if p == from { "const " } else { "" })
                };
                let line = self.access("uint4", &at(&to), &at(&from), to_global, from_global, hint);
                self.emit(line);
            }
            return;
        }
        let t = self.vector_type(dtype, bytes);
        let to = format!("reinterpret_cast<{t}*>({to})");
        let from = format!("reinterpret_cast<const {t}*>({from})");
        let line = self.access(&t, &to, &from, to_global, from_global, hint);
        self.emit(line);
    }

    #[rustfmt::skip]
    fn access(&mut self, t: &str, to: &str, from: &str, to_global: bool, from_global: bool, hint: CacheHint) -> String {
        let value = match hint {
            CacheHint::Streaming if from_global => format!("__ldcs({from})"),
            CacheHint::NoAllocate if from_global => format!("{}({from})", self.no_allocate(t, "")),
            CacheHint::NoAllocate256 if from_global => format!("{}({from})", self.no_allocate(t, ".L2::256B")),
            _ => dereference(from),
        };
        if to_global && hint == CacheHint::Streaming {
            format!("__stcs({to}, {value});")
        } else {
            format!("{} = {value};", dereference(to))
        }
    }

    /// The type that one access of so many bytes has; structures of 32 bytes are one access from
    /// sm_100 on and two below.
    fn vector_type(&mut self, dtype: DType, bytes: u64) -> String {
        let float = dtype == DType::F32;
        match bytes {
            1 => "unsigned char".into(),
            2 => "unsigned short".into(),
            4 => if float { "float" } else { "unsigned" }.into(),
            8 => if float { "float2" } else { "uint2" }.into(),
            16 => if float { "float4" } else { "uint4" }.into(),
            32 => {
                self.exprs.prelude.add("dl_32bytes", |_| "struct __align__(32) dl_32bytes { uint4 low, high; };".into())
            }
            other => panic!("a copy of {other} bytes is no vector access"),
        }
    }

    /// Name of the load that leaves no line in L1, and of what the L2 fetches. The volatile-free `asm` may be moved and merged
    /// like any load of constant memory.
    fn no_allocate(&mut self, t: &str, fetched: &str) -> String {
        let (letter, parts) = match t {
            "unsigned char" => return "*".into(),
            "unsigned short" => ("h", 0),
            "unsigned" => ("r", 0),
            "float" => ("f", 0),
            "uint2" => ("r", 2),
            "float2" => ("f", 2),
            "uint4" => ("r", 4),
            "float4" => ("f", 4),
            other => panic!("no load of {other} without allocation"),
        };
        let ptx = match letter {
            "h" => "b16",
            "f" => "f32",
            _ => "b32",
        };
        let wide = if fetched.is_empty() { "" } else { "256_" };
        let name = format!("dl_load_na_{wide}{}", t.replace(' ', "_"));
        self.exprs.prelude.add(&name, |_| no_allocate_text((&name, fetched), t, letter, ptx, parts))
    }
}

impl<'a> Statements<'a> for CudaWriter<'a> {
    fn parts(&mut self) -> (&mut Lines, &mut ExprWriter<'a>) {
        (&mut self.lines, &mut self.exprs)
    }

    /// The number of a warpgroup: addresses of matrix instructions that depend on it are computed once for the
    /// warp where the compiler knows that its lanes agree.
    fn uniform(&self, value: &Expr, text: String) -> String {
        if is_warpgroup(value) { format!("__shfl_sync(0xffffffffu, {text}, 0)") } else { text }
    }

    fn directive(&mut self, _: &Expr, kind: LoopKind) -> String {
        match kind {
            LoopKind::Serial => "#pragma unroll 1".to_string(),
            LoopKind::Unrolled | LoopKind::Vectorized => "#pragma unroll".to_string(),
        }
    }

    fn own(&mut self, s: &KStmt) {
        match s {
            KStmt::Copy { dst, dst_index, src, src_index, lanes, hint } => {
                self.copy((dst, dst_index), (src, src_index), *lanes, *hint);
            }
            KStmt::Barrier(Barrier::Warp) => self.lines.line("__syncwarp();"),
            KStmt::Barrier(Barrier::Block) => self.lines.line("__syncthreads();"),
            KStmt::Barrier(Barrier::Named { id, threads }) => {
                self.lines.line(order(&format!("bar.sync {id}, {threads};")))
            }
            KStmt::Barrier(Barrier::ClusterArrive { release }) => {
                let semantics = if *release { "release" } else { "relaxed" };
                self.lines.line(order(&format!("barrier.cluster.arrive.{semantics}.aligned;")));
            }
            KStmt::Barrier(Barrier::ClusterWait) => self.lines.line(order("barrier.cluster.wait.acquire.aligned;")),
            KStmt::Instr(i) => self.instr(i),
            KStmt::Shuffle { dst, mode, value, width } => self.shuffle(dst, *mode, value, *width),
            s => panic!("`{s:?}` is written alike in every language, or by that of the CPU alone"),
        }
    }
}

/// True for `threadIdx.x // 128`.
fn is_warpgroup(e: &Expr) -> bool {
    match e.kind() {
        ExprKind::Binary { op: BinOp::FloorDiv, a, b } => {
            b.is_int(128) && a.as_var().is_some_and(|n| n.as_str() == "threadIdx.x")
        }
        ExprKind::Cast { arg, .. } => is_warpgroup(arg),
        _ => false,
    }
}

/// `*pointer`, with parentheses around a sum.
fn dereference(pointer: &str) -> String {
    if pointer.contains(" + ") && pointer.ends_with(char::is_numeric) {
        format!("*({pointer})")
    } else {
        format!("*{pointer}")
    }
}

fn no_allocate_text((name, fetched): (&str, &str), t: &str, letter: &str, ptx: &str, parts: usize) -> String {
    let (width, registers, outputs) = match parts {
        0 => (String::new(), "%0".to_string(), format!("\"={letter}\"(v)")),
        n => {
            let registers: Vec<String> = (0..n).map(|i| format!("%{i}")).collect();
            let outputs: Vec<String> = "xyzw".chars().take(n).map(|c| format!("\"={letter}\"(v.{c})")).collect();
            (format!(".v{n}"), format!("{{{}}}", registers.join(", ")), outputs.join(", "))
        }
    };
    let address = parts.max(1);
    format!(
        "static __device__ __forceinline__ {t} {name}(const {t}* p) {{ {t} v; \
         asm(\"ld.global.nc.L1::no_allocate{fetched}{width}.{ptx} {registers}, [%{address}];\" : {outputs} : \"l\"(p)); return v; }}"
    )
}

/// A parameter's declaration.
fn param(p: &KernelParam) -> String {
    match p {
        KernelParam::Pointer { name, dtype, written, .. } => {
            let constant = if *written { "" } else { "const " };
            format!("{constant}{}* __restrict__ {}", ctype(*dtype), ident(name))
        }
        KernelParam::Scalar { name, dtype } if is_narrow(*dtype) => format!("{} {}_bits", ctype(*dtype), ident(name)),
        KernelParam::Scalar { name, dtype } => format!("{} {}", ctype(*dtype), ident(name)),
        KernelParam::TensorMap(map) => format!("const __grid_constant__ dl_tensor_map {}", ident(&map.name)),
    }
}

/// The conditions in which a loop is the step that a thread takes: they hold in all unrolled steps but the last
/// for a compiler that knows how many threads there are.
fn loop_guards(stmts: &[KStmt]) -> Vec<Expr> {
    let (mut loops, mut conditions) = (BTreeSet::new(), vec![]);
    let mut note = |s: &KStmt| {
        if let KStmt::For { var, kind: LoopKind::Unrolled, .. } = s {
            loops.insert(var.clone());
        } else if let KStmt::If { cond, .. } = s {
            conditions.push(cond.clone());
        }
    };
    stmts.iter().for_each(|s| s.visit(&mut note));
    conditions.retain(|c| loops.iter().any(|l| c.uses_var(l)));
    conditions
}

/// The thread indices that statements use, in a fixed order.
pub(super) fn thread_indices(stmts: &[KStmt]) -> Vec<Name> {
    let mut found = BTreeSet::new();
    let mut note = |e: &Expr| e.visit(&mut |x| found.extend(x.as_var().filter(|n| is_thread_index(n)).cloned()));
    stmts.iter().for_each(|s| s.visit(&mut |s| s.for_each_expr(&mut note)));
    found.into_iter().collect()
}

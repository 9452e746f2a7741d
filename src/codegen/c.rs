//! C for the host compiler: one function per launch that runs a range of the launch's blocks.
//!
//! Lanes are vectors of GCC's extensions, one operation per statement. Register arrays that vector
//! loops touch are arrays of vectors, which the compiler keeps in vector registers once the
//! unrolled loops are expanded.

use super::cuda::thread_indices;
use super::expr::ExprWriter;
use super::lanes::{VectorArrays, expand_copies, plan};
use super::prelude::{Prelude, short};
use super::stmt::{Statements, Steps};
use super::text::{Lines, header, ident};
use super::vector::VectorWriter;
use super::{Lang, ctype, is_narrow, stored_as};
use crate::ir::kernel::{Array, KStmt, Kernel, KernelParam, Launch, LoopKind, Program};
use crate::ir::{DType, Expr, Name};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes to which arrays are aligned at least. GCC 12 forgets to align the stack of a function without calls whose arrays are
/// reached by other registers than those of the stack, and takes aligned moves all the same; what asks for more than the
/// 16 bytes of the stack has it aligned.
const ALIGNED: u32 = 32;

/// The C text of a program, without any `#include`, for GCC and Clang. `vector_bytes` is the width
/// of the machine's vectors (64 for x86-64-v4, 32 for v3, 16 for NEON).
///
/// Each launch is a function `void <symbol>(void *const *buffers, const int64_t *scalars,
/// int64_t begin, int64_t end)` that runs the blocks `begin..end` of the launch's one-dimensional
/// grid; `buffers` and `scalars` are the kernel's parameters in their order. Floating scalars stand
/// in the low bytes of their slot.
pub fn c(program: &Program, vector_bytes: u32) -> String {
    let mut prelude = Prelude::new(Lang::C);
    let functions: Vec<String> =
        program.launches.iter().map(|l| function(program, l, vector_bytes, &mut prelude)).collect();
    let helpers = prelude.text();
    let mut out = header(program);
    let uses_bool = helpers.contains("bool ") || functions.iter().any(|f| f.contains("bool "));
    if uses_bool || !helpers.is_empty() {
        out.push('\n');
    }
    if uses_bool {
        out.push_str("#define bool _Bool\n");
    }
    out.push_str(&helpers);
    for f in &functions {
        out.push('\n');
        out.push_str(f);
    }
    out
}

fn function(program: &Program, launch: &Launch, vector_bytes: u32, prelude: &mut Prelude) -> String {
    let kernel = &launch.kernel;
    let body = expand_copies(&kernel.body, kernel);
    let arrays = VectorArrays::of(&Kernel { body: body.clone(), ..kernel.clone() }, vector_bytes);
    let exprs = ExprWriter::new(Lang::C, prelude, &arrays);
    let mut w = CWriter { kernel, vector_bytes, lines: Lines::default(), exprs, arrays: &arrays };
    for (name, _) in &program.extents {
        w.exprs.facts.add_extent(name);
    }
    w.lines.line(format!("void {}(void *const *buffers, const long long *scalars,", ident(&kernel.symbol)));
    w.lines.open("    long long begin, long long end)");
    w.params(&body);
    w.lines.open("for (long long dl_block = begin; dl_block < end; ++dl_block)");
    w.thread_indices(&body);
    kernel.arrays.iter().for_each(|a| w.array(a));
    w.body(&body);
    w.lines.close();
    if super::stream::streams(&kernel.body) {
        let f = super::stream::fence(w.exprs.prelude);
        w.lines.line(format!("{f}();"));
    }
    w.lines.close();
    w.lines.finish()
}

struct CWriter<'a> {
    kernel: &'a Kernel,
    vector_bytes: u32,
    lines: Lines,
    exprs: ExprWriter<'a>,
    arrays: &'a VectorArrays,
}

impl CWriter<'_> {
    /// Declares the parameters that the body uses.
    fn params(&mut self, body: &[KStmt]) {
        let used = names_in(body);
        let (mut buffers, mut scalars) = (0, 0);
        for p in &self.kernel.params {
            match p {
                KernelParam::Pointer { name, dtype, written, .. } => {
                    if used.contains(name) {
                        let constant = if *written { "" } else { "const " };
                        let (t, name) = (ctype(*dtype), ident(name));
                        self.lines.line(format!("{constant}{t} *__restrict {name} = buffers[{buffers}];"));
                    }
                    buffers += 1;
                }
                KernelParam::TensorMap(map) => panic!("the tensor map `{}` is in a kernel of a CPU", map.name),
                KernelParam::Scalar { name, dtype } => {
                    if used.contains(name) {
                        self.scalar(name, *dtype, scalars);
                    }
                    scalars += 1;
                }
            }
        }
    }

    fn scalar(&mut self, name: &Name, dtype: DType, slot: usize) {
        let (t, v) = (ctype(dtype), ident(name));
        if !dtype.is_float() {
            return self.lines.line(format!("const {t} {v} = ({t})scalars[{slot}];"));
        }
        if is_narrow(dtype) {
            let widen = self.exprs.prelude.widen(dtype);
            return self.lines.line(format!("const float {v} = {widen}(({t})scalars[{slot}]);"));
        }
        self.lines.line(format!("{t} {v};"));
        self.lines.line(format!("__builtin_memcpy(&{v}, &scalars[{slot}], sizeof {v});"));
    }

    /// The block index; there is one thread.
    fn thread_indices(&mut self, body: &[KStmt]) {
        for name in thread_indices(body) {
            let value = if name.as_str() == "blockIdx.x" { "(int)dl_block" } else { "0" };
            self.lines.line(format!("const int {} = {value};", ident(&name)));
        }
    }

    fn array(&mut self, a: &Array) {
        let name = ident(&a.name);
        let align = a.align.max(self.vector_bytes.clamp(ALIGNED, 64));
        let (t, len) = match self.arrays.lanes(&a.name) {
            Some(lanes) => (self.lane_type(a.dtype, lanes), a.len / lanes),
            None => (ctype(a.dtype).to_string(), a.len),
        };
        self.lines.line(format!("{t} {name}[{len}] __attribute__((aligned({align})));"));
    }

    /// The name of a vector of so many elements.
    fn lane_type(&mut self, dtype: DType, lanes: u32) -> String {
        let (t, bytes) = (format!("dl_{}x{lanes}", short(stored_as(dtype))), dtype.bytes() * u64::from(lanes));
        let element = ctype(dtype);
        self.exprs.prelude.add(&t, |_| format!("typedef {element} {t} __attribute__((vector_size({bytes})));"));
        t
    }

    fn unroll(&mut self, factor: i64) -> String {
        self.exprs.prelude.add("DL_UNROLL", |_| {
            "#define DL_PRAGMA(text) _Pragma(#text)\n\
             #ifdef __clang__\n\
             #define DL_UNROLL(n) DL_PRAGMA(unroll n)\n\
             #else\n\
             #define DL_UNROLL(n) DL_PRAGMA(GCC unroll n)\n\
             #endif"
                .into()
        });
        format!("DL_UNROLL({factor})")
    }

    /// One vector operation per statement, or a scalar loop where there is no such form.
    fn vector_loop(&mut self, var: &Name, extent: &Expr, body: &[KStmt]) {
        self.exprs.facts.add_counter(var, extent);
        let Some(plan) = plan(var, extent, body, self.vector_bytes) else {
            return self.for_loop(var, (extent, None), LoopKind::Unrolled, body);
        };
        let scoped = plan.parts > 1 || body.iter().any(|s| matches!(s, KStmt::Let { .. }));
        for part in 0..plan.parts {
            let first = i64::from(part * plan.lanes);
            if scoped {
                self.lines.open("");
            }
            self.lines.line(format!("// {} = {first} to {}", ident(var), first + i64::from(plan.lanes) - 1));
            self.vector_part(var, first, plan.lanes, body);
            if scoped {
                self.lines.close();
            }
        }
    }

    fn vector_part(&mut self, lane: &Name, first: i64, lanes: u32, body: &[KStmt]) {
        let mut lets = BTreeMap::new();
        for s in body {
            let arrays = self.arrays;
            let mut w =
                VectorWriter { exprs: &mut self.exprs, arrays, lane, first, lanes, lets: std::mem::take(&mut lets) };
            let line = match s {
                KStmt::Store { array, index, value, hint } => w.store(array, index, value, *hint),
                KStmt::Let { var, value } => w.bind(var, value),
                s => panic!("the plan of a vector loop let this through: {s:?}"),
            };
            lets = w.lets;
            self.emit(line);
        }
    }
}

impl<'a> Statements<'a> for CWriter<'a> {
    fn parts(&mut self) -> (&mut Lines, &mut ExprWriter<'a>) {
        (&mut self.lines, &mut self.exprs)
    }

    fn directive(&mut self, extent: &Expr, kind: LoopKind) -> String {
        let count = extent.as_int().unwrap_or(1).clamp(1, 65534);
        self.unroll(if kind == LoopKind::Serial { 1 } else { count })
    }

    fn repeat(&mut self, var: &Name, steps: Steps, kind: LoopKind, body: &[KStmt]) {
        match kind {
            LoopKind::Vectorized => self.vector_loop(var, steps.0, body),
            LoopKind::Serial | LoopKind::Unrolled => self.for_loop(var, steps, kind, body),
        }
    }

    fn own(&mut self, s: &KStmt) {
        match s {
            // One thread: nothing to wait for, and every lane is the own one.
            KStmt::Barrier(_) => {}
            KStmt::Prefetch { array, index } => {
                let f = super::stream::prefetch(self.exprs.prelude);
                let bytes = self.kernel.element(array).map_or(1, DType::bytes);
                let index = self.exprs.value(index).at(super::expr::level::PRODUCT);
                self.emit(format!("{f}({}, {index} * {bytes}LL);", ident(array)));
            }
            KStmt::Shuffle { dst, value, .. } => {
                let text = self.exprs.text(value);
                self.emit(format!("{} = {text};", ident(dst)));
            }
            s => panic!("`{s:?}` is no statement of a CPU kernel"),
        }
    }
}

/// Every variable and array that statements name.
fn names_in(stmts: &[KStmt]) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    for s in stmts {
        s.visit(&mut |s| {
            if let KStmt::Store { array, .. } = s {
                names.insert(array.clone());
            }
            s.for_each_expr(|e| {
                e.visit(&mut |x| {
                    names.extend(x.as_var().cloned());
                    if let crate::ir::ExprKind::Load { buffer, .. } = x.kind() {
                        names.insert(buffer.clone());
                    }
                });
            });
        });
    }
    names
}

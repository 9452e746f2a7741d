//! Functions and schedules that the tests of lowering share: what rules make, at any size.
#![allow(dead_code)] // each test binary uses its own part

use daylight::interp::{self, Mode, Scalar, Scalars, Tensor};
use daylight::ir::{self, AttrValue, DType, Name, PrimFunc, Scope, Stmt, ThreadTag};
use daylight::lower::lower;
use daylight::schedule::Schedule;
use daylight::sim::{self, SimOptions};
use daylight::target::{HostCpu, Target};

/// The H200's target.
pub fn gpu() -> Target {
    Target::parse("cuda:sm_90a", &HostCpu::default()).expect("a known target")
}

/// A CPU with 64-byte vectors.
pub fn cpu() -> Target {
    Target::parse("cpu:x86-64-v4", &HostCpu::default()).expect("a known target")
}

/// The one function of a text.
pub fn read(text: &str) -> PrimFunc {
    let mut all = ir::read(text, "case.py").unwrap_or_else(|e| panic!("{e}\n{text}"));
    all.remove(0)
}

/// `out[i] = sum_k a[i, k]`.
pub fn row_sum(rows: i64, k: i64, dtype: &str) -> PrimFunc {
    read(&format!(
        r#"
@T.prim_func
def row_sum(a: T.Buffer(({rows}, {k}), "{dtype}"), out: T.Buffer(({rows},), "{dtype}")):
    for i, j in T.grid({rows}, {k}):
        with T.block("sum"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                out[vi] = T.{dtype}(0)
            out[vi] = out[vi] + a[vi, vj]
"#
    ))
}

/// `out[j] = sum_i a[i, j]`.
pub fn column_sum(rows: i64, columns: i64, dtype: &str) -> PrimFunc {
    read(&format!(
        r#"
@T.prim_func
def column_sum(a: T.Buffer(({rows}, {columns}), "{dtype}"), out: T.Buffer(({columns},), "{dtype}")):
    for j, i in T.grid({columns}, {rows}):
        with T.block("sum"):
            vj, vi = T.axis.remap("SR", [j, i])
            with T.init():
                out[vj] = T.{dtype}(0)
            out[vj] = out[vj] + a[vi, vj]
"#
    ))
}

/// `out[i] = sum_k w[i, k] * x[k]`, accumulated in `dtype`.
pub fn gemv(n: i64, k: i64, dtype: &str) -> PrimFunc {
    read(&format!(
        r#"
@T.prim_func
def gemv(w: T.Buffer(({n}, {k}), "{dtype}"), x: T.Buffer(({k},), "{dtype}"), out: T.Buffer(({n},), "{dtype}")):
    for i, j in T.grid({n}, {k}):
        with T.block("gemv"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                out[vi] = T.{dtype}(0)
            out[vi] = out[vi] + w[vi, vj] * x[vj]
"#
    ))
}

/// `out[i] = max(a[i] * b[i], 0)`.
pub fn elementwise(n: i64, dtype: &str) -> PrimFunc {
    read(&format!(
        r#"
@T.prim_func
def mul_relu(a: T.Buffer(({n},), "{dtype}"), b: T.Buffer(({n},), "{dtype}"), out: T.Buffer(({n},), "{dtype}")):
    for i in range({n}):
        with T.block("mul"):
            vi = T.axis.spatial({n}, i)
            out[vi] = T.max(a[vi] * b[vi], T.{dtype}(0))
"#
    ))
}

/// The knobs of a GPU row reduction.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    pub threads: i64,
    pub rows: i64,
    pub lanes: i64,
    pub unroll: i64,
}

type Done = Result<Schedule, daylight::schedule::ScheduleError>;

fn loops_below(s: &Schedule, block: &Name, at: &Name) -> Vec<Name> {
    let loops = s.loops(block);
    let from = loops.iter().position(|l| l == at).map_or(0, |i| i + 1);
    loops[from..].to_vec()
}

fn output(s: &Schedule, block: &Name) -> Name {
    let mut found = None;
    s.func().visit(&mut |stmt| {
        if let Stmt::Block(b) = stmt
            && b.name == *block
        {
            for inner in &b.body {
                inner.visit(&mut |s| {
                    if let Stmt::Store { buffer, .. } = s {
                        found = Some(buffer.clone());
                    }
                });
            }
        }
    });
    found.expect("the block stores something")
}

fn stage(
    s: &mut Schedule,
    block: &Name,
    buffer: &str,
    at: &Name,
    scope: Scope,
    lanes: i64,
) -> Result<Name, daylight::schedule::ScheduleError> {
    let copy = s.cache_read(block, &buffer.into(), scope)?;
    s.compute_at(&copy, at)?;
    if let Some(last) = loops_below(s, &copy, at).last().cloned()
        && lanes > 1
    {
        s.vectorize(&last)?;
        s.annotate(&last, "cache_hint", AttrValue::Str("no_allocate".into()))?;
    }
    Ok(copy)
}

/// The one loop below `at` of a block whose buffers run over rows, if there is one left.
fn bind_spatial(
    s: &mut Schedule,
    block: &Name,
    at: &Name,
    reduce: Option<ThreadTag>,
    groups: i64,
    rows: i64,
) -> Result<(), daylight::schedule::ScheduleError> {
    let mut loops = loops_below(s, block, at);
    if let Some(tag) = reduce {
        let k = loops.remove(reduce_position(s, block, &loops));
        s.bind(&k, tag)?;
    }
    let Some(first) = loops.first().cloned() else { return Ok(()) };
    let parts = s.split(&first, &[Some(groups), Some(rows)])?;
    s.bind(&parts[0], ThreadTag::ThreadY)?;
    s.unroll(&parts[1])
}

fn reduce_position(s: &Schedule, block: &Name, loops: &[Name]) -> usize {
    let mut at = 0;
    s.func().visit(&mut |stmt| {
        if let Stmt::Block(b) = stmt
            && b.name == *block
        {
            let reduces = |l: &Name| b.iters.iter().any(|i| i.kind == ir::IterKind::Reduce && i.binding.uses_var(l));
            at = loops.iter().position(reduces).expect("a reduction loop");
        }
    });
    at
}

/// A row reduction: threads stride the row, several rows per block.
pub fn schedule_rows(f: PrimFunc, p: Rows) -> Done {
    let mut s = Schedule::new(f);
    let (b, row, k) = ("b0".into(), Name::new("i0"), Name::new("i1"));
    let rows = s.split(&row, &[None, Some(p.rows)])?;
    let ks = s.split(&k, &[None, Some(p.unroll), Some(p.threads), Some(p.lanes)])?;
    let rf = s.rfactor(&ks[2], 0)?;
    let partial = output(&s, &rf);
    s.reorder(&[&rows[0], &rows[1], &ks[2], &ks[0], &ks[1], &ks[3]].map(|l| l.clone()))?;
    s.bind(&rows[0], ThreadTag::BlockX)?;
    s.bind(&rows[1], ThreadTag::ThreadY)?;
    s.bind(&ks[2], ThreadTag::ThreadX)?;
    s.annotate(&rows[0], "min_blocks", AttrValue::Int(2))?;
    stage(&mut s, &rf, "p0", &ks[1], Scope::Local, p.lanes)?;
    s.unroll(&ks[1])?;
    s.annotate(&ks[1], "batch_loads", AttrValue::Int(1))?;
    s.unroll(&ks[3])?;
    s.decompose_reduction(&rf, &ks[0])?;
    s.set_scope(&partial, Scope::Local)?;
    finish(&mut s, &b, &rows[0], p.rows, 1)?;
    Ok(s)
}

fn finish(
    s: &mut Schedule,
    b: &Name,
    grid: &Name,
    groups: i64,
    rows: i64,
) -> Result<(), daylight::schedule::ScheduleError> {
    let out = output(s, b);
    let tail = s.cache_write(b, &out, Scope::Local)?;
    s.reverse_compute_at(b, grid)?;
    bind_spatial(s, b, grid, Some(ThreadTag::ThreadX), groups, rows)?;
    s.reverse_compute_at(&tail, grid)?;
    bind_spatial(s, &tail, grid, None, groups, rows)
}

/// The knobs of a GPU matrix-vector product.
#[derive(Clone, Copy, Debug)]
pub struct Gemv {
    pub threads: i64,
    pub groups: i64,
    pub rows: i64,
    pub unroll: i64,
    pub lanes: i64,
    pub shared: bool,
}

/// A matrix-vector product: a group of threads per rows, vector in registers or shared memory.
pub fn schedule_gemv(f: PrimFunc, p: Gemv) -> Done {
    let mut s = Schedule::new(f);
    let b = Name::new("b0");
    let n = s.split(&"i0".into(), &[None, Some(p.groups), Some(p.rows)])?;
    let ks = s.split(&"i1".into(), &[None, Some(p.unroll), Some(p.threads), Some(p.lanes)])?;
    let rf = s.rfactor(&ks[2], 0)?;
    let partial = output(&s, &rf);
    s.reorder(&[&n[0], &n[1], &ks[2], &ks[0], &ks[1], &n[2], &ks[3]].map(|l| l.clone()))?;
    s.bind(&n[0], ThreadTag::BlockX)?;
    s.bind(&n[1], ThreadTag::ThreadY)?;
    s.bind(&ks[2], ThreadTag::ThreadX)?;
    let mut x = Name::new("p1");
    if p.shared {
        let copy = s.cache_read(&rf, &x, Scope::Shared)?;
        s.compute_at(&copy, &n[0])?;
        let all = loops_below(&s, &copy, &n[0]);
        let parts = s.split(&all[0], &[None, Some(p.groups), Some(p.threads), Some(p.lanes)])?;
        s.bind(&parts[1], ThreadTag::ThreadY)?;
        s.bind(&parts[2], ThreadTag::ThreadX)?;
        s.vectorize(&parts[3])?;
        x = output(&s, &copy);
    }
    stage(&mut s, &rf, x.as_str(), &ks[1], Scope::Local, p.lanes)?;
    stage(&mut s, &rf, "p0", &n[2], Scope::Local, p.lanes)?;
    for l in [&ks[1], &n[2]] {
        s.unroll(l)?;
        s.annotate(l, "batch_loads", AttrValue::Int(1))?;
    }
    s.unroll(&ks[3])?;
    s.decompose_reduction(&rf, &ks[0])?;
    s.set_scope(&partial, Scope::Local)?;
    finish(&mut s, &b, &n[0], p.groups, p.rows)?;
    Ok(s)
}

/// The knobs of a GPU column reduction.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    pub threads: i64,
    pub rows: i64,
    pub lanes: i64,
    pub unroll: i64,
}

/// A column reduction: a thread owns a vector of columns, threadIdx.y shares the rows.
pub fn schedule_columns(f: PrimFunc, p: Columns) -> Done {
    let mut s = Schedule::new(f);
    let b = Name::new("b0");
    let cols = s.split(&"i0".into(), &[None, Some(p.threads), Some(p.lanes)])?;
    let ks = s.split(&"i1".into(), &[None, Some(p.unroll), Some(p.rows)])?;
    let rf = s.rfactor(&ks[2], 0)?;
    let partial = output(&s, &rf);
    s.reorder(&[&cols[0], &cols[1], &ks[2], &ks[0], &ks[1], &cols[2]].map(|l| l.clone()))?;
    s.bind(&cols[0], ThreadTag::BlockX)?;
    s.bind(&cols[1], ThreadTag::ThreadX)?;
    s.bind(&ks[2], ThreadTag::ThreadY)?;
    stage(&mut s, &rf, "p0", &ks[1], Scope::Local, p.lanes)?;
    s.unroll(&ks[1])?;
    s.annotate(&ks[1], "batch_loads", AttrValue::Int(1))?;
    s.unroll(&cols[2])?;
    s.decompose_reduction(&rf, &ks[0])?;
    s.set_scope(&partial, Scope::Local)?;
    let out = output(&s, &b);
    let tail = s.cache_write(&b, &out, Scope::Local)?;
    for (block, reduces) in [(b, true), (tail, false)] {
        s.reverse_compute_at(&block, &cols[0])?;
        let mut loops = loops_below(&s, &block, &cols[0]);
        if reduces {
            let k = loops.remove(reduce_position(&s, &block, &loops));
            s.bind(&k, ThreadTag::ThreadY)?;
        }
        let Some(column) = loops.first().cloned() else { continue };
        let parts = s.split(&column, &[Some(p.threads), Some(p.lanes)])?;
        s.bind(&parts[0], ThreadTag::ThreadX)?;
        s.unroll(&parts[1])?;
    }
    Ok(s)
}

/// Elements in vectors through registers, `unroll` vectors per thread.
pub fn schedule_elementwise(f: PrimFunc, threads: i64, lanes: i64, unroll: i64) -> Done {
    let mut s = Schedule::new(f);
    let b = Name::new("b0");
    let l = s.split(&"i0".into(), &[None, Some(unroll), Some(threads), Some(lanes)])?;
    s.reorder(&[&l[0], &l[2], &l[1], &l[3]].map(|l| l.clone()))?;
    s.bind(&l[0], ThreadTag::BlockX)?;
    s.bind(&l[2], ThreadTag::ThreadX)?;
    for p in ["p0", "p1"] {
        stage(&mut s, &b, p, &l[1], Scope::Local, lanes)?;
    }
    let out = output(&s, &b);
    let store = s.cache_write(&b, &out, Scope::Local)?;
    s.reverse_compute_at(&store, &l[1])?;
    if let Some(last) = loops_below(&s, &store, &l[1]).last() {
        s.vectorize(&last.clone())?;
    }
    s.unroll(&l[1])?;
    s.annotate(&l[1], "batch_loads", AttrValue::Int(1))?;
    s.unroll(&l[3])?;
    Ok(s)
}

/// A row reduction on the CPU: rows in parallel, `unroll` vectors of accumulators.
pub fn schedule_rows_cpu(f: PrimFunc, unroll: i64, width: i64) -> Done {
    let mut s = Schedule::new(f);
    let (b, row) = (Name::new("b0"), Name::new("i0"));
    let ks = s.split(&"i1".into(), &[None, Some(unroll * width)])?;
    let rf = s.rfactor(&ks[1], 1)?;
    let partial = output(&s, &rf);
    let v = s.split(&ks[1], &[Some(unroll), Some(width)])?;
    s.parallel(&row)?;
    s.unroll(&v[0])?;
    s.vectorize(&v[1])?;
    let init = s.decompose_reduction(&rf, &ks[0])?;
    if let Some(last) = loops_below(&s, &init, &row).last().cloned() {
        let _ = s.vectorize(&last);
    }
    s.set_scope(&partial, Scope::Local)?;
    let out = output(&s, &b);
    let tail = s.cache_write(&b, &out, Scope::Local)?;
    s.reverse_compute_at(&b, &row)?;
    let k = loops_below(&s, &b, &row);
    s.decompose_reduction(&b, &k[0])?;
    s.reverse_compute_at(&tail, &row)?;
    Ok(s)
}

/// Elements on the CPU: chunks in parallel, vectors inside.
pub fn schedule_elementwise_cpu(f: PrimFunc, chunk: i64, width: i64) -> Done {
    let mut s = Schedule::new(f);
    let l = s.split(&"i0".into(), &[None, Some(chunk), Some(width)])?;
    s.parallel(&l[0])?;
    s.vectorize(&l[2])?;
    Ok(s)
}

/// The same with stores past the caches, and each chunk asking for the one that comes `ahead` chunks later.
pub fn schedule_ahead_cpu(f: PrimFunc, chunk: i64, width: i64, ahead: i64) -> Done {
    let mut s = schedule_elementwise_cpu(f, chunk, width)?;
    let [_, vectors, lane] = &s.loops(&"b0".into())[..] else { panic!("three loops") };
    s.annotate(vectors, "prefetch", AttrValue::Int(ahead))?;
    s.annotate(lane, "cache_hint", AttrValue::Str("streaming".into()))?;
    Ok(s)
}

/// A sum over all of `n` elements in two launches with a partial sum per block between them.
pub fn schedule_two_launches(n: i64, blocks: i64, threads: i64) -> (PrimFunc, Done) {
    let f = read(&format!(
        r#"
@T.prim_func
def total(a: T.Buffer(({n},), "float32"), out: T.Buffer((1,), "float32")):
    for i, j in T.grid(1, {n}):
        with T.block("sum"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                out[vi] = T.float32(0)
            out[vi] = out[vi] + a[vj]
"#
    ));
    (f.clone(), two_launches(f, blocks, threads))
}

fn two_launches(f: PrimFunc, blocks: i64, threads: i64) -> Done {
    let mut s = Schedule::new(f);
    let b = Name::new("b0");
    let parts = s.split(&"i1".into(), &[Some(blocks), None])?;
    let first = s.rfactor(&parts[0], 0)?;
    s.reorder(&[parts[0].clone(), "i0".into(), parts[1].clone()])?;
    let ks = s.split(&parts[1], &[None, Some(threads)])?;
    let rf = s.rfactor(&ks[1], 0)?;
    let partial = output(&s, &rf);
    s.reorder(&[parts[0].clone(), "i0".into(), ks[1].clone(), ks[0].clone()])?;
    s.bind(&parts[0], ThreadTag::BlockX)?;
    s.bind(&ks[1], ThreadTag::ThreadX)?;
    s.decompose_reduction(&rf, &ks[0])?;
    s.set_scope(&partial, Scope::Local)?;
    s.reverse_compute_at(&first, &parts[0])?;
    let loops = loops_below(&s, &first, &parts[0]);
    let k = &loops[reduce_position(&s, &first, &loops)];
    s.bind(&k.clone(), ThreadTag::ThreadX)?;
    let loops = s.loops(&b);
    let at = reduce_position(&s, &b, &loops);
    s.bind(&loops[at], ThreadTag::ThreadX)?;
    Ok(s)
}

/// Lowers a schedule of `f`, simulates it and compares with the interpreter in float64.
///
/// # Panics
/// When anything fails or differs, with the kernel.
pub fn compare(what: &str, f: &PrimFunc, scheduled: &PrimFunc, target: &Target, scalars: &Scalars) {
    let inputs: Vec<Tensor> = f.buffer_params().enumerate().map(|(i, b)| input(i, b, scalars)).collect();
    let mut want = inputs.clone();
    interp::run(f, &mut want, scalars, Mode::F64).unwrap_or_else(|e| panic!("{what}: {e}"));
    let p = lower(scheduled, target, &[]).unwrap_or_else(|e| panic!("{what}: {e}\n{scheduled}"));
    let mut got = inputs;
    let options = SimOptions { seed: 7, ..Default::default() };
    if let Err(e) = sim::run(&p, &mut got, scalars, &options) {
        panic!("{what}: {e}\n{scheduled}\n{p}");
    }
    let (got, want) = (got.pop().expect("an output"), want.pop().expect("an output"));
    let bound = 64.0 * (got.dtype.roundoff() + DType::F32.roundoff() * 64.0);
    for i in 0..got.len() {
        let (a, b) = (got.get_f64(i), want.get_f64(i));
        assert!((a - b).abs() <= bound * b.abs().max(4.0), "{what}: element {i} is {a}, not {b}\n{scheduled}\n{p}");
    }
}

/// Small values of mixed sign, exact in every type.
fn input(seed: usize, b: &ir::Buffer, scalars: &Scalars) -> Tensor {
    let shape: Vec<i64> = b.shape.iter().map(|e| extent(e, scalars)).collect();
    let len: i64 = shape.iter().product();
    let value =
        |i: i64| ((i * 7 + seed as i64 * 3 + i / 5) % 17 - 8) as f64 / if b.dtype.is_float() { 8.0 } else { 1.0 };
    Tensor::from_f64(b.dtype, &shape, &(0..len).map(value).collect::<Vec<_>>())
}

fn extent(e: &ir::Expr, scalars: &Scalars) -> i64 {
    let value = |n: &Name| match scalars.get(n) {
        Some(Scalar::Int(v)) => Some(ir::Expr::i64(*v)),
        _ => None,
    };
    daylight::analysis::simplify(&e.subst(&value), &Default::default()).as_int().expect("a known extent")
}

//! Intrinsics as CUDA C++: one call per statement of a helper that is one PTX instruction.
//!
//! Helpers take pointers: to the first register of an operand, which inlining turns back into
//! registers because every index is a constant by then, or to memory. What touches memory or
//! synchronises is `volatile` with a memory clobber, so that the compiler keeps its place; matrix
//! multiplications are `volatile` because all lanes have to arrive together; plain arithmetic is
//! neither. Instructions that copy in bulk write to `.shared::cta`: `.shared::cluster` costs a
//! run-time branch on sm_120.
//!
//! Stands in a circle with `cuda`, whose writer it goes on with.

use super::cuda::CudaWriter;
use super::prelude::{Prelude, short};
use super::stmt::Statements;
use super::text::ident;
use crate::ir::intrinsic::{At, Fold, Intrinsic, MmaShape, PackedOp, Rounding};
use crate::ir::{DType, Expr, Name};

impl CudaWriter<'_> {
    /// Writes one intrinsic.
    pub(super) fn intrinsic(&mut self, i: &Intrinsic) {
        let line = match i {
            Intrinsic::Packed { op, rounding, ftz, dst, a, b, c } => {
                let f = match self.dtype(dst) {
                    DType::F16 => packed_f16(self.exprs.prelude, *op),
                    _ => packed(self.exprs.prelude, *op, *rounding, *ftz),
                };
                let places: Vec<&At> = [dst, a, b].into_iter().chain(c).collect();
                self.call(&f, &places, &[])
            }
            Intrinsic::Fold3 { op, dst, a, b, c } => {
                let f = fold3(self.exprs.prelude, *op);
                let value = self.exprs.apply(&f, &[a, b, c]).text;
                format!("{} = {value};", self.exprs.element(&dst.array, &dst.index))
            }
            Intrinsic::CastPair { dst, src } => {
                let f = cast_pair(self.exprs.prelude, self.dtype(src), self.dtype(dst));
                self.call(&f, &[dst, src], &[])
            }
            Intrinsic::Halves { dst, word } => {
                let f = halves(self.exprs.prelude, self.dtype(dst));
                self.call(&f, &[dst], &[word])
            }
            Intrinsic::Pin { pair } => {
                let f = pin(self.exprs.prelude, self.dtype(pair));
                self.call(&f, &[pair], &[])
            }
            Intrinsic::CpAsync { dst, src, bytes, valid, prefetch } => {
                let f = cp_async(self.exprs.prelude, *bytes, valid.is_some(), *prefetch);
                self.call(&f, &[dst, src], &valid.iter().collect::<Vec<_>>())
            }
            Intrinsic::CpAsyncCommit => order("cp.async.commit_group;"),
            Intrinsic::CpAsyncWait { left } => order(&format!("cp.async.wait_group {left};")),
            Intrinsic::LdMatrix { dst, src, count, transpose } => {
                let f = ldmatrix(self.exprs.prelude, *count, *transpose);
                self.call(&f, &[dst, src], &[])
            }
            Intrinsic::StMatrix { dst, src, count, transpose } => {
                let f = stmatrix(self.exprs.prelude, *count, *transpose);
                self.call(&f, &[dst, src], &[])
            }
            Intrinsic::Mma { shape, d, a, b, c } => {
                let f = mma(self.exprs.prelude, *shape);
                self.call(&f, &[d, a, b, c], &[])
            }
            Intrinsic::MbarrierInit { bar, arrivals } => {
                let f = mbarrier(self.exprs.prelude, "init", ", unsigned n", "mbarrier.init.shared.b64 [%0], %1;");
                self.call(&f, &[bar], &[&Expr::i32(i64::from(*arrivals))])
            }
            Intrinsic::MbarrierFence => order("fence.mbarrier_init.release.cluster;"),
            Intrinsic::MbarrierArrive { bar } => {
                let body = "{.reg .b64 state; mbarrier.arrive.shared.b64 state, [%0];}";
                let f = mbarrier(self.exprs.prelude, "arrive", "", body);
                self.call(&f, &[bar], &[])
            }
            Intrinsic::MbarrierExpect { bar, bytes } => {
                let body = "{.reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1;}";
                let f = mbarrier(self.exprs.prelude, "expect", ", unsigned n", body);
                self.call(&f, &[bar], &[bytes])
            }
            Intrinsic::MbarrierWait { bar, parity } => {
                let f = mbarrier_wait(self.exprs.prelude);
                self.call(&f, &[bar], &[parity])
            }
            Intrinsic::BulkLoad { dst, src, bytes, bar } => {
                let f = bulk_load(self.exprs.prelude);
                self.call(&f, &[dst, src, bar], &[bytes])
            }
            Intrinsic::BulkStore { dst, src, bytes } => {
                let f = bulk_store(self.exprs.prelude);
                self.call(&f, &[dst, src], &[bytes])
            }
            Intrinsic::TensorLoad { dst, map, coords, bar } => {
                let f = tensor_load(self.exprs.prelude, coords.len());
                self.tensor(&f, map, &[dst, bar], coords)
            }
            Intrinsic::TensorStore { map, coords, src } => {
                let f = tensor_store(self.exprs.prelude, coords.len());
                self.tensor(&f, map, &[src], coords)
            }
            Intrinsic::BulkCommit => order("cp.async.bulk.commit_group;"),
            Intrinsic::BulkWait { left, read } => {
                order(&format!("cp.async.bulk.wait_group{} {left};", if *read { ".read" } else { "" }))
            }
            Intrinsic::AsyncFence => order("fence.proxy.async.shared::cta;"),
            Intrinsic::ClusterStore { dst, peer, value } => {
                let f = cluster_store(self.exprs.prelude, self.dtype(dst));
                self.call(&f, &[dst], &[peer, value])
            }
        };
        self.emit(line);
    }

    fn dtype(&self, at: &At) -> DType {
        self.kernel.element(&at.array).unwrap_or_else(|| panic!("`{at}` is in no array"))
    }

    /// `f(&map, &a[i], x, y);`
    fn tensor(&mut self, f: &str, map: &Name, places: &[&At], coords: &[Expr]) -> String {
        let call = self.call(f, places, &coords.iter().collect::<Vec<_>>());
        call.replacen('(', &format!("(&{}, ", ident(map)), 1)
    }

    /// `f(&a[i], &b[j], x);`
    fn call(&mut self, f: &str, places: &[&At], values: &[&Expr]) -> String {
        let mut args = vec![];
        for at in places {
            args.push(format!("&{}[{}]", ident(&at.array), self.exprs.text(&at.index)));
        }
        args.extend(values.iter().map(|e| self.exprs.text(e)));
        format!("{f}({});", args.join(", "))
    }
}

/// A statement that nothing moves across.
pub(super) fn order(ptx: &str) -> String {
    format!("asm volatile(\"{ptx}\" ::: \"memory\");")
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

/// The PTX name of packed arithmetic and the names of its operands.
fn packed_name(op: PackedOp) -> (&'static str, &'static [&'static str]) {
    match op {
        PackedOp::Add => ("add", &["a", "b"]),
        PackedOp::Sub => ("sub", &["a", "b"]),
        PackedOp::Mul => ("mul", &["a", "b"]),
        PackedOp::Fma => ("fma", &["a", "b", "c"]),
    }
}

/// Two float16 are one 32-bit register.
fn packed_f16(p: &mut Prelude, op: PackedOp) -> String {
    let (op, names) = packed_name(op);
    let places: Vec<String> = (0..=names.len()).map(|i| format!("%{i}")).collect();
    let inputs: Vec<String> = names.iter().map(|n| format!("\"r\"(*(const unsigned*){n})")).collect();
    let params: String = names.iter().map(|n| format!(", const unsigned short* {n}")).collect();
    let (places, inputs) = (places.join(", "), inputs.join(", "));
    let body = format!("asm(\"{op}.rn.f16x2 {places};\" : \"=r\"(*(unsigned*)d) : {inputs});");
    helper(p, &format!("dl_{op}_f16x2"), &format!("unsigned short* d{params}"), &body)
}

fn halves(p: &mut Prelude, dtype: DType) -> String {
    let params = format!("{}* d, unsigned word", super::ctype(dtype));
    helper(p, &format!("dl_{}x2_from_word", short(dtype)), &params, "*(unsigned*)d = word;")
}

/// `volatile`, as nothing is changed as far as the compiler could know.
fn pin(p: &mut Prelude, dtype: DType) -> String {
    let params = format!("{}* d", super::ctype(dtype));
    helper(p, &format!("dl_pin_{}x2", short(dtype)), &params, "asm volatile(\"\" : \"+r\"(*(unsigned*)d));")
}

fn packed(p: &mut Prelude, op: PackedOp, rounding: Rounding, ftz: bool) -> String {
    let (op, names) = packed_name(op);
    let round = match rounding {
        Rounding::Nearest => "rn",
        Rounding::Zero => "rz",
    };
    let suffix = if ftz { ".ftz" } else { "" };
    let name = format!("dl_{op}_{round}{}_f32x2", suffix.replace('.', "_"));
    let params: String = names.iter().map(|n| format!(", const float* {n}")).collect();
    let pack: String =
        names.iter().enumerate().map(|(i, n)| format!(" mov.b64 {n}, {};", group(2 + 2 * i, 2))).collect();
    let inputs: Vec<String> = names.iter().map(|n| operands("f", n, 2)).collect();
    let body = format!(
        "asm(\"{{.reg .b64 {list};{pack} {op}.{round}{suffix}.f32x2 a, {list}; mov.b64 {{%0, %1}}, a;}}\" : {} : {});",
        operands("=f", "d", 2),
        inputs.join(", "),
        list = names.join(", "),
    );
    helper(p, &name, &format!("float* d{params}"), &body)
}

fn fold3(p: &mut Prelude, op: Fold) -> String {
    let op = match op {
        Fold::Max => "max",
        Fold::Min => "min",
    };
    let body =
        format!("float y; asm(\"{op}.f32 %0, %1, %2, %3;\" : \"=f\"(y) : \"f\"(a), \"f\"(b), \"f\"(c)); return y;");
    p.function(&format!("dl_{op}3_f32"), "float", "float a, float b, float c", &body)
}

fn cast_pair(p: &mut Prelude, from: DType, to: DType) -> String {
    let name = format!("dl_{}x2_from_{}x2", short(to), short(from));
    let body = match (from, to) {
        (DType::F32, DType::F16 | DType::BF16) => format!(
            "asm(\"cvt.rn.{}x2.f32 %0, %1, %2;\" : \"=r\"(*(unsigned*)d) : \"f\"(s[1]), \"f\"(s[0]));",
            short(to)
        ),
        (DType::BF16, _) => "unsigned w = *(const unsigned*)s; \
             d[0] = __uint_as_float(w << 16); d[1] = __uint_as_float(w & 0xffff0000u);"
            .into(),
        _ => "asm(\"{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}\" \
              : \"=f\"(d[0]), \"=f\"(d[1]) : \"r\"(*(const unsigned*)s));"
            .into(),
    };
    let params = format!("{}* d, const {}* s", super::ctype(to), super::ctype(from));
    helper(p, &name, &params, &body)
}

/// 16 bytes pass L1 by, as nothing else reads them there; less can not.
fn cp_async(p: &mut Prelude, bytes: u32, guarded: bool, prefetch: Option<u32>) -> String {
    let address = shared(p);
    let cache = if bytes == 16 { "cg" } else { "ca" };
    let (level, mark) = prefetch.map_or_else(Default::default, |n| (format!(".L2::{n}B"), format!("_l2_{n}")));
    let (name, param, size, input) = if guarded {
        ("_if", ", bool valid", ", %2", format!(", \"r\"(valid ? {bytes} : 0)"))
    } else {
        ("", "", "", String::new())
    };
    let body = format!(
        "asm volatile(\"cp.async.{cache}.shared.global{level} [%0], [%1], {bytes}{size};\" \
         :: \"r\"({address}(d)), \"l\"(__cvta_generic_to_global(s)){input} : \"memory\");"
    );
    helper(p, &format!("dl_cp_async{bytes}{mark}{name}"), &format!("void* d, const void* s{param}"), &body)
}

fn matrix_name(kind: &str, count: u32, transpose: bool) -> (String, &'static str) {
    let (trans, mark) = if transpose { (".trans", "_trans") } else { ("", "") };
    (format!("dl_{kind}_x{count}{mark}"), trans)
}

fn ldmatrix(p: &mut Prelude, count: u32, transpose: bool) -> String {
    let (name, trans) = matrix_name("ldmatrix", count, transpose);
    let (address, n) = (shared(p), count as usize);
    let body = format!(
        "unsigned* w = (unsigned*)d; asm volatile(\"ldmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16 {}, [%{n}];\" \
         : {} : \"r\"({address}(s)) : \"memory\");",
        group(0, n),
        operands("=r", "w", n)
    );
    helper(p, &name, "void* d, const void* s", &body)
}

fn stmatrix(p: &mut Prelude, count: u32, transpose: bool) -> String {
    let (name, trans) = matrix_name("stmatrix", count, transpose);
    let (address, n) = (shared(p), count as usize);
    let body = format!(
        "const unsigned* w = (const unsigned*)s; \
         asm volatile(\"stmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16 [%0], {};\" \
         :: \"r\"({address}(d)), {} : \"memory\");",
        group(1, n),
        operands("r", "w", n)
    );
    helper(p, &name, "void* d, const void* s", &body)
}

fn mma(p: &mut Prelude, shape: MmaShape) -> String {
    let (input, sum, t, letter) = match shape {
        MmaShape::M16N8K16F16 => ("f16", "f32", "float", "f"),
        MmaShape::M16N8K16BF16 => ("bf16", "f32", "float", "f"),
        MmaShape::M16N8K8TF32 => ("tf32", "f32", "float", "f"),
        MmaShape::M16N8K32I8 => ("s8", "s32", "int", "r"),
    };
    let tile = shape.name();
    let body = format!(
        "const unsigned *x = (const unsigned*)a, *y = (const unsigned*)b; \
         asm volatile(\"mma.sync.aligned.{tile}.row.col.{sum}.{input}.{input}.{sum} {}, {}, {}, {};\" : {} : {}, {}, {});",
        group(0, 4),
        group(4, 4),
        group(8, 2),
        group(10, 4),
        operands(&format!("={letter}"), "d", 4),
        operands("r", "x", 4),
        operands("r", "y", 2),
        operands(letter, "c", 4)
    );
    let params = format!("{t}* d, const void* a, const void* b, const {t}* c");
    helper(p, &format!("dl_mma_{tile}_{input}"), &params, &body)
}

/// An instruction on a barrier and perhaps a number `n`.
fn mbarrier(p: &mut Prelude, name: &str, param: &str, ptx: &str) -> String {
    let address = shared(p);
    let input = if param.is_empty() { "" } else { ", \"r\"(n)" };
    let body = format!("asm volatile(\"{ptx}\" :: \"r\"({address}(b)){input} : \"memory\");");
    helper(p, &format!("dl_mbarrier_{name}"), &format!("void* b{param}"), &body)
}

/// Below sm_90 threads can only ask again and again.
fn mbarrier_wait(p: &mut Prelude) -> String {
    let address = shared(p);
    p.add("dl_mbarrier_wait", |_| {
        let ask = |wait: &str| {
            format!(
                "  do asm volatile(\"{{.reg .pred p; mbarrier.{wait}.parity.shared.b64 p, [%1], %2; \
                 selp.u32 %0, 1, 0, p;}}\" : \"=r\"(done) : \"r\"(a), \"r\"(parity) : \"memory\");\n  while (!done);\n"
            )
        };
        format!(
            "static __device__ __forceinline__ void dl_mbarrier_wait(void* b, unsigned parity) {{\n\
             \x20 unsigned a = {address}(b), done;\n\
             #if __CUDA_ARCH__ >= 900\n{}#else\n{}#endif\n}}",
            ask("try_wait"),
            ask("test_wait")
        )
    })
}

fn bulk_load(p: &mut Prelude) -> String {
    let address = shared(p);
    let body = format!(
        "asm volatile(\"cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\" \
         :: \"r\"({address}(d)), \"l\"(__cvta_generic_to_global(s)), \"r\"(n), \"r\"({address}(b)) : \"memory\");"
    );
    helper(p, "dl_bulk_load", "void* d, const void* s, void* b, unsigned n", &body)
}

fn bulk_store(p: &mut Prelude) -> String {
    let address = shared(p);
    let body = format!(
        "asm volatile(\"cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\" \
         :: \"l\"(__cvta_generic_to_global(d)), \"r\"({address}(s)), \"r\"(n) : \"memory\");"
    );
    helper(p, "dl_bulk_store", "void* d, const void* s, unsigned n", &body)
}

fn cluster_store(p: &mut Prelude, dtype: DType) -> String {
    let address = shared(p);
    let (ptx, constraint) = match dtype {
        DType::F32 => ("f32", "f"),
        DType::F64 => ("f64", "d"),
        _ if dtype.bytes() == 8 => ("b64", "l"),
        _ => ("b32", "r"),
    };
    let body = format!(
        "asm volatile(\"{{.reg .b32 a; mapa.shared::cluster.u32 a, %0, %1; st.shared::cluster.{ptx} [a], %2;}}\" \
         :: \"r\"({address}(d)), \"r\"(block), \"{constraint}\"(v) : \"memory\");"
    );
    let params = format!("void* d, unsigned block, {} v", super::ctype(dtype));
    helper(p, &format!("dl_cluster_store_{}", short(dtype)), &params, &body)
}

/// `, int c0, int c1`, their operands from `%first` on in braces, and as inputs.
fn coordinates(rank: usize, first: usize) -> (String, String, String) {
    let params: String = (0..rank).map(|i| format!(", int c{i}")).collect();
    let inputs: String = (0..rank).map(|i| format!(", \"r\"(c{i})")).collect();
    (params, group(first, rank), inputs)
}

fn tensor_load(p: &mut Prelude, rank: usize) -> String {
    let address = shared(p);
    let (params, at, inputs) = coordinates(rank, 3);
    let body = format!(
        "asm volatile(\"cp.async.bulk.tensor.{rank}d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {at}], [%2];\" \
         :: \"r\"({address}(d)), \"l\"(m), \"r\"({address}(b)){inputs} : \"memory\");"
    );
    helper(p, &format!("dl_tensor_load_{rank}d"), &format!("const void* m, void* d, void* b{params}"), &body)
}

fn tensor_store(p: &mut Prelude, rank: usize) -> String {
    let address = shared(p);
    let (params, at, inputs) = coordinates(rank, 2);
    let body = format!(
        "asm volatile(\"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%1, {at}], [%0];\" \
         :: \"r\"({address}(s)), \"l\"(m){inputs} : \"memory\");"
    );
    helper(p, &format!("dl_tensor_store_{rank}d"), &format!("const void* m, const void* s{params}"), &body)
}

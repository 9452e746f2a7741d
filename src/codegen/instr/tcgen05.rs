//! Tensor memory: an array in it is the address of its first column, which a thread keeps in a register; lanes are
//! counted in its upper half.

use super::{group, helper, order, ordered, shared, wgmma};
use crate::codegen::cuda::CudaWriter;
use crate::codegen::prelude::Prelude;
use crate::codegen::stmt::Statements;
use crate::codegen::text::ident;
use crate::ir::instr::{At, CtaGroup, Instr, TENSOR_LANES, Tcgen05, Tcgen05Scaled, Tcgen05Shape};
use crate::ir::{Contiguous, DType, MapSwizzle, MatrixDesc};

impl CudaWriter<'_> {
    pub(super) fn tensor_memory(&mut self, i: &Instr, op: &Tcgen05) {
        let line = match op {
            Tcgen05::Alloc { columns, group } => {
                let f = alloc(self.exprs.prelude, *group);
                let word = self.place(&i.places[0]);
                format!("{f}({word}, {columns});")
            }
            Tcgen05::Relinquish { group } => {
                order(&format!("tcgen05.relinquish_alloc_permit.{}.sync.aligned;", cta_group(*group)))
            }
            Tcgen05::Find { column } => {
                let ([d, word], []) = i.operands();
                let word = self.exprs.element(&word.array, &word.index);
                let further = if *column > 0 { format!(" + {column}u") } else { String::new() };
                format!("{} = {word}{further};", ident(&d.array))
            }
            Tcgen05::Dealloc { columns, group } => {
                let (d, group) = (ident(&i.places[0].array), cta_group(*group));
                ordered(&format!("tcgen05.dealloc.{group}.sync.aligned.b32 %0, {columns};"), "", &format!("\"r\"({d})"))
            }
            Tcgen05::Mma { shape, a, b } => {
                let f = mma(self.exprs.prelude, *shape, *a, *b);
                let ([d, a, b], [add]) = i.operands();
                let d = self.address(d);
                let [a, b] = [a, b].map(|at| self.units(at));
                let add = self.exprs.text(add);
                format!("{f}({d}, {a}, {b}, {add});")
            }
            Tcgen05::ScaledMma { shape, a, b, first } => {
                let f = scaled_mma(self.exprs.prelude, *shape, [*a, *b], *first);
                let ([d, a, b, sfa, sfb], [add]) = i.operands();
                let [d, sfa, sfb] = [d, sfa, sfb].map(|at| self.address(at));
                let [a, b] = [a, b].map(|at| self.units(at));
                let add = self.exprs.text(add);
                format!("{f}({d}, {a}, {b}, {sfa}, {sfb}, {add});")
            }
            Tcgen05::CopyScales { group } => {
                let f = copy_scales(self.exprs.prelude, *group);
                let ([dst, src], []) = i.operands();
                let (dst, src) = (self.address(dst), self.units(src));
                format!("{f}({dst}, {src});")
            }
            Tcgen05::Commit { group, mask } => {
                let f = commit(self.exprs.prelude, *group, *mask);
                format!("{f}({});", self.place(&i.places[0]))
            }
            Tcgen05::Load { count } => {
                let ([d, s], []) = i.operands();
                let whole = self.kernel.element(&d.array) == Some(DType::I32);
                let f = load(self.exprs.prelude, *count, whole);
                let (d, s) = (self.place(d), self.address(s));
                format!("{f}({d}, {s});")
            }
            Tcgen05::Store { count } => {
                let ([d, s], []) = i.operands();
                let whole = self.kernel.element(&s.array) == Some(DType::I32);
                let f = store(self.exprs.prelude, *count, whole);
                let (d, s) = (self.address(d), self.place(s));
                format!("{f}({d}, {s});")
            }
            Tcgen05::WaitStores => order("tcgen05.wait::st.sync.aligned;"),
            Tcgen05::WaitLoads => order("tcgen05.wait::ld.sync.aligned;"),
            Tcgen05::FenceBefore => order("tcgen05.fence::before_thread_sync;"),
            Tcgen05::FenceAfter => order("tcgen05.fence::after_thread_sync;"),
        };
        self.emit(line);
    }

    /// `&a[i]`
    fn place(&mut self, at: &At) -> String {
        format!("&{}[{}]", ident(&at.array), self.exprs.text(&at.index))
    }

    /// The address of an element in tensor memory.
    fn address(&mut self, at: &At) -> String {
        let f = element(self.exprs.prelude);
        format!("{f}({}, {})", ident(&at.array), self.exprs.text(&at.index))
    }
}

/// The function from the address of an array, and the number of an element, to the element's address.
fn element(p: &mut Prelude) -> String {
    let body = format!("return d + (i % {TENSOR_LANES}u << 16) + i / {TENSOR_LANES}u;");
    p.function("dl_tensor_element", "unsigned", "unsigned d, unsigned i", &body)
}

fn cta_group(group: CtaGroup) -> String {
    format!("cta_group::{}", group.blocks())
}

/// What is added to the name of a helper of a pair.
fn of_pair(group: CtaGroup) -> String {
    group.suffix().replace('.', "_")
}

fn alloc(p: &mut Prelude, group: CtaGroup) -> String {
    let address = shared(p);
    let ptx = format!("tcgen05.alloc.{}.sync.aligned.shared::cta.b32 [%0], %1;", cta_group(group));
    let body = ordered(&ptx, "", &format!("\"r\"({address}(word)), \"r\"(columns)"));
    helper(p, &format!("dl_tcgen05_alloc{}", of_pair(group)), "void* word, unsigned columns", &body)
}

/// The function of a product: address of the sums, addresses of both operands in units of 16 bytes, whether to add.
fn mma(p: &mut Prelude, shape: Tcgen05Shape, a: MatrixDesc, b: MatrixDesc) -> String {
    let free = |d: MatrixDesc| d.contiguous == Contiguous::Free;
    let (kind, bits) = (shape.kind(), shape.bits([free(a), free(b)]));
    let desc = |d: MatrixDesc, at: &str| format!("\"l\"({:#x}ull | {at})", d.bits_of_tensor_memory());
    let mma = format!("tcgen05.mma.{}.kind::{kind}", cta_group(shape.group));
    let ptx = format!("{{.reg .pred p; setp.ne.b32 p, %4, 0; {mma} [%0], %1, %2, %3, p;}}");
    let inputs = format!("\"r\"(d), {}, {}, \"r\"({bits:#010x}u), \"r\"((int)add)", desc(a, "a"), desc(b, "b"));
    let name = format!("dl_tcgen05_{}_{}_{}", shape.name().replace('.', "_"), wgmma::key(a), wgmma::key(b));
    helper(p, &name, "unsigned d, unsigned a, unsigned b, bool add", &ordered(&ptx, "", &inputs))
}

/// The same with the addresses of the scales of both operands.
fn scaled_mma(p: &mut Prelude, shape: Tcgen05Scaled, [a, b]: [MatrixDesc; 2], first: [u32; 2]) -> String {
    let desc = |d: MatrixDesc, at: &str| format!("\"l\"({:#x}ull | {at})", d.bits_of_tensor_memory());
    let mma = format!("tcgen05.mma.{}.kind::{}", cta_group(shape.group), shape.of.kind());
    let ptx = format!("{{.reg .pred p; setp.ne.b32 p, %6, 0; {mma} [%0], %1, %2, %3, [%4], [%5], p;}}");
    let inputs = format!(
        "\"r\"(d), {}, {}, \"r\"({:#010x}u), \"r\"(sfa), \"r\"(sfb), \"r\"((int)add)",
        desc(a, "a"),
        desc(b, "b"),
        shape.bits(first)
    );
    let scale = if shape.of.scale() == DType::E4M3 { "ue4m3" } else { "ue8m0" };
    let name = shape.name().replace('.', "_");
    let name = format!("dl_tcgen05_{name}_{scale}_{}_{}_{}_{}", first[0], first[1], wgmma::key(a), wgmma::key(b));
    let params = "unsigned d, unsigned a, unsigned b, unsigned sfa, unsigned sfb, bool add";
    helper(p, &name, params, &ordered(&ptx, "", &inputs))
}

/// The function that copies scales from an address in units of 16 bytes: eight lines of 16 bytes lie side by side.
fn copy_scales(p: &mut Prelude, group: CtaGroup) -> String {
    let desc = MatrixDesc { contiguous: Contiguous::Depth, swizzle: MapSwizzle::None, leading: 0, stride: 128 };
    let ptx = format!("tcgen05.cp.{}.32x128b.warpx4 [%0], %1;", cta_group(group));
    let inputs = format!("\"r\"(d), \"l\"({:#x}ull | s)", desc.bits_of_tensor_memory());
    let name = format!("dl_tcgen05_copy_scales{}", of_pair(group));
    helper(p, &name, "unsigned d, unsigned s", &ordered(&ptx, "", &inputs))
}

/// Arrives at a barrier of the block, or of the blocks of a mask.
fn commit(p: &mut Prelude, group: CtaGroup, mask: u16) -> String {
    let address = shared(p);
    let commit = format!("tcgen05.commit.{}.mbarrier::arrive::one.shared::cluster", cta_group(group));
    let (ptx, input, to) = match mask {
        0 => (format!("{commit}.b64 [%0];"), String::new(), String::new()),
        mask => (
            format!("{commit}.multicast::cluster.b64 [%0], %1;"),
            format!(", \"h\"((unsigned short){mask})"),
            format!("_to_{mask:x}"),
        ),
    };
    let body = ordered(&ptx, "", &format!("\"r\"({address}(b)){input}"));
    helper(p, &format!("dl_tcgen05_commit{}{to}", of_pair(group)), "void* b", &body)
}

/// The C type of registers, and the letter of their constraint.
fn register(whole: bool) -> (&'static str, &'static str) {
    if whole { ("int", "r") } else { ("float", "f") }
}

fn load(p: &mut Prelude, count: i64, whole: bool) -> String {
    let (n, (t, letter)) = (4 * count as usize, register(whole));
    let ptx = format!("tcgen05.ld.sync.aligned.16x256b.x{count}.b32 {}, [%{n}];", group(0, n));
    let body = ordered(&ptx, &super::operands(&format!("={letter}"), "d", n), "\"r\"(s)");
    helper(p, &format!("dl_tcgen05_load_x{count}_{t}"), &format!("{t}* d, unsigned s"), &body)
}

fn store(p: &mut Prelude, count: i64, whole: bool) -> String {
    let (n, (t, letter)) = (4 * count as usize, register(whole));
    let ptx = format!("tcgen05.st.sync.aligned.16x256b.x{count}.b32 [%0], {};", group(1, n));
    let body = ordered(&ptx, "", &format!("\"r\"(d), {}", super::operands(letter, "s", n)));
    helper(p, &format!("dl_tcgen05_store_x{count}_{t}"), &format!("unsigned d, const {t}* s"), &body)
}

//! Tensor memory: an array in it is the address of its first column, which a thread keeps in a register; lanes are
//! counted in its upper half.

use super::{group, helper, order, ordered, shared, wgmma};
use crate::codegen::cuda::CudaWriter;
use crate::codegen::prelude::Prelude;
use crate::codegen::stmt::Statements;
use crate::codegen::text::ident;
use crate::ir::instr::{At, Instr, TENSOR_LANES, Tcgen05, Tcgen05Shape};
use crate::ir::{Contiguous, DType, MatrixDesc};

impl CudaWriter<'_> {
    pub(super) fn tensor_memory(&mut self, i: &Instr, op: &Tcgen05) {
        let line = match op {
            Tcgen05::Alloc { columns } => {
                let f = alloc(self.exprs.prelude);
                let word = self.place(&i.places[0]);
                format!("{f}({word}, {columns});")
            }
            Tcgen05::Relinquish => order("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"),
            Tcgen05::Find => {
                let ([d, word], []) = i.operands();
                let word = self.exprs.element(&word.array, &word.index);
                format!("{} = {word};", ident(&d.array))
            }
            Tcgen05::Dealloc { columns } => {
                let d = ident(&i.places[0].array);
                format!(
                    "asm volatile(\"tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, {columns};\" :: \"r\"({d}) : \"memory\");"
                )
            }
            Tcgen05::Mma { shape, a, b } => {
                let f = mma(self.exprs.prelude, *shape, *a, *b);
                let ([d, a, b], [add]) = i.operands();
                let d = self.address(d);
                let [a, b] = [a, b].map(|at| self.units(at));
                let add = self.exprs.text(add);
                format!("{f}({d}, {a}, {b}, {add});")
            }
            Tcgen05::Commit => {
                let f = commit(self.exprs.prelude);
                format!("{f}({});", self.place(&i.places[0]))
            }
            Tcgen05::Load { count } => {
                let ([d, s], []) = i.operands();
                let whole = self.kernel.element(&d.array) == Some(DType::I32);
                let f = load(self.exprs.prelude, *count, whole);
                let (d, s) = (self.place(d), self.address(s));
                format!("{f}({d}, {s});")
            }
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

fn alloc(p: &mut Prelude) -> String {
    let address = shared(p);
    let ptx = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;";
    let body = ordered(ptx, "", &format!("\"r\"({address}(word)), \"r\"(columns)"));
    helper(p, "dl_tcgen05_alloc", "void* word, unsigned columns", &body)
}

/// The function of a product: address of the sums, addresses of both operands in units of 16 bytes, whether to add.
fn mma(p: &mut Prelude, shape: Tcgen05Shape, a: MatrixDesc, b: MatrixDesc) -> String {
    let free = |d: MatrixDesc| d.contiguous == Contiguous::Free;
    let (kind, bits) = (shape.kind(), shape.bits([free(a), free(b)]));
    let desc = |d: MatrixDesc, at: &str| format!("\"l\"({:#x}ull | {at})", d.bits_of_tensor_memory());
    let ptx =
        format!("{{.reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::{kind} [%0], %1, %2, %3, p;}}");
    let inputs = format!("\"r\"(d), {}, {}, \"r\"({bits:#010x}u), \"r\"((int)add)", desc(a, "a"), desc(b, "b"));
    let name = format!("dl_tcgen05_{}_{}_{}", shape.name().replace('.', "_"), wgmma::key(a), wgmma::key(b));
    helper(p, &name, "unsigned d, unsigned a, unsigned b, bool add", &ordered(&ptx, "", &inputs))
}

fn commit(p: &mut Prelude) -> String {
    let address = shared(p);
    let ptx = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];";
    let body = ordered(ptx, "", &format!("\"r\"({address}(b))"));
    helper(p, "dl_tcgen05_commit", "void* b", &body)
}

fn load(p: &mut Prelude, count: i64, whole: bool) -> String {
    let (n, (t, letter)) = (4 * count as usize, if whole { ("int", "r") } else { ("float", "f") });
    let ptx = format!("tcgen05.ld.sync.aligned.16x256b.x{count}.b32 {}, [%{n}];", group(0, n));
    let body = ordered(&ptx, &super::operands(&format!("={letter}"), "d", n), "\"r\"(s)");
    helper(p, &format!("dl_tcgen05_load_x{count}_{t}"), &format!("{t}* d, unsigned s"), &body)
}

//! Products in tensor memory: what the default of a large one is made of, where a target has it.

use super::sass::Kernel;
use crate::common::nvidia::{compiler, machine_code};
use daylight::assemble::Assembly;
use daylight::job::{self, select};
use daylight::rules::Spaces;
use daylight::target::{HostCpu, Target};

/// `O [i, j] += A [i, k] B [j, k]` of 4096 cubed in bfloat16, rounded to it at the end.
const PRODUCT: &str = "@T.prim_func(s_tir=True)
def product(A: T.Buffer((4096, 4096), \"bfloat16\"), B: T.Buffer((4096, 4096), \"bfloat16\"), O: T.Buffer((4096, 4096), \"bfloat16\")):
    C = T.sblock_alloc_buffer((4096, 4096))
    for i, j, k in T.grid(4096, 4096, 4096):
        with T.sblock(\"C\"):
            vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0.0)
            C[vi, vj] = C[vi, vj] + T.Cast(\"float32\", A[vi, vk]) * T.Cast(\"float32\", B[vj, vk])
    for i, j in T.grid(4096, 4096):
        with T.sblock(\"O\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            O[vi, vj] = T.Cast(\"bfloat16\", C[vi, vj])
";

/// The kernels that the untuned choice gives the product, and its rule.
fn assembly(id: &str) -> (Assembly, String) {
    let target = Target::parse(id, &HostCpu::default()).expect("a name of the table");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("product.py");
    std::fs::write(&file, PRODUCT).expect("write the function");
    let mut inputs = job::load(&Default::default(), &[file]).expect("the file reads");
    let input = inputs.remove(0).unwrap_or_else(|e| panic!("{e:?}"));
    let subject = input.subject(&target).expect("it is accepted");
    let choice = select::Choice::default();
    let (scheduled, _) = select::scheduled(&subject, &Spaces::built_in(), &input.name, &choice).expect("a default");
    let made = scheduled.assemble().unwrap_or_else(|e| panic!("{id}: {e}"));
    let text = made.source.text.clone();
    (made, text)
}

#[test]
fn a_large_product_is_made_in_tensor_memory() {
    for id in ["cuda:sm_100a", "cuda:sm_103a"] {
        let (made, text) = assembly(id);
        assert!(text.contains("tcgen05.mma") && text.contains("gemm by tcgen05"), "{id}:\n{text}");
        let Some(nvrtc) = compiler() else { return };
        let cubin = nvrtc.cubin(&text, id).unwrap_or_else(|e| panic!("{id}: {e}"));
        assert_eq!((cubin.res.spill, cubin.warnings), (0, vec![]), "{id}");
        let Some(code) = machine_code(&text, id) else { return };
        let k = Kernel::of(&code.expect("a right text"), &made.source.symbols[0]);
        for name in ["UTMALDG", "UTCHMMA", "UTCBAR", "LDTM", "SYNCS"] {
            assert!(k.count(name) > 0, "{id}: no {name}");
        }
        assert_eq!((k.count("HMMA"), k.count("LDL"), k.count("STL")), (0, 0, 0), "{id}");
    }
}

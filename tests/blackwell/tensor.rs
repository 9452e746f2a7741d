//! Products in tensor memory: what the default of a large one is made of, where a target has it.

use super::sass::Kernel;
use crate::common::nvidia::{compiler, machine_code};
use daylight::assemble::Assembly;
use daylight::job::{self, select};
use daylight::rules::Spaces;
use daylight::target::{HostCpu, Target};

/// `O [i, j] += A [i, k] B [j, k]` of 4096 cubed, rounded to bfloat16 at the end; both factors of type `INPUT`.
const PRODUCT: &str = "@T.prim_func(s_tir=True)
def product(A: T.Buffer((4096, 4096), \"INPUT\"), B: T.Buffer((4096, 4096), \"INPUT\"), O: T.Buffer((4096, 4096), \"bfloat16\")):
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

/// The kernels that the untuned choice gives the product of a type, with other values of knobs, and its rule.
fn assembly(id: &str, input: &str, set: &[&str]) -> (Assembly, String) {
    assembled(id, &PRODUCT.replace("INPUT", input), (RULE, set))
}

/// The same of any function, by a rule where knobs are given.
fn assembled(id: &str, function: &str, by: (&str, &[&str])) -> (Assembly, String) {
    let (made, _) = chosen(id, function, by);
    let text = made.source.text.clone();
    (made, text)
}

/// The same with the columns of a block.
fn chosen(id: &str, function: &str, (rule, set): (&str, &[&str])) -> (Assembly, i64) {
    let target = Target::parse(id, &HostCpu::default()).expect("a name of the table");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("product.py");
    std::fs::write(&file, function).expect("write the function");
    let mut inputs = job::load(&Default::default(), &[file]).expect("the file reads");
    let input = inputs.remove(0).unwrap_or_else(|e| panic!("{e:?}"));
    let subject = input.subject(&target).expect("it is accepted");
    let rule = (!set.is_empty()).then(|| rule.to_string());
    let choice = select::Choice { rule, set: set.iter().map(|s| s.to_string()).collect() };
    let (scheduled, chosen) =
        select::scheduled(&subject, &Spaces::built_in(), &input.name, &choice).expect("a default");
    let columns = chosen.expect("knobs").1["block_n"].to_string().parse().expect("a number");
    (scheduled.assemble().unwrap_or_else(|e| panic!("{id}: {e}")), columns)
}

const RULE: &str = "matmul.tcgen05";
const SCALED: &str = "matmul.tcgen05_block_scale";

/// Types of factors, with the instruction that multiplies them.
const BFLOAT16: (&str, &str) = ("bfloat16", "UTCHMMA");
const FLOAT8: (&str, &str) = ("float8_e4m3fn", "UTCQMMA");

/// The machine code of the product's kernel: without spills, with what tensor memory takes, without what it does not.
fn machine_code_of_product(id: &str, (input, name): (&str, &str), set: &[&str]) -> Option<Kernel> {
    let (made, text) = assembly(id, input, set);
    assert!(text.contains("tcgen05.mma") && text.contains("gemm by tcgen05"), "{id}:\n{text}");
    let cubin = compiler()?.cubin(&text, id).unwrap_or_else(|e| panic!("{id}: {e}"));
    assert_eq!((cubin.res.spill, cubin.warnings), (0, vec![]), "{id} {set:?}");
    let code = machine_code(&text, id)?;
    let k = Kernel::of(&code.expect("a right text"), &made.source.symbols[0]);
    for name in ["UTMALDG", name, "UTCBAR", "LDTM", "SYNCS"] {
        assert!(k.count(name) > 0, "{id} {set:?}: no {name}");
    }
    assert_eq!((k.count("HMMA"), k.count("LDL"), k.count("STL")), (0, 0, 0), "{id} {set:?}");
    Some(k)
}

/// Products of 4096 cubed in tensor memory: title, the instruction with bytes of a number and rate by bfloat16's, the kernel,
/// columns of an instruction, target.
pub type InTensorMemory = (String, (&'static str, f64, f64), Kernel, i64, &'static str);

/// The untuned choices for products of 4096 cubed; `None` without the tools.
pub fn kernels() -> Option<Vec<InTensorMemory>> {
    let mut out = vec![];
    let operation = daylight::operation::by_name("matmul_block_scaled").expect("it is one");
    let scaled =
        |format| operation.function("product", &[("m", "4096"), ("n", "4096"), ("k", "4096"), ("format", format)]);
    let functions = [
        ("bfloat16", PRODUCT.replace("INPUT", "bfloat16"), ("UTCHMMA", 2.0, 1.0)),
        ("float8", PRODUCT.replace("INPUT", "float8_e4m3fn"), ("UTCQMMA", 1.0, 2.0)),
        ("mxfp8", scaled("mxfp8").expect("a function").to_string(), ("UTCQMMA", 1.0, 2.0)),
        ("nvfp4", scaled("nvfp4").expect("a function").to_string(), ("UTCOMMA", 0.5, 4.0)),
    ];
    for (name, function, of) in &functions {
        for id in ["sm_100a", "sm_103a"] {
            let target = format!("cuda:{id}");
            let (made, columns) = chosen(&target, function, (RULE, &[]));
            let code = machine_code(&made.source.text, &target)?.expect("a right text");
            out.push((
                format!("{name} product, 4096 cubed"),
                *of,
                Kernel::of(&code, &made.source.symbols[0]),
                columns,
                id,
            ));
        }
    }
    Some(out)
}

#[test]
fn a_large_product_is_made_in_tensor_memory() {
    for id in ["cuda:sm_100a", "cuda:sm_103a"] {
        for input in [BFLOAT16, FLOAT8] {
            machine_code_of_product(id, input, &[]);
        }
    }
}

/// By a block alone, and by pairs that take all stages there is room for.
#[test]
fn a_product_is_of_a_block_or_of_a_pair() {
    let pair = ["cta_group=2", "block_n=256", "stages=7", "roles=persistent", "raster=8"];
    let pair_of_copies = ["cta_group=2", "block_n=128", "groups_n=2", "roles=copy", "raster=8"];
    for id in ["cuda:sm_100a", "cuda:sm_103a"] {
        let sets = [(&["cta_group=1", "raster=8"][..], false), (&pair, true), (&pair_of_copies, true)];
        for (input, (set, of_pairs)) in [BFLOAT16, FLOAT8].into_iter().flat_map(|input| sets.map(|set| (input, set))) {
            let Some(k) = machine_code_of_product(id, input, set) else { return };
            for name in [input.1, "UTCBAR", "UTMALDG", "UTCATOMSWS"] {
                assert_eq!(k.count(&format!("{name}.2CTA")) > 0, of_pairs, "{id} {set:?}: {name}");
            }
            // products, and commits, are all of the same
            assert!(!of_pairs || k.count(input.1) == k.count(&format!("{}.2CTA", input.1)), "{id} {set:?}");
        }
    }
}

/// A block, or a pair, asks once for each tile, in a place of its own; nothing else is other than where blocks stride.
#[test]
fn blocks_are_given_tiles_by_the_hardware() {
    let alone = ["roles=fetched", "cta_group=1", "raster=8"];
    let pair = ["roles=fetched", "cta_group=2", "block_n=256", "stages=7", "raster=8"];
    for id in ["cuda:sm_100a", "cuda:sm_103a"] {
        for (set, name) in [(&alone[..], "UGETNEXTWORKID.SELFCAST"), (&pair, "UGETNEXTWORKID.BROADCAST")] {
            let Some(k) = machine_code_of_product(id, BFLOAT16, set) else { return };
            assert_eq!((k.count("UGETNEXTWORKID"), k.count(name)), (1, 1), "{id} {set:?}");
        }
    }
}

/// Formats of numbers with scales of blocks, with the instruction that multiplies them.
const SCALED_FORMATS: [(&str, &str); 3] = [("mxfp8", "UTCQMMA"), ("mxfp4", "UTCOMMA"), ("nvfp4", "UTCOMMA")];

/// The machine code of a product of 4096 cubed of a format: scales in tensor memory, nothing decoded, no spills.
fn machine_code_of_scaled(id: &str, (format, name): (&str, &str), set: &[&str]) -> Option<Kernel> {
    let operation = daylight::operation::by_name("matmul_block_scaled").expect("it is one");
    let sizes = [("m", "4096"), ("n", "4096"), ("k", "4096"), ("format", format)];
    let function = operation.function("product", &sizes).expect("a function").to_string();
    let (made, text) = assembled(id, &function, (SCALED, set));
    assert!(text.contains("gemm by tcgen05_block_scale"), "{format} {id}:\n{text}");
    let cubin = compiler()?.cubin(&text, id).unwrap_or_else(|e| panic!("{format} {id}: {e}"));
    assert_eq!((cubin.res.spill, cubin.warnings), (0, vec![]), "{format} {id} {set:?}");
    let k = Kernel::of(&machine_code(&text, id)?.expect("a right text"), &made.source.symbols[0]);
    for name in ["UTMALDG", name, "UTCCP", "LDGSTS", "UTCBAR", "LDTM"] {
        assert!(k.count(name) > 0, "{format} {id} {set:?}: no {name}");
    }
    assert_eq!((k.count("HMMA"), k.count("LDL"), k.count("STL")), (0, 0, 0), "{format} {id} {set:?}");
    Some(k)
}

#[test]
fn a_large_product_with_scales_is_made_in_tensor_memory() {
    for of in SCALED_FORMATS {
        for id in ["cuda:sm_100a", "cuda:sm_103a"] {
            machine_code_of_scaled(id, of, &[]);
        }
    }
}

/// All that a pair does for both blocks is of the pair, and all of a block by itself is not.
#[test]
fn a_product_with_scales_is_of_a_block_or_of_a_pair() {
    let pair = ["cta_group=2", "block_n=256", "stages=4", "roles=persistent", "raster=8"];
    let fetched = ["cta_group=2", "block_n=128", "stages=4", "roles=fetched", "raster=8"];
    for of in SCALED_FORMATS {
        for id in ["cuda:sm_100a", "cuda:sm_103a"] {
            let sets = [(&["cta_group=1", "raster=8"][..], false), (&pair, true), (&fetched, true)];
            for (set, of_pairs) in sets {
                let Some(k) = machine_code_of_scaled(id, of, set) else { return };
                for name in [of.1, "UTCBAR", "UTMALDG", "UTCATOMSWS"] {
                    assert_eq!(k.count(&format!("{name}.2CTA")) > 0, of_pairs, "{id} {set:?}: {name}");
                }
                let copies = if of_pairs { k.count("UTCCP") } else { 0 };
                assert_eq!(k.count("UTCCP.2CTA"), copies, "{id} {set:?}");
                assert!(!of_pairs || k.count(of.1) == k.count(&format!("{}.2CTA", of.1)), "{id} {set:?}");
            }
        }
    }
}

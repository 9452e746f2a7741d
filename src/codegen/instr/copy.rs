//! Copies that go on by themselves, stores to other blocks and loads from them.

use super::{group, helper, ordered, shared};
use crate::codegen::ctype;
use crate::codegen::prelude::{Prelude, short};
use crate::ir::DType;
use crate::ir::instr::Landing;

/// 16 bytes pass L1 by, as nothing else reads them there; less can not.
pub(super) fn cp_async(p: &mut Prelude, bytes: u32, guarded: bool, prefetch: Option<u32>) -> String {
    let address = shared(p);
    let cache = if bytes == 16 { "cg" } else { "ca" };
    let (level, mark) = prefetch.map_or_else(Default::default, |n| (format!(".L2::{n}B"), format!("_l2_{n}")));
    let (name, param, size, input) = if guarded {
        ("_if", ", bool valid", ", %2", format!(", \"r\"(valid ? {bytes} : 0)"))
    } else {
        ("", "", "", String::new())
    };
    let ptx = format!("cp.async.{cache}.shared.global{level} [%0], [%1], {bytes}{size};");
    let body = ordered(&ptx, "", &format!("\"r\"({address}(d)), \"l\"(__cvta_generic_to_global(s)){input}"));
    helper(p, &format!("dl_cp_async{bytes}{mark}{name}"), &format!("void* d, const void* s{param}"), &body)
}

pub(super) fn bulk_load(p: &mut Prelude) -> String {
    let address = shared(p);
    let ptx = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];";
    let sides = format!("\"r\"({address}(d)), \"l\"(__cvta_generic_to_global(s))");
    let body = ordered(ptx, "", &format!("{sides}, \"r\"(n), \"r\"({address}(b))"));
    helper(p, "dl_bulk_load", "void* d, const void* s, void* b, unsigned n", &body)
}

pub(super) fn bulk_store(p: &mut Prelude) -> String {
    let inputs = format!("\"l\"(__cvta_generic_to_global(d)), \"r\"({}(s)), \"r\"(n)", shared(p));
    let body = ordered("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;", "", &inputs);
    helper(p, "dl_bulk_store", "void* d, const void* s, unsigned n", &body)
}

/// `, int c0, int c1`, their operands from `%first` on in braces, and as inputs.
fn coordinates(rank: usize, first: usize) -> (String, String, String) {
    let params: String = (0..rank).map(|i| format!(", int c{i}")).collect();
    let inputs: String = (0..rank).map(|i| format!(", \"r\"(c{i})")).collect();
    (params, group(first, rank), inputs)
}

/// Into the shared memory of the block, or of all blocks of its cluster.
pub(super) fn tensor_load(p: &mut Prelude, rank: usize, to: Landing) -> String {
    let address = shared(p);
    let (params, at, inputs) = coordinates(rank, 3);
    let inputs = format!("\"r\"({address}(d)), \"l\"(m), \"r\"({address}(b)){inputs}");
    let (copy, counted) = (format!("cp.async.bulk.tensor.{rank}d"), "global.tile.mbarrier::complete_tx::bytes");
    let (ptx, inputs, name) = match to {
        Landing::Own => (format!("{copy}.shared::cta.{counted} [%0], [%1, {at}], [%2];"), inputs, String::new()),
        Landing::Cluster(n) => {
            let all = format!("{inputs}, \"h\"((unsigned short){})", (1u32 << n) - 1);
            let kind = format!("shared::cluster.{counted}.multicast::cluster");
            (format!("{copy}.{kind} [%0], [%1, {at}], [%2], %{};", 3 + rank), all, format!("_to_{n}"))
        }
        Landing::Pair => {
            // the first block of a pair has the barrier where this one has it
            let rank_of_first = ".reg .b32 r, a; mov.u32 r, %%cluster_ctarank; and.b32 r, r, 30;";
            let first = format!("{{{rank_of_first} mapa.shared::cluster.u32 a, %2, r;");
            let kind = format!("shared::cluster.{counted}.cta_group::2");
            (format!("{first} {copy}.{kind} [%0], [%1, {at}], [a];}}"), inputs, "_pair".to_string())
        }
    };
    let body = ordered(&ptx, "", &inputs);
    helper(p, &format!("dl_tensor_load_{rank}d{name}"), &format!("const void* m, void* d, void* b{params}"), &body)
}

pub(super) fn tensor_store(p: &mut Prelude, rank: usize) -> String {
    let address = shared(p);
    let (params, at, inputs) = coordinates(rank, 2);
    let ptx = format!("cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%1, {at}], [%0];");
    let body = ordered(&ptx, "", &format!("\"r\"({address}(s)), \"l\"(m){inputs}"));
    helper(p, &format!("dl_tensor_store_{rank}d"), &format!("const void* m, const void* s{params}"), &body)
}

/// So many elements from the shared memory of another block, as words, or half of one.
pub(super) fn cluster_load(p: &mut Prelude, dtype: DType, lanes: u32) -> String {
    let address = shared(p);
    let bytes = u64::from(lanes) * dtype.bytes();
    let (ctype, constraint, bits) = if bytes < 4 { ("unsigned short", "h", 16) } else { ("unsigned", "r", 32) };
    let n = (bytes / 4).max(1) as usize;
    let (of, list) = if n == 1 { (String::new(), "%0".to_string()) } else { (format!(".v{n}"), group(0, n)) };
    let ptx = format!(
        "{{.reg .b32 a; mapa.shared::cluster.u32 a, %{n}, %{}; ld.shared::cluster{of}.b{bits} {list}, [a];}}",
        n + 1
    );
    let out: Vec<String> = (0..n).map(|i| format!("\"={constraint}\"(w[{i}])")).collect();
    let load = ordered(&ptx, &out.join(", "), &format!("\"r\"({address}(s)), \"r\"(block)"));
    let store: String = (0..n).map(|i| format!(" reinterpret_cast<{ctype}*>(d)[{i}] = w[{i}];")).collect();
    let body = format!("{ctype} w[{n}]; {load}{store}");
    helper(p, &format!("dl_cluster_load{bytes}"), "void* d, const void* s, unsigned block", &body)
}

pub(super) fn cluster_store(p: &mut Prelude, dtype: DType) -> String {
    let address = shared(p);
    let (ptx, constraint) = match dtype {
        DType::F32 => ("f32", "f"),
        DType::F64 => ("f64", "d"),
        _ if dtype.bytes() == 8 => ("b64", "l"),
        _ => ("b32", "r"),
    };
    let ptx = format!("{{.reg .b32 a; mapa.shared::cluster.u32 a, %0, %1; st.shared::cluster.{ptx} [a], %2;}}");
    let body = ordered(&ptx, "", &format!("\"r\"({address}(d)), \"r\"(block), \"{constraint}\"(v)"));
    let params = format!("void* d, unsigned block, {} v", ctype(dtype));
    helper(p, &format!("dl_cluster_store_{}", short(dtype)), &params, &body)
}

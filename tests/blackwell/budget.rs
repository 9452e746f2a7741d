//! The share of the roofline that instructions allow, by count: what a kernel issues while memory, or the tensor cores, do
//! their part, held against what the chip issues in that time.
//!
//! Four warps of a multiprocessor issue an instruction each cycle, one for each of 32 lanes of float32 arithmetic, so that
//! half of the float32 rate (a multiply-add is two operations) is the rate of lanes.

use super::sass::Kernel;
use super::table::{ROWS, Row, SCALED, Uses, kernel, stands_in_docs, takes_scales, target_of};
use super::tensor;
use daylight::ir::DType;
use daylight::target::Target;
use std::fmt::Write;

const TARGETS: [&str; 3] = ["sm_100a", "sm_103a", "sm_120a"];
const START: &str = "<!-- the table of shares, written by a test -->\n";
const END: &str = "<!-- end of the table of shares -->\n";
/// Lanes of a warp.
const WARP: f64 = 32.0;

/// More functions that memory bounds.
const MORE: &[Row] = &[
    Row {
        title: "softmax, 16384 x 8192",
        file: "benches/workloads/softmax-16384x8192-bf16.py",
        edits: &[],
        uses: Uses::Plain,
    },
    Row {
        title: "rms norm, 16384 x 8192",
        file: "benches/workloads/rmsnorm-16384x8192-bf16.py",
        edits: &[],
        uses: Uses::Plain,
    },
    Row {
        title: "layer norm, 16384 x 8192",
        file: "benches/workloads/layernorm-16384x8192-bf16.py",
        edits: &[],
        uses: Uses::Plain,
    },
    Row {
        title: "silu times gate, 16384 x 14336",
        file: "benches/workloads/silu_mul-16384x14336-bf16.py",
        edits: &[],
        uses: Uses::Plain,
    },
    Row {
        title: "matrix times vector, 28672 x 4096",
        file: "benches/workloads/gemv-1x28672x4096-bf16.py",
        edits: &[],
        uses: Uses::Plain,
    },
    Row {
        title: "transpose, 8192 x 8192",
        file: "benches/workloads/transpose-8192x8192-bf16.py",
        edits: &[],
        uses: Uses::Plain,
    },
];

/// Instructions of lanes that a GPU issues in a second.
fn issued(t: &Target) -> f64 {
    t.peak_of([DType::F32]).expect("a rate of float32") * 1e12 / 2.0
}

/// Bytes that a thread moves between registers and memory of the device by an instruction.
fn moved(instruction: &str) -> f64 {
    let mut parts = instruction.split('.');
    if !matches!(parts.next(), Some("LDG" | "STG" | "LDGSTS")) {
        return 0.0;
    }
    let width = |s: &str| match s {
        "256" => Some(32.0),
        "128" => Some(16.0),
        "64" => Some(8.0),
        "U16" | "S16" | "U16H" => Some(2.0),
        "U8" | "S8" => Some(1.0),
        _ => None,
    };
    parts.find_map(width).unwrap_or(4.0)
}

/// What a kernel issues for each 16 bytes that it moves, what the chip issues in the time that its DRAM takes for them, and
/// the share of DRAM's rate that leaves.
fn of_memory(k: &Kernel, t: &Target) -> [f64; 3] {
    let part = k.main_part(|i| moved(i) > 0.0);
    let bytes: f64 = part.iter().map(|i| moved(i)).sum();
    let (own, budget) = (16.0 * part.len() as f64 / bytes, 16.0 * issued(t) / (t.dram_gbps * 1e9));
    [own, budget, (budget / own).min(1.0)]
}

/// The same for each product of a warp: operations of one product, instructions of its loop, of which so many are products.
fn of_products(part: &[String], kind: &str, operations: f64, peak: f64, t: &Target) -> [f64; 3] {
    let products = part.iter().filter(|i| i.starts_with(kind)).count() as f64;
    let (own, budget) = (part.len() as f64 / products, operations / peak * issued(t) / WARP);
    [own, budget, (budget / own).min(1.0)]
}

/// Operations of `mma.sync` with scales of blocks: 16 rows, 8 columns, 32 bytes of numbers of 8 or of 4 bits.
fn of_warps(k: &Kernel, t: &Target) -> Option<[f64; 3]> {
    let eight = t.peak_of([DType::E4M3])? * 1e12;
    // numbers of half the size are multiplied twice as fast
    let (kind, size) = if k.count("OMMA.SF") > 0 { ("OMMA.SF", 2.0) } else { ("QMMA.SF", 1.0) };
    let part = k.loop_with(|i| i.starts_with(kind))?;
    Some(of_products(part, kind, 2.0 * 16.0 * 8.0 * 32.0 * size, eight * size, t))
}

/// The loop of the thread that issues products in tensor memory, of 128 or 256 rows by 256 columns by 32 bytes: its warp issues one
/// instruction in a cycle at most, as the others of its quarter do.
fn of_tensor_memory(k: &Kernel, (kind, bytes, rate): (&str, f64, f64), columns: i64, t: &Target) -> Option<[f64; 3]> {
    let part = k.loop_with(|i| i.starts_with(kind))?;
    // of a pair, half of the rows are each block's
    let operations = 2.0 * 128.0 * columns as f64 * 32.0 / bytes;
    let sms = f64::from(t.sms);
    let peak = t.peak_of([DType::BF16])? * 1e12 * rate / sms;
    let products = part.iter().filter(|i| i.starts_with(kind)).count() as f64;
    let cycles = operations / peak * issued(t) / sms / (4.0 * WARP);
    let own = part.len() as f64 / products;
    Some([own, cycles, (cycles / own).min(1.0)])
}

fn line(out: &mut String, (title, id, unit): (&str, &str, &str), [own, budget, share]: [f64; 3]) {
    let shown = if share >= 1.0 { "all".to_string() } else { format!("{share:.2}") };
    writeln!(out, "| {title} | {id} | {unit} | {own:.1} | {budget:.0} | {shown} |").expect("a line");
}

fn table() -> Option<String> {
    let mut out =
        "| kernel | target | for each | issued | budget | share by count |\n|---|---|---|--:|--:|--:|\n".to_string();
    for row in ROWS.iter().chain(MORE) {
        for id in TARGETS {
            line(&mut out, (row.title, id, "16 bytes"), of_memory(&kernel(row, id)?, &target_of(id)));
        }
    }
    for row in SCALED {
        for id in TARGETS.into_iter().filter(|id| takes_scales(id)) {
            let shares = of_warps(&kernel(row, id)?, &target_of(id)).expect("a loop of products");
            line(&mut out, (row.title, id, "product of a warp"), shares);
        }
    }
    for (title, of, k, columns, id) in tensor::kernels()? {
        let shares = of_tensor_memory(&k, of, columns, &target_of(id)).expect("a loop of products");
        line(&mut out, (&title, id, "product of a block"), shares);
    }
    Some(out)
}

/// Most of the memory-bound kernels leave the issue slots idle; none issues twice what there is time for.
#[test]
fn shares_of_the_roofline_by_count() {
    let Some(table) = table() else { return };
    for line in table.lines().skip(2) {
        let share = line.trim_end_matches(" |").rsplit(" | ").next().expect("a share");
        assert!(share == "all" || share.parse::<f64>().expect("a number") > 0.5, "{line}");
    }
    stands_in_docs(&table, [START, END]);
}

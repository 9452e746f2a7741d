//! The table of `docs/blackwell.md`.

use super::sass::{COUNTED, Kernel};
use crate::common::nvidia::machine_code;
use daylight::assemble::Assembly;
use daylight::job::{self, select};
use daylight::rules::Spaces;
use daylight::target::{HostCpu, Target};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const TARGETS: [&str; 4] = ["sm_90a", "sm_100a", "sm_103a", "sm_120a"];
const START: &str = "<!-- the table of instructions, written by a test -->\n";
const END: &str = "<!-- end of the table -->\n";

/// A function: what the table calls it, its file, and what is replaced in its text.
pub struct Row {
    pub title: &'static str,
    pub file: &'static str,
    pub edits: &'static [(&'static str, &'static str)],
    pub uses: Uses,
}

/// What a kernel is made of where the hardware has it.
#[derive(PartialEq)]
pub enum Uses {
    Packed,
    Fold3,
    WideLoads,
    BlockScales,
    /// Nothing of these.
    Plain,
}

pub const ROWS: &[Row] = &[
    Row { title: "mean of rows, 2048 x 8192", file: "examples/mean.py", edits: &[], uses: Uses::Packed },
    Row {
        title: "sum of rows, 2048 x 8192",
        file: "benches/workloads/sum_last-2048x8192-f32.py",
        edits: &[],
        uses: Uses::Packed,
    },
    Row {
        title: "maximum of rows, 32768 x 1024",
        file: "benches/workloads/max_last-32768x1024-bf16.py",
        edits: &[("bfloat16", "float32")],
        uses: Uses::Fold3,
    },
    Row {
        title: "sum of columns, 8192 x 8192",
        file: "benches/workloads/sum_first-8192x8192-f32.py",
        edits: &[],
        uses: Uses::Packed,
    },
    Row {
        title: "tile program: row sums by warps, 32-byte rows",
        file: "examples/row_sums.py",
        edits: &[("(256, 32, 8), \"float32\")", "(256, 32, 8), \"float32\", align=32)")],
        uses: Uses::WideLoads,
    },
    Row {
        title: "tile program: sum of 32 values",
        file: "tests/tile_programs/seed_000.py",
        edits: &[],
        uses: Uses::Packed,
    },
    Row {
        title: "tile program: maximum of 32 values",
        file: "tests/tile_programs/seed_000.py",
        edits: &[("Tx.sum(", "Tx.max(")],
        uses: Uses::Fold3,
    },
];

/// Functions that `daylight new` writes, for the targets with instructions that take scales of blocks.
pub const SCALED: &[Row] = &[
    Row {
        title: "nvfp4 product, 2048 x 4096 x 4096",
        file: "new matmul_block_scaled --m 2048 --n 4096 --k 4096 --format nvfp4",
        edits: &[],
        uses: Uses::BlockScales,
    },
    Row {
        title: "mxfp4 product, 2048 x 4096 x 4096",
        file: "new matmul_block_scaled --m 2048 --n 4096 --k 4096 --format mxfp4",
        edits: &[],
        uses: Uses::BlockScales,
    },
    Row {
        title: "mxfp8 product, 2048 x 4096 x 4096",
        file: "new matmul_block_scaled --m 2048 --n 4096 --k 4096 --format mxfp8",
        edits: &[],
        uses: Uses::BlockScales,
    },
];

/// A file's text, or what `daylight new` writes for words after it.
fn text(file: &str) -> String {
    let Some(typed) = file.strip_prefix("new ") else { return std::fs::read_to_string(root(file)).expect(file) };
    let (name, options) = typed.split_once(' ').expect("an operation with options");
    let options = options.split("--").filter(|o| !o.is_empty()).filter_map(|o| o.trim().split_once(' '));
    let operation = daylight::operation::by_name(name).expect("there is one");
    operation.function(name, &options.collect::<Vec<_>>()).expect(file).to_string()
}

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The kernels that the untuned choice gives a function.
pub fn assembly(row: &Row, target: &Target) -> Assembly {
    let mut text = text(row.file);
    for (from, to) in row.edits {
        assert!(text.contains(from), "{}: no {from}", row.file);
        text = text.replace(from, to);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("f.py");
    std::fs::write(&file, text).expect("write the function");
    let mut inputs = job::load(&Default::default(), &[file]).expect("the file reads");
    let input = inputs.remove(0).unwrap_or_else(|e| panic!("{}: {e:?}", row.file));
    let subject = input.subject(target).expect("it is accepted");
    let choice = select::Choice::default();
    let (scheduled, _) = select::scheduled(&subject, &Spaces::built_in(), &input.name, &choice).expect("a default");
    scheduled.assemble().unwrap_or_else(|e| panic!("{}: {e}", row.file))
}

/// The first kernel of a function, which does the work.
pub fn kernel(row: &Row, target: &str) -> Option<Kernel> {
    let (id, target) = (format!("cuda:{target}"), target_of(target));
    let made = assembly(row, &target);
    let code = machine_code(&made.source.text, &id)?.unwrap_or_else(|e| panic!("{}: {e}", row.file));
    Some(Kernel::of(&code, &made.source.symbols[0]))
}

/// What holds whatever the compiler's version: Blackwell's data centre GPUs use the packed forms, and
/// the others scalar ones.
fn check(row: &Row, target: &str, k: &Kernel) {
    let facts = target_of(target);
    let has = facts.has;
    let (packed, fold3) = (k.count("FADD2"), k.count("FMNMX3"));
    let at = format!("{} for {target}: {packed} FADD2, {fold3} FMNMX3", row.title);
    assert_eq!(packed > 0, has.packed_f32 && row.uses == Uses::Packed, "{at}");
    assert_eq!(k.count("LDG.256") > 0, facts.max_load_bytes == 32 && row.uses == Uses::WideLoads, "{at}");
    assert_eq!(fold3 > 0, has.native_fold3 && row.uses == Uses::Fold3, "{at}");
    let scaled = k.count("OMMA.SF") + k.count("QMMA.SF");
    assert_eq!(scaled > 0, row.uses == Uses::BlockScales, "{}: {scaled} products with scales", row.title);
    assert!(k.instructions.iter().all(|i| !i.starts_with("LDL") && !i.starts_with("STL")), "{} spills", row.title);
}

/// The target of an architecture.
pub fn target_of(name: &str) -> Target {
    Target::parse(&format!("cuda:{name}"), &HostCpu::default()).expect("a name of the table")
}

pub fn takes_scales(target: &str) -> bool {
    target_of(target).has.block_scale_mma
}

fn table() -> Option<String> {
    let mut out = format!("| kernel | target | {} | whole kernel | main loop |\n", COUNTED.join(" | "));
    writeln!(out, "|---|---|{}--:|--:|", "--:|".repeat(COUNTED.len())).ok()?;
    for row in ROWS.iter().chain(SCALED) {
        for target in TARGETS.into_iter().filter(|t| row.uses != Uses::BlockScales || takes_scales(t)) {
            let k = kernel(row, target)?;
            check(row, target, &k);
            let counts: Vec<String> = COUNTED.iter().map(|c| k.count(c).to_string()).collect();
            let turn = if k.main_loop.is_some() { k.turn().to_string() } else { "none".into() };
            let all = k.instructions.len();
            writeln!(out, "| {} | {target} | {} | {all} | {turn} |", row.title, counts.join(" | ")).ok()?;
        }
    }
    Some(out)
}

#[test]
fn kernels_use_packed_and_three_operand_instructions_where_they_are_one() {
    let Some(table) = table() else { return };
    stands_in_docs(&table, [START, END]);
}

/// That a table stands between two marks of `docs/blackwell.md`, or puts it there where that is asked for.
pub fn stands_in_docs(table: &str, [start, end]: [&str; 2]) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let docs = root("docs/blackwell.md");
    let text = std::fs::read_to_string(&docs).expect("docs/blackwell.md");
    let (head, rest) = text.split_once(start).expect("the table's first mark");
    let (found, tail) = rest.split_once(end).expect("the table's last mark");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&docs, format!("{head}{start}{table}{end}{tail}")).expect("write docs/blackwell.md");
    } else {
        assert_eq!(found, table, "run with UPDATE_EXPECT=1 to accept");
    }
}

//! The table of `docs/blackwell.md`.

use super::sass::{COUNTED, Kernel};
use crate::common::nvidia::machine_code;
use daylight::assemble::{Assembly, assemble_program};
use daylight::job::{self, select};
use daylight::rules::Spaces;
use daylight::target::{HostCpu, Target};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const TARGETS: [&str; 4] = ["sm_90a", "sm_100a", "sm_103a", "sm_120a"];
const START: &str = "<!-- the table of instructions, written by a test -->\n";
const END: &str = "<!-- end of the table -->\n";

/// A function: what the table calls it, its file, and what is replaced in its text.
struct Row {
    title: &'static str,
    file: &'static str,
    edits: &'static [(&'static str, &'static str)],
    uses: Uses,
}

/// What a kernel is made of where the hardware has it.
#[derive(PartialEq)]
enum Uses {
    Packed,
    Fold3,
    WideLoads,
}

const ROWS: &[Row] = &[
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

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The kernels that the untuned choice gives a function.
fn assembly(row: &Row, target: &Target) -> Assembly {
    let mut text = std::fs::read_to_string(root(row.file)).expect(row.file);
    for (from, to) in row.edits {
        assert!(text.contains(from), "{}: no {from}", row.file);
        text = text.replace(from, to);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("f.py");
    std::fs::write(&file, text).expect("write the function");
    let mut inputs = job::load(&Default::default(), &[file]).expect("the file reads");
    let input = inputs.remove(0).unwrap_or_else(|e| panic!("{}: {e:?}", row.file));
    if let Some(program) = &input.program {
        return assemble_program(program, target).unwrap_or_else(|e| panic!("{}: {e}", row.file)).0;
    }
    let subject = input.subject(target).expect("it is accepted");
    let choice = select::Choice::default();
    let arms = select::arms(&subject, &Spaces::built_in(), &input.name, &choice).expect("a rule takes it");
    let (arm, knobs) = select::point(&arms, &choice).expect("a default");
    subject.candidate(arm, &knobs).unwrap_or_else(|e| panic!("{}: {e}", row.file))
}

/// The first kernel of a function, which does the work.
fn kernel(row: &Row, target: &str) -> Option<Kernel> {
    let id = format!("cuda:{target}");
    let target = Target::parse(&id, &HostCpu::default()).expect("a name of the table");
    let made = assembly(row, &target);
    let code = machine_code(&made.source.text, &id)?.unwrap_or_else(|e| panic!("{}: {e}", row.file));
    Some(Kernel::of(&code, &made.source.symbols[0]))
}

/// What holds whatever the compiler's version: Blackwell's data centre GPUs use the packed forms, and
/// the others scalar ones.
fn check(row: &Row, target: &str, k: &Kernel) {
    let facts = Target::parse(&format!("cuda:{target}"), &HostCpu::default()).expect("a name of the table");
    let has = facts.has;
    let (packed, fold3) = (k.count("FADD2"), k.count("FMNMX3"));
    let at = format!("{} for {target}: {packed} FADD2, {fold3} FMNMX3", row.title);
    assert_eq!(packed > 0, has.packed_f32 && row.uses == Uses::Packed, "{at}");
    assert_eq!(k.count("LDG.256") > 0, facts.max_load_bytes == 32 && row.uses == Uses::WideLoads, "{at}");
    assert_eq!(fold3 > 0, has.native_fold3 && row.uses == Uses::Fold3, "{at}");
}

fn table() -> Option<String> {
    let mut out = format!("| kernel | target | {} | whole kernel | main loop |\n", COUNTED.join(" | "));
    writeln!(out, "|---|---|{}--:|--:|", "--:|".repeat(COUNTED.len())).ok()?;
    for row in ROWS {
        for target in TARGETS {
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
    let docs = root("docs/blackwell.md");
    let text = std::fs::read_to_string(&docs).expect("docs/blackwell.md");
    let (head, rest) = text.split_once(START).expect("the table's first mark");
    let (found, tail) = rest.split_once(END).expect("the table's last mark");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&docs, format!("{head}{START}{table}{END}{tail}")).expect("write docs/blackwell.md");
    } else {
        assert_eq!(found, table, "run with UPDATE_EXPECT=1 to accept");
    }
}

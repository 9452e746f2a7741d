//! The dispatch table: what each variant accepts and declines, what it emits, and what that computes.
//!
//! Each family of variants has a module here with its cases. A case is one tile call in its place and
//! what dispatch has to say to it; cases of programs that run are also simulated.

use crate::common;
pub mod case;
mod compile;
pub mod copy;
pub mod copy_async;
pub mod elementwise;
pub mod everywhere;
mod gemm;
pub mod gemm_block_scale;
mod gemm_cases;
pub mod gemm_fma;
pub mod gemm_pipeline;
pub mod gemm_runs;
pub mod gemm_shapes;
pub mod gemm_special;
pub mod gemm_tcgen05;
pub mod gemm_tcgen05_block_scale;
pub mod gemm_wgmma;
pub mod gemm_wgmma_tf32x3;
pub mod gemm_wgmma_words;
pub mod gemm_words;
pub mod machine_code;
pub mod permute_layout;
pub mod reduction;
mod regression;
mod run;

use case::{Case, Says};
use daylight::tile::{all_variants, decide};
use std::collections::BTreeMap;

/// The families with their cases.
fn families() -> Vec<(&'static str, Vec<Case>)> {
    vec![
        ("copy", copy::cases()),
        ("copy_async", copy_async::cases()),
        ("permute_layout", permute_layout::cases()),
        ("reduction", reduction::cases()),
        ("elementwise", elementwise::cases()),
        ("gemm", gemm::cases()),
        ("regression", regression::cases()),
    ]
}

fn cases() -> Vec<Case> {
    families().into_iter().flat_map(|(_, cases)| cases).collect()
}

#[test]
fn dispatch_says_what_each_case_expects() {
    let wrong: Vec<String> = cases().iter().filter_map(|c| c.mistake()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The predicates of each variant, which asks all of them of every call, in one order.
fn predicates(cases: &[Case]) -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut all = BTreeMap::new();
    for c in cases {
        let Ok(d) = c.place(|cx| decide(&c.call, cx)) else { continue };
        for v in d.verdicts {
            let known = all.entry(v.variant).or_insert_with(|| v.asked.clone());
            assert_eq!(*known, v.asked, "`{}` asks other predicates of {}", v.variant, c.name);
            let foreign = v.refusals.iter().find(|r| !v.asked.contains(&&*r.predicate));
            assert_eq!(foreign, None, "`{}` refuses {} by what it does not ask", v.variant, c.name);
        }
    }
    all
}

/// A variant without a case that reaches it may be unreachable; a predicate without a case that it
/// alone decides may be vacuous.
#[test]
fn every_variant_is_reached_and_every_predicate_declines() {
    let cases = cases();
    let predicates = predicates(&cases);
    let mut missing = vec![];
    for v in all_variants() {
        let takes = |c: &&Case| c.says == Says::Takes(v.name) && v.ops.contains(&c.call.op);
        if !cases.iter().any(|c| takes(&c)) {
            missing.push(format!("no case is carried out by `{}` of {:?}", v.name, v.ops));
        }
        for p in &predicates[v.name] {
            let refuses = |c: &&Case| c.says == Says::Declines(v.name, p) && v.ops.contains(&c.call.op);
            if !cases.iter().any(|c| refuses(&c)) {
                missing.push(format!("no case is declined by `{p}` of `{}` {:?}", v.name, v.ops));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn decisions_print_as_tables() {
    for (family, cases) in families() {
        let mut text = String::new();
        for c in cases {
            let table = c.place(|cx| match decide(&c.call, cx) {
                Ok(d) => d.to_string(),
                Err(e) => format!("{e}\n"),
            });
            text.push_str(&format!("## {} ({})\n{table}\n", c.name, c.target));
        }
        common::golden(&format!("golden/tile/{family}.txt"), &text);
    }
}

#[test]
fn an_unknown_variant_is_an_error_that_lists_the_known() {
    for mut c in cases() {
        c.call.forced = Some("no_such_variant".into());
        let text = c.place(|cx| decide(&c.call, cx).expect_err("no variant has that name").to_string());
        assert!(text.contains("no_such_variant") && text.contains("choose one of"), "{text}");
    }
}

const START: &str = "<!-- the table of variants, written by a test -->\n";
const END: &str = "<!-- end of the table -->\n";

#[test]
fn the_documents_list_every_variant() {
    let mut table = String::from("| operations | variant | priority | predicates |\n|---|---|---|---|\n");
    let predicates = predicates(&cases());
    for v in all_variants() {
        let ops: Vec<&str> = v.ops.iter().map(|op| op.name()).collect();
        let when: Vec<String> = predicates[v.name].iter().map(|p| format!("`{p}`")).collect();
        let priority = if v.only_forced { format!("({})", v.priority) } else { v.priority.to_string() };
        table.push_str(&format!("| {} | `{}` | {priority} | {} |\n", ops.join(" "), v.name, when.join(" ")));
    }
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tile-programs.md");
    let text = std::fs::read_to_string(&docs).expect("docs/tile-programs.md");
    let (head, rest) = text.split_once(START).expect("the table's first mark");
    let (found, tail) = rest.split_once(END).expect("the table's last mark");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&docs, format!("{head}{START}{table}{END}{tail}")).expect("write docs/tile-programs.md");
    } else {
        assert_eq!(found, table, "run with UPDATE_EXPECT=1 to accept");
    }
}

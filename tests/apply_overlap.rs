//! Kernels that start while what was launched before them ends: their text, their launch, and where there are none.

use daylight::apply::{self, Emit, Options, Unit};
use daylight::assemble::load;
use daylight::rules::Spaces;
use daylight::target::Target;
use std::path::PathBuf;

fn units(target: &str, file: &str, overlap: bool) -> Vec<Unit> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
    let bind = if file == PLAIN { [("n".to_string(), 64)].into() } else { Default::default() };
    let inputs = load(&bind, &[path]).expect("reads");
    let inputs: Vec<_> = inputs.into_iter().map(|i| i.unwrap_or_else(|e| panic!("{}", e.failure.message))).collect();
    let host = daylight::machine::Machine::here(None).host;
    let (spaces, targets) = (Spaces::built_in(), [Target::parse(target, &host).expect("a target")]);
    let options = Options {
        records: &[],
        sizes: &Default::default(),
        targets: &targets,
        spaces: &spaces,
        gpu: None,
        log: None,
        require_exact: false,
        family: false,
        overlap,
        cuda: None,
    };
    apply::units(&inputs, &options).unwrap_or_else(|f| panic!("{}", f.message))
}

const PLAIN: &str = "examples/consumer/kernels/scale_rows.py";

/// One kernel of few blocks, which lets the next one start at once, and one of many.
#[test]
fn kernels_wait_before_they_touch_memory() {
    for (file, few) in [(PLAIN, true), ("tests/workloads/transpose/llama3_8b-down_weight-4096x14336-f16.py", false)] {
        let [plain, overlapping] = [false, true].map(|o| units("cuda:sm_90a", file, o).remove(0));
        let wait = "asm volatile(\"griddepcontrol.wait;\" : : : \"memory\");\n";
        let go = "asm volatile(\"griddepcontrol.launch_dependents;\");\n";
        let text = overlapping.text.replacen(&format!("  {wait}"), "", 1);
        let text = if few { text.replacen(&format!("  {go}"), "", 1) } else { text };
        assert_eq!(text, plain.text, "nothing else differs");
        assert_eq!(
            (overlapping.text.matches(wait).count(), overlapping.text.matches(go).count()),
            (1, usize::from(few))
        );
        let body = overlapping.text.split("__global__").nth(1).and_then(|t| t.split_once("{\n")).expect("a kernel").1;
        let first = if few { go } else { wait };
        assert!(body.trim_start().starts_with(first.trim_end()), "{body}");
    }
}

#[test]
fn launches_and_manifest_say_so() {
    let emit = Emit { rust: true, ..Emit::default() };
    for overlap in [false, true] {
        let files = apply::files(&units("cuda:sm_90a", PLAIN, overlap), emit.clone()).expect("files");
        let text = |name: &str| String::from_utf8_lossy(&files[name]).into_owned();
        let (rust, manifest) = (text("kernels.rs"), text("manifest.json"));
        assert_eq!(rust.contains("unsafe { launch_overlapping(self.kernels[0].0"), overlap);
        assert_eq!(rust.contains("result::launch_kernel(self.kernels[0].0"), !overlap);
        assert!(manifest.replace(' ', "").contains(&format!("\"pdl\":{overlap}")), "{manifest}");
    }
}

/// sm_89 has no such instruction, a CPU no stream.
#[test]
fn where_there_is_no_overlap_nothing_changes() {
    for target in ["cuda:sm_89", "cpu:x86-64-v3"] {
        let [plain, asked] = [false, true].map(|o| units(target, PLAIN, o).remove(0));
        assert_eq!(plain.text, asked.text);
        assert!(asked.plan.launches.iter().all(|l| !l.pdl));
    }
}

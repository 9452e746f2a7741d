//! What `benches/blackwell.sh` carries to a machine that has no Rust: a tile program for every variant that a target
//! accepts (`benches/tiles`, with `index.json`), and the kernels of one instruction each (`benches/instructions.json.gz`: CUDA
//! text, inputs, and the results of plain arithmetic). Written here with `UPDATE_EXPECT=1`, compared otherwise.

use crate::intrinsic_programs::{Case, cases, warpgroup_cases};
use crate::tile::everywhere::covering;
use crate::tile::machine_code::TARGETS;
use daylight::codegen;
use daylight::interp::Tensor;
use daylight::ir::kernel::KernelParam;
use daylight::ir::{DeviceFunc, Function, Scope, read_any, verify_device};
use flate2::{Compression, GzBuilder, read::GzDecoder};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn updates() -> bool {
    std::env::var_os("UPDATE_EXPECT").is_some()
}

/// The text of a program that was made without one: what is no parameter is allocated.
fn text(mut program: DeviceFunc) -> String {
    let own = program.func.buffers.iter().filter(|b| b.scope != Scope::Global).map(|b| b.name.clone());
    program.func.allocs = own.collect();
    program.to_string()
}

/// A name for a file.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// The programs by name, and the names for each target.
fn tiles() -> (BTreeMap<String, String>, BTreeMap<&'static str, Vec<String>>) {
    let (mut texts, mut index): (BTreeMap<String, String>, _) = (BTreeMap::new(), BTreeMap::new());
    for target in TARGETS {
        let mut names = vec![];
        for (name, program, _) in covering(target) {
            let (name, text) = (plain(&name), text(program));
            // The same call may be another program on another target, where another of it has to be forced.
            let taken = texts.get(&name).is_some_and(|t| *t != text);
            let own = if taken { format!("{name}_{}", &target[5..]) } else { name };
            names.push(own.clone());
            texts.insert(own, text);
        }
        index.insert(target, names);
    }
    (texts, index)
}

#[test]
fn a_tile_program_for_every_variant_is_carried() {
    let folder = root("benches/tiles");
    let (texts, index) = tiles();
    let index = serde_json::to_string_pretty(&index).expect("names") + "\n";
    let mut files: BTreeMap<String, String> = texts.into_iter().map(|(name, text)| (name + ".py", text)).collect();
    for (name, text) in &files {
        let mut read = read_any(text, name).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
        let Some(Function::Tile(p)) = read.pop() else { panic!("{name} is a tile program") };
        verify_device(&p).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    }
    files.insert("index.json".into(), index);
    if updates() {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("make the folder");
        files.iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).expect("write a program"));
    }
    let mut found: Vec<String> = std::fs::read_dir(&folder)
        .expect("the folder; run with UPDATE_EXPECT=1 to make it")
        .map(|e| e.expect("list the folder").file_name().to_string_lossy().into_owned())
        .collect();
    found.sort();
    assert_eq!(found, files.keys().cloned().collect::<Vec<_>>(), "run with UPDATE_EXPECT=1 to accept");
    for (name, text) in &files {
        let old = std::fs::read_to_string(folder.join(name)).expect("a program");
        assert_eq!(old, *text, "{name}: run with UPDATE_EXPECT=1 to accept");
    }
}

/// A program whose interpreter, simulator and tolerance disagree here would be called wrong there.
#[test]
fn the_carried_programs_are_right_in_the_simulator() {
    let index = std::fs::read_to_string(root("benches/tiles/index.json")).expect("the index");
    let index: BTreeMap<String, Vec<String>> = serde_json::from_str(&index).expect("names");
    for target in ["sm_90a", "sm_100a", "sm_120a"] {
        let names = &index[&format!("cuda:{target}")];
        let mut verify = Command::new(env!("CARGO_BIN_EXE_daylight"));
        verify.args(["verify", "--target", &format!("sim:{target}"), "--json"]);
        verify.args(names.iter().map(|n| format!("{n}.py"))).current_dir(root("benches/tiles"));
        let said = verify.output().expect("daylight starts");
        let lines = String::from_utf8_lossy(&said.stdout);
        let wrong: Vec<&str> = lines.lines().filter(|l| !l.contains("\"status\":\"ok\"")).collect();
        assert!(
            said.status.success() && wrong.is_empty(),
            "{target}: {wrong:?}\n{}",
            String::from_utf8_lossy(&said.stderr)
        );
        assert_eq!(lines.lines().count(), names.len(), "{target}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn tensor(t: &Tensor) -> Value {
    json!({ "dtype": t.dtype.to_string(), "data": hex(&t.data) })
}

/// A case for a loader in any language; `only` is the target that alone has its instructions.
fn carried(case: &Case, only: Option<&str>) -> Value {
    let launch = &case.program.launches[0];
    let pointers = launch.kernel.params.iter().all(|p| matches!(p, KernelParam::Pointer { .. }));
    assert!(
        pointers && codegen::dynamic_shared_bytes(&launch.kernel) == 0,
        "{}: the loader takes pointers",
        case.name()
    );
    let output = case.args().pop().expect("an output");
    let want: Vec<u8> = case.want.iter().flat_map(|w| w.to_le_bytes()).collect();
    json!({
        "name": case.name(), "sm": case.sm, "only": only, "symbol": launch.kernel.symbol, "block": launch.block,
        "text": codegen::cuda(&case.program), "inputs": case.inputs.iter().map(tensor).collect::<Vec<_>>(),
        "output": output.dtype.to_string(), "want": hex(&want), "tolerance": case.tolerance,
    })
}

#[test]
fn the_instruction_programs_are_carried() {
    let file = root("benches/instructions.json.gz");
    let mut all: Vec<Value> = cases().iter().map(|c| carried(c, None)).collect();
    all.extend(warpgroup_cases().iter().map(|c| carried(c, Some("sm_90a"))));
    let lines: String = all.iter().map(|c| format!("{c}\n")).collect();
    if updates() {
        let made = std::fs::File::create(&file).expect("make the file");
        let mut out = GzBuilder::new().write(made, Compression::best());
        out.write_all(lines.as_bytes()).and_then(|()| out.finish().map(|_| ())).expect("write the programs");
    }
    let mut old = String::new();
    let opened = std::fs::File::open(&file).expect("the programs; run with UPDATE_EXPECT=1 to make them");
    GzDecoder::new(opened).read_to_string(&mut old).expect("text");
    let name = |line: &str| line.split("\"name\":").nth(1).unwrap_or_default().chars().take(40).collect::<String>();
    for (old, new) in old.lines().zip(lines.lines()) {
        assert!(old == new, "{} changed: run with UPDATE_EXPECT=1 to accept", name(new));
    }
    assert_eq!(old.lines().count(), all.len(), "run with UPDATE_EXPECT=1 to accept");
}

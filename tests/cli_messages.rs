//! What newcomers get wrong, and what Daylight says: one sentence with the place and what to do, a line or two. The texts are
//! golden; `UPDATE_EXPECT=1 cargo test cli_messages` rewrites them.

use crate::common::golden;
use std::process::Command;

/// A copy with one added, as a file that has a helper and a main program around it.
const FILE: &str = r#"import tvm
from tvm.script import tirx as T

def helper(n):
    return n * 2

@T.prim_func(s_tir=True)
def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.sblock("b"):
            v = T.axis.spatial(64, i)
            B[v] = A[v] + T.float32(1)

if __name__ == "__main__":
    print(f)
"#;

const SUM: &str = r#"from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def f(A: T.Buffer((64, 256), "float32"), B: T.Buffer((64,), "float32")):
    for i, k in T.grid(64, 256):
        with T.sblock("b"):
            vi, vk = T.axis.remap("SR", [i, k])
            B[vi] = B[vi] + A[vi, vk]
"#;

const SIZED: &str = r#"from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def f(n: T.int32, A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
    for i in range(n):
        with T.sblock("b"):
            v = T.axis.spatial(n, i)
            B[v] = A[v] + T.float32(1)
"#;

const TORCH: &str = "import torch\n\ndef forward(x, w):\n    return torch.nn.functional.gelu(x @ w)\n";

const RELAX: &str = r#"from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.add(x, x)
        return y
"#;

const STEP: &str = r#"n = TypeVar("n")

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def f(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        for i in range(n):
            with T.sblock("b"):
                v = T.axis.spatial(n, i)
                B[v] = A[v] + T.float32(1)

    @R.function
    def main(x: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        cls = Module
        y = R.call_tir(cls.f, (x,), out_ty=R.Tensor((n,), dtype="float32"))
        return y
"#;

const OTHER: &str = r#"
    @R.function
    def other(x: R.Tensor((n,), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        return x
"#;

/// What is wrong, the text of `f.py`, and the words after `daylight`.
fn mistakes() -> Vec<(&'static str, String, &'static str)> {
    let file = |from: &str, to: &str| {
        assert!(FILE.contains(from), "{from}");
        FILE.replace(from, to)
    };
    let thread = "T.thread_binding(64, thread=\"threadIdx.x\")";
    vec![
        ("a helper and a main program around the function are no mistake", FILE.into(), "check f.py"),
        ("a file of PyTorch", TORCH.into(), "check f.py"),
        ("a module of relax", RELAX.into(), "check f.py"),
        ("an empty file", String::new(), "check f.py"),
        ("a colon is missing", file("range(64):", "range(64)"), "check f.py"),
        ("a dtype that is none", file("\"float32\"), B", "\"float23\"), B"), "check f.py"),
        ("a misspelt axis", file("T.axis.spatial", "T.axis.spacial"), "check f.py"),
        ("a name that is not known", file("T.float32(1)", "bias"), "check f.py"),
        ("too many indices", file("A[v]", "A[v, 0]"), "check f.py"),
        ("one element too far", file("A[v]", "A[v + 1]"), "check f.py"),
        ("two iterations store to one element", file("B[v]", "B[v // 2]"), "check f.py"),
        (
            "no block",
            file("        with T.sblock(\"b\"):\n            v = T.axis.spatial(64, i)\n    ", "")
                .replace("[v]", "[i]")
                .replace("range(64)", "T.vectorized(64)"),
            "check f.py",
        ),
        ("a function that was scheduled", file("range(64)", thread), "check f.py"),
        ("a function of a library", file("T.float32(1)", "T.call_extern(\"float32\", \"erf\", A[v])"), "check f.py"),
        ("a reduction without T.init", SUM.into(), "check f.py"),
        ("no size for an extent", SIZED.into(), "tune f.py --device cpu"),
        ("an extent that there is not", SIZED.into(), "tune f.py --device cpu --bind m=4"),
        ("a size that no machine holds", SIZED.into(), "verify f.py --target sim:sm_90 --bind n=999999999999999"),
        ("a size that is none", SIZED.into(), "tune f.py --device cpu --bind n=many"),
        ("no such function", FILE.into(), "tune f.py --device cpu --function g"),
        ("no such file", FILE.into(), "check g.py"),
        ("no log", FILE.into(), "apply-best f.py --log nowhere --target cpu --out k"),
        ("a device that there is not", FILE.into(), "tune f.py --device gpu"),
        ("a target without its kind", FILE.into(), "explain f.py --target sm_90a"),
        ("a knob that there is not", FILE.into(), "explain f.py --target cuda:sm_90a --set thread=8"),
        (
            "a value that a knob does not have",
            FILE.into(),
            "explain f.py --target cuda:sm_90a --emit cuda --set threads=77",
        ),
        ("a rule that there is not", FILE.into(), "explain f.py --target cuda:sm_90a --emit cuda --rule reducton"),
        ("a module without relax functions", FILE.into(), "import f.py"),
        ("a relax function that there is not", STEP.into(), "import f.py --entry mian"),
        ("several relax functions", format!("{STEP}{OTHER}").replace("main", "first"), "import f.py"),
        ("a call of what there is not", STEP.replace("cls.f", "cls.g"), "import f.py"),
        ("a step at a size that only runs tell", STEP.into(), "import f.py --device cpu --trials 4"),
        ("a size that a step has not", STEP.into(), "import f.py --bind m=4"),
        ("a size of nothing", FILE.into(), "new softmax --shape n,0"),
        ("a function that there is not", FILE.into(), "new elementwise --shape n --ops gleu"),
        ("no inputs", FILE.into(), "run f.py --device cpu --inputs in --outputs out"),
    ]
}

#[test]
fn every_mistake_gets_a_sentence() {
    let (mut all, mut said_of) = (String::new(), vec![]);
    for (what, text, words) in mistakes() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("f.py"), text).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
        command
            .args(words.split_whitespace())
            .arg("--cache")
            .arg(folder.path().join("cache"))
            .current_dir(folder.path());
        let o = command.output().expect("daylight starts");
        let said = [o.stdout, o.stderr].map(|b| String::from_utf8_lossy(&b).into_owned()).concat();
        let kept: Vec<&str> = said.lines().filter(|l| !l.starts_with("tuning on")).collect();
        all += &format!(
            "== {what}\n$ daylight {words}\n{}\nexit code {}\n\n",
            kept.join("\n"),
            o.status.code().unwrap_or(-1)
        );
        said_of.push((what, kept.iter().map(|l| (*l).to_string()).collect::<Vec<_>>()));
    }
    golden("golden/cli/messages.txt", &all);
    for (what, kept) in said_of {
        // A line or two, and the place in the source where there is one.
        let is_source = |l: &&String| l.starts_with("    ") && !l.trim_start().starts_with("note:");
        let sentences: Vec<&String> = kept.iter().filter(|l| !is_source(l)).collect();
        assert!((1..=2).contains(&sentences.len()), "{what}: {kept:?}");
        assert!(sentences.iter().all(|l| l.chars().count() <= 260), "{what}: {kept:?}");
    }
}

//! Hostile and broken text is an error with a place, never a panic, an abort or a hang.

use daylight::ir;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::path::Path;

fn workload(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

const FILES: [&str; 5] = [
    "reduction/bert_base-mean_pool_middle-64x512x768-f32.py",
    "gemv-quant/llama3_8b-q4f16-down_residual-n4096k14336.py",
    "dynamic/llama3_8b-softmax-32x_n_x_m_-f32.py",
    "refused/llama3_8b-paged_attention_decode-h32kv8d128-f16.py",
    "refused/llama3_8b-scheduled_matmul-m512n4096k4096-f16.py",
];

/// Reads a text that may be wrong; an error has to point into the text and say something. What is
/// read has to print as text that reads back. True for what is read. Mutants of texts are in `fuzz`.
pub fn survives(text: &str) -> bool {
    match ir::read(text, "t.py") {
        Ok(fs) => {
            for f in fs {
                let printed = f.to_string();
                let again = ir::read(&printed, "printed.py").unwrap_or_else(|e| panic!("{e}\nof\n{text}"));
                assert_eq!(again[0].canonical_text(), f.canonical_text(), "of\n{text}");
                let _ = ir::verify(&f);
            }
            true
        }
        Err(e) => {
            assert!(e.line >= 1 && e.column >= 1 && e.message.len() > 5, "{e:?}");
            assert!(e.line <= text.lines().count().max(1) + 1, "{e:?}");
            false
        }
    }
}

fn function(statement: &str) -> String {
    let head = "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((16,), \"float32\")):\n    for i in range(16):\n";
    format!("{head}        with T.sblock(\"b\"):\n            v = T.axis.spatial(16, i)\n            {statement}\n")
}

#[test]
fn deep_nesting_is_refused() {
    for depth in [201, 1000, 100_000] {
        let parens = format!("A[v] = {}1{}", "(".repeat(depth), ")".repeat(depth));
        let brackets = format!("A[v] = {}v{}", "A[".repeat(depth), "]".repeat(depth));
        let minus = format!("A[v] = {}1", "-".repeat(depth));
        let nots = format!("A[v] = {}True", "not ".repeat(depth));
        let lambdas = format!("T.call_packed({}1)", "lambda: ".repeat(depth));
        for s in [parens, brackets, minus, nots] {
            let e = ir::read(&function(&s), "t.py").expect_err("too deep");
            assert!(e.message.contains("nested"), "{e}");
        }
        survives(&function(&lambdas));
        survives(&"(".repeat(depth));
        survives(&format!("x = {}", "[".repeat(depth)));
    }
}

/// What no number of 64 bits counts would print as another text than it was read from.
#[test]
fn slices_of_more_elements_than_there_are_numbers_are_refused() {
    let reads = |slice: &str| ir::read(&function(&format!("T.reads(A[{slice}])\n            A[v] = 1.0")), "t.py");
    let e = reads("-9223372036854775808:2708").expect_err("too many");
    assert!(e.message.contains("64 bits"), "{e}");
    assert!(survives(&function("T.reads(A[-9223372036854775807:0])\n            A[v] = 1.0")));
}

#[test]
fn long_chains_are_refused_or_read() {
    for n in [500, 5_000, 50_000] {
        let sum = format!("A[v] = A[v]{}", " + A[v]".repeat(n));
        let e = ir::read(&function(&sum), "t.py").expect_err("too deep");
        assert!(e.message.contains("deep"), "{e}");
        for s in [
            format!("A[v] = {}1.0", "1.0 if True else ".repeat(n)),
            format!("A[v] = 0{}", " < v".repeat(n)),
            format!("A{}", ".a".repeat(n)),
            format!("A{} = 1", "[v]".repeat(n)),
            "T.attr(0, \"a\", 1)\n            ".repeat(n / 10),
            format!(
                "if True:\n                pass\n{}",
                "            elif True:\n                pass\n".repeat(n / 10)
            ),
            format!("with {}T.init():\n                pass", "T.init(), ".repeat(n / 10)),
            format!("A[v] = {}", "'x' ".repeat(n)),
        ] {
            survives(&function(&s));
        }
    }
}

#[test]
fn deep_indentation_is_refused() {
    let stairs: String = (0..400).map(|k| format!("{}if x:\n", " ".repeat(k))).collect();
    let e = ir::read(&stairs, "t.py").expect_err("too deep");
    assert!(e.message.contains("nested"), "{e}");
}

#[test]
fn huge_files_are_refused() {
    let e = ir::read(&"# padding\n".repeat(1 << 20), "t.py").expect_err("too large");
    assert!(e.message.contains("limit"), "{e}");
}

/// Texts of four megabytes on which the parser would take seconds to hours.
#[test]
fn long_hostile_texts_are_refused_at_once() {
    let start = std::time::Instant::now();
    let lines = |line: &str| line.repeat((4 << 20) / line.len());
    for text in [
        lines("\\\n"),
        lines("\\\r\n"),
        format!("x = 1 {}\n", lines(" \\\n")),
        format!("x = 1\n{}x = 2\n", lines("# c\n")),
        function(&format!("A[v] = 1.0\n{}", lines("            # c\n"))),
    ] {
        let e = ir::read(&text, "t.py").expect_err("too many lines without code");
        assert!(e.message.contains("follow one another without code"), "{}", e.message);
    }
    for (text, line) in [
        (lines("a b\n"), 1),
        (lines("a = = b\n"), 1),
        (function(&lines("a b\n            ")), 6),
        (format!("{}{}", "x = 1\n".repeat(5_000), lines("a b\n")), 5_001),
    ] {
        let e = ir::read(&text, "t.py").expect_err("a syntax error");
        assert!(e.message.contains("syntax error"), "{}", e.message);
        assert_eq!(e.line, line, "{}", e.message);
    }
    // Well under a second where nothing else runs.
    assert!(start.elapsed().as_secs_f64() < 10.0, "{:?}", start.elapsed());
}

/// Beginnings that are parsed alone end between statements: long valid texts are read as ever.
#[test]
fn long_texts_with_headers_decorators_and_clauses_are_read() {
    let body = "A[v] = 1.0  # one\n            # two\n            if v > 3:\n                A[v] = 2.0\n            else:\n                A[v] = (\n1.0 + \\\n  2.0)";
    for shift in 0..8 {
        let text = format!("{}\n{}", "#".repeat(7 * shift), function(body).repeat(300));
        let read = ir::read(&text, "t.py").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(read.len(), 300);
    }
}

#[test]
fn empty_and_foreign_text_is_an_error() {
    for text in [
        "",
        "\n\n",
        "# a comment",
        "\u{feff}",
        "\0\0\0",
        "hello",
        "x = 1",
        "def f():\n    pass\n",
        "import os\n",
        "\r\n\r",
    ] {
        assert!(ir::read(text, "t.py").is_err(), "{text:?}");
        survives(text);
    }
}

#[test]
fn random_bytes_never_panic() {
    let mut rng = StdRng::seed_from_u64(1);
    for len in [1, 10, 100, 1000, 20_000] {
        for _ in 0..10 {
            let bytes: Vec<u8> = (0..len).map(|_| rng.random()).collect();
            survives(&String::from_utf8_lossy(&bytes));
            let ascii: String = bytes.iter().map(|b| char::from(b % 96 + 32)).collect();
            survives(&ascii);
        }
    }
}

#[test]
fn truncated_files_never_panic() {
    for name in FILES {
        let text = workload(name);
        for end in (0..text.len()).step_by(50) {
            survives(&text[..end]);
        }
    }
}

#[test]
fn every_error_names_its_place() {
    let cases = [
        ("A[v] = B[v]", "not known", 12, 20),
        ("A[v] = A[w]", "not known", 12, 22),
        ("A[v] = T.expp(A[v])", "did you mean `T.exp`", 12, 20),
        ("A[v, v] = 1.0", "1 dimension, and there are 2 indices here", 12, 13),
        ("A[v] = T.Cast(\"float33\", v)", "did you mean \"float32\"", 12, 27),
        ("A[v] = T.exp(A[v], A[v])", "takes 1 argument", 12, 20),
        ("A[v] = T.float32x4(1)", "vector", 12, 20),
        ("A[v] = v / 2", "T.truncdiv", 12, 20),
        ("A[v] = A[v] // 2.0", "divides integers", 12, 20),
        ("A[v] = T.int8(300)", "does not fit", 12, 27),
        ("A[v] = 99999999999999999999", "does not fit int64", 12, 20),
        ("A[v] = 9223372036854775807 + 1", "overflows", 12, 20),
        ("A[v] = v // 0", "division by zero", 12, 20),
        ("A[v] = A[1.5]", "an integer was expected", 12, 22),
        ("A[v] = T.if_then_else(v, 1.0, 2.0)", "a condition is bool", 12, 35),
        ("A[v] = A[v] @ A[v]", "no meaning", 12, 25),
        ("T.launch_thread(\"blockIdx.x\", 4)", "T.launch_thread", 12, 13),
        ("with T.launch_thread(\"blockIdx.x\", 4) as x:\n                pass", "T.thread_binding", 12, 18),
        ("for j in T.thread_binding(4, thread=\"threadIdx.w\"):\n                pass", "thread axis", 12, 49),
        ("for j, k in T.grid(4):\n                pass", "T.grid has 1", 12, 25),
        ("return A[v]", "no meaning", 12, 13),
        ("A[v] = f\"x\"", "no meaning", 12, 20),
        ("assert v", "no meaning", 12, 13),
        ("A[v] = (A[v]", "never closed", 12, 20),
        ("A[v] = A[v)", "cannot close `[`", 12, 23),
        ("A[v] = A v", "expected", 12, 20),
        ("x: T.let[T.int64] = A[v]", "declared int64", 12, 13),
        ("T.reads(A[0:4, v])", "1 dimension, and there are 2 indices here", 12, 21),
        ("B = T.sblock_alloc_buffer((9223372036854775807, 2))", "overflows", 12, 17),
        ("B = T.sblock_alloc_buffer((-1, 2))", "negative", 12, 17),
        ("B = T.sblock_alloc_buffer((1, 2), \"int7\")", "unknown dtype", 12, 47),
        ("for j in range(99999999999999999999):\n                pass", "does not fit int64", 12, 28),
    ];
    let blank = "# from tvm.script import tirx as T\n".repeat(6);
    for (statement, wanted, line, column) in cases {
        let e = ir::read(&format!("{blank}{}", function(statement)), "dir/t.py").expect_err(statement);
        assert!(e.message.contains(wanted), "{statement}: {}", e.message);
        assert_eq!((e.line, e.column), (line, column), "{statement}: {}", e.message);
        assert!(e.to_string().starts_with(&format!("dir/t.py:{line}:{column}: ")), "{e}");
        let caret = e.to_string().lines().last().map(|l| l.len()).expect("a caret");
        assert_eq!(caret, 4 + column, "{e}");
    }
}

#[test]
fn headers_that_overflow_or_lie_are_refused() {
    for (header, wanted) in [
        ("A: T.Buffer((9223372036854775807, 9223372036854775807), \"float32\")", "overflows"),
        ("A: T.Buffer((99999999999999999999,), \"float32\")", "does not fit int64"),
        ("A: T.Buffer((T.int32(3000000000),), \"float32\")", "does not fit int32"),
        ("A: T.Buffer((4,), \"complex64\")", "unknown dtype"),
        ("A: T.Buffer((\"n\",), \"float32\")", "not known"),
        ("A: T.handle", "T.match_buffer"),
        ("A", "T.Buffer"),
        ("*A", "T.Buffer"),
        ("A: T.float99", "unknown dtype"),
        ("A: T.Buffer((4,), \"float32\", align=\"x\")", "positive"),
        ("A: T.Buffer((4,), \"float32\", strides=(1, 2))", "strides"),
        ("A: T.Buffer((4,), \"float32\", colour=1)", "colour"),
    ] {
        let text = format!("@T.prim_func\ndef f({header}):\n    T.evaluate(0)\n");
        let e = ir::read(&text, "t.py").expect_err(header);
        assert!(e.message.contains(wanted), "{header}: {e}");
        assert_eq!(e.line, 2, "{header}: {e}");
    }
}

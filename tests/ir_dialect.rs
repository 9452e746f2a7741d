//! Spellings of older TVM and of people read as the same function that TVM 0.27 prints.

use crate::common;
use daylight::ir::{self, PrimFunc};

fn read(text: &str) -> Vec<PrimFunc> {
    let fs = ir::read(text, "t.py").unwrap_or_else(|e| panic!("{e}"));
    for f in &fs {
        ir::verify(f).unwrap_or_else(|e| panic!("{e:?}"));
        let again = &ir::read(&f.to_string(), "printed.py").unwrap_or_else(|e| panic!("{e}\nof\n{f}"))[0];
        assert_eq!(again.canonical_text(), f.canonical_text());
    }
    fs
}

fn one(text: &str) -> PrimFunc {
    read(text).remove(0)
}

fn same(a: &str, b: &str) {
    let (a, b) = (one(a), one(b));
    assert_eq!(ir::workload_key(&a), ir::workload_key(&b), "{a}\n{b}");
}

/// A symbol that could not stand after `def` would be text of its own in what is printed.
#[test]
fn a_symbol_that_is_no_identifier_stays_an_attribute() {
    for symbol in ["f():\n    import os\ndef g", "a.b", "class", ""] {
        let text = OLD.replace("\"global_symbol\": \"row_sum\"", &format!("\"global_symbol\": {symbol:?}"));
        let f = one(&text);
        assert_eq!(f.name, "row_sum");
        assert!(!f.to_string().contains("\ndef g"), "{f}");
    }
    assert_eq!(one(&OLD.replace("\": \"row_sum\"", "\": \"other\"")).name, "other");
}

/// A function with one block around `statement`; `x` is float32, `h` float16, `j` int32, `w` int64,
/// `u` uint32, `k` bool.
fn statement(statement: &str) -> PrimFunc {
    let params = "x: T.Buffer((16,), \"float32\"), h: T.Buffer((16,), \"float16\"), j: T.Buffer((16,), \"int32\"), \
                  w: T.Buffer((16,), \"int64\"), u: T.Buffer((16,), \"uint32\"), k: T.Buffer((16,), \"bool\")";
    one(&format!(
        "@T.prim_func(s_tir=True)\ndef f({params}):\n    for i in range(16):\n        with T.sblock(\"b\"):\n            \
         v = T.axis.spatial(16, i)\n            {statement}\n"
    ))
}

/// The last line of a printed function.
fn printed(text: &str) -> String {
    statement(text).to_string().lines().last().expect("a function has lines").trim().to_string()
}

const NEW: &str = r#"
n = TypeVar("n")
@T.prim_func(private=True, s_tir=True)
def main(A: T.Buffer((n, T.int64(64)), "float16"), B: T.Buffer((n,), "float32")):
    C = T.sblock_alloc_buffer((n,))
    for i, k in T.grid(n, T.int64(64)):
        with T.sblock("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.writes(C[vi])
            with T.init():
                C[vi] = T.float32(0.0)
            C[vi] = C[vi] + T.Cast("float32", A[vi, vk])
    for i in range(n):
        with T.sblock("scale"):
            vi = T.axis.spatial(n, i)
            T.reads(C[vi])
            T.writes(B[vi])
            B[vi] = C[vi] * T.float32(2.0)
"#;

const OLD: &str = r#"
@T.prim_func
def row_sum(var_a: T.handle, var_b: T.handle):
    T.func_attr({"global_symbol": "row_sum", "tir.noalias": True})
    m = T.int64()
    X = T.match_buffer(var_a, (m, 64), "float16")
    Y = T.match_buffer(var_b, [m], "float32")
    # body
    with T.block("root"):
        acc = T.alloc_buffer((m,), "float32")
        for i, k in T.grid(m, T.int64(64)):
            with T.block("s"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    acc[vi] = 0
                acc[vi] += X[vi, vk].astype("float32")
        for i in T.serial(m):
            with T.block("t"):
                vi = T.axis.S(m, i)
                Y[vi] = acc[vi] * 2.0
"#;

#[test]
fn the_old_dialect_is_the_same_function() {
    let new = one(NEW);
    let old = one(&OLD.replace("(m, 64)", "(m, T.int64(64))"));
    assert_eq!(old.name, "row_sum");
    assert!(!old.private && new.private);
    assert_eq!(ir::workload_key(&old), ir::workload_key(&new), "{old}\n{new}");
    assert_eq!(new.display_name(&new.params[0].clone().name()), "A");
}

trait ParamName {
    fn name(self) -> ir::Name;
}

impl ParamName for ir::Param {
    fn name(self) -> ir::Name {
        match self {
            ir::Param::Buffer(name) | ir::Param::Scalar { name, .. } => name,
        }
    }
}

/// A log names extents: `m=8, n=64` means another size of one than of the other.
#[test]
fn extents_in_another_order_are_another_function() {
    let text = |a: &str, b: &str| {
        format!(
            "from tvm.script import tirx as T\n@T.prim_func(s_tir=True)\ndef f(x: T.handle, y: T.handle):\n    \
             {a} = T.int32()\n    {b} = T.int32()\n    A = T.match_buffer(x, ({a}, {b}), \"float32\")\n    \
             B = T.match_buffer(y, ({a}, {b}), \"float32\")\n    for i, j in T.grid({a}, {b}):\n        \
             with T.sblock(\"s\"):\n            v, w = T.axis.remap(\"SS\", [i, j])\n            \
             B[v, w] = A[v, w] * T.float32(2)\n"
        )
    };
    let key = |a: &str, b: &str| ir::workload_key(&one(&text(a, b)));
    assert_eq!(key("m", "n"), key("batch", "width"));
    assert_eq!(key("n", "m"), key("width", "batch"));
    assert_ne!(key("m", "n"), key("n", "m"));
}

#[test]
fn canonical_names_follow_program_order() {
    let f = one(NEW);
    common::golden("golden/ir/row_sum.canonical.txt", &f.canonical_text());
    common::golden("golden/ir/row_sum.txt", &f.to_string());
}

#[test]
fn the_key_depends_on_the_computation_only() {
    let f = one(NEW);
    let key = ir::workload_key(&f);
    assert_eq!(key.len(), 32);
    let renamed =
        NEW.replace("vi", "row").replace("C[", "total[").replace("C = ", "total = ").replace("\"sum\"", "\"other\"");
    assert_eq!(ir::workload_key(&one(&renamed)), key);
    let bare: String =
        NEW.lines().filter(|l| !l.contains("T.reads") && !l.contains("T.writes")).map(|l| format!("{l}\n")).collect();
    assert_eq!(ir::workload_key(&one(&bare)), key);
    let attributed = NEW.replace("    C = T.sbl", "    T.func_attr({\"op_pattern\": 4})\n    C = T.sbl");
    assert_eq!(ir::workload_key(&one(&attributed)), key);
    for (from, to) in
        [("T.int64(64)", "T.int64(65)"), ("float16", "bfloat16"), ("(2.0)", "(3.0)"), ("\"SR\"", "\"SS\"")]
    {
        assert_ne!(ir::workload_key(&one(&NEW.replace(from, to))), key, "{from} -> {to}");
    }
}

#[test]
fn three_spellings_of_a_symbolic_extent() {
    let body = "    for i in range(n):\n        with T.sblock(\"b\"):\n            v = T.axis.spatial(n, i)\n            B[v] = A[v]\n";
    let quoted = format!(
        "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((\"n\",), \"int8\"), B: T.Buffer((n,), \"int8\")):\n    n = T.int32()\n{body}"
    );
    let handles = format!(
        "@T.prim_func(s_tir=True)\ndef f(a: T.handle, b: T.handle):\n    n = T.int32()\n    A = T.match_buffer(a, (n,), \"int8\")\n    B = T.match_buffer(b, (n,), \"int8\")\n{body}"
    );
    same(&quoted, &handles);
    let type_var = format!(
        "n = TypeVar(\"n\")\n@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((n,), \"int8\"), B: T.Buffer((n,), \"int8\")):\n{body}"
    );
    same(&type_var, &handles.replace("T.int32", "T.int64"));
    let scalar = format!(
        "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((\"n\",), \"int8\"), B: T.Buffer((\"n\",), \"int8\"), n: T.int64):\n{body}"
    );
    let f = one(&scalar);
    assert!(f.extents.is_empty());
    assert!(f.to_string().contains("T.Buffer((\"n\",), \"int8\"), B: T.Buffer((n,), \"int8\"), n: T.int64"), "{f}");
    let half = quoted.replace("(\"n\",)", "(\"n * 2\",)");
    assert!(one(&half).to_string().contains("(\"n * 2\",)"));
}

#[test]
fn modules_hold_several_functions() {
    let inside: String = NEW.lines().filter(|l| !l.starts_with("n = ")).map(|l| format!("    {l}\n")).collect();
    let text = format!(
        "from tvm.script import ir as I\nn = TypeVar(\"n\")\n@I.ir_module\nclass Module:\n    I.module_attrs({{\"a\": 1}})\n{inside}\n    \
         @R.function\n    def other(x):\n        with R.dataflow():\n            return x\n{}",
        inside.replace("main", "second").replace("2.0", "4.0")
    );
    let fs = read(&text);
    assert_eq!(fs.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["main", "second"]);
    assert_ne!(ir::workload_key(&fs[0]), ir::workload_key(&fs[1]));
}

#[test]
fn literals_take_the_dtype_of_the_other_operand() {
    for (text, want) in [
        ("h[v] = h[v] + 1", "h[v] = h[v] + T.float16(1.0)"),
        ("h[v] = h[v] + 1.5", "h[v] = T.Cast(\"float16\", T.Cast(\"float32\", h[v]) + T.float32(1.5))"),
        ("w[v] = w[v] * 3 + v", "w[v] = w[v] * T.int64(3) + T.Cast(\"int64\", v)"),
        ("w[v] = w[v] + 3000000000", "w[v] = w[v] + T.int64(3000000000)"),
        ("u[v] = u[v] & 15", "u[v] = u[v] & T.uint32(15)"),
        ("u[v] = u[v] + j[v]", "u[v] = u[v] + T.Cast(\"uint32\", j[v])"),
        ("x[v] = j[v] * 2.5", "x[v] = T.Cast(\"float32\", j[v]) * T.float32(2.5)"),
        ("x[v] = 1", "x[v] = T.float32(1.0)"),
        ("x[v] = j[v]", "x[v] = T.Cast(\"float32\", j[v])"),
        ("x[v] += 1", "x[v] = x[v] + T.float32(1.0)"),
        ("k[v] = True", "k[v] = T.bool(True)"),
        ("x[v] = T.max(x[v], 0)", "x[v] = T.max(x[v], T.float32(0.0))"),
        ("x[v] = T.if_then_else(k[v], 1, x[v])", "x[v] = T.if_then_else(k[v], T.float32(1.0), x[v])"),
        ("x[v] = x[v] if k[v] else 0.0", "x[v] = T.if_then_else(k[v], x[v], T.float32(0.0))"),
        ("x[v] = T.pow(x[v], 2)", "x[v] = T.pow(x[v], T.float32(2.0))"),
        ("x[v] = T.min_value(\"float32\")", "x[v] = T.float32(-340282346638528859811704183484516925440.0)"),
        ("h[v] = T.max_value(\"float16\")", "h[v] = T.float16(65504.0)"),
        ("x[v] = -T.infinity(\"float32\")", "x[v] = T.float32(\"-inf\")"),
        ("x[v] = T.float32(\"nan\")", "x[v] = T.float32(\"nan\")"),
        ("x[v] = T.float32(\"0x1.8p+1\")", "x[v] = T.float32(3.0)"),
        ("w[v] = T.max_value(\"int64\")", "w[v] = T.int64(9223372036854775807)"),
        ("x[v] = T.float32(v)", "x[v] = T.Cast(\"float32\", v)"),
        ("x[v] = T.cast(v, \"float32\")", "x[v] = T.Cast(\"float32\", v)"),
        (
            "x[v] = 340282346638528859811704183484516925440.0",
            "x[v] = T.float32(340282346638528859811704183484516925440.0)",
        ),
    ] {
        assert_eq!(printed(text), want);
    }
}

#[test]
fn operators_keep_their_meaning() {
    for (text, want) in [
        ("j[v] = T.floordiv(j[v], 2)", "j[v] = j[v] // 2"),
        ("j[v] = T.truncdiv(j[v], 2)", "j[v] = T.Div(j[v], 2)"),
        ("j[v] = T.truncmod(j[v], 2)", "j[v] = T.truncmod(j[v], 2)"),
        ("u[v] = T.shift_right(u[v], T.bitwise_and(u[v], 7))", "u[v] = u[v] >> (u[v] & T.uint32(7))"),
        ("u[v] = u[v] >> u[v] * 4 & 15", "u[v] = u[v] >> u[v] * T.uint32(4) & T.uint32(15)"),
        ("j[v] = ~j[v] ^ 3 | 1", "j[v] = ~j[v] ^ 3 | 1"),
        ("j[v] = -j[v] * -1", "j[v] = -j[v] * -1"),
        ("x[v] = x[v] - (x[v] - x[v])", "x[v] = x[v] - (x[v] - x[v])"),
        ("x[v] = x[v] / (x[v] * x[v])", "x[v] = x[v] / (x[v] * x[v])"),
        ("k[v] = 0 < v < 4", "k[v] = 0 < v and v < 4"),
        ("k[v] = not (v < 1 or v > 2) and v != 3", "k[v] = not (v < 1 or v > 2) and v != 3"),
        ("k[v] = (v < 1) == (v < 2)", "k[v] = (v < 1) == (v < 2)"),
        ("k[v] = (j[v] & 1) == 0", "k[v] = j[v] & 1 == 0"),
        ("k[v] = T.isnan(x[v])", "k[v] = T.isnan(x[v])"),
        ("j[v] = v * 1 + 0", "j[v] = v"),
        ("j[v] = T.Mul(v, 1)", "j[v] = T.Mul(v, 1)"),
        ("j[v] = 2 * 3 + v", "j[v] = 6 + v"),
        ("j[v] = T.ceildiv(v, 3)", "j[v] = (v + 3 - 1) // 3"),
        ("x[v] = T.abs(x[v])", "x[v] = T.fabs(x[v])"),
        ("u[v] = T.reinterpret(\"uint32\", x[v])", "u[v] = T.reinterpret(\"uint32\", x[v])"),
        ("x[v] = T.Select(k[v], x[v], T.float32(0))", "x[v] = T.Select(k[v], x[v], T.float32(0.0))"),
        ("x[v] = x[(v + 1) % 16]", "x[v] = x[(v + 1) % 16]"),
        ("x[v] = x[j[v]]", "x[v] = x[j[v]]"),
        ("T.evaluate(x[v])", "T.evaluate(x[v])"),
        ("T.call_packed(\"f\", x.data, x[v], [1, 2])", "T.call_packed(\"f\", x.data, x[v], [1, 2])"),
        (
            "T.call_extern(\"int32\", \"f\", x.access_ptr(\"r\"))",
            "T.call_extern(\"int32\", \"f\", x.access_ptr(\"r\"))",
        ),
        ("x[v] = T.truncmod(x[v], h[v])", "x[v] = T.truncmod(x[v], T.Cast(\"float32\", h[v]))"),
        ("x[v] = T.acosh(T.asinh(T.atanh(x[v])))", "x[v] = T.acosh(T.asinh(T.atanh(x[v])))"),
        ("w[v] = T.int64(-9223372036854775808)", "w[v] = T.int64(-9223372036854775808)"),
        (
            "x[v] = T.ldexp(x[v], j[v])",
            "x[v] = x[v] * T.exp2(T.Cast(\"float32\", j[v] // 2)) * T.exp2(T.Cast(\"float32\", j[v] - j[v] // 2))",
        ),
        (
            "j[v] = T.q_multiply_shift(j[v], 5, 31, -3)",
            "j[v] = T.Cast(\"int32\", T.Cast(\"int64\", j[v]) * T.int64(5) + T.int64(8589934592) >> T.int64(34))",
        ),
        ("y: T.let[T.float32] = x[v]; x[v] = y + y", "x[v] = y + y"),
    ] {
        assert_eq!(printed(text), want);
    }
}

#[test]
fn scheduled_functions_and_every_statement_round_trip() {
    let text = r#"
@T.prim_func(s_tir=True)
def f(A: T.Buffer((16, 16), "float16", strides=(17, 1), offset_factor=1), n: T.int32, B: T.Buffer((n, "m"), "float32", scope="shared")):
    m = T.int32()
    T.func_attr({"a": 1, "b": [1, T.int64(2)], "c": None, "d": 1.5, "e": {"x": "y"}, "target": T.target({"keys": ["cuda"]})})
    C = T.sblock_alloc_buffer((16, 16), align=128)
    for i in T.serial(2, 10, annotations={"a": 1, "b": [1, 2], "c": "x", "d": 1.5, "e": True}):
        for j in T.unroll(4, annotations={"x": T.int64(3)}):
            for k in T.vectorized(T.int64(4)):
                for l in T.thread_binding(4, thread="threadIdx.x", annotations={"k": 1}):
                    for p in T.parallel(4):
                        with T.sblock("x"):
                            vi = T.axis.spatial((2, 10), i)
                            vj, vk = T.axis.remap("SS", [j, l])
                            vo = T.axis.opaque(4, p)
                            T.where(i < 5 and i * j < 3)
                            T.reads(A[vi, 0:16], C[vi:vi + 2, vj])
                            T.writes(C[vi, vj])
                            T.sblock_attr({"buffer_dim_align": [[0, 1, 8, 2]]})
                            E = T.sblock_alloc_buffer((), "int8", scope="local")
                            D = T.match_buffer(A[0:16, vi], (16, 1), "float16", strides=("s0", "s1"), offset_factor=1)
                            if i < 3:
                                C[vi, vj] = T.Cast("float32", D[vi, 0])
                            elif i < 4:
                                C[vi, vj] = 2
                            else:
                                E[()] = T.int8(3)
    for i in range(16):
        with T.sblock("y"):
            vi = T.axis.spatial(16, i)
            X = T.alloc_buffer((3,), "float32")
            Y = T.alloc_shared((3,), "float32")
            with T.attr(0, "pragma", 1):
                Y[0] = A[vi, vi]
            T.evaluate(0)
            while X[0] < 3:
                X[0] = T.float32(1)
            t = T.float32()
            X[1] = T.Let(t * t, where={t: X[0] + 1.0})
            T.attr(T.comm_reducer(lambda x0, y0: x0 + y0, [T.float32(0.0)]), "reduce_scope", 0)
            T.tvm_thread_allreduce(T.uint32(1), X[0], T.bool(True), X[0], vi)
"#;
    let f = one(text);
    common::golden("golden/ir/statements.txt", &f.to_string());
    common::golden("golden/ir/statements.canonical.txt", &f.canonical_text());
}

#[test]
fn names_that_meet_are_made_unique() {
    let text = r#"
@T.prim_func(s_tir=True)
def f(T_1: T.Buffer((4, 4), "float32"), I: T.Buffer((4, 4), "float32")):
    for i in range(4):
        for i in range(4):
            with T.sblock("b"):
                I[i, i] = T_1[i, i]
    for i in range(4):
        with T.sblock("b"):
            I[i, i] = T_1[i, i]
"#;
    common::golden("golden/ir/unique_names.txt", &one(text).to_string());
}

/// A product that TVM marks for a layout of its own names a buffer that nothing reads, in a function that was fused.
#[test]
fn a_buffer_that_an_attribute_alone_names_is_passed_over() {
    let text = |line: &str, read: &str| {
        format!(
            "@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((16,), \"float32\"), B: T.Buffer((16,), \"float32\")):\n    for i in \
             range(16):\n        with T.sblock(\"b\"):\n            v = T.axis.spatial(16, i)\n            {line}\n            \
             T.sblock_attr({{\"layout_free_placeholders\": [X]}})\n            B[v] = {read}[v]\n"
        )
    };
    let placeholder = "X = T.Buffer((T.int64(4), T.int64(4)), \"float32\")";
    let f = one(&text(placeholder, "A"));
    assert_eq!(f.buffers.len(), 2, "{f}");
    let why = ir::read(&text(placeholder, "X"), "t.py").expect_err("it holds nothing").to_string();
    assert!(why.contains("`X`"), "{why}");
}

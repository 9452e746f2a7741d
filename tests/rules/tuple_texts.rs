//! Functions that keep several results at once.

use super::harness::Case;

/// How the update of an argmax is written.
#[derive(Clone, Copy, PartialEq)]
pub enum Form {
    /// Ties are decided by the indices: the smallest is kept.
    First,
    /// The largest.
    Last,
    /// `>=` keeps what came first.
    Earlier,
    /// `>` for the new one, in a select turned round, and `>=` takes what came last.
    Later,
}

fn tuple(items: &[String]) -> String {
    format!("({}{})", items.join(", "), if items.len() == 1 { "," } else { "" })
}

fn axes(stem: &str, n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{stem}{i}")).collect()
}

/// Loops over `dims` around a block with iterators `vars` of `kinds`.
fn nest(name: &str, vars: &[String], dims: &[String], kinds: &str) -> String {
    let loops = axes("k", dims.len());
    if let ([n], [v]) = (dims, vars) {
        let kind = if kinds == "R" { "reduce" } else { "spatial" };
        return format!(
            "    for k0 in range({n}):\n        with T.sblock(\"{name}\"):\n            {v} = T.axis.{kind}({n}, k0)\n"
        );
    }
    format!(
        "    for {} in T.grid({}):\n        with T.sblock(\"{name}\"):\n            {} = T.axis.remap(\"{kinds}\", [{}])\n",
        loops.join(", "),
        dims.join(", "),
        vars.join(", "),
        loops.join(", ")
    )
}

/// The index (and with `both` the value) of the largest or smallest element along the `R` axes.
pub fn arg(best: &str, dtype: &str, shape: &[i64], kinds: &str, form: Form, both: bool) -> Case {
    let dims: Vec<String> = shape.iter().map(|n| n.to_string()).collect();
    let vars = axes("v", shape.len());
    let of = |list: &[String], kind: char| -> Vec<String> {
        list.iter().zip(kinds.chars()).filter(|(_, c)| *c == kind).map(|(d, _)| d.clone()).collect()
    };
    let (kept, gone) = (of(&dims, 'S'), of(&vars, 'R'));
    let at = if kept.is_empty() { "()".to_string() } else { of(&vars, 'S').join(", ") };
    let out = tuple(&kept);
    let index = gone
        .iter()
        .zip(of(&dims, 'R'))
        .fold(String::new(), |sum, (v, n)| if sum.is_empty() { v.clone() } else { format!("({sum}) * {n} + {v}") });
    let lowest = match dtype {
        "int32" => "-2147483648",
        "float16" => "-65504.0",
        _ => "-3.3895313892515355e+38",
    };
    let (op, start) = match best {
        "max" => (">", lowest.to_string()),
        _ => ("<", lowest.trim_start_matches('-').replace("2147483648", "2147483647")),
    };
    let (own, new) = (format!("V[{at}]"), format!("A[{}]", vars.join(", ")));
    let (old, next) = (format!("I[{at}]"), index);
    let chosen = match form {
        Form::First => format!("T.Select({own} {op} {new} or ({own} == {new} and {old} < {next}), {old}, {next})"),
        Form::Last => format!("T.Select({new} {op} {own} or ({own} == {new} and {next} > {old}), {next}, {old})"),
        Form::Earlier => format!("T.Select({own} {op}= {new}, {old}, {next})"),
        Form::Later => format!("T.Select({new} {op}= {own}, {next}, {old})"),
    };
    let value = match form {
        Form::First | Form::Earlier => format!("T.Select({own} {op} {new}, {own}, {new})"),
        Form::Last | Form::Later => format!("T.{best}({new}, {own})"),
    };
    let (i, v) = ("I", "V");
    let mut text = format!("@T.prim_func(s_tir=True)\ndef main(A: T.Buffer({}, \"{dtype}\"), ", tuple(&dims));
    if both {
        text += &format!("{i}: T.Buffer({out}, \"int32\"), {v}: T.Buffer({out}, \"{dtype}\")):\n");
    } else {
        text += &format!("O: T.Buffer({out}, \"int32\")):\n");
        text += &format!("    I = T.sblock_alloc_buffer({out}, \"int32\")\n");
        text += &format!("    V = T.sblock_alloc_buffer({out}, \"{dtype}\")\n");
    }
    text += &nest("arg", &vars, &dims, kinds);
    text += &format!(
        "            with T.init():\n                I[{at}] = -1\n                V[{at}] = T.{dtype}({start})\n"
    );
    text += &format!("            a: T.let[T.int32] = {chosen}\n            b: T.let[T.{dtype}] = {value}\n");
    text += &format!("            I[{at}] = a\n            V[{at}] = b\n");
    if !both {
        let js = axes("w", kept.len());
        let to = if js.is_empty() { "()".to_string() } else { js.join(", ") };
        text += &match js.is_empty() {
            true => format!("    with T.sblock(\"copy\"):\n        O[{to}] = I[{to}]\n"),
            false => format!("{}            O[{to}] = I[{to}]\n", nest("copy", &js, &kept, &"S".repeat(kept.len()))),
        };
    }
    let name =
        format!("arg{best}-{}-{kinds}-{dtype}-{}{}", dims.join("x"), form as u8, if both { "-both" } else { "" });
    let length = kinds.chars().zip(shape).filter(|(c, _)| *c == 'R').map(|(_, n)| n).product();
    Case { name, text, extents: vec![], length }
}

/// Mean and variance along the `R` axes: two sums kept side by side, two small outputs, of which the
/// second reads the first.
pub fn stats(dtype: &str, shape: &[i64], kinds: &str) -> Case {
    let dims: Vec<String> = shape.iter().map(|n| n.to_string()).collect();
    let vars = axes("v", shape.len());
    let of = |list: &[String], kind: char| -> Vec<String> {
        list.iter().zip(kinds.chars()).filter(|(_, c)| *c == kind).map(|(d, _)| d.clone()).collect()
    };
    let kept = of(&dims, 'S');
    let (at, out) = (of(&vars, 'S').join(", "), tuple(&kept));
    let length: i64 = kinds.chars().zip(shape).filter(|(c, _)| *c == 'R').map(|(_, n)| n).product();
    let x = format!("A[{}]", vars.join(", "));
    let mut text = format!(
        "@T.prim_func(s_tir=True)
def main(A: T.Buffer({}, \"{dtype}\"), M: T.Buffer({out}, \"{dtype}\"), V: T.Buffer({out}, \"{dtype}\")):
    S = T.sblock_alloc_buffer({out}, \"{dtype}\")
    Q = T.sblock_alloc_buffer({out}, \"{dtype}\")
",
        tuple(&dims)
    );
    text += &nest("sums", &vars, &dims, kinds);
    text += &format!(
        "            with T.init():
                S[{at}] = T.{dtype}(0.0)
                Q[{at}] = T.{dtype}(0.0)
            a: T.let[T.{dtype}] = S[{at}] + {x}
            b: T.let[T.{dtype}] = Q[{at}] + {x} * {x}
            S[{at}] = a
            Q[{at}] = b
"
    );
    let js = axes("w", kept.len());
    let to = js.join(", ");
    let share = 1.0 / length as f64;
    text += &nest("mean", &js, &kept, &"S".repeat(kept.len()));
    text += &format!("            M[{to}] = S[{to}] * T.{dtype}({share})\n");
    text += &nest("var", &js, &kept, &"S".repeat(kept.len()));
    text += &format!("            V[{to}] = Q[{to}] * T.{dtype}({share}) - M[{to}] * M[{to}]\n");
    Case { name: format!("stats-{}-{kinds}-{dtype}", dims.join("x")), text, extents: vec![], length }
}

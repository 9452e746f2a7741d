//! Small functions in TVMScript, for every rule.

use super::harness::Case;

fn list(items: &[String]) -> String {
    format!("({}{})", items.join(", "), if items.len() == 1 { "," } else { "" })
}

/// A reduction of `kinds.len()` axes (`S` or `R` each) over `shape`: `op` is `sum`, `prod`, `max` or
/// `min`; with an epilogue that scales where `scale` is set.
pub fn reduction(op: &str, dtype: &str, shape: &[i64], kinds: &str, scale: bool) -> Case {
    let dims: Vec<String> = shape.iter().map(|n| n.to_string()).collect();
    let axes: Vec<String> = (0..shape.len()).map(|i| format!("v{i}")).collect();
    let loops: Vec<String> = (0..shape.len()).map(|i| format!("k{i}")).collect();
    let kept: Vec<usize> = kinds.char_indices().filter(|(_, c)| *c == 'S').map(|(i, _)| i).collect();
    let out_shape = list(&kept.iter().map(|i| dims[*i].clone()).collect::<Vec<_>>());
    let at = match kept.len() {
        0 => "()".to_string(),
        _ => kept.iter().map(|i| axes[*i].clone()).collect::<Vec<_>>().join(", "),
    };
    let (identity, lowest) = match dtype {
        "int32" => ("0", "-2147483648"),
        "float16" => ("0.0", "-65504.0"),
        _ => ("0.0", "-3.3895313892515355e+38"),
    };
    let init = match op {
        "sum" => identity.to_string(),
        "prod" => identity.replace('0', "1").replacen("1.1", "1.0", 1),
        "max" => lowest.to_string(),
        _ => lowest.trim_start_matches('-').replace("2147483648", "2147483647"),
    };
    let to = if scale { "R0" } else { "O" };
    let read = format!("A[{}]", axes.join(", "));
    let update = match op {
        "sum" => format!("{to}[{at}] + {read}"),
        "prod" => format!("{to}[{at}] * {read}"),
        _ => format!("T.{op}({to}[{at}], {read})"),
    };
    let remap: String = if shape.len() == 1 {
        format!("v0 = T.axis.{}({}, k0)", if kinds == "R" { "reduce" } else { "spatial" }, dims[0])
    } else {
        format!("{} = T.axis.remap(\"{kinds}\", [{}])", axes.join(", "), loops.join(", "))
    };
    let head = if shape.len() == 1 {
        format!("for k0 in range({})", dims[0])
    } else {
        format!("for {} in T.grid({})", loops.join(", "), dims.join(", "))
    };
    let mut text = format!(
        "@T.prim_func(s_tir=True)\ndef main(A: T.Buffer({}, \"{dtype}\"), O: T.Buffer({out_shape}, \"{dtype}\")):\n",
        list(&dims)
    );
    if scale {
        text += &format!("    R0 = T.sblock_alloc_buffer({out_shape}, \"{dtype}\")\n");
    }
    text += &format!(
        "    {head}:\n        with T.sblock(\"red\"):\n            {remap}\n            with T.init():\n                {to}[{at}] = T.{dtype}({init})\n            {to}[{at}] = {update}\n"
    );
    if scale {
        text += &epilogue(&kept, &dims, dtype);
    }
    let name = format!("{op}-{}-{kinds}-{dtype}{}", dims.join("x"), if scale { "-scaled" } else { "" });
    let length = kinds.chars().zip(shape).filter(|(c, _)| *c == 'R').map(|(_, n)| n).product();
    Case { name, text, extents: vec![], length }
}

fn epilogue(kept: &[usize], dims: &[String], dtype: &str) -> String {
    let value = if dtype == "int32" { "T.int32(3)".to_string() } else { format!("T.{dtype}(0.25)") };
    match kept {
        [] => format!("    with T.sblock(\"scale\"):\n        O[()] = R0[()] * {value}\n"),
        [one] => format!(
            "    for j in range({0}):\n        with T.sblock(\"scale\"):\n            w = T.axis.spatial({0}, j)\n            O[w] = R0[w] * {value}\n",
            dims[*one]
        ),
        _ => {
            let js: Vec<String> = kept.iter().map(|i| format!("j{i}")).collect();
            let ws: Vec<String> = kept.iter().map(|i| format!("w{i}")).collect();
            let grid: Vec<String> = kept.iter().map(|i| dims[*i].clone()).collect();
            format!(
                "    for {} in T.grid({}):\n        with T.sblock(\"scale\"):\n            {} = T.axis.remap(\"{}\", [{}])\n            O[{w}] = R0[{w}] * {value}\n",
                js.join(", "),
                grid.join(", "),
                ws.join(", "),
                "S".repeat(kept.len()),
                js.join(", "),
                w = ws.join(", ")
            )
        }
    }
}

/// y[n] = sum_k W[n, k] x[k] accumulated in float32, or with W[k, n]; a bias where `bias` is set.
pub fn gemv(dtype: &str, n: i64, k: i64, transposed: bool, bias: bool) -> Case {
    let (shape, w) =
        if transposed { (format!("({k}, {n})"), "W[vk, vn]") } else { (format!("({n}, {k})"), "W[vn, vk]") };
    let cast = |e: &str| if dtype == "float32" { e.to_string() } else { format!("T.Cast(\"float32\", {e})") };
    let extra = if bias { format!(", B: T.Buffer(({n},), \"{dtype}\")") } else { String::new() };
    let value = if bias { format!("C[w] + {}", cast("B[w]")) } else { "C[w]".to_string() };
    let value = if dtype == "float32" { value } else { format!("T.Cast(\"{dtype}\", {value})") };
    let text = format!(
        "@T.prim_func(s_tir=True)
def main(X: T.Buffer(({k},), \"{dtype}\"), W: T.Buffer({shape}, \"{dtype}\"){extra}, Y: T.Buffer(({n},), \"{dtype}\")):
    C = T.sblock_alloc_buffer(({n},))
    for i, r in T.grid({n}, {k}):
        with T.sblock(\"C\"):
            vn, vk = T.axis.remap(\"SR\", [i, r])
            with T.init():
                C[vn] = T.float32(0.0)
            C[vn] = C[vn] + {} * {}
    for j in range({n}):
        with T.sblock(\"Y\"):
            w = T.axis.spatial({n}, j)
            Y[w] = {value}
",
        cast("X[vk]"),
        cast(w)
    );
    let layout = if transposed { "kn" } else { "nk" };
    Case {
        name: format!("gemv-{n}x{k}-{layout}-{dtype}{}", if bias { "-bias" } else { "" }),
        text,
        extents: vec![],
        length: 0,
    }
}

/// A batch of matrix-vector products: S[h, j] = sum_d Q[h, d] K[h, j, d].
pub fn batched_gemv(h: i64, j: i64, d: i64) -> Case {
    let text = format!(
        "@T.prim_func(s_tir=True)
def main(Q: T.Buffer(({h}, {d}), \"float32\"), K: T.Buffer(({h}, {j}, {d}), \"float32\"), S: T.Buffer(({h}, {j}), \"float32\")):
    for a, b, c in T.grid({h}, {j}, {d}):
        with T.sblock(\"S\"):
            va, vb, vc = T.axis.remap(\"SSR\", [a, b, c])
            with T.init():
                S[va, vb] = T.float32(0.0)
            S[va, vb] = S[va, vb] + Q[va, vc] * K[va, vb, vc]
"
    );
    Case { name: format!("batched-gemv-{h}x{j}x{d}"), text, extents: vec![], length: 0 }
}

/// O = f(A) for an injective expression over `a[i, j]` and a row `b[j]`.
pub fn elementwise(dtype: &str, m: i64, n: i64, value: &str) -> Case {
    let text = format!(
        "@T.prim_func(s_tir=True)
def main(A: T.Buffer(({m}, {n}), \"{dtype}\"), B: T.Buffer(({n},), \"{dtype}\"), O: T.Buffer(({m}, {n}), \"{dtype}\")):
    C = T.sblock_alloc_buffer(({m}, {n}), \"{dtype}\")
    for i, j in T.grid({m}, {n}):
        with T.sblock(\"C\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            C[vi, vj] = A[vi, vj] + B[vj]
    for i, j in T.grid({m}, {n}):
        with T.sblock(\"O\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            O[vi, vj] = {value}
"
    );
    Case { name: format!("elementwise-{m}x{n}-{dtype}-{value}"), text, extents: vec![], length: 0 }
}

/// Row sums with a symbolic number of rows and, where `width` is `None`, of columns.
pub fn symbolic_rows(rows: i64, width: Option<i64>) -> Case {
    let (header, w) = match width {
        Some(n) => (String::new(), format!("T.int64({n})")),
        None => ("m = TypeVar(\"m\")\n".to_string(), "m".to_string()),
    };
    let text = format!(
        "n = TypeVar(\"n\")
{header}@T.prim_func(s_tir=True)
def main(A: T.Buffer((n, {w}), \"float32\"), O: T.Buffer((n,), \"float32\")):
    for i, k in T.grid(n, {w}):
        with T.sblock(\"O\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                O[vi] = T.float32(0.0)
            O[vi] = O[vi] + A[vi, vk]
"
    );
    let mut extents = vec![("n", rows)];
    if width.is_none() {
        extents.push(("m", 77));
    }
    Case { name: format!("symbolic-rows-{rows}x{width:?}"), text, extents, length: 0 }
}

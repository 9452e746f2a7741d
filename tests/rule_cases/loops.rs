//! Small functions as a few lines of loops, as headers of rules show them.
//!
//! ```text
//! float32 A[64, 256], float32 B[8]            parameters that are read
//! float32 M[i] max= A[i, k]                   a block; indices that it does not store at are reduced
//! float32 O[i, r] = exp(A[i, 2 * r]) | r < 4  a result, whose name starts with O; extents that no shape tells
//! float32 O[i] = O[i] + A[i, k] | in order    a block with a loop inside over what would be reduced
//! ```

use std::collections::BTreeMap;

/// A buffer.
struct Tensor {
    name: String,
    dtype: String,
    shape: Vec<String>,
}

impl Tensor {
    fn typed(&self) -> String {
        let comma = if self.shape.len() == 1 { "," } else { "" };
        format!("({}{comma}), \"{}\"", self.shape.join(", "), self.dtype)
    }
}

/// `name[indices]` at the start of a text.
fn access(text: &str) -> Option<(&str, Vec<&str>, &str)> {
    let (name, rest) = text.split_once('[')?;
    let (mut depth, mut from, mut list) = (0, 0, vec![]);
    for (i, c) in rest.char_indices() {
        match c {
            '[' | '(' => depth += 1,
            ',' if depth == 0 => {
                list.push(rest[from..i].trim());
                from = i + 1;
            }
            ']' if depth == 0 => {
                list.push(rest[from..i].trim());
                return Some((name, list, &rest[i + 1..]));
            }
            ']' | ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Words, numbers and single characters.
fn tokens(text: &str) -> Vec<&str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let (mut out, mut rest) = (vec![], text);
    while let Some(c) = rest.chars().next() {
        let n = if word(c) { rest.find(|c| !word(c)).unwrap_or(rest.len()) } else { c.len_utf8() };
        out.push(&rest[..n]);
        rest = &rest[n..];
    }
    out
}

fn is_type(word: &str) -> bool {
    ["float", "int", "uint", "bfloat"].iter().any(|t| word.strip_prefix(t).is_some_and(|n| n.parse::<u8>().is_ok()))
}

fn is_index(word: &str) -> bool {
    word.len() == 1 && word.chars().all(|c| c.is_ascii_lowercase())
}

/// An expression in TVMScript: calls and types are those of `T`, indices are those of blocks.
fn script(text: &str) -> String {
    let all = tokens(text);
    let write = |(i, word): (usize, &&str)| {
        let call = all.get(i + 1) == Some(&"(");
        let literal = all.get(i + 2).is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()));
        match *word {
            "(" if i > 0 && is_type(all[i - 1]) && !all[i + 1].starts_with(|c: char| c.is_ascii_digit()) => {
                String::new()
            }
            w if is_type(w) && call && !literal => format!("T.Cast(\"{w}\", "),
            w if call && w.starts_with(|c: char| c.is_ascii_lowercase()) => format!("T.{w}"),
            w if is_index(w) => format!("v{w}"),
            w => w.to_string(),
        }
    };
    all.iter().enumerate().map(write).collect()
}

/// The function in TVMScript.
pub fn function(text: &str) -> String {
    let (mut known, mut given, mut body, mut made): (Vec<Tensor>, usize, String, Vec<String>) =
        (vec![], 0, String::new(), vec![]);
    for line in text.lines() {
        match line.split_once("] ").filter(|(_, rest)| rest.contains("= ")) {
            None => {
                for one in line.split("], ") {
                    let (dtype, rest) = one.split_once(' ').expect("a type and a tensor");
                    let closed = format!("{}]", rest.trim_end_matches(']'));
                    let (name, shape, _) = access(&closed).expect("a tensor has a shape");
                    let shape = shape.iter().map(|s| s.to_string()).collect();
                    known.push(Tensor { name: name.into(), dtype: dtype.into(), shape });
                }
                given = known.len();
            }
            Some(_) => {
                let (tensor, text) = block(line, &known);
                made.push(tensor.name.clone());
                known.push(tensor);
                body += &text;
            }
        }
    }
    let (own, results): (Vec<&Tensor>, Vec<&Tensor>) = known[given..].iter().partition(|t| !t.name.starts_with('O'));
    let params = known[..given].iter().chain(results);
    let params: Vec<String> = params.map(|t| format!("{}: T.Buffer({})", t.name, t.typed())).collect();
    let own: String = own.iter().map(|t| format!("    {} = T.sblock_alloc_buffer({})\n", t.name, t.typed())).collect();
    format!("@T.prim_func(s_tir=True)\ndef main({}):\n{own}{body}", params.join(", "))
}

/// One line as a block, and what it writes.
fn block(line: &str, known: &[Tensor]) -> (Tensor, String) {
    let (line, bounds) = line.split_once(" | ").unwrap_or((line, ""));
    let in_order = bounds == "in order";
    let (dtype, rest) = line.split_once(' ').expect("a type and a tensor");
    let (name, at, rest) = access(rest).expect("a tensor with indices");
    let (op, value) = rest.trim().split_once("= ").expect("a value");
    let bounds = bounds.split(", ").filter_map(|b| b.split_once(" < "));
    let mut extents: BTreeMap<String, String> = bounds.map(|(i, n)| (i.into(), n.into())).collect();
    for (i, _) in value.match_indices('[') {
        let from = value[..i].rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |p| p + 1);
        let Some((tensor, list, _)) = access(&value[from..]) else { continue };
        let Some(read) = known.iter().find(|t| t.name == tensor) else { continue };
        for (index, n) in list.iter().zip(&read.shape).filter(|(index, _)| is_index(index)) {
            extents.entry(index.to_string()).or_insert(n.clone());
        }
    }
    let mut reduced: Vec<&str> = vec![];
    for word in tokens(value).into_iter().filter(|w| is_index(w) && !at.contains(w)) {
        if !reduced.contains(&word) {
            reduced.push(word);
        }
    }
    let steps = if in_order { std::mem::take(&mut reduced) } else { vec![] };
    let all: Vec<&str> = at.iter().copied().filter(|i| is_index(i)).chain(reduced.iter().copied()).collect();
    let extent =
        |i: &str| extents.get(i).unwrap_or_else(|| panic!("no shape tells how far `{i}` goes: {line}")).clone();
    let kinds = "S".repeat(all.len() - reduced.len()) + &"R".repeat(reduced.len());
    let list = |of: &dyn Fn(&str) -> String| all.iter().map(|i| of(i)).collect::<Vec<_>>().join(", ");
    let (loops, ends, iters) = (all.join(", "), list(&extent), list(&|i| format!("v{i}")));
    let mut text = match all.len() {
        1 => format!("    for {loops} in range({ends}):\n        with T.sblock(\"{name}\"):\n"),
        _ => format!("    for {loops} in T.grid({ends}):\n        with T.sblock(\"{name}\"):\n"),
    };
    text += &match all.len() {
        1 => format!(
            "            {iters} = T.axis.{}({ends}, {loops})\n",
            if kinds == "S" { "spatial" } else { "reduce" }
        ),
        _ => format!("            {iters} = T.axis.remap(\"{kinds}\", [{loops}])\n"),
    };
    let to = format!("{name}[{}]", at.iter().map(|e| script(e)).collect::<Vec<_>>().join(", "));
    let start = match (op, dtype) {
        ("max", "float16") => Some("-65504.0"),
        ("max", _) => Some("-3.4028234663852886e+38"),
        ("+", d) if d.contains("int") && !d.contains("float") => Some("0"),
        ("+", _) => Some("0.0"),
        _ => None,
    };
    if let Some(start) = start {
        text += &format!("            with T.init():\n                {to} = T.{dtype}({start})\n");
    }
    let mut inner = "            ".to_string();
    for step in steps {
        text += &format!("{inner}for v{step} in range({}):\n", extent(step));
        inner += "    ";
    }
    let value = script(value);
    text += &match op {
        "" => format!("{inner}{to} = {value}\n"),
        "+" => format!("            {to} = {to} + {value}\n"),
        op => format!("            {to} = T.{op}({to}, {value})\n"),
    };
    let shape = at.iter().map(|i| if is_index(i) { extent(i) } else { "1".into() }).collect();
    (Tensor { name: name.into(), dtype: dtype.into(), shape }, text)
}

//! A scheduled function as its loops: their kinds and extents, what marks them, and what is written from what.

use daylight::ir::{AttrValue, BinOp, Expr, ExprKind, For, ForKind, Name, PrimFunc, Scope, Stmt};

/// One line for each run of loops, with what is inside of it below. Loops of one step are left out.
pub fn nest(func: &PrimFunc) -> Vec<String> {
    let mut out = vec![];
    list(func, &func.body, 0, &mut out);
    out
}

fn list(func: &PrimFunc, body: &[Stmt], depth: usize, out: &mut Vec<String>) {
    body.iter().for_each(|s| stmt(func, s, depth, out));
}

fn stmt(func: &PrimFunc, s: &Stmt, depth: usize, out: &mut Vec<String>) {
    match s {
        Stmt::For(_) => {
            let (mut loops, mut inner) = (vec![], std::slice::from_ref(s));
            while let [Stmt::For(l)] = inner {
                loops.extend(label(l));
                inner = &l.body;
            }
            let (at, mut below) = (out.len(), vec![]);
            list(func, inner, 0, &mut below);
            let pad = "  ".repeat(depth);
            match (&loops[..], &below[..]) {
                ([], _) => out.extend(below.iter().map(|l| format!("{pad}{l}"))),
                (_, [one]) => out.push(format!("{pad}{}: {one}", loops.join(", "))),
                _ => {
                    out.insert(at, format!("{pad}{}:", loops.join(", ")));
                    out.extend(below.iter().map(|l| format!("{pad}  {l}")));
                }
            }
        }
        Stmt::Block(b) => {
            let marks = marks(&b.attrs);
            let first = out.len();
            list(func, &b.body, depth, out);
            if let (Some(line), false) = (out.get_mut(first), marks.is_empty()) {
                *line += &format!(" {marks}");
            }
        }
        Stmt::If { then, otherwise, .. } => {
            list(func, then, depth, out);
            list(func, otherwise, depth, out);
        }
        Stmt::Store { buffer, value, .. } => out.push(format!("{}{}", "  ".repeat(depth), store(func, buffer, value))),
        Stmt::While { body, .. } | Stmt::Attr { body, .. } => list(func, body, depth, out),
        Stmt::Let { .. } | Stmt::Evaluate(_) | Stmt::Alloc { .. } => {}
    }
}

fn label(l: &For) -> Option<String> {
    let kind = match l.kind {
        ForKind::Serial => "loop",
        ForKind::Parallel => "parallel",
        ForKind::Vectorized => "vector",
        ForKind::Unrolled => "unroll",
        ForKind::Thread(tag) => tag.name(),
    };
    let marks = marks(&l.annotations);
    let gap = if marks.is_empty() { "" } else { " " };
    (!l.extent.is_int(1) || gap == " ").then(|| format!("{kind} {}{gap}{marks}", l.extent))
}

fn marks(all: &[(String, AttrValue)]) -> String {
    let value = |v: &AttrValue| match v {
        AttrValue::Str(s) => s.clone(),
        AttrValue::Int(n) => n.to_string(),
        other => format!("{other:?}").chars().filter(|c| c.is_ascii_digit() || *c == ',').collect(),
    };
    let list: Vec<String> = all.iter().map(|(k, v)| format!("{k}={}", value(v))).collect();
    if list.is_empty() { String::new() } else { format!("[{}]", list.join(" ")) }
}

/// `to += a, b`: what is written, how it takes in what was there, and what else is read.
fn store(func: &PrimFunc, to: &Name, value: &Expr) -> String {
    let named = |b: &Name| match (func.display_name(b), &func.buffer(b).scope) {
        (name, Scope::Global) => name.to_string(),
        (name, scope) if name.ends_with(scope.name()) => name.to_string(),
        (name, scope) => format!("{name}.{}", scope.name()),
    };
    let op = match value.kind() {
        ExprKind::Binary { op, .. } if value.loads(to) => match op {
            BinOp::Add => "+=",
            BinOp::Max => "max=",
            _ => "op=",
        },
        _ => "=",
    };
    let mut from: Vec<String> = vec![];
    value.visit(&mut |e| {
        if let ExprKind::Load { buffer, .. } = e.kind()
            && buffer != to
            && !from.contains(&named(buffer))
        {
            from.push(named(buffer));
        }
    });
    let from = if from.is_empty() { "0".to_string() } else { from.join(", ") };
    format!("{} {op} {from}", named(to))
}

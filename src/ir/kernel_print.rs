//! Prints a `Program` as C-like lines for people, golden files and `--emit kernel`. One statement a
//! line, canonical names, minimal parentheses.

use super::kernel::{
    Array, ArrayScope, Barrier, CacheHint, KStmt, Kernel, KernelParam, Launch, LoopKind, Program, ShuffleMode,
};
use super::{BinOp, Expr, ExprKind, Param, UnOp};
use std::fmt::{self, Display, Formatter};

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let params: Vec<String> = self.params.iter().map(param_text).collect();
        writeln!(f, "program {}({})", self.name, params.join(", "))?;
        for (name, dtype) in &self.extents {
            writeln!(f, "extent {name}: {dtype}")?;
        }
        for w in &self.workspaces {
            writeln!(f, "workspace {}: {}[{}]", w.name, w.dtype, text(&w.len))?;
        }
        self.launches.iter().try_for_each(|l| write!(f, "{l}"))
    }
}

fn param_text(p: &Param) -> String {
    match p {
        Param::Buffer(name) => name.to_string(),
        Param::Scalar { name, dtype } => format!("{name}: {dtype}"),
    }
}

impl Display for Launch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let shape = shape_text(&self.grid, self.block, self.cluster, self.min_blocks);
        write!(f, "\n{shape}\n{}", self.kernel)
    }
}

/// The line that says how many blocks and threads there are.
pub(super) fn shape_text(grid: &[Expr; 3], [x, y, z]: [u32; 3], cluster: u32, min_blocks: Option<u32>) -> String {
    let grid: Vec<String> = grid.iter().map(text).collect();
    let cluster = if cluster > 1 { format!(" cluster {cluster}") } else { String::new() };
    let min_blocks = min_blocks.map_or_else(String::new, |n| format!(" min_blocks {n}"));
    format!("launch grid({}) block({x}, {y}, {z}){cluster}{min_blocks}", grid.join(", "))
}

impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let params: Vec<String> = self.params.iter().map(kernel_param).collect();
        writeln!(f, "kernel {}({}) {{", self.symbol, params.join(", "))?;
        for a in &self.arrays {
            writeln!(f, "  {}", array_text(a))?;
        }
        self.body.iter().try_for_each(|s| stmt(f, s, 1))?;
        writeln!(f, "}}")
    }
}

impl KStmt {
    /// The statement as one line; of a loop or conditional its head.
    pub fn head(&self) -> String {
        let head = match self {
            KStmt::For { var, extent, live, kind, .. } => {
                let (var, extent) = (var.clone(), extent.clone());
                KStmt::For { var, extent, live: live.clone(), kind: *kind, body: vec![] }
            }
            KStmt::If { cond, .. } => KStmt::If { cond: cond.clone(), then: vec![], otherwise: vec![] },
            leaf => leaf.clone(),
        };
        let text = Lines(&head).to_string();
        text.lines().next().unwrap_or_default().trim_end_matches(" {").to_string()
    }
}

/// A statement with everything inside it.
struct Lines<'a>(&'a KStmt);

impl Display for Lines<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        stmt(f, self.0, 0)
    }
}

fn kernel_param(p: &KernelParam) -> String {
    match p {
        KernelParam::Pointer { name, dtype, written, len } => {
            format!("{}{dtype} {name}[{}]", if *written { "" } else { "const " }, text(len))
        }
        KernelParam::Scalar { name, dtype } => format!("{dtype} {name}"),
        KernelParam::TensorMap(map) => map.to_string(),
    }
}

fn array_text(a: &Array) -> String {
    let scope = match a.scope {
        ArrayScope::Shared => "shared",
        ArrayScope::Register => "register",
        ArrayScope::Tensor => "tensor",
    };
    format!("{scope} {} {}[{}] align {}", a.dtype, a.name, a.len, a.align)
}

fn stmt(f: &mut Formatter<'_>, s: &KStmt, depth: usize) -> fmt::Result {
    let pad = "  ".repeat(depth);
    match s {
        KStmt::Let { var, value } => writeln!(f, "{pad}let {} {var} = {}", value.dtype(), text(value)),
        KStmt::Var { var, dtype, init: Some(e) } => writeln!(f, "{pad}{dtype} {var} = {}", text(e)),
        KStmt::Var { var, dtype, init: None } => writeln!(f, "{pad}{dtype} {var}"),
        KStmt::Assign { var, value } => writeln!(f, "{pad}{var} = {}", text(value)),
        KStmt::Store { array, index, value, hint: CacheHint::Plain } => {
            writeln!(f, "{pad}{array}[{}] = {}", text(index), text(value))
        }
        KStmt::Store { array, index, value, hint } => {
            writeln!(f, "{pad}store{} {array}[{}] = {}", hint_text(*hint), text(index), text(value))
        }
        KStmt::Prefetch { array, index } => writeln!(f, "{pad}prefetch {array}[{}]", text(index)),
        KStmt::Copy { dst, dst_index, src, src_index, lanes, hint } => {
            let (d, s) = (text(dst_index), text(src_index));
            writeln!(f, "{pad}copy{lanes}{} {dst}[{d}] <- {src}[{s}]", hint_text(*hint))
        }
        KStmt::For { var, extent, live, kind, body } => {
            let (kind, dtype, live) = (loop_text(*kind), extent.dtype(), live_text(live.as_ref()));
            writeln!(f, "{pad}{kind} {dtype} {var} < {}{live} {{", text(extent))?;
            body.iter().try_for_each(|s| stmt(f, s, depth + 1))?;
            writeln!(f, "{pad}}}")
        }
        KStmt::If { cond, then, otherwise } => {
            writeln!(f, "{pad}if {} {{", text(cond))?;
            then.iter().try_for_each(|s| stmt(f, s, depth + 1))?;
            if !otherwise.is_empty() {
                writeln!(f, "{pad}}} else {{")?;
                otherwise.iter().try_for_each(|s| stmt(f, s, depth + 1))?;
            }
            writeln!(f, "{pad}}}")
        }
        KStmt::Barrier(Barrier::Warp) => writeln!(f, "{pad}barrier warp"),
        KStmt::Barrier(Barrier::Block) => writeln!(f, "{pad}barrier block"),
        KStmt::Barrier(Barrier::Named { id, threads }) => writeln!(f, "{pad}barrier {id} of {threads} threads"),
        KStmt::Barrier(Barrier::ClusterArrive { release }) => {
            writeln!(f, "{pad}cluster arrive{}", if *release { "" } else { " relaxed" })
        }
        KStmt::Barrier(Barrier::ClusterWait) => writeln!(f, "{pad}cluster wait"),
        KStmt::Instr(i) => writeln!(f, "{pad}{i}"),
        KStmt::Shuffle { dst, mode, value, width } => {
            writeln!(f, "{pad}{dst} = shuffle.{}({}, width {width})", mode_text(*mode), text(value))
        }
    }
}

pub(super) fn hint_text(hint: CacheHint) -> &'static str {
    match hint {
        CacheHint::Plain => "",
        CacheHint::Streaming => ".streaming",
        CacheHint::NoAllocate => ".no_allocate",
        CacheHint::NoAllocate256 => ".no_allocate_256",
    }
}

fn loop_text(kind: LoopKind) -> &'static str {
    match kind {
        LoopKind::Serial => "for",
        LoopKind::Unrolled => "unroll",
        LoopKind::Vectorized => "vector",
    }
}

/// Under which condition a loop goes on.
pub(super) fn live_text(live: Option<&Expr>) -> String {
    live.map_or_else(String::new, |e| format!(" while {}", text(e)))
}

fn mode_text(mode: ShuffleMode) -> String {
    match mode {
        ShuffleMode::Xor(m) => format!("xor{m}"),
        ShuffleMode::Down(d) => format!("down{d}"),
        ShuffleMode::Index(i) => format!("index{i}"),
    }
}

/// An expression as C-like text.
pub(super) fn text(e: &Expr) -> String {
    let mut out = String::new();
    put(&mut out, e, 0);
    out
}

/// Binding strength of an operator and its spelling; functions have no spelling of their own.
fn operator(op: BinOp) -> (u8, &'static str) {
    match op {
        BinOp::Mul => (9, "*"),
        BinOp::Div | BinOp::TruncDiv => (9, "/"),
        BinOp::FloorDiv => (9, "//"),
        BinOp::FloorMod | BinOp::TruncMod => (9, "%"),
        BinOp::Add => (8, "+"),
        BinOp::Sub => (8, "-"),
        BinOp::Shl => (7, "<<"),
        BinOp::Shr => (7, ">>"),
        BinOp::BitAnd => (6, "&"),
        BinOp::BitXor => (5, "^"),
        BinOp::BitOr => (4, "|"),
        BinOp::Eq => (3, "=="),
        BinOp::Ne => (3, "!="),
        BinOp::Lt => (3, "<"),
        BinOp::Le => (3, "<="),
        BinOp::Gt => (3, ">"),
        BinOp::Ge => (3, ">="),
        BinOp::And => (2, "&&"),
        BinOp::Or => (1, "||"),
        BinOp::Min => (0, "min"),
        BinOp::Max => (0, "max"),
    }
}

fn put(out: &mut String, e: &Expr, outer: u8) {
    match e.kind() {
        ExprKind::Int { value, dtype: super::DType::Bool } => out.push_str(if *value != 0 { "true" } else { "false" }),
        ExprKind::Int { value, .. } => out.push_str(&value.to_string()),
        ExprKind::Float { bits, .. } => out.push_str(&format!("{:?}", f64::from_bits(*bits))),
        ExprKind::Str(s) => out.push_str(&format!("{s:?}")),
        ExprKind::Var { name, .. } => out.push_str(name.as_str()),
        ExprKind::Load { buffer, indices, .. } => {
            out.push_str(buffer.as_str());
            list(out, indices, '[', ']');
        }
        ExprKind::Unary { op, arg } => {
            out.push_str(match op {
                UnOp::Neg => "-",
                UnOp::Not => "!",
                UnOp::BitNot => "~",
            });
            put(out, arg, 10);
        }
        ExprKind::Binary { op, a, b } => binary(out, *op, a, b, outer),
        ExprKind::Select { cond, then, otherwise } => call(out, "select", &[cond, then, otherwise]),
        ExprKind::IfThenElse { cond, then, otherwise } => call(out, "if_then_else", &[cond, then, otherwise]),
        ExprKind::Cast { dtype, arg } => call(out, &dtype.to_string(), &[arg]),
        ExprKind::Reinterpret { dtype, arg } => call(out, &format!("reinterpret_{dtype}"), &[arg]),
        ExprKind::Call { op, args, .. } => {
            out.push_str(op.name());
            list(out, args, '(', ')');
        }
        ExprKind::Extern { callee, args, .. } => {
            out.push_str(callee);
            list(out, args, '(', ')');
        }
        ExprKind::Let { var, value, body } => {
            out.push_str(&format!("(let {var} = "));
            put(out, value, 0);
            out.push_str(" in ");
            put(out, body, 0);
            out.push(')');
        }
    }
}

fn binary(out: &mut String, op: BinOp, a: &Expr, b: &Expr, outer: u8) {
    let (own, spelling) = operator(op);
    if own == 0 {
        return call(out, spelling, &[a, b]);
    }
    let parens = own < outer;
    if parens {
        out.push('(');
    }
    put(out, a, own);
    out.push_str(&format!(" {spelling} "));
    put(out, b, own + 1);
    if parens {
        out.push(')');
    }
}

fn call(out: &mut String, name: &str, args: &[&Expr]) {
    out.push_str(name);
    let args: Vec<Expr> = args.iter().map(|e| (*e).clone()).collect();
    list(out, &args, '(', ')');
}

pub(super) fn list(out: &mut String, items: &[Expr], open: char, close: char) {
    out.push(open);
    for (i, e) in items.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        put(out, e, 0);
    }
    out.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parentheses_only_where_needed() {
        let v = |n: &str| Expr::var(n, super::super::DType::I32);
        let e = (v("a") + v("b")) * v("c") - (v("d") - v("e"));
        assert_eq!(text(&e), "(a + b) * c - (d - e)");
        let m = Expr::binary(BinOp::Min, v("a") + v("b"), v("c"));
        assert_eq!(text(&(m * v("d"))), "min(a + b, c) * d");
    }
}

//! Texts of functions that are several kernels: products with what normalizes their rows.

use super::harness::Case;

/// What a sum starts from.
pub const ZERO: &str = "T.float32(0.0)";

/// A block: its name, its iterators with extent and kind, what it writes, the value, and where it reduces the
/// value that it starts from.
pub struct Block {
    name: &'static str,
    iters: Vec<(&'static str, i64, char)>,
    writes: String,
    value: String,
    init: Option<&'static str>,
}

/// A block over iterators with their extents.
pub fn block(name: &'static str, iters: &[(&'static str, i64)], writes: &str, value: &str) -> Block {
    let iters = iters.iter().map(|(v, n)| (*v, *n, 'S')).collect();
    Block { name, iters, writes: writes.into(), value: value.into(), init: None }
}

impl Block {
    /// Reduces over one more iterator, from a value on.
    pub fn over(mut self, iter: &'static str, extent: i64, init: &'static str) -> Block {
        self.iters.push((iter, extent, 'R'));
        Block { init: Some(init), ..self }
    }

    /// True where it reads or writes a buffer.
    pub fn uses(&self, buffer: &str) -> bool {
        let access = format!("{buffer}[");
        self.writes.contains(&access) || self.value.contains(&access)
    }

    fn text(&self) -> String {
        let list = |f: &dyn Fn(&(&str, i64, char)) -> String| self.iters.iter().map(f).collect::<Vec<_>>().join(", ");
        let (vars, loops) = (list(&|i| i.0.into()), list(&|i| format!("l{}", i.0)));
        let (extents, kinds): (String, String) = (list(&|i| i.1.to_string()), self.iters.iter().map(|i| i.2).collect());
        let mut out = format!("    for {loops} in T.grid({extents}):\n        with T.sblock(\"{}\"):\n", self.name);
        out += &format!("            {vars} = T.axis.remap(\"{kinds}\", [{loops}])\n");
        if let Some(init) = self.init {
            out += &format!("            with T.init():\n                {} = {init}\n", self.writes);
        }
        out + &format!("            {} = {}\n", self.writes, self.value)
    }
}

/// A function of float32 buffers; those that `params` does not name are its own.
pub fn function(name: String, params: &[&str], buffers: &[(&str, &[i64])], blocks: &[Block]) -> Case {
    let shape = |n: &str| {
        let (_, shape) = buffers.iter().find(|b| b.0 == n).expect("a buffer");
        format!("({},)", shape.iter().map(i64::to_string).collect::<Vec<_>>().join(", "))
    };
    let args: Vec<String> = params.iter().map(|p| format!("{p}: T.Buffer({}, \"float32\")", shape(p))).collect();
    let mut text = format!("@T.prim_func(s_tir=True)\ndef main({}):\n", args.join(", "));
    for (b, _) in buffers.iter().filter(|b| !params.contains(&b.0)) {
        text += &format!("    {b} = T.sblock_alloc_buffer({})\n", shape(b));
    }
    text += &blocks.iter().map(Block::text).collect::<String>();
    Case { name, text, extents: vec![], length: 0 }
}

/// `P = softmax(X)` over the last axis of `X`, by way of `M` and `E`.
pub fn softmax(rows: &[(&'static str, i64)], (j, n): (&'static str, i64)) -> Vec<Block> {
    let v = rows.iter().map(|r| r.0).collect::<Vec<_>>().join(", ");
    let (max, sum, exp) = (format!("M[{v}]"), format!("E[{v}]"), format!("T.exp(X[{v}, {j}] - M[{v}])"));
    let all: Vec<_> = rows.iter().copied().chain([(j, n)]).collect();
    vec![
        block("max", rows, &max, &format!("T.max({max}, X[{v}, {j}])")).over(j, n, "T.float32(-3.4e38)"),
        block("sum", rows, &sum, &format!("{sum} + {exp}")).over(j, n, ZERO),
        block("out", &all, &format!("P[{v}, {j}]"), &format!("{exp} / {sum}")),
    ]
}

//! Functions that work row by row, in TVMScript.

use super::harness::Case;

/// Blocks of a function over `rows` axes and one of columns.
pub struct Rows {
    dims: Vec<String>,
    dtype: &'static str,
    allocs: String,
    body: String,
}

impl Rows {
    fn new(dims: &[&str], dtype: &'static str) -> Rows {
        let dims = dims.iter().map(|d| d.to_string()).collect();
        Rows { dims, dtype, allocs: String::new(), body: String::new() }
    }

    fn row_dims(&self) -> String {
        let rows = &self.dims[..self.dims.len() - 1];
        format!("({},)", rows.join(", "))
    }

    fn all_dims(&self) -> String {
        format!("({})", self.dims.join(", "))
    }

    fn axes(&self) -> (Vec<String>, Vec<String>) {
        let n = self.dims.len();
        ((0..n).map(|i| format!("i{i}")).collect(), (0..n).map(|i| format!("v{i}")).collect())
    }

    /// `name[r] = init; name[r] = update` with `@r` for the row's indices and `@a` for the element's.
    fn reduce(&mut self, name: &str, init: &str, update: &str) {
        let (loops, vars) = self.axes();
        let row = vars[..vars.len() - 1].join(", ");
        let kinds = format!("{}R", "S".repeat(vars.len() - 1));
        let update = update.replace("@r", &row).replace("@a", &vars.join(", "));
        self.allocs += &format!("    {name} = T.sblock_alloc_buffer({})\n", self.row_dims());
        self.body += &format!(
            "    for {} in T.grid({}):
        with T.sblock(\"{name}_b\"):
            {} = T.axis.remap(\"{kinds}\", [{}])
            with T.init():
                {name}[{row}] = T.float32({init})
            {name}[{row}] = {update}
",
            loops.join(", "),
            self.dims.join(", "),
            vars.join(", "),
            loops.join(", ")
        );
    }

    /// A block over all elements; an intermediate unless it writes `O`.
    fn full(&mut self, name: &str, value: &str) {
        let (loops, vars) = self.axes();
        let row = vars[..vars.len() - 1].join(", ");
        let value = value.replace("@r", &row).replace("@a", &vars.join(", ")).replace("@c", &vars[vars.len() - 1]);
        if name != "O" {
            self.allocs += &format!("    {name} = T.sblock_alloc_buffer({})\n", self.all_dims());
        }
        self.body += &format!(
            "    for {} in T.grid({}):
        with T.sblock(\"{name}_b\"):
            {} = T.axis.remap(\"{}\", [{}])
            {name}[{}] = {value}
",
            loops.join(", "),
            self.dims.join(", "),
            vars.join(", "),
            "S".repeat(vars.len()),
            loops.join(", "),
            vars.join(", ")
        );
    }

    /// A block over rows that writes `O`.
    fn row_output(&mut self, value: &str) {
        let rows = self.dims.len() - 1;
        let (loops, vars) = self.axes();
        let at = vars[..rows].join(", ");
        self.body += &format!(
            "    for {} in T.grid({}):
        with T.sblock(\"O_b\"):
            {} = T.axis.remap(\"{}\", [{}])
            O[{at}] = {}
",
            loops[..rows].join(", "),
            self.dims[..rows].join(", "),
            vars[..rows].join(", "),
            "S".repeat(rows),
            loops[..rows].join(", "),
            value.replace("@r", &at)
        );
        if rows == 1 {
            let one = "v0 = T.axis.remap(\"S\", [i0])\n            O[".to_string();
            let plain = format!("v0 = T.axis.spatial({}, i0)\n            O[", self.dims[0]);
            self.body = self.body.replace(&one, &plain).replace(
                &format!("for i0 in T.grid({}):\n        with T.sblock(\"O_b\")", self.dims[0]),
                &format!("for i0 in range({}):\n        with T.sblock(\"O_b\")", self.dims[0]),
            );
        }
    }

    fn case(self, name: &str, columns: &[&str], whole: bool, extents: &[(&'static str, i64)]) -> Case {
        let (dtype, all) = (self.dtype, self.all_dims());
        let out = if whole { all.clone() } else { self.row_dims() };
        let kind = if whole { dtype } else { "float32" };
        let last = &self.dims[self.dims.len() - 1];
        let weights: String = columns.iter().map(|w| format!("{w}: T.Buffer(({last},), \"{dtype}\"), ")).collect();
        let vars: String = extents.iter().map(|(n, _)| format!("{n} = TypeVar(\"{n}\")\n")).collect();
        let text = format!(
            "{vars}@T.prim_func(s_tir=True)
def main(A: T.Buffer({all}, \"{dtype}\"), {weights}O: T.Buffer({out}, \"{kind}\")):
{}{}",
            self.allocs, self.body
        );
        Case { name: format!("{name}-{}-{dtype}", self.dims.join("x")), text, extents: extents.to_vec(), length: 0 }
    }

    /// An element of `A` in float32.
    fn input(&self) -> &'static str {
        if self.dtype == "float32" { "A[@a]" } else { "T.Cast(\"float32\", A[@a])" }
    }

    fn cast(&self, value: &str) -> String {
        if self.dtype == "float32" { value.to_string() } else { format!("T.Cast(\"{}\", {value})", self.dtype) }
    }

    fn weight(&self, name: &str) -> String {
        if self.dtype == "float32" { format!("{name}[@c]") } else { format!("T.Cast(\"float32\", {name}[@c])") }
    }
}

const LOWEST: &str = "-340282346638528859811704183484516925440.0";

/// Softmax over the last axis.
pub fn softmax(dims: &[&str], dtype: &'static str, extents: &[(&'static str, i64)]) -> Case {
    let mut f = Rows::new(dims, dtype);
    let x = f.input();
    f.reduce("M", LOWEST, &format!("T.max(M[@r], {x})"));
    f.full("E", &format!("T.exp({x} - M[@r])"));
    f.reduce("Z", "0.0", "Z[@r] + E[@a]");
    let out = f.cast("(E[@a] / Z[@r])");
    f.full("O", &out);
    f.case("softmax", &[], true, extents)
}

/// Softmax of scaled elements with a mask for all rows, which every pass reads.
pub fn masked_softmax(dims: &[&str], dtype: &'static str) -> Case {
    let mut f = Rows::new(dims, dtype);
    let scaled = format!("{} * T.float32(0.125) + {}", f.input(), f.weight("W"));
    f.full("Y", &scaled);
    f.reduce("M", LOWEST, "T.max(M[@r], Y[@a])");
    f.full("E", "T.exp(Y[@a] - M[@r])");
    f.reduce("Z", "0.0", "Z[@r] + E[@a]");
    let out = f.cast("(E[@a] / Z[@r])");
    f.full("O", &out);
    f.case("masked_softmax", &["W"], true, &[])
}

/// The logarithm of a softmax.
pub fn log_softmax(dims: &[&str]) -> Case {
    let mut f = Rows::new(dims, "float32");
    f.reduce("M", LOWEST, "T.max(M[@r], A[@a])");
    f.reduce("Z", "0.0", "Z[@r] + T.exp(A[@a] - M[@r])");
    f.full("O", "A[@a] - M[@r] - T.log(Z[@r])");
    f.case("log_softmax", &[], true, &[])
}

/// The logarithm of the sum of exponentials: one value per row.
pub fn log_sum_exp(dims: &[&str]) -> Case {
    let mut f = Rows::new(dims, "float32");
    f.reduce("M", LOWEST, "T.max(M[@r], A[@a])");
    f.reduce("Z", "0.0", "Z[@r] + T.exp(A[@a] - M[@r])");
    f.row_output("T.log(Z[@r]) + M[@r]");
    f.case("log_sum_exp", &[], false, &[])
}

/// Division by the root of the mean square, times weights.
pub fn rms_norm(dims: &[&str], dtype: &'static str, extents: &[(&'static str, i64)]) -> Case {
    let mut f = Rows::new(dims, dtype);
    let x = f.input();
    f.full("Q", &format!("{x} * {x}"));
    f.reduce("S", "0.0", "S[@r] + Q[@a]");
    let out = f.cast(&format!("(T.rsqrt(S[@r] / T.float32(64.0) + T.float32(1e-5)) * {x} * {})", f.weight("W")));
    f.full("O", &out);
    f.case("rms_norm", &["W"], true, extents)
}

/// Mean and variance in two passes, scale and shift.
pub fn layer_norm(dims: &[&str], dtype: &'static str) -> Case {
    let mut f = Rows::new(dims, dtype);
    let (x, n) = (f.input(), dims[dims.len() - 1]);
    let d = format!("({x} - S[@r] / T.float32({n}.0))");
    f.reduce("S", "0.0", &format!("S[@r] + {x}"));
    f.reduce("V", "0.0", &format!("V[@r] + {d} * {d}"));
    let (g, b) = (f.weight("G"), f.weight("B"));
    let out = f.cast(&format!("({d} * T.rsqrt(V[@r] / T.float32({n}.0) + T.float32(1e-5)) * {g} + {b})"));
    f.full("O", &out);
    f.case("layer_norm", &["G", "B"], true, &[])
}

/// A layer norm without weights of the sum of two tensors.
pub fn residual_norm(dims: &[&str], dtype: &'static str) -> Case {
    let mut f = Rows::new(dims, dtype);
    let n = dims[dims.len() - 1];
    let (all, x) = (f.all_dims(), format!("({} + {})", f.input(), f.input().replace('A', "R")));
    let d = format!("({x} - S[@r] / T.float32({n}.0))");
    f.reduce("S", "0.0", &format!("S[@r] + {x}"));
    f.reduce("V", "0.0", &format!("V[@r] + {d} * {d}"));
    let out = f.cast(&format!("({d} * T.rsqrt(V[@r] / T.float32({n}.0) + T.float32(1e-5)))"));
    f.full("O", &out);
    let case = f.case("residual_norm", &[], true, &[]);
    let residual = format!("main(R: T.Buffer({all}, \"{dtype}\"), A: ");
    Case { text: case.text.replace("main(A: ", &residual), ..case }
}

/// Division by the Euclidean norm.
pub fn normalize(dims: &[&str]) -> Case {
    let mut f = Rows::new(dims, "float32");
    f.reduce("S", "0.0", "S[@r] + A[@a] * A[@a]");
    f.full("O", "A[@a] / T.sqrt(T.max(S[@r], T.float32(1e-12)))");
    f.case("normalize", &[], true, &[])
}

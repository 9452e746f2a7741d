//! Products on CUDA cores: programs whose result is known to the last bit.

use super::case::tile_program;
use super::gemm_shapes::{Product, values};
use daylight::interp::Tensor;
use daylight::ir::DType;
use daylight::ir::device::DeviceFunc;

/// One product per thread, or of all threads of a warp or block.
#[derive(Clone)]
struct Fma {
    name: &'static str,
    scope: &'static str,
    /// Of one product.
    extents: [i64; 3],
    threads: i64,
    /// Of D, and of A and B.
    dtypes: (DType, DType),
    /// Where A and B are.
    memory: [&'static str; 2],
    transposed: [bool; 2],
    accum: bool,
    /// Steps along k that are calls of their own.
    calls: i64,
    /// Of D.
    layout: &'static str,
    /// Which threads share a product out: `tx` or part of it.
    held: [&'static str; 2],
}

const THREAD: Fma = Fma {
    name: "",
    scope: "thread",
    extents: [2, 4, 3],
    threads: 3,
    dtypes: (DType::F32, DType::F32),
    memory: ["local", "local"],
    transposed: [false, false],
    accum: false,
    calls: 1,
    layout: "",
    held: ["tx", "0"],
};

/// The programs, with the greatest compute capability that they do not need first.
pub fn products() -> Vec<Product> {
    use DType::{BF16, E4M3, E5M2, F16, F32, F64, I8, I32};
    let block = Fma {
        name: "block",
        scope: "cta",
        extents: [16, 12, 20],
        threads: 48,
        memory: ["shared", "shared"],
        layout: "TileLayout(S[(8, 2, 6, 2) : (6 @ tx, 2, 1 @ tx, 1)])",
        held: ["tx // 6 * 2", "tx % 6 * 2"],
        ..THREAD
    };
    let all = vec![
        Fma { name: "registers", ..THREAD },
        Fma { name: "one", extents: [1, 1, 1], ..THREAD },
        Fma { name: "odd", extents: [3, 5, 7], threads: 33, accum: true, ..THREAD },
        Fma { name: "square", extents: [8, 8, 8], threads: 2, ..THREAD },
        Fma { name: "turned", transposed: [true, true], extents: [4, 6, 5], ..THREAD },
        Fma { name: "b_shared", memory: ["local", "shared"], extents: [4, 8, 19], accum: true, ..THREAD },
        Fma { name: "shared", memory: ["shared", "shared"], extents: [2, 6, 40], ..THREAD },
        Fma { name: "calls", memory: ["shared", "local"], extents: [3, 2, 12], calls: 4, ..THREAD },
        Fma { name: "float16", dtypes: (F32, F16), ..THREAD },
        Fma { name: "bfloat16", dtypes: (F32, BF16), memory: ["shared", "local"], ..THREAD },
        Fma { name: "e4m3", dtypes: (F32, E4M3), ..THREAD },
        Fma { name: "e5m2", dtypes: (F32, E5M2), transposed: [false, true], ..THREAD },
        Fma { name: "float64", dtypes: (F64, F64), ..THREAD },
        Fma { name: "wide", dtypes: (F64, F32), accum: true, ..THREAD },
        Fma { name: "int8", dtypes: (I32, I8), extents: [4, 4, 16], accum: true, ..THREAD },
        block.clone(),
        Fma { name: "block_turned", transposed: [true, false], accum: true, calls: 5, ..block.clone() },
        Fma { name: "block_float16", transposed: [false, true], dtypes: (F32, F16), ..block.clone() },
        Fma {
            name: "warps",
            scope: "warp",
            extents: [8, 12, 11],
            threads: 64,
            layout: "TileLayout(S[(8, 4, 3) : (4 @ laneid, 1 @ laneid, 1)])",
            held: ["tx % 32 // 4", "tx % 4 * 3"],
            ..block.clone()
        },
        Fma {
            name: "warpgroup",
            scope: "warpgroup",
            extents: [32, 8, 5],
            threads: 128,
            layout: "TileLayout(S[(32, 4, 2) : (4 @ tid_in_wg, 1 @ tid_in_wg, 1)])",
            held: ["tx // 4", "tx % 4 * 2"],
            ..block
        },
    ];
    all.iter().map(Fma::product).collect()
}

impl Fma {
    /// Elements of D in one thread.
    fn own(&self) -> [i64; 2] {
        match self.name {
            _ if self.scope == "thread" => [self.extents[0], self.extents[1]],
            "warps" => [1, 3],
            "warpgroup" => [1, 2],
            _ => [2, 2],
        }
    }

    /// Rows of all products: threads have one each.
    fn rows(&self) -> i64 {
        self.extents[0] * if self.scope == "thread" { self.threads } else { 1 }
    }

    fn shapes(&self) -> [[i64; 2]; 2] {
        let [_, n, k] = self.extents;
        let turn = |side: usize, [r, c]: [i64; 2]| if self.transposed[side] { [c, r] } else { [r, c] };
        [turn(0, [self.rows(), k]), turn(1, [k, n])]
    }

    fn program(&self) -> DeviceFunc {
        let (sum, input) = self.dtypes;
        let [m, n, k] = self.extents;
        let [sa, sb] = self.shapes();
        let mut body = String::new();
        let mut operands = vec![];
        for (side, (name, [rows, columns])) in ["A", "B"].into_iter().zip([sa, sb]).enumerate() {
            let chip = name.to_lowercase();
            let own_rows = side == 0 && self.scope == "thread";
            if self.memory[side] == "shared" {
                body += &format!("{chip} = T.alloc_shared(({rows}, {columns}), \"{input}\")\n");
                body += &format!("for {chip}i in T.serial({}):\n", (rows * columns + self.threads - 1) / self.threads);
                let at = format!("({chip}i * {} + tx)", self.threads);
                body += &format!("    if {at} < {}:\n", rows * columns);
                let at = format!("[{at} // {columns}, {at} % {columns}]");
                body += &format!("        {chip}{at} = {name}{at}\n");
            } else {
                // the thread's own rows of A, all of B
                let turned = self.transposed[side];
                let shape = match (own_rows, turned) {
                    (true, false) => [m, k],
                    (true, true) => [k, m],
                    (false, _) => [rows, columns],
                };
                let from = match (own_rows, turned) {
                    (true, false) => format!("tx * {m} + {chip}i, {chip}j"),
                    (true, true) => format!("{chip}i, tx * {m} + {chip}j"),
                    (false, _) => format!("{chip}i, {chip}j"),
                };
                body += &format!("{chip} = T.alloc_local(({}, {}), \"{input}\")\n", shape[0], shape[1]);
                body += &format!("for {chip}i, {chip}j in T.grid({}, {}):\n", shape[0], shape[1]);
                body += &format!("    {chip}[{chip}i, {chip}j] = {name}[{from}]\n");
            }
            let step = k / self.calls;
            let along_k = if self.calls == 1 { format!("0:{k}") } else { format!("s * {step}:s * {step} + {step}") };
            let across = match (side, own_rows && self.memory[0] == "shared") {
                (0, true) => format!("tx * {m}:tx * {m} + {m}"),
                (0, false) => format!("0:{m}"),
                _ => format!("0:{n}"),
            };
            let swap = self.transposed[side] != (side == 1);
            operands.push(if swap {
                format!("{chip}[{along_k}, {across}]")
            } else {
                format!("{chip}[{across}, {along_k}]")
            });
        }
        let layout = if self.layout.is_empty() { String::new() } else { format!(", layout={}", self.layout) };
        body += &format!("d = T.alloc_local(({m}, {n}), \"{sum}\"{layout})\n");
        let [om, on] = self.own();
        let [row, column] = if self.scope == "thread" { ["0", "0"] } else { self.held };
        let (inside, first) = (|i: &str, j: &str| format!("{row} + {i}, {column} + {j}"), self.first_row());
        body += &format!("for ci, cj in T.grid({om}, {on}):\n");
        body += &format!("    d[{}] = C[{first}{}]\n", inside("ci", "cj"), inside("ci", "cj"));
        body += "T.cuda.cta_sync()\n";
        let accum = if self.accum || self.calls > 1 { ", accum=True" } else { "" };
        let turned =
            |side: usize, name: &str| if self.transposed[side] { format!(", {name}=True") } else { String::new() };
        let call = format!(
            "Tx.{}.gemm(d, {}, {}{accum}{}{})\n",
            self.scope,
            operands[0],
            operands[1],
            turned(0, "transpose_A"),
            turned(1, "transpose_B")
        );
        body += &if self.calls == 1 { call } else { format!("for s in T.unroll({}):\n    {call}", self.calls) };
        body += &format!("for di, dj in T.grid({om}, {on}):\n");
        body += &format!("    D[{first}{}] = d[{}]\n", inside("di", "dj"), inside("di", "dj"));
        let (sum, input, result) = (sum.to_string(), input.to_string(), [self.rows(), n]);
        let params =
            [("A", &sa[..], &*input), ("B", &sb[..], &*input), ("C", &result[..], &*sum), ("D", &result[..], &*sum)];
        tile_program(&params, self.threads as u32, &body)
    }

    /// What is added to a row of D in global memory.
    fn first_row(&self) -> String {
        if self.scope == "thread" { format!("tx * {} + ", self.extents[0]) } else { String::new() }
    }

    fn product(&self) -> Product {
        let (sum, input) = self.dtypes;
        let ([_, n, k], [sa, sb]) = (self.extents, self.shapes());
        let result = [self.rows(), n];
        let args =
            vec![values(input, &sa, 1), values(input, &sb, 2), values(sum, &result, 3), Tensor::zeros(sum, &result)];
        let element = |i: i64, j: i64| {
            let start = if self.accum || self.calls > 1 { args[2].get_f64((i * n + j) as usize) } else { 0.0 };
            let a = |l: i64| args[0].get_f64(if self.transposed[0] { l * sa[1] + i } else { i * k + l } as usize);
            let b = |l: i64| args[1].get_f64(if self.transposed[1] { j * k + l } else { l * n + j } as usize);
            match sum {
                DType::F32 => f64::from((0..k).fold(start as f32, |s, l| (a(l) as f32).mul_add(b(l) as f32, s))),
                DType::F64 => (0..k).fold(start, |s, l| a(l).mul_add(b(l), s)),
                _ => (0..k).fold(start, |s, l| s + a(l) * b(l)),
            }
        };
        let want = (0..result[0] * n).map(|x| element(x / n, x % n)).collect();
        let name = format!("fma {}", self.name);
        Product { name, func: self.program(), args, want, u_in: 0.0, u: 0.0, depth: k }
    }
}

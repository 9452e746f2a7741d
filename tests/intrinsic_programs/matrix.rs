//! Matrix fragments and multiplications.

use super::*;
use daylight::ir::instr::{BlockScaleMma, MmaShape};

pub fn matrix_cases() -> Vec<Case> {
    let mut all = vec![];
    for (count, transpose) in [(1, false), (2, true), (4, false), (4, true)] {
        all.push(ldmatrix(count, transpose));
        all.push(stmatrix(count, transpose));
    }
    all.extend([DType::I8, DType::F32].map(load_rows));
    let shapes = [MmaShape::M16N8K16F16, MmaShape::M16N8K16BF16, MmaShape::M16N8K8TF32, MmaShape::M16N8K32I8];
    all.extend(shapes.map(mma));
    all.extend([MmaShape::M16N8K32E4M3, MmaShape::M16N8K32E5M2].map(mma));
    let mixed = BlockScaleMma::Mxf8 { a: DType::E4M3, b: DType::E5M2 };
    let same = BlockScaleMma::Mxf8 { a: DType::E4M3, b: DType::E4M3 };
    let scaled = [(BlockScaleMma::Nvf4, [0, 0]), (BlockScaleMma::Mxf4, [0, 2]), (mixed, [1, 3]), (same, [0, 2])];
    all.extend(scaled.map(|(shape, first)| block_scale_mma(shape, first)));
    all.extend([DType::F16, DType::BF16].map(quad_transpose));
    all.push(matmul());
    all
}

/// Row, within the 8 `count` rows, and column of element `e` of a lane's fragment.
fn fragment(lane: usize, e: usize, transpose: bool) -> (usize, usize) {
    let (matrix, row, column) = (e / 2, lane / 4, 2 * (lane % 4) + e % 2);
    let (row, column) = if transpose { (column, row) } else { (row, column) };
    (8 * matrix + row, column)
}

/// Loads `count` matrices from shared memory whose rows are 16 elements apart.
pub fn ldmatrix(count: u32, transpose: bool) -> Case {
    let (name, n) = (matrix_name("ldmatrix", count, transpose), 2 * i64::from(count));
    let rows = 8 * i64::from(count);
    let place = rem(t(), rows) * c(16);
    let body = vec![
        serial("i0", rows / 2, vec![store("s", v("i0") * c(32) + t(), ldt("p0", v("i0") * c(32) + t(), DType::F16))]),
        block_barrier(),
        does(Instr::new(Op::LdMatrix { count, transpose }, [at("r", c(0)), at("s", place)], [])),
        unrolled("i1", n, vec![store("p1", t() * c(n) + v("i1"), ldt("r", v("i1"), DType::F16))]),
    ];
    let params = vec![input("p0", DType::F16, rows * 16), output("p1", DType::F16, 32 * n)];
    let arrays = vec![registers("r", DType::F16, n as u32, 4), shared("s", DType::F16, rows as u32 * 16)];
    let x = random(DType::F16, rows * 16, 4);
    let element = |i: usize| {
        let (row, column) = fragment(i / n as usize, i % n as usize, transpose);
        x.get_f64(row * 16 + column)
    };
    let want = (0..32 * n as usize).map(element).collect();
    Case::new(one_block(&name, params, arrays, body, 32), 80, vec![x], want)
}

/// `ldmatrix` of other elements: rows of 16 bytes, of which each lane gets 4.
pub fn load_rows(dtype: DType) -> Case {
    let (row, each) = (16 / dtype.bytes() as i64, 4 / dtype.bytes() as i64);
    let n = 16 * row;
    let body = vec![
        serial("i0", n / 32, vec![store("s", v("i0") * c(32) + t(), ldt("p0", v("i0") * c(32) + t(), dtype))]),
        block_barrier(),
        does(Instr::new(
            Op::LdMatrix { count: 2, transpose: false },
            [at("r", c(0)), at("s", rem(t(), 16) * c(row))],
            [],
        )),
        unrolled("i1", 2 * each, vec![store("p1", t() * c(2 * each) + v("i1"), ldt("r", v("i1"), dtype))]),
    ];
    let params = vec![input("p0", dtype, n), output("p1", dtype, 64 * each)];
    let arrays = vec![registers("r", dtype, 2 * each as u32, 4), shared("s", dtype, n as u32)];
    let x = Tensor::from_f64(dtype, &[n], &numbers(n, 4).iter().map(|x| (x * 99.0).round()).collect::<Vec<_>>());
    let element = |i: i64| {
        let (lane, e) = (i / (2 * each), i % (2 * each));
        x.get_f64(((lane / 4 + 8 * (e / each)) * row + lane % 4 * each + e % each) as usize)
    };
    let want = (0..64 * each).map(element).collect();
    let name = format!("ldmatrix_{dtype}");
    Case::new(one_block(&name, params, arrays, body, 32), 80, vec![x], want)
}

fn matrix_name(kind: &str, count: u32, transpose: bool) -> String {
    format!("{kind}_x{count}{}", if transpose { "_trans" } else { "" })
}

/// The way back.
pub fn stmatrix(count: u32, transpose: bool) -> Case {
    let (name, n) = (matrix_name("stmatrix", count, transpose), 2 * i64::from(count));
    let rows = 8 * i64::from(count);
    let body = vec![
        unrolled("i1", n, vec![store("r", v("i1"), ldt("p0", t() * c(n) + v("i1"), DType::BF16))]),
        does(Instr::new(Op::StMatrix { count, transpose }, [at("s", rem(t(), rows) * c(8)), at("r", c(0))], [])),
        block_barrier(),
        serial("i0", rows / 4, vec![store("p1", v("i0") * c(32) + t(), ldt("s", v("i0") * c(32) + t(), DType::BF16))]),
    ];
    let params = vec![input("p0", DType::BF16, 32 * n), output("p1", DType::BF16, rows * 8)];
    let arrays = vec![registers("r", DType::BF16, n as u32, 4), shared("s", DType::BF16, rows as u32 * 8)];
    let x = random(DType::BF16, 32 * n, 5);
    let mut want = vec![0.0; rows as usize * 8];
    for i in 0..32 * n as usize {
        let (row, column) = fragment(i / n as usize, i % n as usize, transpose);
        want[row * 8 + column] = x.get_f64(i);
    }
    Case::new(one_block(&name, params, arrays, body, 32), 90, vec![x], want)
}

/// Pair `p` of lane `q` comes to pair `q` of lane `p`, within each four lanes.
pub fn quad_transpose(dtype: DType) -> Case {
    let body = vec![
        unrolled("i0", 8, vec![store("r", v("i0"), ldt("p0", t() * c(8) + v("i0"), dtype))]),
        does(Instr::new(Op::QuadTranspose, [at("r", c(0))], [])),
        unrolled("i1", 8, vec![store("p1", t() * c(8) + v("i1"), ldt("r", v("i1"), dtype))]),
    ];
    let params = vec![input("p0", dtype, 256), output("p1", dtype, 256)];
    let x = random(dtype, 256, 6);
    let element = |i: usize| {
        let (lane, pair, v) = (i / 8, i % 8 / 2, i % 2);
        x.get_f64((lane / 4 * 4 + pair) * 8 + lane % 4 * 2 + v)
    };
    let want = (0..256).map(element).collect();
    let name = format!("quad_transpose_{dtype}");
    Case::new(one_block(&name, params, vec![registers("r", dtype, 8, 4)], body, 32), 80, vec![x], want)
}

/// `d = a b + c`: `a` row-major, `b` column-major, fragments loaded element by element.
pub fn mma(shape: MmaShape) -> Case {
    let (dtype, sum) = shape.dtypes();
    let (k, word) = (shape.k(), 4 / dtype.bytes() as i64);
    let name = format!("mma_{}_{dtype}", shape.name());
    let (lane, quad) = (div(t(), 4), rem(t(), 4) * c(word));
    let i = || v("i");
    let within = quad + rem(i(), word);
    let row = |e: Expr| lane.clone() + rem(e, 2) * c(8);
    let a = row(div(i(), word)) * c(k) + within.clone() + div(i(), 2 * word) * c(4 * word);
    let b = lane.clone() * c(k) + within + div(i(), word) * c(4 * word);
    let cd = || row(div(i(), 2)) * c(8) + rem(t(), 4) * c(2) + rem(i(), 2);
    let load = |r: &str, p: &str, n: i64, place: Expr, dtype: DType| {
        unrolled("i", n, vec![store(r, i(), ldt(p, place, dtype))])
    };
    let [la, lb, lc] = shape.lane_elements();
    let body = vec![
        load("a", "p0", la, a, dtype),
        load("b", "p1", lb, b, dtype),
        load("x", "p2", lc, cd(), sum),
        does(Instr::new(Op::Mma(shape), [at("x", c(0)), at("a", c(0)), at("b", c(0)), at("x", c(0))], [])),
        unrolled("i", lc, vec![store("p3", cd(), ldt("x", i(), sum))]),
    ];
    let params =
        vec![input("p0", dtype, 16 * k), input("p1", dtype, 8 * k), input("p2", sum, 128), output("p3", sum, 128)];
    let arrays = vec![
        registers("a", dtype, la as u32, 4),
        registers("b", dtype, lb as u32, 4),
        registers("x", sum, lc as u32, 4),
    ];
    let inputs = mma_inputs(shape);
    // The hardware ignores the low 13 bits of tf32 operands.
    let cut = |x: f64| {
        if shape == MmaShape::M16N8K8TF32 { f64::from(f32::from_bits((x as f32).to_bits() & !0x1fff)) } else { x }
    };
    let product = |r: usize, n: usize, j: usize| {
        cut(inputs[0].get_f64(r * k as usize + j)) * cut(inputs[1].get_f64(n * k as usize + j))
    };
    let value = |o: usize| {
        let sum: f64 = (0..k as usize).map(|j| product(o / 8, o % 8, j)).sum();
        let exact = inputs[2].get_f64(o) + sum;
        if shape == MmaShape::M16N8K32I8 { f64::from(exact as i64 as i32) } else { exact }
    };
    let want = (0..128).map(value).collect();
    let tolerance = if shape == MmaShape::M16N8K32I8 { 0.0 } else { 1e-6 };
    let sm = if matches!(dtype, DType::E4M3 | DType::E5M2) { 89 } else { 80 };
    Case { tolerance, ..Case::new(one_block(&name, params, arrays, body, 32), sm, inputs.clone(), want) }
}

/// The same of numbers with scales of blocks, of which the four of a row are loaded and some taken, from `first` on.
pub fn block_scale_mma(shape: BlockScaleMma, first: [u32; 2]) -> Case {
    let ([a, b], scale, sum) = (shape.elements(), shape.scale(), DType::F32);
    let [x, y] = shape.inputs();
    let name = format!("mma_{}_{x}_{y}_{scale}", shape.name());
    let (lane, quad, i) = (div(t(), 4), rem(t(), 4), || v("i"));
    let row = |e: Expr| lane.clone() + rem(e, 2) * c(8);
    let within = quad.clone() * c(4) + rem(i(), 4);
    let of_a = row(div(i(), 4)) * c(32) + within.clone() + div(i(), 8) * c(16);
    let of_b = lane.clone() * c(32) + within + div(i(), 4) * c(16);
    let cd = || row(div(i(), 2)) * c(8) + quad.clone() * c(2) + rem(i(), 2);
    let load = |r: &str, p: &str, n: i64, place: Expr, dtype: DType| {
        unrolled("i", n, vec![store(r, i(), ldt(p, place, dtype))])
    };
    let places = ["x", "a", "b", "x", "sfa", "sfb"].map(|r| at(r, c(0)));
    let body = vec![
        load("a", "p0", 16, of_a, a),
        load("b", "p1", 8, of_b, b),
        load("x", "p2", 4, cd(), sum),
        load("sfa", "p3", 4, (lane.clone() + rem(t(), 2) * c(8)) * c(4) + i(), scale),
        load("sfb", "p4", 4, lane.clone() * c(4) + i(), scale),
        does(Instr::new(Op::BlockScaleMma { shape, first }, places, [])),
        unrolled("i", 4, vec![store("p5", cd(), ldt("x", i(), sum))]),
    ];
    let params = vec![
        input("p0", a, 16 * 32),
        input("p1", b, 8 * 32),
        input("p2", sum, 128),
        input("p3", scale, 64),
        input("p4", scale, 32),
        output("p5", sum, 128),
    ];
    let arrays = vec![
        registers("a", a, 16, 4),
        registers("b", b, 8, 4),
        registers("x", sum, 4, 4),
        registers("sfa", scale, 4, 4),
        registers("sfb", scale, 4, 4),
    ];
    let positive = |n: i64, seed| numbers(n, seed).iter().map(|x| x.abs() + 0.25).collect::<Vec<_>>();
    let scales = |n: i64, seed| Tensor::from_f64(scale, &[n], &positive(n, seed));
    let inputs = vec![codes(a, 16 * 32, 1), codes(b, 8 * 32, 2), random(sum, 128, 3), scales(64, 4), scales(32, 5)];
    let want = scaled_sums(shape, first, &inputs);
    Case { tolerance: 1e-6, ..Case::new(one_block(&name, params, arrays, body, 32), 120, inputs, want) }
}

/// Any bytes, or numbers.
fn codes(dtype: DType, n: i64, seed: u64) -> Tensor {
    match dtype {
        DType::U8 => Tensor::from_i64(dtype, &[n], &(0..n).map(|i| i * 37 + seed as i64).collect::<Vec<_>>()),
        _ => random(dtype, n, seed),
    }
}

/// Numbers in plain arithmetic: those of four bits by their table.
fn scaled_sums(shape: BlockScaleMma, first: [u32; 2], inputs: &[Tensor]) -> Vec<f64> {
    const FOUR: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let depth = 32 * shape.packed() as usize;
    let number = |t: &Tensor, line: usize, k: usize| match shape.packed() {
        1 => t.get_f64(line * 32 + k),
        _ => {
            let code = t.get_i64(line * 32 + k / 2) >> (4 * (k % 2)) & 15;
            FOUR[code as usize % 8] * if code > 7 { -1.0 } else { 1.0 }
        }
    };
    let block = depth / shape.scales() as usize;
    let scaled = |side: usize, line: usize, k: usize| {
        let scale = inputs[3 + side].get_f64(4 * line + first[side] as usize + k / block);
        number(&inputs[side], line, k) * scale
    };
    let sum = |o: usize| (0..depth).map(|k| scaled(0, o / 8, k) * scaled(1, o % 8, k)).sum::<f64>();
    (0..128).map(|o| inputs[2].get_f64(o) + sum(o)).collect()
}

fn mma_inputs(shape: MmaShape) -> Vec<Tensor> {
    let (dtype, sum) = shape.dtypes();
    let k = shape.k();
    if shape == MmaShape::M16N8K32I8 {
        let bytes = |n: i64, seed| -> Vec<f64> { numbers(n, seed).iter().map(|x| (x * 127.0).round()).collect() };
        let tensor = |dtype, v: &[f64]| Tensor::from_f64(dtype, &[v.len() as i64], v);
        // The first sums pass the largest integer and wrap around.
        let start: Vec<f64> = (0..128).map(|i| if i < 8 { f64::from(i32::MAX) } else { f64::from(i) }).collect();
        return vec![tensor(dtype, &bytes(16 * k, 1)), tensor(dtype, &bytes(8 * k, 2)), tensor(sum, &start)];
    }
    vec![random(dtype, 16 * k, 1), random(dtype, 8 * k, 2), random(sum, 128, 3)]
}

/// 16 x 8 x 64 of bfloat16: two stages of asynchronous copies, `ldmatrix` and `mma.sync`.
pub fn matmul() -> Case {
    let bf = DType::BF16;
    // A stage holds 16 rows of `a` and 8 of `b`, 16 elements of each.
    let stage = |s: Expr, rest: Expr| rem(s, 2) * c(384) + rest;
    let (row, half) = (div(t(), 2), rem(t(), 2) * c(8));
    let copy16 = |dst: Expr, p: &str, src: Expr, valid: Option<Expr>| {
        does(Instr::cp_async(at("s", dst), at(p, src), 16, valid, Some(128)))
    };
    let fetch = |s: Expr| {
        let column = s.clone() * c(16) + half.clone();
        vec![
            copy16(stage(s.clone(), t() * c(8)), "p0", row.clone() * c(64) + column.clone(), None),
            if_(lt(t(), c(16)), vec![copy16(stage(s, t() * c(8) + c(256)), "p1", row.clone() * c(64) + column, None)]),
        ]
    };
    let load = |dst: &str, place: Expr, count: u32| {
        does(Instr::new(Op::LdMatrix { count, transpose: false }, [at(dst, c(0)), at("s", place)], []))
    };
    // Matrices of `a`: rows 0 and 8 of the left half, then of the right.
    let of_a = rem(t(), 16) * c(16) + div(t(), 16) * c(8);
    let of_b = rem(t(), 8) * c(16) + rem(div(t(), 8), 2) * c(8) + c(256);
    let commit = || does(Instr::from(Sync::CpAsyncCommit));
    let mut step = vec![if_(lt(v("k") + c(1), c(4)), fetch(v("k") + c(1))), commit()];
    step.extend([
        does(Instr::from(Sync::CpAsyncWait { left: 1 })),
        block_barrier(),
        load("a", stage(v("k"), of_a), 4),
        load("b", stage(v("k"), of_b), 2),
        does(Instr::new(
            Op::Mma(MmaShape::M16N8K16BF16),
            [at("x", c(0)), at("a", c(0)), at("b", c(0)), at("x", c(0))],
            [],
        )),
        block_barrier(),
    ]);
    let mut body = vec![unrolled("i", 4, vec![store("x", v("i"), f(0.0))])];
    body.extend(fetch(c(0)));
    body.extend([commit(), serial("k", 4, step)]);
    let out = (div(t(), 4) + div(v("j"), 2) * c(8)) * c(8) + rem(t(), 4) * c(2) + rem(v("j"), 2);
    body.push(unrolled("j", 4, vec![store("p2", out, ld("x", v("j")))]));
    body.push(does(Instr::from(Sync::CpAsyncWait { left: 0 })));
    let params = vec![input("p0", bf, 16 * 64), input("p1", bf, 8 * 64), output("p2", DType::F32, 128)];
    let arrays = vec![
        registers("a", bf, 8, 4),
        registers("b", bf, 4, 4),
        registers("x", DType::F32, 4, 4),
        shared("s", bf, 768),
    ];
    let inputs = vec![random(bf, 16 * 64, 1), random(bf, 8 * 64, 2)];
    let product = |o: usize, j: usize| inputs[0].get_f64(o / 8 * 64 + j) * inputs[1].get_f64(o % 8 * 64 + j);
    let want = (0..128).map(|o| (0..64).map(|j| product(o, j)).sum()).collect();
    Case { tolerance: 1e-6, ..Case::new(one_block("matmul", params, arrays, body, 32), 80, inputs.clone(), want) }
}

//! What whole warpgroups do: products of operands in shared memory, and the registers of their threads.

use super::*;
use daylight::ir::instr::WgmmaShape;
use daylight::ir::{Contiguous, MapSwizzle, MatrixDesc};

/// Kernels for sm_90a alone.
pub fn warpgroup_cases() -> Vec<Case> {
    let all =
        [(DType::F16, 8), (DType::BF16, 96), (DType::I8, 32), (DType::E4M3, 16), (DType::F16, 256), (DType::F32, 32)];
    let mut all: Vec<Case> = all.into_iter().map(|(input, n)| wgmma(input, n)).collect();
    let held =
        [(DType::F16, 8), (DType::BF16, 64), (DType::I8, 16), (DType::E4M3, 128), (DType::F16, 256), (DType::F32, 128)];
    all.extend(held.map(|(input, n)| wgmma_registers(input, n)));
    all.push(give_and_take());
    all
}

/// Operands in pieces of 8 rows of 16 bytes, those along the reduced axis 128 bytes apart.
pub fn pieces() -> MatrixDesc {
    MatrixDesc { contiguous: Contiguous::Depth, swizzle: MapSwizzle::None, leading: 128, stride: 256 }
}

/// The product of 64 by `n` sums that start from what `p2` holds, in the order of the threads' registers.
pub fn wgmma(input_type: DType, n: i64) -> Case {
    let shape = WgmmaShape { n, input: input_type };
    let (k, sum, each) = (shape.k(), shape.sum(), n / 2);
    let fill = |to: &'static str, p: &'static str, len: i64| {
        let place = || v("i") * c(128) + t();
        serial("i", len / 128, vec![store(to, place(), ldt(p, place(), input_type))])
    };
    let own = || t() * c(each) + v("i");
    let op = Op::Wgmma { shape, a: pieces(), b: pieces() };
    let sync = |s: Sync| does(Instr::from(s));
    let body = vec![
        fill("a", "p0", 64 * k),
        fill("b", "p1", n * k),
        unrolled("i", each, vec![store("d", v("i"), ldt("p2", own(), sum))]),
        sync(Sync::AsyncFence),
        block_barrier(),
        sync(Sync::WgmmaFence),
        does(Instr::new(op, ["d", "a", "b"].map(|x| at(x, c(0))), [Expr::bool(true)])),
        sync(Sync::WgmmaCommit),
        sync(Sync::WgmmaWait { left: 0 }),
        unrolled("i", each, vec![store("p3", own(), ldt("d", v("i"), sum))]),
    ];
    let all = 64 * n;
    let params = vec![
        input("p0", input_type, 64 * k),
        input("p1", input_type, n * k),
        input("p2", sum, all),
        output("p3", sum, all),
    ];
    // twice as much as is used: the other half is free to be filled while a product goes on
    let arrays = vec![
        Array { align: 128, ..shared("a", input_type, 128 * k as u32) },
        Array { align: 128, ..shared("b", input_type, (n * k) as u32) },
        registers("d", sum, each as u32, 4),
    ];
    let exact = sum == DType::I32;
    let values = |dtype: DType, len: i64, seed| match exact {
        true => {
            Tensor::from_f64(dtype, &[len], &numbers(len, seed).iter().map(|x| (x * 99.0).round()).collect::<Vec<_>>())
        }
        false => random(dtype, len, seed),
    };
    let inputs = vec![values(input_type, 64 * k, 1), values(input_type, n * k, 2), values(sum, all, 3)];
    let per = 16 / input_type.bytes() as i64;
    let element = |x: &Tensor, line: i64, depth: i64| {
        x.get_f64((line % 8 * per + line / 8 * 16 * per + depth % per + depth / per * 8 * per) as usize)
    };
    let value = |o: i64| {
        let (thread, e) = (o / each, o % each);
        let row = thread / 32 * 16 + thread % 32 / 4 + e / 2 % 2 * 8;
        let column = e / 4 * 8 + thread % 4 * 2 + e % 2;
        let product: f64 = (0..k).map(|d| element(&inputs[0], row, d) * element(&inputs[1], column, d)).sum();
        inputs[2].get_f64(o as usize) + product
    };
    let want = (0..all).map(value).collect();
    let name = format!("wgmma_{}_{}", shape.name(), shape.input_name());
    let program = one_block(&name, params, arrays, body, 128);
    // fp8 sums are cut to fewer bits by the hardware, and operands of tf32 by 13
    let tolerance = match input_type {
        DType::I8 => 0.0,
        DType::E4M3 | DType::F32 => 1e-3,
        _ => 1e-5,
    };
    Case { tolerance, ..Case::new(program, 90, inputs.clone(), want) }
}

/// The same product with the first operand in registers, loaded in the order in which threads hold it.
pub fn wgmma_registers(input_type: DType, n: i64) -> Case {
    let mut case = wgmma(input_type, n);
    let shape = WgmmaShape { n, input: input_type };
    let (k, held) = (shape.k(), shape.held());
    // p0 as it lies in pieces, in the order of the threads' registers
    let per = 16 / input_type.bytes() as i64;
    let piece = |row: i64, depth: i64| row % 8 * per + row / 8 * 16 * per + depth % per + depth / per * 8 * per;
    let pieces: Vec<f64> = values(&case.inputs[0]);
    let own: Vec<f64> = (0..64 * k)
        .map(|o| {
            let (thread, e, word) = (o / held, o % held, 4 / input_type.bytes() as i64);
            let row = thread / 32 * 16 + thread % 32 / 4 + e / word % 2 * 8;
            let depth = thread % 4 * word + e % word + e / word / 2 * 4 * word;
            pieces[piece(row, depth) as usize]
        })
        .collect();
    case.inputs[0] = Tensor::from_f64(input_type, &[64 * k], &own);
    let launch = &mut case.program.launches[0];
    let body = &mut launch.kernel.body;
    let load = store("a", v("i"), ldt("p0", t() * c(held) + v("i"), input_type));
    body[0] = unrolled("i", held, vec![load]);
    for s in body.iter_mut() {
        if let KStmt::Instr(i) = s
            && let Op::Wgmma { shape, b, .. } = i.op
        {
            i.op = Op::WgmmaRegisters { shape, b };
        }
    }
    launch.kernel.arrays[0] = registers("a", input_type, held as u32, 4);
    let name = case.program.name.replace("wgmma", "wgmma_registers");
    (case.program.name, launch.kernel.symbol) = (name.clone(), name);
    case
}

/// One group gives registers back, the other takes them.
fn give_and_take() -> Case {
    let set = |registers, take| does(Instr::new(Op::SetMaxReg { registers, take }, [], []));
    let double = store("p1", t(), ld("p0", t()) * f(2.0));
    let body = vec![KStmt::If {
        cond: lt(t(), c(128)),
        then: vec![set(40, false), store("p1", t(), ld("p0", t()))],
        otherwise: vec![set(160, true), double],
    }];
    let x = random(DType::F32, 256, 6);
    let want = (0..256).map(|i: usize| x.get_f64(i) * if i < 128 { 1.0 } else { 2.0 }).collect();
    let params = vec![input("p0", DType::F32, 256), output("p1", DType::F32, 256)];
    Case::new(
        program("give_and_take", kernel("give_and_take", params, vec![], body), 1, 256, Some(1)),
        90,
        vec![x],
        want,
    )
}

/// Copies whose arrivals at a barrier say that they have landed.
pub fn cp_async_arrive() -> Case {
    let body = vec![
        first(vec![does(Instr::new(Sync::MbarrierInit { arrivals: 32 }, [bar()], []))]),
        block_barrier(),
        cp(t(), t(), 4, None),
        does(Instr::new(Op::CpAsyncArrive, [bar()], [])),
        does(Instr::new(Sync::MbarrierWait, [bar()], [c(0)])),
        store("p1", t(), ld("s", c(31) - t())),
    ];
    let x = random(DType::F32, 32, 6);
    let want = (0..32).map(|i: usize| x.get_f64(31 - i)).collect();
    let arrays = vec![shared("s", DType::F32, 32), barriers(1)];
    Case::new(one_block("cp_async_arrive", floats(32), arrays, body, 32), 80, vec![x], want)
}

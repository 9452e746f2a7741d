//! Calls without sense: dispatch has to refuse them with words.

use super::TARGETS;
use super::rng::Rng;
use super::space::{memory_layout, space};
use crate::tile::case::target;
use daylight::analysis::Ranges;
use daylight::ir::layout::TileLayout;
use daylight::ir::{AttrValue, BinOp, Buffer, DType, ExecScope, Expr, Name, Scope, Tile, TileArg, TileCall, TileOp};
use daylight::tile::{Active, Cx, decide, variants};
use std::collections::BTreeMap;

const DTYPES: [DType; 16] = [
    DType::Bool,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
    DType::E4M3,
    DType::E5M2,
    DType::E8M0,
];

fn extent(rng: &mut Rng) -> i64 {
    match rng.below(30) {
        0 => 0,
        1 => 1 << 31,
        2 => (1 << 20) + 7,
        3 => 1 << 40,
        4 => i64::MAX / 2,
        _ => rng.pick(&[1, 1, 2, 3, 4, 5, 7, 8, 8, 13, 16, 16, 32, 32, 64, 128]),
    }
}

fn layout(rng: &mut Rng, shape: &[i64], scope: ExecScope, threads: i64) -> (Vec<i64>, Option<TileLayout>) {
    match rng.below(6) {
        0 | 1 => {
            let s = space(rng, scope, threads, 64);
            (s.shape(), Some(s.layout(rng)))
        }
        2 if shape.iter().all(|n| (1..1 << 20).contains(n)) => (shape.to_vec(), memory_layout(rng, shape, false)),
        3 => {
            let text = rng.pick(&[
                "S[(8, 8) : (1, 1)]",
                "S[(8, 8) : (0, 1)]",
                "S[(32, 4) : (1@laneid, 1)] + R[4 : 1]",
                "S[(8, 4, 2) : (4@laneid, 1@laneid, 1)]",
                "S[(128, 8) : (1@TLane, 1@TCol)]",
                "S[(4, 8) : (1@bx, 1)]",
                "S[(16, 2, 4) : (2@laneid, 1, 1@laneid)]",
                "S[(32, 8) : (-1@laneid, 1)] + 31@laneid",
                "S[(64, 4) : (1@tx, -1)] + 3",
                "S[(1, 1) : (1, 1)]",
            ]);
            let l = TileLayout::parse(text).ok();
            let shape = l.as_ref().map(|l| l.shard().iter().map(|it| it.extent).collect());
            (shape.unwrap_or_default(), l)
        }
        _ => (shape.to_vec(), None),
    }
}

fn begin(rng: &mut Rng, n: i64) -> Expr {
    let tx = Expr::var(Name::new("threadIdx.x"), DType::I64);
    match rng.below(10) {
        0 => tx,
        1 => Expr::binary(BinOp::Mul, tx, Expr::i64(rng.below(9))),
        2 => Expr::var(Name::new("k"), DType::I64) * Expr::i64(n.clamp(1, 64)),
        3 => Expr::var(Name::new("unknown"), DType::I64),
        4 => Expr::i64(rng.pick(&[-1, 1, 3, 1 << 33, i64::MAX, i64::MIN])),
        _ => Expr::i64(0),
    }
}

fn option(rng: &mut Rng) -> (String, AttrValue) {
    let key = rng.pick(&[
        "cache",
        "rounding",
        "ftz",
        "transpose_A",
        "beta",
        "alpha",
        "precision",
        "prefetch",
        "predicate",
        "valid",
        "fill_mode",
        "x",
    ]);
    let value = match rng.below(7) {
        0 => AttrValue::Bool(true),
        1 => AttrValue::Int(rng.pick(&[0, 1, 2, -1, 128])),
        2 => AttrValue::Str(rng.pick(&["nc", "rn", "rz", "tf32", "zero", ""]).into()),
        3 => AttrValue::Float(f64::NAN.to_bits()),
        _ => AttrValue::Bool(false),
    };
    (key.into(), value)
}

/// Decides one call on every target.
pub fn one_call(seed: u64) -> Result<bool, String> {
    let mut rng = Rng::new(seed ^ 0xabcd_ef01);
    let rng = &mut rng;
    let block = rng.pick(&[
        [1, 1, 1],
        [7, 1, 1],
        [32, 1, 1],
        [33, 1, 1],
        [96, 1, 1],
        [128, 1, 1],
        [256, 1, 1],
        [8, 8, 2],
        [5, 3, 1],
    ]);
    let threads = block.iter().map(|n: &u32| i64::from(*n)).product();
    let scope = rng.pick(&ExecScope::ALL).0;
    let shape: Vec<i64> = (0..rng.below(5)).map(|_| extent(rng)).collect();
    let one_type = rng.pick(&DTYPES);
    let mut buffers = BTreeMap::new();
    let mut tiles = vec![];
    for k in 0..4 {
        let name = Name::new(format!("t{k}"));
        let wanted = if rng.chance(70) { shape.clone() } else { (0..rng.below(4)).map(|_| extent(rng)).collect() };
        let (shape, layout) = layout(rng, &wanted, scope, threads);
        let memory =
            rng.pick(&[Scope::Local, Scope::Local, Scope::Shared, Scope::SharedDyn, Scope::Global, Scope::Tensor]);
        let dtype = if rng.chance(75) { one_type } else { rng.pick(&DTYPES) };
        let mut b = Buffer::new(name.clone(), dtype, shape.iter().map(|n| Expr::i64(*n)).collect(), memory);
        b.layout = layout;
        if rng.chance(5) {
            b.shape.iter_mut().for_each(|n| *n = Expr::var(Name::new("n"), DType::I64));
        }
        if rng.chance(97) {
            buffers.insert(name.clone(), b);
        }
        let mut tile = Tile::whole(&name, &shape);
        if rng.chance(25) {
            tile.begin.iter_mut().zip(&shape).for_each(|(e, n)| *e = begin(rng, *n));
        }
        if rng.chance(15) {
            tile.extent.iter_mut().for_each(|n| *n = extent(rng));
        }
        if rng.chance(4) {
            tile.extent.pop();
        }
        tiles.push(tile);
    }
    let op = rng.pick(&TileOp::ALL);
    let count = if rng.chance(90) { op.2 as i64 } else { rng.below(4) };
    let args = (0..count)
        .map(|_| if rng.chance(10) { TileArg::Scalar(Expr::i32(3)) } else { TileArg::Tile(rng.pick(&tiles)) });
    let args: Vec<TileArg> = args.collect();
    let mut call = TileCall::new(op.0, scope, tiles[0].clone(), args);
    call.axes = (0..rng.below(3)).map(|_| rng.below(4) as usize).collect();
    call.accum = rng.chance(30);
    if rng.chance(20) {
        call.config.extend([option(rng)]);
    }
    if rng.chance(5) {
        call.operands.insert(rng.pick(&["valid", "predicate", "mbar", "bar"]).into(), TileArg::Tile(rng.pick(&tiles)));
    }
    if rng.chance(20) {
        let known: Vec<&str> = variants(op.0).iter().map(|v| v.name).collect();
        call.forced = Some(rng.pick(&known).into());
    }
    let mut ranges = Ranges::new();
    for (axis, n) in ["threadIdx.x", "threadIdx.y", "threadIdx.z"].into_iter().zip(block) {
        ranges.set(axis, 0, i64::from(n) - 1);
    }
    ranges.set("k", 0, 3);
    let active = rng.pick(&[Active::All, Active::All, Active::WholeWarps, Active::Some]);
    for id in TARGETS {
        let target = target(id);
        let cx = Cx { target: &target, block, buffers: &buffers, shown: &[], ranges: &ranges, active };
        let said = decide(&call, &cx).map_or_else(|e| e.to_string(), |d| d.to_string());
        super::dump(&format!("{seed} {id}\n{said}\n"));
    }
    Ok(true)
}

//! Random calls with their buffers.

use super::program::{Builder, round, with};
use super::rng::Rng;
use super::space::{Piece, Space, memory_layout, space};
use daylight::ir::device::DeviceFunc;
use daylight::ir::{BinOp, DType, ExecScope, Expr, Name, Scope, Tile, TileArg, TileCall, TileOp};

const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];
const NUMBERS: [DType; 12] = [
    DType::F32,
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::F64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
];

/// A program with one call of interest, whose destination is `d`; `None` where chance made no sense.
pub fn program(rng: &mut Rng) -> Option<DeviceFunc> {
    let scope = rng.pick(&[ExecScope::Thread, ExecScope::Warp, ExecScope::Warpgroup, ExecScope::Cta, ExecScope::Cta]);
    let block = rng.pick(&[
        [1, 1, 1],
        [7, 1, 1],
        [32, 1, 1],
        [32, 1, 1],
        [33, 1, 1],
        [64, 1, 1],
        [64, 1, 1],
        [96, 1, 1],
        [128, 1, 1],
        [128, 1, 1],
        [256, 1, 1],
        [8, 4, 1],
        [16, 8, 1],
        [4, 4, 2],
        [5, 3, 1],
        [48, 1, 1],
    ]);
    let mut b = Builder::new(block, scope, rng.chance(40));
    if b.threads() % b.group() != 0 {
        return None;
    }
    b.cond = condition(rng, &b);
    let op = rng.pick(&TileOp::ALL).0;
    let op =
        if rng.chance(25) { rng.pick(&[TileOp::Copy, TileOp::Sum, TileOp::PermuteLayout, TileOp::Max]) } else { op };
    match op {
        TileOp::Copy | TileOp::PermuteLayout => copied(rng, b, op),
        TileOp::CopyAsync => None,
        TileOp::Sum | TileOp::Prod | TileOp::Max | TileOp::Min => reduced(rng, b, op),
        TileOp::Gemm => product(rng, b),
        _ => elementwise(rng, b, op),
    }
}

fn condition(rng: &mut Rng, b: &Builder) -> Option<Expr> {
    let t = b.thread();
    match rng.below(12) {
        0 if b.looped => Some(with(BinOp::Eq, &round(), 1)),
        1 => Some(with(BinOp::Eq, &with(BinOp::FloorDiv, &t, 32), 0)),
        2 => Some(with(BinOp::Lt, &t, 64)),
        3 if b.scope == ExecScope::Thread => Some(with(BinOp::Eq, &with(BinOp::FloorMod, &t, 2), 0)),
        4 if b.scope == ExecScope::Thread => Some(with(BinOp::Lt, &t, 5)),
        _ => None,
    }
}

/// A tile: all of a buffer, or a part of a larger one. Memory that all see has a part for each group.
struct Made {
    tile: Tile,
    name: Name,
    space: Option<Space>,
}

impl Made {
    fn arg(&self) -> TileArg {
        TileArg::Tile(self.tile.clone())
    }
}

/// Declares registers of that space; the tile is a part of them or all.
fn registers(rng: &mut Rng, b: &mut Builder, stem: &str, dtype: DType, space: &Space) -> Made {
    let mut whole = space.clone();
    let shape = space.shape();
    let mut tile = Tile::whole(&b.name(stem), &shape);
    if rng.chance(25) {
        let d = rng.below(shape.len() as i64) as usize;
        let only_memory = whole.dims[d].iter().all(|p| matches!(p, Piece::Memory(_)));
        if only_memory && whole.dims[d].len() <= 1 && rng.chance(40) {
            let more = rng.between(1, 3);
            whole.dims[d] = vec![Piece::Memory(shape[d] + more)];
            tile.begin[d] = Expr::i64(rng.between(0, more));
        } else {
            let n = rng.between(2, 3);
            whole.dims[d].insert(0, Piece::Memory(n));
            tile.begin[d] =
                if b.looped { with(BinOp::Mul, &round(), shape[d]) } else { Expr::i64(rng.below(n) * shape[d]) };
        }
    }
    let plain = whole.replica.is_empty() && whole.dims.iter().flatten().all(|p| matches!(p, Piece::Memory(_)));
    let layout = if plain && rng.chance(60) { None } else { Some(whole.layout(rng)) };
    let name = tile.buffer.clone();
    b.declare(&name, dtype, &whole.shape(), Scope::Local, layout);
    Made { tile, name, space: Some(whole) }
}

/// Declares memory that all threads see.
fn memory(rng: &mut Rng, b: &mut Builder, stem: &str, dtype: DType, shape: &[i64], writes: bool) -> Made {
    let mut whole = shape.to_vec();
    let name = b.name(stem);
    let mut tile = Tile::whole(&name, shape);
    if !whole.is_empty() && rng.chance(35) {
        let d = rng.below(shape.len() as i64) as usize;
        if b.looped && rng.chance(50) {
            whole[d] *= 2;
            tile.begin[d] = with(BinOp::Mul, &round(), shape[d]);
        } else {
            let more = rng.between(1, 8);
            whole[d] += more;
            tile.begin[d] = Expr::i64(rng.between(0, more));
        }
    }
    if b.groups() > 1 && (writes || rng.chance(60)) {
        whole.insert(0, b.groups());
        tile.begin.insert(0, b.group_number());
        tile.extent.insert(0, 1);
    }
    let layout = memory_layout(rng, &whole, false);
    let scope = rng.pick(&[Scope::Shared, Scope::Shared, Scope::SharedDyn]);
    b.declare(&name, dtype, &whole, scope, layout);
    Made { tile, name, space: None }
}

fn finish(rng: &mut Rng, mut b: Builder, d: &Made, sources: &[&Made], call: TileCall) -> Option<DeviceFunc> {
    for s in sources {
        b.fill(rng, &s.name, s.space.as_ref())?;
    }
    b.fill(rng, &d.name, d.space.as_ref())?;
    b.show(rng, &d.name, d.space.as_ref())?;
    let total: i64 = b.buffers.iter().map(|x| x.shape.iter().filter_map(Expr::as_int).product::<i64>()).sum();
    (total < 20_000).then(|| b.finish(call))
}

fn copied(rng: &mut Rng, mut b: Builder, op: TileOp) -> Option<DeviceFunc> {
    let dtype = rng.pick(&[
        DType::F32,
        DType::F16,
        DType::F64,
        DType::I8,
        DType::E4M3,
        DType::I32,
        DType::U16,
        DType::I64,
        DType::Bool,
    ]);
    let dtype = if dtype == DType::Bool || dtype == DType::E4M3 { DType::U8 } else { dtype };
    let s = space(rng, b.scope, b.threads(), 32);
    let shape = s.shape();
    let local = [rng.chance(50), rng.chance(50)];
    let both = if op == TileOp::PermuteLayout { [local[0]; 2] } else { local };
    let src = match both[1] {
        true => registers(rng, &mut b, "s", dtype, &s),
        false => memory(rng, &mut b, "s", dtype, &shape, false),
    };
    let other = if op == TileOp::PermuteLayout && rng.chance(80) { again(rng, &b, &shape)? } else { s };
    let dst = match both[0] {
        true => registers(rng, &mut b, "d", dtype, &other),
        false => memory(rng, &mut b, "d", dtype, &shape, true),
    };
    let mut call = TileCall::new(op, b.scope, dst.tile.clone(), vec![src.arg()]);
    if rng.chance(10) {
        call.forced = Some(rng.pick(&["vec_256b", "vec_128b", "vec_64b", "vec_32b", "vec_16b", "fallback"]).into());
    }
    finish(rng, b, &dst, &[&src], call)
}

/// Another way to share a shape out among a warp: whole dimensions in pieces of powers of two.
fn again(rng: &mut Rng, b: &Builder, shape: &[i64]) -> Option<Space> {
    let mut left = b.group();
    let mut stride = 1;
    let mut out = Space { dims: vec![vec![]; shape.len()], replica: vec![] };
    let mut dims: Vec<usize> = (0..shape.len()).collect();
    rng.shuffle(&mut dims);
    for d in dims {
        let mut n = shape[d];
        let mut t = 1;
        while left > 1 && n % 2 == 0 {
            (n, t, left) = (n / 2, t * 2, left / 2);
        }
        if n > 1 {
            out.dims[d].push(Piece::Memory(n));
        }
        if t > 1 {
            let axis = if b.scope == ExecScope::Warp {
                daylight::ir::layout::Axis::LaneId
            } else {
                daylight::ir::layout::Axis::Tx
            };
            let at = rng.below(out.dims[d].len() as i64 + 1) as usize;
            out.dims[d].insert(at, Piece::Threads(daylight::ir::layout::Iter::new(t, stride, axis)));
        }
        stride *= t;
    }
    (left == 1).then_some(out)
}

fn reduced(rng: &mut Rng, mut b: Builder, op: TileOp) -> Option<DeviceFunc> {
    let dtype = rng.pick(&NUMBERS);
    let shared = rng.chance(35);
    let mut s = space(rng, b.scope, b.threads(), 24);
    if shared {
        let some = |rng: &mut Rng| rng.pick(&[1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 31, 32, 33, 37]);
        s.dims = (0..rng.between(1, 3)).map(|_| vec![Piece::Memory(some(rng))]).collect();
        s.replica = vec![];
    }
    let shape = s.shape();
    if shape.iter().product::<i64>() > 2500 {
        return None;
    }
    let mut axes: Vec<usize> = (0..shape.len()).filter(|_| rng.chance(50)).collect();
    if axes.is_empty() {
        axes.push(rng.below(shape.len() as i64) as usize);
    }
    let mut left = s.without(&axes, rng.chance(70));
    if rng.chance(60) && axes.len() < shape.len() {
        axes.iter().rev().for_each(|d| drop(left.dims.remove(*d)));
    }
    let (src, dst) = if shared {
        let dst = memory(rng, &mut b, "d", dtype, &left.shape(), true);
        let src = memory(rng, &mut b, "s", dtype, &shape, false);
        (src, dst)
    } else {
        let dst = registers(rng, &mut b, "d", dtype, &left);
        (registers(rng, &mut b, "s", dtype, &s), dst)
    };
    if src.tile.extent.len() > shape.len() {
        axes.iter_mut().for_each(|a| *a += 1);
    }
    rng.shuffle(&mut axes);
    let mut call = TileCall::new(op, b.scope, dst.tile.clone(), vec![src.arg()]);
    (call.axes, call.accum) = (axes, rng.chance(40));
    finish(rng, b, &dst, &[&src], call)
}

fn elementwise(rng: &mut Rng, mut b: Builder, op: TileOp) -> Option<DeviceFunc> {
    let dtype = if rng.chance(60) { rng.pick(&FLOATS) } else { rng.pick(&NUMBERS) };
    let shared = rng.chance(40);
    let s = space(rng, b.scope, b.threads(), 24);
    let shape = s.shape();
    if shape.iter().product::<i64>() > 2500 {
        return None;
    }
    let dst = match shared {
        true => memory(rng, &mut b, "d", dtype, &shape, true),
        false => registers(rng, &mut b, "d", dtype, &s),
    };
    let mut sources: Vec<Made> = vec![];
    let mut args = vec![];
    for _ in 0..op.arity() {
        if op == TileOp::Fill || rng.chance(15) {
            let value = rng.between(1, 3) as f64;
            args.push(TileArg::Scalar(if dtype.is_float() {
                Expr::float(value / 2.0, dtype)
            } else {
                Expr::int(value as i64, dtype)
            }));
            continue;
        }
        if op != TileOp::Cast && rng.chance(8) {
            args.push(dst.arg());
            continue;
        }
        let own = if op == TileOp::Cast { rng.pick(&NUMBERS) } else { dtype };
        let mut one = s.clone();
        if rng.chance(30) {
            let gone: Vec<usize> = (0..shape.len()).filter(|_| rng.chance(50)).collect();
            one = s.without(&gone, true);
            while one.dims.len() > 1 && one.dims[0].is_empty() && rng.chance(50) {
                one.dims.remove(0);
            }
        }
        let made = match shared {
            true => {
                let shape = one.shape();
                let mut m = memory(rng, &mut b, "s", own, &shape, false);
                // broadcasting counts from the last dimension, so the group's dimension may come first
                if m.tile.extent.len() > dst.tile.extent.len() {
                    return None;
                }
                m.space = None;
                m
            }
            false => registers(rng, &mut b, "s", own, &one),
        };
        args.push(made.arg());
        sources.push(made);
    }
    let call = TileCall::new(op, b.scope, dst.tile.clone(), args);
    let sources: Vec<&Made> = sources.iter().collect();
    finish(rng, b, &dst, &sources, call)
}

fn product(rng: &mut Rng, mut b: Builder) -> Option<DeviceFunc> {
    use daylight::ir::AttrValue;
    let dtype = rng.pick(&[DType::F32, DType::F32, DType::F64, DType::I32]);
    let narrow = match dtype {
        DType::F32 => rng.pick(&[DType::F32, DType::F16, DType::BF16]),
        DType::F64 => rng.pick(&[DType::F64, DType::F32]),
        _ => rng.pick(&[DType::I8, DType::I32, DType::U8, DType::I16]),
    };
    let mut s = space(rng, b.scope, b.threads(), 12);
    s.dims.truncate(2);
    if s.dims.len() < 2
        || s.dims.iter().flatten().filter(|p| matches!(p, Piece::Threads(_))).map(|p| p.extent()).product::<i64>()
            != b.group()
    {
        return None;
    }
    let shape = s.shape();
    let (m, n, k) = (shape[0], shape[1], rng.pick(&[1, 2, 3, 5, 8, 16, 17, 33]));
    if m * n > 2500 || (m + n) * k > 4000 {
        return None;
    }
    let dst = registers(rng, &mut b, "d", dtype, &s);
    let (ta, tb) = (rng.chance(40), rng.chance(40));
    let mut sources = vec![];
    for (rows, columns) in [if ta { (k, m) } else { (m, k) }, if tb { (n, k) } else { (k, n) }] {
        sources.push(if b.scope == ExecScope::Thread && rng.chance(50) && rows * columns <= 64 {
            let own = Space { dims: vec![vec![Piece::Memory(rows)], vec![Piece::Memory(columns)]], replica: vec![] };
            registers(rng, &mut b, "s", narrow, &own)
        } else {
            memory(rng, &mut b, "s", narrow, &[rows, columns], false)
        });
    }
    let mut call = TileCall::new(TileOp::Gemm, b.scope, dst.tile.clone(), sources.iter().map(Made::arg).collect());
    call.accum = rng.chance(50);
    if ta {
        call.config.insert("transpose_A".into(), AttrValue::Bool(true));
    }
    if tb {
        call.config.insert("transpose_B".into(), AttrValue::Bool(true));
    }
    let sources: Vec<&Made> = sources.iter().collect();
    finish(rng, b, &dst, &sources, call)
}

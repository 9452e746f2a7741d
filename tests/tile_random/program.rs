//! Tile programs around one call: parameters to tiles, the call, and its destination to a parameter.

use super::rng::Rng;
use super::space::Space;
use daylight::ir::device::{DFor, DKind, DStmt, DeviceFunc};
use daylight::ir::kernel::Barrier;
use daylight::ir::layout::{Axis, TileLayout};
use daylight::ir::{
    BinOp, Buffer, DType, ExecScope, Expr, Name, Param, PrimFunc, Scope, Tile, TileArg, TileCall, TileOp,
};
use std::collections::BTreeMap;

/// A program under construction.
pub struct Builder {
    pub block: [u32; 3],
    pub scope: ExecScope,
    /// The call runs twice, on different data.
    pub looped: bool,
    /// Where the call is under a condition.
    pub cond: Option<Expr>,
    pub buffers: Vec<Buffer>,
    before: Vec<DStmt>,
    after: Vec<DStmt>,
    names: usize,
}

/// A binary index expression with a constant.
pub fn with(op: BinOp, a: &Expr, n: i64) -> Expr {
    Expr::binary(op, a.clone(), Expr::i64(n))
}

fn var(name: &str) -> Expr {
    Expr::var(Name::new(name), DType::I64)
}

/// The repetition.
pub fn round() -> Expr {
    var("round")
}

impl Builder {
    pub fn new(block: [u32; 3], scope: ExecScope, looped: bool) -> Builder {
        let (buffers, before, after) = (vec![], vec![], vec![]);
        Builder { block, scope, looped, cond: None, buffers, before, after, names: 0 }
    }

    pub fn threads(&self) -> i64 {
        self.block.iter().map(|n| i64::from(*n)).product()
    }

    /// Threads of one call.
    pub fn group(&self) -> i64 {
        match self.scope {
            ExecScope::Thread => 1,
            ExecScope::Warp => 32,
            ExecScope::Warpgroup => 128,
            ExecScope::Cta => self.threads(),
        }
    }

    pub fn groups(&self) -> i64 {
        (self.threads() / self.group()).max(1)
    }

    /// The number of the thread in its block.
    pub fn thread(&self) -> Expr {
        let [x, y, _] = self.block.map(i64::from);
        let tx = var("threadIdx.x");
        if self.block[1] == 1 && self.block[2] == 1 {
            return tx;
        }
        let above = Expr::binary(BinOp::Add, with(BinOp::Mul, &var("threadIdx.z"), y), var("threadIdx.y"));
        Expr::binary(BinOp::Add, with(BinOp::Mul, &above, x), tx)
    }

    /// The number of the thread's group.
    pub fn group_number(&self) -> Expr {
        if self.groups() == 1 { Expr::i64(0) } else { with(BinOp::FloorDiv, &self.thread(), self.group()) }
    }

    pub fn name(&mut self, stem: &str) -> Name {
        self.names += 1;
        Name::new(format!("{stem}{}", self.names))
    }

    fn rounds(&self) -> i64 {
        if self.looped { 2 } else { 1 }
    }

    fn at_round(&self) -> Expr {
        if self.looped { round() } else { Expr::i64(0) }
    }

    pub fn declare(&mut self, name: &Name, dtype: DType, shape: &[i64], scope: Scope, layout: Option<TileLayout>) {
        let mut b = Buffer::new(name.clone(), dtype, shape.iter().map(|n| Expr::i64(*n)).collect(), scope);
        b.layout = layout;
        self.buffers.push(b);
    }

    /// The value of the thread on an axis of layouts.
    fn on_axis(&self, axis: Axis) -> Expr {
        let t = self.thread();
        match axis {
            Axis::LaneId => with(BinOp::FloorMod, &t, 32),
            Axis::WarpId => with(BinOp::FloorDiv, &t, 32),
            Axis::WidInWg => with(BinOp::FloorMod, &with(BinOp::FloorDiv, &t, 32), 4),
            Axis::WgId => with(BinOp::FloorDiv, &t, 128),
            Axis::TidInWg => with(BinOp::FloorMod, &t, 128),
            _ => t,
        }
    }

    /// Fills a buffer from a new parameter, before the call.
    pub fn fill(&mut self, rng: &mut Rng, name: &Name, space: Option<&Space>) -> Option<()> {
        let moves = self.moves(rng, name, space, true)?;
        self.before.extend(moves);
        Some(())
    }

    /// Stores a buffer to a new parameter, after the call.
    pub fn show(&mut self, rng: &mut Rng, name: &Name, space: Option<&Space>) -> Option<()> {
        let moves = self.moves(rng, name, space, false)?;
        self.after.extend(moves);
        Some(())
    }

    /// Moves all of a buffer from a parameter, or to one.
    fn moves(&mut self, rng: &mut Rng, name: &Name, space: Option<&Space>, fill: bool) -> Option<Vec<DStmt>> {
        let b = self.buffers.iter().find(|b| b.name == *name)?.clone();
        let shape: Vec<i64> = b.shape.iter().filter_map(Expr::as_int).collect();
        let groups = if b.scope == Scope::Local { self.groups() } else { 1 };
        let mut outer = vec![self.rounds(), groups];
        outer.extend(&shape);
        let tensor = self.name(if fill { "In" } else { "Out" });
        self.declare(&tensor, b.dtype, &outer, Scope::Global, None);
        let mut first = vec![self.at_round(), Expr::i64(0)];
        if b.scope == Scope::Local {
            first[1] = self.group_number();
        }
        if rng.chance(25) {
            return Some(vec![self.by_copy(&b, &shape, &tensor, first, fill)]);
        }
        let both = |index: Vec<Expr>| {
            let there: Vec<Expr> = first.iter().chain(&index).cloned().collect();
            let (from, to) = ((tensor.clone(), there), (name.clone(), index));
            let (from, to) = if fill { (from, to) } else { (to, from) };
            DStmt::store(to.0, to.1, Expr::load(from.0, from.1, b.dtype))
        };
        if b.scope != Scope::Local {
            return Some(self.by_all_threads(&shape, both));
        }
        match (&b.layout, space) {
            (Some(layout), Some(space)) => self.by_holders(layout, space, &shape, both),
            (_, _) => {
                let i = self.name("i");
                let n = shape.iter().product();
                let body = vec![both(unravel(&var(i.as_str()), &shape))];
                Some(vec![DStmt::For(DFor::new(i, Expr::i64(n), DKind::Unrolled, body))])
            }
        }
    }

    fn by_copy(&mut self, b: &Buffer, shape: &[i64], tensor: &Name, first: Vec<Expr>, fill: bool) -> DStmt {
        let inside = Tile::whole(&b.name, shape);
        let mut outside = Tile::whole(tensor, shape);
        outside.begin = first.into_iter().chain(outside.begin).collect();
        outside.extent = [1, 1].into_iter().chain(outside.extent).collect();
        let scope = if b.scope == Scope::Local { self.scope } else { ExecScope::Cta };
        let (dst, src) = if fill { (inside, outside) } else { (outside, inside) };
        DStmt::Tile(Box::new(TileCall::new(TileOp::Copy, scope, dst, vec![TileArg::Tile(src)])))
    }

    fn by_all_threads(&mut self, shape: &[i64], both: impl Fn(Vec<Expr>) -> DStmt) -> Vec<DStmt> {
        let (n, threads) = (shape.iter().product::<i64>(), self.threads());
        let i = self.name("i");
        let at = Expr::binary(BinOp::Add, with(BinOp::Mul, &var(i.as_str()), threads), self.thread());
        let body = vec![both(unravel(&at, shape))];
        let body = vec![DStmt::If { cond: with(BinOp::Lt, &at, n), then: body, otherwise: vec![] }];
        vec![DStmt::For(DFor::new(i, Expr::i64((n + threads - 1) / threads), DKind::Serial, body))]
    }

    /// Element by element, by the threads that hold each.
    fn by_holders(
        &mut self,
        layout: &TileLayout,
        space: &Space,
        shape: &[i64],
        both: impl Fn(Vec<Expr>) -> DStmt,
    ) -> Option<Vec<DStmt>> {
        let covered: i64 = space
            .dims
            .iter()
            .flatten()
            .map(|p| if let super::space::Piece::Threads(it) = p { it.extent } else { 1 })
            .product::<i64>()
            * space.replica.iter().map(|it| it.extent).product::<i64>();
        let period =
            if layout.mentions(Axis::LaneId) && !layout.mentions(Axis::WarpId) && !layout.mentions(Axis::WidInWg) {
                32
            } else {
                self.group()
            };
        if covered == period {
            let own = layout.local_shape(shape).ok()?;
            let n: i64 = own.iter().product();
            let mut out = vec![];
            for k in 0..n {
                let local = unravel(&Expr::i64(k), &own);
                let axis =
                    |a| if a == Axis::Tx && self.scope != ExecScope::Cta { Expr::i64(0) } else { self.on_axis(a) };
                out.push(both(layout.coordinates(shape, &axis, &local).ok()?));
            }
            return Some(out);
        }
        if layout.size() * layout.replicas() > 256 {
            return None;
        }
        let axes: Vec<Axis> = Axis::ALL.iter().map(|a| a.0).filter(|a| a.is_thread() && layout.mentions(*a)).collect();
        let mut out = vec![];
        for e in 0..layout.size() {
            let holds = |p: daylight::ir::layout::Point| {
                let is = axes.iter().map(|a| with(BinOp::Eq, &self.on_axis(*a), p.get(*a)));
                is.reduce(|a, b| Expr::binary(BinOp::And, a, b)).unwrap_or(Expr::bool(true))
            };
            let cond = layout.positions(e).into_iter().map(holds).reduce(|a, b| Expr::binary(BinOp::Or, a, b))?;
            let then = vec![both(unravel(&Expr::i64(e), shape))];
            out.push(DStmt::If { cond, then, otherwise: vec![] });
        }
        Some(out)
    }

    /// The whole program around a call.
    pub fn finish(self, call: TileCall) -> DeviceFunc {
        let sync = || DStmt::Barrier(Barrier::Block);
        let mut body = self.before;
        body.push(sync());
        let call = DStmt::Tile(Box::new(call));
        body.push(match self.cond {
            None => call,
            Some(cond) => DStmt::If { cond, then: vec![call], otherwise: vec![] },
        });
        body.push(sync());
        body.extend(self.after);
        body.push(sync());
        if self.looped {
            body = vec![DStmt::For(DFor::new(Name::new("round"), Expr::i64(2), DKind::Serial, body))];
        }
        let params = self.buffers.iter().filter(|b| b.scope == Scope::Global);
        let func = PrimFunc {
            name: "tile".into(),
            private: false,
            params: params.map(|b| Param::Buffer(b.name.clone())).collect(),
            buffers: self.buffers.clone(),
            extents: vec![],
            attrs: vec![],
            allocs: vec![],
            body: vec![],
            display: BTreeMap::new(),
        };
        DeviceFunc { func, grid: [Expr::i64(1), Expr::i64(1), Expr::i64(1)], block: self.block, body }
    }
}

/// The index of an element of a row-major shape.
fn unravel(at: &Expr, shape: &[i64]) -> Vec<Expr> {
    let mut inside: i64 = shape.iter().product();
    let mut out = vec![];
    for n in shape {
        inside /= n;
        out.push(match at.as_int() {
            Some(k) => Expr::i64(k / inside % n),
            None => with(BinOp::FloorMod, &with(BinOp::FloorDiv, at, inside), *n),
        });
    }
    out
}

//! Tile calls, on elements.

use super::{Machine, Result};
use crate::interp::op::InterpError;
use crate::interp::scalar::{apply_cast, apply_float, apply_int};
use crate::ir::{AttrValue, BinOp, DType, ExecScope, Intrin, Name, Tile, TileArg, TileCall, TileOp};

/// One element to be written.
pub(super) type Write = (usize, Option<u64>);

/// The variant whose boxes may reach beyond their tensor, where a call asks for it.
const BOXES: &str = "tma";

/// The elements of an operand, row-major, with extents and type.
pub(super) struct Operand {
    values: Vec<Option<u64>>,
    pub(super) extent: Vec<i64>,
    pub(super) dtype: DType,
    /// The buffer and the elements' numbers in it, for errors; absent for scalars.
    source: Option<(Name, Vec<usize>)>,
}

impl Machine<'_> {
    pub(super) fn tile(&mut self, call: &TileCall, active: &[usize]) -> Result<()> {
        let granule = match call.scope {
            ExecScope::Thread => 1,
            ExecScope::Warp => 32,
            ExecScope::Warpgroup => 128,
            ExecScope::Cta => self.threads,
        };
        let Some(groups) = self.groups(active, granule) else {
            let (scope, op) = (call.scope.name(), call.op.name());
            return Err(InterpError::Threads(format!("only some threads of a {scope} reach its `{op}`")));
        };
        let mut all = vec![];
        for group in groups {
            let writes = self.group(call, &group)?;
            all.push((group, writes));
        }
        for (group, writes) in all {
            let bar = call.operands.get("mbar");
            if let Some(bar) = bar.filter(|_| call.op != TileOp::Gemm) {
                self.counted_copy(call, bar, group, writes)?;
                continue;
            }
            for (at, value) in writes {
                self.memory.write(&call.dst.buffer, at, &group, value)?;
            }
            bar.map_or(Ok(()), |bar| self.product_done(bar, &group))?;
        }
        Ok(())
    }

    /// What one group of threads writes.
    fn group(&mut self, call: &TileCall, group: &[usize]) -> Result<Vec<Write>> {
        if call.op == TileOp::CopyAsync && call.forced.as_deref() == Some(BOXES) {
            return self.boxes(call, group);
        }
        let places = self.places(&call.dst, group)?;
        let dtype = self.memory.space(&call.dst.buffer)?.dtype;
        let mut args = vec![];
        for a in &call.args {
            args.push(self.operand(a, group)?);
        }
        let held = self.holds(call, group)?;
        let old = if call.accum || !held { Some(self.operand(&TileArg::Tile(call.dst.clone()), group)?) } else { None };
        let values = match call.op {
            TileOp::Copy | TileOp::CopyAsync | TileOp::PermuteLayout => match old {
                Some(old) => kept(call, old),
                None => self.copied(&args, dtype)?,
            },
            TileOp::Sum | TileOp::Prod | TileOp::Max | TileOp::Min => self.reduced(call, &args, old, dtype)?,
            TileOp::Gemm => match self.scales(call, group)? {
                Some(scales) => self.scaled_product(call, &args, &scales, old)?,
                None => self.product(call, &args, old, dtype)?,
            },
            TileOp::Zero => vec![Some(0); places.len()],
            TileOp::Fill
            | TileOp::Cast
            | TileOp::Reciprocal
            | TileOp::Sqrt
            | TileOp::Exp
            | TileOp::Exp2
            | TileOp::Log2
            | TileOp::Silu
            | TileOp::Add
            | TileOp::Sub
            | TileOp::Mul
            | TileOp::Fdiv
            | TileOp::Maximum
            | TileOp::Minimum
            | TileOp::Fma => self.elementwise(call, &args, dtype)?,
        };
        Ok(places.into_iter().zip(values).collect())
    }

    /// What a copy of boxes writes: they end where their tensor does, which is read as zeros beyond and
    /// not written.
    fn boxes(&mut self, call: &TileCall, group: &[usize]) -> Result<Vec<Write>> {
        let Some(TileArg::Tile(src)) = call.args.first() else { return Err(missing()) };
        let to = self.places_within(&call.dst, group)?;
        let from = self.places_within(src, group)?;
        let dtype = (self.memory.space(&src.buffer)?.dtype, self.memory.space(&call.dst.buffer)?.dtype);
        let mut out = vec![];
        for (to, from) in to.into_iter().zip(from) {
            let value = match from {
                Some(e) => self.memory.read(&src.buffer, e, group)?,
                None => Some(0),
            };
            out.extend(to.map(|to| (to, value.map(|v| self.convert(dtype.0, dtype.1, v)))));
        }
        Ok(out)
    }

    /// As `places`, with nothing for elements beyond a tensor in device memory.
    fn places_within(&mut self, tile: &Tile, group: &[usize]) -> Result<Vec<Option<usize>>> {
        let begin = self.begin(tile, group)?;
        let space = self.memory.space(&tile.buffer)?;
        if !space.is_global() {
            return Ok(self.places(tile, group)?.into_iter().map(Some).collect());
        }
        let at = |linear| space.element(&added(&begin, &unravel(linear, &tile.extent)));
        Ok((0..tile.len()).map(at).collect())
    }

    /// The numbers of a tile's elements in its buffer.
    pub(super) fn places(&mut self, tile: &Tile, group: &[usize]) -> Result<Vec<usize>> {
        let begin = self.begin(tile, group)?;
        let space = self.memory.space(&tile.buffer)?;
        let mut out = vec![];
        for linear in 0..tile.len() {
            let index = added(&begin, &unravel(linear, &tile.extent));
            match space.element(&index) {
                Some(at) => out.push(at),
                None => {
                    let (buffer, shape) = (self.user(&tile.buffer), space.shape.clone());
                    return Err(InterpError::OutOfBounds { buffer, index, shape });
                }
            }
        }
        Ok(out)
    }

    /// Where a tile begins; all threads of the group mean the same place.
    fn begin(&mut self, tile: &Tile, group: &[usize]) -> Result<Vec<i64>> {
        let mut begin: Option<Vec<i64>> = None;
        for t in group {
            let mut own = vec![];
            for e in &tile.begin {
                own.push(self.eval(e, *t)? as i64);
            }
            if begin.as_ref().is_some_and(|b| *b != own) {
                let user = self.user(&tile.buffer);
                let text = format!("threads of one call begin at different indices of `{user}`");
                return Err(InterpError::Threads(text));
            }
            begin = Some(own);
        }
        Ok(begin.unwrap_or_default())
    }

    pub(super) fn operand(&mut self, arg: &TileArg, group: &[usize]) -> Result<Operand> {
        match arg {
            TileArg::Tile(t) => {
                let places = self.places(t, group)?;
                let dtype = self.memory.space(&t.buffer)?.dtype;
                let mut values = vec![];
                for at in &places {
                    values.push(self.memory.read(&t.buffer, *at, group)?);
                }
                Ok(Operand { values, extent: t.extent.clone(), dtype, source: Some((t.buffer.clone(), places)) })
            }
            TileArg::Scalar(e) => {
                let mut value = None;
                for t in group {
                    let own = self.eval(e, *t)?;
                    if value.is_some_and(|v| v != own) {
                        let text = "threads of one call give it different values of a scalar".to_string();
                        return Err(InterpError::Threads(text));
                    }
                    value = Some(own);
                }
                Ok(Operand { values: vec![value], extent: vec![], dtype: e.dtype(), source: None })
            }
        }
    }

    /// Element number `k` of an operand, which has to be written, converted.
    pub(super) fn get(&self, o: &Operand, k: usize, to: DType) -> Result<u64> {
        match (o.values[k], &o.source) {
            (Some(v), _) => Ok(self.convert(o.dtype, to, v)),
            (None, Some((buffer, places))) => Err(self.unwritten(buffer, places[k])),
            (None, None) => Err(InterpError::Unsupported("a scalar without a value".to_string())),
        }
    }

    pub(super) fn convert(&self, from: DType, to: DType, v: u64) -> u64 {
        if from == to { v } else { apply_cast(from, self.float(to), v) }
    }

    /// A copy takes what nothing has written along.
    fn copied(&self, args: &[Operand], dtype: DType) -> Result<Vec<Option<u64>>> {
        let Some(src) = args.first() else { return Err(missing()) };
        Ok(src.values.iter().map(|v| v.map(|v| self.convert(src.dtype, dtype, v))).collect())
    }

    /// The condition that a call is given.
    fn holds(&mut self, call: &TileCall, group: &[usize]) -> Result<bool> {
        let named = ["predicate", "valid"].iter().find_map(|k| call.operands.get(*k));
        match named {
            None => Ok(!["predicate", "valid"].iter().any(|k| call.config.get(*k) == Some(&AttrValue::Bool(false)))),
            Some(arg) => Ok(self.operand(arg, group)?.values.first().copied().flatten() != Some(0)),
        }
    }

    fn reduced(
        &self,
        call: &TileCall,
        args: &[Operand],
        old: Option<Operand>,
        dtype: DType,
    ) -> Result<Vec<Option<u64>>> {
        let Some(src) = args.first() else { return Err(missing()) };
        let op = match call.op {
            TileOp::Prod => BinOp::Mul,
            TileOp::Max => BinOp::Max,
            TileOp::Min => BinOp::Min,
            _ => BinOp::Add,
        };
        let size = call.dst.len() as usize;
        let mut out: Vec<Option<u64>> = vec![None; size];
        for k in 0..src.values.len() {
            let index = unravel(k as i64, &src.extent);
            let kept = index.iter().zip(&src.extent).enumerate().filter(|(d, _)| !call.axes.contains(d));
            let at = kept.fold(0, |at, (_, (i, n))| at * n + i) as usize;
            let v = self.get(src, k, dtype)?;
            out[at] = Some(match out[at] {
                Some(sum) => self.combine(op, dtype, sum, v)?,
                None => v,
            });
        }
        if let Some(old) = old {
            for (k, v) in out.iter_mut().enumerate() {
                let before = self.get(&old, k, dtype)?;
                *v = v.map(|v| self.combine(op, dtype, before, v)).transpose()?;
            }
        }
        Ok(out)
    }

    fn combine(&self, op: BinOp, dtype: DType, a: u64, b: u64) -> Result<u64> {
        if dtype.is_float() {
            return Ok(apply_float(op, self.float(dtype), a, b));
        }
        Ok(apply_int(op, dtype, a, b))
    }

    fn product(
        &self,
        call: &TileCall,
        args: &[Operand],
        old: Option<Operand>,
        dtype: DType,
    ) -> Result<Vec<Option<u64>>> {
        let [a, b] = args else { return Err(missing()) };
        let last_two = |e: &[i64]| (e[e.len() - 2], e[e.len() - 1]);
        let ((m, n), (ar, ac)) = (last_two(&call.dst.extent), last_two(&a.extent));
        let (_, bc) = last_two(&b.extent);
        let (turn_a, turn_b) = (call.flag("transpose_A"), call.flag("transpose_B"));
        let depth = if turn_a { ar } else { ac };
        let mut out = vec![];
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let mut sum = match &old {
                Some(o) => self.get(o, (i * n + j) as usize, dtype)?,
                None => 0,
            };
            for k in 0..depth {
                let at_a = if turn_a { k * ac + i } else { i * ac + k };
                let at_b = if turn_b { j * bc + k } else { k * bc + j };
                let (x, y) = (self.get(a, at_a as usize, dtype)?, self.get(b, at_b as usize, dtype)?);
                let xy = self.combine(BinOp::Mul, if dtype.is_float() { DType::F64 } else { dtype }, x, y)?;
                sum = self.combine(BinOp::Add, dtype, sum, xy)?;
            }
            out.push(Some(sum));
        }
        Ok(out)
    }

    /// Operands are broadcast to the destination; results are rounded once.
    fn elementwise(&self, call: &TileCall, args: &[Operand], dtype: DType) -> Result<Vec<Option<u64>>> {
        let mut out = vec![];
        for linear in 0..call.dst.len() {
            let index = unravel(linear, &call.dst.extent);
            let mut values = vec![];
            for a in args {
                values.push(self.get(a, broadcast(&index, &a.extent), dtype)?);
            }
            out.push(Some(self.apply(call.op, dtype, &values)?));
        }
        Ok(out)
    }

    fn apply(&self, op: TileOp, dtype: DType, v: &[u64]) -> Result<u64> {
        let binary = |op| self.combine(op, dtype, v[0], v[1]);
        match op {
            TileOp::Add => return binary(BinOp::Add),
            TileOp::Sub => return binary(BinOp::Sub),
            TileOp::Mul => return binary(BinOp::Mul),
            TileOp::Fdiv => return binary(BinOp::Div),
            TileOp::Maximum => return binary(BinOp::Max),
            TileOp::Minimum => return binary(BinOp::Min),
            TileOp::Fill | TileOp::Cast => return Ok(v[0]),
            TileOp::Fma if !dtype.is_float() => {
                let product = self.combine(BinOp::Mul, dtype, v[0], v[1])?;
                return self.combine(BinOp::Add, dtype, product, v[2]);
            }
            _ => {}
        }
        let x = |k: usize| f64::from_bits(v[k]);
        if !dtype.is_float() {
            return Err(InterpError::Unsupported(format!("`{}` of {dtype}", op.name())));
        }
        let function = |f: Intrin| crate::interp::unary(f).map_or(f64::NAN, |f| f(x(0)));
        let value = match op {
            TileOp::Reciprocal => 1.0 / x(0),
            TileOp::Sqrt => function(Intrin::Sqrt),
            TileOp::Exp => function(Intrin::Exp),
            TileOp::Exp2 => function(Intrin::Exp2),
            TileOp::Log2 => function(Intrin::Log2),
            TileOp::Silu => x(0) / (1.0 + (-x(0)).exp()),
            TileOp::Fma => x(0).mul_add(x(1), x(2)),
            other => return Err(InterpError::Unsupported(format!("`{}` of elements", other.name()))),
        };
        Ok(apply_cast(DType::F64, self.float(dtype), value.to_bits()))
    }
}

/// What a copy writes where its condition is false: zeros, or what was there.
fn kept(call: &TileCall, old: Operand) -> Vec<Option<u64>> {
    match call.config.get("fill_mode") {
        Some(AttrValue::Str(s)) if s == "zero" => vec![Some(0); old.values.len()],
        _ => old.values,
    }
}

pub(super) fn missing() -> InterpError {
    InterpError::Unsupported("a call that lacks operands".to_string())
}

fn unravel(linear: i64, extent: &[i64]) -> Vec<i64> {
    let mut rest = linear;
    let mut out: Vec<i64> = extent
        .iter()
        .rev()
        .map(|n| {
            let i = rest % n;
            rest /= n;
            i
        })
        .collect();
    out.reverse();
    out
}

fn added(a: &[i64], b: &[i64]) -> Vec<i64> {
    a.iter().zip(b).map(|(x, y)| x.saturating_add(*y)).collect()
}

/// The number of the element that stands for `index` of the destination.
fn broadcast(index: &[i64], extent: &[i64]) -> usize {
    let extra = extent.len().saturating_sub(index.len());
    let skipped = index.len().saturating_sub(extent.len());
    let aligned = index[skipped..].iter().zip(&extent[extra..]);
    aligned.fold(0, |at, (i, n)| at * n + if *n == 1 { 0 } else { *i }) as usize
}

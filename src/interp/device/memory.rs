//! What a block's threads see: tensors in device memory, shared memory, and registers.

use super::Result;
use crate::interp::Tensor;
use crate::interp::op::InterpError;
use crate::interp::scalar::from_stored;
use crate::interp::tensor::read_bits;
use crate::ir::device::DeviceFunc;
use crate::ir::layout::{Axis, Point, TileLayout};
use crate::ir::{Buffer, DType, Expr, Name, Scope};
use std::collections::{BTreeSet, HashMap};

/// Elements of a buffer that are kept one by one.
const MAX_ELEMENTS: usize = 1 << 24;

/// A buffer.
pub(super) struct Space {
    pub dtype: DType,
    pub shape: Vec<i64>,
    kind: Kind,
}

enum Kind {
    /// One cell per element, for all threads. In device memory `offset` says where each element
    /// lies in the tensor.
    Common { cells: Vec<Option<u64>>, offset: Vec<usize>, global: bool, stored: BTreeSet<usize> },
    /// Cells of each thread.
    Private(Registers),
}

/// Registers of all threads, and who holds what.
struct Registers {
    cells: Vec<Vec<Option<u64>>>,
    /// For each element its places: which threads, and which of their registers.
    places: Vec<Vec<(usize, usize)>>,
    /// Which threads a thread is one of, as numbered in `places`.
    group: Vec<Option<usize>>,
}

/// All buffers of a program.
pub(super) struct Memory {
    spaces: HashMap<Name, Space>,
}

impl Memory {
    pub fn new(program: &DeviceFunc, args: &[Tensor], threads: usize) -> Result<Memory> {
        let mut spaces = HashMap::new();
        for b in &program.func.buffers {
            let position = program.func.buffer_params().position(|p| p.name == b.name);
            spaces.insert(b.name.clone(), space(b, position.map(|k| &args[k]), program, threads)?);
        }
        Ok(Memory { spaces })
    }

    /// Another block begins.
    pub fn forget(&mut self) {
        for space in self.spaces.values_mut() {
            match &mut space.kind {
                Kind::Common { global: true, .. } => {}
                Kind::Common { cells, .. } => cells.fill(None),
                Kind::Private(r) => r.cells.iter_mut().for_each(|c| c.fill(None)),
            }
        }
    }

    /// A buffer of the program.
    pub fn space(&self, name: &Name) -> Result<&Space> {
        self.spaces.get(name).ok_or_else(|| InterpError::UnknownExtent(name.clone()))
    }

    /// Element number `e` as the threads of a group see it; they have to agree.
    pub fn read(&self, name: &Name, e: usize, group: &[usize]) -> Result<Option<u64>> {
        match &self.space(name)?.kind {
            Kind::Common { cells, .. } => Ok(cells[e]),
            Kind::Private(r) => r.read(e, group),
        }
    }

    /// Sets element number `e` for the threads of a group that hold it.
    pub fn write(&mut self, name: &Name, e: usize, group: &[usize], value: Option<u64>) -> Result<()> {
        let space = self.spaces.get_mut(name).ok_or_else(|| InterpError::UnknownExtent(name.clone()))?;
        match &mut space.kind {
            Kind::Common { cells, global, stored, .. } => {
                cells[e] = value;
                if *global {
                    stored.insert(e);
                }
            }
            Kind::Private(r) => r.write(e, group, value)?,
        }
        Ok(())
    }

    /// True where all threads see one element.
    pub fn is_common(&self, name: &Name) -> bool {
        self.spaces.get(name).is_some_and(|s| matches!(s.kind, Kind::Common { .. }))
    }

    /// Stores what the program wrote to its arguments; gives for each which elements of the tensor
    /// that are, in ascending order.
    pub fn write_back(&self, program: &DeviceFunc, args: &mut [Tensor]) -> Vec<Vec<u64>> {
        let mut all = vec![];
        for (b, arg) in program.func.buffer_params().zip(args) {
            let mut at_all = BTreeSet::new();
            if let Some(Space { dtype, kind: Kind::Common { cells, offset, stored, .. }, .. }) =
                self.spaces.get(&b.name)
            {
                for e in stored {
                    let at = offset[*e];
                    at_all.insert(at as u64);
                    match cells[*e] {
                        Some(v) if dtype.is_float() => arg.set_f64(at, f64::from_bits(v)),
                        Some(v) => arg.set_i64(at, v as i64),
                        None => {}
                    }
                }
            }
            all.push(at_all.into_iter().collect());
        }
        all
    }
}

impl Space {
    /// True for device memory.
    pub fn is_global(&self) -> bool {
        matches!(self.kind, Kind::Common { global: true, .. })
    }

    /// The number of the element at an index, or `None` outside.
    pub fn element(&self, index: &[i64]) -> Option<usize> {
        let inside = index.len() == self.shape.len() && index.iter().zip(&self.shape).all(|(i, n)| (0..*n).contains(i));
        inside.then(|| index.iter().zip(&self.shape).fold(0, |at, (i, n)| at * n + i) as usize)
    }
}

fn space(b: &Buffer, arg: Option<&Tensor>, program: &DeviceFunc, threads: usize) -> Result<Space> {
    let user = program.func.display_name(&b.name);
    let shape: Option<Vec<i64>> = b.shape.iter().map(Expr::as_int).collect();
    let shape = shape.ok_or_else(|| InterpError::Unsupported(format!("the symbolic shape of `{user}`")))?;
    let fitted = match &b.layout {
        Some(layout) => layout.fit(&shape),
        None => TileLayout::row_major(&shape),
    };
    let layout = fitted.map_err(InterpError::Threads)?;
    let size = layout.size() as usize;
    if size > MAX_ELEMENTS {
        return Err(InterpError::Unsupported(format!("buffers of {size} elements (`{user}`)")));
    }
    let kind = match (&b.scope, arg) {
        (Scope::Local, _) => Kind::Private(registers(&layout, threads)?),
        (_, None) => Kind::Common { cells: vec![None; size], offset: vec![], global: false, stored: BTreeSet::new() },
        (_, Some(t)) => {
            let offset: Vec<usize> = (0..size as i64).map(|e| layout.apply(e).get(Axis::M) as usize).collect();
            if offset.iter().any(|at| *at >= t.len()) {
                let text = format!("the layout of `{user}`, whose elements lie outside of its tensor");
                return Err(InterpError::Unsupported(text));
            }
            let read = |at: &usize| Some(from_stored(read_bits(&t.data, t.dtype, *at), t.dtype));
            Kind::Common { cells: offset.iter().map(read).collect(), offset, global: true, stored: BTreeSet::new() }
        }
    };
    Ok(Space { dtype: b.dtype, shape, kind })
}

/// Threads as the axes of layouts number them.
const AXES: [Axis; 6] = [Axis::LaneId, Axis::WarpId, Axis::WidInWg, Axis::WgId, Axis::TidInWg, Axis::Tx];

/// Where thread `t` of a block stands on an axis.
fn coordinate(t: usize, axis: Axis) -> i64 {
    let at = match axis {
        Axis::LaneId => t % 32,
        Axis::WarpId => t / 32,
        Axis::WidInWg => t / 32 % 4,
        Axis::WgId => t / 128,
        Axis::TidInWg => t % 128,
        _ => t,
    };
    at as i64
}

fn registers(layout: &TileLayout, threads: usize) -> Result<Registers> {
    if let Some((axis, _)) = Axis::ALL.iter().find(|(a, _)| *a != Axis::M && !AXES.contains(a) && layout.mentions(*a)) {
        return Err(InterpError::Unsupported(format!("registers on the axis {axis}")));
    }
    let axes: Vec<Axis> = AXES.into_iter().filter(|a| layout.mentions(*a)).collect();
    let key = |p: &Point| axes.iter().map(|a| p.get(*a)).collect::<Vec<i64>>();
    let (low, _) = layout.range(Axis::M);
    let mut groups: HashMap<Vec<i64>, usize> = HashMap::new();
    let mut places = vec![];
    for e in 0..layout.size() {
        let mut own = vec![];
        for p in layout.positions(e) {
            let next = groups.len();
            let group = *groups.entry(key(&p)).or_insert(next);
            own.push((group, (p.get(Axis::M) - low) as usize));
        }
        places.push(own);
    }
    let of = |t: usize| groups.get(&axes.iter().map(|a| coordinate(t, *a)).collect::<Vec<_>>()).copied();
    let span = layout.span(Axis::M) as usize;
    if span.saturating_mul(threads) > MAX_ELEMENTS {
        return Err(InterpError::Unsupported(format!("{span} registers per thread")));
    }
    Ok(Registers { cells: vec![vec![None; span]; threads], places, group: (0..threads).map(of).collect() })
}

impl Registers {
    /// The threads of a group that hold an element, with the register.
    fn holders<'r>(&'r self, e: usize, group: &'r [usize]) -> impl Iterator<Item = (usize, usize)> + 'r {
        let at = move |t: &usize| {
            let place = self.places[e].iter().find(|(g, _)| self.group[*t] == Some(*g))?;
            Some((*t, place.1))
        };
        group.iter().filter_map(at)
    }

    fn read(&self, e: usize, group: &[usize]) -> Result<Option<u64>> {
        let mut holders = self.holders(e, group);
        let Some((first, at)) = holders.next() else { return Err(nobody(e, group)) };
        let value = self.cells[first][at];
        match holders.find(|(t, at)| self.cells[*t][*at] != value) {
            None => Ok(value),
            Some((other, _)) => {
                let text = format!("element number {e} is read from threads {first} and {other}, which differ in it");
                Err(InterpError::Threads(text))
            }
        }
    }

    fn write(&mut self, e: usize, group: &[usize], value: Option<u64>) -> Result<()> {
        let holders: Vec<(usize, usize)> = self.holders(e, group).collect();
        if holders.is_empty() {
            return Err(nobody(e, group));
        }
        holders.into_iter().for_each(|(t, at)| self.cells[t][at] = value);
        Ok(())
    }
}

fn nobody(e: usize, group: &[usize]) -> InterpError {
    let (first, last) = (group.first().unwrap_or(&0), group.last().unwrap_or(&0));
    InterpError::Threads(format!("element number {e} is in registers of none of the threads {first} to {last}"))
}

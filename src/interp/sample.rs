//! Demand-driven evaluation: chosen elements of one output, in `float64`, computing only what they
//! need. Elements of intermediates are computed when they are read; reductions are remembered.

use super::demand::{Dim, Plan, Producer};
use super::layout::{Layout, Scalars, buffer_index};
use super::op::InterpError;
use super::run::{check_dtypes, written_buffers};
use super::vm::{Slot, Source, Vm};
use super::{Mode, Tensor};
use crate::ir::{Buffer, Expr, Name, PrimFunc};
use rayon::prelude::*;
use std::collections::HashMap;

type Result<T> = std::result::Result<T, InterpError>;

/// Elements of `output` at `points`, as [`super::run`] in [`Mode::F64`] would give them, without
/// running the whole function; `None` for those that the function stores nothing to. Points are shared out
/// over rayon's threads.
///
/// `inputs` holds one tensor per buffer parameter in order. Those that the function only writes may
/// have no data.
///
/// # Errors
/// As for `run`, and `Unsupported` where the function is not in the plain form that rules start from
/// (blocks bound to loops one to one, each storing at its own iterators): then only `run` helps.
pub fn sample(
    f: &PrimFunc,
    inputs: &[Tensor],
    scalars: &Scalars,
    output: &Name,
    points: &[Vec<i64>],
) -> Result<Vec<Option<f64>>> {
    check_dtypes(f, inputs, Mode::F64)?;
    let written = written_buffers(f);
    let layout = Layout::of(f, inputs, scalars, |name| written.contains(name))?;
    let plan = Plan::of(f, &layout, output)?;
    let target = buffer_index(f, output) as u16;
    let flat = points.iter().map(|p| plan.flat(f, target, p)).collect::<Result<Vec<usize>>>()?;
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|i| flat[*i]);
    let size = points.len().div_ceil(4 * rayon::current_num_threads()).max(1);
    let parts = order.par_chunks(size).map(|part| {
        let mut vm = Vm::new(f, slots(f, inputs));
        vm.load_constants(&plan.code);
        let mut sampler = Sampler::new(f, &plan);
        part.iter().map(|i| Ok((*i, sampler.element(&mut vm, target, flat[*i])?))).collect::<Result<Vec<_>>>()
    });
    let mut results = vec![None; points.len()];
    for part in parts.collect::<Result<Vec<_>>>()? {
        part.into_iter().for_each(|(i, v)| results[i] = v);
    }
    Ok(results)
}

/// True where the function has the form that [`sample`] asks for, whatever its inputs hold.
pub fn can_sample(f: &PrimFunc, scalars: &Scalars, output: &Name) -> bool {
    let shape = |b: &Buffer| b.shape.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>();
    let tensor = |b: &Buffer| Some(Tensor { dtype: b.dtype, shape: shape(b)?, data: vec![] });
    let Some(inputs) = f.buffer_params().map(tensor).collect::<Option<Vec<_>>>() else { return false };
    let layout = Layout::of(f, &inputs, scalars, |_| true);
    layout.and_then(|layout| Plan::of(f, &layout, output)).is_ok()
}

/// Parameters keep their bytes; nothing else is stored.
fn slots<'a>(f: &PrimFunc, inputs: &'a [Tensor]) -> Vec<Slot<'a>> {
    let params: Vec<&Name> = f.buffer_params().map(|b| &b.name).collect();
    let slot = |name: &Name| match params.iter().position(|p| *p == name) {
        Some(i) if !inputs[i].data.is_empty() => Slot::Bytes(inputs[i].dtype, &inputs[i].data),
        _ => Slot::Absent,
    };
    f.buffers.iter().map(|b| slot(&b.name)).collect()
}

/// One thread's evaluation, with what it remembers.
struct Sampler<'p> {
    f: &'p PrimFunc,
    plan: &'p Plan,
    /// Values of reductions by producer, as bits.
    known: Vec<HashMap<usize, Option<u64>>>,
    /// The latest element of each producer.
    latest: Vec<Option<(usize, Option<u64>)>>,
    written: Vec<bool>,
    /// Only blocks before this one have run.
    before: usize,
}

impl<'p> Sampler<'p> {
    fn new(f: &'p PrimFunc, plan: &'p Plan) -> Sampler<'p> {
        let n = plan.producers.len();
        Sampler {
            f,
            plan,
            known: vec![HashMap::new(); n],
            latest: vec![None; n],
            written: vec![false; plan.cells],
            before: plan.blocks,
        }
    }

    fn element(&mut self, vm: &mut Vm, buffer: u16, flat: usize) -> Result<Option<f64>> {
        let dtype = self.f.buffers[buffer as usize].dtype;
        let value = |bits: u64| match dtype.is_float() {
            true => f64::from_bits(bits),
            false => super::round::int_to_f64(bits as i64, dtype),
        };
        Ok(self.stored(vm, buffer, flat)?.map(value))
    }

    /// The bits of an element as the blocks before the current one leave it.
    fn bits(&mut self, vm: &mut Vm, buffer: u16, flat: usize) -> Result<u64> {
        match self.stored(vm, buffer, flat)? {
            Some(bits) => Ok(bits),
            None => vm.stored(buffer, flat),
        }
    }

    /// The bits that the blocks before the current one store to an element; `None` where none does.
    fn stored(&mut self, vm: &mut Vm, buffer: u16, flat: usize) -> Result<Option<u64>> {
        let plan = self.plan;
        for p in plan.of_buffer[buffer as usize].iter().rev() {
            if plan.producers[*p].block < self.before
                && let Some(bits) = self.produce(vm, *p, flat)?
            {
                return Ok(Some(bits));
            }
        }
        Ok(None)
    }

    /// What a producer stores to an element; `None` where it does not store to it.
    fn produce(&mut self, vm: &mut Vm, p: usize, flat: usize) -> Result<Option<u64>> {
        if let Some((_, bits)) = self.latest[p].filter(|(at, _)| *at == flat) {
            return Ok(bits);
        }
        let producer = &self.plan.producers[p];
        if producer.reduces
            && let Some(bits) = self.known[p].get(&flat)
        {
            return Ok(*bits);
        }
        let bits = self.evaluate(vm, producer, flat)?;
        self.latest[p] = Some((flat, bits));
        if producer.reduces {
            self.known[p].insert(flat, bits);
        }
        Ok(bits)
    }

    fn evaluate(&mut self, vm: &mut Vm, p: &Producer, flat: usize) -> Result<Option<u64>> {
        // Only earlier blocks run in the middle of this one, so its registers stay as they are.
        if !solve(vm, p, &self.plan.shapes[p.buffer], flat) {
            return Ok(None);
        }
        let outer = std::mem::replace(&mut self.before, p.block);
        if p.needs_old {
            let old = self.bits(vm, p.buffer as u16, flat)?;
            vm.set_bits(p.cell.value, old);
        }
        self.written[p.cell.number as usize] = false;
        vm.run(&self.plan.code, p.entry, self)?;
        self.before = outer;
        Ok(self.written[p.cell.number as usize].then(|| vm.bits_of(p.cell.value)))
    }
}

/// Sets the iterators' registers for an element; false where no iteration stores to it.
fn solve(vm: &mut Vm, p: &Producer, shape: &[i64], flat: usize) -> bool {
    let mut rest = flat as i64;
    for (dim, n) in p.dims.iter().zip(shape).rev() {
        let at = rest % n;
        rest /= n;
        if !put(vm, p, dim, at) {
            return false;
        }
    }
    true
}

/// Gives iterators the digits of an index; false where it is none that they make.
fn put(vm: &mut Vm, p: &Producer, dim: &Dim, at: i64) -> bool {
    let mut rest = at - dim.shift;
    for d in &dim.digits {
        let Some((lo, hi, reg)) = p.iters[d.number] else { return false };
        let v = rest.div_euclid(d.weight);
        let fits = (lo..hi).contains(&v) && (d.first || vm.ints[reg as usize] == v);
        if !fits {
            return false;
        }
        vm.ints[reg as usize] = v;
        rest -= v * d.weight;
    }
    rest == 0
}

impl Source for Sampler<'_> {
    fn float(&mut self, vm: &mut Vm, buffer: u16, flat: usize) -> Result<f64> {
        self.bits(vm, buffer, flat).map(f64::from_bits)
    }

    fn int(&mut self, vm: &mut Vm, buffer: u16, flat: usize) -> Result<i64> {
        self.bits(vm, buffer, flat).map(|b| b as i64)
    }

    fn written(&mut self, cell: u16) {
        self.written[cell as usize] = true;
    }
}

//! Runs whole functions.

use super::compile::Compiler;
use super::layout::{Layout, Scalars};
use super::op::{InterpError, Op};
use super::round::wrap_int;
use super::vm::{NoSource, Slot, UNWRITTEN_FLOAT, UNWRITTEN_INT, Vm};
use super::{Mode, Tensor};
use crate::ir::{Name, PrimFunc, Stmt};
use std::collections::BTreeSet;

/// Runs a function, scheduled or not: loops run serially whatever they are bound to, inits run at
/// the first step of their reduction, guards are honoured.
///
/// `args` holds one tensor per buffer parameter, in order; those that the function writes are
/// changed. In [`Mode::F64`] a float tensor may be `float64` whatever the parameter's dtype: then
/// inputs are taken unrounded and results are given unrounded.
///
/// # Errors
/// When arguments do not fit, an index leaves its buffer, an integer is divided by zero, the function
/// holds something that is not interpreted, or in [`Mode::Checked`] reads what nothing has written.
/// Arguments are then unchanged.
pub fn run(f: &PrimFunc, args: &mut [Tensor], scalars: &Scalars, mode: Mode) -> Result<(), InterpError> {
    run_defined(f, args, scalars, mode, &[]).map(drop)
}

/// As [`run`], where the parameters in `fresh` hold nothing at the start: returns, in the same order, the flat
/// indices of their elements that the function stores nothing to, which keep the values that they had.
///
/// # Errors
/// As [`run`].
pub fn run_defined(
    f: &PrimFunc,
    args: &mut [Tensor],
    scalars: &Scalars,
    mode: Mode,
    fresh: &[Name],
) -> Result<Vec<Vec<u64>>, InterpError> {
    check_dtypes(f, args, mode)?;
    let layout = Layout::of(f, args, scalars, |_| false)?;
    let mut compiler = Compiler::new(f, &layout, mode)?;
    compiler.stmts(&f.body)?;
    compiler.emit(Op::Halt);
    let code = compiler.code;
    let written = written_buffers(f);
    let stored = Stored { written: &written, fresh };
    let mut vm = Vm::new(f, slots(f, args, &layout, &stored, mode));
    vm.load_constants(&code);
    vm.run(&code, 0, &mut NoSource)?;
    let slots = vm.slots;
    let changed = slots.into_iter().zip(&f.buffers).filter(|(_, b)| f.is_param(&b.name) && written.contains(&b.name));
    let results: Vec<(Name, Values)> = changed.filter_map(|(s, b)| Some((b.name.clone(), Values::of(s)?))).collect();
    for (b, arg) in f.buffer_params().zip(args.iter_mut()) {
        if let Some((_, values)) = results.iter().find(|(n, _)| *n == b.name) {
            values.store(arg, fresh.contains(&b.name));
        }
    }
    let of = |name: &Name| results.iter().find(|(n, _)| n == name).map_or(vec![], |(_, values)| values.unwritten());
    Ok(fresh.iter().map(of).collect())
}

/// What a function stores to.
struct Stored<'a> {
    written: &'a BTreeSet<Name>,
    /// Parameters that hold nothing at the start.
    fresh: &'a [Name],
}

enum Values {
    Floats(Vec<f64>),
    Ints(Vec<i64>),
}

impl Values {
    fn of(slot: Slot) -> Option<Values> {
        match slot {
            Slot::Floats(v) => Some(Values::Floats(v)),
            Slot::Ints(v) => Some(Values::Ints(v)),
            Slot::Bytes(..) | Slot::Absent => None,
        }
    }

    /// Writes the values to a tensor; of one that was `fresh` those that were stored.
    fn store(&self, to: &mut Tensor, fresh: bool) {
        let keep = |i: &usize| !fresh || self.holds(*i);
        match self {
            Values::Floats(v) => (0..v.len()).filter(keep).for_each(|i| to.set_f64(i, v[i])),
            Values::Ints(v) => (0..v.len()).filter(keep).for_each(|i| to.set_i64(i, v[i])),
        }
    }

    /// True where something was stored to an element that held nothing.
    fn holds(&self, i: usize) -> bool {
        match self {
            Values::Floats(v) => v[i].to_bits() != UNWRITTEN_FLOAT.to_bits(),
            Values::Ints(v) => v[i] != UNWRITTEN_INT,
        }
    }

    fn unwritten(&self) -> Vec<u64> {
        let len = match self {
            Values::Floats(v) => v.len(),
            Values::Ints(v) => v.len(),
        };
        (0..len).filter(|i| !self.holds(*i)).map(|i| i as u64).collect()
    }
}

/// Tensors have the dtypes of their parameters, or `float64` for floats in `F64` mode.
pub(super) fn check_dtypes(f: &PrimFunc, args: &[Tensor], mode: Mode) -> Result<(), InterpError> {
    for (b, arg) in f.buffer_params().zip(args) {
        let wide = mode == Mode::F64 && b.dtype.is_float() && arg.dtype == crate::ir::DType::F64;
        if arg.dtype != b.dtype && !wide {
            let name = f.display_name(&b.name);
            return Err(InterpError::Arguments(format!("tensor `{name}` is {}, expected {}", arg.dtype, b.dtype)));
        }
    }
    Ok(())
}

/// Every buffer that some statement stores to.
pub(super) fn written_buffers(f: &PrimFunc) -> BTreeSet<Name> {
    let mut written = BTreeSet::new();
    f.visit(&mut |s| {
        if let Stmt::Store { buffer, .. } = s {
            written.insert(buffer.clone());
        }
    });
    written
}

fn slots<'a>(f: &PrimFunc, args: &'a [Tensor], layout: &Layout, stored: &Stored, mode: Mode) -> Vec<Slot<'a>> {
    let unwritten = |dtype| match mode {
        Mode::Checked => UNWRITTEN_INT,
        Mode::Exact | Mode::F64 => wrap_int(UNWRITTEN_INT, dtype),
    };
    let params: Vec<&Name> = f.buffer_params().map(|b| &b.name).collect();
    let slot = |(b, shape): (&crate::ir::Buffer, &Vec<i64>)| {
        let arg = params.iter().position(|n| **n == b.name).map(|i| &args[i]);
        let len = shape.iter().product::<i64>().max(0) as usize;
        if stored.fresh.contains(&b.name) {
            return if b.dtype.is_float() {
                Slot::Floats(vec![UNWRITTEN_FLOAT; len])
            } else {
                Slot::Ints(vec![UNWRITTEN_INT; len])
            };
        }
        match (arg, stored.written.contains(&b.name), b.dtype.is_float()) {
            (Some(t), false, _) => Slot::Bytes(t.dtype, &t.data),
            (Some(t), true, true) => Slot::Floats(t.to_f64()),
            (Some(t), true, false) => Slot::Ints((0..t.len()).map(|i| t.get_i64(i)).collect()),
            (None, _, true) => Slot::Floats(vec![UNWRITTEN_FLOAT; len]),
            (None, _, false) => Slot::Ints(vec![unwritten(b.dtype); len]),
        }
    };
    f.buffers.iter().zip(&layout.shapes).map(slot).collect()
}

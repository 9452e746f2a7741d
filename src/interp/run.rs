//! Runs whole functions.

use super::compile::Compiler;
use super::layout::{Layout, Scalars};
use super::op::{InterpError, Op};
use super::round::wrap_int;
use super::vm::{Cells, NoSource, Slot, Vm};
use super::{Mode, Tensor};
use crate::ir::{ExprKind, Name, PrimFunc, Stmt};
use std::collections::BTreeSet;

/// What integers hold before they are written, cut to their type. Floats are NaN.
const POISON: i64 = 0x5a5a_5a5a_5a5a_5a5a;

/// Runs a function, scheduled or not: loops run serially whatever they are bound to, inits run at
/// the first step of their reduction, guards are honoured.
///
/// `args` holds one tensor per buffer parameter, in order; those that the function writes are
/// changed. In [`Mode::F64`] a float tensor may be `float64` whatever the parameter's dtype: then
/// inputs are taken unrounded and results are given unrounded.
///
/// # Errors
/// When arguments do not fit, an index leaves its buffer, the function holds something that is not
/// interpreted, or in [`Mode::Checked`] reads what nothing has written. Arguments are then unchanged.
pub fn run(f: &PrimFunc, args: &mut [Tensor], scalars: &Scalars, mode: Mode) -> Result<(), InterpError> {
    run_in_order(f, args, scalars, mode, (&[], false)).map(drop)
}

/// As [`run`], with the iterations of all loops in the opposite order, but for those that a reduction runs over: what
/// then differs depends on which of several iterations stores last.
///
/// # Errors
/// As [`run`].
pub fn run_backwards(f: &PrimFunc, args: &mut [Tensor], scalars: &Scalars, mode: Mode) -> Result<(), InterpError> {
    run_in_order(f, args, scalars, mode, (&[], true)).map(drop)
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
    run_in_order(f, args, scalars, mode, (fresh, false))
}

fn run_in_order(
    f: &PrimFunc,
    args: &mut [Tensor],
    scalars: &Scalars,
    mode: Mode,
    (fresh, backwards): (&[Name], bool),
) -> Result<Vec<Vec<u64>>, InterpError> {
    check_dtypes(f, args, mode)?;
    let layout = Layout::of(f, args, scalars, |_| false)?;
    let mut compiler = Compiler::new(f, &layout, mode)?;
    compiler.noted = noted(f, mode, fresh);
    compiler.backwards = backwards;
    compiler.stmts(&f.body)?;
    compiler.emit(Op::Halt);
    let Compiler { code, noted, .. } = compiler;
    let written = written_buffers(f);
    let mut vm = Vm::new(f, slots(f, args, &layout, &written, &noted));
    vm.load_constants(&code);
    vm.run(&code, 0, &mut NoSource)?;
    let slots = vm.slots;
    let changed = slots.into_iter().zip(&f.buffers).filter(|(_, b)| f.is_param(&b.name) && written.contains(&b.name));
    let results: Vec<(&Name, Values)> = changed.filter_map(|(s, b)| Some((&b.name, Values::of(s)?))).collect();
    for (b, arg) in f.buffer_params().zip(args.iter_mut()) {
        if let Some((_, values)) = results.iter().find(|(n, _)| **n == b.name) {
            values.store(arg);
        }
    }
    let of = |name: &Name| results.iter().find(|(n, _)| *n == name).map_or(vec![], |(_, values)| values.unwritten());
    Ok(fresh.iter().map(of).collect())
}

/// The buffers of which is noted what has been written: fresh ones, all intermediates if reads of them are
/// checked, and intermediates that are copied into these.
fn noted(f: &PrimFunc, mode: Mode, fresh: &[Name]) -> BTreeSet<Name> {
    let mut noted: BTreeSet<Name> = fresh.iter().cloned().collect();
    let intermediates = f.buffers.iter().map(|b| &b.name).filter(|name| !f.is_param(name));
    noted.extend(intermediates.filter(|_| mode == Mode::Checked).cloned());
    let mut known = 0;
    while noted.len() > known {
        known = noted.len();
        f.visit(&mut |s| {
            if let Stmt::Store { buffer, value, .. } = s
                && let ExprKind::Load { buffer: from, .. } = value.kind()
                && noted.contains(buffer)
                && !f.is_param(from)
            {
                noted.insert(from.clone());
            }
        });
    }
    noted
}

/// What a parameter holds after a run.
enum Values {
    Floats(Cells<f64>),
    Ints(Cells<i64>),
}

impl Values {
    fn of(slot: Slot) -> Option<Values> {
        match slot {
            Slot::Floats(v) => Some(Values::Floats(v)),
            Slot::Ints(v) => Some(Values::Ints(v)),
            Slot::Bytes(..) | Slot::Absent => None,
        }
    }

    /// Writes the values to a tensor; of one that was fresh those that were stored.
    fn store(&self, to: &mut Tensor) {
        match self {
            Values::Floats(v) => v.each_written(|i, value| to.set_f64(i, value)),
            Values::Ints(v) => v.each_written(|i, value| to.set_i64(i, value)),
        }
    }

    /// The elements of a fresh one that nothing was stored to.
    fn unwritten(&self) -> Vec<u64> {
        let (Values::Floats(Cells { written, .. }) | Values::Ints(Cells { written, .. })) = self;
        (0..).zip(written.iter().flatten()).filter(|(_, written)| !**written).map(|(i, _)| i).collect()
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

fn slots<'a>(
    f: &PrimFunc,
    args: &'a [Tensor],
    layout: &Layout,
    written: &BTreeSet<Name>,
    noted: &BTreeSet<Name>,
) -> Vec<Slot<'a>> {
    let params: Vec<&Name> = f.buffer_params().map(|b| &b.name).collect();
    let slot = |(b, shape): (&crate::ir::Buffer, &Vec<i64>)| {
        let arg = params.iter().position(|n| **n == b.name).map(|i| &args[i]);
        let len = shape.iter().product::<i64>().max(0) as usize;
        let noted = noted.contains(&b.name).then(|| vec![false; len]);
        match (arg.filter(|_| noted.is_none()), written.contains(&b.name), b.dtype.is_float()) {
            (Some(t), false, _) => Slot::Bytes(t.dtype, &t.data),
            (Some(t), true, true) => Slot::Floats(Cells { values: t.to_f64(), written: None }),
            (Some(t), true, false) => {
                Slot::Ints(Cells { values: (0..t.len()).map(|i| t.get_i64(i)).collect(), written: None })
            }
            (None, _, true) => Slot::Floats(Cells { values: vec![f64::NAN; len], written: noted }),
            (None, _, false) => Slot::Ints(Cells { values: vec![wrap_int(POISON, b.dtype); len], written: noted }),
        }
    };
    f.buffers.iter().zip(&layout.shapes).map(slot).collect()
}

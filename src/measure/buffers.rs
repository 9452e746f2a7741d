//! Buffers of one workload on the device: several equal sets, each buffer between guard zones.

use super::inputs;
use crate::backend::{PlanParam, Role};
use crate::runner::device::{Device, Outcome, Region};
use crate::runner::{Errors, Problem, RunError, RunFailure};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of each guard zone; also the alignment of every buffer.
const GUARD: usize = 4096;
/// Right outputs of at least this size are kept on the device, to know them again.
const KEPT_FROM: usize = 1 << 20;
/// Sets beyond two hold no more than this together.
const MOST_BYTES: usize = 4 << 30;
/// What guard zones hold: no number in any type of floats, so that a result that one was read for is none either.
const GUARD_BYTE: u8 = 0xff;
/// Every second byte of the zones beside inputs: what is read there and written beside an output, NaN as well, is seen.
const INPUT_GUARD_BYTE: u8 = 0x7f;
/// What outputs and workspaces hold before a checked run: NaN as a float, -1 as an integer.
const POISON: u8 = 0xff;

/// One buffer of a set.
struct Slot {
    /// Offset from the start of a set to the first byte.
    offset: usize,
    bytes: usize,
    role: Role,
    /// Contents before a run, for buffers that runs change.
    initial: Option<Vec<u8>>,
    /// Hash of an input's contents, where no other set has them to compare.
    hash: Option<u64>,
    /// An output that was found right, and how right.
    right: Option<(Region, Errors)>,
}

/// The tensors of a workload, in several sets.
pub struct Buffers {
    memory: Region,
    /// Bytes from one set to the next.
    stride: usize,
    sets: usize,
    /// Bytes that a run reads and writes.
    touched: usize,
    /// Per parameter of the plan; `None` for scalars.
    slots: Vec<Option<Slot>>,
}

impl Buffers {
    /// Allocates as many sets as the device rotates over, generates the inputs and copies them to
    /// every set.
    ///
    /// # Errors
    /// When the workload does not fit into the device's memory or an extent is missing.
    pub fn new(device: &mut dyn Device, params: &[PlanParam], problem: &Problem) -> Outcome<Buffers> {
        let mut slots = vec![];
        let mut stride = 0;
        for p in params {
            slots.push(if p.is_tensor() { Some(slot(p, problem, &mut stride)?) } else { None });
        }
        // Of a table in which rows are looked up, most is not touched and cools nothing.
        let touched = problem.bytes.map_or(stride, |bytes| stride.min(bytes as usize));
        let sets = count(device, stride, touched)?;
        let memory = device.allocate(stride.max(1) * sets)?;
        let mut buffers = Buffers { memory, stride, sets, touched, slots };
        buffers.fill(device, params, problem).inspect_err(|_| device.free(memory))?;
        Ok(buffers)
    }

    fn fill(&mut self, device: &mut dyn Device, params: &[PlanParam], problem: &Problem) -> Outcome<()> {
        let first = Region { at: self.memory.at, bytes: self.stride };
        device.fill(first, GUARD_BYTE)?;
        for (p, slot) in params.iter().zip(&mut self.slots) {
            let Some(slot) = slot else { continue };
            if p.role == Role::Out {
                continue;
            }
            if p.role == Role::In {
                let base = self.memory.at + slot.offset as u64;
                device.upload(base - GUARD as u64, &zone(p.role, GUARD))?;
                device.upload(base + slot.bytes as u64, &zone(p.role, after(slot.bytes)))?;
            }
            let len = slot.bytes / p.dtype.bytes() as usize;
            let range = problem.ranges.get(&p.index).copied();
            let mut data = inputs::tensor(p.dtype, len, problem.seed, p.index, range);
            if range.is_none() {
                inputs::halve(p.dtype, &mut data, problem.halvings);
            }
            device.upload(self.memory.at + slot.offset as u64, &data)?;
            slot.hash = (p.role == Role::In && self.sets == 1).then(|| xxh3_64(&data));
            slot.initial = (p.role == Role::Inout).then_some(data);
        }
        for set in 1..self.sets {
            device.copy(self.memory.at + (set * self.stride) as u64, self.memory.at, self.stride)?;
        }
        Ok(())
    }

    /// Gives the memory back.
    pub fn free(self, device: &mut dyn Device) {
        let right = self.slots.iter().flatten().filter_map(|s| s.right);
        right.for_each(|(region, _)| device.free(region));
        device.free(self.memory);
    }

    /// How right the output of a parameter in the first set is, where it repeats one that was found
    /// right bit for bit: schedules that don't reorder sums do.
    pub fn repeats_a_right_one(&self, device: &mut dyn Device, param: usize) -> Outcome<Option<Errors>> {
        let Some((slot, (right, errors))) = self.slot(param).and_then(|s| Some((s, s.right?))) else {
            return Ok(None);
        };
        let differs = device.differ(self.memory.at + slot.offset as u64, right.at, right.bytes)?;
        Ok(if differs { None } else { Some(errors) })
    }

    /// Keeps the output of a parameter in the first set, which was found right.
    pub fn keep_right(&mut self, device: &mut dyn Device, param: usize, errors: Errors) -> Outcome<()> {
        let start = self.memory.at;
        let Some(slot) = self.slots.get_mut(param).and_then(Option::as_mut) else { return Ok(()) };
        if slot.bytes < KEPT_FROM || slot.right.is_some() {
            return Ok(());
        }
        // What lies behind it up to a whole word is guard zone, which was checked. Where there is no
        // room, nothing is kept.
        if let Ok(region) = device.allocate(slot.bytes.next_multiple_of(16)) {
            slot.right = Some((region, errors));
            device.copy(region.at, start + slot.offset as u64, region.bytes)?;
        }
        Ok(())
    }

    fn slot(&self, param: usize) -> Option<&Slot> {
        self.slots.get(param).and_then(Option::as_ref)
    }

    /// Number of sets.
    pub fn sets(&self) -> usize {
        self.sets
    }

    /// Bytes of one set that a run reads and writes.
    pub fn touched_bytes(&self) -> u64 {
        self.touched as u64
    }

    /// Bytes of the buffers that a run writes.
    pub fn written_bytes(&self) -> u64 {
        let written = self.slots.iter().flatten().filter(|s| matches!(s.role, Role::Out | Role::Inout));
        written.map(|s| s.bytes as u64).sum()
    }

    /// Address of each parameter's buffer in a set; 0 for scalars.
    pub fn addresses(&self, set: usize) -> Vec<u64> {
        let base = self.memory.at + (set * self.stride) as u64;
        self.slots.iter().map(|s| s.as_ref().map_or(0, |s| base + s.offset as u64)).collect()
    }

    /// Makes the first set ready for a checked run: poison in outputs, initial values in buffers that
    /// are read and written.
    pub fn reset(&self, device: &mut dyn Device) -> Outcome<()> {
        for slot in self.slots.iter().flatten() {
            let at = self.memory.at + slot.offset as u64;
            match (&slot.initial, slot.role) {
                (Some(initial), _) => device.upload(at, initial)?,
                (None, Role::Out) => device.fill(Region { at, bytes: slot.bytes }, POISON)?,
                (None, _) => {}
            }
        }
        Ok(())
    }

    /// Copies the contents of a parameter's buffer in the first set to `bytes`: everything, or the
    /// elements of `size` bytes at `points`.
    pub fn download(
        &self,
        device: &mut dyn Device,
        param: usize,
        points: Option<(&[u64], usize)>,
        bytes: &mut Vec<u8>,
    ) -> Outcome<()> {
        let bad = |text| RunError::new(RunFailure::BadRequest, text);
        let slot = self.slot(param).ok_or_else(|| bad(format!("parameter {param} is no tensor")))?;
        let at = self.memory.at + slot.offset as u64;
        let Some((points, size)) = points else {
            bytes.resize(slot.bytes, 0);
            return device.download(at, bytes);
        };
        if points.iter().any(|p| *p as usize >= slot.bytes / size) {
            return Err(bad(format!("the reference of parameter {param} has another size than its buffer")));
        }
        bytes.resize(points.len() * size, 0);
        device.gather(at, size, points, bytes)
    }

    /// Checks that the inputs of the first set are what they were.
    ///
    /// # Errors
    /// [`RunFailure::WrongResult`] naming the input that a run wrote to.
    pub fn check_inputs(&self, device: &mut dyn Device, params: &[PlanParam]) -> Outcome<()> {
        for (p, slot) in params.iter().zip(&self.slots) {
            let Some(slot) = slot.as_ref().filter(|s| s.role == Role::In) else { continue };
            let at = self.memory.at + slot.offset as u64;
            let changed = match slot.hash {
                // To a whole word: guard zones are alike too.
                None => device.differ(at, at + self.stride as u64, slot.bytes.next_multiple_of(16))?,
                Some(hash) => {
                    let mut bytes = vec![0; slot.bytes];
                    device.download(at, &mut bytes)?;
                    xxh3_64(&bytes) != hash
                }
            };
            if changed {
                let text = format!("the kernel wrote to `{}`, which it may only read", p.name);
                return Err(RunError::new(RunFailure::WrongResult, text));
            }
        }
        Ok(())
    }

    /// Checks the guard zones of the first set.
    ///
    /// # Errors
    /// [`RunFailure::WrongResult`] naming the parameter beside which something was written.
    pub fn check_guards(&self, device: &mut dyn Device, params: &[PlanParam]) -> Outcome<()> {
        for (p, slot) in params.iter().zip(&self.slots) {
            let Some(slot) = slot else { continue };
            let base = self.memory.at + slot.offset as u64;
            check(device, base - GUARD as u64, GUARD, "before", p)?;
            check(device, base + slot.bytes as u64, after(slot.bytes), "after", p)?;
        }
        Ok(())
    }
}

/// The bytes of a guard zone.
fn zone(role: Role, bytes: usize) -> Vec<u8> {
    let odd = if role == Role::In { INPUT_GUARD_BYTE } else { GUARD_BYTE };
    (0..bytes).map(|i| if i % 2 == 1 { odd } else { GUARD_BYTE }).collect()
}

fn check(device: &mut dyn Device, at: u64, bytes: usize, side: &str, p: &PlanParam) -> Outcome<()> {
    let mut found = vec![0; bytes];
    device.download(at, &mut found)?;
    match found.iter().zip(zone(p.role, bytes)).position(|(b, want)| *b != want) {
        None => Ok(()),
        Some(i) => {
            let distance = if side == "before" { bytes - i } else { i + 1 };
            let text = format!("the kernel wrote {side} the buffer of `{}`, {distance} bytes outside of it", p.name);
            Err(RunError::new(RunFailure::WrongResult, text))
        }
    }
}

/// Guard bytes after a buffer: up to the next boundary and a whole zone.
fn after(bytes: usize) -> usize {
    bytes.next_multiple_of(GUARD) - bytes + GUARD
}

fn slot(p: &PlanParam, problem: &Problem, stride: &mut usize) -> Outcome<Slot> {
    let len = p.len(&problem.extents).map_err(|e| RunError::new(RunFailure::BadRequest, e))?;
    let bytes = len.checked_mul(p.dtype.bytes() as usize).filter(|b| *b < 1 << 46);
    let bytes = bytes.ok_or_else(|| RunError::new(RunFailure::BadRequest, format!("`{}` is too large", p.name)))?;
    // Neighbours share no zone, so that a write outside names the buffer that it missed.
    let offset = *stride + GUARD;
    *stride = offset + bytes + after(bytes);
    Ok(Slot { offset, bytes, role: p.role, initial: None, hash: None, right: None })
}

/// Number of sets of `stride` bytes: enough to rotate over what runs touch of them, within half of the
/// free memory.
fn count(device: &mut dyn Device, stride: usize, touched: usize) -> Outcome<usize> {
    let (bytes, most) = device.rotation();
    let wanted = (bytes as usize).div_ceil(touched.max(1)).clamp(2, most.max(2));
    let within = (MOST_BYTES / stride.max(1)).max(2);
    let fit = (device.free_bytes()? / 2) as usize / stride.max(1);
    Ok(wanted.min(within).min(fit).max(1))
}

/// Scratch memory of a candidate, one group per set.
pub struct Workspaces {
    memory: Option<Region>,
    stride: usize,
    offsets: Vec<(usize, usize)>,
}

impl Workspaces {
    /// Allocates workspaces of the given sizes for some sets.
    ///
    /// # Errors
    /// When they don't fit.
    pub fn new(device: &mut dyn Device, sizes: &[usize], sets: usize) -> Outcome<Workspaces> {
        let mut stride = 0usize;
        let mut offsets = vec![];
        for bytes in sizes {
            offsets.push((stride, *bytes));
            stride = stride.saturating_add(bytes.saturating_add(GUARD - 1) / GUARD * GUARD);
        }
        if stride == 0 {
            return Ok(Workspaces { memory: None, stride, offsets });
        }
        // Asked before allocating: some drivers and systems promise more than they have.
        let (all, free) = (stride.saturating_mul(sets), device.free_bytes()?);
        if all as u64 > free {
            let text = format!("its workspaces need {all} bytes of memory, of which {free} are free");
            return Err(RunError::new(RunFailure::LaunchFailed, text));
        }
        Ok(Workspaces { memory: Some(device.allocate(all)?), stride, offsets })
    }

    /// The regions of one set.
    pub fn regions(&self, set: usize) -> Vec<Region> {
        let base = self.memory.map_or(0, |m| m.at) + (set * self.stride) as u64;
        self.offsets.iter().map(|(offset, bytes)| Region { at: base + *offset as u64, bytes: *bytes }).collect()
    }

    /// Poisons everything, or zeroes it where a plan promises zeros once.
    pub fn reset(&self, device: &mut dyn Device, zero: &[bool]) -> Outcome<()> {
        let Some(memory) = self.memory else { return Ok(()) };
        device.fill(memory, POISON)?;
        if !zero.contains(&true) {
            return Ok(());
        }
        for set in 0..memory.bytes / self.stride {
            for (region, _) in self.regions(set).iter().zip(zero).filter(|(_, z)| **z) {
                device.fill(*region, 0)?;
            }
        }
        Ok(())
    }

    /// Gives the memory back.
    pub fn free(self, device: &mut dyn Device) {
        if let Some(memory) = self.memory {
            device.free(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Dim;
    use crate::ir::DType;
    use crate::runner::DeviceFacts;
    use crate::runner::cpu::CpuDevice;

    fn cpu() -> CpuDevice {
        CpuDevice::new(DeviceFacts { l2_bytes: 8 << 20, memory_bytes: 8 << 30, ..DeviceFacts::default() })
    }

    fn param(role: Role, elements: i64) -> PlanParam {
        PlanParam { index: 0, name: "B".to_string(), dtype: DType::F32, shape: vec![Dim::Const(elements)], role }
    }

    fn output(elements: i64) -> (CpuDevice, Buffers) {
        let mut device = cpu();
        let buffers = Buffers::new(&mut device, &[param(Role::Out, elements)], &Problem::default()).unwrap();
        buffers.reset(&mut device).unwrap();
        (device, buffers)
    }

    #[test]
    fn a_right_output_is_known_again_bit_for_bit() {
        let (mut device, mut buffers) = output((1 << 18) + 1);
        let errors = Errors { l2: 1e-7, max: 2e-7 };
        assert_eq!(buffers.repeats_a_right_one(&mut device, 0).unwrap(), None);
        buffers.keep_right(&mut device, 0, errors).unwrap();
        assert_eq!(buffers.repeats_a_right_one(&mut device, 0).unwrap(), Some(errors));
        let last = buffers.addresses(0)[0] + (4 << 18) + 3;
        device.upload(last, &[1]).unwrap();
        assert_eq!(buffers.repeats_a_right_one(&mut device, 0).unwrap(), None);
        // The first one stays, and what is small or no output is not kept.
        buffers.keep_right(&mut device, 0, Errors::default()).unwrap();
        assert_eq!(buffers.repeats_a_right_one(&mut device, 0).unwrap(), None);
        buffers.keep_right(&mut device, 9, errors).unwrap();
        buffers.free(&mut device);
        let (mut device, mut small) = output(1000);
        small.keep_right(&mut device, 0, errors).unwrap();
        assert_eq!(small.repeats_a_right_one(&mut device, 0).unwrap(), None);
        small.free(&mut device);
    }

    #[test]
    fn a_write_to_an_input_is_found_and_named() {
        for most in [1, 8] {
            let mut device = cpu();
            let params = [param(Role::In, 1001)];
            let mut buffers = Buffers::new(&mut device, &params, &Problem::default()).unwrap();
            if most == 1 {
                buffers.sets = 1;
                let mut bytes = vec![];
                buffers.download(&mut device, 0, None, &mut bytes).unwrap();
                buffers.slots[0].as_mut().unwrap().hash = Some(xxh3_64(&bytes));
            }
            buffers.check_inputs(&mut device, &params).unwrap();
            let last = buffers.addresses(0)[0] + 4003;
            let mut byte = [0];
            device.download(last, &mut byte).unwrap();
            device.upload(last, &[byte[0] ^ 1]).unwrap();
            let e = buffers.check_inputs(&mut device, &params).unwrap_err();
            assert!(e.failure == RunFailure::WrongResult && e.message.contains("wrote to `B`"), "{}", e.message);
            buffers.free(&mut device);
        }
    }

    #[test]
    fn sets_are_as_many_as_what_is_touched_asks_for() {
        let sets = |bytes| {
            let mut device = cpu();
            let problem = Problem { bytes, ..Problem::default() };
            let buffers = Buffers::new(&mut device, &[param(Role::In, 1 << 20)], &problem).unwrap();
            let found = (buffers.sets(), buffers.touched_bytes(), buffers.written_bytes());
            buffers.free(&mut device);
            found
        };
        // 24 MiB to rotate over: four megabytes and their guard zones fit five times and a bit.
        assert_eq!(sets(None), (6, (4 << 20) + 8192, 0));
        // Of a table of four megabytes one is read.
        assert_eq!(sets(Some(1 << 20)), (24, 1 << 20, 0));
    }
}

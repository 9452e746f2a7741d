//! Products of warpgroups: operands in shared memory are named by descriptors, 64 bits of which the upper ones are
//! constant.

use super::{group, helper, operands, order, shared};
use crate::codegen::prelude::Prelude;
use crate::ir::instr::WgmmaShape;
use crate::ir::{Contiguous, DType, MatrixDesc};

/// Registers of a first operand that is not in shared memory.
const HELD: usize = 4;

/// The function of a product: sums, addresses of both operands in units of 16 bytes, of the first one its registers
/// where no descriptor names it, whether to add.
pub(super) fn wgmma(p: &mut Prelude, shape: WgmmaShape, a: Option<MatrixDesc>, b: MatrixDesc) -> String {
    let (n, tile, input) = (shape.registers() as usize, shape.name(), shape.input_name());
    let (t, letter, sum) = if shape.sum() == DType::I32 { ("int", "r", "s32") } else { ("float", "f", "f32") };
    let turned = |d: MatrixDesc| i32::from(d.contiguous == Contiguous::Free);
    // negation exists for floats, another order for 16-bit elements
    let orders: Vec<String> = a.iter().chain([&b]).map(|d| turned(*d).to_string()).collect();
    let options = match shape.input.bytes() {
        2 => format!(", 1, 1, {}", orders.join(", ")),
        _ if shape.input.is_float() => ", 1, 1".to_string(),
        _ => String::new(),
    };
    let desc = |d: MatrixDesc, at: &str| format!("{:#x}ull | {at}", d.bits());
    let sums: Vec<String> = (0..n).map(|i| format!("%{i}")).collect();
    let places: Vec<String> = (0..n).map(|i| format!("\"+{letter}\"(d[{i}])")).collect();
    let (left, given, held) = match a {
        Some(a) => (format!("%{n}"), format!("\"l\"({})", desc(a, "a")), 1),
        None => (group(n, HELD), operands("r", "((const unsigned*)a)", HELD), HELD),
    };
    let body = format!(
        "asm volatile(\"{{.reg .pred p; setp.ne.b32 p, %{}, 0; wgmma.mma_async.sync.aligned.{tile}.{sum}.{input}.{input} \
         {{{}}}, {left}, %{}, p{options};}}\" : {} : {given}, \"l\"({}), \"r\"((int)add));",
        n + held + 1,
        sums.join(", "),
        n + held,
        places.join(", "),
        desc(b, "b")
    );
    let name = format!("dl_wgmma_{tile}_{input}_{}_{}", a.map_or("registers".to_string(), key), key(b));
    let of_a = if a.is_some() { "unsigned a" } else { "const void* a" };
    helper(p, &name, &format!("{t}* d, {of_a}, unsigned b, bool add"), &body)
}

/// What tells descriptors apart in names.
pub(super) fn key(d: MatrixDesc) -> String {
    let axis = if d.contiguous == Contiguous::Free { "mn" } else { "k" };
    format!("{axis}{}_{}_{}", d.span(), d.leading, d.stride)
}

/// Bits of an address inside the shared memory of one block. Above them, from bit 24 on, stands the rank of the block in its
/// cluster, which would fall into the other fields of a descriptor: into the leading dimension, which operands that are
/// contiguous along their rows or columns have.
const WITHIN_BLOCK: u32 = 0x3_ffff;

/// An address in shared memory in units of 16 bytes, as descriptors have it: without the rank of the block.
pub(super) fn units(p: &mut Prelude) -> String {
    let address = shared(p);
    let body = format!("return ({address}(p) & {WITHIN_BLOCK:#x}u) >> 4;");
    p.function("dl_units", "unsigned", "const void* p", &body)
}

/// Gives registers of a thread back, or takes more.
pub(super) fn set_registers(registers: u32, take: bool) -> String {
    order(&format!("setmaxnreg.{}.sync.aligned.u32 {registers};", if take { "inc" } else { "dec" }))
}

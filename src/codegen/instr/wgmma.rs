//! Products of warpgroups: operands are named by descriptors, 64 bits of which the upper ones are constant.

use super::{helper, order, shared};
use crate::codegen::prelude::Prelude;
use crate::ir::instr::WgmmaShape;
use crate::ir::{Contiguous, DType, MatrixDesc};

/// The function of a product: sums, addresses of both operands in units of 16 bytes, whether to add.
pub(super) fn wgmma(p: &mut Prelude, shape: WgmmaShape, a: MatrixDesc, b: MatrixDesc) -> String {
    let (n, tile, input) = (shape.registers() as usize, shape.name(), shape.input_name());
    let (t, letter, sum) = if shape.sum() == DType::I32 { ("int", "r", "s32") } else { ("float", "f", "f32") };
    let turned = |d: MatrixDesc| i32::from(d.contiguous == Contiguous::Free);
    // negation exists for floats, another order for 16-bit elements
    let options = match shape.input.bytes() {
        2 => format!(", 1, 1, {}, {}", turned(a), turned(b)),
        _ if shape.input.is_float() => ", 1, 1".to_string(),
        _ => String::new(),
    };
    let desc = |d: MatrixDesc, at: &str| format!("{:#x}ull | {at}", d.bits());
    let sums: Vec<String> = (0..n).map(|i| format!("%{i}")).collect();
    let places: Vec<String> = (0..n).map(|i| format!("\"+{letter}\"(d[{i}])")).collect();
    let body = format!(
        "asm volatile(\"{{.reg .pred p; setp.ne.b32 p, %{}, 0; wgmma.mma_async.sync.aligned.{tile}.{sum}.{input}.{input} \
         {{{}}}, %{}, %{}, p{options};}}\" : {} : \"l\"({}), \"l\"({}), \"r\"((int)add));",
        n + 2,
        sums.join(", "),
        n,
        n + 1,
        places.join(", "),
        desc(a, "a"),
        desc(b, "b")
    );
    let name = format!("dl_wgmma_{tile}_{input}_{}_{}", key(a), key(b));
    helper(p, &name, &format!("{t}* d, unsigned a, unsigned b, bool add"), &body)
}

/// What tells descriptors apart in names.
pub(super) fn key(d: MatrixDesc) -> String {
    let axis = if d.contiguous == Contiguous::Free { "mn" } else { "k" };
    format!("{axis}{}_{}_{}", d.span(), d.leading, d.stride)
}

/// An address in shared memory in units of 16 bytes.
pub(super) fn units(p: &mut Prelude) -> String {
    let address = shared(p);
    p.function("dl_units", "unsigned", "const void* p", &format!("return {address}(p) >> 4;"))
}

/// Gives registers of a thread back, or takes more.
pub(super) fn set_registers(registers: u32, take: bool) -> String {
    order(&format!("setmaxnreg.{}.sync.aligned.u32 {registers};", if take { "inc" } else { "dec" }))
}

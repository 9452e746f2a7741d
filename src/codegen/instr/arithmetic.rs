//! Arithmetic of one thread on pairs and on three operands.

use super::{group, helper, operands};
use crate::codegen::ctype;
use crate::codegen::prelude::{Prelude, short};
use crate::ir::DType;
use crate::ir::instr::{Fold, PackedOp, Rounding};

/// The PTX name of packed arithmetic and the names of its operands.
fn named(op: PackedOp) -> (&'static str, &'static [&'static str]) {
    let (name, n) = op.name();
    (name, &["a", "b", "c"][..n])
}

pub(super) fn packed(p: &mut Prelude, op: PackedOp, rounding: Rounding, ftz: bool) -> String {
    let ((op, names), round) = (named(op), rounding.name());
    let suffix = if ftz { ".ftz" } else { "" };
    let name = format!("dl_{op}_{round}{}_f32x2", suffix.replace('.', "_"));
    let params: String = names.iter().map(|n| format!(", const float* {n}")).collect();
    let pack: String =
        names.iter().enumerate().map(|(i, n)| format!(" mov.b64 {n}, {};", group(2 + 2 * i, 2))).collect();
    let inputs: Vec<String> = names.iter().map(|n| operands("f", n, 2)).collect();
    let body = format!(
        "asm(\"{{.reg .b64 {list};{pack} {op}.{round}{suffix}.f32x2 a, {list}; mov.b64 {{%0, %1}}, a;}}\" : {} : {});",
        operands("=f", "d", 2),
        inputs.join(", "),
        list = names.join(", "),
    );
    helper(p, &name, &format!("float* d{params}"), &body)
}

/// Two float16 are one 32-bit register.
pub(super) fn packed_f16(p: &mut Prelude, op: PackedOp) -> String {
    let (op, names) = named(op);
    let places: Vec<String> = (0..=names.len()).map(|i| format!("%{i}")).collect();
    let inputs: Vec<String> = names.iter().map(|n| format!("\"r\"(*(const unsigned*){n})")).collect();
    let params: String = names.iter().map(|n| format!(", const unsigned short* {n}")).collect();
    let (places, inputs) = (places.join(", "), inputs.join(", "));
    let body = format!("asm(\"{op}.rn.f16x2 {places};\" : \"=r\"(*(unsigned*)d) : {inputs});");
    helper(p, &format!("dl_{op}_f16x2"), &format!("unsigned short* d{params}"), &body)
}

pub(super) fn fold3(p: &mut Prelude, op: Fold) -> String {
    let op = op.name();
    let body =
        format!("float y; asm(\"{op}.f32 %0, %1, %2, %3;\" : \"=f\"(y) : \"f\"(a), \"f\"(b), \"f\"(c)); return y;");
    p.function(&format!("dl_{op}3_f32"), "float", "float a, float b, float c", &body)
}

pub(super) fn cast_pair(p: &mut Prelude, from: DType, to: DType) -> String {
    let name = format!("dl_{}x2_from_{}x2", short(to), short(from));
    let body = match (from, to) {
        (DType::F32, DType::F16 | DType::BF16) => format!(
            "asm(\"cvt.rn.{}x2.f32 %0, %1, %2;\" : \"=r\"(*(unsigned*)d) : \"f\"(s[1]), \"f\"(s[0]));",
            short(to)
        ),
        (DType::BF16, _) => "unsigned w = *(const unsigned*)s; \
             d[0] = __uint_as_float(w << 16); d[1] = __uint_as_float(w & 0xffff0000u);"
            .into(),
        _ => "asm(\"{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}\" \
              : \"=f\"(d[0]), \"=f\"(d[1]) : \"r\"(*(const unsigned*)s));"
            .into(),
    };
    helper(p, &name, &format!("{}* d, const {}* s", ctype(to), ctype(from)), &body)
}

pub(super) fn halves(p: &mut Prelude, dtype: DType) -> String {
    let params = format!("{}* d, unsigned word", ctype(dtype));
    helper(p, &format!("dl_{}x2_from_word", short(dtype)), &params, "*(unsigned*)d = word;")
}

/// Bytes of words, which a compiler knows to be the same again; halves it would put together each time.
pub(super) fn pick(p: &mut Prelude, dtype: DType, high: [bool; 2]) -> String {
    let t = ctype(dtype);
    let [first, second] = high.map(|h| if h { 0x32 } else { 0x10 });
    let name = format!("dl_pick_{}_{}", short(dtype), high.map(|h| if h { "high" } else { "low" }).join("_"));
    let selector = first | (second + 0x44) << 8;
    let text = format!("*(unsigned*)d = __byte_perm(*(const unsigned*)a, *(const unsigned*)b, {selector:#x});");
    helper(p, &name, &format!("{t}* d, const {t}* a, const {t}* b"), &text)
}

/// Words four, two and one values further on are selected by the bits of `first`; the last bit is half a word.
pub(super) fn funnel_shift(p: &mut Prelude, dtype: DType) -> String {
    let t = ctype(dtype);
    let params = format!("{t}* d, const {t}* s, int first, int count");
    let select = |to: &str, bit: u32, from: &dyn Fn(u32) -> String, n: u32| {
        let one = |i: u32| format!("{to}{i} = first & {bit} ? {} : {}", from(i + bit / 2), from(i));
        format!("unsigned {}; ", (0..n).map(one).collect::<Vec<_>>().join(", "))
    };
    // read before they are selected: a conditional of elements would select an address, and keep the array in memory
    let words = (0..8).map(|i| format!("w{i} = ((const unsigned*)s)[{i}]")).collect::<Vec<_>>().join(", ");
    let far = select("a", 4, &|i| format!("w{i}"), 6);
    let near = select("b", 2, &|i| format!("a{i}"), 5);
    let shift = |i: u32| format!("((unsigned*)d)[{i}] = __funnelshift_r(b{i}, b{}, first * 16);", i + 1);
    let cut = |i: u32| {
        let (all, one) = (2 * i + 1, 2 * i);
        format!("((unsigned*)d)[{i}] &= count > {all} ? 0xffffffffu : count > {one} ? 0xffffu : 0u;")
    };
    let each = |f: &dyn Fn(u32) -> String| (0..4).map(f).collect::<Vec<_>>().join(" ");
    let text = format!("const unsigned {words}; {far}{near}{} if (count < 8) {{ {} }}", each(&shift), each(&cut));
    helper(p, &format!("dl_funnel_shift_{}", short(dtype)), &params, &text)
}

/// Not `asm`, whose values the compiler would not know.
pub(super) fn prmt(p: &mut Prelude) -> String {
    helper(p, "dl_prmt", "unsigned* d, unsigned a, unsigned b, unsigned s", "*d = __byte_perm(a, b, s);")
}

/// `volatile`, as nothing is changed as far as the compiler could know.
pub(super) fn pin(p: &mut Prelude, dtype: DType) -> String {
    let params = format!("{}* d", ctype(dtype));
    let registers = if dtype.bytes() == 2 { "\"+r\"(*(unsigned*)d)" } else { "\"+f\"(d[0]), \"+f\"(d[1])" };
    helper(p, &format!("dl_pin_{}x2", short(dtype)), &params, &format!("asm volatile(\"\" : {registers});"))
}

//! Products of numbers with scales of blocks by instructions that take the scales.

use super::harness::{Case, target};
use super::products::{check_all, check_points};
use crate::common::arm::arm;
use daylight::lower::lower;
use daylight::rules::Prepared;

const RULE: &str = "matmul.block_scale";
const RTX: &str = "cuda:sm_120a";

/// `rows` by `columns` of a format, in the form of `daylight new matmul_block_scaled`.
pub fn product(format: &str, [m, n, k]: [i64; 3], more: &[(&str, &str)]) -> Case {
    let sizes = [m, n, k].map(|n| n.to_string());
    let mut options = vec![("m", &sizes[0][..]), ("n", &sizes[1]), ("k", &sizes[2]), ("format", format)];
    options.extend(more);
    let operation = daylight::operation::by_name("matmul_block_scaled").expect("it is one");
    let text = operation.function("main", &options).expect("a function").to_string();
    Case { name: format!("{format} {m} x {n} x {k}"), text, extents: vec![], length: k }
}

#[test]
fn odd_rows_and_columns_of_every_format() {
    let out = [("out-dtype", "float32")];
    check_all(
        vec![
            product("nvfp4", [37, 43, 128], &out),
            product("nvfp4", [70, 33, 256], &[("bias", ""), ("residual", "")]),
            product("mxfp4", [33, 71, 128], &out),
            product("mxfp8", [17, 130, 192], &out),
            product("mxfp8_e5m2", [65, 24, 64], &[("activation", "silu")]),
        ],
        RULE,
        RTX,
    );
}

/// How four bits are decoded is not asked: here by a choice in place of bits of float16.
#[test]
fn numbers_decoded_in_another_way() {
    let code = |b: &str| format!("T.Cast(\"int32\", {b}[vi, vk // 2] >> T.Cast(\"uint8\", vk % 2 * 4) & T.uint8(15))");
    let size = |c: &str| {
        let low = format!("T.Cast(\"float32\", {c} % 8) * T.float32(0.5)");
        let high = format!("T.Cast(\"float32\", {c} % 2 + 2) * T.Select({c} % 8 < 6, T.float32(1), T.float32(2))");
        format!("T.Select({c} % 8 < 4, {low}, {high})")
    };
    let value = |codes: &str, scales: &str, row: &str| {
        let c = code(codes).replace("vi", row);
        let sign = format!("T.Select({c} < 8, T.float32(1), T.float32(-1))");
        format!("{} * {sign} * T.Cast(\"float32\", {scales}[{row}, vk // 16])", size(&c))
    };
    let text = format!(
        "@T.prim_func(s_tir=True)
def main(A: T.Buffer((20, 64), \"uint8\"), P: T.Buffer((20, 8), \"float8_e4m3fn\"), B: T.Buffer((24, 64), \"uint8\"), Q: T.Buffer((24, 8), \"float8_e4m3fn\"), O: T.Buffer((20, 24), \"float32\")):
    for i, j, k in T.grid(20, 24, 128):
        with T.sblock(\"O\"):
            vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])
            with T.init():
                O[vi, vj] = T.float32(0.0)
            O[vi, vj] = O[vi, vj] + ({}) * ({})
",
        value("A", "P", "vi"),
        value("B", "Q", "vj")
    );
    let case = Case { name: "chosen".into(), text, extents: vec![], length: 128 };
    check_points(&case, RULE, RTX, |space, _| space.default().into_iter().collect());
}

/// Numbers and scales come into shared memory as they are, ahead, and from there into the instructions.
#[test]
fn nothing_is_decoded() {
    let case = product("nvfp4", [256, 256, 512], &[]);
    let target = target(RTX);
    let arm = arm(RULE, &Prepared::new(&super::harness::read(&case)).expect("a function"), &target);
    let point = arm.space.default().expect("a legal point");
    let s = arm.schedule(&point).expect("a schedule");
    let text = lower(s.func(), &target, &[]).expect("a program").to_string();
    assert!(text.contains("mma.m16n8k64.e2m1.e2m1(") && text.contains("ldmatrix.x4"), "{text}");
    assert!(text.contains("cp_async16") && text.contains("cp_async4"), "{text}");
    assert!(!text.contains("16384.0") && !text.contains("b4_left") && !text.contains("b4_right"), "{text}");
}

/// Other targets decode: into float16 or bfloat16, for the rules that there are.
#[test]
fn other_targets_have_right_kernels() {
    for (format, rule, id) in [
        ("nvfp4", "matmul.mma", "cuda:sm_90a"),
        ("mxfp8", "matmul.wgmma", "cuda:sm_90a"),
        ("mxfp4", "matmul.mma", "cuda:sm_100a"),
        ("mxfp8", "matmul.cpu", "cpu:x86-64-v3"),
        ("nvfp4", "matmul.cpu", "cpu:x86-64-v3"),
    ] {
        let case = product(format, [33, 70, 128], &[("out-dtype", "float32")]);
        check_points(&case, rule, id, |space, _| space.default().into_iter().collect());
    }
}

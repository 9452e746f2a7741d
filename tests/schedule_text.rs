//! The text of steps, in both directions.

use daylight::schedule::Step;

const LINES: [&str; 42] = [
    "split(i1, [None, 4])",
    "split(i1, [2, 3, 4])",
    "fuse(i0, i1)",
    "reorder(i1, i0)",
    "bind(i0, blockIdx.x)",
    "bind(i0, vthread.y)",
    "parallel(i0)",
    "vectorize(i0)",
    "unroll(i0)",
    "annotate(i0, \"min_blocks\", 4)",
    "annotate(b0, \"a \\\"quoted\\\\ \\n key\", [True, -2, 1.5, \"x\", int64(3), {\"k\": False}, raw(\"None\")])",
    "compute_inline(b0)",
    "reverse_compute_inline(b1)",
    "compute_at(b0, i1)",
    "reverse_compute_at(b1, i0)",
    "cache_read(b0, p0, \"shared.dyn\")",
    "cache_write(b0, p1, \"local\")",
    "set_dtype(t0, \"float16\")",
    "set_scope(t0, \"wmma.accumulator\")",
    "storage_align(t0, 1, 32, 1)",
    "rfactor(i1_1, 0)",
    "decompose_reduction(b0, i1_0)",
    "transform_block_layout(b0, [[v0, v2], [], [v1]])",
    "add_unit_loop(b0)",
    "reindex(b0, \"left\", [[v0], [], [v1, v2]])",
    "pad_einsum(b0, [1, 128, 8])",
    "merge_reductions(b0, b1)",
    "merge_loops(i0, i2)",
    "replicate(b0, [v3, v5], [4, 2])",
    "online_reductions(b0, b1, i1_0)",
    "flatten_buffer(t0)",
    "transform_layout(t0, [i, j], [j, i // 4, (i % 4 + 1) * 2 - (j - i // 1)])",
    "transform_layout(t0, [], [0])",
    "blockize(i1)",
    "keep_float32(b0)",
    "relax_arithmetic(b0, \"reciprocal\")",
    "stage_write(b0, \"local\")",
    "share([b0, b1], p0, \"local\")",
    "share([b1, b2], None, \"local\")",
    "share_value([b0, b1], [p0, p1], \"shared\")",
    "annotate(i0, \"x\", [])",
    "annotate(i0, \"x\", -1e300)",
];

#[test]
fn steps_print_as_they_were_read() {
    for line in LINES {
        let step: Step = line.parse().unwrap();
        let again: Step = step.to_string().parse().unwrap();
        assert_eq!(step, again);
        if !line.contains("e300") {
            assert_eq!(step.to_string(), line);
        }
    }
}

#[test]
fn bad_lines_say_what_is_wrong() {
    let error = |line: &str| line.parse::<Step>().unwrap_err();
    assert_eq!(error("split(i1"), "cannot read step \"split(i1\" at column 9: expected ',', found the end");
    assert_eq!(error("split(i1)"), "cannot read step \"split(i1)\": no step is called split with 1 arguments");
    assert_eq!(error("jump(i1)"), "cannot read step \"jump(i1)\": no step is called jump with 1 arguments");
    assert_eq!(
        error("split(i1, [x])"),
        "cannot read step \"split(i1, [x])\": expected an integer or None, found Word(\"x\")"
    );
    assert_eq!(error("unroll(i0) x"), "cannot read step \"unroll(i0) x\" at column 12: unexpected 'x' after the step");
    assert_eq!(error("bind(i0, lane)"), "cannot read step \"bind(i0, lane)\": no hardware axis is called lane");
    assert!(error(&"[".repeat(100_000)).contains("nested deeper than 64 levels"));
    assert_eq!(
        error("transform_layout(t0, [i], [i / 4])"),
        "cannot read step \"transform_layout(t0, [i], [i / 4])\" at column 30: expected ',', found '/'"
    );
    assert!(
        error(&format!("transform_layout(t0, [i], [i{}])", " + i".repeat(300))).contains("more than 256 operators")
    );
    assert_eq!(error(""), "cannot read step \"\" at column 1: unexpected end");
}

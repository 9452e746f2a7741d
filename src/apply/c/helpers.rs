//! Small functions of the source, of which each is there where something calls it.

const HELPERS: [(&str, &str); 8] = [
    (
        "dl_extent",
        "// True for an extent that kernels can count to.\nstatic int dl_extent(size_t n) { return n >= 1 && n < (size_t)1 << 31; }\n",
    ),
    (
        "dl_aligned",
        "// True for an address that vectors can be loaded from.\nstatic int dl_aligned(CUdeviceptr p, unsigned bytes) { return p % bytes == 0; }\n",
    ),
    (
        "dl_div",
        "// Rounded down.\nstatic int64_t dl_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }\n",
    ),
    ("dl_mod", "// What is left of it.\nstatic int64_t dl_mod(int64_t a, int64_t b) { return (a % b + b) % b; }\n"),
    ("dl_min", "static int64_t dl_min(int64_t a, int64_t b) { return a < b ? a : b; }\n"),
    ("dl_max", "static int64_t dl_max(int64_t a, int64_t b) { return a > b ? a : b; }\n"),
    (
        "dl_bits32",
        "static int64_t dl_bits32(float x)\n{\n    uint32_t bits;\n    memcpy(&bits, &x, sizeof bits);\n    return (int64_t)bits;\n}\n",
    ),
    (
        "dl_bits64",
        "static int64_t dl_bits64(double x)\n{\n    int64_t bits;\n    memcpy(&bits, &x, sizeof bits);\n    return bits;\n}\n",
    ),
];

/// Those that a source calls.
pub fn used(source: &str) -> String {
    let called = |name: &str| source.contains(&format!("{name}("));
    HELPERS.iter().filter(|(name, _)| called(name)).map(|(_, text)| format!("\n{text}")).collect()
}

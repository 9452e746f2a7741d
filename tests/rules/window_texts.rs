//! Pooling and depthwise convolutions.

use super::harness::Case;

/// A window over the last two axes of `[n, c, h, w]`.
#[derive(Clone, Copy)]
pub struct Shape {
    pub image: [i64; 4],
    pub kernel: [i64; 2],
    pub stride: i64,
    pub pad: i64,
}

impl Shape {
    fn out(&self) -> [i64; 2] {
        let side = |i: usize| (self.image[2 + i] + 2 * self.pad - self.kernel[i]) / self.stride + 1;
        [side(0), side(1)]
    }

    fn name(&self) -> String {
        let [n, c, h, w] = self.image;
        format!("{n}x{c}x{h}x{w}-k{}x{}-s{}-p{}", self.kernel[0], self.kernel[1], self.stride, self.pad)
    }

    fn padded(&self) -> [i64; 4] {
        let [n, c, h, w] = self.image;
        [n, c, h + 2 * self.pad, w + 2 * self.pad]
    }

    /// The block that pads `A` into `P` with `value`.
    fn pad_block(&self, dtype: &str, value: &str) -> String {
        let ([n, c, h, w], [_, _, ph, pw], p) = (self.image, self.padded(), self.pad);
        format!(
            "    P = T.sblock_alloc_buffer(({n}, {c}, {ph}, {pw}), \"{dtype}\")
    for i0, i1, i2, i3 in T.grid({n}, {c}, {ph}, {pw}):
        with T.sblock(\"pad\"):
            v0, v1, v2, v3 = T.axis.remap(\"SSSS\", [i0, i1, i2, i3])
            P[v0, v1, v2, v3] = T.if_then_else({p} <= v2 and v2 < {} and {p} <= v3 and v3 < {}, A[v0, v1, v2 - {p}, v3 - {p}], T.{dtype}({value}))\n",
            h + p,
            w + p
        )
    }
}

/// The largest element, or with `mean` the mean, of each window.
pub fn pool(shape: Shape, dtype: &str, mean: bool) -> Case {
    let ([n, c, h, w], [oh, ow], [kh, kw], s) = (shape.image, shape.out(), shape.kernel, shape.stride);
    let init = if mean { "0.0" } else { "-60000.0" };
    let to = if mean { "S" } else { "O" };
    let read = format!("P[v0, v1, v2 * {s} + v4, v3 * {s} + v5]");
    let update =
        if mean { format!("{to}[v0, v1, v2, v3] + {read}") } else { format!("T.max({to}[v0, v1, v2, v3], {read})") };
    let sums = if mean {
        format!("    S = T.sblock_alloc_buffer(({n}, {c}, {oh}, {ow}), \"{dtype}\")\n")
    } else {
        String::new()
    };
    let last = if mean {
        format!(
            "    for i0, i1, i2, i3 in T.grid({n}, {c}, {oh}, {ow}):
        with T.sblock(\"mean\"):
            v0, v1, v2, v3 = T.axis.remap(\"SSSS\", [i0, i1, i2, i3])
            O[v0, v1, v2, v3] = S[v0, v1, v2, v3] * T.{dtype}(0.125)\n"
        )
    } else {
        String::new()
    };
    let text = format!(
        "@T.prim_func(s_tir=True)
def main(A: T.Buffer(({n}, {c}, {h}, {w}), \"{dtype}\"), O: T.Buffer(({n}, {c}, {oh}, {ow}), \"{dtype}\")):
{}{sums}    for i0, i1, i2, i3, i4, i5 in T.grid({n}, {c}, {oh}, {ow}, {kh}, {kw}):
        with T.sblock(\"pool\"):
            v0, v1, v2, v3, v4, v5 = T.axis.remap(\"SSSSRR\", [i0, i1, i2, i3, i4, i5])
            with T.init():
                {to}[v0, v1, v2, v3] = T.{dtype}({init})
            {to}[v0, v1, v2, v3] = {update}
{last}",
        shape.pad_block(dtype, init)
    );
    let kind = if mean { "mean" } else { "max" };
    Case { name: format!("{kind}-{dtype}-{}", shape.name()), text, extents: vec![], length: 2 }
}

/// A filter of its own for each channel.
pub fn depthwise(shape: Shape) -> Case {
    let ([n, c, h, w], [oh, ow], [kh, kw], s) = (shape.image, shape.out(), shape.kernel, shape.stride);
    let text = format!(
        "@T.prim_func(s_tir=True)
def main(A: T.Buffer(({n}, {c}, {h}, {w}), \"float32\"), W: T.Buffer(({c}, 1, {kh}, {kw}), \"float32\"), O: T.Buffer(({n}, {c}, {oh}, {ow}), \"float32\")):
{}    for i0, i1, i2, i3, i4, i5, i6 in T.grid({n}, {c}, {oh}, {ow}, 1, {kh}, {kw}):
        with T.sblock(\"conv\"):
            v0, v1, v2, v3, v4, v5, v6 = T.axis.remap(\"SSSSRRR\", [i0, i1, i2, i3, i4, i5, i6])
            with T.init():
                O[v0, v1, v2, v3] = T.float32(0.0)
            O[v0, v1, v2, v3] = O[v0, v1, v2, v3] + P[v0, v1 + v4, v2 * {s} + v5, v3 * {s} + v6] * W[v1, v4, v5, v6]
",
        shape.pad_block("float32", "0.0")
    );
    Case { name: format!("depthwise-{}", shape.name()), text, extents: vec![], length: 2 }
}

/// The sum over a window of `k` rows of `[h, w, c]`, whose channels lie contiguous.
pub fn rows(h: i64, w: i64, c: i64, k: i64) -> Case {
    let oh = h - k + 1;
    let text = format!(
        "@T.prim_func(s_tir=True)
def main(A: T.Buffer(({h}, {w}, {c}), \"float32\"), O: T.Buffer(({oh}, {w}, {c}), \"float32\")):
    for i0, i1, i2, i3 in T.grid({oh}, {w}, {c}, {k}):
        with T.sblock(\"rows\"):
            v0, v1, v2, v3 = T.axis.remap(\"SSSR\", [i0, i1, i2, i3])
            with T.init():
                O[v0, v1, v2] = T.float32(0.0)
            O[v0, v1, v2] = O[v0, v1, v2] + A[v0 + v3, v1, v2]
"
    );
    Case { name: format!("rows-{h}x{w}x{c}-k{k}"), text, extents: vec![], length: 2 }
}

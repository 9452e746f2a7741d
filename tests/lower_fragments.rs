//! Products of a block's tile on tensor cores, and loops whose copies run ahead: run by the simulator and
//! compared with the interpreter.

use crate::lower_cases::*;
use daylight::interp::Scalars;
use daylight::ir::{AttrValue, Name, PrimFunc, Scope, ThreadTag};
use daylight::schedule::{Schedule, ScheduleError};

/// A block's tile, and how warps share it out.
#[derive(Clone, Copy, Debug)]
struct Tiles {
    m: i64,
    n: i64,
    k: i64,
    warps: [i64; 2],
    stages: i64,
}

/// `c = relu(a b)`, B stored as `[k, n]`, or as `[n, k]`.
fn matmul(m: i64, n: i64, k: i64, (dtype, acc): (&str, &str), transposed: bool) -> PrimFunc {
    let (shape, at) = if transposed { ((n, k), "vj, vk") } else { ((k, n), "vk, vj") };
    read(&format!(
        r#"
@T.prim_func
def matmul(a: T.Buffer(({m}, {k}), "{dtype}"), b: T.Buffer({shape:?}, "{dtype}"), c: T.Buffer(({m}, {n}), "{acc}")):
    t = T.alloc_buffer(({m}, {n}), "{acc}")
    for i, j, k in T.grid({m}, {n}, {k}):
        with T.block("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                t[vi, vj] = T.{acc}(0)
            t[vi, vj] = t[vi, vj] + T.Cast("{acc}", a[vi, vk]) * T.Cast("{acc}", b[{at}])
    for i, j in T.grid({m}, {n}):
        with T.block("relu"):
            vi, vj = T.axis.remap("SS", [i, j])
            c[vi, vj] = T.max(t[vi, vj], T.{acc}(0))
"#
    ))
}

fn schedule(f: PrimFunc, p: Tiles, lanes: i64) -> Result<Schedule, ScheduleError> {
    let mut s = Schedule::new(f);
    let (b, relu) = (Name::new("b0"), Name::new("b1"));
    let i = s.split(&"i0".into(), &[None, Some(p.m)])?;
    let j = s.split(&"i1".into(), &[None, Some(p.n)])?;
    let k = s.split(&"i2".into(), &[None, Some(p.k)])?;
    s.reorder(&[&i[0], &j[0], &k[0], &i[1], &j[1], &k[1]].map(|l| l.clone()))?;
    s.bind(&i[0], ThreadTag::BlockY)?;
    s.bind(&j[0], ThreadTag::BlockX)?;
    for buffer in ["p0", "p1"] {
        let copy = s.cache_read(&b, &buffer.into(), Scope::Shared)?;
        s.compute_at(&copy, &k[0])?;
        let loops = s.loops(&copy);
        let at = loops.iter().position(|l| *l == k[0]).expect("the copy is in the loop");
        let all = s.fuse(&loops[at + 1..])?;
        let parts = s.split(&all, &[None, Some(32 * p.warps[0] * p.warps[1]), Some(lanes)])?;
        s.bind(&parts[1], ThreadTag::ThreadX)?;
        s.vectorize(&parts[2])?;
    }
    s.annotate(&k[0], "stages", AttrValue::Int(p.stages))?;
    s.reverse_compute_at(&relu, &j[0])?;
    let init = s.decompose_reduction(&b, &k[0])?;
    s.set_scope(&"t0".into(), Scope::Local)?;
    let marks = [(&b, &k[0], "gemm"), (&init, &j[0], "elementwise"), (&relu, &j[0], "elementwise")];
    for (block, under, tile) in marks {
        let loops = s.loops(block);
        let at = loops.iter().position(|l| l == under).expect("it is in the loop") + 1;
        s.annotate(&loops[at], "tile", AttrValue::Str(tile.into()))?;
        s.annotate(&loops[at], "warps_m", AttrValue::Int(p.warps[0]))?;
        s.annotate(&loops[at], "warps_n", AttrValue::Int(p.warps[1]))?;
    }
    Ok(s)
}

#[test]
fn products_of_a_block_run_on_tensor_cores() {
    let tiles = [
        Tiles { m: 32, n: 32, k: 32, warps: [1, 1], stages: 1 },
        Tiles { m: 32, n: 32, k: 32, warps: [2, 2], stages: 2 },
        Tiles { m: 64, n: 32, k: 16, warps: [2, 1], stages: 3 },
        Tiles { m: 32, n: 64, k: 64, warps: [1, 4], stages: 4 },
    ];
    for types in [("float16", "float32"), ("bfloat16", "float32"), ("int8", "int32"), ("float16", "float16")] {
        for transposed in [true, false] {
            for p in tiles.into_iter().filter(|p| types.0 != "int8" || p.k >= 32) {
                let f = matmul(64, 128, 192, types, transposed);
                let s = schedule(f.clone(), p, if types.0 == "int8" { 16 } else { 8 });
                let s = s.unwrap_or_else(|e| panic!("{p:?}: {e}"));
                compare(&format!("{types:?} {transposed} {p:?}"), &f, s.func(), &gpu(), &Scalars::default());
            }
        }
    }
}

//! What the variants of `gemm` accept and decline.

use super::case::{Case, Says, buffer};
use super::gemm_shapes::{fragments, tiled, with_layout};
use Says::{Declines, Takes};
use daylight::ir::instr::MmaShape;
use daylight::ir::layout::{Axis, Fragment, Iter};
use daylight::ir::{AttrValue, Buffer, DType, ExecScope, Expr, Name, Scope, Tile, TileArg, TileCall, TileOp};
use daylight::tile::Active;

pub fn cases() -> Vec<Case> {
    [fma(), packed(), mma(), mma_operands(), tf32x3()].concat()
}

fn fma() -> Vec<Case> {
    let v = "fma";
    let declines = |name: &str, predicate, change: &dyn Fn(&mut Case)| {
        with(&format!("fma: {name}"), &thread("cuda:sm_90a"), Declines(v, predicate), change)
    };
    let share = |name: &str, predicate, change: &dyn Fn(&mut Case)| {
        with(&format!("fma: {name}"), &shared_out(), Declines(v, predicate), change)
    };
    vec![
        with("fma: registers of a thread", &thread("cuda:sm_90a"), Takes(v), &|_| {}),
        with("fma: rows and columns among the threads of a block", &shared_out(), Takes(v), &|_| {}),
        with("fma: bytes into int32, from shared memory", &thread("cuda:sm_90a"), Takes(v), &|c| {
            retype(c, DType::I32, DType::I8);
            c.buffers[1].scope = Scope::Shared;
        }),
        declines("extents disagree", "shapes", &|c| set_extent(c, 1, 1, 2)),
        declines("vectors", "shapes", &|c| c.call.args[0] = TileArg::Tile(Tile::whole(&"d".into(), &[4]))),
        declines("alpha", "options", &|c| config(c, "alpha", AttrValue::Float(2f64.to_bits()))),
        declines("an unknown argument", "options", &|c| config(c, "layout", AttrValue::Str("row".into()))),
        declines("beta without C", "options", &|c| config(c, "beta", AttrValue::Int(1))),
        declines("D is A", "overlap", &|c| {
            c.call.dst = Tile::whole(&"a".into(), &[2, 3]);
            c.call.args[1] = TileArg::Tile(Tile::whole(&"b3".into(), &[3, 3]));
            c.buffers.push(buffer("b3", DType::F32, &[3, 3], Scope::Local, ""));
        }),
        declines("float16 sums", "dtype", &|c| retype(c, DType::F16, DType::F16)),
        declines("integers into float32", "dtype", &|c| retype(c, DType::F32, DType::I8)),
        declines("D in shared memory", "storage_scope", &|c| c.buffers[0].scope = Scope::Shared),
        declines("a thread's part of a matrix", "partition", &|c| {
            c.buffers[0] = buffer("d", DType::F32, &[2, 4], Scope::Local, "S[(2, 4) : (4, 1@laneid)]");
        }),
        declines("a thread's part of A", "sources", &|c| {
            c.buffers[1] = buffer("a", DType::F32, &[2, 3], Scope::Local, "S[(2, 3) : (1@laneid, 1)]");
        }),
        declines("too many steps", "steps", &|c| {
            let of = |name: &str| buffer(name, DType::F32, &[32, 32], Scope::Local, "");
            c.buffers = ["d", "a", "b"].map(of).to_vec();
            c.call = call(ExecScope::Thread, [32, 32, 32]);
        }),
        share("each thread has a D", "partition", &|c| c.buffers[0].layout = None),
        share("half of the threads hold D", "partition", &|c| c.block = [128, 1, 1]),
        share("some threads only", "all_threads", &|c| c.active = Active::Some),
        share("A in registers", "sources", &|c| c.buffers[1].scope = Scope::Local),
    ]
}

fn packed() -> Vec<Case> {
    let v = "fma_f32x2";
    let declines = |name: &str, predicate, change: &dyn Fn(&mut Case)| {
        with(&format!("fma_f32x2: {name}"), &thread("cuda:sm_100a"), Declines(v, predicate), change)
    };
    vec![
        with("fma_f32x2: pairs of columns", &thread("cuda:sm_100a"), Takes(v), &|_| {}),
        with("fma_f32x2: the next generation", &thread("cuda:sm_120a"), Takes(v), &|c| {
            c.buffers[2].scope = Scope::Shared
        }),
        with("fma_f32x2: an earlier GPU", &thread("cuda:sm_90a"), Declines(v, "sm_version"), &|_| {}),
        declines("a block", "exec_scope", &|c| c.call.scope = ExecScope::Cta),
        declines("extents disagree", "shapes", &|c| set_extent(c, 1, 1, 2)),
        declines("alpha", "options", &|c| config(c, "alpha", AttrValue::Int(3))),
        declines("D is B", "overlap", &|c| {
            c.buffers[1] = buffer("a", DType::F32, &[2, 2], Scope::Local, "");
            c.call = call(ExecScope::Thread, [2, 4, 2]);
            c.call.args[1] = TileArg::Tile(Tile::whole(&"d".into(), &[2, 4]));
        }),
        declines("float64", "dtype", &|c| retype(c, DType::F64, DType::F64)),
        declines("D in shared memory", "storage_scope", &|c| c.buffers[0].scope = Scope::Shared),
        declines("an odd number of columns", "pairs", &|c| {
            c.buffers[0] = buffer("d", DType::F32, &[2, 3], Scope::Local, "");
            c.buffers[2] = buffer("b", DType::F32, &[3, 3], Scope::Local, "");
            c.call = call(ExecScope::Thread, [2, 3, 3]);
        }),
        declines("columns apart", "pairs", &|c| {
            c.buffers[0] = buffer("d", DType::F32, &[2, 4], Scope::Local, "S[(2, 4) : (1, 2)]")
        }),
        declines("a thread's part of a matrix", "partition", &|c| {
            c.buffers[0] = buffer("d", DType::F32, &[2, 4], Scope::Local, "S[(2, 4) : (1@laneid, 1)]");
        }),
        declines("a thread's part of B", "sources", &|c| {
            c.buffers[2] = buffer("b", DType::F32, &[3, 4], Scope::Local, "S[(3, 4) : (4, 1@laneid)]");
        }),
        declines("too many steps", "steps", &|c| {
            let of = |name: &str| buffer(name, DType::F32, &[32, 32], Scope::Local, "");
            c.buffers = ["d", "a", "b"].map(of).to_vec();
            c.call = call(ExecScope::Thread, [32, 32, 32]);
        }),
    ]
}

fn mma() -> Vec<Case> {
    let v = "mma";
    let declines = |name: &str, predicate, change: &dyn Fn(&mut Case)| {
        with(&format!("mma: {name}"), &warp(), Declines(v, predicate), change)
    };
    let typed =
        |name: &str, d: DType, ab: DType, says| with(&format!("mma: {name}"), &warp(), says, &|c| retype(c, d, ab));
    vec![
        with("mma: one warp", &warp(), Takes(v), &|_| {}),
        typed("bfloat16", DType::F32, DType::BF16, Takes(v)),
        typed("int8", DType::I32, DType::I8, Takes(v)),
        with("mma: tf32 where it is asked for", &warp(), Takes(v), &|c| {
            retype(c, DType::F32, DType::F32);
            config(c, "precision", AttrValue::Str("tf32".into()));
        }),
        with("mma: four warps and a stage of a pipeline", &block(), Takes(v), &|_| {}),
        typed("float32 unless it is asked for", DType::F32, DType::F32, Declines(v, "dtype")),
        typed("float16 sums", DType::F16, DType::F16, Declines(v, "dtype")),
        declines("no GPU", "sm_version", &|c| c.target = "cpu:x86-64-v3"),
        declines("a thread", "exec_scope", &|c| c.call.scope = ExecScope::Thread),
        declines("some lanes only", "all_threads", &|c| c.active = Active::Some),
        declines("a warp and a half", "whole_warps", &|c| {
            c.block = [48, 1, 1];
            c.call.scope = ExecScope::Cta;
        }),
        declines("extents disagree", "shapes", &|c| set_extent(c, 1, 1, 8)),
        declines("an unknown precision", "options", &|c| config(c, "precision", AttrValue::Str("half".into()))),
        declines("D and A in one buffer", "overlap", &|c| {
            c.call = call(ExecScope::Warp, [16, 16, 16]);
            c.call.args[0] = TileArg::Tile(Tile::whole(&"d".into(), &[16, 16]));
        }),
        declines("D in shared memory", "storage_scope", &|c| {
            c.buffers[0] = buffer("d", DType::F32, &[16, 16], Scope::Shared, "")
        }),
        declines("12 rows", "multiples", &|c| {
            c.buffers[0] = buffer("d", DType::F32, &[12, 16], Scope::Local, "");
            c.call = call(ExecScope::Warp, [12, 16, 32]);
        }),
        declines("depth 24", "multiples", &|c| c.call = call(ExecScope::Warp, [16, 16, 24])),
        declines("rows among lanes", "accumulators", &|c| {
            c.buffers[0] = buffer("d", DType::F32, &[16, 16], Scope::Local, "S[(16, 2, 8) : (2@laneid, 1@laneid, 1)]");
        }),
        declines("registers without a layout", "accumulators", &|c| c.buffers[0].layout = None),
    ]
}

fn mma_operands() -> Vec<Case> {
    let v = "mma";
    let declines = |name: &str, predicate, change: &dyn Fn(&mut Case)| {
        with(&format!("mma: {name}"), &warp(), Declines(v, predicate), change)
    };
    let [a, b] = fragments(MmaShape::M16N8K16F16);
    let lanes = |depth: i64| tiled(a, vec![Iter::new(depth, 1, Axis::M)], vec![], [1, depth]);
    let columns = |grid: Vec<Iter>| tiled(b, grid, vec![], [2, 2]);
    let registers =
        |name: &str, shape: &[i64], layout| with_layout(buffer(name, DType::F16, shape, Scope::Local, ""), layout);
    vec![
        with("mma: operands in registers", &warp(), Takes(v), &|c| {
            c.buffers[1] = registers("a", &[16, 32], lanes(2));
            c.buffers[2] = registers("b", &[32, 16], columns(vec![Iter::new(2, 2, Axis::M), Iter::new(2, 1, Axis::M)]));
        }),
        with("mma: C in registers", &warp(), Takes(v), &|c| {
            c.buffers.push(Buffer { name: "c".into(), ..c.buffers[0].clone() });
            c.call.args.push(TileArg::Tile(Tile::whole(&"c".into(), &[16, 16])));
        }),
        declines("A in global memory", "a_fragments", &|c| c.buffers[1].scope = Scope::Global),
        declines("B in global memory", "b_fragments", &|c| c.buffers[2].scope = Scope::Global),
        with("mma: the accumulators of another product as A", &warp(), Takes(v), &|c| {
            let grid = vec![Iter::new(4, 1, Axis::M)];
            c.buffers[1] = registers("a", &[16, 32], tiled(Fragment::M16N8Acc, grid, vec![], [1, 4]));
        }),
        with("mma: warps hold other rows of A than of D", &block(), Declines(v, "warp_tiling"), &|c| {
            let grid = vec![Iter::new(2, 1, Axis::M), Iter::new(2, 1, Axis::WarpId), Iter::new(2, 2, Axis::M)];
            let replica = vec![Iter::new(2, 2, Axis::WarpId)];
            c.buffers[1] =
                with_layout(buffer("a", DType::F16, &[64, 32], Scope::Local, ""), tiled(a, grid, replica, [4, 2]));
            c.call.args[0] = TileArg::Tile(Tile::whole(&"a".into(), &[64, 32]));
        }),
        with("mma: A divided among warps along K", &block(), Declines(v, "warp_tiling"), &|c| {
            let grid = vec![Iter::new(2, 2, Axis::WarpId), Iter::new(2, 1, Axis::M), Iter::new(2, 1, Axis::WarpId)];
            c.buffers[1] =
                with_layout(buffer("a", DType::F16, &[64, 32], Scope::Local, ""), tiled(a, grid, vec![], [4, 2]));
            c.call.args[0] = TileArg::Tile(Tile::whole(&"a".into(), &[64, 32]));
        }),
        declines("C of another type", "c_place", &|c| {
            c.buffers.push(buffer("c", DType::F16, &[16, 16], Scope::Global, ""));
            c.call.args.push(TileArg::Tile(Tile::whole(&"c".into(), &[16, 16])));
        }),
        declines("too many instructions", "steps", &|c| {
            let grid = |m, n| vec![Iter::new(m, n, Axis::M), Iter::new(n, 1, Axis::M)];
            let acc = tiled(Fragment::M16N8Acc, grid(16, 32), vec![], [16, 32]);
            c.buffers[0] = with_layout(buffer("d", DType::F32, &[256, 256], Scope::Local, ""), acc);
            c.buffers[1] = buffer("a", DType::F16, &[256, 128], Scope::Shared, "");
            c.buffers[2] = buffer("b", DType::F16, &[128, 256], Scope::Shared, "");
            c.call = call(ExecScope::Warp, [256, 256, 128]);
        }),
    ]
}

/// The same of float32, split into parts of tf32. Fragments of operands in registers are others, and so is the depth.
fn tf32x3() -> Vec<Case> {
    let v = "mma_tf32x3";
    let forced = |mut c: Case| {
        c.call.forced = Some(v.into());
        c
    };
    // cases of other types become the same
    let of_float32 = |mut c: Case| {
        let of_16_bits = c.buffers[1].dtype == DType::F16;
        c.buffers.iter_mut().take(3).for_each(|b| b.dtype = DType::F32);
        c.name = c.name.replacen("mma", v, 1);
        c.says = match c.says {
            Declines(_, p) if p != "dtype" && p != "warp_tiling" && p != "steps" && !c.name.ends_with("depth 24") => {
                Declines(v, p)
            }
            Takes(_) if of_16_bits && c.buffers[1].scope == Scope::Shared => Takes(v),
            _ => return None,
        };
        Some(forced(c))
    };
    let mut out: Vec<Case> = [mma(), mma_operands()].concat().into_iter().filter_map(of_float32).collect();
    let a = fragments(MmaShape::M16N8K8TF32)[0];
    out.extend([
        forced(with("mma_tf32x3: float16", &warp(), Declines(v, "dtype"), &|_| {})),
        forced(with("mma_tf32x3: too many instructions", &warp(), Declines(v, "steps"), &|c| {
            let grid = vec![Iter::new(16, 32, Axis::M), Iter::new(32, 1, Axis::M)];
            let acc = tiled(Fragment::M16N8Acc, grid, vec![], [16, 32]);
            c.buffers[0] = with_layout(buffer("d", DType::F32, &[256, 256], Scope::Local, ""), acc);
            c.buffers[1] = buffer("a", DType::F32, &[256, 64], Scope::Shared, "");
            c.buffers[2] = buffer("b", DType::F32, &[64, 256], Scope::Shared, "");
            c.call = call(ExecScope::Warp, [256, 256, 64]);
        })),
        forced(with("mma_tf32x3: A divided among warps along K", &block(), Declines(v, "warp_tiling"), &|c| {
            let warps = |stride| Iter::new(2, stride, Axis::WarpId);
            let own = |stride| Iter::new(2, stride, Axis::M);
            let layout = tiled(a, vec![warps(2), own(2), warps(1), own(1)], vec![], [4, 4]);
            retype(c, DType::F32, DType::F32);
            c.buffers[1] = with_layout(buffer("a", DType::F32, &[64, 32], Scope::Local, ""), layout);
            c.call.args[0] = TileArg::Tile(Tile::whole(&"a".into(), &[64, 32]));
        })),
    ]);
    out
}

/// D 2x4, A 2x3, B 3x4 in registers of one thread.
fn thread(target: &'static str) -> Case {
    let of = |name: &str, shape: &[i64]| buffer(name, DType::F32, shape, Scope::Local, "");
    let buffers = [of("d", &[2, 4]), of("a", &[2, 3]), of("b", &[3, 4])];
    Case::new("", target, 32, &buffers, call(ExecScope::Thread, [2, 4, 3]), Takes("fma"))
}

/// D 16x16 shared out among 64 threads, 2x2 each.
fn shared_out() -> Case {
    let d = buffer("d", DType::F32, &[16, 16], Scope::Local, "S[(8, 2, 8, 2) : (8@tx, 2, 1@tx, 1)]");
    let of = |name: &str| buffer(name, DType::F32, &[16, 16], Scope::Shared, "");
    Case::new("", "cuda:sm_90a", 64, &[d, of("a"), of("b")], call(ExecScope::Cta, [16, 16, 16]), Takes("fma"))
}

/// D 16x16 in the fragments of one warp, A 16x32 and B 32x16 in shared memory.
fn warp() -> Case {
    let layout = tiled(Fragment::M16N8Acc, vec![Iter::new(2, 1, Axis::M)], vec![], [1, 2]);
    let d = with_layout(buffer("d", DType::F32, &[16, 16], Scope::Local, ""), layout);
    let of = |name: &str, shape: &[i64]| buffer(name, DType::F16, shape, Scope::Shared, "");
    let buffers = [d, of("a", &[16, 32]), of("b", &[32, 16])];
    Case::new("", "cuda:sm_90a", 64, &buffers, call(ExecScope::Warp, [16, 16, 32]), Takes("mma"))
}

/// D 64x32 on two by two warps, A and B the stage `blockIdx.x` of two in shared memory.
fn block() -> Case {
    let warps = |stride| Iter::new(2, stride, Axis::WarpId);
    let own = |stride| Iter::new(2, stride, Axis::M);
    let layout = tiled(Fragment::M16N8Acc, vec![warps(2), own(2), warps(1), own(1)], vec![], [4, 4]);
    let d = with_layout(buffer("d", DType::F32, &[64, 32], Scope::Local, ""), layout);
    let of = |name: &str, shape: &[i64]| buffer(name, DType::F16, shape, Scope::Shared, "");
    let mut c = call(ExecScope::Cta, [64, 32, 32]);
    let stage = |name: &str, extent: [i64; 3]| {
        let first = Expr::var("blockIdx.x", DType::I64);
        TileArg::Tile(Tile {
            buffer: name.into(),
            begin: vec![first, Expr::i64(0), Expr::i64(0)],
            extent: extent.to_vec(),
        })
    };
    c.args = vec![stage("a", [1, 64, 32]), stage("b", [1, 32, 32])];
    Case::new("", "cuda:sm_90a", 128, &[d, of("a", &[2, 64, 32]), of("b", &[2, 32, 32])], c, Takes("mma"))
}

/// `d = a b` of whole buffers.
fn call(scope: ExecScope, [m, n, k]: [i64; 3]) -> TileCall {
    let whole = |name: &str, shape: &[i64]| Tile::whole(&Name::new(name), shape);
    let args = vec![TileArg::Tile(whole("a", &[m, k])), TileArg::Tile(whole("b", &[k, n]))];
    TileCall::new(TileOp::Gemm, scope, whole("d", &[m, n]), args)
}

fn with(name: &str, base: &Case, says: Says, change: &dyn Fn(&mut Case)) -> Case {
    let mut c = Case { name: name.to_string(), says, ..base.clone() };
    change(&mut c);
    c
}

fn retype(c: &mut Case, d: DType, ab: DType) {
    let of = |i: usize| if i == 0 { d } else { ab };
    c.buffers.iter_mut().enumerate().for_each(|(i, b)| b.dtype = of(i));
}

fn config(c: &mut Case, key: &str, value: AttrValue) {
    c.call.config.insert(key.into(), value);
}

fn set_extent(c: &mut Case, operand: usize, dim: usize, extent: i64) {
    if let Some(TileArg::Tile(t)) = c.call.args.get_mut(operand) {
        t.extent[dim] = extent;
    }
}

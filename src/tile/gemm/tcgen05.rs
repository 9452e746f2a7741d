//! Matrix products in tensor memory (`tcgen05.mma`), operands read from shared memory.
//!
//! When: a target with tensor memory, D of 128 rows there, row `i` in lane `i`, its columns side by side, 16 to 256
//! of them. A and B of a 16-bit float, an 8-bit float, float32 as tf32 (`precision="tf32"`), or int8 where the
//! target has it, in shared memory as matrix descriptors name them: pieces of 8 lines of 16 bytes, or of 32, 64 or
//! 128 permuted within. D starts from what it holds, or zero. The first thread of the scope issues all instructions;
//! at thread scope each thread that reaches the call.
//!
//! before: `Tx.cta.gemm(d[0:128, 0:128], a_smem[0:128, 0:64], b_smem[0:64, 0:128], mbar=bar[0])`
//! after:  `if threadIdx.x == 0 { tcgen05_fence_after; for each 16 of k tcgen05_mma.m128n128k16; tcgen05_commit bar[0] }`
//!
//! The products are done when the phase of `mbar` has completed that they arrive in, once. The program makes the
//! barrier and waits. What threads wrote to A and B has to be fenced for the asynchronous proxy before.
//!
//! Declines by naming the condition with its values.

use super::described::Described;
use super::operands::{Product, Start, in_shared, product_with};
use crate::ir::device::{DStmt, guarded};
use crate::ir::instr::{At, CtaGroup, Instr, Op, Tcgen05, Tcgen05Shape};
use crate::ir::{DType, ExecScope, Expr, TileCall, TileOp};
use crate::tile::copy_async::barrier_of;
use crate::tile::predicates::{reached, takes};
use crate::tile::{Cx, Emit, Plan, Refusals, Variant};

/// Products in tensor memory.
pub(super) const TCGEN05: Variant =
    Variant { name: "tcgen05", ops: &[TileOp::Gemm], priority: 25, only_forced: true, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    r.ask("sm_version", takes(cx, cx.target.has.tcgen05, "tensor memory", 100));
    reached(call, cx, r);
    let bar = r.ask("mbar", bar(call, cx));
    let product = product_with(call, &["mbar"], cx, r);
    let p = product.as_ref();
    let input = r.ask_if("dtype", p, |p| input(p, call, cx));
    r.ask_if("storage_scope", p, storage);
    r.ask_if("c_place", p, |p| p.starts_in_d(", and products start from D or zero"));
    let first = r.ask_if("d_place", p, |p| p.d.in_lanes(cx));
    let shape = r.ask_if("shape", p.zip(input), |(p, input)| shape(p, input));
    let known = p.zip(shape);
    let a = r.ask_if("a_descriptor", known, |(p, _)| Described::of(&p.a, 0, Tcgen05Shape::ROWS, cx));
    let b = r.ask_if("b_descriptor", known, |(p, s)| Described::of(&p.b, 1, s.n, cx));
    let (shape, a, b, d, bar, p) = (shape?, a?, b?, first?, bar?, product?);
    let own = Tcgen05Product { shape, a, b, d, bar, scope: call.scope, p };
    Some(Box::new(move |e| own.emit(e)))
}

/// The barrier at which a product arrives.
pub(super) fn bar(call: &TileCall, cx: &Cx) -> Result<At, String> {
    let bar = call.operands.get("mbar").ok_or("the product goes on by itself and needs `mbar`, at which it arrives")?;
    barrier_of(bar, cx)
}

/// The type of both factors.
fn input(p: &Product, call: &TileCall, cx: &Cx) -> Result<DType, String> {
    let [d, a, b] = [&p.d, &p.a, &p.b].map(|x| x.view.dtype);
    let shape = of_block(16, a);
    if a != b || d != shape.sum() || shape.check().is_err() {
        return Err(format!("no instruction multiplies {a} by {b} into {d} in tensor memory"));
    }
    match a {
        DType::I8 if !cx.target.has.tcgen05_i8 => Err(format!("{} multiplies no int8 in tensor memory", cx.target.id)),
        DType::F32 if !call.allows_tf32() => Err("float32 is shortened to tf32: say precision=\"tf32\"".to_string()),
        _ => Ok(a),
    }
}

/// A block multiplies by itself; `lower/pass/roles` makes pairs of blocks.
fn of_block(n: i64, input: DType) -> Tcgen05Shape {
    Tcgen05Shape { n, input, group: CtaGroup::One }
}

/// That D is in tensor memory, A and B in shared memory.
pub(super) fn storage(p: &Product) -> Result<(), String> {
    match p.d.view.is_tensor() {
        true => in_shared(p),
        false => Err(format!("D `{}` is in {} memory, not in tensor memory", p.d.view.buffer, p.d.view.scope.name())),
    }
}

fn shape(p: &Product, input: DType) -> Result<Tcgen05Shape, String> {
    let shape = of_block(p.n, input);
    match p.m {
        Tcgen05Shape::ROWS => shape.check().map(|()| shape),
        m => Err(format!("{m} rows; an instruction has {}", Tcgen05Shape::ROWS)),
    }
}

/// A product that one thread issues.
struct Tcgen05Product {
    p: Product,
    shape: Tcgen05Shape,
    a: Described,
    b: Described,
    /// Where D begins.
    d: Expr,
    bar: At,
    scope: ExecScope,
}

impl Tcgen05Product {
    fn emit(&self, emit: &mut Emit) -> Vec<DStmt> {
        let (cx, zero) = (emit.cx(), Expr::i64(0));
        let does = |op: Tcgen05, places: Vec<At>, values: Vec<Expr>| DStmt::Instr(Instr::new(op, places, values));
        let mut out = vec![does(Tcgen05::FenceAfter, vec![], vec![])];
        for step in 0..(self.p.k / self.shape.k()) as usize {
            let d = At::new(&self.p.d.view.buffer, self.d.clone());
            let a = At::new(&self.p.a.view.buffer, self.a.start(&cx, &zero, step));
            let b = At::new(&self.p.b.view.buffer, self.b.start(&cx, &zero, step));
            let op = Tcgen05::Mma { shape: self.shape, a: self.a.desc, b: self.b.desc };
            let add = Expr::bool(step > 0 || matches!(self.p.start, Start::Old));
            out.push(does(op, vec![d, a, b], vec![add]));
        }
        out.push(DStmt::Instr(Instr::new(
            Op::from(Tcgen05::Commit { group: CtaGroup::One, mask: 0 }),
            [self.bar.clone()],
            [],
        )));
        guarded(cx.is_first(self.scope), out)
    }
}

//! `general_reduction.cpu`: softmax, norms and their like, on the CPU.
//!
//! When: as `general_reduction.rows`.
//! How: rows in parallel; for each row one vector loop after the other, of which the first brings the row
//! into the cache and the others find it there. A reduction has several vector accumulators, which meet
//! as vectors first and as lanes last. A function (such as exp) that several passes need may be kept in
//! an array of one row. The last pass over what is read asks for a later row, so that the memory does not
//! rest while a row is worked on, and outputs may be written past the caches.
//! Declines: `target_kind`, the predicates of [`Rows::of`], `one_nest`.
//!
//! ```text
//! general_reduction.cpu on cpu
//! before: float32 A[4096, 4096]
//!         float32 M[i] max= A[i, k]
//!         float32 S[i] += exp(A[i, k] - M[i])
//!         float32 O[i, k] = exp(A[i, k] - M[i]) / S[i]
//! after:  parallel 4096:
//!           unroll 4, vector 8: M_rf.local = 0
//!           loop 128, unroll 4, vector 8: M_rf.local max= A
//!           vector 8: M_rf.local = 0
//!           unroll 4, vector 8: M_rf.local max= M_rf.local
//!           M.local = 0
//!           unroll 8: M.local max= M_rf.local
//!           loop 512 [prefetch=1], vector 8: b1_value_local = A, M.local
//!           unroll 4, vector 8: S_rf.local = 0
//!           loop 128, unroll 4, vector 8: S_rf.local += b1_value_local
//!           vector 8: S_rf.local = 0
//!           unroll 4, vector 8: S_rf.local += S_rf.local
//!           S.local = 0
//!           unroll 8: S.local += S_rf.local
//!           loop 512, vector 8 [cache_hint=streaming]: O = b1_value_local, S.local
//! ```

use super::rows::{rows, shared_value, under_rows};
use crate::rules::find::operands::reads_of;
use crate::rules::find::rows::{Role, Rows};
use crate::rules::parts::*;
use crate::rules::reduction::cpu::cpu_space;

/// The rule.
pub const CPU: Rule =
    Rule::new(Kind::Cpu, "general_reduction.cpu", include_str!("../schedules/general_reduction.cpu.toml"), general);

/// Elements of a row that fit on the stack of a thread.
const MAX_KEPT: i64 = 1 << 15;

struct General(Rows);

fn general(ask: &Ask) -> Answer {
    rows(ask).map(|r| Found::new(r.schedule.clone(), General(r)))
}

impl Accepted for General {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let (common, columns) = (self.0.has_common(), self.0.columns);
        let space = cpu_space(space, DType::F32, columns);
        let space = step_fits(space, columns, |k: &Knobs| k.get("unroll") * lanes(k.get("vector"), DType::F32));
        let space = stream_fits(space, target, self.0.written);
        space.require("value_in_common", move |k| match (k.get("keep"), columns) {
            (0, _) => Ok(()),
            _ if !common => Err("no two blocks compute the same function".into()),
            (_, Some(n)) if n <= MAX_KEPT => Ok(()),
            (_, Some(n)) => Err(format!("a row of {n} elements exceeds the {MAX_KEPT} of a thread's stack")),
            (_, None) => Err("the row's length is not constant".into()),
        })
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let r = &self.0;
        let others = r.others(s);
        if k.get("keep") == 1 {
            let _ = shared_value(s, r);
        }
        let row = s.loops(&r.anchor().name)[0].clone();
        under_rows(s, &row, &others)?;
        s.parallel(&row)?;
        let width = lanes(k.get("vector"), DType::F32);
        for b in s.blocks().into_iter().filter(|b| !others.contains(b)) {
            let made = output(s, &b);
            let reduces = matches!(r.role(&b), Some(Role::Reduce(_)));
            match loops_below(s, &b, &row).last() {
                Some(column) if reduces => reduce(s, &b, &row, column, [k.get("unroll"), width])?,
                Some(column) => {
                    let [_, lane] = split(s, column, [None, Some(width)])?;
                    s.vectorize(&lane)?;
                    if k.get("stream") == 1 && s.func().is_param(&made) {
                        past_the_caches(s, &lane)?;
                    }
                }
                None => {}
            }
            if !s.func().is_param(&made) && !s.readers(&made).iter().any(|r| others.contains(r)) {
                s.set_scope(&made, Scope::Local)?;
            }
        }
        if k.get("prefetch_rows") > 0 { prefetch(s, r, &row, k.get("prefetch_rows")) } else { Ok(()) }
    }

    /// What a pass over a row costs that caches may keep is not known without measuring.
    fn outline(&self, _: &Knobs) -> Option<Outline> {
        None
    }
}

/// The last block that reads a tensor by rows asks for the row that comes so many rows later.
fn prefetch(s: &mut Schedule, r: &Rows, row: &Name, rows: i64) -> Done {
    let reads = |b: &Name| reads_of(s, b).iter().any(|a| r.inputs.iter().any(|i| i.buffer == a.buffer));
    let last = s.blocks().into_iter().rev().find(|b| s.loops(b).contains(row) && reads(b));
    match last.and_then(|b| loops_below(s, &b, row).first().cloned()) {
        Some(column) => s.mark(&column, Mark::Prefetch(rows)),
        None => Ok(()),
    }
}

/// `unroll` accumulators of `width` lanes, then one, then its lanes.
fn reduce(s: &mut Schedule, b: &Name, row: &Name, column: &Name, [unroll, width]: [i64; 2]) -> Done {
    let [ko, kv] = split(s, column, [None, Some(unroll * width)])?;
    let first = s.rfactor(&kv, 1)?;
    let [vector, lane] = split(s, &kv, [Some(unroll), Some(width)])?;
    s.unroll(&vector)?;
    s.vectorize(&lane)?;
    let init = s.decompose_reduction(&first, &ko)?;
    lanes_of(s, &init, row)?;
    local_output(s, &first)?;
    let mut rest = reduction_loop(s, b, row);
    if unroll > 1
        && let Some(all) = rest
    {
        let [vector, lane] = split(s, &all, [Some(unroll), Some(width)])?;
        let second = s.rfactor(&lane, 1)?;
        order(s, [&vector, &lane])?;
        s.vectorize(&lane)?;
        let init = s.decompose_reduction(&second, &vector)?;
        lanes_of(s, &init, row)?;
        s.unroll(&vector)?;
        local_output(s, &second)?;
        rest = reduction_loop(s, b, row);
    }
    if let Some(last) = rest {
        unroll_loop(s, &last)?;
        s.decompose_reduction(b, &last)?;
    }
    Ok(())
}

fn local_output(s: &mut Schedule, b: &Name) -> Done {
    let made = output(s, b);
    s.set_scope(&made, Scope::Local)
}

/// The one loop over what a block still reduces that has more than one step.
fn reduction_loop(s: &Schedule, b: &Name, row: &Name) -> Option<Name> {
    loops_of_kind(s, b, row, IterKind::Reduce).last().cloned()
}

/// The innermost loop of an init as lanes.
fn lanes_of(s: &mut Schedule, init: &Name, row: &Name) -> Done {
    match loops_below(s, init, row).last().cloned() {
        Some(last) => vectorize_loop(s, &last),
        None => Ok(()),
    }
}

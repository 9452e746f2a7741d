//! What a primitive works on: a copy of the function, and the book of names. A primitive that
//! fails drops its draft, so the schedule is as it was.

use super::Failure;
use crate::ir::{Block, Buffer, Expr, ExprKind, For, Name, Param, PrimFunc, STRICT, Stmt};
use crate::schedule::help::{exact, tree};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The function while a step changes it.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The function.
    pub func: PrimFunc,
    /// Every name that is or ever was in the function.
    used: Arc<BTreeSet<Name>>,
    /// Loops, blocks and buffers that are gone: what they were, and the step that took them.
    gone: Arc<BTreeMap<Name, (&'static str, String)>>,
}

impl Draft {
    /// A draft of `func` with no step taken.
    pub fn new(func: PrimFunc) -> Draft {
        let used = Arc::new(all_names(&func));
        Draft { func, used, gone: Arc::default() }
    }

    /// A name that was never used: `base`, or else `base_1`, `base_2`, ...
    pub fn fresh(&mut self, base: &str) -> Name {
        let mut name = Name::new(base);
        let mut n = 0;
        while self.used.contains(&name) {
            n += 1;
            name = Name::new(format!("{base}_{n}"));
        }
        Arc::make_mut(&mut self.used).insert(name.clone());
        name
    }

    /// A fresh name `parent` + `suffix`, with a display name derived in the same way.
    pub fn fresh_like(&mut self, parent: &Name, suffix: &str) -> Name {
        let name = self.fresh(&format!("{parent}{suffix}"));
        if let Some(display) = self.func.display.get(parent) {
            let display = format!("{display}{suffix}");
            self.func.display.insert(name.clone(), display);
        }
        name
    }

    /// A copy of an expression in which every let has a fresh name.
    pub fn copy_expr(&mut self, expr: &Expr) -> Expr {
        let map: BTreeMap<Name, Name> = expr.lets().into_iter().map(|n| (n, self.fresh("x"))).collect();
        if map.is_empty() { expr.clone() } else { rename_expr(expr, &map) }
    }

    /// Adds a buffer to the table and the allocations.
    pub fn declare(&mut self, buffer: Buffer) {
        self.func.allocs.push(buffer.name.clone());
        self.func.buffers.push(buffer);
    }

    /// Takes a buffer that is no longer used out of the table and the allocations.
    pub fn drop_buffer(&mut self, name: &Name) {
        self.func.buffers.retain(|b| b.name != *name);
        self.func.allocs.retain(|b| b != name);
        self.func.display.remove(name);
        let edit = &mut |b: &mut Block| b.allocs.retain(|a| a != name);
        self.func.body.iter_mut().for_each(|s| tree::edit_blocks_in(s, edit));
    }

    /// The loop of that variable.
    pub fn find_loop(&self, name: &Name) -> Result<&For, Failure> {
        tree::find_loop(&self.func, name).ok_or_else(|| self.missing("loop_exists", &["loop"], name))
    }

    /// The block of that name.
    pub fn find_block(&self, name: &Name) -> Result<&Block, Failure> {
        tree::find_block(&self.func, name).ok_or_else(|| self.missing("block_exists", &["block"], name))
    }

    /// `Ok` where `name` is a loop or a block.
    pub fn find_loop_or_block(&self, name: &Name) -> Result<(), Failure> {
        match tree::path(&self.func, name) {
            Some(_) => Ok(()),
            None => Err(self.missing("loop_or_block_exists", &["loop", "block"], name)),
        }
    }

    /// The buffer of that name.
    pub fn find_buffer(&self, name: &Name) -> Result<&Buffer, Failure> {
        self.func.find_buffer(name).ok_or_else(|| self.missing("buffer_exists", &["buffer"], name))
    }

    /// Steps that round otherwise than the function says are for those that are not strict.
    pub fn may_round(&self, at: &Name) -> Result<(), Failure> {
        Failure::unless(!self.func.is_strict(), "not_strict", at, || {
            format!("the function is strict (`{STRICT}` or --strict): its values are rounded as it says")
        })
    }

    /// Refuses where an integer, a comparison or a rounding is made of what the block writes.
    pub fn ends_in_float(&self, block: &Block) -> Result<(), Failure> {
        let exact = exact::buffers(&self.func);
        match tree::writes(block).intersection(&exact).next() {
            None => Ok(()),
            Some(buffer) => {
                let why =
                    format!("`{buffer}` ends in an integer, a comparison or a rounding, and stays as it is written");
                Err(Failure::new("ends_in_float", &block.name, why))
            }
        }
    }

    /// Notes the loops, blocks and buffers of `before` that `step` consumed.
    pub fn bury(&mut self, before: &PrimFunc, step: &str) {
        let alive = identities(&self.func);
        let gone = Arc::make_mut(&mut self.gone);
        for (name, kind) in identities(before) {
            if !alive.contains_key(&name) {
                gone.insert(name, (kind, step.to_string()));
            }
        }
    }

    /// Why `name` is none of the kinds in `want`.
    fn missing(&self, precondition: &'static str, want: &[&str], name: &Name) -> Failure {
        let alive = identities(&self.func);
        let wanted = want.join(" or ");
        let why = if let Some((kind, step)) = self.gone.get(name) {
            format!("{kind} `{name}` was consumed by {step}")
        } else if let Some(kind) = alive.get(name) {
            format!("`{name}` is a {kind}, not a {wanted}")
        } else {
            let known: Vec<_> = alive.iter().filter(|(_, kind)| want.contains(kind)).map(|(n, _)| n.as_str()).collect();
            match known.is_empty() {
                true => format!("there is no {wanted} `{name}`; the function has none"),
                false => format!("there is no {wanted} `{name}`; there is {}", known.join(", ")),
            }
        };
        Failure::new(precondition, name, why)
    }
}

/// Loops, blocks and buffers of a function with what they are.
fn identities(func: &PrimFunc) -> BTreeMap<Name, &'static str> {
    let mut found: BTreeMap<Name, &'static str> = func.buffers.iter().map(|b| (b.name.clone(), "buffer")).collect();
    func.visit(&mut |stmt| {
        if let Some(name) = tree::name_of(stmt) {
            found.insert(name.clone(), if matches!(stmt, Stmt::For(_)) { "loop" } else { "block" });
        }
    });
    found
}

fn all_names(func: &PrimFunc) -> BTreeSet<Name> {
    let mut names: BTreeSet<Name> = func.buffers.iter().map(|b| b.name.clone()).collect();
    names.extend(func.extents.iter().map(|e| e.name.clone()));
    names.extend(func.params.iter().map(|p| match p {
        Param::Buffer(name) | Param::Scalar { name, .. } => name.clone(),
    }));
    names.extend(func.body.iter().flat_map(Stmt::declared));
    names
}

/// Renames variables, the lets that declare them, and loaded buffers.
pub fn rename_expr(expr: &Expr, map: &BTreeMap<Name, Name>) -> Expr {
    let e = expr.map_children(|c| rename_expr(c, map));
    match e.kind() {
        ExprKind::Var { name, dtype } => map.get(name).map_or(e.clone(), |n| Expr::var(n.clone(), *dtype)),
        ExprKind::Load { buffer, indices, dtype } => {
            map.get(buffer).map_or(e.clone(), |b| Expr::load(b.clone(), indices.clone(), *dtype))
        }
        ExprKind::Let { var, value, body } => map.get(var).map_or(e.clone(), |var| {
            Expr::new(ExprKind::Let { var: var.clone(), value: value.clone(), body: body.clone() })
        }),
        _ => e,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Schedule, Step};

    fn copy() -> PrimFunc {
        let text = "@T.prim_func(s_tir=True)
def main(A: T.Buffer((8,), \"float32\"), B: T.Buffer((8,), \"float32\")):
    for row in range(8):
        with T.sblock(\"copy\"):
            v = T.axis.spatial(8, row)
            B[v] = A[v]
";
        crate::ir::read(text, "test").expect("reads").remove(0)
    }

    #[test]
    fn names_are_never_reused() {
        let mut s = Schedule::new(copy());
        let loops = s.split(&"i0".into(), &[None, Some(4)]).unwrap();
        assert_eq!(loops, ["i0_0".into(), "i0_1".into()]);
        assert_eq!(s.func().display_name(&loops[1]), "row_1");
        let fused = s.fuse(&loops).unwrap();
        assert_eq!(fused, "i0_0_i0_1_f".into());
        let again = s.split(&fused, &[Some(2), None]).unwrap();
        assert_eq!(again, ["i0_0_i0_1_f_0".into(), "i0_0_i0_1_f_1".into()]);
        let mut d = Draft::new(copy());
        assert_eq!(d.fresh("i0").as_str(), "i0_1");
        assert_eq!(d.fresh("i0").as_str(), "i0_2");
        assert_eq!(d.fresh("i0_2").as_str(), "i0_2_1");
    }

    #[test]
    fn names_that_are_gone_say_where_they_went() {
        let mut s = Schedule::new(copy());
        s.annotate(&"b0".into(), "k", crate::ir::AttrValue::Int(1)).unwrap();
        s.split(&"i0".into(), &[None, Some(4)]).unwrap();
        let message = |s: &mut Schedule, step: &str| s.apply(step.parse().unwrap()).unwrap_err().to_string();
        assert_eq!(
            message(&mut s, "parallel(i0)"),
            "parallel(i0): loop_exists at `i0`: loop `i0` was consumed by step 1: split(i0, [None, 4])"
        );
        assert_eq!(message(&mut s, "parallel(b0)"), "parallel(b0): loop_exists at `b0`: `b0` is a block, not a loop");
        assert_eq!(
            message(&mut s, "compute_inline(b7)"),
            "compute_inline(b7): block_exists at `b7`: there is no block `b7`; there is b0"
        );
        assert_eq!(
            message(&mut s, "set_scope(t0, \"local\")"),
            "set_scope(t0, \"local\"): buffer_exists at `t0`: there is no buffer `t0`; there is p0, p1"
        );
        assert_eq!(s.trace().len(), 2);
    }

    #[test]
    fn a_replay_from_text_gives_the_same_function() {
        let mut s = Schedule::new(copy());
        s.split(&"i0".into(), &[None, Some(3)]).unwrap();
        s.reorder(&["i0_1".into(), "i0_0".into()]).unwrap();
        s.vectorize(&"i0_0".into()).unwrap();
        let steps: Vec<Step> = s.trace().iter().map(|t| t.to_string().parse().unwrap()).collect();
        assert_eq!(steps, s.trace());
        assert_eq!(Schedule::replay(copy(), &steps).unwrap().func(), s.func());
    }
}

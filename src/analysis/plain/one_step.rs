//! Reductions of one step as what they are: assignments.
//!
//! Where every reduced axis has extent 1, the normal form has no reduction iterator left, and the block
//! starts an element and updates it once. The start is then put where the update reads the element.
//!
//! before: `init: y[i] = 0; y[i] = y[i] + x[i]` over `i`
//! after:  `y[i] = 0 + x[i]`

use crate::analysis::walk::map_blocks;
use crate::ir::{Block, Expr, ExprKind, IterKind, Name, PrimFunc, Stmt};

/// The function in which blocks with a start but without a reduced axis have no start.
pub fn assign(f: &PrimFunc) -> PrimFunc {
    let assigned = |b: &Block| Some(Stmt::Block(Block { init: vec![], body: assigned(b)?, ..b.clone() }));
    PrimFunc { body: map_blocks(&f.body, &assigned), ..f.clone() }
}

/// One element and the value that it starts from.
struct Start<'a> {
    buffer: &'a Name,
    indices: &'a [Expr],
    value: &'a Expr,
}

/// The body of a reduction of one step without its start; `None` for every other block.
fn assigned(b: &Block) -> Option<Vec<Stmt>> {
    if b.init.is_empty() || b.iters.iter().any(|i| i.kind != IterKind::Spatial) {
        return None;
    }
    let starts = b.init.iter().map(start).collect::<Option<Vec<Start>>>()?;
    let mut stored: Vec<&Name> = vec![];
    for s in &b.body {
        let mut again = false;
        s.for_each_expr(|e| again |= stored.iter().any(|name| e.loads(name)));
        match s {
            Stmt::Store { buffer, .. } if !again => stored.push(buffer),
            Stmt::Let { .. } if !again => {}
            _ => return None,
        }
    }
    starts.iter().all(|s| stored.contains(&s.buffer)).then_some(())?;
    Some(b.body.iter().map(|s| s.map_exprs(&mut |e| from_start(e, &starts))).collect())
}

fn start(s: &Stmt) -> Option<Start<'_>> {
    match s {
        Stmt::Store { buffer, indices, value } => Some(Start { buffer, indices, value }),
        _ => None,
    }
}

fn from_start(e: &Expr, starts: &[Start]) -> Expr {
    if let ExprKind::Load { buffer, indices, .. } = e.kind()
        && let Some(s) = starts.iter().find(|s| s.buffer == buffer && s.indices == indices.as_slice())
    {
        return s.value.clone();
    }
    e.map_children(|c| from_start(c, starts))
}

#[cfg(test)]
mod tests {
    use crate::analysis::normalize;

    #[test]
    fn a_sum_of_one_element_is_an_assignment() {
        let text = "@T.prim_func(s_tir=True)
def main(A: T.Buffer((4, 1), \"float32\"), O: T.Buffer((4,), \"float32\")):
    for i, k in T.grid(4, 1):
        with T.sblock(\"sum\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                O[vi] = T.float32(0.0)
            O[vi] = O[vi] + A[vi, vk]
";
        let f = crate::ir::read(text, "one").expect("reads").remove(0);
        let f = super::assign(&normalize(&f).expect("is normal"));
        let text = f.to_string();
        assert!(text.contains("O[vi] = T.Add(T.float32(0.0), A[vi, 0])") && !text.contains("T.init"), "{text}");
    }
}

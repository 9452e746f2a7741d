//! Where the value of an element comes from: the statement that wrote it and those that it depends on.
//! For wrong results, which no rule of the machine finds.

use crate::ir::instr::Access;
use crate::ir::kernel::{ArrayScope, KStmt, Kernel, Program};
use crate::ir::{Expr, ExprKind, Name};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt::{Display, Formatter, Result};

/// Statements that are named besides the writer.
const NAMED: usize = 64;

/// Where the value of an element comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Who wrote it last; `None` where nothing did.
    pub writer: Option<Writer>,
    /// Statements that the value depends on, nearest first; without a writer, those that write other
    /// elements, and their conditions. Every text once, and not all where there are many.
    pub from: Vec<String>,
}

/// Who wrote an element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Writer {
    /// Symbol of the kernel.
    pub kernel: String,
    /// The statement as kernel text.
    pub statement: String,
    /// Block index along x, y, z.
    pub block: [u32; 3],
    /// Thread index along x, y, z; `None` for a bulk or tensor copy.
    pub thread: Option<[u32; 3]>,
}

/// Who wrote the element, without what it depends on.
impl Display for Origin {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.writer {
            Some(w) => {
                let [x, y, z] = w.block;
                write!(f, "written in kernel `{}`, block ({x}, {y}, {z})", w.kernel)?;
                if let Some([x, y, z]) = w.thread {
                    write!(f, ", thread ({x}, {y}, {z})")?;
                }
                write!(f, ", at `{}`", w.statement)?;
            }
            None => f.write_str("nothing has written it")?,
        }
        Ok(())
    }
}

/// A statement: by launch and number in the kernel, counted from the top.
pub(super) type Place = (usize, usize);

/// The statements that the value written by `writer` depends on.
pub(super) fn sources(p: &Program, writer: Place) -> Vec<String> {
    let all = Statements::of(p);
    let start = all.nodes.iter().position(|n| n.place == writer);
    all.behind(start.into_iter().collect(), false)
}

/// The statements that write a tensor, with those that they depend on.
pub(super) fn writers(p: &Program, tensor: &Name) -> Vec<String> {
    let all = Statements::of(p);
    let starts = all.writes.get(&(None, tensor.clone())).cloned().unwrap_or_default();
    all.behind(starts, true)
}

/// A name with the launch that it is local to.
type Key = (Option<usize>, Name);

struct Node {
    place: Place,
    parent: Option<usize>,
    text: String,
    uses: Vec<Key>,
}

/// All statements of a program, in order.
#[derive(Default)]
struct Statements {
    nodes: Vec<Node>,
    /// Statements that write a variable or an array.
    writes: HashMap<Key, Vec<usize>>,
}

impl Statements {
    fn of(p: &Program) -> Statements {
        let mut all = Statements::default();
        for (n, l) in p.launches.iter().enumerate() {
            let mut count = 0;
            l.kernel.body.iter().for_each(|s| all.add(s, &l.kernel, n, &mut count, None));
        }
        all
    }

    fn add(&mut self, s: &KStmt, k: &Kernel, launch: usize, count: &mut usize, parent: Option<usize>) {
        let key = |name: &Name| {
            let local = k
                .array(name)
                .is_some_and(|a| matches!(a.scope, ArrayScope::Shared | ArrayScope::Register | ArrayScope::Tensor));
            let global = !local && k.element(name).is_some();
            ((!global).then_some(launch), name.clone())
        };
        let (mut writes, mut uses) = (vec![], vec![]);
        names(s, &mut |name| writes.push(key(name)), &mut |name| uses.push(key(name)));
        let own = self.nodes.len();
        writes.into_iter().for_each(|k| self.writes.entry(k).or_default().push(own));
        self.nodes.push(Node { place: (launch, *count), parent, text: s.head(), uses });
        *count += 1;
        s.for_each_child(|c| self.add(c, k, launch, count, Some(own)));
    }

    /// Texts of what the statements depend on, nearest first; of themselves too with `own`.
    fn behind(&self, starts: Vec<usize>, own: bool) -> Vec<String> {
        let mut seen: BTreeSet<usize> = starts.iter().copied().collect();
        let mut texts: Vec<String> = vec![];
        let mut queue: VecDeque<usize> = starts.iter().copied().collect();
        while let Some(n) = queue.pop_front() {
            let node = &self.nodes[n];
            if (own || !starts.contains(&n)) && !texts.contains(&node.text) {
                texts.push(node.text.clone());
            }
            if texts.len() == NAMED {
                break;
            }
            let data = node.uses.iter().filter_map(|k| self.writes.get(k)).flatten();
            queue.extend(data.copied().chain(node.parent).filter(|n| seen.insert(*n)));
        }
        texts
    }
}

/// Calls `writes` and `uses` on the names of variables and arrays of a statement, without what is inside.
fn names(s: &KStmt, writes: &mut impl FnMut(&Name), uses: &mut impl FnMut(&Name)) {
    match s {
        KStmt::Let { var, .. }
        | KStmt::Assign { var, .. }
        | KStmt::Var { var, .. }
        | KStmt::For { var, .. }
        | KStmt::Shuffle { dst: var, .. }
        | KStmt::Store { array: var, .. } => writes(var),
        KStmt::Copy { dst, src, .. } => {
            writes(dst);
            uses(src);
        }
        KStmt::Instr(i) => i.for_each_place(|at, access, _| match access {
            Access::Read => uses(&at.array),
            Access::Write | Access::Update => writes(&at.array),
        }),
        KStmt::If { .. } | KStmt::Prefetch { .. } | KStmt::Barrier(_) => {}
    }
    s.for_each_expr(|e| used(e, uses));
}

fn used(e: &Expr, uses: &mut impl FnMut(&Name)) {
    e.visit(&mut |e| match e.kind() {
        ExprKind::Var { name, .. } => uses(name),
        ExprKind::Load { buffer, .. } => uses(buffer),
        _ => {}
    });
}

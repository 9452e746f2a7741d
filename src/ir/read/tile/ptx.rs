//! Statements that are one instruction: groups of asynchronous copies, barriers in shared memory,
//! fences.

use super::super::ast::{Node, NodeKind};
use super::super::error::{Problem, Span, problem};
use super::super::expr::wide;
use super::super::scope::Scope;
use crate::ir::instr::{At, Instr, Sync};
use crate::ir::nearest;
use crate::ir::{DType, Expr, ExprKind, Scope as Memory, Tile};
use std::ops::RangeInclusive;

/// Most arrivals that a phase of a barrier takes, and most bytes that it counts.
const MOST: i64 = (1 << 20) - 1;

/// `bar.ptr_to([i])`, taken apart.
fn pointer(node: &Node) -> Option<(&Node, &[Node])> {
    let NodeKind::Call { func, args, keywords } = &node.kind else { return None };
    let NodeKind::Attr(base, name) = &func.kind else { return None };
    match args.as_slice() {
        [Node { kind: NodeKind::List(items) | NodeKind::Tuple(items), .. }]
            if name == "ptr_to" && keywords.is_empty() =>
        {
            Some((base, items))
        }
        _ => None,
    }
}

/// True for `bar.ptr_to([i])`.
pub(super) fn is_pointer(node: &Node) -> bool {
    pointer(node).is_some()
}

impl Scope<'_> {
    /// Reads a statement of that name after `T.`; `None` where it is no instruction.
    pub(super) fn instruction(
        &mut self,
        name: &str,
        args: &[Node],
        keywords: &[(String, Node)],
        at: Span,
    ) -> Result<Option<Instr>, Problem> {
        let Some(sync) = Sync::by_spelling(name) else {
            let hint = nearest(name, Sync::spellings());
            return match hint.filter(|_| name.starts_with("ptx.") || name.starts_with("cuda.")) {
                Some(near) => {
                    problem(at, format!("`T.{name}` is not a statement of a tile program; did you mean `T.{near}`?"))
                }
                None => Ok(None),
            };
        };
        let only_read = read_only(sync, keywords)?;
        Ok(Some(match (sync, args) {
            (Sync::CpAsyncCommit | Sync::BulkCommit | Sync::MbarrierFence | Sync::AsyncFence, []) => Instr::from(sync),
            (Sync::CpAsyncWait { .. }, [left]) => Instr::from(Sync::CpAsyncWait { left: self.groups(left)? }),
            (Sync::BulkWait { read, .. }, [left]) => {
                Instr::from(Sync::BulkWait { left: self.groups(left)?, read: read || only_read })
            }
            (Sync::MbarrierInit { .. }, [bar, arrivals]) => {
                let bar = self.mbarrier(bar)?;
                Instr::new(Sync::MbarrierInit { arrivals: self.arrivals(arrivals)? }, [bar], [])
            }
            (Sync::MbarrierArrive, [bar, count @ ..]) if count.len() < 2 => {
                let bar = self.mbarrier(bar)?;
                for count in count {
                    if self.arrivals(count)? != 1 {
                        return problem(count.at, "a thread arrives once; the count can be 1 only");
                    }
                }
                Instr::new(sync, [bar], [])
            }
            (Sync::MbarrierExpect, [bar, bytes]) => Instr::new(sync, [self.mbarrier(bar)?], [self.bytes(bytes)?]),
            (Sync::MbarrierWait, [bar, parity]) => Instr::new(sync, [self.mbarrier(bar)?], [self.parity(parity)?]),
            (Sync::AsyncFence, [proxy]) => match &proxy.kind {
                NodeKind::Str(s) if matches!(s.as_str(), "shared" | "shared::cta") => Instr::from(sync),
                _ => return problem(proxy.at, "this fence is for \"shared::cta\" only"),
            },
            _ => return problem(at, format!("this statement is written T.{name}{}", shape(sync))),
        }))
    }

    /// The element that `bar.ptr_to([i])` points to.
    pub(super) fn pointed(&mut self, node: &Node) -> Result<Tile, Problem> {
        let Some((base, items)) = pointer(node) else {
            return problem(node.at, "a pointer to an element of a buffer was expected, such as `bar.ptr_to([0])`");
        };
        let tile = self.region_at(base, Some(items), node)?;
        if tile.len() != 1 {
            return problem(node.at, "a pointer is to one element, such as `bar.ptr_to([0])`");
        }
        Ok(tile)
    }

    fn mbarrier(&mut self, node: &Node) -> Result<At, Problem> {
        let tile = self.pointed(node)?;
        let b = self.declared(&tile.buffer);
        let shared = matches!(b.scope, Memory::Shared | Memory::SharedDyn);
        match tile.begin.as_slice() {
            [index] if shared && b.dtype == DType::U64 && b.layout.is_none() => {
                Ok(At::new(&tile.buffer, index.clone()))
            }
            _ => {
                let message = "a barrier is an element of a one-dimensional buffer of uint64 in shared memory, such as \
                               T.alloc_shared((1,), \"uint64\")";
                problem(node.at, message)
            }
        }
    }

    fn groups(&mut self, node: &Node) -> Result<u32, Problem> {
        self.small(node, 0..=i64::from(u32::MAX), "the number of groups that may be pending is a constant, such as 0")
    }

    fn arrivals(&mut self, node: &Node) -> Result<u32, Problem> {
        self.small(node, 1..=MOST, &format!("the arrivals of a phase are a constant from 1 to {MOST}"))
    }

    fn small(&mut self, node: &Node, range: RangeInclusive<i64>, why: &str) -> Result<u32, Problem> {
        match self.index(node)?.as_int().filter(|n| range.contains(n)).map(u32::try_from) {
            Some(Ok(n)) => Ok(n),
            _ => problem(node.at, why),
        }
    }

    fn bytes(&mut self, node: &Node) -> Result<Expr, Problem> {
        self.number(node, 1..=MOST, &format!("a phase of a barrier counts 1 to {MOST} bytes"))
    }

    fn parity(&mut self, node: &Node) -> Result<Expr, Problem> {
        self.number(node, 0..=1, "the phase that is waited for is 0 or 1, in turn")
    }

    /// A number that lies in the range where it is a constant.
    fn number(&mut self, node: &Node, range: RangeInclusive<i64>, why: &str) -> Result<Expr, Problem> {
        let e = narrowed(self.index(node)?);
        match e.as_int() {
            Some(n) if !range.contains(&n) => problem(node.at, format!("{why}, not {n}")),
            _ => Ok(wide(&e)),
        }
    }
}

/// An expression without a conversion to `uint32`, which TVM wants where the instruction has one.
fn narrowed(e: Expr) -> Expr {
    match e.kind() {
        ExprKind::Cast { dtype: DType::U32, arg } if arg.dtype().is_int() => arg.clone(),
        _ => e,
    }
}

/// The arguments that a statement takes.
fn shape(sync: Sync) -> &'static str {
    match sync {
        Sync::MbarrierInit { .. } => "(bar.ptr_to([0]), arrivals)",
        Sync::MbarrierArrive => "(bar.ptr_to([0]))",
        Sync::MbarrierExpect => "(bar.ptr_to([0]), bytes)",
        Sync::MbarrierWait => "(bar.ptr_to([0]), phase)",
        Sync::CpAsyncWait { .. } | Sync::BulkWait { .. } | Sync::WgmmaWait { .. } => "(groups)",
        Sync::CpAsyncCommit
        | Sync::BulkCommit
        | Sync::MbarrierFence
        | Sync::AsyncFence
        | Sync::WgmmaFence
        | Sync::WgmmaCommit => "()",
    }
}

/// `read=True` of a wait for bulk copies.
fn read_only(sync: Sync, keywords: &[(String, Node)]) -> Result<bool, Problem> {
    let mut read = false;
    for (key, value) in keywords {
        match (&value.kind, key.as_str()) {
            (NodeKind::Bool(b), "read") if matches!(sync, Sync::BulkWait { read: false, .. }) => read = *b,
            _ => return problem(value.at, format!("this statement has no argument `{key}`")),
        }
    }
    Ok(read)
}

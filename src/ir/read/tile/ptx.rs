//! Statements that are one instruction: groups of asynchronous copies, barriers in shared memory,
//! fences. TVM spells them in two ways: as chains that name the whole instruction, which are printed,
//! and shorter.

use super::super::ast::{Node, NodeKind};
use super::super::error::{Problem, Span, problem};
use super::super::expr::wide;
use super::super::scope::Scope;
use super::super::value::nearest;
use crate::ir::intrinsic::At;
use crate::ir::{DType, Expr, ExprKind, Intrinsic, Scope as Memory, Tile};

/// Most arrivals that a phase of a barrier takes, and most bytes that it counts.
const MOST: i64 = (1 << 20) - 1;

/// The instructions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Commit,
    Wait,
    Init,
    InitFence,
    Arrive,
    Expect,
    Await,
    ProxyFence,
    BulkCommit,
    BulkWait,
    BulkWaitRead,
}

/// Every spelling; of each kind the first is the one that is printed.
const SPELLINGS: [(&str, Kind); 22] = [
    ("ptx.cp.async_.commit_group", Kind::Commit),
    ("ptx.cp_async.commit_group", Kind::Commit),
    ("ptx.cp.async_.wait_group", Kind::Wait),
    ("ptx.cp_async.wait_group", Kind::Wait),
    ("ptx.mbarrier.init.shared.b64", Kind::Init),
    ("ptx.mbarrier.init", Kind::Init),
    ("ptx.fence.mbarrier_init.release.cluster", Kind::InitFence),
    ("ptx.fence.mbarrier_init", Kind::InitFence),
    ("ptx.mbarrier.arrive.shared.b64", Kind::Arrive),
    ("ptx.mbarrier.arrive", Kind::Arrive),
    ("ptx.mbarrier.arrive.expect_tx.shared.b64", Kind::Expect),
    ("ptx.mbarrier.arrive.expect_tx", Kind::Expect),
    ("cuda.mbarrier_wait", Kind::Await),
    ("ptx.mbarrier.try_wait", Kind::Await),
    ("ptx.fence.proxy.async_.shared__cta", Kind::ProxyFence),
    ("ptx.fence.proxy_async", Kind::ProxyFence),
    ("ptx.fence.proxy", Kind::ProxyFence),
    ("ptx.cp.async_.bulk.commit_group", Kind::BulkCommit),
    ("ptx.cp_async.bulk.commit_group", Kind::BulkCommit),
    ("ptx.cp.async_.bulk.wait_group", Kind::BulkWait),
    ("ptx.cp_async.bulk.wait_group", Kind::BulkWait),
    ("ptx.cp.async_.bulk.wait_group.read", Kind::BulkWaitRead),
];

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
    ) -> Result<Option<Intrinsic>, Problem> {
        let Some((spelling, kind)) = SPELLINGS.iter().find(|s| s.0 == name) else {
            let hint = nearest(name, SPELLINGS.iter().map(|s| s.0));
            return match hint.filter(|_| name.starts_with("ptx.") || name.starts_with("cuda.")) {
                Some(near) => {
                    problem(at, format!("`T.{name}` is not a statement of a tile program; did you mean `T.{near}`?"))
                }
                None => Ok(None),
            };
        };
        let read = read_only(*kind, keywords)?;
        let shape = match kind {
            Kind::Init => "(bar.ptr_to([0]), arrivals)",
            Kind::Arrive => "(bar.ptr_to([0]))",
            Kind::Expect => "(bar.ptr_to([0]), bytes)",
            Kind::Await => "(bar.ptr_to([0]), phase)",
            Kind::Wait | Kind::BulkWait | Kind::BulkWaitRead => "(groups)",
            Kind::Commit | Kind::BulkCommit | Kind::InitFence | Kind::ProxyFence => "()",
        };
        let i = match (kind, args) {
            (Kind::Commit, []) => Intrinsic::CpAsyncCommit,
            (Kind::Wait, [left]) => Intrinsic::CpAsyncWait { left: self.groups(left)? },
            (Kind::Init, [bar, arrivals]) => {
                Intrinsic::MbarrierInit { bar: self.mbarrier(bar)?, arrivals: self.arrivals(arrivals)? }
            }
            (Kind::InitFence, []) => Intrinsic::MbarrierFence,
            (Kind::Arrive, [bar]) => Intrinsic::MbarrierArrive { bar: self.mbarrier(bar)? },
            (Kind::Arrive, [bar, count]) => {
                let bar = self.mbarrier(bar)?;
                if self.arrivals(count)? != 1 {
                    return problem(count.at, "a thread arrives once; the count can be 1 only");
                }
                Intrinsic::MbarrierArrive { bar }
            }
            (Kind::Expect, [bar, bytes]) => {
                Intrinsic::MbarrierExpect { bar: self.mbarrier(bar)?, bytes: self.bytes(bytes)? }
            }
            (Kind::Await, [bar, parity]) => {
                Intrinsic::MbarrierWait { bar: self.mbarrier(bar)?, parity: self.parity(parity)? }
            }
            (Kind::ProxyFence, []) => Intrinsic::AsyncFence,
            (Kind::ProxyFence, [proxy]) => match &proxy.kind {
                NodeKind::Str(s) if matches!(s.as_str(), "shared" | "shared::cta") => Intrinsic::AsyncFence,
                _ => return problem(proxy.at, "this fence is for \"shared::cta\" only"),
            },
            (Kind::BulkCommit, []) => Intrinsic::BulkCommit,
            (Kind::BulkWait, [left]) => Intrinsic::BulkWait { left: self.groups(left)?, read },
            (Kind::BulkWaitRead, [left]) => Intrinsic::BulkWait { left: self.groups(left)?, read: true },
            _ => return problem(at, format!("this statement is written T.{spelling}{shape}")),
        };
        Ok(Some(i))
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
        match self.index(node)?.as_int().map(u32::try_from) {
            Some(Ok(left)) => Ok(left),
            _ => problem(node.at, "the number of groups that may be pending is a constant, such as 0"),
        }
    }

    fn arrivals(&mut self, node: &Node) -> Result<u32, Problem> {
        match self.index(node)?.as_int().filter(|n| (1..=MOST).contains(n)).map(u32::try_from) {
            Some(Ok(n)) => Ok(n),
            _ => problem(node.at, format!("the arrivals of a phase are a constant from 1 to {MOST}")),
        }
    }

    fn bytes(&mut self, node: &Node) -> Result<Expr, Problem> {
        let e = narrowed(self.index(node)?);
        match e.as_int() {
            Some(n) if !(1..=MOST).contains(&n) => {
                problem(node.at, format!("a phase of a barrier counts 1 to {MOST} bytes, not {n}"))
            }
            _ => Ok(wide(&e)),
        }
    }

    fn parity(&mut self, node: &Node) -> Result<Expr, Problem> {
        let e = narrowed(self.index(node)?);
        match e.as_int() {
            Some(n) if !(0..2).contains(&n) => {
                problem(node.at, format!("the phase that is waited for is 0 or 1, in turn, not {n}"))
            }
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

/// `read=True` of a wait for bulk copies.
fn read_only(kind: Kind, keywords: &[(String, Node)]) -> Result<bool, Problem> {
    let mut read = false;
    for (key, value) in keywords {
        match (&value.kind, key.as_str()) {
            (NodeKind::Bool(b), "read") if kind == Kind::BulkWait => read = *b,
            _ => return problem(value.at, format!("this statement has no argument `{key}`")),
        }
    }
    Ok(read)
}

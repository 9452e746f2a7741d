//! Which blocks and threads there are: `T.cta_id([4])`, `T.thread_id([128])`, `T.lane_id([32])`.

use super::super::ast::{Def, Node, NodeKind, PyStmt, PyStmtKind};
use super::super::error::{Problem, Span, problem};
use super::super::scope::{Binding, Scope};
use super::super::stmt::name_of;
use crate::ir::{BinOp, DType, Expr, Name, ThreadTag};

/// Threads that a block may have.
const MAX_THREADS: i64 = 1024;
/// Blocks on an axis of a grid: x, then y and z.
const MAX_BLOCKS: [i64; 3] = [i32::MAX as i64, 65535, 65535];

/// What an index counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Cta,
    Thread,
    Warpgroup,
    Warp,
    WarpInGroup,
    Lane,
    ThreadInGroup,
}

/// Every kind with its name and how many threads one step counts (0 for those that count otherwise).
const KINDS: [(Kind, &str); 7] = [
    (Kind::Cta, "cta_id"),
    (Kind::Thread, "thread_id"),
    (Kind::Warpgroup, "warpgroup_id"),
    (Kind::Warp, "warp_id"),
    (Kind::WarpInGroup, "warp_id_in_wg"),
    (Kind::Lane, "lane_id"),
    (Kind::ThreadInGroup, "thread_id_in_wg"),
];

/// One declaration: its extents, where they are given.
struct Declared {
    kind: Kind,
    extents: Vec<i64>,
    at: Span,
}

/// The shape of the launch.
pub(super) struct Ids {
    grid: [i64; 3],
    block: [i64; 3],
}

impl Ids {
    /// Collects the declarations of a program and checks that they agree.
    pub fn of(scope: &mut Scope, def: &Def) -> Result<Ids, Problem> {
        let mut all: Vec<Declared> = vec![];
        for s in &def.body {
            let Some((kind, args, at)) = declaration(s) else { continue };
            let extents = extents(scope, args, at)?;
            check_extents(kind, &extents, at)?;
            if let Some(other) = all.iter().find(|d| d.kind == kind && d.extents != extents && !extents.is_empty())
                && !other.extents.is_empty()
            {
                return problem(at, format!("T.{} is declared with other extents already", kind.name()));
            }
            all.push(Declared { kind, extents, at });
        }
        let entry = def.body.iter().find(|s| super::is_entry(s)).map_or_else(Span::default, |s| s.at);
        let Some(grid) = given(&all, Kind::Cta) else {
            return problem(entry, "the program does not say how many blocks it has; write T.cta_id([1])");
        };
        let block = threads(&all, entry)?;
        Ok(Ids { grid: padded(&grid.extents), block })
    }

    /// Blocks per axis.
    pub fn grid(&self) -> [Expr; 3] {
        self.grid.map(Expr::i64)
    }

    /// Threads per axis.
    pub fn block(&self) -> [u32; 3] {
        self.block.map(|n| n as u32)
    }

    /// Threads of a block.
    pub fn threads(&self) -> i64 {
        self.block.iter().product()
    }

    /// Binds the names that a declaration gives to its indices; true when `s` was a declaration.
    pub fn declared(&self, scope: &mut Scope, s: &PyStmt) -> Result<bool, Problem> {
        let Some((kind, _, at)) = declaration(s) else { return Ok(false) };
        let PyStmtKind::Assign { target, .. } = &s.kind else { return Ok(true) };
        let values = self.values(kind);
        let targets: Vec<&Node> = match &target.kind {
            NodeKind::Tuple(items) | NodeKind::List(items) => items.iter().collect(),
            _ => vec![target],
        };
        if targets.len() > values.len() {
            return problem(at, format!("T.{} has {} indices for {} names", kind.name(), values.len(), targets.len()));
        }
        for (t, value) in targets.into_iter().zip(values) {
            let user = name_of(t)?;
            if let Some(name) = value.as_var() {
                scope.display.entry(name.clone()).or_insert_with(|| user.clone());
            }
            scope.bind(&user, Binding::Var(value));
        }
        Ok(true)
    }

    /// The indices of a kind.
    fn values(&self, kind: Kind) -> Vec<Expr> {
        use ThreadTag::{BlockX, BlockY, BlockZ, ThreadX, ThreadY, ThreadZ};
        let tx = || self.linear();
        let quotient = |n| Expr::binary(BinOp::FloorDiv, tx(), Expr::i64(n));
        let rest = |e, n| Expr::binary(BinOp::FloorMod, e, Expr::i64(n));
        match kind {
            Kind::Cta => [BlockX, BlockY, BlockZ].map(index).to_vec(),
            Kind::Thread => [ThreadX, ThreadY, ThreadZ].map(index).to_vec(),
            Kind::Warpgroup => vec![quotient(128)],
            Kind::Warp => vec![quotient(32)],
            Kind::WarpInGroup => vec![rest(quotient(32), 4)],
            Kind::Lane => vec![rest(tx(), 32)],
            Kind::ThreadInGroup => vec![rest(tx(), 128)],
        }
    }

    /// The number of the thread in its block.
    fn linear(&self) -> Expr {
        let [x, y, z] = self.block;
        let [tx, ty, tz] = [ThreadTag::ThreadX, ThreadTag::ThreadY, ThreadTag::ThreadZ].map(index);
        match (y, z) {
            (1, 1) => tx,
            (_, 1) => ty * Expr::i64(x) + tx,
            _ => (tz * Expr::i64(y) + ty) * Expr::i64(x) + tx,
        }
    }
}

impl Kind {
    fn name(self) -> &'static str {
        KINDS.iter().find(|k| k.0 == self).expect("every kind is in KINDS").1
    }

    /// The only extent that an index of this kind can have.
    fn fixed(self) -> Option<i64> {
        match self {
            Kind::Lane => Some(32),
            Kind::WarpInGroup => Some(4),
            Kind::ThreadInGroup => Some(128),
            Kind::Cta | Kind::Thread | Kind::Warpgroup | Kind::Warp => None,
        }
    }

    /// What the number of threads is a multiple of where such an index is declared.
    fn granule(self) -> i64 {
        match self {
            Kind::Cta | Kind::Thread => 1,
            Kind::Warp | Kind::Lane => 32,
            Kind::Warpgroup | Kind::WarpInGroup | Kind::ThreadInGroup => 128,
        }
    }
}

fn index(tag: ThreadTag) -> Expr {
    Expr::var(Name::new(tag.name()), DType::I64)
}

/// Kind, arguments and place of a declaration, with a name or without.
fn declaration(s: &PyStmt) -> Option<(Kind, &[Node], Span)> {
    let node = match &s.kind {
        PyStmtKind::Expr(n) => n,
        PyStmtKind::Assign { value, .. } => value,
        _ => return None,
    };
    let (name, args, _) = node.tir_call()?;
    let kind = KINDS.iter().find(|k| k.1 == name)?.0;
    Some((kind, args, node.at))
}

fn extents(scope: &mut Scope, args: &[Node], at: Span) -> Result<Vec<i64>, Problem> {
    let items = match args {
        [] => return Ok(vec![]),
        [Node { kind: NodeKind::List(items) | NodeKind::Tuple(items), .. }] => items,
        _ => return problem(at, "the extents of an index are a list, such as T.thread_id([32])"),
    };
    if items.is_empty() || items.len() > 3 {
        return problem(at, format!("an index has 1 to 3 extents, not {}", items.len()));
    }
    let mut out = vec![];
    for n in items {
        match scope.index(n)?.as_int() {
            Some(v) if v >= 1 => out.push(v),
            Some(v) => return problem(n.at, format!("an extent is at least 1, not {v}")),
            None => return problem(n.at, "this extent is not a constant; write a number"),
        }
    }
    Ok(out)
}

fn check_extents(kind: Kind, extents: &[i64], at: Span) -> Result<(), Problem> {
    let name = kind.name();
    if let (Some(fixed), [first, ..]) = (kind.fixed(), extents)
        && extents != [fixed]
    {
        return problem(at, format!("T.{name} has the extent {fixed}, not {first}; write T.{name}([{fixed}])"));
    }
    if matches!(kind, Kind::Warp | Kind::Warpgroup) && extents.len() > 1 {
        return problem(at, format!("T.{name} has one extent, not {}", extents.len()));
    }
    if kind == Kind::Cta
        && let Some((n, most)) = extents.iter().zip(MAX_BLOCKS).find(|(n, most)| *n > most)
    {
        return problem(at, format!("{n} blocks on an axis of the grid, which holds {most}"));
    }
    Ok(())
}

fn given(all: &[Declared], kind: Kind) -> Option<&Declared> {
    all.iter().find(|d| d.kind == kind && !d.extents.is_empty())
}

/// The threads of a block, on which all declarations agree.
fn threads(all: &[Declared], entry: Span) -> Result<[i64; 3], Problem> {
    let count = |d: &Declared| match d.kind {
        Kind::Thread => d.extents.iter().try_fold(1i64, |n, e| n.checked_mul(*e)).unwrap_or(i64::MAX),
        _ => d.extents.first().map_or(0, |n| n.saturating_mul(d.kind.granule())),
    };
    let sources = [Kind::Thread, Kind::Warp, Kind::Warpgroup].into_iter().filter_map(|k| given(all, k));
    let lanes = given(all, Kind::Lane).into_iter().map(|d| (d, 32));
    let counts: Vec<(&Declared, i64)> = sources.map(|d| (d, count(d))).collect();
    let Some((first, n)) = counts.first().copied().or_else(|| lanes.into_iter().next()) else {
        return problem(entry, "the program does not say how many threads a block has; write T.thread_id([32])");
    };
    if n > MAX_THREADS {
        return problem(first.at, format!("a block has at most {MAX_THREADS} threads, not {n}"));
    }
    if let Some((d, other)) = counts.iter().find(|(_, other)| *other != n) {
        let (a, b) = (first.kind.name(), d.kind.name());
        return problem(d.at, format!("T.{b} makes {other} threads of a block, but T.{a} makes {n}; they must agree"));
    }
    if let Some(d) = all.iter().find(|d| n % d.kind.granule() != 0) {
        let (name, granule) = (d.kind.name(), d.kind.granule());
        return problem(d.at, format!("T.{name} needs a multiple of {granule} threads, but a block has {n}"));
    }
    let block = if first.kind == Kind::Thread { padded(&first.extents) } else { [n, 1, 1] };
    if block[2] > 64 {
        return problem(first.at, format!("a block has at most 64 threads on its third axis, not {}", block[2]));
    }
    Ok(block)
}

fn padded(extents: &[i64]) -> [i64; 3] {
    let at = |k: usize| extents.get(k).copied().unwrap_or(1);
    [at(0), at(1), at(2)]
}

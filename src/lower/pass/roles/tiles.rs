//! The tiles that a block takes one after the other, each of its roles by itself.
//!
//! Of so many blocks each strides over the tiles; or the grid has a block for every tile, and a running one takes over those of
//! blocks that have not started, as long as it is given any (launch control). Then the thread that copies asks for the next tile
//! when it begins with one. Every role waits for the answer when it is done with its tile, reads it, and says so, so that the
//! answer's slot can be used again. Answers are fetched one tile ahead, and have three slots: when a copy is two tiles
//! further than the results that are being stored, there are two sets of sums at most, and it would wait for these as well.
//! What threads read is fenced before the slot is given back, because the next answer is written by the asynchronous proxy.
//!
//! Of the blocks of a pair the first asks for both, and both get the answer, which names the first block of another pair. Both
//! expect the bytes of their own; what has been read in either is counted in the first.
//!
//! before:            `store c[blockIdx.x]`, 512 blocks
//! after, strided:    `for round < (511 - blockIdx.x) // 148 + 1 { tile = round * 148 + blockIdx.x; store c[tile] }`, 148 blocks
//! after, fetched:    `next = blockIdx.x; for round < 512 while 0 <= next { tile = next; wait read[s]; expect answered[s];`
//!                    `try_cancel answer[s], answered[s]; copy a[tile]; wait answered[s]; query_cancel next <- answer[s];`
//!                    `async_fence; arrive read[s]; s, phase = next slot }`, and of a role that does not ask
//!                    `.. { tile = next; store c[tile]; wait answered[s]; query_cancel next <- answer[s]; .. }`

use super::ring::{Ring, constant, first_of, index_of, op, sync, when};
use super::{PASS, WARP, is};
use crate::analysis::simplify;
use crate::ir::device::{DFor, DKind, DStmt, index_var};
use crate::ir::instr::{At, CtaGroup, Instr, Op, Sync};
use crate::ir::kernel::Barrier;
use crate::ir::{BinOp, DType, Expr, Name, Scope, ThreadTag};
use crate::lower::LowerError;
use crate::lower::nest::{Nest, Several};

/// Slots of answers.
const ANSWERS: i64 = 3;
/// Words and bytes of an answer.
const WORDS: i64 = 4;
const BYTES: i64 = 16;

/// The tiles of a launch whose blocks, or clusters of them, take several.
pub(super) struct Tiles {
    all: Expr,
    /// The variable that is the number of the tile, in place of that of the block.
    tile: Name,
    way: Way,
}

/// How a block comes to its next tile.
enum Way {
    /// So many blocks stride over all.
    Strided(i64),
    Fetched(Answers),
}

/// What blocks are told that ask for the tile of another one.
struct Answers {
    answer: Name,
    /// Barriers that say that an answer is there, and that all roles have read it.
    answered: Name,
    read: Name,
    /// The register of the first block whose tile is next, below 0 where there is none.
    next: Name,
    /// Blocks that take tiles together.
    group: i64,
}

/// Who goes through the tiles.
pub(super) enum Who<'e> {
    /// The thread that copies, which asks for them.
    Copies,
    /// Another thread by itself.
    Thread,
    /// Whole warps.
    Warps,
    /// Whole warps, of so many groups that take turns the one of that number.
    InTurn(&'e Expr, i64),
}

impl Tiles {
    /// Changes the grid of a launch that is marked so.
    pub fn of(nest: &mut Nest) -> Result<Option<Tiles>, LowerError> {
        let Some(several) = nest.several else { return Ok(None) };
        let (all, tile, block) = (nest.grid[0].clone(), nest.fresh("tile"), block());
        if let Some(range) = nest.ranges.get(&block) {
            nest.ranges.set_interval(tile.clone(), range);
        }
        let way = match several {
            Several::Strided(wanted) => {
                let wanted = wanted / i64::from(nest.cluster);
                let blocks = all.as_int().map_or(wanted, |n| n.min(wanted)).max(1);
                nest.grid[0] = Expr::i64(blocks);
                nest.ranges.set(block, 0, blocks - 1);
                Way::Strided(blocks)
            }
            Several::Fetched if nest.grid[1..].iter().any(|n| !n.is_int(1)) => {
                return Err(LowerError::new(PASS, &tile, "blocks are given tiles of a grid that has one axis"));
            }
            Several::Fetched => Way::Fetched(Answers::new(nest)),
        };
        Ok(Some(Tiles { all, tile, way }))
    }

    /// Statements with the number of the tile in place of that of the block.
    pub fn named(&self, body: &[DStmt]) -> Vec<DStmt> {
        let tile = |n: &Name| (n.as_str() == ThreadTag::BlockX.name()).then(|| index_of(&self.tile));
        body.iter().map(|s| s.subst(&tile)).collect()
    }

    /// Barriers with how many there are and the arrivals of each, where so many threads and warps of all blocks that take tiles
    /// together go through these.
    pub fn barriers(&self, readers: i64) -> Vec<(&Name, i64, i64)> {
        match &self.way {
            Way::Strided(_) => vec![],
            Way::Fetched(a) => vec![(&a.answered, ANSWERS, 1), (&a.read, ANSWERS, readers)],
        }
    }

    /// The blocks that take tiles together are those that products are of.
    pub fn check(&self, group: CtaGroup, turns: bool) -> Result<(), LowerError> {
        match &self.way {
            Way::Fetched(a) if turns || a.group != group.blocks() => {
                let why = "a block is given tiles by itself, or with the other of its pair, and takes them as a whole";
                Err(LowerError::new(PASS, &self.tile, why))
            }
            _ => Ok(()),
        }
    }

    /// The body for each tile of the block.
    pub fn each(&self, nest: &mut Nest, who: &Who, body: Vec<DStmt>) -> Vec<DStmt> {
        let mut named = false;
        body.iter().for_each(|s| s.visit(&mut |s| s.for_each_expr(|e| named |= e.uses_var(&self.tile))));
        let own = |value: Expr| if named { vec![constant(&self.tile, value)] } else { vec![] };
        match &self.way {
            Way::Strided(blocks) => {
                let (rounds, tile) = self.strided(nest, *blocks, who);
                let round = rounds.0.clone();
                let inside = [own(tile), body].concat();
                vec![DStmt::For(DFor { own_barriers: true, ..DFor::new(round, rounds.1, DKind::Serial, inside) })]
            }
            Way::Fetched(a) => a.each(nest, &self.all, who, own(a.tile()), body),
        }
    }

    /// The loop over the tiles of a block that strides over them, and the tile of a step.
    fn strided(&self, nest: &mut Nest, blocks: i64, who: &Who) -> ((Name, Expr), Expr) {
        let (turn, turns) = match who {
            Who::InTurn(turn, turns) => ((*turn).clone(), *turns),
            Who::Copies | Who::Thread | Who::Warps => (Expr::i64(0), 1),
        };
        let (first, stride) = (index_var(&block()) + turn * Expr::i64(blocks), blocks * turns);
        let left = self.all.clone() - first.clone() + Expr::i64(stride - 1);
        let round = nest.fresh("round");
        let rounds = simplify(&op(BinOp::FloorDiv, left, stride), &nest.ranges);
        nest.ranges.set_span(round.clone(), &Expr::i64(0), &rounds);
        let tile = simplify(&(index_var(&round) * Expr::i64(stride) + first), &nest.ranges);
        ((round, rounds), tile)
    }
}

impl Answers {
    fn new(nest: &mut Nest) -> Answers {
        let answer = nest.scratch("answer", DType::U32, Expr::i64(ANSWERS * WORDS), Scope::Shared);
        nest.counted.insert(answer.clone());
        let mut bars = |stem| nest.scratch(stem, DType::U64, Expr::i64(ANSWERS), Scope::Shared);
        let (answered, read) = (bars("answered"), bars("answer_read"));
        let next = nest.scratch("next", DType::I32, Expr::i64(1), Scope::Local);
        Answers { answer, answered, read, next, group: i64::from(nest.cluster) }
    }

    /// The register.
    fn next(&self) -> Expr {
        Expr::load(self.next.clone(), vec![Expr::i64(0)], DType::I32)
    }

    /// The tile of the blocks that come next.
    fn tile(&self) -> Expr {
        if self.group == 1 { self.next() } else { op(BinOp::FloorDiv, self.next(), self.group) }
    }

    fn each(&self, nest: &mut Nest, all: &Expr, who: &Who, named: Vec<DStmt>, body: Vec<DStmt>) -> Vec<DStmt> {
        let (ring, round) = (Ring::new(nest, ANSWERS), nest.fresh("round"));
        nest.ranges.set_span(round.clone(), &Expr::i64(0), all);
        let own = Expr::cast(DType::I32, index_var(&block()) * Expr::i64(self.group));
        let mut inside = named;
        if matches!(who, Who::Copies) {
            inside.extend(self.ask(nest, &ring));
        }
        inside.extend(body);
        inside.extend(self.take(&ring, who));
        let live = Some(Expr::binary(BinOp::Le, Expr::i32(0), self.next()));
        let tiles = DFor::new(round, all.clone(), DKind::Serial, inside);
        let mut out = ring.declare(0).to_vec();
        out.push(DStmt::store(self.next.clone(), vec![Expr::i64(0)], own));
        out.push(DStmt::For(DFor { live, own_barriers: true, ..tiles }));
        out
    }

    /// Asks for the tile after this one.
    fn ask(&self, nest: &Nest, ring: &Ring) -> Vec<DStmt> {
        let pair = self.group > 1;
        let first = |s| if pair { when(is(nest.thread(ThreadTag::ClusterX), 0), vec![s]) } else { s };
        let expect = sync(Sync::MbarrierExpect, Some((&self.answered, ring.at())), Some(Expr::i64(BYTES)));
        let places = [self.slot(ring), At::new(&self.answered, ring.at())];
        let ask = DStmt::Instr(Instr::new(Op::TryCancel { all: pair }, places, []));
        vec![first(ring.wait_before(&self.read)), expect, first(ask)]
    }

    /// Takes the answer.
    fn take(&self, ring: &Ring, who: &Who) -> Vec<DStmt> {
        let places = [At::new(&self.next, Expr::i64(0)), self.slot(ring)];
        let mut out = vec![
            ring.wait(&self.answered),
            DStmt::Instr(Instr::new(Op::QueryCancel, places, [])),
            DStmt::Instr(Instr::from(Sync::AsyncFence)),
        ];
        let read = match self.group {
            1 => sync(Sync::MbarrierArrive, Some((&self.read, ring.at())), None),
            _ => DStmt::Instr(Instr::new(Op::PeerArrive, [At::new(&self.read, ring.at())], [Expr::i64(0)])),
        };
        match who {
            Who::Copies | Who::Thread => out.push(read),
            Who::Warps | Who::InTurn(..) => {
                out.extend([DStmt::Barrier(Barrier::Warp), when(first_of(WARP), vec![read])])
            }
        }
        out.extend(ring.next());
        out
    }

    fn slot(&self, ring: &Ring) -> At {
        At::new(&self.answer, ring.at() * Expr::i64(WORDS))
    }
}

fn block() -> Name {
    Name::new(ThreadTag::BlockX.name())
}

//! What a schedule tells lowering about a loop or a block: annotations with a meaning.
//!
//! In a function, and in the text of a trace, a mark is an annotation like any other: `"stages": 3`. Rules
//! write marks and lowering reads them through this type, so that both agree on the words. Other keys are
//! the user's and pass through.

use super::device::LeafOp;
use super::kernel::CacheHint;
use super::layout::Swizzle;
use super::stmt::AttrValue;

/// One mark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mark {
    /// What a loop amounts to, carried out by the tile primitive's variants.
    Tile(LeafOp),
    /// The variant of it that is to carry the loop out.
    TileVariant(String),
    /// How many warps of a block share out the tile of a marked loop along its rows.
    WarpsM(i64),
    /// The same along its columns.
    WarpsN(i64),
    /// The variant that combines a block's values across threads.
    Combine(String),
    /// The hint of the accesses of a loop or a block to global memory.
    CacheHint(CacheHint),
    /// The loads of all iterations of an unrolled loop go before their uses.
    BatchLoads(bool),
    /// Copies at the start of a loop's body run ahead of its rest, in so many stages.
    Stages(i64),
    /// The copies at the start of a loop's body are made by threads of their own; the others work at so many
    /// tiles, each group of them at one.
    Roles(i64),
    /// So many blocks take the steps of the loop over blocks, one after the other.
    Persistent(i64),
    /// Blocks that run take the steps of blocks that have not started, as the hardware gives them (launch control).
    Fetched(bool),
    /// The second argument of `__launch_bounds__`, of the loop over blocks.
    MinBlocks(i64),
    /// The launch of the loop over blocks is one with that before it.
    Merge(bool),
    /// Each block of the loop is run by that block of the launch before which is the last to end of those whose results it
    /// reads.
    LastBlock(bool),
    /// On the CPU, what a loop reads is asked for so many blocks of the grid before.
    Prefetch(i64),
    /// The same, so many bytes before.
    PrefetchBytes(i64),
    /// Loops inside with no more steps than that together are unrolled.
    UnrollStep(i64),
    /// How the shared memory that a block writes is permuted.
    Swizzle(Swizzle),
    /// Buffer, dimension, factor and offset of each stride that is aligned (`storage_align`).
    DimAlign(Vec<[i64; 4]>),
}

const HINTS: [(CacheHint, &str); 4] = [
    (CacheHint::Plain, "plain"),
    (CacheHint::Streaming, "streaming"),
    (CacheHint::NoAllocate, "no_allocate"),
    (CacheHint::NoAllocate256, "no_allocate_256"),
];

impl Mark {
    /// The greatest number in a mark: lowering multiplies several.
    pub const MOST: i64 = 1 << 20;

    /// Most blocks of a launch behind which another one may be run ([`Mark::LastBlock`]): lowering looks at each.
    pub const MOST_COUNTED: i64 = 1 << 14;

    /// Stages or tiles that are on their way at a time: each is code of its own.
    pub const MOST_IN_FLIGHT: i64 = 64;

    /// The annotation that the mark is written as.
    pub fn to_attr(&self) -> (&'static str, AttrValue) {
        let text = |s: &str| AttrValue::Str(s.to_string());
        let ints = |all: &[i64]| AttrValue::List(all.iter().map(|n| AttrValue::Int(*n)).collect());
        match self {
            Mark::Tile(op) => ("tile", text(op.name())),
            Mark::TileVariant(name) => ("tile_variant", text(name)),
            Mark::WarpsM(n) => ("warps_m", AttrValue::Int(*n)),
            Mark::WarpsN(n) => ("warps_n", AttrValue::Int(*n)),
            Mark::Combine(name) => ("combine", text(name)),
            Mark::CacheHint(hint) => {
                ("cache_hint", text(HINTS.iter().find(|(h, _)| h == hint).expect("every hint is in HINTS").1))
            }
            Mark::BatchLoads(yes) => ("batch_loads", AttrValue::Int(i64::from(*yes))),
            Mark::Stages(n) => ("stages", AttrValue::Int(*n)),
            Mark::Roles(n) => ("roles", AttrValue::Int(*n)),
            Mark::Persistent(n) => ("persistent", AttrValue::Int(*n)),
            Mark::Fetched(yes) => ("fetched", AttrValue::Int(i64::from(*yes))),
            Mark::MinBlocks(n) => ("min_blocks", AttrValue::Int(*n)),
            Mark::Merge(yes) => ("merge", AttrValue::Int(i64::from(*yes))),
            Mark::LastBlock(yes) => ("last_block", AttrValue::Int(i64::from(*yes))),
            Mark::Prefetch(n) => ("prefetch", AttrValue::Int(*n)),
            Mark::PrefetchBytes(n) => ("prefetch_bytes", AttrValue::Int(*n)),
            Mark::UnrollStep(n) => ("pragma_auto_unroll_max_step", AttrValue::Int(*n)),
            Mark::Swizzle(s) => ("swizzle", ints(&[s.per_element(), s.swizzle_len(), s.atom_len()].map(i64::from))),
            Mark::DimAlign(all) => ("buffer_dim_align", AttrValue::List(all.iter().map(|one| ints(one)).collect())),
        }
    }

    /// The mark that an annotation is, `None` for a key that marks nothing; or what the key wants for a value.
    pub fn from_attr(key: &str, value: &AttrValue) -> Result<Option<Mark>, &'static str> {
        let text = || value.as_str();
        let count = || int(value).filter(|n| (0..=Mark::MOST).contains(n));
        let in_flight = || count().filter(|n| *n <= Mark::MOST_IN_FLIGHT);
        let (mark, wanted) = match key {
            "tile" => (
                text().and_then(LeafOp::by_name).map(Mark::Tile),
                "a tile primitive, \"elementwise\", \"unpack\" or \"unpack_pairs\"",
            ),
            "tile_variant" => (text().map(|s| Mark::TileVariant(s.to_string())), "the name of a variant"),
            "warps_m" => (count().map(Mark::WarpsM), "a number of warps"),
            "warps_n" => (count().map(Mark::WarpsN), "a number of warps"),
            "combine" => (text().map(|s| Mark::Combine(s.to_string())), "the name of a variant"),
            "cache_hint" => (
                text().and_then(|s| HINTS.iter().find(|(_, name)| *name == s)).map(|(h, _)| Mark::CacheHint(*h)),
                "\"plain\", \"streaming\", \"no_allocate\" or \"no_allocate_256\"",
            ),
            "batch_loads" => (int(value).map(|n| Mark::BatchLoads(n != 0)), "0 or 1"),
            "stages" => (in_flight().map(Mark::Stages), "a number of stages, 64 at most"),
            "roles" => (in_flight().map(Mark::Roles), "a number of tiles, 64 at most"),
            "persistent" => (count().map(Mark::Persistent), "a number of blocks"),
            "fetched" => (int(value).map(|n| Mark::Fetched(n != 0)), "0 or 1"),
            "min_blocks" => (count().map(Mark::MinBlocks), "a number of blocks"),
            "merge" => (int(value).map(|n| Mark::Merge(n != 0)), "0 or 1"),
            "last_block" => (int(value).map(|n| Mark::LastBlock(n != 0)), "0 or 1"),
            "prefetch" => (count().map(Mark::Prefetch), "a number of blocks"),
            "prefetch_bytes" => (count().map(Mark::PrefetchBytes), "a number of bytes"),
            "pragma_auto_unroll_max_step" => {
                (int(value).filter(|n| *n <= Mark::MOST).map(Mark::UnrollStep), "a number of steps")
            }
            "swizzle" => (swizzle(value).map(Mark::Swizzle), "the bits of a swizzle: unit, length, distance"),
            "buffer_dim_align" => (
                list(value).and_then(|all| all.iter().map(aligned).collect::<Option<_>>()).map(Mark::DimAlign),
                "a list of [buffer, dimension, factor, offset]",
            ),
            _ => return Ok(None),
        };
        mark.map(Some).ok_or(wanted)
    }

    /// The marks among the annotations of a loop or the attributes of a block.
    pub fn all(attrs: &[(String, AttrValue)]) -> impl Iterator<Item = Mark> {
        attrs.iter().filter_map(|(key, value)| Mark::from_attr(key, value).ok().flatten())
    }
}

fn int(value: &AttrValue) -> Option<i64> {
    match value {
        AttrValue::Int(n) | AttrValue::Typed(n, _) => Some(*n),
        AttrValue::Bool(b) => Some(i64::from(*b)),
        AttrValue::Float(_) | AttrValue::Str(_) | AttrValue::List(_) | AttrValue::Dict(_) | AttrValue::Raw(_) => None,
    }
}

fn list(value: &AttrValue) -> Option<&[AttrValue]> {
    if let AttrValue::List(all) = value { Some(all) } else { None }
}

fn numbers<const N: usize>(value: &AttrValue) -> Option<[i64; N]> {
    list(value)?.iter().map(int).collect::<Option<Vec<_>>>()?.try_into().ok()
}

fn swizzle(value: &AttrValue) -> Option<Swizzle> {
    let [unit, len, distance] = numbers(value)?.map(|n| u32::try_from(n).ok());
    Swizzle::new(unit?, len?, distance?, true).ok()
}

/// `[buffer, dimension, factor, offset]`
fn aligned(value: &AttrValue) -> Option<[i64; 4]> {
    numbers(value).filter(|all @ [_, dim, factor, _]| {
        *dim >= 0 && *factor > 0 && all.iter().all(|n| n.unsigned_abs() <= Mark::MOST as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::TileOp;

    #[test]
    fn marks_read_back_and_other_words_are_refused() {
        let marks = [
            Mark::Tile(LeafOp::Unpack),
            Mark::Tile(LeafOp::Tile(TileOp::Gemm)),
            Mark::TileVariant("fma".to_string()),
            Mark::WarpsM(2),
            Mark::WarpsN(4),
            Mark::Combine("shuffle".to_string()),
            Mark::CacheHint(CacheHint::NoAllocate),
            Mark::BatchLoads(true),
            Mark::Stages(3),
            Mark::Roles(2),
            Mark::Persistent(132),
            Mark::Fetched(true),
            Mark::MinBlocks(4),
            Mark::Merge(true),
            Mark::Prefetch(1),
            Mark::PrefetchBytes(512),
            Mark::UnrollStep(16),
            Mark::Swizzle(Swizzle::new(3, 3, 6, true).unwrap()),
            Mark::DimAlign(vec![[0, 0, 32, 1], [0, 1, 2, 0]]),
        ];
        for mark in marks {
            let (key, value) = mark.to_attr();
            assert_eq!(Mark::from_attr(key, &value), Ok(Some(mark)));
            assert!(Mark::from_attr(key, &AttrValue::Float(0)).is_err(), "{key} takes any value");
        }
        assert_eq!(Mark::from_attr("tile", &AttrValue::Str("gem".into())).ok(), None);
        assert_eq!(Mark::from_attr("stages", &AttrValue::Int(-1)), Err("a number of stages, 64 at most"));
        assert!(
            Mark::from_attr("stages", &AttrValue::Int(65)).is_err()
                && Mark::from_attr("roles", &AttrValue::Int(65)).is_err()
        );
        assert_eq!(Mark::from_attr("warps_n", &AttrValue::Int(i64::MAX)), Err("a number of warps"));
        assert_eq!(Mark::from_attr("pragma_unroll", &AttrValue::Int(1)), Ok(None));
    }
}

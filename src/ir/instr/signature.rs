//! One row per operation: its text, the GPUs and threads that carry it out, its operands.

use super::{CtaGroup, Instr, Landing, Op, PackedOp, Sync, Tcgen05, blocks_of};
use crate::ir::DType;

/// Bytes that bulk copies, and rows of matrices, are aligned to.
const WIDE: i64 = 16;
/// Types of two values in 32 bits.
const HALF: [DType; 2] = [DType::F16, DType::BF16];

/// What an operation takes.
#[derive(Clone, PartialEq, Debug)]
pub struct Signature {
    /// The line of a kernel listing; `%0` is the first operand, values come after places.
    pub form: String,
    /// Smallest compute capability that has it, times ten.
    pub since: u32,
    /// Adjacent threads that carry it out together, under no condition that they do not share.
    pub threads: u32,
    /// True for what reaches other blocks of a cluster.
    pub peers: bool,
    /// Its places, in order.
    pub places: Vec<Place>,
    /// Its values, in order.
    pub values: Vec<Value>,
}

/// What a place is.
#[derive(Clone, PartialEq, Debug)]
pub struct Place {
    /// Where it is.
    pub space: Space,
    /// What is done to it.
    pub access: Access,
    /// How many elements are touched from there on; 0 where that depends on operands.
    pub elements: i64,
    /// Bytes that it is aligned to; 0 for all its elements together.
    pub align: i64,
    /// Types that the elements may have; any where there are none.
    pub types: Vec<DType>,
}

/// Where a place is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// The thread's own array.
    Register,
    /// Memory of the block, where barriers of the block order accesses unless the instruction has a
    /// `Barrier` of its own.
    Shared,
    /// Tensor memory of the block.
    Tensor,
    /// Memory of the device.
    Global,
    /// The word of a barrier in shared memory.
    Barrier,
    /// The shared memory of another block of the cluster.
    Peer,
}

/// What an instruction does with a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It takes what is there.
    Read,
    /// It leaves something else there.
    Write,
    /// Both.
    Update,
}

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// The operation says more (`check`).
    Any,
    /// A size, parity, coordinate or block: an integer.
    Int,
    /// Bytes of a bulk copy: a positive multiple of 16.
    Size,
}

fn place(space: Space, elements: i64, align: i64) -> Place {
    Place { space, access: Access::Read, elements, align, types: vec![] }
}

/// So many registers, the first one at the start of 32 bits.
fn registers(elements: i64) -> Place {
    place(Space::Register, elements, 4)
}

/// Two registers, aligned to both.
fn pair(types: &[DType]) -> Place {
    place(Space::Register, 2, 0).of(types)
}

/// Memory as far as other operands say.
fn shared(align: i64) -> Place {
    place(Space::Shared, 0, align)
}

fn global(align: i64) -> Place {
    place(Space::Global, 0, align)
}

/// So many elements of tensor memory, the first one wherever the instruction says.
fn tensor(elements: i64) -> Place {
    Place { types: vec![DType::F32, DType::I32, DType::U32], ..place(Space::Tensor, elements, 4) }
}

/// Rows of matrices, of which each lane names one.
fn rows() -> Place {
    place(Space::Shared, 8, WIDE)
}

fn barrier() -> Place {
    place(Space::Barrier, 1, 8).of(&[DType::I64, DType::U64]).written()
}

/// What is answered to who asks for a block that has not started.
fn answer() -> Place {
    place(Space::Shared, WIDE / 4, WIDE).of(&[DType::U32])
}

impl Place {
    fn of(self, types: &[DType]) -> Place {
        Place { types: types.to_vec(), ..self }
    }

    fn written(self) -> Place {
        Place { access: Access::Write, ..self }
    }

    fn updated(self) -> Place {
        Place { access: Access::Update, ..self }
    }
}

/// What a thread does since a compute capability.
fn row(since: u32, form: impl Into<String>, places: impl Into<Vec<Place>>, values: impl Into<Vec<Value>>) -> Signature {
    let (form, places, values) = (form.into(), places.into(), values.into());
    Signature { form, since, threads: 1, peers: false, places, values }
}

/// What is done with tensor memory.
fn tensor_memory(op: &Tcgen05) -> Signature {
    let word = || place(Space::Shared, 1, 4).of(&[DType::U32]);
    let row = |form: String, places: Vec<Place>| row(100, form, places, []);
    let of = |s: Signature, group: CtaGroup| Signature { peers: group == CtaGroup::Pair, ..s };
    match op {
        Tcgen05::Alloc { columns, group } => {
            let form = format!("tcgen05_alloc{} %0, {columns} columns", group.suffix());
            of(row(form, vec![word().written()]).warp(), *group)
        }
        Tcgen05::Relinquish { group } => {
            of(row(format!("tcgen05_relinquish{}", group.suffix()), vec![]).warp(), *group)
        }
        Tcgen05::Find { column } => {
            let further = if *column > 0 { format!(" + {column} columns") } else { String::new() };
            row(format!("tcgen05_find %0 at %1{further}"), vec![tensor(1).written(), word()])
        }
        Tcgen05::Dealloc { columns, group } => {
            let form = format!("tcgen05_dealloc{} %0, {columns} columns", group.suffix());
            of(row(form, vec![tensor(1).written()]).warp(), *group)
        }
        Tcgen05::Mma { shape, a, b } => {
            let (sum, input) = (&[shape.sum()], &[shape.input]);
            let form = format!("%0 = tcgen05_mma.{}(%1 as {}, %2 as {}, %0 if %3)", shape.name(), a.text(), b.text());
            let places = vec![tensor(1).of(sum).updated(), shared(WIDE).of(input), shared(WIDE).of(input)];
            of(Signature { values: vec![Value::Any], ..row(form, places) }, shape.group)
        }
        Tcgen05::ScaledMma { shape, a, b, first } => {
            let form = format!(
                "%0 = tcgen05_mma.{}(%1 as {}, %2 as {}, %0 if %5) scaled by (%3 from {}, %4 from {})",
                shape.name(),
                a.text(),
                b.text(),
                first[0],
                first[1]
            );
            let [of_a, of_b] = shape.of.elements().map(|d| shared(WIDE).of(&[d]));
            let scales = || tensor(1).of(&[DType::U32]);
            let places = vec![tensor(1).of(&[DType::F32]).updated(), of_a, of_b, scales(), scales()];
            of(Signature { values: vec![Value::Any], ..row(form, places) }, shape.group)
        }
        Tcgen05::CopyScales { group } => {
            let places = vec![tensor(1).of(&[DType::U32]).written(), shared(WIDE).of(&[DType::E8M0, DType::E4M3])];
            of(row(format!("tcgen05_copy_scales{} %0 <- %1", group.suffix()), places), *group)
        }
        Tcgen05::Commit { group, mask } => {
            let blocks: Vec<String> = blocks_of(*mask).map(|block| block.to_string()).collect();
            let at = if blocks.is_empty() { String::new() } else { format!(" of blocks {}", blocks.join(", ")) };
            let row = row(format!("tcgen05_commit{} %0{at}", group.suffix()), vec![barrier()]);
            Signature { peers: *mask > 0, ..of(row, *group) }
        }
        Tcgen05::Load { count } => {
            let places = vec![registers(4 * count).of(&[DType::F32, DType::I32]).written(), tensor(1)];
            row(format!("tcgen05_load.x{count} %0 <- %1"), places).warp()
        }
        Tcgen05::WaitLoads => row("tcgen05_wait_loads".into(), vec![]).warp(),
        Tcgen05::Store { count } => {
            let places = vec![tensor(1).written(), registers(4 * count).of(&[DType::F32, DType::I32])];
            row(format!("tcgen05_store.x{count} %0 <- %1"), places).warp()
        }
        Tcgen05::WaitStores => row("tcgen05_wait_stores".into(), vec![]).warp(),
        Tcgen05::FenceBefore => row("tcgen05_fence_before".into(), vec![]),
        Tcgen05::FenceAfter => row("tcgen05_fence_after".into(), vec![]),
    }
}

fn packed(since: u32, op: PackedOp, how: &str, pair: Place) -> Signature {
    let (name, n) = op.name();
    let operands: Vec<String> = (1..=n).map(|i| format!("%{i}")).collect();
    let places = [vec![pair.clone().written()], vec![pair; n]].concat();
    row(since, format!("%0 = {name}.{how}.x2({})", operands.join(", ")), places, [])
}

/// Loads and stores of matrices, between registers and rows.
fn matrices(name: &str, count: u32, transpose: bool, [dst, src]: [Place; 2]) -> Signature {
    let trans = if transpose { ".trans" } else { "" };
    let since = if name == "ldmatrix" { 75 } else { 90 };
    row(since, format!("{name}.x{count}{trans} %0 <- %1"), [dst.written(), src], []).warp()
}

/// Coordinates of a box, which come after so many places.
fn coords(places: usize, n: usize) -> String {
    (places..places + n).map(|i| format!("%{i}")).collect::<Vec<_>>().join(", ")
}

impl Signature {
    fn warp(self) -> Signature {
        Signature { threads: 32, ..self }
    }

    fn warpgroup(self) -> Signature {
        Signature { threads: 128, ..self }
    }

    fn peers(self) -> Signature {
        Signature { peers: true, ..self }
    }
}

impl<P, V> Instr<P, V> {
    /// What the operation takes. Optional values are those that the instruction has.
    pub fn signature(&self) -> Signature {
        let n = self.values.len();
        match &self.op {
            Op::Packed { op, rounding, ftz } => {
                let how = format!("{}{}", rounding.name(), if *ftz { ".ftz" } else { "" });
                packed(100, *op, &how, pair(&[DType::F32]))
            }
            Op::PackedF16(op) => packed(53, *op, "rn", pair(&[DType::F16])),
            Op::Fold3(op) => {
                let form = format!("%0 = {}3(%1, %2, %3)", op.name());
                row(100, form, [registers(1).of(&[DType::F32]).written()], [Value::Any; 3])
            }
            Op::CastPair => row(80, "cast2 %0 <- %1", [pair(&[]).written(), pair(&[])], []),
            Op::Halves => row(53, "halves %0 <- %1", [registers(2).of(&HALF).written()], [Value::Any]),
            Op::Pick { high } => {
                let of = high.map(|h| if h { "high" } else { "low" }).join(" ");
                row(53, format!("pick {of} %0 <- %1, %2"), [pair(&HALF).written(), pair(&HALF), pair(&HALF)], [])
            }
            Op::FunnelShift => {
                let places = [registers(8).of(&HALF).written(), registers(16).of(&HALF)];
                row(53, "funnel_shift %0 <- %1 from %2 of %3", places, [Value::Int; 2])
            }
            Op::Prmt => row(53, "%0 = prmt(%1, %2, %3)", [registers(1).of(&[DType::U32]).written()], [Value::Any; 3]),
            Op::Pin => row(53, "pin %0", [registers(2).of(&[DType::F16, DType::BF16, DType::F32]).updated()], []),
            Op::CpAsync { bytes, prefetch } => {
                let ahead = prefetch.map_or_else(String::new, |n| format!(" prefetch {n}"));
                let valid = if n > 0 { " if %2 else 0" } else { "" };
                let (form, align) = (format!("cp_async{bytes} %0 <- %1{ahead}{valid}"), i64::from(*bytes));
                row(80, form, [shared(align).written(), global(align)], vec![Value::Any; n.min(1)])
            }
            Op::LdMatrix { count, transpose } => {
                matrices("ldmatrix", *count, *transpose, [registers(2 * i64::from(*count)), rows()])
            }
            Op::StMatrix { count, transpose } => {
                matrices("stmatrix", *count, *transpose, [rows(), registers(2 * i64::from(*count))])
            }
            Op::QuadTranspose => row(53, "quad_transpose %0", [registers(8).of(&HALF).updated()], []).warp(),
            Op::Mma(shape) => {
                let ([a, b, c], (input, sum)) = (shape.lane_elements(), shape.dtypes());
                let (operand, sums) = (|n| registers(n).of(&[input]), registers(c).of(&[sum]));
                let form = format!("%0 = mma.{}.{input}(%1, %2, %3)", shape.name());
                let since = if matches!(input, DType::E4M3 | DType::E5M2) { 89 } else { 80 };
                row(since, form, [sums.clone().written(), operand(a), operand(b), sums], []).warp()
            }
            Op::BlockScaleMma { shape, first: [a, b] } => {
                let [of_a, of_b] = shape.elements().map(|d| [d]);
                let (sums, scale) = (registers(4).of(&[DType::F32]), registers(4).of(&[shape.scale()]));
                let (name, [x, y]) = (shape.name(), shape.inputs());
                let form = format!("%0 = mma.{name}.{x}.{y}(%1, %2, %3) scaled by (%4 from {a}, %5 from {b})");
                let places = [
                    sums.clone().written(),
                    registers(16).of(&of_a),
                    registers(8).of(&of_b),
                    sums,
                    scale.clone(),
                    scale,
                ];
                row(120, form, places, []).warp()
            }
            Op::Wgmma { shape, a, b } => {
                let input = &[shape.input];
                let sums = registers(shape.registers()).of(&[shape.sum()]).updated();
                let form = format!(
                    "%0 = wgmma.{}.{}(%1 as {}, %2 as {}, %0 if %3)",
                    shape.name(),
                    shape.input_name(),
                    a.text(),
                    b.text()
                );
                let places = [sums, shared(WIDE).of(input), shared(WIDE).of(input)];
                row(90, form, places, [Value::Any]).warpgroup()
            }
            Op::WgmmaRegisters { shape, b } => {
                let input = &[shape.input];
                let sums = registers(shape.registers()).of(&[shape.sum()]).updated();
                let form =
                    format!("%0 = wgmma.{}.{}(%1, %2 as {}, %0 if %3)", shape.name(), shape.input_name(), b.text());
                let places = [sums, registers(shape.held()).of(input), shared(WIDE).of(input)];
                row(90, form, places, [Value::Any]).warpgroup()
            }
            Op::Tcgen05(op) => tensor_memory(op),
            Op::SetMaxReg { registers, take } => {
                let verb = if *take { "take" } else { "give_back" };
                row(90, format!("{verb} registers {registers}"), [], []).warpgroup()
            }
            Op::CpAsyncArrive => row(80, "cp_async_arrive %0", [barrier()], []),
            Op::BulkLoad => {
                let places = [shared(WIDE).written(), global(WIDE), barrier()];
                row(90, "bulk_load %0 <- %1, %3 bytes, %2", places, [Value::Size])
            }
            Op::BulkStore => {
                let places = [global(WIDE).written(), shared(WIDE)];
                row(90, "bulk_store %0 <- %1, %2 bytes", places, [Value::Size])
            }
            Op::TensorLoad { map, to } => {
                let (since, shared_by) = match to {
                    Landing::Own => (90, String::new()),
                    Landing::Cluster(blocks) => (90, format!(", {blocks} blocks")),
                    Landing::Pair => (100, " of the pair".to_string()),
                };
                let form = format!("tensor_load %0 <- {map}[{}], %1{shared_by}", coords(2, n));
                let row = row(since, form, [shared(WIDE).written(), barrier()], vec![Value::Int; n]);
                Signature { peers: *to != Landing::Own, ..row }
            }
            Op::TensorStore { map } => {
                let form = format!("tensor_store {map}[{}] <- %0", coords(1, n));
                row(90, form, [shared(WIDE)], vec![Value::Int; n])
            }
            Op::ClusterStore => {
                let dst = place(Space::Peer, 1, 0).written();
                row(90, "cluster_store %0 of block %1 <- %2", [dst], [Value::Int, Value::Any]).peers()
            }
            Op::ClusterLoad { lanes } => {
                let n = i64::from(*lanes);
                let into = if n == 1 { place(Space::Register, 1, 0) } else { registers(n) };
                let places = [into.written(), place(Space::Peer, n, 0)];
                row(90, format!("cluster_load{lanes} %0 <- %1 of block %2"), places, [Value::Int]).peers()
            }
            Op::PeerArrive => row(90, "mbarrier_arrive %0 of block %1", [barrier()], [Value::Int]).peers(),
            Op::TryCancel { all } => {
                let form = format!("try_cancel %0, %1{}", if *all { ", all blocks" } else { "" });
                let row = row(100, form, [answer().written(), barrier()], []);
                Signature { peers: *all, ..row }
            }
            Op::QueryCancel => {
                let first = place(Space::Register, 1, 0).of(&[DType::I32]);
                row(100, "query_cancel %0 <- %1", [first.written(), answer()], [])
            }
            Op::LastBlock { of } => {
                let last = place(Space::Shared, 1, 4).of(&[DType::I32]).written();
                let arrivals = place(Space::Global, 1, 8).of(&[DType::U64]).updated();
                row(70, format!("last_block %0 of {of} at %1"), [last, arrivals], [])
            }
            Op::GridWait => row(90, "grid_wait", [], []),
            Op::GridLaunch => row(90, "grid_launch", [], []),
            Op::Sync(sync) => match sync {
                Sync::CpAsyncCommit => row(80, "cp_async_commit", [], []),
                Sync::CpAsyncWait { left } => row(80, format!("cp_async_wait {left}"), [], []),
                Sync::MbarrierInit { arrivals } => row(80, format!("mbarrier_init %0, {arrivals}"), [barrier()], []),
                Sync::MbarrierFence => row(90, "mbarrier_fence", [], []),
                Sync::MbarrierArrive => row(80, "mbarrier_arrive %0", [barrier()], []),
                Sync::MbarrierExpect => row(90, "mbarrier_expect %0, %1 bytes", [barrier()], [Value::Int]),
                Sync::MbarrierWait => row(80, "mbarrier_wait %0, parity %1", [barrier()], [Value::Int]),
                Sync::BulkCommit => row(90, "bulk_commit", [], []),
                Sync::BulkWait { left, read } => {
                    row(90, format!("bulk_wait{} {left}", if *read { ".read" } else { "" }), [], [])
                }
                Sync::AsyncFence => row(90, "async_fence", [], []),
                Sync::WgmmaFence => row(90, "wgmma_fence", [], []).warpgroup(),
                Sync::WgmmaCommit => row(90, "wgmma_commit", [], []).warpgroup(),
                Sync::WgmmaWait { left } => row(90, format!("wgmma_wait {left}"), [], []).warpgroup(),
            },
        }
    }
}

//! The key of a workload: what a function computes, without what it is called.

use super::{Block, DeviceFunc, Function, PrimFunc, Stmt, canonicalize, canonicalize_device};

/// 32 hexadecimal digits that two functions share when they differ only in names, attributes of the
/// function and its blocks, declared regions, or the dialect that they were written in. A log tells extents
/// apart by their names: where those of one function come in another order, the keys differ. That a function is strict is
/// part of what it computes: no kernel is found for it that rounds otherwise.
pub fn workload_key(func: &PrimFunc) -> String {
    let mut f = canonicalize(func.clone());
    let order = order(&f) + if f.is_strict() { "# strict\n" } else { "" };
    f.name = "main".to_string();
    f.private = true;
    f.attrs.clear();
    f.display.clear();
    f.body.iter_mut().for_each(strip);
    hash(&(f.canonical_text() + &order))
}

/// The places of the extents among their names in order of the alphabet; nothing where they are in that order.
fn order(f: &PrimFunc) -> String {
    let names: Vec<&str> = f.extents.iter().map(|e| f.display_name(&e.name)).collect();
    if names.is_sorted() {
        return String::new();
    }
    let place = |n: &&str| names.iter().filter(|other| *other < n).count().to_string();
    format!("# extents {}\n", names.iter().map(place).collect::<Vec<_>>().join(" "))
}

/// The key of a tile program, likewise.
pub fn program_key(program: &DeviceFunc) -> String {
    let mut p = canonicalize_device(program.clone());
    let order = order(&p.func);
    p.func.name = "main".to_string();
    p.func.private = true;
    p.func.attrs.clear();
    p.func.display.clear();
    hash(&(p.canonical_text() + &order))
}

impl Function {
    /// [`workload_key`] or [`program_key`].
    pub fn key(&self) -> String {
        match self {
            Function::Tensor(f) => workload_key(f),
            Function::Tile(p) => program_key(p),
        }
    }
}

fn hash(text: &str) -> String {
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(text.as_bytes()))
}

/// Takes regions and attributes off every block.
fn strip(s: &mut Stmt) {
    match s {
        Stmt::For(l) => l.body.iter_mut().for_each(strip),
        Stmt::Block(b) => strip_block(b),
        Stmt::If { then, otherwise, .. } => then.iter_mut().chain(otherwise).for_each(strip),
        Stmt::While { body, .. } | Stmt::Attr { body, .. } => body.iter_mut().for_each(strip),
        Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Evaluate(_) | Stmt::Alloc { .. } => {}
    }
}

fn strip_block(b: &mut Block) {
    b.regions = None;
    b.attrs.clear();
    b.init.iter_mut().chain(&mut b.body).for_each(strip);
}

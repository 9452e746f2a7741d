//! What the trees look at: an outline as numbers.

use crate::rules::prior::residency;
use crate::rules::space::tiles::{Role, Tiles};
use crate::rules::{LaunchOutline, Outline};
use crate::target::Target;

/// Numbers of a candidate, each with its name. `ns` is what the model by hand says.
///
/// Of several launches the one that does the work counts: a product in tiles, else the one that reads most. Sizes are in
/// doublings, as what they change is.
pub fn of(outline: &Outline, ns: f64, target: &Target) -> Vec<(&'static str, f32)> {
    let order = |l: &&LaunchOutline| (l.tiles.is_some(), l.read);
    let Some(l) = outline.launches.iter().max_by_key(order) else { return vec![] };
    let sms = target.sms.max(1) as f64;
    let mut out = vec![("ns", doublings(ns)), ("launches", outline.launches.len() as f64)];
    out.extend(of_launch(l));
    out.extend(of_room(l, target, sms));
    out.extend(of_tiles(&l.tiles.clone().unwrap_or_default(), sms));
    out.into_iter().map(|(name, value)| (name, value as f32)).collect()
}

fn doublings(n: f64) -> f64 {
    n.signum() * (n.abs() + 1.0).log2()
}

fn flag(yes: bool) -> f64 {
    f64::from(u8::from(yes))
}

fn of_launch(l: &LaunchOutline) -> Vec<(&'static str, f64)> {
    let sizes = [
        ("blocks", l.blocks),
        ("threads", l.threads),
        ("min_blocks", l.min_blocks),
        ("state_regs", l.state_regs),
        ("load_regs", l.load_regs),
        ("smem", l.smem),
        ("load_bytes", l.load_bytes),
        ("in_flight", l.in_flight),
        ("steps", l.steps),
        ("read", l.read),
        ("written", l.written),
        ("instructions", l.instructions),
        ("flops", l.flops),
        ("lanes", l.combine.lanes),
        ("values", l.combine.values),
        ("parts", l.combine.parts),
        ("cluster", l.cluster),
    ];
    let shares = [("again", l.again), ("padding", l.padding), ("passes", l.all_passes()), ("sectors", l.sectors)];
    let flags = [("tensor_core", l.tensor_core), ("adds_parts", l.adds_parts), ("staged", l.staged)];
    let sizes = sizes.into_iter().map(|(name, n)| (name, n as f64));
    let numbers = sizes.chain(shares).map(|(name, n)| (name, doublings(n)));
    numbers.chain(flags.map(|(name, yes)| (name, flag(yes)))).collect()
}

/// How the launch fills the device.
fn of_room(l: &LaunchOutline, target: &Target, sms: f64) -> Vec<(&'static str, f64)> {
    let resident = residency(l, target, None).blocks as f64;
    let limit = (i64::from(target.regs_per_sm) / (l.threads * l.min_blocks).max(1) / 8 * 8).min(255);
    let wanted = l.state_regs + l.load_regs;
    let waves = l.blocks as f64 / sms / resident;
    vec![
        ("reg_limit", doublings(limit as f64)),
        ("reg_slack", (limit - wanted) as f64),
        ("reg_share", limit as f64 / wanted.max(1) as f64),
        ("resident", doublings(resident)),
        ("resident_threads", doublings(resident * l.threads as f64)),
        ("resident_bytes", doublings(resident * (l.threads * l.in_flight) as f64)),
        ("waves", (waves + 1e-3).log2()),
        ("last_wave", waves.fract()),
    ]
}

fn of_tiles(t: &Tiles, sms: f64) -> Vec<(&'static str, f64)> {
    let sizes = [
        ("tiles", t.tiles),
        ("fills", t.fills),
        ("ahead", t.ahead),
        ("products", t.products),
        ("filled", t.filled),
        ("tile_row", t.row),
        ("tile_shared", t.shared),
        ("outputs", t.outputs),
        ("moved", t.moved),
        ("functions", t.functions),
        ("copies", t.copies.iter().map(|[n, _]| n).sum()),
    ];
    let role = match t.role {
        Role::All => 0,
        Role::Copy => 1,
        Role::Persistent => 2,
        Role::Turns => 3,
    };
    let rest = [
        ("role", f64::from(role)),
        ("warpgroups", flag(t.warpgroups)),
        ("fetched", flag(t.fetched)),
        ("unaligned", flag(t.unaligned)),
        ("broken_lines", flag(t.broken_lines)),
        ("last_tiles", (t.tiles as f64 / sms).fract()),
    ];
    sizes.into_iter().map(|(name, n)| (name, doublings(n as f64))).chain(rest).collect()
}

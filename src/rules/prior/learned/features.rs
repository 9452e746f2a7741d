//! What the trees look at: a candidate as numbers.

use super::function::Function;
use crate::rules::prior::residency;
use crate::rules::space::tiles::{Role, Tiles};
use crate::rules::{Knobs, LaunchOutline, Outline};
use crate::target::Target;

/// A candidate of a function.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    /// The form of its space.
    pub rule: &'a str,
    /// The point.
    pub knobs: &'a Knobs,
    /// Of which function.
    pub function: &'a Function,
    /// What its kernels look like.
    pub outline: &'a Outline,
    /// What the model by hand says, in nanoseconds.
    pub ns: f64,
    /// What its kernels take, once they are compiled.
    pub compiled: Option<Compiled>,
}

/// What kernels of a candidate take, the most of all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compiled {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of shared memory of a block that the compiler gives it.
    pub shared_bytes: u32,
}

/// Before the name of a rule, and of a knob, in the name of a number.
const RULE: &str = "rule ";
const KNOB: &str = "knob ";
/// A knob that a rule does not have, below all that are negative.
const NO_KNOB: f32 = -2.0;

/// The names of what trees that were grown on such rules and knobs look at, where kernels are `compiled` or not.
pub fn names<'a>(
    rules: impl IntoIterator<Item = &'a str>,
    knobs: impl IntoIterator<Item = &'a str>,
    compiled: bool,
    target: &Target,
) -> Vec<String> {
    let outline = Outline::one(LaunchOutline::default());
    let numbers = of_outline(&outline, 1.0, compiled.then(Compiled::default), target);
    let seen = Function::default().numbers().chain(numbers).map(|(name, _)| name.to_string());
    let rules = rules.into_iter().map(|name| format!("{RULE}{name}"));
    seen.chain(rules).chain(knobs.into_iter().map(|name| format!("{KNOB}{name}"))).collect()
}

/// True where candidates of the rule are among those that trees with these [`names`] were grown on.
pub fn are_of(names: &[String], rule: &str) -> bool {
    names.iter().any(|name| name.strip_prefix(RULE) == Some(rule))
}

/// The numbers of a candidate that have these [`names`].
pub fn of(names: &[String], c: &Candidate, target: &Target) -> Vec<f32> {
    let outline = of_outline(c.outline, c.ns, c.compiled, target);
    let mut out: Vec<f32> = c.function.numbers().chain(outline).map(|(_, n)| n).collect();
    out.extend(names.iter().skip(out.len()).map(|name| of_point(name, c)));
    out
}

fn of_point(name: &str, c: &Candidate) -> f32 {
    match (name.strip_prefix(RULE), name.strip_prefix(KNOB)) {
        (Some(rule), _) => f32::from(u8::from(rule == c.rule)),
        (_, Some(knob)) => {
            c.knobs.find(knob).map_or(NO_KNOB, |v| if v < 0 { -1.0 } else { doublings(v as f64) as f32 })
        }
        _ => NO_KNOB,
    }
}

/// Numbers of an outline, each with its name. `ns` is what the model by hand says.
///
/// Of several launches the one that does the work counts: a product in tiles, else the one that reads most. Sizes are in
/// doublings, as what they change is.
fn of_outline(outline: &Outline, ns: f64, compiled: Option<Compiled>, target: &Target) -> Vec<(&'static str, f32)> {
    let order = |l: &&LaunchOutline| (l.tiles.is_some(), l.read);
    let Some(l) = outline.launches.iter().max_by_key(order) else { return vec![] };
    let sms = target.sms.max(1) as f64;
    let mut out = vec![("ns", doublings(ns)), ("launches", outline.launches.len() as f64)];
    out.extend(of_launch(l));
    out.extend(of_room(l, target, sms));
    out.extend(of_tiles(&l.tiles.clone().unwrap_or_default(), sms));
    out.extend(compiled.into_iter().flat_map(|compiled| of_compiled(l, compiled, target, sms)));
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
    let [blocks, threads, waves, last_wave] = filled(l, resident, sms);
    vec![
        ("reg_limit", doublings(limit as f64)),
        ("reg_slack", (limit - wanted) as f64),
        ("reg_share", limit as f64 / wanted.max(1) as f64),
        ("resident", blocks),
        ("resident_threads", threads),
        ("resident_bytes", doublings(resident * (l.threads * l.in_flight) as f64)),
        ("waves", waves),
        ("last_wave", last_wave),
    ]
}

/// How it fills the device with the registers that its kernel takes.
fn of_compiled(l: &LaunchOutline, c: Compiled, target: &Target, sms: f64) -> [(&'static str, f64); 5] {
    let shared = c.shared_bytes.max(u32::try_from(l.smem).unwrap_or(0));
    let threads = u32::try_from(l.threads).unwrap_or(1).max(1);
    let resident = target.resident_blocks(threads, c.registers, shared).max(1);
    let [blocks, threads, waves, last_wave] = filled(l, f64::from(resident), sms);
    [
        ("registers", f64::from(c.registers)),
        ("resident_compiled", blocks),
        ("threads_compiled", threads),
        ("waves_compiled", waves),
        ("last_wave_compiled", last_wave),
    ]
}

/// Blocks and threads of a multiprocessor that holds so many blocks of the launch, its waves, and how much of the last one is used.
fn filled(l: &LaunchOutline, resident: f64, sms: f64) -> [f64; 4] {
    let waves = l.blocks as f64 / sms / resident;
    [doublings(resident), doublings(resident * l.threads as f64), (waves + 1e-3).log2(), waves.fract()]
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

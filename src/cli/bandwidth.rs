//! How fast this machine moves memory: the ceiling that a CPU kernel's floor is computed from.

use std::time::Instant;

/// Bytes of each of the two areas; far more than any cache share of a core.
const BYTES: usize = 256 << 20;
/// The best of this many passes counts.
const PASSES: usize = 3;

/// The best of copying and comparing two large areas on all cores, in GB/s; about half a second.
pub fn measure(cores: u32) -> f64 {
    let mut to = vec![1u8; BYTES];
    let from = vec![1u8; BYTES];
    let part = (BYTES / cores.max(1) as usize).max(1);
    let mut best: f64 = 0.0;
    for _ in 0..PASSES {
        let copied = seconds(|| each(&mut to, &from, part, |t, f| t.copy_from_slice(f)));
        let compared = seconds(|| {
            each(&mut to, &from, part, |t, f| {
                std::hint::black_box(*t == *f);
            })
        });
        best = best.max(2.0 * BYTES as f64 / 1e9 / copied.min(compared));
    }
    best
}

fn each(to: &mut [u8], from: &[u8], part: usize, work: impl Fn(&mut [u8], &[u8]) + Sync) {
    let work = &work;
    std::thread::scope(|scope| {
        for (t, f) in to.chunks_mut(part).zip(from.chunks(part)) {
            scope.spawn(move || work(t, f));
        }
    });
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

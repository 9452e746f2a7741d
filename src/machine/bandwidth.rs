//! How fast this machine moves memory: the ceiling that a CPU kernel's floor is computed from.

use std::time::Instant;

/// Words of each of the two areas; far more than any cache share of a core.
const WORDS: usize = 32 << 20;
/// The best of this many passes counts.
const PASSES: usize = 5;

/// The best of reading one large area and copying it to another on all cores, in GB/s; about half a
/// second.
pub fn measure(cores: u32) -> f64 {
    let mut to = vec![1u64; WORDS];
    let from = vec![1u64; WORDS];
    let part = WORDS.div_ceil(cores.max(1) as usize);
    let gb = (WORDS * 8) as f64 / 1e9;
    let mut best: f64 = 0.0;
    for _ in 0..PASSES {
        let copied = seconds(|| each(&mut to, &from, part, |t, f| t.copy_from_slice(f)));
        let read = seconds(|| {
            each(&mut to, &from, part, |_, f| {
                std::hint::black_box(sum(f));
            })
        });
        best = best.max(2.0 * gb / copied).max(gb / read);
    }
    best
}

/// Sums in many independent lanes, so that loads and not additions are what takes time.
fn sum(words: &[u64]) -> u64 {
    let mut lanes = [0u64; 64];
    for chunk in words.chunks_exact(64) {
        lanes.iter_mut().zip(chunk).for_each(|(l, w)| *l = l.wrapping_add(*w));
    }
    lanes.iter().fold(0, |a, b| a.wrapping_add(*b))
}

fn each(to: &mut [u64], from: &[u64], part: usize, work: impl Fn(&mut [u64], &[u64]) + Sync) {
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

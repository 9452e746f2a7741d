//! Drawn mistakes: mutants of everything that is read, of functions, of records, and processes killed at any moment.
//! `DAYLIGHT_FUZZ=5000` says how many of each kind, in place of the few of a usual run, `DAYLIGHT_FUZZ_SEED` which; docs/security.md has what came
//! of more. Mutant `n` of a kind is the same in every run.

mod bounded;
mod corpora;
mod evaluate;
mod forged;
mod killed;
mod meaning;
mod mutate;
mod readers;
mod structure;

/// Seed of all that is drawn here: what `DAYLIGHT_FUZZ_SEED` says, else 1.
fn seed() -> u64 {
    std::env::var("DAYLIGHT_FUZZ_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// How many are tried: what `DAYLIGHT_FUZZ` says, else `usual`.
fn count(usual: usize) -> usize {
    std::env::var("DAYLIGHT_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

//! What `kernels.rs` does with pointers, extents, workspace and threads, executed by Miri. Kernels are stand-ins in Rust
//! that read and write what the C would: Miri sees every access, and every pair of threads that race.

use miri_kernels::cpu::{Error, Pool, Rayon, centred, scaled};
use std::ffi::c_void;

/// What a kernel gets.
struct Arguments(*const *mut c_void, *const i64);

impl Arguments {
    unsafe fn read(&self, buffer: usize, at: i64) -> f32 {
        unsafe { *(*self.0.add(buffer)).cast::<f32>().offset(at as isize) }
    }

    unsafe fn write(&self, buffer: usize, at: i64, value: f32) {
        unsafe { *(*self.0.add(buffer)).cast::<f32>().offset(at as isize) = value }
    }

    unsafe fn scalar(&self, k: usize) -> i64 {
        unsafe { *self.1.add(k) }
    }
}

/// Elements that the blocks of a piece have, of `all`.
fn elements(begin: i64, end: i64, block: i64, all: i64) -> std::ops::Range<i64> {
    begin * block..(end * block).min(all)
}

#[unsafe(export_name = "SYMBOL_scaled_k0")]
unsafe extern "C" fn scale(buffers: *const *mut c_void, scalars: *const i64, begin: i64, end: i64) {
    let a = Arguments(buffers, scalars);
    unsafe {
        let by = f32::from_bits(a.scalar(1) as u32);
        for i in elements(begin, end, 4096, a.scalar(0) * 8) {
            a.write(1, i, a.read(0, i) * by);
        }
    }
}

#[unsafe(export_name = "SYMBOL_centred_k0")]
unsafe extern "C" fn total(buffers: *const *mut c_void, scalars: *const i64, begin: i64, end: i64) {
    let a = Arguments(buffers, scalars);
    unsafe {
        let n = a.scalar(0);
        for j in elements(begin, end, 64, n) {
            let terms = (0..5).map(|i| a.read(0, i * n + j));
            a.write(1, j, terms.sum());
        }
    }
}

#[unsafe(export_name = "SYMBOL_centred_k1")]
unsafe extern "C" fn centre(buffers: *const *mut c_void, scalars: *const i64, begin: i64, end: i64) {
    let a = Arguments(buffers, scalars);
    unsafe {
        let n = a.scalar(0);
        for i in elements(begin, end, 4096, 5 * n) {
            a.write(1, i, a.read(0, i) - a.read(2, i % n));
        }
    }
}

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i % 13) as f32).collect()
}

fn scales(n: usize, pool: impl Pool) {
    let (a, mut b) = (numbers(8 * n), vec![f32::NAN; 8 * n]);
    scaled(&a, &mut b, 0.5, n, pool).expect("it runs");
    assert!(a.iter().zip(&b).all(|(a, b)| *b == a * 0.5));
}

fn centres(n: usize, pool: impl Pool) {
    let (a, mut b) = (numbers(5 * n), vec![f32::NAN; 5 * n]);
    centred(&a, &mut b, n, pool).expect("it runs");
    for j in 0..n {
        let column = |x: &[f32]| (0..5).map(|i| x[i * n + j]).collect::<Vec<f32>>();
        let total: f32 = column(&a).iter().sum();
        assert!(column(&a).iter().zip(column(&b)).all(|(a, b)| b == a - total));
    }
}

/// Sizes of one block and of three, the last of which is not full.
fn right(pool: impl Pool + Copy) {
    scales(1, pool);
    centres(1, pool);
    centres(130, pool);
}

#[test]
fn on_one_thread_and_on_several() {
    right(1);
    right(3);
    scales(513, 3);
}

#[test]
fn on_a_pool() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
    right(&pool);
    pool.install(|| right(Rayon));
}

/// A pool that runs nothing leaves all to the caller's thread.
#[derive(Clone, Copy)]
struct Idle;

impl Pool for Idle {
    fn threads(&self) -> usize {
        4
    }

    fn run(&self, _: &(dyn Fn() + Sync)) {}
}

#[test]
fn on_a_pool_that_runs_nothing() {
    right(Idle);
}

#[test]
fn what_is_too_short_is_refused() {
    let (a, mut b) = (numbers(8), numbers(8));
    for n in [0, 2, 1 << 31, usize::MAX] {
        assert!(matches!(scaled(&a, &mut b, 1.0, n, 1), Err(Error::Argument(_))), "{n}");
        assert!(matches!(centred(&a, &mut b, n, 1), Err(Error::Argument(_))), "{n}");
    }
}

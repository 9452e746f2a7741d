//! A map over a slice on a few threads, each taking the next item when it is free.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `f` of every item, in order, on up to `threads` threads.
pub fn map<T: Sync, R: Send>(items: &[T], threads: usize, f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some(i) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < items.len()) {
            let result = f(&items[i]);
            *done[i].lock().expect("no thread panics while it holds the lock") = Some(result);
        }
    };
    std::thread::scope(|scope| {
        // The calling thread works too.
        for _ in 1..threads.min(items.len()) {
            scope.spawn(work);
        }
        work();
    });
    let take = |m: Mutex<Option<R>>| m.into_inner().expect("no thread panicked").expect("every item was taken");
    done.into_iter().map(take).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_keep_their_order() {
        let items: Vec<u64> = (0..100).collect();
        assert_eq!(super::map(&items, 3, |i| i * i), items.iter().map(|i| i * i).collect::<Vec<_>>());
        assert!(super::map(&[] as &[u8], 3, |_| 1).is_empty());
    }
}

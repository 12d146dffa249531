//! Looks at many things, several at a time, and hands the answers on in their order. What is looked
//! at, and how, is the caller's.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that look at the same time. More of them wait for the same disk.
const MAX_WORKERS: usize = 4;

/// Calls `look` for every item, on as many threads as there are cores, within a bound.
pub(crate) fn each<T: Sync, R: Send>(items: &[T], look: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut seen = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return seen };
            seen.push((index, look(item)));
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_WORKERS).min(items.len());
    let mut seen: Vec<(usize, R)> = std::thread::scope(|threads| {
        let workers: Vec<_> = (1..workers).map(|_| threads.spawn(work)).collect();
        let own = work();
        let others = workers.into_iter().map(|worker| worker.join());
        let others = others.map(|seen| seen.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        own.into_iter().chain(others.flatten()).collect()
    });
    seen.sort_by_key(|(index, _)| *index);
    seen.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_come_in_the_order_of_the_questions() {
        let items: Vec<u32> = (0..1000).collect();
        let expected: Vec<u32> = items.iter().map(|item| item * 2).collect();
        assert_eq!(each(&items, |item| item * 2), expected);
        assert_eq!(each(&[] as &[u32], |item| *item), Vec::<u32>::new());
    }
}

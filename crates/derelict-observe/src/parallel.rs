//! Looks at many things, several at a time, and hands the answers on in their order. What is looked
//! at, and how, is the caller's.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that look at the same time. More of them wait for the same disk.
const MAX_WORKERS: usize = 4;

/// Items that one thread takes in one go, at most.
const MAX_CHUNK: usize = 32;

/// Goes that each thread has at least, so that none is left alone with many slow items.
const MIN_GOES: usize = 16;

/// Calls `look` for every item, on as many threads as there are cores, within a bound.
pub(crate) fn each<T: Sync, R: Send>(items: &[T], look: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_WORKERS).min(items.len());
    let chunk = (items.len() / (workers.max(1) * MIN_GOES)).clamp(1, MAX_CHUNK);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut seen = Vec::new();
        loop {
            let start = next.fetch_add(chunk, Ordering::Relaxed);
            if start >= items.len() {
                return seen;
            }
            let these = &items[start..items.len().min(start + chunk)];
            seen.push((start, these.iter().map(&look).collect::<Vec<R>>()));
        }
    };
    let mut seen = std::thread::scope(|threads| {
        let workers: Vec<_> = (1..workers).map(|_| threads.spawn(work)).collect();
        let mut seen = work();
        for worker in workers {
            seen.extend(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        seen
    });
    seen.sort_unstable_by_key(|(start, _)| *start);
    // The answers are large: each chunk goes as soon as it was taken over.
    let mut answers = Vec::with_capacity(items.len());
    answers.extend(seen.into_iter().flat_map(|(_, answers)| answers));
    answers
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

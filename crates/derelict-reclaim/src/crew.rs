//! Several hands on one pile of jobs: how many work at a time, who takes what next, when all is
//! done. What a job is and does is said by `strip` and `mounts`; how fast it may go, by `pace`.
//!
//! The pile is a stack, so that a tree is worked through depth first and little of it is open at a
//! time. The first hand is the caller: a small tree never sees another thread.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use crate::pace::{Ask, Call, Hand, Pacer};
use crate::width::Width;

/// How long the first hand works alone before it calls for others: what is done by then is not
/// worth a thread.
const ALONE: Duration = Duration::from_millis(1);

/// How often it is looked whether more hands pay.
const OVERSEES: Duration = Duration::from_millis(10);

/// How many operations a hand keeps to itself before it tells.
const TELLS: u64 = 4;

/// A part of the descriptors this process may have: the rest is for everybody else in it.
const SHARE_OF_DESCRIPTORS: u64 = 4;

/// More open directories at a time bring nothing.
const MOST_OPEN: usize = 1024;

/// More jobs than this do not wait: memory is bounded.
const MOST_WAITING: usize = 64 * 1024;

/// How many levels of directories each hand may keep open on average.
const LEVELS_OF_A_HAND: usize = 8;

/// A pile of jobs and the hands that work on it.
pub(crate) struct Crew<'p, J> {
    pile: Mutex<Pile<J>>,
    turned: Condvar,
    over: Condvar,
    pacer: &'p Pacer,
    begun: Instant,
    done: AtomicU64,
    descriptors: Descriptors,
}

struct Pile<J> {
    jobs: Vec<J>,
    /// Hands that exist, asleep or not.
    hands: usize,
    /// Hands that have a job…
    busy: usize,
    /// …and those that wait for one.
    asleep: usize,
    /// How many may have one at a time.
    allowed: usize,
    has_foreman: bool,
    width: Width,
}

/// What one hand works with: its pace, and the crew it belongs to.
pub(crate) struct Member<'c, 'p, J> {
    hand: Hand<'p>,
    crew: &'c Crew<'p, J>,
    counted: u64,
}

/// Works through `first` and all that comes of it. `work` is called for each job, by any hand.
pub(crate) fn work_through<J: Send>(pacer: &Pacer, first: J, work: impl Fn(J, &mut Member<'_, '_, J>) + Sync) {
    let descriptors = Descriptors::of_this_process();
    let width = Width::new(pacer.cores(), descriptors.most / LEVELS_OF_A_HAND);
    let crew = Crew {
        pile: Mutex::new(Pile {
            jobs: vec![first],
            hands: 1,
            busy: 0,
            asleep: 0,
            allowed: 1,
            has_foreman: false,
            width,
        }),
        turned: Condvar::new(),
        over: Condvar::new(),
        pacer,
        begun: Instant::now(),
        done: AtomicU64::new(0),
        descriptors,
    };
    std::thread::scope(|scope| crew.serve(scope, &work));
}

impl<'p, J: Send> Crew<'p, J> {
    fn pile(&self) -> MutexGuard<'_, Pile<J>> {
        // A hand that panicked takes the whole crew with it: the scope passes the panic on.
        self.pile.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve<'scope, W>(&'scope self, scope: &'scope Scope<'scope, '_>, work: &'scope W)
    where
        W: Fn(J, &mut Member<'_, 'p, J>) + Sync,
        J: 'scope,
    {
        let mut member = Member { hand: Hand::new(self.pacer), crew: self, counted: 0 };
        let mut next = self.next(self.pile(), scope, work);
        while let Some(job) = next {
            work(job, &mut member);
            member.tell();
            let mut pile = self.pile();
            pile.busy -= 1;
            if pile.is_worked_through() {
                self.turned.notify_all();
                self.over.notify_all();
            }
            next = self.next(pile, scope, work);
        }
    }

    /// The next job; none when all are done. Calls for another hand where one may pay.
    fn next<'scope, W>(
        &'scope self,
        mut pile: MutexGuard<'_, Pile<J>>,
        scope: &'scope Scope<'scope, '_>,
        work: &'scope W,
    ) -> Option<J>
    where
        W: Fn(J, &mut Member<'_, 'p, J>) + Sync,
        J: 'scope,
    {
        loop {
            let elapsed = self.allow(&mut pile);
            if pile.busy < pile.allowed
                && let Some(job) = pile.jobs.pop()
            {
                pile.busy += 1;
                if elapsed >= ALONE {
                    self.call_for_another(&mut pile, scope, work);
                    if pile.hands > 1 && !pile.has_foreman {
                        // Without one, only hands that are done with a job would call for more.
                        pile.has_foreman =
                            std::thread::Builder::new().spawn_scoped(scope, || self.oversee(scope, work)).is_ok();
                    }
                }
                return Some(job);
            }
            if pile.is_worked_through() {
                return None;
            }
            pile.asleep += 1;
            pile = self.turned.wait(pile).unwrap_or_else(PoisonError::into_inner);
            pile.asleep -= 1;
        }
    }

    fn allow(&self, pile: &mut Pile<J>) -> Duration {
        let elapsed = self.begun.elapsed();
        let found = pile.width.allowed(elapsed, self.done.load(Ordering::Relaxed));
        pile.allowed = if self.pacer.wants_every_hand() { pile.width.most() } else { found };
        elapsed
    }

    /// Wakes a hand, or calls for a new one, if there is something for it to do.
    fn call_for_another<'scope, W>(&'scope self, pile: &mut Pile<J>, scope: &'scope Scope<'scope, '_>, work: &'scope W)
    where
        W: Fn(J, &mut Member<'_, 'p, J>) + Sync,
        J: 'scope,
    {
        if pile.jobs.is_empty() || pile.busy >= pile.allowed {
            return;
        }
        if pile.asleep > 0 {
            self.turned.notify_one();
        } else if pile.hands < pile.allowed {
            pile.hands += 1;
            if std::thread::Builder::new().spawn_scoped(scope, || self.serve(scope, work)).is_err() {
                // Threads are short: those that are here do it.
                pile.hands -= 1;
            }
        }
    }

    /// Sees to it that there are as many hands as pay, however long each is busy with its job.
    fn oversee<'scope, W>(&'scope self, scope: &'scope Scope<'scope, '_>, work: &'scope W)
    where
        W: Fn(J, &mut Member<'_, 'p, J>) + Sync,
        J: 'scope,
    {
        let mut pile = self.pile();
        while !pile.is_worked_through() {
            self.allow(&mut pile);
            self.call_for_another(&mut pile, scope, work);
            (pile, _) = self.over.wait_timeout(pile, OVERSEES).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<J> Pile<J> {
    fn is_worked_through(&self) -> bool {
        self.busy == 0 && self.jobs.is_empty()
    }
}

impl<J: Send> Member<'_, '_, J> {
    /// Puts jobs on the pile; the last is taken first.
    pub(crate) fn put(&self, jobs: impl IntoIterator<Item = J>) {
        let mut pile = self.crew.pile();
        pile.jobs.extend(jobs);
        if !pile.jobs.is_empty() && pile.asleep > 0 && pile.busy < pile.allowed {
            self.crew.turned.notify_one();
        }
    }

    /// Puts jobs on the pile if so many more may wait, and says whether that was so.
    pub(crate) fn put_if_room(&self, jobs: Vec<J>) -> bool {
        let has_room = self.crew.pile().jobs.len() + jobs.len() <= MOST_WAITING;
        if has_room {
            self.put(jobs);
        }
        has_room
    }

    /// Room for one more open directory, if there is.
    pub(crate) fn room(&self) -> Option<Room> {
        self.crew.descriptors.take()
    }
}

impl<J> Member<'_, '_, J> {
    fn tell(&mut self) {
        let counted = self.hand.operations();
        self.crew.done.fetch_add(counted - self.counted, Ordering::Relaxed);
        self.counted = counted;
    }
}

impl<J> Ask for Member<'_, '_, J> {
    fn call<T>(&mut self, call: Call, ask: impl FnOnce() -> T) -> T {
        let answer = self.hand.call(call, ask);
        if self.hand.operations() - self.counted >= TELLS {
            self.tell();
        }
        answer
    }
}

/// How many directories may be open at a time.
struct Descriptors {
    most: usize,
    open: Arc<AtomicUsize>,
}

/// Room for one open directory, until it is dropped.
#[derive(Debug)]
pub(crate) struct Room(Arc<AtomicUsize>);

impl Descriptors {
    fn of_this_process() -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let share = limit.map_or(MOST_OPEN as u64, |limit| limit / SHARE_OF_DESCRIPTORS);
        Self { most: usize::try_from(share).map_or(MOST_OPEN, |share| share.min(MOST_OPEN)), open: Arc::default() }
    }

    fn take(&self) -> Option<Room> {
        let taken = self.open.fetch_add(1, Ordering::Relaxed);
        let room = Room(Arc::clone(&self.open));
        (taken < self.most).then_some(room)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Pace;

    /// Counts down from `from` in jobs of two children each.
    fn counted(from: u32) -> u64 {
        let counted = AtomicU64::new(0);
        work_through(&Pacer::new(Pace::FULL), from, |job, member| {
            member.call(Call::Look, || counted.fetch_add(1, Ordering::Relaxed));
            if job > 0 {
                member.put([job - 1, job - 1]);
            }
        });
        counted.into_inner()
    }

    #[test]
    fn every_job_is_done_once_by_however_many_hands() {
        assert_eq!((counted(0), counted(1), counted(17)), (1, 3, (1 << 18) - 1));
    }

    #[test]
    fn the_last_hand_to_finish_is_waited_for() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let receiver = Mutex::new(receiver);
        let done = AtomicUsize::new(0);
        work_through(&Pacer::new(Pace::FULL), 0, |job, member| {
            match job {
                0 => {
                    // Long enough for another hand to be worth calling.
                    while member.crew.begun.elapsed() < ALONE {}
                    member.put([1, 2]);
                }
                1 => receiver.lock().unwrap().recv().unwrap(),
                _ => sender.send(()).unwrap(),
            }
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.into_inner(), 3);
    }

    #[test]
    fn no_more_directories_are_opened_than_there_is_room_for() {
        let descriptors = Descriptors { most: 2, open: Arc::default() };
        let (first, second) = (descriptors.take(), descriptors.take());
        assert!(first.is_some() && second.is_some() && descriptors.take().is_none());
        drop(first);
        assert!(descriptors.take().is_some());
    }
}

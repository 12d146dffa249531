//! How many hands pay: found by trying, since no name of a file system tells. Pure: the time and the
//! work done so far come in as arguments. Who the hands are is `crew`'s.

use std::time::Duration;

/// More hands than this bring nothing even where each call waits for another machine.
const MOST: usize = 32;

/// How long a width is tried at least before it is judged…
const TRIAL: Duration = Duration::from_millis(20);

/// …and how much must have been done by then.
const TRIED: u64 = 32;

/// How much more must get done for twice the hands to stay.
const PAYS: f64 = 1.15;

/// How much must still get done for half the hands to be enough.
const ENOUGH: f64 = 0.97;

/// How long what was found stays unquestioned.
const SETTLED: Duration = Duration::from_secs(2);

/// The number of hands, and what is being tried.
#[derive(Debug)]
pub(crate) struct Width {
    hands: usize,
    most: usize,
    stage: Stage,
    since: Duration,
    done: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// Finding out what the present width does.
    Measuring,
    /// Twice as many as before, which did so much.
    Wider { before: f64 },
    /// Half as many as before, which did so much.
    Narrower { before: f64 },
    /// Nothing is tried.
    Settled,
}

impl Width {
    /// Starts with a hand for each core, and never allows more than `most`.
    pub(crate) fn new(cores: usize, most: usize) -> Self {
        let most = most.clamp(1, MOST);
        Self { hands: cores.clamp(1, most), most, stage: Stage::Measuring, since: Duration::ZERO, done: 0 }
    }

    /// As many hands as there may be at all.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// How many hands may work, `now` after the start, with so many operations done since then.
    pub(crate) fn allowed(&mut self, now: Duration, done: u64) -> usize {
        let (time, work) = (now.saturating_sub(self.since), done.saturating_sub(self.done));
        let over = match self.stage {
            Stage::Settled => time >= SETTLED,
            Stage::Measuring | Stage::Wider { .. } | Stage::Narrower { .. } => time >= TRIAL && work >= TRIED,
        };
        if over {
            self.judge(work as f64 / time.as_secs_f64());
            (self.since, self.done) = (now, done);
        }
        self.hands
    }

    fn judge(&mut self, rate: f64) {
        self.stage = match self.stage {
            Stage::Settled => Stage::Measuring,
            Stage::Measuring if self.hands < self.most => self.widen(rate),
            Stage::Measuring => self.narrow(rate),
            Stage::Wider { before } if rate >= before * PAYS && self.hands < self.most => self.widen(rate),
            Stage::Wider { before } if rate >= before * PAYS => Stage::Settled,
            Stage::Wider { before } => {
                self.hands = (self.hands / 2).max(1);
                self.narrow(before)
            }
            Stage::Narrower { before } if rate >= before * ENOUGH => self.narrow(rate),
            Stage::Narrower { .. } => {
                self.hands = (self.hands * 2).min(self.most);
                Stage::Settled
            }
        };
    }

    fn widen(&mut self, before: f64) -> Stage {
        self.hands = (self.hands * 2).min(self.most);
        Stage::Wider { before }
    }

    fn narrow(&mut self, before: f64) -> Stage {
        if self.hands == 1 {
            return Stage::Settled;
        }
        self.hands /= 2;
        Stage::Narrower { before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works for a simulated while, with a file system that does so much a second for so many hands.
    fn settles(most: usize, rate: impl Fn(usize) -> f64) -> usize {
        let mut width = Width::new(2, most);
        let (mut done, mut now) = (0.0, Duration::ZERO);
        while width.stage != Stage::Settled {
            let hands = width.allowed(now, done as u64);
            done += rate(hands) / 1000.0;
            now += Duration::from_millis(1);
        }
        width.allowed(now, done as u64)
    }

    #[test]
    fn where_every_call_waits_on_its_own_all_hands_pay() {
        assert_eq!(settles(100, |hands| hands as f64 * 7_000.0), 32);
        assert_eq!(settles(12, |hands| hands as f64 * 7_000.0), 12);
    }

    #[test]
    fn where_two_cores_do_the_work_two_hands_stay() {
        assert_eq!(settles(100, |hands| hands.min(2) as f64 * 70_000.0), 2);
    }

    #[test]
    fn where_one_lock_is_in_the_way_one_hand_is_enough() {
        assert_eq!(settles(100, |_| 300_000.0), 1);
        assert_eq!(settles(100, |hands| 300_000.0 / hands as f64), 1);
    }

    #[test]
    fn more_hands_are_found_where_they_pay_up_to_a_point() {
        assert_eq!(settles(100, |hands| hands.min(8) as f64 * 5_000.0), 8);
    }

    #[test]
    fn what_was_found_is_questioned_again() {
        let mut width = Width::new(2, 32);
        width.stage = Stage::Settled;
        assert_eq!(width.allowed(SETTLED, 1_000), 2);
        assert_eq!(width.stage, Stage::Measuring);
    }
}

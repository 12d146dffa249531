//! Explores every reachable state once, nearest first, so that a counter-example is a shortest one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::world::{Breach, Who};

/// One step somebody can take, and where it leads.
pub(crate) struct Step<S> {
    pub(crate) who: Who,
    pub(crate) what: &'static str,
    pub(crate) to: Result<S, Breach>,
}

/// What was explored.
#[derive(Debug)]
pub(crate) struct Explored {
    /// Distinct states.
    pub(crate) states: usize,
    /// Distinct steps between them.
    pub(crate) steps: usize,
    /// Ways from the first state to the end of everybody.
    pub(crate) interleavings: f64,
    /// States in which nobody can take a step any more.
    pub(crate) ends: usize,
    /// How often each kind of step was taken.
    pub(crate) taken: BTreeMap<&'static str, usize>,
}

/// A shortest way to a broken promise.
#[derive(Debug)]
pub(crate) struct CounterExample {
    pub(crate) promise: &'static str,
    pub(crate) trace: Vec<(Who, &'static str)>,
}

impl fmt::Display for CounterExample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (who, what)) in self.trace.iter().enumerate() {
            writeln!(f, "{:>4}. the {who} {what}", number + 1)?;
        }
        write!(f, "      => {}", self.promise)
    }
}

/// Visited states are known by a 64-bit hash: among a million the chance that two share one, and that
/// one of them is overlooked, is below one in ten million.
fn hash(state: &impl Hash) -> u64 {
    let mut hasher = Mixer(0);
    state.hash(&mut hasher);
    hasher.finish()
}

/// Multiplies and folds word by word. Nobody chooses states to make it collide, so that it need not
/// withstand that, and in an unoptimised build it costs a fraction of the standard one.
struct Mixer(u64);

impl Mixer {
    /// Odd, and with its bits well spread: the golden ratio as a fraction of 2^64.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ Self::FACTOR).wrapping_mul(u128::from(Self::FACTOR) << 1 | 1);
        self.0 = (product as u64) ^ ((product >> 64) as u64) ^ self.0.rotate_left(23);
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        let mut last = Self(self.0);
        last.mix(0);
        last.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            self.mix(u64::from_le_bytes(padded));
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.mix(byte.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.mix(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.mix(word as u64);
    }
}

/// Where a state was first reached from, and by which step.
type Origin = (u32, Who, &'static str);

/// Explores all states that `steps` leads to. `ended` judges those that lead nowhere.
pub(crate) fn explore<S: Hash>(
    first: S,
    mut steps: impl FnMut(&S) -> Vec<Step<S>>,
    ended: impl Fn(&S) -> Result<(), Breach>,
) -> Result<Explored, CounterExample> {
    let mut known: HashMap<u64, u32> = HashMap::from([(hash(&first), 0)]);
    let mut origins: Vec<Origin> = vec![(0, Who(0), "starts")];
    let mut edges: Vec<(u32, u32)> = Vec::new();
    let mut taken = BTreeMap::new();
    let mut ends = 0;
    let mut waiting = VecDeque::from([(0_u32, first)]);
    while let Some((from, state)) = waiting.pop_front() {
        let next = steps(&state);
        if next.is_empty() {
            ends += 1;
            ended(&state).map_err(|breach| counter_example(&origins, from, None, breach))?;
        }
        for Step { who, what, to } in next {
            let state = to.map_err(|breach| counter_example(&origins, from, Some((who, what)), breach))?;
            *taken.entry(what).or_insert(0) += 1;
            let number = u32::try_from(origins.len()).expect("because the model is bounded");
            let to = *known.entry(hash(&state)).or_insert(number);
            edges.push((from, to));
            if to == number {
                origins.push((from, who, what));
                waiting.push_back((to, state));
            }
        }
    }
    let interleavings = ways(origins.len(), &edges);
    Ok(Explored { states: origins.len(), steps: edges.len(), interleavings, ends, taken })
}

fn counter_example(origins: &[Origin], from: u32, last: Option<(Who, &'static str)>, breach: Breach) -> CounterExample {
    let mut trace: Vec<(Who, &'static str)> = last.into_iter().collect();
    let mut at = from;
    while at != 0 {
        let (origin, who, what) = origins[at as usize];
        trace.push((who, what));
        at = origin;
    }
    trace.reverse();
    CounterExample { promise: breach.0, trace }
}

/// The number of ways through the graph, which has no circle because everybody only goes forward.
fn ways(states: usize, edges: &[(u32, u32)]) -> f64 {
    let mut starts = vec![0_usize; states + 1];
    let mut waits_for = vec![0_u32; states];
    for (from, to) in edges {
        starts[*from as usize + 1] += 1;
        waits_for[*to as usize] += 1;
    }
    for state in 0..states {
        starts[state + 1] += starts[state];
    }
    // Edges are in the order of their origins, since each state is left once.
    let mut ways = vec![0.0_f64; states];
    ways[0] = 1.0;
    let (mut ready, mut total, mut done) = (vec![0_usize], 0.0, 0);
    while let Some(state) = ready.pop() {
        done += 1;
        let leaving = &edges[starts[state]..starts[state + 1]];
        if leaving.is_empty() {
            total += ways[state];
        }
        for (_, to) in leaving {
            let to = *to as usize;
            ways[to] += ways[state];
            waits_for[to] -= 1;
            if waits_for[to] == 0 {
                ready.push(to);
            }
        }
    }
    assert_eq!(done, states, "somebody goes in circles");
    total
}

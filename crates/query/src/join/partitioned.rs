//! Partition-wise merge join: both sides are divided by the same keys, and each pair of partitions is sorted and merged
//! by one thread.
//!
//! The next pairs, one for each thread, are read while the current ones are joined. Pairs are open at the same time as far as memory allows: if
//! memory is short, one thread joins while the others wait. A pair that exceeds all of the memory is sorted by runs. A
//! pair that gives no rows, such as one with an empty side in an inner join, is not read.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::{SchemaRef, SortOptions as Direction};

use super::bounds::{Bounds, Sample, SideRouter};
use super::condition::Condition;
use super::input::{JoinInput, KEY_DIRECTION, SIDE_NAMES, sort_keys};
use super::joined::{NextPart, Parts};
use super::keys::KeyEncoder;
use super::kind::JoinKind;
use super::layout::Layout;
use super::merge::MergeJoin;
use crate::order::SortKey;
use crate::phase::Meter;
use crate::sort::Sorted;
use crate::sort::router::{
    self, Guarantee, Load, MemoryPlan, Routed, Routing, SpillFiles, partition, plan_pair,
};
use crate::{Batches, Error, Job};

/// Pairs of partitions, which threads take in turn.
pub(super) struct Pairs {
    job: Job,
    condition: Condition,
    order: Vec<Direction>,
    kind: JoinKind,
    sides: [router::Parts; 2],
    partitions: usize,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when a pair was joined.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The next pair.
    next: usize,
    /// Number of pairs given out.
    given: usize,
    /// The pairs before `next` that are being read and were not given out.
    ahead: VecDeque<Opened>,
    /// Memory of the pairs that are open.
    used: Demand,
    /// Number of these pairs.
    open: usize,
}

/// Memory of pairs.
#[derive(Clone, Copy, Default)]
struct Demand {
    /// Bytes that are read of each side.
    bytes: [usize; 2],
    /// Rows of each side that are put in order.
    rows: [usize; 2],
}

/// A pair that is being read, and its memory.
struct Opened {
    sides: [Sorted; 2],
    demand: Demand,
}

/// Memory of a pair that was given out.
struct Claim {
    shared: Arc<Shared>,
    demand: Demand,
}

impl Pairs {
    /// Reads and divides both sides, one after the other. At least one side has a sample.
    pub(super) fn new(
        job: &Job,
        inputs: [JoinInput<'_>; 2],
        condition: &Condition,
        kind: JoinKind,
    ) -> Result<Pairs, Error> {
        let spills = SIDE_NAMES.map(|side| SpillFiles::new(&job.side(side)));
        Pairs::with_spills(job, inputs, condition, kind, spills)
    }

    /// Like [`Pairs::new`], with the spill files of both sides.
    pub(super) fn with_spills(
        job: &Job,
        inputs: [JoinInput<'_>; 2],
        condition: &Condition,
        kind: JoinKind,
        spills: [SpillFiles; 2],
    ) -> Result<Pairs, Error> {
        let order = vec![KEY_DIRECTION; condition.pairs.len()];
        let types = condition.pairs.iter().map(|pair| pair.data_type.clone());
        let encoder = Arc::new(KeyEncoder::new(&types.zip(order.iter().copied()).collect::<Vec<_>>())?);
        let places = [condition.left(), condition.right()];
        let keys = [0, 1].map(|side| sort_keys(&places[side]));
        let (plans, guarantee) = plan(job, &inputs, &keys)?;
        let bounds = Arc::new(Bounds::new(&encoder, &samples(&inputs), plans[0].partitions)?);
        let partitions = bounds.partitions();
        let divide = |side: usize, input: JoinInput<'_>, guarantee: Guarantee, spills| {
            let (bounds, encoder) = (Arc::clone(&bounds), Arc::clone(&encoder));
            let keeps_unmatched = [kind.keeps_left(), kind.keeps_right()][side];
            let router = SideRouter { bounds, encoder, places: places[side].clone(), keeps_unmatched };
            let routing = Routing { router: Arc::new(router), memory: plans[side], guarantee, spills };
            let job = job.side(SIDE_NAMES[side]);
            let streams = (input.open)(&job)?;
            let routed = Routed { schema: &input.schema, keys: &keys[side], options: &input.sort };
            partition(&job, streams, routed, routing)
        };
        let ([ours, theirs], [our_spills, their_spills]) = (inputs, spills);
        let mut left = divide(0, ours, guarantee, our_spills)?;
        let mut right = divide(1, theirs, left.pass_on()?, their_spills)?;
        router::Parts::begin_output(&mut left, &mut right);
        let sides = [left, right];
        let (job, condition, shared) = (job.clone(), condition.clone(), Arc::default());
        Ok(Pairs { job, condition, order, kind, sides, partitions, shared })
    }

    /// Returns the schema of the result.
    pub(super) fn schema(&self) -> SchemaRef {
        let [left, right] = &self.sides;
        Layout::new(&left.schema(), &right.schema(), &self.condition, self.kind).schema
    }

    /// Advances to the next pair that gives rows; returns false at the end.
    fn find(&self, state: &mut State) -> bool {
        while state.next < self.partitions {
            let [left, right] = [0, 1].map(|side: usize| !self.sides[side].is_empty(state.next));
            let gives = match (left, right) {
                (true, true) => true,
                (left, right) => left && self.kind.keeps_left() || right && self.kind.keeps_right(),
            };
            if gives {
                return true;
            }
            // Frees the memory of rows without a partner.
            self.sides.iter().for_each(|side| drop(side.take(state.next)));
            state.next += 1;
        }
        false
    }

    /// Returns the memory that a pair takes: all of it if a side must be sorted by runs.
    fn demand(&self, pair: usize) -> Demand {
        let capacity = self.capacity();
        let [Some(left), Some(right)] = [0, 1].map(|side: usize| self.sides[side].load(pair)) else {
            return capacity;
        };
        Demand::of(left, right)
    }

    fn capacity(&self) -> Demand {
        Demand::of(self.sides[0].capacity(), self.sides[1].capacity())
    }

    /// Returns whether a pair fits beside the open ones.
    fn fits(&self, state: &State, demand: Demand) -> bool {
        let (all, sum) = (self.capacity(), state.used.plus(demand));
        let is_within = |sum: [usize; 2], all: [usize; 2]| sum[0] <= all[0] && sum[1] <= all[1];
        state.open == 0 || is_within(sum.bytes, all.bytes) && is_within(sum.rows, all.rows)
    }

    /// Takes the next pair and starts reading it.
    fn open(&self, state: &mut State, demand: Demand) -> Result<Opened, Error> {
        let sides = [0, 1].map(|side: usize| self.sides[side].take(state.next));
        sides.iter().try_for_each(Sorted::start)?;
        state.next += 1;
        state.claim(demand);
        Ok(Opened { sides, demand })
    }

    /// Starts reading the next pairs, one for each thread, as long as there is memory for them.
    fn open_ahead(&self, state: &mut State) -> Result<(), Error> {
        while state.ahead.len() < self.job.options().threads.max(1) && self.find(state) {
            let demand = self.demand(state.next);
            if !self.fits(state, demand) {
                break;
            }
            let opened = self.open(state, demand)?;
            state.ahead.push_back(opened);
        }
        Ok(())
    }

    /// Takes the next pair, and starts reading those after it; waits for memory.
    fn take(&self) -> Result<Option<(usize, [Sorted; 2], Claim)>, Error> {
        let mut state = self.shared.lock();
        let Opened { sides, demand } = loop {
            self.job.check()?;
            if let Some(opened) = state.ahead.pop_front() {
                break opened;
            }
            if !self.find(&mut state) {
                return Ok(None);
            }
            let demand = self.demand(state.next);
            if self.fits(&state, demand) {
                break self.open(&mut state, demand)?;
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let number = state.given;
        state.given += 1;
        let ahead = self.open_ahead(&mut state);
        // A claim locks the state when it is dropped.
        drop(state);
        let claim = Claim { shared: Arc::clone(&self.shared), demand };
        ahead?;
        Ok(Some((number, sides, claim)))
    }
}

impl Demand {
    fn of(left: Load, right: Load) -> Demand {
        Demand { bytes: [left.bytes, right.bytes], rows: [left.rows, right.rows] }
    }

    fn plus(self, other: Demand) -> Demand {
        self.zip(other, usize::saturating_add)
    }

    fn minus(self, other: Demand) -> Demand {
        self.zip(other, usize::saturating_sub)
    }

    fn zip(self, other: Demand, of: fn(usize, usize) -> usize) -> Demand {
        let each = |ours: [usize; 2], theirs: [usize; 2]| [of(ours[0], theirs[0]), of(ours[1], theirs[1])];
        Demand { bytes: each(self.bytes, other.bytes), rows: each(self.rows, other.rows) }
    }
}

impl State {
    fn claim(&mut self, demand: Demand) {
        self.open += 1;
        self.used = self.used.plus(demand);
    }

    fn release(&mut self, demand: Demand) {
        self.open -= 1;
        self.used = self.used.minus(demand);
    }
}

/// Plans the memory of both sides.
fn plan(
    job: &Job,
    inputs: &[JoinInput<'_>; 2],
    keys: &[Vec<SortKey>; 2],
) -> Result<([MemoryPlan; 2], Guarantee), Error> {
    let routed = [0, 1].map(|side: usize| {
        let JoinInput { schema, sort, .. } = &inputs[side];
        Routed { schema, keys: &keys[side], options: sort }
    });
    // The rest is for the scans of a side, which are opened later, groups of equal keys, and the result.
    let budget = job.io().pool().budget() / 8 * 5;
    let asked = inputs.iter().map(|input| input.sort.memory).sum::<Option<usize>>();
    plan_pair(job, routed, asked.unwrap_or(budget).min(budget))
}

/// Returns the samples of both sides, each row with its share of the bytes of its side.
fn samples<'a>(inputs: &'a [JoinInput<'_>; 2]) -> Vec<Sample<'a>> {
    let sample = |input: &'a JoinInput<'_>| {
        let keys = input.sort.usable_sample()?;
        let bytes = input.sort.expected_bytes.unwrap_or(1).max(1);
        Some(Sample { keys, row_weight: bytes as f64 / keys.num_rows() as f64 })
    };
    inputs.iter().filter_map(sample).collect()
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state stays consistent; the panic itself reaches the thread's caller.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parts for Pairs {
    fn next_part(&self) -> Result<NextPart, Error> {
        let Some((number, [left, right], claim)) = self.take()? else { return Ok(None) };
        let (left, right) = (Box::new(left.into_batches()), Box::new(right.into_batches()));
        let join = MergeJoin::new(&self.job, left, right, &self.condition, &self.order, self.kind)?;
        Ok(Some((number, Box::new(Pair { job: self.job.clone(), join, _claim: claim }))))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.shared.lock().release(self.demand);
        self.shared.changed.notify_all();
    }
}

/// The joined rows of a pair.
struct Pair {
    job: Job,
    join: MergeJoin,
    /// Dropped after the join, which holds the memory.
    _claim: Claim,
}

impl Batches for Pair {
    fn schema(&self) -> SchemaRef {
        self.join.schema()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        let meter = Meter::start();
        let next = self.join.next();
        self.job.phases().add(meter.stop("join", 0, Duration::ZERO));
        next
    }
}

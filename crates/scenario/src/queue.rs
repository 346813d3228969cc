//! The host's block queue in front of the device: request merging and I/O scheduling.
//!
//! `deadline` is Linux's: reads before writes, each in batches of ascending order, until a request has expired. An
//! empty queue can be *plugged* for a moment, as in Linux before 2.6.39, so that adjacent requests can be merged: it is
//! unplugged when a thread waits for a page, when four requests have accumulated, or at the timeout.

use std::collections::BTreeMap;

use sakiyomi_model::{Device, Extent, Lba, Nanos, Op, Request, RequestId, Sectors, StreamId};

use crate::cache::FileId;
use crate::spec::{QueueSpec, Scheduler};

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Transfers pages of a file from or to the page cache.
    Pages { file: FileId, start: u64, pages: u64 },
    /// Reads for a thread, bypassing the page cache.
    Direct { thread: usize },
}

/// A request, with the purposes that it serves.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) op: Op,
    /// Program on whose behalf it was issued.
    stream: StreamId,
    pub(crate) purposes: Vec<Purpose>,
    extent: Extent,
    since: Nanos,
}

/// Number of requests that unplugs the queue (`unplug_thresh`).
const PLUGGED_REQUESTS_MAX: usize = 4;
/// Maximum number of requests of a batch (`fifo_batch`).
const BATCH_REQUESTS: u32 = 16;
/// Maximum number of read batches that precede a waiting write (`writes_starved`).
const STARVED_READS_MAX: u32 = 2;
/// Expiry times of reads and writes (`read_expire`, `write_expire`).
const EXPIRY_TIMES: [Nanos; 2] = [Nanos(500_000_000), Nanos(5_000_000_000)];

/// The block queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    scheduler: Scheduler,
    sectors_max: u64,
    /// Number of timer ticks for which it stays plugged, and length of a tick.
    plug_ticks: u64,
    tick: u64,
    plugged_until: Option<Nanos>,
    next_id: u64,
    /// Waiting reads and writes.
    waiting: [Direction; 2],
    in_flight: BTreeMap<u64, Pending>,
    /// Deadline: direction of the batch, its number of requests so far, its position, and how often writes were passed
    /// over.
    batch: (usize, u32, u64, u32),
}

/// Waiting requests of one direction, by age and by position.
#[derive(Clone, Debug, Default)]
struct Direction {
    by_id: BTreeMap<u64, Pending>,
    by_start: BTreeMap<u64, u64>,
    by_end: BTreeMap<u64, u64>,
}

impl Queue {
    pub(crate) fn new(spec: &QueueSpec, tick: Nanos, sector_bytes: u64) -> Queue {
        Queue {
            scheduler: spec.scheduler,
            sectors_max: (spec.max_request.0 / sector_bytes).max(1),
            plug_ticks: u64::from(spec.plug_ticks),
            tick: tick.0,
            plugged_until: None,
            next_id: 0,
            waiting: [Direction::default(), Direction::default()],
            in_flight: BTreeMap::new(),
            batch: (0, BATCH_REQUESTS, 0, 0),
        }
    }

    /// Returns the number of waiting requests of a kind.
    pub(crate) fn waiting(&self, op: Op) -> usize {
        self.waiting[index(op)].by_id.len()
    }

    /// Adds `extent` on behalf of a program; merges it with an adjacent request of the same program.
    pub(crate) fn add(&mut self, now: Nanos, op: Op, stream: StreamId, extent: Extent, purpose: Purpose) {
        if self.plug_ticks > 0 && self.tick > 0 && self.is_empty() {
            self.plugged_until = Some(Nanos((now.0 / self.tick + self.plug_ticks) * self.tick));
        }
        if !self.waiting[index(op)].merge(stream, extent, purpose, self.sectors_max) {
            let id = self.next_id;
            self.next_id += 1;
            let pending = Pending { op, stream, purposes: vec![purpose], extent, since: now };
            self.waiting[index(op)].insert(id, pending);
        }
        if self.waiting.iter().map(|waiting| waiting.by_id.len()).sum::<usize>() >= PLUGGED_REQUESTS_MAX {
            self.unplug();
        }
    }

    /// Unplugs the queue, because a thread waits.
    pub(crate) fn unplug(&mut self) {
        self.plugged_until = None;
    }

    /// Returns the time of the unplug timeout.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        self.plugged_until.filter(|_| !self.is_empty())
    }

    /// Submits as many requests as the device accepts.
    pub(crate) fn dispatch(&mut self, now: Nanos, device: &mut impl Device) {
        if self.plugged_until.is_some_and(|until| until <= now) {
            self.unplug();
        }
        while self.plugged_until.is_none() && !self.is_empty() {
            let Some((direction, id)) = self.choose(now) else { return };
            let pending = &self.waiting[direction].by_id[&id];
            let Pending { op, stream, extent, since: arrival, .. } = *pending;
            let request = Request { id: RequestId(id), stream, op, fua: false, extent, arrival };
            if device.submit(now, request).is_err() {
                return;
            }
            let pending = self.waiting[direction].remove(id);
            self.in_flight.insert(id, pending);
            self.went(direction, extent);
        }
    }

    /// Returns a completed request with its purposes.
    pub(crate) fn ended(&mut self, id: RequestId) -> Pending {
        self.in_flight.remove(&id.0).expect("the device completes what it was given, once")
    }

    fn is_empty(&self) -> bool {
        self.waiting.iter().all(|waiting| waiting.by_id.is_empty())
    }

    /// Chooses the next request without changing the state, since the device may refuse it.
    fn choose(&self, now: Nanos) -> Option<(usize, u64)> {
        let oldest = |direction: usize| self.waiting[direction].by_id.keys().next().copied();
        if self.scheduler == Scheduler::Noop {
            let ids = (0..2).filter_map(|direction| Some((oldest(direction)?, direction)));
            return ids.min().map(|(id, direction)| (direction, id));
        }
        let (direction, gone, place, starved) = self.batch;
        let after = |direction: usize, place: u64| {
            self.waiting[direction].by_start.range(place..).next().map(|(_, &id)| id)
        };
        if gone < BATCH_REQUESTS
            && let Some(id) = after(direction, place)
        {
            return Some((direction, id));
        }
        let (reads, writes) = (oldest(0).is_some(), oldest(1).is_some());
        let chosen = usize::from(writes && (!reads || starved >= STARVED_READS_MAX));
        let first = oldest(chosen)?;
        let has_waited = now.saturating_sub(self.waiting[chosen].by_id[&first].since);
        let next = after(chosen, place).filter(|_| chosen == direction && has_waited < EXPIRY_TIMES[chosen]);
        Some((chosen, next.unwrap_or(first)))
    }

    /// Updates the state of the batch.
    fn went(&mut self, direction: usize, extent: Extent) {
        let (before, gone, place, starved) = self.batch;
        let goes_on = direction == before && gone < BATCH_REQUESTS && extent.start.0 >= place;
        let gone = if goes_on { gone + 1 } else { 1 };
        let passed_over = direction == 0 && !self.waiting[1].by_id.is_empty();
        let starved = match (goes_on, passed_over) {
            (true, _) => starved,
            (false, true) => starved + 1,
            (false, false) => 0,
        };
        self.batch = (direction, gone, extent.end().0, starved);
    }
}

impl Direction {
    fn insert(&mut self, id: u64, pending: Pending) {
        self.by_start.insert(pending.extent.start.0, id);
        self.by_end.insert(pending.extent.end().0, id);
        self.by_id.insert(id, pending);
    }

    fn remove(&mut self, id: u64) -> Pending {
        let pending = self.by_id.remove(&id).expect("it was just chosen");
        let (start, end) = (pending.extent.start.0, pending.extent.end().0);
        // Two requests may begin or end at the same sector, if a process bypasses the page cache for cached data.
        self.by_start.retain_if_other(start, id);
        self.by_end.retain_if_other(end, id);
        pending
    }

    /// Merges `extent` with an adjacent request; returns whether there was one.
    fn merge(&mut self, stream: StreamId, extent: Extent, purpose: Purpose, sectors_max: u64) -> bool {
        let before = self.by_end.get(&extent.start.0).copied();
        let after = self.by_start.get(&extent.end().0).copied();
        for id in [before, after].into_iter().flatten() {
            let neighbor = &self.by_id[&id];
            let sectors = neighbor.extent.sectors.0 + extent.sectors.0;
            if sectors <= sectors_max && neighbor.stream == stream {
                let mut joined = self.remove(id);
                let start = joined.extent.start.min(extent.start);
                joined.extent = Extent::new(start, Sectors(sectors));
                joined.purposes.push(purpose);
                self.insert(id, joined);
                return true;
            }
        }
        false
    }
}

/// Removes an entry unless it belongs to another request.
trait RetainIfOther {
    fn retain_if_other(&mut self, place: u64, id: u64);
}

impl RetainIfOther for BTreeMap<u64, u64> {
    fn retain_if_other(&mut self, place: u64, id: u64) {
        if self.get(&place) == Some(&id) {
            self.remove(&place);
        }
    }
}

fn index(op: Op) -> usize {
    usize::from(op != Op::Read)
}

/// Returns the extent of `sectors` sectors from `start`.
pub(crate) fn extent(start: u64, sectors: u64) -> Extent {
    Extent::new(Lba(start), Sectors(sectors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_drive::fixed::{Fixed, FixedSpec};

    fn queue(scheduler: Scheduler, plug_ticks: u32) -> Queue {
        Queue::new(&QueueSpec { scheduler, plug_ticks, ..QueueSpec::default() }, Nanos::MILLISECOND, 512)
    }

    fn device(parallel: u32) -> Fixed {
        let spec = FixedSpec { parallel, ..FixedSpec::default() };
        Fixed::new(spec, 0)
    }

    const ONE: StreamId = StreamId(1);
    const DIRECT: Purpose = Purpose::Direct { thread: 0 };

    fn order(queue: &mut Queue) -> Vec<u64> {
        let mut device = device(1);
        let (mut order, mut done, mut now) = (Vec::new(), Vec::new(), Nanos::ZERO);
        loop {
            queue.dispatch(now, &mut device);
            let Some(next) = device.next_event() else { return order };
            now = next;
            device.advance(now, &mut done);
            for completion in done.drain(..) {
                queue.ended(completion.request.id);
                order.push(completion.request.extent.start.0);
            }
        }
    }

    #[test]
    fn neighbors_become_one_request() {
        let mut queue = queue(Scheduler::Noop, 0);
        for start in [0, 8, 24, 16] {
            queue.add(Nanos::ZERO, Op::Read, ONE, extent(start, 8), DIRECT);
        }
        assert_eq!(queue.waiting(Op::Read), 2, "0..24 and 24..32: only one side is joined");
    }

    #[test]
    fn deadline_takes_reads_first_and_in_order() {
        let mut queue = queue(Scheduler::Deadline, 0);
        queue.add(Nanos::ZERO, Op::Write, ONE, extent(5000, 8), DIRECT);
        for start in [100, 900, 500] {
            queue.add(Nanos::ZERO, Op::Read, ONE, extent(start, 8), DIRECT);
        }
        assert_eq!(order(&mut queue), [100, 500, 900, 5000]);
    }

    #[test]
    fn noop_takes_the_oldest() {
        let mut queue = queue(Scheduler::Noop, 0);
        queue.add(Nanos::ZERO, Op::Write, ONE, extent(5000, 8), DIRECT);
        for start in [900, 500] {
            queue.add(Nanos::ZERO, Op::Read, ONE, extent(start, 8), DIRECT);
        }
        assert_eq!(order(&mut queue), [5000, 900, 500]);
    }

    #[test]
    fn a_plugged_queue_opens_in_time_for_four_or_when_somebody_waits() {
        let mut queue = queue(Scheduler::Noop, 3);
        let mut device = device(8);
        queue.add(Nanos::ZERO, Op::Read, ONE, extent(0, 8), DIRECT);
        queue.dispatch(Nanos(1), &mut device);
        assert_eq!((queue.waiting(Op::Read), queue.next_event()), (1, Some(Nanos(3_000_000))));
        queue.dispatch(Nanos(3_000_000), &mut device);
        assert_eq!(queue.waiting(Op::Read), 0);
        for start in [100, 200, 300, 400] {
            queue.add(Nanos(4_000_000), Op::Read, ONE, extent(start, 8), DIRECT);
        }
        queue.dispatch(Nanos(4_000_000), &mut device);
        assert_eq!(queue.waiting(Op::Read), 0);
        queue.add(Nanos(5_000_000), Op::Read, ONE, extent(500, 8), DIRECT);
        queue.unplug();
        queue.dispatch(Nanos(5_000_000), &mut device);
        assert_eq!(queue.waiting(Op::Read), 0);
    }
}

//! Sequential reads of owners, and what is read ahead for them.
//!
//! An owner whose reads continue each other is served from extents that the regulator reads whole, two ahead, with
//! deadlines at which a reader at the granted rate arrives there. Each read then costs its share of an extent, however
//! small it is. Until a stream is recognized and its first extent has been read, its reads are random accesses.

use std::collections::{BTreeMap, VecDeque};

use sakiyomi_model::{Bytes, Lba, RequestId, Sectors};

use crate::rate::Owner;

/// What is read at a time for a sequential reader.
pub(super) const READ_AHEAD_EXTENT: Bytes = Bytes(1 << 20);

/// Extents read ahead of the reader: with one, a late one would stop it.
const EXTENTS_AHEAD: u64 = 2;
/// Bytes that continue each other from which on a stream is read ahead: less would be wasted on small files.
const RECOGNIZED_BYTES: u64 = 256 << 10;
/// Streams of an owner that are remembered.
const STREAMS_PER_OWNER: usize = 8;

/// Streams of all owners.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    owners: BTreeMap<Owner, VecDeque<Stream>>,
    fetches: BTreeMap<RequestId, Fetch>,
    /// Number of fetches so far, from which their identifiers follow.
    count: u64,
}

#[derive(Clone, Debug)]
struct Stream {
    /// Where the next read begins.
    next: Lba,
    /// Sectors read so far.
    run: u64,
    /// Ends of what has been read ahead and of what was requested; both `next` before the stream is recognized.
    fetched: Lba,
    requested: Lba,
    in_flight: VecDeque<RequestId>,
    /// Whether the reader has reached what was read ahead.
    is_steady: bool,
}

/// An extent that is read ahead.
#[derive(Clone, Debug)]
struct Fetch {
    owner: Owner,
    end: Lba,
    is_done: bool,
    /// Requests that wait for it, and their ends.
    waiting: Vec<(RequestId, Lba)>,
}

/// How a read of a stream is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// By the device.
    ByDevice,
    /// From what has been read ahead.
    FromFetched,
    /// When everything up to its end has been read ahead, of which this extent is the first.
    ByFetch { fetch: RequestId, end: Lba },
}

/// The place of a read in a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) served: Served,
    /// Whether it costs only its share of an extent.
    pub(super) is_continuing: bool,
}

/// An extent to read ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) id: RequestId,
    pub(super) start: Lba,
    pub(super) sectors: Sectors,
    /// Sectors that the reader has to go until there.
    pub(super) ahead: Sectors,
}

impl Streams {
    /// Places a read of `sectors` from `start`, on a device with this sector size.
    pub(super) fn place(&mut self, owner: Owner, start: Lba, sectors: Sectors, sector: Bytes) -> Place {
        let streams = self.owners.entry(owner).or_default();
        let by_device = Place { served: Served::ByDevice, is_continuing: false };
        let end = Lba(start.0 + sectors.0);
        let Some(index) = streams.iter().position(|stream| stream.next == start) else {
            if streams.len() == STREAMS_PER_OWNER
                && let Some(oldest) = streams.iter().position(|stream| stream.in_flight.is_empty())
            {
                streams.remove(oldest);
            }
            if streams.len() < STREAMS_PER_OWNER {
                streams.push_back(Stream {
                    next: end,
                    run: sectors.0,
                    fetched: end,
                    requested: end,
                    in_flight: VecDeque::new(),
                    is_steady: false,
                });
            }
            return by_device;
        };
        let mut stream = streams.remove(index).expect("it was found");
        stream.next = end;
        stream.run += sectors.0;
        let is_small = sectors.to_bytes(sector) < READ_AHEAD_EXTENT;
        let place = if !is_small || stream.requested < end {
            (stream.fetched, stream.requested) = (stream.fetched.max(end), stream.requested.max(end));
            by_device
        } else if stream.fetched >= end {
            stream.is_steady = true;
            Place { served: Served::FromFetched, is_continuing: true }
        } else {
            let first = stream.in_flight.iter().find(|id| !self.fetches[id].is_done);
            let fetch = *first.expect("what was requested and is not read yet is in flight");
            Place { served: Served::ByFetch { fetch, end }, is_continuing: stream.is_steady }
        };
        streams.push_back(stream);
        place
    }

    /// Returns the next extent to read ahead for the owner's latest stream, and records that it is requested.
    pub(super) fn next_extent(&mut self, owner: Owner, sector: Bytes, capacity: Sectors) -> Option<Extent> {
        let stream = self.owners.get_mut(&owner)?.back_mut()?;
        let whole = READ_AHEAD_EXTENT.0 / sector.0;
        let ahead = stream.requested.0.saturating_sub(stream.next.0);
        if stream.run * sector.0 < RECOGNIZED_BYTES
            || ahead > (EXTENTS_AHEAD - 1) * whole
            || stream.requested.0 >= capacity.0
        {
            return None;
        }
        self.count += 1;
        let id = RequestId(u64::MAX - self.count);
        let start = stream.requested;
        let sectors = Sectors(whole.min(capacity.0 - start.0));
        stream.requested = Lba(start.0 + sectors.0);
        stream.in_flight.push_back(id);
        let fetch = Fetch { owner, end: stream.requested, is_done: false, waiting: Vec::new() };
        self.fetches.insert(id, fetch);
        Some(Extent { id, start, sectors, ahead: Sectors(ahead) })
    }

    pub(super) fn await_fetch(&mut self, fetch: RequestId, request: RequestId, end: Lba) {
        self.fetches.get_mut(&fetch).expect("it is in flight").waiting.push((request, end));
    }

    pub(super) fn no_longer_awaits(&mut self, fetch: RequestId, request: RequestId) {
        if let Some(fetch) = self.fetches.get_mut(&fetch) {
            fetch.waiting.retain(|(waiting, _)| *waiting != request);
        }
    }

    /// Records that an extent has been read, or could not be; returns the requests that need not wait any longer.
    pub(super) fn ended(&mut self, id: RequestId, is_read: bool) -> Vec<RequestId> {
        let Some(fetch) = self.fetches.get_mut(&id) else { return Vec::new() };
        let (owner, waiting) = (fetch.owner, std::mem::take(&mut fetch.waiting));
        fetch.is_done = true;
        let streams = self.owners.get_mut(&owner);
        let stream = streams.and_then(|streams| streams.iter_mut().find(|one| one.in_flight.contains(&id)));
        let Some(stream) = stream.filter(|_| is_read) else {
            self.forget(id);
            return waiting.into_iter().map(|(request, _)| request).collect();
        };
        while let Some(first) = stream.in_flight.front().copied().filter(|first| self.fetches[first].is_done)
        {
            stream.fetched = stream.fetched.max(self.fetches[&first].end);
            self.fetches.remove(&first);
            stream.in_flight.pop_front();
        }
        let fetched = stream.fetched;
        let (ready, waiting): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|&(_, end)| end <= fetched);
        let next = stream.in_flight.iter().copied().find(|id| !self.fetches[id].is_done);
        match next.and_then(|next| self.fetches.get_mut(&next)) {
            Some(next) => next.waiting.extend(waiting),
            None => debug_assert!(waiting.is_empty(), "a request waits for what is in flight"),
        }
        ready.into_iter().map(|(request, _)| request).collect()
    }

    /// Forgets an extent and the stream for which it was to be read: the reads that come find an error themselves.
    fn forget(&mut self, id: RequestId) {
        let Some(Fetch { owner, .. }) = self.fetches.remove(&id) else { return };
        if let Some(streams) = self.owners.get_mut(&owner) {
            streams.retain(|stream| !stream.in_flight.contains(&id));
        }
    }

    /// Forgets the streams of an owner; returns its extents that are not read yet.
    pub(super) fn leave(&mut self, owner: Owner) -> Vec<RequestId> {
        self.owners.remove(&owner);
        let of_owner = self.fetches.iter().filter(|(_, fetch)| fetch.owner == owner && !fetch.is_done);
        of_owner.map(|(id, _)| *id).collect()
    }

    /// Returns whether the request was made by the regulator itself.
    pub(super) fn is_fetch(&self, id: RequestId) -> bool {
        self.fetches.contains_key(&id)
    }
}

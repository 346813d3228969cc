//! Sequential reads of owners, and what is read ahead for them.
//!
//! An owner whose reads continue each other is served from extents that the regulator reads whole, two ahead, with
//! deadlines at which a reader at the granted rate arrives there. Each read then costs its share of an extent, however
//! small it is. Until a stream is recognized and its first extent has been read, its reads are random accesses.

use std::collections::{BTreeMap, VecDeque};

use sakiyomi_model::{Bytes, Lba, RequestId, Sectors};

use crate::rate::Owner;

/// Size of a read for a sequential reader.
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
    /// Sectors of the reads that continued an earlier one.
    run: u64,
    /// Sectors of the last read.
    last: Sectors,
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
    /// Sectors of the reader's last read.
    pub(super) read: Sectors,
}

/// The requests that waited for an extent which has ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Ended {
    /// Those of which everything has been read ahead.
    pub(super) served: Vec<RequestId>,
    /// Those that the device must serve.
    pub(super) unserved: Vec<RequestId>,
    /// Those that wait for another extent, and this extent.
    pub(super) moved: Option<(RequestId, Vec<RequestId>)>,
}

fn requests(waiting: Vec<(RequestId, Lba)>) -> Vec<RequestId> {
    waiting.into_iter().map(|(request, _)| request).collect()
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
                    run: 0,
                    last: sectors,
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
        stream.last = sectors;
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
        let whole = (READ_AHEAD_EXTENT.0 / sector.0.max(1)).max(1);
        let ahead = stream.requested.0.saturating_sub(stream.next.0);
        // Reads as large as an extent gain nothing.
        if stream.run * sector.0 < RECOGNIZED_BYTES
            || stream.last.0 >= whole
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
        Some(Extent { id, start, sectors, ahead: Sectors(ahead), read: stream.last })
    }

    pub(super) fn await_fetch(&mut self, fetch: RequestId, request: RequestId, end: Lba) {
        self.fetches.get_mut(&fetch).expect("it is in flight").waiting.push((request, end));
    }

    pub(super) fn no_longer_awaits(&mut self, fetch: RequestId, request: RequestId) {
        if let Some(fetch) = self.fetches.get_mut(&fetch) {
            fetch.waiting.retain(|(waiting, _)| *waiting != request);
        }
    }

    /// Records that an extent has been read, or could not be.
    pub(super) fn ended(&mut self, id: RequestId, is_read: bool) -> Ended {
        let Some(fetch) = self.fetches.get_mut(&id) else { return Ended::default() };
        let (owner, fetched, waiting) = (fetch.owner, fetch.end, std::mem::take(&mut fetch.waiting));
        fetch.is_done = true;
        let streams = self.owners.get_mut(&owner);
        let stream = streams.and_then(|streams| streams.iter_mut().find(|one| one.in_flight.contains(&id)));
        let Some(stream) = stream.filter(|_| is_read) else {
            self.forget(id);
            let (served, unserved): (Vec<_>, Vec<_>) =
                waiting.into_iter().partition(|&(_, end)| is_read && end <= fetched);
            return Ended { served: requests(served), unserved: requests(unserved), moved: None };
        };
        while let Some(first) = stream.in_flight.front().copied().filter(|first| self.fetches[first].is_done)
        {
            stream.fetched = stream.fetched.max(self.fetches[&first].end);
            self.fetches.remove(&first);
            stream.in_flight.pop_front();
        }
        let fetched = stream.fetched;
        let (served, waiting): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|&(_, end)| end <= fetched);
        let next = stream.in_flight.iter().copied().find(|id| !self.fetches[id].is_done);
        let moved = next.filter(|_| !waiting.is_empty()).map(|next| {
            if let Some(fetch) = self.fetches.get_mut(&next) {
                fetch.waiting.extend(&waiting);
            }
            (next, requests(waiting))
        });
        Ended { served: requests(served), unserved: Vec::new(), moved }
    }

    /// Forgets an extent and the stream for which it was to be read: the reads that come find an error themselves.
    fn forget(&mut self, id: RequestId) {
        let Some(Fetch { owner, .. }) = self.fetches.remove(&id) else { return };
        let Some(streams) = self.owners.get_mut(&owner) else { return };
        let Some(index) = streams.iter().position(|stream| stream.in_flight.contains(&id)) else { return };
        let stream = streams.remove(index).expect("it was found");
        self.drop_done(stream.in_flight);
    }

    /// Drops the extents that have been read for a stream that no longer exists.
    fn drop_done(&mut self, extents: impl IntoIterator<Item = RequestId>) {
        for id in extents {
            if self.fetches.get(&id).is_some_and(|fetch| fetch.is_done) {
                self.fetches.remove(&id);
            }
        }
    }

    /// Returns whether a stream still needs an extent.
    pub(super) fn is_wanted(&self, id: RequestId) -> bool {
        let owner = self.fetches.get(&id).map(|fetch| fetch.owner);
        let streams = owner.and_then(|owner| self.owners.get(&owner));
        streams.is_some_and(|streams| streams.iter().any(|stream| stream.in_flight.contains(&id)))
    }

    /// Forgets the streams of an owner; returns its extents that are not read yet.
    pub(super) fn leave(&mut self, owner: Owner) -> Vec<RequestId> {
        let streams = self.owners.remove(&owner).unwrap_or_default();
        let extents: Vec<RequestId> = streams.into_iter().flat_map(|stream| stream.in_flight).collect();
        self.drop_done(extents.iter().copied());
        extents.into_iter().filter(|id| self.fetches.contains_key(id)).collect()
    }

    /// Returns whether the request was made by the regulator itself.
    pub(super) fn is_fetch(&self, id: RequestId) -> bool {
        self.fetches.contains_key(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner(1);
    const SECTOR: Bytes = Bytes(512);
    const CAPACITY: Sectors = Sectors(1 << 24);
    /// Sectors of an extent.
    const EXTENT: u64 = READ_AHEAD_EXTENT.0 / 512;

    fn place(streams: &mut Streams, start: u64, sectors: u64) -> Place {
        streams.place(OWNER, Lba(start), Sectors(sectors), SECTOR)
    }

    fn fetches(streams: &mut Streams) -> Vec<Extent> {
        std::iter::from_fn(|| streams.next_extent(OWNER, SECTOR, CAPACITY)).collect()
    }

    /// Reads 4 KiB at a time from the start until the stream is recognized; returns where it is then.
    fn recognized(streams: &mut Streams) -> u64 {
        let reads = RECOGNIZED_BYTES / 4096;
        (0..=reads).for_each(|read| assert_eq!(place(streams, read * 8, 8).served, Served::ByDevice));
        (reads + 1) * 8
    }

    #[test]
    fn random_reads_and_reads_as_large_as_an_extent_are_not_read_ahead() {
        let mut streams = Streams::default();
        for read in 0..20 {
            place(&mut streams, read * 1_000_003, 512 << 2);
            assert!(fetches(&mut streams).is_empty(), "random reads of 1 MiB");
        }
        (0..20).for_each(|read| _ = place(&mut streams, 5 + read * EXTENT, EXTENT));
        assert!(fetches(&mut streams).is_empty(), "sequential reads of 1 MiB");
    }

    #[test]
    fn a_stream_is_served_from_two_extents_ahead() {
        let mut streams = Streams::default();
        let at = recognized(&mut streams);
        let extents = fetches(&mut streams);
        let starts: Vec<u64> = extents.iter().map(|extent| extent.start.0).collect();
        assert_eq!(starts, [at, at + EXTENT]);
        let waits = place(&mut streams, at, 8);
        assert!(matches!(waits.served, Served::ByFetch { fetch, .. } if fetch == extents[0].id));
        assert!(!waits.is_continuing, "until the first extent has been read");
        streams.await_fetch(extents[0].id, RequestId(1), Lba(at + 8));
        assert_eq!(streams.ended(extents[0].id, true).served, [RequestId(1)]);
        let served = place(&mut streams, at + 8, 8);
        assert!(served.served == Served::FromFetched && served.is_continuing);
    }

    #[test]
    fn a_read_across_two_extents_waits_for_both_in_any_order() {
        for first in [0, 1] {
            let mut streams = Streams::default();
            let at = recognized(&mut streams);
            let extents = fetches(&mut streams);
            place(&mut streams, at, EXTENT - 8);
            place(&mut streams, at + EXTENT - 8, 16);
            streams.await_fetch(extents[0].id, RequestId(7), Lba(at + EXTENT + 8));
            let ended = streams.ended(extents[first].id, true);
            assert!(ended.served.is_empty() && ended.unserved.is_empty());
            if first == 0 {
                assert_eq!(ended.moved, Some((extents[1].id, vec![RequestId(7)])));
            }
            assert_eq!(streams.ended(extents[1 - first].id, true).served, [RequestId(7)]);
            assert!(streams.fetches.is_empty());
        }
    }

    #[test]
    fn what_was_not_read_is_left_to_the_device_and_nothing_remains() {
        let mut streams = Streams::default();
        let at = recognized(&mut streams);
        let extents = fetches(&mut streams);
        streams.await_fetch(extents[0].id, RequestId(7), Lba(at + EXTENT + 8));
        // The second one has been read when the owner leaves; the first one is in the device.
        streams.ended(extents[1].id, true);
        assert_eq!(streams.leave(OWNER), [extents[0].id]);
        assert!(!streams.is_wanted(extents[0].id));
        let ended = streams.ended(extents[0].id, true);
        assert_eq!((ended.served, ended.unserved), (vec![], vec![RequestId(7)]));
        assert!(streams.fetches.is_empty() && streams.owners.is_empty());

        let at = recognized(&mut streams);
        let extents = fetches(&mut streams);
        streams.await_fetch(extents[0].id, RequestId(8), Lba(at + 8));
        assert_eq!(streams.ended(extents[0].id, false).unserved, [RequestId(8)], "an error");
        assert_eq!(place(&mut streams, at, 8).served, Served::ByDevice);
    }
}

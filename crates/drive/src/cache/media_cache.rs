//! The media cache of a drive with shingled tracks (SMR): a log on the medium that takes all writes, because a track in a
//! band can be written only together with those after it (Aghayev & Desnoyers, "Skylight", FAST 2015).
//!
//! A band is cleaned by reading it, merging what the cache holds of it, and writing it back. Its data in the log is then
//! free. Only amounts are kept: reads go to the home position, and space in the log is not fragmented.

use std::collections::{BTreeMap, VecDeque};

use sakiyomi_model::Bytes;

use crate::spec::SmrSpec;

/// The log, in sectors.
#[derive(Clone, Debug)]
pub(crate) struct MediaCache {
    band: u64,
    /// First sector of the log, which is also the number of addressable ones.
    start: u64,
    sectors: u64,
    /// Next position of the log, from its start.
    head: u64,
    used: u64,
    /// Sectors of each band in the log.
    held: BTreeMap<u64, u64>,
    /// Bands in the order in which the log came to hold data of them.
    oldest: VecDeque<u64>,
    /// Sectors of the longest write so far, within the log's size.
    longest: u64,
}

impl MediaCache {
    /// Places the log at the end of a drive of `capacity` sectors.
    pub(crate) fn new(spec: &SmrSpec, sector: Bytes, capacity: u64) -> MediaCache {
        let sectors = spec.media_cache.0 / sector.0;
        MediaCache {
            band: spec.band.0 / sector.0,
            start: capacity - sectors,
            sectors,
            head: 0,
            used: 0,
            held: BTreeMap::new(),
            oldest: VecDeque::new(),
            longest: 0,
        }
    }

    /// Returns the number of addressable sectors: those before the log.
    pub(crate) fn capacity(&self) -> u64 {
        self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Announces a write of `sectors`, for which there must be room.
    pub(crate) fn expect(&mut self, sectors: u64) {
        self.longest = self.longest.max(sectors.min(self.sectors));
    }

    /// Returns whether the next write may find no room.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.used + self.longest > self.sectors
    }

    /// Appends the data of `first..last`; returns where it is written, or `None` if it is longer than the log: it then
    /// fills bands, which are written directly.
    pub(crate) fn append(&mut self, first: u64, last: u64) -> Option<u64> {
        let sectors = last - first;
        if self.used + sectors > self.sectors {
            return None;
        }
        // The log is written in one piece, and begins again before its end.
        let from = if self.head + sectors > self.sectors { 0 } else { self.head };
        self.head = from + sectors;
        self.used += sectors;
        let mut at = first;
        while at < last {
            let band = at / self.band;
            let end = last.min((band + 1) * self.band);
            if !self.held.contains_key(&band) {
                self.oldest.push_back(band);
            }
            *self.held.entry(band).or_default() += end - at;
            at = end;
        }
        Some(self.start + from)
    }

    /// Returns the sectors of the band to be cleaned next.
    pub(crate) fn next_band(&self) -> Option<(u64, u64)> {
        let band = *self.oldest.front()?;
        Some((band * self.band, ((band + 1) * self.band).min(self.start)))
    }

    /// Frees the data of the band that [`next_band`](Self::next_band) returned.
    pub(crate) fn cleaned(&mut self) {
        let held = self.oldest.pop_front().and_then(|band| self.held.remove(&band));
        self.used -= held.unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sakiyomi_model::Nanos;

    proptest! {
        #[test]
        fn the_log_holds_what_was_written_since_the_bands_were_cleaned(
            writes in prop::collection::vec((0u64..900, 1u64..40, any::<bool>()), 1..80),
        ) {
            let spec = SmrSpec { band: Bytes(512 * 64), media_cache: Bytes(512 * 100), idle_delay: Nanos::ZERO };
            let mut cache = MediaCache::new(&spec, Bytes(512), 1100);
            let mut naive: Vec<u64> = Vec::new();
            for (first, sectors, cleans) in writes {
                cache.expect(sectors);
                while cache.is_exhausted() || (cleans && !cache.is_empty()) {
                    let (from, to) = cache.next_band().unwrap();
                    prop_assert_eq!(naive.first().map(|sector| sector / 64), Some(from / 64), "the oldest first");
                    naive.retain(|sector| !(from..to).contains(sector));
                    cache.cleaned();
                }
                let place = cache.append(first, first + sectors).unwrap();
                prop_assert!(1000 <= place && place + sectors <= 1100);
                naive.extend(first..first + sectors);
                prop_assert_eq!(cache.used, naive.len() as u64);
                prop_assert_eq!(cache.held.len(), cache.oldest.len());
            }
            prop_assert_eq!((cache.append(0, 101), cache.capacity()), (None, 1000));
        }
    }
}

//! Reads over the tracks at several places of a disk, as a state machine: sectors out, ends in.
//!
//! Sectors are read in descending order: the drive reads ahead in ascending order, and would serve later ones from its
//! cache. Between two neighboring places whose tracks have different lengths, a place in the middle is read, until the
//! border of the zones is known.

use std::collections::VecDeque;

use sakiyomi_model::{Extent, Lba, Nanos, Sectors};

use crate::rotation::Rotation;
use crate::tracks::{Passed, Tracks, are_same, tracks};

/// Reads of a track: enough that a jump of the angle between two of them is seen at once.
const READS_PER_TRACK: u64 = 12;
/// Tracks read at the first place: two cylinders of 30 heads.
const FIRST_SCAN_TRACKS: u64 = 64;
/// Tracks read at the other first places, whose skews are of interest, too.
const LONG_SCAN_TRACKS: u64 = 26;
/// Tracks read between them, where only their length matters.
const SHORT_SCAN_TRACKS: u64 = 5;
/// First places, evenly distributed: a disk has about as many zones.
const FIRST_PLACES: u64 = 17;
/// Places at most, of about half a second each.
const PLACES_MAX: usize = 150;
/// Borders between zones are known to the capacity divided by this.
const BORDER_DIVISOR: u64 = 2_000;
/// Shortest and longest track that is looked for, in sectors.
const TRACK_RANGE: [f64; 2] = [32.0, 8_192.0];
/// A read that takes less than this part of a revolution was served from a cache.
const CACHED_MAX_TURNS: f64 = 0.4;
/// Share of reads served from a cache above which a place tells nothing.
const CACHED_MAX_RATIO: f64 = 0.3;
/// Places in a row without tracks after which no more are read.
const FAILED_MAX: usize = 3;

/// The scans of a survey.
#[derive(Debug)]
pub(crate) struct Scans {
    capacity: u64,
    /// Sectors of a read, to multiples of which its place is aligned.
    read: u64,
    rotation: Rotation,
    /// Sectors of a track at a place where none was found yet.
    track_guess: f64,
    first: VecDeque<u64>,
    place: Option<Place>,
    found: Vec<Tracks>,
    places: usize,
    failed: usize,
}

#[derive(Debug)]
struct Place {
    start: u64,
    step: u64,
    /// Reads left, of which the next one is the last in the order of sectors.
    left: u64,
    reads: Vec<Passed>,
    cached: usize,
}

impl Scans {
    /// Scans a disk of `capacity` sectors, about `track_guess` of which lie on a track, by reads of `read` sectors.
    pub(crate) fn new(capacity: u64, read: u64, rotation: Rotation, track_guess: f64) -> Scans {
        let last = FIRST_PLACES - 1;
        let first = (0..=last).map(|at| (u128::from(capacity) * u128::from(at) / u128::from(last)) as u64);
        Scans {
            capacity,
            read: read.max(1),
            rotation,
            track_guess: track_guess.clamp(TRACK_RANGE[0], TRACK_RANGE[1]),
            first: first.collect(),
            place: None,
            found: Vec::new(),
            places: 0,
            failed: 0,
        }
    }

    /// Returns the next sectors to read; `None` at the end. Each read is ended before the next one.
    pub(crate) fn next(&mut self) -> Option<Extent> {
        loop {
            match &mut self.place {
                Some(place) if place.left > 0 => {
                    place.left -= 1;
                    let start = Lba(place.start + place.left * place.step);
                    return Some(Extent::new(start, Sectors(self.read)));
                }
                Some(_) => self.close(),
                None => {
                    let place = self.begin()?;
                    self.place = Some(place);
                }
            }
        }
    }

    /// Reports the end of the read, and its time.
    pub(crate) fn ended(&mut self, sector: Lba, end: Nanos, time: Nanos) {
        let Some(place) = &mut self.place else { return };
        // The sector before the last one read has just passed: it takes almost a revolution to come back.
        if (time.0 as f64) < CACHED_MAX_TURNS * self.rotation.turn_ns() {
            place.cached += 1;
        } else {
            place.reads.push(Passed { sector: sector.0, end });
        }
    }

    /// Returns the tracks found, in the order of their places.
    pub(crate) fn into_found(self) -> Vec<Tracks> {
        self.found
    }

    fn begin(&mut self) -> Option<Place> {
        if self.failed >= FAILED_MAX || self.places >= PLACES_MAX {
            return None;
        }
        self.places += 1;
        let (wanted, count) = match self.first.pop_front() {
            Some(start) if self.found.is_empty() => (start, FIRST_SCAN_TRACKS),
            Some(start) => (start, LONG_SCAN_TRACKS),
            None => (self.between()?, SHORT_SCAN_TRACKS),
        };
        let track = self.found.iter().min_by_key(|tracks| tracks.start.0.abs_diff(wanted));
        let track = track.map_or(self.track_guess, |tracks| tracks.sectors_per_track);
        let aligned = |sectors: u64| sectors / self.read * self.read;
        let step = aligned((track / READS_PER_TRACK as f64) as u64).max(self.read);
        let count = ((count as f64 * track) as u64).min(self.capacity) / step;
        let start = aligned(wanted.min(self.capacity.saturating_sub(count * step)));
        Some(Place { start, step, left: count, reads: Vec::new(), cached: 0 })
    }

    /// Returns the middle of the widest gap between two places with tracks of different lengths.
    fn between(&self) -> Option<u64> {
        let gap = |pair: &[Tracks]| pair[1].start.0 - pair[0].start.0;
        let pairs = self.found.windows(2).filter(|pair| !are_same(&pair[0], &pair[1]));
        let widest =
            pairs.max_by_key(|pair| gap(pair)).filter(|pair| gap(pair) > self.capacity / BORDER_DIVISOR)?;
        Some(widest[0].start.0 + gap(widest) / 2)
    }

    /// Evaluates the reads of a place.
    fn close(&mut self) {
        let Some(Place { reads, cached, .. }) = self.place.take() else { return };
        let is_cached = cached as f64 > CACHED_MAX_RATIO * (cached + reads.len()) as f64;
        match tracks(reads, &self.rotation).filter(|_| !is_cached) {
            Some(tracks) => {
                self.failed = 0;
                let at = self.found.partition_point(|other| other.start < tracks.start);
                self.found.insert(at, tracks);
            }
            None => self.failed += 1,
        }
    }
}

//! Timed probes of a device, as a state machine: reads out, completions in.
//!
//! The caller issues the reads that [`Survey::poll`] returns at once, and reports each completion with its times. The
//! same machine runs in virtual time against a simulated drive and in real time against a device. Nothing is written.
//!
//! | phase | reads | for |
//! |---|---|---|
//! | [`Phase::Sizes`] | single reads at random places, of several sizes | latency and bandwidth |
//! | [`Phase::Depths`] | small reads at random places, several at a time | parallelism |
//! | [`Phase::Returns`] | the same sector again and again, with others between | the period of rotation |
//! | [`Phase::Tracks`] | single sectors over some tracks at several places | zones, skews and heads |
//! | [`Phase::Cache`] | pages again, and after others | read-ahead and segments |
//! | [`Phase::Course`] | runs, returns, and steps of all lengths, with pauses | a trace to fit a drive to |

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_model::{Bytes, Extent, Lba, Nanos, Op, Sectors};
use sakiyomi_validate::Measured;

use crate::cache::{CacheProbe, ReadCache, Step};
use crate::rotation::rotation;
use crate::scan::Scans;
use crate::tracks::Tracks;

/// Sizes of reads in [`Phase::Sizes`].
const READ_SIZES: [Bytes; 6] =
    [Bytes(4 << 10), Bytes(16 << 10), Bytes(64 << 10), Bytes(128 << 10), Bytes(512 << 10), Bytes(1 << 20)];
/// Reads of each size.
const READS_PER_SIZE: usize = 60;
/// Numbers of reads at a time in [`Phase::Depths`].
const QUEUE_DEPTHS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Reads at each depth, for each of the depth's places.
const READS_PER_PLACE: usize = 12;
/// Returns to the same sector. With fewer the period could be mistaken for another by chance.
const RETURN_COUNT: usize = 120;
/// A return that takes less than this share of a random read was served from a cache.
const CACHED_MAX_RATIO: f64 = 0.4;
/// Reads between two returns: doubled from the first to the last while returns are served from a cache.
const READS_BETWEEN: [usize; 2] = [1, 1024];
/// The returns end after the whole time divided by this.
const RETURNS_TIME_DIVISOR: u64 = 2;
/// The tracks end after this share of the whole time, as a fraction.
const TRACKS_TIME_RATIO: (u64, u64) = (4, 5);
/// Returns after which their times are looked at.
const RETURNS_PER_LOOK: usize = 6;
/// Reads of the course.
const COURSE_READS: usize = 2_000;
/// Longest pause between reads.
const PAUSE_MAX: Nanos = Nanos(20_000_000);
/// Size of a small read.
const PROBE_SIZE: Bytes = Bytes(4 << 10);

/// The next action of a survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Issue this read now.
    Read(Probe),
    /// Call again when a read has completed.
    Await,
    /// Call again at this time.
    Pause(Nanos),
    /// The survey is over.
    Finished,
}

/// A read to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Number, in order of issue.
    pub id: u64,
    /// Sectors.
    pub extent: Extent,
}

/// Parts of a survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reads of several sizes.
    Sizes,
    /// Several reads at a time.
    Depths,
    /// The same sector again and again.
    Returns,
    /// Single sectors over some tracks at several places.
    Tracks,
    /// Pages again, and after others.
    Cache,
    /// Reads that reveal policies and seek times.
    Course,
}

/// Latencies of reads of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct OfSize {
    /// Size of the reads.
    pub size: Bytes,
    /// Times, ascending.
    pub times: Vec<Nanos>,
}

impl OfSize {
    /// The mean time in nanoseconds.
    pub(crate) fn mean(&self) -> f64 {
        self.times.iter().map(|time| time.0 as f64).sum::<f64>() / self.times.len().max(1) as f64
    }

    pub(crate) fn median(&self) -> Nanos {
        self.times.get(self.times.len() / 2).copied().unwrap_or_default()
    }
}

/// Throughput at one depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfDepth {
    /// Reads in flight.
    pub depth: usize,
    /// Completed reads per second.
    pub reads_per_second: f64,
}

/// Times of a survey.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surveyed {
    /// By size, one at a time.
    pub sizes: Vec<OfSize>,
    /// By depth.
    pub depths: Vec<OfDepth>,
    /// Ends of reads of the same sector that were not served from a cache.
    pub returns: Vec<Nanos>,
    /// Tracks by their place, in the order of sectors; none of a device without rotation.
    pub tracks: Vec<Tracks>,
    /// The read cache of a disk.
    pub cache: ReadCache,
    /// The course: closed loop, one read outstanding.
    pub course: Vec<Measured>,
}

/// A survey under way.
#[derive(Debug)]
pub struct Survey {
    sector: Bytes,
    /// Smallest read, to multiples of which its place is aligned.
    alignment: Bytes,
    capacity: Sectors,
    random: Pcg64,
    until: Nanos,
    phase: Option<Phase>,
    next_id: u64,
    in_flight: Vec<(u64, Extent)>,
    /// Index within the phase: of the size or the depth.
    index: usize,
    issued: usize,
    times: Vec<Nanos>,
    begun: Nanos,
    between: usize,
    looked_at: usize,
    cached: usize,
    home: Lba,
    resume_at: Nanos,
    last: Extent,
    recent: Vec<Extent>,
    run_left: u64,
    scans: Option<Scans>,
    cache: Option<CacheProbe>,
    found: Surveyed,
}

impl Survey {
    /// Surveys a device of `capacity` sectors, until `until` at most; `seed` decides the places.
    #[must_use]
    pub fn new(capacity: Sectors, sector: Bytes, until: Nanos, seed: u64) -> Survey {
        let mut random = Pcg64::seed_from_u64(seed);
        let small = PROBE_SIZE.0 / sector.0;
        let home = random.next_u64() % (capacity.0 / small / 3).max(1) * small;
        Survey {
            sector,
            alignment: sector,
            capacity,
            random,
            until,
            phase: Some(Phase::Sizes),
            next_id: 0,
            in_flight: Vec::new(),
            index: 0,
            issued: 0,
            times: Vec::new(),
            begun: Nanos::ZERO,
            between: READS_BETWEEN[0],
            looked_at: 0,
            cached: 0,
            home: Lba(home),
            resume_at: Nanos::ZERO,
            last: Extent::new(Lba(home), Sectors(small)),
            recent: Vec::new(),
            run_left: 0,
            scans: None,
            cache: None,
            found: Surveyed::default(),
        }
    }

    /// Reads only multiples of `alignment`, 4 KiB at most, at multiples of it.
    #[must_use]
    pub fn aligned(self, alignment: Bytes) -> Survey {
        Survey { alignment, ..self }
    }

    /// Returns the current phase; `None` at the end.
    #[must_use]
    pub fn phase(&self) -> Option<Phase> {
        self.phase
    }

    /// Returns the times so far.
    #[must_use]
    pub fn into_surveyed(self) -> Surveyed {
        self.found
    }

    /// Returns what to do at `now`.
    pub fn poll(&mut self, now: Nanos) -> Action {
        let Some(phase) = self.phase else { return Action::Finished };
        if now >= self.until {
            if self.in_flight.is_empty() {
                self.phase = None;
                return Action::Finished;
            }
            return Action::Await;
        }
        if phase == Phase::Returns && now.0 >= self.until.0 / RETURNS_TIME_DIVISOR {
            // A large cache: some time is left for the course.
            if !self.in_flight.is_empty() {
                return Action::Await;
            }
            self.finish(phase, now);
            return self.poll(now);
        }
        let depth = if phase == Phase::Depths { QUEUE_DEPTHS[self.index] } else { 1 };
        if self.in_flight.len() >= depth || self.issued >= self.reads(phase) {
            return Action::Await;
        }
        if now < self.resume_at {
            return Action::Pause(self.resume_at);
        }
        let extent = match phase {
            Phase::Tracks => {
                let is_late = now.0 >= self.until.0 / TRACKS_TIME_RATIO.1 * TRACKS_TIME_RATIO.0;
                let next = self.scans.as_mut().filter(|_| !is_late).and_then(Scans::next);
                let Some(extent) = next else {
                    self.finish(phase, now);
                    return self.poll(now);
                };
                extent
            }
            Phase::Cache => match self.cache.as_mut().and_then(CacheProbe::next) {
                Some(Step::Read(extent)) => extent,
                Some(Step::Pause(time)) => {
                    self.resume_at = now + time;
                    return Action::Pause(self.resume_at);
                }
                None => {
                    self.finish(phase, now);
                    return self.poll(now);
                }
            },
            _ => self.place(phase),
        };
        if self.issued == 0 {
            self.begun = now;
        }
        let probe = Probe { id: self.next_id, extent };
        self.next_id += 1;
        self.issued += 1;
        self.in_flight.push((probe.id, extent));
        Action::Read(probe)
    }

    /// Reports that a read has completed: when it was issued, and when it ended.
    ///
    /// # Panics
    /// If the read is not in flight.
    pub fn completed(&mut self, id: u64, issued: Nanos, now: Nanos) {
        let place = self.in_flight.iter().position(|(own, _)| *own == id);
        let (_, extent) = self.in_flight.swap_remove(place.expect("a read in flight"));
        let time = now.saturating_sub(issued);
        match self.phase {
            Some(Phase::Sizes) => self.times.push(time),
            Some(Phase::Returns) if extent.start == self.home => self.returned(now, time),
            // Ends at regular times would look like a rotation.
            Some(Phase::Returns) => self.resume_at = now + Nanos(self.random.next_u64() % PAUSE_MAX.0),
            Some(Phase::Tracks) => {
                let scans = self.scans.as_mut().expect("scans in their phase");
                scans.ended(extent.start, now, time);
            }
            Some(Phase::Cache) => self.cache.as_mut().expect("a probe in its phase").ended(time),
            Some(Phase::Course) => self.passed(extent, issued, time, now),
            _ => {}
        }
        let Some(phase) = self.phase else { return };
        if self.in_flight.is_empty() && self.issued >= self.reads(phase) {
            self.finish(phase, now);
        }
    }

    /// Number of reads of the current part of a phase.
    fn reads(&self, phase: Phase) -> usize {
        match phase {
            Phase::Sizes => READS_PER_SIZE,
            Phase::Depths => READS_PER_PLACE * QUEUE_DEPTHS[self.index].max(4),
            Phase::Returns if self.found.returns.len() + 1 >= RETURN_COUNT => self.issued,
            Phase::Returns | Phase::Tracks | Phase::Cache => usize::MAX,
            Phase::Course => COURSE_READS,
        }
    }

    fn finish(&mut self, phase: Phase, now: Nanos) {
        match phase {
            Phase::Sizes => {
                let mut times = std::mem::take(&mut self.times);
                times.sort_unstable();
                self.found.sizes.push(OfSize { size: READ_SIZES[self.index], times });
            }
            Phase::Depths => {
                let seconds = (now - self.begun).as_secs_f64();
                let reads_per_second = self.issued as f64 / seconds.max(1e-9);
                self.found.depths.push(OfDepth { depth: QUEUE_DEPTHS[self.index], reads_per_second });
            }
            Phase::Returns => {
                let guess = self.track_guess();
                let rotation = rotation(&self.found.returns);
                let read = self.alignment.0.div_ceil(self.sector.0);
                self.scans = rotation
                    .map(|rotation| Scans::new(self.capacity.0, read, rotation, guess * rotation.turn_ns()));
            }
            Phase::Tracks => {
                self.found.tracks = self.scans.take().map_or_else(Vec::new, Scans::into_found);
                self.cache = self.cache_probe();
            }
            Phase::Cache => {
                self.found.cache = self.cache.take().map(|cache| cache.found()).unwrap_or_default()
            }
            Phase::Course => {}
        }
        self.issued = 0;
        self.index += 1;
        let parts = match phase {
            Phase::Sizes => READ_SIZES.len(),
            Phase::Depths => QUEUE_DEPTHS.len(),
            Phase::Returns | Phase::Tracks | Phase::Cache | Phase::Course => 1,
        };
        if self.index == parts {
            self.index = 0;
            self.phase = match phase {
                Phase::Sizes => Some(Phase::Depths),
                Phase::Depths => Some(Phase::Returns),
                // Only a disk has tracks, policies and seek times to reveal.
                Phase::Returns => self.scans.as_ref().map(|_| Phase::Tracks),
                Phase::Tracks => Some(Phase::Cache),
                Phase::Cache => Some(Phase::Course),
                Phase::Course => None,
            };
        }
    }

    fn place(&mut self, phase: Phase) -> Extent {
        match phase {
            Phase::Sizes => self.anywhere(READ_SIZES[self.index]),
            Phase::Depths => self.anywhere(PROBE_SIZE),
            Phase::Returns if self.issued.is_multiple_of(self.between + 1) => {
                Extent::new(self.home, Sectors(PROBE_SIZE.0 / self.sector.0))
            }
            Phase::Returns => self.anywhere(PROBE_SIZE),
            Phase::Tracks | Phase::Cache => unreachable!("the probes choose their places"),
            Phase::Course => self.along(),
        }
    }

    /// Returns a random place, aligned to small reads.
    fn anywhere(&mut self, size: Bytes) -> Extent {
        let (unit, sectors) = (PROBE_SIZE.0 / self.sector.0, size.0 / self.sector.0);
        let places = (self.capacity.0.saturating_sub(sectors) / unit).max(1);
        Extent::new(Lba(self.random.next_u64() % places * unit), Sectors(sectors.min(self.capacity.0)))
    }

    /// Whether a small read was served from a cache, by its time.
    fn is_cached(&self, time: Nanos) -> bool {
        let usual = self.found.sizes.first().map_or(Nanos::ZERO, OfSize::median);
        (time.0 as f64) < CACHED_MAX_RATIO * usual.0 as f64
    }

    /// Sectors that pass in a nanosecond, by what larger reads take more than smaller ones; about, because the time to
    /// the next track is within.
    fn track_guess(&self) -> f64 {
        let [small, .., large] = &self.found.sizes[..] else { return 0.0 };
        let more = large.median().saturating_sub(small.median()).0.max(1);
        (large.size.0 - small.size.0) as f64 / self.sector.0 as f64 / more as f64
    }

    /// Returns the probe of the read cache of a disk.
    fn cache_probe(&mut self) -> Option<CacheProbe> {
        let turn = Nanos(rotation(&self.found.returns)?.turn_ns() as u64);
        let track = self.found.tracks.first();
        let track = track.map_or_else(|| self.track_guess() * turn.0 as f64, |track| track.sectors_per_track);
        let page = PROBE_SIZE.0 / self.sector.0;
        Some(CacheProbe::new(self.capacity.0, page.max(1), turn, track.max(1.0), self.random.next_u64()))
    }

    /// A read of the home sector has ended.
    fn returned(&mut self, now: Nanos, time: Nanos) {
        self.looked_at += 1;
        if self.is_cached(time) {
            self.cached += 1;
        } else {
            self.found.returns.push(now);
        }
        if self.looked_at == RETURNS_PER_LOOK {
            if self.cached * 2 >= RETURNS_PER_LOOK && self.between < READS_BETWEEN[1] {
                self.between *= 2;
                self.found.returns.clear();
                self.issued = 0;
            }
            (self.looked_at, self.cached) = (0, 0);
        }
    }

    /// Returns the next read of the course.
    fn along(&mut self) -> Extent {
        let unit = PROBE_SIZE.0 / self.sector.0;
        let pick = self.random.next_u64();
        let sectors = unit << (pick >> 8 & 3);
        let start = if self.run_left > 0 {
            self.run_left -= 1;
            self.last.end().0
        } else {
            match pick % 10 {
                0 => self.random.next_u64() % (self.capacity.0 / unit).max(1) * unit,
                1 => self.recent.get((pick >> 16) as usize % 8).map_or(0, |recent| recent.start.0),
                2..=5 => {
                    self.run_left = 2 + (pick >> 16) % 6;
                    self.random.next_u64() % (self.capacity.0 / unit).max(1) * unit
                }
                _ => {
                    // A step of any order of magnitude, up or down.
                    let bits = (self.capacity.0 / unit).max(2).ilog2() as u64;
                    let step = (1 + (pick >> 16) % (1 << (1 + (pick >> 40) % bits))) * unit;
                    let here = self.last.start.0;
                    if pick >> 60 & 1 == 0 { here + step } else { here.saturating_sub(step) }
                }
            }
        };
        let start = if start + sectors > self.capacity.0 {
            start % (self.capacity.0 / 2) / unit * unit
        } else {
            start
        };
        Extent::new(Lba(start), Sectors(sectors.min(self.capacity.0)))
    }

    /// A read of the course has ended.
    fn passed(&mut self, extent: Extent, issued: Nanos, response: Nanos, now: Nanos) {
        if let Some(before) = self.found.course.last_mut() {
            before.think = issued.saturating_sub(before.ended());
        }
        self.found.course.push(Measured {
            op: Op::Read,
            fua: false,
            extent,
            issued,
            response,
            think: Nanos::ZERO,
            label: None,
        });
        self.last = extent;
        self.recent.insert(0, extent);
        self.recent.truncate(8);
        let pick = self.random.next_u64();
        let pause = if pick & 1 == 0 { 0 } else { (pick >> 1) % PAUSE_MAX.0 };
        self.resume_at = now + Nanos(pause);
    }
}

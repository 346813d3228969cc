//! Reads one at a time, with segments and read-ahead: classes, times, and usage of the mechanism.
//!
//! Each read arrives some time after the end of the previous one: while its read-ahead is running, cut, or finished.

use proptest::prelude::*;
use sakiyomi_drive::spec::{Consumed, Layout, ReadAheadMode, Replacement, SegmentMode};
use sakiyomi_model::{Class, Nanos, Op, ReadClass, Request};

use crate::generate::{self, Spec};
use crate::host::{Last, Wake, class_of, link_time, read_over, run};
use crate::mechanism::{Mechanism, Pass};

/// A segment: its sectors in order, its capacity, and the host's reads from it.
#[derive(Clone, Debug)]
struct Segment {
    sectors: Vec<u64>,
    capacity: u64,
    used: usize,
    expected: Option<u64>,
    in_sequence: u32,
    last_read: u64,
    /// Sectors before this one are not kept.
    given_up: u64,
}

impl Segment {
    /// Returns the end of its content, or of its discarded content.
    fn end(&self) -> u64 {
        self.sectors.last().map_or(self.given_up, |last| last + 1)
    }

    /// Removes discarded sectors, and those beyond the capacity.
    fn leaving(&mut self) -> Vec<u64> {
        let given_up = self.sectors.iter().take_while(|sector| **sector < self.given_up).count();
        let surplus = self.sectors.len().saturating_sub(self.capacity as usize);
        self.sectors.drain(..surplus.max(given_up)).collect()
    }
}

/// A running read access.
#[derive(Clone, Debug)]
struct Access {
    segment: usize,
    begun: u64,
    /// All sectors up to where it will stop.
    passes: Vec<Pass>,
    /// End of the requested sectors.
    demand: u64,
    /// Number of sectors put into the segment.
    filled: usize,
}

/// Result of the naive drive for a read: its class and its finish time.
type Account = (Class, u64);

struct Naive {
    spec: Spec,
    mechanism: Mechanism,
    segments: Vec<Segment>,
    evicted: Vec<u64>,
    access: Option<Access>,
    last: Last,
    clock: usize,
    /// Times of read seek and read data.
    time: [u64; 2],
}

impl Naive {
    fn new(spec: &Spec) -> Naive {
        Naive {
            spec: spec.clone(),
            mechanism: Mechanism::new(spec),
            segments: Vec::new(),
            evicted: Vec::new(),
            access: None,
            last: Last::default(),
            clock: 0,
            time: [0; 2],
        }
    }

    fn read(&mut self, request: &Request) -> Account {
        let (start, end, now) = (request.extent.start.0, request.extent.end().0, request.arrival.0);
        let overhead = self.spec.interface.overhead.clone();
        let before = self.last.before(request);
        let ready = now + overhead.read_miss.after(before).0;
        self.clock += 1;
        self.until(now);
        let Some(missing) = self.missing(start, end) else {
            self.hit(start, end, now);
            let sent = now + overhead.read_hit.after(before).0 + link_time(&self.spec, end - start);
            return (Class::Read(ReadClass::FullHit), sent + overhead.completion.0);
        };
        if let Some(passes) = self.join(missing, (start, end), now) {
            return (Class::Read(ReadClass::ActiveHit), self.over(request, missing, &passes, ready));
        }
        let begin = self.cut(ready);
        let missing = self.missing(start, end).expect("nothing came in the meantime");
        let class = self.class(missing);
        let segment = self.segment_for(missing, end);
        self.used(segment, start, end);
        let limit = self.limit(segment, end);
        let passes = self.begin(segment, (missing, limit), end, begin);
        (Class::Read(class), self.over(request, missing, &passes[..(end - missing) as usize], ready))
    }

    /// Returns when a read finishes whose sectors from `missing` on pass as given, with its processing finished at
    /// `ready`.
    fn over(&self, request: &Request, missing: u64, passes: &[Pass], ready: u64) -> u64 {
        let begins: Vec<u64> = passes.iter().map(|pass| pass.begin).collect();
        let passed = passes[passes.len() - 1].end;
        let sent = read_over(&self.spec, request, missing, (&begins, passed), (ready, 0));
        sent + self.spec.interface.overhead.completion.0
    }

    fn missing(&self, start: u64, end: u64) -> Option<u64> {
        (start..end).find(|sector| !self.segments.iter().any(|segment| segment.sectors.contains(sector)))
    }

    /// Serves a full hit: read-ahead is extended by the host's progress, or resumed.
    fn hit(&mut self, start: u64, end: u64, now: u64) {
        let holds = |segment: &Segment| segment.sectors.contains(&(end - 1));
        let segment = self.segments.iter().position(holds).expect("held");
        self.used(segment, start, end);
        let limit = self.limit(segment, end);
        if self.access.is_some() {
            if self.access.as_ref().is_some_and(|access| access.segment == segment) {
                self.extend(limit);
            }
        } else if self.spec.cache.read_ahead.resume_on_hit {
            let from = self.segments[segment].end();
            if from < limit {
                self.begin(segment, (from, limit), from, now);
            }
        }
    }

    /// Returns the passes of the missing sectors of an active hit, if the running access reaches the first of them.
    fn join(&mut self, missing: u64, (start, end): (u64, u64), now: u64) -> Option<Vec<Pass>> {
        let access = self.access.as_ref()?;
        let next = access.passes.iter().find(|pass| pass.end > now).expect("under way").lba;
        let stop = access.passes.last().expect("some").lba + 1;
        if missing < next || missing > stop {
            return None;
        }
        let segment = access.segment;
        self.used(segment, start, end);
        let limit = self.limit(segment, end);
        self.extend(limit);
        let access = self.access.as_mut().expect("under way");
        access.demand = access.demand.max(end);
        Some(access.passes.iter().filter(|pass| (missing..end).contains(&pass.lba)).copied().collect())
    }

    fn begin(&mut self, segment: usize, (first, limit): (u64, u64), demand: u64, now: u64) -> Vec<Pass> {
        let passes = self.mechanism.transfer((first, limit), now, false, |_| 0);
        self.access = Some(Access { segment, begun: now, passes: passes.clone(), demand, filled: 0 });
        passes
    }

    fn extend(&mut self, limit: u64) {
        let access = self.access.as_mut().expect("under way");
        let last = access.passes.last().expect("some");
        if limit > last.lba + 1 {
            let mut end = last.end;
            for lba in last.lba + 1..limit {
                access.passes.push(self.mechanism.go_on(lba, end, false, 0));
                end = access.passes[access.passes.len() - 1].end;
            }
        }
    }

    /// Advances time: sectors arrive, and the access may end.
    fn until(&mut self, now: u64) {
        let Some(access) = &mut self.access else { return };
        let last = access.passes.last().expect("some").end;
        self.fill(now);
        if last <= now {
            self.end(last);
        }
    }

    /// Adds the sectors that have passed to the segment.
    fn fill(&mut self, now: u64) {
        let access = self.access.as_mut().expect("under way");
        let come: Vec<u64> = access.passes[access.filled..]
            .iter()
            .take_while(|pass| pass.end <= now)
            .map(|pass| pass.lba)
            .collect();
        access.filled += come.len();
        let segment = &mut self.segments[access.segment];
        segment.sectors.extend(come);
        self.evicted.extend(segment.leaving());
    }

    fn end(&mut self, end: u64) {
        let access = self.access.take().expect("under way");
        let data: u64 = access.passes.iter().map(|pass| pass.end - pass.begin).sum();
        self.time[0] += end - access.begun - data;
        self.time[1] += data;
    }

    /// Cuts the running access for a read that is ready at `ready`; returns when the arm is free.
    fn cut(&mut self, ready: u64) -> u64 {
        self.until(ready);
        let ahead = &self.spec.cache.read_ahead;
        let Some(access) = &mut self.access else { return ready };
        let limit = access.passes.len();
        let first = access.passes[0].lba;
        let demand = (access.demand - first) as usize;
        let begun = access.passes.iter().take_while(|pass| pass.begin < ready).count();
        let must = begun.max(demand);
        let least = if ahead.idle_only { 0 } else { (demand + (ahead.min.0 / 512) as usize).min(limit) };
        let keep = must.max(least);
        // During positioning the arm reaches the next sector first.
        let sent = keep == begun && (begun == 0 || access.passes[begun - 1].end < ready);
        let (end, place) = match access.passes.get(keep) {
            Some(pass) if sent => (pass.begin, pass.lba),
            _ => (access.passes[keep - 1].end, access.passes[keep - 1].lba),
        };
        access.passes.truncate(keep);
        let sector = self.mechanism.platter.sectors[place as usize];
        (self.mechanism.cylinder, self.mechanism.head) = (sector.cylinder, sector.head);
        self.fill(end);
        self.end(end);
        end.max(ready)
    }

    fn class(&self, missing: u64) -> ReadClass {
        let window = self.spec.cache.near_window.map_or(self.even_share(), |window| window.0 / 512);
        let mut ends = self.segments.iter().filter_map(|segment| segment.sectors.last()).map(|last| last + 1);
        if self.evicted.contains(&missing) {
            ReadClass::PurgedMiss
        } else if ends.any(|end| end <= missing && missing < end + window) {
            ReadClass::NearMiss
        } else {
            ReadClass::PureMiss
        }
    }

    fn even_share(&self) -> u64 {
        self.spec.cache.size.0 / 512 / u64::from(self.spec.cache.segments.count)
    }

    fn used(&mut self, segment: usize, start: u64, end: u64) {
        let segment = &mut self.segments[segment];
        segment.used = self.clock;
        if segment.expected == Some(start) {
            segment.in_sequence += 1;
        } else if segment.expected != Some(end) {
            segment.in_sequence = 0;
        }
        (segment.expected, segment.last_read) = (Some(end), end - start);
        if self.spec.cache.segments.consumed == Consumed::Discard {
            segment.given_up = end;
            self.evicted.extend(segment.leaving());
        }
    }

    /// Returns the sector up to which to read when the host has read up to `end`.
    fn limit(&self, segment: usize, end: u64) -> u64 {
        let (segment, ahead) = (&self.segments[segment], &self.spec.cache.read_ahead);
        let sectors = &self.mechanism.platter.sectors;
        let last = sectors[end as usize - 1];
        let by_cylinder = self.spec.geometry.layout != Layout::Serpentine;
        let same_track = |lba: &u64| sectors[*lba as usize].home_track == last.home_track;
        let same_cylinder = |lba: &u64| sectors[*lba as usize].home_cylinder == last.home_cylinder;
        let capacity = self.mechanism.platter.capacity();
        let consumed = self.spec.cache.segments.consumed;
        let stays = if consumed == Consumed::Discard { 0 } else { segment.last_read };
        let beside_last_read = segment.capacity.saturating_sub(stays);
        let track_end = end + (end..capacity).take_while(same_track).count() as u64;
        let reach = match ahead.mode {
            ReadAheadMode::Off => end,
            ReadAheadMode::TrackEnd => track_end,
            ReadAheadMode::NextTrack => {
                let next =
                    |lba: &u64| sectors[*lba as usize].home_track == sectors[track_end as usize].home_track;
                track_end + (track_end..capacity).take_while(next).count() as u64
            }
            ReadAheadMode::CylinderEnd if by_cylinder => {
                end + (end..capacity).take_while(same_cylinder).count() as u64
            }
            ReadAheadMode::CylinderEnd => track_end,
            ReadAheadMode::Segment => end + beside_last_read,
            ReadAheadMode::Fixed => capacity,
        };
        let keeps = consumed == Consumed::Keep;
        let most = end + (ahead.max.0 / 512).min(if keeps { beside_last_read } else { segment.capacity });
        if segment.in_sequence < ahead.after_sequential { end } else { reach.min(most).min(capacity) }
    }

    /// Returns the segment that the read continues, or a new one.
    fn segment_for(&mut self, missing: u64, end: u64) -> usize {
        let cache = self.spec.cache.clone();
        let ends = |index: &usize| missing > 0 && self.segments[*index].end() == missing;
        let candidates = (0..self.segments.len()).filter(ends);
        if let Some(continued) = candidates.max_by_key(|index| self.segments[*index].used) {
            return continued;
        }
        let room = cache.size.0 / 512;
        let ahead =
            if cache.read_ahead.mode == ReadAheadMode::Off { 0 } else { cache.read_ahead.max.0 / 512 };
        let capacity = match cache.segments.mode {
            SegmentMode::Fixed => self.even_share(),
            SegmentMode::Adaptive => (end - missing + ahead).min(room),
        };
        let full = |segments: &[Segment]| {
            segments.len() == cache.segments.count as usize
                || segments.iter().map(|segment| segment.capacity).sum::<u64>() + capacity > room
        };
        while full(&self.segments) {
            // Empty segments, whose content was all discarded, are replaced first.
            let order = |segment: &Segment| (!segment.sectors.is_empty(), segment.used);
            let first = (0..self.segments.len()).min_by_key(|index| order(&self.segments[*index]));
            self.evicted.extend(self.segments.swap_remove(first.expect("some")).sectors);
        }
        self.segments.push(Segment {
            sectors: Vec::new(),
            capacity,
            used: self.clock,
            expected: None,
            in_sequence: 0,
            last_read: 0,
            given_up: 0,
        });
        self.segments.len() - 1
    }
}

fn reading_ahead() -> impl Strategy<Value = Spec> {
    generate::drive().prop_map(|mut spec| {
        spec.cache.segments.replacement = Replacement::Lru;
        spec.cache.ghosts = 10_000;
        spec.cache.write.enabled = false;
        spec.cache.read_ahead.on_arrival = false;
        spec.check().expect("possible");
        spec
    })
}

proptest! {
    #![proptest_config(crate::cases(400))]

    #[test]
    fn classes_and_times_are_those_of_a_drive_that_keeps_lists_of_sectors(
        spec in reading_ahead(),
        steps in generate::load_of(Just(Op::Read), 40),
    ) {
        let mut naive = Naive::new(&spec);
        let mut requests = generate::requests(&steps, naive.mechanism.platter.capacity());
        let (mut expected, mut now): (Vec<Account>, u64) = (Vec::new(), 0);
        for (request, step) in requests.iter_mut().zip(&steps) {
            request.arrival = Nanos(now + step.gap);
            expected.push(naive.read(request));
            now = expected.last().expect("just pushed").1;
        }
        naive.until(u64::MAX);
        let story = run(&spec, &requests, Wake::Exactly);
        let found: Vec<Account> = story.completions.iter().map(|c| (class_of(c), c.finish.0)).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!([story.usage.time.read_seek.0, story.usage.time.read_data.0], naive.time);
    }
}

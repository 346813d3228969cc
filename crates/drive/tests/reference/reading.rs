//! Reads one at a time, with segments and read-ahead: classes, times, and what the mechanism did.
//!
//! Each read comes some time after the end of the one before: when its read-ahead is under way, cut, or over.

use proptest::prelude::*;
use sakiyomi_drive::spec::{Layout, ReadAheadMode, Replacement, SegmentMode};
use sakiyomi_model::{Class, Nanos, Op, ReadClass, Request};

use crate::generate::{self, Spec};
use crate::host::{Wake, link_time, run};
use crate::mechanism::{Mechanism, Pass};

/// A segment: its sectors in order, how many it may hold, and what the host reads out of it.
#[derive(Clone, Debug)]
struct Segment {
    sectors: Vec<u64>,
    capacity: u64,
    used: usize,
    expected: Option<u64>,
    in_sequence: u32,
    last_read: u64,
}

/// What the mechanism is reading.
#[derive(Clone, Debug)]
struct Access {
    segment: usize,
    begun: u64,
    /// Every sector up to where it will stop.
    passes: Vec<Pass>,
    /// The end of what was asked for.
    demand: u64,
    /// How many have been put into the segment.
    filled: usize,
}

/// What the naive drive says of a read: its class and its end.
type Account = (Class, u64);

struct Naive {
    spec: Spec,
    mechanism: Mechanism,
    segments: Vec<Segment>,
    evicted: Vec<u64>,
    access: Option<Access>,
    clock: usize,
    /// Read seek and read data.
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
            clock: 0,
            time: [0; 2],
        }
    }

    fn read(&mut self, request: &Request) -> Account {
        let (start, end, now) = (request.extent.start.0, request.extent.end().0, request.arrival.0);
        let overhead = self.spec.interface.overhead.clone();
        let sent = link_time(&self.spec, end - start) + overhead.completion.0;
        let ready = now + overhead.read_miss.after(false).0;
        self.clock += 1;
        self.until(now);
        let Some(missing) = self.missing(start, end) else {
            self.hit(start, end, now);
            return (Class::Read(ReadClass::FullHit), now + overhead.read_hit.after(false).0 + sent);
        };
        if let Some((coming, passed)) = self.join(missing, (start, end), now) {
            let over = self.over(request, missing, coming.max(ready), passed.max(ready));
            return (Class::Read(ReadClass::ActiveHit), over);
        }
        let begin = self.cut(ready);
        let missing = self.missing(start, end).expect("nothing came in the meantime");
        let class = self.class(missing);
        let segment = self.segment_for(missing, end);
        self.used(segment, start, end);
        let limit = self.limit(segment, end);
        let passes = self.begin(segment, (missing, limit), end, begin);
        let passed = passes[(end - missing) as usize - 1].end;
        (Class::Read(class), self.over(request, missing, passes[0].begin, passed))
    }

    /// When a read is over whose sectors from `missing` on are `coming` from then on, until all have `passed`.
    fn over(&self, request: &Request, missing: u64, coming: u64, passed: u64) -> u64 {
        let (start, end) = (request.extent.start.0, request.extent.end().0);
        let (interface, link) = (&self.spec.interface, |sectors| link_time(&self.spec, sectors));
        let completion = interface.overhead.completion.0;
        if !interface.overlap {
            return passed + link(end - start) + completion;
        }
        let processed = request.arrival.0 + interface.overhead.read_miss.after(false).0;
        let from = if missing > start && interface.immediate_partial { processed } else { coming };
        let last = (coming + link(end - missing)).max(passed + link(1));
        (from + link(end - start)).max(last) + completion
    }

    fn missing(&self, start: u64, end: u64) -> Option<u64> {
        (start..end).find(|sector| !self.segments.iter().any(|segment| segment.sectors.contains(sector)))
    }

    /// A full hit: read-ahead goes on as far as the host has read, or is resumed.
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
            let from = self.segments[segment].sectors.last().expect("not empty") + 1;
            if from < limit {
                self.begin(segment, (from, limit), from, now);
            }
        }
    }

    /// An active hit, if the running access gets to its first missing sector: when that begins to pass, and when the
    /// last one has passed.
    fn join(&mut self, missing: u64, (start, end): (u64, u64), now: u64) -> Option<(u64, u64)> {
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
        let pass = |lba| access.passes.iter().find(|pass| pass.lba == lba).expect("planned");
        Some((pass(missing).begin, pass(end - 1).end))
    }

    fn begin(&mut self, segment: usize, (first, limit): (u64, u64), demand: u64, now: u64) -> Vec<Pass> {
        let passes = self.mechanism.transfer((first, limit), now, false);
        self.access = Some(Access { segment, begun: now, passes: passes.clone(), demand, filled: 0 });
        passes
    }

    fn extend(&mut self, limit: u64) {
        let access = self.access.as_mut().expect("under way");
        let last = access.passes.last().expect("some");
        if limit > last.lba + 1 {
            let more = self.mechanism.transfer((last.lba + 1, limit), last.end, false);
            access.passes.extend(more);
        }
    }

    /// Time goes by: sectors come, and the access may end.
    fn until(&mut self, now: u64) {
        let Some(access) = &mut self.access else { return };
        let last = access.passes.last().expect("some").end;
        self.fill(now);
        if last <= now {
            self.end(last);
        }
    }

    /// What has passed comes into the segment.
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
        let surplus = segment.sectors.len().saturating_sub(segment.capacity as usize);
        self.evicted.extend(segment.sectors.drain(..surplus));
    }

    fn end(&mut self, end: u64) {
        let access = self.access.take().expect("under way");
        let data: u64 = access.passes.iter().map(|pass| pass.end - pass.begin).sum();
        self.time[0] += end - access.begun - data;
        self.time[1] += data;
    }

    /// A read needs the arm from `ready` on; returns when it has it.
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
        // On the way to a sector the arm gets there first.
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
    }

    /// How far to read when the host has read up to `end`.
    fn limit(&self, segment: usize, end: u64) -> u64 {
        let (segment, ahead) = (&self.segments[segment], &self.spec.cache.read_ahead);
        let sectors = &self.mechanism.platter.sectors;
        let last = sectors[end as usize - 1];
        let by_cylinder = self.spec.geometry.layout != Layout::Serpentine;
        let same_track = |lba: &u64| sectors[*lba as usize].home_track == last.home_track;
        let same_cylinder = |lba: &u64| sectors[*lba as usize].home_cylinder == last.home_cylinder;
        let capacity = self.mechanism.platter.capacity();
        let reach = match ahead.mode {
            ReadAheadMode::Off => end,
            ReadAheadMode::TrackEnd => end + (end..capacity).take_while(same_track).count() as u64,
            ReadAheadMode::CylinderEnd if by_cylinder => {
                end + (end..capacity).take_while(same_cylinder).count() as u64
            }
            ReadAheadMode::CylinderEnd => end + (end..capacity).take_while(same_track).count() as u64,
            ReadAheadMode::Segment => end + segment.capacity.saturating_sub(segment.last_read),
            ReadAheadMode::Fixed => capacity,
        };
        let most = end + (ahead.max.0 / 512).min(segment.capacity);
        if segment.in_sequence < ahead.after_sequential { end } else { reach.min(most).min(capacity) }
    }

    /// The segment that the read continues, or a new one.
    fn segment_for(&mut self, missing: u64, end: u64) -> usize {
        let cache = self.spec.cache.clone();
        let ends = |segment: &Segment| segment.sectors.last().is_some_and(|last| last + 1 == missing);
        let candidates = (0..self.segments.len()).filter(|index| ends(&self.segments[*index]));
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
            let oldest = (0..self.segments.len()).min_by_key(|index| self.segments[*index].used);
            self.evicted.extend(self.segments.swap_remove(oldest.expect("some")).sectors);
        }
        self.segments.push(Segment {
            sectors: Vec::new(),
            capacity,
            used: self.clock,
            expected: None,
            in_sequence: 0,
            last_read: 0,
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
        let found: Vec<Account> = story.completions.iter().map(|c| (c.class, c.finish.0)).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!([story.usage.time.read_seek.0, story.usage.time.read_data.0], naive.time);
    }
}

//! Reads one at a time, with segments and read-ahead: classes, times, and what the mechanism did.
//!
//! The host waits two seconds after each read, so that every read-ahead runs to its end.

use proptest::prelude::*;
use sakiyomi_drive::spec::{ReadAheadMode, Replacement, SegmentMode};
use sakiyomi_model::{Class, Nanos, Op, ReadClass, Request};

use crate::generate::{self, Spec};
use crate::host::{Wake, link_time, run};
use crate::mechanism::Mechanism;

const PAUSE: u64 = 2_000_000_000;

/// A segment: its sectors in order, and when it was last used.
type Segment = (Vec<u64>, usize);

/// What the naive drive says of a read: its class and its end.
type Account = (Class, u64);

struct Naive {
    spec: Spec,
    mechanism: Mechanism,
    segments: Vec<Segment>,
    evicted: Vec<u64>,
    /// Read seek and read data.
    time: [u64; 2],
}

impl Naive {
    fn read(&mut self, request: &Request, clock: usize) -> Account {
        let (start, end, now) = (request.extent.start.0, request.extent.end().0, request.arrival.0);
        let overhead = self.spec.interface.overhead.clone();
        let sent = link_time(&self.spec, end - start) + overhead.completion.0;
        let held = |sector: &u64| self.segments.iter().any(|(sectors, _)| sectors.contains(sector));
        let Some(missing) = (start..end).find(|sector| !held(sector)) else {
            let used = self.segments.iter_mut().find(|(sectors, _)| sectors.contains(&(end - 1)));
            used.expect("held").1 = clock;
            return (Class::Read(ReadClass::FullHit), now + overhead.read_hit.after(false).0 + sent);
        };
        let class = self.class(missing);
        let begin = now + overhead.read_miss.after(false).0;
        let until = self.fill(missing, end, clock);
        let passes = self.mechanism.transfer((missing, until), begin, false);
        let data: u64 = passes.iter().map(|pass| pass.end - pass.begin).sum();
        self.time[0] += passes.last().expect("at least one").end - begin - data;
        self.time[1] += data;
        (Class::Read(class), passes[(end - missing) as usize - 1].end + sent)
    }

    fn class(&self, missing: u64) -> ReadClass {
        let cache = &self.spec.cache;
        let share = cache.size.0 / 512 / u64::from(cache.segments.count);
        let window = cache.near_window.map_or(share, |window| window.0 / 512);
        let ends = self.segments.iter().filter_map(|(sectors, _)| sectors.last()).map(|last| last + 1);
        if self.evicted.contains(&missing) {
            ReadClass::PurgedMiss
        } else if ends.into_iter().any(|end| end <= missing && missing < end + window) {
            ReadClass::NearMiss
        } else {
            ReadClass::PureMiss
        }
    }

    /// Puts a read and its read-ahead into a segment; returns where the read-ahead ends.
    fn fill(&mut self, missing: u64, end: u64, clock: usize) -> u64 {
        let cache = &self.spec.cache;
        let capacity = cache.size.0 / 512 / u64::from(cache.segments.count);
        let ahead = (cache.read_ahead.max.0 / 512).min(capacity);
        let until = (end + ahead).min(self.mechanism.platter.capacity());
        let continued = self
            .segments
            .iter()
            .position(|(sectors, _)| sectors.last().is_some_and(|last| last + 1 == missing));
        let index = continued.unwrap_or_else(|| {
            if self.segments.len() == cache.segments.count as usize {
                let oldest =
                    (0..self.segments.len()).min_by_key(|index| self.segments[*index].1).expect("some");
                self.evicted.extend(self.segments.swap_remove(oldest).0);
            }
            self.segments.push((Vec::new(), clock));
            self.segments.len() - 1
        });
        let (sectors, used) = &mut self.segments[index];
        *used = clock;
        sectors.extend(missing..until);
        let surplus = sectors.len().saturating_sub(capacity as usize);
        self.evicted.extend(sectors.drain(..surplus));
        until
    }
}

fn reading_ahead() -> impl Strategy<Value = Spec> {
    generate::drive().prop_map(|mut spec| {
        spec.cache.segments.mode = SegmentMode::Fixed;
        spec.cache.segments.replacement = Replacement::Lru;
        spec.cache.ghosts = 10_000;
        spec.cache.write.enabled = false;
        let ahead = &mut spec.cache.read_ahead;
        (ahead.mode, ahead.after_sequential, ahead.on_arrival, ahead.resume_on_hit) =
            (ReadAheadMode::Fixed, 0, false, false);
        spec.interface.overlap = false;
        spec.check().expect("possible");
        spec
    })
}

proptest! {
    #![proptest_config(crate::cases(150))]

    #[test]
    fn classes_and_times_are_those_of_a_drive_that_keeps_lists_of_sectors(
        spec in reading_ahead(),
        steps in generate::load_of(Just(Op::Read), 40),
    ) {
        let mechanism = Mechanism::new(&spec);
        let mut requests = generate::requests(&steps, mechanism.platter.capacity());
        for (index, request) in requests.iter_mut().enumerate() {
            request.arrival += Nanos(PAUSE * index as u64);
        }
        let mut naive =
            Naive { spec: spec.clone(), mechanism, segments: Vec::new(), evicted: Vec::new(), time: [0; 2] };
        let expected: Vec<Account> =
            requests.iter().enumerate().map(|(clock, request)| naive.read(request, clock + 1)).collect();
        let story = run(&spec, &requests, Wake::Exactly);
        let found: Vec<Account> = story.completions.iter().map(|c| (c.class, c.finish.0)).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!([story.usage.time.read_seek.0, story.usage.time.read_data.0], naive.time);
    }
}

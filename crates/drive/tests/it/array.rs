//! Arrays over any devices: what members are accessed, and that every request ends.

use std::collections::BTreeMap;

use crate::common::{Random, bare, with};
use proptest::prelude::*;
use sakiyomi_drive::fixed::{Fixed, FixedSpec};
use sakiyomi_drive::spec::{ArraySpec, RaidLevel};
use sakiyomi_drive::{Array, Disk, Simulated};
use sakiyomi_model::{
    Bytes, Completion, Device, Extent, Full, Lba, Nanos, Op, Outcome, Request, RequestId, Sectors, StreamId,
};

/// A device that notes its requests.
struct Noted {
    device: Fixed,
    requests: Vec<Request>,
}

impl Device for Noted {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        self.device.submit(now, request)?;
        self.requests.push(request);
        Ok(())
    }
    fn next_event(&self) -> Option<Nanos> {
        self.device.next_event()
    }
    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.device.advance(now, done);
    }
    fn capacity(&self) -> Sectors {
        self.device.capacity()
    }
    fn sector(&self) -> Bytes {
        self.device.sector()
    }
    fn depth(&self) -> u32 {
        self.device.depth()
    }
    fn busy(&self, now: Nanos) -> Nanos {
        self.device.busy(now)
    }
}

fn array(text: &str, failed: &[u32]) -> Array<Noted> {
    let spec = ArraySpec { failed: failed.to_vec(), ..text.parse().expect("an array") };
    let device: FixedSpec = "latency=1ms,parallel=2,size=8MiB".parse().expect("a device");
    let members = (0..spec.members).map(|_| Noted { device: Fixed::new(device, 1), requests: Vec::new() });
    Array::new(&spec, members.collect())
}

fn request(id: u64, op: Op, start: u64, sectors: u64) -> Request {
    let extent = Extent::new(Lba(start), Sectors(sectors));
    Request { id: RequestId(id), stream: StreamId(0), op, fua: false, extent, arrival: Nanos::ZERO }
}

/// Submits all requests, as the array takes them, and returns the completions.
fn run(array: &mut impl Device, requests: &[Request]) -> Vec<Completion> {
    let (mut done, mut now) = (Vec::new(), Nanos::ZERO);
    for request in requests {
        while array.submit(now, *request).is_err() {
            now = array.next_event().expect("a full array has work");
            array.advance(now, &mut done);
        }
    }
    while done.len() < requests.len() {
        now = array.next_event().expect("requests are outstanding");
        array.advance(now, &mut done);
    }
    done
}

/// Returns the numbers of reads and writes of each member.
fn accesses(array: &Array<Noted>) -> Vec<(usize, usize)> {
    let count = |member: &Noted, op| member.requests.iter().filter(|request| request.op == op).count();
    array.members().map(|member| (count(member, Op::Read), count(member, Op::Write))).collect()
}

#[test]
fn reads_of_a_mirror_are_balanced() {
    let mut mirror = array("raid1:4", &[]);
    let reads: Vec<Request> = (0..400).map(|id| request(id, Op::Read, id * 37 % 16_000, 8)).collect();
    run(&mut mirror, &reads);
    assert!(accesses(&mirror).iter().all(|(reads, _)| (95..=105).contains(reads)), "{:?}", accesses(&mirror));
    let mut pairs = array("raid10:4:4KiB", &[1]);
    run(&mut pairs, &reads);
    assert_eq!(accesses(&pairs)[1], (0, 0), "the failed drive of a pair is not read");
}

#[test]
fn a_small_write_reads_before_it_writes() {
    for (text, accessed) in [("raid5:5:64KiB", 2), ("raid6:5:64KiB", 3)] {
        let mut array = array(text, &[]);
        let done = run(&mut array, &[request(0, Op::Write, 130, 8)]);
        let used = accesses(&array).into_iter().filter(|used| *used == (1, 1)).count();
        assert_eq!(used, accessed, "{text}");
        assert_eq!(done[0].finish, Nanos::MILLISECOND * 2, "reads take a latency, then writes");
    }
}

#[test]
fn a_long_write_of_whole_rows_is_one_write_per_member() {
    for (text, members) in [("raid5:5:4KiB", 5), ("raid6:6:4KiB", 6)] {
        let mut array = array(text, &[]);
        let done = run(&mut array, &[request(0, Op::Write, 0, 4 * 8 * 10)]);
        assert_eq!(accesses(&array), vec![(0, 1); members], "{text}");
        assert_eq!(done[0].finish, Nanos::MILLISECOND);
    }
}

#[test]
fn a_request_that_needs_lost_data_fails_and_no_other() {
    // The check of a description would refuse this one.
    let mut array = array("raid0:4:4KiB", &[2]);
    let outcome = |array: &mut Array<Noted>, op, start| run(array, &[request(0, op, start, 8)])[0].outcome;
    assert_eq!(
        [0, 8, 16, 24].map(|start| outcome(&mut array, Op::Read, start) == Outcome::Done),
        [true, true, false, true]
    );
    assert_eq!(outcome(&mut array, Op::Flush, 0), Outcome::Done);
}

#[test]
fn four_drives_serve_random_reads_four_times_as_fast() {
    let rate = |settings: &[(&str, &str)]| {
        let mut disk = Disk::new(&with(settings)).unwrap();
        let mut random = Random::new(5);
        let capacity = disk.capacity().0;
        let reads: Vec<Request> =
            (0..2000).map(|id| request(id, Op::Read, random.below(capacity / 8 - 1) * 8, 8)).collect();
        let end = run(&mut disk, &reads).last().expect("reads").finish;
        let usage = disk.usage(end).time.total();
        assert_eq!(usage, end * disk_count(&disk), "the times of all drives add up");
        2000.0 / end.as_secs_f64()
    };
    let (one, four) = (rate(&[]), rate(&[("array.level", "raid0"), ("array.members", "4")]));
    assert!((3.4..4.4).contains(&(four / one)), "{one} and {four} reads a second");
    let mirror = rate(&[("array.level", "raid1"), ("array.members", "4")]);
    assert!(mirror / one > 3.4, "{one} and {mirror} reads a second");
    assert!(bare().array.is_none());
}

fn disk_count(disk: &Disk) -> u64 {
    match disk {
        Disk::Drive(_) => 1,
        Disk::Array(array) => array.members().count() as u64,
    }
}

fn arrays() -> impl Strategy<Value = (String, Vec<u32>)> {
    let level = prop::sample::select(vec!["raid0", "raid1", "raid5", "raid6", "raid10"]);
    (level, 0u32..3, prop::sample::select(vec!["512B", "1KiB", "4KiB", "24KiB"]), 0u32..8).prop_map(
        |(level, more, chunk, failed)| {
            let members = 4 + 2 * more;
            let failed = match level {
                "raid0" => vec![],
                "raid6" => vec![failed % members, (failed + 3) % members],
                _ => vec![failed % members],
            };
            (format!("{level}:{members}:{chunk}"), failed)
        },
    )
}

proptest! {
    /// Every request ends once; no member is accessed beyond its end; and what is read was placed there by the write of
    /// the same addresses, unless its member has failed.
    #[test]
    fn every_request_ends_once_and_reads_what_was_written(
        (text, failed) in arrays(),
        degraded in any::<bool>(),
        extents in prop::collection::vec((0u64..4000, 1u64..80), 1..20),
    ) {
        let failed = if degraded { failed } else { vec![] };
        let mut array = array(&text, &failed);
        let write = |(id, (start, sectors)): (u64, &(u64, u64))| request(id, Op::Write, *start, *sectors);
        let writes: Vec<Request> = (0..).zip(&extents).map(write).collect();
        let reads: Vec<Request> = writes.iter().map(|write| Request { op: Op::Read, ..*write }).collect();
        let mut after_writes = Vec::new();
        for requests in [&writes, &reads] {
            after_writes = accesses(&array).into_iter().map(|(reads, writes)| reads + writes).collect();
            let done = run(&mut array, requests);
            let mut ends: BTreeMap<u64, usize> = BTreeMap::new();
            for completion in &done {
                prop_assert_eq!(completion.outcome, Outcome::Done);
                *ends.entry(completion.request.id.0).or_default() += 1;
            }
            prop_assert_eq!(ends.len(), requests.len());
            prop_assert_eq!(array.next_event(), None);
            prop_assert_eq!(array.outstanding(), 0);
        }
        for (number, member) in (0..).zip(array.members()) {
            prop_assert!(!failed.contains(&number) || member.requests.is_empty());
            let end = member.device.capacity().0;
            prop_assert!(member.requests.iter().all(|request| request.extent.end().0 <= end));
        }
        if failed.is_empty() {
            // Mirrors and data are read where they were written.
            for (member, first) in array.members().zip(after_writes) {
                let (before, reads) = member.requests.split_at(first);
                let written = |sector: u64| {
                    let mut writes = before.iter().filter(|request| request.op == Op::Write);
                    writes.any(|write| write.extent.start.0 <= sector && sector < write.extent.end().0)
                };
                for read in reads {
                    prop_assert_eq!(read.op, Op::Read);
                    prop_assert!((read.extent.start.0..read.extent.end().0).all(written), "{:?}", read);
                }
            }
        }
    }
}

#[test]
fn a_description_is_read_back() {
    for text in ["raid0:2:4096B", "raid5:4:64KiB", "raid10:8:1MiB"] {
        let spec: ArraySpec = text.parse().unwrap();
        assert_eq!(spec.to_string().parse::<ArraySpec>().unwrap(), spec);
    }
    assert_eq!("raid6:5".parse::<ArraySpec>().unwrap().level, RaidLevel::Raid6);
    let refused = |text: &str| text.parse::<ArraySpec>().unwrap_err().to_string();
    for (text, problem) in [
        ("raid4:4", "the levels are raid0, raid1, raid5, raid6 and raid10"),
        ("raid5", "the number of drives is missing"),
        ("raid5:x", "`x` is not a number of drives"),
        ("raid5:4:64KiB:1", "`1` is left over"),
    ] {
        assert!(refused(text).contains(problem), "{}", refused(text));
    }
}

//! Invariants of any drive, with any settings, under any load.

use proptest::collection::vec;
use proptest::prelude::*;
use sakiyomi_drive::Drive;
use sakiyomi_drive::log::DiskCause;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::{Class, Completion, Device, Nanos, Op, Outcome, ReadClass, Request, WriteClass};

use crate::generate::{self, Step};
use crate::host::{Story, Wake, class_of, run};

fn requests(spec: &DriveSpec, steps: &[Step]) -> Vec<Request> {
    generate::requests(steps, Drive::new(spec).expect("checked").capacity().0)
}

/// Each accepted command ends once, in order of time, and the parts of its time add up.
fn commands_are_conserved(story: &Story) {
    let mut ended: Vec<Request> = story.completions.iter().map(|completion| completion.request).collect();
    ended.sort_by_key(|request| request.id);
    assert_eq!(ended, story.accepted, "every accepted command ends exactly once");
    assert!(
        story.completions.windows(2).all(|pair| pair[0].finish <= pair[1].finish),
        "in order of finish time"
    );
    for completion in &story.completions {
        let parts = completion.detail.expect("a drive tells where the time went").breakdown;
        let sum = parts.queue + parts.overhead + parts.seek + parts.rotation + parts.transfer;
        assert_eq!(sum, completion.device_time(), "parts add up: {completion:?}");
        assert_eq!(completion.submitted, completion.request.arrival);
        class_fits(completion);
    }
}

fn class_fits(completion: &Completion) {
    let fits = match class_of(completion) {
        Class::Read(_) => completion.request.op == Op::Read,
        Class::Write(_) => completion.request.op == Op::Write,
        Class::Flush => completion.request.op == Op::Flush,
        Class::Discard => completion.request.op == Op::Discard,
        Class::Refused => true,
    };
    assert!(fits, "{completion:?}");
    assert_eq!(completion.outcome == Outcome::Error, class_of(completion) == Class::Refused);
    if completion.request.fua && completion.request.op == Op::Write {
        assert_ne!(
            class_of(completion),
            Class::Write(WriteClass::Absorbed),
            "forced unit access waits for the medium"
        );
    }
}

/// The mechanism's usage agrees with the disk log.
fn mechanism_is_accounted_for(story: &Story) {
    let mut busy_until = Nanos::ZERO;
    let (mut reading, mut writing, mut reads, mut writes) = (Nanos::ZERO, Nanos::ZERO, 0, 0);
    for access in story.disk() {
        assert!(access.start >= busy_until, "one access at a time: {access:?}");
        assert!(access.start + access.seek + access.rotation <= access.end, "{access:?}");
        busy_until = access.end;
        match access.cause {
            DiskCause::Clean => unreachable!("no shingled tracks"),
            DiskCause::Read | DiskCause::ReadAhead => {
                reading += access.end - access.start;
                reads += 1;
            }
            DiskCause::Write | DiskCause::Destage => {
                writing += access.end - access.start;
                writes += 1;
            }
        }
    }
    let (time, seeks) = (story.usage.time, story.usage.seeks);
    assert_eq!((time.read_seek + time.read_data, time.write_seek + time.write_data), (reading, writing));
    assert_eq!(time.total(), story.end);
    assert_eq!((seeks.read + seeks.read_near_miss, seeks.write), (reads, writes));
}

/// Exactly the misses and the writes that wait for the medium have an access of their own.
fn accesses_belong_to_misses(story: &Story) {
    for completion in &story.completions {
        let own = |cause| {
            let id = Some(completion.request.id);
            story.disk().filter(move |access| access.request == id && access.cause == cause).count()
        };
        let (reads, writes) = (own(DiskCause::Read), own(DiskCause::Write));
        match class_of(completion) {
            Class::Read(read) => {
                assert_eq!((reads, writes), (usize::from(!read.is_hit()), 0), "{completion:?}")
            }
            // A write that waited for space is destaged like any other.
            Class::Write(WriteClass::Media) => assert!(reads == 0 && writes <= 1, "{completion:?}"),
            _ => assert_eq!((reads, writes), (0, 0), "{completion:?}"),
        }
    }
    let near = |completion: &&Completion| class_of(completion) == Class::Read(ReadClass::NearMiss);
    assert_eq!(story.completions.iter().filter(near).count() as u64, story.usage.seeks.read_near_miss);
}

proptest! {
    #![proptest_config(crate::cases(200))]

    #[test]
    fn a_drive_and_what_its_settings_come_to_are_the_same(
        spec in generate::drive(),
        steps in generate::load(80),
    ) {
        let requests = requests(&spec, &steps);
        let effective = spec.effective();
        let named = DriveSpec { name: spec.name.clone(), ..effective.clone() };
        prop_assert_eq!(run(&spec, &requests, Wake::Exactly), run(&named, &requests, Wake::Exactly));
        prop_assert_eq!(&effective.effective(), &effective, "the effective drive is its own effective drive");
        // The limits list exactly the settings that are limited.
        prop_assert_eq!(spec.limits().is_empty(), named == *spec);
    }

    #[test]
    fn commands_time_and_accesses_are_conserved(spec in generate::drive(), steps in generate::load(60)) {
        let story = run(&spec, &requests(&spec, &steps), Wake::Exactly);
        commands_are_conserved(&story);
        mechanism_is_accounted_for(&story);
        accesses_belong_to_misses(&story);
    }

    #[test]
    fn coming_late_changes_nothing(
        spec in generate::drive(),
        steps in generate::load(50),
        delays in vec(prop_oneof![Just(0u64), 0u64..100_000, 0u64..50_000_000], 1..8),
    ) {
        let requests = requests(&spec, &steps);
        let exact = run(&spec, &requests, Wake::Exactly);
        for wake in [Wake::Never, Wake::Late(&delays)] {
            let late = run(&spec, &requests, wake);
            prop_assert_eq!(&exact.completions, &late.completions);
            prop_assert_eq!(&exact.log, &late.log);
            prop_assert_eq!(exact.usage.seeks, late.usage.seeks);
        }
        let again = run(&spec, &requests, Wake::Exactly);
        prop_assert!(again == exact, "the same input gives the same bytes");
    }

    #[test]
    fn time_never_runs_backwards_in_the_log(spec in generate::drive(), steps in generate::load(40)) {
        let story = run(&spec, &requests(&spec, &steps), Wake::Exactly);
        let times: Vec<Nanos> = story.log.iter().map(|event| match event {
            sakiyomi_drive::log::Event::Cache(cache) => cache.time,
            sakiyomi_drive::log::Event::Disk(disk) => disk.end,
        }).collect();
        prop_assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
        prop_assert!(story.cache().all(|change| change.time <= story.end));
    }
}

#[test]
fn a_drive_that_never_had_work_wants_nothing() {
    let spec = sakiyomi_drive::spec::BUILTIN[0].spec();
    assert_eq!(Drive::new(&spec).expect("built in").next_event(), None);
}

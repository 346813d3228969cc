//! Writes reach the medium: forced ones before they finish, all acknowledged ones before a flush finishes, the rest in
//! time.
//!
//! Checked against the disk log, sector by sector, under loads of all operations. A sector that has since been
//! overwritten or discarded need not reach the medium.

use proptest::prelude::*;
use sakiyomi_drive::log::{DiskCause, DiskEvent};
use sakiyomi_model::{Class, Completion, Nanos, Op, WriteClass};

use crate::generate::{self, Spec};
use crate::host::{Story, Wake, class_of, run};
use crate::mechanism::Mechanism;

fn story(spec: &Spec, steps: &[generate::Step]) -> Story {
    let capacity = Mechanism::new(spec).platter.capacity();
    run(spec, &generate::requests(steps, capacity), Wake::Exactly)
}

/// Returns the writes that were absorbed by the cache.
fn absorbed(story: &Story) -> impl Iterator<Item = &Completion> {
    story.completions.iter().filter(|completion| class_of(completion) == Class::Write(WriteClass::Absorbed))
}

/// Returns whether the medium had a write's `sector` by `until`, or the sector has since been overwritten or discarded.
fn reached(story: &Story, write: &Completion, sector: u64, until: Nanos) -> bool {
    let written = story.disk().any(|access| {
        let covers = (access.lba.0..access.lba.0 + access.wanted.0).contains(&sector);
        let writes = matches!(access.cause, DiskCause::Write | DiskCause::Destage);
        writes && covers && access.start >= write.submitted && access.end <= until
    });
    let replaced = || {
        story.completions.iter().any(|later| {
            let extent = later.request.extent;
            let covers = extent.start.0 <= sector && sector < extent.start.0.saturating_add(extent.sectors.0);
            let content = matches!(class_of(later), Class::Write(_) | Class::Discard);
            content && covers && later.request.id > write.request.id && later.submitted <= until
        })
    };
    written || replaced()
}

fn all_reached(story: &Story, write: &Completion, until: Nanos) -> bool {
    let extent = write.request.extent;
    (extent.start.0..extent.end().0).all(|sector| reached(story, write, sector, until))
}

fn destages(access: &DiskEvent, sector: u64) -> bool {
    access.cause == DiskCause::Destage && (access.lba.0..access.lba.0 + access.wanted.0).contains(&sector)
}

/// Checks that a sector was written before its first destage, and between any two destages.
fn once_for_each_write(story: &Story, sector: u64) {
    let writes: Vec<&Completion> = story
        .completions
        .iter()
        .filter(|c| matches!(class_of(c), Class::Write(_)) && !c.request.fua)
        .filter(|c| (c.request.extent.start.0..c.request.extent.end().0).contains(&sector))
        .collect();
    let mut before = Nanos::ZERO;
    let destages: Vec<&DiskEvent> = story.disk().filter(|access| destages(access, sector)).collect();
    assert!(destages.len() <= writes.len(), "sector {sector}: {destages:?} of {writes:?}");
    for access in destages {
        let anew = |write: &&&Completion| write.finish >= before && write.submitted <= access.start;
        assert!(writes.iter().any(|write| anew(&write)), "sector {sector}: {access:?} of {writes:?}");
        before = access.start;
    }
}

proptest! {
    #![proptest_config(crate::cases(150))]

    #[test]
    fn a_flush_ends_after_every_write_acknowledged_before_it_is_on_the_medium(
        spec in generate::drive(),
        steps in generate::load_of(prop_oneof![2 => Just(Op::Read), 6 => Just(Op::Write), 3 => Just(Op::Flush)], 60),
    ) {
        let story = story(&spec, &steps);
        for flush in story.completions.iter().filter(|completion| class_of(completion) == Class::Flush) {
            let before = |write: &&Completion| write.finish <= flush.submitted && write.request.id < flush.request.id;
            for write in absorbed(&story).filter(before) {
                prop_assert!(all_reached(&story, write, flush.finish), "{:?} before {:?}", write, flush);
            }
        }
    }

    #[test]
    fn a_write_that_does_not_use_the_cache_ends_after_its_own_access(
        spec in generate::drive(),
        steps in generate::load(50),
    ) {
        let story = story(&spec, &steps);
        let through = |c: &&Completion| c.request.fua || !spec.cache.write.enabled;
        for write in story.completions.iter().filter(|c| matches!(class_of(c), Class::Write(_))).filter(through) {
            let id = Some(write.request.id);
            let access = story.disk().find(|access| access.request == id).expect("an access of its own");
            prop_assert_eq!((access.lba, access.wanted), (write.request.extent.start, write.request.extent.sectors));
            prop_assert_eq!(access.cause, DiskCause::Write);
            prop_assert!(access.start >= write.submitted && access.end <= write.finish);
        }
    }

    #[test]
    fn nothing_goes_to_the_medium_before_it_has_come_nor_twice(
        spec in generate::drive(),
        steps in generate::load_of(prop_oneof![1 => Just(Op::Read), 12 => Just(Op::Write), 1 => Just(Op::Flush)], 80),
    ) {
        let story = story(&spec, &steps);
        let capacity = Mechanism::new(&spec).platter.capacity();
        for write in absorbed(&story) {
            let came = write.finish - spec.interface.overhead.completion;
            let last = write.request.extent.end().0 - 1;
            let early = story.disk().find(|access| {
                destages(access, last) && access.start > write.submitted && access.end < came
            });
            prop_assert!(early.is_none(), "{:?} holds {:?}", early, write);
        }
        for sector in 0..capacity {
            once_for_each_write(&story, sector);
        }
    }

    #[test]
    fn dirty_data_reaches_the_medium_in_the_end_where_a_timer_runs(
        mut spec in generate::drive(),
        steps in generate::load(40),
        delay in 1u64..50_000_000,
        by_age in any::<bool>(),
    ) {
        let write = &mut spec.cache.write;
        (write.enabled, write.idle_delay, write.max_age) = (true, Nanos(delay), Nanos::ZERO);
        if by_age {
            std::mem::swap(&mut write.idle_delay, &mut write.max_age);
        }
        spec.check().expect("possible");
        let story = story(&spec, &steps);
        for write in absorbed(&story) {
            prop_assert!(all_reached(&story, write, story.end), "{:?}", write);
        }
    }
}

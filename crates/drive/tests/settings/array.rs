//! Keys of arrays.

use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_drive::{Disk, Drive, Simulated};
use sakiyomi_model::{
    Completion, Device, Extent, Lba, Nanos, Op, Outcome, Request, RequestId, Sectors, StreamId,
};

use crate::common::{bare, with};

pub(crate) const KEYS: &[&str] =
    &["array.level", "array.members", "array.chunk", "array.failed", "array.rebuild"];

const CHUNK: u64 = 128;

fn array(settings: &[(&str, &str)]) -> Disk {
    Disk::new(&with(settings)).expect("a possible array")
}

fn command(disk: &mut Disk, op: Op, start: u64, sectors: u64) -> Completion {
    let now = disk.next_event().unwrap_or_default();
    let extent = Extent::new(Lba(start), Sectors(sectors));
    let (id, stream, fua) = (RequestId(7), StreamId(3), false);
    disk.submit(now, Request { id, stream, op, fua, extent, arrival: now }).expect("an idle array");
    let mut done = Vec::new();
    while done.is_empty() {
        let event = disk.next_event().expect("a command is outstanding");
        disk.advance(event, &mut done);
    }
    assert_eq!((done.len(), done[0].outcome, done[0].request.id), (1, Outcome::Done, id));
    done[0]
}

/// Returns the seeks of all drives for reading and writing.
fn accesses(disk: &Disk, end: Nanos) -> (u64, u64) {
    let seeks = disk.usage(end).seeks;
    (seeks.read + seeks.read_near_miss, seeks.write)
}

fn small_write(settings: &[(&str, &str)]) -> (u64, u64) {
    let mut disk = array(settings);
    let end = command(&mut disk, Op::Write, 5, 8).finish;
    accesses(&disk, end)
}

#[test]
fn level_decides_what_a_small_write_costs() {
    let write = |level| small_write(&[("array.level", level), ("array.members", "6")]);
    assert_eq!(["raid0", "raid1", "raid10"].map(write), [(0, 1), (0, 6), (0, 2)]);
    assert_eq!(["raid5", "raid6"].map(write), [(2, 2), (3, 3)]);
}

#[test]
fn members_and_level_decide_the_capacity() {
    let single = Drive::new(&bare()).unwrap().capacity().0 / CHUNK * CHUNK;
    let capacity = |level, members| array(&[("array.level", level), ("array.members", members)]).capacity().0;
    assert_eq!(capacity("raid0", "5"), 5 * single);
    assert_eq!(capacity("raid5", "5"), 4 * single);
    assert_eq!(capacity("raid6", "5"), 3 * single);
    assert_eq!(capacity("raid10", "6"), 3 * single);
    assert_eq!(capacity("raid1", "3"), Drive::new(&bare()).unwrap().capacity().0);
    assert_eq!(Disk::new(&bare()).unwrap().capacity(), Drive::new(&bare()).unwrap().capacity());
}

#[test]
fn chunk_decides_how_many_drives_a_read_takes() {
    let reads = |chunk| {
        let mut disk = array(&[("array.members", "4"), ("array.chunk", chunk)]);
        let end = command(&mut disk, Op::Read, 0, 32).finish;
        accesses(&disk, end).0
    };
    assert_eq!(["4KiB", "8KiB", "16KiB", "1MiB"].map(reads), [4, 2, 1, 1]);
}

#[test]
fn a_failed_drive_is_read_from_all_others() {
    let reads = |failed| {
        let settings = [("array.level", "raid5"), ("array.members", "5"), ("array.failed", failed)];
        let mut disk = array(&settings);
        let end = command(&mut disk, Op::Read, 0, 8).finish;
        accesses(&disk, end).0
    };
    // Row 0 has its data on drives 0 to 3.
    assert_eq!(["[]", "[1]", "[0]"].map(reads), [1, 1, 4]);
}

#[test]
fn rebuild_restores_a_failed_drive_at_its_rate() {
    let end_of_rebuild = |rate| {
        let settings = [("array.level", "raid5"), ("array.failed", "[2]"), ("array.rebuild", rate)];
        let mut disk = array(&settings);
        let mut now = Nanos::ZERO;
        while let Some(event) = disk.next_event() {
            now = event;
            disk.advance(event, &mut Vec::new());
        }
        let Disk::Array(array) = &disk else { unreachable!("an array was described") };
        assert!(!array.is_rebuilding());
        let end = command(&mut disk, Op::Read, 2 * CHUNK, 8).finish;
        (now, accesses(&disk, end).0)
    };
    let (end, reads) = end_of_rebuild("4MB");
    let bytes = Drive::new(&bare()).unwrap().capacity().0 as f64 * 512.0;
    assert!((end.as_secs_f64() / (bytes / 4e6) - 1.0).abs() < 0.01, "{end} for {bytes} bytes");
    let (slower, _) = end_of_rebuild("2MB");
    assert!(
        (slower.as_secs_f64() / end.as_secs_f64() - 2.0).abs() < 0.02,
        "{slower} at half the rate of {end}"
    );
    assert!(reads > 0);
}

#[test]
fn impossible_arrays_are_refused_by_key() {
    let refused =
        |settings: &[(&str, &str)]| bare().with_settings(settings.iter().copied()).unwrap_err().to_string();
    for (settings, problem) in [
        (
            &[("array.level", "raid6"), ("array.members", "3")][..],
            "array.members: 3; raid6 has 4 to 64 drives",
        ),
        (
            &[("array.level", "raid10"), ("array.members", "5")],
            "array.members: 5; raid10 has pairs of drives",
        ),
        (&[("array.chunk", "1000")], "array.chunk: 1000B; expected whole sectors, up to 1GiB"),
        (&[("array.failed", "[9]")], "array.failed: [9]; expected different drives from 0 to 3"),
        (&[("array.failed", "[1]")], "array.failed: [1]; raid0 loses data without these drives"),
        (
            &[("array.level", "raid10"), ("array.failed", "[2, 3]")],
            "array.failed: [2, 3]; raid10 loses data without these drives",
        ),
        (
            &[("array.level", "raid5"), ("array.rebuild", "3")],
            "array.rebuild: 3B per second; expected 0, or at least 1kB",
        ),
    ] {
        assert_eq!(refused(settings), format!("test drive: {problem}"));
    }
    let spec = with(&[("array.level", "raid5")]);
    assert_eq!(
        Drive::new(&spec).unwrap_err().to_string(),
        "test drive: array: this needs a single drive; leave out the array"
    );
    assert_eq!(DriveSpec::from_toml(&spec.to_toml(), "itself").unwrap(), spec);
}

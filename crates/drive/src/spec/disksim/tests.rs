//! The five measured drives of DiskSim, small drives for each feature of the format, and invalid files.

use proptest::prelude::*;
use sakiyomi_model::{Bytes, Lba, Nanos};

use super::Imported;
use crate::geometry::Geometry;
use crate::spec::{
    Consumed, DriveSpec, Layout, Overhead, QueuePolicy, ReadAheadMode, SeekSpec, SignedNanos, SparesPer,
    SpecError, WriteShare,
};

macro_rules! shipped {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../../../traces/disksim/", $name)))),*]
    };
}

/// Files of `traces/disksim`.
const SHIPPED: &[(&str, &str)] = shipped![
    "atlas_III.diskspecs" "atlas_III.model" "atlas_III.parv" "atlas_III.seek"
    "barracuda.diskspecs" "barracuda.model" "barracuda.parv" "barracuda.seek"
    "cheetah9LP.diskspecs" "cheetah9LP.model" "cheetah9LP.parv" "cheetah9LP.seek"
    "hp_c2247a.diskspecs" "hp_c2247a_validate.model" "hp_c2247a.parv"
    "hp_c2490a.diskspecs" "hp_c2490a_validate.model" "hp_c2490a_validate.seek" "hp_c2490a.parv"
];

fn file(name: &str) -> Result<String, String> {
    let found = SHIPPED.iter().find(|file| file.0 == name);
    found.map(|file| file.1.to_owned()).ok_or_else(|| "no such file".to_owned())
}

fn measured(name: &str) -> Imported {
    let (disk, system) = (format!("{name}.diskspecs"), format!("{name}.parv"));
    let (text, above) = (file(&disk).unwrap(), file(&system).unwrap());
    DriveSpec::from_disksim(&text, &disk, Some((&above, &system)), &mut file).unwrap()
}

/// Returns cylinder, head and sector.
fn chs(spec: &DriveSpec, lba: u64) -> (u32, u32, u32) {
    let run = Geometry::new(&spec.geometry, &spec.servo).run(Lba(lba), 1);
    (run.cylinder, run.head, run.first)
}

#[test]
fn measured_drives_hold_their_block_counts() {
    let counts = [
        ("atlas_III", 17_783_250, 14_694),
        ("barracuda", 4_110_000, 107_582),
        ("cheetah9LP", 17_783_240, 135_147),
        ("hp_c2247a", 2_054_864, 0),
        ("hp_c2490a", 4_165_272, 0),
    ];
    for (name, count, beyond) in counts {
        let mut spec = measured(name).spec;
        let capacity = |spec: &DriveSpec| Geometry::new(&spec.geometry, &spec.servo).capacity().0;
        assert_eq!(capacity(&spec), count, "{name}");
        spec.geometry.sectors = None;
        assert_eq!(capacity(&spec) - count, beyond, "{name}");
    }
}

#[test]
fn sectors_of_the_atlas_lie_behind_its_reserved_cylinders() {
    let spec = measured("atlas_III").spec;
    // 128,000 sectors are 50 cylinders; sector 272,037 of the zone is slipped.
    assert_eq!(chs(&spec, 0), (50, 0, 0));
    assert_eq!([144_036, 144_037].map(|lba| chs(&spec, lba)), [(106, 2, 164), (106, 2, 166)]);
    // 616 · 2560 - 128,000 - 4 slips.
    assert_eq!([1_448_955, 1_448_956].map(|lba| chs(&spec, lba)), [(615, 9, 255), (616, 0, 0)]);
    assert_eq!(chs(&spec, 17_783_249), (8048, 2, 89));
}

#[test]
fn sectors_of_the_barracuda_leave_spares_at_the_end_of_every_six_cylinders() {
    let spec = measured("barracuda").spec;
    let zone = &spec.geometry.zones[0];
    assert_eq!((zone.spares, zone.spares_per, zone.spares_range), (88, SparesPer::Cylinder, 6));
    // 6 · 5 · 186 - 88 = 5492.
    assert_eq!([5491, 5492].map(|lba| chs(&spec, lba)), [(5, 4, 97), (6, 0, 0)]);
    // 1128 cylinders are 188 ranges; cylinder 1128 is in no zone.
    assert_eq!([188 * 5492 - 1, 188 * 5492].map(|lba| chs(&spec, lba)), [(1127, 4, 97), (1129, 0, 0)]);
}

#[test]
fn sectors_of_the_cheetah_slip_within_its_zones() {
    let spec = measured("cheetah9LP").spec;
    assert_eq!([168_316, 168_317].map(|lba| chs(&spec, lba)), [(55, 2, 168), (55, 2, 170)]);
    // 847 · 12 · 254 - 1270.
    assert_eq!(chs(&spec, 2_580_386), (848, 0, 0));
    // Cylinder 1, head 2: 11 · 97 + 133 + 2 · 97 sectors of skew, which is 124 and five turns.
    let geometry = Geometry::new(&spec.geometry, &spec.servo);
    let run = geometry.run(Lba(14 * 254), 1);
    assert_eq!((run.cylinder, run.head), (1, 2));
    assert_eq!(run.track_angle, Nanos(124 * geometry.revolution().0 / 254));
    assert_eq!(spec.servo.write_settle, SignedNanos(461_000));
    let SeekSpec::Table { points } = &spec.servo.seek else { panic!("{:?}", spec.servo.seek) };
    assert_eq!((points.len(), points[0]), (107, (0, Nanos(831_000))));
}

#[test]
fn sectors_of_the_hps_slip_whole_tracks() {
    let spec = measured("hp_c2247a").spec;
    // 17 tracks are reserved; track 468, the first of cylinder 36, is slipped.
    assert_eq!(chs(&spec, 0), (1, 4, 0));
    assert_eq!([43_295, 43_296].map(|lba| chs(&spec, lba)), [(35, 12, 95), (36, 1, 0)]);
    // 559 · 13 · 96 - 17 · 96 - 325 · 96.
    assert_eq!(chs(&spec, 664_800), (559, 0, 0));
    assert_eq!(chs(&spec, 2_054_863), (2046, 1, 55));
    assert_eq!(spec.geometry.zones[1].offset, 14.0);
    let SeekSpec::TwoPiece { threshold: 300, first, .. } = &spec.servo.seek else {
        panic!("{:?}", spec.servo.seek)
    };
    assert_eq!((first.len(), first[9]), (10, Nanos(4_990_000)));

    let second = measured("hp_c2490a");
    assert_eq!(chs(&second.spec, 0), (1, 4, 0));
    assert_eq!(second.spec.servo.write_settle, SignedNanos(-642_000));
    let cylinders = "Number of cylinders = 2629: the zones extend to cylinder 2629; the zones are taken";
    assert!(second.warnings.iter().any(|warning| warning == cylinders), "{:?}", second.warnings);
}

/// The measured seeks reach exactly from a drive's first address to its last. Two independent sources thus agree to the
/// cylinder on zones, spares, ranges and reserved space.
#[test]
fn the_longest_measured_seek_is_from_the_first_address_to_the_last() {
    for name in ["atlas_III", "barracuda", "cheetah9LP", "hp_c2490a"] {
        let spec = measured(name).spec;
        let SeekSpec::Table { points } = &spec.servo.seek else { panic!("{:?}", spec.servo.seek) };
        let last = chs(&spec, spec.geometry.sectors.unwrap() - 1).0;
        assert_eq!(points.last().unwrap().0, last - chs(&spec, 0).0, "{name}");
    }
}

#[test]
fn buffers_of_measured_drives_are_theirs() {
    let cheetah = measured("cheetah9LP").spec.cache;
    assert_eq!((cheetah.size, cheetah.segments.count), (Bytes(3 * 561 * 512), 3));
    assert_eq!((cheetah.write.enabled, cheetah.write.limit), (true, Bytes(3 * 561 * 512)));
    let hp = measured("hp_c2247a").spec.cache;
    assert_eq!((hp.size, hp.segments.count), (Bytes(256 * 512), 1), "the other segment is for writes");
    assert_eq!(
        (hp.write.enabled, hp.read_ahead.mode, hp.read_ahead.max),
        (false, ReadAheadMode::Segment, Bytes(128 * 512))
    );
    assert!(hp.read_ahead.resume_on_hit);
}

#[test]
fn the_bus_of_the_hp_c2247a_is_taken_and_given_up_as_its_file_says() {
    let us = |nanos: f64| Nanos((nanos * 1000.0).round() as u64);
    let overheads = |after_read: f64, after_write: f64, in_sequence: Option<f64>| Overhead::After {
        after_read: us(after_read),
        after_write: us(after_write),
        in_sequence: in_sequence.map(us),
    };
    let interface = measured("hp_c2247a").spec.interface;
    let overhead = interface.overhead;
    // 953.43 + 25.19 for preparation.
    assert_eq!(overhead.read_hit, Overhead::Same(us(978.62)));
    // 558.21 plus a disconnection is shorter than the minimum seek delay; after a write it is longer.
    assert_eq!(overhead.read_miss, overheads(600.0, 603.72, None));
    // The seek begins during command processing; after a write elsewhere, 250 after 642.44.
    assert_eq!(overhead.write_miss, overheads(600.0, 892.44, Some(600.0)));
    // 823.91 + 165.65 (disconnection) + 162.49 (reselection); or 642.44 + 45.51 + 428.85 + 162.49.
    assert_eq!(overhead.write_data, Some(overheads(1152.05, 1279.29, Some(1152.05))));
    assert_eq!(overhead.reconnect, us(25.19 + 162.49));
    assert_eq!((overhead.completion, overhead.completion_write), (us(56.65), Some(us(50.45 + 128.83))));
    assert_eq!(interface.read_watermark, 0.75);
    assert_eq!((interface.link_rate, interface.link_rate_write), (Bytes(3_009_994), Some(Bytes(2_740_019))));
}

#[test]
fn adaptive_read_ahead_of_the_atlas_needs_segments_of_a_track() {
    let cache = measured("atlas_III").spec.cache;
    assert_eq!((cache.size, cache.segments.count), (Bytes(6 * 256 * 512), 6));
    assert_eq!((cache.read_ahead.max, cache.read_ahead.after_sequential), (Bytes(256 * 512), 1));
    let cheetah = measured("cheetah9LP").spec.cache;
    assert_eq!((cheetah.read_ahead.max, cheetah.read_ahead.after_sequential), (Bytes(561 * 512), 0));
}

#[test]
fn a_system_file_alone_leads_to_its_drive() {
    let text = file("hp_c2247a.parv").unwrap();
    let alone = DriveSpec::from_disksim(&text, "hp_c2247a.parv", None, &mut file).unwrap();
    assert_eq!(alone, measured("hp_c2247a"));
}

#[test]
fn what_is_read_survives_its_own_file() {
    for name in ["atlas_III", "barracuda", "cheetah9LP", "hp_c2247a", "hp_c2490a"] {
        let spec = measured(name).spec;
        assert_eq!(DriveSpec::from_toml(&spec.to_toml(), name).unwrap(), spec);
    }
}

/// A drive with two zones, of which tests change some lines.
const SMALL: &str = "\
disksim_disk SMALL {
   Model = dm_disk SMALL_model {
      Number of data surfaces = 2,
      Number of cylinders = 20,
      Block count = 700,
      Layout Model = dm_layout_g1 {
         LBN-to-PBN mapping scheme = 0,
         Sparing scheme used = 0,
         Rangesize for sparing = 1,
         Zones = [
            dm_layout_g1_zone {
               First cylinder number = 0,
               Last cylinder number = 9,
               Blocks per track = 20,
               Offset of first block = 0,
               Empty space at zone front = 0,
               Skew for track switch = 2.5,
               Skew for cylinder switch = 4,
               Number of spares = 0,
               slips = [],
               defects = []
            },
            dm_layout_g1_zone {
               First cylinder number = 10,
               Last cylinder number = 19,
               Blocks per track = 15,
               Skew for track switch = 2,
               Skew for cylinder switch = 3
            }
         ]
      },
      Mechanical Model = dm_mech_g1 {
         Access time type = trackSwitchPlusRotation,
         Seek type = linear,
         Single cylinder seek time = 1.0,
         Average seek time = 2.0,
         Full strobe seek time = 3.0,
         Full seek curve = small.seek,
         HPL seek equation values = [ 5, 1.0, 0.5, 2.0, 0.1, -1.0 ],
         First ten seek times = [ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 ],
         Add. write settling delay = 0.25,
         Head switch time = 0.5,
         Rotation speed (in rpms) = 6000,
         Percent error in rpms = 0.0
      }
   },
   Time scale for overheads = 1.0,
   Bulk sector transfer time = 0.0512,
   Max queue length = 1,
   Scheduler = disksim_ioqueue {
      Scheduling policy = 1,
      Cylinder mapping strategy = 0,
      Scheduling timeout scheme = 0,
      Timeout time/weight = 6
   },
   Number of buffer segments = 4,
   Maximum number of write segments = 2,
   Segment size (in blks) = 10,
   Use separate write segment = 0,
   Allow read hits on write data = 1,
   Enable caching in buffer = 1,
   Buffer continuous read = 3,
   Minimum read-ahead (blks) = 0,
   Maximum read-ahead (blks) = 8,
   Read any free blocks = 0,
   Immediate buffer read = 0,
   Fast write level = 2,
   Combine seq writes = 1,
   Read hit over. after read = 0.1,
   Read hit over. after write = 0.2,
   Per-request overhead time = 0.0
} # end
";

const SYSTEM: &str = "\
disksim_bus FAST { Read block transfer time = 0.0, Write block transfer time = 0.0 }
disksim_bus SLOW { type = 1, Arbitration type = 1, Read block transfer time = 0.1024, Write block transfer time = 0.2048 }
disksim_ctlr CTLR { type = 1, Scale for delays = 0.0, Bulk sector transfer time = 0.0 }
instantiate [ bus0 ] as FAST
instantiate [ bus1 .. bus2 ] as SLOW
instantiate [ disk0 ] as OTHER
instantiate [ disk1 .. disk3 ] as SMALL
instantiate [ ctlr0 ] as CTLR
topology disksim_iodriver driver0 [ disksim_bus bus0 [
   disksim_disk disk0 [],
   disksim_ctlr ctlr0 [ disksim_bus bus1 [ disksim_disk disk1 [], disksim_disk disk2 [] ] ]
] ]
";

/// Returns `SMALL` with some text replaced.
fn changed(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(SMALL.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from} is not in the text");
        text.replacen(from, to, 1)
    })
}

fn seek_file(name: &str) -> Result<String, String> {
    match name {
        "small.seek" => Ok("Seek distances measured: 2\n1,\t0.5\n10,\t1.5\n".to_owned()),
        _ => Err("no such file".to_owned()),
    }
}

fn read(changes: &[(&str, &str)]) -> Result<Imported, SpecError> {
    DriveSpec::from_disksim(&changed(changes), "small.diskspecs", None, &mut seek_file)
}

fn spec(changes: &[(&str, &str)]) -> DriveSpec {
    read(changes).unwrap().spec
}

fn seek(changes: &[(&str, &str)], distance: u32) -> u32 {
    crate::seek::table(&spec(changes).servo.seek, 20)[distance as usize]
}

#[test]
fn a_plain_drive_gives_no_warning() {
    let small = read(&[]).unwrap();
    assert_eq!(small.warnings, [""; 0]);
    let spec = small.spec;
    assert_eq!((spec.name.as_str(), spec.geometry.heads, spec.geometry.sectors), ("SMALL", 2, Some(700)));
    assert_eq!(
        (spec.geometry.zones[0].track_skew, spec.geometry.zones[0].cylinder_skew),
        (Some(2.5), Some(4.0))
    );
    assert_eq!((spec.servo.rpm, spec.servo.head_switch), (6000.0, Nanos(500_000)));
    assert_eq!((spec.queue.depth, spec.queue.policy), (1, QueuePolicy::Fcfs));
    assert_eq!(spec.interface.link_rate, Bytes(10_000_000));
    let after =
        Overhead::After { after_read: Nanos(100_000), after_write: Nanos(200_000), in_sequence: None };
    assert_eq!(spec.interface.overhead.read_hit, after);
}

#[test]
fn mapping_schemes_are_the_orders_of_tracks() {
    let scheme =
        |number: &str| spec(&[("mapping scheme = 0", &format!("mapping scheme = {number}"))]).geometry.layout;
    assert_eq!(["0", "1", "2"].map(scheme), [Layout::Cylinder, Layout::Zigzag, Layout::Zigzag]);
}

#[test]
fn sparing_schemes_say_where_spares_lie() {
    let capacity = |scheme: &str, spares: &str, slips: &str| {
        let mut spec = spec(&[
            ("Sparing scheme used = 0", &format!("Sparing scheme used = {scheme}")),
            ("Rangesize for sparing = 1", "Rangesize for sparing = 4"),
            ("Number of spares = 0", &format!("Number of spares = {spares}")),
            ("slips = []", &format!("slips = [{slips}]")),
            ("Block count = 700", "Block count = 600"),
        ]);
        spec.geometry.sectors = None;
        (Geometry::new(&spec.geometry, &spec.servo).capacity().0, chs(&spec, 39))
    };
    assert_eq!(capacity("0", "0", ""), (700, (0, 1, 19)));
    assert_eq!(capacity("0", "0", "7, 3"), (698, (1, 0, 1)), "slips may stand in any order");
    assert_eq!(capacity("1", "2", "1"), (660, (1, 0, 19)), "spares and slips are tracks");
    assert_eq!(capacity("2", "3", "5"), (670, (1, 0, 2)));
    assert_eq!(capacity("3", "1", ""), (680, (1, 0, 1)));
    assert_eq!(capacity("7", "0", "5"), (699, (1, 0, 0)));
    assert_eq!(capacity("8", "6", "5"), (682, (1, 0, 0)), "ten cylinders are three ranges of four");
    assert_eq!(capacity("9", "6", "5"), (694, (1, 0, 0)));
}

#[test]
fn empty_space_and_defects_are_reserved_and_remapped() {
    let spec = spec(&[
        ("Sparing scheme used = 0", "Sparing scheme used = 9"),
        ("Empty space at zone front = 0", "Empty space at zone front = 21"),
        ("Offset of first block = 0", "Offset of first block = 3.5"),
        ("Number of spares = 0", "Number of spares = 4"),
        ("defects = []", "defects = [ [50, 399], 30, 398 ]"),
        ("Block count = 700", "Block count = 675"),
    ]);
    assert_eq!(spec.geometry.zones[0].remaps, [[30, 398], [50, 399]]);
    assert_eq!([0, 9, 10].map(|lba| chs(&spec, lba)), [(0, 1, 1), (9, 1, 18), (0, 1, 11)]);
    assert_eq!(spec.geometry.zones[0].offset, 3.5);
}

#[test]
fn seek_types_are_curves() {
    let kind = |name| [("Seek type = linear", name)];
    assert_eq!([1, 10, 19].map(|d| seek(&[], d)), [1_000_000, 2_000_000, 3_000_000]);
    assert_eq!([1, 19].map(|d| seek(&kind("Seek type = constant"), d)), [2_000_000; 2]);
    assert_eq!([1, 10].map(|d| seek(&kind("Seek type = extracted"), d)), [500_000, 1_500_000]);
    assert_eq!([1, 4, 5].map(|d| seek(&kind("Seek type = hpl"), d)), [1_500_000, 2_000_000, 2_500_000]);
    let hpl = [("Seek type = linear", "Seek type = hpl"), ("0.1, -1.0 ]", "0.1, 0.75 ]")];
    assert_eq!([1, 4].map(|d| seek(&hpl, d)), [750_000, 2_000_000]);
    assert_eq!(
        [1, 10, 11].map(|d| seek(&kind("Seek type = hplplus10"), d)),
        [1_000_000, 10_000_000, 3_100_000]
    );
    let curve = spec(&kind("Seek type = curve")).servo.seek;
    let [track_to_track, average, full_stroke] = [1, 2, 3].map(|ms| Nanos(ms * 1_000_000));
    assert_eq!(curve, SeekSpec::Datasheet { track_to_track, average, full_stroke });
}

#[test]
fn scheduling_policies_are_mapped_by_number() {
    let policy = |number| {
        let read = read(&[("Scheduling policy = 1", &format!("Scheduling policy = {number}"))]).unwrap();
        (read.spec.queue.policy, read.warnings.len())
    };
    use QueuePolicy::{CLook, Fcfs, Look, Sptf, Sstf};
    let expected = [(Fcfs, 0), (Look, 1), (CLook, 1), (Sstf, 1), (Look, 0), (CLook, 0), (Sstf, 0), (Sptf, 0)];
    assert_eq!([1, 2, 3, 4, 5, 6, 7, 8].map(policy), expected);
}

#[test]
fn the_buffer_is_cut_as_the_file_says() {
    let cache = |changes: &[(&str, &str)]| spec(changes).cache;
    let small = cache(&[]);
    assert_eq!((small.size, small.segments.count, small.write.limit), (Bytes(40 * 512), 4, Bytes(20 * 512)));
    assert!(small.write.enabled && small.write.coalesce && small.write.keep);
    let separate = ("Use separate write segment = 0", "Use separate write segment = 1");
    let apart = cache(&[separate]);
    assert_eq!((apart.write.share, apart.write.limit), (WriteShare::Separate, Bytes(5120)));
    assert_eq!((apart.size, apart.segments.count), (Bytes(40 * 512), 3));
    let off = ("Fast write level = 2", "Fast write level = 0");
    let without = cache(&[separate, off]);
    assert_eq!((without.write.enabled, without.size, without.segments.count), (false, Bytes(30 * 512), 3));
    let mode = |number| cache(&[("continuous read = 3", number)]).read_ahead.mode;
    use ReadAheadMode::{CylinderEnd, NextTrack, Off, TrackEnd};
    let numbers = ["0", "1", "2", "4"].map(|number| format!("continuous read = {number}"));
    assert_eq!(numbers.each_ref().map(|number| mode(number)), [Off, TrackEnd, CylinderEnd, NextTrack]);
    let both = [("free blocks = 0", "free blocks = 1"), ("buffer read = 0", "buffer read = 1")];
    assert!(cache(&both).read_ahead.on_arrival);
    assert_eq!(small.segments.consumed, Consumed::Discard);
    let kept = cache(&[("continuous read = 3", "continuous read = 3, Read-ahead over requested = 0")]);
    assert_eq!((kept.segments.consumed, kept.read_ahead.after_sequential), (Consumed::Keep, 0));
    let patient = cache(&[("continuous read = 3", "continuous read = 4, Read-ahead over requested = 0")]);
    assert_eq!((patient.segments.consumed, patient.read_ahead.after_sequential), (Consumed::Keep, 1));
    let read_once = cache(&[("caching in buffer = 1", "caching in buffer = 2")]);
    assert_eq!(read_once.segments.consumed, Consumed::Discard);
}

#[test]
fn the_link_is_as_slow_as_the_slowest_on_the_way() {
    let text = changed(&[]);
    let with = |system: &str| {
        let system = Some((system, "small.parv"));
        DriveSpec::from_disksim(&text, "small.diskspecs", system, &mut seek_file).unwrap()
    };
    let slow = with(SYSTEM);
    assert_eq!(slow.warnings, [""; 0]);
    assert_eq!(slow.spec.interface.link_rate, Bytes(5_000_000));
    assert_eq!(slow.spec.interface.link_rate_write, Some(Bytes(2_500_000)));
    let slower =
        with(&SYSTEM.replace("Bulk sector transfer time = 0.0 ", "Bulk sector transfer time = 0.512 "));
    assert_eq!(
        (slower.spec.interface.link_rate, slower.spec.interface.link_rate_write),
        (Bytes(1_000_000), None)
    );
    let above = with(
        &SYSTEM.replace("FAST { Read block transfer time = 0.0", "FAST { Read block transfer time = 0.5"),
    );
    let warning = "Read block transfer time = 500us: bus0 takes no time; only the drive's own bus and the controller above it do";
    assert_eq!(above.warnings, [warning]);
}

#[test]
fn what_is_not_modeled_is_said() {
    let cases = [
        (
            "Percent error in rpms = 0.0",
            "Percent error in rpms = 0.5",
            "Percent error in rpms = 0.5: the speed is exactly that of Rotation speed (in rpms)",
        ),
        (
            "Block count = 700",
            "Block count = 690",
            "Block count = 690: the zones hold 10 more sectors; these are at the end of the drive and have no address",
        ),
        (
            "Number of spares = 0",
            "Number of spares = 4",
            "Number of spares = 4: no spares in the zone; Sparing scheme used = 0 has none there",
        ),
        (
            "Fast write level = 2",
            "Fast write level = 1",
            "Fast write level = 1: any write that fits completes when its data is in the buffer, not only a sequential one",
        ),
        (
            "Combine seq writes = 1",
            "Combine seq writes = 1, Immediate buffer write = 1",
            "Immediate buffer write = 1: a write begins with its first sector",
        ),
        (
            "caching in buffer = 1",
            "caching in buffer = 0",
            "Enable caching in buffer = 0: data of the last commands stays in the buffer and can give hits",
        ),
        (
            "timeout scheme = 0",
            "timeout scheme = 2",
            "Scheduling timeout scheme = 2: a wait of 6 s gives no priority (then by policy 1); set queue.age_limit instead",
        ),
        (
            "Max queue length = 1",
            "Max queue length = 4, Hold bus entire read xfer = 1",
            "Allow sneaky full read hits = 0: a full hit is served before the command that uses the mechanism completes",
        ),
        (
            "free blocks = 0",
            "free blocks = 1",
            "Read any free blocks = 1 and Immediate buffer read = 0: both as 1; a read begins where the head settles, and the sectors that pass before the request are kept",
        ),
    ];
    for (from, to, warning) in cases {
        let warnings = read(&[(from, to)]).unwrap().warnings;
        assert_eq!(warnings, [warning], "{to}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let cases = [
        ("Block count = 700", "Block count = 0", "line 5: Block count: 0 sectors; a drive has at least one"),
        (
            "Block count = 700",
            "Block count = x",
            "line 5: Block count: `x`; expected a whole number from 0 to 1e15",
        ),
        (
            "Block count = 700",
            "block count = 700",
            "line 2: the block `dm_disk` lacks the field Block count; add it",
        ),
        (
            "Block count = 700",
            "Block count = 700,\nBlock count = 700",
            "line 6: Block count is given a second time; the first is on line 5",
        ),
        (
            "Block count = 700",
            "Block count = 700,\nBlocks = 1",
            "line 6: no field of `dm_disk` is called Blocks; correct the name, or comment the line out with #",
        ),
        (
            "Max queue",
            "max queue",
            "line 49: no field of `disksim_disk` is called max queue length; did you mean Max queue length?",
        ),
        (
            "First cylinder number = 10",
            "First cylinder number = 9",
            "line 24: First cylinder number: cylinder 9 lies inside the previous zone, which extends to cylinder 9",
        ),
        (
            "Last cylinder number = 19",
            "Last cylinder number = 9",
            "line 25: Last cylinder number: 9; expected no less than First cylinder number = 10",
        ),
        (
            "Blocks per track = 20",
            "Blocks per track = 0",
            "line 14: Blocks per track: 0 sectors; expected 1 to 100000",
        ),
        (
            "mapping scheme = 0",
            "mapping scheme = 3",
            "line 7: LBN-to-PBN mapping scheme: 3 is not a scheme; expected 0, 1 or 2",
        ),
        (
            "Sparing scheme used = 0",
            "Sparing scheme used = 4",
            "line 8: Sparing scheme used: 4 is not modeled; 0, 1, 2, 3, 7, 8 and 9 are",
        ),
        ("slips = []", "slips = [ 5, 5 ]", "line 20: slips: 5 is listed twice; leave one of the two"),
        (
            "defects = []",
            "defects = [ 5 ]",
            "line 21: defects: an odd number of sectors; expected pairs, the bad one and the one in its place",
        ),
        (
            "trackSwitchPlusRotation",
            "constant",
            "line 33: Access time type: constant is not modeled; expected trackSwitchPlusRotation, which is what drives do",
        ),
        (
            "Seek type = linear",
            "Seek type = quick",
            "line 34: Seek type: quick is not known; expected extracted, hpl, hplplus10, curve, linear or constant",
        ),
        (
            "Full strobe seek time = 3.0",
            "Full strobe seek time = 0.5",
            "line 37: Full strobe seek time: 500us is less than Single cylinder seek time = 1ms",
        ),
        (
            "Scheduling policy = 1",
            "Scheduling policy = 14",
            "line 51: Scheduling policy: 14 is not modeled; expected 1 (FCFS), 2 to 4 or 5 to 7 (elevator, cyclic elevator, SSTF; by address or by cylinder) or 8 (SPTF)",
        ),
        (
            "Buffer continuous read = 3",
            "Buffer continuous read = 5",
            "line 62: Buffer continuous read: 5; expected 0 to 4",
        ),
        (
            "Minimum read-ahead (blks) = 0",
            "Minimum read-ahead (blks) = 9",
            "line 63: Minimum read-ahead (blks): 9 is more than Maximum read-ahead (blks) = 8",
        ),
        (
            "number of write segments = 2",
            "number of write segments = 5",
            "line 57: Maximum number of write segments: 5 is more than Number of buffer segments = 4",
        ),
        (
            "Number of buffer segments = 4",
            "Number of buffer segments = 0",
            "line 56: Number of buffer segments: no buffer; a drive has a segment of at least a sector",
        ),
        (
            "caching in buffer = 1",
            "caching in buffer = 3",
            "line 61: Enable caching in buffer: 3; expected 0, 1 or 2",
        ),
        (
            "after read = 0.1",
            "after read = -0.1",
            "line 69: Read hit over. after read: `-0.1`; expected milliseconds, from 0 to 1000000",
        ),
        (
            "Time scale for overheads = 1.0",
            "Time scale for overheads = -1",
            "line 47: Time scale for overheads: -1; expected 0 to 1000",
        ),
        (
            "Layout Model = dm_layout_g1",
            "Layout Model = dm_layout_g4",
            "line 6: a block `dm_layout_g4`; expected `dm_layout_g1`",
        ),
        ("dm_layout_g1_zone {", "dm_zone {", "line 11: a block `dm_zone`; expected `dm_layout_g1_zone`"),
        (
            "Number of data surfaces = 2",
            "Number of data surfaces = [2]",
            "line 3: Number of data surfaces: a list; expected a whole number from 0 to 4294967295",
        ),
        (
            "= 1.0,\n   Bulk",
            "= 1.0\n   Bulk",
            "line 48: expected `,` or `}` after the value of `Time scale for overheads`, found `Bulk`",
        ),
    ];
    for (from, to, expected) in cases {
        let error = read(&[(from, to)]).unwrap_err().to_string();
        assert_eq!(error, format!("small.diskspecs: {expected}"), "{to}");
    }
    let curve = ("Seek type = linear", "Seek type = curve");
    let error =
        read(&[curve, ("Average seek time = 2.0", "Average seek time = 4.0")]).unwrap_err().to_string();
    assert!(
        error.contains("line 36: Average seek time: 4ms is not between Single cylinder seek time = 1ms"),
        "{error}"
    );
    let early = read(&[("front = 0", "front = 9"), ("slips = []", "slips = [ 5 ]")]).unwrap_err().to_string();
    assert!(
        early.contains("line 20: slips: 5 lies within the 9 sectors of empty space at the zone's front"),
        "{early}"
    );
    let odd = read(&[
        ("mapping scheme = 0", "mapping scheme = 2"),
        ("First cylinder number = 10", "First cylinder number = 11"),
    ]);
    assert!(odd.unwrap_err().to_string().contains("2 with zones that begin at odd cylinders is not modeled"));
    let impossible = read(&[("Number of data surfaces = 2", "Number of data surfaces = 300")]).unwrap_err();
    assert_eq!(impossible.to_string(), "small.diskspecs: geometry.heads: 300 heads; expected 1 to 256");
}

#[test]
fn further_files_are_asked_for_and_their_faults_are_theirs() {
    let with = |model: &str, source: &mut dyn FnMut(&str) -> Result<String, String>| {
        let (from, to) = (SMALL.find("dm_disk SMALL_model").unwrap(), SMALL.find("   Time scale").unwrap());
        let text = format!("{}{model},\n{}", &SMALL[..from], &SMALL[to..]);
        DriveSpec::from_disksim(&text, "small.diskspecs", None, source).unwrap_err().to_string()
    };
    let error = with("source away.model", &mut |_| Err("no such file".to_owned()));
    assert_eq!(error, "small.diskspecs: line 2: cannot read away.model: no such file");
    let error = with("source a.model", &mut |_| Ok("dm_disk A {\n x = 1 }".to_owned()));
    assert_eq!(error, "a.model: line 1: the block `dm_disk` lacks the field Number of data surfaces; add it");
    let error = with("source a.model", &mut |_| Ok("\nx".to_owned()));
    assert_eq!(error, "a.model: line 2: expected a name for the block `x`, found the end of the file");
    let error = with("source a.model", &mut |_| Ok(String::new()));
    assert_eq!(error, "a.model: 0 blocks in a file that is named by `source`; expected one");
    let error = with("nothing", &mut |_| Ok(String::new()));
    assert_eq!(error, "small.diskspecs: line 2: `nothing`; expected a block or `source FILE`");

    let extracted = changed(&[("Seek type = linear", "Seek type = extracted")]);
    for (table, expected) in [
        ("1, 2", "line 1: no line `Seek distances measured: N`; this is not a seek table"),
        (
            "Seek distances measured: 3\n1, 2",
            "line 2: 1 seek times, but the file announces 3; is it cut off?",
        ),
        (
            "Seek distances measured: 2\n3, 2\n2, 2",
            "line 3: distance 2 comes after a longer or equal one; sort the lines",
        ),
        (
            "Seek distances measured: 1\nx",
            "line 2: `x`; expected a distance in cylinders, a comma, and milliseconds",
        ),
        ("Seek distances measured: x", "line 1: Seek distances measured: x; expected a whole number"),
    ] {
        let error =
            DriveSpec::from_disksim(&extracted, "small.diskspecs", None, &mut |_| Ok(table.to_owned()));
        assert_eq!(error.unwrap_err().to_string(), format!("small.seek: {expected}"));
    }
    for text in ["", "disksim_bus B { }"] {
        let error = DriveSpec::from_disksim(text, "x", None, &mut seek_file).unwrap_err().to_string();
        assert_eq!(
            error,
            "x: no block `disksim_disk` and no `source` of a file with one; this is not a drive of DiskSim's"
        );
    }
    let twice = format!("{SMALL}{SMALL}");
    let error = DriveSpec::from_disksim(&twice, "x", None, &mut seek_file).unwrap_err().to_string();
    assert!(error.ends_with("a second `disksim_disk`; leave only the one to be read"), "{error}");
}

#[test]
fn what_contradicts_itself_is_said_and_decided() {
    let more = read(&[("Block count = 700", "Block count = 701")]).unwrap();
    assert_eq!(more.spec.geometry.sectors, Some(700));
    assert_eq!(more.warnings, ["Block count = 701: the zones hold 700; the drive has as many sectors"]);
    let warnings = |system: &str| {
        let read =
            DriveSpec::from_disksim(SMALL, "small.diskspecs", Some((system, "small.parv")), &mut seek_file);
        read.unwrap().warnings
    };
    let other = warnings(&SYSTEM.replace("as SMALL", "as LARGE").replace("as OTHER", "as LARGE"));
    let renamed = "instantiate … as LARGE: the drive's file calls it SMALL; its place is taken";
    assert!(other.iter().any(|warning| warning == renamed), "{other:?}");
}

#[test]
fn a_drive_without_a_name_is_called_after_its_file() {
    let text = SMALL.replace("disksim_disk SMALL", "disksim_disk");
    let read = DriveSpec::from_disksim(&text, "some/where/mine.diskspecs", None, &mut seek_file).unwrap();
    assert_eq!(read.spec.name, "mine");
}

#[test]
fn minus_one_is_no_limit() {
    let unlimited = |from: &str, key: &str| {
        let change = format!("{key} = -1");
        read(&[(from, &change)]).unwrap()
    };
    let queue = unlimited("Max queue length = 1", "Max queue length");
    assert_eq!(queue.spec.queue.depth, 256);
    let told = "Max queue length = -1: no limit; the drive accepts 256 commands";
    assert!(queue.warnings.iter().any(|warning| warning == told), "{:?}", queue.warnings);
}

#[test]
fn systems_must_have_the_drive() {
    let cases = [
        ("as SMALL", "as LARGE", "nothing is instantiated as SMALL; add `instantiate [ disk0 ] as SMALL`"),
        (
            "[ disk1 .. disk3 ]",
            "[ disk3 ]",
            "the topology has no disk disk3, which is a SMALL; add it below a bus",
        ),
        (
            "disksim_bus bus1 [",
            "disksim_ctlr bus1 [",
            "the disk disk1 is not connected to a bus in the topology",
        ),
        ("[ bus1 .. bus2 ]", "[ bus2 ]", "the topology has bus1, but no `instantiate [ bus1 ] as …`"),
        ("disksim_bus SLOW", "disksim_bus SLOWER", "bus1 is a SLOW, but no block disksim_bus SLOW is there"),
    ];
    for (from, to, expected) in cases {
        let system = SYSTEM.replace(from, to);
        let error =
            DriveSpec::from_disksim(SMALL, "small.diskspecs", Some((&system, "small.parv")), &mut seek_file)
                .unwrap_err();
        assert_eq!(error.to_string(), format!("small.parv: line 1: {expected}"));
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}", further in "\\PC{0,60}") {
        let mut source = |_: &str| Ok(further.clone());
        prop_assert!(DriveSpec::from_disksim(&text, "x", Some((&further, "y")), &mut source).is_err());
    }

    /// Random exchange, duplication and removal of numbers, words and punctuation gives a valid drive or an error.
    #[test]
    fn no_change_to_a_drive_makes_the_reader_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..14), 1..6),
        system in any::<bool>(),
    ) {
        const WORDS: [&str; 12] = ["", "0", "1", "-1", "4294967295", "1e15", "0.5", "nan", "}", "]", ",", "[ 3, 7, 1 ]"];
        let text = if system { SYSTEM } else { SMALL };
        let mut words: Vec<String> = text.split_inclusive([' ', '\n']).map(str::to_owned).collect();
        for (at, what) in edits {
            let at = at.index(words.len());
            match WORDS.get(what) {
                Some(word) => words[at] = format!("{word} "),
                None if what == 12 => words.insert(at, words[at].clone()),
                None => words[at] = words[words.len() - 1 - at].clone(),
            }
        }
        let text = words.concat();
        let (disk, above) = if system { (SMALL, text.as_str()) } else { (text.as_str(), SYSTEM) };
        if let Ok(read) = DriveSpec::from_disksim(disk, "x", Some((above, "y")), &mut seek_file) {
            prop_assert!(read.spec.check().is_ok());
        }
    }
}

//! A mounted drive as programs see it: size, time, trace; and the kernel's part.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::mounted::{Scratch, can_mount, unmounted};
use rustix::fs::OFlags;
use sakiyomi_drive::spec::builtin;
use sakiyomi_model::Op;
use sakiyomi_mount::layout::{BLOCK_BYTES, Placement};
use sakiyomi_mount::{EmulatedStorage, Options, mount, unmount};
use sakiyomi_testing::wait_until;
use sakiyomi_trace::{ReadOptions, Trace};

const LIMIT: Duration = Duration::from_secs(60);

fn drive(speed: f64) -> Options {
    let spec = builtin("barracuda-st2000dm006").unwrap().spec();
    Options { behind: Some(EmulatedStorage::Drive(Box::new(spec))), speed, ..Options::default() }
}

fn fixed(text: &str) -> Options {
    Options { behind: Some(EmulatedStorage::Fixed(text.parse().unwrap())), ..Options::default() }
}

fn direct(path: &Path) -> File {
    OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path).unwrap()
}

#[test]
fn a_read_takes_no_less_than_the_device_and_hits_the_page_cache_the_next_time() {
    if !can_mount("a_read_takes_its_time") {
        return;
    }
    let scratch = Scratch::new("time", LIMIT);
    fs::write(scratch.path("backing/file"), vec![7; 8192]).unwrap();
    let mounted = scratch.mount(&fixed("latency=60ms"));
    let path = scratch.path("mounted/file");
    let begun = Instant::now();
    assert_eq!(fs::read(&path).unwrap(), vec![7; 8192]);
    assert!(begun.elapsed() >= Duration::from_millis(60));
    assert_eq!(fs::read(&path).unwrap(), vec![7; 8192]);
    let seen = unmounted(mounted).seen.totals;
    assert_eq!(seen.accesses, 1, "the second read is cached");
    assert_eq!(seen.lateness.count(), 1);
}

/// A fixed latency has no cache: nothing is a hit, and nothing is a miss.
#[test]
fn only_a_device_with_an_inside_tells_hits_from_misses() {
    if !can_mount("only_a_device_with_an_inside_tells_hits_from_misses") {
        return;
    }
    for (name, options, classed) in [("fixed", fixed("latency=1us"), 0), ("drive", drive(1000.0), 1)] {
        let scratch = Scratch::new(&format!("classes-{name}"), LIMIT);
        fs::write(scratch.path("backing/file"), vec![7; 4096]).unwrap();
        let mounted = scratch.mount(&options);
        assert_eq!(fs::read(scratch.path("mounted/file")).unwrap(), vec![7; 4096]);
        let seen = unmounted(mounted).seen.totals;
        assert_eq!((seen.accesses, seen.lateness.count()), (1, 1), "{name}");
        assert_eq!(
            (seen.reads_and_hits(), seen.by_class.iter().sum::<u64>()),
            ((classed, 0), classed),
            "{name}"
        );
    }
}

#[test]
fn a_hole_costs_nothing_and_a_write_gives_it_a_place() {
    if !can_mount("a_hole_costs_nothing") {
        return;
    }
    let scratch = Scratch::new("hole", LIMIT);
    File::create(scratch.path("backing/sparse")).unwrap().set_len(1 << 20).unwrap();
    let mounted = scratch.mount(&Options { direct_io: true, ..fixed("latency=1us") });
    let file = OpenOptions::new().read(true).write(true).open(scratch.path("mounted/sparse")).unwrap();
    let mut bytes = [1; 4096];
    file.read_exact_at(&mut bytes, 8192).unwrap();
    assert_eq!(bytes, [0; 4096]);
    file.write_all_at(&[5; 4096], 8192).unwrap();
    file.read_exact_at(&mut bytes, 8192).unwrap();
    assert_eq!(bytes, [5; 4096]);
    drop(file);
    let seen = unmounted(mounted).seen.totals;
    assert_eq!((seen.read_bytes, seen.written_bytes), (4096, 4096), "the first read was of a hole");
}

#[test]
fn the_file_system_has_the_drives_size_and_is_full_when_that_is_used() {
    if !can_mount("the_file_system_has_the_drives_size") {
        return;
    }
    let scratch = Scratch::new("full", LIMIT);
    let mounted = scratch.mount(&fixed("size=1MiB,latency=1us"));
    let root = scratch.path("mounted");
    let sizes = rustix::fs::statvfs(&root).unwrap();
    assert_eq!((sizes.f_blocks * sizes.f_frsize, sizes.f_bfree), (1 << 20, (1 << 20) / BLOCK_BYTES));
    fs::write(root.join("first"), vec![1; 900 << 10]).unwrap();
    let error = fs::write(root.join("second"), vec![2; 200 << 10]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(28), "{error}");
    fs::remove_file(root.join("first")).unwrap();
    // The blocks are free when the kernel has dropped the file from its cache, which happens soon.
    wait_until("the space of a removed file never comes back", || {
        fs::write(root.join("second"), vec![2; 200 << 10]).is_ok()
    });
    unmounted(mounted);
    assert_eq!(fs::metadata(scratch.path("backing/second")).unwrap().len(), 200 << 10);
}

#[test]
fn files_that_do_not_fit_onto_the_drive_are_refused() {
    if !can_mount("files_that_do_not_fit") {
        return;
    }
    let scratch = Scratch::new("large", LIMIT);
    fs::write(scratch.path("backing/file"), vec![7; 2 << 20]).unwrap();
    let refused = mount(&scratch.path("backing"), &scratch.path("mounted"), &fixed("size=1MiB")).unwrap_err();
    assert!(
        refused
            .to_string()
            .ends_with("do not fit onto the drive, which holds 1048576 bytes; take a larger one")
    );
}

#[test]
fn what_was_removed_stays_usable_while_it_is_open() {
    if !can_mount("what_was_removed_stays_usable") {
        return;
    }
    let scratch = Scratch::new("removed", LIMIT);
    let mounted = scratch.mount(&drive(1000.0));
    let path = scratch.path("mounted/file");
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    file.write_all(b"before").unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "another").unwrap();
    file.write_all_at(b" after", 6).unwrap();
    file.set_len(11).unwrap();
    let mut bytes = [0; 11];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!((&bytes, file.metadata().unwrap().nlink()), (b"before afte", 0));
    assert_eq!(fs::read(&path).unwrap(), b"another");
    drop(file);
    unmounted(mounted);
}

#[test]
fn others_own_what_they_make_and_meet_permissions() {
    if !can_mount("others_own_what_they_make") {
        return;
    }
    let scratch = Scratch::new("others", LIMIT);
    let mounted = scratch.mount(&drive(1000.0));
    let root = scratch.path("mounted");
    fs::write(root.join("secret"), "x").unwrap();
    fs::set_permissions(root.join("secret"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    fs::set_permissions(&root, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let script =
        "umask 027; cat secret && exit 1; echo hi > own && mkdir dir && ln -s own link && chmod 4750 own";
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(&root).stderr(Stdio::null()).uid(65534).gid(65533);
    assert!(command.status().unwrap().success());
    for name in ["own", "dir", "link"] {
        for side in ["mounted", "backing"] {
            let found = fs::symlink_metadata(scratch.path(side).join(name)).unwrap();
            assert_eq!((found.uid(), found.gid()), (65534, 65533), "{side}/{name}");
        }
    }
    let modes =
        ["own", "dir"].map(|name| fs::metadata(scratch.path("backing").join(name)).unwrap().mode() & 0o7777);
    assert_eq!(modes, [0o4750, 0o750]);
    unmounted(mounted);
}

#[test]
fn a_program_can_be_run_from_it_which_maps_its_pages() {
    if !can_mount("a_program_can_be_run") {
        return;
    }
    for direct_io in [false, true] {
        let scratch = Scratch::new(&format!("run-{direct_io}"), LIMIT);
        fs::copy("/bin/sh", scratch.path("backing/sh")).unwrap();
        let mounted = scratch.mount(&Options { direct_io, ..drive(1000.0) });
        let output = Command::new(scratch.path("mounted/sh")).args(["-c", "echo ran"]).output().unwrap();
        assert_eq!(output.stdout, b"ran\n", "{}", String::from_utf8_lossy(&output.stderr));
        unmounted(mounted);
    }
}

#[test]
fn a_trace_says_who_asked_for_what_and_how_long_it_took() {
    if !can_mount("a_trace_says_who_asked") {
        return;
    }
    for (name, options) in [("none", Options::default()), ("drive", drive(1.0))] {
        let scratch = Scratch::new(&format!("trace-{name}"), LIMIT);
        fs::write(scratch.path("backing/file"), vec![7; 1 << 20]).unwrap();
        let trace = scratch.path("trace.csv");
        let mounted = scratch.mount(&Options { record: Some(trace.clone()), ..options });
        let file = direct(&scratch.path("mounted/file"));
        for block in [0, 9, 3] {
            // The kernel requires page-aligned buffers only for real devices.
            file.read_exact_at(&mut [0; 4096], block * 4096).unwrap();
        }
        OpenOptions::new().write(true).open(scratch.path("mounted/file")).unwrap().sync_all().unwrap();
        drop(file);
        assert!(!trace.exists(), "it appears when it is complete");
        assert_eq!(unmounted(mounted).recorded, Some(4));
        let records: Vec<_> =
            Trace::open(&trace, &ReadOptions::default()).unwrap().map(Result::unwrap).collect();
        let offsets: Vec<u64> =
            records[..3].iter().map(|record| record.offset.0 - records[0].offset.0).collect();
        assert_eq!(offsets, [0, 9 * 4096, 3 * 4096]);
        assert_eq!(records[3].op, Op::Flush);
        assert!(records.iter().all(|record| record.stream.0 == std::process::id()), "{records:?}");
        assert!(records.iter().all(|record| record.response.is_some_and(|response| response.0 > 0)));
    }
}

#[test]
fn files_lie_where_they_lay_at_the_last_mount() {
    if !can_mount("files_lie_where_they_lay") {
        return;
    }
    let scratch = Scratch::new("layout", LIMIT);
    let layout = scratch.path("layout");
    let options = Options {
        layout: Some(layout.clone()),
        placement: Placement::Scattered { piece: 4 },
        ..drive(1000.0)
    };
    let mounted = scratch.mount(&options);
    fs::write(scratch.path("mounted/a"), vec![1; 200_000]).unwrap();
    fs::write(scratch.path("mounted/b"), vec![2; 50_000]).unwrap();
    fs::rename(scratch.path("mounted/a"), scratch.path("mounted/c")).unwrap();
    unmounted(mounted);
    let first = fs::read_to_string(&layout).unwrap();
    assert!(first.lines().count() > 15, "{first}");
    // Another seed would give other places to unplaced files.
    unmounted(scratch.mount(&Options { seed: 99, ..options.clone() }));
    assert_eq!(fs::read_to_string(&layout).unwrap(), first);
    // Blocks of a file that was removed while unmounted are free again.
    fs::remove_file(scratch.path("backing/b")).unwrap();
    unmounted(scratch.mount(&options));
    assert_eq!(fs::read_to_string(&layout).unwrap().matches("file ").count(), 1);
}

#[test]
fn appending_by_several_at_once_loses_nothing() {
    if !can_mount("appending_by_several_at_once") {
        return;
    }
    let scratch = Scratch::new("append", LIMIT);
    let mounted = scratch.mount(&drive(1000.0));
    let path = scratch.path("mounted/log");
    std::thread::scope(|scope| {
        for writer in 0..4u8 {
            let path = &path;
            scope.spawn(move || {
                let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
                for _ in 0..200 {
                    file.write_all(&[b'a' + writer; 100]).unwrap();
                }
            });
        }
    });
    let mut text = Vec::new();
    File::open(&path).unwrap().read_to_end(&mut text).unwrap();
    assert_eq!(text.len(), 4 * 200 * 100);
    assert!(text.chunks(100).all(|line| line.iter().all(|&byte| byte == line[0])), "no line in another");
    unmounted(mounted);
}

#[test]
fn a_large_directory_is_listed_whole_also_while_it_changes() {
    if !can_mount("a_large_directory_is_listed") {
        return;
    }
    let scratch = Scratch::new("list", LIMIT);
    for number in 0..3000 {
        File::create(scratch.path("backing").join(format!("file-{number}"))).unwrap();
    }
    let mounted = scratch.mount(&Options::default());
    let root = scratch.path("mounted");
    let mut names = std::collections::BTreeSet::new();
    for (index, entry) in fs::read_dir(&root).unwrap().enumerate() {
        let entry = entry.unwrap();
        assert!(entry.metadata().unwrap().is_file());
        assert!(names.insert(entry.file_name()), "named twice");
        fs::rename(entry.path(), scratch.path("backing").join(format!("../gone-{index}"))).unwrap_err();
        fs::remove_file(entry.path()).unwrap();
    }
    assert_eq!(names.len(), 3000);
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    unmounted(mounted);
}

#[test]
fn what_is_in_use_is_unmounted_only_when_asked_to_be_at_once() {
    if !can_mount("what_is_in_use") {
        return;
    }
    let scratch = Scratch::new("busy", LIMIT);
    let mounted = scratch.mount(&drive(1000.0));
    let root = scratch.path("mounted");
    fs::write(root.join("file"), "still here").unwrap();
    let mut file = File::open(root.join("file")).unwrap();
    assert!(unmount(&root, false).unwrap_err().to_string().contains("is in use"));
    unmount(&root, true).unwrap();
    assert!(!root.join("file").exists());
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still here");
    drop(file);
    unmounted(mounted);
}

#[test]
fn a_mount_that_ends_late_leaves_the_one_that_came_after_it() {
    if !can_mount("a_mount_that_ends_late") {
        return;
    }
    let scratch = Scratch::new("successor", LIMIT);
    let first = scratch.mount(&drive(1000.0));
    let root = scratch.path("mounted");
    fs::write(root.join("file"), "still here").unwrap();
    let held = File::open(root.join("file")).unwrap();
    unmount(&root, true).unwrap();
    let second = scratch.mount(&drive(1000.0));
    assert!(first.finish(Duration::from_millis(50)).unwrap().cut_off, "a process was still using it");
    drop(held);
    assert_eq!(fs::read_to_string(root.join("file")).unwrap(), "still here");
    assert!(!second.is_over());
    unmounted(second);
}

#[test]
fn a_file_without_a_name_is_refused_as_not_supported_so_that_programs_make_one_with_a_name() {
    if !can_mount("a_file_without_a_name") {
        return;
    }
    let scratch = Scratch::new("tmpfile", LIMIT);
    let mounted = scratch.mount(&Options::default());
    let place = scratch.path("mounted");
    // The kernel asks once and remembers the answer.
    for _ in 0..2 {
        let opened = rustix::fs::open(&place, OFlags::TMPFILE | OFlags::RDWR, 0o600.into());
        assert_eq!(opened.err(), Some(rustix::io::Errno::OPNOTSUPP));
    }
    drop(fs::read_dir(&place).unwrap());
    unmounted(mounted);
}

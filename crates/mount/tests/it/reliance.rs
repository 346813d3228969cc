//! Properties that programs rely on and seldom test: permissions that writing clears, syncing requested by an open
//! flag, places of files that changed while unmounted.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::mounted::{Scratch, can_mount, unmounted};
use rustix::fs::{Mode, OFlags};
use sakiyomi_drive::spec::builtin;
use sakiyomi_model::{Class, WriteClass};
use sakiyomi_mount::{EmulatedStorage, Error, Options, mount};
use sakiyomi_testing::wait_until;

const LIMIT: Duration = Duration::from_secs(60);

fn fixed(text: &str) -> Options {
    Options { behind: Some(EmulatedStorage::Fixed(text.parse().unwrap())), ..Options::default() }
}

fn drive() -> Options {
    let spec = builtin("barracuda-st2000dm006").unwrap().spec();
    Options { behind: Some(EmulatedStorage::Drive(Box::new(spec))), speed: 1000.0, ..Options::default() }
}

#[test]
fn who_is_not_root_takes_set_user_id_away_by_writing() {
    if !can_mount("who_is_not_root_takes_set_user_id_away") {
        return;
    }
    for (name, options) in [
        ("cached", fixed("latency=1us")),
        ("direct", Options { direct_io: true, ..fixed("latency=1us") }),
        ("writeback", Options { writeback: true, ..fixed("latency=1us") }),
    ] {
        let scratch = Scratch::new(&format!("suid-{name}"), LIMIT);
        let program = scratch.path("backing/program");
        fs::write(&program, "content").unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o6777)).unwrap();
        let mounted = scratch.mount(&options);
        let mut writer = Command::new("dd");
        writer.args(["if=/dev/zero", "bs=1", "count=1", "conv=notrunc", "status=none"]);
        writer.arg(format!("of={}", scratch.path("mounted/program").display()));
        assert!(writer.uid(65534).gid(65534).status().unwrap().success());
        let seen = fs::metadata(scratch.path("mounted/program")).unwrap().mode();
        unmounted(mounted);
        let modes = [seen, fs::metadata(&program).unwrap().mode()].map(|mode| mode & 0o7777);
        assert_eq!(modes, [0o777; 2], "{name}");
    }
}

#[test]
fn what_is_written_to_a_file_opened_for_it_is_on_the_medium() {
    if !can_mount("what_is_written_to_a_file_opened_for_it") {
        return;
    }
    for (name, options, more) in [
        ("cached", drive(), OFlags::empty()),
        ("cached-direct", drive(), OFlags::DIRECT),
        ("direct", Options { direct_io: true, ..drive() }, OFlags::empty()),
        ("writeback", Options { writeback: true, ..drive() }, OFlags::empty()),
    ] {
        for (how, flag) in [("data", OFlags::DSYNC), ("all", OFlags::SYNC)] {
            let scratch = Scratch::new(&format!("synced-{name}-{how}"), LIMIT);
            let mounted = scratch.mount(&options);
            let mut synced = OpenOptions::new();
            synced.write(true).create_new(true).custom_flags((flag | more).bits() as i32);
            let file = synced.open(scratch.path("mounted/file")).unwrap();
            file.write_all_at(&[7; 4096], 0).unwrap();
            drop(file);
            let by_class = unmounted(mounted).seen.totals.by_class;
            let of = |class| by_class[Class::ALL.iter().position(|&one| one == class).unwrap()];
            let safe = of(Class::Write(WriteClass::Media)) + of(Class::Flush);
            assert_eq!(safe, 1, "{name}, {how}: a write to the medium, or a flush after it");
        }
    }
}

#[test]
fn what_is_not_written_back_when_a_mount_ends_is_not_lost() {
    if !can_mount("what_is_not_written_back_when_a_mount_ends") {
        return;
    }
    let scratch = Scratch::new("dirty", LIMIT);
    let mounted = scratch.mount(&Options { writeback: true, ..fixed("latency=1us") });
    let file = File::create(scratch.path("mounted/file")).unwrap();
    file.write_all_at(b"not flushed, not closed", 0).unwrap();
    let finished = mounted.finish(Duration::from_millis(500)).unwrap();
    assert!(finished.cut_off, "the file is still open");
    assert_eq!(fs::read(scratch.path("backing/file")).unwrap(), b"not flushed, not closed");
}

/// Builds an access control list in the kernel's format: tag, permissions and identifier of each entry.
fn access_list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, who) in entries {
        list.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
        list.extend(who.to_le_bytes());
    }
    list
}

#[test]
fn access_control_lists_are_obeyed_and_passed_on() {
    if !can_mount("access_control_lists") {
        return;
    }
    let scratch = Scratch::new("acl", LIMIT);
    let (backing, nobody) = (scratch.path("backing"), u32::MAX);
    fs::write(backing.join("file"), "x").unwrap();
    std::os::unix::fs::chown(backing.join("file"), Some(0), Some(500)).unwrap();
    // Owner, user 1234, group, mask, others.
    let list = |group, others| {
        access_list(&[
            (1, 6, nobody),
            (2, 6, 1234),
            (4, group, nobody),
            (0x10, 6, nobody),
            (0x20, others, nobody),
        ])
    };
    fs::create_dir(backing.join("dir")).unwrap();
    let none = rustix::fs::XattrFlags::empty();
    let set = rustix::fs::setxattr(backing.join("file"), "system.posix_acl_access", &list(0, 0), none);
    if set == Err(rustix::io::Errno::OPNOTSUPP) {
        return;
    }
    rustix::fs::setxattr(backing.join("dir"), "system.posix_acl_default", &list(4, 0), none).unwrap();
    let mounted = scratch.mount(&Options::default());
    let reads = |user, group| {
        let mut command = Command::new("cat");
        command.arg(scratch.path("mounted/file")).stdout(Stdio::null()).stderr(Stdio::null());
        command.uid(user).gid(group).status().unwrap().success()
    };
    assert_eq!([reads(1234, 1234), reads(77, 500), reads(77, 77)], [true, false, false]);
    File::create(scratch.path("mounted/dir/new")).unwrap();
    unmounted(mounted);
    let mode = fs::metadata(backing.join("dir/new")).unwrap().mode() & 0o007;
    assert_eq!(mode, 0, "others have no rights by default");
}

#[test]
fn what_is_mounted_already_is_not_mounted_over() {
    if !can_mount("what_is_mounted_already") {
        return;
    }
    let scratch = Scratch::new("twice", LIMIT);
    let mounted = scratch.mount(&Options::default());
    let refused = mount(&scratch.path("plain"), &scratch.path("mounted"), &Options::default()).unwrap_err();
    assert!(matches!(refused, Error::Mounted(_)), "{refused}");
    unmounted(mounted);
}

#[test]
fn directories_that_lie_deeper_than_a_path_can_say_do_not_stand_against_a_mount() {
    if !can_mount("directories_that_lie_deeper") {
        return;
    }
    let scratch = Scratch::new("deep", LIMIT);
    let mut directory = rustix::fs::open(scratch.path("backing"), OFlags::PATH, Mode::empty()).unwrap();
    for _ in 0..25 {
        let name = "d".repeat(200);
        rustix::fs::mkdirat(&directory, &name, Mode::RWXU).unwrap();
        directory = rustix::fs::openat(&directory, &name, OFlags::PATH, Mode::empty()).unwrap();
    }
    unmounted(scratch.mount(&Options::default()));
}

#[test]
fn a_layout_that_cannot_be_kept_is_refused_before_the_mount() {
    if !can_mount("a_layout_that_cannot_be_kept") {
        return;
    }
    let scratch = Scratch::new("unkept", LIMIT);
    let options = Options { layout: Some(scratch.path("nowhere/layout")), ..Options::default() };
    let refused = mount(&scratch.path("backing"), &scratch.path("mounted"), &options).unwrap_err();
    assert!(matches!(refused, Error::Layout { .. }), "{refused}");
}

#[test]
fn a_file_that_grew_while_nothing_was_mounted_has_places_for_all_of_it() {
    if !can_mount("a_file_that_grew_while_nothing_was_mounted") {
        return;
    }
    let scratch = Scratch::new("grew", LIMIT);
    let options =
        Options { layout: Some(scratch.path("layout")), direct_io: true, ..fixed("size=1MiB,latency=1us") };
    let mounted = scratch.mount(&options);
    fs::write(scratch.path("mounted/grows"), vec![1; 8192]).unwrap();
    fs::write(scratch.path("mounted/shrinks"), vec![1; 800 << 10]).unwrap();
    unmounted(mounted);
    fs::write(scratch.path("backing/grows"), vec![2; 100 << 10]).unwrap();
    File::options().write(true).open(scratch.path("backing/shrinks")).unwrap().set_len(4096).unwrap();
    let mounted = scratch.mount(&options);
    let free = rustix::fs::statvfs(scratch.path("mounted")).unwrap().f_bfree;
    assert_eq!(fs::read(scratch.path("mounted/grows")).unwrap().len(), 100 << 10);
    assert_eq!(unmounted(mounted).seen.totals.read_bytes, 100 << 10, "none of it is a hole");
    assert_eq!(free, 256 - 25 - 1);
}

#[test]
fn files_that_are_only_known_take_few_descriptors() {
    if !can_mount("files_that_are_only_known") {
        return;
    }
    let scratch = Scratch::new("known", LIMIT);
    let backing = scratch.path("backing");
    for number in 0..500 {
        fs::create_dir(backing.join(format!("d{number}"))).unwrap();
        fs::write(backing.join(format!("d{number}/file")), format!("{number}")).unwrap();
    }
    let mounted = scratch.mount(&Options { descriptors: Some(20), ..Options::default() });
    let root = scratch.path("mounted");
    let open: Vec<File> =
        (0..500).map(|number| File::open(root.join(format!("d{number}/file"))).unwrap()).collect();
    let taken = || {
        let mut held = Vec::new();
        for entry in fs::read_dir("/proc/self/fd").unwrap() {
            held.extend(fs::read_link(entry.unwrap().path()).ok().filter(|to| to.starts_with(&backing)));
        }
        held.len()
    };
    // The open files, the backing directory itself, and the cached files.
    assert!(taken() <= 500 + 1 + 20, "{}", taken());
    // Including a file that has lost its name, and one that has another name.
    fs::remove_file(root.join("d7/file")).unwrap();
    fs::write(root.join("d7/file"), "new").unwrap();
    fs::rename(root.join("d8"), root.join("moved")).unwrap();
    for (number, mut file) in open.iter().enumerate() {
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!((text, file.metadata().unwrap().nlink()), (number.to_string(), u64::from(number != 7)));
    }
    assert_eq!(fs::read(root.join("d7/file")).unwrap(), b"new");
    assert_eq!(fs::read(root.join("moved/file")).unwrap(), b"8");
    drop(open);
    unmounted(mounted);
}

#[test]
fn what_has_no_name_any_more_is_there_for_who_holds_it() {
    if !can_mount("what_has_no_name_any_more") {
        return;
    }
    let scratch = Scratch::new("nameless", LIMIT);
    let (backing, root) = (scratch.path("backing"), scratch.path("mounted"));
    fs::create_dir(backing.join("dir")).unwrap();
    for name in ["file", "replaced", "other"] {
        fs::write(backing.join(name), name).unwrap();
    }
    (0..20).for_each(|number| fs::write(backing.join(format!("{number}")), "x").unwrap());
    let mounted = scratch.mount(&Options { descriptors: Some(4), ..Options::default() });
    let hold = |name: &str| rustix::fs::open(root.join(name), OFlags::PATH, Mode::empty()).unwrap();
    let held = ["dir", "file", "replaced"].map(hold);
    let others = || {
        for number in 0..20 {
            fs::metadata(root.join(format!("{number}"))).unwrap();
        }
    };
    others();
    fs::remove_dir(root.join("dir")).unwrap();
    fs::remove_file(root.join("file")).unwrap();
    fs::rename(root.join("other"), root.join("replaced")).unwrap();
    others();
    for file in &held {
        assert_eq!(rustix::fs::fstat(file).map(|stat| stat.st_nlink), Ok(0));
    }
    assert_eq!(fs::read(root.join("replaced")).unwrap(), b"other");
    drop(held);
    unmounted(mounted);
}

#[test]
fn a_new_file_does_not_get_the_places_of_one_that_has_gone() {
    if !can_mount("a_new_file_does_not_get_the_places") {
        return;
    }
    let scratch = Scratch::new("inherited", LIMIT);
    let root = scratch.path("mounted");
    fs::write(scratch.path("backing/old"), vec![1; 100 * 4096]).unwrap();
    (0..20).for_each(|number| drop(File::create(scratch.path("backing").join(format!("{number}"))).unwrap()));
    let mounted = scratch.mount(&Options { descriptors: Some(4), ..fixed("size=1MiB,latency=1us") });
    let held = rustix::fs::open(root.join("old"), OFlags::PATH, Mode::empty()).unwrap();
    for number in 0..20 {
        fs::metadata(root.join(format!("{number}"))).unwrap();
    }
    fs::remove_file(root.join("old")).unwrap();
    // File systems reuse the inode number of a removed file for the next one.
    fs::write(root.join("new"), vec![2; 4096]).unwrap();
    let free = || rustix::fs::statvfs(&root).unwrap().f_bfree;
    assert_eq!(free(), 256 - 100 - 1, "one is still there, the other is new");
    drop(held);
    wait_until("the blocks of a removed file are not free", || free() == 256 - 1);
    unmounted(mounted);
}

#[test]
fn a_file_whose_times_are_set_stays_in_the_page_cache() {
    if !can_mount("a_file_whose_times_are_set") {
        return;
    }
    for (name, writeback) in [("cached", false), ("writeback", true)] {
        let scratch = Scratch::new(&format!("touched-{name}"), LIMIT);
        let mounted = scratch.mount(&Options { writeback, ..fixed("latency=1us") });
        let path = scratch.path("mounted/file");
        // A whole page: for a partial one, the kernel would have to read the rest.
        fs::write(&path, [7; 4096]).unwrap();
        let file = File::open(&path).unwrap();
        // With dirty pages, the kernel sets the modification time itself.
        file.sync_all().unwrap();
        if !writeback {
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), [7; 4096]);
        assert_eq!(unmounted(mounted).seen.totals.read_bytes, 0, "{name}: it was cached");
    }
}

use super::*;
use sakiyomi_testing::{Scratch, skipped};
use std::io::Read as _;
use std::process::{Command, Stdio};

#[test]
fn the_target_is_untouched_until_commit() {
    let scratch = Scratch::new("atomic_commit");
    let path = scratch.path("out");
    fs::write(&path, "old").unwrap();
    let mut file = AtomicFile::create(&path).unwrap();
    file.write_all(b"new").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    file.commit().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(scratch.entries(), 1);
}

#[test]
fn a_dropped_file_leaves_nothing() {
    let scratch = Scratch::new("atomic_drop");
    let mut file = AtomicFile::create(scratch.path("out")).unwrap();
    file.write_all(b"half").unwrap();
    drop(file);
    assert_eq!(scratch.entries(), 0);
}

#[test]
fn a_file_with_a_hidden_name_is_committed_and_removed_like_one_without() {
    let scratch = Scratch::new("atomic_hidden");
    let path = scratch.path("out");
    let hidden = || {
        let (mut file, name) = create_hidden(&path, flags_of(Access::Buffered)).unwrap();
        file.write_all(b"content").unwrap();
        assert!(name.exists() && !path.exists());
        AtomicFile::with(file, Some(name), path.clone(), path.clone(), Access::Buffered).unwrap()
    };
    drop(hidden());
    assert_eq!(scratch.entries(), 0);
    hidden().commit().unwrap();
    assert_eq!((fs::read(&path).unwrap(), scratch.entries()), (b"content".to_vec(), 1));
}

#[test]
fn a_resumable_file_keeps_its_content_until_commit_and_is_written_by_one_process() {
    let scratch = Scratch::new("atomic_resumable");
    let (path, partial) = (scratch.path("out"), scratch.path("out.partial"));
    assert_eq!(partial_path(&path).unwrap(), fs::canonicalize(scratch.root()).unwrap().join("out.partial"));
    let mut file = AtomicFile::resumable(&path).unwrap();
    file.write_all(b"first").unwrap();
    let busy = AtomicFile::resumable(&path).unwrap_err();
    assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
    assert!(busy.to_string().contains("out.partial"), "{busy}");
    drop(file);
    assert_eq!((path.exists(), fs::read(&partial).unwrap()), (false, b"first".to_vec()));
    let mut file = AtomicFile::resumable(&path).unwrap();
    file.write_all(b"F").unwrap();
    file.commit().unwrap();
    assert_eq!((fs::read(&path).unwrap(), scratch.entries()), (b"First".to_vec(), 1));
    let other = AtomicFile::resumable(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"First", "the former file stays until commit");
    drop(other);
    assert_eq!(AtomicFile::resumable(scratch.root()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    assert!(AtomicFile::resumable("/dev/null").unwrap().write_all(b"x").is_ok());
}

#[test]
fn a_missing_directory_and_a_directory_are_refused() {
    let scratch = Scratch::new("atomic_refuse");
    assert_eq!(AtomicFile::create(scratch.path("no/out")).unwrap_err().kind(), io::ErrorKind::NotFound);
    for directory in [scratch.root(), Path::new("/")] {
        assert_eq!(AtomicFile::create(directory).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }
    assert_eq!(AtomicFile::create("").unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_link_is_followed_whether_its_file_exists_or_not() {
    let scratch = Scratch::new("atomic_link");
    fs::write(scratch.path("real"), "old").unwrap();
    for target in ["real", "absent"] {
        let link = scratch.path(&format!("link-{target}"));
        std::os::unix::fs::symlink(target, &link).unwrap();
        let mut file = AtomicFile::create(&link).unwrap();
        file.write_all(b"new").unwrap();
        file.commit().unwrap();
        assert_eq!(fs::read_to_string(scratch.path(target)).unwrap(), "new");
        assert!(fs::symlink_metadata(link).unwrap().is_symlink());
    }
    assert_eq!(scratch.entries(), 4);
}

#[test]
fn a_device_is_written_in_place() {
    let mut file = AtomicFile::create("/dev/null").unwrap();
    assert!(matches!(file.file(), Err(Error::NotAFile { .. })));
    file.write_all(b"gone").unwrap();
    file.commit().unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn a_file_that_is_replaced_keeps_its_permissions_and_its_owner() {
    let scratch = Scratch::new("atomic_mode");
    let path = scratch.path("out");
    fs::write(&path, "old").unwrap();
    let is_root = std::os::unix::fs::chown(&path, Some(12), Some(34)).is_ok();
    for mode in [0o600, 0o444, 0o4751, 0o666] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        let new = file.file().unwrap().file().metadata().unwrap();
        assert_eq!(new.mode() & 0o7777, mode, "before anything is written");
        file.write_all(b"new").unwrap();
        file.commit().unwrap();
        let found = fs::metadata(&path).unwrap();
        // A write clears the set-user-ID bit, as it does in place.
        assert_eq!(found.mode() & 0o777, mode & 0o777);
        assert!(!is_root || (found.uid(), found.gid()) == (12, 34));
    }
}

#[test]
fn a_new_file_has_the_permissions_of_any_other() {
    let scratch = Scratch::new("atomic_new_mode");
    fs::write(scratch.path("plain"), "").unwrap();
    AtomicFile::create(scratch.path("out")).unwrap().commit().unwrap();
    let mode = |name| fs::metadata(scratch.path(name)).unwrap().mode();
    assert_eq!(mode("out"), mode("plain"));
}

/// Environment variable of the process that is killed; its value is the directory.
const KILLED: &str = "SAKIYOMI_TEST_KILLED_IN";

#[test]
fn nothing_is_left_when_the_process_is_killed() {
    if let Some(directory) = std::env::var_os(KILLED) {
        let mut file = AtomicFile::create(Path::new(&directory).join("out")).unwrap();
        file.write_all(b"half").unwrap();
        // Reports that it has written, and waits to be killed.
        io::stdout().write_all(b"\nwritten\n").unwrap();
        io::stdout().flush().unwrap();
        let _ = io::stdin().read_to_end(&mut Vec::new());
        return;
    }
    let scratch = Scratch::new("atomic_killed");
    let unnamed = open_unnamed(scratch.root(), flags_of(Access::Buffered)).unwrap();
    if !unnamed.is_some_and(|file| can_link(&file)) {
        return skipped("nothing_is_left_when_the_process_is_killed", "no O_TMPFILE here");
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "atomic::tests::nothing_is_left_when_the_process_is_killed", "--nocapture"])
        .env(KILLED, scratch.root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut told, mut out) = (Vec::new(), child.stdout.take().unwrap());
    let mut byte = [0];
    while !told.ends_with(b"\nwritten\n") && out.read(&mut byte).unwrap() > 0 {
        told.push(byte[0]);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(told.ends_with(b"\nwritten\n"), "{}", String::from_utf8_lossy(&told));
    assert_eq!(scratch.entries(), 0);
}

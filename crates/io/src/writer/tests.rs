use super::*;
use proptest::prelude::*;
use sakiyomi_testing::{Scratch, skipped};
use std::collections::VecDeque;
use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Small, so that much happens.
fn options(access: Access, block: usize, depth: usize) -> WriteOptions {
    WriteOptions { access, block, depth, memory: Memory::Ordinary, expected: None, sync: false }
}

fn buffered() -> WriteOptions {
    options(Access::Buffered, 4096, 2)
}

/// What the next calls do instead of writing all they are given.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// Takes that many bytes only.
    Short(usize),
    Fails(i32),
}

/// Writes that go wrong one after the other, and then well.
fn faulty(faults: &[Fault]) -> Pwrite {
    let faults = Mutex::new(VecDeque::from(faults.to_vec()));
    Arc::new(move |file, bytes, at| {
        let fault = faults.lock().unwrap().pop_front();
        match fault.unwrap_or(Fault::None) {
            Fault::None => file.write_at(bytes, at),
            // Written in full, told in part: what is said to be missing must be written again.
            Fault::Short(count) => file.write_at(bytes, at).map(|all| all.min(count)),
            Fault::Fails(code) => Err(io::Error::from_raw_os_error(code)),
        }
    })
}

fn failing(code: i32) -> Pwrite {
    Arc::new(move |_, _, _| Err(io::Error::from_raw_os_error(code)))
}

/// A writer for direct I/O, none where the build's directory does not do it.
fn direct_or_skip(test: &str, made: Result<Writer, Error>) -> Option<Writer> {
    match made {
        Err(Error::NoDirect { path }) => {
            skipped(test, format_args!("no direct I/O on {}", path.display()));
            None
        }
        other => Some(other.unwrap()),
    }
}

/// How bytes are handed over.
#[derive(Clone, Debug)]
enum Step {
    Buffer(usize),
    Bytes(usize),
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0usize..20_000).prop_map(Step::Buffer),
        2 => Just(Step::Buffer(usize::MAX)),
        2 => (0usize..6).prop_map(|blocks| Step::Buffer(blocks * 4096)),
        4 => (0usize..30_000).prop_map(Step::Bytes),
        1 => Just(Step::Flush)
    ];
    prop::collection::vec(step, 0..12)
}

fn faults() -> impl Strategy<Value = Vec<Fault>> {
    let fault = prop_oneof![
        Just(Fault::None),
        (0usize..9000).prop_map(Fault::Short),
        Just(Fault::Fails(libc::EINTR))
    ];
    prop::collection::vec(fault, 0..7)
}

/// Bytes that differ from those before and after them.
fn bytes(from: usize, count: usize) -> Vec<u8> {
    (from..from + count).map(|at| (at % 251) as u8 ^ (at >> 12) as u8).collect()
}

/// Does a step, and in the plain version, which is a vector.
fn step(writer: &mut Writer, plain: &mut Vec<u8>, step: &Step) {
    match *step {
        Step::Buffer(count) => {
            let mut buffer = writer.buffer().unwrap();
            let new = bytes(plain.len(), count.min(buffer.capacity()));
            assert_eq!(buffer.append(&new), new.len());
            writer.write(buffer).unwrap();
            plain.extend(new);
        }
        Step::Bytes(count) => {
            let new = bytes(plain.len(), count);
            writer.write_all(&new).unwrap();
            plain.extend(new);
        }
        Step::Flush => writer.flush().unwrap(),
    }
    assert_eq!((writer.len(), writer.is_empty()), (plain.len() as u64, plain.is_empty()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn any_writes_give_the_bytes_that_a_vector_has(
        steps in steps(),
        faults in faults(),
        direct: bool,
        blocks in 1usize..5,
        odd in 0usize..4096,
        depth in 1usize..5,
        expected in prop::option::of(0u64..200_000),
    ) {
        let access = if direct { Access::Direct } else { Access::Buffered };
        let block = blocks * 4096 - if direct { 0 } else { odd };
        let scratch = Scratch::new("writer_property");
        let options = WriteOptions { expected, ..options(access, block, depth) };
        let made = Writer::with(&scratch.path("out"), &options, faulty(&faults));
        let Some(mut writer) = direct_or_skip("any_writes", made) else { return Ok(()) };
        let mut plain = Vec::new();
        for one in &steps {
            step(&mut writer, &mut plain, one);
        }
        let written = writer.finish().unwrap();
        prop_assert_eq!(written.bytes, plain.len() as u64);
        prop_assert!(fs::read(scratch.path("out")).unwrap() == plain);
        prop_assert_eq!(scratch.entries(), 1);
    }
}

#[test]
fn a_file_appears_when_it_is_finished_and_not_before() {
    let scratch = Scratch::new("writer_appears");
    fs::write(scratch.path("out"), "old").unwrap();
    let mut writer = Writer::create(&scratch.path("out"), &WriteOptions::default()).unwrap();
    writer.write_all(b"new").unwrap();
    writer.flush().unwrap();
    assert_eq!(fs::read(scratch.path("out")).unwrap(), b"old");
    assert_eq!(writer.finish().unwrap().bytes, 3);
    assert_eq!(fs::read(scratch.path("out")).unwrap(), b"new");
    assert_eq!(scratch.entries(), 1);
}

#[test]
fn a_dropped_writer_leaves_nothing() {
    let scratch = Scratch::new("writer_drop");
    let mut writer = Writer::create(&scratch.path("out"), &buffered()).unwrap();
    writer.write_all(&[1; 100_000]).unwrap();
    drop(writer);
    assert_eq!(scratch.entries(), 0);
}

#[test]
fn a_file_with_a_hidden_name_is_published_and_removed_like_one_without() {
    let scratch = Scratch::new("writer_hidden");
    let path = scratch.path("out");
    let hidden = || {
        let (file, name) = target::hidden(&path, OFlags::empty()).unwrap();
        file.write_at(b"content", 0).unwrap();
        assert!(name.exists() && !path.exists());
        Target { file: Arc::new(file), path: path.clone(), hidden: Some(name) }
    };
    drop(hidden());
    assert_eq!(scratch.entries(), 0);
    hidden().publish(true).unwrap();
    assert_eq!((fs::read(&path).unwrap(), scratch.entries()), (b"content".to_vec(), 1));
}

#[test]
fn a_link_is_followed_and_what_is_no_regular_file_is_refused() {
    let scratch = Scratch::new("writer_link");
    fs::write(scratch.path("real"), "old").unwrap();
    std::os::unix::fs::symlink("real", scratch.path("link")).unwrap();
    let mut writer = Writer::create(&scratch.path("link"), &buffered()).unwrap();
    writer.write_all(b"new").unwrap();
    writer.finish().unwrap();
    assert_eq!(fs::read(scratch.path("real")).unwrap(), b"new");
    assert!(fs::symlink_metadata(scratch.path("link")).unwrap().is_symlink());
    for path in [scratch.root(), Path::new("/dev/null"), &scratch.path("no/out"), Path::new("/")] {
        let error = Writer::create(path, &buffered()).err().unwrap();
        assert!(matches!(error, Error::Open { .. }), "{error}");
    }
}

#[test]
fn direct_writes_go_around_the_page_cache_but_for_the_tail() {
    let scratch = Scratch::new("writer_direct");
    let path = scratch.path("out");
    let made = Writer::create(&path, &options(Access::Direct, 16_384, 2));
    let Some(mut writer) = direct_or_skip("direct_writes", made) else { return };
    let unaligned = Writer::create(&path, &options(Access::Direct, 4000, 2)).err().unwrap();
    assert!(matches!(unaligned, Error::Unaligned { block: 4000, .. }), "{unaligned}");
    writer.write_all(&bytes(0, 100_000)).unwrap();
    writer.finish().unwrap();
    let cached = crate::page_cache::residency(&File::open(&path).unwrap(), 0..u64::MAX).unwrap();
    if crate::page_cache::drop_pages(&File::open(&path).unwrap(), 0..u64::MAX).unwrap().cached == 0 {
        assert_eq!((cached.pages, cached.cached), (25, 1), "{cached:?}");
    }
    assert_eq!(fs::read(path).unwrap(), bytes(0, 100_000));
}

#[test]
fn an_error_is_told_at_every_call_after_it_with_its_place() {
    let scratch = Scratch::new("writer_errors");
    // The first block is written, and half of the second.
    let third_call = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&third_call);
    let pwrite: Pwrite = Arc::new(move |file, bytes, at| match count.fetch_add(1, Ordering::Relaxed) {
        0 => file.write_at(bytes, at),
        1 => file.write_at(&bytes[..2048], at),
        _ => Err(io::Error::from_raw_os_error(libc::EIO)),
    });
    let mut writer = Writer::with(&scratch.path("out"), &options(Access::Buffered, 4096, 1), pwrite).unwrap();
    writer.write_all(&[1; 8192]).unwrap();
    let flushed = writer.flush().unwrap_err();
    assert!(flushed.to_string().contains("cannot write 2048 bytes at 6144 of "), "{flushed}");
    let is_it = |error: Error| {
        let Error::Write { offset, length, source, .. } = error else { panic!("{error}") };
        assert_eq!((offset, length, source.raw_os_error()), (6144, 2048, Some(libc::EIO)));
    };
    is_it(writer.buffer().unwrap_err());
    assert!(io::Write::write(&mut writer, &[1]).is_err());
    assert!(writer.flush().is_err());
    is_it(writer.finish().unwrap_err());
    assert_eq!(scratch.entries(), 0);
}

#[test]
fn an_error_of_the_last_write_is_told_by_finish() {
    let scratch = Scratch::new("writer_last");
    let mut writer = Writer::with(&scratch.path("out"), &buffered(), failing(libc::EIO)).unwrap();
    writer.write_all(&[1; 100]).unwrap();
    assert!(matches!(writer.finish(), Err(Error::Write { offset: 0, length: 100, .. })));
    let stuck: Pwrite = Arc::new(|_, _, _| Ok(0));
    let mut writer = Writer::with(&scratch.path("out"), &buffered(), stuck).unwrap();
    writer.write_all(&[1; 4096]).unwrap();
    let Err(Error::Write { source, .. }) = writer.finish() else { panic!() };
    assert_eq!(source.kind(), io::ErrorKind::WriteZero);
    assert_eq!(scratch.entries(), 0);
}

#[test]
fn a_disk_that_becomes_full_is_told_with_what_is_missing() {
    let scratch = Scratch::new("writer_full");
    let options = WriteOptions { expected: Some(10_000), ..buffered() };
    let mut writer = Writer::with(&scratch.path("out"), &options, failing(libc::ENOSPC)).unwrap();
    let mut buffer = writer.buffer().unwrap();
    buffer.set_len(4096);
    writer.write(buffer).unwrap();
    let error = writer.finish().unwrap_err();
    let Error::Full { offset: 0, needed: 10_000, free, .. } = error else { panic!("{error}") };
    assert!(free > 0 && error.to_string().contains("it needs 10000 more"), "{error}");
}

#[test]
fn more_than_the_disk_has_is_refused_at_once() {
    let scratch = Scratch::new("writer_no_room");
    let options = WriteOptions { expected: Some(1 << 60), ..buffered() };
    let error = Writer::create(&scratch.path("out"), &options).err().unwrap();
    assert!(matches!(error, Error::NoRoom { needed: 0x1000_0000_0000_0000, .. }), "{error}");
    assert_eq!(scratch.entries(), 0);
}

#[test]
fn a_caller_who_keeps_all_buffers_is_told() {
    let scratch = Scratch::new("writer_held");
    let mut writer = Writer::create(&scratch.path("out"), &options(Access::Buffered, 10, 1)).unwrap();
    let mut held: Vec<Buffer> = (0..4).map(|_| writer.buffer().unwrap()).collect();
    assert!(matches!(writer.buffer(), Err(Error::AllHeld { .. })));
    assert!(io::Write::write(&mut writer, b"x").is_err());
    for _ in 0..20 {
        writer.write(held.pop().unwrap()).unwrap();
        held.push(writer.buffer().unwrap());
    }
    drop(held);
    writer.write_all(&[7; 25]).unwrap();
    assert_eq!(writer.finish().unwrap().bytes, 25);
    assert_eq!(fs::read(scratch.path("out")).unwrap(), [7; 25]);
}

#[test]
fn what_was_allocated_and_not_written_is_given_back() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new("writer_shorter");
    for (access, expected) in
        [(Access::Buffered, Some(1 << 20)), (Access::Direct, Some(1 << 20)), (Access::Direct, None)]
    {
        let options = WriteOptions { expected, ..options(access, 4096, 2) };
        let made = Writer::create(&scratch.path("out"), &options);
        let Some(mut writer) = direct_or_skip("what_was_allocated", made) else { return };
        writer.write_all(&[7; 5000]).unwrap();
        if free_bytes(&writer.target.file).is_some_and(|free| free > 1 << 30) {
            let ahead = writer.target.file.metadata().unwrap().len();
            assert!(ahead >= 1 << 20, "{ahead} bytes allocated: nothing is tested");
        }
        writer.finish().unwrap();
        let metadata = fs::metadata(scratch.path("out")).unwrap();
        assert_eq!(metadata.len(), 5000);
        assert!(metadata.blocks() * 512 < 1 << 19, "{} blocks", metadata.blocks());
    }
}

/// Marks the process that a test has started.
const INSIDE: &str = "SAKIYOMI_TEST_INSIDE";

/// Runs a test once more, by itself in a process of which a shell has prepared the surroundings.
fn inside(test: &str, shell: &[&str], preparation: &str, directory: &Path) {
    let output = Command::new(shell[0])
        .args(&shell[1..])
        .args(["-c", &format!("{preparation} && exec \"$0\" --exact writer::tests::{test} --nocapture")])
        .arg(std::env::current_exe().unwrap())
        .env(INSIDE, directory)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{}: {told}\n{errors}", output.status);
}

#[test]
fn a_file_over_the_limit_of_the_process_is_an_error_and_not_its_end() {
    let test = "a_file_over_the_limit_of_the_process_is_an_error_and_not_its_end";
    let Some(directory) = std::env::var_os(INSIDE) else {
        let scratch = Scratch::new("writer_limit");
        // In units of 512 bytes, or 1024 in some shells.
        return inside(test, &["sh"], "ulimit -f 32", scratch.root());
    };
    let path = Path::new(&directory).join("out");
    let is_too_large = |error: Option<Error>| match error {
        Some(Error::Write { source, .. }) => source.raw_os_error() == Some(libc::EFBIG),
        _ => false,
    };
    for access in [Access::Buffered, Access::Direct] {
        let made = Writer::create(&path, &options(access, 8192, 2));
        let Some(mut writer) = direct_or_skip(test, made) else { return };
        let error = (0..9).find_map(|_| writer.write_all(&[1; 4000]).err()).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{error}");
        assert!(is_too_large(writer.finish().err()));
        assert!(!path.exists());
    }
    let expected = WriteOptions { expected: Some(100_000), ..buffered() };
    assert!(is_too_large(Writer::create(&path, &expected).err()));
}

/// Runs a test again with a file system of its own on a directory.
fn inside_mount(test: &str, kind: &str, scratch: &Scratch) {
    // The mount is seen by that process only, and goes with it.
    let unshare = ["unshare", "--mount", "sh"];
    let allowed = Command::new("unshare").args(["--mount", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        return skipped(test, "a mount namespace needs root and unshare(1)");
    }
    let mount = format!("mount -t {kind} none '{}'", scratch.root().display());
    inside(test, &unshare, &mount, scratch.root());
}

#[test]
fn where_direct_writes_are_not_possible_no_file_is_left() {
    let test = "where_direct_writes_are_not_possible_no_file_is_left";
    let Some(directory) = std::env::var_os(INSIDE) else {
        return inside_mount(test, "ramfs", &Scratch::new("writer_ramfs"));
    };
    let directory = Path::new(&directory);
    let path = directory.join("out");
    let error = Writer::create(&path, &options(Access::Direct, 4096, 1)).err().unwrap();
    assert!(matches!(error, Error::NoDirect { .. }), "{error}");
    let refused = target::hidden(&path, OFlags::DIRECT).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
    assert_eq!(fs::read_dir(directory).unwrap().count(), 0);
}

#[test]
fn a_full_disk_is_an_error_that_names_the_room() {
    let test = "a_full_disk_is_an_error_that_names_the_room";
    let Some(directory) = std::env::var_os(INSIDE) else {
        return inside_mount(test, "tmpfs -o size=1m", &Scratch::new("writer_tmpfs"));
    };
    let directory = Path::new(&directory);
    let path = directory.join("out");
    let ways = [(Access::Buffered, 1), (Access::Direct, 1), (Access::Buffered, 3), (Access::Direct, 3)];
    for (access, depth) in ways {
        let expected = WriteOptions { expected: Some(2 << 20), ..options(access, 65_536, depth) };
        let error = Writer::create(&path, &expected).err().unwrap();
        assert!(matches!(error, Error::NoRoom { needed: 0x20_0000, free: 0x10_0000, .. }), "{error}");

        let mut writer = Writer::create(&path, &WriteOptions { expected: None, ..expected }).unwrap();
        let error = (0..64).find_map(|_| writer.write_all(&[1; 65_536]).err()).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
        let error = writer.finish().unwrap_err();
        let Error::Full { offset, needed, free: 0, .. } = error else { panic!("{error}") };
        // With several, those behind it may have taken the last pages while it waited for a processor.
        assert!(if depth == 1 { offset == 1 << 20 } else { offset <= 1 << 20 }, "{error}");
        assert!((1..=65_536).contains(&needed), "{error}");
        assert_eq!(fs::read_dir(directory).unwrap().count(), 0);

        // What was taken is free again.
        let fits = WriteOptions { expected: Some(1 << 20), ..expected };
        let mut writer = Writer::create(&path, &fits).unwrap();
        writer.write_all(&vec![1; 1 << 20]).unwrap();
        assert_eq!(writer.finish().unwrap().bytes, 1 << 20);
        fs::remove_file(&path).unwrap();
    }
}

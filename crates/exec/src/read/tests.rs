#[cfg(feature = "compression")]
mod compressed;
mod exact;
mod functions;
mod records;

use std::io::{self, Cursor, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use sakiyomi_io::Access;
use sakiyomi_io::file::IoFile;
use sakiyomi_io::page_cache::drop_pages;
use sakiyomi_os::loop_device::LoopDevice;
use sakiyomi_testing::{ScratchFile, skipped};

fn concatenated(mut first: Vec<u8>, next: Vec<u8>) -> Vec<u8> {
    first.extend(next);
    first
}

/// Variants of reading that take different code paths.
fn ways(path: &Path) -> Vec<BlockedRead> {
    let read = || blocked_read(path).threads(2);
    let method = |method: &str| read().method(method.parse().unwrap());
    vec![
        read(),
        read().io_thread(IoThread::Shared),
        method("read"),
        method("pread:2"),
        method("mmap:3"),
        method("mmap:3").io_thread(IoThread::Shared),
        method("pread:2").io_thread(IoThread::Shared),
    ]
}

/// Returns the records as mapped, with a mark for each call.
fn marked(records: &[u8]) -> Vec<u8> {
    assert!(!records.is_empty());
    let mut marked = records.to_vec();
    if !marked.ends_with(b"\n") {
        marked.push(b'$');
    }
    marked
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn records_are_whole_and_in_order_however_they_are_read(
        text in "[a\n]{0,60}|[a-zé\r\n]{0,300}|[a-z]{0,40}", block in 1usize..40,
    ) {
        let scratch = ScratchFile::new(text.as_bytes());
        let expected = if text.is_empty() { Vec::new() } else { marked(text.as_bytes()) };
        for way in ways(scratch.path()) {
            let mapped = || way.clone().block(block).records(b'\n').map(marked);
            let (reduced, report) = mapped().reduce(Vec::new(), concatenated).unwrap();
            prop_assert_eq!(&reduced, &expected, "{:?}", &way);
            prop_assert_eq!(report.bytes, text.len() as u64);
            let mut written = Vec::new();
            mapped().write_ordered(&mut written).unwrap();
            prop_assert_eq!(&written, &expected, "{:?}", &way);
        }
        let stream = || Cursor::new(text.as_bytes());
        let mapped = || blocked_read("-").block(block).records(b'\n').map(marked);
        prop_assert_eq!(&mapped().reduce_stream(stream(), Vec::new(), concatenated).unwrap().0, &expected);
        let mut written = Vec::new();
        mapped().in_order_stream(stream(), |lines| written.write_all(&lines)).unwrap();
        prop_assert_eq!(written, expected);
    }

    #[test]
    fn blocks_of_a_range_are_put_together_in_the_files_order(
        bytes in prop::collection::vec(any::<u8>(), 1..400), block in 1usize..50, from in any::<u64>(), to in any::<u64>(),
    ) {
        let scratch = ScratchFile::new(&bytes);
        let size = bytes.len() as u64;
        let (from, to) = (from % (size + 1), to % (size + 1));
        let expected = bytes.get(from as usize..to as usize).unwrap_or_default();
        for way in ways(scratch.path()) {
            let mapped = || way.clone().range(from..to).block(block).map(<[u8]>::to_vec);
            prop_assert_eq!(&mapped().reduce(Vec::new(), concatenated).unwrap().0, expected);
            let mut written = Vec::new();
            mapped().write_ordered(&mut written).unwrap();
            prop_assert_eq!(&written, expected);
        }
    }
}

/// Like [`ways`], for many files.
fn ways_of_many(paths: &[PathBuf]) -> Vec<BlockedRead> {
    let many = |one: BlockedRead| BlockedRead { source: Paths(paths.to_vec()), ..one };
    ways(Path::new("")).into_iter().map(many).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn many_files_are_one_text_or_each_its_own(
        texts in prop::collection::vec("[a\n]{0,60}|[a-zé\r\n]{0,300}|[a-z]{0,40}", 2..6), block in 1usize..40,
    ) {
        let scratch: Vec<ScratchFile> = texts.iter().map(|text| ScratchFile::new(text.as_bytes())).collect();
        let paths: Vec<PathBuf> = scratch.iter().map(|scratch| scratch.path().to_owned()).collect();
        let of = |text: &String| if text.is_empty() { Vec::new() } else { marked(text.as_bytes()) };
        let expected: Vec<Vec<u8>> = texts.iter().map(of).collect();
        for way in ways_of_many(&paths) {
            let mapped = || way.clone().block(block).records(b'\n').map(marked);
            let (reduced, report) = mapped().reduce(Vec::new(), concatenated).unwrap();
            prop_assert_eq!(&reduced, &expected.concat(), "{:?}", &way);
            prop_assert_eq!(report.bytes, texts.concat().len() as u64);
            let mut written = Vec::new();
            mapped().write_ordered(&mut written).unwrap();
            prop_assert_eq!(&written, &expected.concat(), "{:?}", &way);
            let mut each = Vec::new();
            mapped().reduce_each(Vec::new, concatenated, |file, result| {
                assert_eq!(file, each.len());
                each.push(result.unwrap().0);
                Ok(())
            }).unwrap();
            prop_assert_eq!(&each, &expected, "{:?}", &way);
        }
    }
}

/// Small files, an empty one, a large one, and others.
fn of_all_sizes() -> (Vec<ScratchFile>, Vec<PathBuf>, Vec<Vec<u8>>) {
    let lines =
        |count: u32| (0..count).flat_map(|number| format!("{number}\n").into_bytes()).collect::<Vec<u8>>();
    let texts: Vec<Vec<u8>> =
        (0..150).map(|file| lines(if file % 40 == 7 { 100_000 } else { file * 3 })).collect();
    let scratch: Vec<ScratchFile> = texts.iter().map(ScratchFile::new).collect();
    let mut paths: Vec<PathBuf> = scratch.iter().map(|scratch| scratch.path().to_owned()).collect();
    paths.insert(60, "/no/such/file".into());
    paths.insert(100, "/".into());
    (scratch, paths, texts)
}

#[test]
fn a_file_that_cannot_be_read_does_not_stop_the_others() {
    let (scratch, paths, texts) = of_all_sizes();
    for way in ways_of_many(&paths) {
        for cold in [false, true] {
            for file in scratch.iter().filter(|_| cold) {
                let file = std::fs::File::open(file.path()).unwrap();
                let _ = drop_pages(&file, 0..u64::MAX);
            }
            let (mut errors, mut bytes) = (Vec::new(), Vec::new());
            let each = |file: usize, counted: Result<(usize, Report), Error>| {
                match counted {
                    Ok((count, report)) => {
                        assert_eq!(report.bytes, count as u64);
                        bytes.push(count);
                    }
                    Err(error) => errors.push((file, error.to_string())),
                }
                Ok(())
            };
            way.clone().map(<[u8]>::len).reduce_each(|| 0, |first, next| first + next, each).unwrap();
            assert_eq!(bytes, texts.iter().map(Vec::len).collect::<Vec<_>>());
            let expected = [(60, "cannot open /no/such/file".to_owned()), (100, "cannot read /".to_owned())];
            assert_eq!(errors, expected, "{way:?}");
        }
        let error = way.map(<[u8]>::len).reduce(0, |first, next| first + next).unwrap_err();
        assert_eq!(error.to_string(), "cannot open /no/such/file");
    }
}

#[test]
fn the_rest_of_a_file_can_be_left_out() {
    let (_scratch, paths, texts) = of_all_sizes();
    for way in ways_of_many(&paths) {
        let (mapped, mut first, mut ends) = (AtomicUsize::new(0), Vec::new(), 0);
        let map = |file: usize, lines: &[u8]| {
            mapped.fetch_add(lines.len(), Ordering::Relaxed);
            (file, lines.to_vec())
        };
        let take = |file: usize, event: Event<(usize, Vec<u8>)>| {
            match event {
                Event::Result((of, lines)) => {
                    assert_eq!(of, file);
                    first.push(lines);
                }
                Event::End(_) => ends += 1,
            }
            Ok(Wanted::NextFile)
        };
        way.block(1000).records(b'\n').map_of_each(map).each_in_order(take).unwrap();
        assert_eq!(ends, paths.len());
        let begin = texts.iter().filter(|text| !text.is_empty());
        assert!(first.iter().zip(begin).all(|(first, text)| text.starts_with(first)));
        assert_eq!(first.len(), texts.iter().filter(|text| !text.is_empty()).count());
        assert!(mapped.into_inner() <= texts.concat().len());
    }
}

#[test]
fn who_takes_results_can_end_the_reading() {
    let (_scratch, paths, _) = of_all_sizes();
    for way in ways_of_many(&paths) {
        let mut calls = 0;
        let error = way
            .map(<[u8]>::len)
            .reduce_each(
                || 0,
                |first, next| first + next,
                |file, _| {
                    calls += 1;
                    if file == 20 { Err(io::Error::other("enough")) } else { Ok(()) }
                },
            )
            .unwrap_err();
        assert!(matches!(error, Error::Write(_)), "{error}");
        assert_eq!(calls, 21, "nothing is called after that");
    }
}

#[test]
fn a_large_file_is_the_same_whatever_is_in_memory() {
    let text: Vec<u8> = (0..900_000u32).flat_map(|number| format!("{number}\n").into_bytes()).collect();
    let scratch = ScratchFile::new(&text);
    let file = std::fs::File::open(scratch.path()).unwrap();
    let sum = |lines: &[u8]| {
        lines
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| line.len() as u64)
            .sum::<u64>()
    };
    let expected = sum(&text);
    for cold in [0..0, 0..u64::MAX, 3 << 20..4 << 20] {
        file.sync_all().unwrap();
        let _ = drop_pages(&file, cold);
        let (found, report) = blocked_read(scratch.path())
            .records(b'\n')
            .map(sum)
            .reduce(0, |first, next| first + next)
            .unwrap();
        assert_eq!(found, expected);
        assert_eq!(report.bytes, text.len() as u64);
    }
}

#[test]
fn records_come_in_order_from_more_blocks_than_may_wait() {
    let text: Vec<u8> = (0..60_000u32).flat_map(|number| format!("{number}\n").into_bytes()).collect();
    let scratch = ScratchFile::new(&text);
    for way in ways(scratch.path()) {
        let mut written = Vec::new();
        way.block(100).records(b'\n').map(<[u8]>::to_vec).write_ordered(&mut written).unwrap();
        assert!(written == text);
    }
    let mut written = Vec::new();
    let mapped = blocked_read("-").block(100).records(b'\n').map(<[u8]>::to_vec);
    mapped.in_order_stream(Cursor::new(&text), |lines| written.write_all(&lines)).unwrap();
    assert!(written == text);
}

#[test]
fn a_record_longer_than_what_is_read_ahead_is_an_error() {
    let scratch = ScratchFile::new(vec![b'x'; (16 << 20) + (1 << 20)]);
    for way in ways(scratch.path()) {
        let error = way.records(b'\n').map(<[u8]>::len).reduce(0, |first, next| first + next).unwrap_err();
        assert!(matches!(error, Error::LongRecord { .. }), "{error}");
    }
}

#[test]
fn a_function_that_panics_is_told_and_nothing_hangs() {
    let scratch = ScratchFile::new(vec![b'\n'; 3 << 20]);
    for way in ways(scratch.path()) {
        let mapped = way.block(1000).map(|_| -> Vec<u8> { panic!("no such thing") });
        let error = mapped.write_ordered(io::sink()).unwrap_err();
        assert_eq!(error.to_string(), "the task `block` panicked: no such thing");
    }
}

#[test]
fn an_output_that_is_full_ends_the_read() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let scratch = ScratchFile::new(vec![b'\n'; 3 << 20]);
    for way in ways(scratch.path()) {
        let error = way.block(1000).map(<[u8]>::to_vec).write_ordered(Full).unwrap_err();
        assert!(matches!(error, Error::Write(_)), "{error}");
    }
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let count = |path: &str| blocked_read(path).map(<[u8]>::len).reduce(0, |first, next| first + next);
    assert!(matches!(count("/no/such/file"), Err(Error::Open { .. })));
    assert!(matches!(count("/"), Err(Error::Stream { .. })));
    assert!(count("/proc/self/status").unwrap().0 > 0, "its size says nothing");
}

/// Drops a file's pages from memory, so that they are cold, unless it lies on a tmpfs.
fn make_cold(path: &Path) {
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    let _ = drop_pages(&file, 0..u64::MAX);
}

#[test]
fn what_is_brought_is_worked_on_where_it_is() {
    let text: Vec<u8> = (0..900_000u32).flat_map(|number| format!("{number}\n").into_bytes()).collect();
    let scratch = ScratchFile::new(&text);
    for cold in [true, false] {
        make_cold(scratch.path());
        let (read, report) =
            blocked_read(scratch.path()).map(<[u8]>::to_vec).reduce(Vec::new(), concatenated).unwrap();
        assert!(read == text);
        assert_eq!((report.bytes, report.mapped_bytes), (text.len() as u64, text.len() as u64), "{cold}");
    }
    let pread = blocked_read(scratch.path()).method("pread:1".parse().unwrap());
    assert_eq!(pread.map(<[u8]>::len).reduce(0, |first, next| first + next).unwrap().1.mapped_bytes, 0);
}

/// The file has offsets and a size, but no pages: loaded bytes do not stay cached, and cannot be mapped either.
#[test]
fn what_the_page_cache_does_not_keep_is_read_into_buffers() {
    let path = Path::new("/sys/kernel/btf/vmlinux");
    // Not every kernel has it.
    let Ok(expected) = std::fs::read(path) else { return };
    let (read, report) = blocked_read(path).map(<[u8]>::to_vec).reduce(Vec::new(), concatenated).unwrap();
    assert!(read == expected);
    assert_eq!(report.mapped_bytes, 0);
    let mut written = Vec::new();
    blocked_read(path).map(<[u8]>::to_vec).write_ordered(&mut written).unwrap();
    assert!(written == expected);
}

/// A block device whose file has been truncated returns errors beyond its end.
#[test]
fn a_device_that_fails_is_an_error_behind_what_it_gave() {
    const GIVEN: usize = 3 << 20;
    let text: Vec<u8> = (0..8 << 20).map(|at: u32| (at / 1000) as u8).collect();
    let scratch = ScratchFile::new(&text);
    let device = match LoopDevice::attach(scratch.path(), false, true) {
        Ok(device) => device,
        Err(error) => return skipped("a_device_that_fails", error),
    };
    let cut = std::fs::OpenOptions::new().write(true).open(scratch.path()).unwrap();
    cut.set_len(GIVEN as u64).unwrap();
    for way in ways(device.path()) {
        make_cold(device.path());
        let (mut given, mut end) = (Vec::new(), None);
        let take = |_, event| {
            match event {
                Event::Result(block) => given.extend::<Vec<u8>>(block),
                Event::End(how) => end = Some(how),
            }
            Ok(Wanted::More)
        };
        way.clone().map(<[u8]>::to_vec).each_in_order(take).unwrap();
        assert!(matches!(end, Some(Err(Error::Io(_)))), "{way:?}: {end:?}");
        assert!(given.len() <= GIVEN && text.starts_with(&given), "{way:?}: {}", given.len());
        // The kernel fails the whole request, including its read-ahead.
        assert!(!given.is_empty(), "{way:?}");
    }
}

/// Blocks before an error are still being processed when it occurs; none of them is lost.
#[test]
fn all_blocks_before_an_error_have_results() {
    struct Failing;
    impl io::Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("no more"))
        }
    }
    // Read by the caller; or by the I/O thread for two others.
    for size in [20_500, 2_000_500u32] {
        let text: Vec<u8> = (0..size).map(|at| (at / 100) as u8).collect();
        let mut given = Vec::new();
        let slow = |block: &[u8]| {
            std::thread::sleep(Duration::from_millis(5));
            block.to_vec()
        };
        let read = || blocked_read("stream").threads(2);
        let from = || io::Read::chain(Cursor::new(&text), Failing);
        let ended = read().map(slow).in_order_stream(from(), |block| given.write_all(&block));
        assert!(matches!(ended, Err(Error::Stream { .. })), "{ended:?}");
        assert!(given == text, "{} of {} bytes", given.len(), text.len());
        let (mut given, blocks) = (Vec::new(), read().block(10_000).map(slow));
        blocks.in_order_stream(from(), |block| given.write_all(&block)).unwrap_err();
        // The last one was not complete.
        assert!(given == text[..text.len() - 500], "{} of {} bytes", given.len(), text.len());
    }
}

/// Reads a file that `change` modifies on the first call of the mapping function.
fn changed_meanwhile(
    way: &BlockedRead,
    text: &[u8],
    cold: bool,
    change: impl Fn(&Path) + Sync,
) -> Result<(Vec<u8>, Report), Error> {
    let scratch = ScratchFile::new(text);
    if cold {
        make_cold(scratch.path());
    }
    let once = Once::new();
    let read = BlockedRead { source: Paths(vec![scratch.path().to_owned()]), ..way.clone() };
    let map = |block: &[u8]| {
        once.call_once(|| change(scratch.path()));
        block.to_vec()
    };
    read.map(map).reduce(Vec::new(), concatenated)
}

#[test]
fn a_file_that_shrinks_is_an_error_and_one_that_grows_or_goes_is_not() {
    let text: Vec<u8> = (0..1_000_000u32).flat_map(|number| format!("{number}\n").into_bytes()).collect();
    for way in ways(Path::new("")) {
        for cold in [false, true] {
            let cut =
                |path: &Path| std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(1).unwrap();
            // A read whose buffers already hold the whole file is not affected.
            match changed_meanwhile(&way, &text, cold, cut) {
                Ok((read, _)) => assert!(read == text, "{way:?}"),
                Err(Error::Io(sakiyomi_io::Error::Shrunk { .. })) => {}
                Err(error) => panic!("{way:?}: {error}"),
            }
            let append = |path: &Path| {
                let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
                file.write_all(&[b'x'; 5000]).unwrap();
            };
            let (read, report) = changed_meanwhile(&way, &text, cold, append).unwrap();
            assert!(read == text && report.bytes == text.len() as u64, "{way:?}");
            let (read, _) =
                changed_meanwhile(&way, &text, cold, |path| std::fs::remove_file(path).unwrap()).unwrap();
            assert!(read == text, "{way:?}");
        }
    }
}

#[test]
fn results_that_wait_for_their_turn_are_bounded() {
    /// A result as large as its block.
    struct Large<'c>(usize, &'c AtomicUsize);
    impl Drop for Large<'_> {
        fn drop(&mut self) {
            self.1.fetch_sub(self.0, Ordering::Relaxed);
        }
    }
    let mut text = vec![b'\n'; 48 << 20];
    text[0] = b'x';
    let scratch = ScratchFile::new(&text);
    for cold in [false, true] {
        for block in [1000, 128 << 10, 1 << 20] {
            if cold {
                make_cold(scratch.path());
            }
            let (live, most, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
            let map = |lines: &[u8]| {
                // All others wait for the first.
                if lines[0] == b'x' {
                    std::thread::sleep(Duration::from_millis(200));
                }
                most.fetch_max(
                    live.fetch_add(lines.len(), Ordering::Relaxed) + lines.len(),
                    Ordering::Relaxed,
                );
                Large(lines.len(), &live)
            };
            let take = |result: Large| {
                bytes.fetch_add(result.0, Ordering::Relaxed);
                Ok(())
            };
            blocked_read(scratch.path()).threads(3).block(block).map(map).in_order(take).unwrap();
            assert_eq!(bytes.into_inner(), text.len());
            let most = most.into_inner();
            assert!(most <= 16 << 20, "{most} bytes at the same time, cold: {cold}, blocks of {block}");
        }
    }
}

#[test]
fn a_panic_wherever_it_is_ends_all_files_and_nothing_hangs() {
    let (_scratch, paths, _) = of_all_sizes();
    for way in ways_of_many(&paths) {
        let map = |file: usize, lines: &[u8]| {
            assert!(file != 47, "in map");
            lines.len()
        };
        let sum = |first: usize, next: usize| first + next;
        let taken = |_: usize, _: Result<(usize, Report), Error>| Ok(());
        let said = |error: Error| match error {
            Error::Task(failure) => failure.to_string(),
            error => panic!("{error}"),
        };
        let error = way.clone().map_of_each(map).reduce_each(|| 0, sum, taken).unwrap_err();
        assert_eq!(said(error), "the task `block` panicked: in map");
        let broken = |_: usize, _: usize| -> usize { panic!("in put_together") };
        let error = way.clone().block(5000).map(<[u8]>::len).reduce_each(|| 0, broken, taken).unwrap_err();
        assert_eq!(said(error), "the task `block` panicked: in put_together");
        let has_panicked = AtomicBool::new(false);
        let take = |file: usize, _: Result<(usize, Report), Error>| {
            assert!(!has_panicked.load(Ordering::Relaxed), "nothing is called after that");
            has_panicked.store(file == 20, Ordering::Relaxed);
            assert!(file < 20, "in take");
            Ok(())
        };
        let error = way.clone().map(<[u8]>::len).reduce_each(|| 0, sum, take).unwrap_err();
        assert_eq!(said(error), "the task `block` panicked: in take");
        let error = way.map(<[u8]>::len).in_order(|_| panic!("in take")).unwrap_err();
        assert_eq!(said(error), "the task `block` panicked: in take");
    }
}

#[test]
fn who_takes_results_in_order_can_end_the_reading() {
    let (_scratch, paths, _) = of_all_sizes();
    for way in ways_of_many(&paths) {
        let mut calls = 0;
        let take = |_: usize, _: Event<usize>| {
            calls += 1;
            if calls == 100 { Err(io::Error::other("enough")) } else { Ok(Wanted::More) }
        };
        let error = way.block(5000).map(<[u8]>::len).each_in_order(take).unwrap_err();
        assert!(matches!(error, Error::Write(_)), "{error}");
        assert_eq!(calls, 100, "nothing is called after that");
    }
}

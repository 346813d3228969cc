//! Spill files as bytes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use bytes::Bytes;
use datafusion::execution::spill_file::{SpillFile, TempFileFactory};
use futures::executor::block_on;
use futures::{FutureExt, StreamExt, TryStreamExt};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_datafusion::spill::{SpillFactory, SpillOptions};
use sakiyomi_query::spill::{Level, SpillCompression};
use sakiyomi_testing::{Scratch, wait_until};

/// A factory that spills to a directory of a test.
pub(crate) fn factory(scratch: &Scratch, options: SpillOptions) -> Arc<SpillFactory> {
    SpillFactory::new(&SpillOptions { directories: vec![scratch.root().to_owned()], ..options }).unwrap()
}

/// All bytes of a file that is written.
pub(crate) fn read(file: &dyn SpillFile) -> datafusion::common::Result<Vec<u8>> {
    let chunks: Vec<Bytes> = block_on(file.read_stream()?.try_collect())?;
    Ok(chunks.concat())
}

/// Bytes, half of which repeat themselves.
pub(crate) fn content(random: &mut Pcg64, length: usize) -> Vec<u8> {
    let noise = random.next_u64();
    (0..length as u64)
        .map(|index| if index & 64 == 0 { index as u8 } else { (index.wrapping_mul(noise | 1) >> 40) as u8 })
        .collect()
}

/// Ends the tests if work has not ended after a time that suffices on any machine: it hangs.
pub(crate) fn with_watchdog(what: &str, work: impl FnOnce() + Send + 'static) {
    let (tell, told) = channel();
    let thread = std::thread::spawn(move || {
        work();
        tell.send(()).unwrap();
    });
    if let Err(RecvTimeoutError::Timeout) = told.recv_timeout(Duration::from_secs(900)) {
        eprintln!("{what} hangs");
        std::process::abort();
    }
    thread.join().unwrap();
}

#[test]
fn what_is_written_is_read_with_every_compression_by_every_reader() {
    let mut random = Pcg64::seed_from_u64(1);
    let scratch = Scratch::new("spill_bytes");
    let modes = Level::ALL.map(SpillCompression::Fixed).into_iter().chain([SpillCompression::Adaptive]);
    for compression in modes {
        let factory = factory(&scratch, SpillOptions { compression, chunk: 64 << 10, ..Default::default() });
        for length in [0, 1, 4096, 65_535, 65_536, 65_537, 3_000_000] {
            let bytes = content(&mut random, length);
            let file = factory.create_temp_file("test").unwrap();
            let mut writer = file.open_writer().unwrap();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let part = 1 + random.next_u64() as usize % 100_000;
                let (now, later) = rest.split_at(part.min(rest.len()));
                writer.write_all(now).unwrap();
                rest = later;
            }
            writer.finish().unwrap();
            assert_eq!(file.size(), Some(length as u64));
            let (first, second) = (file.read_stream().unwrap(), file.read_stream().unwrap());
            let both = block_on(first.zip(second).collect::<Vec<_>>());
            let both: Vec<(Bytes, Bytes)> =
                both.into_iter().map(|(first, second)| (first.unwrap(), second.unwrap())).collect();
            assert!(both.iter().all(|(first, second)| first == second));
            assert!(
                both.concat_first() == bytes && read(&*file).unwrap() == bytes,
                "{compression:?} {length}"
            );
        }
        // Readers that have ended return the last blocks on their own threads.
        wait_until("the space of the files to be returned", || {
            let stats = factory.stats();
            (stats.files, stats.current_bytes) == (0, 0)
        });
        let stats = factory.stats();
        assert_eq!(stats.files_created, 7);
        let raw: u64 = stats.levels.iter().map(|level| level.raw_bytes).sum();
        assert_eq!(stats.written_bytes, raw);
        if let SpillCompression::Fixed(level) = compression {
            assert!(stats.levels.iter().any(|used| used.level == level), "{stats:?}");
        }
    }
}

trait ConcatFirst {
    fn concat_first(&self) -> Vec<u8>;
}

impl ConcatFirst for Vec<(Bytes, Bytes)> {
    fn concat_first(&self) -> Vec<u8> {
        self.iter().flat_map(|(first, _)| first.iter().copied()).collect()
    }
}

#[test]
fn a_reader_of_a_growing_file_sees_what_was_flushed_and_is_woken_for_more() {
    let mut random = Pcg64::seed_from_u64(2);
    let scratch = Scratch::new("spill_growing");
    let factory = factory(&scratch, SpillOptions { chunk: 64 << 10, ..Default::default() });
    let file = factory.create_temp_file("test").unwrap();
    let mut reader = file.read_stream().unwrap();
    assert_eq!(block_on(file.read_stream().unwrap().count()), 0, "a file without a writer is empty");
    let mut writer = file.open_writer().unwrap();
    assert!(file.open_writer().is_err(), "a second writer");
    let (mut written, mut seen) = (Vec::new(), Vec::new());
    for round in 0..200 {
        let length = random.next_u64() as usize % [100, 200_000][usize::from(round % 10 == 0)];
        let bytes = content(&mut random, length);
        writer.write_all(&bytes).unwrap();
        written.extend_from_slice(&bytes);
        if round % 3 == 0 {
            writer.flush().unwrap();
            while seen.len() < written.len() {
                // Blocks while a chunk is in flight; its end wakes it.
                seen.extend_from_slice(&block_on(reader.next()).unwrap().unwrap());
            }
            assert!(seen == written, "round {round}");
        } else {
            // Full chunks are seen without a flush.
            while let Some(Some(bytes)) = reader.next().now_or_never() {
                seen.extend_from_slice(&bytes.unwrap());
            }
            assert!(written.starts_with(&seen), "round {round}");
        }
    }
    // A reader that waits is woken by the end.
    let waiting = std::thread::spawn(move || block_on(reader.try_collect::<Vec<Bytes>>()).unwrap().concat());
    writer.write_all(b"the end").unwrap();
    writer.finish().unwrap();
    written.extend_from_slice(b"the end");
    seen.extend_from_slice(&waiting.join().unwrap());
    assert!(seen == written && read(&*file).unwrap() == written);
}

#[test]
fn the_space_is_limited_and_returned() {
    let scratch = Scratch::new("spill_limit");
    let options = SpillOptions {
        limit_bytes: 1 << 20,
        chunk: 64 << 10,
        compression: SpillCompression::Fixed(Level::None),
        ..Default::default()
    };
    let factory = factory(&scratch, options);
    let bytes = content(&mut Pcg64::seed_from_u64(3), 700_000);
    let spill = || {
        let file = factory.create_temp_file("test").unwrap();
        let mut writer = file.open_writer().unwrap();
        writer.write_all(&bytes)?;
        writer.finish().map(|()| file).map_err(std::io::Error::other)
    };
    let first = spill().unwrap();
    let refused = spill().map(drop).unwrap_err().to_string();
    assert!(refused.contains("at most 1048576 bytes are on disk; raise the limit"), "{refused}");
    assert!(factory.stats().peak_bytes <= 1 << 20, "{:?}", factory.stats());
    // 700,000 bytes in whole blocks, once the writes in flight have ended.
    wait_until("the space to be returned", || factory.stats().current_bytes == 700_416);
    assert!(read(&*first).unwrap() == bytes);
    drop(first);
    assert!(read(&*spill().unwrap()).unwrap() == bytes);
}

#[test]
fn hundreds_of_files_are_written_and_read_at_the_same_time_with_little_memory() {
    with_watchdog("spilling to 600 files", || {
        let scratch = Scratch::new("spill_many");
        let factory = factory(&scratch, SpillOptions { memory: 2 << 20, ..Default::default() });
        let mut random = Pcg64::seed_from_u64(4);
        let files: Vec<_> = (0..600).map(|_| factory.create_temp_file("test").unwrap()).collect();
        let contents: Vec<_> = (0..600).map(|_| content(&mut random, 150_000)).collect();
        let mut writers: Vec<_> = files.iter().map(|file| file.open_writer().unwrap()).collect();
        for part in 0..10 {
            for (writer, bytes) in writers.iter_mut().zip(&contents) {
                writer.write_all(&bytes[part * 15_000..][..15_000]).unwrap();
            }
        }
        writers.iter_mut().for_each(|writer| writer.finish().unwrap());
        drop(writers);
        let mut readers: Vec<_> = files.iter().map(|file| file.read_stream().unwrap()).collect();
        let mut found = vec![Vec::new(); files.len()];
        loop {
            let mut is_more = false;
            for (reader, found) in readers.iter_mut().zip(&mut found) {
                if let Some(bytes) = block_on(reader.next()) {
                    found.push(bytes.unwrap());
                    is_more = true;
                }
            }
            if !is_more {
                break;
            }
        }
        // All batches are in memory at the same time, as those of a join may be.
        assert!(found.iter().zip(&contents).all(|(found, bytes)| found.concat() == *bytes));
        let stats = factory.stats();
        assert_eq!(stats.files, 600);
        assert!(stats.buffer_peak_bytes <= 2 << 20, "{stats:?}");
        // A tail of 64 KiB for each chunk that is written, and what is read and still in use.
        assert!(stats.buffer_beyond_bytes < 600 * 3 * (64 << 10) + 600 * 500_000, "{stats:?}");
        drop((files, readers, found));
        assert_eq!(factory.stats().current_bytes, 0);
    });
}

#[test]
fn a_runtime_with_one_thread_spills_and_reads_without_a_deadlock() {
    with_watchdog("a runtime with one thread", || {
        let scratch = Scratch::new("spill_one_thread");
        // Four chunks of the smallest size for all writers.
        let factory = factory(&scratch, SpillOptions { memory: 512 << 10, ..Default::default() });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let task = |seed: u64| {
            let factory = Arc::clone(&factory);
            async move {
                let bytes = content(&mut Pcg64::seed_from_u64(seed), 2_000_000);
                let file = factory.create_temp_file("test").unwrap();
                let mut reader = file.read_stream().unwrap();
                let mut writer = file.open_writer().unwrap();
                for part in bytes.chunks(77_777) {
                    writer.write_all(part).unwrap();
                    tokio::task::yield_now().await;
                }
                writer.finish().unwrap();
                let mut found = Vec::new();
                while let Some(part) = reader.next().await {
                    found.extend_from_slice(&part.unwrap());
                }
                assert!(found == bytes, "task {seed}");
            }
        };
        runtime.block_on(async {
            let tasks: Vec<_> = (0..20).map(|seed| tokio::spawn(task(seed))).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        assert_eq!(factory.stats().files, 0);
    });
}

#[test]
fn a_directory_stays_empty_while_it_is_spilled_to() {
    let scratch = Scratch::new("spill_unnamed");
    let factory = factory(&scratch, SpillOptions::default());
    let file = factory.create_temp_file("test").unwrap();
    let mut writer = file.open_writer().unwrap();
    writer.write_all(&[1; 3_000_000]).unwrap();
    writer.finish().unwrap();
    assert_eq!(scratch.entries(), 0);
    drop((writer, file, factory));
    assert_eq!(scratch.entries(), 0);
}

/// The variable that makes [`spills_until_it_is_killed`] a program of its own.
const CHILD: &str = "SAKIYOMI_DATAFUSION_SPILL_CHILD";

#[test]
fn spills_until_it_is_killed() {
    let Some(directory) = std::env::var_os(CHILD) else { return };
    let options = SpillOptions { directories: vec![directory.into()], ..Default::default() };
    let factory = SpillFactory::new(&options).unwrap();
    let file = factory.create_temp_file("test").unwrap();
    let mut writer = file.open_writer().unwrap();
    loop {
        writer.write_all(&[7; 1 << 20]).unwrap();
        println!("spilled");
    }
}

#[test]
fn a_killed_process_leaves_nothing() {
    let scratch = Scratch::new("spill_killed");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "spill::spills_until_it_is_killed", "--nocapture"])
        .env(CHILD, scratch.root())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let spilled = lines.map_while(Result::ok).filter(|line| line.contains("spilled")).take(8).count();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(spilled, 8, "the child ended by itself");
    assert_eq!(scratch.entries(), 0);
}

//! Counters of streams, and CPU time of engines: reported only where it can be attributed.

use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::{
    Access, BufferPool, EngineCpu, Io, IoFile, IoOptions, Memory, ReadStream, SharedOptions, WriteOptions,
    WriteStream,
};
use sakiyomi_testing::{Scratch, skipped};

use crate::on_disk::{content, file_with};

#[test]
fn streams_of_both_kinds_count_bytes_and_calls() {
    let disk = FakeDisk::default();
    let (source, target) = (disk.file(content(1 << 20), 1).unwrap(), disk.file(Vec::new(), 1).unwrap());
    let faults = Faults { seed: 1, short_of_256: 100, interrupted_of_256: 50, ..Faults::default() };
    let io = Io::over(disk.engine(4, faults), BufferPool::with_budget(4 << 20, Memory::Ordinary));
    let options = WriteOptions { block: 128 << 10, ..WriteOptions::default() };
    let mut writer = WriteStream::shared(&io, &target, &options).unwrap();
    let options = SharedOptions { block: 128 << 10, ..SharedOptions::default() };
    let mut reader = ReadStream::shared(&io, &source, 0..u64::MAX, &options).unwrap();
    let first = reader.next().unwrap().unwrap().len() as u64;
    let before = reader.stats();
    for block in reader.by_ref() {
        writer.write_all(&block.unwrap()).unwrap();
    }
    let (read, phase) = (reader.stats(), reader.stats().since(before));
    let written = writer.finish().unwrap();
    assert_eq!(
        (read.bytes, written.stats.bytes, written.bytes),
        (1 << 20, (1 << 20) - first, (1 << 20) - first)
    );
    // Eight blocks each, some of which took several calls.
    assert!(read.calls > 8 && written.stats.calls > 7, "{read:?} {written:?}");
    assert_eq!((phase.bytes, phase.calls), (read.bytes - before.bytes, read.calls - before.calls));
}

#[test]
fn a_caller_that_waits_is_told_for_how_long() {
    let scratch = file_with("stats", &content(4 << 20));
    let file = Arc::new(IoFile::open(scratch.path(), Access::Buffered).unwrap());
    let io = Io::open(&IoOptions::default()).unwrap();
    let mut stream = ReadStream::shared(&io, &file, 0..u64::MAX, &SharedOptions::default()).unwrap();
    stream.by_ref().for_each(|block| drop(block.unwrap()));
    let stats = stream.stats();
    // The caller does nothing but wait.
    assert!(stats.waiting > Duration::ZERO && stats.service > Duration::ZERO, "{stats:?}");
}

#[test]
fn cpu_time_is_told_of_the_threads_that_belong_to_an_engine() {
    let test = "cpu_time_is_told";
    if fs::metadata("/proc/self/schedstat").is_err() {
        return skipped(test, "the kernel does not tell the CPU time of threads in /proc");
    }
    let scratch = Scratch::new("stats_cpu");
    let file = Arc::new(IoFile::create(&scratch.path("out"), Access::Buffered).unwrap());
    for (engine, has_threads, has_kernel) in [
        ("null", false, false),
        ("aio:4", false, false),
        ("uring:4", false, false),
        ("uring-sqpoll:4", false, true),
        ("read", true, false),
        ("pread:3", true, false),
    ] {
        let Ok(io) = Io::open(&IoOptions { engine: engine.parse().unwrap(), ..IoOptions::default() }) else {
            skipped(test, format_args!("no {engine} here"));
            continue;
        };
        let before = io.engine_cpu();
        let mut stream = WriteStream::shared(&io, &file, &WriteOptions::default()).unwrap();
        stream.write_all(&content(8 << 20)).unwrap();
        stream.finish().unwrap();
        // The kernel updates the time of a running thread at its next tick, or when it sleeps.
        let is_counted = |cpu: &EngineCpu| cpu.kernel_threads.is_none_or(|time| time > Duration::ZERO);
        let counts = (0..1000).map(|_| {
            thread::sleep(Duration::from_millis(5));
            io.engine_cpu().since(before)
        });
        let counted = counts.take_while(|cpu| !is_counted(cpu)).count();
        let EngineCpu { threads, kernel_threads } = io.engine_cpu().since(before);
        assert_eq!(threads.is_some(), has_threads, "{engine}");
        if has_kernel && kernel_threads.is_none() {
            skipped(test, "the kernel does not tell its thread of a ring");
        } else {
            assert_eq!(kernel_threads.is_some(), has_kernel, "{engine}");
        }
        // A kernel thread of a ring performs all operations.
        assert!(kernel_threads.is_none_or(|time| time > Duration::ZERO), "{engine}: after {counted} looks");
    }
}

//! Measurement of storage by a file on it. A recording of one access after the other cannot show what the storage does for
//! several at a time: a part of a file that the program read is dropped from the page cache and read again, at most 16 MiB
//! in at most two seconds.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use sakiyomi_drive::fixed::FixedSpec;
use sakiyomi_io::file::create_unnamed;
use sakiyomi_io::{Access, BufferPool, IoFile, Memory, page_cache};
use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_os::cpu;

use crate::recording::MeasuredStorage;

/// Bytes that are read again.
const SAMPLE_BYTES: u64 = 16 << 20;
/// Smallest file that is measured; fewer bytes measure single accesses.
const FILE_MIN_BYTES: u64 = 1 << 20;
/// Bytes of an access that measures the bandwidth.
const LARGE_ACCESS_BYTES: u64 = 128 << 10;
/// Bytes of an access that measures the latency.
const SMALL_ACCESS_BYTES: u64 = 4 << 10;
/// Accesses one after the other.
const SINGLE_ACCESSES: u64 = 8;
/// Accesses at a time.
const PARALLEL_ACCESSES: u64 = 32;
/// Accesses in all that measure how many are served at a time.
const PARALLEL_SAMPLE: u64 = 32;
/// The same for fast storage, on which a few would be over before all threads run.
const FAST_PARALLEL_SAMPLE: u64 = 512;
/// Latency below which storage counts as fast.
const FAST_LATENCY_MAX: Duration = Duration::from_millis(1);
/// Storage that does not reply must not delay the end of the command.
const MEASUREMENT_TIMEOUT: Duration = Duration::from_secs(2);
/// Storage that a user asks about may be slow.
const PLACE_TIMEOUT: Duration = Duration::from_secs(30);

/// The storage of a place, measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredPlace {
    /// Latency to 1 µs, and bandwidth to 1 MB/s: the rest is chance.
    pub storage: FixedSpec,
    /// CPU time of a read that waits beyond that of one that does not.
    pub wait_cpu: Nanos,
}

/// Measures the storage of a place: by this file, or by a file of 16 MiB that is written to this directory and removed.
/// Devices with a cache of their own may serve what was just written from it.
///
/// # Errors
/// The errors of reading or writing there; [`io::ErrorKind::Unsupported`] if the file is smaller than 1 MiB or its pages
/// cannot be dropped from the page cache; [`io::ErrorKind::TimedOut`] after 30 seconds.
pub fn measure_place(path: &Path) -> io::Result<MeasuredPlace> {
    let metadata = fs::metadata(path)?;
    let file = if metadata.is_dir() {
        let mut file = create_unnamed(path, Access::Buffered)?;
        file.write_all(&noise(SAMPLE_BYTES))?;
        file.sync_all()?;
        file
    } else {
        File::open(path)?
    };
    let unable = |why| Err(io::Error::new(io::ErrorKind::Unsupported, why));
    match measure(file, metadata.dev(), PLACE_TIMEOUT) {
        Ok(Some(measured)) => {
            Ok(MeasuredPlace { storage: rounded(&measured), wait_cpu: measured.wait_cpu_ns })
        }
        Ok(None) if !metadata.is_dir() && metadata.len() < FILE_MIN_BYTES => {
            unable("the file is smaller than 1 MiB, too small to measure the storage by it")
        }
        Ok(None) => unable("its pages cannot be dropped from the page cache"),
        Err(error) => Err(error),
    }
}

/// Returns storage with the measured latency, to 1 µs, and bandwidth, to 1 MB/s.
fn rounded(measured: &MeasuredStorage) -> FixedSpec {
    const LATENCY_STEP_NS: u64 = 1_000;
    const BANDWIDTH_STEP_BYTES: u64 = 1_000_000;
    let to = |value: u64, unit: u64| value.div_ceil(unit).max(1) * unit;
    FixedSpec {
        latency: Nanos(to(measured.latency_ns.0, LATENCY_STEP_NS)),
        parallel: measured.parallel,
        bandwidth: Some(Bytes(to(measured.bandwidth_bytes_per_s, BANDWIDTH_STEP_BYTES))),
        ..FixedSpec::default()
    }
}

/// Returns bytes that no storage can compress.
fn noise(length: u64) -> Vec<u8> {
    // xorshift64 of Marsaglia.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..length / 8).flat_map(|_| next()).collect()
}

/// Measures the storage on which a program waited by a file on it; `None` if the file is too small, its pages cannot be
/// dropped, or it takes too long.
pub(super) fn measure_waited(path: &Path, device: u64) -> Option<MeasuredStorage> {
    measure(File::open(path).ok()?, device, MEASUREMENT_TIMEOUT).ok()?
}

/// Measures the storage by a file on it, within a time; `None` if the file is too small, or its pages cannot be dropped.
fn measure(file: File, device: u64, timeout: Duration) -> io::Result<Option<MeasuredStorage>> {
    let size = file.metadata()?.len();
    if size < FILE_MIN_BYTES {
        return Ok(None);
    }
    let (sender, receiver) = channel();
    thread::Builder::new().name("measure".to_owned()).spawn(move || {
        let _ = sender.send(measure_file(&file, size));
    })?;
    let measured = receiver.recv_timeout(timeout).map_err(|_| io::ErrorKind::TimedOut)?;
    let read_ahead_bytes = page_cache::read_ahead(device);
    Ok(measured.map(|measured| MeasuredStorage { device, read_ahead_bytes, ..measured }))
}

/// Measures all but the device and its read-ahead.
fn measure_file(file: &File, size: u64) -> Option<MeasuredStorage> {
    let sample = size.min(SAMPLE_BYTES);
    let start = (size - sample) / 2 / LARGE_ACCESS_BYTES * LARGE_ACCESS_BYTES;
    let range = start..start + sample;
    // No read-ahead on this descriptor.
    page_cache::disable_read_ahead(file).ok()?;
    drop_all(file, &range)?;
    let single = spread(&range, SINGLE_ACCESSES, SMALL_ACCESS_BYTES);
    let (latency, cpu) = median_times(file, &single)?;
    let (_, cached_cpu) = median_times(file, &single)?;
    drop_all(file, &range)?;
    let count = if latency < FAST_LATENCY_MAX { FAST_PARALLEL_SAMPLE } else { PARALLEL_SAMPLE };
    let count = count.min(sample / SMALL_ACCESS_BYTES);
    let together = timed(file, &spread(&range, count, SMALL_ACCESS_BYTES))?;
    let served = latency.as_secs_f64() * count as f64 / together.as_secs_f64().max(1e-9);
    drop_all(file, &range)?;
    let count = (sample / LARGE_ACCESS_BYTES).max(1);
    let large: Vec<Range<u64>> = (0..count)
        .map(|index| start + index * LARGE_ACCESS_BYTES..start + (index + 1) * LARGE_ACCESS_BYTES)
        .collect();
    // Past the page cache, where copying would take as long as fast storage does.
    let all = direct(file).and_then(|file| timed(file.file(), &large)).or_else(|| timed(file, &large))?;
    let transfer = all.saturating_sub(latency).max(Duration::from_micros(10));
    let bandwidth = (sample as f64 / transfer.as_secs_f64()) as u64;
    let parallel = (served.round() as u32).clamp(1, PARALLEL_ACCESSES as u32);
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).ok().map(Nanos);
    Some(MeasuredStorage {
        device: 0,
        latency_ns: nanos(latency)?,
        parallel,
        bandwidth_bytes_per_s: bandwidth,
        read_ahead_bytes: None,
        wait_cpu_ns: nanos(cpu.saturating_sub(cached_cpu))?,
    })
}

/// Returns the median elapsed time and the median CPU time of reads by this thread, one after the other.
fn median_times(file: &File, reads: &[Range<u64>]) -> Option<(Duration, Duration)> {
    let (mut elapsed, mut computed) = (Vec::new(), Vec::new());
    for read in reads {
        let before = cpu::of_this_thread();
        elapsed.push(timed(file, std::slice::from_ref(read))?);
        computed.push(cpu::of_this_thread().saturating_sub(before));
    }
    elapsed.sort_unstable();
    computed.sort_unstable();
    Some((elapsed[elapsed.len() / 2], computed[computed.len() / 2]))
}

/// Opens a file once more, for direct I/O; `None` if it does not support that.
fn direct(file: &File) -> Option<IoFile> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    IoFile::open(Path::new(&path), Access::Direct).ok()
}

/// Drops a range from the page cache; `None` if most of it stays, as where it is mapped.
fn drop_all(file: &File, range: &Range<u64>) -> Option<()> {
    let left = page_cache::drop_pages(file, range.clone()).ok()?;
    (left.cached * 8 <= left.pages).then_some(())
}

/// Returns accesses in even distances, in an order in which none follows the one before.
fn spread(range: &Range<u64>, count: u64, length: u64) -> Vec<Range<u64>> {
    /// A step through the places that has no factor in common with their number.
    const PLACE_STEP: u64 = 17;
    let distance = (range.end - range.start) / count / length * length;
    let at = |index: u64| range.start + (index * PLACE_STEP % count) * distance;
    (0..count).map(|index| at(index)..at(index) + length).collect()
}

/// Returns the time of all these reads by several threads.
fn timed(file: &File, reads: &[Range<u64>]) -> Option<Duration> {
    let next = AtomicU64::new(0);
    let count = reads.len().min(PARALLEL_ACCESSES as usize);
    // The time to start threads is not that of the storage.
    let ready = Barrier::new(count);
    let buffers = BufferPool::fixed(count, LARGE_ACCESS_BYTES as usize, Memory::Ordinary).ok()?;
    let one = || {
        let buffer = buffers.take();
        ready.wait();
        let mut buffer = buffer?;
        let begun = Instant::now();
        while let Some(range) = reads.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            let length = (range.end - range.start) as usize;
            file.read_at(&mut buffer.space()[..length], range.start).ok()?;
        }
        Some((begun, Instant::now()))
    };
    if count == 1 {
        return one().map(|(begun, ended)| ended - begun);
    }
    let times = thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(one)).collect();
        let times = threads.into_iter().map(|thread| thread.join().ok().flatten());
        times.collect::<Option<Vec<(Instant, Instant)>>>()
    })?;
    let begun = times.iter().map(|(begun, _)| *begun).min()?;
    let ended = times.iter().map(|(_, ended)| *ended).max()?;
    Some(ended - begun)
}

//! Measurement of the storage on which a program waited. A recording of one access after the other cannot show what the
//! storage does for several at a time: a part of a file that the program read is dropped from the page cache and read
//! again, at most 16 MiB in at most two seconds.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use sakiyomi_io::page_cache;
use sakiyomi_model::Nanos;

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
/// Storage that does not reply must not delay the end of the command.
const MEASUREMENT_TIMEOUT: Duration = Duration::from_secs(2);

/// Measures the storage by a file on it; `None` if the file is too small, its pages cannot be dropped, or it takes too
/// long.
pub(super) fn measure(path: &Path, device: u64) -> Option<MeasuredStorage> {
    let file = File::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    if size < FILE_MIN_BYTES {
        return None;
    }
    let (sender, receiver) = channel();
    thread::Builder::new()
        .name("measure".to_owned())
        .spawn(move || {
            let _ = sender.send(measure_file(&file, size));
        })
        .ok()?;
    let (latency, parallel, bandwidth) = receiver.recv_timeout(MEASUREMENT_TIMEOUT).ok()??;
    Some(MeasuredStorage {
        device,
        latency_ns: latency,
        parallel,
        bandwidth_bytes_per_second: bandwidth,
        read_ahead_bytes: page_cache::read_ahead(device),
    })
}

/// Returns the latency of a small access, how many of them the storage serves at a time, and its bandwidth.
fn measure_file(file: &File, size: u64) -> Option<(Nanos, u32, u64)> {
    let sample = size.min(SAMPLE_BYTES);
    let start = (size - sample) / 2 / LARGE_ACCESS_BYTES * LARGE_ACCESS_BYTES;
    let range = start..start + sample;
    // No read-ahead on this descriptor.
    page_cache::disable_read_ahead(file).ok()?;
    drop_all(file, &range)?;
    let small = spread(&range, SINGLE_ACCESSES + PARALLEL_ACCESSES, SMALL_ACCESS_BYTES);
    let (single, parallel) = small.split_at(SINGLE_ACCESSES as usize);
    let mut times: Vec<Duration> =
        single.iter().map(|at| timed(file, std::slice::from_ref(at))).collect::<Option<_>>()?;
    times.sort_unstable();
    let latency = times[times.len() / 2];
    let together = timed(file, parallel)?;
    let served = latency.as_secs_f64() * PARALLEL_ACCESSES as f64 / together.as_secs_f64().max(1e-9);
    drop_all(file, &range)?;
    let count = (sample / LARGE_ACCESS_BYTES).max(1);
    let large: Vec<Range<u64>> = (0..count)
        .map(|index| start + index * LARGE_ACCESS_BYTES..start + (index + 1) * LARGE_ACCESS_BYTES)
        .collect();
    let all = timed(file, &large)?;
    let transfer = all.saturating_sub(latency).max(Duration::from_micros(10));
    let bandwidth = (sample as f64 / transfer.as_secs_f64()) as u64;
    let parallel = (served.round() as u32).clamp(1, PARALLEL_ACCESSES as u32);
    Some((Nanos(u64::try_from(latency.as_nanos()).ok()?), parallel, bandwidth))
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
    let begun = Instant::now();
    let one = || {
        let mut buffer = vec![0; LARGE_ACCESS_BYTES as usize];
        while let Some(range) = reads.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            let length = (range.end - range.start) as usize;
            file.read_at(&mut buffer[..length], range.start).ok()?;
        }
        Some(())
    };
    let done = match reads.len() {
        1 => one(),
        count => thread::scope(|scope| {
            let threads: Vec<_> =
                (0..count.min(PARALLEL_ACCESSES as usize)).map(|_| scope.spawn(one)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().ok().flatten())
                .collect::<Option<Vec<()>>>()
                .map(drop)
        }),
    };
    done.map(|()| begun.elapsed())
}

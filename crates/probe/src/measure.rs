//! One setting, measured for a while.

use std::hint::black_box;
use std::io;
use std::path::Path as FilePath;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use sakiyomi_io::file::IoFile;
use sakiyomi_io::read::{Block, Grant, ReadStream};
use sakiyomi_io::{Access, EngineKind, ReadOptions, page_cache};
use sakiyomi_os::cpu::{Meter, Usage};

use crate::Error;
use crate::setting::{Path, Setting};

/// What came of one run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was granted of what was asked for.
    pub grant: Grant,
    /// Bytes read.
    pub bytes: u64,
    /// CPU time and elapsed time.
    pub usage: Usage,
}

impl Run {
    /// Bytes a second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.bytes as f64 / self.usage.elapsed.as_secs_f64()
    }
}

/// Latencies are kept to three digits, which a histogram does in constant memory.
const DIGITS: u8 = 3;

/// Bytes that are read between two looks at the clock.
const CLOCK_BYTES: usize = 64 << 10;

/// No latencies, to add some to.
#[must_use]
pub(crate) fn no_latencies() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("three digits are allowed")
}

/// Asked now and then whether to go on; an error ends it.
pub(crate) type GoOn<'a> = &'a mut dyn FnMut() -> Result<(), Error>;

/// Reads for about `period`; shorter if the file ends and reading it again would find it cached. The times of single
/// requests are added to `latency`, in nanoseconds.
///
/// # Errors
/// If it cannot be read so, and what `go_on` says.
pub(crate) fn run(
    file: &FilePath,
    setting: &Setting,
    period: Duration,
    seed: u64,
    latency: &mut Histogram<u64>,
    go_on: GoOn<'_>,
) -> Result<Run, Error> {
    prepare_cache(file, setting.path, go_on)?;
    let mut blocks = ReadStream::open(file, &setting.options(seed))?;
    let grant = blocks.grant();
    let mut bytes = 0;
    let meter = Meter::start()?;
    let begun = Instant::now();
    // To look at the clock costs as much as a small part of a small read.
    let between = (CLOCK_BYTES / setting.block).max(1);
    let mut count = 0_usize;
    while !count.is_multiple_of(between) || begun.elapsed() < period {
        go_on()?;
        let Some(block) = blocks.next().transpose()? else { break };
        count += 1;
        bytes += block.len() as u64;
        touch(&block, setting.method.kind);
        // A time that no histogram can hold would be longer than any run.
        let _ = latency.record(u64::try_from(block.took().as_nanos()).unwrap_or(u64::MAX));
    }
    let usage = meter.stop()?;
    Ok(Run { grant, bytes, usage })
}

/// A mapping is only read when its pages are touched; others have read everything already.
fn touch(block: &Block, kind: EngineKind) {
    const PAGE: usize = 4096;
    if !kind.uses_buffers() {
        black_box(block.iter().step_by(PAGE).fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
    }
}

/// An error, which may be that this user is not told what of a file is in the cache.
fn unseen(error: sakiyomi_io::Error, file: &FilePath) -> Error {
    match error {
        sakiyomi_io::Error::System { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            Error::Unseen(file.to_owned())
        }
        other => other.into(),
    }
}

/// The share of a file that may be in the cache when it is cold: a page or two that somebody has just looked at.
const COLD: f64 = 0.02;

/// Drops the file's pages, or has all of them in the cache just before: a system may take them away at any time.
fn prepare_cache(file: &FilePath, path: Path, go_on: GoOn<'_>) -> Result<(), Error> {
    if path == Path::Direct {
        return Ok(());
    }
    let source = IoFile::open(file, Access::Buffered)?;
    let all = 0..source.size();
    if path == Path::Cold {
        let left = page_cache::drop_pages(source.file(), all).map_err(|error| unseen(error, file))?;
        if left.cached as f64 > COLD * left.pages as f64 {
            return Err(Error::NotCold { path: file.to_owned(), cached: left.cached_bytes() });
        }
    } else if !page_cache::residency(source.file(), all).is_ok_and(|found| found.is_whole()) {
        // Reading waits for what is read, as asking for it to be fetched does not.
        for block in ReadStream::open(file, &ReadOptions::default())? {
            go_on()?;
            block?;
        }
    }
    Ok(())
}

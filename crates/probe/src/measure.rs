//! Measures one setting for some time.

use std::io;
use std::path::Path as FilePath;
use std::time::Duration;

use sakiyomi_io::file::IoFile;
use sakiyomi_io::read::{Grant, ReadStream};
use sakiyomi_io::{Access, ReadOptions, page_cache};
use sakiyomi_os::cpu::{Meter, Usage};

use crate::Error;
use crate::latency::Latencies;
use crate::load::{GoOn, Load};
use crate::setting::{CacheState, Setting};

/// The outcome of one run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The resources that were granted.
    pub grant: Grant,
    /// Transferred bytes.
    pub bytes: u64,
    /// CPU time and elapsed time.
    pub usage: Usage,
}

impl Run {
    /// Returns the throughput in bytes per second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.bytes as f64 / self.usage.elapsed.as_secs_f64()
    }
}

/// Reads or writes for about `period`; shorter if the file ends and its beginning would be in the cache. The
/// latencies of operations are added to `latencies`.
///
/// # Errors
/// If the load cannot be run, and those of `go_on`.
pub(crate) fn run(
    file: &FilePath,
    setting: &Setting,
    period: Duration,
    seed: u64,
    latencies: &mut Latencies,
    go_on: GoOn<'_>,
) -> Result<Run, Error> {
    prepare_cache(file, setting.cache, go_on)?;
    let mut load = Load::open(file, setting, seed)?;
    let grant = load.grant();
    let meter = Meter::start()?;
    let bytes = load.run(period, latencies, go_on)?;
    let usage = meter.stop()?;
    Ok(Run { grant, bytes, usage })
}

/// Maps a denied query of the file's residency to [`Error::Unseen`].
fn unseen(error: sakiyomi_io::Error, file: &FilePath) -> Error {
    match error {
        sakiyomi_io::Error::System { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            Error::Unseen(file.to_owned())
        }
        other => other.into(),
    }
}

/// Maximum share of a file's pages that may be cached in a cold run: another process may have read a page or two.
const COLD_CACHED_MAX_RATIO: f64 = 0.02;

/// Drops the file's pages from the page cache, or reads all of them into it just before a run: the system may evict
/// them at any time.
fn prepare_cache(file: &FilePath, cache: CacheState, go_on: GoOn<'_>) -> Result<(), Error> {
    if cache == CacheState::Direct {
        return Ok(());
    }
    let source = IoFile::open(file, Access::Buffered)?;
    let all = 0..source.size();
    if cache == CacheState::Cold {
        let left = page_cache::drop_pages(source.file(), all).map_err(|error| unseen(error, file))?;
        if left.cached as f64 > COLD_CACHED_MAX_RATIO * left.pages as f64 {
            return Err(Error::NotCold { path: file.to_owned(), cached: left.cached_bytes() });
        }
    } else if !page_cache::residency(source.file(), all).is_ok_and(|found| found.is_whole()) {
        // A read waits for its pages, a fetch does not.
        for block in ReadStream::open(file, &ReadOptions::default())? {
            go_on()?;
            block?;
        }
    }
    Ok(())
}

//! Measures the profile of a real device: the requests of [`sakiyomi_regulate::measure_within`], in real time, on the
//! same path as those of a front end that regulates files.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use sakiyomi_io::volume::Volume;
use sakiyomi_io::{BufferPool, Memory};
use sakiyomi_model::{Bytes, Completion, Device, Extent, Full, Lba, Nanos, Op, Request, Sectors};
use sakiyomi_regulate::{PROFILE_SIZES, Profile, measure_within};

use crate::backing::{BACKING_SECTOR, Backing, Jobs};
use crate::backing_pool::{BACKING_THREADS, Perform, start_pool};
use crate::timeline::Timeline;

/// Time after which the device is asked again for completions.
const POLL_PERIOD: Nanos = Nanos(50_000);
/// Bytes of a buffer: the largest request of a profile and its alignment.
const BUFFER_BYTES: usize = PROFILE_SIZES[PROFILE_SIZES.len() - 1].0 as usize + 4096;

/// The volumes that are measured.
#[derive(Debug)]
pub struct Site {
    /// Read at random places: all of a disk, or a file with data.
    pub reads: Volume,
    /// Overwritten at random places; `None`: writes are assumed to take the time of reads.
    pub writes: Option<Volume>,
}

/// Reasons for which no profile was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// The threads cannot be started.
    #[error("cannot start threads")]
    Threads(#[source] io::Error),
    /// There is not enough memory.
    #[error("cannot get memory to read into")]
    Memory(#[source] sakiyomi_io::Error),
    /// The volume is too small.
    #[error("{bytes} bytes are too few to measure; at least {} MiB are needed", VOLUME_MIN_BYTES >> 20)]
    TooSmall {
        /// Its size.
        bytes: u64,
    },
    /// An access has failed.
    #[error("an access has failed")]
    Io(#[source] io::Error),
    /// It was cancelled.
    #[error("cancelled")]
    Cancelled,
}

/// Smallest volume of which random places tell anything.
const VOLUME_MIN_BYTES: u64 = 64 << 20;

/// Measures the profile of a device within about `time`, and returns it with its relative error. `progress` is called
/// with the part that is done, 0 to 1, and returns whether to go on.
///
/// # Errors
/// [`CalibrateError`].
pub fn calibrate(
    site: Site,
    time: Duration,
    mut progress: impl FnMut(f64) -> bool,
) -> Result<(Profile, f64), CalibrateError> {
    let bytes = site.reads.size();
    if bytes < VOLUME_MIN_BYTES {
        return Err(CalibrateError::TooSmall { bytes });
    }
    let has_writes = site.writes.is_some();
    let mut device = RealDevice::start(site)?;
    let trouble = Arc::clone(&device.trouble);
    let time = Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let (mut profile, error) = measure_within(&mut device, time, |done| {
        if !progress(done) {
            trouble.is_over.store(true, Ordering::Relaxed);
        }
    });
    if let Some(error) = trouble.error.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(CalibrateError::Io(error));
    }
    if trouble.is_over.load(Ordering::Relaxed) {
        return Err(CalibrateError::Cancelled);
    }
    if !has_writes {
        profile.writes = profile.reads;
    }
    // The requests of a front end have no places on the device.
    (profile.by_distance, profile.continuing) = (vec![(0.0, profile.reads[0])], profile.reads[1]);
    Ok((profile, error))
}

/// The reason to end early.
#[derive(Debug, Default)]
struct Trouble {
    error: Mutex<Option<io::Error>>,
    is_over: AtomicBool,
}

/// A volume as a device in real time. Unlike a simulated one, it returns from `advance` as soon as a request has
/// completed.
struct RealDevice {
    backing: Backing,
    jobs: Jobs,
    timeline: Timeline,
    woken: Arc<Woken>,
    site: Arc<Site>,
    buffers: Arc<BufferPool>,
    trouble: Arc<Trouble>,
}

#[derive(Debug, Default)]
struct Woken {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl RealDevice {
    fn start(site: Site) -> Result<RealDevice, CalibrateError> {
        let pool = Arc::new(start_pool(BACKING_THREADS).map_err(CalibrateError::Threads)?);
        let buffers = BufferPool::fixed(BACKING_THREADS, BUFFER_BYTES, Memory::Ordinary);
        let (timeline, woken) = (Timeline::new(1.0), Arc::new(Woken::default()));
        let _ = timeline.begin();
        let wakes = Arc::clone(&woken);
        let waker = move || {
            *wakes.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
            wakes.changed.notify_one();
        };
        let backing = Backing::new(Bytes(site.reads.size()), timeline.clone(), pool, Box::new(waker));
        Ok(RealDevice {
            jobs: backing.jobs(),
            backing,
            timeline,
            woken,
            site: Arc::new(site),
            buffers: Arc::new(buffers.map_err(CalibrateError::Memory)?),
            trouble: Arc::default(),
        })
    }

    /// Waits until `until`, or until a request has completed.
    fn wait(&self, until: Nanos) {
        let mut is_set = self.woken.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_set && !self.trouble.is_over.load(Ordering::Relaxed) {
            let left = until.saturating_sub(self.timeline.now());
            if left == Nanos::ZERO {
                return;
            }
            let waited = self.woken.changed.wait_timeout(is_set, self.timeline.wait(left));
            is_set = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *is_set = false;
    }
}

impl Device for RealDevice {
    fn submit(&mut self, _: Nanos, request: Request) -> Result<(), Full> {
        let Request { extent, op, .. } = request;
        let site = Arc::clone(&self.site);
        let access = Access {
            is_write: op == Op::Write && site.writes.is_some(),
            offset: extent.start.0 * BACKING_SECTOR.0,
            length: extent.sectors.to_bytes(BACKING_SECTOR).0 as usize,
            site,
            buffers: Arc::clone(&self.buffers),
            trouble: Arc::clone(&self.trouble),
        };
        let part = Extent::new(Lba(0), extent.sectors);
        self.jobs.insert(request.id, Arc::new(access), part);
        self.backing.submit(self.timeline.now(), Request { extent: part, ..request })
    }

    fn next_event(&self) -> Option<Nanos> {
        let is_busy = self.backing.is_busy();
        self.backing.next_event().or_else(|| is_busy.then(|| self.timeline.now() + POLL_PERIOD))
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        if self.backing.next_event().is_none() {
            self.wait(now);
        }
        self.backing.advance(self.timeline.now(), done);
    }

    fn capacity(&self) -> Sectors {
        self.backing.capacity()
    }

    fn sector(&self) -> Bytes {
        self.backing.sector()
    }

    fn depth(&self) -> u32 {
        self.backing.depth()
    }

    fn busy(&self, now: Nanos) -> Nanos {
        self.backing.busy(now)
    }
}

/// An access to a volume.
struct Access {
    site: Arc<Site>,
    is_write: bool,
    offset: u64,
    length: usize,
    buffers: Arc<BufferPool>,
    trouble: Arc<Trouble>,
}

impl Access {
    fn run(&self, durable: bool) -> io::Result<()> {
        let mut buffer = self.buffers.take().ok_or(io::ErrorKind::OutOfMemory)?;
        let Some(writes) = self.site.writes.as_ref().filter(|_| self.is_write) else {
            return self.site.reads.read(self.offset, 0..self.length, &mut buffer).map(drop);
        };
        let room = (writes.size() - self.length as u64) / 4096 + 1;
        let offset = self.offset / 4096 % room * 4096;
        buffer.space()[..self.length].fill(offset as u8);
        buffer.set_len(self.length);
        writes.write(offset, &buffer)?;
        if durable { writes.sync() } else { Ok(()) }
    }
}

impl Perform for Access {
    fn perform(&self, _: std::ops::Range<u64>, durable: bool) -> bool {
        if self.trouble.is_over.load(Ordering::Relaxed) {
            return false;
        }
        let done = self.run(durable);
        let succeeded = done.is_ok();
        if let Err(error) = done {
            self.trouble.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            self.trouble.is_over.store(true, Ordering::Relaxed);
        }
        succeeded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_testing::Scratch;

    fn volume(scratch: &Scratch, name: &str, bytes: u64) -> Volume {
        Volume::open_or_create(&scratch.path(name), bytes).unwrap()
    }

    #[test]
    fn a_file_is_measured() {
        let scratch = Scratch::new("calibrate-file");
        let site = Site {
            reads: volume(&scratch, "reads", VOLUME_MIN_BYTES),
            writes: Some(volume(&scratch, "writes", 2 << 20)),
        };
        let mut seen = 0.0;
        let (profile, error) = calibrate(site, Duration::from_millis(100), |done| {
            assert!(done >= seen);
            seen = done;
            true
        })
        .unwrap();
        assert_eq!(profile.capacity.0, VOLUME_MIN_BYTES / 512);
        assert!(profile.reads.iter().chain(&profile.writes).all(|one| one.mean > 0.0), "{profile:?}");
        assert!((0.02..=1.0).contains(&error), "{error}");
        assert!(seen > 0.6);
    }

    #[test]
    fn it_can_be_cancelled_and_refuses_what_is_too_small() {
        let scratch = Scratch::new("calibrate-cancel");
        let site = |bytes: u64| Site { reads: volume(&scratch, &bytes.to_string(), bytes), writes: None };
        let cancelled = calibrate(site(VOLUME_MIN_BYTES), Duration::from_secs(60), |_| false);
        assert!(matches!(cancelled, Err(CalibrateError::Cancelled)), "{cancelled:?}");
        let small = calibrate(site(1 << 20), Duration::from_secs(60), |_| true);
        assert!(matches!(small, Err(CalibrateError::TooSmall { bytes: 1_048_576 })), "{small:?}");
    }

    #[test]
    fn an_access_that_fails_is_the_error() {
        let scratch = Scratch::new("calibrate-error");
        let reads = volume(&scratch, "reads", VOLUME_MIN_BYTES);
        std::fs::OpenOptions::new().write(true).open(scratch.path("reads")).unwrap().set_len(4096).unwrap();
        let failed = calibrate(Site { reads, writes: None }, Duration::from_millis(100), |_| true);
        assert!(matches!(failed, Err(CalibrateError::Io(_))), "{failed:?}");
    }
}

//! The life of a mount.

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::fs::{Mode, OFlags};
use sakiyomi_io::{AtomicFile, open_files_max, raise_open_files_max};
use sakiyomi_iorate::quotas::Quotas;
use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_os::block_device::Disk;
use sakiyomi_os::process::is_of_our_namespace;
use sakiyomi_os::rights::is_root;
use sakiyomi_realtime::{
    BACKING_SECTOR, BACKING_THREADS, Dispatcher, EmulatedStorage, Recording, Regulate, StartError, Timeline,
    Totals, Watch, serve_promptly, start_backing, start_emulated, start_pool,
};

use crate::frontend::Frontend;
use crate::fs::direct::{DirectFiles, Issued};
use crate::fs::{Files, FsOptions};
use crate::fuse_access::{can_mount, refusal};
use crate::layout::{BLOCK_BYTES, Layout, LayoutError, Metadata, Placement};
use crate::unmount::unmount;
use crate::{Error, check, scan};
use sakiyomi_iorate::server::{BackingDisk, MaintenanceThread, RateServer, RatedDevice, RatesSeen};

/// Threads that receive the kernel's requests.
const REQUEST_THREADS: usize = 3;

/// Maximum number of descriptors of files that are cached but not open: each keeps an inode in memory.
const KNOWN_MAX: usize = 1 << 16;

/// Options of a mount.
#[derive(Clone, Debug)]
pub struct Options {
    /// The storage to emulate; `None` for the backing directory's own speed.
    pub behind: Option<EmulatedStorage>,
    /// Speed of the drive's clock relative to real time.
    pub speed: f64,
    /// Placement of files on the drive.
    pub placement: Placement,
    /// Seed of random placement and of random times.
    pub seed: u64,
    /// File that keeps the layout from mount to mount.
    pub layout: Option<PathBuf>,
    /// File for the trace.
    pub record: Option<PathBuf>,
    /// Whether file accesses bypass the page cache.
    pub direct_io: bool,
    /// Whether the page cache also holds dirty pages (write-back).
    pub writeback: bool,
    /// Whether names and attributes cost time on the drive, too.
    pub metadata: bool,
    /// Settings for rates; `None`: requests are not attributed to processes. With rates the page cache is off, because
    /// it would hide the process behind a request.
    pub regulate: Option<Regulate>,
    /// How large rates may be, by user and control group.
    pub quotas: Quotas,
    /// Receives a line for each change of a rate.
    pub log: fn(&str),
    /// Maximum number of descriptors of files cached by the kernel, if they can be opened again; `None` for half of the
    /// process's limit.
    pub descriptors: Option<usize>,
    /// Called while files are laid out, which takes long if there are many; returning false aborts the mount.
    pub go_on: fn() -> bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            behind: None,
            speed: 1.0,
            placement: Placement::Contiguous,
            seed: 1,
            layout: None,
            record: None,
            direct_io: false,
            writeback: false,
            metadata: false,
            regulate: None,
            quotas: Quotas::default(),
            log: |_| {},
            descriptors: None,
            go_on: || true,
        }
    }
}

/// A mount. If dropped, it is unmounted, but layout and trace are discarded.
#[derive(Debug)]
pub struct Mounted {
    session: Option<BackgroundSession>,
    directory: PathBuf,
    /// Device number of the mount, which distinguishes it from a later one on the same directory after it was detached.
    device: Option<String>,
    frontend: Arc<Frontend>,
    keeper: Option<MaintenanceThread>,
    /// Counts of requests to the disk, for rates on it.
    issued: Option<Arc<Issued>>,
    recording: Option<Recording>,
    layout: Option<PathBuf>,
    begun: Instant,
    speed: f64,
}

/// Statistics of a mount.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The drive's time since the mount.
    pub at: Nanos,
    /// Busy time of the drive; `None` without a drive.
    pub busy: Option<Nanos>,
    /// Counts and times.
    pub totals: Totals,
    /// Statistics of the rates; `None` without rates.
    pub rates: Option<RatesSeen>,
}

/// Result of a mount.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its statistics.
    pub seen: Snapshot,
    /// Number of records in the trace, if there is one.
    pub recorded: Option<u64>,
    /// Whether a process still had files open, whose accesses now fail.
    pub cut_off: bool,
}

/// Mounts the files of `backing` on `directory`.
///
/// # Errors
/// The reason for which it cannot be mounted; nothing is mounted then.
pub fn mount(backing: &Path, directory: &Path, options: &Options) -> Result<Mounted, Error> {
    can_mount()?;
    let (backing, directory) = check::directories(backing, directory)?;
    for (what, path) in [("layout", &options.layout), ("trace", &options.record)] {
        path.as_deref().map_or(Ok(()), |path| check::outside(what, path, &directory))?;
    }
    if options.regulate.is_some() && options.writeback {
        return Err(Error::RegulatedWriteback);
    }
    if !(0.001..=1e6).contains(&options.speed) {
        return Err(Error::Speed(options.speed));
    }
    let root = rustix::fs::open(&backing, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| Error::Scan { path: backing.clone(), source: error.into() })?;
    let device = options.behind.as_ref().map(|behind| behind.device(options.seed)).transpose()?;
    let sector = device.as_ref().map_or(BACKING_SECTOR, |device| device.sector());
    if !BLOCK_BYTES.is_multiple_of(sector.0) {
        return Err(Error::Sector(sector.0));
    }
    let capacity = match &device {
        Some(device) => device.capacity().to_bytes(sector),
        None => backing_capacity(&root)?,
    };
    let layout = start_layout(capacity, options)?;
    let (recorder, recording) = match &options.record {
        Some(path) => Some(Recording::start(path).map_err(cannot_record)?).unzip(),
        None => (None, None),
    };
    let watch = Watch::new(sector, recorder);
    // Every file cached by the kernel takes a descriptor.
    raise_open_files_max();
    if device.is_some() || options.regulate.is_some() {
        // Without the privilege, the priority stays as it is.
        let _ = serve_promptly();
    }
    let timeline = Timeline::new(options.speed);
    let pool = Arc::new(start_pool(BACKING_THREADS).map_err(no_threads)?);
    let emulated = device.is_some();
    let live = match device.zip(options.behind.as_ref()) {
        Some((device, storage)) => {
            Some(start_emulated(device, storage, options.regulate.as_ref(), &timeline))
        }
        None => options.regulate.as_ref().map(|how| start_backing(capacity, how, &timeline, &pool)),
    };
    let live = live.transpose().map_err(no_threads)?;
    let metadata = options.metadata.then(|| Metadata::new(layout.blocks()));
    let dispatcher = Dispatcher::new(sector, (live, emulated), timeline, watch, pool);
    let frontend = Arc::new(Frontend::new(layout, metadata, dispatcher));
    scan::place_all(&backing, &root, &frontend, options.go_on)?;
    let (regulation, direct) = match &options.regulate {
        Some(how) => {
            let (direct, beside) = if emulated { (None, None) } else { start_direct(&root)? };
            (Some(start_regulation(&frontend, how, options, beside)?), direct)
        }
        None => (None, None),
    };
    let issued = direct.as_ref().map(|files| files.issued());
    let session = start_session(root, &directory, &frontend, (regulation.clone(), direct), options)?;
    let device = check::ours_on(&directory).ok().flatten();
    let keeper = regulation.map(MaintenanceThread::start).transpose().map_err(no_threads)?;
    let (session, layout) = (Some(session), options.layout.clone());
    let (begun, speed) = (Instant::now(), options.speed);
    Ok(Mounted { session, directory, device, frontend, keeper, issued, recording, layout, begun, speed })
}

fn start_regulation(
    frontend: &Arc<Frontend>,
    how: &Regulate,
    options: &Options,
    beside: Option<BackingDisk>,
) -> Result<Arc<RateServer>, Error> {
    if !is_of_our_namespace() {
        return Err(Error::Numbers);
    }
    let name = match &options.behind {
        Some(storage) => storage.title(),
        None => beside.as_ref().map_or("files".to_owned(), BackingDisk::disk),
    };
    let (policy, quotas) = (how.policy_on(options.behind.as_ref()), options.quotas.clone());
    let device: Arc<dyn RatedDevice> = Arc::clone(frontend) as _;
    let server = RateServer::new(device, name, policy, beside, descriptors(), (quotas, options.log));
    server.map(Arc::new).map_err(no_threads)
}

/// Prepares backing files that bypass the page cache, and the disk that holds them, if it is a disk.
fn start_direct(root: &OwnedFd) -> Result<(Option<DirectFiles>, Option<BackingDisk>), Error> {
    let disk = rustix::fs::fstat(root).ok().and_then(|stat| Disk::of(stat.st_dev));
    let issued = Arc::new(Issued::new(disk.as_ref().and_then(Disk::request_max_bytes).unwrap_or(0)));
    let beside = disk.map(|disk| BackingDisk::new(disk, Arc::clone(&issued) as _));
    let no_memory =
        |error| Error::System { what: "get memory to read into", source: io::Error::other(error) };
    Ok((Some(DirectFiles::new(BACKING_THREADS, root, issued).map_err(no_memory)?), beside))
}

fn cannot_record(error: StartError) -> Error {
    match error {
        StartError::Trace(error) => error.into(),
        StartError::Thread(error) => no_threads(error),
    }
}

fn no_threads(source: io::Error) -> Error {
    Error::System { what: "start the threads of a mount", source }
}

/// Returns the size of the backing file system: without a drive, addresses in a trace are those of a drive of this
/// size.
fn backing_capacity(root: &OwnedFd) -> Result<Bytes, Error> {
    let backing = rustix::fs::fstatvfs(root).map_err(|error| Error::System {
        what: "ask for the size of the backing file system",
        source: error.into(),
    })?;
    Ok(Bytes(backing.f_blocks.saturating_mul(backing.f_frsize).clamp(1 << 30, 1 << 60)))
}

/// Returns the initial layout, loaded from the layout file if there is one.
fn start_layout(capacity: Bytes, options: &Options) -> Result<Layout, Error> {
    let mut layout = Layout::new(capacity, options.placement, options.seed);
    if options.metadata {
        layout.reserve_metadata();
    }
    if let Some(path) = &options.layout {
        let wrong = |source| Error::Layout { path: path.clone(), source };
        match File::open(path) {
            Ok(file) => layout.load(BufReader::new(file)).map_err(wrong)?,
            // Creating it now shows before the mount whether it can be written.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                drop(AtomicFile::create(path).map_err(|error| wrong(LayoutError::Write(error)))?);
            }
            Err(error) => return Err(wrong(LayoutError::Read(error))),
        }
    }
    Ok(layout)
}

/// Returns the open-files limit of this process.
fn descriptors() -> usize {
    usize::try_from(open_files_max()).unwrap_or(usize::MAX)
}

fn start_session(
    root: OwnedFd,
    directory: &Path,
    frontend: &Arc<Frontend>,
    (regulation, direct): (Option<Arc<RateServer>>, Option<DirectFiles>),
    options: &Options,
) -> Result<BackgroundSession, Error> {
    let fs_options = FsOptions {
        direct_io: options.direct_io || regulation.is_some(),
        writeback: options.writeback,
        descriptors: options.descriptors.unwrap_or_else(|| KNOWN_MAX.min(descriptors() / 2)),
        has_drive: options.behind.is_some(),
    };
    let files = Files::new(root, Arc::clone(frontend), regulation, direct, fs_options)
        .map_err(|source| Error::System { what: "open the backing directory", source })?;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(check::SOURCE.to_owned()),
        MountOption::Subtype(check::SOURCE.to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
    ];
    // Only root may serve other users: they would read with the permissions of the user who made the mount.
    config.acl = if is_root() { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(REQUEST_THREADS);
    // A descriptor per thread: sharing one costs a fifteenth of the reads per second.
    config.clone_fd = true;
    let session = Session::new(files, directory, &config).map_err(|error| refusal(directory, error))?;
    session.spawn().map_err(no_threads)
}

impl Mounted {
    /// Returns the mount point.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns whether it was unmounted from outside.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.guard.is_finished())
    }

    /// Returns whether the thread that replies at the times of a drive or of rates runs before all ordinary ones; `None`
    /// without a drive and rates. Without the right to it, replies are late when all cores are busy.
    #[must_use]
    pub fn is_real_time(&self) -> Option<bool> {
        self.frontend.is_real_time()
    }

    /// Returns statistics up to now.
    #[must_use]
    pub fn seen(&self) -> Snapshot {
        let at = Nanos::from_secs_f64(self.begun.elapsed().as_secs_f64() * self.speed);
        let rates = self.keeper.as_ref().and_then(|keeper| keeper.server().seen().ok());
        Snapshot { at, busy: self.frontend.busy(), totals: self.frontend.watch().totals(), rates }
    }

    /// Returns whether rates apply to the disk, but some file is accessed through the page cache because its file
    /// system requires it.
    #[must_use]
    pub fn is_buffered(&self) -> bool {
        self.issued.as_ref().is_some_and(|issued| issued.has_buffered())
    }

    /// Returns the error that has stopped the trace, if any.
    #[must_use]
    pub fn recording_failure(&self) -> Option<String> {
        self.recording.as_ref().and_then(Recording::failure)
    }

    /// Unmounts, unless that has happened already, and stores layout and trace. Waits up to `patience` for processes
    /// with open files.
    ///
    /// # Errors
    /// If the layout or the trace cannot be stored.
    pub fn finish(mut self, patience: Duration) -> Result<Finished, Error> {
        let ended = self.end_session(patience);
        let seen = self.seen();
        // Each is stored even if another one fails.
        let recorded = self.recording.take().map(Recording::finish).transpose();
        let stored =
            self.layout.as_ref().map_or(Ok(()), |path| store_layout(path, &self.frontend.layout().read()));
        let cut_off = ended?;
        stored?;
        Ok(Finished { seen, recorded: recorded?, cut_off })
    }

    /// Returns whether its directory still has this mount; true if that cannot be determined.
    fn is_there(&self) -> bool {
        check::ours_on(&self.directory)
            .map_or(true, |now| now.is_some() && (self.device.is_none() || now == self.device))
    }

    /// Ends the session; returns whether processes were still using it.
    fn end_session(&mut self, patience: Duration) -> Result<bool, Error> {
        let Some(session) = self.session.take() else { return Ok(false) };
        if !session.guard.is_finished() {
            if self.is_there() {
                sync_all(&self.directory, patience);
            }
            // Detaching hides the mount from new users, while processes in it are still served. Another process may
            // have detached it before, and mounted another file system there.
            if self.is_there() {
                match unmount(&self.directory, true) {
                    Ok(()) | Err(Error::NotMounted(_) | Error::MountedByOthers { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let begun = Instant::now();
        while !session.guard.is_finished() && begun.elapsed() < patience {
            thread::sleep(Duration::from_millis(5));
        }
        if !session.guard.is_finished() {
            if !self.is_there() {
                // Dropping the session would unmount by path, whatever is mounted there by now. It ends with its last
                // user, or with this process.
                std::mem::forget(session);
            }
            return Ok(true);
        }
        // The threads that sent the last replies may not have recorded them yet.
        while self.frontend.watch().totals().in_flight > 0 && begun.elapsed() < patience {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(false)
    }
}

/// Writes dirty pages of open files back, for up to `patience`.
fn sync_all(directory: &Path, patience: Duration) {
    let directory = directory.to_owned();
    let (ended, end) = mpsc::channel();
    let sync = move || {
        let opened = rustix::fs::open(&directory, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        // The kernel reports a failure to the processes that have written.
        let _ = opened.and_then(rustix::fs::syncfs);
        let _ = ended.send(());
    };
    // On a thread of its own, because a drive may be slow. If no thread can be started, the kernel does it later, if
    // there is time.
    if thread::Builder::new().name("sync".to_owned()).spawn(sync).is_ok() {
        let _ = end.recv_timeout(patience);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // `drop` cannot report an error.
        let _ = self.end_session(Duration::from_secs(1));
    }
}

fn store_layout(path: &Path, layout: &Layout) -> Result<(), Error> {
    let store = || {
        let mut out = BufWriter::new(AtomicFile::create(path)?);
        layout.store(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.commit()
    };
    store().map_err(|source| Error::Layout { path: path.to_owned(), source: LayoutError::Write(source) })
}

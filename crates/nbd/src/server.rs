//! The life of a server: content, device, exports and their rates, connections.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sakiyomi_io::buffer::{BufferPool, Memory};
use sakiyomi_io::{Access, Volume, VolumeOptions, raise_open_files_max};
use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_realtime::{
    BACKING_SECTOR, BACKING_THREADS, Dispatcher, EmulatedStorage, Recording, Regulate, StartError, Timeline,
    Watch, serve_promptly, start_backing, start_emulated, start_pool,
};
use sakiyomi_regulate::Rate;

use crate::Error;
use crate::address::{Address, Listener, Stream};
use crate::connection;
use crate::protocol::{Export, Features, NAME_MAX_BYTES};
use crate::shared::{Shared, Snapshot, account_bytes, export_owner};

/// Connections at a time; more are closed at once. Each may hold 40 MiB of data.
const CONNECTIONS_MAX: usize = 64;

/// Time after a failure to accept a connection, such as for want of descriptors.
const ACCEPT_RETRY_TIME: Duration = Duration::from_millis(100);

/// Time in which clients that go on get `ESHUTDOWN`, before their connections are closed.
const SHUTDOWN_REPLY_TIME: Duration = Duration::from_millis(50);

/// An export to offer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExportOptions {
    /// The name by which clients choose it; empty for clients that name none.
    pub name: String,
    /// The rate that its connections share.
    pub rate: Option<Rate>,
}

/// Options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens.
    pub address: Address,
    /// The content: a file or a block device. With a drive, a file that does not exist is created; `None` is a file
    /// without a name in `temporary`, of which nothing is left.
    pub content: Option<PathBuf>,
    /// Directory for content without a name.
    pub temporary: PathBuf,
    /// The storage to emulate; `None` for the content's own speed.
    pub storage: Option<EmulatedStorage>,
    /// Speed of the drive's clock relative to real time.
    pub speed: f64,
    /// Seed of random times.
    pub seed: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether the content is accessed through the page cache also without a drive.
    pub buffered: bool,
    /// The exports, all of the same content; one without a name if empty.
    pub exports: Vec<ExportOptions>,
    /// The rate of each connection to an export without a rate.
    pub connection_rate: Option<Rate>,
    /// Whether rates are accepted that cannot be kept.
    pub best_effort: bool,
    /// Settings for rates; `None`: there are no rates.
    pub regulate: Option<Regulate>,
    /// File for the trace.
    pub record: Option<PathBuf>,
}

impl Options {
    /// Returns options to serve at an address, with neither content nor a drive.
    #[must_use]
    pub fn new(address: Address) -> Options {
        Options {
            address,
            content: None,
            temporary: std::env::temp_dir(),
            storage: None,
            speed: 1.0,
            seed: 1,
            read_only: false,
            buffered: false,
            exports: Vec::new(),
            connection_rate: None,
            best_effort: false,
            regulate: None,
            record: None,
        }
    }
}

/// A running server. If dropped, it ends at once, and the trace is discarded.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    address: Address,
    acceptor: Option<JoinHandle<()>>,
    recording: Option<Recording>,
    begun: Instant,
    speed: f64,
}

/// Result of a server.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its statistics.
    pub seen: Snapshot,
    /// Number of records in the trace, if there is one.
    pub recorded: Option<u64>,
    /// Whether a connection still had requests that were not answered.
    pub cut_off: bool,
}

/// Starts a server; clients can connect when it returns.
///
/// # Errors
/// The reason for which it cannot serve; nothing listens then.
pub fn serve(options: &Options) -> Result<Server, Error> {
    // Threads inherit the priority of the one that starts them, as would programs that the caller starts.
    thread::scope(|scope| {
        let starting = scope.spawn(|| start(options));
        starting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn start(options: &Options) -> Result<Server, Error> {
    if !(0.001..=1e6).contains(&options.speed) {
        return Err(Error::Speed(options.speed));
    }
    let device = options.storage.as_ref().map(|storage| storage.device(options.seed)).transpose()?;
    let sector = device.as_ref().map_or(BACKING_SECTOR, |device| device.sector());
    let capacity = device.as_ref().map(|device| device.capacity().to_bytes(sector).0);
    let volume = open_content(options, capacity)?;
    let exports = exports(options, &volume, capacity)?;
    let listener = Listener::bind(&options.address)?;
    let address = listener.tcp_address().map_or_else(|| options.address.clone(), Address::Tcp);
    let (recorder, recording) = match &options.record {
        Some(path) => Some(Recording::start(path).map_err(cannot_record)?).unzip(),
        None => (None, None),
    };
    raise_open_files_max();
    if device.is_some() || options.regulate.is_some() {
        // Without the right to it, the priority stays as it is.
        let _ = serve_promptly();
    }
    let timeline = Timeline::new(options.speed);
    let is_emulated = device.is_some();
    // Connections perform the I/O on their own threads, unless a regulator says when.
    let is_dispatched = options.regulate.is_some() && !is_emulated;
    let pool =
        start_pool(if is_dispatched { BACKING_THREADS } else { 1 }).map(Arc::new).map_err(no_threads)?;
    let live = match device.zip(options.storage.as_ref()) {
        Some((device, storage)) => {
            Some(start_emulated(device, storage, options.regulate.as_ref(), &timeline))
        }
        None => {
            options.regulate.as_ref().map(|how| start_backing(Bytes(volume.size()), how, &timeline, &pool))
        }
    };
    let live = live.transpose().map_err(no_threads)?;
    let watch = Watch::new(sector, recorder);
    let dispatcher = Dispatcher::new(sector, (live, is_emulated), timeline, watch, pool);
    let shared = Arc::new(Shared {
        volume: Arc::new(volume),
        is_kept: options.content.is_some(),
        dispatcher,
        export_rates: options.exports.iter().map(|export| export.rate.is_some()).collect(),
        exports,
        connection_rate: options.connection_rate,
        best_effort: options.best_effort,
        pool: BufferPool::with_budget(CONNECTIONS_MAX * account_bytes(), Memory::Ordinary),
        listener,
        stopping: AtomicBool::new(false),
        refused: AtomicU64::new(0),
        connections: Mutex::default(),
        changed: Condvar::new(),
    });
    for (index, export) in options.exports.iter().enumerate() {
        if let Some(rate) = export.rate {
            let refused = |source| Error::Rate { name: export.name.clone(), source };
            shared.set_rate(export_owner(index), rate).map_err(refused)?;
        }
    }
    let accepting = Arc::clone(&shared);
    let acceptor = thread::Builder::new().name("nbd-accept".to_owned()).spawn(move || accept(&accepting));
    let acceptor = Some(acceptor.map_err(no_threads)?);
    Ok(Server { shared, address, acceptor, recording, begun: Instant::now(), speed: options.speed })
}

fn open_content(options: &Options, capacity: Option<u64>) -> Result<Volume, Error> {
    let volume = match (&options.content, capacity) {
        (None, None) => return Err(Error::Nothing),
        (None, Some(capacity)) => Volume::unnamed(&options.temporary, capacity)?,
        (Some(path), Some(capacity)) if !options.read_only && !path.exists() => {
            Volume::open_or_create(path, capacity)?
        }
        (Some(path), _) => {
            let is_direct = capacity.is_none() && !options.buffered;
            let access = if is_direct { Access::Direct } else { Access::Buffered };
            Volume::open(path, VolumeOptions { access, read_only: options.read_only })?
        }
    };
    match (&options.content, capacity) {
        (Some(path), Some(capacity)) if volume.size() > capacity => {
            Err(Error::TooLarge { path: path.clone(), size: volume.size(), capacity })
        }
        _ => Ok(volume),
    }
}

fn exports(options: &Options, volume: &Volume, capacity: Option<u64>) -> Result<Vec<Export>, Error> {
    let default = [ExportOptions::default()];
    let wanted = if options.exports.is_empty() { &default[..] } else { &options.exports };
    let mut exports: Vec<Export> = Vec::new();
    let title = options.storage.as_ref().map(EmulatedStorage::title);
    let is_disk = matches!(options.storage, Some(EmulatedStorage::Drive(_)));
    for ExportOptions { name, .. } in wanted {
        if name.len() > NAME_MAX_BYTES {
            return Err(Error::ExportName);
        }
        if exports.iter().any(|export| export.name == *name) {
            return Err(Error::ExportTwice(name.clone()));
        }
        exports.push(Export {
            name: name.clone(),
            description: title.clone().unwrap_or_default(),
            size: capacity.map_or(volume.size(), |capacity| capacity.min(volume.size())),
            features: Features { read_only: options.read_only, rotational: is_disk },
        });
    }
    Ok(exports)
}

/// Accepts connections until the listener is stopped.
fn accept(shared: &Arc<Shared>) {
    while !shared.is_stopping() {
        match shared.listener.accept() {
            Ok(socket) => connect(shared, socket),
            Err(_) if shared.is_stopping() => return,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => thread::sleep(ACCEPT_RETRY_TIME),
        }
    }
}

/// Starts the thread of a connection, unless there are too many.
fn connect(shared: &Arc<Shared>, socket: Stream) {
    let mut connections = shared.connections();
    if connections.sockets.len() >= CONNECTIONS_MAX || shared.is_stopping() {
        return;
    }
    connections.begun = connections.begun.wrapping_add(1);
    let (number, socket) = (connections.begun, Arc::new(socket));
    connections.sockets.insert(number, Arc::clone(&socket));
    drop(connections);
    let serving = Arc::clone(shared);
    let run = move || {
        // Removes itself also if it panics.
        let ended = EndedConnection { shared: &serving, number, socket: &socket };
        connection::serve(&serving, &socket, number);
        drop(ended);
    };
    if thread::Builder::new().name("nbd".to_owned()).spawn(run).is_err() {
        shared.connections().sockets.remove(&number);
    }
}

/// Removes a connection when it is dropped.
struct EndedConnection<'a> {
    shared: &'a Shared,
    number: u32,
    socket: &'a Stream,
}

impl Drop for EndedConnection<'_> {
    fn drop(&mut self) {
        self.socket.shutdown();
        self.shared.connections().sockets.remove(&self.number);
        self.shared.changed.notify_all();
    }
}

impl Server {
    /// Returns where it listens.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the exports.
    #[must_use]
    pub fn exports(&self) -> &[Export] {
        self.shared.exports()
    }

    /// Returns whether transfers of the content bypass the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.shared.volume.is_direct()
    }

    /// Returns whether the thread that replies at the times of a drive or of rates runs before all ordinary ones; `None`
    /// without a drive and rates. Without the right to it, replies are late when all cores are busy.
    #[must_use]
    pub fn is_real_time(&self) -> Option<bool> {
        self.shared.dispatcher.is_real_time()
    }

    /// Returns statistics up to now.
    #[must_use]
    pub fn seen(&self) -> Snapshot {
        self.shared.snapshot(Nanos::from_secs_f64(self.begun.elapsed().as_secs_f64() * self.speed))
    }

    /// Returns the error that has stopped the trace, if any.
    #[must_use]
    pub fn recording_failure(&self) -> Option<String> {
        self.recording.as_ref().and_then(Recording::failure)
    }

    /// Ends the server: new requests get `ESHUTDOWN`, those before are answered within `patience`. Stores the trace.
    ///
    /// # Errors
    /// If the content cannot be made durable, or the trace cannot be stored.
    pub fn finish(mut self, patience: Duration) -> Result<Finished, Error> {
        let cut_off = self.end(patience);
        let synced = self.shared.sync();
        let seen = self.seen();
        // Stored even if the content failed.
        let recorded = self.recording.take().map(Recording::finish).transpose();
        if !self.shared.exports[0].features.read_only {
            synced.map_err(|source| Error::System { what: "make the content durable", source })?;
        }
        Ok(Finished { seen, recorded: recorded?, cut_off })
    }

    /// Ends listening, then the connections; returns whether some had requests that were not answered.
    fn end(&mut self, patience: Duration) -> bool {
        let Some(acceptor) = self.acceptor.take() else { return false };
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.shared.listener.stop();
        // A panic has already been reported.
        let _ = acceptor.join();
        let begun = Instant::now();
        // A reply is counted after it was sent, perhaps when its connection has already ended.
        while self.shared.dispatcher.watch().totals().in_flight > 0 && begun.elapsed() < patience {
            thread::sleep(Duration::from_millis(1));
        }
        let cut_off = self.shared.dispatcher.watch().totals().in_flight > 0;
        self.shared.wait_for_connections(patience.min(SHUTDOWN_REPLY_TIME));
        self.shared.end_sockets();
        // Connections end when the device has answered; one that hangs is left to the end of the process.
        self.shared.wait_for_connections(if cut_off { Duration::from_millis(100) } else { patience });
        cut_off
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

fn cannot_record(error: StartError) -> Error {
    match error {
        StartError::Trace(error) => error.into(),
        StartError::Thread(error) => no_threads(error),
    }
}

fn no_threads(source: io::Error) -> Error {
    Error::System { what: "start the threads of a server", source }
}

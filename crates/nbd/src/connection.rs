//! A connection: its negotiation, its threads, and its requests.
//!
//! One thread at a time receives. It starts the request on the device, lets another thread receive, and performs the I/O
//! on the content itself; the thread that completes the last of the two replies (`InFlight`). Threads are started when
//! all others are busy.

use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sakiyomi_io::buffer::{Account, class_size};
use sakiyomi_model::{Extent, Lba, Op, Sectors};
use sakiyomi_os::socket::{Wait, send};
use sakiyomi_realtime::{BackingIo, Extents, Issuer, Perform, WHOLE_REQUEST};

use crate::address::Stream;
use crate::outbound::{Body, Outbound, Reply, may_wait};
use crate::protocol::{
    Agreement, Command, Errno, HEADER_BYTES, Head, Header, Negotiation, Refusal, Request, Step,
    block_status_reply, data_reply, error_reply, greeting, simple_reply,
};
use crate::quota::{Permit, Quota};
use crate::shared::Shared;

/// Threads of a connection: requests to the content that are performed at the same time. Disks reorder up to 32, which
/// several connections reach; a fast device is busy with these.
const THREADS_MAX: usize = 16;

/// Time for which a client may be silent while it negotiates.
const NEGOTIATION_TIMEOUT: Duration = Duration::from_secs(20);

/// Bytes that are received at a time, as far as they are there: many small requests.
const RECEIVE_BYTES: usize = 64 << 10;

/// Acknowledgments that are sent together at most; each has 16 bytes.
const ACKNOWLEDGED_MAX_BYTES: usize = 1 << 10;

/// Largest transfer that the receiving thread performs if the page cache takes part in it: that takes less time than
/// waking another thread to receive.
const INLINE_TRANSFER_MAX_BYTES: u32 = 32 << 10;

/// Parts in a reply to a question for the block status; the client asks again after them.
const STATUS_PARTS_MAX: usize = 1024;

/// Largest request to the device, as those of the kernel to disks; larger ones are several.
const DEVICE_REQUEST_MAX_BYTES: u64 = 1 << 20;

/// Serves a client until it leaves, or until the server ends.
pub(crate) fn serve(server: &Arc<Shared>, socket: &Arc<Stream>, number: u32) {
    // A client that fails to negotiate is not told more than the protocol has.
    let Ok(Some((agreement, issuer))) = negotiate(server, socket, number) else { return };
    if let Ok(account) = server.account() {
        serve_requests(server, socket, (agreement, issuer), account);
    }
    server.leave(issuer);
}

/// Serves a client after the negotiation.
fn serve_requests(
    server: &Arc<Shared>,
    socket: &Arc<Stream>,
    (agreement, issuer): (Agreement, Issuer),
    account: Account,
) {
    let connection = Arc::new(Connection {
        server: Arc::clone(server),
        agreement,
        issuer,
        inbound: Mutex::new(Inbound {
            socket: BufReader::with_capacity(RECEIVE_BYTES, Socket(Arc::clone(socket))),
            acknowledged: Vec::new(),
            is_over: false,
        }),
        outbound: Outbound::new(Arc::clone(socket)),
        quota: Quota::new(server.account_bytes()),
        account,
        free_threads: AtomicUsize::new(1),
        threads: Mutex::default(),
    });
    let writer = Arc::clone(&connection);
    let writer = thread::Builder::new().name("nbd-writer".to_owned()).spawn(move || writer.outbound.run());
    if let Ok(writer) = writer {
        connection.receive();
        connection.end(writer);
    }
}

/// Negotiates; returns what was agreed, and the stream and owner of the connection. `None` if the client has left.
fn negotiate(server: &Shared, socket: &Stream, number: u32) -> io::Result<Option<(Agreement, Issuer)>> {
    socket.set_timeout(Some(NEGOTIATION_TIMEOUT))?;
    send_all(socket, &greeting())?;
    let mut negotiation = Negotiation::new();
    let (mut bytes, mut reply) = (Vec::new(), Vec::new());
    loop {
        bytes.resize(negotiation.wants(), 0);
        Read::read_exact(&mut &*socket, &mut bytes)?;
        reply.clear();
        let mut step = negotiation.take(&bytes, server.exports(), &mut reply);
        if let Step::Chosen(agreement) = step {
            match server.enter(agreement.export, number) {
                Ok(issuer) => {
                    negotiation.accept(server.exports(), &mut reply);
                    let replied = send_all(socket, &reply).and_then(|()| socket.set_timeout(None));
                    if replied.is_err() {
                        server.leave(issuer);
                    }
                    return replied.map(|()| Some((agreement, issuer)));
                }
                Err(why) => step = negotiation.refuse(&why, &mut reply),
            }
        }
        send_all(socket, &reply)?;
        if step == Step::End {
            return Ok(None);
        }
    }
}

fn send_all(socket: &Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = send(socket, &[io::IoSlice::new(bytes)], Wait::Allowed)?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// A socket that a `BufReader` can own.
#[derive(Debug)]
struct Socket(Arc<Stream>);

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(bytes)
    }
}

/// The receiving end, for one thread at a time.
#[derive(Debug)]
struct Inbound {
    socket: BufReader<Socket>,
    /// Replies to small writes, which are sent before the next receive that may wait.
    acknowledged: Vec<u8>,
    /// The client has left, or what it sends cannot be understood.
    is_over: bool,
}

impl Inbound {
    /// Receives a header; `None` at the end.
    fn header(&mut self) -> Option<Header> {
        let mut bytes = [0; HEADER_BYTES];
        self.socket.read_exact(&mut bytes).ok()?;
        Header::decode(&bytes)
    }

    /// Returns whether a request has been received whole, so that receiving it takes no waiting.
    fn has_request(&self) -> bool {
        let Some((header, data)) = self.socket.buffer().split_first_chunk() else { return false };
        // Bytes that are no request end the connection at once.
        Header::decode(header).is_none_or(|header| data.len() >= header.data_length() as usize)
    }

    /// Passes over data.
    fn skip(&mut self, bytes: u32) -> io::Result<()> {
        let skipped = io::copy(&mut self.socket.by_ref().take(bytes.into()), &mut io::sink())?;
        if skipped == u64::from(bytes) { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    server: Arc<Shared>,
    agreement: Agreement,
    issuer: Issuer,
    inbound: Mutex<Inbound>,
    outbound: Outbound,
    quota: Arc<Quota>,
    account: Account,
    /// Threads that receive, or wait to receive.
    free_threads: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Connection {
    /// Receives requests and performs their I/O, until the connection is over.
    fn receive(self: &Arc<Connection>) {
        may_wait();
        loop {
            let mut inbound = self.inbound.lock().unwrap_or_else(PoisonError::into_inner);
            let io = loop {
                if inbound.is_over {
                    return;
                }
                match self.next(&mut inbound) {
                    Ok(None) => {}
                    Ok(Some(io)) => break io,
                    Err(_) => inbound.is_over = true,
                }
            };
            drop(inbound);
            if self.free_threads.fetch_sub(1, Ordering::Relaxed) == 1 {
                self.start_thread();
            }
            io.perform(WHOLE_REQUEST, false);
            self.free_threads.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Starts a further thread, unless there are enough; without one, this thread receives again after its I/O.
    fn start_thread(self: &Arc<Connection>) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.len() + 1 >= THREADS_MAX {
            return;
        }
        let connection = Arc::clone(self);
        let started = thread::Builder::new().name("nbd".to_owned()).spawn(move || connection.receive());
        if let Ok(thread) = started {
            self.free_threads.fetch_add(1, Ordering::Relaxed);
            threads.push(thread);
        }
    }

    /// Receives a request. Returns its I/O if this thread is to perform it; an error at the end of the connection.
    fn next(self: &Arc<Connection>, inbound: &mut Inbound) -> io::Result<Option<Arc<dyn Perform>>> {
        if !inbound.has_request() || inbound.acknowledged.len() >= ACKNOWLEDGED_MAX_BYTES {
            self.send_acknowledged(inbound);
        }
        let next = self.receive_one(inbound);
        if !matches!(next, Ok(None)) {
            self.send_acknowledged(inbound);
        }
        next
    }

    /// Sends the replies to small writes together: at a high queue depth, that is less work for both sides.
    fn send_acknowledged(&self, inbound: &mut Inbound) {
        if inbound.acknowledged.is_empty() {
            return;
        }
        let body = Body::Bytes(std::mem::take(&mut inbound.acknowledged));
        self.outbound.send(Reply { head: Head::default(), body, permit: self.quota.acquire(0) });
    }

    fn receive_one(self: &Arc<Connection>, inbound: &mut Inbound) -> io::Result<Option<Arc<dyn Perform>>> {
        let header = inbound.header().ok_or(io::ErrorKind::UnexpectedEof)?;
        let received = Instant::now();
        let checked = header.check(&self.server.exports()[self.agreement.export], self.agreement);
        let checked = match checked {
            Ok(request) if request.command == Command::Disconnect => {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Ok(_) if self.server.is_stopping() => Err(header.refused(Errno::Shutdown, self.agreement)),
            checked => checked,
        };
        match checked {
            Ok(request) => self.begin(inbound, request, received),
            Err(refusal) => {
                inbound.skip(refusal.skip)?;
                self.refuse(&refusal);
                Ok(None)
            }
        }
    }

    fn refuse(&self, refusal: &Refusal) {
        self.server.count_refused();
        let head = error_reply(refusal.cookie, refusal.structured, refusal.error);
        self.outbound.send(Reply { head, body: Body::None, permit: self.quota.acquire(0) });
    }

    /// Starts a valid request.
    fn begin(
        self: &Arc<Connection>,
        inbound: &mut Inbound,
        request: Request,
        received: Instant,
    ) -> io::Result<Option<Arc<dyn Perform>>> {
        let (volume, length) = (self.server.volume(), request.length as usize);
        let is_sent = self.is_sent_from_memory(&request);
        let capacity = match request.command {
            Command::Read if is_sent => 0,
            Command::Read => volume.read_capacity(length),
            Command::Write => length,
            _ => 0,
        };
        let permit = self.quota.acquire(if capacity == 0 { 0 } else { class_size(capacity) });
        let mut work = Work::new(Arc::clone(self), request, permit);
        if is_sent {
            work.body =
                Body::Range(Arc::clone(volume), request.offset..request.offset + u64::from(request.length));
        } else if capacity > 0 {
            work.body = match self.account.take(capacity) {
                Ok(Ok(buffer)) => Body::Buffer(buffer, 0),
                // The quota has room for it, so the machine has no memory.
                _ => {
                    inbound.skip(if request.command == Command::Write { request.length } else { 0 })?;
                    self.server.count_refused();
                    work.answer(Some(Errno::NoMem));
                    return Ok(None);
                }
            };
        }
        // A write arrives with its data.
        let mut arrival = received;
        if let (Command::Write, Body::Buffer(buffer, _)) = (request.command, &mut work.body) {
            let received = inbound.socket.read_exact(&mut buffer.space()[..length]);
            if let Err(error) = received {
                work.abandon();
                return Err(error);
            }
            buffer.set_len(length);
            arrival = Instant::now();
        }
        Ok(self.dispatch(inbound, work, arrival))
    }

    /// Sends a request to the device, if it concerns it; returns the I/O that this thread is to perform.
    fn dispatch(&self, inbound: &mut Inbound, mut work: Work, arrival: Instant) -> Option<Arc<dyn Perform>> {
        let (request, dispatcher) = (work.request, self.server.dispatcher());
        let is_nothing = request.length == 0 && request.command != Command::Flush;
        let Some(op) = op(request.command).filter(|_| !is_nothing) else {
            // Questions take no time of the device, nor do transfers of nothing.
            let result = work.perform(WHOLE_REQUEST, false);
            work.reply(result);
            return None;
        };
        if matches!(request.command, Command::WriteZeroes { only_fast: true, .. }) && dispatcher.has_drive() {
            // A drive writes zeros as it writes all else.
            self.server.count_refused();
            work.answer(Some(Errno::NotSup));
            return None;
        }
        let mut access = dispatcher.arrive(self.issuer, op, arrival);
        access.fua = request.fua;
        access.extents = self.extents(&request);
        access.bytes = dispatcher.bytes(&access.extents, request.length.into());
        if self.transferred_inline(&mut work) {
            dispatcher.answered(&access);
            if request.command == Command::Write {
                inbound.acknowledged.extend(simple_reply(request.cookie, None).bytes());
                work.abandon();
            } else {
                work.answer(None);
            }
            return None;
        }
        dispatcher.begin(access, work).map(|in_flight| in_flight as Arc<dyn Perform>)
    }

    /// Returns whether a read is answered from the file's own memory: without a device, there is nothing to wait for, and
    /// nothing that could fail after the head of the reply was sent.
    fn is_sent_from_memory(&self, request: &Request) -> bool {
        request.command == Command::Read
            && request.length > INLINE_TRANSFER_MAX_BYTES
            && self.server.volume().is_in_memory()
            && !self.server.dispatcher().has_device()
    }

    /// Performs a small transfer at once, if that takes no time of a device; returns whether it has.
    fn transferred_inline(&self, work: &mut Work) -> bool {
        let (volume, Request { command, offset, length, fua, .. }) = (self.server.volume(), work.request);
        if self.server.dispatcher().has_device() || volume.is_direct() || length > INLINE_TRANSFER_MAX_BYTES {
            return false;
        }
        let Body::Buffer(buffer, _) = &mut work.body else { return false };
        match command {
            Command::Read => {
                let length = length as usize;
                let is_read = volume.read_cached(offset, &mut buffer.space()[..length]);
                buffer.set_len(length);
                is_read
            }
            // A failure is repeated, and reported, on the way of all others.
            Command::Write => !fua && volume.write(offset, buffer).is_ok(),
            _ => false,
        }
    }

    /// Returns the extents of a request on the device, of which each sector is whole.
    fn extents(&self, request: &Request) -> Extents {
        let sector = self.server.dispatcher().sector().0;
        let (start, end) =
            (request.offset / sector, (request.offset + u64::from(request.length)).div_ceil(sector));
        let piece = (DEVICE_REQUEST_MAX_BYTES / sector).max(1);
        if start >= end {
            return [Extent::new(Lba(0), Sectors(0))].into_iter().collect();
        }
        (start..end)
            .step_by(piece as usize)
            .map(|at| Extent::new(Lba(at), Sectors(piece.min(end - at))))
            .collect()
    }

    /// Ends the connection after all requests have been answered.
    fn end(&self, writer: JoinHandle<()>) {
        loop {
            let thread = self.threads.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(thread) = thread else { break };
            // A panic has already been reported.
            let _ = thread.join();
        }
        self.quota.wait_until_unused();
        self.outbound.close();
        let _ = writer.join();
    }
}

/// Returns the operation of a command on the device; `None` for a command that takes no time of it.
fn op(command: Command) -> Option<Op> {
    match command {
        // The device reads ahead into its own cache.
        Command::Read | Command::Cache => Some(Op::Read),
        Command::Write | Command::WriteZeroes { .. } => Some(Op::Write),
        Command::Flush => Some(Op::Flush),
        Command::Trim => Some(Op::Discard),
        Command::BlockStatus { .. } | Command::Disconnect => None,
    }
}

/// The I/O of a request on the content, with its reply. If it is dropped, the reply is an error: the device has stopped.
#[derive(Debug)]
struct Work {
    connection: Arc<Connection>,
    request: Request,
    body: Body,
    /// `None` after the reply.
    permit: Option<Permit>,
    /// Parts of the block status.
    parts: Vec<(u32, bool)>,
}

impl Work {
    fn new(connection: Arc<Connection>, request: Request, permit: Permit) -> Work {
        Work { connection, request, body: Body::None, permit: Some(permit), parts: Vec::new() }
    }

    /// Replies, once.
    fn answer(&mut self, error: Option<Errno>) {
        let Some(permit) = self.permit.take() else { return };
        let Request { command, cookie, .. } = self.request;
        let structured = self.connection.agreement.structured;
        let mut body = std::mem::replace(&mut self.body, Body::None);
        let head = match (error, command) {
            (Some(error), Command::Read | Command::BlockStatus { .. }) => {
                error_reply(cookie, structured, error)
            }
            (None, Command::Read) => data_reply(&self.request, structured),
            (None, Command::BlockStatus { .. }) => {
                let (head, data) = block_status_reply(cookie, &self.parts);
                body = Body::Bytes(data);
                head
            }
            (error, _) => simple_reply(cookie, error),
        };
        if error.is_some() || matches!(command, Command::Write) {
            body = Body::None;
        }
        self.connection.outbound.send(Reply { head, body, permit });
    }

    /// Drops it without a reply: it was sent otherwise, or the connection is over.
    fn abandon(&mut self) {
        self.permit = None;
    }

    /// Collects the parts of the range that are data or holes.
    fn block_status(&mut self, one: bool) -> io::Result<()> {
        let Request { offset, length, .. } = self.request;
        let (mut at, end) = (offset, offset + u64::from(length));
        while at < end && self.parts.len() < if one { 1 } else { STATUS_PARTS_MAX } {
            let (to, is_data) = self.connection.server.volume().extent_at(at)?;
            let to = to.clamp(at + 1, end);
            self.parts.push(((to - at) as u32, is_data));
            at = to;
        }
        Ok(())
    }
}

impl BackingIo for Work {
    fn perform(&mut self, part: Range<u64>, durable: bool) -> io::Result<()> {
        let Request { command, offset, length, fua, .. } = self.request;
        let server = Arc::clone(&self.connection.server);
        let volume = server.volume();
        let (start, end) = (part.start.min(length.into()), part.end.min(length.into()));
        let (from, size, is_last) = (offset + start, end - start, end == u64::from(length));
        match (command, &mut self.body) {
            (Command::Read, Body::Buffer(buffer, first)) => {
                *first = volume.read(offset, start as usize..end as usize, buffer)?;
                return Ok(());
            }
            (Command::Write, Body::Buffer(buffer, _)) => {
                volume.write(from, &buffer[start as usize..end as usize])?;
            }
            (Command::WriteZeroes { may_punch, only_fast }, _) => {
                volume.zero(from, size, may_punch, only_fast)?;
            }
            (Command::Trim, _) => volume.discard(from, size)?,
            (Command::Flush, _) => return server.sync(),
            (Command::BlockStatus { one }, _) => return self.block_status(one),
            // Reads and writes of nothing; hints.
            _ => return Ok(()),
        }
        if (fua && is_last) || durable { server.sync() } else { Ok(()) }
    }

    fn reply(mut self, result: io::Result<()>) {
        self.answer(result.err().map(|error| errno(&error)));
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.answer(Some(if self.connection.server.is_stopping() { Errno::Shutdown } else { Errno::Io }));
    }
}

/// Returns the protocol's number of an error.
fn errno(error: &io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Errno::Perm,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Errno::NoSpc
        }
        io::ErrorKind::OutOfMemory => Errno::NoMem,
        io::ErrorKind::Unsupported => Errno::NotSup,
        _ => Errno::Io,
    }
}

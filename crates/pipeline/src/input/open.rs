//! Opening of inputs, and their threads.

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_schema::SchemaRef;
use sakiyomi_stream::Wakeup;

use super::lines::{self, Cut};
use super::reader::FileReader;
use super::tail::{Tail, TailStart};
use super::waiting::Waiting;
use super::{Named, Queue, Sender, arrow, queue};
use crate::Error;
use crate::control::Control;
use crate::spec::{Address, Origin};

/// Time after which a thread that waits for a socket checks whether to end.
const SOCKET_POLL_PERIOD: Duration = Duration::from_millis(100);

/// Time between two polls for a new connection: 40 polls a second take less than 0.1 % of a core.
const ACCEPT_POLL_PERIOD: Duration = Duration::from_millis(25);

/// Connections to a listening source at the same time: each has a thread.
const CONNECTIONS_MAX: usize = 64;

/// Contents of an input.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Records in text, and where they may be cut.
    Text(Cut),
    /// A stream or file of Arrow IPC, with these columns of it, in the order of the row.
    Arrow(SchemaRef, Vec<usize>),
}

/// A reader that a thread can have.
pub(crate) type Input = Box<dyn Read + Send>;

/// Where an input is read from.
#[derive(Clone, Debug)]
pub(crate) enum Start {
    /// Where its description says.
    Described,
    /// At a position: an offset in bytes, or a number of rows if it is a file of Arrow IPC.
    At(u64),
    /// At an offset of a file that has the name of a tail or had it before a rotation.
    In(PathBuf, u64),
}

/// Opens an input and starts its thread, which wakes its source by `wakeup`. `standard_input` is what `stdin` stands for.
///
/// # Errors
/// If it cannot be opened.
pub(crate) fn open(
    origin: &Origin,
    content: Content,
    start: &Start,
    named: &Named,
    control: &Arc<Control>,
    wakeup: &Wakeup,
    standard_input: &mut Option<Input>,
) -> Result<Queue, Error> {
    let failed = |source| named.error("open", source);
    if let Origin::Socket { address, listen: true } = origin {
        return listen(address, content, named, control, wakeup);
    }
    let from = if let Start::At(position) = start { *position } else { 0 };
    let mut extents = None;
    let input: Input = match origin {
        Origin::Stdin => standard_input
            .take()
            .ok_or_else(|| failed(io::Error::other("another source reads the standard input")))?,
        Origin::File { path, direct } => {
            let offset = if matches!(content, Content::Text(_)) { from } else { 0 };
            Box::new(FileReader::open(path, *direct, offset).map_err(failed)?)
        }
        Origin::Tail { path, from_start } => {
            let start = match start {
                Start::In(file, offset) => TailStart::In(file.clone(), *offset),
                Start::Described if !from_start => TailStart::End,
                Start::Described | Start::At(_) => TailStart::Beginning,
            };
            let tail = Tail::open(path, &start, Arc::clone(control)).map_err(failed)?;
            extents = Some(tail.extents());
            Box::new(tail)
        }
        Origin::Socket { address, .. } => connect(address).map_err(failed)?,
        Origin::Generator(_) => unreachable!("a generator has no input"),
    };
    let (sender, queue) = queue(named, wakeup);
    let queue = Queue { extents, ..queue };
    let (named, control) = (named.clone(), Arc::clone(control));
    let thread = std::thread::Builder::new().name("stream-input".into());
    let read = move || sender.end(read(input, &content, from, &sender, &control, &named));
    thread.spawn(read).map_err(failed)?;
    Ok(queue)
}

fn read(
    input: Input,
    content: &Content,
    from: u64,
    sender: &Sender,
    control: &Control,
    named: &Named,
) -> Result<(), Error> {
    match content {
        Content::Text(cut) => lines::read(input, *cut, from, sender, control, named),
        Content::Arrow(schema, columns) => {
            match arrow::read(Waiting::new(input, control), schema, columns, from, sender, named) {
                // The input has been cut off anywhere.
                Err(_) if control.is_stopped() => Ok(()),
                result => result,
            }
        }
    }
}

fn connect(address: &Address) -> io::Result<Input> {
    Ok(match address {
        Address::Tcp(address) => {
            let stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(SOCKET_POLL_PERIOD))?;
            Box::new(stream)
        }
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(SOCKET_POLL_PERIOD))?;
            Box::new(stream)
        }
    })
}

/// A socket that waits for connections.
enum Listener {
    Tcp(TcpListener),
    /// The name is removed at the end.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    fn bind(address: &Address) -> io::Result<Listener> {
        Ok(match address {
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Listener::Tcp(listener)
            }
            Address::Unix(path) => {
                let listener = bind_unix(path)?;
                listener.set_nonblocking(true)?;
                Listener::Unix(listener, path.clone())
            }
        })
    }

    /// Returns a connection, if one waits.
    fn accept(&self) -> io::Result<Option<Input>> {
        let accepted = match self {
            Listener::Tcp(listener) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(SOCKET_POLL_PERIOD))?;
                Ok(Box::new(stream) as Input)
            }),
            Listener::Unix(listener, _) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(SOCKET_POLL_PERIOD))?;
                Ok(Box::new(stream) as Input)
            }),
        };
        match accepted {
            Ok(input) => Ok(Some(input)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // The peer has gone already.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            remove(path);
        }
    }
}

/// Binds a socket name. A stale name that a killed process has left behind is removed first.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let taken = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => error,
        result => return result,
    };
    let is_socket = std::fs::symlink_metadata(path)?.file_type().is_socket();
    match UnixStream::connect(path) {
        Err(error) if is_socket && error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        _ => Err(taken),
    }
}

fn remove(path: &Path) {
    // It may have been removed before.
    let _ = std::fs::remove_file(path);
}

/// Takes records from any number of connections until the pipeline stops.
fn listen(
    address: &Address,
    content: Content,
    named: &Named,
    control: &Arc<Control>,
    wakeup: &Wakeup,
) -> Result<Queue, Error> {
    let listener = Listener::bind(address).map_err(|source| named.error("listen on", source))?;
    let (sender, queue) = queue(named, wakeup);
    let waited_by = Arc::clone(control);
    let (named, control) = (named.clone(), Arc::clone(control));
    let name = named.clone();
    let thread = std::thread::Builder::new().name("stream-listener".into());
    let accept = move || {
        let mut readers: Vec<std::thread::JoinHandle<()>> = Vec::new();
        while !control.is_stopped() {
            readers.retain(|reader| !reader.is_finished());
            let accepted = if readers.len() < CONNECTIONS_MAX { listener.accept() } else { Ok(None) };
            match accepted {
                Ok(Some(input)) => {
                    let (content, named) = (content.clone(), named.clone());
                    let (sender, control) = (sender.another(), Arc::clone(&control));
                    let reader = std::thread::Builder::new().name("stream-input".into()).spawn(move || {
                        // A connection that breaks does not end the source.
                        let _ = read(input, &content, 0, &sender, &control, &named);
                    });
                    readers.extend(reader);
                }
                Ok(None) => std::thread::sleep(ACCEPT_POLL_PERIOD),
                Err(error) => return sender.end(Err(named.error("accept a connection at", error))),
            }
        }
        sender.stop();
    };
    let thread = thread.spawn(accept).map_err(|source| name.error("listen on", source))?;
    waited_by.wait_for(thread);
    Ok(queue)
}

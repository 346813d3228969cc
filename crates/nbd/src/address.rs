//! Where a server listens: a path, or a port; and the connections that come from there.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sakiyomi_os::socket::{keep_alive, stop_listening};

use crate::Error;

/// Silence on a TCP connection after which the kernel asks whether the peer still exists.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(60);

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// An address and a TCP port.
    Tcp(SocketAddr),
}

impl Address {
    /// Returns whether other machines can reach it.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        matches!(self, Address::Tcp(address) if !address.ip().is_loopback())
    }

    /// Returns the NBD URI of an export there.
    #[must_use]
    pub fn uri(&self, export: &str) -> String {
        let export = escape(export.as_bytes(), b"");
        match self {
            Address::Unix(path) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                format!("nbd+unix:///{export}?socket={}", escape(path.as_os_str().as_encoded_bytes(), b"/"))
            }
            Address::Tcp(address) => format!("nbd://{address}/{export}"),
        }
    }
}

/// Escapes bytes for a URI, except letters, digits, `-._~` and those in `also`.
fn escape(bytes: &[u8], also: &[u8]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also.contains(&byte);
    let escaped = bytes.iter().map(|&byte| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    escaped.collect()
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => path.display().fmt(f),
            Address::Tcp(address) => address.fmt(f),
        }
    }
}

impl FromStr for Address {
    type Err = Error;

    /// Parses a port of this machine, `ADDRESS:PORT`, or the path of a socket, which all else is.
    fn from_str(text: &str) -> Result<Address, Error> {
        let malformed = || Error::Address(text.to_owned());
        if text.is_empty() {
            return Err(malformed());
        }
        if let Some(port) = number(text.strip_prefix(':').unwrap_or(text)) {
            let port = port.ok_or_else(malformed)?;
            return Ok(Address::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.contains('/') && number(port).is_some() => {
                number(port).flatten().ok_or_else(malformed)?;
                let found = text.to_socket_addrs().ok().and_then(|mut found| found.next());
                found.map(Address::Tcp).ok_or_else(malformed)
            }
            _ => Ok(Address::Unix(text.into())),
        }
    }
}

/// Parses digits as a port: `None` if there is anything else, `Some(None)` if the number is too large.
fn number(text: &str) -> Option<Option<u16>> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())
}

/// A socket that accepts connections. The path of a Unix socket is removed when it is stopped or dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: ListeningSocket,
    /// `None` when it has been removed: another server may use it.
    path: Mutex<Option<PathBuf>>,
}

#[derive(Debug)]
enum ListeningSocket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    pub(crate) fn bind(address: &Address) -> Result<Listener, Error> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => Error::InUse(address.to_string()),
            _ => Error::Listen { address: address.to_string(), source },
        };
        let (socket, path) = match address {
            Address::Unix(path) => {
                remove_stale(path, address)?;
                (ListeningSocket::Unix(UnixListener::bind(path).map_err(failed)?), Some(path.clone()))
            }
            Address::Tcp(address) => {
                (ListeningSocket::Tcp(TcpListener::bind(address).map_err(failed)?), None)
            }
        };
        Ok(Listener { socket, path: Mutex::new(path) })
    }

    /// Returns its TCP address, with the port that the kernel has chosen if 0 was asked for.
    pub(crate) fn tcp_address(&self) -> Option<SocketAddr> {
        match &self.socket {
            ListeningSocket::Unix(_) => None,
            ListeningSocket::Tcp(listener) => listener.local_addr().ok(),
        }
    }

    /// Waits for a connection.
    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match &self.socket {
            ListeningSocket::Unix(listener) => Ok(Stream::Unix(listener.accept()?.0)),
            ListeningSocket::Tcp(listener) => {
                let stream = listener.accept()?.0;
                // Replies are whole, and the client waits for them.
                stream.set_nodelay(true)?;
                // Without it, a vanished machine would hold its connection.
                let _ = keep_alive(&stream, KEEP_ALIVE_IDLE);
                Ok(Stream::Tcp(stream))
            }
        }
    }

    /// Makes [`Listener::accept`] fail, now and later.
    pub(crate) fn stop(&self) {
        let _ = match &self.socket {
            ListeningSocket::Unix(listener) => stop_listening(listener),
            ListeningSocket::Tcp(listener) => stop_listening(listener),
        };
        if let Some(path) = self.path.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = fs::remove_file(path);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Removes the socket of a server that has ended without removing it.
fn remove_stale(path: &Path, address: &Address) -> Result<(), Error> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(Error::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|source| Error::Listen { address: address.to_string(), source })
        }
        _ => Err(Error::InUse(address.to_string())),
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    /// Ends both directions: threads that send or receive get an error or the end.
    pub(crate) fn shutdown(&self) {
        let both = std::net::Shutdown::Both;
        let _ = match self {
            Stream::Unix(stream) => stream.shutdown(both),
            Stream::Tcp(stream) => stream.shutdown(both),
        };
    }

    /// Limits the time of a receive and of a send; `None` for no limit.
    pub(crate) fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
            Stream::Tcp(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&*stream).read(bytes),
            Stream::Tcp(stream) => (&*stream).read(bytes),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use sakiyomi_testing::Scratch;

    use super::*;

    #[test]
    fn an_address_is_a_path_a_port_or_both_parts() {
        let parsed = |text: &str| text.parse::<Address>().unwrap();
        for text in ["disk.sock", "/run/disk", "./10809", "a:b", "dir:1/x"] {
            assert_eq!(parsed(text), Address::Unix(text.into()));
        }
        for text in ["10809", ":10809", "127.0.0.1:10809", "localhost:10809"] {
            let Address::Tcp(address) = parsed(text) else { panic!("{text}") };
            assert!(address.port() == 10809 && !Address::Tcp(address).is_remote(), "{text}");
        }
        assert!(parsed("0.0.0.0:1").is_remote() && parsed("[::1]:1") != parsed(":1"));
        for text in ["", "99999", "127.0.0.1:99999", "no-such-host.invalid:1"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_uri_names_the_socket_and_the_export() {
        let address = Address::Unix("/tmp/a b/ü".into());
        assert_eq!(address.uri("x/y"), "nbd+unix:///x%2Fy?socket=/tmp/a%20b/%C3%BC");
        assert_eq!("1".parse::<Address>().unwrap().uri(""), "nbd://127.0.0.1:1/");
    }

    #[test]
    fn a_stale_socket_is_replaced_and_nothing_else() {
        let scratch = Scratch::new("nbd_address");
        let path = scratch.path("socket");
        let address = Address::Unix(path.clone());
        drop(UnixListener::bind(&path).unwrap());
        let listener = Listener::bind(&address).unwrap();
        assert!(matches!(Listener::bind(&address), Err(Error::InUse(_))));
        drop(listener);
        assert!(!path.exists());
        fs::write(&path, "x").unwrap();
        assert!(matches!(Listener::bind(&address), Err(Error::NotASocket(_))));
    }
}

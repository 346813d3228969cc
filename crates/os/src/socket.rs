//! Stream sockets: sends that never block or never raise a signal, and the end of a listening one.
#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Whether a send may wait for room in the socket's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It waits, as for the peer to read.
    Allowed,
    /// If there is no room, it fails with [`io::ErrorKind::WouldBlock`].
    Never,
}

/// Parts of a message that are sent together at most: a header and its data.
const PARTS_MAX: usize = 8;

/// Sends the parts, or as many of their first bytes as there is room for, and returns the number of bytes. Never raises
/// `SIGPIPE`.
///
/// # Errors
/// If the peer is gone, or if there is no room and `wait` is [`Wait::Never`].
///
/// # Panics
/// If there are more than eight parts.
pub fn send(socket: impl AsFd, parts: &[IoSlice<'_>], wait: Wait) -> io::Result<usize> {
    assert!(parts.len() <= PARTS_MAX, "{} parts", parts.len());
    let flags = libc::MSG_NOSIGNAL | if wait == Wait::Never { libc::MSG_DONTWAIT } else { 0 };
    // SAFETY: a message header of zeros is valid: it has no address, parts or control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // `IoSlice` has the layout of `iovec`; the kernel only reads from the parts.
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len() as _;
    // SAFETY: the header refers to `parts`, which lives until the call returns.
    let sent = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Ends a listening socket: threads that wait in `accept` get an error, and so does every later call.
///
/// # Errors
/// If it is not a listening socket.
pub fn stop_listening(listener: impl AsFd) -> io::Result<()> {
    // SAFETY: takes a descriptor that is open.
    let done = unsafe { libc::shutdown(listener.as_fd().as_raw_fd(), libc::SHUT_RDWR) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets the kernel probe a TCP connection that has been silent for `idle`, in whole seconds, three times at the same
/// interval, and end it if the peer's machine does not answer.
///
/// # Errors
/// If it is not a TCP socket.
pub fn keep_alive(socket: impl AsFd, idle: Duration) -> io::Result<()> {
    let seconds = libc::c_int::try_from(idle.as_secs()).unwrap_or(libc::c_int::MAX).max(1);
    let options = [
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, seconds),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
    ];
    for (level, name, value) in options {
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the kernel reads an `int` of the given size, which lives until the call returns.
        let set = unsafe {
            libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, (&raw const value).cast(), size)
        };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::thread;

    use sakiyomi_testing::Scratch;

    use super::*;

    #[test]
    fn parts_arrive_in_order_and_a_full_socket_is_an_error_only_without_waiting() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let parts = [IoSlice::new(b"he"), IoSlice::new(b""), IoSlice::new(b"llo")];
        assert_eq!(send(&ours, &parts, Wait::Never).unwrap(), 5);
        let mut got = [0; 5];
        theirs.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
        let much = vec![7; 1 << 16];
        let mut sent = 0;
        let error = loop {
            match send(&ours, &[IoSlice::new(&much)], Wait::Never) {
                Ok(more) => sent += more,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).map(|_| all.len())
        });
        while send(&ours, &[IoSlice::new(b"x")], Wait::Allowed).unwrap() != 1 {}
        drop(ours);
        assert_eq!(reader.join().unwrap().unwrap(), sent + 1);
    }

    #[test]
    fn a_peer_that_is_gone_is_an_error_and_no_signal() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let error = send(&ours, &[IoSlice::new(b"x")], Wait::Allowed).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_thread_that_waits_in_accept_is_woken() {
        let scratch = Scratch::new("listen");
        let path = scratch.path("socket");
        let unix = UnixListener::bind(&path).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| unix.accept().is_err());
            let also = scope.spawn(|| tcp.accept().is_err());
            // Before or after `accept` has begun: both end it.
            stop_listening(&unix).unwrap();
            stop_listening(&tcp).unwrap();
            assert!(waiting.join().unwrap() && also.join().unwrap());
        });
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn only_tcp_connections_are_probed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        keep_alive(&stream, Duration::from_secs(60)).unwrap();
        assert!(keep_alive(UnixStream::pair().unwrap().0, Duration::from_secs(60)).is_err());
    }
}

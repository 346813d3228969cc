//! Where the bytes of an output go.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use sakiyomi_io::AtomicFile;

use super::saved::{Continuity, Extent};
use super::tracked::TrackedFile;
use crate::spec::{Address, Target};

/// The standard input and output: the program's own, or those of a test.
#[derive(Default)]
pub struct Standard {
    /// The input that `stdin` reads.
    pub input: Option<Box<dyn io::Read + Send>>,
    /// The writer behind `stdout`.
    pub output: Option<Box<dyn Write + Send>>,
}

/// An open output.
pub(super) enum Open {
    /// Appears at the end, or leaves nothing.
    Atomic(AtomicFile),
    /// A file whose length is known.
    Tracked(TrackedFile),
    /// Is written at once.
    Plain(Box<dyn Write + Send>),
}

impl Open {
    /// Opens a target. `stdout` is what the standard output stands for. Whether the output has no bytes yet comes with
    /// it; none if nothing is to be written.
    ///
    /// # Errors
    /// If it cannot be opened, or cannot be continued.
    pub(super) fn new(
        target: &Target,
        continuity: Continuity,
        stdout: &mut Option<Box<dyn Write + Send>>,
    ) -> io::Result<Option<(Open, bool)>> {
        let plain = |output: Box<dyn Write + Send>| Ok(Some((Open::Plain(output), true)));
        let tracked = |(file, begins_at)| Ok(Some((Open::Tracked(file), begins_at == 0)));
        match target {
            Target::Discard => Ok(None),
            Target::Stdout => {
                let other = || io::Error::other("another sink writes to the standard output");
                plain(stdout.take().ok_or_else(other)?)
            }
            Target::File { path, append: true } => match TrackedFile::append(path, continuity)? {
                Some(file) => tracked(file),
                None => plain(Box::new(OpenOptions::new().append(true).open(path)?)),
            },
            Target::File { path, append: false } if continuity.is_some() => {
                match TrackedFile::partial(path, continuity)? {
                    Some(file) => tracked(file),
                    None => Ok(Some((Open::Atomic(AtomicFile::create(path)?), true))),
                }
            }
            Target::File { path, .. } => Ok(Some((Open::Atomic(AtomicFile::create(path)?), true))),
            Target::Socket(Address::Tcp(address)) => {
                let stream = TcpStream::connect(address)?;
                // Rows are gathered already.
                stream.set_nodelay(true)?;
                plain(Box::new(stream))
            }
            Target::Socket(Address::Unix(path)) => plain(Box::new(UnixStream::connect(path)?)),
        }
    }

    /// Returns the open file of an output that can be continued.
    ///
    /// # Errors
    /// If the process has too many files open.
    pub(super) fn handle(&self) -> io::Result<Option<File>> {
        match self {
            Open::Tracked(file) => file.handle().map(Some),
            Open::Atomic(_) | Open::Plain(_) => Ok(None),
        }
    }

    /// Returns the extent that it has written, if that is tracked.
    pub(super) fn extent(&self) -> Option<Extent> {
        match self {
            Open::Tracked(file) => file.extent(),
            Open::Atomic(_) | Open::Plain(_) => None,
        }
    }

    /// Brings its file to the state in which writing begins.
    pub(super) fn prepare(&mut self) -> io::Result<()> {
        match self {
            Open::Tracked(file) => file.prepare(),
            Open::Atomic(_) | Open::Plain(_) => Ok(()),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Open::Atomic(file) => file.write_all(bytes),
            Open::Tracked(file) => file.write(bytes),
            Open::Plain(output) => {
                output.write_all(bytes)?;
                output.flush()
            }
        }
    }

    /// Ends the output. The file that is still to appear, if it is whole.
    pub(super) fn finish(self, is_whole: bool) -> io::Result<Option<AtomicFile>> {
        match self {
            Open::Atomic(file) => Ok(Some(file).filter(|_| is_whole)),
            Open::Tracked(file) if is_whole => file.finish(),
            Open::Tracked(_) => Ok(None),
            Open::Plain(mut output) => output.flush().map(|()| None),
        }
    }
}

//! Reads, writes and syncs of backing files, each with its reply to the kernel.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use fuser::{ReplyData, ReplyEmpty, ReplyWrite};
use rustix::fs::{Mode, fchmod, fstat};
use rustix::io::{ReadWriteFlags, preadv2};

use super::direct::DirectFiles;
use super::handles::Open;
use crate::frontend::Frontend;
use sakiyomi_realtime::BackingIo;

/// A read of a backing file.
pub(super) struct Read {
    pub(super) open: Arc<Open>,
    pub(super) direct: Option<Arc<DirectFiles>>,
    pub(super) offset: u64,
    /// The requested length; after the read, the bytes read.
    pub(super) bytes: Vec<u8>,
    pub(super) reply: ReplyData,
}

impl BackingIo for Read {
    fn perform(&mut self, part: Range<u64>, _: bool) -> io::Result<()> {
        let Read { open, direct, offset, bytes, .. } = self;
        // Shorter than requested if an earlier part has reached the end of the file.
        let part = within(&part, bytes.len());
        if part.is_empty() {
            return Ok(());
        }
        let (start, from) = (part.start, *offset + part.start as u64);
        let space = &mut bytes[part.clone()];
        let read = match direct {
            None => read_buffered(&open.file, from, space)?,
            Some(files) => {
                let read = open.direct.as_ref().map_or(Ok(None), |direct| files.read(direct, from, space))?;
                match read {
                    Some(read) => read,
                    None => {
                        read_buffered(&open.file, from, space).inspect(|_| files.went_around(part.len()))?
                    }
                }
            }
        };
        if read < part.len() {
            bytes.truncate(start + read);
        }
        Ok(())
    }

    fn reply(self, result: io::Result<()>) {
        match result {
            Ok(()) => self.reply.data(&self.bytes),
            Err(error) => self.reply.error(error.into()),
        }
    }
}

/// Returns the indices of a part of `length` bytes.
fn within(part: &Range<u64>, length: usize) -> Range<usize> {
    let index = |at: u64| usize::try_from(at).map_or(length, |at| at.min(length));
    index(part.start)..index(part.end)
}

/// Reads up to the length of the buffer through the page cache, and returns the number of bytes read.
fn read_buffered(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Fills `bytes` if that is possible without waiting.
pub(super) fn read_cached(file: &File, offset: u64, bytes: &mut [u8]) -> bool {
    let size = bytes.len();
    let read = preadv2(file, &mut [IoSliceMut::new(bytes)], offset, ReadWriteFlags::NOWAIT);
    // A short read is the end of the file, or of the cached pages: the slow path distinguishes them.
    read == Ok(size)
}

/// Options of a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteHow {
    /// Completes only when it is on the medium.
    pub(super) synced: bool,
    /// Clears set-user-ID: the issuer is not root but this process is, and without a page cache the kernel leaves that
    /// to the file system.
    pub(super) kills_privileges: bool,
}

/// A write to a backing file.
pub(super) struct Write {
    pub(super) frontend: Arc<Frontend>,
    pub(super) open: Arc<Open>,
    pub(super) direct: Option<Arc<DirectFiles>>,
    pub(super) offset: u64,
    pub(super) data: Vec<u8>,
    pub(super) how: WriteHow,
    pub(super) reply: ReplyWrite,
}

impl BackingIo for Write {
    fn perform(&mut self, part: Range<u64>, durable: bool) -> io::Result<()> {
        let killed = if self.how.kills_privileges { kill_privileges(&self.open.file) } else { Ok(()) };
        let part = within(&part, self.data.len());
        let is_last = part.end == self.data.len();
        let mut written = killed.and_then(|()| self.write(part));
        if (self.how.synced && is_last) || durable {
            written = written.and_then(|()| self.open.file.sync_data());
        }
        self.open.node.changed_here();
        if written.is_err() {
            give_back(&self.frontend, &self.open);
        }
        written
    }

    fn reply(self, result: io::Result<()>) {
        match result {
            Ok(()) => self.reply.written(self.data.len() as u32),
            Err(error) => self.reply.error(error.into()),
        }
    }
}

impl Write {
    /// Writes a part, bypassing the page cache if configured and possible.
    fn write(&self, part: Range<usize>) -> io::Result<()> {
        let Write { open, data, .. } = self;
        let (offset, data) = (self.offset + part.start as u64, &data[part]);
        let Some(files) = &self.direct else { return open.file.write_all_at(data, offset) };
        let direct = open.direct.as_ref();
        if direct.map_or(Ok(false), |direct| files.write(direct, offset, data))? {
            return Ok(());
        }
        open.file.write_all_at(data, offset).inspect(|()| files.went_around(data.len()))
    }
}

fn kill_privileges(file: &File) -> io::Result<()> {
    let mode = Mode::from_raw_mode(fstat(file)?.st_mode);
    let mut less = mode - Mode::SUID;
    if mode.contains(Mode::XGRP) {
        less -= Mode::SGID;
    }
    if less == mode { Ok(()) } else { Ok(fchmod(file, less)?) }
}

/// Frees the blocks beyond the end of a file that a failed operation had allocated.
pub(super) fn give_back(frontend: &Frontend, open: &Open) {
    if let Ok(stat) = fstat(&open.file) {
        frontend.layout().change().truncate(open.node.id, stat.st_size.max(0) as u64);
    }
}

/// An fsync of a backing file or directory.
pub(super) struct Sync<F> {
    pub(super) file: F,
    pub(super) data_only: bool,
    pub(super) reply: ReplyEmpty,
}

impl<F: Syncable> BackingIo for Sync<F> {
    fn perform(&mut self, _: Range<u64>, _: bool) -> io::Result<()> {
        self.file.sync(self.data_only)
    }

    fn reply(self, result: io::Result<()>) {
        match result {
            Ok(()) => self.reply.ok(),
            Err(error) => self.reply.error(error.into()),
        }
    }
}

/// A file that can be synchronized with the medium.
pub(super) trait Syncable: Send + 'static {
    fn sync(&self, data_only: bool) -> io::Result<()>;
}

impl Syncable for Arc<Open> {
    fn sync(&self, data_only: bool) -> io::Result<()> {
        self.file.sync(data_only)
    }
}

impl Syncable for File {
    fn sync(&self, data_only: bool) -> io::Result<()> {
        if data_only { self.sync_data() } else { self.sync_all() }
    }
}

//! File data: each access takes the drive's time and performs the backing file's I/O.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use fuser::{Errno, FopenFlags, ReplyData, ReplyEmpty, ReplyWrite, Request};
use rustix::fs::{FallocateFlags, FileType, OFlags, SeekFrom, Stat};

use super::Files;
use super::backing_io::{Read, Sync, Syncable, Write, WriteHow, give_back, read_cached};
use super::handles::Open;
use super::nodes::Node;
use crate::frontend::Frontend;
use crate::layout::{FileId, NoSpace, Part};
use sakiyomi_realtime::{IoRequest, Issuer};

impl From<NoSpace> for io::Error {
    fn from(_: NoSpace) -> io::Error {
        rustix::io::Errno::NOSPC.into()
    }
}

impl Files {
    /// Returns the access mode of the backing file for an open with `flags`. Each access has its offset, so appending
    /// is up to the kernel; with write-back the kernel also reads, to fill partially written pages.
    pub(super) fn backing_access(&self, flags: OFlags) -> OFlags {
        match flags & OFlags::ACCMODE {
            access if access == OFlags::WRONLY && self.options.writeback => OFlags::RDWR,
            access => access,
        }
    }

    pub(super) fn open_file(&self, number: u64, flags: i32) -> io::Result<(u64, FopenFlags)> {
        let node = self.nodes.get(number)?;
        let access = self.backing_access(OFlags::from_bits_retain(flags as u32));
        let file = File::from(node.open(access)?);
        let stat = rustix::fs::fstat(&file)?;
        self.opened(node, file, access, &stat)
    }

    /// Returns a handle for an opened file, and flags for the kernel.
    pub(super) fn opened(
        &self,
        node: Arc<Node>,
        file: File,
        access: OFlags,
        stat: &Stat,
    ) -> io::Result<(u64, FopenFlags)> {
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let direct = self.direct.as_ref().filter(|_| regular).and_then(|files| files.open(&node, access));
        adopt(&self.frontend, node.id, &file, stat)?;
        let keep = if node.is_as_known(stat) { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() };
        let flags = if self.options.direct_io {
            FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
        } else {
            keep
        };
        Ok((self.open.add(Open { file, direct, node }), flags))
    }

    pub(super) fn read_file(
        &self,
        handle: u64,
        offset: u64,
        size: u32,
        mut request: IoRequest,
        reply: ReplyData,
    ) {
        let read = (handle, offset, size as usize);
        let Some(reply) = self.read_at_once(&mut request, read, reply) else { return };
        let open = match self.open.get(handle) {
            Ok(open) => open,
            Err(error) => return reply.error(errno(error)),
        };
        self.frontend.locate(&mut request, open.node.id, offset, size.into());
        let mut bytes = vec![0; size as usize];
        let is_read = self.frontend.has_drive() && read_cached(&open.file, offset, &mut bytes);
        let io = Read { open, direct: self.direct.clone(), offset, bytes, reply };
        if is_read {
            // Handing it to a thread would cost more than everything else.
            self.frontend.submit_performed(request, io);
        } else {
            self.frontend.submit(request, io);
        }
    }

    /// Without a device, answers a read from the page cache at once; otherwise returns the reply. Allocates nothing,
    /// and takes no contended lock except for the extents of a trace.
    fn read_at_once(
        &self,
        request: &mut IoRequest,
        (handle, offset, size): (u64, u64, usize),
        reply: ReplyData,
    ) -> Option<ReplyData> {
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        if self.frontend.has_device() {
            return Some(reply);
        }
        BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(buffer.len().max(size), 0);
            let bytes = &mut buffer[..size];
            let read = self.open.with(handle, |open| {
                let is_read = read_cached(&open.file, offset, bytes);
                if is_read {
                    self.frontend.locate(request, open.node.id, offset, size as u64);
                }
                is_read
            });
            if !matches!(read, Ok(true)) {
                return Some(reply);
            }
            reply.data(&buffer[..size]);
            self.frontend.answered(request);
            None
        })
    }

    pub(super) fn write_file(
        &self,
        handle: u64,
        offset: u64,
        data: &[u8],
        mut how: WriteHow,
        issuer: Issuer,
        reply: ReplyWrite,
    ) {
        // With a page cache, the kernel sends the flush itself.
        how.synced &= self.options.direct_io;
        let planned = self.open.get(handle).and_then(|open| {
            let request = self.frontend.write(issuer, open.node.id, offset, data.len() as u64)?;
            Ok((open, request))
        });
        let (open, request) = match planned {
            Ok(planned) => planned,
            Err(error) => return reply.error(errno(error)),
        };
        let (frontend, direct, data) = (Arc::clone(&self.frontend), self.direct.clone(), data.to_vec());
        let request = IoRequest { fua: how.synced, ..request };
        self.frontend.submit(request, Write { frontend, open, direct, offset, data, how, reply });
    }

    /// Syncs a file: first, if that is emulated, the changes of its metadata `parts`.
    pub(super) fn sync(
        &self,
        request: &Request,
        parts: Vec<Part>,
        file: impl Syncable,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let (frontend, issuer) = (Arc::clone(&self.frontend), self.issuer(request, Instant::now()));
        let flush = move || frontend.submit(frontend.flush(issuer), Sync { file, data_only, reply });
        self.safe(request, || parts, flush);
    }

    pub(super) fn truncate(&self, number: u64, size: u64, handle: Option<u64>) -> io::Result<()> {
        let node = self.nodes.get(number)?;
        match handle.and_then(|handle| self.open.get(handle).ok()) {
            Some(open) => rustix::fs::ftruncate(&open.file, size)?,
            None => rustix::fs::ftruncate(node.open(OFlags::WRONLY)?, size)?,
        }
        self.frontend.layout().change().truncate(node.id, size);
        node.changed_here();
        Ok(())
    }

    pub(super) fn allocate(&self, handle: u64, offset: u64, length: u64, mode: i32) -> io::Result<()> {
        let open = self.open.get(handle)?;
        let flags = FallocateFlags::from_bits_retain(mode as u32);
        let punches = flags.contains(FallocateFlags::PUNCH_HOLE);
        if !punches {
            self.frontend.layout().change().place(open.node.id, offset, length)?;
        }
        let done = rustix::fs::fallocate(&open.file, flags, offset, length);
        if punches && done.is_ok() {
            self.frontend.layout().change().punch(open.node.id, offset, length);
        } else if done.is_err() {
            give_back(&self.frontend, &open);
        }
        open.node.changed_here();
        Ok(done?)
    }

    pub(super) fn seek(&self, handle: u64, offset: i64, whence: i32) -> io::Result<u64> {
        /// `SEEK_DATA` of lseek(2).
        const SEEK_DATA: i32 = 3;
        /// `SEEK_HOLE` of lseek(2).
        const SEEK_HOLE: i32 = 4;
        if self.options.writeback {
            // The backing file lacks the kernel's dirty pages: the kernel then treats all bytes as data.
            return Err(rustix::io::Errno::NOSYS.into());
        }
        let open = self.open.get(handle)?;
        let offset = u64::try_from(offset).map_err(|_| rustix::io::Errno::NXIO)?;
        let place = match whence {
            SEEK_DATA => SeekFrom::Data(offset),
            SEEK_HOLE => SeekFrom::Hole(offset),
            _ => return Err(rustix::io::Errno::INVAL.into()),
        };
        Ok(rustix::fs::seek(&open.file, place)?)
    }

    pub(super) fn close(&self, handle: u64) {
        if let Some(open) = self.open.remove(handle) {
            self.frontend.layout().change().settle(open.node.id);
        }
    }

    /// Drops `lookups` references of the kernel to a file. Returns it after the last one, when the blocks of a file
    /// without a name are freed.
    pub(super) fn forgotten(&self, number: u64, lookups: u64) -> Option<Arc<Node>> {
        let node = self.nodes.forget(number, lookups)?;
        if node.is_gone() {
            self.frontend.layout().change().remove(node.id);
            self.frontend.metadata(|metadata| metadata.remove(node.id));
        }
        Some(node)
    }
}

/// Allocates places for the data of a file that the layout does not know yet.
pub(crate) fn adopt(frontend: &Frontend, id: FileId, file: &File, stat: &Stat) -> io::Result<()> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || frontend.layout().read().knows(id) {
        return Ok(());
    }
    place_data(frontend, id, file, stat)
}

/// Allocates places for all data of a file that has none yet.
pub(crate) fn place_data(frontend: &Frontend, id: FileId, file: &File, stat: &Stat) -> io::Result<()> {
    let size = stat.st_size.max(0) as u64;
    let mut at = 0;
    while at < size {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => break,
            // The file system does not support holes.
            Err(_) => at,
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(data)).unwrap_or(size);
        frontend.layout().change().place(id, data, end - data)?;
        at = end.max(data + 1);
    }
    frontend.layout().change().settle(id);
    Ok(())
}

/// Converts an error for the kernel.
pub(super) fn errno(error: io::Error) -> Errno {
    error.into()
}

//! What is in files: each access takes the drive's time and does the backing file's I/O.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use fuser::{Errno, FopenFlags, ReplyData, ReplyEmpty, ReplyWrite, Request};
use rustix::fs::{FallocateFlags, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::{ReadWriteFlags, preadv2};

use super::Files;
use super::direct::DirectFiles;
use super::handles::Open;
use super::nodes::Node;
use crate::engine::{Asker, Begun, Engine};
use crate::layout::{FileId, NoSpace, Part};

impl From<NoSpace> for io::Error {
    fn from(_: NoSpace) -> io::Error {
        rustix::io::Errno::NOSPC.into()
    }
}

impl Files {
    /// How the backing file is opened for somebody who asked for `flags`. Offsets come with each access, so that
    /// appending is the kernel's affair; and the kernel reads around what it writes back.
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

    /// A handle for a file that was opened, and how the kernel is to treat it.
    pub(super) fn opened(
        &self,
        node: Arc<Node>,
        file: File,
        access: OFlags,
        stat: &Stat,
    ) -> io::Result<(u64, FopenFlags)> {
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let direct = self.direct.as_ref().filter(|_| regular).and_then(|files| files.open(&node, access));
        adopt(&self.engine, node.id, &file, stat)?;
        let keep = if node.is_as_known(stat) { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() };
        let flags = if self.options.direct_io {
            FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
        } else {
            keep
        };
        Ok((self.open.add(Open { file, direct, node }), flags))
    }

    pub(super) fn read_file(&self, handle: u64, offset: u64, size: u32, asker: Asker, reply: ReplyData) {
        let begun = self.engine.begin();
        let reply = match self.read_at_once(begun, handle, offset, size, asker, reply) {
            Ok(()) => return,
            Err(reply) => reply,
        };
        let open = match self.open.get(handle) {
            Ok(open) => open,
            Err(error) => return reply.error(error.into()),
        };
        let wish = self.engine.read(begun, asker, open.node.id, offset, size.into());
        let size = size as usize;
        let answer = move |read: io::Result<Vec<u8>>| match read {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error.into()),
        };
        let mut bytes = vec![0; size];
        match self.engine.has_drive() && read_cached(&open.file, offset, &mut bytes) {
            // Handing it to a thread would cost more than all else.
            true => self.engine.run_ready(wish, bytes, answer),
            false => {
                let files = self.direct.clone();
                self.engine.run(wish, move |_| read_backing(files.as_deref(), &open, offset, size), answer);
            }
        }
    }

    /// Where there is no drive, what is in memory is answered here and now; the reply is given back where that cannot be.
    /// Nothing is allocated, and no lock is met that another thread holds, but for the places of a trace.
    fn read_at_once(
        &self,
        begun: Begun,
        handle: u64,
        offset: u64,
        size: u32,
        asker: Asker,
        reply: ReplyData,
    ) -> Result<(), ReplyData> {
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        if self.engine.is_live() {
            return Err(reply);
        }
        BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            buffer.resize(buffer.len().max(size), 0);
            let bytes = &mut buffer[..size];
            let read = |open: &Open| {
                let cached = read_cached(&open.file, offset, bytes);
                cached.then(|| self.engine.read(begun, asker, open.node.id, offset, size as u64))
            };
            let Ok(Some(wish)) = self.open.with(handle, read) else { return Err(reply) };
            reply.data(&buffer[..size]);
            self.engine.answered(&wish);
            Ok(())
        })
    }

    pub(super) fn write_file(
        &self,
        handle: u64,
        offset: u64,
        data: &[u8],
        how: WriteHow,
        asker: Asker,
        reply: ReplyWrite,
    ) {
        let length = data.len();
        // Where there is a page cache, the kernel asks for the flush itself.
        let synced = how.synced && self.options.direct_io;
        let planned = self.open.get(handle).and_then(|open| {
            let mut wish = self.engine.write(asker, open.node.id, offset, length as u64)?;
            wish.fua = synced;
            Ok((open, wish))
        });
        let (open, wish) = match planned {
            Ok(planned) => planned,
            Err(error) => return reply.error(error.into()),
        };
        let (data, engine, files) = (data.to_vec(), Arc::clone(&self.engine), self.direct.clone());
        let backing = move |forced| {
            let mut written = if how.kills_privileges { kill_privileges(&open.file) } else { Ok(()) }
                .and_then(|()| write_backing(files.as_deref(), &open, offset, &data));
            if synced || forced {
                written = written.and_then(|()| open.file.sync_data());
            }
            open.node.changed_here();
            if written.is_err() {
                give_back(&engine, &open);
            }
            written
        };
        self.engine.run(wish, backing, move |written| match written {
            Ok(()) => reply.written(length as u32),
            Err(error) => reply.error(error.into()),
        });
    }

    /// Brings a file onto the medium: first, where they cost something, the changes of its `parts`.
    pub(super) fn sync(
        &self,
        request: &Request,
        parts: Vec<Part>,
        file: impl Syncable,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let (engine, asker) = (Arc::clone(&self.engine), self.asker(request));
        let flush = move || {
            let done = move |synced| match synced {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            };
            engine.run(engine.flush(asker), move |_| file.sync(data_only), done);
        };
        self.safe(request, || parts, flush);
    }

    pub(super) fn truncate(&self, number: u64, size: u64, handle: Option<u64>) -> io::Result<()> {
        let node = self.nodes.get(number)?;
        match handle.and_then(|handle| self.open.get(handle).ok()) {
            Some(open) => rustix::fs::ftruncate(&open.file, size)?,
            None => rustix::fs::ftruncate(node.open(OFlags::WRONLY)?, size)?,
        }
        self.engine.layout().truncate(node.id, size);
        node.changed_here();
        Ok(())
    }

    pub(super) fn allocate(&self, handle: u64, offset: u64, length: u64, mode: i32) -> io::Result<()> {
        let open = self.open.get(handle)?;
        let flags = FallocateFlags::from_bits_retain(mode as u32);
        let punches = flags.contains(FallocateFlags::PUNCH_HOLE);
        if !punches {
            self.engine.layout().place(open.node.id, offset, length)?;
        }
        let done = rustix::fs::fallocate(&open.file, flags, offset, length);
        if punches && done.is_ok() {
            self.engine.layout().punch(open.node.id, offset, length);
        } else if done.is_err() {
            give_back(&self.engine, &open);
        }
        open.node.changed_here();
        Ok(done?)
    }

    pub(super) fn seek(&self, handle: u64, offset: i64, whence: i32) -> io::Result<u64> {
        const SEEK_DATA: i32 = 3;
        const SEEK_HOLE: i32 = 4;
        if self.options.writeback {
            // The backing file does not have what the kernel holds back: to the kernel, then, all is data.
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
            self.engine.layout().settle(open.node.id);
        }
    }

    /// The kernel does not know a file any more, which is given then; if it has no name either, its blocks are free.
    pub(super) fn forgotten(&self, number: u64, lookups: u64) -> Option<Arc<Node>> {
        let node = self.nodes.forget(number, lookups)?;
        if node.is_gone() {
            self.engine.layout().remove(node.id);
            self.engine.metadata(|metadata| metadata.remove(node.id));
        }
        Some(node)
    }
}

/// What a write is to do beside writing.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteHow {
    /// It ends when it is on the medium.
    pub(super) synced: bool,
    /// It takes set-user-id away, as who writes is not root but we are: without a page cache the kernel leaves that to
    /// us.
    pub(super) kills_privileges: bool,
}

fn kill_privileges(file: &File) -> io::Result<()> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(file)?.st_mode);
    let mut less = mode - Mode::SUID;
    if mode.contains(Mode::XGRP) {
        less -= Mode::SGID;
    }
    if less == mode { Ok(()) } else { Ok(rustix::fs::fchmod(file, less)?) }
}

/// What can be brought onto the medium.
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

/// Frees the places beyond a file's end that a failed operation had taken.
fn give_back(engine: &Engine, open: &Open) {
    if let Ok(stat) = rustix::fs::fstat(&open.file) {
        engine.layout().truncate(open.node.id, stat.st_size.max(0) as u64);
    }
}

/// Gives the data of a file that is not known yet its places.
pub(crate) fn adopt(engine: &Engine, id: FileId, file: &File, stat: &Stat) -> io::Result<()> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || engine.layout().knows(id) {
        return Ok(());
    }
    place_data(engine, id, file, stat)
}

/// Gives all data of a file that has no place one.
pub(crate) fn place_data(engine: &Engine, id: FileId, file: &File, stat: &Stat) -> io::Result<()> {
    let size = stat.st_size.max(0) as u64;
    let mut at = 0;
    while at < size {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => break,
            // A file system that does not know of holes.
            Err(_) => at,
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(data)).unwrap_or(size);
        engine.layout().place(id, data, end - data)?;
        at = end.max(data + 1);
    }
    engine.layout().settle(id);
    Ok(())
}

/// Fills `bytes`, if that takes no waiting.
fn read_cached(file: &File, offset: u64, bytes: &mut [u8]) -> bool {
    let size = bytes.len();
    let read = preadv2(file, &mut [IoSliceMut::new(bytes)], offset, ReadWriteFlags::NOWAIT);
    // Fewer may be the file's end, or what is cached: the slow way knows.
    read == Ok(size)
}

/// Reads around the page cache where that is wanted and possible.
fn read_backing(files: Option<&DirectFiles>, open: &Open, offset: u64, size: usize) -> io::Result<Vec<u8>> {
    let Some(files) = files else { return read_up_to(&open.file, offset, size) };
    let direct = open.direct.as_ref().map_or(Ok(None), |direct| files.read(direct, offset, size))?;
    match direct {
        Some(bytes) => Ok(bytes),
        None => read_up_to(&open.file, offset, size).inspect(|_| files.went_around(size)),
    }
}

/// Writes likewise.
fn write_backing(files: Option<&DirectFiles>, open: &Open, offset: u64, data: &[u8]) -> io::Result<()> {
    let Some(files) = files else { return open.file.write_all_at(data, offset) };
    let direct = open.direct.as_ref();
    if direct.map_or(Ok(false), |direct| files.write(direct, offset, data))? {
        return Ok(());
    }
    open.file.write_all_at(data, offset).inspect(|()| files.went_around(data.len()))
}

/// What the file has, up to `size` bytes.
fn read_up_to(file: &File, offset: u64, size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    let mut filled = 0;
    while filled < size {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// As the kernel wants it.
pub(super) fn errno(error: io::Error) -> Errno {
    error.into()
}

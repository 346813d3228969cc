//! The kernel's requests and their dispatch.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, OFlags};
use sakiyomi_os::ioctl_channel::{IOCTL_NUMBER, MESSAGE_BYTES};

use super::Files;
use super::answers::{ATTRIBUTE_TIMEOUT, attr, caller, empty, entry, id, value};
use super::attributes::{self, Change, attributes, kind};
use super::backing_io::WriteHow;
use super::content::errno;
use super::nodes;
use crate::layout::{BLOCK_BYTES, Part};
use sakiyomi_iorate::server::{Caller, not_regulated, said};
use sakiyomi_realtime::Stopped;

/// Maximum number of requests that the kernel sends without waiting for replies: more than any drive accepts.
const BACKGROUND_MAX: u16 = 4096;

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let mut wanted = InitFlags::FUSE_ASYNC_DIO
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_READDIRPLUS_AUTO
            // Without it, the group would have the permissions of an access control list's mask.
            | InitFlags::FUSE_POSIX_ACL
            | InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
        wanted.set(InitFlags::FUSE_WRITEBACK_CACHE, self.options.writeback);
        // A kernel that lacks a flag works without it.
        for flag in wanted.iter() {
            let _ = config.add_capabilities(flag);
        }
        // Only 0 is refused.
        let _ = config.set_max_background(BACKGROUND_MAX);
        let _ = config.set_congestion_threshold(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.nodes.get(parent.0).and_then(|parent| self.nodes.lookup(&parent, name));
        let file = id(&found);
        self.looked(request, || self.name(parent.0, file), move || entry(reply, found));
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        if let Some(node) = self.forgotten(number.0, lookups) {
            self.frontend.metadata(|metadata| metadata.forget(node.id));
        }
    }

    fn getattr(&self, request: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let found = self.stat(number.0);
        self.looked(request, || self.inode(number.0), move || attr(reply, number, found));
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change { mode, user, group, accessed, modified };
        let done = size
            .map_or(Ok(()), |size| self.truncate(number.0, size, handle.map(|handle| handle.0)))
            .and_then(|()| self.nodes.get(number.0))
            .and_then(|node| change.apply(&node).and_then(|()| node.stat()));
        self.changed(request, done, || self.inode(number.0), move |done| attr(reply, number, done));
    }

    fn readlink(&self, request: &Request, number: INodeNo, reply: ReplyData) {
        let target = self.target(number.0);
        self.looked(
            request,
            || self.inode(number.0),
            move || match target {
                Ok(target) => reply.data(&target),
                Err(error) => reply.error(errno(error)),
            },
        );
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let made = self.make_node(parent.0, name, mode, device, caller(request));
        self.made_known(request, parent, reply, made);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let made = self.make_directory(parent.0, name, mode, caller(request));
        self.made_known(request, parent, reply, made);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.taken_away(request, parent, name, AtFlags::empty(), reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.taken_away(request, parent, name, AtFlags::REMOVEDIR, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let made = self.make_link(parent.0, name, target, caller(request));
        self.made_known(request, parent, reply, made);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let moved = self.named(parent.0, name);
        let done = Files::rename(self, (parent.0, name), (new_parent.0, new_name), flags.bits());
        let parts = || [self.name(parent.0, moved), self.names(new_parent.0)].concat();
        self.changed(request, done, parts, move |done| empty(reply, done));
    }

    fn link(&self, request: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let made = Files::link(self, number.0, parent.0, name);
        self.made_known(request, parent, reply, made);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let created = Files::create(self, parent.0, name, mode, flags, caller(request));
        let file = created.as_ref().ok().map(|((node, _), _)| node.id);
        let opened = created.and_then(|((node, stat), file)| {
            let attributes = attributes(node.number, &stat);
            let access = self.backing_access(OFlags::from_bits_retain(flags as u32));
            let opened = self.opened(Arc::clone(&node), file, access, &stat);
            opened.map(|opened| (attributes, opened)).inspect_err(|_| drop(self.forgotten(node.number, 1)))
        });
        self.changed(
            request,
            opened,
            || self.name(parent.0, file),
            move |opened| match opened {
                Ok((attributes, (handle, flags))) => {
                    reply.created(&ATTRIBUTE_TIMEOUT, &attributes, Generation(0), FileHandle(handle), flags);
                }
                Err(error) => reply.error(errno(error)),
            },
        );
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = self.open_file(number.0, flags.0);
        self.looked(
            request,
            || self.inode(number.0),
            move || match opened {
                Ok((handle, flags)) => reply.opened(FileHandle(handle), flags),
                Err(error) => reply.error(errno(error)),
            },
        );
    }

    fn read(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // The clock is read once, for the issuer and for the arrival.
        let now = Instant::now();
        let request = self.frontend.read(self.issuer(request, now), now);
        self.read_file(handle.0, offset, size, request, reply);
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        opened: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let how = WriteHow {
            // `O_SYNC` includes this flag.
            synced: OFlags::from_bits_retain(opened.0 as u32).contains(OFlags::DSYNC),
            kills_privileges: self.as_root && flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
        };
        self.write_file(handle.0, offset, data, how, self.issuer(request, Instant::now()), reply);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Written data is in the backing file already; the kernel need not report closes again.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.close(handle.0);
        reply.ok();
    }

    fn fsync(&self, request: &Request, _: INodeNo, handle: FileHandle, data: bool, reply: ReplyEmpty) {
        match self.open.get(handle.0) {
            Ok(open) => self.sync(request, vec![Part::Inode(open.node.id)], open, data, reply),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn opendir(&self, request: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let opened = self.open_directory(number.0);
        self.looked(
            request,
            || self.names(number.0),
            move || match opened {
                Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
                Err(error) => reply.error(errno(error)),
            },
        );
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, from: u64, mut reply: ReplyDirectory) {
        let listed = self.listings.get(handle.0).and_then(|listing| {
            listing.each(from, |entry| {
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                !reply.add(INodeNo(entry.ino()), entry.offset() as u64, kind(entry.file_type()), name)
            })
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdirplus(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        from: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        match self.list_with_attributes(number.0, handle.0, from, &mut reply) {
            Ok(files) => {
                let parts = || files.into_iter().map(Part::Inode).collect();
                self.looked(request, parts, move || reply.ok());
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings.remove(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, request: &Request, number: INodeNo, _: FileHandle, data: bool, reply: ReplyEmpty) {
        let directory =
            self.nodes.get(number.0).and_then(|node| node.open(OFlags::RDONLY | OFlags::DIRECTORY));
        match directory {
            Ok(directory) => {
                self.sync(request, self.names(number.0), std::fs::File::from(directory), data, reply);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let backing = match self
            .nodes
            .get(nodes::ROOT_NODE)
            .and_then(|root| Ok(rustix::fs::fstatvfs(root.place()?)?))
        {
            Ok(backing) => backing,
            Err(error) => return reply.error(errno(error)),
        };
        let (files, free_files) = (backing.f_files, backing.f_ffree);
        let name_max = backing.f_namemax as u32;
        if self.options.has_drive {
            let layout = self.frontend.layout().read();
            let (blocks, free, size) = (layout.blocks(), layout.free_blocks(), BLOCK_BYTES as u32);
            drop(layout);
            reply.statfs(blocks, free, free, files, free_files, size, name_max, size);
        } else {
            let (size, unit) = (backing.f_bsize as u32, backing.f_frsize as u32);
            let (blocks, free, available) = (backing.f_blocks, backing.f_bfree, backing.f_bavail);
            reply.statfs(blocks, free, available, files, free_files, size, name_max, unit);
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let node = self.nodes.get(number.0);
        let done = node.and_then(|node| attributes::set_xattr(&node, name, value, flags));
        self.changed(request, done, || self.inode(number.0), move |done| empty(reply, done));
    }

    fn getxattr(&self, request: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let node = self.nodes.get(number.0);
        let got = node.and_then(|node| attributes::get_xattr(&node, name));
        self.looked(request, || self.inode(number.0), move || value(reply, size, got));
    }

    fn listxattr(&self, request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let node = self.nodes.get(number.0);
        let all = request.uid() == 0;
        let listed = node.and_then(|node| attributes::list_xattrs(&node, all));
        self.looked(request, || self.inode(number.0), move || value(reply, size, listed));
    }

    fn removexattr(&self, request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let node = self.nodes.get(number.0);
        let done = node.and_then(|node| attributes::remove_xattr(&node, name));
        self.changed(request, done, || self.inode(number.0), move |done| empty(reply, done));
    }

    fn fallocate(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let done = self.allocate(handle.0, offset, length, mode);
        self.changed(request, done, || self.inode(number.0), move |done| empty(reply, done));
    }

    fn ioctl(
        &self,
        request: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        code: u32,
        message: &[u8],
        room: u32,
        reply: ReplyIoctl,
    ) {
        if code != IOCTL_NUMBER || message.len() != MESSAGE_BYTES || room as usize != MESSAGE_BYTES {
            return reply.error(Errno::ENOTTY);
        }
        let answer = match &self.regulation {
            Some(rates) => {
                let caller = Caller { thread: request.pid(), user: request.uid() };
                rates.answer(caller, message)
            }
            None => Ok(not_regulated(message)),
        };
        match answer {
            Ok(answer) => reply.ioctl(0, &said(&answer)[..]),
            Err(Stopped) => reply.error(Errno::EIO),
        }
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.seek(handle.0, offset, whence) {
            Ok(offset) => reply.offset(offset as i64),
            Err(error) => reply.error(errno(error)),
        }
    }
}

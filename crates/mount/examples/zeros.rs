//! A file system with one file, `all`, whose reads return zeros at once. It measures the cost of FUSE itself;
//! `bench/overhead.py` compares a mount with it.
//!
//!     cargo run --release -p sakiyomi-mount --example zeros -- DIR SIZE

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen, Request,
};

const FILE: INodeNo = INodeNo(2);
const BELIEVED: Duration = Duration::from_secs(60);
/// Number of threads of a mount.
const THREADS: usize = 3;

struct Zeros {
    size: u64,
}

impl Zeros {
    fn attributes(&self, number: INodeNo) -> FileAttr {
        let (kind, perm, size) = match number {
            FILE => (FileType::RegularFile, 0o444, self.size),
            _ => (FileType::Directory, 0o555, 0),
        };
        FileAttr {
            ino: number,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Zeros {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "all" {
            reply.entry(&BELIEVED, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&BELIEVED, &self.attributes(number));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        static NOTHING: [u8; 1 << 20] = [0; 1 << 20];
        reply.data(&NOTHING[..NOTHING.len().min(size as usize)]);
    }
}

fn main() -> io::Result<()> {
    let mut words = std::env::args_os().skip(1);
    let directory = words.next().map(PathBuf::from);
    let size = words.next().and_then(|size| size.to_str()?.parse().ok());
    let (Some(directory), Some(size)) = (directory, size) else {
        return Err(io::Error::other("two arguments: a directory, and the file's size in bytes"));
    };
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("zeros".to_owned()), MountOption::RO];
    config.n_threads = Some(THREADS);
    fuser::mount(Zeros { size }, directory, &config)
}

//! The content of a block device, in a regular file or on a block device: reads and writes of any range at any time
//! from many threads, holes, and what is on the medium.
//!
//! With direct I/O, which bypasses the page cache, the kernel takes only aligned ranges. A read is widened to them; a
//! write of other ranges goes through the page cache while no direct write runs, because the two would overwrite each
//! other's part of a page.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use rustix::fs::{FallocateFlags, FlockOperation, OFlags, SeekFrom, fallocate, flock, seek, sendfile};
use rustix::io::{Errno, ReadWriteFlags, preadv2, retry_on_intr};

use crate::file::{create_unnamed, direct_alignment, extent_at, file_size_max, lies_in_memory};
use crate::{Access, Buffer, Error, IoFile};

/// Largest alignment of direct I/O that is used; devices that are current do not require more.
const ALIGNMENT_MAX_BYTES: usize = 4096;

/// Zeros for devices that cannot clear a range themselves, aligned for direct I/O.
#[repr(align(4096))]
struct Zeros([u8; 1 << 16]);

static ZEROS: Zeros = Zeros([0; 1 << 16]);

/// How a volume is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeOptions {
    /// Whether transfers bypass the page cache where the file supports that.
    pub access: Access,
    /// Whether nothing can be written.
    pub read_only: bool,
}

/// The content of a block device. Its size does not change.
#[derive(Debug)]
pub struct Volume {
    path: PathBuf,
    /// Through the page cache.
    file: File,
    /// The same file for direct I/O; `None` if that is not wanted or not supported.
    direct: Option<Direct>,
    size: u64,
    is_device: bool,
    is_in_memory: bool,
    /// Taken for writing by writes through the page cache of a volume with direct I/O.
    cached_writes: RwLock<()>,
}

#[derive(Debug)]
struct Direct {
    file: File,
    alignment: usize,
}

impl Volume {
    /// Opens a regular file or a block device. A device that is to be written must not be in use, for example mounted; nor
    /// may another volume have it open, of this or another process, unless both only read: it is locked (`flock`).
    ///
    /// # Errors
    /// If it is neither, is empty, cannot be opened, or is in use.
    pub fn open(path: &Path, options: VolumeOptions) -> Result<Volume, Error> {
        let failed = |source| Error::Open { path: path.to_owned(), source };
        let is_device = std::fs::metadata(path).map_err(failed)?.file_type().is_block_device();
        let mut open = OpenOptions::new();
        open.read(true).write(!options.read_only);
        // The kernel refuses exclusive access to a device that is mounted, or that another one is made of.
        let exclusive = if is_device && !options.read_only { OFlags::EXCL } else { OFlags::empty() };
        let file = if std::fs::metadata(path).is_ok_and(|found| found.is_file() || is_device) {
            open.custom_flags(exclusive.bits().cast_signed()).open(path)
        } else {
            // Names the kind of file in its error.
            return Err(IoFile::open(path, Access::Buffered)
                .err()
                .unwrap_or(Error::NotAFile { path: path.to_owned(), what: "not a file" }));
        };
        let file = file.map_err(|source| match Errno::from_io_error(&source) {
            Some(Errno::BUSY) if is_device => Error::InUse { path: path.to_owned() },
            _ => failed(source),
        })?;
        // Some network file systems have no locks.
        if lock(&file, options.read_only) == Err(Errno::WOULDBLOCK) {
            return Err(Error::InUse { path: path.to_owned() });
        }
        let direct = || open.custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path);
        Volume::new(path, file, (options.access == Access::Direct).then_some(direct), is_device)
    }

    /// Opens a regular file for reading and writing, or creates it with `size` bytes, which take no room until they are
    /// written.
    ///
    /// # Errors
    /// If it cannot be opened or created, or if the file system does not allow such a size.
    pub fn open_or_create(path: &Path, size: u64) -> Result<Volume, Error> {
        let options = VolumeOptions { access: Access::Buffered, read_only: false };
        let created = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        match created {
            Ok(file) => {
                let sized = extend(&file, size);
                if sized.is_err() {
                    let _ = std::fs::remove_file(path);
                }
                sized.map_err(|source| Error::Open { path: path.to_owned(), source })?;
                // Nobody else has a file that is new.
                let _ = lock(&file, false);
                Volume::new(path, file, None::<fn() -> io::Result<File>>, false)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Volume::open(path, options),
            Err(source) => Err(Error::Open { path: path.to_owned(), source }),
        }
    }

    /// Creates a volume of `size` zeros in a file without a name, of which nothing is left when it is closed.
    ///
    /// # Errors
    /// If the directory or its file system does not allow it.
    pub fn unnamed(directory: &Path, size: u64) -> Result<Volume, Error> {
        let created = create_unnamed(directory, Access::Buffered);
        let sized = created.and_then(|file| extend(&file, size).map(|()| file));
        let file = sized.map_err(|source| Error::Open { path: directory.to_owned(), source })?;
        Volume::new(directory, file, None::<fn() -> io::Result<File>>, false)
    }

    fn new(
        path: &Path,
        file: File,
        direct: Option<impl FnOnce() -> io::Result<File>>,
        is_device: bool,
    ) -> Result<Volume, Error> {
        let size = seek(&file, SeekFrom::End(0))
            .map_err(|source| Error::Open { path: path.to_owned(), source: source.into() })?;
        if size == 0 {
            return Err(Error::NotAFile { path: path.to_owned(), what: "empty" });
        }
        // The page cache serves the volume where direct I/O is not supported, or reaches no device.
        let is_in_memory = lies_in_memory(&file);
        let direct = direct.filter(|_| !is_in_memory).and_then(|open| open().ok()).and_then(|file| {
            let alignment = direct_alignment(&file)?;
            let alignment = alignment.offset.max(alignment.memory);
            // The last block must be whole: a write of it would extend the file.
            let is_usable = alignment <= ALIGNMENT_MAX_BYTES && size.is_multiple_of(alignment as u64);
            is_usable.then_some(Direct { file, alignment })
        });
        let cached_writes = RwLock::default();
        Ok(Volume { path: path.to_owned(), file, direct, size, is_device, is_in_memory, cached_writes })
    }

    /// Returns the path that it was opened by; that of its directory for one without a name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns whether transfers bypass the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Returns the capacity of a buffer for a read of `length` bytes at any offset.
    #[must_use]
    pub fn read_capacity(&self, length: usize) -> usize {
        self.direct
            .as_ref()
            .map_or(length, |direct| (length + direct.alignment).next_multiple_of(direct.alignment))
    }

    /// Reads a part of what is at `offset`, in bytes from there, into a buffer of at least [`Volume::read_capacity`] of
    /// all of it. Returns the index of the first byte at `offset` in the buffer, whose content ends with the part. The
    /// parts follow each other, and begin at multiples of the alignment.
    ///
    /// # Errors
    /// If the file cannot be read, or has become shorter.
    pub fn read(&self, offset: u64, part: Range<usize>, buffer: &mut Buffer) -> io::Result<usize> {
        let (file, alignment) = match &self.direct {
            Some(direct) => (&direct.file, direct.alignment),
            None => (&self.file, 1),
        };
        let before = (offset % alignment as u64) as usize;
        let wanted = before + part.end;
        let space = &mut buffer.space()[..wanted.next_multiple_of(alignment)];
        let mut filled = (before + part.start) / alignment * alignment;
        while filled < wanted {
            match file.read_at(&mut space[filled..], offset - before as u64 + filled as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        buffer.set_len(wanted);
        Ok(before)
    }

    /// Fills `bytes` from `offset` if that is possible without waiting for a device, and returns whether it was.
    #[must_use]
    pub fn read_cached(&self, offset: u64, bytes: &mut [u8]) -> bool {
        let size = bytes.len();
        self.direct.is_none()
            && preadv2(&self.file, &mut [IoSliceMut::new(bytes)], offset, ReadWriteFlags::NOWAIT) == Ok(size)
    }

    /// Returns whether it lies in memory, so that no device can fail.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.is_in_memory
    }

    /// Sends up to `length` bytes at `offset` to a socket without copying them, and returns how many. If the range is
    /// written before the peer has received it, the peer may get what was written.
    ///
    /// # Errors
    /// If the peer is gone, or the file has become shorter. The program must ignore `SIGPIPE`, as those in Rust do.
    pub fn send(&self, socket: impl AsFd, offset: u64, length: usize) -> io::Result<usize> {
        let mut from = offset;
        match retry_on_intr(|| sendfile(&socket, &self.file, Some(&mut from), length))? {
            0 if length > 0 => Err(io::ErrorKind::UnexpectedEof.into()),
            sent => Ok(sent),
        }
    }

    /// Writes all `data` at `offset`. If the volume is direct and `data` is aligned, so should its address be.
    ///
    /// # Errors
    /// Returns the errors of `pwrite`.
    pub fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let Some(direct) = &self.direct else { return self.file.write_all_at(data, offset) };
        let alignment = direct.alignment as u64;
        let ranges = [offset, data.len() as u64, data.as_ptr().addr() as u64];
        if ranges.iter().all(|number| number.is_multiple_of(alignment)) {
            let _no_cached_write = self.cached_writes.read().unwrap_or_else(PoisonError::into_inner);
            return direct.file.write_all_at(data, offset);
        }
        let _no_direct_write = self.cached_writes.write().unwrap_or_else(PoisonError::into_inner);
        self.file.write_all_at(data, offset)
    }

    /// Tells the file system or the device that a range is not needed any more; it reads as zeros, or as before where
    /// that is not supported.
    ///
    /// # Errors
    /// Returns the errors of `fallocate`, but not that it is unsupported.
    pub fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        match self.clear(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length) {
            Err(error) if is_unsupported(error) => Ok(()),
            done => Ok(done?),
        }
    }

    /// Writes zeros to a range, without data if the file system or the device can do that; with `may_punch`, the range
    /// may lose its blocks. With `only_fast`, zeros are never written one by one.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] with `only_fast`; otherwise returns the errors of `fallocate` and `pwrite`.
    pub fn zero(&self, offset: u64, length: u64, may_punch: bool, only_fast: bool) -> io::Result<()> {
        let punch = may_punch.then_some(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE);
        let zero = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        for flags in punch.into_iter().chain([zero]) {
            match self.clear(flags, offset, length) {
                Err(error) if is_unsupported(error) => {}
                done => return Ok(done?),
            }
        }
        if only_fast {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut done = 0;
        while done < length {
            // The first piece ends where the others are aligned.
            let end = (offset + done + 1).next_multiple_of(ZEROS.0.len() as u64).min(offset + length);
            let piece = (end - offset - done) as usize;
            self.write(offset + done, &ZEROS.0[..piece])?;
            done += piece as u64;
        }
        Ok(())
    }

    fn clear(&self, flags: FallocateFlags, offset: u64, length: u64) -> Result<(), Errno> {
        if length == 0 {
            return Ok(());
        }
        // The kernel clears parts of pages through the page cache.
        let _no_direct_write = self.cached_writes.write().unwrap_or_else(PoisonError::into_inner);
        retry_on_intr(|| fallocate(&self.file, flags, offset, length))
    }

    /// Waits until all that was written is on the medium.
    ///
    /// # Errors
    /// Returns the errors of `fdatasync`.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Returns the end of the extent that begins at `offset`, and whether it holds data; a hole reads as zeros. All of
    /// a device is data, as is a file on a file system that does not know.
    ///
    /// # Errors
    /// Returns the errors of `lseek`.
    pub fn extent_at(&self, offset: u64) -> io::Result<(u64, bool)> {
        if self.is_device {
            return Ok((self.size, true));
        }
        extent_at(&self.file, self.size, offset)
    }
}

/// Extends an empty file. Beyond the limit of this process (`ulimit -f`), the kernel would end it.
fn extend(file: &File, size: u64) -> io::Result<()> {
    if size > file_size_max() { Err(io::ErrorKind::FileTooLarge.into()) } else { file.set_len(size) }
}

/// Returns whether the file system, the device, or its block size does not allow the operation.
fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NODEV)
}

/// Locks a file as long as it is open: against all others, or, if it is only read, against those that write.
fn lock(file: &File, is_shared: bool) -> Result<(), Errno> {
    let exclusive = FlockOperation::NonBlockingLockExclusive;
    flock(file, if is_shared { FlockOperation::NonBlockingLockShared } else { exclusive })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sakiyomi_testing::{Scratch, ScratchFile};

    use super::*;
    use crate::{BufferPool, Memory};

    /// A change of a volume, or a look at it.
    #[derive(Clone, Debug)]
    enum Step {
        Read(u64, u64),
        Write(u64, u64, u8),
        Zero(u64, u64, bool),
        Discard(u64, u64),
        Sync,
    }

    fn steps(size: u64) -> impl Strategy<Value = Vec<Step>> {
        let aligned =
            (0..size.div_ceil(4096), 1..4u64).prop_map(move |(block, blocks)| (block * 4096, blocks * 4096));
        let range = prop_oneof![aligned, (0..size, 1..9000u64)];
        let range = range.prop_map(move |(offset, length)| (offset, length.min(size - offset)));
        let step = (0..9u8, range, any::<(u8, bool)>()).prop_map(
            |(kind, (offset, length), (byte, punch))| match kind {
                0..3 => Step::Read(offset, length),
                3..6 => Step::Write(offset, length, byte),
                6 => Step::Zero(offset, length, punch),
                7 => Step::Discard(offset, length),
                _ => Step::Sync,
            },
        );
        proptest::collection::vec(step, 1..40)
    }

    /// Performs the steps on a volume and on an array, and compares what they hold.
    fn compare(volume: &Volume, steps: Vec<Step>) -> io::Result<()> {
        let pool = BufferPool::fixed(1, 1 << 17, Memory::Ordinary).unwrap();
        let mut expected = vec![0; volume.size() as usize];
        for step in steps {
            let range = |offset: u64, length: u64| offset as usize..(offset + length) as usize;
            match step {
                Step::Read(offset, length) => {
                    let mut buffer = pool.take().unwrap();
                    assert!(volume.read_capacity(length as usize) <= buffer.capacity());
                    let first = volume.read(offset, 0..length as usize, &mut buffer)?;
                    assert_eq!(buffer[first..], expected[range(offset, length)]);
                }
                Step::Write(offset, length, byte) => {
                    let mut buffer = pool.take().unwrap();
                    buffer.space()[..length as usize].fill(byte);
                    buffer.set_len(length as usize);
                    volume.write(offset, &buffer)?;
                    expected[range(offset, length)].fill(byte);
                }
                Step::Zero(offset, length, punch) => {
                    volume.zero(offset, length, punch, false)?;
                    expected[range(offset, length)].fill(0);
                }
                Step::Discard(offset, length) => {
                    volume.discard(offset, length)?;
                    let mut buffer = pool.take().unwrap();
                    let first = volume.read(offset, 0..length as usize, &mut buffer)?;
                    let (old, new) = (&mut expected[range(offset, length)], &buffer[first..]);
                    assert!(*old == *new || new.iter().all(|&byte| byte == 0));
                    old.copy_from_slice(new);
                }
                Step::Sync => volume.sync()?,
            }
        }
        let mut at = 0;
        while at < volume.size() {
            let (end, is_data) = volume.extent_at(at)?;
            assert!(end > at && end <= volume.size());
            let hole = &expected[at as usize..end as usize];
            assert!(is_data || hole.iter().all(|&byte| byte == 0), "a hole with data");
            at = end;
        }
        Ok(())
    }

    #[test]
    fn a_volume_that_is_written_is_open_once() {
        let file = ScratchFile::named("volume-locked", vec![0; 4096]);
        let open =
            |read_only| Volume::open(file.path(), VolumeOptions { access: Access::Buffered, read_only });
        let first = open(false).unwrap();
        for read_only in [false, true] {
            assert!(matches!(open(read_only), Err(Error::InUse { .. })));
        }
        assert!(matches!(Volume::open_or_create(file.path(), 4096), Err(Error::InUse { .. })));
        drop(first);
        let readers = [open(true).unwrap(), open(true).unwrap()];
        assert!(matches!(open(false), Err(Error::InUse { .. })));
        drop(readers);
        open(false).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn a_volume_holds_what_an_array_does(
            (size, steps) in prop_oneof![Just(65_536u64), Just(70_001), Just(1)].prop_flat_map(|size| (Just(size), steps(size))),
            direct: bool,
        ) {
            let access = if direct { Access::Direct } else { Access::Buffered };
            let file = ScratchFile::named("volume", vec![0; size as usize]);
            let volume = Volume::open(file.path(), VolumeOptions { access, read_only: false }).unwrap();
            prop_assert_eq!(volume.size(), size);
            compare(&volume, steps).unwrap();
            prop_assert_eq!(std::fs::metadata(file.path()).unwrap().len(), size, "its size does not change");
        }
    }

    #[test]
    fn neighbors_that_are_written_at_the_same_time_are_both_kept() {
        let file = ScratchFile::named("neighbors", [0; 8192]);
        let options = VolumeOptions { access: Access::Direct, read_only: false };
        let volume = Volume::open(file.path(), options).unwrap();
        let pool = BufferPool::fixed(2, 4096, Memory::Ordinary).unwrap();
        for round in 1..50u8 {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut buffer = pool.take().unwrap();
                    buffer.space().fill(round);
                    buffer.set_len(4096);
                    volume.write(4096, &buffer).unwrap();
                });
                scope.spawn(|| volume.write(4090, &[round; 6]).unwrap());
            });
            let mut got = [0; 4102];
            volume.file.read_exact_at(&mut got, 4090).unwrap();
            assert!(got.iter().all(|&byte| byte == round), "round {round}");
        }
    }

    #[test]
    fn what_holds_no_volume_is_refused_in_a_sentence() {
        let options = VolumeOptions { access: Access::Direct, read_only: true };
        let error = |path: &Path| Volume::open(path, options).unwrap_err().to_string();
        let empty = ScratchFile::named("empty", []);
        assert!(error(empty.path()).contains("is empty; a regular file or a block device is needed"));
        assert!(error(Path::new("/dev/null")).contains("is a character device"));
        assert!(error(Path::new("/")).contains("is a directory"));
        assert!(error(Path::new("/absent/file")).contains("cannot open /absent/file"));
    }

    #[test]
    fn a_file_that_has_become_shorter_is_an_error() {
        let file = ScratchFile::named("shorter", [1; 8192]);
        let volume = Volume::open_or_create(file.path(), 1).unwrap();
        file.path().metadata().unwrap();
        OpenOptions::new().write(true).open(file.path()).unwrap().set_len(4096).unwrap();
        let mut buffer = BufferPool::fixed(1, 8192, Memory::Ordinary).unwrap().take().unwrap();
        let error = volume.read(4000, 0..100, &mut buffer).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_part_is_sent_without_a_copy_and_one_that_is_not_there_is_an_error() {
        let data: Vec<u8> = (0..100_000u32).map(|index| (index / 7) as u8).collect();
        let file = ScratchFile::named("sent", &data);
        let volume = Volume::open_or_create(file.path(), 1).unwrap();
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let sent = volume.send(&ours, 5000, 20_000).unwrap();
        let mut got = vec![0; sent];
        io::Read::read_exact(&mut theirs, &mut got).unwrap();
        assert!(sent > 0 && got == data[5000..5000 + sent]);
        assert_eq!(volume.send(&ours, 100_000, 5).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        drop(theirs);
        assert_eq!(volume.send(&ours, 0, 5).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_new_volume_is_a_hole_that_fast_zeros_leave_alone() {
        let volume = Volume::unnamed(Scratch::new("unnamed").root(), 1 << 40).unwrap();
        assert_eq!(volume.extent_at(5).unwrap(), (1 << 40, false));
        match volume.zero(0, 1 << 39, true, true) {
            Ok(()) => assert_eq!(volume.extent_at(0).unwrap(), (1 << 40, false)),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported),
        }
    }
}

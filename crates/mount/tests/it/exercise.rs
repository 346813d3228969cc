//! Random operations on a mount and on a plain directory must have the same results.
//!
//! The kernel's own file system is the reference. `SAKIYOMI_MOUNT_OPERATIONS=100000 cargo test --release -p
//! sakiyomi-mount` runs at length; a failure names the seed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::mounted::{Scratch, can_mount, unmounted};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use rustix::fs::{AtFlags, CWD, FallocateFlags, RenameFlags, SeekFrom, XattrFlags};
use sakiyomi_drive::spec::builtin;
use sakiyomi_mount::{EmulatedStorage, Options, Regulate};

const DIRECTORIES: [&str; 5] = ["", "d", "e", "d/f", "e/g"];
const NAMES: [&str; 7] = ["d", "e", "f", "g", "h", "i", "long-name-with-ünïcode"];
const SLOTS: usize = 6;
const FILE_MAX: u64 = 300_000;

/// A step, which both sides execute.
#[derive(Clone, Debug)]
enum Step {
    Create { path: String, slot: usize, mode: u32 },
    Open { path: String, slot: usize, append: bool, truncate: bool },
    Close { slot: usize },
    Write { slot: usize, offset: u64, length: usize, byte: u8 },
    Append { slot: usize, length: usize, byte: u8 },
    Read { slot: usize, offset: u64, length: usize },
    Whole { path: String },
    SetLength { slot: usize, length: u64 },
    Truncate { path: String, length: u64 },
    Rename { from: String, to: String, flags: u32 },
    Link { from: String, to: String },
    Symlink { to: String, path: String },
    MakeDirectory { path: String, mode: u32 },
    RemoveDirectory { path: String },
    Unlink { path: String },
    List { path: String },
    Stat { path: String },
    Mode { path: String, mode: u32 },
    Owner { path: String, user: u32 },
    Times { slot: usize, seconds: u64 },
    SetAttribute { path: String, name: u8, length: usize },
    Attributes { path: String },
    RemoveAttribute { path: String, name: u8 },
    Allocate { slot: usize, flags: u32, offset: u64, length: u64 },
    Seek { slot: usize, offset: u64, hole: bool },
    Copy { from: usize, to: usize, at: u64, length: usize },
    Sync { slot: usize },
    Fifo { path: String },
}

struct Dice(Pcg64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    fn slot(&mut self) -> usize {
        self.below(SLOTS as u64) as usize
    }

    fn path(&mut self) -> String {
        let directory = DIRECTORIES[self.below(DIRECTORIES.len() as u64) as usize];
        let name = NAMES[self.below(NAMES.len() as u64) as usize];
        if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
    }

    fn length(&mut self) -> usize {
        let most = [10, 5000, 70_000][self.below(3) as usize];
        self.below(most) as usize
    }

    fn mode(&mut self) -> u32 {
        [0o644, 0o600, 0o755, 0o777, 0o4755][self.below(5) as usize]
    }

    fn step(&mut self) -> Step {
        match self.below(36) {
            0..3 => Step::Create { path: self.path(), slot: self.slot(), mode: self.mode() },
            3..5 => Step::Open {
                path: self.path(),
                slot: self.slot(),
                append: self.below(4) == 0,
                truncate: self.below(8) == 0,
            },
            5 => Step::Close { slot: self.slot() },
            6..11 => Step::Write {
                slot: self.slot(),
                offset: self.below(FILE_MAX),
                length: self.length(),
                byte: self.below(256) as u8,
            },
            11 => Step::Append { slot: self.slot(), length: self.length(), byte: self.below(256) as u8 },
            12..16 => Step::Read { slot: self.slot(), offset: self.below(FILE_MAX), length: self.length() },
            16 => Step::Whole { path: self.path() },
            17 => Step::SetLength { slot: self.slot(), length: self.below(FILE_MAX) },
            18 => Step::Truncate { path: self.path(), length: self.below(FILE_MAX) },
            19 | 20 => Step::Rename {
                from: self.path(),
                to: self.path(),
                flags: [0, 0, 1, 2][self.below(4) as usize],
            },
            21 => Step::Link { from: self.path(), to: self.path() },
            22 => Step::Symlink { to: self.path(), path: self.path() },
            23 => Step::MakeDirectory { path: self.path(), mode: self.mode() },
            24 => Step::RemoveDirectory { path: self.path() },
            25 => Step::Unlink { path: self.path() },
            26 => Step::List { path: DIRECTORIES[self.below(5) as usize].to_owned() },
            27 => Step::Stat { path: self.path() },
            28 => Step::Mode { path: self.path(), mode: self.mode() },
            29 => Step::Owner { path: self.path(), user: self.below(3) as u32 * 1000 },
            30 => Step::Times { slot: self.slot(), seconds: self.below(1 << 31) },
            31 => Step::SetAttribute {
                path: self.path(),
                name: self.below(3) as u8,
                length: self.length() % 2000,
            },
            32 => match self.below(3) {
                0 => Step::RemoveAttribute { path: self.path(), name: self.below(3) as u8 },
                1 => Step::Attributes { path: self.path() },
                _ => Step::Fifo { path: self.path() },
            },
            33 => Step::Allocate {
                slot: self.slot(),
                // None, KEEP_SIZE, PUNCH_HOLE with it, ZERO_RANGE.
                flags: [0, 1, 3, 3, 16][self.below(5) as usize],
                offset: self.below(FILE_MAX),
                length: 1 + self.below(100_000),
            },
            34 => Step::Seek { slot: self.slot(), offset: self.below(FILE_MAX), hole: self.below(2) == 0 },
            _ => match self.below(4) {
                0 => Step::Sync { slot: self.slot() },
                _ => Step::Copy {
                    from: self.slot(),
                    to: self.slot(),
                    at: self.below(FILE_MAX),
                    length: self.length(),
                },
            },
        }
    }
}

/// One of the two sides.
struct Side {
    root: PathBuf,
    open: [Option<File>; SLOTS],
}

/// The result of a step as text, equal on both sides if the mount is correct.
type Outcome = Result<String, String>;

fn told(error: io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |number| format!("errno {number}"))
}

impl Side {
    fn new(root: PathBuf) -> Side {
        Side { root, open: Default::default() }
    }

    fn at(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }

    fn slot(&self, slot: usize) -> io::Result<&File> {
        self.open[slot].as_ref().ok_or_else(|| io::Error::from_raw_os_error(9))
    }

    fn take(&mut self, step: &Step) -> Outcome {
        self.try_take(step).map_err(told)
    }

    fn try_take(&mut self, step: &Step) -> io::Result<String> {
        match step {
            Step::Create { path, slot, mode } => {
                let mut options = OpenOptions::new();
                options.read(true).write(true).create_new(true).mode(*mode);
                self.open[*slot] = Some(options.open(self.at(path))?);
            }
            Step::Open { path, slot, append, truncate } => {
                let mut options = OpenOptions::new();
                options.read(true).write(!append).append(*append).truncate(*truncate && !append);
                // A pipe would wait for its other end.
                options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
                let file = options.open(self.at(path))?;
                if file.metadata()?.is_file() {
                    self.open[*slot] = Some(file);
                }
            }
            Step::Close { slot } => self.open[*slot] = None,
            Step::Copy { from, to, at, length } => return self.copy(*from, *to, *at, *length),
            Step::Write { .. }
            | Step::Append { .. }
            | Step::Read { .. }
            | Step::SetLength { .. }
            | Step::Times { .. }
            | Step::Allocate { .. }
            | Step::Seek { .. }
            | Step::Sync { .. } => return self.with_content(step),
            Step::SetAttribute { .. } | Step::Attributes { .. } | Step::RemoveAttribute { .. } => {
                return self.with_attributes(step);
            }
            Step::Whole { path } => return Ok(digest(&fs::read(self.regular(path)?)?)),
            Step::List { path } => return list(&self.at(path)),
            Step::Stat { path } => return stat(&self.at(path)),
            _ => self.with_names(step)?,
        }
        Ok(String::new())
    }

    /// A pipe would wait for its other end.
    fn regular(&self, path: &str) -> io::Result<PathBuf> {
        let path = self.at(path);
        let kind = fs::metadata(&path)?;
        if kind.is_file() || kind.is_dir() { Ok(path) } else { Err(io::Error::from_raw_os_error(6)) }
    }

    fn with_content(&mut self, step: &Step) -> io::Result<String> {
        match *step {
            Step::Write { slot, offset, length, byte } => {
                self.slot(slot)?.write_all_at(&content(byte, length), offset)?;
            }
            Step::Append { slot, length, byte } => {
                let mut file = self.slot(slot)?;
                rustix::fs::seek(file, SeekFrom::End(0))?;
                file.write_all(&content(byte, length))?;
            }
            Step::Read { slot, offset, length } => {
                let mut bytes = vec![0; length];
                let mut read = 0;
                while read < length {
                    match self.slot(slot)?.read_at(&mut bytes[read..], offset + read as u64)? {
                        0 => break,
                        more => read += more,
                    }
                }
                return Ok(digest(&bytes[..read]));
            }
            Step::SetLength { slot, length } => self.slot(slot)?.set_len(length)?,
            Step::Times { slot, seconds } => {
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
                self.slot(slot)?.set_modified(time)?;
                return Ok(format!("{:?}", self.slot(slot)?.metadata()?.modified()?));
            }
            Step::Allocate { slot, flags, offset, length } => {
                let flags = FallocateFlags::from_bits_retain(flags);
                rustix::fs::fallocate(self.slot(slot)?, flags, offset, length)?;
            }
            Step::Seek { slot, offset, hole } => seek(self.slot(slot)?, offset, hole)?,
            Step::Sync { slot } => self.slot(slot)?.sync_all()?,
            _ => unreachable!("not about content: {step:?}"),
        }
        Ok(String::new())
    }

    fn copy(&self, from: usize, to: usize, at: u64, length: usize) -> io::Result<String> {
        let (from, to) = (self.slot(from)?, self.slot(to)?);
        let (mut source, mut target) = (at / 2, at);
        let mut left = length;
        while left > 0 {
            match rustix::fs::copy_file_range(from, Some(&mut source), to, Some(&mut target), left)? {
                0 => break,
                copied => left -= copied,
            }
        }
        Ok((length - left).to_string())
    }

    fn with_names(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Truncate { path, length } => {
                OpenOptions::new().write(true).open(self.regular(path)?)?.set_len(*length)?;
            }
            Step::Rename { from, to, flags } => {
                let flags = RenameFlags::from_bits_retain(*flags);
                rustix::fs::renameat_with(CWD, self.at(from), CWD, self.at(to), flags)?;
            }
            Step::Link { from, to } => fs::hard_link(self.at(from), self.at(to))?,
            Step::Symlink { to, path } => std::os::unix::fs::symlink(to, self.at(path))?,
            Step::MakeDirectory { path, mode } => {
                fs::create_dir(self.at(path))?;
                fs::set_permissions(self.at(path), Permissions::from_mode(*mode))?;
            }
            Step::RemoveDirectory { path } => fs::remove_dir(self.at(path))?,
            Step::Unlink { path } => rustix::fs::unlinkat(CWD, self.at(path), AtFlags::empty())?,
            Step::Mode { path, mode } => fs::set_permissions(self.at(path), Permissions::from_mode(*mode))?,
            Step::Owner { path, user } => std::os::unix::fs::lchown(self.at(path), Some(*user), None)?,
            Step::Fifo { path } => rustix::fs::mkfifoat(CWD, self.at(path), 0o640.into())?,
            _ => unreachable!("not about names: {step:?}"),
        }
        Ok(())
    }

    fn with_attributes(&self, step: &Step) -> io::Result<String> {
        let attribute = |name: &u8| format!("user.test{name}");
        match step {
            Step::SetAttribute { path, name, length } => {
                let value = content(*name, *length);
                rustix::fs::lsetxattr(self.at(path), attribute(name), &value, XattrFlags::empty())?;
                Ok(String::new())
            }
            Step::Attributes { path } => {
                let mut found = String::new();
                for name in 0..3 {
                    let mut value = vec![0; 4096];
                    let got = rustix::fs::lgetxattr(self.at(path), attribute(&name), value.as_mut_slice());
                    found += &got.map_or_else(|error| format!("{error:?} "), |read| digest(&value[..read]));
                }
                let mut names = vec![0; 4096];
                let read = rustix::fs::llistxattr(self.at(path), names.as_mut_slice())?;
                Ok(format!("{found} {:?}", String::from_utf8_lossy(&names[..read])))
            }
            Step::RemoveAttribute { path, name } => {
                rustix::fs::lremovexattr(self.at(path), attribute(name))?;
                Ok(String::new())
            }
            _ => unreachable!("not about attributes: {step:?}"),
        }
    }
}

/// Checks a seek. The end of data depends on the pages that happen to be cached; but skipped bytes must be a hole, and
/// data that is found must lie in the file.
fn seek(file: &File, offset: u64, hole: bool) -> io::Result<()> {
    let size = file.metadata()?.len();
    let place = if hole { SeekFrom::Hole(offset) } else { SeekFrom::Data(offset) };
    let found = match rustix::fs::seek(file, place) {
        Ok(found) => found,
        Err(rustix::io::Errno::NXIO) if !hole && offset < size => size,
        Err(error) => return Err(error.into()),
    };
    assert!((offset..=size).contains(&found), "{found} is not in {offset}..={size}");
    let mut passed = vec![1; (found - offset) as usize];
    file.read_exact_at(&mut passed, offset)?;
    assert!(hole || passed.iter().all(|&byte| byte == 0), "data in {offset}..{found} was passed over");
    Ok(())
}

fn content(byte: u8, length: usize) -> Vec<u8> {
    (0..length).map(|index| byte.wrapping_add((index / 7) as u8)).collect()
}

/// Length and an order-dependent checksum (FNV-1a).
fn digest(bytes: &[u8]) -> String {
    let sum = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{} bytes {sum:x} ", bytes.len())
}

fn list(path: &Path) -> io::Result<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        names.push((entry.file_name(), format!("{:?}", entry.file_type()?)));
    }
    names.sort();
    Ok(format!("{names:?}"))
}

fn stat(path: &Path) -> io::Result<String> {
    let found = fs::symlink_metadata(path)?;
    let size = if found.is_dir() { 0 } else { found.len() };
    let target: Option<OsString> = fs::read_link(path).ok().map(Into::into);
    Ok(format!("{:o} {} {} {} {size} {target:?}", found.mode(), found.nlink(), found.uid(), found.gid()))
}

/// Returns attributes and content of everything below a directory.
fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let found = fs::symlink_metadata(&path).unwrap();
            let content = if found.is_file() { digest(&fs::read(&path).unwrap()) } else { String::new() };
            let inside = path.strip_prefix(root).unwrap().to_owned();
            all.insert(inside, format!("{} {content}", stat(&path).unwrap()));
            if found.is_dir() {
                left.push(path);
            }
        }
    }
    all
}

fn operations() -> u64 {
    std::env::var("SAKIYOMI_MOUNT_OPERATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(3000)
}

fn exercise(test: &str, options: &Options, seed: u64, operations: u64) {
    if !can_mount(test) {
        return;
    }
    let scratch = Scratch::new(test, Duration::from_secs(60 + operations / 100));
    let mounted = scratch.mount(options);
    let mut sides = [Side::new(scratch.path("mounted")), Side::new(scratch.path("plain"))];
    for path in &DIRECTORIES[1..] {
        sides.iter().for_each(|side| fs::create_dir(side.at(path)).unwrap());
    }
    let mut dice = Dice(Pcg64::seed_from_u64(seed));
    let mut succeeded = 0;
    for number in 0..operations {
        let step = dice.step();
        let [of_mount, of_plain] = sides.each_mut().map(|side| side.take(&step));
        succeeded += u64::from(of_plain.is_ok());
        assert_eq!(of_mount, of_plain, "{test}, seed {seed}, step {number}: {step:?}");
    }
    // Otherwise too little was exercised.
    assert!(succeeded > operations / 5, "{succeeded} of {operations} steps could be done");
    let expected = tree(&scratch.path("plain"));
    assert_eq!(tree(&scratch.path("mounted")), expected, "{test}, seed {seed}: as seen through the mount");
    drop(sides);
    unmounted(mounted);
    assert_eq!(tree(&scratch.path("backing")), expected, "{test}, seed {seed}: in the backing directory");
}

/// A drive so fast that the test need not wait for it.
fn fast_drive() -> Options {
    let spec = builtin("barracuda-st2000dm006").unwrap().spec();
    Options { behind: Some(EmulatedStorage::Drive(Box::new(spec))), speed: 1000.0, ..Options::default() }
}

#[test]
fn a_mount_without_a_drive_behaves_as_a_directory() {
    exercise("plain", &Options::default(), 1, operations());
}

#[test]
fn a_mount_that_keeps_rates_behaves_as_a_directory() {
    let regulate = Some(Regulate::default());
    exercise("rates", &Options { regulate: regulate.clone(), ..Options::default() }, 7, operations() / 2);
    exercise("rates-drive", &Options { regulate, ..fast_drive() }, 8, operations() / 4);
}

#[test]
fn a_mounted_drive_behaves_as_a_directory() {
    exercise("drive", &fast_drive(), 2, operations());
}

#[test]
fn a_mounted_drive_without_page_cache_behaves_as_a_directory() {
    exercise("direct", &Options { direct_io: true, ..fast_drive() }, 3, operations() / 2);
}

#[test]
fn a_mount_with_few_descriptors_behaves_as_a_directory() {
    exercise("few", &Options { descriptors: Some(3), ..fast_drive() }, 6, operations());
}

#[test]
fn a_mounted_drive_with_metadata_behaves_as_a_directory() {
    exercise("metadata", &Options { metadata: true, ..fast_drive() }, 5, operations() / 2);
}

#[test]
fn a_mounted_drive_with_writeback_behaves_as_a_directory() {
    exercise("writeback", &Options { writeback: true, ..fast_drive() }, 4, operations() / 2);
}

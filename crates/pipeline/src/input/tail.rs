//! A file that grows, as `tail -F` follows it: through truncation and rotation.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::extent::ExtentMap;
use crate::control::Control;

/// Time between two polls of a file that has not grown: 50 polls a second take 0.05 % of a core.
const TAIL_POLL_PERIOD: Duration = Duration::from_millis(20);

/// Polls without growth after which the name is checked for another file: a rotation is noticed in half a second.
const ROTATION_CHECK_POLLS: u32 = 10;

/// A reader that waits for more at the end of its file, until the pipeline stops.
pub(super) struct Tail {
    path: PathBuf,
    /// None while the file does not exist.
    file: Option<File>,
    at: u64,
    /// Whether the last byte was a line end, or nothing was read yet.
    is_line_end: bool,
    looks: u32,
    control: Arc<Control>,
    /// Bytes that were given.
    given: u64,
    extents: ExtentMap,
}

/// Where a tail begins.
#[derive(Clone, Debug)]
pub(super) enum TailStart {
    /// At the end of the file.
    End,
    /// At its beginning.
    Beginning,
    /// At an offset of a file that has its name or had it before a rotation, in bytes.
    In(PathBuf, u64),
}

impl Tail {
    /// Follows a file, which need not exist yet.
    ///
    /// # Errors
    /// If it exists and cannot be read.
    pub(super) fn open(path: &Path, start: &TailStart, control: Arc<Control>) -> io::Result<Tail> {
        let mut tail = Tail {
            path: path.to_owned(),
            file: None,
            at: 0,
            is_line_end: true,
            looks: 0,
            control,
            given: 0,
            extents: ExtentMap::default(),
        };
        let first = if let TailStart::In(file, _) = start { file } else { path };
        match File::open(first) {
            Ok(mut file) => {
                tail.at = match *start {
                    TailStart::End => file.seek(SeekFrom::End(0))?,
                    TailStart::Beginning => 0,
                    TailStart::In(_, offset) => file.seek(SeekFrom::Start(offset))?,
                };
                tail.extents.begin(0, file.metadata()?.ino(), tail.at);
                tail.file = Some(file);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(tail)
    }

    /// Returns the files that it reads.
    pub(super) fn extents(&self) -> ExtentMap {
        self.extents.clone()
    }

    /// Reads what is there; 0 if there is nothing new.
    fn read_now(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let Some(file) = &mut self.file else { return Ok(0) };
        let read = file.read(space)?;
        self.at += read as u64;
        if let Some(last) = space[..read].last() {
            self.is_line_end = *last == b'\n';
        }
        Ok(read)
    }

    /// Looks for another file under the name, and for truncation.
    fn check(&self) -> io::Result<Change> {
        let found = match fs::metadata(&self.path) {
            Ok(found) => found,
            // Between the two steps of a rotation.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Change::None),
            Err(error) => return Err(error),
        };
        let Some(file) = &self.file else { return Ok(Change::Replaced) };
        let own = file.metadata()?;
        Ok(match (own.dev(), own.ino()) == (found.dev(), found.ino()) {
            false => Change::Replaced,
            true if own.len() < self.at => Change::Truncated,
            true => Change::None,
        })
    }

    /// Goes over to another file, or to the start of a truncated one. Returns the number of bytes put into `space`: the
    /// rest of the old file, or the line end that its last line lacks.
    fn follow(&mut self, space: &mut [u8]) -> io::Result<usize> {
        match self.check()? {
            Change::None => return Ok(0),
            Change::Truncated => {
                if let Some(file) = &mut self.file {
                    file.seek(SeekFrom::Start(0))?;
                }
            }
            Change::Replaced => {
                let written_since = self.read_now(space)?;
                if written_since > 0 {
                    return Ok(written_since);
                }
                self.file = match File::open(&self.path) {
                    Ok(file) => Some(file),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
                    Err(error) => return Err(error),
                };
            }
        }
        self.at = 0;
        let line_end = usize::from(!std::mem::replace(&mut self.is_line_end, true));
        space[..line_end].fill(b'\n');
        if let Some(file) = &self.file {
            self.extents.begin(self.given + line_end as u64, file.metadata()?.ino(), 0);
        }
        Ok(line_end)
    }
}

/// A change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    /// It is shorter than what was read of it.
    Truncated,
    /// Its name is another file's.
    Replaced,
}

impl Read for Tail {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        if space.is_empty() {
            return Ok(0);
        }
        while !self.control.is_stopped() {
            let mut read = self.read_now(space)?;
            if read == 0 && (self.looks.is_multiple_of(ROTATION_CHECK_POLLS) || self.file.is_none()) {
                read = self.follow(space)?;
            }
            if read > 0 {
                self.looks = 0;
                self.given += read as u64;
                return Ok(read);
            }
            self.looks += 1;
            std::thread::sleep(TAIL_POLL_PERIOD);
        }
        Ok(0)
    }
}

/// Returns the files that may have this number: those in the directory of a tail whose names begin with its name, as
/// after a rotation, then the one of its name.
pub(crate) fn candidates(path: &Path, inode: u64) -> Vec<PathBuf> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let found = entries.filter(|entry| {
        let has_name = entry.file_name().as_encoded_bytes().starts_with(name);
        has_name && entry.metadata().is_ok_and(|found| found.ino() == inode)
    });
    found.map(|entry| entry.path()).chain([path.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use sakiyomi_testing::Scratch;

    use super::*;

    /// Reads until this many bytes have arrived.
    fn take(tail: &mut Tail, length: usize) -> String {
        let mut bytes = vec![0; length];
        tail.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_tail_follows_growth_truncation_and_rotation() {
        let scratch = Scratch::new("tail");
        let (path, control) = (scratch.path("log"), Arc::new(Control::default()));
        let mut tail = Tail::open(&path, &TailStart::Beginning, Arc::clone(&control)).unwrap();
        fs::write(&path, "one\n").unwrap();
        assert_eq!(take(&mut tail, 4), "one\n");
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"two\nunfinished").unwrap();
        assert_eq!(take(&mut tail, 14), "two\nunfinished");
        // Written before the rotation, read after it.
        file.write_all(b"!").unwrap();
        fs::rename(&path, scratch.path("log.1")).unwrap();
        fs::write(&path, "three\n").unwrap();
        assert_eq!(take(&mut tail, 8), "!\nthree\n");
        let inode = |name: &str| fs::metadata(scratch.path(name)).unwrap().ino();
        let extents = tail.extents();
        let position = |at| extents.position(at).map(|found| (found.inode, found.offset, found.read));
        // Before the line end that the rotated file lacked, and after it.
        assert_eq!(position(19), Some((inode("log.1"), 19, 19)));
        assert_eq!(position(20), Some((inode("log"), 0, 0)));
        assert_eq!(position(26), Some((inode("log"), 6, 6)));
        assert_eq!(candidates(&path, inode("log.1")), [scratch.path("log.1"), path.clone()]);
        fs::write(&path, "4\n").unwrap();
        assert_eq!(take(&mut tail, 2), "4\n");
        control.stop();
        assert_eq!(tail.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn a_tail_begins_at_the_end_unless_told_otherwise() {
        let scratch = Scratch::new("tail_end");
        let path = scratch.file("log", "old\n");
        let mut tail = Tail::open(&path, &TailStart::End, Arc::default()).unwrap();
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"new\n").unwrap();
        assert_eq!(take(&mut tail, 4), "new\n");
    }
}

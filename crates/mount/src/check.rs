//! What must hold before anything is mounted; and whether something is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

/// The source under which our mounts are known to the kernel.
pub(crate) const SOURCE: &str = "sakiyomi";

/// The two directories, with all links resolved, if one can be mounted on the other.
pub(crate) fn directories(backing: &Path, directory: &Path) -> Result<(PathBuf, PathBuf), Error> {
    let backing = resolved("backing directory", backing)?;
    let directory = resolved("mount point", directory)?;
    if backing.starts_with(&directory) || directory.starts_with(&backing) {
        return Err(Error::Nested { backing, directory });
    }
    let unusable = |error| unusable("mount point", &directory, error);
    let mut files = fs::read_dir(&directory).map_err(unusable)?;
    if is_ours(&directory).map_err(unusable)? {
        return Err(Error::Mounted(directory));
    }
    if files.next().is_some() {
        return Err(Error::NotEmpty(directory));
    }
    Ok((backing, directory))
}

/// A file that is written when the mount ends does not lie in it.
pub(crate) fn outside(what: &'static str, path: &Path, directory: &Path) -> Result<(), Error> {
    // The file itself need not be there; a link that leads nowhere fails later, in words of its own.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let lies = fs::canonicalize(path).or_else(|_| fs::canonicalize(parent));
    if lies.is_ok_and(|lies| lies.starts_with(directory)) {
        return Err(Error::Covered { what, path: path.to_owned(), directory: directory.to_owned() });
    }
    Ok(())
}

fn resolved(role: &'static str, path: &Path) -> Result<PathBuf, Error> {
    let found = fs::canonicalize(path).and_then(|resolved| Ok((fs::metadata(&resolved)?, resolved)));
    match found.map_err(|error| unusable(role, path, error))? {
        (metadata, resolved) if metadata.is_dir() => Ok(resolved),
        _ => Err(unusable(role, path, io::ErrorKind::NotADirectory.into())),
    }
}

fn unusable(role: &'static str, path: &Path, source: io::Error) -> Error {
    // For a while the kernel remembers enough of a mount without a program to answer the first questions.
    if source.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error()) {
        return Error::Dead(path.to_owned());
    }
    Error::Directory { role, path: path.to_owned(), source }
}

/// Whether what is mounted on a directory, which is not asked, is sakiyomi's.
pub(crate) fn is_ours(directory: &Path) -> io::Result<bool> {
    Ok(ours_on(directory)?.is_some())
}

/// The number of the device that sakiyomi's mount on a directory has, as no other one of these days; none if there is none.
pub(crate) fn ours_on(directory: &Path) -> io::Result<Option<String>> {
    let mounts = Mounts::read()?;
    Ok(mounts.seen_on(directory).filter(MountOfLine::is_ours).map(|ours| ours.device.to_owned()))
}

/// The mount table of this process, as the kernel reports it.
pub(crate) struct Mounts(String);

impl Mounts {
    pub(crate) fn read() -> io::Result<Mounts> {
        fs::read_to_string("/proc/self/mountinfo").map(Mounts)
    }

    /// The mount on a directory; the last one if several are stacked.
    pub(crate) fn seen_on(&self, directory: &Path) -> Option<MountOfLine<'_>> {
        self.0.lines().filter_map(mount_of_line).rfind(|mount| mount.place == directory)
    }

    /// The mount on the nearest directory above.
    pub(crate) fn seen_above(&self, path: &Path) -> Option<MountOfLine<'_>> {
        path.ancestors().skip(1).find_map(|above| self.seen_on(above))
    }
}

#[derive(Debug, PartialEq)]
pub(crate) struct MountOfLine<'a> {
    pub(crate) place: PathBuf,
    device: &'a str,
    /// The type of its file system.
    pub(crate) kind: &'a str,
    source: &'a str,
    /// Mount options of the file system.
    options: &'a str,
}

impl MountOfLine<'_> {
    pub(crate) fn is_ours(&self) -> bool {
        // The subtype is named only where fusermount3 has mounted.
        self.source == SOURCE && self.kind.split('.').next() == Some("fuse")
    }

    /// User ID of a FUSE file system's owner, from its mount options.
    pub(crate) fn user(&self) -> Option<u32> {
        let mut options = self.options.split(',');
        options.find_map(|option| option.strip_prefix("user_id=")).and_then(|user| user.parse().ok())
    }
}

/// `36 35 98:0 / /mnt rw,noatime shared:1 - ext3 /dev/root rw`.
fn mount_of_line(line: &str) -> Option<MountOfLine<'_>> {
    let (of_place, rest) = line.split_once(" - ")?;
    let mut of_place = of_place.split(' ').skip(2);
    let (device, place) = (of_place.next()?, of_place.nth(1)?);
    let mut rest = rest.split(' ');
    let (kind, source, options) = (rest.next()?, rest.next()?, rest.next().unwrap_or_default());
    Some(MountOfLine { place: unescaped(place).into(), device, kind, source, options })
}

/// Blanks, tabs, line ends and backslashes stand there as `\040` and the like.
fn unescaped(text: &str) -> std::ffi::OsString {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = rest.get(1..4).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()).filter(|_| first == b'\\') {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    std::ffi::OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_mounts_are_read_whatever_their_names() {
        let line = r"36 35 0:40 / /mnt/a\040b\134c rw shared:1 - fuse.sakiyomi sakiyomi rw,user_id=0";
        let place = PathBuf::from(r"/mnt/a b\c");
        let options = "rw,user_id=0";
        let expected = MountOfLine { place, device: "0:40", kind: "fuse.sakiyomi", source: SOURCE, options };
        assert_eq!(expected.user(), Some(0));
        assert_eq!(mount_of_line(line), Some(expected));
        assert_eq!(mount_of_line("36 35"), None);
    }

    #[test]
    fn what_cannot_be_mounted_is_refused_in_a_sentence() {
        let refused = |backing: &str, directory: &str| {
            directories(Path::new(backing), Path::new(directory)).unwrap_err().to_string()
        };
        assert_eq!(
            refused("/nowhere", "/proc"),
            "/nowhere is not a directory that can be used as the backing directory"
        );
        assert!(refused("/", "/proc").contains("lie one in the other"));
        assert!(refused("/dev", "/proc").contains("is not empty"));
        assert!(refused("/proc/self/status", "/proc").contains("is not a directory"));
    }
}

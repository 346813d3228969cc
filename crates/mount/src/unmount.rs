//! The end of a mount from outside, also of one that nobody serves any more.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::UnmountFlags;

use crate::{Error, check};

/// Takes away what sakiyomi has mounted on `directory`, whether its program still lives or not; with `lazy` also if it
/// is in use.
///
/// # Errors
/// [`Error::NotMounted`], [`Error::Busy`], [`Error::Unmount`].
pub fn unmount(directory: &Path, lazy: bool) -> Result<(), Error> {
    let failed = |source| Error::Unmount { path: directory.to_owned(), source };
    let place = without_asking_it(directory).map_err(failed)?;
    if !check::is_ours(&place).map_err(failed)? {
        return Err(Error::NotMounted(directory.to_owned()));
    }
    if !rustix::process::geteuid().is_root() {
        return match by_helper(&place, lazy).map_err(failed)? {
            Helped::Done => Ok(()),
            Helped::Busy => Err(Error::Busy(directory.to_owned())),
        };
    }
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(&place, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::BUSY) => Err(Error::Busy(directory.to_owned())),
        Err(error) => Err(failed(error.into())),
    }
}

/// The path with links resolved, but of its last part, which a mount without a program does not answer for.
fn without_asking_it(directory: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(directory)?;
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => Ok(fs::canonicalize(parent)?.join(name)),
        _ => Ok(absolute),
    }
}

enum Helped {
    Done,
    Busy,
}

fn by_helper(place: &Path, lazy: bool) -> io::Result<Helped> {
    let helper = check::helper().unwrap_or_else(|| PathBuf::from("fusermount3"));
    let mut command = std::process::Command::new(helper);
    command.arg(if lazy { "-uz" } else { "-u" }).arg("--").arg(place);
    let output = command.output()?;
    if output.status.success() {
        return Ok(Helped::Done);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // It speaks English whatever the language is, and says the reason in no other way.
    if said.contains("resource busy") {
        Ok(Helped::Busy)
    } else {
        Err(io::Error::other(said.trim().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_mounted_cannot_be_unmounted() {
        let error = unmount(Path::new("/proc"), false).unwrap_err().to_string();
        assert_eq!(error, "nothing that sakiyomi has mounted is on /proc");
    }
}

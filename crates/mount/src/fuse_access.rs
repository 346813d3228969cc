//! Checks whether this process can mount: the FUSE device, the right to mount, the helper for unprivileged users. Each
//! possible reason is reported separately, since each has its own remedy.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;
use sakiyomi_os::rights::{self, CAP_SYS_ADMIN, is_root};

use crate::Error;

const DEVICE: &str = "/dev/fuse";

/// Major number of `/dev/fuse` (`MISC_MAJOR`, linux/major.h).
const FUSE_MAJOR: u32 = 10;
/// Minor number of `/dev/fuse` (`FUSE_MINOR`, linux/miscdevice.h).
const FUSE_MINOR: u32 = 229;

/// The program that mounts for unprivileged users.
const HELPER: &str = "fusermount3";

/// Directories searched for it besides those of PATH, as `fuser` does.
const HELPER_PLACES: [&str; 2] = ["/sbin", "/bin"];

/// Checks whether this process can mount, as far as that is known without trying; [`try_mount`](crate::try_mount)
/// tries.
///
/// # Errors
/// The missing precondition and its remedy.
pub fn can_mount() -> Result<(), Error> {
    open_device(Path::new(DEVICE))?;
    // In a user namespace the capability counts only if the mount namespace belongs to it, which only an attempt shows.
    match (rights::has_capability(CAP_SYS_ADMIN), helper()) {
        (true, _) | (false, Some(_)) => Ok(()),
        (false, None) if is_root() => Err(Error::NotAllowed),
        (false, None) => Err(Error::NoHelper),
    }
}

/// Returns the path of the helper for unprivileged users, if it is installed and executable.
pub(crate) fn helper() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(HELPER_PLACES.map(PathBuf::from));
    let may_run = |file: &PathBuf| {
        rustix::fs::accessat(CWD, file, Access::EXEC_OK, AtFlags::EACCESS).is_ok() && file.is_file()
    };
    places.map(|place| place.join(HELPER)).find(may_run)
}

/// Converts an error of `fuser` into the reason for which the kernel or the helper refused to mount.
pub(crate) fn refusal(directory: &Path, error: io::Error) -> Error {
    let path = directory.to_owned();
    let said = error.to_string();
    // After EPERM of mount(2), `fuser` runs the helper; the device and the directory were found before.
    let cannot_run = error.kind() == io::ErrorKind::PermissionDenied && helper().is_none();
    if error.kind() == io::ErrorKind::NotFound || cannot_run {
        return if is_root() { Error::NotAllowed } else { Error::NoHelper };
    }
    if let Some(said) = words_of_helper(&said) {
        let forbidden = said.contains("Operation not permitted");
        return if forbidden { not_allowed_to_helper() } else { Error::Helper { path, said } };
    }
    // "Error calling mount() at PATH with OPTIONS and flags=FLAGS: ENAME: text".
    match said.starts_with("Error calling mount()").then(|| said.rsplit(": ").next()).flatten() {
        Some(why) => Error::Mount { path, source: io::Error::other(why.to_owned()) },
        None => Error::Mount { path, source: error },
    }
}

/// Returns the helper's message on one line without its name; `None` if the message is not the helper's.
pub(crate) fn words_of_helper(said: &str) -> Option<String> {
    let (_, words) = said.split_once("fusermount3: ")?;
    Some(words.lines().map(str::trim).collect::<Vec<_>>().join("; "))
}

fn not_allowed_to_helper() -> Error {
    let Some(helper) = helper().filter(|_| !is_root()) else { return Error::NotAllowed };
    let is_setuid = fs::metadata(&helper).is_ok_and(|file| file.uid() == 0 && file.mode() & 0o4000 != 0);
    if is_setuid { Error::NotAllowed } else { Error::HelperWithoutRights(helper) }
}

fn open_device(path: &Path) -> Result<File, Error> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    match opened {
        Ok(device) => is_fuse(&device).map(|()| device),
        Err(error) => Err(why_not_opened(path, error)),
    }
}

/// Checks the device number: for another file in place of the device, the kernel would report an error without
/// explanation.
fn is_fuse(device: &File) -> Result<(), Error> {
    let metadata = device.metadata().map_err(Error::Device)?;
    let number = metadata.rdev();
    let found = (rustix::fs::major(number), rustix::fs::minor(number));
    if metadata.file_type().is_char_device() && found == (FUSE_MAJOR, FUSE_MINOR) {
        return Ok(());
    }
    Err(Error::OtherDevice)
}

fn why_not_opened(path: &Path, error: io::Error) -> Error {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT) => Error::NoDevice("does not exist"),
        Some(Errno::NODEV | Errno::NXIO) => Error::NoDevice("has no driver behind it"),
        Some(Errno::ACCESS | Errno::PERM) => {
            let access = Access::READ_OK | Access::WRITE_OK;
            let allowed = rustix::fs::accessat(CWD, path, access, AtFlags::EACCESS).is_ok();
            match fs::metadata(path) {
                Ok(file) if !allowed => Error::DeviceMode {
                    user: rights::user(),
                    mode: file.mode() & 0o7777,
                    owner: file.uid(),
                    group: file.gid(),
                },
                _ => Error::DeviceForbidden,
            }
        }
        _ => Error::Device(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_missing_and_one_that_is_something_else_are_told_apart() {
        let said = |path: &str| open_device(Path::new(path)).unwrap_err().to_string();
        assert!(said("/nowhere/fuse").starts_with("/dev/fuse does not exist: load the kernel module"));
        assert!(
            said("/dev/null").starts_with("/dev/fuse is not the device of FUSE"),
            "{}",
            said("/dev/null")
        );
    }

    #[test]
    fn refusals_of_opening_a_device_each_have_their_remedy() {
        let said = |errno: Errno| why_not_opened(Path::new("/dev/null"), errno.into()).to_string();
        for (errno, remedy) in [
            (Errno::NOENT, "modprobe fuse"),
            (Errno::NXIO, "modprobe fuse"),
            (Errno::NODEV, "modprobe fuse"),
            // /dev/null is accessible to every user, so the reason cannot be its mode.
            (Errno::PERM, "--device /dev/fuse"),
            (Errno::ACCESS, "--device /dev/fuse"),
        ] {
            assert!(said(errno).contains(remedy), "{errno}: {}", said(errno));
        }
        assert!(!said(Errno::PERM).contains("modprobe"));
    }

    #[test]
    fn refusals_of_mounting_are_said_in_one_line_without_numbers() {
        let refused = |said: &str| refusal(Path::new("/mnt"), io::Error::other(said.to_owned()));
        let chain = |error: Error| match error {
            Error::Mount { source, .. } => source.to_string(),
            other => other.to_string(),
        };
        let kernel = r#"Error calling mount() at "/mnt" with "fd=5,rootmode=40755" and flags=MsFlags(MS_NODEV): EINVAL: Invalid argument"#;
        assert_eq!(chain(refused(kernel)), "Invalid argument");
        let helper = "/bin/fusermount3: user has no write access to mountpoint /mnt\n";
        assert_eq!(
            chain(refused(helper)),
            "fusermount3 cannot mount on /mnt: user has no write access to mountpoint /mnt"
        );
        let permitted = "fusermount3: mount failed: Operation not permitted\n";
        assert!(!chain(refused(permitted)).contains('\n'));
        let missing = refusal(Path::new("/mnt"), io::ErrorKind::NotFound.into());
        assert!(matches!(missing, Error::NotAllowed | Error::NoHelper), "{missing}");
    }
}

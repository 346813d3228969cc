//! Errors: the operation, its object, the cause, and the remedy.

use std::io;
use std::path::PathBuf;

use sakiyomi_drive::spec::SpecError;
use sakiyomi_trace::TraceError;

use crate::layout::LayoutError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It does not exist, or is not a directory.
    #[error("{} is not a directory that can be used as the {role}", path.display())]
    Directory {
        /// `backing directory` or `mount point`.
        role: &'static str,
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Files in it would be hidden.
    #[error("{} is not empty: its files would be hidden; name an empty directory to mount on", .0.display())]
    NotEmpty(PathBuf),
    /// One directory contains the other.
    #[error(
        "the backing directory {} and the mount point {} lie one in the other: the file system would be served from within itself; name two separate directories", backing.display(), directory.display()
    )]
    Nested {
        /// The backing directory.
        backing: PathBuf,
        /// The mount point.
        directory: PathBuf,
    },
    /// A second mount would hide the first, and the end of one would be the end of the other.
    #[error("sakiyomi has mounted something on {} already: name another directory, or unmount it first", .0.display())]
    Mounted(PathBuf),
    /// A mount without a server.
    #[error("a mount whose program has ended is still on {at}; run `sakiyomi umount {at}`", at = .0.display())]
    Dead(PathBuf),
    /// A file that is written at the end lies under the mount point, and would be lost.
    #[error(
        "{} lies in {}, which is covered while it is mounted: name a file elsewhere for the {what}", path.display(), directory.display()
    )]
    Covered {
        /// `trace` or `layout`.
        what: &'static str,
        /// Its file.
        path: PathBuf,
        /// The mount point.
        directory: PathBuf,
    },
    /// The caller gave up.
    #[error("interrupted; nothing is mounted")]
    Interrupted,
    /// The device of FUSE is missing, or the kernel has no driver for it.
    #[error(
        "/dev/fuse {0}: load the kernel module with `modprobe fuse`; a container needs --device /dev/fuse and --cap-add SYS_ADMIN"
    )]
    NoDevice(&'static str),
    /// Something else has its name.
    #[error(
        "/dev/fuse is not the device of FUSE (character device 10:229): remove it and run `modprobe fuse`"
    )]
    OtherDevice,
    /// Its mode keeps this user out.
    #[error(
        "user {user} may not open /dev/fuse, which has mode {mode:04o}, owner {owner} and group {group}: let root run `chmod 666 /dev/fuse`, or run as its owner"
    )]
    DeviceMode {
        /// User of this process.
        user: u32,
        /// Permission bits.
        mode: u32,
        /// The owner's number.
        owner: u32,
        /// The group's number.
        group: u32,
    },
    /// Every user is kept out, not by its mode but otherwise: a container, or a file system without devices.
    #[error(
        "/dev/fuse may not be opened here, although its mode allows it: a container needs --device /dev/fuse and --cap-add SYS_ADMIN; on a file system mounted with nodev, no device can be opened"
    )]
    DeviceForbidden,
    /// It cannot be opened for another reason.
    #[error("cannot open /dev/fuse")]
    Device(#[source] io::Error),
    /// Only root mounts by itself.
    #[error("only root can mount and unmount without fusermount3: install the package fuse3, or run as root")]
    NoHelper,
    /// Root that is not the machine's.
    #[error(
        "the kernel does not let this process mount or unmount: a container needs --device /dev/fuse and --cap-add SYS_ADMIN, a user namespace needs a mount namespace of its own (`unshare -Urm`), and a service must not set NoNewPrivileges"
    )]
    NotAllowed,
    /// The helper has not the rights for which it exists.
    #[error("{} may not mount, as it does not belong to root or is not setuid: let root run `chown root` and `chmod u+s` on it", .0.display())]
    HelperWithoutRights(PathBuf),
    /// The helper has refused, for a reason of its own.
    #[error("fusermount3 cannot mount on {}: {said}", path.display())]
    Helper {
        /// The mount point.
        path: PathBuf,
        /// Its words.
        said: String,
    },
    /// The kernel has refused.
    #[error("cannot mount on {}", path.display())]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nothing of ours is mounted there.
    #[error("sakiyomi has mounted nothing on {}", .0.display())]
    NotMounted(PathBuf),
    /// Something else is mounted there.
    #[error("the {kind} file system on {} was not mounted by sakiyomi; unmount it with `umount`", path.display())]
    MountedByOthers {
        /// Where.
        path: PathBuf,
        /// The type of the file system.
        kind: String,
    },
    /// Another user has mounted it.
    #[error("{} was mounted by user {owner}: only that user and root can unmount it", path.display())]
    OtherUser {
        /// Where.
        path: PathBuf,
        /// The number of the user.
        owner: u32,
    },
    /// The path lies within a mount, but is not its mount point.
    #[error("{} is not a mount point, but lies in one: name {}", path.display(), mount.display())]
    InsideMount {
        /// The path that was given.
        path: PathBuf,
        /// The mount point.
        mount: PathBuf,
    },
    /// A process has files of it open.
    #[error("{} is in use: close its files and leave its directories, or unmount it at once with --lazy", .0.display())]
    Busy(PathBuf),
    /// Unmounting failed.
    #[error("cannot unmount {}", path.display())]
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The drive is impossible.
    #[error(transparent)]
    Drive(#[from] SpecError),
    /// Blocks of a file system do not consist of its sectors.
    #[error("the drive has sectors of {0} bytes, of which blocks of 4096 bytes cannot be made")]
    Sector(u64),
    /// Time must pass.
    #[error("a speed of {0} is not possible: it lies between 0.001 and 1000000")]
    Speed(f64),
    /// The kernel writes dirty pages itself, without naming a process.
    #[error(
        "rates cannot be kept with --writeback: the kernel writes later, and does not name the process; leave one of them out"
    )]
    RegulatedWriteback,
    /// Numbers of processes mean nothing here.
    #[error(
        "/proc is that of another namespace, so processes could not be identified; mount where `mount -t proc proc /proc` has been done"
    )]
    Numbers,
    /// The files do not fit onto the drive.
    #[error(
        "the files of {} do not fit onto the drive, which holds {capacity} bytes; take a larger one", path.display()
    )]
    TooLarge {
        /// The backing directory.
        path: PathBuf,
        /// The drive's size.
        capacity: u64,
    },
    /// The backing directory cannot be scanned.
    #[error("cannot scan {}", path.display())]
    Scan {
        /// The path that could not be read.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The layout's file.
    #[error("{}", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: LayoutError,
    },
    /// The trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The system has refused something else.
    #[error("cannot {what}")]
    System {
        /// The operation, as it completes "cannot ...".
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

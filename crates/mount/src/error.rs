//! Errors: the operation, its object, the cause and the remedy.

use std::io;
use std::path::PathBuf;

use sakiyomi_drive::spec::SpecError;
use sakiyomi_trace::TraceError;

use crate::layout::LayoutError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path does not exist, or is not a directory.
    #[error("{} is not a directory that can be used as the {role}", path.display())]
    Directory {
        /// `backing directory` or `mount point`.
        role: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The mount point contains files, which would be hidden.
    #[error("{} is not empty: its files would be hidden; name an empty directory to mount on", .0.display())]
    NotEmpty(PathBuf),
    /// One directory contains the other.
    #[error(
        "the backing directory {} and the mount point {} contain each other: the file system would be served from within itself; name two separate directories", backing.display(), directory.display()
    )]
    Nested {
        /// The backing directory.
        backing: PathBuf,
        /// The mount point.
        directory: PathBuf,
    },
    /// Sakiyomi has a mount there already: a second one would hide it, and both would end together.
    #[error("sakiyomi has mounted something on {} already: name another directory, or unmount it first", .0.display())]
    Mounted(PathBuf),
    /// The mount's program has ended.
    #[error("a mount whose program has ended is still on {at}; run `sakiyomi umount {at}`", at = .0.display())]
    Dead(PathBuf),
    /// A file to be written at the end lies below the mount point, and would be lost.
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
    /// The mount was interrupted by the caller.
    #[error("interrupted; nothing is mounted")]
    Interrupted,
    /// The device of FUSE is missing, or the kernel has no driver for it.
    #[error(
        "/dev/fuse {0}: load the kernel module with `modprobe fuse`; a container needs --device /dev/fuse and --cap-add SYS_ADMIN"
    )]
    NoDevice(&'static str),
    /// `/dev/fuse` is another kind of file.
    #[error(
        "/dev/fuse is not the device of FUSE (character device 10:229): remove it and run `modprobe fuse`"
    )]
    OtherDevice,
    /// The mode of `/dev/fuse` excludes this user.
    #[error(
        "user {user} may not open /dev/fuse, which has mode {mode:04o}, owner {owner} and group {group}: let root run `chmod 666 /dev/fuse`, or run as its owner"
    )]
    DeviceMode {
        /// User of this process.
        user: u32,
        /// Permission bits.
        mode: u32,
        /// User ID of the owner.
        owner: u32,
        /// Group ID.
        group: u32,
    },
    /// `/dev/fuse` is forbidden to every user, despite its mode: by a container, or a file system without devices.
    #[error(
        "/dev/fuse may not be opened here, although its mode allows it: a container needs --device /dev/fuse and --cap-add SYS_ADMIN; on a file system mounted with nodev, no device can be opened"
    )]
    DeviceForbidden,
    /// `/dev/fuse` cannot be opened for another reason.
    #[error("cannot open /dev/fuse")]
    Device(#[source] io::Error),
    /// Only root can mount without the helper.
    #[error("only root can mount and unmount without fusermount3: install the package fuse3, or run as root")]
    NoHelper,
    /// The process is root only within a container or user namespace.
    #[error(
        "the kernel does not let this process mount or unmount: a container needs --device /dev/fuse and --cap-add SYS_ADMIN, a user namespace needs a mount namespace of its own (`unshare -Urm`), and a service must not set NoNewPrivileges"
    )]
    NotAllowed,
    /// The helper lacks the privileges for which it exists.
    #[error("{} may not mount, as it does not belong to root or is not setuid: let root run `chown root` and `chmod u+s` on it", .0.display())]
    HelperWithoutRights(PathBuf),
    /// The helper refused with a message of its own.
    #[error("fusermount3 cannot mount on {}: {said}", path.display())]
    Helper {
        /// The mount point.
        path: PathBuf,
        /// Its message.
        said: String,
    },
    /// The kernel refused to mount.
    #[error("cannot mount on {}", path.display())]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// No mount of sakiyomi is there.
    #[error("sakiyomi has mounted nothing on {}", .0.display())]
    NotMounted(PathBuf),
    /// The mount there is not one of sakiyomi.
    #[error("the {kind} file system on {} was not mounted by sakiyomi; unmount it with `umount`", path.display())]
    MountedByOthers {
        /// The mount point.
        path: PathBuf,
        /// The type of the file system.
        kind: String,
    },
    /// Another user made the mount.
    #[error("{} was mounted by user {owner}: only that user and root can unmount it", path.display())]
    OtherUser {
        /// The mount point.
        path: PathBuf,
        /// The user's ID.
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
    /// A process has files open on it.
    #[error("{} is in use: close its files and leave its directories, or unmount it at once with --lazy", .0.display())]
    Busy(PathBuf),
    /// Unmounting failed.
    #[error("cannot unmount {}", path.display())]
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The specification of the drive is invalid.
    #[error(transparent)]
    Drive(#[from] SpecError),
    /// The sector size does not divide the block size.
    #[error("the drive has sectors of {0} bytes, which do not divide blocks of 4096 bytes")]
    Sector(u64),
    /// The speed is out of range.
    #[error("a speed of {0} is not possible; give 0.001 to 1000000")]
    Speed(f64),
    /// Rates are requested with write-back, in which the kernel writes dirty pages without naming a process.
    #[error(
        "rates cannot be kept with --writeback: the kernel writes later, and does not name the process; leave one of them out"
    )]
    RegulatedWriteback,
    /// `/proc` belongs to another PID namespace.
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
        /// The drive's size in bytes.
        capacity: u64,
    },
    /// The backing directory cannot be scanned.
    #[error("cannot scan {}", path.display())]
    Scan {
        /// The path that could not be read.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The layout file is invalid, or cannot be read or written.
    #[error("{}", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: LayoutError,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Another system call failed.
    #[error("cannot {what}")]
    System {
        /// The operation, which completes the sentence "cannot ...".
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
}

//! Names in directories: creating, moving and removing files.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use super::nodes::{Node, Owner, give_to};
use super::{Files, attributes};

/// The process that creates a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) user: u32,
    pub(super) group: u32,
}

type NodeAndStat = (Arc<Node>, Stat);

/// The set-group-ID bit of a mode: new files in such a directory get its group.
const SET_GROUP_BIT: u32 = 0o2000;

/// Returns the mode bits that a directory's default access control list allows for a new file in it (acl(5), object
/// creation). `list` is in the kernel's format: four bytes of version, then entries of tag, permissions and identifier.
fn most_allowed(list: &[u8]) -> u32 {
    /// `ACL_USER_OBJ` (linux/posix_acl.h).
    const OWNER_TAG: u16 = 0x01;
    /// `ACL_GROUP_OBJ`.
    const GROUP_TAG: u16 = 0x04;
    /// `ACL_MASK`.
    const MASK_TAG: u16 = 0x10;
    /// `ACL_OTHER`.
    const OTHER_TAG: u16 = 0x20;
    let of = |wanted: u16| {
        let mut entries = list.get(4..).unwrap_or_default().chunks_exact(8);
        let found = entries.find(|entry| u16::from_le_bytes([entry[0], entry[1]]) == wanted)?;
        Some(u32::from(found[2] & 7))
    };
    let group = of(MASK_TAG).or_else(|| of(GROUP_TAG));
    (of(OWNER_TAG).unwrap_or(7) << 6) | (group.unwrap_or(7) << 3) | of(OTHER_TAG).unwrap_or(7)
}

impl Files {
    /// Gives a new file to the caller, then sets the requested mode: until then no other user has access.
    fn hand_over(&self, parent: &Node, name: &OsStr, mode: u32, caller: Caller) -> io::Result<()> {
        let directory = parent.stat()?;
        let inherits = directory.st_mode & SET_GROUP_BIT != 0;
        if self.as_root {
            let owner = Owner { user: caller.user, group: (!inherits).then_some(caller.group) };
            give_to(parent.place()?, name, owner)?;
        }
        let stat = rustix::fs::statat(parent.place()?, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Symlink {
            return Ok(());
        }
        let inherited = if inherits && kind == FileType::Directory { SET_GROUP_BIT } else { 0 };
        let most = attributes::default_acl(parent).map_or(0o777, |list| most_allowed(&list));
        let mode = Mode::from_raw_mode((mode & (0o7000 | most)) | inherited);
        Ok(rustix::fs::chmodat(parent.place()?, name, mode, AtFlags::empty())?)
    }

    /// Looks up a new file and gives it to the caller; removes it if that fails.
    fn made(&self, parent: &Node, name: &OsStr, mode: u32, caller: Caller) -> io::Result<NodeAndStat> {
        let made = self.hand_over(parent, name, mode, caller).and_then(|()| self.nodes.lookup(parent, name));
        if made.is_err()
            && let Ok(place) = parent.place()
        {
            let kind = rustix::fs::statat(&place, name, AtFlags::SYMLINK_NOFOLLOW)
                .map(|stat| FileType::from_raw_mode(stat.st_mode));
            let flags = if kind == Ok(FileType::Directory) { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            // The caller gets the first error.
            let _ = rustix::fs::unlinkat(place, name, flags);
        }
        made
    }

    pub(super) fn create(
        &self,
        parent: u64,
        name: &OsStr,
        mode: u32,
        flags: i32,
        caller: Caller,
    ) -> io::Result<(NodeAndStat, File)> {
        let parent = self.nodes.get(parent)?;
        let asked = OFlags::from_bits_retain(flags as u32);
        let access = self.backing_access(asked);
        let new = access | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = parent.place()?;
        let open = || rustix::fs::openat(&place, name, new, Mode::RUSR | Mode::WUSR);
        match self.nodes.with_room(open) {
            Ok(file) => Ok((self.made(&parent, name, mode, caller)?, File::from(file))),
            Err(Errno::EXIST) if !asked.contains(OFlags::EXCL) => {
                let (node, stat) = self.nodes.lookup(&parent, name)?;
                // The kernel does not learn of a file that could not be opened.
                let opened = node.open(access).inspect_err(|_| drop(self.forgotten(node.number, 1)));
                Ok(((node, stat), File::from(opened?)))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn make_directory(
        &self,
        parent: u64,
        name: &OsStr,
        mode: u32,
        caller: Caller,
    ) -> io::Result<NodeAndStat> {
        let parent = self.nodes.get(parent)?;
        rustix::fs::mkdirat(parent.place()?, name, Mode::RWXU)?;
        self.made(&parent, name, mode, caller)
    }

    pub(super) fn make_node(
        &self,
        parent: u64,
        name: &OsStr,
        mode: u32,
        device: u32,
        caller: Caller,
    ) -> io::Result<NodeAndStat> {
        let parent = self.nodes.get(parent)?;
        let kind = FileType::from_raw_mode(mode);
        rustix::fs::mknodat(parent.place()?, name, kind, Mode::RUSR | Mode::WUSR, device.into())?;
        self.made(&parent, name, mode, caller)
    }

    pub(super) fn make_link(
        &self,
        parent: u64,
        name: &OsStr,
        target: &Path,
        caller: Caller,
    ) -> io::Result<NodeAndStat> {
        let parent = self.nodes.get(parent)?;
        rustix::fs::symlinkat(target, parent.place()?, name)?;
        self.made(&parent, name, 0, caller)
    }

    /// Creates a hard link.
    pub(super) fn link(&self, number: u64, parent: u64, name: &OsStr) -> io::Result<NodeAndStat> {
        let (node, parent) = (self.nodes.get(number)?, self.nodes.get(parent)?);
        let follow = AtFlags::SYMLINK_FOLLOW;
        let place = parent.place()?;
        node.by_path(|path| rustix::fs::linkat(rustix::fs::CWD, path, &place, name, follow))?;
        self.nodes.hold(&node);
        let stat = node.stat()?;
        Ok((node, stat))
    }

    pub(super) fn remove(&self, parent: u64, name: &OsStr, flags: AtFlags) -> io::Result<()> {
        let parent = self.nodes.get(parent)?;
        self.nodes.unnamed(&parent, name, || Ok(rustix::fs::unlinkat(parent.place()?, name, flags)?))
    }

    pub(super) fn rename(&self, from: (u64, &OsStr), to: (u64, &OsStr), flags: u32) -> io::Result<()> {
        let (old, new) = (self.nodes.get(from.0)?, self.nodes.get(to.0)?);
        let flags = RenameFlags::from_bits_retain(flags);
        // The file that had the new name loses it.
        self.nodes.unnamed(&new, to.1, || {
            Ok(rustix::fs::renameat_with(old.place()?, from.1, new.place()?, to.1, flags)?)
        })
    }

    pub(super) fn target(&self, number: u64) -> io::Result<Vec<u8>> {
        let node = self.nodes.get(number)?;
        Ok(rustix::fs::readlinkat(node.place()?, c"", Vec::new())?.into_bytes())
    }
}

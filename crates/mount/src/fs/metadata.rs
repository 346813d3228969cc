//! Cost of names and attributes, if emulated: a reply waits until the drive has performed the I/O that a file system
//! would do.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use fuser::Request;
use rustix::fs::AtFlags;

use super::Files;
use super::nodes::Node;
use crate::layout::{FileId, Metadata, Part, Work};

impl Files {
    /// Replies after the drive has read `parts`.
    pub(super) fn looked(
        &self,
        request: &Request,
        parts: impl FnOnce() -> Vec<Part>,
        answer: impl FnOnce() + Send + 'static,
    ) {
        self.after(request, |metadata| metadata.look_up(&parts()), answer);
    }

    /// Replies with `done` after the drive has changed `parts`; if `done` is an error, after it has only read them.
    pub(super) fn changed<T: Send + 'static>(
        &self,
        request: &Request,
        done: io::Result<T>,
        parts: impl FnOnce() -> Vec<Part>,
        answer: impl FnOnce(io::Result<T>) + Send + 'static,
    ) {
        let succeeded = done.is_ok();
        let work = |metadata: &mut Metadata| match succeeded {
            true => metadata.change(&parts()),
            false => metadata.look_up(&parts()),
        };
        self.after(request, work, move || answer(done));
    }

    /// Replies after the drive has synced `parts`.
    pub(super) fn safe(
        &self,
        request: &Request,
        parts: impl FnOnce() -> Vec<Part>,
        answer: impl FnOnce() + Send + 'static,
    ) {
        self.after(request, |metadata| metadata.sync(&parts()), answer);
    }

    fn after(
        &self,
        request: &Request,
        work: impl FnOnce(&mut Metadata) -> Work,
        answer: impl FnOnce() + Send + 'static,
    ) {
        match self.frontend.metadata(work) {
            Some(work) if !work.is_nothing() => {
                self.frontend.charge(self.issuer(request, Instant::now()), work, answer)
            }
            _ => answer(),
        }
    }

    /// Returns the inode of a file, if the kernel has it cached.
    pub(super) fn inode(&self, number: u64) -> Vec<Part> {
        self.nodes.get(number).map_or(Vec::new(), |node| vec![Part::Inode(node.id)])
    }

    /// Returns the names and the inode of a directory, which change with each of its names.
    pub(super) fn names(&self, number: u64) -> Vec<Part> {
        let parts = |node: Arc<Node>| vec![Part::Names(node.id), Part::Inode(node.id)];
        self.nodes.get(number).map_or(Vec::new(), parts)
    }

    /// Returns the file with a name before it is removed; looked up only if metadata is emulated.
    pub(super) fn named(&self, parent: u64, name: &OsStr) -> Option<FileId> {
        self.frontend.metadata(|_| ())?;
        let parent = self.nodes.get(parent).ok()?;
        let stat = rustix::fs::statat(parent.place().ok()?, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(self.nodes.id(&stat))
    }

    /// Returns the parts for a name in a directory and the inode of its file.
    pub(super) fn name(&self, parent: u64, file: Option<FileId>) -> Vec<Part> {
        self.names(parent).into_iter().chain(file.map(Part::Inode)).collect()
    }
}

//! The file system: passes the kernel's requests on to the backing directory.
//!
//! | file | content |
//! |---|---|
//! | `fs.rs` | state of a mount |
//! | `fs/requests.rs` | requests of the kernel, and their dispatch |
//! | `fs/answers.rs` | kinds of replies |
//! | `fs/nodes.rs` | files that the kernel knows |
//! | `fs/names.rs` | names in directories |
//! | `fs/content.rs` | data of files: here the drive takes its time |
//! | `fs/backing_io.rs` | reads, writes and syncs of backing files, with their replies |
//! | `fs/direct.rs` | backing files around the page cache |
//! | `fs/attributes.rs` | attributes, ordinary and extended |
//! | `fs/metadata.rs` | cost of names and attributes |
//! | `fs/handles.rs` | open files and directories |
//!
//! File data costs time on the drive. Names and attributes do so only on request; otherwise they behave as if cached by
//! a file system. Operations that the kernel can perform itself are left to it: locks are local, permissions are
//! checked against the attributes, and copying within the file system falls back to reading and writing, as on a disk.

mod answers;
mod attributes;
mod backing_io;
pub(crate) mod content;
pub(crate) mod direct;
mod handles;
mod metadata;
mod names;
pub(crate) mod nodes;
mod requests;

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Instant;

use fuser::{Generation, INodeNo, ReplyDirectoryPlus, Request};
use rustix::fs::{OFlags, Stat};
use sakiyomi_model::StreamId;
use sakiyomi_os::rights::is_root;

use crate::frontend::Frontend;
use crate::layout::FileId;
use crate::process;
use answers::ATTRIBUTE_TIMEOUT;
use attributes::attributes;
use direct::DirectFiles;
use handles::{Handles, Listing, Open};
use nodes::Nodes;
use sakiyomi_iorate::server::RateServer;
use sakiyomi_realtime::Issuer;

/// Options of the file system.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FsOptions {
    /// No page cache.
    pub(crate) direct_io: bool,
    /// The page cache also keeps written data (write-back).
    pub(crate) writeback: bool,
    /// Maximum number of descriptors of files that are cached but not open.
    pub(crate) descriptors: usize,
    /// There is a drive, whose size is reported as that of the file system.
    pub(crate) has_drive: bool,
}

/// All files of a mount.
#[derive(Debug)]
pub(crate) struct Files {
    nodes: Nodes,
    open: Handles<Open>,
    listings: Handles<Listing>,
    frontend: Arc<Frontend>,
    /// `None` if rates cannot be set.
    regulation: Option<Arc<RateServer>>,
    /// Files opened with `O_DIRECT`, if rates are kept on the backing directory's own device.
    direct: Option<Arc<DirectFiles>>,
    options: FsOptions,
    /// Whether it runs as root, and so can give new files to their owners.
    as_root: bool,
}

impl Files {
    pub(crate) fn new(
        root: OwnedFd,
        frontend: Arc<Frontend>,
        regulation: Option<Arc<RateServer>>,
        direct: Option<DirectFiles>,
        options: FsOptions,
    ) -> io::Result<Files> {
        Ok(Files {
            nodes: Nodes::new(root, options.descriptors)?,
            open: Handles::default(),
            listings: Handles::default(),
            frontend,
            regulation,
            direct: direct.map(Arc::new),
            options,
            as_root: is_root(),
        })
    }

    /// Returns the issuer of a request. It is looked up only for a trace or for rates, because that is slow.
    fn issuer(&self, request: &Request, now: Instant) -> Issuer {
        let is_wanted = self.regulation.is_some() || self.frontend.watch().is_recording();
        let process = StreamId(if is_wanted { process::of_thread(request.pid(), now) } else { 0 });
        let owner = self.regulation.as_ref().map_or(StreamId(0), |rates| rates.owner_of(request.pid()));
        Issuer { process, owner }
    }

    fn stat(&self, number: u64) -> io::Result<Stat> {
        self.nodes.get(number)?.stat()
    }

    fn open_directory(&self, number: u64) -> io::Result<u64> {
        let directory = self.nodes.get(number)?.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(self.listings.add(Listing::new(directory)?))
    }

    fn list_with_attributes(
        &self,
        number: u64,
        handle: u64,
        from: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> io::Result<Vec<FileId>> {
        let directory = self.nodes.get(number)?;
        let (mut added, mut failed) = (Vec::new(), None);
        self.listings.get(handle)?.each(from, |entry| {
            let (name, place) = (OsStr::from_bytes(entry.file_name().to_bytes()), entry.offset() as u64);
            // The kernel looks up these two itself.
            let itself = name == "." || name == "..";
            let found = if itself {
                directory.stat().map(|stat| (Arc::clone(&directory), stat))
            } else {
                self.nodes.lookup(&directory, name)
            };
            let (node, stat) = match found {
                Ok(found) => found,
                // Entries that have disappeared in the meantime are left out.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
                Err(error) => {
                    failed = Some(error);
                    return false;
                }
            };
            let attributes = attributes(node.number, &stat);
            let full =
                reply.add(INodeNo(node.number), place, name, &ATTRIBUTE_TIMEOUT, &attributes, Generation(0));
            if full && !itself {
                self.forgotten(node.number, 1);
            }
            if !full {
                added.push(node.id);
            }
            !full
        })?;
        // Entries before a failure are returned first; the next call fails again. No entry is left out silently.
        failed.filter(|_| added.is_empty()).map_or(Ok(added), Err)
    }
}

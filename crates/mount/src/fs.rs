//! The file system: what the kernel asks, passed on to the backing directory.
//!
//! | file | what |
//! |---|---|
//! | `fs.rs` | what a mount has |
//! | `fs/requests.rs` | what the kernel asks, and who answers |
//! | `fs/answers.rs` | kinds of answers |
//! | `fs/nodes.rs` | files that the kernel knows |
//! | `fs/names.rs` | names in directories |
//! | `fs/content.rs` | what is in files: here the drive takes its time |
//! | `fs/backing_io.rs` | reads, writes and syncs of backing files, with their replies |
//! | `fs/direct.rs` | backing files around the page cache |
//! | `fs/attributes.rs` | attributes, ordinary and extended |
//! | `fs/metadata.rs` | what names and attributes cost |
//! | `fs/handles.rs` | open files and directories |
//!
//! What is in files costs time on the drive; names and attributes only where that is asked for, else they are as if a
//! file system had them in memory. Where the kernel can do a thing by itself, it is not done here: locks are local,
//! permissions are checked against the attributes, and copying within the file system falls back to reading and writing,
//! as on a disk.

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
use crate::regulation::Regulation;
use crate::request::Issuer;
use answers::ATTRIBUTE_TIMEOUT;
use attributes::attributes;
use direct::DirectFiles;
use handles::{Handles, Listing, Open};
use nodes::Nodes;

/// How the kernel is to use it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FsOptions {
    /// No page cache.
    pub(crate) direct_io: bool,
    /// The page cache keeps what is written, too.
    pub(crate) writeback: bool,
    /// Descriptors that files which are only known take at most.
    pub(crate) descriptors: usize,
    /// There is a drive, whose size is that of the file system.
    pub(crate) has_drive: bool,
}

/// All files of a mount.
#[derive(Debug)]
pub(crate) struct Files {
    nodes: Nodes,
    open: Handles<Open>,
    listings: Handles<Listing>,
    frontend: Arc<Frontend>,
    /// None where nobody can have a rate.
    regulation: Option<Arc<Regulation>>,
    /// Where rates are kept on the backing directory's own device.
    direct: Option<Arc<DirectFiles>>,
    options: FsOptions,
    /// New files can be given to whom they belong.
    as_root: bool,
}

impl Files {
    pub(crate) fn new(
        root: OwnedFd,
        frontend: Arc<Frontend>,
        regulation: Option<Arc<Regulation>>,
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

    /// The issuer of a request; looked up only for a trace, or where rates are kept, as it takes a while.
    fn issuer(&self, request: &Request, now: Instant) -> Issuer {
        let recording = self.frontend.watch().is_recording();
        let process = StreamId(if recording { process::of_thread(request.pid(), now) } else { 0 });
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
            // The kernel knows these two.
            let itself = name == "." || name == "..";
            let found = if itself {
                directory.stat().map(|stat| (Arc::clone(&directory), stat))
            } else {
                self.nodes.lookup(&directory, name)
            };
            let (node, stat) = match found {
                Ok(found) => found,
                // What has gone in the meantime is left out.
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
        // What came before a failure is told first; asked for the rest, it fails again. Nothing is left out in silence.
        failed.filter(|_| added.is_empty()).map_or(Ok(added), Err)
    }
}

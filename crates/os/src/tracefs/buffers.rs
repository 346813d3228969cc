//! The ring buffers of an instance, one per core.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::OFlags;

use super::ring::Header;
use super::tree::{Tree, names, open_beside};

/// Maximum ring buffer pages per core read in one poll, so that a core that fills them as fast as they are read does
/// not hold up the caller.
const PAGES_PER_POLL_MAX: usize = 128;

/// The state of the buffers after a poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Drained {
    /// Whether records were overwritten before they were read.
    pub(super) lost: bool,
    /// If a core has more records than one poll reads: all records of earlier times were read. Nanoseconds.
    pub(super) complete_until: Option<u64>,
}

/// The buffers of all cores, open for reading.
#[derive(Debug)]
pub(super) struct Buffers {
    header: Header,
    /// One per core.
    pipes: Vec<File>,
    page: Vec<u8>,
}

impl Buffers {
    /// Opens the buffers of the instance in the directory `beside`.
    pub(super) fn open(tree: &Tree, beside: BorrowedFd<'_>) -> io::Result<Buffers> {
        // Instances have the same page layout as the top level, which alone describes it.
        let header = Header::parse(&tree.read("events/header_page")?);
        let header = header.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        let pipe = |core: &CString| {
            let path = format!("per_cpu/{}/trace_pipe_raw", core.to_string_lossy());
            open_beside(beside, path, OFlags::RDONLY | OFlags::NONBLOCK)
        };
        let cores = names(beside, Path::new("per_cpu"));
        let pipes = cores.iter().map(pipe).collect::<io::Result<Vec<_>>>()?;
        let page = vec![0; header.page];
        Ok(Buffers { header, pipes, page })
    }

    /// Calls `each` with the time and the bytes of each record since the last call, core by core. Does not wait.
    pub(super) fn drain(&mut self, mut each: impl FnMut(u64, &[u8])) -> Drained {
        let mut drained = Drained::default();
        for pipe in &mut self.pipes {
            let mut last = 0;
            let mut pages = 0;
            while pages < PAGES_PER_POLL_MAX {
                let length = match pipe.read(&mut self.page) {
                    Ok(0) | Err(_) => break,
                    Ok(length) => length,
                };
                drained.lost |= self.header.records(&self.page[..length], |time, record| {
                    last = time;
                    each(time, record);
                });
                pages += 1;
            }
            if pages == PAGES_PER_POLL_MAX {
                drained.complete_until = Some(drained.complete_until.map_or(last, |until| until.min(last)));
            }
        }
        drained
    }
}

//! The ring buffers of an instance, one per core.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::OFlags;

use super::ring::Header;
use super::tree::{Tree, names, open_beside};

/// Maximum ring buffer pages per core read in one poll, so that a core that fills them as fast as they are read does
/// not hold up the caller.
const PAGES_PER_POLL_MAX: usize = 128;

/// Buffer of a core in KiB for events of which there may be a million per second: a tenth of a second of them.
const LARGE_BUFFER_MAX_KIB: usize = 8 << 10;
/// Large buffers of all cores in KiB, beyond which each is smaller: they are memory of the kernel, which is not swapped.
const LARGE_BUFFERS_MAX_KIB: usize = 512 << 10;

/// Returns the size of each core's buffer in KiB, as the setting `buffer_size_kb`, for frequent events.
pub(super) fn large_buffer_size(cores: usize) -> CString {
    let size = LARGE_BUFFER_MAX_KIB.min(LARGE_BUFFERS_MAX_KIB / cores.max(1)).max(1);
    CString::new(size.to_string()).expect("a number has no zero byte")
}

/// The state of the buffers after a poll.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Drained {
    /// The times between which records are missing that were overwritten before they were read, or could not be parsed:
    /// from the last record of a core before them to the first one after them, `u64::MAX` if there is none yet.
    pub(super) lost: Option<Range<u64>>,
    /// If a core has more records than one poll reads: all records of earlier times were read. Nanoseconds.
    pub(super) complete_until: Option<u64>,
}

impl Drained {
    /// Adds times between which records are missing.
    fn lose(&mut self, times: Range<u64>) {
        let before = self.lost.get_or_insert(times.clone());
        *before = before.start.min(times.start)..before.end.max(times.end);
    }
}

/// The buffer of a core.
#[derive(Debug)]
struct CoreBuffer {
    pipe: File,
    /// The time of the last record.
    last: u64,
    /// The time after which records are missing, while none was read that is later.
    loss_begun: Option<u64>,
}

impl CoreBuffer {
    fn new(pipe: File) -> CoreBuffer {
        CoreBuffer { pipe, last: 0, loss_begun: None }
    }

    /// Reads a page; returns whether there is one.
    fn read_page(
        &mut self,
        header: &Header,
        page: &mut [u8],
        drained: &mut Drained,
        each: &mut impl FnMut(u64, &[u8]),
    ) -> bool {
        let length = match self.pipe.read(page) {
            Ok(0) | Err(_) => return false,
            Ok(length) => length,
        };
        let (before, mut first) = (self.last, None);
        let missing = header.records(&page[..length], |time, record| {
            first.get_or_insert(time);
            self.last = time;
            each(time, record);
        });
        if missing.before {
            self.loss_begun.get_or_insert(before);
        }
        if let Some(first) = first
            && let Some(begun) = self.loss_begun.take()
        {
            drained.lose(begun..first);
        }
        if missing.after {
            self.loss_begun.get_or_insert(self.last);
        }
        true
    }
}

/// The buffers of all cores, open for reading.
#[derive(Debug)]
pub(super) struct Buffers {
    header: Header,
    cores: Vec<CoreBuffer>,
    page: Vec<u8>,
}

impl Buffers {
    /// Opens the buffers of the instance in the directory `beside`.
    pub(super) fn open(tree: &Tree, beside: BorrowedFd<'_>) -> io::Result<Buffers> {
        // Instances have the same page layout as the top level, which alone describes it.
        let header = Header::parse(&tree.read("events/header_page")?);
        let header = header.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        let open = |core: &CString| {
            let path = format!("per_cpu/{}/trace_pipe_raw", core.to_string_lossy());
            open_beside(beside, path, OFlags::RDONLY | OFlags::NONBLOCK).map(CoreBuffer::new)
        };
        let cores = names(beside, Path::new("per_cpu"));
        let cores = cores.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        let page = vec![0; header.page];
        Ok(Buffers { header, cores, page })
    }

    /// Calls `each` with the time and the bytes of each record since the last call, core by core. Does not wait.
    pub(super) fn drain(&mut self, mut each: impl FnMut(u64, &[u8])) -> Drained {
        let mut drained = Drained::default();
        let Buffers { header, cores, page } = self;
        for core in cores {
            let mut pages = 0;
            while pages < PAGES_PER_POLL_MAX && core.read_page(header, page, &mut drained, &mut each) {
                pages += 1;
            }
            if pages == PAGES_PER_POLL_MAX {
                let last = core.last;
                drained.complete_until = Some(drained.complete_until.map_or(last, |until| until.min(last)));
            }
            if let Some(begun) = core.loss_begun {
                drained.lose(begun..u64::MAX);
            }
        }
        drained
    }

    /// Reads buffers from files of pages.
    #[cfg(test)]
    pub(super) fn of_files(header: Header, files: Vec<File>) -> Buffers {
        let page = vec![0; header.page];
        Buffers { header, cores: files.into_iter().map(CoreBuffer::new).collect(), page }
    }
}

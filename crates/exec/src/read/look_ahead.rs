//! The next files: opened ahead, and their beginnings fetched, so that a device with a long latency gets many requests
//! at the same time.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io;
use std::iter::Peekable;
use std::path::Path;
use std::vec;

use sakiyomi_io::page_cache;

use super::ahead::{Devices, FETCH_AHEAD_BYTES};
use super::plan::Plan;
use super::stream::Stream;
use super::work::Work;

/// Bytes fetched of each file that is opened ahead.
const FETCHED_OF_ONE: u64 = 4 << 20;

/// An input to read.
pub(super) enum Input<'f> {
    Path(&'f Path),
    /// A stream and its name.
    Stream(&'f Path, Stream<'f>),
}

impl<'f> Input<'f> {
    fn path(&self) -> &'f Path {
        match self {
            Input::Path(path) | Input::Stream(path, _) => path,
        }
    }
}

/// An open file, and its residency when it was opened.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) metadata: Metadata,
    pub(super) plan: Option<Plan>,
    fetched: u64,
}

impl Opened {
    pub(super) fn open<T: Send>(work: &Work<'_, T>, path: &Path) -> io::Result<Opened> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let plan = (work.is_usual() && metadata.is_file()).then(|| {
            let range = &work.read.range;
            Plan::of(&file, range.start.min(metadata.len())..range.end.min(metadata.len()))
        });
        Ok(Opened { file, metadata, plan, fetched: 0 })
    }

    /// Asks the kernel to fetch the part that will be loaded first.
    fn fetch_beginning(&mut self, devices: &mut Devices) {
        let Some(first) = self.plan.as_ref().and_then(|plan| plan.cold.first()) else { return };
        let device = devices.of(&self.file, &self.metadata);
        let range = first.start..first.end.min(first.start + FETCHED_OF_ONE);
        self.fetched = range.end - range.start;
        // A fetch is only advice: if it is refused, the part is read all the same.
        let _ = page_cache::fetch_in_pieces(&self.file, range, device.piece);
    }
}

/// The next inputs, in order.
pub(super) struct LookAhead<'w> {
    inputs: Peekable<vec::IntoIter<Input<'w>>>,
    opened: VecDeque<(&'w Path, Opened)>,
    fetched: u64,
    /// Whether there was more than one at the beginning.
    pub(super) are_many: bool,
}

impl<'w> LookAhead<'w> {
    pub(super) fn new(inputs: Vec<Input<'w>>) -> LookAhead<'w> {
        let are_many = inputs.len() > 1;
        LookAhead { inputs: inputs.into_iter().peekable(), opened: VecDeque::new(), fetched: 0, are_many }
    }

    pub(super) fn is_at_end(&mut self) -> bool {
        self.opened.is_empty() && self.inputs.peek().is_none()
    }

    /// Opens the next files as long as they are regular: opening another kind may block, as with a FIFO.
    pub(super) fn open_next<T: Send>(&mut self, work: &Work<'_, T>, devices: &mut Devices) {
        while self.opened.len() < work.files.most() && self.fetched < FETCH_AHEAD_BYTES {
            let Some(&Input::Path(path)) = self.inputs.peek() else { return };
            if !std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
                return;
            }
            let Ok(mut opened) = Opened::open(work, path) else { return };
            self.inputs.next();
            opened.fetch_beginning(devices);
            self.fetched += opened.fetched;
            self.opened.push_back((path, opened));
        }
    }

    /// Returns the next input, opened if that was possible.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn next(&mut self) -> (&'w Path, Result<Opened, Input<'w>>) {
        match self.opened.pop_front() {
            Some((path, opened)) => {
                self.fetched -= opened.fetched;
                (path, Ok(opened))
            }
            None => {
                let input = self.inputs.next().expect("not at the end");
                (input.path(), Err(input))
            }
        }
    }
}

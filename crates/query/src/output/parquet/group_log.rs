//! The encoded metadata of closed row groups: in memory while they are few, else in a spill file.

use std::sync::Arc;

use sakiyomi_io::buffer::Account;
use sakiyomi_io::{SharedOptions, WriteOptions};

use crate::job::Reservation;
use crate::spill::{FrameRun, FrameWriter, SpillFiles};
use crate::{Error, Job};

/// Metadata in memory, in bytes, before they are spilled.
const LOG_MEMORY_BYTES: usize = 128 << 10;

/// Transfer size: the log is written slowly, and memory for it is held from the start.
const LOG_BLOCK_BYTES: usize = 16 << 10;

/// Blocks: one being filled or decoded, and those in flight.
const LOG_BLOCKS: usize = 4;

/// Phase that the transfers are counted under: that of the result.
const PHASE: &str = "write";

/// Purpose that errors about memory name.
const PURPOSE: &str = "metadata of the result's row groups";

/// The metadata of a row group.
pub(super) struct Entry<'a> {
    pub(super) rows: u64,
    /// Encoded `ColumnIndex` structures.
    pub(super) column_indexes: &'a [u8],
    /// Encoded `OffsetIndex` structures.
    pub(super) offset_indexes: &'a [u8],
    /// An encoded `RowGroup`.
    pub(super) group: &'a [u8],
}

/// Bytes of an entry's numbers: its rows and the lengths of its parts.
const HEADER_BYTES: usize = 4 * size_of::<u64>();

impl Entry<'_> {
    fn append(&self, out: &mut Vec<u8>) {
        let parts = [self.column_indexes, self.offset_indexes, self.group];
        out.extend(self.rows.to_le_bytes());
        parts.iter().for_each(|part| out.extend((part.len() as u64).to_le_bytes()));
        parts.iter().for_each(|part| out.extend(*part));
    }

    /// Returns the first entry of some bytes, and the length of it; `None` if a part of it is missing.
    fn first(bytes: &[u8]) -> Option<(Entry<'_>, usize)> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let (numbers, _) = header.as_chunks();
        let [rows, lengths @ ..] = [0, 1, 2, 3].map(|number| u64::from_le_bytes(numbers[number]));
        let [columns, offsets, group] = lengths.map(|length| length as usize);
        let (column_indexes, rest) = rest.split_at_checked(columns)?;
        let (offset_indexes, rest) = rest.split_at_checked(offsets)?;
        let group = rest.get(..group)?;
        let length = HEADER_BYTES + columns + offsets + group.len();
        Some((Entry { rows, column_indexes, offset_indexes, group }, length))
    }
}

/// A log being written.
pub(super) struct GroupLog {
    bytes: Vec<u8>,
    reservation: Reservation,
    spill: SpillFiles,
    /// Memory of the transfers; `None` if the job has no directory for spill files.
    account: Option<Arc<Account>>,
    writer: Option<FrameWriter>,
}

/// A log that is complete.
pub(super) struct FinishedLog {
    /// All entries, or those behind the spilled ones.
    bytes: Vec<u8>,
    _reservation: Reservation,
    spilled: Option<(FrameRun, Arc<Account>)>,
}

impl GroupLog {
    /// # Errors
    /// [`Error::Memory`] if the job does not have the memory for it.
    pub(super) fn new(job: &Job) -> Result<GroupLog, Error> {
        let can_spill = !job.options().spill.is_empty();
        let account =
            can_spill.then(|| job.account(LOG_BLOCKS * LOG_BLOCK_BYTES, PURPOSE)).transpose()?.map(Arc::new);
        let reservation = job.reserve(LOG_MEMORY_BYTES, PURPOSE)?;
        Ok(GroupLog { bytes: Vec::new(), reservation, spill: SpillFiles::new(job), account, writer: None })
    }

    /// # Errors
    /// If it cannot be spilled, or [`Error::Memory`] without a directory for spill files.
    pub(super) fn push(&mut self, entry: &Entry<'_>) -> Result<(), Error> {
        entry.append(&mut self.bytes);
        if self.bytes.len() <= LOG_MEMORY_BYTES {
            return Ok(());
        }
        let Some(account) = &self.account else {
            return self.reservation.resize(self.bytes.capacity(), PURPOSE);
        };
        let writer = match &mut self.writer {
            Some(writer) => writer,
            empty => {
                let options = WriteOptions {
                    block: LOG_BLOCK_BYTES,
                    in_flight: LOG_BLOCKS - 2,
                    ..WriteOptions::default()
                };
                empty.insert(self.spill.run_within(Some(account), &options)?)
            }
        };
        writer.write(&self.bytes)?;
        self.bytes.clear();
        self.bytes.shrink_to(LOG_MEMORY_BYTES);
        Ok(())
    }

    /// # Errors
    /// If it cannot be spilled.
    pub(super) fn finish(self) -> Result<FinishedLog, Error> {
        let run = self.writer.map(|writer| writer.finish(PHASE)).transpose()?;
        let spilled = run.zip(self.account);
        Ok(FinishedLog { bytes: self.bytes, _reservation: self.reservation, spilled })
    }
}

impl FinishedLog {
    /// Calls `take` with each entry, in the order of the row groups.
    ///
    /// # Errors
    /// Returns the errors of `take`, and of reading what was spilled.
    pub(super) fn for_each(&self, mut take: impl FnMut(Entry<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let mut rest = Vec::new();
        if let Some((run, account)) = &self.spilled {
            let options =
                SharedOptions { block: LOG_BLOCK_BYTES, ahead: LOG_BLOCKS - 2, ..SharedOptions::default() };
            let mut frames = run.read_within(account, &options, PHASE)?;
            while let Some(frame) = frames.next()? {
                rest.extend_from_slice(&frame);
                drop(frame);
                let taken = entries(&rest, &mut take)?;
                rest.drain(..taken);
            }
        }
        rest.extend_from_slice(&self.bytes);
        let taken = entries(&rest, &mut take)?;
        assert_eq!(taken, rest.len(), "the log consists of entries");
        Ok(())
    }
}

/// Takes the entries that are whole; returns their bytes.
fn entries(bytes: &[u8], mut take: impl FnMut(Entry<'_>) -> Result<(), Error>) -> Result<usize, Error> {
    let mut at = 0;
    while let Some((entry, length)) = Entry::first(&bytes[at..]) {
        take(entry)?;
        at += length;
    }
    Ok(at)
}

//! Spills groups that do not fit into memory: records in runs of a spill file, one run per hash partition.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sakiyomi_io::buffer::Account;
use sakiyomi_io::{SharedOptions, WriteOptions};

use crate::phase::Meter;
use crate::spill::{FrameReader, FrameRun, FrameWriter, SpillFiles};
use crate::{Error, Job};

use super::groups::{Groups, LEVELS_MAX, PARTITION_COUNT};

/// Transfer size: small because the runs of a small table are short, and all partitions are written at the same time.
pub(crate) const BLOCK_BYTES: usize = 128 << 10;
/// Transfers in flight: one during the filling or reading of another.
const TRANSFERS_IN_FLIGHT: usize = 2;
/// Memory to read a run: the blocks ahead, and the one in use.
const READ_BYTES: usize = (TRANSFERS_IN_FLIGHT + 2) * BLOCK_BYTES;
/// Transfer size with reserved memory.
const RESERVED_BLOCK_BYTES: usize = 64 << 10;
/// Blocks of a run: being filled, in flight, and handed over.
const RESERVED_BLOCKS: usize = TRANSFERS_IN_FLIGHT + 1;
/// Purpose that errors about this memory name.
const MEMORY_PURPOSE: &str = "grouping rows";
/// Size at which buffered records are written to a run.
const RECORDS_BYTES: usize = 64 << 10;

/// Place of the length of a record in a run, before the record.
pub(super) const RECORD_LENGTH: [u8; 4] = [0; 4];

/// Phases of spilled groups.
const WRITE_PHASE: &str = "write groups";
/// See [`WRITE_PHASE`].
const READ_PHASE: &str = "read groups";

/// The destination of spilled groups: runs of records in the spill files.
#[derive(Clone, Debug)]
pub(crate) struct SpillPlace {
    files: SpillFiles,
    /// Memory to read a run; of one thread at a time, which may write others meanwhile.
    reading: Arc<Mutex<Arc<Account>>>,
    /// Memory to write a run; of one thread at a time.
    writing: Arc<Mutex<Arc<Account>>>,
}

impl SpillPlace {
    /// Uses the spill directories of a job in turn.
    ///
    /// # Errors
    /// [`Error::Memory`] if the job has no memory left to write a run.
    pub(crate) fn of(job: &Job) -> Result<SpillPlace, Error> {
        SpillPlace::new(SpillFiles::new(job))
    }

    fn new(files: SpillFiles) -> Result<SpillPlace, Error> {
        let reserve = || {
            let account = files.job().account(RESERVED_BLOCKS * RESERVED_BLOCK_BYTES, MEMORY_PURPOSE)?;
            Ok::<_, Error>(Arc::new(Mutex::new(Arc::new(account))))
        };
        let (reading, writing) = (reserve()?, reserve()?);
        Ok(SpillPlace { files, reading, writing })
    }

    /// Returns the memory to write a run, once no other thread uses it. Its holder needs no other memory to finish.
    fn writing(&self) -> MutexGuard<'_, Arc<Account>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses an open spill file, such as one in memory.
    #[cfg(test)]
    pub(crate) fn over(job: &Job, spill: sakiyomi_io::Spill) -> SpillPlace {
        SpillPlace::new(SpillFiles::over(job, vec![spill])).unwrap()
    }

    /// Fails if the job is cancelled.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.files.job().check()
    }

    /// Reads the records of runs, one after the other, and frees their space. The next run is read ahead if there is
    /// memory for it.
    pub(crate) fn read(
        &self,
        runs: impl IntoIterator<Item = FrameRun>,
        mut take: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut runs = runs.into_iter().map(Pending::Closed);
        let mut next = runs.next();
        while let Some(run) = next {
            let (mut reader, _turn) = match self.open(run)? {
                Pending::Open(reader) => (reader, None),
                // Others have the memory: one thread at a time reads with memory reserved before.
                Pending::Closed(run) => {
                    let options = SharedOptions { block: RESERVED_BLOCK_BYTES, ahead: 1, ..read_options() };
                    let turn = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
                    let reader = run.drain_within(Some(&*turn), &options, READ_PHASE)?;
                    (Box::new(reader), Some(turn))
                }
            };
            next = runs.next().map(|run| self.open(run)).transpose()?;
            take_all(&mut reader, &mut take)?;
        }
        Ok(())
    }

    /// Opens a run and starts its first reads, unless others have the memory.
    fn open(&self, run: Pending) -> Result<Pending, Error> {
        let Pending::Closed(run) = run else { return Ok(run) };
        let Ok(account) = self.files.job().account(READ_BYTES, MEMORY_PURPOSE) else {
            return Ok(Pending::Closed(run));
        };
        let mut reader = run.drain_within(Some(&Arc::new(account)), &read_options(), READ_PHASE)?;
        reader.start()?;
        Ok(Pending::Open(Box::new(reader)))
    }
}

/// A run that will be read.
enum Pending {
    Closed(FrameRun),
    Open(Box<FrameReader>),
}

fn read_options() -> SharedOptions {
    SharedOptions { block: BLOCK_BYTES, ahead: TRANSFERS_IN_FLIGHT, ..SharedOptions::default() }
}

/// Takes the records of a run.
fn take_all(
    reader: &mut FrameReader,
    take: &mut impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    // The beginning of a record that ends in a later frame.
    let mut begun: Vec<u8> = Vec::new();
    while let Some(frame) = reader.next()? {
        let mut bytes = &frame[..];
        while !begun.is_empty() && !bytes.is_empty() {
            let needed = match begun.first_chunk::<4>() {
                Some(length) => 4 + u32::from_le_bytes(*length) as usize,
                None => 4,
            };
            let (more, rest) = bytes.split_at((needed - begun.len()).min(bytes.len()));
            begun.extend_from_slice(more);
            bytes = rest;
            if needed > 4 && begun.len() == needed || needed == 4 && begun == [0; 4] {
                take(&begun[4..])?;
                begun.clear();
            }
        }
        while let Some((record, rest)) = split(bytes) {
            take(record)?;
            bytes = rest;
        }
        begun.extend_from_slice(bytes);
    }
    if begun.is_empty() { Ok(()) } else { Err(Error::Query("a spilled run ends within a record".into())) }
}

/// The spilled groups of a table, by partition.
#[derive(Debug)]
pub(crate) struct Overflow {
    place: SpillPlace,
    level: u32,
    is_empty: bool,
    runs: Vec<Vec<FrameRun>>,
}

impl Overflow {
    pub(crate) fn new(place: &SpillPlace, level: u32) -> Overflow {
        let runs = (0..PARTITION_COUNT).map(|_| Vec::new()).collect();
        Overflow { place: place.clone(), level, is_empty: true, runs }
    }

    /// Returns whether nothing has been spilled.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// The runs of each partition.
    pub(crate) fn into_runs(self) -> Vec<Vec<FrameRun>> {
        self.runs
    }

    /// Spills all groups and clears the table.
    pub(crate) fn take(&mut self, groups: &mut Groups) -> Result<(), Error> {
        if self.level >= LEVELS_MAX {
            return Err(Error::Query("the groups of one hash do not fit into memory; raise --memory".into()));
        }
        self.is_empty = false;
        let meter = Meter::start();
        let files = &self.place.files;
        let partitioned = groups.partitioned(self.level);
        // Finishing runs together overlaps their last transfers.
        let mut open: Vec<(usize, FrameWriter)> = Vec::new();
        for partition in 0..PARTITION_COUNT {
            let numbers = partitioned.part(partition);
            if numbers.is_empty() {
                continue;
            }
            let options = WriteOptions {
                block: BLOCK_BYTES,
                in_flight: TRANSFERS_IN_FLIGHT,
                ..WriteOptions::default()
            };
            match files.run(&options) {
                Ok(mut run) => {
                    write(&mut run, groups, numbers)?;
                    open.push((partition, run));
                }
                // Others have the memory: the run is written alone, with memory reserved before.
                Err(Error::Io(sakiyomi_io::Error::Budget { .. })) => {
                    finish(&mut open, &mut self.runs)?;
                    let turn = self.place.writing();
                    let options = WriteOptions { block: RESERVED_BLOCK_BYTES, ..options };
                    let mut run = files.run_within(Some(&*turn), &options)?;
                    write(&mut run, groups, numbers)?;
                    finish(&mut vec![(partition, run)], &mut self.runs)?;
                }
                Err(other) => return Err(other),
            }
        }
        finish(&mut open, &mut self.runs)?;
        groups.clear();
        files.job().phases().add(meter.stop(WRITE_PHASE, 0, Duration::ZERO));
        Ok(())
    }
}

/// The groups of a worker, in memory and spilled.
#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) groups: Groups,
    pub(crate) overflow: Overflow,
}

impl Partial {
    /// Spills the groups in memory.
    pub(crate) fn spill(&mut self) -> Result<(), Error> {
        if self.groups.len() > 0 { self.overflow.take(&mut self.groups) } else { Ok(()) }
    }
}

fn finish(open: &mut Vec<(usize, FrameWriter)>, runs: &mut [Vec<FrameRun>]) -> Result<(), Error> {
    open.iter_mut().try_for_each(|(_, run)| run.close())?;
    for (partition, run) in open.drain(..) {
        runs[partition].push(run.finish(WRITE_PHASE)?);
    }
    Ok(())
}

fn write(run: &mut FrameWriter, groups: &Groups, numbers: &[u32]) -> Result<(), Error> {
    let mut records: Vec<u8> = Vec::with_capacity(RECORDS_BYTES);
    let mut flush = |records: &mut Vec<u8>| {
        let written = run.write(records);
        records.clear();
        written
    };
    for &group in numbers {
        let start = records.len();
        records.extend(RECORD_LENGTH);
        groups.write(group, &mut records);
        let bytes = (records.len() - start - 4) as u32;
        records[start..start + 4].copy_from_slice(&bytes.to_le_bytes());
        if records.len() >= RECORDS_BYTES {
            flush(&mut records)?;
        }
    }
    flush(&mut records)
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

//! Spills groups that do not fit into memory: records in runs of a spill file, one run per hash partition.

use sakiyomi_io::{SharedOptions, WriteOptions};

use crate::spill::{FrameRun, FrameWriter, SpillFiles};
use crate::{Error, Job};

use super::groups::{Groups, LEVELS_MAX, PARTITION_COUNT};

/// Transfer size: small because the runs of a small table are short, and all partitions are written at the same time.
pub(crate) const BLOCK_BYTES: usize = 128 << 10;
/// Transfers in flight: one during the filling or reading of another.
const TRANSFERS_IN_FLIGHT: usize = 2;
/// Size at which buffered records are written to a run.
const RECORDS_BYTES: usize = 64 << 10;

/// Phases of spilled groups.
const WRITE_PHASE: &str = "write groups";
/// See [`WRITE_PHASE`].
const READ_PHASE: &str = "read groups";

/// The destination of spilled groups: runs of records in the spill files.
#[derive(Clone, Debug)]
pub(crate) struct SpillPlace {
    files: SpillFiles,
}

impl SpillPlace {
    /// Uses the spill directories of a job in turn.
    pub(crate) fn of(job: &Job) -> SpillPlace {
        SpillPlace { files: SpillFiles::new(job) }
    }

    /// Uses an open spill file, such as one in memory.
    #[cfg(test)]
    pub(crate) fn over(job: &Job, spill: sakiyomi_io::Spill) -> SpillPlace {
        SpillPlace { files: SpillFiles::over(job, vec![spill]) }
    }

    /// Fails if the job is cancelled.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.files.job().check()
    }

    /// Reads the records of a run and frees its space.
    pub(crate) fn read(
        &self,
        run: FrameRun,
        mut take: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let options =
            SharedOptions { block: BLOCK_BYTES, ahead: TRANSFERS_IN_FLIGHT, ..SharedOptions::default() };
        // The beginning of a record that ends in a later frame.
        let mut begun: Vec<u8> = Vec::new();
        let mut reader = run.drain(&options, READ_PHASE)?;
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

    /// Whether nothing has been spilled.
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
            let mut run = match files.run(&options) {
                Err(Error::Io(sakiyomi_io::Error::Budget { .. })) if !open.is_empty() => {
                    finish(&mut open, &mut self.runs)?;
                    files.run(&options)?
                }
                other => other?,
            };
            write(&mut run, groups, numbers)?;
            open.push((partition, run));
        }
        finish(&mut open, &mut self.runs)?;
        groups.clear();
        Ok(())
    }
}

fn finish(open: &mut Vec<(usize, FrameWriter)>, runs: &mut [Vec<FrameRun>]) -> Result<(), Error> {
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
        records.extend([0; 4]);
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

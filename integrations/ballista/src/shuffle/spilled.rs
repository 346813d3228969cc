//! Encoded rows in an unnamed file: written while the task computes, read back in the order of the partitions.

use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::common::Result;
use sakiyomi_io::{IoFile, Run, RunWriter, Spill};

use super::{Shared, io_error, readable};

/// The spilled rows of one input.
pub(super) struct Spilled {
    shared: Arc<Shared>,
    spill: Spill,
    /// The last run, whose writes may be in flight.
    writer: Option<RunWriter>,
    runs: Vec<Run>,
    /// For each run, the ends of the partitions in it.
    ends: Vec<Vec<u64>>,
}

impl Spilled {
    /// Creates a file in a directory, which has no name and so ends with the process.
    pub(super) fn create(shared: &Arc<Shared>, directory: &Path) -> Result<Spilled> {
        std::fs::create_dir_all(directory)?;
        let spill = match shared.options.spill_access {
            Some(access) => Spill::create_for(&shared.io, directory, access),
            None => Spill::create(&shared.io, directory),
        };
        Ok(Spilled {
            shared: Arc::clone(shared),
            spill: spill.map_err(io_error)?,
            writer: None,
            runs: Vec::new(),
            ends: Vec::new(),
        })
    }

    /// Writes the bytes of all partitions. Waits only while all buffers are in flight.
    pub(super) fn write(&mut self, partitions: impl Iterator<Item = Vec<Vec<u8>>>) -> Result<()> {
        self.finish()?;
        let writer = self.spill.run(&self.shared.write_options()).map_err(io_error)?;
        let writer = self.writer.insert(writer);
        let mut ends = Vec::new();
        for chunks in partitions {
            for chunk in chunks {
                writer.write_all(&chunk).map_err(readable)?;
            }
            ends.push(writer.len());
        }
        // No wait: the last writes overlap with what the task computes next.
        writer.submit_rest().map_err(io_error)?;
        self.shared.spilled.fetch_add(ends.last().copied().unwrap_or(0), Ordering::Relaxed);
        self.shared.spills.fetch_add(1, Ordering::Relaxed);
        self.ends.push(ends);
        Ok(())
    }

    /// Waits for the writes in flight.
    pub(super) fn finish(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            self.runs.push(writer.finish().map_err(io_error)?);
        }
        Ok(())
    }

    /// The file.
    pub(super) fn file(&self) -> &Arc<IoFile> {
        self.spill.file()
    }

    /// Where the bytes of a partition are in the file, in order.
    pub(super) fn extents(&self, partition: usize) -> Vec<Range<u64>> {
        let mut extents = Vec::new();
        for (run, ends) in self.runs.iter().zip(&self.ends) {
            let start = if partition == 0 { 0 } else { ends[partition - 1] };
            extents.extend(run.locate(start..ends[partition]));
        }
        extents
    }
}

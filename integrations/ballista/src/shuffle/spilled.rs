//! Encoded rows in an unnamed file, read back in the order of the partitions.

use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::common::Result;
use sakiyomi_io::{IoFile, Run, Spill};

use super::{Shared, io_error, opened, readable};

/// The spilled rows of one input.
pub(super) struct Spilled {
    shared: Arc<Shared>,
    spill: Spill,
    runs: Vec<Run>,
    /// For each run, the ends of the partitions in it.
    ends: Vec<Vec<u64>>,
}

impl Spilled {
    /// Creates a file in a directory, which has no name and so ends with the process.
    pub(super) fn create(shared: &Arc<Shared>, directory: &Path) -> Result<Spilled> {
        std::fs::create_dir_all(directory)?;
        let spill = match shared.options.spill_access {
            Some(access) => Spill::create_for(&shared.spill_io, directory, access),
            None => Spill::create(&shared.spill_io, directory),
        };
        Ok(Spilled {
            shared: Arc::clone(shared),
            spill: spill.map_err(io_error)?,
            runs: Vec::new(),
            ends: Vec::new(),
        })
    }

    /// Writes the bytes of all partitions: some buffers are written while the next one is filled.
    pub(super) fn write(&mut self, partitions: impl Iterator<Item = Vec<Vec<u8>>>) -> Result<()> {
        let options = self.shared.write_options();
        let mut writer = opened(|| self.spill.run(&options))?;
        let mut ends = Vec::new();
        for chunks in partitions {
            for chunk in chunks {
                writer.write_all(&chunk).map_err(readable)?;
            }
            ends.push(writer.len());
        }
        self.runs.push(writer.finish().map_err(io_error)?);
        self.shared.spilled.fetch_add(ends.last().copied().unwrap_or(0), Ordering::Relaxed);
        self.shared.spills.fetch_add(1, Ordering::Relaxed);
        self.ends.push(ends);
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

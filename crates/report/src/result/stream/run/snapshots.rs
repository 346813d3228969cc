//! The snapshots of a run.

use serde::{Deserialize, Serialize};

use crate::number::{bytes, duration, plural};
use crate::rows::Rows;
use crate::section::Section;
use crate::value::Value;

/// Snapshots of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSnapshots {
    /// The file with the last snapshot.
    pub file: String,
    /// Whether the file remains, so that the pipeline can be resumed.
    pub is_left: bool,
    /// Number of the snapshot from which the run resumed; absent if it started over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_from: Option<u64>,
    /// Snapshots that were written.
    pub taken: u64,
    /// Snapshots that could not be taken or written.
    pub failed: u64,
    /// Number of the last snapshot, counted over all runs since the pipeline started over; 0 if there is none.
    pub last: u64,
    /// Size of the last one in the file, in bytes.
    pub last_bytes: u64,
    /// Size of the largest one, in bytes.
    pub max_bytes: u64,
    /// Time in nanoseconds from the emission of the barrier until all operators had saved their states, for the last
    /// snapshot.
    pub alignment_ns: u64,
    /// Maximum of these times.
    pub alignment_max_ns: u64,
    /// Time in nanoseconds to sync outputs and file to the disk, for the last snapshot.
    pub write_ns: u64,
    /// Maximum of these times.
    pub write_max_ns: u64,
}

impl StreamSnapshots {
    /// Describes the outcome in a sentence.
    pub(super) fn sentence(&self) -> String {
        let taken = plural(self.taken, "snapshot");
        let rest = match (self.is_left, self.taken) {
            (_, 0) => String::new(),
            (true, _) => {
                format!(", the last of {}, in {}: continue with --resume", bytes(self.last_bytes), self.file)
            }
            (false, _) => {
                format!(", the last of {}; {} was removed at the end", bytes(self.last_bytes), self.file)
            }
        };
        let times = if self.taken == 0 {
            String::new()
        } else {
            let (alignment, write) = (duration(self.alignment_max_ns), duration(self.write_max_ns));
            format!(" They were aligned in {alignment} and written in {write} at most.")
        };
        format!("{taken}{rest}.{times}")
    }

    pub(super) fn section(snapshots: Option<&StreamSnapshots>) -> Section {
        Rows::new("snapshots", "Snapshots", snapshots)
            .text("file", |snapshots| snapshots.file.clone())
            .figure("taken", |snapshots| Value::Count(snapshots.taken))
            .figure("failed", |snapshots| Value::Count(snapshots.failed))
            .spare(3)
            .figure("size", |snapshots| Value::Size(snapshots.last_bytes))
            .figure("largest", |snapshots| Value::Size(snapshots.max_bytes))
            .spare(2)
            .figure("aligned in", |snapshots| Value::Time(snapshots.alignment_ns))
            .figure("longest alignment", |snapshots| Value::Time(snapshots.alignment_max_ns))
            .spare(2)
            .figure("written in", |snapshots| Value::Time(snapshots.write_ns))
            .figure("longest write", |snapshots| Value::Time(snapshots.write_max_ns))
            .spare(1)
            .legend(
                "aligned: all operators had saved their states; written: outputs and file were on the disk",
            )
            .section()
    }
}

//! The figures of a statement: measured, and predicted by a calibration.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::ExecutionPlan;
use sakiyomi_io::Access;
use sakiyomi_model::Bytes;
use serde_json::{Value, json};

use crate::spill::{SpillCosts, SpillStats};

/// Figures of a statement and its process.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Rows of the result.
    pub rows: u64,
    /// Time from the statement to its end.
    pub elapsed: Duration,
    /// CPU time of the process in the program.
    pub user: Duration,
    /// CPU time of the process in the kernel.
    pub system: Duration,
    /// Largest resident memory of the process.
    pub peak_bytes: u64,
    /// Bytes that the operators report as spilled.
    pub operators_spilled_bytes: u64,
    /// Figures of our spill files.
    pub spill: Option<SpillStats>,
    /// Costs of a spilled byte by the calibration of the device.
    pub costs: Option<SpillCosts>,
    /// Whether any calibration was found.
    pub is_calibrated: bool,
}

/// Predicted times of the bytes that were spilled.
struct Predicted {
    write: Duration,
    read: Duration,
    cpu: Duration,
}

impl Figures {
    fn predicted(&self) -> Option<Predicted> {
        let (costs, spill) = (self.costs?, self.spill.as_ref()?);
        let (written, read) = (spill.stored_bytes() as f64, spill.read_bytes as f64);
        let time = |ns: f64| Duration::from_nanos(ns as u64);
        Some(Predicted {
            write: time(written * costs.write_ns),
            read: time(read * costs.read_ns),
            cpu: time(written * costs.write_cpu_ns + read * costs.read_cpu_ns),
        })
    }

    /// Returns the figures as an object, with units in its keys.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let ns = |time: Duration| time.as_nanos() as u64;
        let spill = self.spill.as_ref().map(|spill| {
            let levels: Vec<Value> = spill
                .levels
                .iter()
                .map(|level| {
                    json!({
                        "level": level.level.name(),
                        "raw_bytes": level.raw_bytes,
                        "stored_bytes": level.stored_bytes,
                    })
                })
                .collect();
            json!({
                "files": spill.files_created,
                "written_bytes": spill.written_bytes,
                "stored_bytes": spill.stored_bytes(),
                "read_bytes": spill.read_bytes,
                "peak_bytes": spill.peak_bytes,
                "waited_ns": ns(spill.waited),
                "io_cpu_ns": ns(spill.io_cpu),
                "buffer_peak_bytes": spill.buffer_peak_bytes,
                "buffer_beyond_bytes": spill.buffer_beyond_bytes,
                "levels": levels,
            })
        });
        let predicted = self.predicted().map(|predicted| {
            json!({
                "write_ns": ns(predicted.write),
                "read_ns": ns(predicted.read),
                "io_cpu_ns": ns(predicted.cpu),
            })
        });
        json!({
            "schema": "sakiyomi.sql/1",
            "rows": self.rows,
            "elapsed_ns": ns(self.elapsed),
            "user_ns": ns(self.user),
            "system_ns": ns(self.system),
            "peak_resident_bytes": self.peak_bytes,
            "operators_spilled_bytes": self.operators_spilled_bytes,
            "spill": spill,
            "predicted": predicted,
        })
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |time: Duration| format!("{:.3} s", time.as_secs_f64());
        let size = |bytes: u64| Bytes(bytes / 1024 * 1024).to_string();
        writeln!(to, "rows                  {}", self.rows)?;
        writeln!(to, "elapsed               {}", seconds(self.elapsed))?;
        writeln!(to, "CPU                   {} user, {} system", seconds(self.user), seconds(self.system))?;
        writeln!(to, "peak resident memory  {}", size(self.peak_bytes))?;
        writeln!(to, "spilled by operators  {}", size(self.operators_spilled_bytes))?;
        let Some(spill) = self.spill.as_ref().filter(|spill| spill.written_bytes > 0) else { return Ok(()) };
        for level in &spill.levels {
            let (raw, stored) = (size(level.raw_bytes), size(level.stored_bytes));
            writeln!(to, "  compressed by {:<5}   {raw} to {stored}", level.level.name())?;
        }
        writeln!(to, "  read back           {}", size(spill.read_bytes))?;
        writeln!(to, "  writers waited      {}", seconds(spill.waited))?;
        let Some(predicted) = self.predicted() else {
            writeln!(to, "  CPU of I/O threads  {} measured", seconds(spill.io_cpu))?;
            let why = if self.is_calibrated {
                "no calibration is of this device"
            } else {
                "no calibration is saved"
            };
            return writeln!(to, "  predicted           nothing: {why}; run `sakiyomi probe`");
        };
        let (measured, expected) = (seconds(spill.io_cpu), seconds(predicted.cpu));
        writeln!(to, "  CPU of I/O threads  {measured} measured, {expected} predicted")?;
        let how = if self.costs.is_some_and(|costs| costs.access == Access::Direct) {
            "direct"
        } else {
            "buffered"
        };
        let (write, read) = (seconds(predicted.write), seconds(predicted.read));
        writeln!(to, "  device, {how:<8}    {write} to write, {read} to read predicted")
    }
}

impl SpillStats {
    /// Returns the bytes of all chunks as they are stored.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.stored_bytes).sum()
    }
}

/// Returns the bytes that the operators of a plan report as spilled.
pub(super) fn spilled_bytes(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let own = plan.metrics().and_then(|metrics| metrics.spilled_bytes()).unwrap_or(0) as u64;
    own + plan.children().into_iter().map(spilled_bytes).sum::<u64>()
}

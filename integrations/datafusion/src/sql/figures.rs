//! The figures of a statement: measured, and predicted by a calibration.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::ExecutionPlan;
use sakiyomi_io::Access;
use sakiyomi_model::Bytes;
use serde_json::{Value, json};

use crate::operators::{ExternalSortExec, Prediction, SpillingJoinExec};
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
    /// Our operators of the plan, the last one first.
    pub operators: Vec<OperatorFigures>,
    /// Figures of our spill files.
    pub spill: Option<SpillStats>,
    /// Costs of a spilled byte by the calibration of the device.
    pub costs: Option<SpillCosts>,
    /// Whether any calibration was found.
    pub is_calibrated: bool,
}

/// Figures of one of our operators, and what was predicted.
#[derive(Clone, Debug)]
pub struct OperatorFigures {
    /// Its name in plans.
    pub name: String,
    /// By which it was chosen.
    pub prediction: Prediction,
    /// Rows of its result.
    pub rows: u64,
    /// CPU time of its threads, in nanoseconds.
    pub cpu_ns: u64,
    /// Time that its threads waited for spill files, in nanoseconds.
    pub io_wait_ns: u64,
    /// Memory that it took from the pool.
    pub memory_bytes: u64,
    /// Bytes of rows that it spilled.
    pub spilled_bytes: u64,
    /// Bytes of them on disk.
    pub stored_bytes: u64,
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
            "operators": self.operators.iter().map(OperatorFigures::to_json).collect::<Vec<_>>(),
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
        for operator in &self.operators {
            write!(to, "{operator}")?;
        }
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
                "no calibration covers this device"
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

impl OperatorFigures {
    fn to_json(&self) -> Value {
        let ns = |time: Option<Duration>| time.map(|time| time.as_nanos() as u64);
        let inputs = self.prediction.inputs.iter().flatten();
        let inputs = inputs.map(|input| json!({ "rows": input.rows, "bytes": input.bytes }));
        json!({
            "name": self.name,
            "rows": self.rows,
            "cpu_ns": self.cpu_ns,
            "io_wait_ns": self.io_wait_ns,
            "memory_bytes": self.memory_bytes,
            "spilled_bytes": self.spilled_bytes,
            "stored_bytes": self.stored_bytes,
            "predicted": {
                "elapsed_ns": ns(self.prediction.ours),
                "stock_elapsed_ns": ns(self.prediction.stock),
                "is_calibrated": self.prediction.is_calibrated,
                "inputs": inputs.collect::<Vec<_>>(),
            },
        })
    }
}

impl fmt::Display for OperatorFigures {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ns: u64| format!("{:.3} s", ns as f64 / 1e9);
        let size = |bytes: u64| Bytes(bytes / 1024 * 1024).to_string();
        let (rows, cpu, waited) = (self.rows, seconds(self.cpu_ns), seconds(self.io_wait_ns));
        writeln!(to, "{}", self.name)?;
        writeln!(
            to,
            "  measured            {rows} rows, {cpu} of CPU time, {waited} waited for spill files"
        )?;
        writeln!(to, "  memory of the pool  {}", size(self.memory_bytes))?;
        let (spilled, stored) = (size(self.spilled_bytes), size(self.stored_bytes));
        writeln!(to, "  spilled             {spilled}, {stored} on disk")?;
        writeln!(to, "  prediction          {}", self.prediction)
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

/// Figures of our operators of a plan.
pub(super) fn operators(plan: &Arc<dyn ExecutionPlan>) -> Vec<OperatorFigures> {
    let sort = plan.downcast_ref::<ExternalSortExec>().map(ExternalSortExec::prediction);
    let join = plan.downcast_ref::<SpillingJoinExec>().map(SpillingJoinExec::prediction);
    let metrics = plan.metrics().unwrap_or_default();
    let figure = |name: &str| -> u64 {
        let named = metrics.iter().filter(|metric| metric.value().name() == name);
        named.map(|metric| metric.value().as_usize() as u64).sum()
    };
    let own = sort.or(join).map(|prediction| OperatorFigures {
        name: plan.name().to_owned(),
        prediction: prediction.clone(),
        rows: figure("output_rows"),
        cpu_ns: figure("elapsed_compute"),
        io_wait_ns: figure("io_wait"),
        memory_bytes: figure("mem_used"),
        spilled_bytes: figure("spilled_bytes"),
        stored_bytes: figure("spill_stored_bytes"),
    });
    own.into_iter().chain(plan.children().into_iter().flat_map(operators)).collect()
}

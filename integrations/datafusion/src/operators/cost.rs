//! Predicted times of an operator and of DataFusion's in its place.
//!
//! | | ours | DataFusion's |
//! |---|---|---|
//! | CPU time | the cost model of the query engine with calibrations of device and operators, else the defaults below | the defaults below |
//! | device | the calibration, else [`DEVICE_NS_PER_BYTE`] | the same |
//! | memory | the share of the pool | the same; a hash join that needs more fails |
//! | overlap | device and CPU at the same time: the longer of both | likewise; its merge of sorted partitions has one thread |
//!
//! The defaults are CPU times of one thread on a virtual machine with two cores. Those of sorts were measured on LINEITEM of
//! TPC-H (November 2026): pieces of a sort with arrow 59, and of the packed rows of the query engine. Those of hash tables and
//! of starting an operator are estimates.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Statistics;
use sakiyomi_io::Access;
use sakiyomi_probe::calibration::{Calibration, DeviceCosts};
use sakiyomi_probe::target::Device;
use sakiyomi_query::calibrate::OperatorCalibration;
use sakiyomi_query::cost::operators::{Codec, FileFormat, OperatorCosts, ValueKind};
use sakiyomi_query::cost::plan::{Algorithm, SortMethod};
use sakiyomi_query::cost::{ColumnShape, KeyShape, Limits, Model, Operator, Storage, TableShape, Task};

use super::OperatorOptions;
use crate::spill::SpillCosts;

/// Time of a device to write or read a spilled byte, if it is not calibrated.
const DEVICE_NS_PER_BYTE: f64 = 1.0;
/// Estimate of the time to start the threads, engine and memory of an operator of ours.
const START_NS: f64 = 5e6;
/// A row's part of passing batches between threads.
const BRIDGE_ROW_NS: f64 = 5.0;
/// Bytes of a batch column that is text, if unknown.
const TEXT_BYTES: f64 = 24.0;

/// Ours: columns to packed rows, and back in order, a byte.
const PACK_NS_PER_BYTE: f64 = 0.7;
const GATHER_NS_PER_BYTE: f64 = 0.9;
/// Ours: radix sort and merge, a row; a text in the key is compared as well.
const ORDER_ROW_NS: f64 = 30.0;
const MERGE_ROW_NS: f64 = 35.0;
const TEXT_KEY_ROW_NS: f64 = 60.0;
/// Ours: writing and reading a spilled byte around the page cache.
const SPILL_NS_PER_BYTE: f64 = 0.2;

/// DataFusion: order of a row by `lexsort`, gathering, and the merge of sorted batches.
const STOCK_ORDER_ROW_NS: f64 = 160.0;
const STOCK_GATHER_NS_PER_BYTE: f64 = 1.0;
const STOCK_MERGE_ROW_NS: f64 = 100.0;
const STOCK_MERGE_NS_PER_BYTE: f64 = 0.5;
/// DataFusion: writing and reading a spilled byte as Arrow IPC through the page cache.
const STOCK_SPILL_NS_PER_BYTE: f64 = 3.3;
/// DataFusion reserves a sort's rows and as much again for their merge.
const STOCK_SORT_MEMORY_RATIO: f64 = 2.0;
/// DataFusion: a row that is compared with the last one of a limit.
const STOCK_TOP_ROW_NS: f64 = 20.0;

/// Both, estimated: building and probing a hash table, a row; result columns, a byte.
const BUILD_ROW_NS: f64 = 60.0;
const PROBE_ROW_NS: f64 = 40.0;
const JOINED_NS_PER_BYTE: f64 = 1.0;
/// Bytes of a row in a hash table besides its values.
const TABLE_ROW_BYTES: f64 = 36.0;
/// Rows are copied while a table is built.
const STOCK_TABLE_MEMORY_RATIO: f64 = 1.5;

/// Part of an operator's memory for rows of a sort, and for a hash table.
const ROWS_MEMORY_RATIO: f64 = 0.3;
const TABLE_MEMORY_RATIO: f64 = 3.0 / 32.0;
/// Parts of an operator's memory for buffers, as in the query engine's jobs.
const BUFFERS_RATIO: f64 = 5.0 / 8.0;

/// Rows and bytes that reach an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Number of rows.
    pub rows: u64,
    /// Bytes of their values.
    pub bytes: u64,
}

impl Estimate {
    /// By the statistics of a plan; `None` if they do not have the number of rows.
    pub(super) fn of(schema: &Schema, statistics: &Statistics) -> Option<Estimate> {
        let rows = *statistics.num_rows.get_value()?;
        let column = |(index, field): (usize, &Arc<Field>)| {
            let bytes =
                statistics.column_statistics.get(index).and_then(|column| column.byte_size.get_value());
            let is_text = field.data_type().primitive_width().is_none();
            match bytes {
                Some(&bytes) if is_text => bytes as f64,
                _ => rows as f64 * value_bytes(field.data_type()),
            }
        };
        let bytes: f64 = schema.fields().iter().enumerate().map(column).sum();
        Some(Estimate { rows: rows as u64, bytes: bytes as u64 })
    }
}

fn value_bytes(data_type: &DataType) -> f64 {
    match data_type {
        DataType::Boolean => 1.0,
        DataType::Null => 0.0,
        DataType::FixedSizeBinary(bytes) => f64::from(*bytes),
        other => other.primitive_width().map_or(TEXT_BYTES, |width| width as f64),
    }
}

/// Predicted times of an operator and of DataFusion's in its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    /// Rows and bytes of each input, if known.
    pub inputs: [Option<Estimate>; 2],
    /// Our time, if the inputs are known.
    pub ours: Option<Duration>,
    /// DataFusion's time; `None` if the inputs are unknown, or if it would exceed its memory.
    pub stock: Option<Duration>,
    /// Whether our time is by calibrations.
    pub is_calibrated: bool,
}

impl Prediction {
    /// Whether ours is faster.
    pub(super) fn is_faster(&self) -> bool {
        self.ours.is_some_and(|ours| self.stock.is_none_or(|stock| ours < stock))
    }
}

impl fmt::Display for Prediction {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(ours) = self.ours else {
            return write!(to, "not predicted: the number of rows is not known");
        };
        write!(to, "{:.3} s predicted by ", ours.as_secs_f64())?;
        write!(to, "{}", if self.is_calibrated { "the calibration" } else { "default costs" })?;
        match self.stock {
            Some(stock) => write!(to, ", {:.3} s of DataFusion's operator", stock.as_secs_f64()),
            None => write!(to, ", DataFusion's operator would exceed its memory"),
        }
    }
}

/// Circumstances of an operator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// Its share of the pool, for all partitions together.
    pub(super) memory: usize,
    /// Partitions that are worked on at the same time.
    pub(super) threads: usize,
    /// Texts in its key.
    pub(super) texts: usize,
}

/// The costs of a session.
pub(super) struct CostModel {
    device: Option<DeviceCosts>,
    operators: Option<OperatorCosts>,
    spill: Option<SpillCosts>,
    options: OperatorOptions,
}

/// Time of an operator.
#[derive(Clone, Copy, Default)]
struct Work {
    /// CPU time that threads share.
    cpu_ns: f64,
    /// CPU time of one thread.
    serial_ns: f64,
    device_ns: f64,
}

impl Work {
    fn elapsed_ns(self, threads: usize) -> f64 {
        (self.cpu_ns / threads.max(1) as f64 + self.serial_ns).max(self.device_ns)
    }

    fn and(self, other: Work) -> Work {
        Work {
            cpu_ns: self.cpu_ns + other.cpu_ns,
            serial_ns: self.serial_ns + other.serial_ns,
            device_ns: self.device_ns + other.device_ns,
        }
    }
}

impl CostModel {
    pub(super) fn new(
        options: &OperatorOptions,
        devices: &[Calibration],
        operators: Option<OperatorCalibration>,
    ) -> CostModel {
        let device = options.directories.first().and_then(|directory| Device::of(directory).ok());
        let device = device.and_then(|device| devices.iter().find_map(|known| known.device(&device)));
        let spill = device.and_then(|device| {
            SpillCosts::of(device, options.engine, sakiyomi_query::spill::CHUNK_MAX_BYTES, Access::Direct)
        });
        CostModel {
            device: device.cloned(),
            operators: operators.map(|calibration| calibration.operators),
            spill,
            options: options.clone(),
        }
    }

    /// Times of a sort. `limit` is the number of rows that are wanted.
    pub(super) fn sort(
        &self,
        schema: &Schema,
        input: Option<Estimate>,
        limit: Option<usize>,
        setting: Setting,
    ) -> Prediction {
        let Some(estimate) = input else { return Prediction::default() };
        let stock = match limit {
            Some(limit) => {
                let kept = limit as f64 * estimate.bytes as f64 / estimate.rows.max(1) as f64;
                let work = Work { cpu_ns: estimate.rows as f64 * STOCK_TOP_ROW_NS, ..Work::default() };
                (kept * STOCK_SORT_MEMORY_RATIO <= setting.memory as f64).then_some(work)
            }
            None => Some(self.stock_sort(estimate, setting)),
        };
        let ours = self.our_sort(estimate, setting).elapsed_ns(setting.threads);
        let key = KeyShape { texts: setting.texts as f64, ..KeyShape::EXACT };
        let limit_rows = limit.map(|rows| rows as u64);
        let operator = Operator::Sort { key, limit_rows, is_stable: false };
        let predicted = self.predicted(operator, &[(schema, estimate)], setting);
        prediction([Some(estimate), None], predicted, ours, stock, setting)
    }

    /// Times of a join of two sides, of which DataFusion builds the table of the left one if `is_hashed`, or else sorts both.
    pub(super) fn join(
        &self,
        schemas: [&Schema; 2],
        inputs: [Option<Estimate>; 2],
        is_hashed: bool,
        setting: Setting,
    ) -> Prediction {
        let [Some(left), Some(right)] = inputs else {
            return Prediction { inputs, ..Prediction::default() };
        };
        let bytes = (left.bytes + right.bytes) as f64;
        let hashed = |build: Estimate, probe: Estimate| Work {
            cpu_ns: build.rows as f64 * BUILD_ROW_NS
                + probe.rows as f64 * PROBE_ROW_NS
                + bytes * JOINED_NS_PER_BYTE,
            ..Work::default()
        };
        let table = |side: Estimate| side.bytes as f64 + side.rows as f64 * TABLE_ROW_BYTES;
        let memory = setting.memory as f64;
        let rows = (left.rows + right.rows) as f64;
        let stock = if is_hashed {
            (table(left) * STOCK_TABLE_MEMORY_RATIO <= memory).then(|| hashed(left, right))
        } else {
            let half = Setting { memory: setting.memory / 2, ..setting };
            let merged = Work { cpu_ns: rows * STOCK_MERGE_ROW_NS, ..Work::default() };
            // Partitions are not merged into one.
            let sorts = self.stock_sort(left, half).and(self.stock_sort(right, half));
            let sorts = Work { cpu_ns: sorts.cpu_ns + sorts.serial_ns, serial_ns: 0.0, ..sorts };
            Some(sorts.and(merged))
        };
        let (build, probe) = if table(left) < table(right) { (left, right) } else { (right, left) };
        let ours = if table(build) <= memory * TABLE_MEMORY_RATIO {
            let bridged = Work { cpu_ns: rows * BRIDGE_ROW_NS + START_NS, ..Work::default() };
            hashed(build, probe).and(bridged)
        } else {
            let merged = Work { cpu_ns: rows * MERGE_ROW_NS, ..Work::default() };
            self.our_sort(left, setting).and(self.our_sort(right, setting)).and(merged)
        };
        let key = KeyShape { texts: setting.texts as f64, ..KeyShape::EXACT };
        let tables = [(schemas[0], left), (schemas[1], right)];
        let predicted = self.predicted(Operator::Join { key, build: None }, &tables, setting);
        prediction(inputs, predicted, ours.elapsed_ns(setting.threads), stock, setting)
    }

    fn device_ns(&self, bytes: f64) -> f64 {
        bytes * self.spill.map_or(2.0 * DEVICE_NS_PER_BYTE, |costs| costs.write_ns + costs.read_ns)
    }

    fn our_sort(&self, input: Estimate, setting: Setting) -> Work {
        let (rows, bytes) = (input.rows as f64, input.bytes as f64);
        let row_ns = ORDER_ROW_NS + MERGE_ROW_NS + BRIDGE_ROW_NS + setting.texts as f64 * TEXT_KEY_ROW_NS;
        let cpu_ns = START_NS + rows * row_ns + bytes * (PACK_NS_PER_BYTE + GATHER_NS_PER_BYTE);
        if bytes <= setting.memory as f64 * ROWS_MEMORY_RATIO {
            return Work { cpu_ns, ..Work::default() };
        }
        let spill_ns = self.spill.map_or(SPILL_NS_PER_BYTE, |costs| costs.write_cpu_ns + costs.read_cpu_ns);
        Work { cpu_ns: cpu_ns + bytes * spill_ns, serial_ns: 0.0, device_ns: self.device_ns(bytes) }
    }

    fn stock_sort(&self, input: Estimate, setting: Setting) -> Work {
        let (rows, bytes) = (input.rows as f64, input.bytes as f64);
        let row_ns = STOCK_ORDER_ROW_NS + setting.texts as f64 * TEXT_KEY_ROW_NS;
        let cpu_ns = rows * row_ns + bytes * STOCK_GATHER_NS_PER_BYTE;
        let serial_ns = rows * STOCK_MERGE_ROW_NS + bytes * STOCK_MERGE_NS_PER_BYTE;
        if bytes * STOCK_SORT_MEMORY_RATIO <= setting.memory as f64 {
            return Work { cpu_ns, serial_ns, device_ns: 0.0 };
        }
        let cpu_ns = cpu_ns + bytes * STOCK_SPILL_NS_PER_BYTE;
        Work { cpu_ns, serial_ns, device_ns: self.device_ns(bytes) }
    }

    /// The time of the query engine's cost model, in nanoseconds; `None` without calibrations, or if they lack a
    /// measurement.
    fn predicted(&self, operator: Operator, tables: &[(&Schema, Estimate)], setting: Setting) -> Option<f64> {
        let (device, operators) = (self.device.as_ref()?, self.operators.as_ref()?);
        let task = Task {
            operator,
            tables: tables.iter().map(|(schema, estimate)| shape(schema, *estimate)).collect(),
            expressions: 0,
            selected_ratio: 1.0,
            projected: None,
            output: None,
        };
        let buffers = (setting.memory as f64 * BUFFERS_RATIO) as u64;
        let heap = setting.memory as u64 - buffers;
        let limits = Limits {
            engine: Some(self.options.engine),
            ..Limits::new(buffers, heap, setting.threads, self.options.threads)
        };
        let model = Model { storage: Storage::one(device, tables.len()), operators, limits };
        let choice = model.choose(&task).ok()?;
        // The first batches do not represent a stream: it is sorted as runs.
        let is_possible = |algorithm: &Algorithm| match algorithm {
            Algorithm::Sort { sort } => matches!(sort, SortMethod::RunsAndMerge { .. } | SortMethod::TopN),
            _ => true,
        };
        let chosen = (&choice.plan.algorithm, choice.prediction.elapsed_ns);
        let others = choice.rejected.iter().map(|other| (&other.plan.algorithm, other.elapsed_ns));
        let mut found = std::iter::once(chosen).chain(others).filter(|(known, _)| is_possible(known));
        let elapsed_ns = found.next()?.1 as f64;
        let rows: u64 = tables.iter().map(|(_, estimate)| estimate.rows).sum();
        Some(elapsed_ns + rows as f64 * BRIDGE_ROW_NS / setting.threads.max(1) as f64)
    }
}

fn prediction(
    inputs: [Option<Estimate>; 2],
    predicted: Option<f64>,
    default_ns: f64,
    stock: Option<Work>,
    setting: Setting,
) -> Prediction {
    let time = |ns: f64| Duration::from_nanos(ns as u64);
    Prediction {
        inputs,
        ours: Some(time(predicted.unwrap_or(default_ns))),
        stock: stock.map(|work| time(work.elapsed_ns(setting.threads))),
        is_calibrated: predicted.is_some(),
    }
}

/// Batches as a table in memory: nothing is read from a device.
fn shape(schema: &Schema, estimate: Estimate) -> TableShape {
    let column = |field: &Arc<Field>| {
        let width = value_bytes(field.data_type());
        let (kind, value_bytes) = match field.data_type().primitive_width() {
            None if *field.data_type() == DataType::Boolean => (ValueKind::Fixed4, 1.0),
            None => (ValueKind::Text, width),
            Some(..=4) => (ValueKind::Fixed4, width),
            Some(..=8) => (ValueKind::Fixed8, width),
            Some(_) => (ValueKind::Fixed16, width),
        };
        let (file_bytes, encoded_bytes, codec, is_dictionary) = (0, 0, Codec::None, false);
        ColumnShape { kind, value_bytes, file_bytes, encoded_bytes, codec, is_dictionary }
    };
    TableShape {
        rows: estimate.rows,
        format: FileFormat::Arrow,
        columns: schema.fields().iter().map(column).collect(),
        splits: 0,
        cached_ratio: 1.0,
        is_sorted: false,
    }
}

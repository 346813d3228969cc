//! CPU costs of operators on one machine, as measured by `sakiyomi query calibrate`.
//!
//! All are nanoseconds in user mode of one thread on an otherwise idle machine, unless a name says otherwise.
//! [`OperatorCosts::parallel_slowdown`] is the slowdown with threads on all cores: cores share caches, memory, and with
//! simultaneous multithreading their execution units.

use sakiyomi_probe::calibration::DeviceCosts;
use serde::{Deserialize, Serialize};

use super::correction::{Corrections, DeviceCorrections};
use super::curve::{Curve, is_cost};
use super::row::RowShape;

/// Cost class of a file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, file or stream.
    Arrow,
    /// Comma-separated values.
    Csv,
}

/// Kind of values with similar costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValueKind {
    /// Numbers, dates and flags of 4 bytes at most.
    Fixed4,
    /// Numbers and times of 8 bytes.
    Fixed8,
    /// Decimals of 16 bytes and more.
    Fixed16,
    /// Strings and binary values.
    Text,
    /// Strings of few distinct values, held as codes of a dictionary.
    Code,
}

impl ValueKind {
    /// All kinds.
    pub const ALL: [ValueKind; 5] =
        [ValueKind::Fixed4, ValueKind::Fixed8, ValueKind::Fixed16, ValueKind::Text, ValueKind::Code];
}

/// Compression of pages, buffers or spilled rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Codec {
    /// No compression.
    #[default]
    None,
    /// Snappy.
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard, level 1.
    Zstd,
}

/// Cost of decoding or encoding values of one kind in one format.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValueCost {
    /// The format.
    pub format: FileFormat,
    /// The kind of values.
    pub kind: ValueKind,
    /// Whether the values are dictionary-encoded in the file.
    pub is_dictionary: bool,
    /// Nanoseconds per value.
    pub ns_per_value: f64,
    /// Nanoseconds per byte of text; 0 for other kinds.
    pub ns_per_byte: f64,
}

/// Cost of a compression.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CodecCost {
    /// The compression.
    pub codec: Codec,
    /// Nanoseconds to compress a byte.
    pub compress_ns_per_byte: f64,
    /// Nanoseconds to decompress, per uncompressed byte.
    pub restore_ns_per_byte: f64,
    /// Nanoseconds to restore a random byte. Random bytes do not compress, so that decompression copies them.
    pub restore_random_ns_per_byte: f64,
    /// Compressed bytes per byte of the calibration's rows, 0 to 1; an assumption for other rows.
    pub compressed_ratio: f64,
}

impl CodecCost {
    /// Returns the nanoseconds per byte to decompress a column whose compressed size is `stored_ratio` of its size. The
    /// cost is interpolated between that of the calibration's rows and that of random bytes.
    #[must_use]
    pub fn restore_ns(&self, stored_ratio: f64) -> f64 {
        let copied_ratio = (stored_ratio - self.compressed_ratio) / (1.0 - self.compressed_ratio);
        // The ratio is 0 / 0 if the calibration's rows were not compressed.
        let copied_ratio = if copied_ratio.is_nan() { 0.0 } else { copied_ratio.clamp(0.0, 1.0) };
        self.restore_ns_per_byte + copied_ratio * (self.restore_random_ns_per_byte - self.restore_ns_per_byte)
    }
}

/// Cost of moving rows: a part per row, which depends on a size, and parts per value and per byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowCost {
    /// Nanoseconds per row.
    pub ns_per_row: Curve,
    /// Nanoseconds per value of fixed width.
    pub ns_per_value: f64,
    /// Nanoseconds per text, without its bytes.
    pub ns_per_text: f64,
    /// Nanoseconds per byte of text.
    pub ns_per_byte: f64,
}

impl RowCost {
    /// Returns the cost of `count` rows of a shape, in nanoseconds; `size` is that of the curve.
    #[must_use]
    pub fn ns(&self, count: f64, shape: RowShape, size: f64) -> f64 {
        let values = shape.values * self.ns_per_value + shape.texts * self.ns_per_text;
        count * (self.ns_per_row.at(size) + values + shape.text_bytes * self.ns_per_byte)
    }
}

/// CPU costs of operators on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperatorCosts {
    /// Decoding.
    pub decode: Vec<ValueCost>,
    /// Encoding.
    pub encode: Vec<ValueCost>,
    /// Compression.
    pub codecs: Vec<CodecCost>,
    /// Converting columns to packed rows and scattering them to partitions; by the number of partitions.
    pub scatter: RowCost,
    /// Dividing batches by the hashes of a key and writing each partition in batches, without compression; by the number of
    /// partitions.
    pub partition: RowCost,
    /// Radix sort of a 64-bit key with a reference to a row; by the number of rows.
    pub radix_sort_ns_per_row: Curve,
    /// Extracting the 64-bit key of a text from a row, in addition to that of a number.
    pub text_key_ns: f64,
    /// A comparison of the whole keys of two rows in memory.
    pub comparison_ns: f64,
    /// Gathering packed rows into columns in sort order; by the bytes of the rows.
    pub gather: RowCost,
    /// Merging a row with a loser tree; by the number of runs.
    pub merge_ns_per_row: Curve,
    /// Processing a row of either side of a merge join.
    pub merge_join_ns_per_row: f64,
    /// Inserting a row into a join hash table; by the bytes of the table.
    pub hash_build_ns_per_row: Curve,
    /// Probing a join hash table with a row; by the bytes of the table.
    pub hash_probe_ns_per_row: Curve,
    /// Finding the group of a row; by the bytes of the aggregation table.
    pub group_ns_per_row: Curve,
    /// Adding a group to a table, in addition; by the bytes of the aggregation table.
    pub insert_ns_per_group: Curve,
    /// Finding the group of a row if each column of its key is a one-byte code. The group is looked up in a table that is
    /// indexed by the codes.
    pub code_group_ns_per_row: f64,
    /// Additional cost for each column of such a key.
    pub code_group_ns_per_value: f64,
    /// Finding the group of a row, for each text in its key, in addition to [`Self::group_ns_per_row`]; by the bytes of the
    /// aggregation table.
    pub group_text_ns_per_value: Curve,
    /// Merging a group of one thread into a table of all groups; by the bytes of all of them.
    pub merge_ns_per_group: Curve,
    /// Adding a group to the table of all groups, in addition; by the bytes of all of them.
    pub merge_insert_ns_per_group: Curve,
    /// Merging one state of a group.
    pub merge_ns_per_value: f64,
    /// Updating one state of a known group.
    pub update_ns_per_value: f64,
    /// Updating the sums and counts of a group in one pass. The aggregation does so if there are few groups.
    pub sums_ns_per_row: f64,
    /// Additional cost for each sum in such a pass.
    pub sum_ns_per_value: f64,
    /// An arithmetic operation or comparison of an expression, on a row.
    pub expression_ns_per_value: f64,
    /// Copying a value of a row that passes a filter.
    pub filter_ns_per_value: f64,
    /// Copying a byte of uncached memory.
    pub copy_ns_per_byte: f64,
    /// First use of a byte of I/O buffers, in kernel mode: page faults and zeroing.
    pub fresh_memory_system_ns_per_byte: f64,
    /// First use of a byte of the allocator's memory, in kernel mode.
    pub fresh_heap_system_ns_per_byte: f64,
    /// CPU time of starting and ending a job and one of its threads, per thread.
    pub start_ns_per_thread: f64,
    /// CPU time of work with all cores busy over that with one core busy, at least 1.
    pub parallel_slowdown: f64,
    /// Busy cores in the measurement of [`Self::parallel_slowdown`].
    pub cores: usize,
    /// Corrections of predictions, fitted to jobs on all devices.
    pub corrections: Corrections,
    /// Corrections that are fitted to the jobs on one device each.
    pub device_corrections: Vec<DeviceCorrections>,
}

impl OperatorCosts {
    /// Returns the cost of decoding; without a measurement of this encoding, that of the other one.
    #[must_use]
    pub fn decode(&self, format: FileFormat, kind: ValueKind, is_dictionary: bool) -> Option<&ValueCost> {
        find(&self.decode, format, kind, is_dictionary)
    }

    /// Returns the cost of encoding; without a measurement of this encoding, that of the other one.
    #[must_use]
    pub fn encode(&self, format: FileFormat, kind: ValueKind, is_dictionary: bool) -> Option<&ValueCost> {
        find(&self.encode, format, kind, is_dictionary)
    }

    /// Returns the cost of a compression, if measured; [`Codec::None`] costs nothing.
    #[must_use]
    pub fn codec(&self, codec: Codec) -> Option<CodecCost> {
        let none = CodecCost {
            codec,
            compress_ns_per_byte: 0.0,
            restore_ns_per_byte: 0.0,
            restore_random_ns_per_byte: 0.0,
            compressed_ratio: 1.0,
        };
        match codec {
            Codec::None => Some(none),
            codec => self.codecs.iter().find(|cost| cost.codec == codec).copied(),
        }
    }

    /// Returns the slowdown factor of `busy` threads, at least 1 and capped so that an additional thread never makes
    /// the work slower.
    #[must_use]
    pub fn slowdown(&self, busy: usize) -> f64 {
        let others = self.cores.saturating_sub(1).max(1) as f64;
        let share = (busy.saturating_sub(1) as f64 / others).min(1.0);
        let worst = self.parallel_slowdown.clamp(1.0, self.cores.max(1) as f64);
        1.0 + (worst - 1.0) * share
    }

    /// Returns the costs with the corrections that hold for the distinct devices of a job: those of its device if it has a single
    /// one on which jobs have run, else those that were fitted to all jobs.
    #[must_use]
    pub fn for_devices(&self, devices: &[&DeviceCosts]) -> OperatorCosts {
        let known = match devices {
            [costs] => self.device_corrections.iter().find(|known| known.device == costs.device),
            _ => None,
        };
        let corrections = known.map_or(&self.corrections, |known| &known.corrections);
        OperatorCosts { corrections: corrections.clone(), ..self.clone() }
    }

    /// Returns a description of the first invalid cost, if any.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        let values = self.decode.iter().chain(&self.encode);
        let codec = |cost: &CodecCost| {
            is_cost(cost.compress_ns_per_byte)
                && is_cost(cost.restore_ns_per_byte)
                && is_cost(cost.restore_random_ns_per_byte)
                && cost.compressed_ratio > 0.0
                && cost.compressed_ratio <= 1.0
        };
        match () {
            () if !values.clone().all(|cost| is_cost(cost.ns_per_value) && is_cost(cost.ns_per_byte)) => {
                Some("a cost of a value is not a number from 0 on")
            }
            () if !self.codecs.iter().all(codec) => {
                Some("a cost or a ratio of a compression is out of range")
            }
            () if !self.curves().into_iter().all(Curve::is_sound) => {
                Some("a cost of a row is not a number from 0 on")
            }
            () if !self.figures().into_iter().all(is_cost) => Some("a cost is not a number from 0 on"),
            () if self.cores == 0 || !(1.0..=self.cores as f64).contains(&self.parallel_slowdown) => {
                Some("the slowdown of parallel threads is not from 1 to the number of cores")
            }
            () => {
                let of_devices = self.device_corrections.iter().map(|known| &known.corrections);
                std::iter::once(&self.corrections).chain(of_devices).find_map(Corrections::fault)
            }
        }
    }

    fn curves(&self) -> [&Curve; 12] {
        [
            &self.scatter.ns_per_row,
            &self.partition.ns_per_row,
            &self.gather.ns_per_row,
            &self.radix_sort_ns_per_row,
            &self.merge_ns_per_row,
            &self.hash_build_ns_per_row,
            &self.hash_probe_ns_per_row,
            &self.group_ns_per_row,
            &self.group_text_ns_per_value,
            &self.insert_ns_per_group,
            &self.merge_ns_per_group,
            &self.merge_insert_ns_per_group,
        ]
    }

    fn figures(&self) -> [f64; 24] {
        [
            self.merge_ns_per_value,
            self.scatter.ns_per_value,
            self.scatter.ns_per_text,
            self.scatter.ns_per_byte,
            self.partition.ns_per_value,
            self.partition.ns_per_text,
            self.partition.ns_per_byte,
            self.gather.ns_per_value,
            self.gather.ns_per_text,
            self.gather.ns_per_byte,
            self.text_key_ns,
            self.code_group_ns_per_row,
            self.code_group_ns_per_value,
            self.sums_ns_per_row,
            self.sum_ns_per_value,
            self.fresh_heap_system_ns_per_byte,
            self.start_ns_per_thread,
            self.comparison_ns,
            self.merge_join_ns_per_row,
            self.update_ns_per_value,
            self.expression_ns_per_value,
            self.filter_ns_per_value,
            self.copy_ns_per_byte,
            self.fresh_memory_system_ns_per_byte,
        ]
    }
}

fn find(costs: &[ValueCost], format: FileFormat, kind: ValueKind, is_dictionary: bool) -> Option<&ValueCost> {
    let same = costs.iter().filter(|cost| cost.format == format && cost.kind == kind);
    same.min_by_key(|cost| cost.is_dictionary != is_dictionary)
}

//! Machines and tasks for tests.

use sakiyomi_io::EngineKind;
use sakiyomi_probe::calibration::{Cost, DepthCost, DeviceCosts, Point};
use sakiyomi_probe::setting::{Buffers, CacheState, Operation};
use sakiyomi_probe::target::Device;

use crate::cost::correction::Corrections;
use crate::cost::curve::{Curve, CurvePoint};
use crate::cost::model::{Limits, Model};
use crate::cost::operators::{Codec, CodecCost, FileFormat, OperatorCosts, RowCost, ValueCost, ValueKind};
use crate::cost::shape::{
    ColumnShape, GroupKeyShape, GroupSize, KeyShape, Operator, StateShape, TableShape, Task,
};
use crate::cost::streams::Storage;

pub(crate) const GIB: u64 = 1 << 30;
pub(crate) const MIB: u64 = 1 << 20;

/// Parameters of a device, from which its calibration is computed.
#[derive(Clone, Debug)]
pub(crate) struct DeviceSpec {
    /// Bytes per second with many operations in flight, reading and writing.
    pub(crate) bandwidth: [f64; 2],
    /// Latency of an operation, and additional latency of a random one, in nanoseconds.
    pub(crate) latency_ns: f64,
    pub(crate) seek_ns: f64,
    /// CPU time of an operation and of a byte, direct, in nanoseconds.
    pub(crate) op_ns: f64,
    pub(crate) byte_ns: f64,
    /// Additional CPU time per byte through the page cache, in nanoseconds.
    pub(crate) buffered_byte_ns: f64,
    /// Whether the calibration has writes.
    pub(crate) writes: bool,
}

impl DeviceSpec {
    /// A fast drive.
    pub(crate) fn fast() -> DeviceSpec {
        DeviceSpec {
            bandwidth: [2.6e9, 1.5e9],
            latency_ns: 110_000.0,
            seek_ns: 0.0,
            op_ns: 5_000.0,
            byte_ns: 0.02,
            buffered_byte_ns: 0.4,
            writes: true,
        }
    }

    /// A drive of 7,200 rpm.
    pub(crate) fn disk() -> DeviceSpec {
        DeviceSpec { bandwidth: [150e6, 140e6], latency_ns: 200_000.0, seek_ns: 12e6, ..DeviceSpec::fast() }
    }

    pub(crate) fn calibrated(&self) -> DeviceCosts {
        self.measured(&mut || 1.0)
    }

    /// Its calibration; `noise` is a factor on each measurement.
    pub(crate) fn measured(&self, noise: &mut dyn FnMut() -> f64) -> DeviceCosts {
        let mut costs = Vec::new();
        let engines =
            [(EngineKind::Read, vec![1]), (EngineKind::Pread, vec![4]), (EngineKind::Uring, vec![1, 8])];
        for (engine, depths) in engines {
            for op in [Operation::Read, Operation::Write].into_iter().take(1 + usize::from(self.writes)) {
                for cache in [CacheState::Direct, CacheState::Cold] {
                    for random in [false, true] {
                        let depth = |&depth| self.depth(depth, op, cache, random, noise);
                        let depths = depths.iter().map(depth).collect();
                        costs.push(Cost { engine, op, cache, random, buffers: Buffers::Huge, depths });
                    }
                }
            }
        }
        let device = Device { number: "8:1".to_owned(), ..Device::default() };
        DeviceCosts { target: "path".to_owned(), device, costs }
    }

    fn depth(
        &self,
        depth: usize,
        op: Operation,
        cache: CacheState,
        random: bool,
        noise: &mut dyn FnMut() -> f64,
    ) -> DepthCost {
        let bandwidth = self.bandwidth[usize::from(op == Operation::Write)];
        let seek = if random && op == Operation::Read { self.seek_ns } else { 0.0 };
        let byte_ns = self.byte_ns + if cache == CacheState::Cold { self.buffered_byte_ns } else { 0.0 };
        let mut point = |block: u64| {
            let bytes = block as f64;
            let cpu = self.op_ns + byte_ns * bytes;
            let service = self.latency_ns + bytes / bandwidth * 1e9 + cpu;
            // The path handles many operations at a time, the mechanism one.
            let each = (service / depth as f64).max(bytes / bandwidth * 1e9 + seek).max(cpu) * noise();
            Point {
                block_bytes: block,
                throughput_bytes_per_s: bytes / each * 1e9,
                cpu_ns_per_op: cpu * noise(),
                kernel_threads_cpu_ns_per_op: 0.0,
                latency_p50_ns: Some(((service + seek).max(each * depth as f64)) as u64),
                latency_p99_ns: None,
                measured_unix_s: 0,
            }
        };
        let points = vec![point(64 << 10), point(1 << 20)];
        DepthCost { depth, cpu_ns_per_op: self.op_ns, cpu_ns_per_byte: byte_ns, points }
    }
}

fn curve(points: &[(f64, f64)], factor: f64) -> Curve {
    Curve::new(points.iter().map(|&(size, ns)| CurvePoint { size, ns: ns * factor }).collect())
}

/// Operator costs of about the machine of the facts sheet; `noise` is a factor on each cost.
pub(crate) fn operators(cores: usize, noise: &mut dyn FnMut() -> f64) -> OperatorCosts {
    let kinds = [
        (ValueKind::Fixed4, 1.5, 0.0),
        (ValueKind::Fixed8, 2.0, 0.0),
        (ValueKind::Fixed16, 6.0, 0.0),
        (ValueKind::Text, 8.0, 0.15),
        (ValueKind::Code, 1.5, 0.0),
    ];
    let mut values = |factor: f64| {
        let cost = |&(kind, value, byte): &(ValueKind, f64, f64)| {
            let factor = factor * noise();
            let (ns_per_value, ns_per_byte) = (value * factor, byte * factor);
            let (format, is_dictionary) = (FileFormat::Parquet, false);
            ValueCost { format, kind, is_dictionary, ns_per_value, ns_per_byte }
        };
        kinds.iter().map(cost).collect::<Vec<_>>()
    };
    let (decode, encode) = (values(1.0), values(1.5));
    let mut codec = |codec, compress: f64, restore: f64, compressed_ratio| {
        let (compress_ns_per_byte, restore_ns_per_byte) = (compress * noise(), restore * noise());
        let restore_random_ns_per_byte = restore_ns_per_byte / 8.0;
        CodecCost {
            codec,
            compress_ns_per_byte,
            restore_ns_per_byte,
            restore_random_ns_per_byte,
            compressed_ratio,
        }
    };
    let codecs = vec![codec(Codec::Lz4, 2.3, 0.8, 0.66), codec(Codec::Zstd, 4.3, 1.6, 0.37)];
    OperatorCosts {
        decode,
        encode,
        codecs,
        scatter: RowCost {
            ns_per_row: curve(&[(1.0, 10.0), (64.0, 25.0), (512.0, 60.0)], noise()),
            ns_per_value: 0.8,
            ns_per_text: 5.0,
            ns_per_byte: 0.1,
        },
        partition: RowCost {
            ns_per_row: curve(&[(16.0, 35.0), (128.0, 50.0)], noise()),
            ns_per_value: 5.0,
            ns_per_text: 15.0,
            ns_per_byte: 0.3,
        },
        radix_sort_ns_per_row: curve(&[(4096.0, 8.0), (65536.0, 15.0), (1048576.0, 40.0)], noise()),
        text_key_ns: 10.0 * noise(),
        comparison_ns: 10.0 * noise(),
        gather: RowCost {
            ns_per_row: curve(&[(524288.0, 10.0), (8388608.0, 25.0), (134217728.0, 80.0)], noise()),
            ns_per_value: 1.2,
            ns_per_text: 5.0,
            ns_per_byte: 0.15,
        },
        merge_ns_per_row: curve(&[(4.0, 8.0), (32.0, 15.0), (256.0, 45.0)], noise()),
        merge_join_ns_per_row: 3.0 * noise(),
        hash_build_ns_per_row: curve(&[(16384.0, 5.0), (1048576.0, 12.0), (67108864.0, 60.0)], noise()),
        hash_probe_ns_per_row: curve(&[(16384.0, 4.0), (1048576.0, 10.0), (67108864.0, 50.0)], noise()),
        group_ns_per_row: curve(&[(16384.0, 4.0), (1048576.0, 10.0), (67108864.0, 50.0)], noise()),
        insert_ns_per_group: curve(&[(16384.0, 4.0), (1048576.0, 10.0), (67108864.0, 50.0)], noise()),
        merge_insert_ns_per_group: curve(&[(16384.0, 4.0), (1048576.0, 10.0), (67108864.0, 50.0)], noise()),
        group_text_ns_per_value: curve(&[(1024.0, 10.0), (262144.0, 40.0)], noise()),
        code_group_ns_per_row: 1.0,
        code_group_ns_per_value: 0.5,
        merge_ns_per_group: curve(&[(16384.0, 10.0), (1048576.0, 20.0), (67108864.0, 100.0)], noise()),
        merge_ns_per_value: 20.0 * noise(),
        update_ns_per_value: 1.0,
        sums_ns_per_row: 1.0,
        sum_ns_per_value: 0.5,
        expression_ns_per_value: 0.5,
        filter_ns_per_value: 1.0,
        copy_ns_per_byte: 0.1,
        fresh_memory_system_ns_per_byte: 1.0,
        fresh_heap_system_ns_per_byte: 1.0,
        start_ns_per_thread: 50_000.0 * noise(),
        parallel_slowdown: if cores > 1 { 1.3 } else { 1.0 },
        cores,
        corrections: Corrections::default(),
        device_corrections: Vec::new(),
    }
}

pub(crate) fn column(kind: ValueKind, value_bytes: f64, rows: u64) -> ColumnShape {
    let file_bytes = (rows as f64 * value_bytes) as u64;
    let (codec, is_dictionary) = (Codec::None, false);
    ColumnShape { kind, value_bytes, file_bytes, encoded_bytes: file_bytes, codec, is_dictionary }
}

/// A table of numbers, codes and a text.
pub(crate) fn table(rows: u64) -> TableShape {
    let fixed = (0..6).map(|_| column(ValueKind::Fixed8, 8.0, rows));
    let codes = (0..3).map(|_| column(ValueKind::Code, 1.0, rows));
    let columns = fixed.chain(codes).chain([column(ValueKind::Text, 26.0, rows)]).collect();
    TableShape { rows, format: FileFormat::Parquet, columns, splits: 0, cached_ratio: 0.0, is_sorted: false }
}

pub(crate) fn sort_of(rows: u64) -> Task {
    let operator = Operator::Sort { key: KeyShape::EXACT, limit_rows: None, is_stable: false };
    let (tables, output) = (vec![table(rows)], Some(table(rows)));
    Task { operator, tables, expressions: 0, selected_ratio: 1.0, projected: None, output }
}

pub(crate) fn join_of(left: u64, right: u64) -> Task {
    let operator = Operator::Join { key: KeyShape::EXACT, build: None };
    let (tables, output) = (vec![table(left), table(right)], Some(table(left.max(right))));
    Task { operator, tables, expressions: 0, selected_ratio: 1.0, projected: None, output }
}

/// A key and some states.
pub(crate) const GROUP_SIZE: GroupSize = GroupSize { table_bytes: 64.0, record_bytes: 72.0 };

pub(crate) fn aggregate_of(rows: u64, groups: u64) -> Task {
    let operator = Operator::Aggregate {
        groups,
        size: GROUP_SIZE,
        key: GroupKeyShape::default(),
        states: StateShape { sums: 4, ..StateShape::default() },
    };
    Task {
        operator,
        tables: vec![table(rows)],
        expressions: 2,
        selected_ratio: 0.98,
        projected: None,
        output: None,
    }
}

/// A model of a job on one device, with a total memory limit.
pub(crate) fn model<'a>(
    device: &'a DeviceCosts,
    operators: &'a OperatorCosts,
    tables: usize,
    memory: u64,
    threads: usize,
) -> Model<'a> {
    let limits = Limits::new(memory / 8 * 5, memory / 8 * 3, threads, operators.cores);
    Model { storage: Storage::one(device, tables), operators, limits }
}

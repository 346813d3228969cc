//! Examples computed by hand, from section 5 of the facts sheet.

use sakiyomi_io::EngineSpec;

use super::machines::*;
use crate::cost::CostError;
use crate::cost::curve::Curve;
use crate::cost::operators::{Codec, FileFormat, ValueCost, ValueKind};
use crate::cost::plan::{Algorithm, PageCache, Plan, SortMethod, SpillPlan, StreamPlan};
use crate::cost::shape::{GroupKeyShape, Operator, StateShape, TableShape, Task};
use crate::cost::stage::Bound;

fn near(found: u64, expected: f64, tolerance: f64) -> bool {
    (found as f64 / expected - 1.0).abs() <= tolerance
}

fn engine(text: &str) -> EngineSpec {
    text.parse().unwrap()
}

fn direct(block_bytes: u64) -> StreamPlan {
    StreamPlan { block_bytes, page_cache: PageCache::Bypassed }
}

/// An aggregation in memory on one thread.
fn aggregation() -> Plan {
    Plan {
        algorithm: Algorithm::HashAggregate { partitions: 1 },
        threads: 1,
        engine: engine("uring:8"),
        input: direct(MIB),
        spill: None,
        output: None,
    }
}

/// TPC-H query 1 at scale factor 1 with 38 bytes and 6 ns of CPU time per row.
fn first_query() -> (Task, crate::cost::OperatorCosts) {
    let rows = 6_001_215;
    let widths = [8.0, 8.0, 8.0, 8.0, 4.0, 1.0, 1.0];
    let columns = widths.map(|width| column(ValueKind::Fixed8, width, rows)).to_vec();
    let (splits, cached_ratio, is_sorted) = (0, 0.0, false);
    let table = TableShape { rows, format: FileFormat::Arrow, columns, splits, cached_ratio, is_sorted };
    let operator = Operator::Aggregate {
        groups: 4,
        size: GROUP_SIZE,
        key: GroupKeyShape::default(),
        states: StateShape { sums: 8, ..StateShape::default() },
    };
    let task = Task {
        operator,
        tables: vec![table],
        expressions: 0,
        selected_ratio: 1.0,
        projected: None,
        output: None,
    };
    let mut costs = operators(1, &mut || 1.0);
    let free = ValueCost {
        format: FileFormat::Arrow,
        kind: ValueKind::Fixed8,
        is_dictionary: false,
        ns_per_value: 0.0,
        ns_per_byte: 0.0,
    };
    costs.decode.push(free);
    costs.group_ns_per_row = Curve::constant(6.0);
    (costs.sums_ns_per_row, costs.sum_ns_per_value) = (0.0, 0.0);
    costs.fresh_memory_system_ns_per_byte = 0.0;
    costs.fresh_heap_system_ns_per_byte = 0.0;
    costs.start_ns_per_thread = 0.0;
    (task, costs)
}

fn first_query_at(bandwidth: f64) -> crate::cost::prediction::PhasePrediction {
    let (task, costs) = first_query();
    let spec = DeviceSpec {
        bandwidth: [bandwidth; 2],
        latency_ns: 0.0,
        op_ns: 0.0,
        byte_ns: 0.0,
        ..DeviceSpec::fast()
    };
    let device = spec.calibrated();
    let model = model(&device, &costs, 1, GIB, 1);
    let plan = aggregation();
    model.predict(&task, &plan).unwrap().phases[0].clone()
}

#[test]
fn the_first_query_takes_as_long_as_its_bytes_until_storage_is_six_gigabytes_a_second() {
    for (bandwidth, seconds) in [(1.3e9, 0.175), (2.6e9, 0.0877)] {
        let read = first_query_at(bandwidth);
        assert!(near(read.bytes, 228e6, 0.001));
        assert!(near(read.device_ns, seconds * 1e9, 0.01) && near(read.user_ns, 0.036e9, 0.01), "{read:?}");
        assert!(near(read.elapsed_ns, seconds * 1e9, 0.02) && read.bound == Bound::Io, "{read:?}");
        assert!(near(read.comparison.storage_only_ns, seconds * 1e9, 0.01));
    }
    // W* = p / (c1 + c0 / b + c_op): 38 bytes in 6 ns are 6.3 GB/s.
    assert_eq!(first_query_at(6.2e9).bound, Bound::Io);
    // With equal demands, N units in flight take 1 / N longer than with infinitely many: eight blocks and one thread.
    let fast = first_query_at(7e9);
    assert!(fast.bound == Bound::Cpu && near(fast.elapsed_ns, 0.036e9, 1.0 / 9.0), "{fast:?}");
    assert!(fast.comparison.storage_only_ns < fast.elapsed_ns, "the model without the CPU is too fast");
}

#[test]
fn a_buffered_spill_of_a_gigabyte_costs_half_a_second_of_the_cpu_and_a_direct_one_a_twentieth() {
    let (device, costs) = (DeviceSpec::fast().calibrated(), operators(2, &mut || 1.0));
    let model = model(&device, &costs, 1, GIB, 2);
    let task = sort_of(12_500_000);
    let gigabytes = task.tables[0].packed_bytes() / 1e9;
    assert!((gigabytes - 1.0).abs() < 0.05, "{gigabytes}");
    let system = |page_cache| {
        let stream = StreamPlan { block_bytes: MIB, page_cache };
        let plan = Plan {
            algorithm: Algorithm::Sort {
                sort: SortMethod::RangePartition {
                    partitions: 64,
                    resident_bytes: 0,
                    memory_bytes: 240 << 20,
                },
            },
            threads: 2,
            engine: engine("uring:8"),
            input: direct(MIB),
            spill: Some(SpillPlan { stream, codec: Codec::None }),
            output: Some(direct(MIB)),
        };
        model.predict(&task, &plan).unwrap().system_ns as f64
    };
    let saved = system(PageCache::Used) - system(PageCache::Bypassed);
    // 0.4 ns for each byte written and each byte read.
    assert!((saved / (gigabytes * 0.8e9) - 1.0).abs() < 0.01, "{saved}");
}

#[test]
fn a_calibration_without_writes_or_operators_says_what_to_run() {
    let device = DeviceSpec { writes: false, ..DeviceSpec::fast() }.calibrated();
    let costs = operators(2, &mut || 1.0);
    let error = model(&device, &costs, 1, GIB, 2).choose(&sort_of(1000)).unwrap_err();
    assert!(error.to_string().contains("sakiyomi probe DIR --op read,write"), "{error}");
    let device = DeviceSpec::fast().calibrated();
    let mut task = sort_of(1000);
    task.tables[0].format = FileFormat::Csv;
    let error = model(&device, &costs, 1, GIB, 2).choose(&task).unwrap_err();
    assert!(error.to_string().contains("sakiyomi query calibrate"), "{error}");
    task = sort_of(1000);
    task.tables[0].columns[0].codec = Codec::Snappy;
    let error = model(&device, &costs, 1, GIB, 2).choose(&task).unwrap_err();
    assert_eq!(error, CostError::Codec { codec: Codec::Snappy });
}

#[test]
fn a_job_that_reads_only_needs_no_writes_in_the_calibration() {
    let device = DeviceSpec { writes: false, ..DeviceSpec::fast() }.calibrated();
    let costs = operators(2, &mut || 1.0);
    let choice = model(&device, &costs, 1, GIB, 2).choose(&aggregate_of(1_000_000, 10)).unwrap();
    assert_eq!(choice.plan.algorithm, Algorithm::HashAggregate { partitions: 1 });
    assert_eq!((choice.plan.spill, choice.plan.output), (None, None));
}

#[test]
fn a_limit_that_no_plan_keeps_says_how_much_is_needed() {
    let (device, costs) = (DeviceSpec::fast().calibrated(), operators(2, &mut || 1.0));
    let task = sort_of(50_000_000);
    let CostError::Memory { needed_bytes, limit_bytes } =
        model(&device, &costs, 1, 100_000, 2).choose(&task).unwrap_err()
    else {
        panic!("another error");
    };
    assert!(limit_bytes <= 100_000 && needed_bytes > limit_bytes);
    let enough = model(&device, &costs, 1, needed_bytes + needed_bytes / 100, 2);
    assert!(enough.choose(&task).is_ok(), "{needed_bytes} bytes are enough");
    let less = model(&device, &costs, 1, needed_bytes - needed_bytes / 50, 2);
    assert!(less.choose(&task).is_err(), "less than {needed_bytes} bytes are not");
}

#[test]
fn a_spill_in_memory_beyond_the_limit_is_refused_before_any_work() {
    let costs = operators(2, &mut || 1.0);
    let choose = |file_system: &str, memory| {
        let mut device = DeviceSpec::fast().calibrated();
        device.device.file_system = file_system.to_owned();
        model(&device, &costs, 1, memory, 2).choose(&sort_of(12_500_000))
    };
    assert!(choose("ext4", 256 * MIB).unwrap().plan.spill.is_some());
    let Err(CostError::SpillMemory { needed_bytes, limit_bytes }) = choose("tmpfs", 256 * MIB) else {
        panic!("not refused");
    };
    assert!(limit_bytes <= 256 * MIB && needed_bytes > 2 * limit_bytes, "{needed_bytes}");
    let enough = choose("tmpfs", needed_bytes + needed_bytes / 50).unwrap();
    assert!(enough.prediction.memory_bytes <= needed_bytes + needed_bytes / 50, "{:?}", enough.prediction);
}

#[test]
fn spills_are_compressed_on_a_slow_drive_and_not_on_a_fast_one() {
    let costs = operators(2, &mut || 1.0);
    let codec = |spec: DeviceSpec| {
        let device = spec.calibrated();
        let choice = model(&device, &costs, 1, 256 * MIB, 2).choose(&sort_of(12_500_000)).unwrap();
        (choice.plan.spill.unwrap().codec, choice.plan.spill.unwrap().stream.page_cache)
    };
    assert_eq!(codec(DeviceSpec::fast()), (Codec::None, PageCache::Bypassed));
    assert_ne!(codec(DeviceSpec::disk()).0, Codec::None);
}

#[test]
fn spilled_groups_are_written_and_merged_by_all_threads() {
    let (device, costs) = (DeviceSpec::fast().calibrated(), operators(4, &mut || 1.0));
    let task = aggregate_of(20_000_000, 8_000_000);
    let predict = |threads| {
        let stream = direct(128 << 10);
        let plan = Plan {
            algorithm: Algorithm::HashAggregate { partitions: 16 },
            threads,
            engine: engine("uring:8"),
            input: direct(MIB),
            spill: Some(SpillPlan { stream, codec: Codec::None }),
            output: None,
        };
        model(&device, &costs, 1, GIB / 4, 4).predict(&task, &plan).unwrap()
    };
    let (one, four) = (predict(1), predict(4));
    assert!(four.phases.iter().all(|phase| phase.bound != Bound::SerialCpu), "{:?}", four.phases);
    // More tables are smaller ones, in which fewer rows meet their group.
    assert!(four.elapsed_ns < one.elapsed_ns * 7 / 10, "{} and {} ns", one.elapsed_ns, four.elapsed_ns);
}

#[test]
fn a_small_side_is_hashed_and_sorted_sides_are_merged() {
    let (device, costs) = (DeviceSpec::fast().calibrated(), operators(2, &mut || 1.0));
    let model = model(&device, &costs, 2, 512 * MIB, 2);
    let small = model.choose(&join_of(20_000_000, 100_000)).unwrap();
    let build = crate::cost::shape::Side::Right;
    assert_eq!(small.plan.algorithm, Algorithm::HashJoin { build, partitions: 1 });
    let mut task = join_of(20_000_000, 15_000_000);
    task.tables.iter_mut().for_each(|table| table.is_sorted = true);
    let sorted = SortMethod::AlreadySorted;
    let chosen = model.choose(&task).unwrap();
    assert_eq!(chosen.plan.algorithm, Algorithm::MergeJoin { left: sorted, right: sorted });
    assert!(
        chosen.rejected.iter().any(|plan| plan.difference.contains("hash join")),
        "{:?}",
        chosen.rejected
    );
    assert!(chosen.rejected.is_sorted_by_key(|plan| plan.elapsed_ns));
}

#[test]
fn an_explanation_has_a_tree_and_puts_measured_phases_beside_predicted_ones() {
    use crate::cost::{Explanation, Measured};
    use crate::phase::Phase;
    let (device, costs) = (DeviceSpec::fast().calibrated(), operators(2, &mut || 1.0));
    let task = sort_of(12_500_000);
    let choice = model(&device, &costs, 1, 256 * MIB, 2).choose(&task).unwrap();
    let predicted = choice.prediction.clone();
    let explained = Explanation::new(task, choice);
    assert!(explained.tree.operator.starts_with("write Parquet"), "{:?}", explained.tree);
    assert!(explained.tree.inputs[0].inputs[0].operator.starts_with("scan table 1"));
    let measured = |name: &str, elapsed_ns| Phase { name: name.to_owned(), elapsed_ns, ..Phase::default() };
    let [sample, read, write] = [0, 1, 2].map(|index| predicted.phases[index].elapsed_ns);
    assert_eq!(predicted.phases[2].name, "write");
    let phases = vec![
        measured("sample", sample),
        measured("read", 2 * read),
        measured("write runs", sample),
        measured("gather", 1),
        measured("encode", 2),
        measured("surprise", 5),
    ];
    let elapsed_ns = predicted.elapsed_ns + read;
    let measured = Measured { phases, elapsed_ns, threads: 2, ..Measured::default() };
    let analysis = explained.analyzed(measured).analysis.unwrap();
    assert!(analysis.errors.elapsed_error_ratio.unwrap() < 0.0);
    assert_eq!(analysis.errors.cpu_error_ratio, None, "no CPU time was measured");
    let [sampling, dividing, giving, surprise] = &analysis.phases[..] else {
        panic!("{:?}", analysis.phases)
    };
    assert_eq!((sampling.name.as_str(), sampling.errors.unwrap().elapsed_error_ratio), ("sample", Some(0.0)));
    assert_eq!((dividing.name.as_str(), dividing.measured.len()), ("read", 2));
    assert!((dividing.errors.unwrap().elapsed_error_ratio.unwrap() + 0.5).abs() < 1e-6);
    // The last part has the remaining time.
    assert_eq!((giving.name.as_str(), giving.measured_elapsed_ns), ("write", write));
    assert_eq!(giving.errors.unwrap().elapsed_error_ratio, Some(0.0));
    assert!(surprise.name == "surprise" && surprise.predicted.is_empty() && surprise.errors.is_none());
    let json = serde_json::to_value(&analysis).unwrap();
    assert!(json["phases"][0]["predicted"][0]["elapsed_ns"].is_u64() && json["elapsed_error_ratio"].is_f64());
}

#[test]
fn groups_of_codes_are_found_for_less_and_sums_of_few_groups_are_updated_in_one_pass() {
    let (device, costs) = (DeviceSpec::fast().calibrated(), operators(1, &mut || 1.0));
    let model = model(&device, &costs, 1, GIB, 1);
    let plan = aggregation();
    // User time for each row that is updated.
    let row_ns = |groups, codes, sums, selected_ratio| {
        let mut task = aggregate_of(1_000_000, groups);
        let Operator::Aggregate { key, states, .. } = &mut task.operator else { unreachable!() };
        (key.codes, states.sums, task.selected_ratio) = (codes, sums, selected_ratio);
        model.predict(&task, &plan).unwrap().phases[0].user_ns as f64 / 1e6
    };
    let is = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.01;
    let find_ns = costs.group_ns_per_row.at(1.0);
    let by_code_ns = costs.code_group_ns_per_row + costs.code_group_ns_per_value;
    assert!(is(row_ns(4, 0, 2, 1.0) - row_ns(4, 1, 2, 1.0), find_ns - by_code_ns));
    assert!(is(row_ns(4, 1, 7, 1.0) - row_ns(4, 1, 2, 1.0), 5.0 * costs.sum_ns_per_value));
    // More groups than a pass has sums of.
    assert!(is(row_ns(256, 1, 7, 1.0) - row_ns(256, 1, 2, 1.0), 5.0 * costs.update_ns_per_value));
    assert!(is(row_ns(255, 1, 7, 1.0) - row_ns(255, 1, 2, 1.0), 5.0 * costs.sum_ns_per_value));
    // Rows that a filter excludes are masked and not removed.
    assert!(is(row_ns(4, 1, 7, 0.6) - row_ns(4, 1, 2, 0.6), 5.0 * costs.sum_ns_per_value));
    assert!(is(row_ns(4, 1, 7, 0.4) - row_ns(4, 1, 2, 0.4), 2.0 * costs.sum_ns_per_value));
}

#[test]
fn what_compression_does_not_make_smaller_is_restored_as_fast_as_it_is_copied() {
    let costs = operators(1, &mut || 1.0);
    let lz4 = costs.codec(Codec::Lz4).unwrap();
    let (own, random) = (lz4.restore_ns_per_byte, lz4.restore_random_ns_per_byte);
    assert!(random < own);
    for (stored_ratio, expected) in [
        (0.1, own),
        (lz4.compressed_ratio, own),
        (f64::midpoint(lz4.compressed_ratio, 1.0), f64::midpoint(own, random)),
        (1.0, random),
        (1.1, random),
    ] {
        assert!((lz4.restore_ns(stored_ratio) - expected).abs() < 1e-9, "{stored_ratio}");
    }
    assert_eq!(costs.codec(Codec::None).unwrap().restore_ns(1.0), 0.0);
}

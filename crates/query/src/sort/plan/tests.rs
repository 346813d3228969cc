use proptest::prelude::*;

use super::*;

fn demand(bytes: usize, expected_bytes: Option<u64>) -> Demand {
    Demand {
        bytes,
        heap_bytes: bytes / 2,
        threads: 2,
        directories: 1,
        expected_bytes,
        expected_rows: None,
        spilled_bytes: expected_bytes,
        resident_bytes: 64 << 20,
        block: CHUNK_BYTES,
        partitions_max: 1024,
        planned_partitions: None,
        planned_run: None,
        order_bytes: 44,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_stage_of_a_sort_exceeds_its_memory(
        bytes in (2_usize << 20)..(8 << 30),
        expected in prop::option::of(0..1_u64 << 42),
        threads in 1..9_usize,
        directories in 1..4_usize,
        resident in 0..1_usize << 30,
        block in (12..25_u32).prop_map(|bits| 1_usize << bits),
    ) {
        let base = demand(bytes, expected);
        let demand = Demand { threads, directories, resident_bytes: resident, block, ..base };
        let plan = MemoryPlan::new(&demand);
        let min = min_bytes(block, threads, directories);
        prop_assert!(plan.bytes == bytes.max(min));
        let chunk = plan.chunk_bytes;
        prop_assert!(chunk.is_power_of_two() && chunk <= CHUNK_LIMIT_BYTES);
        // Larger than requested, if the places would take too much of the heap.
        let places_max = demand.heap_bytes / PLACES_PARTS;
        let is_asked = chunk <= block || spilled_chunk_list_bytes(&demand, chunk / 2) > places_max;
        prop_assert!(is_asked, "{:?}", plan);
        prop_assert!((1..=writes_max(chunk)).contains(&plan.writes_in_flight));
        // The input of both methods, and a long row.
        let in_flight = (plan.writes_in_flight * directories + threads + 1) * chunk;
        let input = plan.partitions * threads * chunk + in_flight + plan.resident_bytes;
        prop_assert!(input == plan.partition_input_bytes && input <= plan.bytes, "{:?}", plan);
        let writes = threads * (plan.writes_in_flight + 1) * chunk;
        let runs = writes + threads * plan.run_max_bytes * 3 / 2;
        prop_assert!(runs == plan.run_input_bytes && runs + plan.run_max_bytes <= plan.bytes, "{:?}", plan);
        prop_assert!(plan.run_bytes <= plan.run_max_bytes);
        // The output: loads, parts of partitions that become runs, a merge to a run, and the last merge with a group.
        prop_assert!((threads + 1) * plan.load_bytes + plan.resident_bytes <= plan.bytes, "{:?}", plan);
        prop_assert!(plan.load_bytes <= PLACES_BYTES && plan.run_bytes * threads <= PLACES_BYTES);
        let write = (plan.writes_in_flight + 1) * chunk;
        prop_assert!(plan.load_bytes / 2 + chunk + write <= plan.bytes, "{:?}", plan);
        let cursors = plan.fan_in * MERGE_BLOCKS * chunk;
        let group = (plan.fan_in + 1) * chunk;
        prop_assert!(cursors + write + chunk <= plan.bytes, "{:?}", plan);
        prop_assert!(cursors + group + plan.group_bytes <= plan.bytes, "{:?}", plan);
    }
}

#[test]
fn lineitem_has_128_partitions_at_512_mib_and_as_many_as_memory_needs_at_64_mib() {
    let lineitem = Some(640 << 20);
    let usual = MemoryPlan::new(&demand(240 << 20, lineitem));
    assert_eq!((usual.partitions, usual.chunk_bytes), (128, 256 << 10));
    let little = MemoryPlan::new(&demand(30 << 20, lineitem));
    assert!(little.partitions > 100 && little.chunk_bytes == 64 << 10, "{little:?}");
    let few = MemoryPlan::new(&demand(240 << 20, Some(1 << 20)));
    assert_eq!(few.partitions, 4);
}

#[test]
fn chunks_are_as_large_as_the_memory_of_their_places_needs() {
    // A job of 64 MiB, and the most that is usual of its heap.
    let plan = |mib: usize, expected: u64| {
        let demand =
            Demand { heap_bytes: (mib * 5 / 16) << 20, ..demand((mib * 15 / 32) << 20, Some(expected)) };
        (MemoryPlan::new(&demand), demand.heap_bytes)
    };
    for (mib, expected) in [(64, 8_000_000_000), (64, 60_000_000_000), (512, 3_000_000_000_000)] {
        let (plan, heap) = plan(mib, expected);
        // Both fit, and as much as the rows that are put in order is left.
        let order = plan.heap_bytes(2, 44);
        assert!(plan.spilled_chunk_list_bytes + 2 * order <= heap + 3 * 44, "{plan:?} in {heap}");
        assert!(plan.spilled_chunk_list_bytes <= heap / 2 && plan.load_rows > 30_000, "{plan:?} in {heap}");
        // Nearly all chunks are full.
        assert!(plan.spilled_chunk_list_bytes as u64 >= expected / plan.chunk_bytes as u64 * 27);
    }
    // Ten GB need no larger chunks than partitions do.
    assert_eq!(plan(64, 8_000_000_000).0.chunk_bytes, CHUNK_MIN_BYTES);
    assert_eq!(plan(64, 60_000_000_000).0.chunk_bytes, CHUNK_BYTES);
    assert!(plan(512, 3_000_000_000_000).0.chunk_bytes > CHUNK_BYTES);
}

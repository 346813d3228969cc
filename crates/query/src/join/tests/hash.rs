//! Tests of hash joins in memory, by partitions and in parts.

use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::{BufferPool, Io, Memory, Spill};

use super::operator::{Given, TIGHT_MEMORY, in_parallel, input, large, of_threads, permuted, skewed};
use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_spilled_hash_join_on_any_number_of_threads_gives_what_a_nested_loop_gives(
        kind in kinds(),
        (left, right) in (skewed(), skewed()),
        types in prop::collection::vec(0..KEY_TYPES.len(), 1..4),
        (streams, batch_rows) in (1_usize..5, 1_usize..30),
        build in prop::sample::select(vec![JoinSide::Left, JoinSide::Right]),
        (threads, spare) in (1_usize..17, prop_oneof![1 => 0_usize..64, 4 => 64_usize..16_000]),
    ) {
        let scratch = Scratch::new("join");
        let job = of_threads(&scratch, threads);
        let _rest = job.reserve(job.available() - spare, "a test").unwrap();
        let (left, right) = (table(Side::Left, &types, &left), table(Side::Right, &types, &right));
        let places: Vec<(usize, usize)> = (0..types.len()).map(|place| (place, place)).collect();
        let condition = Condition::new(&places, &left.schema(), &right.schema()).unwrap();
        let given = Given { streams, batch_rows, ..TIGHT_MEMORY };
        let inputs = (input(&left, types.len(), given), input(&right, types.len(), given));
        let found = join(&job, inputs.0, inputs.1, &condition, kind, JoinMethod::Hash(build)).unwrap();
        let schema = found.schema();
        let mut rows: Vec<Vec<String>> = in_parallel(&found, threads).iter().flat_map(rows_of).collect();
        drop(found);
        let mut expected = joined(kind, &left, &right, &condition, &schema);
        rows.sort();
        expected.sort();
        prop_assert_eq!(rows, expected);
        job.reserve(job.available(), "a test").unwrap();
        prop_assert_eq!(job.available(), spare);
    }
}

#[test]
fn pairs_of_spilled_partitions_are_joined_at_the_same_time_as_far_as_memory_allows() {
    let scratch = Scratch::new("join");
    let (left, right) = (large("a", permuted(30_000).map(Some)), large("b", permuted(30_000).map(Some)));
    let condition = Condition::parse("k", &left.schema(), &right.schema()).unwrap();
    for threads in [1, 4, 16] {
        let job = of_threads(&scratch, threads);
        let _rest = job.reserve(job.available() - (2 << 20), "a test").unwrap();
        let inputs = (input(&left, 1, TIGHT_MEMORY), input(&right, 1, TIGHT_MEMORY));
        let method = JoinMethod::Hash(JoinSide::Left);
        let found = join(&job, inputs.0, inputs.1, &condition, JoinKind::Inner, method).unwrap();
        let mut open: Vec<_> = (0..threads.min(2)).map(|_| found.next_part().unwrap().unwrap().1).collect();
        let mut rows: usize = open.drain(..).map(counted).sum();
        while let Some((_, part)) = found.next_part().unwrap() {
            rows += counted(part);
        }
        assert_eq!(rows, 30_000, "{threads} threads");
        assert!(job.phases().spilled_bytes() > 0);
        assert!(job.io().pool().resident() <= job.io().pool().budget());
    }
}

fn counted(part: Box<dyn Batches>) -> usize {
    collect(part).unwrap().iter().map(RecordBatch::num_rows).sum()
}

#[test]
fn a_hash_join_without_the_memory_to_spill_is_refused_before_any_row() {
    let scratch = Scratch::new("join");
    let table = large("a", permuted(1000).map(Some));
    let condition = Condition::parse("k", &table.schema(), &table.schema()).unwrap();
    let job = Job::new(JobOptions {
        memory: 400 << 10,
        spill: vec![scratch.root().to_owned()],
        ..JobOptions::default()
    });
    let unread = || {
        let open = Box::new(|_: &Job| panic!("a side was opened"));
        JoinInput { open, ..input(&table, 1, TIGHT_MEMORY) }
    };
    let method = JoinMethod::Hash(JoinSide::Left);
    let refused = join(&job.unwrap(), unread(), unread(), &condition, JoinKind::Inner, method);
    assert!(matches!(refused.err(), Some(Error::Memory { .. })));
}

#[test]
fn one_frequent_key_is_joined_in_blocks_beside_the_pairs_of_others() {
    let scratch = Scratch::new("join");
    let frequent = |row: i64| Some(if row % 5 == 0 { row } else { 7 });
    let left = large("a", permuted(20_000).map(frequent));
    let right = large("b", [Some(7), None, Some(10), Some(15), Some(99)].into_iter().cycle().take(50));
    let condition = Condition::parse("k", &left.schema(), &right.schema()).unwrap();
    for (kind, rows) in [
        (JoinKind::Inner, 10 * (16_000 + 2)),
        (JoinKind::Full, 10 * (16_000 + 2) + 10 + 10 + 4_000 - 2),
        (JoinKind::Semi, 16_002),
        (JoinKind::Anti, 3_998),
    ] {
        for threads in [1, 4] {
            let job = of_threads(&scratch, threads);
            let _rest = job.reserve(job.available() - (300 << 10), "a test").unwrap();
            let inputs = (input(&left, 1, TIGHT_MEMORY), input(&right, 1, TIGHT_MEMORY));
            let method = JoinMethod::Hash(JoinSide::Left);
            let found = join(&job, inputs.0, inputs.1, &condition, kind, method).unwrap();
            let found = in_parallel(&found, threads);
            let found: usize = found.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(found, rows, "{kind} on {threads} threads");
        }
    }
}

/// Rows of few keys, one of which is frequent, on both sides; the last key has no partner.
fn of_frequent_key(side: Side, rows: usize) -> RecordBatch {
    let alone = if side == Side::Left { 90 } else { 91 };
    let key = |row: usize| match row % 9 {
        0 => None,
        1 => Some(row as i64 % 5),
        2 => Some(alone),
        _ => Some(7),
    };
    table(side, &[0], &(0..rows).map(|row| vec![key(row)]).collect::<Vec<_>>())
}

#[test]
fn a_join_that_was_accepted_ends_however_little_memory_is_left() {
    let (left, right) = (of_frequent_key(Side::Left, 60), of_frequent_key(Side::Right, 50));
    let condition = Condition::parse("k0", &left.schema(), &right.schema()).unwrap();
    let given = Given { streams: 3, batch_rows: 10, ..TIGHT_MEMORY };
    for (kind, build) in
        JOIN_KINDS.into_iter().flat_map(|kind| [(kind, JoinSide::Left), (kind, JoinSide::Right)])
    {
        for (threads, spare) in [(1, 0), (2, 10), (4, 2_000)] {
            let scratch = Scratch::new("join");
            let job = of_threads(&scratch, threads);
            let _rest = job.reserve(job.available() - spare, "a test").unwrap();
            let inputs = (input(&left, 1, given), input(&right, 1, given));
            let found = join(&job, inputs.0, inputs.1, &condition, kind, JoinMethod::Hash(build)).unwrap();
            let schema = found.schema();
            let mut rows: Vec<Vec<String>> = in_parallel(&found, threads).iter().flat_map(rows_of).collect();
            let mut expected = joined(kind, &left, &right, &condition, &schema);
            rows.sort();
            expected.sort();
            assert_eq!(rows, expected, "{kind}, {build:?}, {threads} threads, {spare} bytes");
        }
    }
}

#[test]
fn probe_rows_of_one_key_are_joined_whose_bits_exceed_memory() {
    let scratch = Scratch::new("join");
    let left = large("a", permuted(300_000).map(|row| Some(if row < 10 { 8 } else { 7 })));
    let right = large("b", std::iter::repeat_n(Some(7), 400));
    let condition = Condition::parse("k", &left.schema(), &right.schema()).unwrap();
    for (kind, rows) in [(JoinKind::Semi, 299_990), (JoinKind::Anti, 10)] {
        let job = of_threads(&scratch, 2);
        // A bit of each row takes 37 KB.
        let _rest = job.reserve(job.available() - (20 << 10), "a test").unwrap();
        let inputs = (input(&left, 1, TIGHT_MEMORY), input(&right, 1, TIGHT_MEMORY));
        let method = JoinMethod::Hash(JoinSide::Right);
        let found = join(&job, inputs.0, inputs.1, &condition, kind, method).unwrap();
        let found: usize = in_parallel(&found, 2).iter().map(RecordBatch::num_rows).sum();
        assert_eq!(found, rows, "{kind}");
        assert!(job.io().pool().resident() <= job.io().pool().budget());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_hash_join_gives_what_a_nested_loop_gives(
        kind in kinds(),
        (left, right) in (values(), values()),
        types in prop::collection::vec(0..KEY_TYPES.len(), 1..4),
        (left_rows, right_rows) in (1_usize..12, 1_usize..12),
        builds_left in any::<bool>(),
        spare in prop_oneof![3 => Just(None), 1 => (0_usize..64).prop_map(Some), 1 => (64_usize..10_000).prop_map(Some)],
    ) {
        let scratch = Scratch::new("join");
        let job = job(&scratch);
        let _rest = spare.map(|spare| job.reserve(job.available().saturating_sub(spare), "a test").unwrap());
        let (left, right) = (table(Side::Left, &types, &left), table(Side::Right, &types, &right));
        let places: Vec<(usize, usize)> = (0..types.len()).map(|place| (place, place)).collect();
        let condition = Condition::new(&places, &left.schema(), &right.schema()).unwrap();
        let build = if builds_left { JoinSide::Left } else { JoinSide::Right };
        let (ours, theirs) = (stream(&left, left_rows), stream(&right, right_rows));
        let join = HashJoin::new(&job, ours, theirs, &condition, kind, build).unwrap();
        let schema = join.schema();
        let mut rows: Vec<Vec<String>> = collect(join).unwrap().iter().flat_map(rows_of).collect();
        let mut expected = joined(kind, &left, &right, &condition, &schema);
        rows.sort();
        expected.sort();
        prop_assert_eq!(rows, expected);
    }
}

#[test]
fn rows_of_one_key_that_exceed_memory_are_joined_in_parts() {
    let scratch = Scratch::new("join");
    let job = job(&scratch);
    let _rest = job.reserve(job.available() - (20 << 10), "a test").unwrap();
    let (left, right) = (ints("k", &[Some(7); 700]), ints("k", &[Some(7); 900]));
    let (left_more, right_more) = (ints("k", &[Some(1), None]), ints("k", &[Some(2), None]));
    let concat =
        |a: &RecordBatch, b: &RecordBatch| arrow_select::concat::concat_batches(&a.schema(), [a, b]).unwrap();
    let (left, right) = (concat(&left, &left_more), concat(&right, &right_more));
    let condition = Condition::parse("k", &left.schema(), &right.schema()).unwrap();
    let pairs = 700 * 900;
    for (kind, rows) in [
        (JoinKind::Inner, pairs),
        (JoinKind::Left, pairs + 2),
        (JoinKind::Right, pairs + 2),
        (JoinKind::Full, pairs + 4),
        (JoinKind::Semi, 700),
        (JoinKind::Anti, 2),
    ] {
        for build in [JoinSide::Left, JoinSide::Right] {
            let (ours, theirs) = (stream(&left, 50), stream(&right, 50));
            let join = HashJoin::new(&job, ours, theirs, &condition, kind, build).unwrap();
            let found: usize = collect(join).unwrap().iter().map(RecordBatch::num_rows).sum();
            assert_eq!(found, rows, "{kind} with {build:?}");
        }
    }
}

#[test]
fn a_flipped_bit_of_a_spilled_side_is_an_error_or_never_read() {
    let key = |row: i64| Some(row % 97);
    let (left, right) =
        (ints("k", &Vec::from_iter((0..400).map(key))), ints("k", &Vec::from_iter((0..400).map(key))));
    let condition = Condition::parse("k", &left.schema(), &right.schema()).unwrap();
    let rows = |flips: Vec<u64>| {
        let disk = FakeDisk::default();
        let engine = disk.engine(8, Faults { flips, ..Faults::default() });
        let io = Io::over(engine, BufferPool::with_budget(16 << 20, Memory::Ordinary));
        let options = JobOptions { memory: 96 << 20, threads: 1, ..JobOptions::default() };
        let job = Job::over(options, io.clone());
        job.spill_to(vec![Spill::over(&io, disk.file(Vec::new(), 4096).unwrap())]);
        let _rest = job.reserve(job.available() - (10 << 10), "a test").unwrap();
        let join = HashJoin::new(
            &job,
            stream(&left, 50),
            stream(&right, 50),
            &condition,
            JoinKind::Inner,
            JoinSide::Left,
        );
        let rows = collect(join?)?.iter().map(RecordBatch::num_rows).sum::<usize>();
        Ok::<_, Error>((rows, job.spill_bytes().iter().map(|bytes| bytes.stored_bytes).sum::<u64>()))
    };
    let (expected, stored) = rows(Vec::new()).unwrap();
    assert!(stored > 0);
    let mut damaged = 0;
    for bit in (0..stored * 8).step_by(16_001) {
        match rows(vec![bit]) {
            Ok((found, _)) => assert_eq!(found, expected),
            Err(error) => {
                assert!(matches!(error, Error::SpillDamaged { .. }), "{error:?}");
                damaged += 1;
            }
        }
    }
    assert!(damaged > 0);
}

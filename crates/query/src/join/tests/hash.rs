//! Tests of hash joins in memory, by partitions and in parts.

use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::{BufferPool, Io, Memory, Spill};

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_hash_join_gives_what_a_nested_loop_gives(
        kind in kinds(),
        (left, right) in (values(), values()),
        types in prop::collection::vec(0..KEY_TYPES.len(), 1..4),
        (left_rows, right_rows) in (1_usize..12, 1_usize..12),
        builds_left in any::<bool>(),
        spare in prop_oneof![3 => Just(None), 1 => (0_usize..10_000).prop_map(Some)],
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

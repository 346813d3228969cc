//! Tests of joins whose streams or disks fail.

use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::{BufferPool, Io, Memory, Spill};

use super::operator::{TIGHT_MEMORY, input, large, of_threads, permuted, streams};
use super::*;
use crate::join::partitioned::Pairs;
use crate::sort::router::SpillFiles;

/// A stream that fails after some batches.
struct Failing(RecordBatch, usize);

impl Batches for Failing {
    fn schema(&self) -> arrow_schema::SchemaRef {
        self.0.schema()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        self.1 = self.1.checked_sub(1).ok_or_else(|| Error::Query("a stream failed".to_owned()))?;
        Ok(Some(self.0.clone()))
    }
}

#[test]
fn an_error_of_any_stream_is_the_error_of_the_join() {
    let scratch = Scratch::new("join");
    let table = large("a", permuted(1000).map(Some));
    let condition = Condition::parse("k", &table.schema(), &table.schema()).unwrap();
    for method in [JoinMethod::Merge, JoinMethod::Hash(JoinSide::Left), JoinMethod::Hash(JoinSide::Right)] {
        for failing in [0, 1] {
            for batches in [0, 3] {
                let job = of_threads(&scratch, 2);
                let [left, right] = [0, 1].map(|side| {
                    let mut input = input(&table, 1, TIGHT_MEMORY);
                    if side == failing {
                        let mut streams = streams(&table, TIGHT_MEMORY);
                        streams[1] = Box::new(Failing(table.clone(), batches));
                        input.open = Box::new(|_| Ok(streams));
                    }
                    input
                });
                let outcome = join(&job, left, right, &condition, JoinKind::Full, method)
                    .and_then(|found| collect(found.into_batches()));
                let error = outcome.unwrap_err().to_string();
                assert_eq!(error, "a stream failed", "{method:?} of side {failing}");
            }
        }
    }
}

/// Joins two tables on a disk with faults.
fn joined_with(faults: Faults, left: &RecordBatch, right: &RecordBatch) -> Result<usize, Error> {
    let disk = FakeDisk::default();
    let file = disk.file(Vec::new(), 4096).unwrap();
    let io = Io::over(disk.engine(4, faults), BufferPool::with_budget(1 << 20, Memory::Ordinary));
    let options = JobOptions { memory: TEST_MEMORY_BYTES, threads: 2, ..JobOptions::default() };
    let job = Job::over(options, io.clone());
    let spill = Spill::over(&io, file);
    let spills = [spill.clone(), spill].map(|spill| SpillFiles::over(&job, vec![spill]));
    let condition = Condition::parse("k", &left.schema(), &right.schema()).unwrap();
    let inputs = [input(left, 1, TIGHT_MEMORY), input(right, 1, TIGHT_MEMORY)];
    let pairs = Pairs::with_spills(&job, inputs, &condition, JoinKind::Full, spills)?;
    let joined =
        Joined { schema: pairs.schema(), is_ordered: true, is_parallel: true, parts: Arc::new(pairs) };
    Ok(collect(joined.into_batches())?.iter().map(RecordBatch::num_rows).sum())
}

#[test]
fn transfers_that_fail_give_an_error_and_short_or_late_ones_the_right_rows() {
    let left = large("a", permuted(12_000).map(Some));
    let right = large("b", permuted(6_000).map(|row| Some(row * 3)));
    let rows = 12_000 + 2_000;
    for seed in 0..3 {
        let faults =
            Faults { seed, short_of_256: 60, interrupted_of_256: 60, late_of_256: 60, ..Faults::default() };
        assert_eq!(joined_with(faults, &left, &right).unwrap(), rows);
    }
    for byte in (0..600_000).step_by(75_000) {
        let faults = Faults { errors: vec![(byte, 5)], ..Faults::default() };
        let error = joined_with(faults, &left, &right).expect_err("a failed write");
        assert!(matches!(error, Error::Io(sakiyomi_io::Error::Write { .. })), "{error}");
    }
    for calls in (100..400).step_by(50) {
        let faults = Faults { shrinks: Some((calls, 4096)), ..Faults::default() };
        if let Ok(found) = joined_with(faults, &left, &right) {
            assert_eq!(found, rows);
        }
    }
}

//! Tests of merging workers' groups: order, overflow and cancellation.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::*;

const GROUP_COUNT: usize = 3000;

fn numbers() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]))
}

/// A stream of the numbers `start`, `start + step`, ..., in an order that is not theirs.
fn stepped(start: usize, step: usize, count: usize) -> Box<dyn Batches> {
    let values: Int64Array = (0..count).map(|at| (start + at * 7 % count * step) as i64).collect();
    let batch = RecordBatch::try_new(numbers(), vec![Arc::new(values)]).unwrap();
    Box::new(InMemory::new(numbers(), (0..count / 100).map(|at| batch.slice(at * 100, 100)).collect()))
}

fn by_number() -> Aggregation {
    let keys = Aggregation::parse_keys("n", &numbers()).unwrap();
    Aggregation::new(keys, vec![Aggregate::rows()], None, &numbers()).unwrap()
}

#[test]
fn a_result_that_is_called_sorted_is_sorted_even_if_merging_needs_more_memory_than_grouping() {
    let scratch = Scratch::new("aggregate-order");
    let (mut sorted, mut unsorted) = (0, 0);
    for kibibytes in (64..700).step_by(24) {
        let job = job(&scratch);
        let inputs = vec![stepped(0, 2, GROUP_COUNT), stepped(1, 2, GROUP_COUNT)];
        let result =
            aggregate_within(&job, &SpillPlace::of(&job).unwrap(), kibibytes << 10, by_number(), inputs)
                .unwrap();
        let is_sorted = result.is_sorted();
        let found: Vec<u64> =
            all(result.into_stream()).unwrap().iter().map(|row| row[0].parse().unwrap()).collect();
        assert_eq!(found.len(), 2 * GROUP_COUNT);
        assert!(!is_sorted || found.is_sorted(), "{kibibytes} KiB");
        *(if is_sorted { &mut sorted } else { &mut unsorted }) += 1;
    }
    assert!(sorted > 0 && unsorted > 0, "{sorted} sorted, {unsorted} unsorted");
}

#[test]
fn a_256_bit_sum_that_overflows_only_when_workers_merge_is_an_error() {
    use arrow_buffer::i256;
    let scratch = Scratch::new("aggregate-wide");
    let data_type = DataType::Decimal256(76, 0);
    let schema = Arc::new(Schema::new(vec![Field::new("w", data_type, false)]));
    // A damaged file may hold more digits than the type has.
    let stream = || {
        let values = Decimal256Array::from(vec![i256::MAX]).with_data_type(DataType::Decimal256(76, 0));
        let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(values)]).unwrap();
        Box::new(InMemory::new(schema.clone(), vec![batch])) as Box<dyn Batches>
    };
    // Four times the maximum wraps to -4, which has few digits.
    let sum = Aggregate::parse(Function::Sum, "w", &schema).unwrap();
    let plan = Aggregation::new(Vec::new(), vec![sum], None, &schema).unwrap();
    let result = aggregate(&job(&scratch), plan, (0..4).map(|_| stream()).collect());
    let error = result.and_then(|result| all(result.into_stream())).unwrap_err().to_string();
    assert!(error.contains("a sum does not fit"), "{error}");
}

/// A stream that cancels the job at its end, together with others.
struct Cancelling(Box<dyn Batches>, Job, Arc<Barrier>);

impl Batches for Cancelling {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        let batch = self.0.next()?;
        if batch.is_none() {
            self.2.wait();
            self.1.cancel();
        }
        Ok(batch)
    }
}

#[test]
fn merging_a_partition_is_cancelled_midway() {
    let scratch = Scratch::new("aggregate-cancel");
    let (job, barrier) = (job(&scratch), Arc::new(Barrier::new(2)));
    let stream = |start| {
        let stream = stepped(start, 2, GROUP_COUNT);
        Box::new(Cancelling(stream, job.clone(), Arc::clone(&barrier))) as Box<dyn Batches>
    };
    let result = aggregate_within(
        &job,
        &SpillPlace::of(&job).unwrap(),
        4 << 20,
        by_number(),
        vec![stream(0), stream(1)],
    );
    assert!(matches!(result, Err(Error::Cancelled)));
}

#[test]
fn a_panic_of_a_worker_stops_the_others() {
    struct Panicking(SchemaRef);
    impl Batches for Panicking {
        fn schema(&self) -> SchemaRef {
            self.0.clone()
        }
        fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
            panic!("a defect")
        }
    }
    /// Gives the same batch until it is stopped, or for 10 seconds.
    struct Endless(RecordBatch, Instant, Arc<AtomicBool>);
    impl Batches for Endless {
        fn schema(&self) -> SchemaRef {
            self.0.schema()
        }
        fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
            let is_late = self.1.elapsed() > Duration::from_secs(10);
            self.2.store(is_late, Ordering::Relaxed);
            Ok(Some(self.0.clone()).filter(|_| !is_late))
        }
    }
    let scratch = Scratch::new("aggregate-panic");
    let batch = stepped(0, 1, 100).next().unwrap().unwrap();
    let is_late = Arc::new(AtomicBool::new(false));
    let endless = Endless(batch.slice(0, 1), Instant::now(), Arc::clone(&is_late));
    let inputs: Vec<Box<dyn Batches>> = vec![Box::new(Panicking(numbers())), Box::new(endless)];
    let run = || aggregate(&job(&scratch), by_number(), inputs);
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"a defect"));
    assert!(!is_late.load(Ordering::Relaxed), "the other worker was not stopped");
}

#[test]
fn zeros_of_both_signs_are_one_group_and_all_nans_another() {
    let floats = [0.0, -0.0, f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001)];
    let values: Float64Array = (0..600).map(|row| floats.get(row % 6).copied()).collect();
    for data_type in [DataType::Float64, DataType::Float32, DataType::Float16] {
        for (keys, count) in [("f", 3), ("f, g", 3), ("f, t", 3)] {
            let scratch = Scratch::new("aggregate-zero");
            let floats = arrow_cast::cast(&values, &data_type).unwrap();
            let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"; 600]));
            let columns = [("f", Arc::clone(&floats)), ("g", floats), ("t", texts)];
            let batch =
                RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
            let batch = batch.unwrap();
            let schema = batch.schema();
            let distinct = Aggregate::parse(Function::CountDistinct, "f", &schema).unwrap();
            let keys = Aggregation::parse_keys(keys, &schema).unwrap();
            let plans = [(keys, count), (Vec::new(), 1)];
            for (keys, count) in plans {
                let plan = Aggregation::new(keys.clone(), vec![distinct.clone()], None, &schema).unwrap();
                let streams = (0..3).map(|at| {
                    let batches = vec![batch.slice(at * 200, 100), batch.slice(at * 200 + 100, 100)];
                    Box::new(InMemory::new(schema.clone(), batches)) as Box<dyn Batches>
                });
                let found =
                    all(aggregate(&job(&scratch), plan, streams.collect()).unwrap().into_stream()).unwrap();
                let distinct: Vec<&str> = found.iter().map(|row| row[keys.len()].as_str()).collect();
                assert_eq!(distinct, if count == 1 { vec!["2"] } else { vec!["1", "1", "0"] }, "{data_type}");
            }
        }
    }
}

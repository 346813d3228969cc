//! Failed results: the file never appears, and the error says why.

use arrow_array::Int64Array;
use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::{BufferPool, Memory, WriteOptions, WriteStream};

use super::*;

/// Error numbers of Linux.
const EIO: i32 = 5;

/// Groups of about 160 KB each.
fn groups() -> Vec<Vec<RecordBatch>> {
    let numbers = |group: i64| Int64Array::from_iter_values((0..20_000).map(|row| group << 40 | row << 17));
    (0..10).map(|group| vec![table(&[("n", Arc::new(numbers(group)))])]).collect()
}

/// Writes to a disk in memory; returns the outcome and the bytes.
fn write_to(disk: &FakeDisk, faults: Faults, format: Format) -> (Result<u64, Error>, Vec<u8>) {
    let file = disk.file(Vec::new(), 512).unwrap();
    let pool = BufferPool::with_budget(1 << 20, Memory::Ordinary);
    let options = WriteOptions { block: 64 << 10, ..WriteOptions::default() };
    let stream = WriteStream::over(disk.engine(4, faults), pool, &file, &options).unwrap();
    let write = || {
        let options = OutputOptions::new(format);
        let encoder = Encoder::new(&job(), &groups()[0][0].schema(), &options)?;
        let mut output = Output::over(Sink::over(stream), encoder.clone(), &options)?;
        for group in groups() {
            output.append(encoder.encode(&group)?)?;
        }
        output.finish()
    };
    (write(), disk.content(&file))
}

const FORMATS: [Format; 4] = [Format::Parquet, Format::ArrowFile, Format::ArrowStream, Format::Csv];

#[test]
fn short_and_interrupted_writes_change_nothing() {
    for format in FORMATS {
        let (outcome, plain) = write_to(&FakeDisk::default(), Faults::default(), format);
        assert_eq!(outcome.unwrap(), plain.len() as u64);
        let faults = Faults {
            seed: 3,
            short_of_256: 100,
            interrupted_of_256: 50,
            late_of_256: 100,
            ..Faults::default()
        };
        let (outcome, bytes) = write_to(&FakeDisk::default(), faults, format);
        assert_eq!(outcome.unwrap(), bytes.len() as u64);
        assert!(bytes == plain, "{format:?}");
    }
}

#[test]
fn a_full_disk_is_an_error_that_says_how_far_it_came() {
    for format in FORMATS {
        for capacity in [4096, 300 << 10, 900 << 10] {
            let (outcome, _) =
                write_to(&FakeDisk::default(), Faults { capacity, ..Faults::default() }, format);
            let error = outcome.unwrap_err();
            assert!(matches!(error, Error::Io(sakiyomi_io::Error::Full { .. })), "{format:?}: {error:?}");
        }
    }
}

#[test]
fn a_disk_error_is_reported_unchanged() {
    for format in FORMATS {
        for byte in [0, 500 << 10, 1000 << 10] {
            let faults = Faults { errors: vec![(byte, EIO)], ..Faults::default() };
            let (outcome, _) = write_to(&FakeDisk::default(), faults, format);
            let error = outcome.unwrap_err();
            let Error::Io(sakiyomi_io::Error::Write { source, .. }) = &error else {
                panic!("{format:?}: {error:?}")
            };
            assert_eq!(source.raw_os_error(), Some(EIO));
        }
    }
}

#[test]
fn a_result_that_is_dropped_or_fails_leaves_what_was_there() {
    let scratch = Scratch::new("output-dropped");
    let path = scratch.path("result");
    std::fs::write(&path, "before").unwrap();
    for format in FORMATS {
        let schema = groups()[0][0].schema();
        let target = Target::File(path.clone());
        let mut output = Output::create(&job(), &target, &schema, &OutputOptions::new(format)).unwrap();
        let group = output.encoder().encode(&groups()[0]).unwrap();
        output.append(group).unwrap();
        drop(output);
        let cancelled = job();
        let output = Output::create(&cancelled, &target, &schema, &OutputOptions::new(format)).unwrap();
        cancelled.cancel();
        assert!(matches!(output.finish(), Err(Error::Cancelled)));
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
    }
    assert_eq!(scratch.entries(), 1);
}

#[test]
fn a_group_that_does_not_fit_into_memory_is_an_error() {
    let scratch = Scratch::new("output-memory");
    let small = Job::new(JobOptions { memory: 8 << 20, threads: 1, ..JobOptions::default() }).unwrap();
    let numbers = Int64Array::from_iter_values((0..1_000_000).map(|row| row << 20));
    let batch = table(&[("n", Arc::new(numbers))]);
    let target = Target::File(scratch.path("large"));
    let output =
        Output::create(&small, &target, &batch.schema(), &OutputOptions::new(Format::Parquet)).unwrap();
    let before = small.available();
    assert!(matches!(output.encoder().encode(&[batch]), Err(Error::Memory { .. })));
    assert_eq!(small.available(), before);
}

#[test]
fn groups_in_flight_are_reserved_and_their_memory_is_used_again() {
    let scratch = Scratch::new("output-reserved");
    let job = job();
    let target = Target::File(scratch.path("result"));
    let schema = groups()[0][0].schema();
    let mut output = Output::create(&job, &target, &schema, &OutputOptions::new(Format::Parquet)).unwrap();
    let encoder = output.encoder();
    let before = job.available();
    let group = encoder.encode(&groups()[0]).unwrap();
    let in_flight = before - job.available();
    assert!(in_flight >= 160_000, "{in_flight}");
    output.append(group).unwrap();
    for group in groups() {
        output.append(encoder.encode(&group).unwrap()).unwrap();
    }
    assert!(before - job.available() <= in_flight + in_flight / 2);
    output.finish().unwrap();
}

#[test]
fn a_device_is_written_in_place() {
    for format in FORMATS {
        let schema = groups()[0][0].schema();
        let target = Target::File("/dev/null".into());
        let mut output = Output::create(&job(), &target, &schema, &OutputOptions::new(format)).unwrap();
        let group = output.encoder().encode(&groups()[0]).unwrap();
        output.append(group).unwrap();
        assert!(output.finish().unwrap() > 100_000);
    }
}

#[test]
fn a_full_device_is_an_error() {
    let schema = groups()[0][0].schema();
    let target = Target::File("/dev/full".into());
    let mut output = Output::create(&job(), &target, &schema, &OutputOptions::new(Format::Csv)).unwrap();
    let group = output.encoder().encode(&groups()[0]).unwrap();
    let outcome = output.append(group).and_then(|()| output.finish().map(drop));
    assert!(matches!(outcome, Err(Error::Io(sakiyomi_io::Error::Write { .. }))));
}

//! Entry points of the fuzz targets, as plain functions that the tests run, too. Not part of the interface.

use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use arrow_array::{Array, RecordBatch};
use sakiyomi_io::file::create_unnamed;
use sakiyomi_io::{Access, IoFile};

use super::content::{self, Content, Data, Once};
use super::source::Source;
use super::stream::{Opened, Stream};
use super::{Format, OpenOptions, Representation, ScanOptions, Table};
use crate::{Error, Job, JobOptions};
use sakiyomi_expression::Expression;

/// Memory limit of the job in which tables are scanned.
pub const JOB_BYTES: usize = 16 << 20;

/// Memory of each scan.
const SCAN_BYTES: usize = 4 << 20;

/// Rows after which a scan is abandoned: a few bytes can claim any number of rows.
const ROWS_MAX: usize = 50_000;

/// Longest sentence of an error. It may name a few columns and types of the file, but not its contents.
const SENTENCE_MAX_BYTES: usize = 2000;

/// Rows of a batch, fewer than the rows of the seeds.
const BATCH_ROWS: usize = 37;

/// Opens and scans a Parquet file.
///
/// # Panics
/// Where a promise is broken: that is what fuzzing looks for. So for the other functions.
pub fn parquet(data: &[u8]) {
    file(data, Format::Parquet);
}

/// Opens and scans an Arrow IPC file.
pub fn arrow_file(data: &[u8]) {
    file(data, Format::ArrowFile);
}

/// Opens and scans an Arrow IPC stream, in a file and through a pipe.
pub fn arrow_stream(data: &[u8]) {
    file(data, Format::ArrowStream);
    stream(data, Format::ArrowStream);
}

/// Opens and scans CSV, in a file and through a pipe.
pub fn csv(data: &[u8]) {
    file(data, Format::Csv);
    stream(data, Format::Csv);
}

/// Runs `work` in a job that all runs share, and checks that it returns its memory. Runs are serialized.
fn with_job(work: impl FnOnce(&Job) -> Result<(), Error>) {
    static JOB: OnceLock<Mutex<Job>> = OnceLock::new();
    let options = JobOptions { memory: JOB_BYTES, threads: 2, ..JobOptions::default() };
    let job = JOB.get_or_init(|| Mutex::new(Job::new(options).expect("threads that read")));
    let job = job.lock().unwrap_or_else(PoisonError::into_inner);
    let available = job.available();
    if let Err(error) = work(&job) {
        let sentence = error.to_string();
        let is_sentence = !sentence.is_empty() && sentence.len() <= SENTENCE_MAX_BYTES;
        assert!(is_sentence && !sentence.contains('\n'), "an error is one sentence: {sentence}");
    }
    assert_eq!(job.available(), available, "memory is returned");
    // A read of an abandoned scan holds its buffer until a later scan reaps it. A leak would add up over the runs.
    let pool = job.io().pool();
    assert!(pool.unclaimed() >= pool.budget() / 2, "buffers are returned");
}

fn options(format: Format) -> OpenOptions {
    OpenOptions { format: Some(format), ..OpenOptions::default() }
}

fn file(data: &[u8], format: Format) {
    let opened = || -> Result<Table, Error> {
        let path = Path::new("fuzz");
        let failed = |source| super::source::open_error(path, source);
        let mut file = create_unnamed(&std::env::temp_dir(), Access::Buffered).map_err(failed)?;
        file.write_all(data).map_err(failed)?;
        let source = Source::unnamed(path, IoFile::from_file(file, path, Access::Buffered)?.into());
        let options = options(format);
        Ok(Table { data: content::open_sources(vec![source], &options)?, options })
    };
    with_job(|job| {
        let table = opened()?;
        inspect(&table, job);
        let all: Vec<usize> = (0..table.schema().fields().len()).collect();
        let wanted = ScanOptions { batch_rows: BATCH_ROWS, memory: SCAN_BYTES, ..ScanOptions::new(all) };
        let ordered = scan(&table, job, &wanted);
        let compact =
            ScanOptions { streams: 2, ordered: false, representation: Representation::COMPACT, ..wanted };
        scan(&table, job, &compact)?;
        ordered
    });
}

fn stream(data: &[u8], format: Format) {
    with_job(|job| {
        let options = options(format);
        let reader = Box::new(Cursor::new(data.to_vec()));
        let Opened::Stream(schema, stream) = Stream::begin(Path::new("fuzz"), reader, &options)? else {
            unreachable!("these formats are not spooled")
        };
        let content = Content::Stream(stream.format, Mutex::new(Some(Once::Bytes(stream))));
        let all: Vec<usize> = (0..schema.fields().len()).collect();
        let table = Table { data: Data { schema, content }, options };
        let wanted = ScanOptions { batch_rows: BATCH_ROWS, memory: SCAN_BYTES, ..ScanOptions::new(all) };
        scan(&table, job, &wanted)
    });
}

/// Looks at what the metadata says, which never fails.
fn inspect(table: &Table, job: &Job) {
    let schema = table.schema();
    let columns: Vec<usize> = (0..schema.fields().len()).collect();
    for &column in &columns {
        let _ = (table.statistics(column), table.storage(column));
    }
    let _ = (table.rows(), table.bytes(&columns), table.declared_order());
    if let Ok(sample) = table.sample(job, &columns, BATCH_ROWS) {
        check(&sample);
    }
    // The seeds have numbers in the first column.
    if let Some(field) = schema.fields().first()
        && let Ok(condition) = Expression::condition(&format!("\"{}\" > 5", field.name()), &schema)
    {
        let _ = table.extent(&ScanOptions { condition: Some(condition), ..ScanOptions::new(columns) });
    }
}

/// Reads all streams to the end, to an error, or to [`ROWS_MAX`].
fn scan(table: &Table, job: &Job, options: &ScanOptions) -> Result<(), Error> {
    let mut rows = 0;
    for mut stream in table.scan(job, options)? {
        while let Some(batch) = stream.next()? {
            check(&batch);
            assert!((1..=options.batch_rows).contains(&batch.num_rows()), "batches have the wanted rows");
            assert_eq!(batch.schema(), stream.schema(), "batches have the stream's schema");
            rows += batch.num_rows();
            if rows > ROWS_MAX {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Checks what operators rely on without looking: offsets, keys and UTF-8.
fn check(batch: &RecordBatch) {
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let outcome = column.to_data().validate_full();
        assert!(outcome.is_ok(), "column {} of type {}: {outcome:?}", field.name(), field.data_type());
    }
}

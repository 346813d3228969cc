//! Planning of scans: division of the memory, and one worker per stream.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::arrow::{ArrowFile, ArrowPlan, ArrowScan, ArrowStream, Loaded, StreamScan, batch_memory};
use super::content::{Content, Data, Once};
use super::csv::{CsvInput, CsvPlan, CsvScan};
use super::decoder_memory::DecoderMemory;
use super::fetch::{Fetcher, RangesOf, Shared, Split};
use super::options::{Format, ScanOptions};
use super::parquet::{self, Divisions, ParquetFile, ParquetPlan, ParquetScan, Runs, page_memory};
use super::prune;
use super::source::Source;
use super::splits::{scan_fields, scan_schema};
use super::types::Shape;
use crate::batches::InMemory;
use crate::job::{Reservation, scan_blocks_bytes};
use crate::{Batches, Error, Job};

/// Bytes that the CSV decoder needs per field, including its value.
const CSV_FIELD_BYTES: usize = 64;

/// Thirteen sixteenths of the buffer budget can be lent to decoders of large pages. One sixteenth is then for file data,
/// and two are left to operators, which need 2 MiB or more, besides what they have reserved already.
const LENT_NUMERATOR: usize = 13;
/// See [`LENT_NUMERATOR`].
const LENT_DENOMINATOR: usize = 16;

/// Reason to refuse a second scan of a stream.
const READ_ALREADY: &str = "the stream was read already, and can be read only once";

/// Purpose that errors about the memory of metadata name.
const METADATA: &str = "keeping the metadata of a table";

/// The part of a table that is sampled.
pub(super) struct Sampled {
    pub(super) splits: Vec<Split>,
    /// Rows to decode in each row group; all if `None`.
    pub(super) runs: Option<Runs>,
}

/// A scan in preparation.
struct Scan<'a> {
    table: &'a Data,
    job: &'a Job,
    options: &'a ScanOptions,
    /// Columns to decode, in file order, each once.
    columns: Vec<usize>,
    shape: Shape,
    /// Memory for file bytes, of all workers together.
    io_bytes: usize,
    /// Decoder memory per worker, in bytes.
    decoder_bytes: usize,
    /// Row groups that can be decoded in parts.
    divisions: Divisions,
    kept: Kept,
}

/// Memory held from the start to the end of a scan, whatever it reads.
struct Kept {
    /// The dictionaries of each Arrow file.
    dictionaries: Vec<Loaded>,
    /// Memory of the dictionaries, and of the metadata of all files.
    memory: Reservation,
}

impl Kept {
    /// Reserves the memory, before the rest is divided.
    fn new(table: &Data, job: &Job, columns: &[usize], workers: usize) -> Result<Kept, Error> {
        let mut memory = job.reserve(0, METADATA)?;
        let mut dictionaries = Vec::new();
        match &table.content {
            Content::Parquet(files, _) => {
                let files_bytes: usize = files.iter().map(ParquetFile::memory_bytes).sum();
                // Each worker decodes the metadata of a row group, beside one that is decoded for statistics.
                let decoded = files.iter().map(|file| file.groups.decoded_bytes()).max().unwrap_or(0);
                memory.resize(files_bytes.saturating_add(decoded.saturating_mul(workers + 1)), METADATA)?;
            }
            Content::Arrow(files) => {
                memory.resize(files.iter().map(ArrowFile::memory_bytes).sum(), METADATA)?;
                let load = |file: &ArrowFile| file.load(job, columns, &mut memory);
                dictionaries = files.iter().map(load).collect::<Result<_, _>>()?;
            }
            Content::Csv(_) | Content::Stream(..) => {}
        }
        Ok(Kept { dictionaries, memory })
    }
}

/// Starts a scan of the sampled part, or of the whole table.
pub(super) fn scan(
    table: &Data,
    job: &Job,
    options: &ScanOptions,
    sample: Option<Sampled>,
) -> Result<Vec<Box<dyn Batches>>, Error> {
    if let Some(column) = options.columns.iter().find(|&&column| column >= table.schema.fields().len()) {
        let count = table.schema.fields().len();
        return Err(Error::Query(format!("the table has {count} columns, and no column index {column}")));
    }
    let mut columns = options.columns.clone();
    columns.sort_unstable();
    columns.dedup();
    let place = |column| columns.binary_search(column).expect("a projected column");
    let places = options.columns.iter().map(place).collect();
    let shape = Shape { schema: scan_schema(table, &options.columns, options.representation), places };
    let workers = if options.ordered { 1 } else { options.streams.max(1) };
    let kept = Kept::new(table, job, &columns, workers)?;
    // Half of the memory is for file bytes and half for decoding; large blocks need more, and less is used if the job
    // has less left.
    let blocks_bytes = scan_blocks_bytes(options.block, workers).min(job.io().pool().unclaimed() / 4 * 3);
    let io_bytes = (options.memory / 2).max(blocks_bytes).min(job.scan_budget());
    let decoder_bytes = (options.memory / 2).min(job.available() / 2) / workers;
    let divisions = Divisions::new();
    let mut scan = Scan { table, job, options, columns, shape, io_bytes, decoder_bytes, divisions, kept };
    match &table.content {
        Content::Parquet(..) | Content::Arrow(_) => {
            let Sampled { splits, runs } =
                sample.unwrap_or_else(|| Sampled { splits: prune::selected(table, options), runs: None });
            if let (Content::Parquet(files, _), None) = (&table.content, runs) {
                scan.divisions = parquet::divisions(files, &splits, &scan.columns, workers)?;
            }
            // Workers without a split need no memory.
            let few = workers.min(splits.len()).max(1);
            let mut busy = parquet::workers(&splits, &scan.divisions, workers);
            scan.decoder_bytes = decoder_bytes * workers;
            if busy > few && !scan.has_memory(&splits, busy)? {
                scan.divisions.clear();
                busy = few;
            }
            let busy = scan.affordable(&splits, busy)?;
            scan.decoder_bytes /= busy;
            let mut streams = scan.of_splits(splits, runs, busy)?;
            let schema = scan_schema(table, &options.columns, options.representation);
            streams.resize_with(workers, || Box::new(InMemory::new(Arc::clone(&schema), Vec::new())));
            Ok(streams)
        }
        Content::Csv(files) => scan.of_csv(CsvInput::Files(VecDeque::from(files.clone())), workers),
        Content::Stream(_, stream) => scan.of_stream(stream, workers),
    }
}

impl Scan<'_> {
    /// Returns the bytes that each of `workers` decoders needs beyond its share, and takes from the buffer budget.
    /// The budget then has fewer bytes for file data.
    fn page_bytes(&mut self, splits: &[Split], workers: usize) -> Result<usize, Error> {
        let files = match &self.table.content {
            Content::Parquet(files, _) => files,
            Content::Arrow(files) => return self.batch_bytes(&Arc::clone(files), splits, workers),
            Content::Csv(_) | Content::Stream(..) => return Ok(0),
        };
        let (share, whole) = (self.decoder_bytes, self.io_bytes / workers / 2);
        let memory = page_memory(files, splits, &self.columns, share / 2, whole as u64)?;
        // Half of a share is for the batch.
        let beyond = |pages: usize| pages.saturating_sub(share / 2);
        // Small pages of many columns are decoded in turn.
        if beyond(memory.largest) == 0 {
            return Ok(0);
        }
        let (most, io_bytes) = self.lendable(workers);
        let fits = beyond(memory.all) <= most + self.job.available() / 2 / workers;
        let wanted = beyond(if fits { memory.all } else { memory.largest }).min(most);
        if wanted > 0 {
            self.io_bytes = io_bytes;
        }
        Ok(wanted)
    }

    /// Like [`Scan::page_bytes`], for record batches that are decoded as a whole.
    fn batch_bytes(&mut self, files: &[ArrowFile], splits: &[Split], workers: usize) -> Result<usize, Error> {
        let (share, whole) = (self.decoder_bytes, (self.io_bytes / workers / 2) as u64);
        if batch_memory(files, splits, &self.columns, whole)? <= share / 2 {
            return Ok(0);
        }
        let (most, io_bytes) = self.lendable(workers);
        self.io_bytes = io_bytes;
        // Less file data is held now, so that more record batches are decoded as a whole.
        let need = batch_memory(files, splits, &self.columns, (io_bytes / workers / 2) as u64)?;
        Ok(need.saturating_sub(share / 2).min(most))
    }

    /// Returns the bytes that each of `workers` decoders can take from the buffer budget, and those left for file
    /// data then.
    fn lendable(&self, workers: usize) -> (usize, usize) {
        let pool = self.job.io().pool();
        let part = pool.budget() / LENT_DENOMINATOR;
        let io_bytes = self.io_bytes.min(part);
        let left = (LENT_DENOMINATOR - LENT_NUMERATOR - 1) * part;
        let free = pool.unclaimed().saturating_sub(io_bytes + left);
        ((part * LENT_NUMERATOR).min(free) / workers, io_bytes)
    }

    /// Returns whether each of `workers` decoders has the memory for the pages of all columns, without any of the
    /// buffer budget: workers that decode parts of row groups must not leave less to operators, or decode columns in
    /// turn.
    fn has_memory(&self, splits: &[Split], workers: usize) -> Result<bool, Error> {
        let Content::Parquet(files, _) = &self.table.content else { return Ok(true) };
        let (share, whole) = (self.decoder_bytes / workers, self.io_bytes / workers / 2);
        let pages = page_memory(files, splits, &self.columns, share / 2, whole as u64)?;
        let beyond = |pages: usize| pages.saturating_sub(share / 2);
        Ok(beyond(pages.largest) == 0 && beyond(pages.all) <= self.job.available() / 2 / workers)
    }

    /// Returns the largest number of workers, at most `workers`, for each of which there is memory for the largest
    /// pages of a column: too many would fail when they decode them. One worker is there always, and may fail.
    fn affordable(&self, splits: &[Split], workers: usize) -> Result<usize, Error> {
        let all = self.decoder_bytes;
        let mut workers = workers;
        while workers > 1 {
            let (share, whole) = (all / workers, self.io_bytes / workers / 2);
            let pages = match &self.table.content {
                Content::Parquet(files, _) => {
                    page_memory(files, splits, &self.columns, share / 2, whole as u64)?.largest
                }
                Content::Arrow(files) => batch_memory(files, splits, &self.columns, whole as u64)?,
                Content::Csv(_) | Content::Stream(..) => return Ok(workers),
            };
            if pages.saturating_sub(share / 2) <= self.lendable(workers).0 {
                break;
            }
            workers -= workers.div_ceil(4);
        }
        Ok(workers)
    }

    fn of_splits(
        mut self,
        splits: Vec<Split>,
        runs: Option<Runs>,
        workers: usize,
    ) -> Result<Vec<Box<dyn Batches>>, Error> {
        let extra = self.page_bytes(&splits, workers)?;
        let mut divisions = std::mem::take(&mut self.divisions);
        let splits = parquet::divided(splits, &mut divisions, workers, (self.io_bytes / workers / 2) as u64);
        let divisions = Arc::new(divisions);
        let (sources, ranges) = self.ranges(&divisions);
        let block = self.options.block;
        let shared = Arc::new(Shared::new(sources, splits, ranges, workers, self.io_bytes, block));
        let mut streams: Vec<Box<dyn Batches>> = Vec::with_capacity(workers);
        // All accounts are opened before anything is borrowed.
        let fetchers = (0..workers).map(|worker| Fetcher::new(self.job, &shared, worker));
        let fetchers = fetchers.collect::<Result<Vec<_>, Error>>()?.into_iter().map(|fetcher| {
            let memory = DecoderMemory::new(self.job, self.decoder_bytes, extra)?;
            Ok((fetcher, memory))
        });
        let fetchers = fetchers.collect::<Result<Vec<_>, Error>>()?;
        match &self.table.content {
            Content::Parquet(files, _) => {
                let types = scan_fields(self.table, self.options.representation);
                let plan = Arc::new(ParquetPlan {
                    files: Arc::clone(files),
                    columns: self.columns,
                    types,
                    shape: self.shape,
                    batch_rows: self.options.batch_rows.max(1),
                    runs,
                    divisions,
                    metadata: self.kept.memory,
                });
                for (fetcher, memory) in fetchers {
                    streams.push(Box::new(ParquetScan::new(self.job, &plan, fetcher, memory)));
                }
            }
            Content::Arrow(files) => {
                let Kept { dictionaries, memory } = self.kept;
                let plan = Arc::new(ArrowPlan {
                    files: Arc::clone(files),
                    columns: self.columns,
                    shape: self.shape,
                    batch_rows: self.options.batch_rows.max(1),
                    dictionaries,
                    memory,
                });
                for (fetcher, memory) in fetchers {
                    streams.push(Box::new(ArrowScan::new(self.job, &plan, fetcher, memory)));
                }
            }
            Content::Csv(_) | Content::Stream(..) => unreachable!("these have no splits"),
        }
        Ok(streams)
    }

    /// Returns the files, and a function that returns the byte ranges of a split's columns.
    fn ranges(&self, divisions: &Arc<Divisions>) -> (Vec<Source>, RangesOf) {
        let (columns, divisions) = (self.columns.clone(), Arc::clone(divisions));
        match &self.table.content {
            Content::Parquet(files, _) => {
                let sources = files.iter().map(|file| file.source.clone()).collect();
                let files = Arc::clone(files);
                let ranges = move |split: Split| {
                    if let Some(division) = divisions.get(&(split.file, split.index)) {
                        return Ok(division.ranges(split.part));
                    }
                    let file = &files[split.file];
                    let range = |(leaf, _)| file.groups.place(split.index, leaf).range();
                    Ok(file.leaves(&columns).into_iter().map(range).collect())
                };
                (sources, Box::new(ranges))
            }
            Content::Arrow(files) => {
                let sources = files.iter().map(|file| file.source.clone()).collect();
                let files = Arc::clone(files);
                (sources, Box::new(move |split: Split| files[split.file].ranges(split.index, &columns)))
            }
            Content::Csv(_) | Content::Stream(..) => unreachable!("these have no splits"),
        }
    }

    fn of_csv(self, input: CsvInput, workers: usize) -> Result<Vec<Box<dyn Batches>>, Error> {
        let stored = Arc::clone(&self.table.schema);
        let fields = stored.fields().len();
        let rows_max = self.decoder_bytes / 2 / (CSV_FIELD_BYTES * fields.max(1));
        let batch_rows = self.options.batch_rows.min(rows_max).max(1);
        let sizes = (batch_rows, self.io_bytes, self.options.block);
        let reserved = self.job.reserve(self.decoder_bytes * workers, "decoding CSV")?;
        let plan = CsvPlan::new(self.job, input, stored, self.columns, self.shape, sizes, reserved)?;
        let plan = Arc::new(plan);
        Ok((0..workers).map(|_| Box::new(CsvScan::new(self.job, &plan)) as Box<dyn Batches>).collect())
    }

    fn of_stream(self, stream: &Mutex<Option<Once>>, workers: usize) -> Result<Vec<Box<dyn Batches>>, Error> {
        let stream = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(stream) = stream else {
            return Err(Error::Query(READ_ALREADY.to_owned()));
        };
        let stream = match stream {
            Once::Bytes(stream) => stream,
            Once::Batches(given) => {
                let rows = self.options.batch_rows.max(1);
                return Ok(given.streams(self.job, &self.columns, &self.shape, rows, workers));
            }
        };
        let path = stream.path.clone();
        if stream.format == Format::Csv {
            return self
                .of_csv(CsvInput::Stream(path, stream.header_bytes as u64, stream.into_records()), workers);
        }
        let stream = Arc::new(Mutex::new(ArrowStream::open(&path, stream.into_reader())?));
        let columns = Arc::new(self.columns);
        let mut streams: Vec<Box<dyn Batches>> = Vec::with_capacity(workers);
        for _ in 0..workers {
            // Bodies are read into allocated memory, not into the job's buffers.
            let memory = DecoderMemory::new(self.job, self.decoder_bytes, 0)?;
            let (shape, rows) = (self.shape.clone(), self.options.batch_rows.max(1));
            streams.push(Box::new(StreamScan::new(self.job, &stream, &columns, shape, rows, memory)));
        }
        Ok(streams)
    }
}

//! Measures a scan of LINEITEM: `scan FILE [stored|compact] [STREAMS] [MEMORY_MIB]`. Generates a missing FILE
//! (TPC-H scale factor 1, Parquet with Snappy).

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use sakiyomi_os::cpu::user_and_system_of_this_process;
use sakiyomi_query::table::{OpenOptions, Representation, ScanOptions, Table};
use sakiyomi_query::{Batches, Error, Job, JobOptions};
use tpchgen::generators::LineItemGenerator;
use tpchgen_arrow::LineItemArrow;

/// Rows per row group of the generated file, about 7 MB each.
const GROUP_ROWS: usize = 113_000;

fn generate(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut source = LineItemArrow::new(LineItemGenerator::new(1.0, 1, 1)).with_batch_size(8192);
    let first = source.next().expect("rows")?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let properties = properties.set_max_row_group_row_count(Some(GROUP_ROWS)).build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, first.schema(), Some(properties))?;
    writer.write(&first)?;
    for batch in source {
        writer.write(&batch?)?;
    }
    writer.close()?;
    Ok(())
}

fn drained(mut stream: Box<dyn Batches>) -> Result<(u64, u64), Error> {
    let (mut rows, mut bytes) = (0, 0);
    while let Some(batch) = stream.next()? {
        rows += batch.num_rows() as u64;
        bytes += batch.get_array_memory_size() as u64;
    }
    Ok((rows, bytes))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path =
        PathBuf::from(arguments.next().ok_or("usage: scan FILE [stored|compact] [STREAMS] [MEMORY_MIB]")?);
    let is_compact = arguments.next().is_some_and(|argument| argument == "compact");
    let streams = arguments.next().map_or(Ok(2), |argument| argument.parse())?;
    let memory: usize = arguments.next().map_or(Ok(64), |argument| argument.parse())?;
    if !path.exists() {
        generate(&path)?;
    }
    let job = Job::new(JobOptions { memory: memory << 21, ..JobOptions::default() })?;
    let table = Table::open(&[path], &OpenOptions::default())?;
    let representation = if is_compact { Representation::COMPACT } else { Representation::STORED };
    let columns = (0..table.schema().fields().len()).collect();
    let options = ScanOptions {
        streams,
        memory: memory << 20,
        ordered: false,
        representation,
        ..ScanOptions::new(columns)
    };
    let (begun, before) = (Instant::now(), user_and_system_of_this_process());
    let streams = table.scan(&job, &options)?;
    let (rows, bytes) = thread::scope(|scope| {
        let workers: Vec<_> = streams.into_iter().map(|stream| scope.spawn(|| drained(stream))).collect();
        let mut all = (0, 0);
        for worker in workers {
            let (rows, bytes) = worker.join().expect("a worker")?;
            all = (all.0 + rows, all.1 + bytes);
        }
        Ok::<_, Error>(all)
    })?;
    let after = user_and_system_of_this_process();
    let seconds = |duration: Duration| duration.as_secs_f64();
    writeln!(
        io::stdout(),
        "{rows} rows, about {} MB of arrays, wall {:.2} s, user {:.2} s, system {:.2} s, buffers {} MiB",
        bytes / 1_000_000,
        seconds(begun.elapsed()),
        seconds(after.0 - before.0),
        seconds(after.1 - before.1),
        job.io().pool().resident() >> 20,
    )?;
    Ok(())
}

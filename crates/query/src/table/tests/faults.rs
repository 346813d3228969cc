//! Failing, slow and truncating disks: a scan gives all rows or an error, and releases its memory.

use proptest::prelude::*;
use sakiyomi_io::buffer::BufferPool;
use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::{Io, Memory};

use super::arrays::{Random, common};
use super::source::Source;
use super::*;

/// A table on a disk in memory, except for the bytes read when it is opened.
fn on_disk(path: &Path, disk: &FakeDisk) -> Table {
    let mut table = open(path).unwrap();
    let file = disk.file(std::fs::read(path).unwrap(), 512).unwrap();
    let source = Source::unnamed(path, file);
    match &mut table.data.content {
        Content::Parquet(files, _) => Arc::get_mut(files).unwrap()[0].source = source,
        Content::Arrow(files) => Arc::get_mut(files).unwrap()[0].source = source,
        Content::Csv(files) => files[0].0 = source,
        Content::Stream(..) => unreachable!("a file"),
    }
    table
}

/// A file of a format, and its rows.
fn written(scratch: &Scratch, format: usize) -> (PathBuf, RecordBatch) {
    let path = scratch.path("table");
    let mut random = Random::new(21);
    let batches = [common(&mut random, 150), common(&mut random, 100)];
    match format {
        0 => {
            let properties = WriterProperties::builder().set_max_row_group_row_count(Some(60));
            write_parquet(&path, &batches, properties.set_data_page_row_count_limit(15).build());
        }
        1 => write_file(&path, &batches, IpcWriteOptions::default()),
        _ => {
            let lines: String = (0..8_000).map(|line| format!("{line},\"x\n{line}\"\n")).collect();
            std::fs::write(&path, format!("a,b\n{lines}")).unwrap();
        }
    }
    let rows = read(&path).unwrap();
    (path, rows)
}

/// A job whose files are on a disk in memory.
fn job_over(disk: &FakeDisk, faults: Faults) -> Job {
    let pool = BufferPool::with_budget(12 * MIB, Memory::Ordinary);
    let options = JobOptions { memory: 32 * MIB, threads: 2, ..JobOptions::default() };
    Job::over(options, Io::over(disk.engine(4, faults), pool))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn faulty_disks_give_all_rows_or_an_error(
        format in 0usize..3,
        seed: u64,
        short_of_256 in 0u8..120,
        interrupted_of_256 in 0u8..100,
        late_of_256 in 0u8..200,
        error in prop::option::of(0.0..1.0f64),
        shrinks in prop::option::of((1u64..20, 0.0..1.0f64)),
        windowed: bool,
    ) {
        let scratch = Scratch::new("faults");
        let (path, expected) = written(&scratch, format);
        let size = std::fs::metadata(&path).unwrap().len() as f64;
        let errors = error.map(|at| ((at * size) as u64, 5)).into_iter().collect();
        let shrinks = shrinks.map(|(call, to)| (call, (to * size) as u64));
        let is_sound = error.is_none() && shrinks.is_none();
        let faults =
            Faults { seed, short_of_256, interrupted_of_256, late_of_256, errors, shrinks, ..Faults::default() };
        let disk = FakeDisk::default();
        let table = on_disk(&path, &disk);
        let job = job_over(&disk, faults);
        let available = job.available();
        let memory = if windowed && format == 0 { 400 << 10 } else { 8 * MIB };
        let options = ScanOptions { memory, ..ScanOptions::new(all(&table)) };
        match rows(&table, &job, &options) {
            Ok(found) => {
                prop_assert_eq!(found, expected);
                prop_assert!(job.io().pool().account(12 * MIB).is_ok(), "buffers are held");
            }
            Err(error) => {
                prop_assert!(!is_sound, "{}", error);
                let text = error.to_string();
                prop_assert!(text.contains("memory") || text.contains(path.to_str().unwrap()), "{}", text);
            }
        }
        prop_assert_eq!(job.available(), available);
    }
}

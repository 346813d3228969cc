//! Damaged files give an error or rows, never a panic or excessive allocations.

use ::parquet::basic::Compression;
use arrow_ipc::CompressionType;
use proptest::prelude::*;

use super::arrays::{Random, common};
use super::*;

/// Reads a file in every way, and accepts errors.
fn try_all(path: &Path, job: &Job) {
    let Ok(table) = open(path) else { return };
    for representation in [Representation::STORED, Representation::COMPACT] {
        let options = ScanOptions { representation, memory: 8 * MIB, ..ScanOptions::new(all(&table)) };
        let Ok(streams) = table.scan(job, &options) else { return };
        for mut stream in streams {
            let mut rows = 0;
            while let Ok(Some(batch)) = stream.next() {
                rows += batch.num_rows();
                if rows > 100_000 {
                    break;
                }
            }
        }
    }
    for column in all(&table) {
        let _ = table.statistics(column);
    }
    let _ = table.declared_order();
    let _ = table.bytes(&all(&table));
}

/// Small files of each format, of few rows and many types.
fn small_files(scratch: &Scratch) -> Vec<PathBuf> {
    let batch = common(&mut Random::new(11), 12);
    let plain = WriterProperties::builder().set_dictionary_enabled(false);
    let coded =
        WriterProperties::builder().set_compression(Compression::SNAPPY).set_max_row_group_row_count(Some(7));
    write_parquet(&scratch.path("1"), std::slice::from_ref(&batch), plain.build());
    write_parquet(&scratch.path("2"), std::slice::from_ref(&batch), coded.build());
    write_file(&scratch.path("3"), std::slice::from_ref(&batch), IpcWriteOptions::default());
    let lz4 = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).unwrap();
    write_stream(&scratch.path("4"), &[batch.clone(), batch], lz4);
    scratch.file("5", "a,\"b\"\n1,\"x\"\"\n\"\n2,3\n");
    ["1", "2", "3", "4", "5"].map(|name| scratch.path(name)).into()
}

#[test]
fn files_that_are_cut_off_are_errors() {
    let scratch = Scratch::new("cut");
    let job = job(64 * MIB);
    for path in small_files(&scratch) {
        let bytes = std::fs::read(&path).unwrap();
        let step = (bytes.len() / 150).max(1);
        for length in (0..bytes.len()).step_by(step).chain(bytes.len().saturating_sub(20)..bytes.len()) {
            try_all(&scratch.file("damaged", &bytes[..length]), &job);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn bytes_that_are_changed_are_errors_or_other_rows(
        file in 0usize..5,
        changes in prop::collection::vec((0.0..1.0f64, any::<u8>()), 1..4),
        at_end: bool,
    ) {
        let scratch = Scratch::new("changed");
        let path = &small_files(&scratch)[file];
        let mut bytes = std::fs::read(path).unwrap();
        for (at, byte) in changes {
            // Footers and headers lie at the end.
            let at = if at_end { 1.0 - (1.0 - at) / 4.0 } else { at };
            let at = (at * bytes.len() as f64) as usize;
            bytes[at] = byte;
        }
        try_all(&scratch.file("damaged", &bytes), &job(64 * MIB));
    }
}

#[test]
fn single_bits_of_headers_and_footers() {
    let scratch = Scratch::new("bits");
    let job = job(64 * MIB);
    for path in small_files(&scratch) {
        let bytes = std::fs::read(&path).unwrap();
        let step = (bytes.len() / 60).max(1);
        for at in (0..bytes.len()).step_by(step).chain(0..16.min(bytes.len())) {
            for bit in [0, 7] {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                try_all(&scratch.file("damaged", &changed), &job);
            }
        }
    }
}

#[test]
fn errors_name_the_file_and_say_what_is_wrong() {
    let scratch = Scratch::new("sentences");
    let path = small_files(&scratch)[0].clone();
    let bytes = std::fs::read(&path).unwrap();
    let error = read(scratch.file("cut.parquet", &bytes[..bytes.len() / 2])).unwrap_err().to_string();
    assert!(
        error.ends_with("cut.parquet: the file is damaged: it has no footer; it may have been cut off"),
        "{error}"
    );
    let error = open(scratch.file("t.parquet", "hello\n")).unwrap_err().to_string();
    assert!(error.contains("t.parquet: the contents do not match the file's extension"), "{error}");
    let mut page = bytes.clone();
    page[4..24].fill(0xff);
    let error = read(scratch.file("page", &page)).unwrap_err().to_string();
    assert!(error.contains("page: the file is damaged: "), "{error}");
}

//! Arrow IPC results are read back by the library, and bodies are aligned.

use std::fs::File;

use arrow_array::StringViewArray;
use arrow_ipc::reader::{FileReader, StreamReader};
use proptest::prelude::*;

use super::random::Random;
use super::*;

fn check_random(seed: u64, rows: usize, compression: Compression, alignment: usize) {
    let scratch = Scratch::new("ipc-random");
    let mut random = Random::new(seed);
    let columns: Vec<ArrayRef> = vec![
        random.column(rows, true),
        random.column(rows, true),
        random.lists(rows),
        random.column(rows, true),
    ];
    let columns: Vec<(&str, ArrayRef)> = ["a", "b", "l", "d"].into_iter().zip(columns).collect();
    let batch = table(&columns);
    let groups: Vec<_> =
        vec![vec![batch.slice(0, rows / 2), batch.slice(rows / 2, rows - rows / 2)], vec![batch.clone()]];
    let schema: SchemaRef = Arc::new(plain_schema(&batch.schema(), |_| false));
    let expected = joined(&schema, &groups);
    for format in [Format::ArrowFile, Format::ArrowStream] {
        let path = scratch.path(&format!("{format:?}"));
        let options = OutputOptions { compression, alignment, ..OutputOptions::new(format) };
        write(&path, &batch.schema(), &groups, &options).unwrap();
        let file = File::open(&path).unwrap();
        let batches: Vec<RecordBatch> = match format {
            Format::ArrowFile => FileReader::try_new(file, None).unwrap().map(Result::unwrap).collect(),
            _ => StreamReader::try_new(file, None).unwrap().map(Result::unwrap).collect(),
        };
        assert_eq!(concat_batches(&schema, &batches).unwrap(), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn rows_are_those_of_the_input(seed: u64, rows in 0_usize..200, compression in 0_usize..3) {
        let compression = [Compression::None, Compression::Lz4, Compression::Zstd][compression];
        check_random(seed, rows, compression, if seed % 2 == 0 { 64 } else { 4096 });
    }
}

#[test]
fn bodies_begin_at_multiples_of_the_alignment() {
    let scratch = Scratch::new("ipc-aligned");
    let path = scratch.path("aligned.arrow");
    let batch = table(&[("n", Arc::new(arrow_array::Int64Array::from_iter_values(0..777)))]);
    let groups = vec![vec![batch.clone()], vec![batch.clone()], vec![batch.clone()]];
    let options = OutputOptions { alignment: 4096, ..OutputOptions::new(Format::ArrowFile) };
    write(&path, &batch.schema(), &groups, &options).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let first: Vec<u8> = (0..64_i64).flat_map(i64::to_le_bytes).collect();
    let starts: Vec<usize> =
        (0..bytes.len()).step_by(4096).filter(|&at| bytes[at..].starts_with(&first)).collect();
    assert_eq!(starts.len(), 3, "{starts:?}");
}

#[test]
fn a_slice_of_views_takes_no_more_than_its_rows() {
    let scratch = Scratch::new("ipc-views");
    let path = scratch.path("views.arrow");
    let texts = (0..50_000).map(|row| format!("a text of more than twelve bytes, number {row}"));
    let batch = table(&[("text", Arc::new(StringViewArray::from_iter_values(texts)))]);
    let part = batch.slice(40_000, 100);
    let bytes =
        write(&path, &batch.schema(), &[vec![part.clone()]], &OutputOptions::new(Format::ArrowFile)).unwrap();
    assert!(bytes < 20_000, "{bytes} bytes");
    let read: Vec<_> =
        FileReader::try_new(File::open(&path).unwrap(), None).unwrap().map(Result::unwrap).collect();
    assert_eq!(read, [part]);
}

#[test]
fn an_invalid_alignment_is_refused() {
    let scratch = Scratch::new("ipc-refused");
    let target = Target::File(scratch.path("out.arrow"));
    let options = OutputOptions { alignment: 100, ..OutputOptions::new(Format::ArrowFile) };
    let schema: SchemaRef = Arc::new(Schema::empty());
    assert!(Output::create(&job(), &target, &schema, &options).is_err());
}

#[test]
fn bytes_that_are_copied_are_reserved_and_shared_ones_are_not() {
    let views =
        StringViewArray::from_iter_values((0..20_000).map(|row| format!("a text of number {row:09}")));
    let numbers = arrow_array::Int64Array::from_iter_values(0..20_000);
    let batch = table(&[("v", Arc::new(views)), ("n", Arc::new(numbers))]);
    let job = job();
    let encoder = Encoder::new(&job, &batch.schema(), &OutputOptions::new(Format::ArrowFile)).unwrap();
    let reserved = |batches: &[RecordBatch]| {
        let before = job.available();
        let encoded = encoder.encode(batches).unwrap();
        let reserved = before - job.available();
        drop(encoded);
        reserved
    };
    let whole = reserved(std::slice::from_ref(&batch));
    assert!(whole < 4096, "{whole} bytes");
    // The views of a small slice are copied, as most of their data is unused.
    let slice = reserved(&[batch.slice(100, 1000)]);
    assert!((1000 * 26..1000 * 60).contains(&slice), "{slice} bytes");
    let joined = reserved(&[batch.clone(), batch.clone()]);
    assert!(joined > 2 * 20_000 * (16 + 8), "{joined} bytes");
}

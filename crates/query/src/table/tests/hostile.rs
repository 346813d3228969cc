//! Files that are made to exhaust a reader: numbers that it would allocate for, schemas that it would descend into.

use ::parquet::basic::Encoding;
use arrow_array::{ArrayRef, FixedSizeBinaryArray, Int32Array, StringArray};

use super::*;
use sakiyomi_expression::Expression;

/// A variable-length integer of Thrift's compact protocol.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// An element of a schema: a group of `children`, or an INT32 without any.
fn element(children: u64) -> Vec<u8> {
    let kind: &[u8] = if children == 0 { &[0x15, 0x02, 0x25, 0x00, 0x18] } else { &[0x35, 0x00, 0x18] };
    let mut bytes = [kind, &[1, b'g']].concat();
    if children > 0 {
        bytes.push(0x15);
        bytes.extend(varint(2 * children));
    }
    bytes.push(0);
    bytes
}

/// A Parquet file without rows, whose schema has groups with these numbers of children, and INT32 for 0.
fn file_of(children: &[u64]) -> Vec<u8> {
    let mut footer = vec![0x15, 0x02, 0x19, 0xfc];
    footer.extend(varint(children.len() as u64));
    children.iter().for_each(|&children| footer.extend(element(children)));
    footer.extend([0x16, 0x00, 0x19, 0x0c, 0x00]);
    let length = (footer.len() as u32).to_le_bytes();
    [b"PAR1", &footer[..], &length, b"PAR1"].concat()
}

#[test]
fn schemas_of_too_many_levels_or_children_are_refused() {
    let scratch = Scratch::new("levels");
    let nested = |levels: usize| {
        let children: Vec<u64> = (0..levels).map(|_| 1).chain([0]).collect();
        open(scratch.file("p", file_of(&children)))
    };
    assert_eq!(nested(60).unwrap().schema().fields().len(), 1);
    let error = nested(300_000).unwrap_err().to_string();
    assert!(error.ends_with("the file is damaged: its schema has more than 64 levels"), "{error}");
    assert_eq!(open(scratch.file("p", file_of(&[2, 0, 0]))).unwrap().schema().fields().len(), 2);
    for children in [&[3, 0, 0][..], &[1 << 30, 0, 0], &[1, 1 << 30, 0]] {
        let error = open(scratch.file("p", file_of(children))).unwrap_err().to_string();
        assert!(error.ends_with("its schema claims more columns than it has"), "{error}");
    }
}

/// Writes strings with an encoding that stores their lengths as differences.
fn strings(path: &Path, encoding: Encoding, count: usize) -> RecordBatch {
    let texts = StringArray::from_iter_values((0..count).map(|row| format!("some text {row}")));
    let batch = RecordBatch::try_from_iter([("s", Arc::new(texts) as ArrayRef)]).unwrap();
    let properties = WriterProperties::builder().set_dictionary_enabled(false).set_encoding(encoding);
    write_parquet(path, std::slice::from_ref(&batch), properties.build());
    batch
}

#[test]
fn lengths_that_a_page_only_claims_are_refused() {
    let scratch = Scratch::new("lengths");
    for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
        let batch = strings(&scratch.path("p"), encoding, 300);
        assert_eq!(read(scratch.path("p")).unwrap(), batch, "{encoding:?}");
        let bytes = std::fs::read(scratch.path("p")).unwrap();
        // Blocks of 128 values in 4 parts, 300 values. There are two in the second encoding: prefixes and the rest.
        let starts = bytes.windows(5).enumerate().filter(|(_, window)| *window == [0x80, 1, 4, 0xac, 2]);
        let starts: Vec<usize> = starts.map(|(at, _)| at).collect();
        assert_eq!(starts.len(), if encoding == Encoding::DELTA_BYTE_ARRAY { 2 } else { 1 });
        for start in starts {
            for count in [400, 1 << 31, 1 << 41] {
                let mut damaged = bytes.clone();
                let count = varint(count);
                damaged[start + 3..start + 3 + count.len()].copy_from_slice(&count);
                let error = read(scratch.file("d", &damaged)).unwrap_err().to_string();
                assert!(error.contains("the lengths of a page's strings"), "{encoding:?}: {error}");
            }
        }
    }
}

#[test]
fn lengths_of_strings_count_against_the_memory() {
    let scratch = Scratch::new("many_lengths");
    let texts = StringArray::from_iter_values((0..2_000_000).map(|_| ""));
    let batch = RecordBatch::try_from_iter([("s", Arc::new(texts) as ArrayRef)]).unwrap();
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_max_row_group_row_count(Some(1 << 22))
        .set_data_page_row_count_limit(1 << 22)
        .set_write_batch_size(1 << 22)
        .set_encoding(Encoding::DELTA_LENGTH_BYTE_ARRAY);
    write_parquet(&scratch.path("p"), std::slice::from_ref(&batch), properties.build());
    let table = open(scratch.path("p")).unwrap();
    let options = ScanOptions { memory: MIB, ..ScanOptions::new(vec![0]) };
    let error = rows(&table, &job(8 * MIB), &options).unwrap_err().to_string();
    assert!(error.contains("lengths of column s") && error.contains("raise --memory"), "{error}");
    assert_eq!(rows(&table, &job(64 * MIB), &options).unwrap().num_rows(), 2_000_000);
}

#[test]
fn a_condition_on_values_of_a_claimed_length_reads_all_row_groups() {
    let scratch = Scratch::new("claimed");
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..100));
    let nulls = (0..100).map(|_| None::<Vec<u8>>);
    let wide = FixedSizeBinaryArray::try_from_sparse_iter_with_size(nulls, 1 << 24).unwrap();
    let wide: ArrayRef = Arc::new(wide);
    let batch = RecordBatch::try_from_iter_with_nullable([("k", numbers, false), ("w", wide, true)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(1));
    write_parquet(&scratch.path("p"), std::slice::from_ref(&batch), properties.build());
    let table = open(scratch.path("p")).unwrap();
    // The bounds of 100 row groups would have 3.2 GB.
    for (text, skipped) in [("k < 10", 90), ("w is null and k < 10", 0)] {
        let condition = Some(Expression::condition(text, &table.schema()).unwrap());
        let options = ScanOptions { condition, ..ScanOptions::new(all(&table)) };
        assert_eq!(table.extent(&options).skipped_groups, skipped, "{text}");
    }
    assert!(table.statistics(1).min.is_none());
}

//! Decoding, encoding and compression: one column at a time, in memory.

use std::sync::Arc;

use arrow_array::{BinaryArray, RecordBatch};
use arrow_ipc::writer::FileWriter;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use rand_core::Rng;

use super::data::{batch, column, generator, job, packed_rows};
use super::measure::{Effort, split};
use crate::Error;
use crate::cost::operators::{Codec, CodecCost, FileFormat, ValueCost, ValueKind};
use crate::output::{Output, OutputOptions, Target, csv};
use crate::table::{Format, OpenOptions, Representation, ScanOptions, Table};

/// Measured costs of formats.
pub(super) struct Formats {
    pub(super) decode: Vec<ValueCost>,
    pub(super) encode: Vec<ValueCost>,
    pub(super) codecs: Vec<CodecCost>,
}

/// Rows of a measured column: a typical row group.
const COLUMN_ROWS: usize = 1 << 17;
/// Rows of a decoded batch.
const BATCH_ROWS: usize = 8192;
/// Mean bytes of short and of long texts, to separate the cost per byte from the cost per value.
const TEXT_MEAN_BYTES: [u64; 2] = [12, 120];
/// Bytes of the compressed packed rows, and of one row.
const PACKED_BYTES: usize = 8 << 20;
const PACKED_ROW_BYTES: usize = 96;

/// A measured combination of format and column.
#[derive(Clone, Copy)]
struct Case {
    format: FileFormat,
    kind: ValueKind,
    is_dictionary: bool,
}

pub(super) fn measure(effort: Effort) -> Result<Formats, Error> {
    let (mut decode, mut encode) = (Vec::new(), Vec::new());
    for case in cases() {
        let [short, long] = TEXT_MEAN_BYTES.map(|bytes| bytes as f64);
        let (decoded, encoded) = costs(effort, case, TEXT_MEAN_BYTES[0])?;
        let cost = |ns_per_value, ns_per_byte| {
            let Case { format, kind, is_dictionary } = case;
            ValueCost { format, kind, is_dictionary, ns_per_value, ns_per_byte }
        };
        if case.kind == ValueKind::Text {
            let (long_decoded, long_encoded) = costs(effort, case, TEXT_MEAN_BYTES[1])?;
            let (fixed, per_byte) = split((short, decoded), (long, long_decoded));
            decode.push(cost(fixed, per_byte));
            let (fixed, per_byte) = split((short, encoded), (long, long_encoded));
            encode.push(cost(fixed, per_byte));
        } else {
            decode.push(cost(decoded, 0.0));
            encode.push(cost(encoded, 0.0));
        }
    }
    let codecs = [Codec::Snappy, Codec::Lz4, Codec::Zstd];
    let codecs = codecs.into_iter().map(|codec| compression(effort, codec)).collect::<Result<_, _>>()?;
    Ok(Formats { decode, encode, codecs })
}

/// Returns all measured cases. Only Parquet has both plain and dictionary-encoded values of a kind.
fn cases() -> impl Iterator<Item = Case> {
    let formats = [FileFormat::Parquet, FileFormat::Arrow, FileFormat::Csv];
    formats.into_iter().flat_map(|format| {
        ValueKind::ALL.into_iter().flat_map(move |kind| {
            let has_both = format == FileFormat::Parquet && kind != ValueKind::Code;
            let dictionaries: &[bool] = match kind {
                _ if has_both => &[false, true],
                ValueKind::Code => &[true],
                _ => &[false],
            };
            dictionaries.iter().map(move |&is_dictionary| Case { format, kind, is_dictionary })
        })
    })
}

/// CPU time to decode and to encode a value, in nanoseconds.
fn costs(effort: Effort, case: Case, text_bytes: u64) -> Result<(f64, f64), Error> {
    let rows = effort.amount(COLUMN_ROWS);
    let batch = batch(column(case.kind, case.is_dictionary, rows, text_bytes))?;
    let encoded = encoder_ns(effort, case.format, &batch)?;
    let mut file = Vec::new();
    encode(case, &batch, Compression::UNCOMPRESSED, &mut file)?;
    Ok((decoder_ns(effort, case.format, file, rows)?, encoded))
}

/// CPU time to encode a value with [`crate::output`], in nanoseconds. The encoder itself decides on a dictionary.
fn encoder_ns(effort: Effort, format: FileFormat, batch: &RecordBatch) -> Result<f64, Error> {
    let job = job(ENCODER_MEMORY_BYTES, 1)?;
    let format = format_of(format);
    let target = Target::File("/dev/null".into());
    let output = Output::create(&job, &target, &batch.schema(), &OutputOptions::new(format))?;
    let (encoder, group) = (output.encoder(), std::slice::from_ref(batch));
    effort.try_measure(batch.num_rows(), || {
        encoder.encode(group).map(|encoded| drop(std::hint::black_box(encoded)))
    })
}

/// Memory limit of an encoder: more than a group of the longest texts needs.
const ENCODER_MEMORY_BYTES: usize = 512 << 20;

fn encode(
    case: Case,
    batch: &RecordBatch,
    compression: Compression,
    file: &mut Vec<u8>,
) -> Result<(), Error> {
    match case.format {
        FileFormat::Parquet => {
            let properties = WriterProperties::builder()
                .set_dictionary_enabled(case.is_dictionary)
                .set_compression(compression)
                .build();
            let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties))?;
            writer.write(batch)?;
            writer.close()?;
        }
        FileFormat::Arrow => {
            let mut writer = FileWriter::try_new(file, &batch.schema())?;
            for from in (0..batch.num_rows()).step_by(BATCH_ROWS) {
                writer.write(&batch.slice(from, BATCH_ROWS.min(batch.num_rows() - from)))?;
            }
            writer.finish()?;
        }
        FileFormat::Csv => *file = csv::file_of(batch)?,
    }
    Ok(())
}

/// CPU time to decode a value by a scan of a table in its compact types, in nanoseconds. Other threads read the file.
fn decoder_ns(effort: Effort, format: FileFormat, file: Vec<u8>, rows: usize) -> Result<f64, Error> {
    let job = job(SCAN_MEMORY_BYTES, 1)?;
    let format = format_of(format);
    let options = OpenOptions { format: Some(format), ..OpenOptions::default() };
    let table = Table::of_bytes(file, &options)?;
    let options = ScanOptions { representation: Representation::COMPACT, ..ScanOptions::new(vec![0]) };
    effort.try_measure(rows, || {
        for mut stream in table.scan(&job, &options)? {
            while let Some(batch) = stream.next()? {
                std::hint::black_box(batch);
            }
        }
        Ok(())
    })
}

/// Memory limit of a scan: more than the longest texts need.
const SCAN_MEMORY_BYTES: usize = 256 << 20;

/// Returns the format that is measured for a cost class.
fn format_of(format: FileFormat) -> Format {
    match format {
        FileFormat::Parquet => Format::Parquet,
        FileFormat::Arrow => Format::ArrowFile,
        FileFormat::Csv => Format::Csv,
    }
}

fn decode(file: &Bytes) -> Result<(), Error> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(file.clone())?;
    for batch in reader.with_batch_size(BATCH_ROWS).build()? {
        std::hint::black_box(batch?);
    }
    Ok(())
}

/// Costs of a compression: the difference between compressed and uncompressed files of packed rows.
fn compression(effort: Effort, codec: Codec) -> Result<CodecCost, Error> {
    let rows = packed_rows(effort.amount(PACKED_BYTES) / PACKED_ROW_BYTES + 1, PACKED_ROW_BYTES);
    let mut random = vec![0; rows.len()];
    generator(RANDOM_BYTES_STREAM).fill_bytes(&mut random);
    let case = Case { format: FileFormat::Parquet, kind: ValueKind::Text, is_dictionary: false };
    let measure = |bytes: &[u8], compression: Compression| -> Result<(f64, f64, usize), Error> {
        // Each value is a chunk of the size that is spilled.
        let chunks = BinaryArray::from_iter_values(bytes.chunks(CHUNK_BYTES));
        let batch = batch(Arc::new(chunks))?;
        let mut file = Vec::new();
        let compress = effort.try_measure(bytes.len(), || {
            file.clear();
            encode(case, &batch, compression, &mut file)
        })?;
        let file = Bytes::from(file);
        let restore = effort.try_measure(bytes.len(), || decode(&file))?;
        Ok((compress, restore, file.len()))
    };
    let compression = match codec {
        Codec::None => Compression::UNCOMPRESSED,
        Codec::Snappy => Compression::SNAPPY,
        Codec::Lz4 => Compression::LZ4_RAW,
        Codec::Zstd => Compression::ZSTD(ZstdLevel::default()),
    };
    let plain = measure(&rows, Compression::UNCOMPRESSED)?;
    let (compressed, stored) = (measure(&rows, compression)?, measure(&random, compression)?);
    Ok(CodecCost {
        codec,
        compress_ns_per_byte: (compressed.0 - plain.0).max(0.0),
        restore_ns_per_byte: (compressed.1 - plain.1).max(0.0),
        restore_random_ns_per_byte: (stored.1 - plain.1).max(0.0),
        compressed_ratio: (compressed.2 as f64 / plain.2 as f64).clamp(f64::MIN_POSITIVE, 1.0),
    })
}

/// Number of the stream of random numbers of [`compression`].
const RANDOM_BYTES_STREAM: u64 = 101;
/// Bytes of a compressed chunk.
const CHUNK_BYTES: usize = 64 << 10;

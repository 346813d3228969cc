//! Decoding of a single column of a record batch.
//!
//! The library decodes whole record batches from one buffer. Each column is passed to it as a record batch of one
//! column, whose header is derived from the real one. So the library decodes and checks all types, and copies nothing
//! if the memory is aligned.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::Buffer;
use arrow_ipc::reader::read_record_batch;
use arrow_ipc::{
    BodyCompressionBuilder, CompressionType, MessageBuilder, MessageHeader, MetadataVersion, RecordBatch,
    RecordBatchBuilder, root_as_message,
};
use arrow_schema::{FieldRef, Schema};
use bytes::Bytes;
use flatbuffers::FlatBufferBuilder;

use super::layout::Layout;
use super::message;
use crate::Error;

/// Values of dictionaries, by dictionary id.
pub(in crate::table) type Dictionaries = HashMap<i64, ArrayRef>;

/// Prefix of a compressed buffer that holds its decompressed length.
const LENGTH_BYTES: usize = 8;

/// Upper limit of the compression ratio: a Zstandard block yields at most 128 KiB.
const DECOMPRESSED_RATIO_MAX: i64 = 128 << 10;

/// A column of a record batch. Its bytes begin at offset `start` of the body.
pub(super) struct Column<'a> {
    pub(super) field: &'a FieldRef,
    pub(super) layout: &'a Layout,
    pub(super) bytes: Bytes,
    pub(super) start: u64,
}

impl Column<'_> {
    /// Decodes the column.
    pub(super) fn decode(
        self,
        batch: &RecordBatch<'_>,
        dictionaries: &Dictionaries,
        version: MetadataVersion,
    ) -> Result<ArrayRef, Error> {
        let header = self.header(batch, version);
        let message = root_as_message(&header).expect("a message that was made here");
        let own = message.header_as_record_batch().expect("a record batch that was made here");
        message::check_batch(&own, self.bytes.len() as u64).map_err(Error::Query)?;
        let schema = Arc::new(Schema::new(vec![Arc::clone(self.field)]));
        let body = Buffer::from(self.bytes);
        let decoded = read_record_batch(&body, own, schema, dictionaries, None, &version)?;
        Ok(Arc::clone(decoded.column(0)))
    }

    /// Builds the header of a message with only this column.
    fn header(&self, batch: &RecordBatch<'_>, version: MetadataVersion) -> Vec<u8> {
        let mut builder = FlatBufferBuilder::new();
        let own = self.layout.nodes.clone().filter_map(|at| batch.nodes().map(|nodes| *nodes.get(at)));
        let nodes = own.collect::<Vec<_>>();
        let nodes = builder.create_vector(&nodes);
        let own = self.layout.buffers.clone().filter_map(|at| batch.buffers().map(|all| *all.get(at)));
        let buffers = own.map(|buffer| {
            // An empty buffer may have any offset.
            let offset = if buffer.length() == 0 { 0 } else { buffer.offset() - self.start as i64 };
            arrow_ipc::Buffer::new(offset, buffer.length())
        });
        let buffers = buffers.collect::<Vec<_>>();
        let buffers = builder.create_vector(&buffers);
        let counts: Vec<i64> = batch.variadicBufferCounts().into_iter().flatten().collect();
        let counts = counts[self.layout.variadic.clone()].to_vec();
        let counts = (!counts.is_empty()).then(|| builder.create_vector(&counts));
        let compression = batch.compression().map(|compression| {
            let mut own = BodyCompressionBuilder::new(&mut builder);
            own.add_codec(compression.codec());
            own.add_method(compression.method());
            own.finish()
        });
        let mut own = RecordBatchBuilder::new(&mut builder);
        own.add_length(batch.length());
        own.add_nodes(nodes);
        own.add_buffers(buffers);
        if let Some(counts) = counts {
            own.add_variadicBufferCounts(counts);
        }
        if let Some(compression) = compression {
            own.add_compression(compression);
        }
        let own = own.finish().as_union_value();
        let mut message = MessageBuilder::new(&mut builder);
        message.add_version(version);
        message.add_header_type(MessageHeader::RecordBatch);
        message.add_header(own);
        message.add_bodyLength(self.bytes.len() as i64);
        let message = message.finish();
        builder.finish(message, None);
        builder.finished_data().to_vec()
    }
}

/// Sums the decompressed sizes that the compressed buffers in `buffers` claim; 0 without compression. Their bytes begin
/// at offset `start` of the body. On invalid sizes, returns the reason.
pub(super) fn decompressed_bytes(
    batch: &RecordBatch<'_>,
    buffers: std::ops::Range<usize>,
    bytes: &[u8],
    start: u64,
) -> Result<u64, String> {
    let (Some(compression), Some(all)) = (batch.compression(), batch.buffers()) else { return Ok(0) };
    if ![CompressionType::LZ4_FRAME, CompressionType::ZSTD].contains(&compression.codec()) {
        return Err("its buffers are compressed by an unknown codec".into());
    }
    let mut sum = 0u64;
    for buffer in buffers.map(|at| *all.get(at)) {
        let at = (buffer.offset() as u64).wrapping_sub(start) as usize;
        let head =
            |_| Ok(bytes.get(at..).and_then(|bytes| bytes.get(..LENGTH_BYTES)).unwrap_or_default().to_vec());
        let claimed = claimed_bytes(&buffer, head).map_err(|error| error.to_string())?;
        sum = sum.saturating_add(claimed.unwrap_or(0));
    }
    Ok(sum)
}

/// Returns the decompressed size that a buffer of a compressed record batch claims; `None` if it is not compressed, so
/// that its array shares the bytes of the file. `head` returns its first bytes.
///
/// # Errors
/// If the size is invalid, and those of `head`.
pub(super) fn claimed_bytes(
    buffer: &arrow_ipc::Buffer,
    head: impl FnOnce(u64) -> Result<Vec<u8>, Error>,
) -> Result<Option<u64>, Error> {
    if buffer.length() == 0 {
        return Ok(Some(0));
    }
    let no_length = || Error::Query("a compressed buffer has no length".into());
    if buffer.length() < LENGTH_BYTES as i64 {
        return Err(no_length());
    }
    let head: [u8; LENGTH_BYTES] = head(LENGTH_BYTES as u64)?.try_into().map_err(|_| no_length())?;
    let claimed = i64::from_le_bytes(head);
    // -1 marks an uncompressed buffer.
    let possible = buffer.length().saturating_mul(DECOMPRESSED_RATIO_MAX);
    if claimed < -1 || claimed > possible {
        return Err(Error::Query("a compressed buffer claims more bytes than it can hold".into()));
    }
    Ok(u64::try_from(claimed).ok())
}

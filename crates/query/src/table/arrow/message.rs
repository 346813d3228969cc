//! Messages of Arrow IPC: their frames, their headers, and the checks before anything relies on them.
//!
//! The format: <https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format>.

use std::sync::Arc;

use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::{Message, MessageHeader, MetadataVersion, RecordBatch, root_as_message};
use arrow_schema::{Schema, SchemaRef};

/// The first four bytes of a frame; then comes the length of its header.
const CONTINUATION_MARKER: [u8; 4] = [0xff; 4];

/// Bytes of a frame before its header: the continuation and the length.
pub(super) const FRAME_BYTES: usize = 8;

/// Largest header of a message that comes by a stream: one with a million columns has about 50 MB.
pub(super) const HEADER_MAX_BYTES: u64 = 256 << 20;

/// The length of the header that a frame announces; none at the end of a stream. Gives why it is no frame.
pub(super) fn header_length(frame: &[u8; FRAME_BYTES]) -> Result<Option<u64>, String> {
    let (marker, length) = frame.split_at(4);
    if marker != CONTINUATION_MARKER {
        return Err("a message does not begin as those of Arrow IPC do".into());
    }
    let length = i32::from_le_bytes(length.try_into().expect("four bytes"));
    match u64::try_from(length) {
        Ok(0) => Ok(None),
        Ok(length) if length <= HEADER_MAX_BYTES => Ok(Some(length)),
        _ => Err(format!("a message claims a header of {length} bytes")),
    }
}

/// The header of a message.
pub(super) fn parse(header: &[u8]) -> Result<Message<'_>, String> {
    root_as_message(header).map_err(|error| format!("the header of a message is not readable ({error})"))
}

/// Bytes of a message's body.
pub(super) fn body_length(message: &Message<'_>) -> Result<u64, String> {
    let length = message.bodyLength();
    u64::try_from(length).map_err(|_| format!("a message claims a body of {length} bytes"))
}

/// The schema of a message that has one.
pub(super) fn schema(message: &Message<'_>) -> Result<SchemaRef, String> {
    let schema = message.header_as_schema().ok_or("the first message is no schema")?;
    native(&schema)
}

/// A schema whose numbers have this machine's order of bytes.
pub(super) fn native(schema: &arrow_ipc::Schema<'_>) -> Result<SchemaRef, String> {
    if !schema.endianness().equals_to_target_endianness() {
        return Err("its numbers have the other order of bytes, which is not supported".into());
    }
    let schema: Schema = fb_to_schema(*schema);
    Ok(Arc::new(schema))
}

/// The record batch of a message, whose buffers lie within its body.
pub(super) fn record_batch<'a>(message: &Message<'a>) -> Result<Option<RecordBatch<'a>>, String> {
    if message.header_type() != MessageHeader::RecordBatch {
        return Ok(None);
    }
    let batch = message.header_as_record_batch().ok_or("a record batch has no header")?;
    check_batch(&batch, body_length(message)?)?;
    Ok(Some(batch))
}

/// Checks the numbers of a record batch against its body.
pub(super) fn check_batch(batch: &RecordBatch<'_>, body: u64) -> Result<(), String> {
    if batch.length() < 0 {
        return Err("a record batch has a negative number of rows".into());
    }
    let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else {
        return Err("a record batch has no list of buffers".into());
    };
    if nodes
        .iter()
        .any(|node| node.length() < 0 || node.null_count() < 0 || node.null_count() > node.length())
    {
        return Err("an array of a record batch has an impossible length or number of nulls".into());
    }
    let is_within = |buffer: &arrow_ipc::Buffer| {
        let (offset, length) = (u64::try_from(buffer.offset()), u64::try_from(buffer.length()));
        match (offset, length) {
            (Ok(offset), Ok(length)) => offset.checked_add(length).is_some_and(|end| end <= body),
            _ => false,
        }
    };
    if !buffers.iter().all(is_within) {
        return Err("a buffer of a record batch would end behind its body".into());
    }
    Ok(())
}

/// Versions of the format that are read.
pub(super) fn check_version(version: MetadataVersion) -> Result<(), String> {
    if version == MetadataVersion::V4 || version == MetadataVersion::V5 {
        return Ok(());
    }
    Err(format!("version {version:?} of Arrow IPC is not supported; write it anew with version V5"))
}

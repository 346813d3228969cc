//! Arrow IPC messages: frames, headers, and validation before use.
//!
//! The format: <https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format>.

use std::sync::Arc;

use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::{Message, MessageHeader, MetadataVersion, RecordBatch, root_as_message};
use arrow_schema::{Schema, SchemaRef};

/// The first four bytes of a frame, followed by the header's length.
const CONTINUATION_MARKER: [u8; 4] = [0xff; 4];

/// Bytes of a frame before its header: continuation marker and length.
pub(super) const FRAME_BYTES: usize = 8;

/// Maximum size of a message header: a header of a million columns has about 50 MB.
pub(super) const HEADER_MAX_BYTES: u64 = 256 << 20;

/// Returns the header length of a frame; `None` at the end of a stream. On an invalid frame, returns the reason.
pub(super) fn header_length(frame: &[u8; FRAME_BYTES]) -> Result<Option<u64>, String> {
    let (marker, length) = frame.split_at(4);
    if marker != CONTINUATION_MARKER {
        return Err("a message does not begin with the continuation marker of Arrow IPC".into());
    }
    let length = i32::from_le_bytes(length.try_into().expect("four bytes"));
    match u64::try_from(length) {
        Ok(0) => Ok(None),
        Ok(length) if length <= HEADER_MAX_BYTES => Ok(Some(length)),
        _ => Err(format!("a message claims a header of {length} bytes")),
    }
}

/// Parses the header of a message.
pub(super) fn parse(header: &[u8]) -> Result<Message<'_>, String> {
    root_as_message(header).map_err(|error| format!("the header of a message is not readable ({error})"))
}

/// Returns the bytes of a message's body.
pub(super) fn body_length(message: &Message<'_>) -> Result<u64, String> {
    let length = message.bodyLength();
    u64::try_from(length).map_err(|_| format!("a message claims a body of {length} bytes"))
}

/// Returns the schema of a schema message.
pub(super) fn schema(message: &Message<'_>) -> Result<SchemaRef, String> {
    let schema = message.header_as_schema().ok_or("the first message is not a schema")?;
    native(&schema)
}

/// Converts a schema; refuses foreign byte order.
pub(super) fn native(schema: &arrow_ipc::Schema<'_>) -> Result<SchemaRef, String> {
    if !schema.endianness().equals_to_target_endianness() {
        return Err("its byte order is not that of this machine, which is not supported".into());
    }
    let schema: Schema = fb_to_schema(*schema);
    Ok(Arc::new(schema))
}

/// Returns the checked record batch of a message; `None` if the message is of another type.
pub(super) fn record_batch<'a>(message: &Message<'a>) -> Result<Option<RecordBatch<'a>>, String> {
    if message.header_type() != MessageHeader::RecordBatch {
        return Ok(None);
    }
    let batch = message.header_as_record_batch().ok_or("a record batch has no header")?;
    check_batch(&batch, body_length(message)?)?;
    Ok(Some(batch))
}

/// Checks the lengths and offsets of a record batch against its body of `body` bytes.
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
        return Err("a buffer of a record batch ends beyond its body".into());
    }
    Ok(())
}

/// Refuses unsupported versions of the format.
pub(super) fn check_version(version: MetadataVersion) -> Result<(), String> {
    if version == MetadataVersion::V4 || version == MetadataVersion::V5 {
        return Ok(());
    }
    Err(format!("version {version:?} of Arrow IPC is not supported; rewrite the file with version V5"))
}

//! Arrow IPC streams out of blocks that are read ahead.
//!
//! `StreamDecoder` takes any pieces of one stream, but does not say where that ends. A partition of a shuffle file is several
//! streams one after the other, so messages are cut out here: each is copied into memory of its own, and the block is
//! released to be read into again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::buffer::{Buffer, MutableBuffer};
use datafusion::arrow::ipc::reader::StreamDecoder;
use datafusion::arrow::ipc::{CompressionType, Message, MessageHeader, root_as_message};
use futures::Stream;
use sakiyomi_datafusion::blocks::Blocks;

use super::sentence;

/// The marker and the length that precede a message, in bytes.
const PREFIX_BYTES: usize = 8;
/// The marker: older streams, which Ballista never wrote, do not have it.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Length of a compressed buffer before compression, in bytes, before its content.
const LENGTH_BYTES: usize = 8;
/// A byte of LZ4 lengthens a match by at most this many bytes (LZ4 block format, "Matches").
const LZ4_RATIO_MAX: u64 = 255;
/// A block of Zstandard has at least four bytes, and at most 128 KiB of content (RFC 8878, section 3.1.1.2).
const ZSTD_RATIO_MAX: u64 = (128 << 10) / 4;

/// The batches of a range of a file, which holds whole streams. The first error ends it; errors are sentences without the
/// name of the file.
pub(super) struct Messages {
    blocks: Blocks,
    /// The rest of a block.
    block: Bytes,
    /// Bytes of the range that are not in `message` yet.
    left: u64,
    /// The bytes of the next message so far.
    message: MutableBuffer,
    /// Bytes that are known to belong to it.
    needed: usize,
    /// Bytes of its prefix and metadata.
    metadata: usize,
    progress: Progress,
    decoder: StreamDecoder,
    is_ended: bool,
}

/// The part of the message that `needed` includes.
#[derive(Clone, Copy, Debug)]
enum Progress {
    Prefix,
    Metadata,
    Body,
}

impl Messages {
    /// The messages of `length` bytes in some blocks.
    pub(super) fn new(blocks: Blocks, length: u64) -> Messages {
        Messages {
            blocks,
            block: Bytes::new(),
            left: length,
            message: MutableBuffer::new(0),
            needed: PREFIX_BYTES,
            metadata: PREFIX_BYTES,
            progress: Progress::Prefix,
            decoder: StreamDecoder::new(),
            is_ended: false,
        }
    }

    /// Takes bytes of the block; returns a batch if they complete one.
    fn take(&mut self) -> Result<Option<RecordBatch>, String> {
        let missing = self.needed - self.message.len();
        let taken = missing.min(self.block.len());
        self.message.extend_from_slice(&self.block[..taken]);
        self.block.advance(taken);
        self.left = self.left.saturating_sub(taken as u64);
        if taken < missing {
            return Ok(None);
        }
        match self.progress {
            Progress::Prefix => self.begin(),
            Progress::Metadata => self.extend(),
            Progress::Body => self.decode(0),
        }
    }

    /// The prefix is complete.
    fn begin(&mut self) -> Result<Option<RecordBatch>, String> {
        let (marker, length) = self.message.split_at(CONTINUATION.len());
        if marker != CONTINUATION {
            return Err("it is not an Arrow IPC stream".to_owned());
        }
        let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
        if length == 0 {
            // The end of a stream: another may follow.
            self.decoder = StreamDecoder::new();
            self.reset();
            return Ok(None);
        }
        self.need(u64::from(length), Progress::Metadata)
    }

    /// The metadata are complete, and tell the length of the body.
    fn extend(&mut self) -> Result<Option<RecordBatch>, String> {
        self.metadata = self.needed;
        let message = message_of(&self.message[PREFIX_BYTES..])?;
        let length = message.bodyLength();
        let length = u64::try_from(length).map_err(|_| format!("a message has {length} bytes"))?;
        if length > 0 {
            return self.need(length, Progress::Body);
        }
        if message.header_type() == MessageHeader::RecordBatch {
            // No columns, or no rows. The decoder decodes a body only while bytes are left, and takes none of these.
            self.message.extend_from_slice(&CONTINUATION);
            return self.decode(CONTINUATION.len());
        }
        self.decode(0)
    }

    fn need(&mut self, bytes: u64, progress: Progress) -> Result<Option<RecordBatch>, String> {
        if bytes > self.left {
            return Err(format!("a message has {bytes} bytes more, and the partition {}", self.left));
        }
        self.needed += bytes as usize;
        self.message.reserve(bytes as usize);
        self.progress = progress;
        Ok(None)
    }

    /// The message is complete; `rest` bytes behind it are not part of it.
    fn decode(&mut self, rest: usize) -> Result<Option<RecordBatch>, String> {
        let metadata = self.metadata;
        let mut bytes = Buffer::from(self.reset());
        check_lengths(&bytes[PREFIX_BYTES..metadata], &bytes[metadata..])?;
        // The decoder panics for some changes, and is not used again after that.
        let decoded = catch_unwind(AssertUnwindSafe(|| self.decoder.decode(&mut bytes)));
        let decoded =
            decoded.map_err(|_| "a message is damaged: its buffers do not fit its schema".to_owned())?;
        let batch = decoded.map_err(|error| error.to_string())?;
        if bytes.len() != rest {
            return Err("a message is damaged: its length is not that of its parts".to_owned());
        }
        Ok(batch)
    }

    /// Begins the next message; returns the last one.
    fn reset(&mut self) -> MutableBuffer {
        self.needed = PREFIX_BYTES;
        self.progress = Progress::Prefix;
        std::mem::replace(&mut self.message, MutableBuffer::new(0))
    }

    /// All blocks have been taken.
    fn end(&self) -> Option<Result<RecordBatch, String>> {
        let is_whole = self.message.is_empty() && self.left == 0;
        (!is_whole).then(|| Err(format!("it ends within a message, {} bytes early", self.left)))
    }
}

fn message_of(metadata: &[u8]) -> Result<Message<'_>, String> {
    root_as_message(metadata).map_err(|error| format!("a message is damaged: {error}"))
}

/// Refuses lengths that no compressed buffer of the message can have: the decoder allocates memory of the length that is
/// written before a buffer.
fn check_lengths(metadata: &[u8], body: &[u8]) -> Result<(), String> {
    let message = message_of(metadata)?;
    let dictionary = || message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data());
    let Some(batch) = message.header_as_record_batch().or_else(dictionary) else { return Ok(()) };
    let Some(compression) = batch.compression() else { return Ok(()) };
    let ratio =
        if compression.codec() == CompressionType::LZ4_FRAME { LZ4_RATIO_MAX } else { ZSTD_RATIO_MAX };
    for buffer in batch.buffers().into_iter().flatten() {
        let (Ok(start), Ok(length)) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()))
        else {
            return Err("a message is damaged: a buffer is at a negative place".to_owned());
        };
        let bytes = start.checked_add(length).and_then(|end| body.get(start..end));
        let bytes = bytes.ok_or("a message is damaged: a buffer ends beyond it")?;
        let Some((before, content)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { continue };
        // Negative for a buffer that is not compressed.
        let expanded = u64::try_from(i64::from_le_bytes(*before)).unwrap_or(0);
        if expanded > (content.len() as u64).saturating_mul(ratio) {
            return Err(format!("a message is damaged: {} bytes cannot become {expanded}", content.len()));
        }
    }
    Ok(())
}

impl Stream for Messages {
    type Item = Result<RecordBatch, String>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch, String>>> {
        let this = self.get_mut();
        while !this.is_ended {
            if this.block.is_empty() {
                match ready!(Pin::new(&mut this.blocks).poll_next(cx)) {
                    Some(Ok(block)) => this.block = block,
                    Some(Err(error)) => {
                        this.is_ended = true;
                        return Poll::Ready(Some(Err(sentence(&error))));
                    }
                    None => {
                        this.is_ended = true;
                        return Poll::Ready(this.end());
                    }
                }
            }
            match this.take() {
                Ok(None) => {}
                Ok(Some(batch)) => return Poll::Ready(Some(Ok(batch))),
                Err(error) => {
                    this.is_ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        Poll::Ready(None)
    }
}

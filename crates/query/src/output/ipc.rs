//! Results as Arrow IPC, files and streams (Arrow Columnar Format, "Serialization and Interprocess Communication").
//!
//! The library encodes messages; those without compression share the memory of their arrays until they are written. The
//! framing is ours, so that buffers can begin at multiples of 4096 bytes in the file: then a reader with direct I/O maps
//! them into arrays without a copy. The padding is part of the message's metadata, as readers of streams need it.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::writer::{IpcWriteOptions, StreamEncoder};
use arrow_ipc::{Block, CompressionType, FooterBuilder, MetadataVersion};
use arrow_schema::{DataType, SchemaRef};
use arrow_select::concat::concat_batches;
use flatbuffers::FlatBufferBuilder;

use crate::Error;
use crate::output::options::{BUFFER_ALIGNMENT_BYTES, Compression, OutputOptions};
use crate::output::plain::converted;
use crate::output::sink::SharedSink;
use crate::table::Format;

/// The first and last bytes of a file; the first are padded to eight.
const MAGIC: &[u8; 6] = b"ARROW1";

/// What a message begins with, before the length of its metadata.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Bytes before the metadata of a message.
const PREFIX_BYTES: usize = 8;

/// The end of a stream: a message of no length.
const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Largest alignment: that of huge pages, beyond any of direct I/O.
const ALIGNMENT_MAX_BYTES: usize = 2 << 20;

/// Encodes record batches; clones are handles of the same.
#[derive(Clone, Debug)]
pub(crate) struct Encoder {
    schema: SchemaRef,
    options: IpcWriteOptions,
}

/// A record batch as it is written: the prefix and metadata of a message, then its body.
#[derive(Debug)]
pub(crate) struct Message(Vec<Buffer>);

impl Message {
    /// Bytes of memory that it holds, shared with arrays or not.
    pub(crate) fn memory(&self) -> usize {
        self.0.iter().map(Buffer::len).sum()
    }
}

impl Encoder {
    /// # Errors
    /// If the format cannot hold the schema, or has no such compression.
    pub(crate) fn new(schema: &SchemaRef, compression: Compression) -> Result<Encoder, Error> {
        let compression = match compression {
            Compression::None => None,
            Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
            Compression::Zstd => Some(CompressionType::ZSTD),
            Compression::Snappy => {
                return Err(Error::Query("Arrow IPC has no Snappy; use lz4, zstd or none".to_owned()));
            }
        };
        let options = IpcWriteOptions::try_new(BUFFER_ALIGNMENT_BYTES, false, MetadataVersion::V5)?;
        let options = options.try_with_compression(compression)?;
        // Refuses types that the format does not have.
        StreamEncoder::try_new_with_options(schema, options.clone())?;
        Ok(Encoder { schema: Arc::clone(schema), options })
    }

    /// Encodes the rows of some batches as one record batch.
    pub(crate) fn encode(&self, batches: &[RecordBatch]) -> Result<Message, Error> {
        let batches: Result<Vec<_>, _> = batches.iter().map(|batch| self.plain(batch)).collect();
        let batch = match &batches?[..] {
            [batch] => batch.clone(),
            batches => concat_batches(&self.schema, batches)?,
        };
        let mut encoder = StreamEncoder::try_new_with_options(&self.schema, self.options.clone())?;
        let buffers = encoder.encode(&batch)?;
        // The schema comes first, which is written by itself.
        let schema = self.schema_buffers()?.len();
        Ok(Message(buffers.into_iter().skip(schema).collect()))
    }

    /// The message of the schema, as the library makes it: that of a stream without batches, but for its end.
    fn schema_buffers(&self) -> Result<Vec<Buffer>, Error> {
        let encoder = StreamEncoder::try_new_with_options(&self.schema, self.options.clone())?;
        let mut buffers = encoder.finish()?;
        let mut end = 0;
        while end < END_OF_STREAM.len() {
            end += buffers.pop().map_or(END_OF_STREAM.len(), |buffer| buffer.len());
        }
        Ok(buffers)
    }

    /// The columns in the types of the schema, without bytes that no row needs.
    fn plain(&self, batch: &RecordBatch) -> Result<RecordBatch, Error> {
        let columns = self.schema.fields().iter().zip(batch.columns()).map(|(field, array)| {
            let array = converted(vec![Arc::clone(array)], |from| from == field.data_type(), field)?;
            Ok(compact(&array[0]))
        });
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns.collect::<Result<_, Error>>()?)?)
    }
}

/// By how much the bytes that views share may exceed those that they need before they are copied.
const VIEW_WASTE: usize = 2;

/// A column of views whose data is not much more than its rows need: the library writes all data buffers of a slice.
fn compact(array: &ArrayRef) -> ArrayRef {
    macro_rules! compacted {
        ($views:expr) => {{
            let views = $views;
            let held: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
            let needed = views.total_buffer_bytes_used();
            if held > VIEW_WASTE * needed { Arc::new(views.gc()) } else { Arc::clone(array) }
        }};
    }
    match array.data_type() {
        DataType::Utf8View => compacted!(array.as_string_view()),
        DataType::BinaryView => compacted!(array.as_binary_view()),
        _ => Arc::clone(array),
    }
}

/// A file or stream that is being written.
#[derive(Debug)]
pub(crate) struct Writer {
    schema: SchemaRef,
    sink: SharedSink,
    is_file: bool,
    alignment: usize,
    blocks: Vec<Block>,
}

impl Writer {
    /// Begins a file or a stream.
    pub(crate) fn new(
        encoder: &Encoder,
        sink: &SharedSink,
        options: &OutputOptions,
    ) -> Result<Writer, Error> {
        let is_file = options.format == Format::ArrowFile;
        let is_plain = options.compression == Compression::None;
        let alignment = if is_plain { options.alignment } else { BUFFER_ALIGNMENT_BYTES };
        if !alignment.is_power_of_two()
            || !(BUFFER_ALIGNMENT_BYTES..=ALIGNMENT_MAX_BYTES).contains(&alignment)
        {
            return Err(Error::Query(format!(
                "buffers cannot be aligned to {alignment} bytes; use a power of two from 64 to 2,097,152"
            )));
        }
        if is_file {
            sink.append(MAGIC)?;
            sink.append(&[0; 2])?;
        }
        let schema = Arc::clone(&encoder.schema);
        let mut writer = Writer { schema, sink: sink.clone(), is_file, alignment, blocks: Vec::new() };
        let buffers = encoder.schema_buffers()?;
        writer.append_message(&buffers, PREFIX_BYTES)?;
        Ok(writer)
    }

    /// Appends a record batch.
    pub(crate) fn append(&mut self, message: &Message) -> Result<(), Error> {
        let offset = self.sink.written();
        let (metadata, body) = self.append_message(&message.0, self.alignment)?;
        if self.is_file {
            let too_long =
                |_| Error::Query("the metadata of a record batch is too long; use fewer columns".to_owned());
            let metadata = i32::try_from(metadata).map_err(too_long)?;
            self.blocks.push(Block::new(offset as i64, metadata, body as i64));
        }
        Ok(())
    }

    /// Writes a message whose body begins at a multiple of `alignment`; gives the bytes before it, and its own.
    fn append_message(&mut self, buffers: &[Buffer], alignment: usize) -> Result<(usize, usize), Error> {
        let (head, body) = split(buffers)?;
        let before = self.sink.written() as usize;
        let length = (before + PREFIX_BYTES + head.len()).next_multiple_of(alignment) - before;
        let metadata = u32::try_from(length - PREFIX_BYTES).unwrap_or(u32::MAX);
        self.sink.append(&CONTINUATION)?;
        self.sink.append(&metadata.to_le_bytes())?;
        self.sink.append(&head)?;
        self.sink.append(&vec![0; length - PREFIX_BYTES - head.len()])?;
        for part in &body {
            self.sink.append(part)?;
        }
        Ok((length, body.iter().map(|part| part.len()).sum()))
    }

    /// Writes the end of the stream, and the footer of a file.
    pub(crate) fn finish(self) -> Result<(), Error> {
        self.sink.append(&END_OF_STREAM)?;
        if !self.is_file {
            return Ok(());
        }
        let mut builder = FlatBufferBuilder::new();
        let dictionaries = builder.create_vector::<Block>(&[]);
        let batches = builder.create_vector(&self.blocks);
        let schema = IpcSchemaEncoder::new().schema_to_fb_offset(&mut builder, &self.schema);
        let mut footer = FooterBuilder::new(&mut builder);
        footer.add_version(MetadataVersion::V5);
        footer.add_schema(schema);
        footer.add_dictionaries(dictionaries);
        footer.add_recordBatches(batches);
        let root = footer.finish();
        builder.finish(root, None);
        let footer = builder.finished_data();
        self.sink.append(footer)?;
        let too_long = |_| Error::Query("the footer is too long; use larger groups".to_owned());
        let length = i32::try_from(footer.len()).map_err(too_long)?;
        self.sink.append(&length.to_le_bytes())?;
        self.sink.append(MAGIC)
    }
}

/// The metadata of a message without its prefix, and the parts of its body.
fn split(buffers: &[Buffer]) -> Result<(Vec<u8>, Vec<&[u8]>), Error> {
    let damaged = || Error::Query("a message of Arrow IPC has no length".to_owned());
    let mut head: Vec<u8> = Vec::new();
    let mut parts = buffers.iter().map(Buffer::as_slice).filter(|part| !part.is_empty());
    let mut wanted = PREFIX_BYTES;
    loop {
        if head.len() >= PREFIX_BYTES {
            let length: [u8; 4] = head[4..8].try_into().map_err(|_| damaged())?;
            wanted = PREFIX_BYTES + u32::from_le_bytes(length) as usize;
        }
        if head.len() >= wanted {
            break;
        }
        head.extend_from_slice(parts.next().ok_or_else(damaged)?);
    }
    if head.len() > wanted {
        // Never so by the library; the body would have to be cut off.
        return Err(damaged());
    }
    head.drain(..PREFIX_BYTES);
    Ok((head, parts.collect()))
}

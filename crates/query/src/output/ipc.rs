//! Results as Arrow IPC files and streams (Arrow Columnar Format, "Serialization and Interprocess Communication").
//!
//! The library encodes the messages; uncompressed ones share the memory of their arrays until they are written. This
//! module writes the framing, so that message bodies can begin at multiples of 4096 bytes. A reader with direct I/O can
//! then use them as arrays without a copy. The padding is part of the message's metadata, as stream readers require.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::writer::{DictionaryTracker, IpcWriteOptions, StreamEncoder};
use arrow_ipc::{Block, CompressionType, FooterBuilder, MetadataVersion, root_as_message};
use arrow_schema::{DataType, Field, SchemaRef};
use arrow_select::concat::concat_batches;
use flatbuffers::FlatBufferBuilder;

use crate::Error;
use crate::output::options::{BUFFER_ALIGNMENT_BYTES, Compression, OutputOptions};
use crate::output::plain::converted;
use crate::output::sink::SharedSink;
use crate::table::Format;

/// Magic number at both ends of a file, padded to eight bytes at the start.
const MAGIC: &[u8; 6] = b"ARROW1";

/// Marker at the start of a message, before the length of its metadata.
const CONTINUATION_MARKER: [u8; 4] = [0xff; 4];

/// Bytes before the metadata of a message: marker and length.
const PREFIX_BYTES: usize = 8;

/// End of a stream: a message of length 0.
const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Maximum alignment: the size of a huge page, more than any direct I/O needs.
const ALIGNMENT_MAX_BYTES: usize = 2 << 20;

/// Encodes record batches; clones share the dictionaries.
#[derive(Clone, Debug)]
pub(crate) struct Encoder {
    schema: SchemaRef,
    options: IpcWriteOptions,
    dictionaries: Arc<BTreeMap<usize, ArrayRef>>,
}

/// An encoded message: its prefix and metadata, then its body.
#[derive(Debug)]
pub(crate) struct Message {
    buffers: Vec<Buffer>,
    /// Bytes of memory that are not shared with the encoded arrays.
    copied: usize,
}

impl Message {
    /// Returns the bytes of memory that are not shared with arrays.
    pub(crate) fn memory(&self) -> usize {
        self.copied
    }
}

impl Encoder {
    /// # Errors
    /// If the format does not support the schema or the compression.
    pub(crate) fn new(schema: &SchemaRef, output: &OutputOptions) -> Result<Encoder, Error> {
        let compression = match output.compression {
            Compression::None => None,
            Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
            Compression::Zstd => Some(CompressionType::ZSTD),
            Compression::Snappy => {
                return Err(Error::Query("Arrow IPC has no Snappy; use lz4, zstd or none".to_owned()));
            }
        };
        let options = IpcWriteOptions::try_new(BUFFER_ALIGNMENT_BYTES, false, MetadataVersion::V5)?;
        let options = options.try_with_compression(compression)?;
        // Refuses types that the format does not support.
        StreamEncoder::try_new_with_options(schema, options.clone())?;
        let dictionaries = Arc::new(output.dictionaries.clone());
        for (&place, values) in &*dictionaries {
            let field = schema.fields().get(place).map(|field| field.data_type());
            let is_known = |known: &DataType| match known {
                DataType::Dictionary(_, known) => **known == *values.data_type(),
                _ => false,
            };
            if !field.is_some_and(is_known) {
                return Err(Error::Query(format!("column {place} does not have the type of its dictionary")));
            }
        }
        Ok(Encoder { schema: Arc::clone(schema), options, dictionaries })
    }

    /// Encodes the rows of `given` as one record batch.
    pub(crate) fn encode(&self, given: &[RecordBatch]) -> Result<Message, Error> {
        let batches: Result<Vec<_>, _> = given.iter().map(|batch| self.plain(batch)).collect();
        let batch = match &batches?[..] {
            [batch] => batch.clone(),
            batches => concat_batches(&self.schema, batches)?,
        };
        let last = self.messages(&batch)?.pop();
        let last =
            last.ok_or_else(|| Error::Query("a record batch was not encoded by Arrow IPC".to_owned()))?;
        let copied = copied_bytes(&last.buffers, given);
        Ok(Message { copied, ..last })
    }

    /// Encodes a stream of one batch: messages of the schema, the dictionaries and the batch.
    fn messages(&self, batch: &RecordBatch) -> Result<Vec<Message>, Error> {
        let mut encoder = StreamEncoder::try_new_with_options(&self.schema, self.options.clone())?;
        messages(encoder.encode(batch)?)
    }

    /// Encodes the messages before the first batch: schema and dictionaries.
    fn first_messages(&self) -> Result<Vec<Message>, Error> {
        let columns =
            self.schema.fields().iter().enumerate().map(|(place, field)| -> Result<ArrayRef, Error> {
                let none = new_empty_array(field.data_type());
                match self.dictionaries.get(&place) {
                    Some(values) => Ok(none.as_any_dictionary().with_values(Arc::clone(values))),
                    None => Ok(none),
                }
            });
        let options = RecordBatchOptions::new().with_row_count(Some(0));
        let columns = columns.collect::<Result<_, Error>>()?;
        let none = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        let mut messages = self.messages(&none)?;
        messages.pop();
        Ok(messages)
    }

    /// Converts the columns to the types of the schema, without unused view data.
    fn plain(&self, batch: &RecordBatch) -> Result<RecordBatch, Error> {
        let columns =
            self.schema.fields().iter().zip(batch.columns()).enumerate().map(|(place, (field, array))| {
                if let Some(values) = self.dictionaries.get(&place) {
                    return with_dictionary(array, values, field);
                }
                let array = converted(vec![Arc::clone(array)], |from| from == field.data_type(), field)?;
                Ok(compact(&array[0]))
            });
        // A batch may have rows but no columns.
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = columns.collect::<Result<_, Error>>()?;
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// Returns a dictionary array over `values`; an error if its own values differ.
fn with_dictionary(array: &ArrayRef, values: &ArrayRef, field: &Field) -> Result<ArrayRef, Error> {
    let has_values = array.data_type() == field.data_type() && {
        let given = array.as_any_dictionary().values();
        Arc::ptr_eq(given, values) || given == values
    };
    if has_values {
        return Ok(array.as_any_dictionary().with_values(Arc::clone(values)));
    }
    Err(Error::Query(format!("column {} has other values than its dictionary", field.name())))
}

/// Maximum ratio of a view column's data buffers to its needed bytes, above which it is copied.
const VIEW_WASTE: usize = 2;

/// Copies a view column with mostly unused data, because the library writes all data buffers of a slice.
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

/// Returns the bytes of buffers that do not lie within the arrays of `given`.
fn copied_bytes(buffers: &[Buffer], given: &[RecordBatch]) -> usize {
    // Ends of allocations, by their starts.
    let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
    let mut arrays: Vec<ArrayData> =
        given.iter().flat_map(RecordBatch::columns).map(|a| a.to_data()).collect();
    while let Some(array) = arrays.pop() {
        for buffer in array.buffers().iter().chain(array.nulls().map(|nulls| nulls.buffer())) {
            let end = shared.entry(buffer.data_ptr().as_ptr().addr()).or_default();
            *end = (*end).max(buffer.data_ptr().as_ptr().addr() + buffer.capacity());
        }
        arrays.extend_from_slice(array.child_data());
    }
    let is_copied = |buffer: &&Buffer| {
        let start = buffer.as_ptr().addr();
        shared.range(..=start).next_back().is_none_or(|(_, &end)| end < start + buffer.len())
    };
    buffers.iter().filter(is_copied).map(Buffer::len).sum()
}

/// A file or stream being written.
#[derive(Debug)]
pub(crate) struct Writer {
    schema: SchemaRef,
    sink: SharedSink,
    is_file: bool,
    alignment: usize,
    blocks: Vec<Block>,
    dictionaries: Vec<Block>,
}

impl Writer {
    /// Starts a file or a stream: writes the schema and the dictionaries.
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
        let (blocks, dictionaries) = (Vec::new(), Vec::new());
        let mut writer = Writer { schema, sink: sink.clone(), is_file, alignment, blocks, dictionaries };
        let messages = encoder.first_messages()?;
        for (place, message) in messages.iter().enumerate() {
            let alignment = if place == 0 { PREFIX_BYTES } else { BUFFER_ALIGNMENT_BYTES };
            let block = writer.append_message(&message.buffers, alignment)?;
            if place > 0 {
                writer.dictionaries.push(block);
            }
        }
        Ok(writer)
    }

    /// Appends a record batch.
    pub(crate) fn append(&mut self, message: &Message) -> Result<(), Error> {
        let block = self.append_message(&message.buffers, self.alignment)?;
        if self.is_file {
            self.blocks.push(block);
        }
        Ok(())
    }

    /// Writes a message whose body begins at a multiple of `alignment`; returns its footer block.
    fn append_message(&mut self, buffers: &[Buffer], alignment: usize) -> Result<Block, Error> {
        let too_long =
            |_| Error::Query("the metadata of a record batch is too long; use fewer columns".to_owned());
        let (head, body) = split(buffers)?;
        let before = self.sink.written() as usize;
        let length = (before + PREFIX_BYTES + head.len()).next_multiple_of(alignment) - before;
        let metadata = u32::try_from(length - PREFIX_BYTES).unwrap_or(u32::MAX);
        self.sink.append(&CONTINUATION_MARKER)?;
        self.sink.append(&metadata.to_le_bytes())?;
        self.sink.append(&head)?;
        self.sink.append(&vec![0; length - PREFIX_BYTES - head.len()])?;
        for part in &body {
            self.sink.append(part)?;
        }
        let length = i32::try_from(length).map_err(too_long)?;
        Ok(Block::new(before as i64, length, body.iter().map(|part| part.len() as i64).sum()))
    }

    /// Writes the end of the stream, and the footer of a file.
    pub(crate) fn finish(self) -> Result<(), Error> {
        self.sink.append(&END_OF_STREAM)?;
        if !self.is_file {
            return Ok(());
        }
        let mut builder = FlatBufferBuilder::new();
        let dictionaries = builder.create_vector(&self.dictionaries);
        let batches = builder.create_vector(&self.blocks);
        // Assigns the dictionary ids of the schema message.
        let mut tracker = DictionaryTracker::new(false);
        let mut schema = IpcSchemaEncoder::new().with_dictionary_tracker(&mut tracker);
        let schema = schema.schema_to_fb_offset(&mut builder, &self.schema);
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

/// Groups the buffers of a stream by message. No buffer spans two messages.
fn messages(buffers: Vec<Buffer>) -> Result<Vec<Message>, Error> {
    let damaged = |_| Error::Query("a message of Arrow IPC is damaged".to_owned());
    let (mut messages, mut message) = (Vec::new(), Vec::new());
    for buffer in buffers.into_iter().filter(|buffer| !buffer.is_empty()) {
        message.push(buffer);
        let Ok((head, body)) = split(&message) else { continue };
        let wanted = root_as_message(&head).map_err(damaged)?.bodyLength();
        if body.iter().map(|part| part.len() as i64).sum::<i64>() >= wanted {
            messages.push(Message { buffers: std::mem::take(&mut message), copied: 0 });
        }
    }
    Ok(messages)
}

/// Splits a message into its metadata without the prefix, and the parts of its body.
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
        // The library never puts metadata and body into one buffer.
        return Err(damaged());
    }
    head.drain(..PREFIX_BYTES);
    Ok((head, parts.collect()))
}
